"""Discrete Fourier transforms."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, host
from veery._core.ad import LINEAR, Zero
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery.lax import _arithmetic, _contract, _convert, _fft_reference, _fill, _matrix as mx, _shape, _slicing

ArrayLike = Any
Shape = tuple[int, ...]


class FftType(enum.IntEnum):
    """Which transform: complex, its inverse, of real numbers, and the inverse of that."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _fft_type(kind: FftType | str) -> FftType:
    if isinstance(kind, str):
        if kind.upper() not in FftType.__members__:
            raise ValueError(f"Unknown FFT type '{kind}'")
        return FftType[kind.upper()]
    try:
        return FftType(kind)
    except ValueError:
        raise TypeError(f"Unknown FFT type value '{kind}'") from None


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform over the last dimensions.

    Args:
        x: array; what is not of the transform's dtype is converted to it.
        fft_type: "FFT", "IFFT", "RFFT" or "IRFFT", or the members of FftType of these names.
        fft_lengths: the sizes of the transformed dimensions; for RFFT and IRFFT those of the real array, of whose
            transform the last dimension has `n // 2 + 1` elements.

    Raises:
        ValueError: the last dimensions of x have other sizes, RFFT is given complex numbers, there is no such type.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.fft(np.array([1.0, 2.0, 3.0, 4.0], np.float32), "RFFT", (4,)).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    kind = _fft_type(fft_type)
    lengths = tuple(int(n) for n in fft_lengths)
    dtype = _convert.dtype(x)
    if kind == FftType.RFFT:
        if dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError("only real valued inputs supported for rfft")
        wanted = dtypes.to_inexact_dtype(dtype)
    else:
        wanted = dtypes.to_complex_dtype(dtype)
    x = x if dtype == wanted else _convert.convert_element_type(x, wanted)
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else x


_DTYPES = {FftType.RFFT: ("float32", "float64")}


def _fft_abstract_eval(x: ShapedArray, *, fft_type: FftType, fft_lengths: Shape) -> ShapedArray:
    allowed = _DTYPES.get(fft_type, ("complex64", "complex128"))
    name = "FFT" if fft_type == FftType.IFFT else fft_type.name
    if x.dtype.name not in allowed:
        raise ValueError(f"{name} input must be {' or '.join(allowed)}, got {x.dtype.name}")
    count = len(fft_lengths)
    if x.ndim < count:
        raise ValueError(
            f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths {fft_lengths}."
        )
    *others, last = fft_lengths
    half = (*others, last // 2 + 1)
    expected = half if fft_type == FftType.IRFFT else fft_lengths
    given = x.shape[x.ndim - count :]
    if fft_type == FftType.IRFFT and given[:-1] != tuple(others):
        raise ValueError(
            f"{name} input shape {x.shape} minor dimensions must be equal to all except the last fft_length, "
            f"got {fft_lengths=}"
        )
    if given != tuple(expected):
        which = "half of the last fft_length and one, got " if fft_type == FftType.IRFFT else ""
        raise ValueError(
            f"{name} input shape {x.shape} minor dimensions must be equal to {which}fft_lengths {fft_lengths}"
        )
    sizes = half if fft_type == FftType.RFFT else fft_lengths
    dtype = dtypes.finfo(x.dtype).dtype if fft_type == FftType.IRFFT else dtypes.to_complex_dtype(x.dtype)
    return ShapedArray((*x.shape[: x.ndim - count], *sizes), dtype)


def _fft_transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: Shape) -> list[Any]:
    """The matrix of the transform is symmetric. Of that of real numbers half of the rows are there, of its inverse
    half of the columns, which count twice but for the first and, in an even number of them, the last.
    """
    if type(ct) is Zero:
        return [Zero(x.aval)]
    if fft_type in (FftType.FFT, FftType.IFFT):
        return [fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]
    n = fft_lengths[-1]
    if fft_type == FftType.RFFT:
        padding = [(0, 0, 0)] * (np.ndim(ct) - 1) + [(0, n - (n // 2 + 1), 0)]
        full = _shape.pad(ct, np.zeros((), mx.dtype_of(ct)), padding)
        return [_arithmetic.real(fft_p.bind(full, fft_type=FftType.FFT, fft_lengths=fft_lengths))]
    k = np.arange(n // 2 + 1)
    weights = np.where((k == 0) | (2 * k == n), 1.0, 2.0) / math.prod(fft_lengths)
    half = _arithmetic.conj(fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths))
    return [_arithmetic.mul(half, _along_last(weights, half))]


# The transform as products of matrices, where there is no NumPy. Real and imaginary parts are arrays of their own:
# IREE does not compile all programs that have complex matrices as constants ("initialization order invalid").

_LARGEST_FACTOR = 64
Parts = tuple[Any, Any]


def _fft_composition(x: Any, *, fft_type: FftType, fft_lengths: Shape) -> Any:
    rank = np.ndim(x)
    *others, last = range(rank - len(fft_lengths), rank)
    cut = lambda y, start, stop: _slicing.slice_in_dim(y, start, stop, axis=last)
    if fft_type == FftType.RFFT:
        re, im = _transformed((x, _fill.full_like(x, 0)), last, False)
        parts = cut(re, 0, fft_lengths[-1] // 2 + 1), cut(im, 0, fft_lengths[-1] // 2 + 1)
    else:
        parts = _arithmetic.real(x), _arithmetic.imag(x)
    inverse = fft_type in (FftType.IFFT, FftType.IRFFT)
    for axis in others:
        parts = _transformed(parts, axis, inverse)
    if fft_type == FftType.IRFFT:
        re, im = (_shape.rev(cut(y, 1, (fft_lengths[-1] + 1) // 2), (last,)) for y in parts)
        whole = (_shape.concatenate([x, y], last) for x, y in zip(parts, (re, _arithmetic.neg(im))))
        return _transformed((next(whole), next(whole)), last, True)[0]
    return _arithmetic.complex(*(parts if fft_type == FftType.RFFT else _transformed(parts, last, inverse)))


def _transformed(x: Parts, axis: int, inverse: bool) -> Parts:
    out = _dft(_each(lambda y: _shape.moveaxis(y, axis, -1), x), 1 if inverse else -1)
    if inverse:
        scale = np.asarray(1 / np.shape(x[0])[axis], mx.dtype_of(x[0]))
        out = _each(lambda y: _arithmetic.mul(y, scale), out)
    return _each(lambda y: _shape.moveaxis(y, -1, axis), out)


def _each(fun: Callable[[Any], Any], x: Parts) -> Parts:
    return fun(x[0]), fun(x[1])


def _along_last(vector: np.ndarray, like: Any) -> Any:
    """A vector repeated over all dimensions but the last, in the dtype of another array."""
    return _over(vector, like, (np.ndim(like) - 1,))


def _over(factors: np.ndarray, like: Any, dimensions: Sequence[int]) -> Any:
    return _shape.broadcast_in_dim(factors.astype(mx.dtype_of(like)), np.shape(like), tuple(dimensions))


def _times(x: Parts, factors: np.ndarray) -> Parts:
    """The product with complex factors of the last dimensions."""
    re, im = x
    dimensions = range(np.ndim(re) - factors.ndim, np.ndim(re))
    a, b = _over(factors.real, re, dimensions), _over(factors.imag, re, dimensions)
    mul = _arithmetic.mul
    return _arithmetic.sub(mul(re, a), mul(im, b)), _arithmetic.add(mul(re, b), mul(im, a))


def _product(x: Parts, matrix: np.ndarray) -> Parts:
    """The product of the last dimension with a complex matrix, as one of real ones."""
    re, im, n = matrix.real, matrix.imag, len(matrix)
    both = _shape.concatenate(x, np.ndim(x[0]) - 1)
    real = np.block([[re, im], [-im, re]]).astype(mx.dtype_of(both))
    dims = (((np.ndim(both) - 1,), (0,)), ((), ()))
    out = _contract.dot_general(both, real, dims, precision=_contract.Precision.HIGHEST)
    return mx.columns(out, 0, n), mx.columns(out, n, 2 * n)


def _roots(exponents: np.ndarray, n: int, sign: int) -> np.ndarray:
    """exp(sign 2 pi i exponent / n), exact where that is a quarter of a turn."""
    quarters, rest = np.divmod(4 * (exponents % n), n)
    return np.exp(sign * 0.5j * np.pi * rest / n) * np.array([1, sign * 1j, -1, -sign * 1j])[quarters]


def _dft(x: Parts, sign: int) -> Parts:
    """The sums of x_j exp(sign 2 pi i j k / n) over the last dimension.

    With n = p q, j = q a + b and k = c + p d it is transforms of size p over a, factors that depend on b and c, and
    transforms of size q over b (Cooley and Tukey). A prime is made a convolution of a size that is a power of two.
    """
    *batch, n = np.shape(x[0])
    if n <= _LARGEST_FACTOR:
        return _product(x, _roots(np.outer(np.arange(n), np.arange(n)), n, sign))
    p = next((p for p in range(_LARGEST_FACTOR, 1, -1) if n % p == 0), 1)
    if p == 1:
        return _chirp(x, sign)
    q, swapped = n // p, mx.transpose
    columns = _each(lambda y: swapped(_shape.reshape(y, (*batch, p, q))), x)
    columns = _product(columns, _roots(np.outer(np.arange(p), np.arange(p)), p, sign))
    columns = _times(columns, _roots(np.outer(np.arange(q), np.arange(p)), n, sign))
    rows = _dft(_each(swapped, columns), sign)
    return _each(lambda y: _shape.reshape(swapped(y), (*batch, n)), rows)


def _chirp(x: Parts, sign: int) -> Parts:
    """Bluestein's: jk = (j^2 + k^2 - (k - j)^2) / 2, so that what is left is a convolution with exp(-i pi j^2 / n)."""
    rank, n = np.ndim(x[0]), np.shape(x[0])[-1]
    size = 1 << (2 * n - 2).bit_length()
    chirp = _roots(np.arange(n) ** 2, 2 * n, sign)
    kernel = np.zeros(size, complex)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp[1:][::-1].conj()
    padding, zero = [(0, 0, 0)] * (rank - 1) + [(0, size - n, 0)], np.zeros((), mx.dtype_of(x[0]))
    scaled = _each(lambda y: _shape.pad(y, zero, padding), _times(x, chirp))
    spectrum = _times(_dft(scaled, -1), np.fft.fft(kernel) / size)
    return _times(_each(lambda y: mx.columns(y, 0, n), _dft(spectrum, 1)), chirp)


fft_p = Primitive(
    "fft",
    checks=("nan",),
    host=host.calls(16),
    abstract_eval=_fft_abstract_eval,
    jvp=LINEAR,
    transpose=_fft_transpose,
    reference=_fft_reference.transformed,
    composition=_fft_composition,
)
mx.batch_in_front(fft_p)
