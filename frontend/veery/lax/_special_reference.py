"""References of special functions that SciPy lacks or defines otherwise, in float64."""

from __future__ import annotations

from types import ModuleType

import numpy as np

_EPS = np.finfo(np.float64).eps
_MAX_TERMS = 10_000


def scipy_special() -> ModuleType:
    """scipy.special, imported at its first use: it takes a tenth of a second."""
    import scipy.special

    return scipy.special


def polygamma_reference(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(-1)^(m+1) m! zeta(m+1, x), and digamma for m = 0; NaN where m is negative or not whole."""
    special = scipy_special()
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    value = sign * special.gamma(m + 1) * special.zeta(m + 1, x)
    value = np.where(m == 0, np.where(x == 0, np.nan, special.digamma(x)), value)
    return np.where((m < 0) | (m != np.floor(m)), np.nan, value)


def betainc_reference(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """SciPy's, with NaN outside of a > 0, b > 0, 0 <= x <= 1."""
    value = scipy_special().betainc(a, b, x)
    return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), value, np.nan)


def igamma_grad_a_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d/da P(a, x), where P(a, x) = 1 - Q(a, x) is the regularised lower incomplete gamma function."""
    density, slope = _slope_over_density(a, x)
    return np.where(_valid(a, x), np.where(x == 0, 0.0, density * x * slope), np.nan)


def random_gamma_grad_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx/da at constant P(a, x): -(dP/da) / (dP/dx)"""
    _, slope = _slope_over_density(a, x)
    return np.where(_valid(a, x), np.where(x == 0, 0.0, -x * slope), np.nan)


def _valid(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (a > 0) & (x >= 0) & np.isfinite(x) & np.isfinite(a)


def _slope_over_density(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p = dP/dx and (dP/da) / (p x)."""
    a, x = np.broadcast_arrays(a, x)
    by_fraction = (x > 1) & (x > a)
    safe_a = np.where(_valid(a, x), a, 1.0)
    safe_x = np.where(_valid(a, x) & (x > 0), x, 1.0)
    lower = _series_slope(safe_a, np.where(by_fraction, np.minimum(safe_x, 1.0), safe_x))
    upper = _fraction_slope(safe_a, np.where(by_fraction, safe_x, safe_a + 2.0))
    density = np.exp((safe_a - 1) * np.log(safe_x) - safe_x - scipy_special().gammaln(safe_a))
    return density, np.where(by_fraction, upper, lower)


# The derivatives by a of the sums below are taken with a complex step: f(a + ih) = f(a) + ih f'(a) to rounding, for an
# h so small that h^2 vanishes.
_STEP = 1e-100


def _series_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """For x that is not much greater than a: P = p x / a S, with S = sum over n of x^n / ((a+1) ... (a+n)).

    The logarithmic derivative of p / a by a is log(x) - digamma(a + 1).
    """
    stepped = a + 1j * _STEP
    term = np.ones_like(stepped)
    total = term
    for n in range(1, _MAX_TERMS):
        term = term * (x / (stepped + n))
        total = total + term
        if _is_negligible(term, total):
            break
    return (total.imag / _STEP + total.real * (np.log(x) - scipy_special().digamma(a + 1))) / a


def _fraction_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """For x greater than a: 1 - P = p x F, with Legendre's continued fraction, summed by Steed's method,

    F = 1 / (x + 1 - a + 1 (a - 1) / (x + 3 - a + 2 (a - 2) / (x + 5 - a + ...))).
    """
    stepped = a + 1j * _STEP
    denominator = 1 / (x + 1 - stepped)
    change = denominator
    total = denominator
    for n in range(1, _MAX_TERMS):
        partial = x + 2 * n + 1 - stepped
        denominator = 1 / (partial + n * (stepped - n) * denominator)
        change = (partial * denominator - 1) * change
        total = total + change
        if _is_negligible(change, total):
            break
    return -(total.imag / _STEP + total.real * (np.log(x) - scipy_special().digamma(a)))


def _is_negligible(change: np.ndarray, total: np.ndarray) -> bool:
    """Whether neither value nor derivative of any sum changes any more."""
    small = (np.abs(change.real) <= _EPS * np.abs(total.real)) & (np.abs(change.imag) <= _EPS * np.abs(total.imag))
    return bool(np.all(small | np.isnan(total.real)))
