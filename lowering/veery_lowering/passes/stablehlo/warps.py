"""Reduce to one number in whole warps, for CUDA.

Problem: of a reduction to one number IREE 3.13 makes code for all threads of a workgroup if a warp's 32 threads divide
its elements, and else for one thread. Example: the sum of 10,000 numbers takes an H200 250 us, of 10,240 3. Fix: what
is reduced is followed by what changes nothing. Test: tests/lowering/test_warps.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, operations
from veery_lowering.passes.stablehlo.tallies import COMBINATIONS
from veery_lowering.types import is_static

_WARP = 32
_FEWEST = 64  # elements: fewer, one thread reduces as fast
_MOST = 1024  # by which so many elements divide that a workgroup has all the threads that it may


def fill_warps(module: ir.Module) -> None:
    """Lengthen what is reduced to one number, in place, where no warp divides it."""
    for op in [op for op in operations(module.operation) if op.name == "stablehlo.reduce"]:
        with op.location, ir.InsertionPoint(op):
            _fill(op)


def _fill(op: Any) -> None:
    if len(op.results) != 1 or hlo.shape_of(op.results[0]):
        return
    x, init = op.operands
    shape, dtype = hlo.shape_of(x), hlo.dtype_of(x)
    names = [base_name(each.operation.name) for each in op.regions[0].blocks[0].operations]
    known = names[0] in COMBINATIONS and names[1:] == ["return"] and all(map(is_static, shape))
    if not known or dtype.kind not in "fiub":
        return
    count = math.prod(shape)
    if count < _FEWEST or count % _WARP == 0:
        return
    whole = next(n for n in (_MOST, _MOST // 4, _WARP) if count >= 4 * n or n == _WARP)
    neutral = hlo.constant(np.array(COMBINATIONS[names[0]].neutral(dtype), dtype))
    filled = hlo.pad(hlo.reshape(x, (count,)), neutral, (0,), (-count % whole,), (0,))
    op.operands[0] = filled
    op.attributes["dimensions"] = ir.DenseI64ArrayAttr.get([0])
