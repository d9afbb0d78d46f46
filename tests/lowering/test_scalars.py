"""Numbers that dispatches read: operations with loops take them as numbers, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import numpy as jnp
from veery_lowering.compiler.scalars import read_scalars
from veery_lowering.mlir import context, ir, operations

MODULE = """
#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {native_vector_size = 64 : i64}>
#rows = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#none = affine_map<(i, j) -> ()>
#scalar = affine_map<() -> ()>
module {
  hal.executable private @code {
    hal.executable.variant public @cpu target(#target) {
      builtin.module {
        func.func @main(%b: memref<f32>, %x: tensor<8x4xf32>, %y: tensor<8xf32>) -> (tensor<8x4xf32>, tensor<f32>)
            attributes {translation_info = #iree_codegen.translation_info<pipeline = PIPELINE>} {
          %s = iree_codegen.load_from_buffer %b : memref<f32> -> tensor<f32>
          %e = tensor.empty() : tensor<8x4xf32>
          %0 = linalg.generic
              {indexing_maps = [#none, #rows, #row, #none, #rows], iterator_types = ["parallel", "parallel"]}
              ins(%s, %x, %y, %s : tensor<f32>, tensor<8x4xf32>, tensor<8xf32>, tensor<f32>)
              outs(%e : tensor<8x4xf32>) attrs = {kept} {
          ^bb0(%p: f32, %q: f32, %r: f32, %t: f32, %o: f32):
            %1 = arith.addf %p, %r : f32
            %2 = arith.mulf %1, %q : f32
            %3 = arith.subf %2, %t : f32
            linalg.yield %3 : f32
          } -> tensor<8x4xf32>
          %f = tensor.empty() : tensor<f32>
          %4 = linalg.generic {indexing_maps = [#scalar, #scalar], iterator_types = []}
              ins(%s : tensor<f32>) outs(%f : tensor<f32>) {
          ^bb0(%p: f32, %o: f32):
            %5 = math.exp %p : f32
            linalg.yield %5 : f32
          } -> tensor<f32>
          return %0, %4 : tensor<8x4xf32>, tensor<f32>
        }
      }
    }
  }
}
"""


@pytest.mark.parametrize(
    ("pipeline", "read"),
    [("#iree_cpu.pipeline<DoubleTilingExpert>", True), ("#iree_cpu.pipeline<Default>", False)],
)
def test_operations_with_loops_take_numbers(pipeline: str, read: bool) -> None:
    with context():
        module = ir.Module.parse(MODULE.replace("PIPELINE", pipeline))
        read_scalars(module)
        assert module.operation.verify()
        found = operations(module.operation)
        rows, scalar = (op for op in found if op.name == "linalg.generic")
        assert len(rows.operands) == (3 if read else 5) and "kept" in rows.attributes
        assert len(scalar.operands) == 2
        assert [op.name for op in found].count("tensor.extract") == read
        if read:
            assert "arith.addf %extracted, %in" in str(rows) and "%extracted : f32" in str(rows).split("arith.subf")[1]


ROWS = np.random.default_rng(3).standard_normal((37, 29)).astype(np.float32)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rows": lambda np_, x, s: x / np_.sqrt(x.var(1, keepdims=True) + s),
    "columns": lambda np_, x, s: x * np_.cos(s * x.sum(0)) - s,
    "a sum": lambda np_, x, s: ((x - s) ** 2).sum(1),
    "all": lambda np_, x, s: np_.maximum(x, s).max(),
    "several": lambda np_, x, s: (x * s + s, (x + s).sum(0), s * 2),
    "transposed": lambda np_, x, s: (x * s).T + s,
    "an integer": lambda np_, x, s: np_.where(x > s, x, s) + (s > 0) * x,
}


@pytest.mark.parametrize(("kind", "bound"), [("float32", 2e-6), ("float64", 1e-14), ("int32", 2e-6), ("float16", 4e-3)])
def test_results_are_those_of_numpy(kind: str, bound: float) -> None:
    with veery.enable_x64(True):
        scalar = np.dtype(kind).type(2 if kind == "int32" else 0.375)
        x = ROWS.astype("float32" if kind == "int32" else kind)
        found = veery.jit(lambda x, s: [f(jnp, x, s) for f in FUNCTIONS.values()])(x, scalar)
        exact = [f(np, x.astype(np.float64), np.float64(scalar)) for f in FUNCTIONS.values()]
        for name, outs, expected in zip(FUNCTIONS, found, exact, strict=True):
            for a, b in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=bound, atol=bound * np.abs(b).max(), err_msg=name)
