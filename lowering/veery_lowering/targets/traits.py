"""What the choice of compiler options looks at in a program."""

from __future__ import annotations

import math
from typing import Any

from veery_lowering.mlir import ir, operations
from veery_lowering.spelling import dtype_name
from veery_lowering.stablehlo import product_axes
from veery_lowering.targets.fusion import is_rowwise
from veery_lowering.targets.target import Product, Traits

# What a dynamic dimension is taken for: a batch.
_UNKNOWN_SIZE = 64


def traits(module: ir.Module) -> Traits:
    """Walk a module for what its compilation options depend on."""
    kinds: set[tuple[str, str]] = set()
    products: list[Product] = []

    for op in operations(module.operation):
        if op.operands and isinstance(op.operands[0].type, ir.RankedTensorType):
            if isinstance(op.operands[0].type.element_type, ir.IndexType):  # a shape
                continue
            dtype = dtype_name(op.operands[0].type)
            kinds.add((op.name, dtype))
            if op.name == "stablehlo.dot_general":
                products.append(_product(op, dtype))
    return Traits(frozenset(kinds), tuple(products), is_rowwise(module))


def _product(op: Any, dtype: str) -> Product:
    a_shape, b_shape = (
        [n if n >= 0 else _UNKNOWN_SIZE for n in ir.RankedTensorType(x.type).shape] for x in op.operands
    )
    batch = math.prod(a_shape[axis] for axis in product_axes(op, "batching")[0])
    k = math.prod(a_shape[axis] for axis in product_axes(op, "contracting")[0])
    shared = max(1, batch * k)
    return Product(batch, math.prod(a_shape) // shared, math.prod(b_shape) // shared, k, dtype)
