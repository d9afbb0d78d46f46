"""`checkpoint` (also called `remat`): derivatives that keep less and compute more."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from veery._api.arguments import as_tuple, wraps
from veery._api.autodiff import vjp as _vjp
from veery._api.jit import JitOptions, check_outputs, debug_info
from veery._core import errors, source, tree
from veery._core.avals import aval_of, maybe_aval_of
from veery._core.flat import FlatFunction
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from veery._transforms import staging
from veery._transforms.remat import (
    Offloadable as Offloadable,
    Recompute as Recompute,
    Saveable as Saveable,
    checkpoint_p,
    name_p,
)


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: bool | None = None,
) -> Any:
    """A function whose derivatives compute its intermediate values again instead of keeping them.

    Args:
        fun: the function. Without it, a decorator.
        prevent_cse: whether the compiler is kept from merging the second computation with the first; False where that
            cannot happen, as in the body of a scan.
        policy: `(primitive, *avals, **params)` -> whether the results of that operation may be kept; see
            `checkpoint_policies`. By default only the arguments are kept.
        static_argnums: positions of arguments that are Python values.
        static_argnames: names of such arguments, where they are passed by name.
        concrete: no longer there; use static_argnums.

    Returns:
        A function with the same values and derivatives.

    Raises:
        TypeError: static_argnums are no ints.
        ValueError: they are out of range.

    >>> import veery, veery.numpy as jnp
    >>> f = veery.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> round(float(veery.grad(f)(2.0)), 4)
    -0.2556
    """
    if concrete is not None:
        raise NotImplementedError(
            "The `concrete` option to `jax.checkpoint` is not supported. In its place please use `static_argnums`."
        )
    if fun is None:
        return functools.partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    static = as_tuple(static_argnums)
    names = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)

    @wraps(fun)
    @source.api_boundary
    def remat_fun(*args: Any, **kwargs: Any) -> Any:
        positions = _static_positions(static, len(args))
        fixed = {name: kwargs.pop(name) for name in names & kwargs.keys()}
        body = functools.partial(fun, **fixed) if fixed else fun
        closed, operands, out_tree = _stage(body, args, kwargs, positions)
        outs = checkpoint_p.bind(
            *operands, jaxpr=closed, prevent_cse=bool(prevent_cse), policy=policy, differentiated=False
        )
        return tree.tree_unflatten(out_tree, outs)

    return remat_fun


remat = checkpoint


def _static_positions(static: tuple[Any, ...], count: int) -> tuple[int, ...]:
    if not all(type(n) is int for n in static):
        raise TypeError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` must be an int, tuple of ints or, got "
            f"{static}"
        )
    if not all(-count <= n < count for n in static):
        raise ValueError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take integer values greater than "
            f"or equal to `-len(args)` and less than `len(args)`, but got {static}, while `len(args)` = {count}"
        )
    return tuple(sorted({n % count for n in static}))


def _stage(fun: Any, args: tuple, kwargs: dict[str, Any], static: tuple[int, ...]) -> tuple[ClosedJaxpr, list, Any]:
    """The function's jaxpr, its operands (what it closes over, then its arguments) and its output tree."""
    dynamic = [x for i, x in enumerate(args) if i not in static]
    leaves, in_tree = tree.tree_flatten((dynamic, kwargs))
    for leaf in leaves:
        if maybe_aval_of(leaf) is None:
            raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type")
    out_tree: Any = None

    def flat(*xs: Any) -> Any:
        nonlocal out_tree
        values, named = tree.tree_unflatten(in_tree, xs)
        rest = iter(values)
        out = fun(*(args[i] if i in static else next(rest) for i in range(len(args))), **named)
        flat_out, out_tree = tree.tree_flatten(out)
        check_outputs(flat_out, out, fun)
        return flat_out

    info = replace(debug_info(fun, args, kwargs, JitOptions(static_argnums=static)), traced_for="checkpoint / remat")
    try:
        closed, consts = staging.close_over(staging.stage(flat, [aval_of(x) for x in leaves], info))
    except errors.ConcretizationTypeError as error:
        error.args = (
            f"{error.args[0]}\n\nConsider using the `static_argnums` parameter for `jax.remat` or `jax.checkpoint`.",
        )
        raise
    return closed, [*consts, *leaves], out_tree


def checkpoint_name(x: Any, name: str) -> Any:
    """The arrays of a pytree, under a name by which policies of `checkpoint` know them.

    Args:
        x: a pytree of arrays.
        name: the name.

    >>> import veery
    >>> float(veery.ad_checkpoint.checkpoint_name(1.0, "first"))
    1.0
    """
    return tree.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


# Policies.


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Keep all, as without checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Keep the arguments only."""
    return False


@dataclass(frozen=True)
class DotsSaveable:
    """Keep the results of matrix products (and convolutions, unless `only_if_no_batch_dims`)."""

    only_if_no_batch_dims: bool

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        if primitive.name == "dot_general":
            return not (self.only_if_no_batch_dims and params["dimension_numbers"][1][0])
        return primitive.name == "conv_general_dilated" and not self.only_if_no_batch_dims


dots_saveable = DotsSaveable(False)
dots_with_no_batch_dims_saveable = DotsSaveable(True)


@dataclass(frozen=True)
class SaveOnlyTheseNames:
    """Keep the values of `checkpoint_name` with one of the names."""

    names: frozenset[str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is name_p and params["name"] in self.names


@dataclass(frozen=True)
class SaveAnyNamesButThese:
    """Keep the values of `checkpoint_name` with any other name."""

    names: frozenset[str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is name_p and params["name"] not in self.names


def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., bool]:
    """Keep named values, and only those of the given names."""
    return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., bool]:
    """Keep named values, except those of the given names."""
    return SaveAnyNamesButThese(frozenset(names_not_to_save))


@dataclass(frozen=True)
class SaveAnythingExceptTheseNames:
    """Keep everything but the values of `checkpoint_name` with one of the names."""

    names: frozenset[str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return not (primitive is name_p and params["name"] in self.names)


def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
    """Keep all values, named or not, except those of the given names."""
    return SaveAnythingExceptTheseNames(frozenset(names_not_to_save))


@dataclass(frozen=True)
class SaveFromBothPolicies:
    """Keep what either policy keeps."""

    first: Callable[..., Any]
    second: Callable[..., Any]

    def __call__(self, primitive: Any, *args: Any, **params: Any) -> bool:
        a, b = self.first(primitive, *args, **params), self.second(primitive, *args, **params)
        if not (isinstance(a, bool) and isinstance(b, bool)):
            raise ValueError(
                f"The return value of the policies should be a boolean. Got: {a} and {b}. Please write a custom "
                "policy function directly, rather than using this helper function."
            )
        return a or b


def save_from_both_policies(policy_1: Callable[..., Any], policy_2: Callable[..., Any]) -> Callable[..., bool]:
    """Keep what either policy keeps."""
    return SaveFromBothPolicies(policy_1, policy_2)


@dataclass(frozen=True)
class _OffloadDots:
    decision: tuple[str, str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> Any:
        return Offloadable(*self.decision) if dots_with_no_batch_dims_saveable(primitive, **params) else Recompute


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., Any]:
    """Like `dots_with_no_batch_dims_saveable`; in a program all values stay on its device."""
    return _OffloadDots((offload_src, offload_dst))


@dataclass(frozen=True)
class _SaveAndOffload:
    saved: frozenset[str]
    offloaded: frozenset[str]
    decision: tuple[str, str]

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> Any:
        if primitive is name_p and params["name"] in self.saved:
            return Saveable
        if primitive is name_p and params["name"] in self.offloaded:
            return Offloadable(*self.decision)
        return Recompute


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Callable[..., Any]:
    """Like `save_only_these_names`, for the names of both lists: in a program all values stay on its device.

    Raises:
        ValueError: the lists share a name.
    """
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ValueError(
            "The names should be exclusive and should not intersect in `names_which_can_be_saved` and "
            f"`names_which_can_be_offloaded`. Got names_which_can_be_saved={set(saved)}, "
            f"names_which_can_be_offloaded={set(offloaded)} and the intersection={set(saved & offloaded)}"
        )
    return _SaveAndOffload(saved, offloaded, (offload_src, offload_dst))


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


# What is kept.


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The values that reverse-mode differentiation of a function keeps from its forward pass.

    Args:
        f: the function.
        *args: arrays or ShapeDtypeStructs, in pytrees.
        **kwargs: likewise.

    Returns:
        For each value its aval and a description of where it comes from: arguments first, then in the program's order.

    >>> import veery, veery.numpy as jnp
    >>> [str(aval) for aval, _ in veery.ad_checkpoint.saved_residuals(lambda x: jnp.sin(jnp.sin(x)), 1.0)]
    ['~float32[]', '~float32[]']
    """
    leaves, in_tree = tree.tree_flatten((args, kwargs))
    flat = FlatFunction(lambda args, kwargs: f(*args, **kwargs), in_tree)
    info = debug_info(f, args, kwargs, JitOptions())

    def residuals(*xs: Any) -> list[Any]:
        _, pullback = _vjp(lambda *ys: flat(*ys), *xs)
        return [r for r in tree.tree_leaves(pullback) if maybe_aval_of(r) is not None]

    closed = staging.stage(residuals, [aval_of(x) for x in leaves], info)
    names = dict(zip(closed.jaxpr.invars, info.arg_names or ()))
    made = {v: eqn for eqn in closed.eqns for v in eqn.outvars}
    kept = dict.fromkeys(atom for atom in closed.jaxpr.outvars if type(atom) is not Literal)
    literals = [atom for atom in closed.jaxpr.outvars if type(atom) is Literal]
    return [
        *((atom.aval, "from a literal") for atom in literals),
        *((v.aval, f"from the argument {name}") for v, name in names.items() if v in kept),
        *((v.aval, _origin(eqn)) for v, eqn in made.items() if v in kept),
        *((v.aval, "from a constant") for v in closed.jaxpr.constvars if v in kept),
    ]


def _origin(eqn: JaxprEqn) -> str:
    place = eqn.source_info or "unknown place"
    if eqn.primitive is name_p:
        return f"named '{eqn.params['name']}' from {place}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function '{eqn.params['name']}' from {place}"
    return f"output of {eqn.primitive.name} from {place}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that reverse-mode differentiation of a function keeps; arguments as for `saved_residuals`."""
    for aval, text in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short()} {text}")
