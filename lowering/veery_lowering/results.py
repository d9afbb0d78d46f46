"""Where programs of the CPU take the memory of their results from: the device's allocator instead of IREE's pool.

IREE 3.13 takes it from slabs of 64 MB when the work begins. Of the slabs whose memory comes back between two requests
the pool remembers one, and a slab that is forgotten while nothing in it is in use is lost: eight results of 36 MB that
go at once cost 240 MB each time. The allocator is asked when the call is submitted, keeps what is freed for the next
request of that size, larger than a slab too (x + x on 100 MB: 132 ms -> 27 ms, the rest being fresh pages), and is
bounded. Memory that a program gives back itself is left to the pool, which is told of all of that.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir

_ALLOCATE = "hal.allocator.allocate"
_ALLOCATOR = "hal.device.allocator"
_IMPORTS = {
    _ALLOCATE: (
        "vm.import private @hal.allocator.allocate(%allocator : !vm.ref<!hal.allocator>, %queue_affinity : i64, "
        "%memory_types : i32, %buffer_usage : i32, %allocation_size : i64) -> !vm.ref<!hal.buffer>"
    ),
    _ALLOCATOR: (
        "vm.import private @hal.device.allocator(%device : !vm.ref<!hal.device>) -> !vm.ref<!hal.allocator> "
        "attributes {nosideeffects}"
    ),
}


def allocate_results(module: ir.Module) -> bool:
    """Change the allocations of a VM module in place; whether there was anything to change."""
    changed = False
    for outer in module.body.operations:
        block = outer.regions[0].blocks[0]
        imports = {op.attributes["sym_name"].value for op in block.operations if op.name == "vm.import"}
        for function in list(block.operations):
            # In a loop the memory of all trips would be asked for at once.
            if function.name == "vm.func" and len(function.regions[0].blocks) == 1:
                for op in list(function.regions[0].blocks[0].operations):
                    if _called(op) == "hal.device.queue.alloca" and _is_result(op):
                        _replace(op.operation, block, imports)
                        changed = True
    return changed


def _called(op: Any) -> str | None:
    return op.attributes["callee"].value if op.name in ("vm.call", "vm.call.variadic") else None


def _is_result(alloca: Any) -> bool:
    """Whether the program does not give the memory back, and the fence of the allocation is its own."""
    if any(_called(use.owner) == "hal.device.queue.dealloca" for use in alloca.results[0].uses):
        return False
    wait, signal = alloca.operands[2], alloca.operands[3]
    return _made_by(wait) != "vm.const.ref.zero" and _made_by(signal) == "vm.call"


def _made_by(value: Any) -> str | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.name


def _replace(alloca: Any, body: Any, imports: set[str]) -> None:
    device, affinity, wait, signal, _, kind, usage, size, _ = alloca.operands
    with alloca.location, ir.InsertionPoint(alloca):
        allocator = _call(_ALLOCATOR, [ir.Type.parse("!vm.ref<!hal.allocator>")], [device])
        memory = _call(_ALLOCATE, [alloca.results[0].type], [allocator.result, affinity, kind, usage, size])
    alloca.results[0].replace_all_uses_with(memory.result)
    made = signal.owner
    alloca.erase()
    signal.replace_all_uses_with(wait)  # the memory is there as soon as what came before
    made.erase()
    for name in (_ALLOCATE, _ALLOCATOR):
        if name not in imports:
            imports.add(name)
            ir.InsertionPoint.at_block_begin(body).insert(ir.Operation.parse(_IMPORTS[name]))


def _call(callee: str, results: list[Any], operands: list[Any]) -> ir.Operation:
    return ir.Operation.create(
        "vm.call", results=results, operands=operands, attributes={"callee": ir.FlatSymbolRefAttr.get(callee)}
    )
