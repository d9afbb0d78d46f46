"""Places of a BCOO: keys of integers, slices and arrays, and gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.inspection import eval_shape
from veery._api.shape_structs import ShapeDtypeStruct
from veery._api.vectorize import vmap
from veery._core import dtypes
from veery._core.avals import maybe_aval_of
from veery.experimental.sparse._bcoo import BCOO, bcoo_broadcast_in_dim, bcoo_transpose, bcoo_update_layout
from veery.experimental.sparse._reshaping import bcoo_dynamic_slice, bcoo_rev, bcoo_slice, bcoo_squeeze
from veery.experimental.sparse.util import Array, Shape
from veery.numpy._index_expressions import parted


def bcoo_gather(
    operand: BCOO, start_indices: Array, dimension_numbers: lax.GatherDimensionNumbers, slice_sizes: Shape, *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """As `lax.gather`: a slice for each of the start indices, whose axes become axes of the batch.

    Args:
        operand: the array.
        start_indices: integers (..., axes).
        dimension_numbers, slice_sizes, unique_indices, indices_are_sorted, fill_value: as of `lax.gather`.
        mode: "promise_in_bounds" (the default) or "clip": slices are moved so that they fit.

    Raises:
        NotImplementedError: another mode, or axes of a batch in the dimension numbers.
    """
    moving = (lax.GatherScatterMode.PROMISE_IN_BOUNDS, lax.GatherScatterMode.CLIP)
    if mode is not None and lax.GatherScatterMode.from_any(mode) not in moving:
        raise NotImplementedError(f"bcoo_gather: mode={mode!r} not yet supported: slices are moved so that they fit.")
    if dimension_numbers.operand_batching_dims:
        raise NotImplementedError("bcoo_gather: use vmap instead of operand_batching_dims")
    start_indices = jnp.asarray(start_indices)
    struct = lambda x: ShapeDtypeStruct(x.shape, x.dtype)
    out = eval_shape(
        lambda x, i: lax.gather(x, i, dimension_numbers, slice_sizes, mode="clip"),
        struct(operand),
        struct(start_indices),
    )
    chosen = dimension_numbers.start_index_map

    def one(starts: Array) -> BCOO:
        whole: list[Any] = [0] * operand.ndim
        for k, axis in enumerate(chosen):
            whole[axis] = starts[k]
        cut = bcoo_dynamic_slice(operand, whole, slice_sizes)
        return bcoo_squeeze(cut, dimensions=dimension_numbers.collapsed_slice_dims)

    found = one
    count = start_indices.ndim - 1
    for _ in range(count):
        found = vmap(found)
    result = found(start_indices)
    batch = [d for d in range(len(out.shape)) if d not in dimension_numbers.offset_dims]
    order = [*batch, *dimension_numbers.offset_dims]
    if order == sorted(order):
        return result
    result = bcoo_update_layout(result, n_batch=0, on_inefficient=None)
    permutation = np.argsort(order).tolist()
    if result.n_dense and any(permutation[d] != d for d in range(result.ndim - result.n_dense, result.ndim)):
        result = bcoo_update_layout(result, n_dense=0, on_inefficient=None)
    return bcoo_transpose(result, permutation=permutation)


def getitem(mat: BCOO, key: Any) -> BCOO:
    """`mat[key]` for integers, slices, None, Ellipsis, and arrays of integers or bools, as of dense arrays.

    Axes that arrays make are axes of the batch where they come first. Places beyond an axis are moved to its end.

    Raises:
        IndexError: too many of them, or an integer for an axis without elements.
        TypeError: an index of another kind.
        NotImplementedError: a single bool.
    """
    keys = [_settled(k) for k in (key if isinstance(key, tuple) else (key,))]
    keys = [part for k in keys for part in (np.nonzero(k) if _is_mask(k) else (k,))]
    count = sum(k is not None and k is not Ellipsis for k in keys)
    if count > mat.ndim or sum(k is Ellipsis for k in keys) > 1:
        raise IndexError(f"Too many indices: {mat.ndim}-dimensional array indexed with {count} regular indices.")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at, apart = next(i for i, k in enumerate(keys) if k is Ellipsis), parted(keys)
    keys[at : at + 1] = [slice(None)] * (mat.ndim - count)
    if any(_is_array(k) for k in keys):
        return _by_arrays(mat, keys, apart)
    made = _basic(mat, [k for k in keys if k is not None])
    return _with_new_axes(made, [k is None for k in keys if k is None or isinstance(k, slice)])


def _settled(k: Any) -> Any:
    """A part of a key: None, Ellipsis, a slice, an integer of Python's, or an array."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, (int, np.integer)) and not isinstance(k, bool):
        return int(k)
    if isinstance(k, (list, tuple)):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use `arr[array(seq)]` instead of "
            "`arr[seq]`."
        )
    aval = maybe_aval_of(k)
    if aval is not None and aval.dtype == bool and not aval.ndim:
        raise NotImplementedError(
            "sparse arrays are indexed by integers, slices, None, Ellipsis and arrays of axes, not by a single bool"
        )
    if aval is None or not (aval.dtype == bool or dtypes.issubdtype(aval.dtype, np.integer)):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer {k!r} of type {type(k)}")
    return k if isinstance(k, np.ndarray) else jnp.asarray(k)


def _is_array(k: Any) -> bool:
    return hasattr(k, "dtype")


def _is_mask(k: Any) -> bool:
    return _is_array(k) and k.dtype == bool


def _basic(mat: BCOO, keys: Sequence[Any]) -> BCOO:
    """By an integer or a slice for each axis."""
    start, limit, strides, flipped = [], [], [], []
    for axis, (k, size) in enumerate(zip(keys, mat.shape)):
        if isinstance(k, slice):
            chosen = range(size)[k]
            if chosen.step < 0:
                flipped.append(axis)
                chosen = chosen[::-1]
            stop = chosen[-1] + 1 if len(chosen) else min(chosen.start, size)
            start.append(min(chosen.start, stop))
            limit.append(stop)
            strides.append(chosen.step)
        else:
            if size == 0:
                raise IndexError(f"index {k} is out of bounds for axis {axis} with size 0")
            k = min(max(k + (size if k < 0 else 0), 0), size - 1)  # as of dense arrays
            start.append(k)
            limit.append(k + 1)
            strides.append(1)
    made = bcoo_slice(mat, start_indices=start, limit_indices=limit, strides=strides)
    made = bcoo_rev(made, flipped) if flipped else made
    return bcoo_squeeze(made, dimensions=[i for i, k in enumerate(keys) if not isinstance(k, slice)])


def _by_arrays(mat: BCOO, keys: Sequence[Any], apart: bool) -> BCOO:
    """By arrays, with which integers broadcast; slices are taken first. `apart` is whether `...` was between them."""
    plain = [k for k in keys if k is not None]
    mat = _basic(mat, [k if isinstance(k, slice) else slice(None) for k in plain])
    axes = tuple(i for i, k in enumerate(plain) if not isinstance(k, slice))
    if any(mat.shape[i] == 0 for i in axes):
        raise IndexError(f"an array indexes an axis without elements of an array of shape {mat.shape}")
    arrays = jnp.broadcast_arrays(*[jnp.asarray(plain[i]) for i in axes])
    starts = jnp.stack([jnp.where(a < 0, a + mat.shape[i], a) for i, a in zip(axes, arrays)], axis=-1)
    places = [i for i, k in enumerate(keys) if k is not None and not isinstance(k, slice)]
    together = not apart and places[-1] - places[0] == len(places) - 1
    begin, rank = sum(isinstance(k, slice) for k in keys[: places[0]]) if together else 0, starts.ndim - 1
    rest = mat.ndim - len(axes)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(d for d in range(rest + rank) if not begin <= d < begin + rank),
        collapsed_slice_dims=axes,
        start_index_map=axes,
    )
    sizes = tuple(1 if i in axes else n for i, n in enumerate(mat.shape))
    made = bcoo_gather(mat, starts, numbers, sizes)
    # In the order of the key, whether an axis is new; those of the arrays stand where these do, or in front.
    new = [[k is None] if k is None or isinstance(k, slice) else [] for k in keys]
    new[places[0]] = [False] * rank
    if not together:
        new = [new.pop(places[0]), *new]
    return _with_new_axes(made, [axis for part in new for axis in part])


def _with_new_axes(mat: BCOO, new: Sequence[bool]) -> BCOO:
    if not any(new):
        return mat
    sizes = iter(mat.shape)
    shape = tuple(1 if added else next(sizes) for added in new)
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=[d for d, added in enumerate(new) if not added])
