"""Discrete Fourier transforms over any axes, of any size."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes
from veery._core.shapes import as_axes, canonicalize_axis
from veery.numpy._arithmetic import conj as _conj
from veery.numpy._creation import asarray
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_complex, promote_dtypes_inexact
from veery.numpy._shaping import moveaxis as _moveaxis, roll as _roll

__all__ = [
    *("fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft"),
    *("irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"),
]

Shape = tuple[int, ...]
_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _check_norm(norm: str | None) -> None:
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')


def _promoted(a: ArrayLike, kind: str) -> Any:
    return (promote_dtypes_inexact if kind == "RFFT" else promote_dtypes_complex)(a)[0]


def _transform(
    name: str, kind: str, a: ArrayLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Array:
    """The transform over axes, to sizes `s`, scaled as the norm says."""
    _check_norm(norm)
    a = ensure_arraylike(f"jnp.fft.{name}", a)
    if kind == "RFFT" and dtypes.issubdtype(lax.dtype(a), np.complexfloating):
        raise ValueError("only real valued inputs supported for rfft")
    shape = np.shape(a)
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n < 1 for n in s):
            raise ValueError("Shape should be positive.")
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    places = tuple(canonicalize_axis(axis, len(shape)) for axis in axes)
    if len(set(places)) != len(places):
        raise ValueError(f"jax.numpy.fft.{name} does not support repeated axes. Got axes {list(axes)}.")
    if s is not None and len(s) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    if s is None:
        s = tuple(shape[axis] for axis in places)
        if kind == "IRFFT" and s:
            s = (*s[:-1], max(0, 2 * (s[-1] - 1)))
    if not places:
        return asarray(_promoted(a, kind))
    return run(_scaled, a, kind=kind, sizes=s, axes=places, norm=norm or "backward")


def _scaled(a: Array, *, kind: str, sizes: Shape, axes: Shape, norm: str) -> Array:
    a = _promoted(a, kind)
    given = (*sizes[:-1], sizes[-1] // 2 + 1) if kind == "IRFFT" else sizes
    for axis, size in zip(axes, given):
        a = _resized(a, axis, size)
    last = tuple(range(a.ndim - len(axes), a.ndim))
    a = _moved(a, axes, last)
    if 0 in a.shape or 0 in sizes:
        shape = (*sizes[:-1], sizes[-1] // 2 + 1) if kind == "RFFT" else sizes
        dtype = dtypes.finfo(a.dtype).dtype if kind == "IRFFT" else dtypes.to_complex_dtype(a.dtype)
        return _moved(lax.full((*a.shape[: a.ndim - len(axes)], *shape), 0, dtype), last, axes)
    out = lax.fft(a, kind, sizes)
    inverse, total = kind[0] == "I", math.prod(sizes)
    scale = {"backward": 1.0, "ortho": total**0.5 if inverse else total**-0.5, "forward": float(total)}[norm]
    if norm == "forward" and not inverse:
        scale = 1 / total
    if scale != 1:
        out = lax.mul(out, lax.full_like(out, scale))
    return _moved(out, last, axes)


def _moved(a: Array, source: Shape, destination: Shape) -> Array:
    return a if source == destination else _moveaxis(a, source, destination)


def _resized(a: Array, axis: int, size: int) -> Array:
    """`a` cut, or with zeros at the end, along an axis."""
    old = a.shape[axis]
    if size < old:
        return lax.slice_in_dim(a, 0, size, axis=axis)
    padding = [(0, size - old if i == axis else 0, 0) for i in range(a.ndim)]
    return lax.pad(a, np.zeros((), a.dtype), padding) if size > old else a


def _one(name: str, kind: str, a: ArrayLike, n: int | None, axis: int, norm: str | None) -> Array:
    if isinstance(axis, (tuple, list)):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use jax.numpy.fft.{name}n. "
            f"Got axis = {axis!r}."
        )
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)


def _two(name: str, kind: str, a: ArrayLike, s: Any, axes: Sequence[int], norm: str | None) -> Array:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}.")
    return _transform(name, kind, a, s, axes, norm)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform along an axis.

    Args:
        a: array.
        n: the size to cut the axis to, or fill it up to with zeros; by default its own.
        axis: the axis.
        norm: what is divided by the size: "backward" (the default) the inverse transform, "forward" this one, "ortho"
            both, by its root.

    Raises:
        ValueError: n is not positive, or there is no such norm.

    >>> import veery.numpy as jnp
    >>> jnp.fft.fft(jnp.array([1.0, 0.0])).tolist()
    [(1+0j), (1+0j)]
    """
    return _one("fft", "FFT", a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`; see there."""
    return _one("ifft", "IFFT", a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first `n // 2 + 1` elements of `fft` of a real array, which tell the others; see there.

    Raises:
        ValueError: a is complex, n is not positive, or there is no such norm.
    """
    return _one("rfft", "RFFT", a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: a real array of n elements along the axis, by default of `2 * (a.shape[axis] - 1)`."""
    return _one("irfft", "IRFFT", a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """`fft` of an array that is Hermitian along the axis, given by its first half: a real array of n elements.

    >>> import veery.numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1.0, 1.0, 1.0])).tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    _check_norm(norm)
    a = ensure_arraylike("jnp.fft.hfft", a)
    return _one("hfft", "IRFFT", _conj(a), n, axis, _SWAPPED[norm])


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`."""
    _check_norm(norm)
    return _conj(_one("ihfft", "RFFT", a, n, axis, _SWAPPED[norm]))


def fft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The discrete Fourier transform over two axes; see fftn."""
    return _two("fft2", "FFT", a, s, axes, norm)


def ifft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `fft2`."""
    return _two("ifft2", "IFFT", a, s, axes, norm)


def rfft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`fft2` of a real array, half of the last axis; see rfftn."""
    return _two("rfft2", "RFFT", a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `rfft2`."""
    return _two("irfft2", "IRFFT", a, s, axes, norm)


def fftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The discrete Fourier transform over several axes.

    Args:
        a: array.
        s: the sizes to cut the axes to, or fill them up to with zeros; by default their own.
        axes: the axes; by default all, or as many of the last ones as there are sizes.
        norm: what is divided by the number of elements, see fft.

    Raises:
        ValueError: a size is not positive, axes are repeated or are not as many as sizes, or there is no such norm.

    >>> import veery.numpy as jnp
    >>> jnp.fft.fftn(jnp.ones((2, 2))).real.tolist()
    [[4.0, 0.0], [0.0, 0.0]]
    """
    return _transform("fftn", "FFT", a, s, axes, norm)


def ifftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `fftn`."""
    return _transform("ifftn", "IFFT", a, s, axes, norm)


def rfftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """`fftn` of a real array: the first `n // 2 + 1` elements along the last of the axes, which tell the others."""
    return _transform("rfftn", "RFFT", a, s, axes, norm)


def irfftn(
    a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Array:
    """The inverse of `rfftn`; `s` are the sizes of the real result."""
    return _transform("irfftn", "IRFFT", a, s, axes, norm)


# Frequencies, and their order.


def _frequencies(name: str, numbers: np.ndarray, n: int, d: ArrayLike, dtype: Any, device: Any) -> Array:
    if np.ndim(d) and np.size(d) != 1:
        raise ValueError(f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {list(d)}.")
    dtype = dtypes.default_float_dtype() if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, name)
    spacing = asarray(d * n, dtype).reshape(())
    return asarray(numbers, dtype, device=device) / spacing


def _count(name: str, n: Any) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {list(n)}.")
    return operator.index(n)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft`: 0, 1, ... and then the negative ones, by `n * d`.

    Args:
        n: the size of the transform.
        d: the spacing of the samples.
        dtype: of the result.
        device: where it goes.

    Raises:
        ValueError: n or d is no single number.

    >>> import veery.numpy as jnp
    >>> jnp.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    n = _count("fftfreq", n)
    k = np.arange(n)
    return _frequencies("fftfreq", np.where(k < (n + 1) // 2, k, k - n), n, d, dtype, device)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft`: 0, 1, ... `n // 2`, by `n * d`; see fftfreq.

    >>> import veery.numpy as jnp
    >>> jnp.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    n = _count("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """`x` with the frequency 0 moved to the middle of axes, by default of all.

    >>> import veery.numpy as jnp
    >>> jnp.fft.fftshift(jnp.arange(5)).tolist()
    [3, 4, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, lambda size: size // 2)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, lambda size: -(size // 2))


def _shifted(name: str, x: ArrayLike, axes: Any, shift: Any) -> Array:
    x = ensure_arraylike(f"jnp.fft.{name}", x)
    shape = np.shape(x)
    axes = tuple(range(len(shape))) if axes is None else as_axes(axes)
    return _roll(x, tuple(shift(shape[axis]) for axis in axes), axes)
