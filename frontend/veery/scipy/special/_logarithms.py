"""Logistic functions, entropies, and other functions of logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_jvp
from veery.nn._normalisation import log_softmax as _log_softmax, logsumexp as logsumexp, softmax as _softmax
from veery.numpy._elementwise import elementwise
from veery.numpy._promotion import Array, ArrayLike, promote_args_inexact
from veery.scipy.special._operands import real


@elementwise
def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    Args:
        x: array; integers become floats.

    >>> float(expit(0.0))
    0.5
    """
    return lax.logistic(*promote_args_inexact("expit", x))


@real(weak="numbers", refusal=None)
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit; NaN outside of [0, 1].

    Args:
        x: array of real numbers.

    >>> round(float(logit(0.75)), 4)
    1.0986
    """
    return _logit(x)


@custom_jvp
def _logit(x: Array) -> Array:
    # Near 1/2 the quotient is close to 1, and its logarithm would have its rounding.
    near = jnp.abs(x - 0.5) < 0.2
    safe = jnp.where(near, x, 0.5)
    return jnp.where(near, jnp.log1p((2 * safe - 1) / (1 - safe)), jnp.log(x / (1 - x)))


_logit.defjvps(lambda t, out, x: t / (x * (1 - x)))


@real(refusal=None)
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 where x is 0, unless y is NaN.

    Args:
        x: array of real numbers.
        y: the same.

    >>> float(xlogy(0.0, 0.0))
    0.0
    """
    return _xlogy(x, y)


@custom_jvp
def _xlogy(x: Array, y: Array) -> Array:
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log(y), 0)


_xlogy.defjvps(lambda t, out, x, y: t * jnp.log(y), lambda t, out, x, y: t * x / y)


@real(refusal=None)
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), and 0 where x is 0, unless y is NaN.

    Args:
        x: array of real numbers.
        y: the same.

    >>> float(xlog1py(0.0, -1.0))
    0.0
    """
    return _xlog1py(x, y)


@custom_jvp
def _xlog1py(x: Array, y: Array) -> Array:
    return jnp.where((x != 0) | jnp.isnan(y), x * jnp.log1p(y), 0)


_xlog1py.defjvps(lambda t, out, x, y: t * jnp.log1p(y), lambda t, out, x, y: t * x / (1 + y))


@custom_jvp
def _xlogx(x: Array) -> Array:
    return _xlogy(x, x)


_xlogx.defjvps(lambda t, out, x: t * (jnp.log(x) + 1))


@real
def entr(x: ArrayLike) -> Array:
    """-x log(x), the summands of entropies: 0 at 0, -inf for negative x.

    Args:
        x: array of real numbers.

    >>> round(float(entr(0.5)), 4)
    0.3466
    """
    return jnp.where(x < 0, -np.inf, -_xlogx(x))


@real(weak="numbers")
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q), the summands of relative entropies.

    Args:
        p: array of real numbers.
        q: the same.

    Returns:
        0 where p is 0 and q is not negative; inf where one is negative, or q is 0 and p is not.

    >>> round(float(rel_entr(2.0, 1.0)), 4)
    1.3863
    """
    return _rel_entr(p, q)


def _rel_entr(p: Array, q: Array) -> Array:
    positive = (p > 0) & (q > 0)
    safe_p, safe_q = jnp.where(positive, p, 1), jnp.where(positive, q, 1)
    # p log p - p log q would cancel where the two are close.
    ratio = safe_p / safe_q
    near = (ratio > 0.5) & (ratio < 2)
    finite = (ratio > 0) & (ratio < np.inf)
    log_ratio = jnp.where(
        near,
        jnp.log1p(jnp.where(near, safe_p - safe_q, 0) / safe_q),
        jnp.where(finite, jnp.log(jnp.where(finite, ratio, 1)), jnp.log(safe_p) - jnp.log(safe_q)),
    )
    outside = jnp.where((p == 0) & (q >= 0), 0, jnp.where(jnp.isnan(p) | jnp.isnan(q), np.nan, np.inf))
    return jnp.where(positive, safe_p * log_ratio, outside)


@real(weak="numbers")
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q, the summands of Kullback and Leibler's divergence; see rel_entr.

    Args:
        p: array of real numbers.
        q: the same.

    >>> round(float(kl_div(2.0, 1.0)), 4)
    0.3863
    """
    outside = (p < 0) | (q < 0) | ((p > 0) & (q == 0))
    return jnp.where(outside & ~jnp.isnan(p) & ~jnp.isnan(q), np.inf, _rel_entr(p, q) - p + q)


@real(refusal=None)
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x^lmbda - 1) / lmbda, and its limit log(x) where lmbda is 0.

    Args:
        x: array of real numbers.
        lmbda: the same.

    >>> float(boxcox(3.0, 2.0))
    4.0
    """
    return _boxcox(jnp.log(x), lmbda)


@real(refusal=None)
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda), accurate for small x.

    Args:
        x: array of real numbers.
        lmbda: the same.

    >>> float(boxcox1p(2.0, 2.0))
    4.0
    """
    return _boxcox(jnp.log1p(x), lmbda)


@custom_jvp
def _boxcox(log_x: Array, lmbda: Array) -> Array:
    safe = jnp.where(lmbda == 0, 1, lmbda)
    return jnp.where(lmbda == 0, log_x, jnp.expm1(safe * log_x) / safe)


def _boxcox_by_lambda(log_x: Array, lmbda: Array) -> Array:
    """The derivative by lmbda: with t = lmbda log(x), log(x)^2 times the sum of (k + 1) / (k + 2)! t^k."""
    t = jnp.where((lmbda == 0) & jnp.isinf(log_x), 0, lmbda * log_x)
    small = jnp.abs(t) < 1
    near = jnp.where(small, t, 0)
    total = jnp.zeros_like(near)
    for k in reversed(range(18)):
        total = total * near + (k + 1) / math.factorial(k + 2)
    divisor = jnp.where(small, 1, lmbda)
    power = jnp.exp(jnp.where(small, 0, t))
    grown = jnp.where(power == 0, 0, jnp.where(power == 0, 0, log_x) * power)
    return jnp.where(small, log_x * log_x * total, (grown - jnp.expm1(jnp.where(small, 0, t)) / divisor) / divisor)


_boxcox.defjvps(
    lambda t, out, log_x, lmbda: t * jnp.exp(lmbda * log_x),
    lambda t, out, log_x, lmbda: t * _boxcox_by_lambda(log_x, lmbda),
)


def softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """exp(x) / sum(exp(x)) along axes, without overflow.

    Args:
        x: array.
        axis: axis or axes; None for all.

    >>> softmax(np.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return _softmax(x, axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """log(softmax(x)) along axes, without overflow.

    Args:
        x: array.
        axis: axis or axes; None for all.

    >>> [round(float(y), 4) for y in log_softmax(np.zeros(2))]
    [-0.6931, -0.6931]
    """
    return _log_softmax(x, axis=axis)
