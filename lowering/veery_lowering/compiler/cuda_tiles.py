"""The tiles of products for CUDA, where those that IREE 3.13 chooses make slow code.

Without tensor cores, which it has for halves alone, IREE's workgroups take 32x128 elements of a product, of which each
thread has a row of 16, and read both operands from memory for each; where sizes are no multiples of that, they
multiply element by element. Here both operands go through the memory that a workgroup shares, and each thread has a
block of elements (passes/blocks.py).

Measured on an H200, in us with 35 of the call, of float32, with IREE's tiles and with these: 1024x1024x1024 600 and
105, 2048x2048x2048 4484 and 506, 600x600x600 511 and 71, 24 of 200x200x200 463 and 56. Test:
tests/lowering/test_cuda_tiles.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from veery_lowering.mlir import ir, operations
from veery_lowering.passes.blocks import block_of

_CONFIG, _TRANSLATION = "lowering_config", "translation_info"
_PIPELINE = "#iree_gpu.pipeline<TileAndFuse>"
_SIZE = re.compile(r"workgroup_size = \[[\d, ]*\]")
_PRODUCTS = ({"arith.mulf", "arith.addf", "linalg.yield"}, {"arith.muli", "arith.addi", "linalg.yield"})


def choose_tiles(module: ir.Module) -> None:
    """Change the tiles that IREE has chosen, in place; before dispatches are translated."""
    for function in _functions(module):
        configured = [op for op in operations(function) if _CONFIG in op.attributes]
        if len(configured) == 1 and _is_product(configured[0]):
            _choose(function, configured[0])


def _functions(module: ir.Module) -> Iterator[Any]:
    """The functions for CUDA whose products are tiled."""
    for executable in module.body.operations:
        if executable.operation.name == "hal.executable":
            for variant in operations(executable.operation):
                if variant.name == "hal.executable.variant" and '"cuda"' in str(variant.attributes["target"]):
                    for op in operations(variant):
                        if op.name == "func.func" and _TRANSLATION in op.attributes:
                            if _PIPELINE in str(op.attributes[_TRANSLATION]):
                                yield op


def _is_product(op: Any) -> bool:
    """Whether an operation multiplies matrices, or batches of them, of known sizes, without tensor cores."""
    if op.name != "linalg.generic" or "mma_kind" in str(op.attributes[_CONFIG]):
        return False
    kinds = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    names = {inner.operation.name for inner in op.regions[0].blocks[0].operations}
    return (
        kinds in ([False, False, True], [False, False, False, True])
        and list(op.attributes["operandSegmentSizes"]) == [2, 1]
        and all(map_.is_projected_permutation for map_ in maps)
        and [expr.position for expr in maps[2].results] == list(range(len(kinds) - 1))
        and names in _PRODUCTS
        and all(ir.RankedTensorType(x.type).has_static_shape for x in op.operands)
    )


def _choose(function: Any, op: Any) -> None:
    maps = [[expr.position for expr in each.value.results] for each in op.attributes["indexing_maps"]]
    shapes = [ir.RankedTensorType(x.type).shape for x in op.operands]
    length = {axis: n for axes, shape in zip(maps, shapes) for axis, n in zip(axes, shape)}
    *batch, m, n, k = (length[axis] for axis in range(len(length)))
    # Each operand has the terms, and of rows and columns its own.
    row, column, term = range(len(batch), len(length))
    block = block_of(math.prod(batch), m, n, k)
    if block is None or any(sorted(axes[-2:]) != [own, term] for own, axes in zip((row, column), maps)):
        return
    ones = [1] * len(batch)
    levels = {
        "reduction": [0] * term + [block.terms],
        "thread": [*ones, block.rows_of_a_thread, block.columns_of_a_thread, 0],
        "workgroup": [*ones, block.rows, block.columns, 0],
    }
    text = ", ".join(f"{name} = {sizes}" for name, sizes in levels.items())
    op.attributes[_CONFIG] = ir.Attribute.parse(f"#iree_gpu.lowering_config<{{promote_operands = [0, 1], {text}}}>")
    translation = _SIZE.sub(f"workgroup_size = [{block.threads}, 1, 1]", str(function.attributes[_TRANSLATION]))
    function.attributes[_TRANSLATION] = ir.Attribute.parse(translation)
