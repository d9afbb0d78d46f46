"""Polynomials as arrays of their coefficients, the highest power first."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.shapes import check_concrete
from veery.numpy import linalg
from veery.numpy._arithmetic import add, multiply, negative, sqrt, subtract
from veery.numpy._creation import asarray, from_host_of, full, number, zeros, zeros_like
from veery.numpy._elementwise import run
from veery.numpy._matrices import eye, vander
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    promote_dtypes,
    promote_dtypes_inexact,
    to_dtype,
)
from veery.numpy._selection import where
from veery.numpy._shaping import roll, trim_zeros


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial at x, by Horner's rule.

    Args:
        p: coefficients along the first dimension.
        x: where to evaluate.
        unroll: steps of the loop that are written out.

    >>> polyval(np.array([1, 2, 3]), 10)
    Array(123, dtype=int32)
    """
    p, x = ensure_arraylike("polyval", p, x)
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


def _aligned(x: Array, y: Array, *, combine: Callable[..., Array]) -> Array:
    """What a function makes of both in one dtype, the shorter filled with zeros in front."""
    x, y = promote_dtypes(x, y)
    size = max(x.shape[0], y.shape[0])
    rest = lambda v: [(0, 0, 0)] * (v.ndim - 1)
    zero = to_dtype(0, x.dtype, x.weak_type)
    return combine(*(lax.pad(v, zero, [(size - v.shape[0], 0, 0), *rest(v)]) for v in (x, y)))


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> polyadd(np.array([1, 2, 3]), np.array([10]))
    Array([ 1,  2, 13], dtype=int32)
    """
    return run(_aligned, *map(asarray, ensure_arraylike("polyadd", a1, a2)), combine=add)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> polysub(np.array([1, 2, 3]), np.array([10]))
    Array([ 1,  2, -7], dtype=int32)
    """
    return run(_aligned, *map(asarray, ensure_arraylike("polysub", a1, a2)), combine=subtract)


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> polyder(np.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    p = ensure_arraylike("polyder", p)
    m = operator.index(m)
    (x,) = promote_dtypes_inexact(p)
    x = asarray(x)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if m == 0:
        return x
    return run(_polyder, x, m=m)


def _polyder(x: Array, *, m: int) -> Array:
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
    k = number(0) if k is None else k
    p, k = ensure_arraylike("polyint", p, k)
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
    return run(_polyint, x, constants)


def _polyint(x: Array, constants: Array) -> Array:
    for i in range(constants.shape[0]):
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
    a1, a2 = ensure_arraylike("polymul", a1, a2)
    x, y = map(asarray, promote_dtypes_inexact(a1, a2))
    if trim_leading_zeros and (x.shape[0] > 1 or y.shape[0] > 1):
        x, y = trim_zeros(x, trim="f"), trim_zeros(y, trim="f")
    x, y = (v if v.shape[0] else zeros_like(v, shape=(1,)) for v in (x, y))
    return _polymul(x, y)


@jit
def _polymul(x: Array, y: Array) -> Array:
    """All products of coefficients, summed along the diagonals of equal degree."""
    n, m, dtype = x.shape[0], y.shape[0], x.dtype
    if dtypes.itemsize_bits(dtype) < 32:
        x, y = (to_dtype(v, np.dtype(np.float32)) for v in (x, y))  # rounded once, as a product of matrices is
    products = multiply(x[:, None], y[None, :])
    padded = lax.pad(products, to_dtype(0, products.dtype, products.weak_type), [(0, 0, 0), (0, n, 0)])
    skewed = lax.reshape(lax.reshape(padded, (n * (m + n),))[: n * (m + n - 1)], (n, m + n - 1))
    total = lax.reduce_sum(skewed, (0,))
    return total if total.dtype == dtype else to_dtype(total, dtype)


_polymul._name = "polymul"


def _trimmed(x: Array) -> Array:
    """Coefficients without leading ones that are zero, up to the square root of the dtype's precision."""
    check_concrete(x, "Error arose in jnp.polydiv()")
    counts = np.abs(np.asarray(x)) >= np.sqrt(dtypes.finfo(x.dtype).eps)
    return x[len(x) if not counts.any() else int(np.argmax(counts)) :]


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials.

    Args:
        u: coefficients of the dividend.
        v: coefficients of the divisor.
        trim_leading_zeros: whether leading zeros of the remainder are dropped (not while traced).

    >>> polydiv(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    (Array([1., 1.], dtype=float32), Array([0., 0., 2.], dtype=float32))
    """
    u, v = ensure_arraylike("polydiv", u, v)
    rest, divisor = map(asarray, promote_dtypes_inexact(u, v))
    m, n = len(rest) - 1, len(divisor) - 1
    quotient = zeros((max(m - n + 1, 1),), rest.dtype)
    for k in range(m - n + 1):
        d = rest[k] / divisor[0]
        quotient = quotient.at[k].set(d)
        rest = rest.at[k : k + n + 1].add(negative(d) * divisor)
    return quotient, _trimmed(rest) if trim_leading_zeros else rest


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given zeros and leading coefficient 1.

    Args:
        seq_of_zeros: the zeros; or a square matrix, whose eigenvalues they are (its characteristic polynomial).

    Raises:
        ValueError: the array is neither of one dimension nor a square matrix.

    >>> poly(np.array([1, 2]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    seq_of_zeros = ensure_arraylike("poly", seq_of_zeros)
    (zeros,) = promote_dtypes_inexact(seq_of_zeros)
    zeros = asarray(zeros)
    zeros = zeros[None] if zeros.ndim == 0 else zeros
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = linalg.eigvals(zeros)
    if zeros.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not zeros.size:
        return full((), 1, zeros.dtype)
    out = full((1,), 1, zeros.dtype)
    for i in range(zeros.shape[0]):
        factor = lax.concatenate([full((1,), 1, zeros.dtype), negative(zeros[i : i + 1])], 0)
        out = _polymul(out, factor)
    return out


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial: the eigenvalues of its companion matrix, on the CPU alone, as in JAX.

    Args:
        p: coefficients.
        strip_zeros: whether leading zeros are dropped, for which their number must be known (not while traced). Else
            there is a NaN at the end of the result for each of them.

    Returns:
        Complex numbers, in no order.

    Raises:
        ValueError: p is not of one dimension.

    >>> roots(np.array([1.0, -3.0, 2.0])).real.tolist()
    [2.0, 1.0]
    """
    p = ensure_arraylike("roots", p)
    (x,) = map(asarray, promote_dtypes_inexact(p))
    if x.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    if x.shape[0] < 2:
        return full((0,), 0, dtypes.to_complex_dtype(x.dtype))
    if not strip_zeros:
        return _roots_with_zeros(x)
    if isinstance(x, ArrayImpl):
        zeros = np.argmax(np.append(x.to_numpy() != 0, True))
        x = from_host_of(x.to_numpy()[zeros:], x) if zeros else x
    else:
        x = x[int(_leading_zeros(x)) :]
    return run(_companion_roots, x) if x.shape[0] > 1 else full((0,), 0, dtypes.to_complex_dtype(x.dtype))


@jit
def _leading_zeros(p: Array) -> Array:
    return lax.reduce_sum(lax.cumprod(lax.convert_element_type(p == 0, np.int32)), (0,))


def _companion_roots(p: Array) -> Array:
    n = p.shape[0] - 1
    first = lax.expand_dims(negative(p[1:]) / p[0], (0,))
    return linalg.eigvals(lax.concatenate([first, eye(n - 1, n, dtype=p.dtype)], 0))


@jit
def _roots_with_zeros(p: Array) -> Array:
    """Zeros in front, moved to the end, are zeros of the polynomial, which are then made NaN."""
    leading = _leading_zeros(p)
    rolled = where((p == 0).all(), 1, roll(p, -leading))
    found = _companion_roots(rolled)
    _, found = lax.sort((found == 0, found), num_keys=1)
    return where(np.arange(found.shape[0]) < found.shape[0] - leading, found, np.nan)


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Array | tuple[Array, ...]:
    """The polynomial of a degree that comes nearest to points, by least squares.

    Args:
        x: where the points are, of shape (m,).
        y: their values, of shape (m,), or (m, k) for k polynomials.
        deg: the degree.
        rcond: singular values below it, relative to the largest, count as zero; by default m times the dtype's epsilon.
        full: whether the sums of squared residuals, rank, singular values and rcond are returned too.
        w: weights of the differences, of shape (m,).
        cov: whether the covariance of the coefficients is returned too; "unscaled" where weights are known errors.

    Raises:
        ValueError: the degree is negative, or there are not enough points for the covariance.
        TypeError: the arrays' shapes do not fit.

    >>> polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), 1).round(3).tolist()
    [2.0, 1.0]
    """
    x, y = ensure_arraylike("polyfit", x, y)
    deg = operator.index(deg)
    if deg < 0:
        raise ValueError("expected deg >= 0")
    points, values = map(asarray, promote_dtypes_inexact(x, y))
    if points.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if not points.size:
        raise TypeError("expected non-empty vector for x")
    if values.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if points.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = points.shape[0] * float(dtypes.finfo(points.dtype).eps)
    if w is not None:
        w = ensure_arraylike("polyfit", w)
        if np.ndim(w) != 1:
            raise TypeError("expected a 1-d array for weights")
        if np.shape(w)[0] != values.shape[0]:
            raise TypeError("expected w and y to have the same length")
    if cov and not full and cov != "unscaled" and points.shape[0] <= deg + 1:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    return _polyfit(
        points, values, w, rcond=rcond, deg=deg, full=bool(full), cov=cov if isinstance(cov, str) else bool(cov)
    )


@jit(static_argnames=("rcond", "deg", "full", "cov"))
def _polyfit(points: Array, values: Array, w: Any, *, rcond: float, deg: int, full: bool, cov: bool | str) -> Any:
    matrix, right = vander(points, deg + 1), values
    if w is not None:
        weights = asarray(w).astype(right.dtype)
        matrix, right = matrix * weights[:, None], right * (weights[:, None] if right.ndim == 2 else weights)
    scale = sqrt((matrix * matrix).sum(axis=0))
    matrix = matrix / scale[None, :]
    coefficients, residuals, rank, s = linalg.lstsq(matrix, right, rcond)
    coefficients = coefficients / (scale[:, None] if values.ndim == 2 else scale)
    if full:
        return coefficients, residuals, rank, s, asarray(rcond)
    if not cov:
        return coefficients
    base = linalg.inv(matrix.T @ matrix) / (scale[:, None] * scale[None, :])
    if cov == "unscaled":
        factor: Any = np.ones((), base.dtype)
    else:
        factor = residuals / (points.shape[0] - (deg + 1))
        factor = factor[0] if values.ndim == 1 else factor[None, None, :]
    return coefficients, base * factor if values.ndim == 1 else base[:, :, None] * factor


_polyfit._name = "polyfit"
