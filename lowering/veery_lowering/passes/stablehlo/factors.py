"""Convert the factors of large products before the products.

Problem: IREE 3.13 makes conversions a part of the products that read them, and does them for each of the blocks in
which an element is multiplied. Example: a product of bfloat16, summed in float32. Fix: factors of narrow floats are
converted, and a barrier keeps that apart. Measured on two cores, in us, without and with it, of bfloat16: 316x316 by
316x316 899 and 422, 1000x1000 by 1000x1000 27,900 and 13,300; of float16 128x784 by 784x512 887 and 613. Test:
tests/lowering/test_products.py.
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations, sizes
from veery_lowering.stablehlo import Value, product_axes

# Rows and columns of a product of whose factors each element is converted often enough, and terms of its sums.
_LEAST, _LEAST_TERMS = 128, 64


def convert_factors(module: Any) -> None:
    """Convert the factors of large products of matrices to what they are summed in, in place."""
    for op in operations(module):
        if op.name == "stablehlo.dot_general" and _is_large(op):
            with ir.InsertionPoint(op), op.location:
                for i, x in enumerate(op.operands):
                    op.operands[i] = _apart(x, hlo.dtype_of(op.results[0]))


def _is_large(op: Any) -> bool:
    """Whether all of a product's shapes are known, and it has many rows and columns."""
    shapes = [sizes(x) for x in op.operands]
    if any(n is None for shape in shapes for n in shape):
        return False
    left_out = zip(*(product_axes(op, kind) for kind in ("contracting", "batching")))
    free = [[n for axis, n in enumerate(s) if axis not in (*c, *b)] for s, (c, b) in zip(shapes, left_out)]
    terms = math.prod(shapes[0][axis] for axis in product_axes(op, "contracting")[0])  # type: ignore[misc]
    return min(map(math.prod, free)) >= _LEAST and terms >= _LEAST_TERMS  # type: ignore[arg-type]


def _apart(x: Value, wide: Any) -> Value:
    """A factor of the dtype of the sums, converted before; as it is if it is no narrow float."""
    if _is_narrower(x, wide):
        x = x.owner.operands[0] if _is_rounded(x, wide) else hlo.convert(x, wide)
    elif not (maker(x) == "stablehlo.convert" and _is_narrower(x.owner.operands[0], wide)):
        return x
    (apart,) = hlo.optimization_barrier([x])
    return apart


def _is_rounded(x: Value, wide: Any) -> bool:
    """Whether a factor is a conversion of bfloat16 numbers that are of the wide dtype already."""
    if maker(x) != "stablehlo.convert" or maker(x.owner.operands[0]) != "stablehlo.reduce_precision":
        return False
    rounded = x.owner.operands[0]
    bits = [ir.IntegerAttr(rounded.owner.attributes[f"{part}_bits"]).value for part in ("exponent", "mantissa")]
    return hlo.dtype_of(x).kind == "V" and hlo.dtype_of(rounded) == wide and bits == [8, 7]


def _is_narrower(x: Value, wide: Any) -> bool:
    dtype = hlo.dtype_of(x)
    return dtype.kind in "fV" and wide.kind == "f" and dtype.itemsize < wide.itemsize
