"""Parts of BCOOs, and BCOOs from parts: slices, reshapes, concatenations."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery.experimental.sparse._bcoo import (
    BCOO,
    _without_padding,
    bcoo_sum_duplicates,
    bcoo_transpose,
    bcoo_update_layout,
    full_batch,
    sparse_shape,
)
from veery.experimental.sparse.util import Array, Shape, per_axis


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:
    """As `lax.slice`."""
    strides = tuple(strides) if strides is not None else (1,) * mat.ndim
    if not len(start_indices) == len(limit_indices) == len(strides) == mat.ndim:
        raise ValueError(f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    chosen = list(zip(map(int, start_indices), map(int, limit_indices), map(int, strides)))
    if any(not 0 <= a <= b <= n or s < 1 for (a, b, s), n in zip(chosen, mat.shape)):
        raise ValueError(f"bcoo_slice: invalid indices {chosen} for shape {mat.shape}")
    shape = tuple(-(-(b - a) // s) for a, b, s in chosen)
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    cut = [slice(a, b, s) for a, b, s in chosen]
    data, indices = full_batch(mat)
    data = data[(*cut[:n], slice(None), *cut[end:])]
    indices = indices[tuple(cut[:n])]
    start, _, step = (per_axis(x, indices) for x in zip(*chosen[n:end])) if end > n else (0, 0, 1)
    moved = indices - start
    inside = (moved >= 0) & (moved % step == 0)
    return _narrowed(mat, data, moved // step, inside, shape)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """As `lax.dynamic_slice`: starts may be traced, count from the end where they are negative, and are moved so that
    the slice fits.
    """
    sizes = tuple(map(operator.index, slice_sizes))
    if not len(start_indices) == len(sizes) == mat.ndim:
        raise ValueError(f"bcoo_dynamic_slice: indices must have size mat.ndim={mat.ndim}")
    if any(not 0 <= size <= n for size, n in zip(sizes, mat.shape)):
        raise TypeError(f"slice_sizes must be less than or equal to operand shape, got {sizes} for shape {mat.shape}")
    given = [jnp.where(s < 0, s + n, s) for s, n in zip(map(jnp.asarray, start_indices), mat.shape)]
    starts = [jnp.clip(s, 0, n - size) for s, n, size in zip(given, mat.shape, sizes)]
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    zero = jnp.zeros((), starts[0].dtype) if starts else 0
    data = lax.dynamic_slice(data, [*starts[:n], zero, *starts[end:]], [*sizes[:n], data.shape[n], *sizes[end:]])
    indices = lax.dynamic_slice(indices, [*starts[:n], zero, zero], [*sizes[:n], *indices.shape[n:]])
    if end > n:
        indices = indices - per_axis(jnp.stack(starts[n:end]), indices)
    return _narrowed(mat, data, indices, indices >= 0, sizes)


def _narrowed(mat: BCOO, data: Array, indices: Array, inside: Array, shape: Shape) -> BCOO:
    """An array of what is inside; where there is more room than elements, no more is stored than these."""
    n = mat.n_batch
    bound = per_axis(shape[n : n + mat.n_sparse], indices)
    inside = (inside & (indices < bound)).all(axis=-1, keepdims=True)
    mask = inside[..., 0].reshape(*inside.shape[:-1], *[1] * (data.ndim - n - 1))
    data = jnp.where(mask, data, jnp.zeros((), data.dtype))
    made = BCOO((data, jnp.where(inside, indices, bound)), shape=shape)
    most = math.prod(shape[n : n + mat.n_sparse])
    return bcoo_sum_duplicates(made, nse=most) if most < made.nse else made


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without axes of size 1."""
    dims = sorted({operator.index(d) % arr.ndim for d in dimensions})
    if any(arr.shape[d] != 1 for d in dims):
        raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one: {dims} of {arr.shape}")
    n, end = arr.n_batch, arr.n_batch + arr.n_sparse
    data, indices = _without_padding(arr) if any(n <= d < end for d in dims) else full_batch(arr)
    data = data.squeeze(tuple([d for d in dims if d < n] + [d - arr.n_sparse + 1 for d in dims if d >= end]))
    indices = indices[..., [i for i in range(arr.n_sparse) if n + i not in dims]]
    indices = indices.squeeze(tuple(d for d in dims if d < n))
    shape = [size for d, size in enumerate(arr.shape) if d not in dims]
    known = {"indices_sorted": arr.indices_sorted, "unique_indices": arr.unique_indices}
    return BCOO((data, indices), shape=shape, **known)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """As `lax.reshape`, of axes in the order of `dimensions`, which may mix no axes of different kinds.

    Axes of the batch and dense ones stay so where the new sizes begin, or end, with as many elements.
    """
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        mat = bcoo_transpose(mat, permutation=tuple(map(operator.index, dimensions)))
    sizes = tuple(map(operator.index, new_sizes))
    if math.prod(sizes) != math.prod(mat.shape):
        raise TypeError(f"bcoo_reshape: {mat.shape} has another number of elements than {sizes}")
    batch = _leading(sizes, math.prod(mat.shape[: mat.n_batch]))
    dense = _leading(sizes[::-1], math.prod(mat.shape[mat.ndim - mat.n_dense :])) if mat.n_dense else 0
    if batch is None or dense is None or batch + dense > len(sizes):
        mat = bcoo_update_layout(
            mat, n_batch=0 if batch is None else mat.n_batch, n_dense=mat.n_dense if dense else 0, on_inefficient=None
        )
        batch, dense = batch or 0, dense or 0
    data, indices = _without_padding(mat)
    n, end = mat.n_batch, mat.n_batch + mat.n_sparse
    data = data.reshape(*sizes[:batch], mat.nse, *sizes[len(sizes) - dense :])
    indices = indices.reshape(*sizes[:batch], mat.nse, mat.n_sparse)
    before, after = mat.shape[n:end], sizes[batch : len(sizes) - dense]
    if math.prod(before) > np.iinfo(indices.dtype).max:
        raise OverflowError(f"bcoo_reshape: positions in {mat.shape} do not fit into indices of {indices.dtype.name}")
    place = jnp.zeros(indices.shape[:-1], indices.dtype)
    for i, size in enumerate(before):
        place = place * size + indices[..., i]
    beyond = (indices >= per_axis(before, indices)).any(axis=-1)
    found: list[Array] = []
    for size in reversed(after):
        found.append(place % max(size, 1))
        place = place // max(size, 1)
    made = jnp.stack(found[::-1], axis=-1) if found else jnp.zeros((*place.shape, 0), indices.dtype)
    indices = jnp.where(beyond[..., None], per_axis(after, indices), made)
    return BCOO((data, indices), shape=sizes)


def _leading(sizes: Sequence[int], count: int) -> int | None:
    """How many sizes in front have so many elements together; None if there are none such. No more than needed."""
    products = [1, *np.cumprod(sizes, dtype=np.int64).tolist()]
    return next((k for k, product in enumerate(products) if product == count), None)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with axes the other way round."""
    dims = [operator.index(d) % operand.ndim for d in dimensions]
    n, end = operand.n_batch, operand.n_batch + operand.n_sparse
    data, indices = full_batch(operand)
    for d in dims:
        if d < n:
            data, indices = jnp.flip(data, d), jnp.flip(indices, d)
        elif d >= end:
            data = jnp.flip(data, d - operand.n_sparse + 1)
        else:
            column, size = indices[..., d - n], operand.shape[d]
            indices = indices.at[..., d - n].set(jnp.where(column < size, size - 1 - column, column))
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """BCOOs one behind the other along an axis."""
    if not all(isinstance(op, BCOO) for op in operands):
        raise ValueError("bcoo_concatenate: expected operands to be a sequence of BCOO arrays")
    first = operands[0]
    dim = operator.index(dimension) % first.ndim
    shapes = {(*op.shape[:dim], *op.shape[dim + 1 :]) for op in operands}
    if len(shapes) > 1:
        raise ValueError(f"bcoo_concatenate: shapes {[op.shape for op in operands]} differ beside axis {dim}")
    n, dense = min(op.n_batch for op in operands), min(op.n_dense for op in operands)
    if dim >= first.ndim - dense:
        dense = first.ndim - dim - 1
    same = [bcoo_update_layout(op, n_batch=n, n_dense=dense, on_inefficient=None) for op in operands]
    pairs = [full_batch(op) for op in same]
    shape = list(first.shape)
    shape[dim] = sum(op.shape[dim] for op in operands)
    if dim < n:
        most = max(op.nse for op in same)
        padded = [_padded(op, data, indices, most) for op, (data, indices) in zip(same, pairs)]
        return BCOO(tuple(jnp.concatenate(parts, dim) for parts in zip(*padded)), shape=shape)  # type: ignore[arg-type]
    moved, offset = [], 0
    for op, (data, indices) in zip(same, pairs):
        data, indices = _without_padding(op)
        shift = np.zeros(op.n_sparse, np.int64)
        shift[dim - n] = offset
        beyond = (indices >= per_axis(sparse_shape(op), indices)).any(axis=-1, keepdims=True)
        bound = per_axis(shape[n : n + op.n_sparse], indices)
        moved.append((data, jnp.where(beyond, bound, indices + per_axis(shift, indices))))
        offset += op.shape[dim]
    return BCOO(tuple(jnp.concatenate(parts, n) for parts in zip(*moved)), shape=shape)  # type: ignore[arg-type]


def _padded(op: BCOO, data: Array, indices: Array, nse: int) -> tuple[Array, Array]:
    n, more = op.n_batch, nse - op.nse
    bound = per_axis(sparse_shape(op), indices)
    rest = jnp.broadcast_to(bound, (*indices.shape[:n], more, op.n_sparse))
    zeros = jnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
    return jnp.concatenate([data, zeros], n), jnp.concatenate([indices, rest], n)
