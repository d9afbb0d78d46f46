"""Branches that call Python: such programs are synchronous.

IREE 3.13 decides on the host which branch is taken. Where one calls the host, what programs compute before a later
branch is not waited for at their end: of

    a = cond(p, callback, identity, x); b = cond(q, callback, identity, a + 1); return a + 1, b

the first result has no memory yet when the program's fence is signalled.
"""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import ir, operations

_BRANCHES = ("stablehlo.case", "stablehlo.if")


def there_are(module: ir.Module) -> bool:
    """Whether a branch calls a function of the host, itself or in a function that it calls."""
    functions = {op.attributes["sym_name"].value: op for op in operations(module.operation) if op.name == "func.func"}
    branches = [op for op in operations(module.operation) if op.name in _BRANCHES]
    called = {name for branch in branches for name in _callees(branch)}
    waiting = list(called)
    while waiting:
        found = _callees(functions[waiting.pop()]) - called
        called |= found
        waiting += found
    return any(name.startswith("host.") for name in called)


def _callees(op: Any) -> set[str]:
    return {inner.attributes["callee"].value for inner in operations(op) if inner.name == "func.call"}
