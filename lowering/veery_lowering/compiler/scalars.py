"""Numbers that dispatches read from memory, as numbers.

Problem: what is computed of a row's sum and of a number that a program was given, IREE 3.13 computes as often as the
row has elements, in vectors: an array without dimensions is a vector to it as all others are. Of a sum and of a literal
it computes it once. Example: 1000 rows of 64 divided by `sqrt(x.var(1) + eps)`, where the square roots take as long as
the rest: 25 us where `eps` is an argument, 17 where it is a literal. Fix: such an array is read before the loops, and
the operations take what is in it. Test: tests/lowering/test_scalars.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.compiler.tiles import functions
from veery_lowering.mlir import ir, operations

_LOAD = "iree_codegen.load_from_buffer"


def read_scalars(module: ir.Module) -> None:
    """Change dispatches for the CPU that have tiles, in place; before they are translated."""
    for function, _ in functions(module):
        for load in [op for op in operations(function) if op.name == _LOAD]:
            scalar = load.results[0]
            type_ = ir.RankedTensorType(scalar.type)
            readers = [] if type_.rank else [use.owner.operation for use in scalar.uses if _repeats(use)]
            if readers:
                with ir.InsertionPoint.after(load):
                    number = ir.Operation.create("tensor.extract", [type_.element_type], [scalar]).result
                for op in dict.fromkeys(readers):
                    _take(op, scalar, number)


def _repeats(use: Any) -> bool:
    """Whether an operation with loops reads a value."""
    op = use.owner.operation
    if op.name != "linalg.generic" or not len(op.attributes["iterator_types"]):
        return False
    return bool(use.operand_number < op.attributes["operandSegmentSizes"][0])


def _take(op: Any, scalar: Any, number: Any) -> None:
    """Have the body of an operation use a number, and not read it as an operand."""
    (block,) = op.regions[0].blocks
    places = [i for i, x in enumerate(op.operands) if x == scalar]
    for i in reversed(places):
        block.arguments[i].replace_all_uses_with(number)
        block.erase_argument(i)
    inputs, outputs = op.attributes["operandSegmentSizes"]
    attributes = dict(op.attributes.items()) | {
        "indexing_maps": ir.ArrayAttr.get([m for i, m in enumerate(op.attributes["indexing_maps"]) if i not in places]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([inputs - len(places), outputs]),
    }
    with ir.InsertionPoint(op):
        operands = [x for i, x in enumerate(op.operands) if i not in places]
        taking = ir.Operation.create(
            "linalg.generic", [x.type for x in op.results], operands, attributes, regions=1, loc=op.location
        )
    block.append_to(taking.regions[0])
    for old, new in zip(op.results, taking.results):
        old.replace_all_uses_with(new)
    op.erase()
