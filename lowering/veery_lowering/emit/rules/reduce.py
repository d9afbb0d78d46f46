"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.errors import LoweringError
from veery_lowering.types import is_static

Combine = Callable[[Value, Value], Value]


def lowest(dtype: np.dtype) -> Any:
    """The neutral element of maximum."""
    return _extreme(dtype, -1)


def highest(dtype: np.dtype) -> Any:
    """The neutral element of minimum."""
    return _extreme(dtype, 1)


def _extreme(dtype: np.dtype, sign: int) -> Any:
    if dtype == np.bool_:
        return sign > 0
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    if dtype.kind == "c":
        return dtype.type(complex(sign * np.inf, sign * np.inf))
    try:
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    except ValueError:
        integers = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
        return integers.max if sign > 0 else integers.min
    infinite = np.asarray(sign * np.inf, dtype)
    return infinite if np.isinf(infinite.astype(np.float32)) else (info.max if sign > 0 else info.min)


def all_ones(dtype: np.dtype) -> Any:
    """The neutral element of bitwise and."""
    return True if dtype == np.bool_ else np.array(-1).astype(dtype)


def _sum(x: Value, axes: Sequence[int]) -> Value:
    dtype = hlo.dtype_of(x)
    # `add` on i1 is an exclusive or.
    combine = hlo.or_ if dtype == np.bool_ else hlo.add
    return _fold(x, axes, combine, np.zeros((), dtype))


def fold(x: Value, axes: Sequence[int], combine: Combine, neutral: Any) -> Value:
    """Reduce one array over axes with an associative, commutative function of two scalars."""
    if not axes:
        return x
    init = hlo.constant(neutral, hlo.dtype_of(x))
    return hlo.reduce(x, init, tuple(axes), combine)


def _fold(x: Value, axes: Sequence[int], combine: Combine, neutral: Any) -> Value:
    """The same, of bools as integers: IREE makes scalar code of them else (all of 100,000 take 53 us, so 6)."""
    dtype = hlo.dtype_of(x)
    if dtype != np.bool_ or not axes:
        return fold(x, axes, combine, neutral)
    return hlo.convert(fold(hlo.convert(x, np.int32), axes, combine, np.int32(neutral)), dtype)


@rule("reduce_sum", any_shape=True)
def _reduce_sum(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    dtype = hlo.dtype_of(x)
    if dtype.kind in "fV" and dtype.itemsize < 4 and axes:
        # Partial sums in half precision lose what the caller summed for; and bf16 sums do not compile for SPIR-V.
        return hlo.convert(_sum(hlo.convert(x, np.float32), axes), dtype)
    return _sum(x, axes)


@rule("reduce_prod", any_shape=True)
def _reduce_prod(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    dtype = hlo.dtype_of(x)
    return _fold(x, axes, hlo.and_ if dtype == np.bool_ else hlo.multiply, np.ones((), dtype))


@rule("reduce_max", any_shape=True)
def _reduce_max(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _reduce_extreme(x, axes, hlo.maximum, lowest, "GT")


@rule("reduce_min", any_shape=True)
def _reduce_min(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _reduce_extreme(x, axes, hlo.minimum, highest, "LT")


def _reduce_extreme(
    x: Value, axes: Sequence[int], combine: Combine, neutral: Callable[[np.dtype], Any], direction: str
) -> Value:
    dtype = hlo.dtype_of(x)
    if dtype.kind != "c" or not axes:
        return _apart(_fold(x, axes, combine, neutral(dtype)), x, axes)
    # Complex numbers compare lexicographically; IREE's maximum looks at the real part only. NaN parts win.
    re, im = hlo.real(x), hlo.imag(x)
    init = hlo.constant(neutral(hlo.dtype_of(re)), hlo.dtype_of(re))

    def body(a: Value, b: Value, c: Value, d: Value) -> list[Value]:
        nan = hlo.or_(hlo.compare(a, a, "NE"), hlo.compare(b, b, "NE"))
        ahead = hlo.or_(hlo.compare(a, c, direction), hlo.and_(hlo.compare(a, c, "EQ"), hlo.compare(b, d, direction)))
        other_nan = hlo.or_(hlo.compare(c, c, "NE"), hlo.compare(d, d, "NE"))
        first = hlo.or_(nan, hlo.and_(ahead, hlo.not_(other_nan)))
        return [hlo.select(first, a, c), hlo.select(first, b, d)]

    return hlo.complex(*hlo.reduce([re, im], [init, init], tuple(axes), body))


def _apart(extreme: Value, x: Value, axes: Sequence[int]) -> Value:
    """Keep the extremes of rows of odd width out of the dispatch that uses them.

    Fused, IREE 3.13 leaves the whole dispatch scalar unless 16 divides the width. 1500 rows of 1000, in ms, fused and
    apart: softmax 101 and 1.2, logsumexp 47 and 1.0, argmax 59 and 0.5; of 1024, either way 0.9, 0.9 and 0.3.
    """
    shape = hlo.shape_of(x)
    last = len(shape) - 1
    if last not in axes or not is_static(shape[last]) or shape[last] % 16 == 0 or shape[last] < 16:
        return extreme
    return hlo.optimization_barrier([extreme])[0]


@rule("reduce_and", any_shape=True)
def _reduce_and(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _fold(x, axes, hlo.and_, all_ones(hlo.dtype_of(x)))


@rule("reduce_or", any_shape=True)
def _reduce_or(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _fold(x, axes, hlo.or_, np.zeros((), hlo.dtype_of(x)))


@rule("reduce_xor", any_shape=True)
def _reduce_xor(ctx: Context, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
    return _fold(x, axes, hlo.xor, np.zeros((), hlo.dtype_of(x)))


@rule("argmax", any_shape=True)
def _argmax(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: Any, **_: Any) -> Value:
    return _arg_extreme(x, axes, index_dtype, hlo.maximum, lowest)


@rule("argmin", any_shape=True)
def _argmin(ctx: Context, x: Value, *, axes: Sequence[int], index_dtype: Any, **_: Any) -> Value:
    return _arg_extreme(x, axes, index_dtype, hlo.minimum, highest)


def _arg_extreme(
    x: Value, axes: Sequence[int], index_dtype: Any, combine: Combine, neutral: Callable[[np.dtype], Any]
) -> Value:
    """The lowest index of the extreme value, or of the first NaN."""
    (axis,) = axes
    shape = hlo.shape_of(x)
    if hlo.dtype_of(x) == np.bool_:
        x = hlo.convert(x, np.int8)
    dtype = hlo.dtype_of(x)
    extreme = _apart(_fold(x, axes, combine, neutral(dtype)), x, axes)
    kept = [i for i in range(len(shape)) if i != axis]
    # A NaN anywhere makes the extreme NaN, which no element equals: then the first NaN is looked for.
    hit = hlo.compare(x, hlo.broadcast_in_dim(extreme, shape, kept), "EQ")
    if dtype.kind not in "iu":
        hit = hlo.or_(hit, hlo.compare(x, x, "NE"))
    index = hlo.iota(index_dtype, shape, axis)
    # Rows without a hit do not exist, so any index that loses to all others will do.
    candidates = hlo.select(hit, index, hlo.full_like(index, highest(np.dtype(index_dtype))))
    return _fold(candidates, axes, hlo.minimum, highest(np.dtype(index_dtype)))


@rule("reduce")
def _reduce(
    ctx: Context, *operands: Value, dimensions: Sequence[int], jaxpr: Any = None, computation: Any = None, **_: Any
) -> list[Value]:
    body_jaxpr = jaxpr if jaxpr is not None else computation
    if body_jaxpr is None:
        raise LoweringError("reduce: expected the combining function as a jaxpr")
    count = len(operands) // 2
    body = lambda *scalars: ctx.inline(body_jaxpr, *scalars)
    folded: list[Value] = hlo.reduce(list(operands[:count]), list(operands[count:]), tuple(dimensions), body)
    return folded
