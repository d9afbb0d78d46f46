"""Builders of constants, iota and of operations that move elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering.mlir import ir
from veery_lowering.stablehlo import _dynamic
from veery_lowering.stablehlo._build import (
    Value,
    dtype_of,
    inferred,
    integer,
    integers,
    one,
    operation,
    shape_of,
)
from veery_lowering.stablehlo._constants import splat_attribute
from veery_lowering.stablehlo._elementwise import complex, convert, imag, real
from veery_lowering.types import is_static, physical_dtype, tensor_type

# Constants of these do not compile (`failed to legalize 'memref.get_global'`); conversions to them do.
_SUB_BYTE = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def constant(value: Any, dtype: Any = None) -> Value:
    """A constant tensor.

    Args:
        value: an array or scalar of any supported dtype.
        dtype: converts `value` first; by default its own dtype.
    """
    array = np.asarray(value) if dtype is None else np.asarray(value, physical_dtype(dtype))
    if array.dtype.name in _SUB_BYTE:
        return convert(constant(array.astype(_SUB_BYTE[array.dtype.name])), array.dtype)
    if array.dtype.kind == "c":
        # A dense complex<f64> constant kills IREE 3.13's compiler (SIGFPE), complex<f32> does not compile for SPIR-V.
        return complex(constant(array.real), constant(array.imag))
    if array.ndim and array.size and _is_splat(array):
        return full(array.reshape(-1)[0], array.shape, array.dtype)
    type_ = tensor_type(array.shape, array.dtype)
    return one("stablehlo.constant", [], type_, {"value": ir.DenseElementsAttr.get(_raw(array), type=type_)})


def scalar_of(x: Value) -> Any:
    """The value of a constant scalar integer; None for what is none."""
    owner = x.owner
    operation = getattr(owner, "operation", owner)
    if getattr(operation, "name", None) != "stablehlo.constant" or shape_of(x) != ():
        return None
    attribute = operation.attributes["value"]
    return attribute[0] if isinstance(attribute, ir.DenseIntElementsAttr) else None


def _raw(array: np.ndarray) -> np.ndarray:
    """The array in a dtype that has Python's buffer protocol, with the same bytes."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind == "V" or array.dtype.num >= 256:
        return contiguous.view(f"u{array.dtype.itemsize}")
    return contiguous


def _is_splat(array: np.ndarray) -> bool:
    """Whether all elements have the same bytes (so -0.0 differs from 0.0, and NaN equals itself)."""
    words = np.ascontiguousarray(array).reshape(-1)
    if words[:1].tobytes() != words[-1:].tobytes():
        return False
    table = words.view(np.uint8).reshape(words.size, -1)
    return bool((table == table[0]).all())


def full(value: Any, shape: Sequence[int], dtype: Any = None) -> Value:
    """A tensor filled with one value (any scalar: NaN, infinities, -0.0, complex, ...) of `dtype`, or of its own."""
    scalar = np.asarray(value, None if dtype is None else physical_dtype(dtype))
    if scalar.ndim:
        raise ValueError(f"full: expected a scalar, got shape {scalar.shape}")
    if scalar.dtype.name in _SUB_BYTE:
        return convert(full(scalar.astype(_SUB_BYTE[scalar.dtype.name]), shape), scalar.dtype)
    if scalar.dtype.kind == "c":
        return complex(full(scalar.real, shape), full(scalar.imag, shape))
    element = ir.DenseElementsAttr.get(_raw(scalar), type=tensor_type((), scalar.dtype))
    if not all(map(is_static, shape)):  # of which there is no splat
        return broadcast_in_dim(one("stablehlo.constant", [], element.type, {"value": element}), shape, ())
    type_ = tensor_type(shape, scalar.dtype)
    attribute = ir.DenseElementsAttr.get_splat(type_, element.get_splat_value()) if len(shape) else element
    return one("stablehlo.constant", [], type_, {"value": attribute})


def full_like(x: Value, value: Any, dtype: Any = None) -> Value:
    """A tensor of x's shape and (by default) dtype, filled with one value."""
    return full(value, shape_of(x), dtype_of(x) if dtype is None else dtype)


def iota(dtype: Any, shape: Sequence[int], dimension: int) -> Value:
    """Indices along `dimension`."""
    physical = physical_dtype(dtype)
    if physical.kind == "V" or physical.num >= 256:
        # bfloat16 iota does not compile for SPIR-V; small floats have none at all.
        return convert(iota(np.float32, shape, dimension), physical)
    if not all(map(is_static, shape)):
        return _dynamic.iota(physical, shape, dimension)
    return one("stablehlo.iota", [], tensor_type(shape, physical), {"iota_dimension": integer(dimension)})


def broadcast_in_dim(x: Value, shape: Sequence[int], dimensions: Sequence[int]) -> Value:
    """Broadcast to `shape`, x's dimension i becoming dimension `dimensions[i]`."""
    if tuple(shape) == shape_of(x):
        return x
    if not all(map(is_static, shape)):
        return _dynamic.broadcast(x, shape, dimensions)
    scalar = _scalar_constant(x)
    if scalar is not None:
        type_ = tensor_type(shape, dtype_of(x))
        return one("stablehlo.constant", [], type_, {"value": ir.DenseElementsAttr.get_splat(type_, scalar)})
    attributes = {"broadcast_dimensions": integers(dimensions)}
    return one("stablehlo.broadcast_in_dim", [x], tensor_type(shape, dtype_of(x)), attributes)


def _scalar_constant(x: Value) -> Any:
    """The value of a rank-0 constant: a splat of it is shorter than its broadcast."""
    return splat_attribute(x) if shape_of(x) == () else None


def spread(x: Value, shape: Sequence[int]) -> Value:
    """Broadcast an operand of rank 0, or of that rank with dimensions equal or 1."""
    return broadcast_in_dim(x, shape, range(len(shape_of(x))))


def reshape(x: Value, shape: Sequence[int], old: Sequence[int] | None = None) -> Value:
    """The same elements in row-major order under another shape.

    Args:
        x: the tensor.
        shape: the new shape.
        old: the shape of x in dimension expressions, by default as its type has it.
    """
    if tuple(shape) == shape_of(x):
        return x
    if not all(map(is_static, shape_of(x))):
        return _dynamic.regroup(x, shape_of(x) if old is None else old, shape)
    return one("stablehlo.reshape", [x], tensor_type(shape, dtype_of(x)))


def transpose(x: Value, permutation: Sequence[int]) -> Value:
    """Permute the dimensions: result dimension i is x's dimension `permutation[i]`."""
    if tuple(permutation) == tuple(range(len(shape_of(x)))):
        return x
    shape = [shape_of(x)[axis] for axis in permutation]
    return one("stablehlo.transpose", [x], tensor_type(shape, dtype_of(x)), {"permutation": integers(permutation)})


def slice(x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None) -> Value:
    """The static slice x[starts:limits:strides]."""
    steps = [1] * len(tuple(starts)) if strides is None else strides
    if not all(map(is_static, (*shape_of(x), *starts, *limits))):
        return _dynamic.extract_slice(x, starts, list(map(_count, starts, limits, steps)), steps)
    attributes = {"start_indices": integers(starts), "limit_indices": integers(limits), "strides": integers(steps)}
    return inferred("stablehlo.slice", [x], attributes)


def _count(start: Any, limit: Any, step: int) -> Any:
    """The number of elements of a slice."""
    return limit if (start, step) == (0, 1) else -((start - limit) // step)


def dynamic_slice(x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """The slice of `sizes` at run-time `starts` (rank-0 integers), which are clamped so that it fits."""
    if not all(map(is_static, (*shape_of(x), *sizes))):
        return _dynamic.dynamic_slice(x, starts, sizes)
    result = tensor_type(sizes, dtype_of(x))
    return one("stablehlo.dynamic_slice", [x, *starts], result, {"slice_sizes": integers(sizes)})


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """x with `update` written at run-time `starts` (rank-0 integers), which are clamped so that it fits."""
    if not all(map(is_static, (*shape_of(x), *shape_of(update)))):
        return _dynamic.dynamic_update_slice(x, update, starts)
    return one("stablehlo.dynamic_update_slice", [x, update, *starts], x.type)


def pad(
    x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None
) -> Value:
    """Pad with a rank-0 value; negative widths crop, `interior` puts padding between elements.

    Complex tensors are padded by parts: the compiler dies of `pad` on complex<f32> and fails on complex<f64>. A single
    element has nothing between: of two paddings that do nothing, one became the other.
    """
    if dtype_of(x).kind == "c":
        return complex(pad(real(x), real(value), low, high, interior), pad(imag(x), imag(value), low, high, interior))
    between = [0] * len(tuple(low)) if interior is None else [n * (size != 1) for n, size in zip(interior, shape_of(x))]
    if not any((*low, *high, *between)):
        return x
    if not all(map(is_static, shape_of(x))) and not any(between):
        # IREE crops no dynamic shapes by padding.
        x = _dynamic.crop(x, [max(0, -n) for n in low], [max(0, -n) for n in high])
        low, high = [max(0, n) for n in low], [max(0, n) for n in high]
    attributes = {
        "edge_padding_low": integers(low),
        "edge_padding_high": integers(high),
        "interior_padding": integers(between),
    }
    return inferred("stablehlo.pad", [x, value], attributes)


def concatenate(operands: Sequence[Value], dimension: int) -> Value:
    """Join along a dimension."""
    return inferred("stablehlo.concatenate", operands, {"dimension": integer(dimension)})


def reverse(x: Value, dimensions: Sequence[int]) -> Value:
    """Reverse the order along the dimensions."""
    return one("stablehlo.reverse", [x], x.type, {"dimensions": integers(dimensions)})


def optimization_barrier(operands: Sequence[Value]) -> list[Value]:
    """The operands, which nothing is moved or fused across."""
    results = operation("stablehlo.optimization_barrier", operands, [x.type for x in operands]).results
    # IREE does not find out the sizes of what comes out of a barrier.
    return list(map(_dynamic.tie_shape, results, operands))
