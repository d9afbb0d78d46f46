"""References of special functions that SciPy lacks or defines otherwise, in float64."""

from __future__ import annotations

from types import ModuleType

import numpy as np

_EPS = np.finfo(np.float64).eps
_MAX_TERMS = 10_000
_LARGE = 1e3  # of a: from here on series are long, and lgamma(a) cancels digits that the density needs


def scipy_special() -> ModuleType:
    """scipy.special, imported at its first use: it takes a tenth of a second."""
    import scipy.special

    return scipy.special


def zeta_reference(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hurwitz' zeta, NaN at infinity. At the poles q = 0, -1, ... it is inf for even x, where both sides agree.

    Of the terms below 0, which SciPy takes one by one, magnitudes are added apart.
    """
    zeta = scipy_special().zeta
    mirrored = (q < 0) & (q != np.floor(q)) & (x > 1)
    value = zeta(x, np.where(mirrored, q - np.floor(q), np.where(q < 0, 0.0, q)))
    left = zeta(x, np.where(mirrored, np.ceil(q) - q, 1.0)) - zeta(x, np.where(mirrored, 1 - q, 1.0))
    both = np.where(x != np.floor(x), np.nan, value + np.where(x % 2 == 0, left, -left))
    value = np.where((np.isinf(x) | np.isinf(q)) & (x != 1), np.nan, np.where(mirrored, both, value))
    at_pole = np.where((x % 2 == 0) | (x == 1), np.inf, np.nan)
    return np.where((q <= 0) & (q == np.floor(q)), at_pole, value)


def digamma_reference(x: np.ndarray) -> np.ndarray:
    """SciPy's, which loses digits near the negative poles; there by reflection, from the exact distance to the pole."""
    value = scipy_special().digamma(x)
    distance = x - np.round(x)
    reflected = scipy_special().digamma(1 - x) - np.pi / np.tan(np.pi * distance)
    return np.where(x == 0, np.nan, np.where((x < 0) & (distance != 0), reflected, value))


def polygamma_reference(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(-1)^(m+1) m! zeta(m+1, x), and digamma for m = 0; NaN where m is negative or not whole."""
    special = scipy_special()
    sign = np.where(m % 2 == 0, -1.0, 1.0)
    value = sign * special.gamma(m + 1) * zeta_reference(m + 1, x)
    value = np.where(m == 0, digamma_reference(x), value)
    return np.where((m < 0) | (m != np.floor(m)), np.nan, value)


def betainc_reference(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """SciPy's, with its limits where a or b is 0, and NaN outside of a >= 0, b >= 0, 0 <= x <= 1."""
    value = scipy_special().betainc(a, b, x)
    value = np.where(a == 0, np.where(x == 0, 0.0, 1.0), np.where(b == 0, np.where(x == 1, 1.0, 0.0), value))
    return np.where((a >= 0) & (b >= 0) & ((a > 0) | (b > 0)) & (x >= 0) & (x <= 1), value, np.nan)


def igamma_grad_a_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """d/da P(a, x), where P(a, x) = 1 - Q(a, x) is the regularised lower incomplete gamma function."""
    density, slope = _slope_over_density(a, x)
    constant = (x == 0) | (np.isinf(x) != np.isinf(a))  # P is 0 or 1 there
    return np.where((a > 0) & (x >= 0), np.where(constant, 0.0, density * x * slope), np.nan)


def random_gamma_grad_reference(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx/da at constant P(a, x): -(dP/da) / (dP/dx)"""
    _, slope = _slope_over_density(a, x)
    return np.where((a > 0) & (x >= 0), np.where(x == 0, 0.0, -x * slope), np.nan)


def _slope_over_density(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p = dP/dx and (dP/da) / (p x), by the method that suits each element; NaN unless a and x are positive numbers."""
    regular = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    a, x = np.where(regular, a, 1.0), np.where(regular, x, 1.0)
    density = np.asarray(np.exp((a - 1) * np.log(x) - x - scipy_special().gammaln(a)))
    slope = np.zeros_like(density)
    large = a > _LARGE
    by_fraction = ~large & (x > 1) & (x > a)
    by_series = ~large & ~by_fraction
    for method, where in ((_fraction_slope, by_fraction), (_series_slope, by_series), (_integral_slope, large)):
        if np.any(where):
            slope[where] = method(a[where], x[where])
    density[large] = _large_density(a[large], x[large])
    return density, np.where(regular, slope, np.nan)


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


def _excess(a: np.ndarray, u: np.ndarray) -> np.ndarray:
    """a (u - log(1 + u)): the density p(t) t of Gamma(a) at t = a (1 + u) falls as exp of minus this."""
    return a * (u - np.log1p(u))


def _large_density(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The density at x with Stirling's series for Gamma(a)."""
    series = 1 + 1 / (12 * a) + 1 / (288 * a**2) - 139 / (51840 * a**3)
    return np.sqrt(a / (2 * np.pi)) / series * np.exp(-_excess(a, x / a - 1)) / x


def _integral_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dP/da is the integral of p(t) (log(t) - digamma(a)) dt over either tail that ends at x, up to the sign.

    In u = t / a - 1 the integrand is a bell of width 1 / sqrt(a), or falls exponentially far out.
    """
    nodes, weights = np.polynomial.legendre.leggauss(100)
    end = np.maximum(x / a - 1, -1 + 1e-12)
    decay = a * np.abs(end) / (1 + end)
    reach = np.minimum(10 / np.sqrt(a), 40 / np.maximum(decay, 1.0)) * np.where(end > 0, 1, -1)
    u = np.maximum(end[..., None] + reach[..., None] * (nodes + 1) / 2, -1 + 1e-12)
    offset = 1 / (2 * a) + 1 / (12 * a**2) - 1 / (120 * a**4)  # log(a) - digamma(a)
    ratio = np.exp(_excess(a, end)[..., None] - _excess(a[..., None], u))
    values = ratio * (np.log1p(u) + offset[..., None]) / (1 + u)
    return -np.sum(values * weights, axis=-1) * reach / 2
