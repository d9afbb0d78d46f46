"""Counting: histograms, occurrences of integers, and the bins that values belong to."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import concrete_int
from veery.lax._placement import lays_out
from veery.numpy import _reductions
from veery.numpy._arithmetic import clip
from veery.numpy._creation import asarray
from veery.numpy._differences import diff
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    ensure_arraylike,
    ensure_arraylike_or_none,
    ensure_arraylikes,
    promote_dtypes_inexact,
    to_dtype,
    unwrap,
)
from veery.numpy._ranges import linspace
from veery.numpy._selection import known_values, where
from veery.numpy._shaping import as_array, ravel
from veery.numpy._sorting import searchsorted


@jit(static_argnames=("length",))
def _counts(x: Array, weights: Any, *, length: int) -> Array:
    """The sums of weights for each integer; those out of bounds are left out."""
    x = clip(x, 0)
    weights = np.ones((), dtypes.default_int_dtype()) if weights is None else as_array(weights)
    return lax.full((length,), 0, weights.dtype).at[x].add(weights, mode="drop")


@lays_out
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """How often each integer occurs.

    Args:
        x: vector of integers; negative ones count as 0.
        weights: what each occurrence counts; 1 by default.
        minlength: least size of the result.
        length: size of the result, needed while x is traced; greater integers are left out.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        TypeError: x does not hold integers.
        ValueError: x is no vector, or the shape of the weights is another.
        ConcretizationTypeError: x is traced and length not given.

    >>> bincount(np.array([1, 1, 3]))
    Array([0, 2, 0, 1], dtype=int32)
    """
    given = ensure_arraylike("bincount", x)
    x = as_array(given)
    if x.dtype == np.bool_:
        x = x.astype(np.int32)
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(f"x argument to bincount must have an integer type; got {x.dtype}")
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    if weights is not None and np.shape(weights) != x.shape:
        raise ValueError("shape of weights must match shape of x.")
    minlength = concrete_int(minlength, "The error occurred because of argument 'minlength' of jnp.bincount.")
    if length is None:
        known = known_values(
            given,
            "The error occurred because of argument 'x' of jnp.bincount. To avoid this error, pass a static `length` "
            "argument.",
        )
        length = builtins.max(minlength, builtins.max(0, int(known.max())) + 1 if known.size else 0)
    else:
        length = concrete_int(length, "The error occurred because of argument 'length' of jnp.bincount.")
    return _counts(x, weights, length=length)


@jit(static_argnames=("right", "method"))
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """The bins that values belong to: 0 before the first edge, the number of edges behind the last.

    Args:
        x: values.
        bins: vector of edges, ascending or descending.
        right: whether an edge belongs to the bin that it ends; else to the one that it begins.
        method: as in `searchsorted`.

    Returns:
        int32 array of x's shape.

    Raises:
        ValueError: bins is no vector.

    >>> digitize(np.array([0.5, 1.0, 9.0], np.float32), np.array([1.0, 2.0], np.float32))
    Array([0, 1, 2], dtype=int32)
    """
    x, edges = (as_array(a) for a in ensure_arraylike("digitize", x, bins))
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got bins={bins!r}")
    size = edges.shape[0]
    if size == 0:
        return lax.full(x.shape, 0, np.dtype(np.int32))
    side, method = "left" if right else "right", method or "scan"
    ascending = searchsorted(edges, x, side, method=method)
    descending = size - searchsorted(lax.rev(edges, (0,)), x, side, method=method)
    return where(edges[-1] >= edges[0], ascending, descending)


def _even_edges(a: Array, low: Any, high: Any, bins: int, dtype: Any) -> Array:
    if low is None:
        low, high = (_reductions.min(a), _reductions.max(a)) if a.size else (0, 1)
    low, high = asarray(low, dtype=dtype), asarray(high, dtype=dtype)
    empty = low == high
    return linspace(where(empty, low - 0.5, low), where(empty, high + 0.5, high), bins + 1, dtype=dtype)


_edges_alone = jit(_even_edges, static_argnames=("bins", "dtype"))
_edges_alone._name = "histogram_bin_edges"


def _asked(bins: ArrayLike, range: Any, dtype: Any) -> tuple[int, Any, Any, Any]:
    """The edges that are asked for: their number less one, themselves if they are given, else the first and last."""
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    if np.ndim(bins) == 1:
        edges = asarray(bins, dtype=dtype)
        return edges.shape[0] - 1, edges, None, None
    count = concrete_int(bins, "bins argument of histogram_bin_edges")
    if range is not None and not (hasattr(range, "__len__") and len(range) == 2):
        raise ValueError(f"`range` must be either None or a sequence of scalars, got {range}")
    low, high = (None, None) if range is None else (range[0], range[1])
    return count, None, low, high


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of a histogram's bins.

    Args:
        a: values.
        bins: number of bins of equal width, or the edges themselves.
        range: first and last edge; by default the least and the greatest value.
        weights: without effect.

    Raises:
        NotImplementedError: bins is a string.
        ValueError: range is not a pair.

    >>> histogram_bin_edges(np.array([0.0, 4.0], np.float32), 2)
    Array([0., 2., 4.], dtype=float32)
    """
    a = ensure_arraylike("histogram_bin_edges", a)
    a = as_array(unwrap(a))
    dtype = dtypes.to_inexact_dtype(a.dtype)
    count, edges, low, high = _asked(bins, range, dtype)
    return _edges_alone(a, low, high, bins=count, dtype=dtype) if edges is None else edges


@jit(static_argnames=("count", "density"))
def _histogram(
    a: Array, weights: Array | None, edges: Any, low: Any, high: Any, *, count: int, density: bool
) -> tuple[Array, Array]:
    a = ravel(a)
    edges = _even_edges(a, low, high, count, a.dtype) if edges is None else edges
    weights = lax.full_like(a, 1) if weights is None else ravel(weights)
    size = edges.shape[0]
    place = searchsorted(edges, a, side="right")
    # the last bin includes its end
    place = where(a == edges[-1], size - 1, place)
    counts = lax.full((size,), 0, weights.dtype).at[place].add(weights, mode="drop")[1:]
    return counts / diff(edges) / _reductions.sum(counts) if density else counts, edges


_histogram._name = "histogram"


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many values lie in each of successive bins, the last of which includes its end.

    Args:
        a: values.
        bins: number of bins of equal width, or their edges.
        range: first and last edge; by default the least and the greatest value.
        weights: what each value counts; 1 by default.
        density: whether the result is divided by the bins' widths and by its sum.

    Returns:
        The counts, in a floating-point dtype, and the edges, one more.

    >>> [x.tolist() for x in histogram(np.array([0.0, 1.0, 4.0], np.float32), 2)]
    [[2.0, 1.0], [0.0, 2.0, 4.0]]
    """
    a, weights = ensure_arraylike_or_none("histogram", a, weights)
    if weights is not None and np.shape(a) != np.shape(weights):
        raise ValueError("weights should have the same shape as a.")
    given = promote_dtypes_inexact(*(unwrap(x) for x in (a, weights) if x is not None))
    count, *edges = _asked(bins, range, given[0].dtype)
    return _histogram(given[0], None if weights is None else given[1], *edges, count=count, density=bool(density))


@jit(static_argnames=("counts", "density"))
def _histogramdd(
    sample: Array | list[Array], weights: Array | None, asked: list[Any], *, counts: tuple[int, ...], density: bool
) -> tuple[Array, list[Array]]:
    """The histogram of points, [N, D] or their coordinates, with edges for each dimension as `_asked` gives them."""
    points = sample if isinstance(sample, list) else [sample[:, i] for i in builtins.range(sample.shape[1])]
    edges = [
        _even_edges(x, low, high, n, x.dtype) if e is None else e for x, n, (e, low, high) in zip(points, counts, asked)
    ]
    shape, size = tuple(e.shape[0] - 1 for e in edges), points[0].shape[0]
    total = lax.full((size,), 0, np.dtype(np.int32))
    inside = lax.full((size,), True, np.dtype(np.bool_))
    for i, (x, e) in enumerate(zip(points, edges)):
        place = where(x == e[-1], shape[i], searchsorted(e, x, side="right")) - 1
        inside = inside & (place >= 0) & (place < shape[i])
        total = total * shape[i] + place
    weights = lax.full((size,), 1, dtypes.default_int_dtype()) if weights is None else weights
    boxes = math.prod(shape)
    out = lax.full((boxes,), 0, weights.dtype).at[where(inside, total, boxes)].add(weights, mode="drop")
    out = lax.reshape(out, shape)
    if density:
        out = to_dtype(out, edges[0].dtype)
        out = out / _reductions.sum(out)
        for i, e in enumerate(edges):
            out = out / lax.expand_dims(diff(e), tuple(j for j in builtins.range(len(edges)) if j != i))
    return out, edges


_histogramdd._name = "histogramdd"


def _count_points(
    sample: Array | list[Array], dims: int, weights: Array | None, bins: Any, range: Any, density: bool | None
) -> tuple[Array, list[Array]]:
    try:
        per_dimension = [operator.index(bins)] * dims
    except TypeError:
        per_dimension = list(bins)
    if len(per_dimension) != dims:
        raise ValueError("should be a bin for each dimension.")
    dtype = (sample[0] if isinstance(sample, list) else sample).dtype
    asked = [_asked(b, r, dtype) for b, r in zip(per_dimension, [None] * dims if range is None else range)]
    counts = tuple(count for count, *_ in asked)
    return _histogramdd(sample, weights, [rest for _, *rest in asked], counts=counts, density=bool(density))


def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points lie in each box of a grid (see `histogram`).

    Args:
        sample: points, [N, D].
        bins: number of bins in each dimension, or a sequence with a number or edges for each.
        range: first and last edge for each dimension, or None.
        weights: what each point counts; 1 by default.
        density: whether the result is divided by the boxes' volumes and by its sum.

    Returns:
        The counts, of rank D, and a list of the edges in each dimension.

    Raises:
        ValueError: the arguments' sizes do not fit.

    >>> histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]], np.float32), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    sample, weights = ensure_arraylike_or_none("histogramdd", sample, weights)
    count, dims = np.shape(sample)
    if weights is not None and np.shape(weights) != (count,):
        raise ValueError("should have one weight for each sample.")
    given = [as_array(x) for x in promote_dtypes_inexact(*(unwrap(x) for x in (sample, weights) if x is not None))]
    _check_ranges((count, dims), range)
    return _count_points(given[0], dims, given[1] if len(given) > 1 else None, bins, range, density)


def _check_ranges(shape: tuple[int, int], range: Any) -> None:
    if range is not None and (len(range) != shape[1] or builtins.any(r is not None and len(r) != 2 for r in range)):
        raise ValueError(
            f"For sample.shape={shape}, range must be a sequence of {shape[1]} pairs or Nones; got {range=}"
        )


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many points of a plane lie in each rectangle of a grid (see `histogramdd`).

    Args:
        x: first coordinates, a vector.
        y: second ones.
        bins: number of bins in both dimensions, edges for both, or a pair with a number or edges for each.
        range: first and last edge for each dimension, or None.
        weights: what each point counts; 1 by default.
        density: whether the result is divided by the areas and by its sum.

    Returns:
        The counts, a matrix, and the edges in both dimensions.

    >>> histogram2d(np.array([0.0, 1.0], np.float32), np.array([0.0, 1.0], np.float32), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    operands = ensure_arraylikes("histogram2d", *(a for a in (x, y, weights) if a is not None))
    shape = np.shape(operands[0])
    if len(shape) != 1 or builtins.any(np.shape(a) != shape for a in operands):
        raise ValueError(f"histogram2d: x, y and weights must be vectors of one size, got {[*map(np.shape, operands)]}")
    _check_ranges((shape[0], 2), range)
    try:
        count = len(bins)
    except TypeError:  # a number, or an array of rank 0
        count = 1
    if count not in (1, 2):
        bins = [bins, bins]
    columns = [as_array(a) for a in promote_dtypes_inexact(*operands)]
    counts, edges = _count_points(columns[:2], 2, columns[2] if len(columns) > 2 else None, bins, range, density)
    return counts, edges[0], edges[1]
