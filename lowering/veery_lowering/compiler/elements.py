"""Single elements of what a dispatch computes, computed by themselves.

What is cheap, such as `x.astype(float32)` of int8, is computed anew by each dispatch that reads it. Where one also
reads an element of it, seen through a reshape (`y - y.ravel()[0]`, or the place that a gather found), IREE 3.13 tiles
(`iree-codegen-tile-and-distribute-to-workgroups-using-forall-op`) the element as a slice of a slice of a slice, without
end: the compiler never returned. So an element is computed of elements of what the whole is computed of.
Test: tests/lowering/test_elements.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering.mlir import ir, maker, operations

_A_VALUE = -(1 << 63)  # stands in a slice's static offsets where the offset is a value
Place = Sequence[Any]  # of an element: an int or a value for each axis


def compute_elements(region: Any) -> None:
    """Let a dispatch region compute single elements of its values apart from the whole, in place."""
    waiting = [op for op in operations(region) if op.name == "tensor.extract_slice"]
    while waiting:
        op = waiting.pop()
        if _takes_an_element(op) and maker(op.operands[0]) == "linalg.generic":
            whole = op.operands[0].owner.operation
            if whole.parent == region and _is_elementwise(whole):
                with op.location, ir.InsertionPoint(op):
                    element, read = _element(whole, list(whole.results).index(op.operands[0]), _place(op))
                op.results[0].replace_all_uses_with(element)
                op.erase()
                waiting += read


def _takes_an_element(op: Any) -> bool:
    return not ir.RankedTensorType(op.results[0].type).rank


def _is_elementwise(op: Any) -> bool:
    """Whether the place of each element of the results says which elements it is computed of."""
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    count = op.attributes["operandSegmentSizes"][0]
    given = list(op.regions[0].blocks[0].arguments)[count:]
    places = [expr for map_ in maps[:count] for expr in map_.results]
    return (
        all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
        and all(map_.is_permutation for map_ in maps[count:])
        and not any(list(x.uses) for x in given)
        and all(isinstance(expr, ir.AffineDimExpr | ir.AffineConstantExpr) for expr in places)
    )


def _place(op: Any) -> Place:
    values = iter(list(op.operands)[1:])
    return [next(values) if n == _A_VALUE else n for n in op.attributes["static_offsets"]]


def _element(op: Any, number: int, place: Place) -> tuple[Any, list[Any]]:
    """An element of a result of an elementwise operation, and the slices that it reads."""
    count = op.attributes["operandSegmentSizes"][0]
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    loops = {expr.position: at for expr, at in zip(maps[count + number].results, place, strict=True)}
    read = []
    for x, map_ in zip(list(op.operands)[:count], maps):
        at = [loops[e.position] if isinstance(e, ir.AffineDimExpr) else e.value for e in map_.results]
        read.append(_slice(x, at) if at else x)
    slices = [x.owner.operation for x, map_ in zip(read, maps) if map_.results]
    kinds = [ir.RankedTensorType.get([], ir.RankedTensorType(x.type).element_type) for x in op.results]
    empty = [ir.Operation.create("tensor.empty", [kind]).result for kind in kinds]
    nowhere = ir.AffineMapAttr.get(ir.AffineMap.get(0, 0, []))
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([nowhere] * len(maps)),
        "iterator_types": ir.ArrayAttr.get([]),
        "operandSegmentSizes": op.attributes["operandSegmentSizes"],
    }
    made = ir.Operation.create("linalg.generic", kinds, [*read, *empty], attributes, regions=1)
    copy = op.clone()
    copy.regions[0].blocks[0].append_to(made.regions[0])
    copy.erase()
    for index in [inner for inner in operations(made) if inner.name == "linalg.index"]:
        at = loops[ir.IntegerAttr(index.attributes["dim"]).value]
        index.results[0].replace_all_uses_with(_constant(at, made) if isinstance(at, int) else at)
        index.erase()
    return made.results[number], slices


def _slice(x: Any, place: Place) -> Any:
    kind = ir.RankedTensorType.get([], ir.RankedTensorType(x.type).element_type)
    values = [at for at in place if not isinstance(at, int)]
    ones = ir.DenseI64ArrayAttr.get([1] * len(place))
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get([at if isinstance(at, int) else _A_VALUE for at in place]),
        "static_sizes": ones,
        "static_strides": ones,
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(values), 0, 0]),
    }
    return ir.Operation.create("tensor.extract_slice", [kind], [x, *values], attributes).result


def _constant(n: int, before: Any) -> Any:
    kind = ir.IndexType.get()
    with ir.InsertionPoint(before):
        return ir.Operation.create("arith.constant", [kind], [], {"value": ir.IntegerAttr.get(kind, n)}).result
