"""Expressions of very many arrays stay loadable."""

from __future__ import annotations

import numpy as np
import pytest
from support.jaxpr_graphs import Graph
from support.passes import leave_out

import veery
import veery_lowering
from veery import lax
from veery_lowering.mlir import context, ir
from veery_lowering.passes.stablehlo.barriers import compute_each

LOOP = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %out:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3xf32>
    cond {
      %less = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %grown = stablehlo.multiply %y, %y : tensor<3xf32>
      stablehlo.return %next, %grown : tensor<i32>, tensor<3xf32>
    }
  return %out#1 : tensor<3xf32>
}
"""

FRESH = veery_lowering.Options(cache=False)


def many_arrays(count: int, keep: bool) -> Graph:
    g = Graph()
    total = g.input(np.ones(3, np.float32))
    for i in range(1, count):
        total = g.op("add", total, g.input(np.full(3, i, np.float32)))
        if keep or i == count - 1:
            g.check(f"sum {i}", total, np.full(3, 1 + i * (i + 1) / 2, np.float32))
    return g


@pytest.mark.parametrize("keep", [False, True], ids=["sum", "running sums"])
def test_many_buffers(keep: bool) -> None:
    """A dispatch binds 32 buffers at most; reading and writing both count."""
    many_arrays(80, keep).run()


def test_barriers_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the program would compile and could not be loaded: when this fails, the pass can go."""
    leave_out(monkeypatch, "split_wide_fusions")
    leave_out(monkeypatch, "fuse_elements")
    graph = many_arrays(80, False)
    program = veery_lowering.compile(graph.closed(), options=FRESH)
    assert "devices bind 32" in program.metadata["fallback"]
    graph.run(options=FRESH)
    leave_out(monkeypatch, "refuse_wide_dispatches")
    with pytest.raises(Exception, match="binding count"):
        graph.run(options=FRESH)


def test_cuda_binds_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = many_arrays(30, False)
    options = veery_lowering.Options(cache=False, flags=("--iree-dispatch-creation-fuse-multi-use=true",))
    compiled = lambda: veery_lowering.compile(graph.closed(), target="cuda", options=options).metadata
    assert "fallback" not in compiled()
    leave_out(monkeypatch, "split_wide_fusions")
    assert "devices bind 16" in compiled()["fallback"]


def test_few_arrays_need_none() -> None:
    assert "optimization_barrier" not in many_arrays(6, True).text()


def test_counters_of_loops_are_not_computed_for_themselves() -> None:
    """Behind barriers they would be computed on the device, and each trip would wait for it."""
    with context():
        module = ir.Module.parse(LOOP)
        compute_each(module.operation)
        text = module.operation.get_asm()
    assert text.count("stablehlo.optimization_barrier") == 1
    assert "stablehlo.optimization_barrier" in text[text.index("stablehlo.multiply") :]


def test_programs_do_not_wait_at_barriers() -> None:
    """IREE waits on the host at its own, so that the call returns when what comes before has been computed."""
    lowered = veery.jit(lambda x: lax.optimization_barrier(x @ x) + 1).lower(np.ones((40, 40), np.float32))
    text = lowered.as_text("stream")
    assert text.count("stream.cmd.dispatch") == 2
    assert "timepoint.await" not in text
