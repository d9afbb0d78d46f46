"""Change how programs for GPUs submit their work.

Two queues. Problem: IREE 3.13 opens two queues on a Vulkan device and lets its driver choose one for each piece of
work. Threads number their signals of a semaphore before they send them, so a later number can be sent first. Mesa then
gives up the device with all its arrays ("Timeline values must only ever strictly increase"). Example: calls of several
programs from two threads. (An affinity of functions does not help: it is lost where results are constants or
arguments, and makes casts that IREE does not compile.) Fix: all work names the first queue.

Recorded commands. Problem: commands that need no values of the host are recorded when a program is loaded, and each
call says which buffers they work on. If there are only copies and fills among them, and no dispatch, IREE 3.13 keeps
what the driver recorded for the first call, and plays it again whatever the buffers are. Example: each eager `x[i]`
gave the row of the first i. Fix: commands are marked as for one use, for which IREE records them in each call.

Memory of loops. Problem: IREE 3.13 gives back the memory of what a loop or a branch computed even if it is only a part
of an allocation. Vulkan's driver refuses that ("queue_dealloca buffer was not returned by Vulkan queue_alloca"), and
CUDA's takes it for the whole allocation. Fix: such memory is left to its last reference.

Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, operations
from veery_lowering.passes.vm.calls import add_import, call, callee

_FIRST = 1  # a set of queues, as bits
_MODE, _ONE_SHOT = 1, 1  # the operand that says how often commands will run, as bits, and the value for once
# What records or submits work, and which operand is the set of queues to choose from.
_RECORDS = "hal.command_buffer.create"
_SUBMITS = "hal.device.queue."
_FREES = "hal.device.queue.dealloca"
_WAITS = "hal.device.queue.barrier"
_IMPORT = (
    f"vm.import private @{_WAITS}(%device : !vm.ref<!hal.device>, %queue_affinity : i64, "
    "%wait_fence : !vm.ref<!hal.fence>, %signal_fence : !vm.ref<!hal.fence>, %flags : i64)"
)


def keep_to_first_queue(module: ir.Module) -> bool:
    """Change the calls of a VM module in place; whether there was anything to change."""
    changed = False
    for op in operations(module.operation):
        name = callee(op)
        position = 3 if name == _RECORDS else 1 if name.startswith(_SUBMITS) else None
        if position is not None:
            _set(op, position, _FIRST)
            changed = True
    return changed


def record_anew(module: ir.Module) -> bool:
    """Change how commands are recorded in a VM module in place; whether there was anything to change."""
    changed = False
    for op in operations(module.operation):
        if callee(op) == _RECORDS:
            mode = op.operands[_MODE].owner
            if mode.name == "vm.const.i32.zero":
                _set(op, _MODE, _ONE_SHOT)
                changed = True
    return changed


def free_no_parts(module: ir.Module) -> bool:
    """Have a VM module free nothing whose origin is not known, in place; whether there was anything to change."""
    freed = [op for op in operations(module.operation) if callee(op) == _FREES and not _is_own(op)]
    for op in freed:
        device, affinity, wait, signal, _, _ = op.operands
        with op.location, ir.InsertionPoint(op):
            none = ir.Operation.create("vm.const.i64.zero", [affinity.type]).result
            call(_WAITS, [], [device, affinity, wait, signal, none])
        op.erase()
    if freed:
        (program,) = module.body.operations
        add_import(program, _IMPORT)
    return bool(freed)


def _is_own(dealloca: Any) -> bool:
    return bool(dealloca.operands[5].owner.name == "vm.const.i64.zero")


def _set(op: Any, position: int, value: int) -> None:
    kind = op.operands[position].type
    with op.location, ir.InsertionPoint(op):
        constant = ir.Operation.create(
            f"vm.const.{kind}", [kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
        )
    op.operands[position] = constant.result
