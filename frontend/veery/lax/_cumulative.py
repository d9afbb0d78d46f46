"""Running sums, products and extrema."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import LINEAR
from veery._core.array import Array
from veery._core.avals import ShapedArray, aval_of
from veery._core.primitive import Primitive
from veery._transforms.jvp import jvp
from veery.lax import _arithmetic, _compare, _shape, _slicing, _transcendental
from veery.lax._declare import FLOAT, check_dtype
from veery.lax._reference import widen

_NUMBER = (np.number,)


def cumsum(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Running sum along an axis, from its end if `reverse`.

    Args:
        operand: array of numbers.
        axis: not negative.
        reverse: whether to start at the end.

    Raises:
        ValueError: the axis is negative or out of bounds.
        TypeError: the dtype is bool.

    >>> from veery import lax
    >>> lax.cumsum(lax.iota("int32", 4)).tolist()
    [0, 1, 3, 6]
    """
    return cumsum_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


def cumprod(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Running product along an axis; see cumsum."""
    return cumprod_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


def cummax(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Running maximum along an axis; see cumsum."""
    return cummax_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


def cummin(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Running minimum along an axis; see cumsum."""
    return cummin_p.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


def cumlogsumexp(operand: Array, axis: int = 0, reverse: bool = False) -> Array:
    """Running logarithm of the sum of exponentials along an axis, of floats or complex numbers; see cumsum.

    Of complex numbers the first result is the first number; imaginary parts of the others are from -pi up to pi.
    """
    axis, reverse = operator.index(axis), bool(reverse)
    if not _is_complex(operand):
        return cumlogsumexp_p.bind(operand, axis=axis, reverse=reverse)
    _check_axis(axis, np.shape(operand))
    combine = lambda a, b: (_logaddexp(a, b),)
    (out,) = _along(lambda x: _prefixes(combine, [x]), [operand], axis, reverse)
    return out


def _prefixes(combine: Callable[..., tuple], xs: Sequence[Any]) -> list[Any]:
    """For each i, elements 0 to i along axis 0 combined, in 2 log2(n) steps.

    Neighbours are combined, the prefixes of these pairs are found, which are every second result, and one more
    combination each gives the others.
    """
    n = np.shape(xs[0])[0]
    if n < 2:
        return list(xs)
    every_second = lambda ys, start, stop: [_slicing.slice_in_dim(y, start, stop, 2) for y in ys]
    pairs = combine(*every_second(xs, 0, n - n % 2), *every_second(xs, 1, n))
    odd = _prefixes(combine, pairs)
    first = [_slicing.slice_in_dim(x, 0, 1) for x in xs]
    if n == 2:
        return [_shape.concatenate([x, y], 0) for x, y in zip(first, odd)]
    before = [_slicing.slice_in_dim(y, 0, (n - 1) // 2) for y in odd]
    rest = combine(*before, *every_second(xs, 2, n))
    even = [_shape.concatenate([x, y], 0) for x, y in zip(first, rest)]
    return [_interleave(a, b) for a, b in zip(even, odd)]


def _interleave(even: Any, odd: Any) -> Any:
    """Elements of both in turn along axis 0; `even` has as many, or one more."""
    spare = np.shape(even)[0] - np.shape(odd)[0]
    zero, rest = np.zeros((), aval_of(even).dtype), [(0, 0, 0)] * (np.ndim(even) - 1)
    spread = _shape.pad(even, zero, [(0, 1 - spare, 1), *rest]), _shape.pad(odd, zero, [(1, spare, 1), *rest])
    return _arithmetic.add(*spread)


def _along(function: Callable[..., list[Any]], xs: Sequence[Any], axis: int, reverse: bool) -> list[Any]:
    """Apply a function that works along axis 0 along another, from its end if `reverse`."""
    there = lambda x: _shape.rev(_shape.moveaxis(x, axis, 0), (0,)) if reverse else _shape.moveaxis(x, axis, 0)
    back = lambda x: _shape.moveaxis(_shape.rev(x, (0,)) if reverse else x, 0, axis)
    return [back(y) for y in function(*map(there, xs))]


def _cumulative_jvp(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> tuple[Any, Any]:
        scan = lambda x: _along(lambda y: _prefixes(lambda a, b: (combine(a, b),), [y]), [x], axis, reverse)
        (out,), (t,) = jvp(scan, primals, tangents)
        return out, t

    return rule


def _cumlogsumexp_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool) -> tuple[Any, Any]:
    """The tangents weighted by the softmax of what they are the tangents of."""
    scan = lambda x, t: _prefixes(_add_in_logarithms, [x, t])
    out, t = _along(scan, [primals[0], tangents[0]], axis, reverse)
    return out, t


def _add_in_logarithms(a: Any, t_a: Any, b: Any, t_b: Any) -> tuple[Any, Any]:
    """log(e^a + e^b) and its tangent e^(a - out) da + e^(b - out) db."""
    out = _logaddexp(a, b)
    inf, zero = _shape.full_like(out, np.inf), _shape.full_like(out, 0)
    finite = lambda x: _compare.select(_compare.eq(x, inf), zero, x)
    level = _compare.select(_compare.eq(_arithmetic.abs(out), inf), zero, out)
    weights = [_transcendental.exp(_arithmetic.sub(finite(x), level)) for x in (a, b)]
    return out, _arithmetic.add(_arithmetic.mul(t_a, weights[0]), _arithmetic.mul(t_b, weights[1]))


def _logaddexp(a: Any, b: Any) -> Any:
    """high + log1p(e^(low - high)), where the difference is NaN (of equal infinities) their sum.

    Chosen by select, the two have derivatives of any order where they are equal; those of max and abs are wrong there.
    """
    above = _compare.ge(*map(_arithmetic.real, (a, b))) if _is_complex(a) else _compare.ge(a, b)
    high, low = _compare.select(above, a, b), _compare.select(above, b, a)
    difference = _arithmetic.sub(low, high)
    out = _arithmetic.add(high, _transcendental.log1p(_transcendental.exp(difference)))
    out = _principal(out) if _is_complex(a) else out
    return _compare.select(_compare.ne(difference, difference), _arithmetic.add(a, b), out)


def _principal(z: Any) -> Any:
    """A logarithm of the same number whose imaginary part is from -pi up to pi."""
    number: Callable[[float], Any] = lambda value: _shape.full_like(_arithmetic.real(z), value)
    angle, turn = _arithmetic.imag(z), number(2 * np.pi)
    turns = _arithmetic.floor(_arithmetic.div(_arithmetic.add(angle, number(np.pi)), turn))
    return _arithmetic.complex(_arithmetic.real(z), _arithmetic.sub(angle, _arithmetic.mul(turns, turn)))


def _is_complex(x: Any) -> bool:
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)  # type: ignore[attr-defined]


def _check_axis(axis: int, shape: Sequence[Any]) -> None:
    if axis < 0:
        raise ValueError("XLA operations do not allow negative axes")
    if axis >= len(shape):
        raise ValueError(f"axis {axis} is out of bounds for array of shape {shape}")


def _cumulative(
    name: str,
    accepts: Sequence[type],
    ufunc: np.ufunc,
    *,
    jvp: Any,
    transpose: Any = None,
    wide: bool = True,
    **facts: Any,
) -> Primitive:
    def abstract_eval(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_dtype(name, x.dtype, accepts)
        _check_axis(axis, x.shape)
        return x

    def reference(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        y = widen(x) if wide and dtypes.issubdtype(x.dtype, np.inexact) else x
        y = np.flip(y, axis) if reverse else y
        with np.errstate(all="ignore"):
            out = ufunc.accumulate(y, axis, dtype=y.dtype)
            return np.array((np.flip(out, axis) if reverse else out).astype(x.dtype))

    def batch(args: Sequence[Any], dims: Sequence[int], *, axis: int, reverse: bool) -> tuple[Any, int]:
        return primitive.bind(args[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]

    primitive = Primitive(
        name, abstract_eval=abstract_eval, jvp=jvp, transpose=transpose, batch=batch, reference=reference, **facts
    )
    return primitive


cumsum_p = _cumulative(
    "cumsum",
    _NUMBER,
    np.add,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1),
    jvp=LINEAR,
    transpose=lambda ct, x, *, axis, reverse: [cumsum(ct, axis, not reverse)],
)
cumprod_p = _cumulative(
    "cumprod",
    _NUMBER,
    np.multiply,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1),
    jvp=_cumulative_jvp(_arithmetic.mul),
)
cummax_p = _cumulative(
    "cummax",
    _NUMBER,
    np.maximum,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1, floats=8),
    jvp=_cumulative_jvp(_arithmetic.max),
    wide=False,
)
cummin_p = _cumulative(
    "cummin",
    _NUMBER,
    np.minimum,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1, floats=8),
    jvp=_cumulative_jvp(_arithmetic.min),
    wide=False,
)
cumlogsumexp_p = _cumulative(
    "cumlogsumexp", FLOAT, np.logaddexp, checks=("nan",), cost=cost.per_operand, jvp=_cumlogsumexp_jvp
)
