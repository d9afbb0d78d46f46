"""Very many arrays are joined in two steps: else each would be a dispatch, which takes 11 ms to compile."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import numpy as jnp
from veery_lowering.kernels import decisions
from veery_lowering.mlir import context, ir
from veery_lowering.passes.stablehlo.joins import part_joins

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("count", [64, 65, 200])
def test_very_many_parts_are_joined_in_two_steps(count: int) -> None:
    x = np.random.default_rng(0).normal(size=(count, 7)).astype(np.float32)
    fun = lambda x: jnp.stack([x[i] * (i + 1) for i in range(count)])
    with decisions() as decided:
        program = veery.jit(fun).lower(x).compile()
    np.testing.assert_array_equal(program(x), x * np.arange(1, count + 1, dtype=np.float32)[:, None])
    assert sum(bool(decision.kernel) for decision in decided) == (1 if count == 64 else -(-count // 64))


@pytest.mark.parametrize(("parts", "size", "joins"), [(64, 3, 1), (65, 3, 3), (64 * 64 + 1, 3, 68), (65, 1 << 12, 1)])
def test_how_many_are_joined_at_a_time(parts: int, size: int, joins: int) -> None:
    """Large arrays are not copied once more."""
    part, whole = f"tensor<2x{size}xf32>", f"tensor<2x{size * parts}xf32>"
    names = ", ".join(["%x"] * parts)
    text = f"""
    func.func @main(%x: {part}) -> {whole} {{
      %y = stablehlo.concatenate {names}, dim = 1 : ({", ".join([part] * parts)}) -> {whole}
      return %y : {whole}
    }}"""
    with context():
        module = ir.Module.parse(text)
        part_joins(module.operation)
        assert module.operation.verify()
        assert str(module).count("stablehlo.concatenate") == joins
