"""Have each block make what is made of nothing.

Problem: IREE 3.13 makes a dispatch that reads no memory anew for each part of a program that reads its result, but not
for loops and branches in it, and refuses the first one, of which no part is left ("streamable op expected to be in an
execution region"). Example: gradients of a scan with a branch that depends on the trip, of arrays of more than 4096
elements. Fix: blocks that read such a result have a dispatch of their own. Test: tests/lowering/test_carries.py.
"""

from __future__ import annotations

from veery_lowering.mlir import ir, operations


def make_in_each_block(module: ir.Module) -> None:
    """Copy dispatches that read nothing into the blocks that read what they make, in place."""
    for function in module.body.operations:
        if function.name != "util.func":
            continue
        for op in operations(function.operation):
            if op.name != "stream.async.dispatch" or any("!stream.resource" in str(x.type) for x in op.operands):
                continue
            for number, result in enumerate(op.results):
                for use in list(result.uses):
                    user = use.owner.operation
                    if user.block != op.block:
                        with ir.InsertionPoint(user):
                            user.operands[use.operand_number] = op.clone().results[number]
