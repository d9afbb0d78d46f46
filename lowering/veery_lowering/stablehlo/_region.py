"""Builders of operations with regions: reductions, windows, scatter, sort and control flow.

A body is a Python function from block arguments to the values (one or several) that the block returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from veery_lowering.mlir import ir
from veery_lowering.stablehlo._build import (
    Body,
    Value,
    as_list,
    boolean,
    call_operation,
    dtype_of,
    fill_region,
    integer,
    integers,
    operation,
    pairs,
    parse,
    scalar_type,
    shape_of,
)
from veery_lowering.types import tensor_type


def reduce(operands: Any, inits: Any, dimensions: Sequence[int], body: Body) -> Any:
    """Fold over dimensions.

    Args:
        operands: one tensor or several of one shape.
        inits: as many rank-0 values, neutral for the body.
        dimensions: the dimensions to fold away.
        body: from accumulators followed by elements (rank 0) to the new accumulators.

    Returns:
        One value if one operand was given bare, else a list.
    """
    values, starts = as_list(operands), as_list(inits)
    gone = set(dimensions)
    shape = [size for axis, size in enumerate(shape_of(values[0])) if axis not in gone]
    results = [tensor_type(shape, dtype_of(start)) for start in starts]
    made = operation("stablehlo.reduce", [*values, *starts], results, {"dimensions": integers(sorted(gone))}, regions=1)
    fill_region(made.regions[0], [scalar_type(x) for x in [*starts, *values]], body)
    return made.results[0] if isinstance(operands, ir.Value) else list(made.results)


def _window_size(size: int, window: int, stride: int, low: int, high: int, base: int, dilation: int) -> int:
    dilated_size = 0 if size == 0 else (size - 1) * base + 1
    padded = dilated_size + low + high
    dilated_window = 0 if window == 0 else (window - 1) * dilation + 1
    return 0 if padded <= 0 or dilated_window > padded else (padded - dilated_window) // stride + 1


def reduce_window(
    operands: Sequence[Value],
    inits: Sequence[Value],
    window_dimensions: Sequence[int],
    body: Body,
    *,
    window_strides: Sequence[int] | None = None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
) -> list[Value]:
    """Fold over sliding windows; arguments as `reduce`, all window arguments one entry a dimension."""
    shape = shape_of(operands[0])
    rank = len(shape)
    strides = list(window_strides or [1] * rank)
    base = list(base_dilations or [1] * rank)
    dilation = list(window_dilations or [1] * rank)
    pads = list(padding or [(0, 0)] * rank)
    sizes = [
        _window_size(shape[i], window_dimensions[i], strides[i], pads[i][0], pads[i][1], base[i], dilation[i])
        for i in range(rank)
    ]
    attributes = {
        "window_dimensions": integers(window_dimensions),
        "window_strides": integers(strides),
        "base_dilations": integers(base),
        "window_dilations": integers(dilation),
        "padding": pairs(pads),
    }
    results = [tensor_type(sizes, dtype_of(init)) for init in inits]
    made = operation("stablehlo.reduce_window", [*operands, *inits], results, attributes, regions=1)
    fill_region(made.regions[0], [scalar_type(x) for x in [*inits, *operands]], body)
    return list(made.results)


def select_and_scatter(
    operand: Value,
    source: Value,
    init: Value,
    select: Body,
    scatter: Body,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Value:
    """Scatter `source` to the element of each window that `select` picks. IREE accepts only disjoint windows."""
    attributes = {
        "window_dimensions": integers(window_dimensions),
        "window_strides": integers(window_strides),
        "padding": pairs(padding),
    }
    made = operation("stablehlo.select_and_scatter", [operand, source, init], [operand.type], attributes, regions=2)
    fill_region(made.regions[0], [scalar_type(operand)] * 2, select)
    fill_region(made.regions[1], [scalar_type(operand)] * 2, scatter)
    return made.results[0]


def scatter(
    operands: Sequence[Value],
    indices: Value,
    updates: Sequence[Value],
    body: Body,
    *,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    index_vector_dim: int,
    input_batching_dims: Sequence[int] = (),
    scatter_indices_batching_dims: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> list[Value]:
    """Combine updates into operands at indices; the body maps old values then updates (rank 0) to new values."""
    fields = {
        "update_window_dims": list(update_window_dims),
        "inserted_window_dims": list(inserted_window_dims),
        "input_batching_dims": list(input_batching_dims),
        "scatter_indices_batching_dims": list(scatter_indices_batching_dims),
        "scatter_dims_to_operand_dims": list(scatter_dims_to_operand_dims),
        "index_vector_dim": index_vector_dim,
    }
    text = ", ".join(f"{name} = {value}" for name, value in fields.items() if value != [])
    attributes = {
        "scatter_dimension_numbers": parse(f"#stablehlo.scatter<{text}>"),
        "indices_are_sorted": boolean(indices_are_sorted),
        "unique_indices": boolean(unique_indices),
    }
    values = [*operands, indices, *updates]
    made = operation("stablehlo.scatter", values, [x.type for x in operands], attributes, regions=1)
    fill_region(made.regions[0], [scalar_type(x) for x in [*operands, *updates]], body)
    return list(made.results)


def sort(operands: Sequence[Value], dimension: int, comparator: Body, is_stable: bool = True) -> list[Value]:
    """Sort along a dimension; the comparator takes (left, right) rank-0 pairs of each operand in turn.

    IREE ignores `is_stable`: append an iota operand and compare it on ties where order matters.
    """
    attributes = {"dimension": integer(dimension), "is_stable": boolean(is_stable)}
    made = operation("stablehlo.sort", operands, [x.type for x in operands], attributes, regions=1)
    types = [scalar_type(x) for x in operands for _ in range(2)]
    fill_region(made.regions[0], types, comparator)
    return list(made.results)


def while_(inits: Sequence[Value], condition: Body, body: Body) -> list[Value]:
    """Loop: `condition` maps the carried values to a rank-0 bool, `body` to the next values."""
    types = [x.type for x in inits]
    made = operation("stablehlo.while", inits, types, regions=2)
    fill_region(made.regions[0], types, condition)
    fill_region(made.regions[1], types, body)
    return list(made.results)


def case(
    index: Value, branches: Sequence[Callable[[], Value | Sequence[Value]]], results: Sequence[ir.Type]
) -> list[Value]:
    """Run one branch; an index out of range runs the last.

    Args:
        index: rank-0 int32.
        branches: functions of no argument that return the results (they may use any value in scope).
        results: the types of the results.
    """
    made = operation("stablehlo.case", [index], results, regions=len(branches))
    for region, branch in zip(made.regions, branches):
        fill_region(region, [], branch)
    return list(made.results)


def if_(
    predicate: Value,
    on_true: Callable[[], Value | Sequence[Value]],
    on_false: Callable[[], Value | Sequence[Value]],
    results: Sequence[ir.Type],
) -> list[Value]:
    """Run one of two branches, by a rank-0 bool; see `case`."""
    made = operation("stablehlo.if", [predicate], results, regions=2)
    fill_region(made.regions[0], [], on_true)
    fill_region(made.regions[1], [], on_false)
    return list(made.results)


def map_(operands: Sequence[Value], body: Body, result: ir.Type) -> Value:
    """Apply a rank-0 function to the elements of tensors of one shape."""
    rank = len(shape_of(operands[0]))
    made = operation("stablehlo.map", operands, [result], {"dimensions": integers(range(rank))}, regions=1)
    fill_region(made.regions[0], [scalar_type(x) for x in operands], body)
    return made.results[0]


def call(symbol: str, operands: Sequence[Value], results: Sequence[ir.Type]) -> list[Value]:
    """Call a function of the module."""
    return call_operation("func.call", symbol, operands, results)


def called_by(op: Any) -> str:
    """The name of the function that a custom call calls; empty for another operation."""
    is_call = op.name == "stablehlo.custom_call"
    return str(ir.StringAttr(op.attributes["call_target_name"]).value) if is_call else ""


def custom_call(
    name: str,
    operands: Sequence[Value],
    results: Sequence[ir.Type],
    config: Mapping[str, str | int],
    *,
    has_side_effect: bool,
) -> list[Value]:
    """Call a function that was registered with XLA's foreign function interface.

    Args:
        name: of the function.
        operands: what it reads.
        results: the types of what it writes.
        config: further texts and integers (of 64 bits) that it is told.
        has_side_effect: whether it is called although nobody reads its results.
    """
    told = {k: ir.StringAttr.get(v) if isinstance(v, str) else integer(v) for k, v in config.items()}
    attributes = {
        "call_target_name": ir.StringAttr.get(name),
        "api_version": integer(4, 32),
        "backend_config": ir.DictAttr.get(told),
        "has_side_effect": boolean(has_side_effect),
    }
    return list(operation("stablehlo.custom_call", operands, results, attributes).results)
