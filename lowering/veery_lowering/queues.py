"""One queue for all the work of a program.

IREE 3.13 opens two queues on a Vulkan device and lets the driver choose one for each piece of work. What waits for the
other queue is submitted by whichever thread signals first, and both threads number their signals of one semaphore
before they send them. Where a later number comes first, Mesa gives up the device ("Timeline values must only ever
strictly increase"), with all its arrays. An affinity of the functions does not keep work to a queue: it is lost where
results are constants or arguments, and makes sizes and casts that IREE does not compile.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, operations

_FIRST = 1  # a set of queues, as bits
# What records or submits work, and which operand is the set of queues to choose from.
_RECORDS = "hal.command_buffer.create"
_SUBMITS = "hal.device.queue."


def keep_to_first_queue(module: ir.Module) -> bool:
    """Change the calls of a VM module in place; whether there was anything to change."""
    changed = False
    for op in operations(module.operation):
        if op.name in ("vm.call", "vm.call.variadic"):
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            position = 3 if callee == _RECORDS else 1 if callee.startswith(_SUBMITS) else None
            if position is not None:
                _choose_first(op, position)
                changed = True
    return changed


def _choose_first(op: Any, position: int) -> None:
    kind = op.operands[position].type
    with op.location, ir.InsertionPoint(op):
        first = ir.Operation.create("vm.const.i64", [kind], attributes={"value": ir.IntegerAttr.get(kind, _FIRST)})
    op.operands[position] = first.result
