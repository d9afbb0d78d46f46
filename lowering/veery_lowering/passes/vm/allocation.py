"""Take the memory of programs for the CPU from the device's allocator.

Problem: IREE 3.13 takes the memory of results, and of intermediate values, from a pool of slabs of 64 MB when the work
begins. Of the slabs whose memory comes back between two requests, the pool remembers one to five; a slab that is
forgotten while nothing in it is in use is lost. Example: eight results of 36 MB that are freed at once cost 240 MB each
time. Fix: the device's allocator is asked when the call is submitted. It is bounded, and keeps what is freed for the
next request of that size, also for sizes above that of a slab (x + x on 100 MB: 132 ms -> 24 ms).

How many bytes a call needs beside its results is written into the program, since the runtime bounds how much of that is
in use at a time. Loops on the host keep IREE's pool: all their trips may be submitted at once.

Test: tests/dispatch/test_growth.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, maker
from veery_lowering.passes.vm.calls import add_import, call, callee

_SCRATCH = "veery.scratch"  # the entry in a function's reflection
_UNBOUNDED = "loop"
_SLAB = 1 << 26
_SMALL = 1 << 20  # a trip that needs less leaves slabs that are found again

_ALLOCA = "hal.device.queue.alloca"
_DEALLOCA = "hal.device.queue.dealloca"
_ALLOCATE = "hal.allocator.allocate"
_ALLOCATOR = "hal.device.allocator"
_IMPORTS = (
    f"vm.import private @{_ALLOCATE}(%allocator : !vm.ref<!hal.allocator>, %queue_affinity : i64, "
    "%memory_types : i32, %buffer_usage : i32, %allocation_size : i64) -> !vm.ref<!hal.buffer>",
    f"vm.import private @{_ALLOCATOR}(%device : !vm.ref<!hal.device>) -> !vm.ref<!hal.allocator> "
    "attributes {nosideeffects}",
)


def allocate_memory(module: ir.Module) -> bool:
    """Change the allocations of a VM module in place; whether there was anything to change."""
    changed = False
    for outer in module.body.operations:
        body = outer.regions[0].blocks[0]
        for function in [op for op in body.operations if op.name == "vm.func"]:
            allocations = [op for op in _operations(function) if callee(op) == _ALLOCA]
            looped = len(function.regions[0].blocks) > 1
            chosen = [] if looped else [op for op in allocations if _is_direct(op)]
            scratch = sum(_constant(op.operands[7]) or 0 for op in chosen if _given_back(op))
            sizes = [_constant(op.operands[7]) for op in allocations]
            unbounded = looped and sum(_SLAB if size is None else size for size in sizes) > _SMALL
            for op in chosen:
                _replace(op.operation)
            for declaration in _IMPORTS if chosen else ():
                add_import(outer, declaration)
            if allocations and "iree.reflection" in function.attributes:  # else it is none of ours
                _note(function, _UNBOUNDED if unbounded else str(scratch))
                changed = True
    return changed


def _operations(function: Any) -> list[Any]:
    return [op for block in function.regions[0].blocks for op in block.operations]


def _note(function: Any, scratch: str) -> None:
    texts = {item.name: item.attr for item in function.attributes["iree.reflection"]}
    function.attributes["iree.reflection"] = ir.DictAttr.get(texts | {_SCRATCH: ir.StringAttr.get(scratch)})


def _given_back(alloca: Any) -> bool:
    return any(callee(use.owner) == _DEALLOCA for use in alloca.results[0].uses)


def _is_direct(alloca: Any) -> bool:
    """Whether the allocator can stand in: the fence is the allocation's own, and what is given back of known size."""
    wait, signal, size = alloca.operands[2], alloca.operands[3], alloca.operands[7]
    if _given_back(alloca) and _constant(size) is None:
        return False
    return maker(wait) != "vm.const.ref.zero" and maker(signal) == "vm.call"


def _constant(value: Any) -> int | None:
    return int(value.owner.attributes["value"].value) if maker(value) == "vm.const.i64" else None


def _replace(alloca: Any) -> None:
    device, affinity, wait, signal, _, kind, usage, size, _ = alloca.operands
    with alloca.location, ir.InsertionPoint(alloca):
        allocator = call(_ALLOCATOR, [ir.Type.parse("!vm.ref<!hal.allocator>")], [device])
        memory = call(_ALLOCATE, [alloca.results[0].type], [allocator.result, affinity, kind, usage, size])
    alloca.results[0].replace_all_uses_with(memory.result)
    made = signal.owner
    alloca.erase()
    signal.replace_all_uses_with(wait)  # the memory is there as soon as what came before
    made.erase()
