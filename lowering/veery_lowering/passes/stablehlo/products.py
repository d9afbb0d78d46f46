"""Put products and conversions into forms that IREE 3.13 compiles correctly.

Signs. Problem: when IREE lowers StableHLO, it merges the widening conversion of a product's operand into the product.
By then the operand has no sign any more. Example: in `x.astype(float32) @ w` of unsigned bytes, 200 counts as -56.
Fix: the conversion is made of several steps, of which the last keeps the width, because IREE leaves such conversions
alone; only the first step computes anything. Cost: two dispatches instead of one, which are faster (149 us instead of
244 for 32 rows of 784 bytes times 128 columns of float32, 8 ms instead of 27 for 512x512x512 with tiled operands) but
for very large products (1000x1000x1000 takes 13% more). Test: tests/lowering/test_products.py.

Masks. Problem: a product with a converted bool becomes a selection, so that `False * nan` is 0. Fix: bools select a one
or a zero first.

Empty products. Problem: IREE divides by the number of terms that a product sums; zero terms end the process. Fix: such
products are constants.

Broadcast factors. Problem: a sum of a product becomes a product again, also where a factor is broadcast along the
summed axis, and then the vectoriser fails ("invalid accumulator/result vector shape"). Example: `(a * v).sum()` of a
matrix and a row. Fix: the sum is of `-(a * -v)`, which IREE does not take for a product; it is as fast.

Grouped convolutions. Problem: the kernel of groups with one feature gets the result's type without a conversion
("expected collapsed type to be"). Fix: the operands of such convolutions have the result's type.

Single terms. Problem: a product that sums one term becomes a multiplication, and conversions lose their shapes on the
way ("failed to legalize operation 'stablehlo.convert' that was explicitly marked illegal"). Fix: it is made a
multiplication here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.stablehlo import Value
from veery_lowering.stablehlo._build import one
from veery_lowering.stablehlo._contract import product_axes
from veery_lowering.types import is_static, numpy_dtype

_PRODUCTS = frozenset(("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution"))


def settle_products(module: Any) -> None:
    """Change the products and conversions of a module operation in place."""
    for op in operations(module):
        rewrite: Callable[[Any], None]
        if op.name == "stablehlo.convert":
            rewrite = _convert
        elif op.name in _PRODUCTS:
            rewrite = _rewrite_of_product(op)
        elif op.name == "stablehlo.reduce" and _sums_broadcast_product(op):
            rewrite = _hide_product
        else:
            continue
        with ir.InsertionPoint(op), op.location:
            rewrite(op)


def _convert(op: Any) -> None:
    (x,), new = op.operands, _element(op.results[0])
    if _loses_sign(_element(x), new):
        _replace(op, _in_steps(x, new))


def _rewrite_of_product(op: Any) -> Callable[[Any], None]:
    if not all(all(hlo.shape_of(x)) for x in op.operands):
        return _sum_nothing
    if op.name == "stablehlo.dot_general" and all(is_static(n) for x in op.operands for n in hlo.shape_of(x)):
        if math.prod(hlo.shape_of(op.operands[0])[axis] for axis in product_axes(op, "contracting")[0]) == 1:
            return _multiply
    return _widen_operands


def _multiply(op: Any) -> None:
    """Multiply the operands of a product that sums a single term, in the result's type and shape."""
    (out,) = op.results
    shape = hlo.shape_of(out)
    batches, contracted = product_axes(op, "batching"), product_axes(op, "contracting")
    factors, done = [], 0
    for x, batch, summed in zip(op.operands, batches, contracted, strict=True):
        free = [axis for axis in range(len(hlo.shape_of(x))) if axis not in (*batch, *summed)]
        first = len(batch) + done
        place = [*range(len(batch)), *range(first, first + len(free))]
        done = len(free)
        x = hlo.transpose(_in_type(x, _element(out)), [*batch, *free, *summed])
        x = hlo.reshape(x, [shape[axis] for axis in place])
        factors.append(hlo.broadcast_in_dim(x, shape, place))
    _replace(op, hlo.and_(*factors) if _is_bool(_element(out)) else hlo.multiply(*factors))


def _sums_broadcast_product(op: Any) -> bool:
    """Whether a reduction sums products, of which a factor is or may be the same along a summed axis."""
    if len(op.results) != 1 or operations(op)[0].name != "stablehlo.add":
        return False
    product = op.operands[0].owner
    if not isinstance(product, ir.OpView | ir.Operation) or product.name != "stablehlo.multiply":
        return False
    summed = frozenset(op.attributes["dimensions"])
    return any(_may_be_broadcast(x, summed) for x in product.operands)


def _may_be_broadcast(x: Value, axes: frozenset[int]) -> bool:
    moved = False
    while isinstance(x.owner, ir.OpView | ir.Operation):
        op = x.owner
        if op.name == "stablehlo.broadcast_in_dim":
            place = list(op.attributes["broadcast_dimensions"])
            kept = {axis for n, axis in zip(hlo.shape_of(op.operands[0]), place, strict=True) if n != 1}
            return moved or not axes <= kept
        if op.name not in ("stablehlo.reshape", "stablehlo.transpose"):
            return False
        (x,), moved = op.operands, True
    return False


def _hide_product(op: Any) -> None:
    factors = op.operands[0].owner.operands
    op.operands[0] = hlo.negate(hlo.multiply(factors[0], hlo.negate(factors[1])))


def _in_type(x: Value, new: ir.Type) -> Value:
    return _in_steps(x, new) if _loses_sign(_element(x), new) else _converted(x, new)


def _sum_nothing(op: Any) -> None:
    _replace(op, hlo.full_like(op.results[0], 0))


def _widen_operands(op: Any) -> None:
    """Convert the operands of a product that would lose their signs or types to the type of its result.

    The sum of products of bools is an exclusive or: those are counted.
    """
    (out,) = op.results
    of_bools = _is_bool(_element(out))
    wide = ir.IntegerType.get_signless(32) if of_bools else _element(out)
    if not any(_loses_sign(_element(x), wide) for x in op.operands) and not _loses_type(op):
        return
    for i, x in enumerate(op.operands):
        op.operands[i] = _in_type(x, wide)
    if of_bools:
        counted = ir.RankedTensorType.get(out.type.shape, wide)
        count = one(op.name, list(op.operands), counted, {name: op.attributes[name] for name in op.attributes})
        _replace(op, hlo.compare(count, hlo.full_like(count, 0), "NE"))


def _replace(op: Any, value: Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _element(x: Value) -> ir.Type:
    return ir.RankedTensorType(x.type).element_type


def _is_bool(element: ir.Type) -> bool:
    return isinstance(element, ir.IntegerType) and element.width == 1


def _loses_sign(old: ir.Type, new: ir.Type) -> bool:
    """Whether a conversion is to a wider type, and another one if all integers are signed."""
    numbers = (ir.IntegerType, ir.FloatType)
    if not (isinstance(old, numbers) and isinstance(new, numbers)) or new.width <= old.width:
        return False
    unsigned: Callable[[Any], bool] = lambda element: (
        isinstance(element, ir.IntegerType) and (element.is_unsigned or element.width == 1)
    )
    return unsigned(old) or (isinstance(old, ir.FloatType) and unsigned(new))


def _loses_type(op: Any) -> bool:
    if op.name != "stablehlo.convolution" or _element(op.operands[1]) == _element(op.results[0]):
        return False
    return bool(ir.IntegerAttr(op.attributes["feature_group_count"]).value > 1)


def _in_steps(x: Value, new: ir.Type) -> Value:
    """Convert to a wider type, so that the last step is from one of the same width."""
    if _is_bool(_element(x)):
        one_or_zero = (hlo.full_like(x, value, numpy_dtype(new)) for value in (1, 0))
        return hlo.select(x, *one_or_zero)
    integer = ir.IntegerType.get_signless(new.width)
    if isinstance(new, ir.FloatType):
        return _converted(_converted(x, integer), new)
    other = integer if new.is_unsigned else ir.IntegerType.get_unsigned(new.width)
    return _converted(_converted(_converted(x, new), other), new)


def _converted(x: Value, new: ir.Type) -> Value:
    return x if _element(x) == new else hlo.uniform_convert(x, ir.RankedTensorType.get(x.type.shape, new))
