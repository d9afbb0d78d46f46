"""What every builder shares: making an operation, attributes from Python values, regions from Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from veery_lowering.mlir import ir
from veery_lowering.types import numpy_dtype, tensor_type

Value: TypeAlias = ir.Value
Body: TypeAlias = Callable[..., "Value | Sequence[Value]"]


@dataclass(frozen=True)
class Extent:
    """The size of a tensor's dimension that is known at run time."""

    tensor: Value
    axis: int


def shape_of(x: Value) -> tuple[Any, ...]:
    """The shape of a tensor value: ints, and Extents where it is dynamic."""
    type_ = x.type
    if type_.has_static_shape:
        return tuple(type_.shape)
    return tuple(Extent(x, i) if type_.is_dynamic_dim(i) else n for i, n in enumerate(type_.shape))


def dtype_of(x: Value) -> np.dtype:
    """The NumPy dtype of a tensor value's elements."""
    return numpy_dtype(x.type)


def parse(text: str) -> ir.Attribute:
    """An attribute from its MLIR text."""
    return ir.Attribute.parse(text)


def integers(values: Sequence[int]) -> ir.Attribute:
    """`array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get([int(value) for value in values])


def booleans(values: Sequence[bool]) -> ir.Attribute:
    """`array<i1: ...>`."""
    return ir.DenseBoolArrayAttr.get([bool(value) for value in values])


def integer(value: int, bits: int = 64) -> ir.Attribute:
    """`value : iN`."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits), int(value))


def boolean(value: bool) -> ir.Attribute:
    """`true` or `false`."""
    return ir.BoolAttr.get(bool(value))


def pairs(values: Sequence[Sequence[int]]) -> ir.Attribute:
    """`dense<[[low, high], ...]> : tensor<Nx2xi64>`."""
    table = np.asarray(values, np.int64).reshape(len(values), 2)
    return ir.DenseElementsAttr.get(table, type=tensor_type(table.shape, np.int64))


def precision_config(precision: Sequence[str] | None) -> dict[str, ir.Attribute]:
    """The `precision_config` attribute for the two operands of a contraction, or nothing."""
    if precision is None:
        return {}
    return {"precision_config": ir.ArrayAttr.get([parse(f"#stablehlo<precision {name}>") for name in precision])}


def operation(
    name: str,
    operands: Sequence[Value],
    results: Sequence[ir.Type],
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Make the operation `name` at the ambient insertion point and location."""
    return ir.Operation.create(
        name, results=list(results), operands=list(operands), attributes=attributes or {}, regions=regions
    )


def one(
    name: str, operands: Sequence[Value], result: ir.Type, attributes: dict[str, ir.Attribute] | None = None
) -> Value:
    """Make an operation of one result and return that."""
    return operation(name, operands, [result], attributes).results[0]


def inferred(name: str, operands: Sequence[Value], attributes: dict[str, ir.Attribute] | None = None) -> Value:
    """Make an operation of one result whose type StableHLO infers."""
    made = ir.Operation.create(name, operands=list(operands), attributes=attributes or {}, infer_type=True)
    return made.results[0]


def as_list(values: Value | Sequence[Value]) -> list[Value]:
    """One value or several, as a list."""
    return [values] if isinstance(values, ir.Value) else list(values)


def fill_region(region: ir.Region, argument_types: Sequence[ir.Type], body: Body) -> None:
    """Put one block into `region` that returns what `body` makes of the block's arguments."""
    location = ir.Location.current
    block = region.blocks.append(*argument_types, arg_locs=[location] * len(argument_types))
    with ir.InsertionPoint(block):
        operation("stablehlo.return", as_list(body(*block.arguments)), [])


def scalar_type(x: Value) -> ir.Type:
    """The rank-0 tensor type of a tensor's elements: the type of a reduction body's arguments."""
    return ir.RankedTensorType.get((), ir.RankedTensorType(x.type).element_type)


def call_operation(name: str, symbol: str, operands: Sequence[Value], results: Sequence[ir.Type]) -> list[Value]:
    """A call-like operation on a symbol."""
    made: Any = operation(name, operands, results, {"callee": ir.FlatSymbolRefAttr.get(symbol)})
    return list(made.results)
