"""What nobody reads is left out, and nothing else."""

from __future__ import annotations

import numpy as np

import veery
from veery import lax, numpy as jnp
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.stablehlo.unread import drop_unread

TEXT = """
func.func @main(%x: tensor<6xf32>, %n: tensor<i32>) -> (tensor<2x3xf32>, tensor<6xf32>, tensor<i32>) {
  %unread = stablehlo.constant dense<1.0> : tensor<6xf32>
  %alone = stablehlo.add %x, %unread : tensor<6xf32>
  %flat = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<3x2xf32>
  %other = stablehlo.reshape %flat : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %back = stablehlo.reshape %other : (tensor<2x3xf32>) -> tensor<6xf32>
  %told = stablehlo.custom_call @tell(%n) {has_side_effect = true} : (tensor<i32>) -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %float = stablehlo.constant dense<0.0> : tensor<f32>
  %total = stablehlo.reduce(%alone init: %float) across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %c = stablehlo.add %a, %b : tensor<f32>
      %d = stablehlo.negate %c : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }
  %sum = stablehlo.while(%i = %n) : tensor<i32>
    cond {
      %goes = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %goes : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %nobody = stablehlo.negate %one : tensor<i32>
      %less = stablehlo.subtract %i, %one : tensor<i32>
      stablehlo.return %less : tensor<i32>
    }
  return %other, %back, %sum : tensor<2x3xf32>, tensor<6xf32>, tensor<i32>
}
"""


def test_what_is_left() -> None:
    with context():
        module = ir.Module.parse(TEXT)
        drop_unread(module.operation)
        module.operation.verify()
        names = [op.name.partition(".")[2] for op in operations(module.operation)]
        assert names == "reshape custom_call constant compare return constant subtract return while return func".split()
        (returned,) = (op for op in operations(module.operation) if op.name == "func.return")
        function = returned.parent
        assert returned.operands[1] == function.regions[0].blocks[0].arguments[0]
        assert returned.operands[0].owner.operands[0] == function.regions[0].blocks[0].arguments[0]


def test_programs() -> None:
    """Kernels of products between which arrays have other shapes, and of loops, whose rest nobody reads."""

    def run(x: jnp.ndarray) -> list[jnp.ndarray]:
        y = (x.reshape(8, 32) @ jnp.ones((32, 16)) / 32).reshape(16, 8)
        z, unread = lax.fori_loop(0, 3, lambda i, c: (c[0] * 0.5 + i, c[1] + 1), (y @ x[:64].reshape(8, 8), y))
        return [z.reshape(4, 32), (z.reshape(2, 64) > 1).reshape(128).astype(jnp.int32).sum()]

    x = np.linspace(-1, 1, 256, dtype=np.float32)
    y = (x.astype(np.float64).reshape(8, 32) @ np.ones((32, 16)) / 32).reshape(16, 8)
    z = y @ x[:64].reshape(8, 8)
    for i in range(3):
        z = z * 0.5 + i
    first, second = veery.jit(run)(x)
    np.testing.assert_allclose(first, z.reshape(4, 32), rtol=1e-5, atol=1e-5)
    assert second == (z > 1).sum()
