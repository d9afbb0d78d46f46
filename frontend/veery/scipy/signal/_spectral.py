"""Spectra of a signal's segments, each seen through a window; and the signal that has these spectra."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes, source
from veery._core.shapes import canonicalize_axis
from veery.numpy import fft
from veery.numpy._arithmetic import is_kind
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, ensure_arraylikes, promote_dtypes_inexact
from veery.numpy._shaping import as_array
from veery.scipy.signal._trends import detrend as _without_trend

Window = Any  # a name, a tuple of a name and its parameters, or an array
_BOUNDARIES = ("even", "odd", "constant", "zeros", None)


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=source.user_stacklevel())


# ---------------------------------------------------------------------------------------------------------------------
# Windows and segments


class _Segments(NamedTuple):
    """How a signal is cut, along its last axis."""

    size: int
    step: int
    fft_size: int
    boundary: str | None
    padded: bool
    detrend: Callable[[Array], Array]
    onesided: bool

    def missing(self, length: int) -> int:
        """How many zeros at the end of a signal make the last segment whole."""
        return (-(length - self.size) % self.step) % self.size if self.padded else 0

    def count(self, length: int) -> int:
        """How many segments a signal has."""
        if self.boundary is not None:
            length += 2 * (self.size // 2)
        return max((length + self.missing(length) - self.size) // self.step + 1, 0)


def _named_window(window: str | tuple[Any, ...], size: int) -> np.ndarray:
    if window == "hann":
        return np.ones(1) if size == 1 else np.sin(np.pi * np.arange(size) / size) ** 2
    from scipy.signal import get_window

    return np.asarray(get_window(window, size))


def _window_of(window: Window, size: int | None, length: int, dtype: Any) -> tuple[Array, int]:
    """The window as an array, and its size."""
    if isinstance(window, (str, tuple)):
        size = length if size is None else size
        if size > length:
            _warn(f"nperseg={size} is greater than input_length={length}, using nperseg={length}")
            size = length
        return jnp.asarray(_named_window(window, size), dtype), size
    values = jnp.asarray(window, dtype)
    if values.ndim != 1:
        raise ValueError("window must be 1-D")
    if length < values.size:
        raise ValueError("window is longer than input signal")
    if size not in (None, values.size):
        raise ValueError("value specified for nperseg is different from length of window")
    return values, values.size


def _constant(x: Array) -> Array:
    return _without_trend(x, type="constant")


def _linear(x: Array) -> Array:
    return _without_trend(x, type="linear")


def _same(x: Array) -> Array:
    return x


def _detrender(kind: Any, axis: int, rank: int) -> Callable[[Array], Array]:
    """What takes the trends of segments away, which lie along the last axis, for a user's function along `axis`."""
    if isinstance(kind, str):
        if kind not in ("constant", "linear"):
            raise ValueError("Trend type must be 'linear' or 'constant'.")
        return _constant if kind == "constant" else _linear
    if callable(kind):
        return kind if axis == rank - 1 else lambda x: jnp.moveaxis(kind(jnp.moveaxis(x, -1, axis)), axis, -1)
    if kind:
        raise ValueError(f"Unsupported detrend type: {kind}")
    return _same


def _extended(x: Array, n: int, boundary: str | None) -> Array:
    """The signal with n elements more at both ends."""
    if boundary is None or n < 1:
        return x
    width = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary in ("zeros", "constant"):
        return jnp.pad(x, width, "constant" if boundary == "zeros" else "edge")
    if boundary == "odd" and n > x.shape[-1] - 1:
        raise ValueError(
            f"The extension length n ({n}) is too big. It must not exceed x.shape[axis]-1, which is {x.shape[-1] - 1}."
        )
    return jnp.pad(x, width, "reflect", reflect_type=boundary)


def _transformed(x: Array, window: Array, cut: _Segments) -> Array:
    """The transforms of the segments along the last axis: one axis more."""
    count = cut.count(x.shape[-1])
    x = _extended(x, cut.size // 2, cut.boundary)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, cut.missing(x.shape[-1]))])
    places = cut.step * np.arange(count)[:, None] + np.arange(cut.size)
    segments = cut.detrend(x[..., places])
    segments = segments * lax.broadcast_to_rank(window, segments.ndim)
    return fft.rfft(jnp.real(segments), cut.fft_size) if cut.onesided else fft.fft(segments, cut.fft_size)


# ---------------------------------------------------------------------------------------------------------------------
# Spectra


def _spectra(
    name: str,
    signals: tuple[ArrayLike, ...],
    fs: ArrayLike,
    window: Window,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    onesided: bool,
    axis: int,
    *,
    scaling: str,
    power: bool,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and for each segment the transform, its power, or the product of those of two signals."""
    if boundary not in _BOUNDARIES:
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {list(_BOUNDARIES)}")
    signals = ensure_arraylikes(name, *signals)
    xs = [as_array(x) for x in promote_dtypes_inexact(*signals)]
    if len({x.ndim for x in xs}) > 1:
        raise ValueError(f"two-arguments must have the same rank ({xs[0].ndim} vs {xs[1].ndim}).")
    axis = canonicalize_axis(int(axis), xs[0].ndim)
    try:
        batch = lax.broadcast_shapes(*(x.shape[:axis] + x.shape[axis + 1 :] for x in xs))
    except ValueError as error:
        raise ValueError("x and y cannot be broadcast together.") from error
    dtype = dtypes.to_complex_dtype(xs[0].dtype)
    real = dtypes.finfo(dtype).dtype

    if nperseg is not None and int(nperseg) < 1:
        raise ValueError("nperseg must be a positive integer")
    values, size = _window_of(window, None if nperseg is None else int(nperseg), xs[0].shape[axis], xs[0].dtype)
    if any(x.size == 0 for x in xs):
        shape = (*batch[:axis], min(x.shape[axis] for x in xs), *batch[axis:])
        return jnp.zeros(shape, real), jnp.zeros(shape, real), jnp.zeros(shape, dtype)
    fft_size = size if nfft is None else int(nfft)
    if fft_size < size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    if onesided and is_kind(xs[0], np.complexfloating):
        _warn("Input data is complex, switching to return_onesided=False")
        onesided = False
    detrender = _detrender(detrend, axis, xs[0].ndim)
    cut = _Segments(size, size - overlap, fft_size, boundary, bool(padded), detrender, bool(onesided))

    frequencies = (fft.rfftfreq if onesided else fft.fftfreq)(fft_size, 1 / fs, dtype=real)
    count = cut.count(max(x.shape[axis] for x in xs))
    times = cut.step * np.arange(count) + (size / 2 if boundary is None else 0)
    static = {"cut": cut, "axis": axis, "density": scaling == "density", "power": bool(power)}
    return frequencies, jnp.asarray(times, real) / fs, run(_products, values, jnp.asarray(fs), *xs, **static)


def _products(window: Array, fs: Array, *xs: Array, cut: _Segments, axis: int, density: bool, power: bool) -> Array:
    xs = tuple(jnp.moveaxis(x, axis, -1) for x in xs)
    length = max(x.shape[-1] for x in xs)
    xs = tuple(jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])]) for x in xs)
    transforms = [_transformed(x, window, cut) for x in xs]
    result = jnp.conj(transforms[0]) * transforms[-1] if power else transforms[0]
    scale = 1 / (jnp.sum(window * window) * fs) if density else 1 / jnp.square(jnp.sum(window))
    result = result * (scale if power else jnp.sqrt(scale)).astype(result.dtype)
    if cut.onesided and power:  # each frequency but 0, and the largest of an even size, stands for two
        doubled = np.full(result.shape[-1], 2)
        doubled[0] = 1
        if cut.fft_size % 2 == 0:
            doubled[-1] = 1
        result = result * lax.broadcast_to_rank(doubled.astype(result.dtype), result.ndim)
    return jnp.moveaxis(result if len(xs) > 1 or not power else jnp.real(result), -1, axis)


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform: that of overlapping segments, each seen through a window.

    Args:
        x: array.
        fs: the number of samples in a unit of time.
        window: the name of a window of `scipy.signal.get_window`, a tuple of a name and its parameters, or an array.
        nperseg: the size of segments, at most that of the signal.
        noverlap: how many samples two of them have in common, by default half.
        nfft: the size of the transforms, by default that of the segments.
        detrend: "constant" or "linear" (see `detrend`), or a function of segments; False for none.
        return_onesided: whether frequencies of real signals are returned from 0 on; else the negative ones, too.
        boundary: how the signal goes on at both ends: "zeros", "constant", "even", "odd", or None for not at all.
        padded: whether zeros at the end make the last segment whole.
        axis: of time.

    Returns:
        The frequencies, the times of the segments' middles, and a complex array with the frequencies along `axis` and
        the segments along its last axis.

    Raises:
        TypeError: x is no array.
        ValueError: the sizes do not fit, or there is no such window, boundary or trend.

    >>> import veery.numpy as jnp
    >>> frequencies, times, z = stft(jnp.ones(16), nperseg=8)
    >>> frequencies.tolist(), times.tolist()
    ([0.0, 0.125, 0.25, 0.375, 0.5], [0.0, 4.0, 8.0, 12.0, 16.0])
    >>> abs(z[0, 1:4]).round(3).tolist()
    [1.0, 1.0, 1.0]
    """
    cutting = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis)
    return _spectra("stft", (x,), *cutting, scaling="spectrum", power=False, boundary=boundary, padded=padded)


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross power spectral density of two signals, by Welch's method: an average over segments.

    Args:
        x: array.
        y: array of as many dimensions, which broadcasts with x but along `axis`, where the shorter one is continued
            by zeros; None for x, whose spectrum is real.
        fs: see `stft`.
        window: see `stft`.
        nperseg: the size of segments, by default that of the window or the signal.
        noverlap: see `stft`.
        nfft: see `stft`.
        detrend: see `stft`.
        return_onesided: see `stft`.
        scaling: "density" for power by frequency, "spectrum" for power.
        axis: of time.
        average: "mean", or "median", which is corrected for its bias.

    Returns:
        The frequencies, and the spectrum with these along `axis`.

    Raises:
        TypeError: x or y is no array.
        ValueError: the shapes or sizes do not fit, or there is no such window, trend, scaling or average.

    >>> import veery.numpy as jnp
    >>> x = jnp.array([1.0, -1.0, 1.0, -1.0])
    >>> frequencies, spectrum = csd(x, 2 * x, window="boxcar")
    >>> spectrum.real.round(3).tolist()
    [0.0, 0.0, 8.0]
    """
    signals = (x,) if y is None else (x, y)
    cutting = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis)
    frequencies, _, spectra = _spectra("csd", signals, *cutting, scaling=scaling, power=True)
    if spectra.ndim < 2 or not spectra.size:
        return frequencies, spectra
    if spectra.shape[-1] > 1 and average not in ("mean", "median"):
        raise ValueError(f'average must be "median" or "mean", got {average}')
    return frequencies, run(_average, spectra, median=average == "median")


def _average(x: Array, *, median: bool) -> Array:
    if not median or x.shape[-1] == 1:
        return jnp.mean(x, axis=-1)
    even = np.arange(2.0, x.shape[-1], 2)
    bias = 1 + np.sum(1 / (even + 1) - 1 / even)  # Allen et al. 2012, appendix B
    parts = [jnp.median(part(x), axis=-1) / float(bias) for part in (jnp.real, jnp.imag)]
    return lax.complex(*parts) if is_kind(x, np.complexfloating) else parts[0]


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, by Welch's method: see `csd`, of the signal with itself.

    >>> import veery.numpy as jnp
    >>> frequencies, power = welch(jnp.array([1.0, -1.0, 1.0, -1.0]), window="boxcar")
    >>> power.round(3).tolist()
    [0.0, 0.0, 4.0]
    """
    cutting = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)
    frequencies, power = csd(x, None, *cutting)
    return frequencies, jnp.real(power)


# ---------------------------------------------------------------------------------------------------------------------
# Back


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal with a given short-time Fourier transform; the one of least squares where there is none.

    Args:
        Zxx: array of at least two dimensions, as `stft` gives it.
        fs: the number of samples in a unit of time.
        window: that of the transform, see `stft`.
        nperseg: the size of segments, by default as many as there are frequencies.
        noverlap: how many samples two of them have in common, by default half.
        nfft: the size of the transforms.
        input_onesided: whether the frequencies are those from 0 on, of a real signal.
        boundary: whether the signal was continued at its ends.
        time_axis: the axis of segments.
        freq_axis: the axis of frequencies.

    Returns:
        Times, and the signal, along the last axis or what was `time_axis`.

    Raises:
        TypeError: Zxx is no array.
        ValueError: the sizes or axes do not fit, or there is no such window.

    >>> import veery.numpy as jnp
    >>> _, _, z = stft(jnp.arange(8.0), nperseg=4)
    >>> istft(z, nperseg=4)[1].round(3).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    Zxx = ensure_arraylike("istft", Zxx)
    z = as_array(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    freq_axis, time_axis = (canonicalize_axis(axis, z.ndim) for axis in (freq_axis, time_axis))
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    z = z.astype(dtypes.to_complex_dtype(z.dtype))
    count = z.shape[freq_axis]
    usual = 2 * (count - 1) if input_onesided else count
    size = int(nperseg or usual)
    if size < 1:
        raise ValueError("nperseg must be a positive integer")
    if nfft is None:
        fft_size = size if input_onesided and size == usual + 1 else usual
    else:
        fft_size = int(nfft)
    if fft_size < size:
        raise ValueError(f"FFT length ({fft_size}) must be longer than nperseg ({size}).")
    overlap = int(noverlap or size // 2)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    dtype = dtypes.finfo(z.dtype).dtype if input_onesided else z.dtype
    if isinstance(window, (str, tuple)):
        values = jnp.asarray(_named_window(window, size), dtype)
    else:
        values = jnp.asarray(window)
        if values.ndim != 1:
            raise ValueError("window must be 1-D")
        if values.shape[0] != size:
            raise ValueError(f"window must have length of {size}")

    static = {"size": size, "step": size - overlap, "fft_size": fft_size, "onesided": bool(input_onesided)}
    x = run(_istft, jnp.moveaxis(z, (time_axis, freq_axis), (-2, -1)), values, boundary=bool(boundary), **static)
    if time_axis != z.ndim - 1:
        x = jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return jnp.arange(x.shape[0], dtype=dtypes.finfo(x.dtype).dtype) / fs, x


def _istft(z: Array, window: Array, *, size: int, step: int, fft_size: int, onesided: bool, boundary: bool) -> Array:
    segments = (fft.irfft if onesided else fft.ifft)(z, fft_size)[..., :size]
    weighted = segments * lax.broadcast_to_rank(window * jnp.sum(window), segments.ndim)
    x = _added(weighted, step)
    norm = _added(jnp.broadcast_to(window * window, (z.shape[-2], size)), step)
    if boundary:
        x, norm = (a[..., size // 2 : -(size // 2)] for a in (x, norm))
    seen = lax.abs(norm) > 1e-10
    return x / lax.broadcast_to_rank(jnp.where(seen, norm, 1), x.ndim)


def _added(segments: Array, step: int) -> Array:
    """The sum of the segments, each `step` places behind the one before."""
    *batch, count, size = segments.shape
    places = step * np.arange(count)[:, None] + np.arange(size)
    total = jnp.zeros((*batch, step * (count - 1) + size), segments.dtype)
    return total.at[..., places].add(segments)
