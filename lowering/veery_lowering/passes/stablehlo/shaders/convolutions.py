"""Sum convolutions with parts of a long kernel.

Problem: llvmpipe ends the loops of a shader after 65535 rounds in all, without a word. A kernel is long in the
derivative by the kernel, where it is the image. Fix: parts of the kernel are convolved with the image, shifted by
paddings that may be negative, and summed. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.shaders._parts import (
    LONGEST_CONTRACTION,
    count_of,
    part_of,
    replace,
    slice_axis,
    sum_of_parts,
)
from veery_lowering.stablehlo import Value
from veery_lowering.stablehlo._build import pairs
from veery_lowering.types import is_static


def split_convolutions(module: ir.Module) -> None:
    """Rewrite convolutions with long kernels, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.convolution":
            with ir.InsertionPoint(op), op.location:
                _split(op)


def _split(operation: Any) -> None:
    """Sum convolutions with parts of a long kernel: it is as long as the images in the derivative by the kernel.

    Features are last and kernels not reversed, as the rule writes it.
    """
    lhs, rhs = operation.operands
    shape = hlo.shape_of(rhs)
    if count_of(shape[:-1]) <= LONGEST_CONTRACTION:
        return
    if not all(map(is_static, shape[:-2])):
        return
    pieces = [(lhs, rhs, ir.DenseElementsAttr(operation.attributes["padding"]))]
    for axis in range(len(shape) - 2):
        if math.prod(shape[:-2]) > LONGEST_CONTRACTION:
            pieces = [part for piece in pieces for part in _split_window(operation, *piece, axis)]
    grouped = any(
        ir.IntegerAttr(operation.attributes[f"{kind}_group_count"]).value > 1 for kind in ("feature", "batch")
    )
    if not grouped:
        pieces = [part for piece in pieces for part in _split_features(*piece)]
    total = None
    for piece in pieces:
        result = _convolved(operation, *piece)
        total = result if total is None else hlo.add(total, result)
    assert total is not None
    replace(operation, [total])


def _convolved(operation: Any, lhs: Value, rhs: Value, padding: Any) -> Value:
    """The convolution of parts of the operands; those of a symbolic number of features are summed in a loop."""
    features = len(hlo.shape_of(rhs)) - 2

    def convolve(left: Value, right: Value) -> Value:
        copy = operation.clone()
        copy.operands[0], copy.operands[1] = left, right
        copy.attributes["padding"] = padding
        return copy.results[0]

    count = hlo.shape_of(rhs)[features]
    if is_static(count):
        return convolve(lhs, rhs)
    last = len(hlo.shape_of(lhs)) - 1
    term = lambda start, size: convolve(part_of(lhs, last, start, size), part_of(rhs, features, start, size))
    return sum_of_parts(term, count, max(1, LONGEST_CONTRACTION // math.prod(hlo.shape_of(rhs)[:features])))


def _split_window(operation: Any, lhs: Value, rhs: Value, padding: Any, axis: int) -> list[tuple[Value, Value, Any]]:
    """Parts of the kernel along a spatial axis; each sees the image shifted, by padding that may be negative."""
    shape = hlo.shape_of(rhs)
    dilation = list(ir.DenseI64ArrayAttr(operation.attributes["rhs_dilation"]))[axis]
    width = max(1, LONGEST_CONTRACTION * shape[axis] // math.prod(shape[:-2]))
    if width >= shape[axis]:
        return [(lhs, rhs, padding)]
    parts = []
    for start in range(0, shape[axis], width):
        stop = min(start + width, shape[axis])
        shifted = np.array(padding).copy()
        shifted[axis] -= (start * dilation, (shape[axis] - stop) * dilation)
        parts.append((lhs, slice_axis(rhs, axis, start, stop), pairs(shifted.tolist())))
    return parts


def _split_features(lhs: Value, rhs: Value, padding: Any) -> list[tuple[Value, Value, Any]]:
    shape, axis = hlo.shape_of(rhs), len(hlo.shape_of(lhs)) - 1
    if not is_static(shape[-2]):
        return [(lhs, rhs, padding)]
    width = max(1, LONGEST_CONTRACTION // math.prod(shape[:-2]))
    parts = []
    for start in range(0, shape[-2], width):
        stop = min(start + width, shape[-2])
        left, right = slice_axis(lhs, axis, start, stop), slice_axis(rhs, len(shape) - 2, start, stop)
        parts.append((left, right, padding))
    return parts
