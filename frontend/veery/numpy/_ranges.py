"""Evenly spaced numbers: arange, linspace, logspace, geomspace."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._api.vectorize import vmap
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.dimensions import is_symbolic, is_symbolic_dim, max_dim
from veery._core.errors import ConcretizationTypeError
from veery._core.shapes import canonicalize_axis, canonicalize_shape, concrete_int
from veery._core.trace import Tracer, current_trace, eval_trace
from veery.lax._placement import laid_out
from veery.numpy._arithmetic import choose, power
from veery.numpy._creation import from_host, place
from veery.numpy._exponential import log
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_arrays,
    check_rank_promotion,
    ensure_arraylike,
    promote_dtypes_inexact,
    to_dtype,
)


def _concrete_scalar(name: str, x: Any) -> Any:
    """The value of an argument of arange as a NumPy or Python scalar."""
    if is_symbolic_dim(x):
        return x
    if isinstance(x, Tracer):
        value = x.concrete_value()
        if value is None:
            raise ConcretizationTypeError(x, f"It arose in the jnp.arange argument '{name}'")
        x = value
    if isinstance(x, ArrayImpl):
        x = x.to_numpy()
    if np.ndim(x):
        raise ValueError(f"jax.numpy.arange: arguments must be scalars; got {name}={x}")
    dtype = dtypes.dtype_of(x) if hasattr(x, "dtype") or dtypes.is_python_scalar(x) else None
    if dtype is None:
        raise TypeError(f"arange: {name} must be a real number, got {x!r}")
    if dtypes.issubdtype(dtype, np.complexfloating):
        raise ValueError(
            "Passing complex start/stop/step to jnp.arange is no longer supported starting in JAX v0.10.0."
        )
    return x[()] if isinstance(x, np.ndarray) else x


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The numbers start, start + step, ... below stop.

    Args:
        start: first number; the only argument is the stop, and the start 0.
        stop: bound, not included.
        step: distance, by default 1.
        dtype: of the result; by default the one in which the arguments meet.
        device: where to put it.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ConcretizationTypeError: an argument is traced.
        ZeroDivisionError: the step is 0.

    >>> arange(3), arange(1.0, 2.0, 0.5)
    (Array([0, 1, 2], dtype=int32), Array([1. , 1.5], dtype=float32))
    """
    if out_sharding is not None:
        return laid_out(lambda: arange(start, stop, step, dtype, device=device), out_sharding, "arange")
    given = {"start": start, "stop": stop, "step": step}
    if stop is None and step is None:
        given = {"stop": start}
    values = {name: _concrete_scalar(name, x) for name, x in given.items() if x is not None}
    if not values:
        raise TypeError("must be real number, not NoneType")
    if dtype is None:
        dtype = dtypes.result_type(*(0 if is_symbolic_dim(x) else x for x in values.values()))
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "arange")
    if dtype == np.bool_:
        raise TypeError(
            "iota does not accept dtype bool. Accepted dtypes are subtypes of integer, floating, complexfloating."
        )
    first, last = values.get("start", 0), values.get("stop")
    if last is None:
        first, last = 0, first
    return _arange(first, last, values.get("step", 1), dtype, device)


def _arange(first: Any, last: Any, step: Any, dtype: Any, device: Any) -> Array:
    first, last, step = (x.item() if hasattr(x, "item") else x for x in (first, last, step))
    if is_symbolic((first, last, step)):
        count = lax.iota(dtype, max_dim(-((first - last) // step), 0))
        return lax.add(lax.mul(count, lax.full_like(count, step)), lax.full_like(count, first))
    if isinstance(first, int) and isinstance(step, int) and isinstance(last, int):
        size = max(0, -((first - last) // step))
    else:
        size = max(0, math.ceil((last - first) / step))
    if current_trace() is not eval_trace and (first, step) == (0, 1):
        return lax.iota(dtype, size)
    values = np.arange(size) * step + first if size else np.zeros(0)
    return place(from_host(values.astype(dtype)), device)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from start to stop.

    Args:
        start: first numbers.
        stop: last numbers.
        num: how many.
        endpoint: whether stop is the last of them.
        retstep: whether to return the distance as well.
        dtype: of the result; by default a float.
        axis: of the result along which the numbers lie.
        device: where to put it.

    >>> linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = concrete_int(num, "'num' argument of jnp.linspace")
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = ensure_arraylike("linspace", start, stop)
    check_rank_promotion("linspace", start, stop)
    computed = _inexact_dtype(start, stop)
    dtype = computed if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, "linspace")
    if not isinstance(start, (ArrayImpl, Tracer)) and not isinstance(stop, (ArrayImpl, Tracer)):
        if current_trace() is eval_trace and not retstep:
            return place(_host_linspace(start, stop, num, endpoint, dtype, axis), device)
    out, step = _linspace(start, stop, num=num, endpoint=bool(endpoint), dtype=dtype, axis=operator.index(axis))
    return (place(out, device), step) if retstep else place(out, device)


def _host_linspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Array:
    """Of constants, outside of transformations: in float64, with no program."""
    wide = np.complex128 if np.iscomplexobj(start) or np.iscomplexobj(stop) else np.float64
    values = np.linspace(np.asarray(start).astype(wide), np.asarray(stop).astype(wide), num, endpoint, axis=axis)
    values = np.floor(values) if dtypes.issubdtype(dtype, np.integer) else values
    return from_host(np.asarray(values.astype(dtype)))


@jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _linspace(
    start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool, dtype: Any, axis: int
) -> tuple[Array, Array]:
    computed = _inexact_dtype(start, stop)
    start, stop = broadcast_arrays(to_dtype(start, computed), to_dtype(stop, computed))
    axis = canonicalize_axis(axis, start.ndim + 1)
    divisions = num - 1 if endpoint else num
    delta = to_dtype(lax.sub(stop, start), computed)
    nan = lax.full((), np.nan, computed)
    step = lax.div(delta, np.asarray(divisions).astype(computed)[()]) if divisions > 0 else nan
    shape = (*start.shape[:axis], num, *start.shape[axis:])
    if num == 0:
        return lax.full(shape, 0, dtype), step
    others = tuple(i for i in range(len(shape)) if i != axis)
    spread = lambda x: lax.broadcast_in_dim(x, shape, others)
    if num == 1 and endpoint:
        return _to_kind(spread(start), dtype), step
    # Weighted from both ends, so that the first and the last number are exact.
    index = lax.convert_element_type(lax.broadcasted_iota(np.int32, shape, axis), computed)
    weight = lax.div(index, np.asarray(divisions).astype(computed)[()])
    rest = lax.sub(lax.full_like(weight, 1), weight)
    out = lax.add(lax.mul(spread(start), rest), lax.mul(spread(stop), weight))
    if endpoint:
        is_last = lax.eq(lax.broadcasted_iota(np.int32, shape, axis), np.int32(num - 1))
        out = choose(is_last, spread(stop), out)
    return _to_kind(out, dtype), step


def _inexact_dtype(*xs: ArrayLike) -> Any:
    return dtypes.to_inexact_dtype(dtypes.result_type(*xs))


def _to_kind(x: Array, dtype: Any) -> Array:
    """The numbers in the dtype asked for; as integers rounded down."""
    if dtypes.issubdtype(dtype, np.integer) and not dtypes.issubdtype(x.dtype, np.integer):
        x = lax.floor(lax.real(x) if dtypes.issubdtype(x.dtype, np.complexfloating) else x)
    return lax.convert_element_type(x, dtype)


@jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _logspace(
    start: ArrayLike, stop: ArrayLike, base: ArrayLike, num: int, endpoint: bool, dtype: Any, axis: int
) -> Array:
    exponents = _linspace(start, stop, num=num, endpoint=endpoint, dtype=_inexact_dtype(start, stop), axis=axis)[0]
    return lax.convert_element_type(power(base, exponents), dtype)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """base to the power of `num` evenly spaced exponents from start to stop (see `linspace`).

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    num = operator.index(num)
    start, stop = ensure_arraylike("logspace", start, stop)
    if dtype is None:
        dtype = _inexact_dtype(start, stop)
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "logspace")
    return _logspace(start, stop, base, num=num, endpoint=bool(endpoint), dtype=dtype, axis=operator.index(axis))


def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Array:
    """`num` numbers from start to stop, each the same multiple of the one before (see `linspace`).

    >>> geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    num = operator.index(num)
    start, stop = ensure_arraylike("geomspace", start, stop)
    if dtype is None:
        dtype = _inexact_dtype(start, stop)
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "geomspace")
    return _geomspace(start, stop, num=num, endpoint=bool(endpoint), dtype=dtype, axis=operator.index(axis))


@jit(static_argnames=("num", "endpoint", "dtype", "axis"))
def _geomspace(start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool, dtype: Any, axis: int) -> Array:
    start, stop = broadcast_arrays(*promote_dtypes_inexact(start, stop))
    # Divided by its sign the sequence is positive, and its logarithms are evenly spaced.
    complex_ = dtypes.issubdtype(start.dtype, np.complexfloating)
    sign = lax.div(start, start) if complex_ else lax.sign(start)
    first, last = (start, stop) if complex_ else (lax.mul(start, sign), lax.mul(stop, sign))
    logs = _linspace(log(first), log(last), num=num, endpoint=endpoint, dtype=first.dtype, axis=axis)[0]
    at = canonicalize_axis(axis, start.ndim + 1)
    others = tuple(i for i in range(logs.ndim) if i != at)
    out = lax.mul(lax.exp(logs), lax.broadcast_in_dim(sign, logs.shape, others))
    position = lax.broadcasted_iota(np.int32, logs.shape, at)
    out = choose(lax.eq(position, np.int32(0)), lax.broadcast_in_dim(start, logs.shape, others), out)
    if endpoint and num > 1:
        out = choose(lax.eq(position, np.int32(num - 1)), lax.broadcast_in_dim(stop, logs.shape, others), out)
    return lax.convert_element_type(out, dtype)


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """An array of the values of a function at its indices.

    Args:
        function: takes an index along each dimension, as scalars; it is mapped over them.
        shape: of the result.
        dtype: of the indices.
        **kwargs: further arguments of the function.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int32)
    """
    shape = canonicalize_shape(shape)
    mapped = lambda *indices: function(*indices, **kwargs)
    for i in reversed(range(len(shape))):  # the map made last gives the first dimension
        mapped = vmap(mapped, in_axes=tuple(0 if i == j else None for j in range(len(shape))))
    return mapped(*(arange(n, dtype=dtype) for n in shape))
