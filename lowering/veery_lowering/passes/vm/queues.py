"""Change how programs submit their work, most of it for GPUs.

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
of an allocation. Vulkan's driver refuses that ("queue_dealloca buffer was not returned by Vulkan queue_alloca"),
CUDA's and the CPU's take it for the whole allocation ("transient buffer has not been committed"). Fix: such memory is
left to its last reference. (The peak of 300 trips on two arrays of 8 MB is 264 MB instead of 238.)

Waiting. Problem: IREE 3.13's driver for CUDA waits on the host until what memory is asked for behind, or given back
behind, has been computed: a call returned when its arguments were there, and when it was done, and two dispatches took
80 us, one 45. Example: any program with a temporary. Fix: in programs without branches memory is asked for at once,
which the driver does in the order of its one stream, and left to its last reference.

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
_ALLOCATES = "hal.device.queue.alloca"
_FREES = "hal.device.queue.dealloca"
_MAKES = "hal.fence.create"
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
        _leave(op)
    _import_barrier(module, freed)
    return bool(freed)


def wait_for_no_memory(module: ir.Module) -> bool:
    """Have functions without branches ask for memory, and leave it, without waiting; whether any did."""
    changed, left = False, []
    for block in _straight(module):
        for op in [op for op in block.operations if callee(op) in (_ALLOCATES, _FREES)]:
            changed = True
            if callee(op) == _ALLOCATES:
                _ask_at_once(op)
            elif not _pass_on(op):
                left.append(op)
    for op in left:
        _leave(op)
    _import_barrier(module, left)
    return changed


def _straight(module: ir.Module) -> list[Any]:
    """The blocks of functions that have one."""
    (program,) = module.body.operations
    functions = [op for op in program.regions[0].blocks[0].operations if op.operation.name == "vm.func"]
    return [op.regions[0].blocks[0] for op in functions if len(list(op.regions[0].blocks)) == 1]


def _ask_at_once(alloca: Any) -> None:
    """Ask for memory behind nothing; what waited for it waits for what that was behind."""
    wait, signal = alloca.operands[2], alloca.operands[3]
    if _is_null(wait):
        return
    _replace(signal, wait, alloca)
    with alloca.location, ir.InsertionPoint(alloca):
        alloca.operands[2] = ir.Operation.create("vm.const.ref.zero", [wait.type]).result


def _pass_on(dealloca: Any) -> bool:
    """Leave memory to its last reference, and have what is behind that wait for what it was behind; whether it can."""
    wait, signal = dealloca.operands[2], dealloca.operands[3]
    if _is_made(signal) and _is_before(wait, signal):
        _replace(signal, wait, dealloca)
    elif isinstance(signal.owner, ir.Block) and _is_made(wait):
        _replace(wait, signal, dealloca)
    else:
        return False
    dealloca.erase()
    return True


def _leave(dealloca: Any) -> None:
    """Leave memory to its last reference."""
    device, affinity, wait, signal, _, _ = dealloca.operands
    with dealloca.location, ir.InsertionPoint(dealloca):
        none = ir.Operation.create("vm.const.i64.zero", [affinity.type]).result
        call(_WAITS, [], [device, affinity, wait, signal, none])
    dealloca.erase()


def _import_barrier(module: ir.Module, used: list[Any]) -> None:
    if used:
        (program,) = module.body.operations
        add_import(program, _IMPORT)


def _is_null(x: Any) -> bool:
    return not isinstance(x.owner, ir.Block) and x.owner.name == "vm.const.ref.zero"


def _is_made(fence: Any) -> bool:
    return not isinstance(fence.owner, ir.Block) and callee(fence.owner) == _MAKES


def _is_before(x: Any, made: Any) -> bool:
    """Whether a value is there when another one is made."""
    return isinstance(x.owner, ir.Block) or x.owner.operation.is_before_in_block(made.owner.operation)


def _replace(fence: Any, other: Any, but: Any) -> None:
    """Put another fence in the place of one, but for one operation's."""
    for use in list(fence.uses):
        if use.owner != but:
            use.owner.operands[use.operand_number] = other


def _is_own(dealloca: Any) -> bool:
    return bool(dealloca.operands[5].owner.name == "vm.const.i64.zero")


def _set(op: Any, position: int, value: int) -> None:
    kind = op.operands[position].type
    with op.location, ir.InsertionPoint(op):
        constant = ir.Operation.create(
            f"vm.const.{kind}", [kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
        )
    op.operands[position] = constant.result
