"""The error function and its inverse in float32.

Normal samples are the inverse of uniform ones, so its last bits decide whether programs with a seed give the numbers
that they give in JAX. The order of operations here is that of XLA's CPU compiler, down to which product is added to
which term, since the compiler turns such pairs into fused multiply-adds.

Measured on 1,000,000 samples of each: IREE's own expansions differ from XLA in 1.7% (the inverse, by up to 3 ulp) and
in 68% (by up to 8 ulp); these in none.
"""

from __future__ import annotations

import numpy as np

from veery_lowering.emit.numerics._expr import Expr, copy_sign, sqrt, where
from veery_lowering.emit.numerics.samples import horner, log1p_inside

# M. Giles, "Approximating the erfinv function" (2010), table 5: of w = -log(1 - x^2), for w < 5 and for w >= 5,
# in powers of w - 2.5 and of sqrt(w) - 3, the highest first.
_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
# erf(x) / x as a quotient of polynomials of x^2, the highest power first; beyond the limit erf rounds to 1.
_ERF_NUMERATOR = (0.00022905065, 0.003408291, 0.050955694, 0.18520832, 1.1283791)
_ERF_DENOMINATOR = (-1.1791603e-07, 2.3547966e-05, 0.0010179626, 0.01407047, 0.11098505, 0.49746925, 1.0)
_ERF_LIMIT = 3.832507


def erf(x: Expr) -> Expr:
    """The error function of float32 values."""
    square = x * x
    numerator = x * horner(square, x.constant(_ERF_NUMERATOR[0]), _ERF_NUMERATOR[1:])
    denominator = horner(square, x.constant(_ERF_DENOMINATOR[0]), _ERF_DENOMINATOR[1:])
    return where(abs(x) >= _ERF_LIMIT, copy_sign(x.constant(1.0), x), numerator / denominator)


def erf_inv(x: Expr) -> Expr:
    """The inverse error function of float32 values: infinite at -1 and 1, NaN beyond."""
    log = log1p_inside(x * -x)
    w = -log
    centre = w < 5.0
    t = where(centre, w + -2.5, sqrt(w) + -3.0)
    result = where(centre, x.constant(_CENTRE[0]), x.constant(_TAIL[0]))
    for near, far in zip(_CENTRE[1:], _TAIL[1:]):
        result = where(centre, x.constant(near), x.constant(far)) + result * t
    inside = where(abs(x) > 1.0, x.constant(np.nan), result * x)
    return where(abs(x).equals(1.0), x * np.inf, inside)
