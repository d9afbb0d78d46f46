"""Sizes that are known at run time: as entries of shapes beside ints, and the operations that IREE compiles for them.

An entry is an `Extent` (the size of a value's dimension, from `shape_of`) or a dimension expression of the jaxpr, whose
variables have values within `dimension_values`. `dynamic_reshape`, `real_dynamic_slice` and `dynamic_broadcast_in_dim`
without its hints do not compile with IREE 3.13; collapse and expand, `tensor.extract_slice` and the hints do.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering.mlir import ir, maker
from veery_lowering.stablehlo._build import Extent, Value, dtype_of, integer, integers, one, operation, shape_of
from veery_lowering.stablehlo._elementwise import bitcast_convert, convert
from veery_lowering.types import element_type, is_static, tensor_type

_values: ContextVar[Mapping[str, Index]] = ContextVar("dimension values")


@contextmanager
def dimension_values(values: Mapping[str, Index]) -> Iterator[None]:
    """The values of the dimension variables while a function is emitted."""
    token = _values.set(values)
    try:
        yield
    finally:
        _values.reset(token)


@dataclass(frozen=True)
class Index:
    """An integer of the host, with the arithmetic that dimension expressions need."""

    value: Value

    @staticmethod
    def of(size: Any) -> Index:
        """An entry of a shape, an int or an Index."""
        if isinstance(size, Index):
            return size
        if isinstance(size, Extent):
            return Index(_extent(size.tensor, size.axis))
        if is_static(size):
            attribute = ir.IntegerAttr.get(ir.IndexType.get(), int(size))
            return Index(one("arith.constant", [], ir.IndexType.get(), {"value": attribute}))
        return Index.of(size.evaluate(_values.get()))

    @staticmethod
    def of_scalar(x: Value) -> Index:
        """The value of a rank-0 tensor of signed integers."""
        number = one("tensor.extract", [x], ir.RankedTensorType(x.type).element_type)
        return Index(one("arith.index_cast", [number], ir.IndexType.get()))

    def _binary(self, name: str, other: Any) -> Index:
        return Index(one(f"arith.{name}", [self.value, Index.of(other).value], ir.IndexType.get()))

    def __add__(self, other: Any) -> Index:
        return self if other == 0 else self._binary("addi", other)

    def __sub__(self, other: Any) -> Index:
        return self if other == 0 else self._binary("subi", other)

    def __mul__(self, other: Any) -> Index:
        return self if other == 1 else self._binary("muli", other)

    def __floordiv__(self, other: Any) -> Index:
        return self if other == 1 else self._binary("floordivsi", other)

    def __rfloordiv__(self, other: Any) -> Index:
        return Index.of(other) // self

    def __mod__(self, other: Any) -> Index:
        rest: Index = self - (self // other) * other
        return rest

    def __rmod__(self, other: Any) -> Index:
        return Index.of(other) % self

    def max(self, other: Any) -> Index:
        return self._binary("maxsi", other)

    def min(self, other: Any) -> Index:
        return self._binary("minsi", other)

    __radd__ = __add__
    __rmul__ = __mul__


def _signless(function: Callable[..., Value]) -> Callable[..., Value]:
    """IREE converts StableHLO's unsigned integers, and not those of the operations below: they see signed ones."""

    @functools.wraps(function)
    def of_signed(x: Value, *args: Any, **kwargs: Any) -> Value:
        dtype = dtype_of(x)
        if dtype.kind != "u":
            return function(x, *args, **kwargs)
        signed = _signed(dtype)
        is_alike: Callable[[Any], bool] = lambda value: isinstance(value, ir.Value) and dtype_of(value) == dtype
        args = tuple(bitcast_convert(a, signed) if is_alike(a) else a for a in args)
        return bitcast_convert(function(bitcast_convert(x, signed), *args, **kwargs), dtype)

    return of_signed


def _extent(x: Value, axis: int) -> Value:
    dtype = dtype_of(x)
    if dtype.kind == "u":
        x = bitcast_convert(x, _signed(dtype))
    return one("tensor.dim", [x, Index.of(axis).value], ir.IndexType.get())


def _signed(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"int{8 * dtype.itemsize}")


def tie_shape(x: Value, like: Value) -> Value:
    """x, of which IREE is told that it has the shape of another tensor; x itself where that is static."""
    sizes = [Index.of(size).value for size in shape_of(like) if isinstance(size, Extent)]
    return _tied(x, sizes) if sizes else x


@_signless
def _tied(x: Value, sizes: Sequence[Value]) -> Value:
    return one("flow.tensor.tie_shape", [x, *sizes], x.type)


@_signless
def clone(x: Value) -> Value:
    """A copy, which IREE makes if it must, and fuses nothing across."""
    return one("flow.tensor.clone", [x], x.type)


def scalar_of_size(size: Any, dtype: Any) -> Value:
    """A size as a rank-0 integer tensor."""
    type_ = tensor_type((), dtype)
    if is_static(size):
        value = ir.DenseElementsAttr.get(np.asarray(size, dtype), type=type_)
        return one("stablehlo.constant", [], type_, {"value": value})
    number = one("arith.index_cast", [Index.of(size).value], type_.element_type)
    return one("tensor.from_elements", [number], type_)


def shape_tensor(shape: Sequence[Any]) -> Value:
    """A shape as a tensor of indices."""
    sizes = [Index.of(size).value for size in shape]
    return one("tensor.from_elements", sizes, ir.RankedTensorType.get([len(sizes)], ir.IndexType.get()))


def sizes_of(shape: Value) -> tuple[Any, ...]:
    """The entries of what `shape_tensor` made: ints where they are constants."""
    found: list[Any] = []
    for size in shape.owner.operation.operands:
        if maker(size) == "arith.constant":
            found.append(ir.IntegerAttr(size.owner.attributes["value"]).value)
        else:
            found.append(Index(size))
    return tuple(found)


def broadcast(x: Value, shape: Sequence[Any], dimensions: Sequence[int]) -> Value:
    """`broadcast_in_dim` to a shape of which some sizes are dynamic.

    Sizes are equal or 1, so that nothing is left to do where none is 1. A broadcast of a broadcast becomes one: IREE
    would merge them itself, lose the hints and fail.
    """
    if list(dimensions) == list(range(len(shape))) and not _stretched(x, shape, dimensions):
        return x
    while (inner := _broadcast_behind(x)) is not None:
        dimensions = [dimensions[i] for i in ir.DenseI64ArrayAttr(inner.attributes["broadcast_dimensions"])]
        x = inner.operands[0]
    stretched = _stretched(x, shape, dimensions)
    added = [size for i, size in enumerate(shape) if i not in dimensions]
    if not stretched and list(dimensions) == sorted(dimensions) and all(size == 1 for size in added):
        # Only dimensions of size 1 are new: IREE would make a reshape of it, which is not for dynamic shapes.
        return regroup(x, [shape[to] for to in dimensions], shape)
    attributes = {
        "broadcast_dimensions": integers(dimensions),
        "known_expanding_dimensions": integers(stretched),
        "known_nonexpanding_dimensions": integers([i for i in range(len(dimensions)) if i not in stretched]),
    }
    result = tensor_type(shape, dtype_of(x))
    return one("stablehlo.dynamic_broadcast_in_dim", [x, shape_tensor(shape)], result, attributes)


def _stretched(x: Value, shape: Sequence[Any], dimensions: Sequence[int]) -> list[int]:
    """The dimensions of size 1 that become wider."""
    return [i for i, (size, to) in enumerate(zip(shape_of(x), dimensions)) if size == 1 != shape[to]]


def _broadcast_behind(x: Value) -> Any:
    """The operation whose result x is, where that is a broadcast."""
    operation = None if isinstance(x.owner, ir.Block) else x.owner.operation
    names = ("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
    return operation if operation is not None and operation.name in names else None


def iota(dtype: Any, shape: Sequence[Any], dimension: int) -> Value:
    """`iota` of a shape of which some sizes are dynamic."""
    attributes = {"iota_dimension": integer(dimension)}
    return one("stablehlo.dynamic_iota", [shape_tensor(shape)], tensor_type(shape, dtype), attributes)


def cast_shape(x: Value, type_: ir.Type) -> Value:
    """x as a tensor of which other sizes are static; unsigned integers, which IREE refuses, by their bits."""
    dtype = dtype_of(x)
    if dtype.kind != "u":
        return one("tensor.cast", [x], type_)
    bits = np.dtype(f"int{8 * dtype.itemsize}")
    shape = ir.RankedTensorType.get(ir.RankedTensorType(type_).shape, element_type(bits))
    return bitcast_convert(one("tensor.cast", [bitcast_convert(x, bits)], shape), dtype)


def overwrite(x: Value, new: Value) -> Value:
    """x, of which the leading size alone is dynamic, with all elements replaced by those of a static tensor."""
    zeros = [Index.of(0).value] * len(ir.RankedTensorType(x.type).shape)
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, len(zeros), 1, 0])}
    return one("flow.tensor.update", [x, _extent(x, 0), *zeros, new], x.type, segments)


@_signless
def extract_slice(x: Value, starts: Sequence[Any], sizes: Sequence[Any], strides: Sequence[int]) -> Value:
    """The slice of `sizes` elements from `starts` in steps, which lies within x."""
    operands, attributes = _slice_entries(starts, sizes, strides, leading=1)
    return one("tensor.extract_slice", [x, *operands], tensor_type(sizes, dtype_of(x)), attributes)


def crop(x: Value, low: Sequence[int], high: Sequence[int]) -> Value:
    """x without so many elements at the ends of each dimension."""
    if not any((*low, *high)):
        return x
    extents = [n if is_static(n) else Index.of(n) for n in shape_of(x)]
    return extract_slice(x, low, [n - (a + b) for n, a, b in zip(extents, low, high)], [1] * len(extents))


def join_by_writing(operands: Sequence[Value], axis: int) -> Value:
    """Join along an axis: each operand is written behind the one before."""
    dtype = dtype_of(operands[0])
    if dtype.kind == "u":
        signed = [bitcast_convert(x, _signed(dtype)) for x in operands]
        return bitcast_convert(join_by_writing(signed, axis), dtype)
    starts: list[Any] = [0]
    for x in operands:
        size = shape_of(x)[axis]
        starts.append(starts[-1] + (size if is_static(size) else Index.of(size)))
    shape = list(shape_of(operands[0]))
    shape[axis] = starts[-1]
    joined = _empty(shape, dtype)
    for x, start in zip(operands, starts):
        joined = _inserted(joined, x, [start if i == axis else 0 for i in range(len(shape))])
    return joined


def _empty(shape: Sequence[Any], dtype: Any) -> Value:
    return one("tensor.empty", [Index.of(n).value for n in shape if not is_static(n)], tensor_type(shape, dtype))


def split_axis(x: Value, axis: int, part: int, padding: Value) -> Value:
    """[..., n, ...] as [..., ceil(n / part), part, ...], filled up with `padding` (rank 0)."""
    shape = list(shape_of(x))
    parts = (Index.of(shape[axis]) + (part - 1)) // part
    wide = [*shape[:axis], parts * part, *shape[axis + 1 :]]
    x = _inserted(broadcast(padding, wide, ()), x, [0] * len(shape))
    new = [*shape[:axis], parts, part, *shape[axis + 1 :]]
    sizes = [Index.of(n).value for n in new if not is_static(n)]
    groups = [[i] if i < axis else [i, i + 1] if i == axis else [i + 1] for i in range(len(shape))]
    return _expanded(x, new, groups, sizes)


@_signless
def _expanded(x: Value, shape: Sequence[Any], groups: Sequence[Sequence[int]], sizes: list[Value]) -> Value:
    static = {"static_output_shape": _static_entries(shape)}
    return _reassociate("tensor.expand_shape", x, shape, groups, static, sizes)


def _slice_entries(
    starts: Sequence[Any], sizes: Sequence[Any], strides: Sequence[int], leading: int
) -> tuple[list[Value], dict[str, ir.Attribute]]:
    """The operands for what is dynamic in a slice, and the attributes for the rest, after `leading` operands."""
    entries = (starts, sizes, strides)
    operands = [[Index.of(n).value for n in numbers if not is_static(n)] for numbers in entries]
    names = ("static_offsets", "static_sizes", "static_strides")
    attributes = {name: _static_entries(numbers) for name, numbers in zip(names, entries)}
    segments = [*[1] * leading, *map(len, operands)]
    return sum(operands, []), {**attributes, "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments)}


def dynamic_slice(x: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
    """The slice of `sizes` elements at run-time `starts` (rank-0 integers), which are clamped so that it fits."""
    extents = shape_of(x)
    return extract_slice(x, list(map(_clamped, starts, extents, sizes)), sizes, [1] * len(extents))


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """x with `update` written at run-time `starts` (rank-0 integers), which are clamped so that it fits."""
    return _inserted(x, update, list(map(_clamped, starts, shape_of(x), shape_of(update))))


@_signless
def _inserted(x: Value, update: Value, offsets: Sequence[Any]) -> Value:
    sizes = shape_of(update)
    operands, attributes = _slice_entries(offsets, sizes, [1] * len(sizes), leading=2)
    return one("tensor.insert_slice", [update, x, *operands], x.type, attributes)


def _clamped(start: Value, extent: Any, size: Any) -> Any:
    """A start as an index between 0 and extent - size."""
    if is_zero(start):
        return 0
    if dtype_of(start).kind == "u":  # which no index is made of
        start = convert(start, np.int64)
    return Index.of_scalar(start).min(Index.of(extent) - (size if is_static(size) else Index.of(size))).max(0)


def is_zero(x: Value) -> bool:
    """Whether a value is the constant 0 of rank 0."""
    if maker(x) != "stablehlo.constant" or shape_of(x) != ():
        return False
    attribute = x.owner.operation.attributes["value"]
    return isinstance(attribute, ir.DenseIntElementsAttr) and attribute[0] == 0


@dataclass(frozen=True)
class Gathered:
    """What is what in a gather, as in StableHLO's attribute; index vectors lie along the last dimension."""

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    operand_batching_dims: Sequence[int]
    start_indices_batching_dims: Sequence[int]


@_signless
def gather(operand: Value, indices: Value, shape: Sequence[Any], numbers: Gathered) -> Value:
    """A gather, whose indices are in bounds, as a loop over the elements of the result, of this shape.

    StableHLO's operation has windows of static sizes, its dynamic one does not compile.
    """
    kind = ir.RankedTensorType(operand.type).element_type
    result = tensor_type(shape, dtype_of(operand))
    empty = one("tensor.empty", [Index.of(n).value for n in shape if not is_static(n)], result)
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(shape)))]),
        "iterator_types": ir.ArrayAttr.get([parallel] * len(shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1]),
    }
    made = operation("linalg.generic", [empty], [result], attributes, regions=1)
    block = made.regions[0].blocks.append(kind, arg_locs=[ir.Location.current])
    with ir.InsertionPoint(block):
        place = [
            one("linalg.index", [], ir.IndexType.get(), {"dim": integer(dimension)}) for dimension in range(len(shape))
        ]
        at = _operand_place(indices, place, len(shape_of(operand)), numbers)
        operation("linalg.yield", [one("tensor.extract", [operand, *(index.value for index in at)], kind)], [])
    return made.results[0]


def _operand_place(indices: Value, place: Sequence[Value], rank: int, numbers: Gathered) -> list[Index]:
    """Which element of the operand stands at a place of the result."""
    kind = ir.RankedTensorType(indices.type).element_type
    batch = [index for dimension, index in enumerate(place) if dimension not in numbers.offset_dims]
    window = iter([place[dimension] for dimension in numbers.offset_dims])
    absent = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    at = [Index.of(0) if axis in absent else Index(next(window)) for axis in range(rank)]
    for axis, dimension in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        at[axis] = Index(batch[dimension])
    for component, axis in enumerate(numbers.start_index_map):
        number = one("tensor.extract", [indices, *batch, Index.of(component).value], kind)
        at[axis] = at[axis] + Index(one("arith.index_cast", [number], ir.IndexType.get()))
    return at


@_signless
def regroup(x: Value, old: Sequence[Any], new: Sequence[Any]) -> Value:
    """Reshape x, of shape `old` in dimension expressions, to `new`.

    Runs of dimensions with equal products collapse into one each, which expand.
    """
    groups = _groups(old, new)
    flat = [_product([old[i] for i in source]) for source, _ in groups]
    if any(len(source) > 1 for source, _ in groups):
        x = _reassociate("tensor.collapse_shape", x, flat, [source for source, _ in groups], {}, [])
    if any(len(target) > 1 for _, target in groups):
        sizes = [Index.of(n).value for n in new if not is_static(n)]
        x = _expanded(x, new, [target for _, target in groups], sizes)
    return x


def _groups(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions of both shapes that hold the same number of elements."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        source, target = [i], [j]
        i, j = i + 1, j + 1
        while (left := _product([old[k] for k in source])) != (right := _product([new[k] for k in target])):
            if j < len(new) and (i == len(old) or _divides(right, left)):
                target.append(j)
                j += 1
            elif i < len(old):
                source.append(i)
                i += 1
            else:
                raise AssertionError(f"reshape of {tuple(old)} to {tuple(new)}")
        groups.append((source, target))
    groups[-1][0].extend(range(i, len(old)))  # dimensions of size 1 that are left
    groups[-1][1].extend(range(j, len(new)))
    return groups


def _divides(right: Any, left: Any) -> bool:
    """Whether the left product has a factor that the right one still lacks."""
    rest = left % right
    return is_static(rest) and rest == 0


def _product(sizes: Sequence[Any]) -> Any:
    return functools.reduce(operator.mul, sizes) if sizes else 1


def _reassociate(
    name: str, x: Value, shape: Sequence[Any], groups: Sequence[Sequence[int]], attributes: Any, sizes: list[Value]
) -> Value:
    numbers = ir.ArrayAttr.get([ir.ArrayAttr.get([integer(i) for i in group]) for group in groups])
    return one(name, [x, *sizes], tensor_type(shape, dtype_of(x)), {"reassociation": numbers, **attributes})


def _static_entries(numbers: Sequence[Any]) -> ir.Attribute:
    return integers([int(n) if is_static(n) else ir.ShapedType.get_dynamic_size() for n in numbers])
