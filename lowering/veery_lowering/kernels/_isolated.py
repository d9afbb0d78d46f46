"""Operations as a function of their own, so that what is written of it depends on nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from veery_lowering.kernels._body import is_written_out
from veery_lowering.mlir import ir


class Isolated:
    """Operations of a block, copied into a function that is given what they read.

    Args:
        operations: in their order.

    Attributes:
        given: what they read: what the function has an argument for each, and then the constants that it has itself.
        left: what others read of them, which the function returns.
        text: the function.
    """

    def __init__(self, operations: Sequence[Any]) -> None:
        inside = {op.operation for op in operations}
        made = {x for op in operations for x in op.results}
        read = dict.fromkeys(x for op in operations for x in _read(op.operation) if x not in made)
        constants = [x for x in read if is_written_out(x)]
        others = [x for x in read if x not in set(constants)]
        self.given = [*others, *constants]
        self.left = [x for op in operations for x in op.results if any(u.owner.operation not in inside for u in x.uses)]
        types = [x.type for x in others], [x.type for x in self.left]
        with operations[0].operation.context, ir.Location.unknown():
            module = ir.Module.create()
            attributes = {
                "sym_name": ir.StringAttr.get("main"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(*types)),
            }
            with ir.InsertionPoint(module.body):
                function = ir.Operation.create("func.func", attributes=attributes, regions=1)
            block = function.regions[0].blocks.append(*types[0], arg_locs=[ir.Location.unknown()] * len(types[0]))
            copies = dict(zip(others, block.arguments))
            with ir.InsertionPoint(block):
                for op in (*(x.owner for x in constants), *operations):
                    copy = op.operation.clone()
                    _replace(copy, copies)
                    copies.update(zip(op.results, copy.results))
                ir.Operation.create("func.return", operands=[copies[x] for x in self.left])
        self.text = module.operation.get_asm(assume_verified=True)


def _read(op: Any) -> Iterator[Any]:
    """What an operation reads, in its blocks too."""
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            made = {*block.arguments, *(x for inner in block.operations for x in inner.results)}
            for inner in block.operations:
                yield from (x for x in _read(inner.operation) if x not in made)


def _replace(op: Any, copies: Mapping[Any, Any]) -> None:
    """Have an operation, and those in it, read copies of what they read."""
    for number, x in enumerate(op.operands):
        if x in copies:
            op.operands[number] = copies[x]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _replace(inner.operation, copies)
