"""Cases of `experimental.sparse`."""

from __future__ import annotations

import numpy as np
from support.recorded import module

M = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 4, 0, 5]], np.float32)
V = np.arange(4, dtype=np.float32)
PLACES = np.array([0, 2])


def sparse(function):
    """A case of the module, a BCOO and the package; of sparse arrays what they store is compared."""

    def case(jax):
        S = module(jax, "experimental.sparse")
        return parts(S, function(S, S.BCOO.fromdense(M), jax))

    return case


def parts(S, found):
    if isinstance(found, (tuple, list)):
        return [parts(S, x) for x in found]
    if not isinstance(found, S.JAXSparse):
        return found
    stored = [getattr(found, name) for name in ("data", "indices", "indptr", "row", "col") if hasattr(found, name)]
    return repr(found), stored


def dense(S, found):
    """Where JAX stores other padding."""
    return type(found).__name__, found.shape, found.todense()


CASES = {
    "fromdense": sparse(lambda S, b, jax: [S.BCOO.fromdense(M, **k) for k in ({}, {"nse": 7}, {"nse": 2})]),
    "fromdense by rows": sparse(lambda S, b, jax: S.BCOO.fromdense(M, n_batch=1)),
    "fromdense of rows": sparse(lambda S, b, jax: S.BCOO.fromdense(M, n_dense=1, index_dtype=np.int8)),
    "formats": sparse(lambda S, b, jax: [F.fromdense(M) for F in (S.COO, S.CSR, S.CSC, S.BCSR)]),
    "transposed formats": sparse(lambda S, b, jax: [F.fromdense(M).T for F in (S.BCOO, S.COO, S.CSR, S.CSC)]),
    "products": sparse(
        lambda S, b, jax: [b @ V, jax.numpy.asarray(V[:3]) @ b, jax.numpy.asarray(M.T) @ b, b @ M.T, b.T @ M]
    ),
    "products of formats": sparse(
        lambda S, b, jax: [F.fromdense(M) @ x for F in (S.COO, S.CSR, S.CSC, S.BCSR) for x in (V, M.T)]
    ),
    "product of two": sparse(lambda S, b, jax: dense(S, b.T @ b)),
    "sums": sparse(lambda S, b, jax: [b + b, b - b, b + M, b.sum(), b.sum(0), b.sum(axis=(0, 1))]),
    "arithmetic": sparse(lambda S, b, jax: [b * 2, 2 * b, b / 2, b * V, b * M, -b, abs(b), b**2, b.astype("int32")]),
    "product of elements": sparse(lambda S, b, jax: dense(S, b * b)),
    "products of elements of other layouts": sparse(
        lambda S, b, jax: [
            (x.n_batch, x.n_dense, *dense(S, x))
            for l, r in [({"n_dense": 1}, {"n_dense": 1}), ({"n_batch": 1}, {"n_batch": 1}), ({"n_batch": 1}, {})]
            for x in [S.bcoo_multiply_sparse(S.BCOO.fromdense(M, **l), S.BCOO.fromdense(M[::-1], **r))]
        ]
    ),
    "products of elements that are broadcast": sparse(
        lambda S, b, jax: [
            dense(S, S.bcoo_multiply_sparse(b, S.BCOO.fromdense(y))) for y in (M[:1], M[:, 1:2], M[2:, 3:])
        ]
    ),
    "products of elements of other ranks": sparse(lambda S, b, jax: S.bcoo_multiply_sparse(b, S.BCOO.fromdense(V))),
    "a scalar added": sparse(lambda S, b, jax: b + 1),
    "dense minus sparse": sparse(lambda S, b, jax: jax.numpy.asarray(M) - b),
    "parts": sparse(lambda S, b, jax: [dense(S, x) for x in (b[1], b[1:, ::2], b[-1, 1:2], list(b)[2])]),
    "an integer beyond": sparse(lambda S, b, jax: dense(S, b[5])),
    "sum_duplicates": sparse(lambda S, b, jax: [(b + b).sum_duplicates(), (b + b).sum_duplicates(nse=7)]),
    "sum_duplicates of what a batch has in common": sparse(
        lambda S, b, jax: [
            S.BCOO((np.float32(data), np.int32([[[0], [2], [0]]])), shape=(2, 3)).sum_duplicates(nse=2)
            for data in ([[1, 2, 4]], [[1, 2, 4], [5, 6, 7]])
        ]
    ),
    "an inefficient layout": sparse(lambda S, b, jax: b.update_layout(n_batch=1)),
    "rows that are not efficient": sparse(lambda S, b, jax: b.update_layout(n_dense=1)),
    "extract": sparse(lambda S, b, jax: S.bcoo_extract(b, M + 1)),
    "multiply_dense": sparse(lambda S, b, jax: S.bcoo_multiply_dense(b, M)),
    "broadcast": sparse(
        lambda S, b, jax: S.bcoo_broadcast_in_dim(S.BCOO.fromdense(V), shape=(3, 4), broadcast_dimensions=(1,))
    ),
    "empty and eye": sparse(lambda S, b, jax: [S.empty((3, 4)), S.eye(3, 4, k=1), S.eye(3, sparse_format="csr")]),
    "an unknown format": sparse(lambda S, b, jax: S.eye(3, sparse_format="xyz")),
    "sparsify": sparse(lambda S, b, jax: [S.sparsify(f)(b) for f in (jax.numpy.sin, jax.numpy.tanh, lambda x: 2 * x)]),
    "sparsify with axes": sparse(
        lambda S, b, jax: [dense(S, S.sparsify(f)(b, axis=0)) for f in (jax.numpy.sum, jax.numpy.mean)]
    ),
    "an operation without a rule": sparse(lambda S, b, jax: S.sparsify(jax.numpy.max)(b)),
    "a loop": sparse(lambda S, b, jax: S.sparsify(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c * 2, x))(b)),
    "a branch": sparse(lambda S, b, jax: S.sparsify(lambda x: jax.lax.cond(True, lambda x: x * 2, lambda x: x, x))(b)),
    "gradients": sparse(lambda S, b, jax: S.grad(lambda b, v: ((b @ v) ** 2).sum(), argnums=(0, 1))(b, V)),
    "values and gradients": sparse(lambda S, b, jax: S.value_and_grad(lambda b: ((b @ V) ** 2).sum())(b)),
    "jacobians": sparse(lambda S, b, jax: [S.jacfwd(lambda b: b @ V)(b), S.jacrev(lambda b: b @ V)(b)]),
    "jacobians with a batch": sparse(
        lambda S, b, jax: [
            J(lambda x: (x.todense() ** 2).sum(-1))(F.fromdense(np.stack([M, 2 * M]), n_batch=1))
            for J in (S.jacfwd, S.jacrev)
            for F in (S.BCOO, S.BCSR)
        ]
    ),
    "arrays as keys": sparse(
        lambda S, b, jax: [
            b[k] for k in (np.array([0, 2]), np.array([[0], [-1]]), (PLACES, PLACES + 1), (None, PLACES), (1, PLACES))
        ]
    ),
    "a key beyond an axis": sparse(lambda S, b, jax: b[np.array([9, 0])]),
    "a list as a key": sparse(lambda S, b, jax: b[[0, 1]]),
    "gather": sparse(
        lambda S, b, jax: S.bcoo_gather(
            b,
            np.array([[0], [2]]),
            jax.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)),
            (1, 4),
        )
    ),
    "reshape in another order": sparse(lambda S, b, jax: S.bcoo_reshape(b, new_sizes=(6, 2), dimensions=(1, 0))),
    "reshape of a batch": sparse(
        lambda S, b, jax: S.bcoo_reshape(
            S.BCOO.fromdense(np.stack([M, M]), n_batch=1), new_sizes=(2, 12), dimensions=(0, 2, 1)
        )
    ),
    "reshape with dense axes": sparse(
        lambda S, b, jax: S.bcoo_reshape(S.BCOO.fromdense(np.stack([M, M], -1), n_dense=1), new_sizes=(12, 2))
    ),
    "convolutions": sparse(
        lambda S, b, jax: [
            S.bcoo_conv_general_dilated(S.BCOO.fromdense(V[None, None]), x, window_strides=(1,), padding=[(1, 2)])
            for x in (S.BCOO.fromdense(V[None, None, 1:]), jax.numpy.asarray(V[None, None, 1:]))
        ]
    ),
    "convolve": sparse(lambda S, b, jax: S.sparsify(jax.numpy.convolve)(*[S.BCOO.fromdense(v) for v in (V, V[:2])])),
    "bools are counted": sparse(lambda S, b, jax: S.bcoo_reduce_sum(S.BCOO.fromdense(M > 1), axes=(0,))),
    "vmap": sparse(lambda S, b, jax: jax.vmap(lambda b: b @ V)(S.BCOO.fromdense(np.stack([M, 2 * M]), n_batch=1))),
    "vmap that makes some": sparse(lambda S, b, jax: jax.vmap(lambda m: S.BCOO.fromdense(m, nse=5))(np.stack([M, M]))),
    "jit": sparse(lambda S, b, jax: jax.jit(lambda b: (b.T, b @ V))(b)),
    "other sizes": sparse(lambda S, b, jax: b @ V[:3]),
    "indices of floats": sparse(lambda S, b, jax: S.BCOO((np.ones(3), np.zeros((3, 2))), shape=(3, 4))),
    "data of another size": sparse(lambda S, b, jax: S.BCOO((np.ones(3), np.zeros((2, 2), int)), shape=(3, 4))),
    "two matrices of an older format": sparse(lambda S, b, jax: S.CSR.fromdense(M) @ S.CSR.fromdense(M.T)),
    "no permutation": sparse(lambda S, b, jax: b.transpose((0,))),
    "attributes": sparse(lambda S, b, jax: [b.ndim, b.size, b.nse, b.shape, b.n_batch, b.n_dense, b.n_sparse, len(b)]),
}
