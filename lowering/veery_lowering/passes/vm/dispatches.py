"""Refuse programs that cannot be loaded.

Problem: devices bind 32 buffers to a dispatch, CUDA's 16, and IREE 3.13 fuses without counting them: the program
compiles, and fails when it is loaded ("binding count"). Example: the sum of 80 arrays, without `split_wide_fusions`.
Fix: a program with such a dispatch is refused while it is compiled, so that it is compiled again with fewer fusions.
Test: tests/lowering/test_barriers.py.
"""

from __future__ import annotations

from veery_lowering.errors import Rejected
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.vm.calls import callee

_DISPATCHES = frozenset(("hal.command_buffer.dispatch", "hal.command_buffer.dispatch.indirect"))


def refuse_wide_dispatches(module: ir.Module, most: int) -> None:
    """Raise Rejected if a dispatch of a VM module binds more buffers than a device does."""
    widest = max((_bindings(op) for op in operations(module.operation) if callee(op) in _DISPATCHES), default=0)
    if widest > most:
        raise Rejected(f"a dispatch touches {widest} buffers, devices bind {most}")


def _bindings(dispatch: ir.Operation) -> int:
    """How many buffers a dispatch binds: the last of its operands are a list of them."""
    return int(list(ir.DenseIntElementsAttr(dispatch.attributes["segment_sizes"]))[-1])
