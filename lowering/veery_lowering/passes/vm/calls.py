"""Modules for IREE's virtual machine: the functions of its runtime that they import and call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering.mlir import ir


def callee(op: Any) -> str:
    """The function that is called; empty for what is no call."""
    if op.name not in ("vm.call", "vm.call.variadic"):
        return ""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)


def call(name: str, results: Sequence[Any], operands: Sequence[Any]) -> Any:
    """Call a function at the ambient insertion point; what is returned has the types `results`."""
    attributes = {"callee": ir.FlatSymbolRefAttr.get(name)}
    return ir.Operation.create("vm.call", results=list(results), operands=list(operands), attributes=attributes)


def add_import(program: Any, declaration: str) -> None:
    """Have a `vm.module` import a function, unless it does."""
    block = program.regions[0].blocks[0]
    made = ir.Operation.parse(declaration)
    if any(op.name == "vm.import" and op.attributes["sym_name"] == made.attributes["sym_name"] for op in block):
        made.erase()
    else:
        ir.InsertionPoint.at_block_begin(block).insert(made)
