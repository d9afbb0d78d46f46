"""Elementary functions of random samples: those of lax, but for the last bits, which are JAX's.

`exp`, `log`, `log1p`, `pow`, `tan` and `rsqrt` of lax round otherwise than XLA's CPU compiler and the C library do.
Samples are to be the same numbers, so `veery.random` applies these.
"""

from __future__ import annotations

from veery._core import cost
from veery._core.primitive import Primitive
from veery.lax._arithmetic import pow_p
from veery.lax._declare import FLOAT, binary, unary
from veery.lax._operands import Array, ArrayLike, apply
from veery.lax._transcendental import exp_p, log1p_p, log_p, rsqrt_p, tan_p


def exp(x: ArrayLike) -> Array:
    """e to the power x."""
    return apply(sample_exp_p, x)


def log(x: ArrayLike) -> Array:
    """The natural logarithm of x."""
    return apply(sample_log_p, x)


def log1p(x: ArrayLike) -> Array:
    """log(1 + x)."""
    return apply(sample_log1p_p, x)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y."""
    return apply(sample_pow_p, x, y)


def tan(x: ArrayLike) -> Array:
    """The tangent of x."""
    return apply(sample_tan_p, x)


def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x)."""
    return apply(sample_rsqrt_p, x)


def _rounded_as_samples(general: Primitive) -> Primitive:
    return unary(
        f"sample_{general.name}", FLOAT, checks=("nan",), cost=cost.transcendental, reference=general.reference,
        jvp=general.jvp,
    )  # fmt: skip


sample_exp_p = _rounded_as_samples(exp_p)
sample_log_p = _rounded_as_samples(log_p)
sample_log1p_p = _rounded_as_samples(log1p_p)
sample_tan_p = _rounded_as_samples(tan_p)
sample_rsqrt_p = _rounded_as_samples(rsqrt_p)
sample_pow_p: Primitive = binary(
    "sample_pow", FLOAT, checks=("nan",), cost=cost.transcendental, reference=pow_p.reference, jvp=pow_p.jvp
)
