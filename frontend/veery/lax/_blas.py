"""Products of matrices by NumPy's BLAS, in threads of veery's own, and with vectors in those of OpenBLAS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veery.lax._openblas import OF_NUMPY
from veery.lax._reference import aligned_empty
from veery.lax._threads import in_turn

_BLOCK = 1 << 22  # terms for each thread: fewer are not worth waking another
_TERMS = 1 << 13  # that BLAS adds up of a product of vectors; the sums of these are added in pairs

Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # two factors, and where their product goes


def product(a: np.ndarray, b: np.ndarray, threads: int = 1) -> np.ndarray:
    """The products of matrices, or of those of two stacks, none of them empty.

    Several threads take a block of a stack, of rows or of columns each, by BLAS in one thread. Two blocks for each, in
    turn, take 1.15 of the time, also beside another process: for each block BLAS lays the whole other matrix out anew.

    Args:
        a, b: of the shapes (..., m, k) and (..., k, n), with as many axes.
        threads: how many there may be.
    """
    *stack, m, k = a.shape
    n = b.shape[-1]
    terms = a.size * n
    if m == n == 1 and k > _TERMS:
        return _dot(a, b, threads)
    if threads > 1 and 1 in (m, n) and m * n > 1 and not stack:
        with OF_NUMPY.for_vectors(terms):
            return np.matmul(a, b, out=aligned_empty((m, n), a.dtype))
    count = min(threads, max(1, terms // _BLOCK))
    with OF_NUMPY:
        out = aligned_empty((*stack, m, n), a.dtype)
        if count == 1:
            return np.matmul(a, b, out=out)
        parts = list(_parts(a, b, out, count))
        in_turn(lambda i: np.matmul(*parts[i][:2], out=parts[i][2]), len(parts), threads)
    return out


def _parts(a: np.ndarray, b: np.ndarray, out: np.ndarray, count: int) -> Iterator[Part]:
    *stack, m, n = out.shape
    along = 0 if stack and stack[0] >= count else len(stack) + (n > m)
    length = out.shape[along]
    count = min(count, length)
    for i in range(count):
        part = (*[slice(None)] * along, slice(i * length // count, (i + 1) * length // count))
        yield a if along > len(stack) else a[part], b if along == len(stack) else b[part], out[part]


def _dot(a: np.ndarray, b: np.ndarray, threads: int) -> np.ndarray:
    """The products of long vectors: the sum of those of their parts."""
    *stack, _, k = a.shape
    blocks, rest = divmod(k, _TERMS)
    whole = k - rest
    parts = product(
        a[..., :whole].reshape(*stack, blocks, 1, _TERMS), b[..., :whole, :].reshape(*stack, blocks, _TERMS, 1), threads
    )
    found = np.add.reduce(parts, axis=-3)
    return found + product(a[..., whole:], b[..., whole:, :], threads) if rest else found
