"""Polynomials as arrays of their coefficients, the highest power first."""

from __future__ import annotations

import operator

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery.numpy._arithmetic import add, multiply, negative, subtract
from veery.numpy._creation import asarray, full, zeros_like
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    check_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
)


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial at x, by Horner's rule.

    Args:
        p: coefficients along the first dimension.
        x: where to evaluate.
        unroll: steps of the loop that are written out.

    >>> polyval(np.array([1, 2, 3]), 10)
    Array(123, dtype=int32)
    """
    check_arraylike("polyval", p, x)
    return _polyval(p, x, unroll=operator.index(unroll))


@jit(static_argnames=("unroll",))
def _polyval(p: ArrayLike, x: ArrayLike, unroll: int) -> Array:
    p, x = map(asarray, promote_dtypes(p, x))
    p, x = p.astype(p.dtype), x.astype(p.dtype)
    shape = lax.broadcast_shapes(p.shape[1:], x.shape)
    start = full(shape, 0, p.dtype)
    step = lambda y, coefficient: (broadcast_to(add(multiply(y, x), coefficient), shape), None)
    return lax.scan(step, start, p, unroll=unroll)[0] if p.shape[0] else start


_polyval._name = "polyval"


def _aligned(name: str, a1: ArrayLike, a2: ArrayLike) -> list[Array]:
    """Both in one dtype, the shorter filled with zeros in front."""
    check_arraylike(name, a1, a2)
    x, y = map(asarray, promote_dtypes(a1, a2))
    size = max(x.shape[0], y.shape[0])
    rest = lambda v: [(0, 0, 0)] * (v.ndim - 1)
    return [lax.pad(v, np.zeros((), v.dtype), [(size - v.shape[0], 0, 0), *rest(v)]) for v in (x, y)]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> polyadd(np.array([1, 2, 3]), np.array([10]))
    Array([ 1,  2, 13], dtype=int32)
    """
    return add(*_aligned("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> polysub(np.array([1, 2, 3]), np.array([10]))
    Array([ 1,  2, -7], dtype=int32)
    """
    return subtract(*_aligned("polysub", a1, a2))


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> polyder(np.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    check_arraylike("polyder", p)
    m = operator.index(m)
    (x,) = promote_dtypes_inexact(p)
    x = asarray(x)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return x
    powers = np.arange(x.shape[0])[::-1]
    factors = np.prod([powers - i for i in range(m)], axis=0)[: max(x.shape[0] - m, 0)]
    return multiply(x[: factors.shape[0]], factors.astype(x.dtype))


def polyint(p: ArrayLike, m: int = 1, k: int | ArrayLike | None = None) -> Array:
    """The m-th integral of a polynomial.

    Args:
        p: coefficients.
        m: how often to integrate.
        k: constants of integration; 0 by default.

    >>> polyint(np.array([2, 2]), k=7)
    Array([1., 2., 7.], dtype=float32)
    """
    k = 0 if k is None else k
    check_arraylike("polyint", p, k)
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive")
    x, constants = map(asarray, promote_dtypes_inexact(p, k))
    if m == 0:
        return x
    constants = constants.ravel() if constants.ndim else lax.reshape(constants, (1,))
    if constants.shape[0] == 1:
        constants = broadcast_to(constants, (m,))
    if constants.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    for i in range(m):
        degrees = np.arange(x.shape[0], 0, -1).astype(x.dtype)
        x = lax.concatenate([x / degrees, constants[i : i + 1]], 0)
    return x


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
        a1: coefficients.
        a2: coefficients.
        trim_leading_zeros: whether leading zeros of the factors are dropped first (not while traced).

    >>> polymul(np.array([1, 2]), np.array([1, 3]))
    Array([1., 5., 6.], dtype=float32)
    """
    from veery.numpy import trim_zeros

    check_arraylike("polymul", a1, a2)
    x, y = map(asarray, promote_dtypes_inexact(a1, a2))
    if trim_leading_zeros and (x.shape[0] > 1 or y.shape[0] > 1):
        x, y = trim_zeros(x, trim="f"), trim_zeros(y, trim="f")
    return _polymul(x, y) if x.shape[0] and y.shape[0] else zeros_like(x, shape=(1,))


@jit
def _polymul(x: Array, y: Array) -> Array:
    """All products of coefficients, summed along the diagonals of equal degree."""
    n, m = x.shape[0], y.shape[0]
    products = multiply(x[:, None], y[None, :])
    padded = lax.pad(products, np.zeros((), products.dtype), [(0, 0, 0), (0, n, 0)])
    skewed = lax.reshape(lax.reshape(padded, (n * (m + n),))[: n * (m + n - 1)], (n, m + n - 1))
    return lax.reduce_sum(skewed, (0,))


_polymul._name = "polymul"


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials.

    Args:
        u: coefficients of the dividend.
        v: coefficients of the divisor.
        trim_leading_zeros: whether leading zeros of the remainder are dropped (not while traced).

    >>> polydiv(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    (Array([1., 1.], dtype=float32), Array([0., 0., 2.], dtype=float32))
    """
    from veery.numpy import trim_zeros

    check_arraylike("polydiv", u, v)
    rest, divisor = map(asarray, promote_dtypes_inexact(u, v))
    m, n = rest.shape[0] - 1, divisor.shape[0] - 1
    quotient = zeros_like(rest, shape=(max(m - n + 1, 1),))
    for k in range(m - n + 1):
        d = rest[k] / divisor[0]
        quotient = quotient.at[k].set(d)
        rest = rest.at[k : k + n + 1].add(negative(d) * divisor)
    return quotient, trim_zeros(rest, trim="f") if trim_leading_zeros else rest


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given zeros and leading coefficient 1.

    >>> poly(np.array([1, 2]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    check_arraylike("poly", seq_of_zeros)
    (zeros,) = promote_dtypes_inexact(seq_of_zeros)
    zeros = asarray(zeros)
    if zeros.ndim != 1:
        raise ValueError("input must be 1d: the characteristic polynomial of a matrix is not available")
    if not zeros.size:
        return full((), 1, zeros.dtype)
    out = full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        factor = lax.concatenate([full((1,), 1, zeros.dtype), negative(zeros[i : i + 1])], 0)
        out = _polymul(out, factor)
    return out
