"""End what IREE fuses, by optimization barriers.

Problem: IREE 3.13 fuses elementwise expressions however many arrays they read. A dispatch of more than 32 buffers, 16
for CUDA, compiles, and fails when it is loaded ("binding count 33 > 32"). Example: the sum of 80 arrays. Fix: a barrier
behind a partial result ends the dispatch before that. The same barriers are the last resort where IREE fails with what
it fuses: one behind each value, which is slow, but compiles. Test: tests/lowering/test_barriers.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations

_NOT_FUSED = frozenset(
    (
        "stablehlo.while stablehlo.case stablehlo.if func.call stablehlo.constant stablehlo.iota stablehlo.sort"
        " stablehlo.optimization_barrier stablehlo.dot_general stablehlo.convolution stablehlo.scatter"
    ).split()
)
_WRITTEN = ("stablehlo.constant", "stablehlo.iota")
_APART = frozenset(
    f"stablehlo.{name}" for name in "optimization_barrier while case if constant iota dynamic_iota".split()
)
_BLOCKS = frozenset(("func.func", "stablehlo.while", "stablehlo.case", "stablehlo.if"))


def split_wide_fusions(module: ir.Module, bindings: int) -> None:
    """Put barriers into expressions that read more arrays than half of what a dispatch binds.

    The fused consumers of a value may add as many again.
    """
    most = bindings // 2
    for function in module.body.operations:
        for region in function.operation.regions:
            for block in region.blocks:
                if _may_be_wide(block, most):
                    _split_block(block, most)


def _may_be_wide(block: Any, most: int) -> bool:
    """Whether there may be expressions of too many arrays: those of a function without control flow are its arguments,
    what is not fused, and what that reads.
    """
    count = len(block.arguments)
    for op in block.operations:
        if op.operation.regions:
            return True
        name, results = op.operation.name, op.operation.results
        if (not _fused(op.operation) or len(results) != 1) and name not in _WRITTEN:
            count += len(op.operation.operands) + len(results)
    return count > most


def compute_each(module: Any) -> None:
    """Put barriers behind all values, so that each is computed in a dispatch of its own, in place.

    Integers of loops stay what they are: behind barriers, IREE would no longer find out which of them counts.
    """
    for op in operations(module):
        if op.parent is not None and op.parent.name in _BLOCKS and op.name not in _APART:
            if len(op.results) == 1 and _is_array(op.results[0]) and not _may_count(op):
                behind_barrier(op)


def wait_for_loops(module: Any) -> None:
    """Put barriers behind the results of loops, in place, at which calls wait.

    IREE forgets that a loop is between what it makes one submission of, where an array both is carried by the loop and
    later written into with a result ("circular dependency: input operation uses partition output").
    """
    for op in operations(module):
        if op.name == "stablehlo.while":
            behind_barrier(op)


def _may_count(op: Any) -> bool:
    kind = op.results[0].type
    return op.parent.name == "stablehlo.while" and not kind.rank and isinstance(kind.element_type, ir.IntegerType)


def behind_barrier(op: Any) -> Any:
    """Put the results of an operation behind barriers, which all that used them use instead.

    Returns the first of them.
    """
    first = None
    for x in op.results:
        uses = [(use.owner, use.operand_number) for use in x.uses]
        with op.location, ir.InsertionPoint.after(op):
            (barred,) = hlo.optimization_barrier([x])
        for user, i in uses:
            user.operands[i] = barred
        first = first or barred
    return first


def bar_operand(op: Any, number: int) -> None:
    """Put a barrier before an operand of an operation."""
    with op.location, ir.InsertionPoint(op):
        (op.operands[number],) = hlo.optimization_barrier([op.operands[number]])


def compute_before_reductions(module: Any) -> None:
    """Put barriers before what reductions read, in place.

    What turns out to be a constant is in memory then, and its size is known (compiler/dispatches.py).
    """
    for op in operations(module):
        if op.name in ("stablehlo.reduce", "stablehlo.reduce_window"):
            for i in range(len(op.operands) // 2):
                bar_operand(op, i)


def clone_at_barriers(module: Any) -> None:
    """Make copies of values, which IREE elides, of barriers, at which it waits on the host, in place.

    Nothing is fused across either, but a call of a program with barriers returns when what is before them has been
    computed. A copy of a constant would be that constant, and a value of symbolic sizes stays as it is.
    """
    for op in operations(module):
        if op.name == "stablehlo.optimization_barrier":
            for x, result in zip(op.operands, op.results):
                if maker(x) != "stablehlo.constant" and ir.RankedTensorType(x.type).has_static_shape:
                    with op.location, ir.InsertionPoint(op):
                        result.replace_all_uses_with(hlo.clone(x))
            if not any(list(result.uses) for result in op.results):
                op.erase()


def _split_block(block: Any, most: int) -> None:
    """Walk down a block with the set of buffers that each value's fused expression reads."""
    buffers: dict[ir.Value, frozenset[ir.Value]] = {}
    for op in list(block.operations):
        op = op.operation
        for region in op.regions:
            if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
                for inner in region.blocks:
                    _split_block(inner, most)
        if op.name in _NOT_FUSED or len(op.results) != 1 or not _is_array(op.results[0]):
            continue
        reads = {x: buffers.get(x, _source(x)) for x in op.operands if _is_array(x)}
        union: frozenset[ir.Value] = frozenset().union(*reads.values())
        while len(union) > most:
            widest = max(reads, key=lambda x: len(reads[x]))
            if len(reads[widest]) <= 1:
                break
            barred = _barrier(widest, op)
            del reads[widest]
            reads[barred] = frozenset((barred,))
            union = frozenset().union(*reads.values())
        # A value that something outside the dispatch reads is one more buffer: it is written.
        result = op.results[0]
        kept = all(_fused(use.owner.operation) for use in result.uses)
        buffers[result] = union if kept else union | {result}


def _fused(op: Any) -> bool:
    return op.name not in _NOT_FUSED and op.name not in ("func.return", "stablehlo.return")


def _is_array(x: ir.Value) -> bool:
    """Whether a value lies in a buffer: sizes of symbolic dimensions and shapes made of them do not."""
    return isinstance(x.type, ir.RankedTensorType) and not isinstance(x.type.element_type, ir.IndexType)


def _source(x: ir.Value) -> frozenset[ir.Value]:
    return frozenset() if maker(x) in _WRITTEN else frozenset((x,))


def _barrier(value: ir.Value, before: Any) -> ir.Value:
    with ir.InsertionPoint(before), before.location:
        (barred,) = hlo.optimization_barrier([value])
    for i, operand in enumerate(before.operands):
        if operand == value:
            before.operands[i] = barred
    return barred
