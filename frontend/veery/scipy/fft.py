"""Discrete cosine transforms of type 2, and their inverses."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core.shapes import canonicalize_axis
from veery.numpy import fft
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.numpy._shaping import as_array

__all__ = ["dct", "dctn", "idct", "idctn"]


def dct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete cosine transform along an axis: the sum of `2 * x[j] * cos(pi * k * (2 j + 1) / (2 n))` for each k.

    Args:
        x: array; the transform of a complex one is that of its real and its imaginary part.
        type: must be 2.
        n: the size to cut the axis to, or fill it up to with zeros; by default its own.
        axis: the axis.
        norm: "ortho" for the orthogonal transform, None or "backward" for the formula above.

    Returns:
        An array like x, in its float or complex dtype of at least 32 bits.

    Raises:
        NotImplementedError: another type is asked for.
        TypeError: x is no array, or the axis is empty.
        ValueError: there is no such norm or axis.

    >>> import veery.numpy as jnp
    >>> abs(dct(jnp.ones(4))).round(3).tolist()
    [8.0, 0.0, 0.0, 0.0]
    """
    return _one("dct", x, type, n, axis, norm)


def idct(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `dct`; see there.

    >>> import veery.numpy as jnp
    >>> idct(dct(jnp.array([3.0, 1.0, 2.0]))).round(3).tolist()
    [3.0, 1.0, 2.0]
    """
    return _one("idct", x, type, n, axis, norm)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete cosine transform over several axes.

    Args:
        x: array.
        type: must be 2.
        s: the sizes to cut the axes to, or fill them up to with zeros; by default their own.
        axes: the axes; by default all, or as many of the last ones as there are sizes.
        norm: see `dct`.

    Raises:
        NotImplementedError: another type is asked for.
        TypeError: x is no array.
        ValueError: there are more sizes than axes, or there is no such norm or axis.

    >>> import veery.numpy as jnp
    >>> dctn(jnp.ones((2, 2))).round(3).tolist()
    [[16.0, 0.0], [0.0, 0.0]]
    """
    return _several("dctn", x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`; see there.

    >>> import veery.numpy as jnp
    >>> idctn(dctn(jnp.array([[3.0, 1.0]]))).round(3).tolist()
    [[3.0, 1.0]]
    """
    return _several("idctn", x, type, s, axes, norm)


def _checked(name: str, x: ArrayLike, type: int, norm: str | None) -> Array:
    x = ensure_arraylike(name, x)
    if type != 2:
        raise NotImplementedError("Only DCT type 2 is implemented.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"jax.scipy.fft.{name}: {norm=!r} is not implemented")
    x = as_array(promote_dtypes_inexact(x)[0])
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _one(name: str, x: ArrayLike, type: int, n: int | None, axis: int, norm: str | None) -> Array:
    x = _checked(name, x, type, norm)
    axis = canonicalize_axis(operator.index(axis), x.ndim)
    return _transform(name, x, (axis,), None if n is None else (operator.index(n),), norm)


def _several(name: str, x: ArrayLike, type: int, s: Any, axes: Any, norm: str | None) -> Array:
    x = _checked(name, x, type, norm)
    given = lambda value: (operator.index(value),) if np.ndim(value) == 0 else tuple(map(operator.index, value))
    sizes = None if s is None else given(s)
    if sizes is not None and len(sizes) > x.ndim:
        raise ValueError(f"s must have at most x.ndim ({x.ndim}) elements, got {len(sizes)}")
    if axes is None:
        places = tuple(range(x.ndim - (x.ndim if sizes is None else len(sizes)), x.ndim))
    else:
        places = tuple(canonicalize_axis(axis, x.ndim) for axis in given(axes))
    if len(set(places)) < len(places):
        raise ValueError(f"{name} does not support repeated axes. Got axes {places}.")
    if sizes is not None and len(sizes) != len(places):
        raise ValueError(f"{name}: s and axes have different lengths: {sizes} and {places}.")
    return _transform(name, x, places, sizes, norm)


def _transform(name: str, x: Array, axes: tuple[int, ...], sizes: tuple[int, ...] | None, norm: str | None) -> Array:
    sizes = tuple(x.shape[axis] for axis in axes) if sizes is None else sizes
    if any(size < 1 for size in sizes):
        raise TypeError(f"{name}: axes to transform must not be empty, got sizes {sizes}.")
    if not axes:
        return x
    return run(_separable, x, axes=axes, sizes=sizes, inverse=name.startswith("i"), ortho=norm == "ortho")


def _separable(x: Array, *, axes: tuple[int, ...], sizes: tuple[int, ...], inverse: bool, ortho: bool) -> Array:
    if is_kind(x, np.complexfloating):
        of_part = lambda part: _separable(part, axes=axes, sizes=sizes, inverse=inverse, ortho=ortho)
        return lax.complex(of_part(jnp.real(x)), of_part(jnp.imag(x)))
    for axis, size in zip(axes, sizes):
        padding = [(0, size - x.shape[i] if i == axis else 0, 0) for i in range(x.ndim)]
        x = jnp.moveaxis(lax.pad(x, np.zeros((), x.dtype), padding), axis, -1)
        x = jnp.moveaxis((_inverse if inverse else _forward)(x, ortho), -1, axis)
    return x


# By one Fourier transform of the same size of the elements in another order (Makhoul 1980): first those at even places,
# then those at odd ones, backwards. Elements k and n - k of the cosine transform come from one number of it.


def _scales(n: int, ortho: bool) -> np.ndarray:
    """What makes the transform orthogonal."""
    return np.r_[(4 * n) ** -0.5, np.full(n - 1, (2 * n) ** -0.5)] if ortho else np.ones(n)


def _like(values: np.ndarray, x: Array) -> Any:
    return lax.broadcast_to_rank(values.astype(x.dtype), x.ndim)


def _forward(x: Array, ortho: bool) -> Array:
    n, last = x.shape[-1], x.ndim - 1
    order = np.r_[np.arange(0, n, 2), np.arange(1, n, 2)[::-1]]
    v = fft.rfft(x[..., order])
    v = v * _like(2 * np.exp(-0.5j * np.pi * np.arange(n // 2 + 1) / n), v)
    back = lax.rev(-jnp.imag(v[..., 1 : (n + 1) // 2]), (last,))
    out = lax.concatenate([jnp.real(v), back], last)
    return out * _like(_scales(n, ortho), out)


def _inverse(x: Array, ortho: bool) -> Array:
    n, last = x.shape[-1], x.ndim - 1
    y = x / _like(_scales(n, ortho), x)
    zero = lax.full_like(y[..., :1], 0)
    mirrored = lax.concatenate([zero, lax.rev(y[..., 1:], (last,))], last)
    half = n // 2 + 1
    v = lax.complex(y[..., :half], -mirrored[..., :half])
    v = v * _like(0.5 * np.exp(0.5j * np.pi * np.arange(half) / n), v)
    order = np.r_[np.arange(0, n, 2), np.arange(1, n, 2)[::-1]]
    return fft.irfft(v, n)[..., np.argsort(order)]
