"""What is known of constants is computed with NumPy, to the same bits that the device gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import lax, numpy as jnp
from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.stablehlo.folding import fold_constants

# Operation, element type, operands, and the result.
FOLDED: list[tuple[str, str, list[str], Any]] = [
    ("add", "f32", ["1.0", "0x33800001"], np.float32(1) + np.float32(2**-24 * (1 + 2**-23))),
    ("add", "f32", ["0.0", "-0.0"], np.float32(0)),
    ("add", "f32", ["-0.0", "-0.0"], np.float32(-0.0)),
    ("subtract", "f64", ["1.0", "3.0"], np.float64(-2)),
    ("multiply", "f32", ["3.0e38", "10.0"], np.float32(np.inf)),
    ("multiply", "f32", ["1.0e-30", "1.0e-12"], np.float32(1e-30) * np.float32(1e-12)),
    ("divide", "f32", ["-1.0", "32.0"], np.float32(-0.03125)),
    ("divide", "f64", ["1.0", "3.0"], np.float64(1) / 3),
    ("divide", "f32", ["1.0", "-0.0"], np.float32(-np.inf)),
    ("negate", "f32", ["0.0"], np.float32(-0.0)),
    ("sqrt", "f32", ["2.0"], np.sqrt(np.float32(2))),
    ("add", "i8", ["127", "1"], np.int8(-128)),
    ("subtract", "ui8", ["1", "2"], np.uint8(255)),
    ("multiply", "ui64", ["18446744073709551615", "3"], np.uint64(2**64 - 3)),
    ("negate", "i32", ["-2147483648"], np.int32(-(2**31))),
    ("clamp", "i32", ["0", "-3", "32"], np.int32(0)),
    ("clamp", "ui8", ["0", "200", "32"], np.uint8(32)),
    ("clamp", "i64", ["5", "0", "-1"], np.int64(-1)),
    ("clamp", "f32", ["0.0", "0.5", "1.0"], np.float32(0.5)),
]
KEPT: list[tuple[str, str, list[str]]] = [
    ("divide", "f32", ["0.0", "0.0"]),  # the compiler chooses the bits of a NaN
    ("clamp", "f32", ["0.0", "0x7FC00000", "1.0"]),
    ("divide", "i32", ["1", "0"]),
    ("add", "f16", ["1.0", "2.0"]),
    ("add", "bf16", ["1.0", "2.0"]),
    ("exponential", "f32", ["1.0"]),
    ("add", "complex<f32>", ["(1.0, 2.0)", "(1.0, 2.0)"]),
]


def folded(name: str, element: str, operands: list[str], shape: str) -> Any:
    """What the last operation of a module is after the pass."""
    type_ = f"tensor<{shape}{element}>"
    lines = [f"%{i} = stablehlo.constant dense<{value}> : {type_}" for i, value in enumerate(operands)]
    named = ", ".join(f"%{i}" for i in range(len(operands)))
    lines.append(f'%r = "stablehlo.{name}"({named}) : ({", ".join([type_] * len(operands))}) -> {type_}')
    body = "\n".join([*lines, f"return %r : {type_}"])
    module = ir.Module.parse(f"func.func @main() -> {type_} {{\n{body}\n}}")
    fold_constants(module.operation)
    (end,) = [op for op in operations(module.operation) if op.name == "func.return"]
    return module, end.operands[0]


@pytest.mark.parametrize("shape", ["", "3x5x"])
@pytest.mark.parametrize(("name", "element", "operands", "expected"), FOLDED)
def test_folded(name: str, element: str, operands: list[str], expected: Any, shape: str) -> None:
    with context():
        module, value = folded(name, element, operands, shape)
        got = hlo.splat_of(value)
        assert got is not None, module
        assert hlo.shape_of(value) == ((3, 5) if shape else ())
        assert (got.dtype, got.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize(("name", "element", "operands"), KEPT)
def test_kept(name: str, element: str, operands: list[str]) -> None:
    with context():
        module, value = folded(name, element, operands, "3x")
        assert not hlo.is_constant(value), module


def test_constants_of_different_elements_are_kept() -> None:
    with context():
        module, value = folded("negate", "f32", ["[1.0, 2.0]"], "2x")
        assert not hlo.is_constant(value), module


def test_what_folds_in_turn_gives_what_numpy_gives() -> None:
    """Also where sums, slices and paddings read it, which IREE fuses with constants in ways of its own."""
    third = np.float32(1) / np.float32(3)
    calls = [
        (lambda x: x * lax.neg(lax.div(np.float32(1), np.float32(32))), (np.ones(3, np.float32),)),
        (lambda: (jnp.ones((5, 7)) / 2).sum(), ()),
        (lambda: (jnp.ones((5, 7)) / 3 - 1).sum(1), ()),
        (lambda x: x + jnp.pad(jnp.full((2, 3), 6.0) / 4, 1), (np.zeros((4, 5), np.float32),)),
        (lambda x: x @ (jnp.ones((3, 4)) / 3), (np.ones((2, 3), np.float32),)),
        (lambda: jnp.flip((jnp.ones(6) * 3)[1:4]), ()),
    ]
    expected = [
        np.full(3, -1 / 32, np.float32),
        np.float32(17.5),
        np.full(5, 7 * (third - 1), np.float32),
        np.pad(np.full((2, 3), 1.5, np.float32), 1),
        np.full((2, 4), 3 * third, np.float32),
        np.full(3, 3, np.float32),
    ]
    for got, right in zip(results(calls), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=3e-7)


def test_the_gradient_of_a_mean_computes_nothing_when_it_is_loaded() -> None:
    lowered = veery.jit(veery.grad(lambda x: (x**2).mean())).lower(np.ones(32, np.float32))
    assert "util.initializer" not in lowered.as_text("stream")
