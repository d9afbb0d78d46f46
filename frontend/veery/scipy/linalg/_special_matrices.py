"""Matrices that are given by a formula, or by their first row and column."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._core import dtypes
from veery.numpy._creation import from_host
from veery.numpy._elementwise import run
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    ensure_arraylike_or_none,
    ensure_arraylikes,
    promote_args_inexact,
    promote_dtypes,
    to_dtype,
)
from veery.numpy._shaping import as_array

# ---------------------------------------------------------------------------------------------------------------------
# Of vectors, which may be stacked in leading dimensions.


def _vector(x: ArrayLike) -> Any:
    """The array, a scalar as a vector of one element."""
    x = as_array(x)
    return lax.expand_dims(x, (0,)) if x.ndim == 0 else x


def _gathered(entries: Array, places: np.ndarray) -> Array:
    """The matrix of the elements at these places of the last axis."""
    return entries[..., places]


def _joined(x: Array, y: Array) -> Array:
    """Two stacks of vectors, one behind the other, in one dtype."""
    x, y = (as_array(a) for a in promote_dtypes(x, y))
    batch = lax.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return lax.concatenate([broadcast_to(a, (*batch, a.shape[-1])) for a in (x, y)], len(batch))


def _grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The row and the column numbers of the elements of a matrix."""
    i, j = np.indices((rows, columns))
    return i, j


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along diagonals, by its first column and its first row.

    Args:
        c: array of shape (..., m), the first column; a scalar is one of one element.
        r: array of shape (..., n), the first row, whose first element is not used; by default the conjugate of c.

    Returns:
        An array of shape (..., m, n), of the dtype in which c and r meet.

    Raises:
        TypeError: c or r is no array.

    >>> import veery.numpy as jnp
    >>> toeplitz(jnp.array([1, 2, 3]), jnp.array([0, 4])).tolist()
    [[1, 4], [2, 1], [3, 2]]
    """
    c, r = ensure_arraylike_or_none("toeplitz", c, r)
    c = _vector(c)
    c = to_dtype(c, c.dtype)
    return run(_toeplitz, c, jnp.conj(c) if r is None else _vector(r))


def _toeplitz(c: Array, r: Array) -> Array:
    (m,), (n,) = c.shape[-1:], r.shape[-1:]
    i, j = _grid(m, n)
    return _gathered(_joined(lax.rev(c, (c.ndim - 1,)), r[..., 1:]), m - 1 - i + j)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix that is constant along anti-diagonals, by its first column and its last row.

    Args:
        c: array of shape (..., m), the first column.
        r: array of shape (..., n), the last row, whose first element is not used; by default m zeros.

    Returns:
        An array of shape (..., m, n), of the dtype in which c and r meet.

    Raises:
        TypeError: c or r is no array.
        ValueError: c or r is a scalar.

    >>> import veery.numpy as jnp
    >>> hankel(jnp.array([1, 2, 3]), jnp.array([0, 4])).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    c, r = ensure_arraylike_or_none("hankel", c, r)
    for name, x in (("c", c), ("r", r)):
        if x is not None and np.ndim(x) == 0:
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    return run(_hankel, c, jnp.zeros_like(c) if r is None else r)


def _hankel(c: Array, r: Array) -> Array:
    i, j = _grid(c.shape[-1], r.shape[-1])
    return _gathered(_joined(c, r[..., 1:]), i + j)


def circulant(c: ArrayLike) -> Array:
    """The square matrix whose columns are the first one, each rotated by one place more.

    Args:
        c: array of shape (..., n); a scalar is one of one element.

    Returns:
        An array of shape (..., n, n) and the dtype of c.

    Raises:
        TypeError: c is no array.

    >>> import veery.numpy as jnp
    >>> circulant(jnp.array([1, 2, 3])).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    c = ensure_arraylike("circulant", c)
    return run(_circulant, _vector(c))


def _circulant(c: Array) -> Array:
    n = c.shape[-1]
    i, j = _grid(n, n)
    return _gathered(c, (i - j) % max(n, 1))


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The Leslie matrix of a population: fecundities in the first row, survival rates below the diagonal.

    Args:
        f: array of shape (..., n) with n >= 2.
        s: array of shape (..., n - 1).

    Returns:
        An array of shape (..., n, n), of the dtype in which f and s meet.

    Raises:
        TypeError: f or s is no array.
        ValueError: the lengths do not fit.

    >>> import veery.numpy as jnp
    >>> leslie(jnp.array([1, 2, 3]), jnp.array([4, 5])).tolist()
    [[1, 2, 3], [4, 0, 0], [0, 5, 0]]
    """
    f, s = ensure_arraylike("leslie", f, s)
    f, s = _vector(f), _vector(s)
    if f.shape[-1] < 2:
        raise ValueError(f"The length of f along the last axis must be at least 2; got shape {f.shape}.")
    if s.shape[-1] != f.shape[-1] - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f; "
            f"got f shape {f.shape} and s shape {s.shape}."
        )
    return run(_row_and_subdiagonal, *promote_dtypes(f, s))


def _row_and_subdiagonal(row: Array, below: Array) -> Array:
    """The square matrix with this first row, and these elements below the diagonal."""
    batch = lax.broadcast_shapes(row.shape[:-1], below.shape[:-1])
    row, below = (broadcast_to(x, (*batch, x.shape[-1])) for x in (row, below))
    n = row.shape[-1]
    i, j = _grid(n, n)
    places = np.where(i == 0, j, np.where(i == j + 1, n + j, 2 * n - 1))
    zero = lax.full_like(row[..., :1], 0)
    return _gathered(lax.concatenate([row, below, zero], row.ndim - 1), places)


def companion(a: ArrayLike) -> Array:
    """The companion matrix of a polynomial, whose eigenvalues are its roots.

    Args:
        a: array of shape (..., n) with n >= 2, the coefficients of the highest power first.

    Returns:
        An array of shape (..., n - 1, n - 1), of the dtype of a or its float; infinite or NaN where a begins with 0.

    Raises:
        TypeError: a is no array.
        ValueError: there are fewer than two coefficients.

    >>> import veery.numpy as jnp
    >>> companion(jnp.array([1.0, -3.0, 2.0])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    (a,) = promote_args_inexact("companion", a)
    a = _vector(a)
    if a.shape[-1] < 2:
        raise ValueError(f"The length of `a` along the last axis must be at least 2; got shape {a.shape}.")
    return run(_companion, a)


def _companion(a: Array) -> Array:
    return _row_and_subdiagonal(-a[..., 1:] / a[..., :1], lax.full_like(a[..., 2:], 1))


def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix of the distances `abs(a[i] - a[j])`.

    Args:
        a: array of shape (..., n); a scalar is one of one element.

    Returns:
        An array of shape (..., n, n).

    Raises:
        TypeError: a is no array, or of bools.

    >>> import veery.numpy as jnp
    >>> fiedler(jnp.array([1, 4, 2])).tolist()
    [[0, 3, 1], [3, 0, 2], [1, 2, 0]]
    """
    a = ensure_arraylike("fiedler", a)
    return run(_fiedler, _vector(a))


def _fiedler(a: Array) -> Array:
    square = (*a.shape, a.shape[-1])
    rows = lax.broadcast_in_dim(a, square, tuple(range(a.ndim)))
    return jnp.abs(lax.sub(rows, jnp.swapaxes(rows, -1, -2)))


def fiedler_companion(a: ArrayLike) -> Array:
    """A companion matrix with five diagonals, whose eigenvalues are the roots of a polynomial (Fiedler 2003).

    Args:
        a: array of shape (..., n), the coefficients of the highest power first.

    Returns:
        An array of shape (..., n - 1, n - 1), of the dtype of a or its float; infinite or NaN where a begins with 0.

    Raises:
        TypeError: a is no array.
        ValueError: there is no coefficient.

    >>> import veery.numpy as jnp
    >>> fiedler_companion(jnp.array([1.0, -6.0, 11.0, -6.0])).tolist()
    [[6.0, -11.0, 1.0], [1.0, 0.0, 0.0], [0.0, 6.0, 0.0]]
    """
    (a,) = promote_args_inexact("fiedler_companion", a)
    a = _vector(a)
    if a.shape[-1] < 1:
        raise ValueError(f"The length of `a` along the last axis must be at least 1; got shape {a.shape}.")
    return run(_fiedler_companion, a)


def _fiedler_companion(a: Array) -> Array:
    n = a.shape[-1] - 1
    if n == 0:
        return lax.full((*a.shape[:-1], 0, 0), 0, a.dtype)
    i, j = _grid(n, n)
    zero, one = n, n + 1  # the places behind the coefficients
    places = np.full((n, n), zero)
    places[0, 0] = 0
    above, below = (j == i + 1) & (i % 2 == 0), (i == j + 1) & (i % 2 == 0)
    places[above] = j[above]
    places[below] = i[below]
    places[((j == i + 2) & (i % 2 == 0)) | ((i == j + 2) & (i % 2 == 1)) | ((i == 1) & (j == 0))] = one
    last = -a[..., 1:] / a[..., :1]
    ends = [lax.full_like(last[..., :1], value) for value in (0, 1)]
    return _gathered(lax.concatenate([last, *ends], last.ndim - 1), places)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix A with `A @ v = convolve(a, v, mode)` for vectors v of n elements.

    Args:
        a: array of shape (..., m) with m >= 1.
        n: the number of columns.
        mode: "full", "same" or "valid": as of `veery.numpy.convolve`.

    Returns:
        An array of shape (..., k, n) and the dtype of a, k being the size of the convolution.

    Raises:
        TypeError: a is no array, or n no integer.
        ValueError: n is not positive, a is empty or a scalar, or the mode is unknown.

    >>> import veery.numpy as jnp
    >>> convolution_matrix(jnp.array([1, 2]), 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    a = ensure_arraylike("convolution_matrix", a)
    shape = np.shape(a)
    if not shape:
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got a scalar.")
    if shape[-1] == 0:
        raise ValueError(f"len(a) must be at least 1; got shape {shape}.")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    return run(_convolution_matrix, a, n=n, mode=mode)


def _convolution_matrix(a: Array, *, n: int, mode: str) -> Array:
    m = a.shape[-1]
    short, long = min(m, n), max(m, n)
    start, size = {"full": (0, m + n - 1), "same": ((short - 1) // 2, long), "valid": (short - 1, long - short + 1)}[
        mode
    ]
    i, j = _grid(size, n)
    places = i + start - j
    zero = lax.full_like(a[..., :1], 0)
    return _gathered(lax.concatenate([a, zero], a.ndim - 1), np.where((places >= 0) & (places < m), places, m))


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with these blocks along its diagonal, zero elsewhere.

    Args:
        *arrs: matrices; scalars and vectors are matrices of one row.

    Returns:
        An array of the dtype in which the blocks meet; without blocks one of shape (1, 0).

    Raises:
        TypeError: a block is no array.
        ValueError: a block has more than two dimensions.

    >>> import veery.numpy as jnp
    >>> block_diag(1, jnp.array([[2, 3], [4, 5]])).tolist()
    [[1, 0, 0], [0, 2, 3], [0, 4, 5]]
    """
    if not arrs:
        return from_host(np.zeros((1, 0), dtypes.default_float_dtype()))
    arrs = ensure_arraylikes("block_diag", *arrs)
    for place, x in enumerate(arrs):
        if np.ndim(x) > 2:
            raise ValueError(
                f"Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got {x} at argument {place}."
            )
    dtype = dtypes.result_type(*arrs)
    return run(_block_diag, *(to_dtype(x, dtype) for x in arrs))


def _block_diag(*blocks: Array) -> Array:
    blocks = tuple(lax.reshape(x, (1,) * (2 - np.ndim(x)) + np.shape(x)) for x in blocks)
    columns = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        width = x.shape[1]
        rows.append(lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (before, columns - before - width, 0)]))
        before += width
    return lax.concatenate(rows, 0)


# ---------------------------------------------------------------------------------------------------------------------
# Of a size alone: computed in 64 bits, and rounded once.


def _size(n: Any) -> int:
    n = operator.index(n)
    if n < 0:
        raise TypeError(f"The size of a matrix must be nonnegative, got {n}.")
    return n


def _rounded(values: np.ndarray, dtype: Any = None) -> Array:
    with np.errstate(over="ignore"):
        return from_host(values.astype(dtypes.default_float_dtype() if dtype is None else dtype))


def hilbert(n: int) -> Array:
    """The Hilbert matrix, `1 / (i + j + 1)`.

    Args:
        n: the number of rows and columns.

    Raises:
        TypeError: n is no integer, or negative.

    >>> hilbert(2).round(3).tolist()
    [[1.0, 0.5], [0.5, 0.3330000042915344]]
    """
    i, j = _grid(_size(n), n)
    return _rounded(1.0 / (i + j + 1))


def _binomials(n: int) -> np.ndarray:
    """The symmetric matrix of `binomial(i + j, i)`: each row is the cumulative sum of the one before."""
    rows = [np.ones(n)]
    with np.errstate(over="ignore"):
        while len(rows) < n:
            rows.append(np.cumsum(rows[-1]))
    return np.array(rows[:n]).reshape(n, n)


def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix, whose elements are integers.

    Args:
        n: the number of rows and columns; a negative one counts as 0.

    Returns:
        An array of the default float, rounded where the integers are larger than it holds, infinite beyond its range.

    Raises:
        TypeError: n is no integer.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    n = max(operator.index(n), 0)
    i, j = _grid(n, n)
    table = _binomials(2 * n)  # binomial(m, k) is table[k, m - k]
    with np.errstate(over="ignore"):
        product = table[n - j - 1, i + j + 1] * table[n - i - 1, i + j + 1] * table[i, j] ** 2
        return _rounded((-1.0) ** (i + j) * (i + j + 1) * product)


def _kind(kind: str | None) -> str:
    kinds = ["symmetric", "lower", "upper"]
    if kind is not None and kind not in kinds:
        raise ValueError(f"Expected kind to be one of: {kinds}; got {kind}")
    return kind or "symmetric"


def _pascal(n: int, kind: str) -> np.ndarray:
    table = _binomials(n)
    if kind == "symmetric":
        return table
    i, j = _grid(n, n)
    lower = np.where(i >= j, table[np.minimum(i, j), np.abs(i - j)], 0.0)
    return lower if kind == "lower" else lower.T


def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix of binomial coefficients.

    Args:
        n: the number of rows and columns.
        kind: "symmetric" (by default) for `binomial(i + j, i)`, "lower" for `binomial(i, j)`, "upper" for its
            transpose.

    Returns:
        An array of the default float, rounded where the integers are larger than it holds, infinite beyond its range.

    Raises:
        TypeError: n is no integer, or negative.
        ValueError: there is no such kind.

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    return _rounded(_pascal(_size(n), _kind(kind)))


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of the matrix of binomial coefficients; see `pascal`.

    >>> invpascal(3, "lower").tolist()
    [[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [1.0, -2.0, 1.0]]
    """
    kind = _kind(kind)
    i, j = _grid(_size(n), n)
    lower = np.where(i >= j, (-1.0) ** (i - j) * _pascal(n, "lower"), 0.0)
    if kind == "symmetric":  # the inverse of lower times its transpose
        with np.errstate(over="ignore", invalid="ignore"):
            return _rounded(lower.T @ lower)
    return _rounded(lower if kind == "lower" else lower.T)


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix: orthonormal rows, each the contrast of an element with the mean of those before.

    Args:
        n: the number of columns.
        full: whether there is a first row of equal elements, which makes the matrix orthogonal.

    Raises:
        TypeError: n is no integer.
        ValueError: n is not positive.

    >>> helmert(2).round(4).tolist()
    [[0.707099974155426, -0.707099974155426]]
    """
    n = operator.index(n)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    i, j = _grid(n, n)
    i = np.maximum(i, 1)
    rows = np.where(j < i, 1.0, np.where(j == i, -i, 0.0)) / np.sqrt(i * (i + 1.0))
    rows[0] = n**-0.5
    return _rounded(rows if full else rows[1:])


def hadamard(n: int, dtype: Any = int) -> Array:
    """Sylvester's Hadamard matrix: elements 1 and -1, orthogonal rows.

    Args:
        n: the number of rows and columns, a power of 2.
        dtype: of the result.

    Raises:
        TypeError: n is no integer, or the dtype bool.
        ValueError: n is no power of 2.

    >>> hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "hadamard")
    if dtype == np.bool_:
        raise TypeError("hadamard has negative elements: its dtype must be a number, got bool.")
    i, j = _grid(n, n)
    return from_host((1 - 2 * (np.bitwise_count(i & j) % 2).astype(np.int64)).astype(dtype))


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix of the discrete Fourier transform: `dft(n) @ x` is `veery.numpy.fft.fft(x)`.

    Args:
        n: the number of rows and columns; a negative one counts as 0.
        scale: by what the elements are divided: None for 1, "sqrtn" for the root of n, or "n".
        dtype: of the result, a complex one.

    Raises:
        TypeError: n is no integer.
        ValueError: there is no such scale, or the dtype is not complex.

    >>> (dft(2).real + 0.0).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    if dtype is None:
        dtype = dtypes.default_complex_dtype()
    else:
        dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "dft")
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise ValueError(f"dtype must be a complex floating-point type; got {dtype}.")
    n = max(operator.index(n), 0)
    i, j = _grid(n, n)
    values = np.exp(-2j * np.pi * (i * j % max(n, 1)) / max(n, 1))
    return _rounded(values / {None: 1, "sqrtn": max(n, 1) ** 0.5, "n": max(n, 1)}[scale], dtype)
