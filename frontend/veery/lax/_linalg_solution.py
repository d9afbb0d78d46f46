"""Solutions of systems whose matrices were factored.

They are permutations of rows and two triangular systems, and one call of LAPACK's: of 50 equations that takes 4 us
instead of 9, and in a compiled program, where each call of the host costs 36 us, a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import host
from veery._core.ad import Zero, is_undefined_primal
from veery._core.array import Array
from veery._core.avals import ShapedArray
from veery._core.primitive import Primitive
from veery._transforms.jvp import jvp
from veery.lax import _convert, _linalg_reference, _matrix as mx, _shape, _sort
from veery.lax._linalg_triangular import permute_rows, triangular_solve


def lu_solve(factors: Array, pivots: Array, permutation: Array, b: Array, *, transposed: bool = False) -> Array:
    """The solution of `a @ x = b` by what `lu` gives for square matrices a.

    Args:
        factors: array of shape (..., n, n).
        pivots: int32 array of shape (..., n).
        permutation: int32 array of shape (..., n).
        b: array of shape (..., n, k), of the factors' dtype.
        transposed: whether a is transposed first.

    Raises:
        ValueError: the shapes do not fit.

    >>> from veery import lax
    >>> import numpy as np
    >>> factors = lax.linalg.lu(np.array([[0.0, 2.0], [1.0, 1.0]], np.float32))
    >>> lu_solve(*factors, np.array([[2.0], [3.0]], np.float32)).tolist()
    [[2.0], [1.0]]
    """
    dtype = mx.dtype_of(factors)
    if mx.is_narrow(dtype) and mx.dtype_of(b) == dtype:
        factors, b = (_convert.convert_element_type(x, np.float32) for x in (factors, b))
        return _convert.convert_element_type(lu_solve(factors, pivots, permutation, b, transposed=transposed), dtype)
    return lu_solve_p.bind(factors, pivots, permutation, b, transposed=transposed)


def _lu_solve_abstract_eval(
    factors: ShapedArray, pivots: ShapedArray, permutation: ShapedArray, b: ShapedArray, *, transposed: bool
) -> ShapedArray:
    mx.check_square("lu_solve", factors, "The factors of lu_solve must be a square matrix. Got shape {}.")
    fits = b.ndim == factors.ndim and b.shape[:-1] == factors.shape[:-1] == pivots.shape == permutation.shape
    if not fits or b.dtype != factors.dtype:
        raise ValueError(
            f"lu_solve needs what lu gives and a right side like it: got {factors.str_short()}, {pivots.str_short()}, "
            f"{permutation.str_short()} and {b.str_short()}."
        )
    return ShapedArray(b.shape, b.dtype)


def _by_substitution(factors: Any, pivots: Any, permutation: Any, b: Any, *, transposed: bool) -> Any:
    lower = {"lower": True, "unit_diagonal": True}
    solved = lambda x, **triangle: triangular_solve(factors, x, left_side=True, transpose_a=transposed, **triangle)
    if not transposed:
        return solved(solved(permute_rows(b, permutation), **lower))
    places = _shape.broadcasted_iota(np.int32, np.shape(permutation), np.ndim(permutation) - 1)
    return permute_rows(solved(solved(b), **lower), _sort.sort((permutation, places), num_keys=1)[1])


def _lu_solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    if type(tangents[0]) is Zero:
        *solved, _ = primals
        out = lu_solve_p.bind(*primals, **params)
        t = tangents[-1]
        return out, t if type(t) is Zero else lu_solve_p.bind(*solved, t, **params)
    (out,), (t_out,) = jvp(lambda *operands: [_by_substitution(*operands, **params)], primals, tangents)
    return out, t_out


def _lu_solve_transpose(ct: Any, *operands: Any, transposed: bool) -> list[Any]:
    *solved, b = operands
    if any(map(is_undefined_primal, solved)) or not is_undefined_primal(b):
        raise NotImplementedError("lu_solve is linear in its right side alone")
    return [None] * 3 + [ct if type(ct) is Zero else lu_solve_p.bind(*solved, ct, transposed=not transposed)]


def _lu_solve_batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    """Where only b has the batch dimension, all its columns are solved for at once."""
    *solved, b = args
    size = _shape.batch_size(args, dims)
    if all(dim is None for dim in dims[:-1]):
        dim: Any = dims[-1]
        b = _shape.moveaxis(b, dim, -1)
        shape = np.shape(b)
        out = lu_solve_p.bind(*solved, _shape.reshape(b, (*shape[:-2], shape[-2] * size)), **params)
        return _shape.reshape(out, shape), len(shape) - 1
    operands = (_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims))
    return lu_solve_p.bind(*operands, **params), 0


lu_solve_p: Primitive = Primitive(
    "lu_solve",
    host=host.calls(64),
    abstract_eval=_lu_solve_abstract_eval,
    jvp=_lu_solve_jvp,
    transpose=_lu_solve_transpose,
    batch=_lu_solve_batch,
    reference=_linalg_reference.lu_solution,
    composition=_by_substitution,
)
