"""Do reductions to few elements in two stages, of which the first has work for all cores.

IREE 3.13 divides a dispatch among workgroups by the elements of its results, so that one core sums a whole array. Here
parts of the outermost axis are reduced first. Example: a mean loss over 2000x1000. Also the error of sums is smaller.

Measured on two cores, us, in one stage and in two, of float32: the sum of 2000x1000 352 and 199, its variance 629 and
366, its norm 1,015 and 190, the sums of 8 columns of 100,000 420 and 116, a product of two vectors of 1,000,001 348 and
247, a mean square of as many and its gradient 1,976 and 1,021. Test: tests/lowering/test_stages.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, operations
from veery_lowering.stablehlo import Value, product_axes
from veery_lowering.types import is_static

_LEAST = 1 << 19  # elements: of fewer, another dispatch costs more than it brings
_FEW = 16  # results: of more, IREE has workgroups enough
_FEWEST, _MOST = 8, 4096  # parts
_SHORT = 512  # elements, that each part has at least
# Results for CUDA, and elements of each; a single one is for whole warps (warps.py).
_FEW_FOR_CUDA, _LEAST_FOR_CUDA = 64, 1 << 12
# Of these a value may be combined with itself, so that it does not matter how often the first one is.
_SELECTIONS: dict[str, Callable[[Value, Value], Value]] = {
    "maximum": hlo.maximum,
    "minimum": hlo.minimum,
    "and": hlo.and_,
    "or": hlo.or_,
}
_SUMS: dict[str, tuple[Callable[[Value, Value], Value], int]] = {"add": (hlo.add, 0), "multiply": (hlo.multiply, 1)}


def reduce_in_stages(module: ir.Module, backend: str) -> None:
    """Divide long reductions to few elements, and products of vectors, in place, for the CPU or CUDA."""
    divide_product = functools.partial(_divide_product, whole=backend == "cuda")
    rewrites: dict[str, Callable[[Any], None]] = {
        "stablehlo.dot_general": divide_product,
        "stablehlo.reduce": functools.partial(_divide_reduction, backend=backend),
    }
    for op in [op for op in operations(module.operation) if op.name in rewrites]:
        with op.location, ir.InsertionPoint(op):
            rewrites[op.name](op)


def _divide_product(op: Any, whole: bool) -> None:
    """Write a long product that gives a single number as a sum in stages; one that cannot be divided if `whole`."""
    x, y = op.operands
    (out,) = op.results
    shape = hlo.shape_of(x)
    if hlo.shape_of(out) or not shape or not (_is_long(shape) or whole and all(map(is_static, shape))):
        return
    order = product_axes(op, "contracting")
    a, b = (hlo.transpose(each, axes) for each, axes in zip((x, y), order))
    dtype = hlo.dtype_of(out)
    product = hlo.multiply(hlo.convert(a, dtype), hlo.convert(b, dtype))
    first = hlo.constant(np.zeros((), dtype))
    axes = list(range(len(hlo.shape_of(product))))
    total = _in_stages(product, first, first, axes, hlo.add) if _is_long(shape) else None
    if total is None and whole:
        total = hlo.reduce(product, first, axes, hlo.add)
    if total is not None:
        out.replace_all_uses_with(total)
        op.erase()


def _divide_reduction(op: Any, backend: str) -> None:
    if len(op.results) != 1:
        return
    x, init = op.operands
    axes = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
    shape = hlo.shape_of(x)
    kept = [n for axis, n in enumerate(shape) if axis not in axes]
    names = [base_name(each.operation.name) for each in op.regions[0].blocks[0].operations]
    if not all(map(is_static, shape)) or not _pays(math.prod(shape), math.prod(kept), backend):
        return
    if names[1:] != ["return"]:
        return
    if names[0] in _SELECTIONS:
        combine, first = _SELECTIONS[names[0]], init
    elif names[0] in _SUMS:
        combine, neutral = _SUMS[names[0]]
        first = hlo.constant(np.asarray(neutral, hlo.dtype_of(x)))
    else:
        return
    total = _in_stages(x, first, init, axes, combine)
    if total is not None:
        op.results[0].replace_all_uses_with(total)
        op.erase()


def _pays(count: int, results: int, backend: str) -> bool:
    """Whether workgroups, or threads of a GPU, have too much of a reduction each."""
    if backend == "cuda" and 1 < results <= _FEW_FOR_CUDA and count >= results * _LEAST_FOR_CUDA:
        return True
    return count >= _LEAST and results <= _FEW


def _is_long(shape: Sequence[Any]) -> bool:
    return all(map(is_static, shape)) and math.prod(shape) >= _LEAST


def _in_stages(
    x: Value, first: Value, init: Value, axes: Sequence[int], combine: Callable[[Value, Value], Value]
) -> Value | None:
    """Reduce inner axes before outer ones, or parts of the longest axis; None where it cannot be divided."""
    shape = list(hlo.shape_of(x))
    axes = sorted(axes)
    count = math.prod(shape[axis] for axis in axes)
    for i in range(1, len(axes)):
        parts = math.prod(shape[axis] for axis in axes[:i])
        if _FEWEST <= parts <= _MOST and count // parts >= _SHORT:
            partial = hlo.reduce(x, first, axes[i:], combine)
            return hlo.reduce(partial, init, axes[:i], combine)  # those before the inner ones are where they were
    axis = max(axes, key=lambda axis: shape[axis])
    most = min(_MOST, count // _SHORT)
    parts = next((n for n in range(most, _FEWEST - 1, -1) if shape[axis] % n == 0), 0)
    if not parts:
        return None
    x = hlo.reshape(x, [*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]])
    others = [each + (each > axis) for each in axes if each != axis]
    partial = hlo.reduce(x, first, sorted([axis + 1, *others]), combine)
    return hlo.reduce(partial, init, [axis - sum(each < axis for each in axes)], combine)
