"""Refuse programs that overwrite donated arguments while these are needed.

Problem: IREE 3.13 does not look at what else reads an argument when it writes a result into it (see `donation`).
Example: `x - x @ y` of a donated x, if the product reads rows that are new already. Fix: each argument that is to be
overwritten is looked at in the IR in which all accesses to memory are in order. It may be overwritten if a single
dispatch writes it, after all others that read it, and if that dispatch reads it, at most, in the elementwise operation
that computes the new value. Otherwise the program is compiled again without that argument. Test:
tests/lowering/test_donation.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from veery_lowering.errors import Rejected
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stream.same_elements import is_elementwise

_WRITES = 2  # the bit of resource_accesses; 1: reads


def refuse_unsafe(arguments: Collection[int], module: ir.Module) -> None:
    """Raise Rejected if arguments of `main` may be overwritten while they are needed; `arguments` says which then.

    Args:
        arguments: the numbers of those that are to be overwritten.
        module: IREE's IR of a program after the phase "stream".
    """
    program = _Program(module)
    found = frozenset(i for i in arguments if not program.is_safe(i))
    if found:
        raise Rejected("arguments are overwritten while they are needed", found)


class _Program:
    def __init__(self, module: Any):
        self._kernels: dict[str, Any] = {}
        self._main: Any = None

        for op in operations(module.operation):
            if op.name == "func.func":
                self._kernels[ir.StringAttr(op.attributes["sym_name"]).value] = op
            elif op.name == "util.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
                self._main = op

    def is_safe(self, number: int) -> bool:
        argument = self._main.regions[0].blocks[0].arguments[number]
        executions = []
        for use in argument.uses:
            op = use.owner.operation
            if op.name == "stream.tensor.import":
                for inner in op.results[0].uses:
                    user = inner.owner.operation
                    if user.name == "stream.cmd.execute":
                        executions.append((user, inner.operand_number))
                    elif user.name != "stream.tensor.export":
                        return False
        if not executions:
            return True
        if len(executions) > 1 or executions[0][0].parent.operation != self._main:
            return False  # in one of several, of which the order is not plain, or in a loop
        execution, operand = executions[0]
        return self._is_safe_in(execution, operand)

    def _is_safe_in(self, execution: Any, operand: int) -> bool:
        body = execution.regions[0].blocks[0]
        memory = body.arguments[sum(map(_is_resource, list(execution.operands)[:operand]))]
        written = False
        for step in _steps(body):
            touching = [op for op in step if memory in list(op.operands)]
            writers = [op for op in touching if _writes(op, memory)]
            if written and touching or len(writers) > 1 or writers and len(touching) > 1:
                return False
            if writers:
                written = True
                if writers[0].name != "stream.cmd.dispatch" or not self._is_elementwise(writers[0], memory):
                    return False
        return True

    def _is_elementwise(self, dispatch: Any, memory: Any) -> bool:
        """Whether a dispatch makes each element of the memory of the same element, and of others' memory."""
        (entry,) = dispatch.attributes["entry_points"]
        kernel = self._kernels.get(str(entry).rpartition("@")[2])
        bindings = [i for i, x in enumerate(_resources(dispatch)) if x == memory]
        return kernel is not None and is_elementwise(kernel, bindings, bindings)


def _steps(block: Any) -> Iterator[list[Any]]:
    """The operations that run at the same time, in their order."""
    for op in block.operations:
        op = op.operation
        if op.name == "stream.cmd.concurrent":
            yield [inner for step in _steps(op.regions[0].blocks[0]) for inner in step]
        elif op.name == "stream.cmd.serial":
            yield from _steps(op.regions[0].blocks[0])
        else:
            yield [op]


def _resources(dispatch: Any) -> Sequence[Any]:
    """The memory that a dispatch is bound to."""
    sizes = list(ir.DenseI32ArrayAttr(dispatch.attributes["operandSegmentSizes"]))
    start = sum(sizes[:2])
    return list(dispatch.operands)[start : start + sizes[2]]


def _is_resource(x: Any) -> bool:
    return str(x.type).startswith("!stream.resource")


def _writes(op: Any, memory: Any) -> bool:
    if op.name == "stream.cmd.copy":
        return bool([x for x in op.operands if _is_resource(x)][1] == memory)
    if op.name != "stream.cmd.dispatch":
        return True
    accesses = [ir.IntegerAttr(each).value for each in op.attributes["resource_accesses"]]
    return any(x == memory and access & _WRITES for x, access in zip(_resources(op), accesses, strict=True))
