"""Factorisations into triangular matrices, and systems with them: cholesky, lu, triangular_solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import host
from veery._core.ad import Zero, is_undefined_primal
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery.lax import _arithmetic, _convert, _gather_scatter, _linalg_loops, _linalg_reference, _matrix as mx, _shape
from veery.lax._declare import check_same_dtypes
from veery.lax._gather_scatter_dims import GatherDimensionNumbers, GatherScatterMode

ArrayLike = Any

# ---------------------------------------------------------------------------------------------------------------------
# cholesky


def symmetrize(x: Any) -> Any:
    """The mean of matrices and their adjoints."""
    return _arithmetic.div(_arithmetic.add(x, mx.adjoint(x)), np.asarray(2, mx.dtype_of(x)))


def cholesky(x: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with `x = L @ L'` for Hermitian positive-definite matrices.

    Args:
        x: array of shape (..., n, n).
        symmetrize_input: whether x is replaced by `(x + x') / 2`; else only its lower triangle is read.

    Returns:
        L, with zeros above the diagonal; NaN where x is not positive definite.

    Raises:
        ValueError: the matrices are not square.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32)).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return cholesky_p.bind(symmetrize(x) if symmetrize_input else x)


def _cholesky_abstract_eval(x: ShapedArray) -> ShapedArray:
    mx.check_square("cholesky", x, "The input to cholesky must be a square matrix. Got shape {}.")
    return ShapedArray(x.shape, x.dtype)


def _cholesky_jvp(t: Any, factor: Any, x: Any) -> Any:
    """L phi(L^-1 dx L^-H), where phi keeps the lower triangle and half of the diagonal (Murray, arXiv 1602.07527)."""
    right = triangular_solve(factor, t, lower=True, transpose_a=True, conjugate_a=True)
    both = triangular_solve(factor, right, left_side=True, lower=True)
    halved = np.tri(np.shape(x)[-1], k=-1) + np.eye(np.shape(x)[-1]) / 2
    mask = _shape.broadcast_in_dim(halved.astype(mx.dtype_of(x)), np.shape(x), (np.ndim(x) - 2, np.ndim(x) - 1))
    return mx.matmul(factor, _arithmetic.mul(both, mask))


cholesky_p = Primitive(
    "cholesky",
    host=host.calls(64),
    abstract_eval=_cholesky_abstract_eval,
    jvp=(_cholesky_jvp,),
    reference=_linalg_reference.cholesky,
    composition=_linalg_loops.cholesky,
)
mx.batch_in_front(cholesky_p)


# ---------------------------------------------------------------------------------------------------------------------
# triangular_solve


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve `op(a) @ x = b` or `x @ op(a) = b` for triangular matrices.

    Args:
        a: array of shape (..., n, n), of which one triangle is read; floats narrower than 32 bits are computed in
            float32.
        b: array of shape (..., n, k) if left_side, else (..., k, n); a vector of shape (n,) is one column or row.
        left_side: whether a stands left of x.
        lower: whether the lower triangle is read.
        transpose_a: whether op transposes.
        conjugate_a: whether op conjugates.
        unit_diagonal: whether the diagonal is taken to be 1 instead of read.

    Raises:
        TypeError: ranks or dtypes do not fit.
        ValueError: shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> a, b = np.array([[2.0, 0.0], [1.0, 1.0]], np.float32), np.array([2.0, 3.0], np.float32)
    >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True).tolist()
    [1.0, 2.0]
    """
    dtype = mx.dtype_of(a)
    if mx.is_narrow(dtype) and mx.dtype_of(b) == dtype:
        a, b = (_convert.convert_element_type(x, np.float32) for x in (a, b))
        op = {"transpose_a": transpose_a, "conjugate_a": conjugate_a, "unit_diagonal": unit_diagonal}
        out = triangular_solve(a, b, left_side=left_side, lower=lower, **op)
        return _convert.convert_element_type(out, dtype)
    conjugate_a = conjugate_a and mx.is_complex(a)
    vector = np.ndim(b) == np.ndim(a) - 1
    if vector:
        b = _shape.expand_dims(b, (-1 if left_side else -2,))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=conjugate_a,
        unit_diagonal=bool(unit_diagonal),
    )
    return _shape.squeeze(out, (-1 if left_side else -2,)) if vector else out


def _triangular_solve_abstract_eval(a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: Any) -> ShapedArray:
    mx.check_square("triangular_solve", a, "The first input to triangular_solve must be a square matrix. Got shape {}.")
    mx.check_rank("triangular_solve", b, position=1)
    check_same_dtypes("triangular_solve", [a, b])
    if a.ndim != b.ndim:
        raise TypeError(
            "All inputs to triangular_solve must have the same number of batch dimensions, but got "
            f"{[a.ndim - 2, b.ndim - 2]} batch dimensions for the inputs."
        )
    if a.shape[-1] != b.shape[-2 if left_side else -1] or a.shape[:-2] != b.shape[:-2]:
        raise ValueError(f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape}.")
    return ShapedArray(b.shape, b.dtype)


def _triangular_solve_jvp(
    t: Any, x: Any, a: Any, b: Any, *, left_side: bool, lower: bool, unit_diagonal: bool, **op: bool
) -> Any:
    """op(a) dx = -op(da) x, and likewise from the right."""
    t = mx.triangle(t, lower, strict=unit_diagonal)
    if op["conjugate_a"]:
        t = mx.conj(t)
    if op["transpose_a"]:
        t = mx.transpose(t)
    product = _arithmetic.neg(mx.matmul(t, x) if left_side else mx.matmul(x, t))
    return triangular_solve_p.bind(a, product, left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, **op)


def _triangular_solve_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
    if is_undefined_primal(a) or not is_undefined_primal(b):
        raise NotImplementedError("triangular_solve is linear in its second operand alone")
    return [None, ct if type(ct) is Zero else triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _triangular_solve_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, left_side: bool, **params: Any
) -> tuple[Any, int]:
    """Where only b has the batch dimension, all its columns (or rows) are solved for at once."""
    a, b = args
    size = _shape.batch_size(args, dims)
    if dims[0] is None:
        dim: Any = dims[1]
        b = _shape.moveaxis(b, dim, -1 if left_side else -3)
        shape = np.shape(b)
        flat = (*shape[:-2], shape[-2] * size) if left_side else (*shape[:-3], size * shape[-2], shape[-1])
        out = triangular_solve_p.bind(a, _shape.reshape(b, flat), left_side=left_side, **params)
        return _shape.reshape(out, shape), len(shape) - (1 if left_side else 3)
    operands = (_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims))
    return triangular_solve_p.bind(*operands, left_side=left_side, **params), 0


triangular_solve_p: Primitive = Primitive(
    "triangular_solve",
    host=host.calls(64),
    abstract_eval=_triangular_solve_abstract_eval,
    jvp=(_triangular_solve_jvp, lambda t, x, a, b, **params: triangular_solve_p.bind(a, t, **params)),
    transpose=_triangular_solve_transpose,
    batch=_triangular_solve_batch,
    reference=_linalg_reference.triangular_solve,
    composition=_linalg_loops.triangular_solve,
)


# ---------------------------------------------------------------------------------------------------------------------
# lu


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """The factors of `x[permutation] = L @ U`, by elimination with partial pivoting.

    Args:
        x: array of shape (..., m, n).

    Returns:
        U on and above the diagonal and L, which has ones on its diagonal, below it; the int32 pivots (..., min(m, n)):
        row i was exchanged with row pivots[i]; and the permutation (..., m) that these exchanges make.

    >>> from veery import lax
    >>> import numpy as np
    >>> [y.tolist() for y in lax.linalg.lu(np.array([[1.0, 2.0], [2.0, 2.0]], np.float32))]
    [[[2.0, 2.0], [0.5, 1.0]], [1, 1], [1, 0]]
    """
    factors, pivots, permutation = lu_p.bind(x)
    return factors, pivots, permutation


def _lu_abstract_eval(x: ShapedArray) -> list[ShapedArray]:
    mx.check_rank("lu", x)
    *batch, m, n = x.shape
    return [
        ShapedArray(x.shape, x.dtype),
        ShapedArray((*batch, min(m, n)), np.int32),
        ShapedArray((*batch, m), np.int32),
    ]


def _lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """For square L and U: dL = L tril(F, -1) and dU = triu(F) U for F = L^-1 dx U^-1.

    Of a matrix that is not square the rows below, or the columns at the right, follow from the square part.
    """
    (x,), (t,) = primals, tangents
    factors, pivots, permutation = lu_p.bind(x)
    t = permute_rows(t, permutation)
    m, n = np.shape(x)[-2:]
    k = min(m, n)
    square = lambda a: mx.columns(mx.rows(a, 0, k), 0, k)
    lower = _arithmetic.add(mx.tril(square(factors), -1), mx.eye_like(x, k, k))
    upper = mx.triu(square(factors))
    divided = lambda a: triangular_solve(lower, a, left_side=True, lower=True, unit_diagonal=True)
    middle = triangular_solve(upper, divided(square(t)))
    strict, rest = mx.tril(middle, -1), mx.triu(middle)
    t_out = _arithmetic.add(mx.matmul(lower, strict), mx.matmul(rest, upper))
    if m > k:
        below = triangular_solve(upper, mx.rows(t, k, m))
        below = _arithmetic.sub(below, mx.matmul(mx.rows(factors, k, m), rest))
        t_out = _shape.concatenate([t_out, below], np.ndim(x) - 2)
    if n > k:
        right = _arithmetic.sub(divided(mx.columns(t, k, n)), mx.matmul(strict, mx.columns(factors, k, n)))
        t_out = _shape.concatenate([t_out, right], np.ndim(x) - 1)
    return [factors, pivots, permutation], [t_out, Zero.from_primal_value(pivots), Zero.from_primal_value(permutation)]


def permute_rows(x: Any, permutation: Any) -> Any:
    """`x[permutation]` for each matrix of a stack. Whole rows: of 200x200 they take 36 us, elements one by one 71."""
    *stack, rows, columns = range(np.ndim(x))
    if np.shape(x)[rows] == 0:
        return x
    return _gather_scatter.gather(
        x,
        _shape.expand_dims(permutation, (rows + 1,)),
        GatherDimensionNumbers((columns,), (rows,), (rows,), tuple(stack), tuple(stack)),
        (*(min(1, n) for n in np.shape(x)[:-1]), np.shape(x)[-1]),
        mode=GatherScatterMode.CLIP,
        unique_indices=True,
    )


lu_p = Primitive(
    "lu",
    host=host.calls(64),
    abstract_eval=_lu_abstract_eval,
    jvp=_lu_jvp,
    reference=_linalg_reference.lu,
    composition=_linalg_loops.lu,
    multiple_results=True,
)
mx.batch_in_front(lu_p)


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of rows after row i was exchanged with row pivots[i], for each i in turn.

    Args:
        pivots: int32 array of shape (..., k).
        permutation_size: the number of rows, at least k.

    Raises:
        ValueError: there are more pivots than rows.

    >>> from veery import lax
    >>> import numpy as np
    >>> lax.linalg.lu_pivots_to_permutation(np.array([1, 2], np.int32), 3).tolist()
    [1, 2, 0]
    """
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


def _permutation_abstract_eval(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    if pivots.ndim < 1 or pivots.dtype != np.int32:
        raise ValueError(
            f"Argument to lu_pivots_to_permutation must have rank >= 1 and dtype int32. Got {pivots.str_short()}"
        )
    if pivots.shape[-1] > permutation_size:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the pivots. "
            f"Got pivots size {pivots.shape[-1]}"
        )
    return ShapedArray((*pivots.shape[:-1], permutation_size), np.int32)


lu_pivots_to_permutation_p = Primitive(
    "lu_pivots_to_permutation",
    host=host.calls(64),
    abstract_eval=_permutation_abstract_eval,
    jvp=(None,),
    reference=_linalg_reference.lu_pivots_to_permutation,
    composition=_linalg_loops.lu_pivots_to_permutation,
)
mx.batch_in_front(lu_pivots_to_permutation_p)
