"""Functions of scalars or small arrays mapped over arrays: vectorize, apply_along_axis, apply_over_axes."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.vectorize import vmap
from veery._core import source
from veery._core.config import config
from veery._core.shapes import as_axes, canonicalize_axis
from veery.numpy._creation import asarray
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike

_DIMENSIONS = r"\((?:\w+(?:,\w+)*)?,?\)"
_SIGNATURE = re.compile(rf"^(?:{_DIMENSIONS}(?:,{_DIMENSIONS})*)?->{_DIMENSIONS}(?:,{_DIMENSIONS})*$")

CoreDims = list[tuple[str, ...]]


def parse_signature(signature: str) -> tuple[CoreDims, CoreDims]:
    """The core dimensions of inputs and outputs in a signature such as "(n,m),(m)->(n)".

    Raises:
        ValueError: it is none.
    """
    text = signature.replace(" ", "")
    if not _SIGNATURE.match(text):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    return tuple(  # type: ignore[return-value]
        [tuple(name for name in dims.strip("()").split(",") if name) for dims in re.findall(_DIMENSIONS, side)]
        for side in text.split("->")
    )


def _check_core(x: Any, dims: tuple[str, ...], sizes: dict[str, int], where: str, kind: str) -> None:
    if np.ndim(x) < len(dims):
        raise ValueError(
            f"{kind} with shape {np.shape(x)} does not have enough dimensions for all core dimensions {dims!r} {where}"
        )
    core = np.shape(x)[np.ndim(x) - len(dims) :]
    for name, size in zip(dims, core):
        if sizes.setdefault(name, size) != size:
            raise ValueError(f"inconsistent size for core dimension {name!r}: {size} vs {sizes[name]} {where}")


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Any = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function mapped over the leading dimensions of its arguments, which broadcast.

    Args:
        pyfunc: takes scalars and returns arrays of any shape, or takes and returns arrays of the signature's core
            dimensions. What is None among its arguments is passed as it is.
        excluded: positions and names of arguments that are passed as they are.
        signature: core dimensions such as "(n,m),(m)->(n)"; without it all arguments are scalars.

    Returns:
        The function of arrays.

    Raises:
        TypeError: `excluded` holds something else, or a call has another number of arguments than the signature.
        ValueError: the signature or the shapes are wrong.

    >>> clip_sum = vectorize(lambda x, y: x + y * 10)
    >>> clip_sum(np.arange(3), 1)
    Array([10, 11, 12], dtype=int32)
    """
    if any(not isinstance(e, (str, int)) for e in excluded):
        raise TypeError(f"jax.numpy.vectorize can only exclude integer or string arguments, but excluded={excluded!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={excluded!r} contains negative numbers")
    core = None if signature is None else parse_signature(signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        where = f"on vectorized function with excluded={excluded!r} and signature={signature!r}"
        fixed = {i: x for i, x in enumerate(args) if i in excluded}
        mapped = [i for i in range(len(args)) if i not in fixed]
        named = {k: v for k, v in kwargs.items() if k not in excluded and _is_mapped(v)}
        rest = {k: v for k, v in kwargs.items() if k not in named}
        if core is not None and named:
            raise TypeError(f"jax.numpy.vectorize: keyword arguments must be excluded with a signature {where}")
        inputs, outputs = core if core is not None else ([()] * (len(mapped) + len(named)), None)
        if len(inputs) != len(mapped) + len(named):
            raise TypeError(f"wrong number of positional arguments: expected {len(inputs)}, got {len(mapped)} {where}")
        absent = {i for i in mapped if args[i] is None}
        if any(dims for i, dims in zip(mapped, inputs) if i in absent):
            raise ValueError(f"Cannot pass None at locations {absent} with {signature=}")
        fixed |= dict.fromkeys(absent)
        inputs = [dims for i, dims in zip([*mapped, *named], inputs) if i not in absent]
        mapped = [i for i in mapped if i not in absent]

        def fun(*xs: Any) -> Any:
            values = dict(zip(mapped, xs)) | fixed
            by_name = dict(zip(named, xs[len(mapped) :]))
            return pyfunc(*(values[i] for i in range(len(args))), **by_name, **rest)

        arrays = [asarray(x) for x in [args[i] for i in mapped] + list(named.values())]
        return _apply(fun, arrays, inputs, outputs, where)

    return wrapped


def _is_mapped(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex, np.generic)) or hasattr(x, "shape")


def _check_rank_promotion(shapes: Sequence[tuple[int, ...]], where: str) -> None:
    message = (
        f"operands with shapes {shapes} require rank promotion {where}. Set the jax_numpy_rank_promotion config option "
        "to 'allow' to disable this message; for more information, see "
        "https://docs.jax.dev/en/latest/rank_promotion_warning.html."
    )
    if config.jax_numpy_rank_promotion == "warn":
        warnings.warn(message, stacklevel=source.user_stacklevel())
    elif config.jax_numpy_rank_promotion == "raise":
        raise ValueError(message)


def _apply(
    fun: Callable[..., Any], arrays: Sequence[Array], inputs: CoreDims, outputs: CoreDims | None, where: str
) -> Any:
    sizes: dict[str, int] = {}
    for x, dims in zip(arrays, inputs):
        _check_core(x, dims, sizes, where, "input")
    loops = [x.shape[: x.ndim - len(dims)] for x, dims in zip(arrays, inputs)]
    shape = lax.broadcast_shapes(*loops) if loops else ()
    if len({len(loop) for x, loop in zip(arrays, loops) if x.ndim}) > 1:
        _check_rank_promotion([x.shape for x in arrays], where)
    checked = _checked(fun, sizes, outputs, where)
    # Dimensions of size 1 that broadcast are dropped here and given to the function as they are.
    squeezed, axes_of = [], []
    for x, loop in zip(arrays, loops):
        padded = (1,) * (len(shape) - len(loop)) + loop
        lead = len(shape) - len(loop)
        axes_of.append([0 if n != 1 or (shape[i] == 1 and i >= lead) else None for i, n in enumerate(padded)])
        dropped = [i for i, a in enumerate(axes_of[-1][lead:]) if a is None]
        squeezed.append(lax.squeeze(x, dropped) if dropped else x)
    mapped = checked
    for i in reversed(range(len(shape))):
        in_axes = tuple(axes[i] for axes in axes_of)
        if any(a is not None for a in in_axes):
            mapped = vmap(mapped, in_axes=in_axes)
        else:
            mapped = vmap(mapped, in_axes=in_axes, axis_size=shape[i])
    return mapped(*squeezed)


def _checked(
    fun: Callable[..., Any], sizes: dict[str, int], outputs: CoreDims | None, where: str
) -> Callable[..., Any]:
    """The function with its results checked against the signature."""

    def checked(*xs: Any) -> Any:
        out = fun(*xs)
        if outputs is None:
            return out
        if len(outputs) > 1 and not isinstance(out, tuple):
            raise TypeError(f"output must be a tuple when multiple outputs are expected, got: {out!r} {where}")
        results = out if isinstance(out, tuple) else (out,)
        if len(results) != len(outputs):
            raise TypeError(f"wrong number of output arguments: expected {len(outputs)}, got {len(results)} {where}")
        known = dict(sizes)
        for x, dims in zip(results, outputs):
            if np.ndim(x) != len(dims):
                raise ValueError(f"output shape {np.shape(x)} does not match core dimensions {dims} {where}")
            _check_core(x, dims, known, where, "output")
        return out

    return checked


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """A function of arrays of rank 1 applied to all slices along an axis.

    Args:
        func1d: takes an array of rank 1; its results take the place of the axis.
        axis: along which to apply it.
        arr: array.
        *args: further arguments of the function.
        **kwargs: further keyword arguments.

    >>> apply_along_axis(lambda x: x.sum(), 1, np.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """
    arr = ensure_arraylike("apply_along_axis", arr)
    x = asarray(arr)
    axis = canonicalize_axis(axis, x.ndim)
    fun = lambda v: func1d(v, *args, **kwargs)
    for _ in range(axis, x.ndim - 1):
        fun = vmap(fun, in_axes=-1, out_axes=-1)
    for _ in range(axis):
        fun = vmap(fun, in_axes=0, out_axes=0)
    return fun(x)


def apply_over_axes(func: Callable[[ArrayLike, int], Array], a: ArrayLike, axes: Sequence[int]) -> Array:
    """A reduction applied along one axis after another; axes that it removes are put back with size 1.

    >>> import veery.numpy as jnp
    >>> apply_over_axes(jnp.sum, np.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    a = ensure_arraylike("apply_over_axes", a)
    x = asarray(a)
    for axis in as_axes(axes):
        out = func(x, axis)
        if out.ndim == x.ndim - 1:
            out = lax.expand_dims(out, (canonicalize_axis(axis, x.ndim),))
        elif out.ndim != x.ndim:
            raise ValueError("function is not returning an array of the correct shape")
        x = out
    return x
