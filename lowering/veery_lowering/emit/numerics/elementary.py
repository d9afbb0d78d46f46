"""The elementary functions that formulas of special functions are made of: those of this package, or a compiler's own.

Ours rely on the rounding of each operation, which XLA does not promise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics import real, trigonometry
from veery_lowering.emit.numerics._expr import Expr, copy_sign, polynomial, round_even, where

_native: ContextVar[bool] = ContextVar("native", default=False)


@contextmanager
def native() -> Iterator[None]:
    """A context in which formulas are made of StableHLO's operations."""
    token = _native.set(True)
    try:
        yield
    finally:
        _native.reset(token)


def is_native() -> bool:
    """Whether formulas are made of StableHLO's operations now."""
    return _native.get()


def nearest(x: Expr) -> Expr:
    """The nearest integer, ties to even, of numbers below 2**(the digits of the significand - 2).

    Two sums are faster for IREE than its operation; XLA would make none of them.
    """
    if is_native():
        return round_even(x)
    magic = 1.5 * 2.0 ** np.finfo(x.dtype).nmant
    return (x + magic) - magic


def exp(x: Expr) -> Expr:
    """e**x."""
    return Expr(hlo.exponential(x.value)) if is_native() else real.exp(x)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    return Expr(hlo.log(x.value)) if is_native() else real.log(x)


def log1p(x: Expr) -> Expr:
    """log(1 + x)."""
    return Expr(log_plus_one(x.value)) if is_native() else real.log1p(x)


def expm1(x: Expr) -> Expr:
    """e**x - 1."""
    return Expr(hlo.exponential_minus_one(x.value)) if is_native() else real.expm1(x)


def sinh(x: Expr) -> Expr:
    """The hyperbolic sine."""
    return Expr(hlo.sinh(x.value)) if is_native() else real.sinh(x)


def cosh(x: Expr) -> Expr:
    """The hyperbolic cosine."""
    return Expr(hlo.cosh(x.value)) if is_native() else real.cosh(x)


def sin_cos(x: Expr) -> tuple[Expr, Expr]:
    """The sine and the cosine."""
    if is_native():
        return Expr(hlo.sine(x.value)), Expr(hlo.cosine(x.value))
    return trigonometry.sin_cos(x)


def log_plus_one(operand: hlo.Value) -> hlo.Value:
    """log(1 + x) as operations. Where XLA's own errs by up to 120 units in the last place (float64), by others."""
    if hlo.dtype_of(operand) != np.float64:
        return hlo.log_plus_one(operand)
    x = Expr(operand)
    s = x / (2.0 + x)
    z = s * s
    near = (x > -0.29) & (x < 0.41)
    close = s * (2.0 + z * polynomial(z, real.LOG_COEFFICIENTS[8]))
    far = Expr(hlo.log((1.0 + x).value))
    return where(near, where(x.equals(0.0), x, close), far).value


def inverse_hyperbolic_tangent(operand: hlo.Value) -> hlo.Value:
    """The inverse hyperbolic tangent, of float64 by `log_plus_one`: XLA's own is made of its log1p."""
    if hlo.dtype_of(operand) != np.float64:
        return hlo.atanh(operand)
    a = abs(Expr(operand))
    double = a + a
    half = log_plus_one((double + double * a / (1.0 - a)).value)
    result = where(a.equals(1.0), np.inf, 0.5 * Expr(half))
    return copy_sign(where(a > 1.0, np.nan, result), Expr(operand)).value
