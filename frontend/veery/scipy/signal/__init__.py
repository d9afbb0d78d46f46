"""Signals: convolutions and correlations, trends, and spectra of windowed segments."""

from veery.scipy.signal._convolution import (
    convolve as convolve,
    convolve2d as convolve2d,
    correlate as correlate,
    correlate2d as correlate2d,
    fftconvolve as fftconvolve,
)
from veery.scipy.signal._spectral import csd as csd, istft as istft, stft as stft, welch as welch
from veery.scipy.signal._trends import detrend as detrend
