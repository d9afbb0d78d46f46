"""Reductions over the segments of an array: the elements that have one index in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import numpy as jnp
from veery._api.jit import jit
from veery.lax._computation import highest, lowest
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike
from veery.numpy._selection import known_values


def _segment_reduction(
    name: str, update: str, reduction: Callable[..., Array], neutral: Callable[[Any], Any], doc: str
) -> Callable[..., Array]:
    """A public function: `update` of `Array.at` by segment, `reduction` of what it gives for buckets."""

    def reduce_segments(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        out_sharding: Any = None,
    ) -> Array:
        data, segment_ids = ensure_arraylike(name, data, segment_ids)
        if num_segments is None:
            num_segments = int(np.max(known_values(segment_ids, f"{name}() `num_segments` argument."), initial=-1)) + 1
        if num_segments < 0:
            raise ValueError("num_segments must be non-negative.")
        options = (num_segments, indices_are_sorted, unique_indices, bucket_size, mode)
        return _reduce(update, reduction, neutral, data, segment_ids, *options)

    reduce_segments.__name__ = reduce_segments.__qualname__ = name
    reduce_segments.__doc__ = doc
    return reduce_segments


@jit(static_argnums=(0, 1, 2, 5, 6, 7, 8, 9))
def _reduce(
    update: str,
    reduction: Callable[..., Array],
    neutral: Callable[[Any], Any],
    data: Array,
    ids: Array,
    count: int,
    is_sorted: bool,
    unique: bool,
    bucket_size: int | None,
    mode: Any,
) -> Array:
    data, ids = jnp.asarray(data), jnp.asarray(ids)
    shape = (count, *data.shape[ids.ndim :])
    index: tuple[Array, ...] = (ids,)
    if bucket_size is not None:
        buckets = np.arange(ids.shape[0]) // bucket_size
        shape = (max(1, -(-ids.shape[0] // bucket_size)), *shape)
        index = (jnp.broadcast_to(buckets.reshape(-1, *[1] * (ids.ndim - 1)), ids.shape), ids)
        is_sorted = False
    at = jnp.full(shape, neutral(data.dtype), data.dtype).at[index]
    out = getattr(at, update)(
        data, indices_are_sorted=is_sorted, unique_indices=unique, mode=mode, wrap_negative_indices=False
    )
    return out if bucket_size is None else reduction(out, axis=0).astype(data.dtype)


segment_sum = _segment_reduction(
    "segment_sum",
    "add",
    jnp.sum,
    lambda dtype: 0,
    """The sums of the elements of each segment.

Args:
    data: array (*segment_ids.shape, ...).
    segment_ids: integer array: the segment of each element. Elements of segments that are not there, also those
        with negative ids, are left out.
    num_segments: how many segments there are; by default as many as the largest id needs, for which the ids must be
        known. Traced functions must say it.
    indices_are_sorted: promise that the ids are.
    unique_indices: promise that no id occurs twice.
    bucket_size: add in groups of so many elements and then the groups, for precision.
    mode: of writing out of bounds, see `Array.at`.
    out_sharding: accepted for compatibility.

Returns:
    Array (num_segments, ...) of data's dtype; the sums of empty segments are 0.

Raises:
    ConcretizationTypeError: num_segments is not given and the ids are traced.
    ValueError: num_segments is negative, or the shapes do not fit.

>>> segment_sum(jnp.arange(5), jnp.array([0, 0, 1, 1, 3]))
Array([1, 5, 0, 4], dtype=int32)
""",
)


segment_prod = _segment_reduction(
    "segment_prod",
    "multiply",
    jnp.prod,
    lambda dtype: 1,
    """The products of the elements of each segment, 1 for empty ones; see `segment_sum`.

>>> segment_prod(jnp.arange(1, 5), jnp.array([0, 0, 1, 1]))
Array([ 2, 12], dtype=int32)
""",
)


segment_max = _segment_reduction(
    "segment_max",
    "max",
    jnp.max,
    lowest,
    """The largest element of each segment, -inf or the smallest integer for empty ones; see `segment_sum`.

>>> segment_max(jnp.array([3.0, 1.0, 2.0]), jnp.array([0, 0, 2]))
Array([  3., -inf,   2.], dtype=float32)
""",
)


segment_min = _segment_reduction(
    "segment_min",
    "min",
    jnp.min,
    highest,
    """The smallest element of each segment, inf or the largest integer for empty ones; see `segment_sum`.

>>> segment_min(jnp.array([3.0, 1.0, 2.0]), jnp.array([0, 0, 2]))
Array([ 1., inf,  2.], dtype=float32)
""",
)
