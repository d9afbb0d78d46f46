"""Convolutions and correlations in any number of dimensions."""

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

_MODES = ("full", "same", "valid")


def _part(mode: str, n1: int, n2: int) -> tuple[int, int]:
    """Where the wanted part of the full convolution of two vectors begins, and its size."""
    return {
        "full": (0, n1 + n2 - 1),
        "same": ((n2 - 1) // 2, n1),
        "valid": (min(n1, n2) - 1, max(n1, n2) - min(n1, n2) + 1),
    }[mode]


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise ValueError("mode must be one of ['full', 'same', 'valid']")


def _operands(name: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, Array]:
    in1, in2 = ensure_arraylike(name, in1, in2)
    x, y = (as_array(a) for a in promote_dtypes_inexact(in1, in2))
    if x.ndim != y.ndim:
        raise ValueError("in1 and in2 must have the same number of dimensions")
    return x, y


# ---------------------------------------------------------------------------------------------------------------------
# By Fourier transforms


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None) -> Array:
    """The convolution of two arrays by Fourier transforms: fast for large ones, exact to the precision of their sums.

    Args:
        in1: array.
        in2: array of as many dimensions.
        mode: "full", "same" (as large as in1, in the middle) or "valid" (where the smaller array is used as a whole).
        axes: over which; by default all. Along the others, which have the same sizes, there is a convolution for each
            place.

    Returns:
        An array of the float or complex dtype in which in1 and in2 meet.

    Raises:
        TypeError: in1 or in2 is no array.
        ValueError: the shapes do not fit, or there is no such mode.

    >>> import veery.numpy as jnp
    >>> fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0])).round(3).tolist()
    [1.0, 12.0, 20.0]
    """
    x, y = _operands("fftconvolve", in1, in2)
    _check_mode(mode)
    if axes is None:
        places = tuple(range(x.ndim))
    else:
        given: Any = (axes,) if np.ndim(axes) == 0 else axes
        places = tuple(canonicalize_axis(operator.index(axis), x.ndim) for axis in given)
    if any(x.shape[i] != y.shape[i] for i in set(range(x.ndim)) - set(places)):
        raise ValueError(f"mapped axes must have same shape; got in1.shape={x.shape} in2.shape={y.shape} axes={places}")
    sizes = [(x.shape[i], y.shape[i]) for i in places]
    if mode == "valid" and not (all(a >= b for a, b in sizes) or all(a <= b for a, b in sizes)):
        raise ValueError("For 'valid' mode, One input must be at least as large as the other in every dimension.")
    return run(_fftconvolve, x, y, mode=mode, axes=places)


def _fftconvolve(x: Array, y: Array, *, mode: str, axes: tuple[int, ...]) -> Array:
    sizes = [(x.shape[i], y.shape[i]) for i in axes]
    if all(1 in pair for pair in sizes):
        full = x * y
    else:
        is_complex = is_kind(x, np.complexfloating)
        forward, back = (fft.fftn, fft.ifftn) if is_complex else (fft.rfftn, fft.irfftn)
        shape = [a + b - 1 for a, b in sizes]
        full = back(forward(x, shape, axes) * forward(y, shape, axes), shape, axes)
    for axis, pair in zip(axes, sizes):
        start, size = _part(mode, *pair)
        full = lax.slice_in_dim(full, start, start + size, axis=axis)
    return full


# ---------------------------------------------------------------------------------------------------------------------
# By sums of products


def _direct(name: str, in1: ArrayLike, in2: ArrayLike, mode: str, precision: Any, part: Any = _part) -> Array:
    _check_mode(mode)
    x, y = _operands(name, in1, in2)
    if x.size == 0 or y.size == 0:
        raise ValueError(f"zero-size arrays not supported in convolutions, got shapes {x.shape} and {y.shape}.")
    pairs = list(zip(x.shape, y.shape))
    if not (all(a >= b for a, b in pairs) or all(a <= b for a, b in pairs)):
        raise ValueError("One input must be smaller than the other in every dimension.")
    return run(_sums_of_products, x, y, parts=tuple(part(mode, *pair) for pair in pairs), precision=precision)


def _sums_of_products(x: Array, y: Array, *, parts: tuple[tuple[int, int], ...], precision: Any) -> Array:
    paddings = []
    for n1, n2, (start, size) in zip(x.shape, y.shape, parts):
        before = min(n1, n2) - 1 - start
        paddings.append((before, size - max(n1, n2) - before + min(n1, n2) - 1))
    large, kernel = (x, y) if all(a >= b for a, b in zip(x.shape, y.shape)) else (y, x)
    out = lax.conv_general_dilated(
        lax.expand_dims(large, (0, 1)),
        lax.expand_dims(lax.rev(kernel, tuple(range(kernel.ndim))), (0, 1)),
        (1,) * x.ndim,
        paddings,
        precision=precision,
    )
    return lax.squeeze(out, (0, 1))


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The convolution of two arrays in all their dimensions.

    Args:
        in1: array.
        in2: array of as many dimensions.
        mode: "full", "same" (as large as in1, in the middle) or "valid" (where the smaller array is used as a whole).
        method: "direct" by sums of products, "fft" by Fourier transforms; "auto" is "direct".
        precision: of the products.

    Returns:
        An array of the float or complex dtype in which in1 and in2 meet.

    Raises:
        TypeError: in1 or in2 is no array.
        ValueError: the shapes do not fit, an array is empty, or there is no such mode or method.

    >>> import veery.numpy as jnp
    >>> convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0])).tolist()
    [1.0, 12.0, 20.0]
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode=mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    return _direct("convolve", in1, in2, mode, precision)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None) -> Array:
    """The correlation of two arrays in all their dimensions: the convolution with in2 reversed and conjugated.

    Arguments, result and errors are those of `convolve`.

    >>> import veery.numpy as jnp
    >>> correlate(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0])).tolist()
    [10.0, 21.0, 2.0]
    """
    return convolve(in1, _reversed("correlate", in1, in2), mode, method, precision)


def _reversed(name: str, in1: ArrayLike, in2: ArrayLike) -> Array:
    in1, in2 = ensure_arraylike(name, in1, in2)
    return jnp.conj(jnp.flip(in2))


def _check_plane(name: str, in1: ArrayLike, in2: ArrayLike, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(
            f"{name}() only supports boundary='fill', fillvalue=0; pad in1 with veery.numpy.pad for others"
        )
    in1, in2 = ensure_arraylike(name, in1, in2)
    if np.ndim(in1) != 2 or np.ndim(in2) != 2:
        raise ValueError(f"{name}() only supports 2-dimensional inputs.")


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The convolution of two matrices.

    Args:
        in1: array of two dimensions.
        in2: array of two dimensions.
        mode: see `convolve`.
        boundary: must be "fill".
        fillvalue: must be 0.
        precision: of the products.

    Raises:
        NotImplementedError: another boundary is asked for.
        TypeError: in1 or in2 is no array.
        ValueError: the shapes do not fit, an array is empty, or there is no such mode.

    >>> import veery.numpy as jnp
    >>> convolve2d(jnp.eye(2), jnp.array([[1.0, 2.0]])).tolist()
    [[1.0, 2.0, 0.0], [0.0, 1.0, 2.0]]
    """
    _check_plane("convolve2d", in1, in2, boundary, fillvalue)
    return _direct("convolve2d", in1, in2, mode, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """The correlation of two matrices: the convolution with in2 reversed and conjugated; see `convolve2d`.

    As in SciPy the part "same" begins at `size // 2` for each size of in2, so that it is not that of `correlate` where
    one is even, and the part "valid" is conjugated where in2 is the larger one.

    >>> import veery.numpy as jnp
    >>> correlate2d(jnp.eye(2), jnp.array([[1.0, 2.0]])).tolist()
    [[2.0, 1.0, 0.0], [0.0, 2.0, 1.0]]
    """
    _check_plane("correlate2d", in1, in2, boundary, fillvalue)
    part = lambda mode, n1, n2: (n2 // 2, n1) if mode == "same" else _part(mode, n1, n2)
    out = _direct("correlate2d", in1, _reversed("correlate2d", in1, in2), mode, precision, part)
    shapes = np.shape(in1), np.shape(in2)
    larger = shapes[0] != shapes[1] and all(a <= b for a, b in zip(*shapes))
    return jnp.conj(out) if mode == "valid" and larger else out
