"""Branches of VM code: what is passed twice to a block is copied first."""

from __future__ import annotations

import numpy as np

import veery
import veery.numpy as jnp
from veery import lax
from veery_lowering.mlir import context, ir
from veery_lowering.passes.vm.branches import separate

MODULE = """
vm.module public @program {
  vm.func @main(%flag: i32, %x: !vm.ref<!hal.buffer>, %y: !vm.ref<!hal.buffer>) {
    vm.cond_br %flag, ^a(%x, %flag, %x, %y, %x : !vm.ref<!hal.buffer>, i32, !vm.ref<!hal.buffer>, !vm.ref<!hal.buffer>,
      !vm.ref<!hal.buffer>), ^b(%y, %x : !vm.ref<!hal.buffer>, !vm.ref<!hal.buffer>)
  ^a(%a: !vm.ref<!hal.buffer>, %i: i32, %b: !vm.ref<!hal.buffer>, %c: !vm.ref<!hal.buffer>, %d: !vm.ref<!hal.buffer>):
    vm.br ^c(%i, %i : i32, i32)
  ^b(%e: !vm.ref<!hal.buffer>, %f: !vm.ref<!hal.buffer>):
    vm.return
  ^c(%j: i32, %k: i32):
    vm.return
  }
}
"""


def test_references_that_are_passed_twice_are_copied():
    with context():
        module = ir.Module.parse(MODULE)
        assert separate(module)
        text = module.operation.get_asm(assume_verified=True)
        assert not separate(module)
    assert text.count("vm.assign.ref %arg1") == 2 and text.count("vm.assign.ref") == 2
    (line,) = [line for line in text.splitlines() if "vm.cond_br" in line]
    assert "(%arg1, %arg0, %ref, %arg2, %ref_0 :" in line and "(%arg2, %arg1 :" in line


def test_constants_that_share_a_buffer_are_carried():
    """IREE alone: "ref is null" (seen in the loops of Equinox, which carry such flags)."""

    def steps(x):
        goes_on = lambda c: (c[3] < 5) & (c[0] < 8)
        step = lambda c: (c[0] + 1, c[1] & (c[3] + 1 < 5), c[1], c[3] + 1, c[4].at[c[3]].set(c[3] * 1.0))
        return lax.while_loop(goes_on, step, (0, True, True, 0, x))[4]

    np.testing.assert_array_equal(veery.jit(steps)(jnp.zeros(6)), [0, 1, 2, 3, 4, 0])
