"""Operations on the bits of integers and on bools."""

from __future__ import annotations

from typing import Any

import numpy as np

from veery._core import host
from veery._core.ad import NONDIFFERENTIABLE
from veery.lax._declare import INTEGER, INTEGRAL, binary, unary
from veery.lax._operands import Array, ArrayLike, apply
from veery.lax._reference import as_bits, bit_width, quiet

# Public functions.


def bitwise_not(x: ArrayLike) -> Array:
    """Each bit of an integer inverted; `not x` of a bool.

    >>> from veery import lax, numpy as jnp
    >>> lax.bitwise_not(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return apply(not_p, x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that x and y share, of integers or bools.

    >>> from veery import lax, numpy as jnp
    >>> lax.bitwise_and(jnp.array([12, 10]), 6)
    Array([4, 2], dtype=int32)
    """
    return apply(and_p, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that x or y has, of integers or bools.

    >>> from veery import lax, numpy as jnp
    >>> lax.bitwise_or(jnp.array([12, 10]), 6)
    Array([14, 14], dtype=int32)
    """
    return apply(or_p, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits in which x and y differ, of integers or bools.

    >>> from veery import lax, numpy as jnp
    >>> lax.bitwise_xor(jnp.array([12, 10]), 6)
    Array([10, 12], dtype=int32)
    """
    return apply(xor_p, x, y)


def population_count(x: ArrayLike) -> Array:
    """The number of bits of an integer that are set.

    >>> from veery import lax, numpy as jnp
    >>> lax.population_count(jnp.array([7, -1]))
    Array([ 3, 32], dtype=int32)
    """
    return apply(population_count_p, x)


def clz(x: ArrayLike) -> Array:
    """The number of zero bits before the first that is set.

    >>> from veery import lax, numpy as jnp
    >>> lax.clz(jnp.array([1, -1]))
    Array([31,  0], dtype=int32)
    """
    return apply(clz_p, x)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits of x moved up by y; zero where y is negative or not less than the number of bits.

    >>> from veery import lax, numpy as jnp
    >>> lax.shift_left(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """
    return apply(shift_left_p, x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits of x moved down by y, filled with zeros; zero where y is negative or not less than the number of bits.

    >>> from veery import lax, numpy as jnp
    >>> lax.shift_right_logical(jnp.array([8, -1]), 28)
    Array([ 0, 15], dtype=int32)
    """
    return apply(shift_right_logical_p, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits of x moved down by y, filled with the highest bit (the sign of signed integers).

    >>> from veery import lax, numpy as jnp
    >>> lax.shift_right_arithmetic(jnp.array([8, -8]), 1)
    Array([ 4, -4], dtype=int32)
    """
    return apply(shift_right_arithmetic_p, x, y)


# Primitives.


def _popcount_reference(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(as_bits(x)).astype(x.dtype)


def _clz_reference(x: np.ndarray) -> np.ndarray:
    bits, width = as_bits(x), bit_width(x.dtype)
    length = sum((bits >> np.uint64(k) != 0).astype(np.int64) for k in range(width))
    return np.asarray(width - length).astype(x.dtype)


def _shift_amount(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The amount, and whether it lies within the width of the type; negative amounts do not."""
    amount, width = as_bits(y), bit_width(x.dtype)
    return np.minimum(amount, np.uint64(width - 1)), amount < width


def _shift_left_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    amount, inside = _shift_amount(x, y)
    return np.where(inside, as_bits(x) << amount, 0).astype(x.dtype)


def _shift_right_logical_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    amount, inside = _shift_amount(x, y)
    return np.where(inside, as_bits(x) >> amount, 0).astype(x.dtype)


def _shift_right_arithmetic_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The highest bit is taken for a sign, of unsigned integers too."""
    amount, _ = _shift_amount(x, y)
    unused = np.int64(64 - bit_width(x.dtype))
    signed = (as_bits(x).view(np.int64) << unused) >> unused
    return (signed >> amount.view(np.int64)).astype(x.dtype)


def _bitwise(name: str, arity: int, accepts: Any, reference: Any, **facts: Any) -> Any:
    make = unary if arity == 1 else binary
    return make(name, accepts, jvp=NONDIFFERENTIABLE, reference=quiet(reference), **facts)


not_p = _bitwise("not", 1, INTEGRAL, np.invert, host=host.arithmetic(np.invert, integers=1))
and_p = _bitwise("and", 2, INTEGRAL, np.bitwise_and, host=host.arithmetic(np.bitwise_and, integers=1))
or_p = _bitwise("or", 2, INTEGRAL, np.bitwise_or, host=host.arithmetic(np.bitwise_or, integers=1))
xor_p = _bitwise("xor", 2, INTEGRAL, np.bitwise_xor, host=host.arithmetic(np.bitwise_xor, integers=1))
population_count_p = _bitwise("population_count", 1, INTEGER, _popcount_reference, host=host.arithmetic(integers=8))
clz_p = _bitwise("clz", 1, INTEGER, _clz_reference, host=host.arithmetic(integers=64))
shift_left_p = _bitwise("shift_left", 2, INTEGER, _shift_left_reference, host=host.arithmetic(integers=8))
shift_right_logical_p = _bitwise(
    "shift_right_logical", 2, INTEGER, _shift_right_logical_reference, host=host.arithmetic(integers=8)
)
shift_right_arithmetic_p = _bitwise(
    "shift_right_arithmetic", 2, INTEGER, _shift_right_arithmetic_reference, host=host.arithmetic(integers=8)
)
