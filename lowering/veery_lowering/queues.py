"""How the programs for Vulkan submit their work: on one queue, recorded for each call.

IREE 3.13 opens two queues on a Vulkan device and lets the driver choose one for each piece of work. What waits for the
other queue is submitted by whichever thread signals first, and both threads number their signals of one semaphore
before they send them. Where a later number comes first, Mesa gives up the device ("Timeline values must only ever
strictly increase"), with all its arrays. An affinity of the functions does not keep work to a queue: it is lost where
results are constants or arguments, and makes sizes and casts that IREE does not compile.

Commands that need no values of the host are recorded when a program is loaded, and each call says which buffers they
work on. Of copies and fills alone, without a dispatch, IREE 3.13 keeps what the driver made of them for the first call,
and plays that again whatever the buffers are now: `x[i]` was the row of the first i. Commands for one shot it records
for each call, and does not object to more than one.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, operations

_FIRST = 1  # a set of queues, as bits
_MODE, _ONE_SHOT = 1, 1  # the operand that says how often commands will run, as bits, and the value for once
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
                _set(op, position, _FIRST)
                changed = True
    return changed


def record_anew(module: ir.Module) -> bool:
    """Change how commands are recorded in a VM module in place; whether there was anything to change."""
    changed = False
    for op in operations(module.operation):
        if op.name == "vm.call" and ir.FlatSymbolRefAttr(op.attributes["callee"]).value == _RECORDS:
            mode = op.operands[_MODE].owner
            if mode.name == "vm.const.i32.zero":
                _set(op, _MODE, _ONE_SHOT)
                changed = True
    return changed


def _set(op: Any, position: int, value: int) -> None:
    kind = op.operands[position].type
    with op.location, ir.InsertionPoint(op):
        constant = ir.Operation.create(
            f"vm.const.{kind}", [kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
        )
    op.operands[position] = constant.result
