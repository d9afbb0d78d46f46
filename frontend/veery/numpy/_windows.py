"""Window functions, and bits packed into bytes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import canonicalize_axis, check_concrete
from veery.numpy._arithmetic import is_kind
from veery.numpy._creation import asarray, from_host
from veery.numpy._elementwise import run
from veery.numpy._exponential import i0
from veery.numpy._logic import to_bool
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike


def _points(name: str, M: Any) -> int:
    """The number of points of a window, of which the fraction does not count."""
    check_concrete(M, f"M argument of jnp.{name}")
    return int(M)


def _window(values: np.ndarray) -> Array:
    return from_host(values.astype(dtypes.default_float_dtype()))


def bartlett(M: int) -> Array:
    """The triangular window with M points.

    >>> bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window(np.bartlett(_points("bartlett", M)))


def blackman(M: int) -> Array:
    """The Blackman window with M points.

    >>> blackman(3).round(2)
    Array([-0.,  1., -0.], dtype=float32)
    """
    return _window(np.blackman(_points("blackman", M)))


def hamming(M: int) -> Array:
    """The Hamming window with M points.

    >>> hamming(3).round(2)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window(np.hamming(_points("hamming", M)))


def hanning(M: int) -> Array:
    """The Hann window with M points.

    >>> hanning(3).round(2)
    Array([0., 1., 0.], dtype=float32)
    """
    return _window(np.hanning(_points("hanning", M)))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window with M points.

    Args:
        M: number of points.
        beta: shape of the window; 0 is a rectangle.

    >>> kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    points = _points("kaiser", M)
    if is_kind(beta, np.complexfloating):
        raise ValueError(f"kaiser: beta must be real, got {beta}")
    return _window(np.ones(1)) if points == 1 else _kaiser(beta, points=points)


@jit(static_argnames=("points",))
def _kaiser(beta: ArrayLike, points: int) -> Array:
    middle = 0.5 * (points - 1)
    position = np.sqrt(np.clip(1 - ((np.arange(points) - middle) / middle) ** 2, 0, None))
    beta_ = asarray(beta).astype(dtypes.default_float_dtype())
    return i0(beta_ * _window(position)) / i0(beta_)


_kaiser._name = "kaiser"


def _bit_shifts(bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1].copy() if bitorder == "big" else shifts


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Bits packed into bytes, eight along an axis into one; the last byte is filled with zeros.

    Args:
        a: integers or bools; not zero is a set bit.
        axis: along which to pack; None for the flattened array.
        bitorder: "big" if the first bit is the highest, else "little".

    >>> packbits(np.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    a = ensure_arraylike("packbits", a)
    x = asarray(a)
    if not (is_kind(x, np.integer) or x.dtype == np.bool_):
        raise TypeError("Expected an input array of integer or boolean data type")
    shifts = _bit_shifts(bitorder)
    axis = None if axis is None else canonicalize_axis(axis, x.ndim)
    return run(_packbits, x, axis=axis, big=bool(shifts[0]))


def _packbits(x: Array, *, axis: int | None, big: bool) -> Array:
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    bits = lax._shape.moveaxis(lax.convert_element_type(to_bool(x), np.uint8), axis, x.ndim - 1)
    missing = -bits.shape[-1] % 8
    if missing:
        bits = lax.pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, missing, 0)])
    groups = lax.reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    shifts = lax.broadcast_in_dim(_bit_shifts("big" if big else "little"), groups.shape, (groups.ndim - 1,))
    packed = lax.reduce_sum(lax.shift_left(groups, shifts), (groups.ndim - 1,))
    return lax._shape.moveaxis(packed, packed.ndim - 1, axis)


def unpackbits(a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, eight along an axis for each.

    Args:
        a: array of uint8.
        axis: along which to unpack; None for the flattened array.
        count: number of bits to return; negative: how many to leave out.
        bitorder: "big" if the highest bit comes first, else "little".

    >>> unpackbits(np.array([5], "uint8"))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    a = ensure_arraylike("unpackbits", a)
    x = asarray(a)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    shifts = _bit_shifts(bitorder)
    if axis is None:
        x, axis = lax.reshape(x, (x.size,)), 0
    axis = canonicalize_axis(axis, x.ndim)
    bits: Any = run(_unpackbits, x, axis=axis, big=bool(shifts[0]))
    if count is None:
        return bits
    size = bits.shape[axis]
    count = operator.index(count) + (size if count < 0 else 0)
    if count <= size:
        return lax.slice_in_dim(bits, 0, count, axis=axis)
    return lax.pad(bits, np.uint8(0), [(0, count - size if i == axis else 0, 0) for i in range(bits.ndim)])


def _unpackbits(x: Array, *, axis: int, big: bool) -> Array:
    moved = lax._shape.moveaxis(x, axis, x.ndim - 1)
    wide = lax.broadcast_in_dim(moved, (*moved.shape, 8), tuple(range(moved.ndim)))
    shifts = lax.broadcast_in_dim(_bit_shifts("big" if big else "little"), wide.shape, (moved.ndim,))
    bits = lax.bitwise_and(lax.shift_right_logical(wide, shifts), np.uint8(1))
    flat = lax.reshape(bits, (*moved.shape[:-1], moved.shape[-1] * 8))
    return lax._shape.moveaxis(flat, flat.ndim - 1, axis)
