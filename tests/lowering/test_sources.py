"""What dispatches make of nothing is made anew for each that overwrites it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import veery
import veery_lowering
from veery import lax
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.flow.sources import part_sources

MODULE = """
module {
  flow.executable private @made { flow.executable.export public @zeros }
  flow.executable private @code { flow.executable.export public @add }
  util.func public @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5x1xf32>, tensor<5xf32>) {
    %0 = flow.dispatch @made::@zeros() : () -> tensor<5xf32>
    %1 = flow.dispatch @code::@add(%x, %0) : (tensor<5xf32>, tensor<5xf32>) -> %0
    %2 = flow.tensor.reshape %0 : tensor<5xf32> -> tensor<5x1xf32>
    %3 = flow.dispatch @code::@add(%x, %2) : (tensor<5xf32>, tensor<5x1xf32>) -> %2
    %4 = flow.dispatch @code::@add(%x, READ) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    util.return %1, %3, %4 : tensor<5xf32>, tensor<5x1xf32>, tensor<5xf32>
  }
}
"""


@pytest.mark.parametrize(("read", "copies"), [("%x", 1), ("%0", 2)])
def test_each_that_overwrites_has_its_own(read: str, copies: int) -> None:
    with context():
        module = ir.Module.parse(MODULE.replace("READ", read))
        part_sources(module)
        assert module.operation.verify()
        dispatches = [op for op in operations(module.operation) if op.name == "flow.dispatch"]
        made = [op for op in dispatches if "zeros" in str(op.attributes["entry_points"])]
        written = [op.operands[1] for op in dispatches if "tied_operands" in op.attributes and "add" in str(op)]
        names = re.findall(r"flow.executable private @(made\w*)", str(module))
    assert len(made) == 1 + copies == len(names) == len(set(names))
    assert len(set(written)) == len(written)


def test_sums_of_two_windows_for_cuda() -> None:
    """Of the zeros that they begin with there are two, and the program is compiled to its end."""
    window = lambda x, n: lax.reduce_window(x, np.float32(0), lax.add, (n,))
    closed = veery.make_jaxpr(lambda x, y: (window(x, 3), window(y, 2)))(np.ones(7, np.float32), np.ones(6, np.float32))
    flow = veery_lowering.lower(closed, target="cuda").intermediate("flow")
    assert len(re.findall(r"flow.dispatch @\w*again", flow)) == 1
    program = veery_lowering.compile(closed, target="cuda", options=veery_lowering.Options(cache=False))
    assert program.vmfb.count(b".visible .entry") == 4
