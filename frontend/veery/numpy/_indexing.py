"""Reading with index expressions: `x[...]` and `x.at[...].get()`.

Slices and scalars lower to slice, rev and dynamic_slice, integer arrays to one gather. Outside of transformations the
places are operands of the program, so that `x[0]` and `x[1]` share one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery import lax
from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.config import config
from veery._core.device import keeps_arrays
from veery._core.dimensions import is_symbolic_dim, max_dim, min_dim
from veery._core.slices import has_slice
from veery._core.trace import Tracer, current_trace, eval_trace
from veery.lax import GatherDimensionNumbers, GatherScatterMode
from veery.lax._check import check_index
from veery.lax._slicing import check_indexable
from veery.numpy._arithmetic import as_array, choose
from veery.numpy._creation import from_host, from_host_of
from veery.numpy._dynamic_slices import window_of
from veery.numpy._elementwise import jitted
from veery.numpy._index_expressions import Index, Slice, concrete_mask, parse
from veery.numpy._promotion import Array, size_as, to_dtype

_CLAMPING = (None, GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def mode_of(mode: Any) -> GatherScatterMode | None:
    """The mode by its name; None stays for the default, which differs between reading and writing."""
    if mode is None:
        return None
    try:
        return GatherScatterMode.from_any(mode)
    except ValueError:
        raise ValueError(f'Unknown gather mode "{mode}"') from None


def take_index(
    x: Array,
    idx: Any,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """`x[idx]`, with what `x.at[idx].get` adds to it.

    Args:
        x: array.
        idx: an index expression.
        indices_are_sorted: promise about the order of places.
        unique_indices: promise that no place occurs twice.
        mode: out of bounds: None, "clip" and "promise_in_bounds" read the nearest element, "fill" the fill value. Only
            with "clip" it has the derivative of that element; with the two others what an array of indices read out
            of bounds has none.
        fill_value: a number; by default NaN, or the least (unsigned: the greatest) integer.
        wrap_negative_indices: whether negative integers count from the end.
    """
    if fill_value is not None and np.ndim(fill_value):
        raise ValueError("fill_value argument to indexed get() must be a scalar")
    if has_slice(idx):
        window = window_of(x.shape, idx)
        return take_index(window.of(x), window.rest, wrap_negative_indices=wrap_negative_indices)
    mode = mode_of(mode)
    if _is_host_mask(x, idx):
        return from_host_of(np.array(x.to_numpy()[concrete_mask(idx)]), x, weak_type=x.weak_type)
    index = parse(x.shape, idx)
    if index.is_basic and wrap_negative_indices and mode in _CLAMPING:
        if index.is_static and is_eager(x):
            return _eager_basic(x, index)
        return _basic(x, index)
    promises = (indices_are_sorted, unique_indices, mode, fill_value, wrap_negative_indices)
    plan, arrays = plan_gather(index, *promises)
    if is_eager(x, *arrays):
        return _gather_program(plan)(x, *arrays)
    return gather_by_plan(x, plan, arrays)


def is_eager(*xs: Any) -> bool:
    """Whether an operation on these values is evaluated at once, by a program that serves all places in an array.

    Where reused keys are looked for, places are to be seen, as parameters of operations.
    """
    if config.jax_debug_key_reuse:
        return False
    return current_trace() is eval_trace and not any(isinstance(x, Tracer) for x in xs)


def _is_host_mask(x: Array, idx: Any) -> bool:
    """Whether the index is one mask with a value, for an array with one: then NumPy selects, and nothing compiles."""
    if not (is_eager(x, idx) and isinstance(x, ArrayImpl) and isinstance(idx, (np.ndarray, ArrayImpl))):
        return False
    return idx.dtype == np.bool_ and 0 < idx.ndim and idx.shape == x.shape[: idx.ndim] and x.dtype in dtypes.ALL_DTYPES


# Slices and scalars.


def wrap(i: int, n: int) -> int:
    """A static index counted from the start, moved inside."""
    return min_dim(max_dim(i + n if i < 0 else i, 0), n - 1)


def check_static(index: Index) -> None:
    """Have `checkify` told of Python ints out of bounds, which are moved inside."""
    if not config.checks_indices:
        return
    for axis, (e, n) in enumerate(zip(index.entries, index.shape)):
        if isinstance(e, int) and not -n <= e < n:
            check_index(np.int32(e if e >= 0 else e + n), index.shape, axis)


def _basic(x: Array, index: Index) -> Array:
    """Slices first, then scalars: static ones are slices of size 1, traced ones starts of a dynamic_slice."""
    check_static(index)
    x = lax.expand_dims(x, index.newaxes) if index.newaxes else x
    static = [
        Slice(wrap(e, n), 1, 1) if isinstance(e, int) else e if isinstance(e, Slice) else Slice(0, n, 1)
        for e, n in zip(index.entries, index.shape)
    ]
    x = slice_static(x, static)
    dynamic = [not isinstance(e, (Slice, int)) for e in index.entries]
    if any(dynamic):
        starts = [e if d else np.int32(0) for e, d in zip(index.entries, dynamic)]
        starts = [normalize(i, n) if d else i for i, n, d in zip(starts, index.shape, dynamic)]
        sizes = [1 if d else s.size for s, d in zip(static, dynamic)]
        x = lax.dynamic_slice(x, unify(starts), sizes, allow_negative_indices=False)
    dropped = [i for i, e in enumerate(index.entries) if not isinstance(e, Slice)]
    return lax.squeeze(x, dropped) if dropped else as_array(x)


def unify(indices: Sequence[Any]) -> list[Any]:
    """Scalars or arrays of integers in one dtype."""
    wide = any(i.dtype == np.int64 for i in indices)
    return [to_dtype(i, np.dtype(np.int64 if wide else np.int32)) for i in indices]


def slice_static(x: Array, slices: Sequence[Slice]) -> Array:
    """The slices of an array, one for each dimension."""
    if not all(s.is_full(n) for s, n in zip(slices, x.shape)):
        first = [s.start if s.step > 0 else s.start + (s.size - 1) * s.step for s in slices]
        steps = [abs(s.step) for s in slices]
        limits = [f + (s.size - 1) * step + 1 if s.size else f for f, s, step in zip(first, slices, steps)]
        if any(s.size != n or step != 1 for s, n, step in zip(slices, x.shape, steps)):
            x = lax.slice(x, first, limits, steps if any(step != 1 for step in steps) else None)
    reversed_dims = [i for i, s in enumerate(slices) if s.step < 0]
    return lax.rev(x, reversed_dims) if reversed_dims else x


def _eager_basic(x: ArrayImpl, index: Index) -> Array:
    """As _basic, with the starts as an operand: x[0] and x[1] are one program."""
    sizes, starts = [], []
    for e, n in zip(index.entries, index.shape):
        s = Slice(wrap(e, n), 1, 1) if isinstance(e, int) else e
        span = (s.size - 1) * abs(s.step) + 1 if s.size else 0
        starts.append(s.start if s.step > 0 else s.start - span + 1)
        sizes.append((span, s.step))
    dropped = tuple(i for i, e in enumerate(index.entries) if isinstance(e, int))
    if not any(s != (n, 1) for s, n in zip(sizes, index.shape)) and not dropped and not index.newaxes:
        return x
    return _slice_program(index.newaxes, tuple(sizes), dropped)(x, _starts(tuple(starts)))


def take_int(x: Array, i: int) -> Array:
    """`x[i]`, for eager calls without the parsing: they are what loops over an array do."""
    if not is_eager(x):
        return take_index(x, i)
    program, starts = _int_plan(x.shape, i, config.jax_check_static_indices)
    return program(x, starts)


@keeps_arrays
@functools.lru_cache(maxsize=4096)
def _int_plan(shape: tuple[int, ...], i: int, checked: bool) -> tuple[Any, ArrayImpl]:
    index = parse(shape, i)
    sizes = ((1, 1), *((n, 1) for n in shape[1:]))
    return _slice_program((), sizes, (0,)), _starts((wrap(i, index.shape[0]), *(0 for _ in shape[1:])))


@keeps_arrays
@functools.lru_cache(maxsize=4096)
def _starts(starts: tuple[int, ...]) -> ArrayImpl:
    return from_host(np.array(starts, np.int32 if max(starts, default=0) < 2**31 else np.int64))


@functools.lru_cache(maxsize=1024)
def _slice_program(newaxes: tuple[int, ...], sizes: tuple[tuple[int, int], ...], dropped: tuple[int, ...]) -> Any:
    def getitem(x: Array, starts: Array) -> Array:
        x = lax.expand_dims(x, newaxes) if newaxes else x
        if any(span != n for (span, _), n in zip(sizes, x.shape)):
            where = [lax.squeeze(lax.slice(starts, (i,), (i + 1,)), (0,)) for i in range(len(sizes))]
            x = lax.dynamic_slice(x, where, [span for span, _ in sizes], allow_negative_indices=False)
        inner = [Slice(0 if step > 0 else span - 1, -(-span // abs(step)), step) for span, step in sizes]
        x = slice_static(x, inner)
        return lax.squeeze(x, dropped) if dropped else x

    return jitted(getitem)


# Integer arrays.


class Plan(NamedTuple):
    """All of a gather or scatter but its arrays.

    Attributes:
        newaxes, apart: as in Index.
        slices: a Slice for each dimension, None for those that arrays index.
        sorted, unique, mode, fill_value, wrap: see take_index.
    """

    newaxes: tuple[int, ...]
    apart: bool
    slices: tuple[Slice | None, ...]
    sorted: bool
    unique: bool
    mode: Any
    fill_value: Any
    wrap: bool


def plan_gather(
    index: Index, indices_are_sorted: bool, unique_indices: bool, mode: Any, fill_value: Any, wrap_negative: bool
) -> tuple[Plan, list[Any]]:
    """The static part of an index expression and the integers and integer arrays in it."""
    slices = tuple(e if isinstance(e, Slice) else None for e in index.entries)
    arrays = [e for e in index.entries if not isinstance(e, Slice)]
    fill = np.asarray(fill_value).item() if hasattr(fill_value, "item") else fill_value
    options = indices_are_sorted, unique_indices, mode, fill, wrap_negative
    return Plan(index.newaxes, index.apart, slices, *options), arrays


@functools.lru_cache(maxsize=1024)
def _gather_program(plan: Plan) -> Any:
    def getitem(x: Array, *arrays: Array) -> Array:
        return gather_by_plan(x, plan, arrays)

    return jitted(getitem)


def normalize(i: Any, n: int, wrap_negative: bool = True) -> Any:
    """Indices as int32 (or int64), negative ones counted from the end."""
    if is_symbolic_dim(i):  # counted from the start already
        return size_as(i, np.dtype(np.int32))
    i = np.asarray(i) if isinstance(i, (int, np.generic)) else i
    i = to_dtype(i, dtypes.canonicalize_dtype(i.dtype)) if isinstance(i, np.ndarray) else i
    long = isinstance(n, int) and n > 2**31 - 1
    wide = np.dtype(np.int64 if i.dtype.itemsize == 8 or long else np.int32)
    if long and not isinstance(i, (np.ndarray, np.generic)):
        check_indexable(n, dtypes.canonicalize_dtype(wide))
    if dtypes.issubdtype(i.dtype, np.unsignedinteger):
        if i.dtype.itemsize >= wide.itemsize:
            i = lax.min(i, size_as(min_dim(n, 2**31 - 1), i.dtype))
        return to_dtype(i, wide)
    i = to_dtype(i, wide)
    if not wrap_negative:
        return i
    if isinstance(i, (np.ndarray, np.generic)):
        known = np.asarray(i)
        if not (known < 0).any():
            return known
        if not is_symbolic_dim(n):
            return np.where(known < 0, known + wide.type(n), known)
    return choose(lax.lt(i, wide.type(0)), lax.add(i, size_as(n, wide)), i)


def index_vectors(arrays: Sequence[Any], sizes: Sequence[int], wrap_negative: bool) -> tuple[Array, tuple[int, ...]]:
    """Index arrays, broadcast and stacked along a last dimension; and the shape they broadcast to."""
    arrays = unify([normalize(a, n, wrap_negative) for a, n in zip(arrays, sizes)])
    shape = lax.broadcast_shapes(*(np.shape(a) for a in arrays))
    columns = [lax.broadcast_in_dim(a, (*shape, 1), tuple(range(len(shape) - np.ndim(a), len(shape)))) for a in arrays]
    return (columns[0] if len(columns) == 1 else lax.concatenate(columns, len(shape))), shape


def placement(plan: Plan) -> int:
    """Where the dimensions of the broadcast index arrays go in the result, as NumPy has it.

    In place of the indexed dimensions if these stand side by side, else in front.
    """
    indexed = [i for i, s in enumerate(plan.slices) if s is None]
    together = not plan.apart and indexed[-1] - indexed[0] == len(indexed) - 1
    return indexed[0] if together else 0


def gather_by_plan(x: Array, plan: Plan, arrays: Sequence[Any]) -> Array:
    """Read with slices and integer arrays: the slices first, then one gather, then reversals."""
    x = lax.expand_dims(x, plan.newaxes) if plan.newaxes else x
    x = slice_static(x, [Slice(0, n, 1) if s is None else _forward(s) for s, n in zip(plan.slices, x.shape)])
    indexed = tuple(i for i, s in enumerate(plan.slices) if s is None)
    if not indexed:  # a mode was given, which slices do not heed
        reversed_dims = [i for i, s in enumerate(plan.slices) if s is not None and s.step < 0]
        return lax.rev(x, reversed_dims) if reversed_dims else x
    vectors, shape = index_vectors(arrays, [x.shape[i] for i in indexed], plan.wrap)
    at = placement(plan)
    rank = len(plan.slices) - len(indexed) + len(shape)
    offset = tuple(i for i in range(rank) if not at <= i < at + len(shape))
    sizes = tuple(1 if i in indexed else n for i, n in enumerate(x.shape))
    if not all(x.shape[i] for i in indexed):
        return _gather_of_nothing(x, indexed, shape, at)
    out = lax.gather(
        x,
        vectors,
        GatherDimensionNumbers(offset, indexed, indexed),
        sizes,
        unique_indices=plan.unique,
        indices_are_sorted=plan.sorted,
        mode=plan.mode or GatherScatterMode.PROMISE_IN_BOUNDS,
        fill_value=plan.fill_value,
    )
    kept = [s for s in plan.slices if s is not None]
    reversed_dims = [dim for dim, s in zip(offset, kept) if s.step < 0]
    return lax.rev(out, reversed_dims) if reversed_dims else out


def _forward(s: Slice) -> Slice:
    """The same elements in ascending order."""
    return s if s.step > 0 else Slice(s.start + (s.size - 1) * s.step, s.size, -s.step)


def _gather_of_nothing(x: Array, indexed: tuple[int, ...], shape: tuple[int, ...], at: int) -> Array:
    """Reading from a dimension without elements: possible only at no place at all."""
    axis = next(i for i in indexed if not x.shape[i])
    if 0 not in shape:
        raise IndexError(f"index is out of bounds for axis {axis} with size 0")
    rest = [n for i, n in enumerate(x.shape) if i not in indexed]
    return lax.full((*rest[:at], *shape, *rest[at:]), 0, x.dtype)
