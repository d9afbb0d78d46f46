"""Indexing of references: what an index means, and reading and writing there as operations on values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes, provided
from veery._core.avals import aval_of
from veery._core.errors import NonConcreteBooleanIndexError
from veery._core.refs import is_ref
from veery._core.slices import Slice as DynamicSlice, has_slice
from veery.lax import _compare, _convert, _shape, _slicing
from veery.lax._arithmetic import add
from veery.lax._gather_scatter import gather, scatter, scatter_add
from veery.lax._gather_scatter_dims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

Shape = tuple[int, ...]


class Slice(NamedTuple):
    """Every `stride`-th element from `start`, `size` of them."""

    start: int
    size: int
    stride: int

    def text(self, size: int) -> str:
        """The slice of a dimension as Python writes it."""
        stop = self.start + (self.size - 1) * self.stride + 1
        step = f":{self.stride}" if self.stride != 1 else ""
        return f"{self.start or ''}:{'' if stop == size else stop}{step}"


class Window(NamedTuple):
    """A part of an array of a shape: of these sizes, from starts that are passed beside it for some dimensions."""

    shape: Shape
    result_shape: Shape
    at: Shape  # the dimensions that have a start

    def starts(self, given: Sequence[Any]) -> list[Any]:
        """A start for each dimension."""
        known = dict(zip(self.at, given))
        return [known.get(d, np.int32(0)) for d in range(len(self.shape))]

    def text(self, starts: Sequence[str]) -> str:
        """The index as Python writes it."""
        known = dict(zip(self.at, starts))
        sizes = enumerate(self.result_shape)
        return ",".join(f"{known[d]}:{known[d]}+{size}" if d in known else ":" for d, size in sizes)


class Indexer(NamedTuple):
    """An index into an array of a shape: for each dimension a slice, or None for integers that are passed beside it."""

    shape: Shape
    dims: tuple[Slice | None, ...]
    integers: Shape  # the shape to which the integers are broadcast

    @property
    def at(self) -> Shape:
        """The dimensions with integers."""
        return tuple([d for d, dim in enumerate(self.dims) if dim is None])

    def text(self, integers: Sequence[str]) -> str:
        """The index as Python writes it."""
        rest = iter(integers)
        return ",".join(next(rest) if dim is None else dim.text(n) for n, dim in zip(self.shape, self.dims))

    @property
    def place(self) -> int:
        """Where the dimensions of the integers go: in the place of theirs, or in front if these are not neighbours."""
        at = self.at
        return at[0] if at and at == tuple(range(at[0], at[-1] + 1)) else 0

    @property
    def result_shape(self) -> Shape:
        """The shape of what is read."""
        sliced = tuple([dim.size for dim in self.dims if dim is not None])
        return sliced[: self.place] + self.integers + sliced[self.place :]

    @property
    def sliced(self) -> Shape:
        """The shape once the slices are taken, with all of the dimensions with integers."""
        return tuple([n if dim is None else dim.size for n, dim in zip(self.shape, self.dims)])


def parse_window(index: Any, shape: Shape) -> tuple[Window, list[Any], Any] | None:
    """The window that Slices with a start that is not known make of an array, the starts, and the index into it."""
    if not has_slice(index):
        return None
    entries = _entries(index, shape)
    at, starts, sizes = [], [], list(shape)
    for d, entry in enumerate(entries):
        if isinstance(entry, DynamicSlice) and not isinstance(entry.start, int):
            at.append(d)
            starts.append(_checked_integers(entry.start, shape[d]))
            sizes[d] = entry.span
            entries[d] = slice(None, None, entry.stride)
    return (Window(shape, tuple(sizes), tuple(at)), starts, tuple(entries)) if at else None


def parse_index(index: Any, shape: Shape) -> tuple[Indexer, list[Any]] | None:
    """An index, and its integers; None for all of an array.

    Args:
        index: integers, slices, integer arrays and `...`, or a tuple of them; None is all.
        shape: that of the array.

    Raises:
        ValueError: there are too many, or they are out of bounds or not to be broadcast.
        TypeError: it is nothing of these.
    """
    if index is None or index is Ellipsis or (isinstance(index, tuple) and not index):
        return None
    entries = _entries(index, shape)
    dims: list[Slice | None] = []
    integers = []
    for entry, size in zip(entries, shape):
        if isinstance(entry, DynamicSlice):
            dims.append(_of_known_start(entry, size))
        elif isinstance(entry, slice):
            dims.append(_static_slice(entry, size))
        else:
            dims.append(None)
            integers.append(_checked_integers(entry, size))
    if not integers and all(d == Slice(0, n, 1) for d, n in zip(dims, shape)):
        return None
    shapes = [np.shape(x) for x in integers]
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"Cannot broadcast shapes for indexing: {shapes}") from None
    return Indexer(shape, tuple(dims), common), integers


def _entries(index: Any, shape: Shape) -> list[Any]:
    """An entry for each dimension."""
    entries = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, x in enumerate(entries) if x is Ellipsis]
    if len(dots) > 1:
        raise ValueError("Only one ellipsis is supported.")
    if len(entries) - len(dots) > len(shape):
        raise ValueError(f"`indices` must not be longer than `shape`: indices={index}, shape={shape}")
    missing = [slice(None)] * (len(shape) - len(entries) + len(dots))
    i = dots[0] if dots else len(entries)
    entries[i : i + len(dots)] = missing
    return entries


def _of_known_start(entry: DynamicSlice, size: int) -> Slice:
    if entry.start < 0 or entry.start + entry.span > size:
        raise ValueError(
            f"Out of bound slice: start={entry.start}, size={entry.size}, stride={entry.stride}, dim={size}."
        )
    return Slice(entry.start, entry.size, entry.stride)


def _static_slice(entry: slice, size: int) -> Slice:
    start, stop, step = entry.indices(size)
    if step < 1:
        raise ValueError(f"slice must have a step >= 1 (found: {step})")
    if start >= size and size:
        raise ValueError(f"Out of bound slice: start={start}, dim={size}.")
    return Slice(start, len(range(start, stop, step)), step)


def _checked_integers(entry: Any, size: int) -> Any:
    """Integers by which a dimension is indexed."""
    if is_ref(entry):
        entry = entry[...]
    if isinstance(entry, (list, tuple)):
        entry = np.asarray(entry)
    aval: Any = aval_of(entry)
    if dtypes.issubdtype(aval.dtype, np.bool_):
        raise NonConcreteBooleanIndexError(entry if hasattr(entry, "aval") else provided.backend.as_array(entry))
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"references are indexed by integers, slices and ..., got {aval.str_short()}")
    if isinstance(entry, (int, np.integer)):
        i = operator.index(entry)
        if not -size <= i < size:
            raise ValueError(f"Out of bound indexer: idx={i}, dim={size}.")
        return np.int32(i % size)
    return entry


# Reading and writing. Single integers move inside the array, as the start of a dynamic slice does; where they come in
# arrays, reading moves them inside and writing leaves out what is not. Negative ones count from the end.


def read_at(x: Any, indexer: Indexer | Window, integers: Sequence[Any]) -> Any:
    """What an index reads of an array."""
    if isinstance(indexer, Window):
        return _slicing.dynamic_slice(x, indexer.starts(integers), indexer.result_shape)
    x = _read_slices(x, indexer)
    if not indexer.at:
        return x
    if not indexer.integers:
        window = _slicing.dynamic_slice(x, _starts(indexer, integers), _window(indexer))
        return _shape.reshape(window, indexer.result_shape)
    offsets, indices = _offsets(indexer), _vectors(indexer, integers)
    numbers = GatherDimensionNumbers(offsets, indexer.at, indexer.at)
    return gather(x, indices, numbers, _window(indexer), mode=GatherScatterMode.CLIP)


def written_at(x: Any, indexer: Indexer | Window, integers: Sequence[Any], value: Any, *, adding: bool = False) -> Any:
    """An array with values in the place of what an index reads, or added to it."""
    if isinstance(indexer, Window):
        value = add(read_at(x, indexer, integers), value) if adding else value
        return _slicing.dynamic_update_slice(x, value, indexer.starts(integers))
    if not indexer.at:
        return _write_slices(x, indexer, add(_read_slices(x, indexer), value) if adding else value)
    inner = _read_slices(x, indexer)
    if not indexer.integers:
        starts = _starts(indexer, integers)
        value = _shape.reshape(value, _window(indexer))
        if adding:
            value = add(_slicing.dynamic_slice(inner, starts, _window(indexer)), value)
        inner = _slicing.dynamic_update_slice(inner, value, starts)
    else:
        numbers = ScatterDimensionNumbers(_offsets(indexer), indexer.at, indexer.at)
        write = scatter_add if adding else scatter
        mode = GatherScatterMode.FILL_OR_DROP
        inner = write(inner, _vectors(indexer, integers), value, numbers, mode=mode)
    return _write_slices(x, indexer, inner)


def _slices(indexer: Indexer) -> list[Slice]:
    return [Slice(0, n, 1) if dim is None else dim for n, dim in zip(indexer.shape, indexer.dims)]


def _read_slices(x: Any, indexer: Indexer) -> Any:
    if indexer.sliced == indexer.shape:
        return x
    slices = _slices(indexer)
    limits = [s.start + max(s.size - 1, 0) * s.stride + min(s.size, 1) for s in slices]
    return _slicing.slice(x, [s.start for s in slices], limits, [s.stride for s in slices])


def _write_slices(x: Any, indexer: Indexer, value: Any) -> Any:
    if indexer.sliced == indexer.shape:
        return value
    if 0 in indexer.sliced:
        return x
    slices = _slices(indexer)
    if all(s.stride == 1 for s in slices):
        return _slicing.dynamic_update_slice(x, value, [np.int32(s.start) for s in slices])
    # elements lie between those that are written: spread the values and select them
    ends = [n - s.start - (s.size - 1) * s.stride - 1 for n, s in zip(indexer.shape, slices)]
    padding = [(s.start, end, s.stride - 1) for s, end in zip(slices, ends)]
    mask = _shape.pad(_shape.full(indexer.sliced, True, np.bool_), np.bool_(False), padding)
    zero = _shape.full((), 0, aval_of(x).dtype)
    return _compare.select(mask, _shape.pad(value, zero, padding), x)


def _window(indexer: Indexer) -> Shape:
    return tuple([1 if dim is None else dim.size for dim in indexer.dims])


def _starts(indexer: Indexer, integers: Sequence[Any]) -> list[Any]:
    rest = iter(integers)
    return [next(rest) if dim is None else np.int32(0) for dim in indexer.dims]


def _offsets(indexer: Indexer) -> Shape:
    """The dimensions of what is read that stem from slices."""
    first, count = indexer.place, len(indexer.integers)
    return tuple([d for d in range(len(indexer.result_shape)) if not first <= d < first + count])


def _vectors(indexer: Indexer, integers: Sequence[Any]) -> Any:
    """The integers as index vectors, along a last dimension."""
    columns = []
    for d, x in zip(indexer.at, integers):
        aval: Any = aval_of(x)
        dtype = aval.dtype if dtypes.issubdtype(aval.dtype, np.signedinteger) and aval.dtype.itemsize >= 4 else np.int32
        x = _convert.convert_element_type(x, dtype)
        if dtypes.issubdtype(aval.dtype, np.signedinteger):
            from_end = add(x, _shape.full_like(x, indexer.shape[d]))
            x = _compare.select(_compare.lt(x, _shape.full_like(x, 0)), from_end, x)
        ndim = len(indexer.integers)
        dims = tuple(range(ndim - len(np.shape(x)), ndim))
        columns.append(_shape.broadcast_in_dim(x, (*indexer.integers, 1), dims))
    if len({aval_of(c).dtype for c in columns}) > 1:
        columns = [_convert.convert_element_type(c, np.int64) for c in columns]
    return columns[0] if len(columns) == 1 else _shape.concatenate(columns, len(indexer.integers))
