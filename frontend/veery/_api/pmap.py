"""`pmap`: a function applied to the slices of arrays, each on a device of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import _dispatch, _distributed
from veery._api import platforms
from veery._api.arguments import as_tuple, function_name, wraps
from veery._api.jit import JitOptions, debug_info, jit
from veery._api.vectorize import mapped_size, normalize_axis, vmap
from veery._core import source, tree
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of, maybe_aval_of
from veery._core.jaxpr import ClosedJaxpr
from veery._core.refs import is_ref
from veery._core.shapes import canonicalize_axis
from veery._core.trace import Trace, current_trace, extend_axis_env
from veery._transforms.batching import move_batch
from veery._transforms.staging import StagingTrace, close_over, forbid_tracing, stage
from veery.lax import _pmap


class _Anonymous:
    """The name of an axis that was given none."""

    def __repr__(self) -> str:
        return "<anonymous axis>"


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """A function that applies `fun` to slices of its arguments, one on each device, at the same time.

    Args:
        fun: function of slices; collectives such as `lax.psum` over `axis_name` exchange values between the devices.
        axis_name: name of the mapped axis.
        in_axes: the mapped axis of each argument, as for `vmap`; None for what all devices get whole.
        out_axes: where the axis goes in each output; None for what is the same on all devices.
        static_broadcasted_argnums: positions of arguments that are Python values.
        devices: where to run; by default the first of the platform, as many as the axis is long.
        backend: the platform ("cpu", "vulkan", "cuda").
        axis_size: the size of the axis, needed only if no argument has it.
        donate_argnums: positions of arguments that are deleted after the call.

    Returns:
        A function of whole arrays, with methods `trace` and `lower`. Its results are arrays whose slices live on the
        devices.

    Raises:
        TypeError: fun is not callable, or an argument is not an array.
        ValueError: sizes differ, an axis does not exist, a static argument is missing, cannot be hashed or is donated
            too, or there are fewer devices than slices. One process shows several CPU devices with
            `VEERY_NUM_CPU_DEVICES=8` or `config.update("jax_num_cpu_devices", 8)` before their first use.

    Within `jit` the slices are computed on one device, like those of `vmap`.

    >>> import veery, veery.numpy as jnp
    >>> veery.pmap(lambda x: x / veery.lax.psum(x, "i"), axis_name="i")(jnp.array([4.0])).tolist()
    [1.0]
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    for axis in (*tree.tree_leaves(in_axes), *tree.tree_leaves(out_axes)):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise TypeError(
                "pmap in_axes and out_axes must be an int, None, or (nested) container with those types as leaves, "
                f"but got {axis!r}."
            )
    name = _Anonymous() if axis_name is None else axis_name
    static, donated = as_tuple(static_broadcasted_argnums), as_tuple(donate_argnums)
    if set(static) & set(donated):
        raise ValueError(f"static_broadcasted_argnums {static} and donate_argnums {donated} cannot intersect.")
    if devices is not None and not len(devices):
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    programs: dict[Any, tuple[ClosedJaxpr, list[Any], Any]] = {}

    @wraps(fun)
    @source.api_boundary
    def pmap_fun(*args: Any, **kwargs: Any) -> Any:
        _check_static(fun, args, static)
        call, dynamic, axes = _without_static(fun, args, static, in_axes)
        if _is_staging(current_trace()):
            return vmap(call, axes, out_axes, name, axis_size)(*dynamic, **kwargs)
        leaves, in_tree = tree.tree_flatten((dynamic, kwargs))
        for leaf in leaves:
            if maybe_aval_of(leaf) is None:
                raise TypeError(
                    f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type in pmap of {function_name(fun)}"
                )
            if is_ref(leaf):
                raise ValueError(
                    f"pmap of {function_name(fun)} takes no array references, which each device would write to: pass "
                    "the value, ref[...], and return the new one"
                )
        dims = tree.flatten_axes("pmap in_axes", in_tree, (axes, 0 if kwargs else {}), tupled_args=True)
        dims = [None if d is None else normalize_axis(d, x, "pmap", fun) for d, x in zip(dims, leaves)]
        size = mapped_size(fun, dynamic, kwargs, leaves, dims, axis_size, "pmap")
        placed = _devices(devices, backend, size)
        avals = [_slice_aval(aval_of(x), d) for x, d in zip(leaves, dims)]
        key = (
            in_tree,
            tuple(avals),
            tuple(dims),
            size,
            tuple((i, args[i]) for i in static),
            _dispatch.config.trace_key(),
        )
        if key not in programs:
            forbid_tracing(fun)
            programs[key] = _trace(call, fun, in_tree, avals, name, size, dynamic, kwargs)
        closed, consts, out_tree = programs[key]
        wanted = tree.flatten_axes("pmap out_axes", out_tree, out_axes)
        moved = [x if d in (0, None) else _in_front(x, d, size) for x, d in zip(leaves, dims)]
        outs = _pmap.pmap_p.bind(
            *consts,
            *moved,
            jaxpr=closed,
            name=function_name(fun),
            axis_name=name,
            axis_size=size,
            in_mapped=(*[False] * len(consts), *(d is not None for d in dims)),
            out_mapped=tuple(w is not None for w in wanted),
            devices=placed,
        )
        _donate(donated, args)
        return tree.tree_unflatten(out_tree, [_place(x, w, size) for x, w in zip(outs, wanted)])

    ahead = jit(pmap_fun, static_argnums=static)
    pmap_fun.trace, pmap_fun.lower = ahead.trace, ahead.lower  # type: ignore[attr-defined]
    return pmap_fun


def _check_static(fun: Any, args: Sequence[Any], static: tuple[int, ...]) -> None:
    for i in static:
        if not -len(args) <= i < len(args):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={static} but was called with only {len(args)} "
                "positional arguments. All static broadcasted arguments must be passed positionally."
            )
        try:
            hash(args[i])
        except TypeError:
            raise ValueError(
                f"Non-hashable static arguments are not supported: static argument (index {i}) of type {type(args[i])} "
                f"for function {function_name(fun)}. Use a hashable value, such as a tuple."
            ) from None


def _without_static(fun: Any, args: Sequence[Any], static: tuple[int, ...], in_axes: Any) -> tuple[Any, tuple, Any]:
    """The function of the dynamic arguments, those, and their axes."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not static:
        return fun, tuple(args), in_axes
    chosen = {i % len(args): args[i] for i in static}

    def call(*dynamic: Any, **kwargs: Any) -> Any:
        rest = iter(dynamic)
        return fun(*(chosen[i] if i in chosen else next(rest) for i in range(len(args))), **kwargs)

    dynamic = tuple(x for i, x in enumerate(args) if i not in chosen)
    if isinstance(in_axes, tuple):
        in_axes = tuple(a for i, a in enumerate(in_axes) if i not in chosen)
    return call, dynamic, in_axes


def _is_staging(trace: Trace | None) -> bool:
    while trace is not None:
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def _devices(devices: Sequence[Any] | None, backend: str | None, size: int) -> tuple[Any, ...]:
    found = list(devices) if devices is not None else platforms.devices(backend)
    if len(found) < size:
        raise ValueError(
            f"compiling computation that requires {size} logical devices, but only {len(found)} devices are "
            f"available (num_replicas={size}). One process shows several CPU devices with "
            f"VEERY_NUM_CPU_DEVICES={size} in "
            f"the environment, or with config.update('jax_num_cpu_devices', {size}) before their first use."
        )
    return tuple(found[:size])


def _slice_aval(aval: Any, dim: int | None) -> Any:
    return aval if dim is None else aval.update(shape=aval.shape[:dim] + aval.shape[dim + 1 :])


def _trace(
    call: Any, fun: Any, in_tree: Any, avals: Sequence[Any], name: Any, size: int, args: tuple, kwargs: Any
) -> tuple:
    out_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        a, k = tree.tree_unflatten(in_tree, xs)
        leaves, out_tree = tree.tree_flatten(call(*a, **k))
        return leaves

    with extend_axis_env(name, size):
        closed, consts = close_over(stage(flat, avals, debug_info(fun, args, kwargs, JitOptions())))
    return closed, consts, out_tree


def _in_front(x: Any, dim: Any, size: int) -> Any:
    if isinstance(x, ArrayImpl) and _distributed.stacking_axis(x) == dim:
        return _distributed.stacked_along(x, 0)
    return move_batch(x, dim, 0, size)


def _place(x: Any, wanted: int | None, size: int) -> Any:
    if wanted in (0, None):
        return x
    axis = canonicalize_axis(wanted, len(np.shape(x)))
    if isinstance(x, ArrayImpl):  # its slices stay where they are
        return _distributed.stacked_along(x, axis)
    return move_batch(x, 0, axis, size)


def _donate(positions: tuple[int, ...], args: Sequence[Any]) -> None:
    for i in positions:
        if not -len(args) <= i < len(args):
            continue
        for leaf in tree.tree_leaves(args[i]):
            if hasattr(leaf, "delete"):
                leaf.delete()
