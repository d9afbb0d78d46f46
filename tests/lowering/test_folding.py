"""What is known of constants is computed with NumPy, to the same bits that the device gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results

import veery
from veery import lax, numpy as jnp
from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.stablehlo.folding import fold_constants

COMPARED = "{{comparison_direction = #stablehlo<comparison_direction {}>}}"
TOTAL = (
    "{comparison_direction = #stablehlo<comparison_direction EQ>,"
    " compare_type = #stablehlo<comparison_type TOTALORDER>}"
)

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
    ("abs", "f32", ["-0.0"], np.float32(0)),
    ("abs", "i8", ["-128"], np.int8(-128)),
    ("maximum", "f32", ["-1.0", "0.0"], np.float32(0)),
    ("minimum", "ui8", ["200", "100"], np.uint8(100)),
    ("minimum", "f64", ["-0.0", "-0.0"], np.float64(-0.0)),
    ("floor", "f32", ["-1.5"], np.float32(-2)),
    ("ceil", "f32", ["-0.5"], np.float32(-0.0)),
    ("round_nearest_even", "f64", ["2.5"], np.float64(2)),
    ("and", "i1", ["true", "false"], np.bool_(False)),
    ("or", "ui8", ["5", "8"], np.uint8(13)),
    ("xor", "i32", ["-1", "5"], np.int32(-6)),
    ("not", "i1", ["false"], np.bool_(True)),
    ("not", "ui16", ["1"], np.uint16(0xFFFE)),
    ("shift_left", "i8", ["3", "7"], np.int8(-128)),
    ("shift_right_arithmetic", "i32", ["-5", "1"], np.int32(-3)),
    ("shift_right_logical", "i8", ["-1", "1"], np.int8(127)),
    ("shift_right_logical", "ui64", ["18446744073709551615", "63"], np.uint64(1)),
]
# The element types of operands and of the result, operands, attributes, and the result.
OTHERS: list[tuple[str, list[str], str, list[str], str, Any]] = [
    ("convert", ["i32"], "bf16", ["3"], "", ml_dtypes.bfloat16(3)),
    ("convert", ["f32"], "bf16", ["1.00390625"], "", ml_dtypes.bfloat16(1)),  # half way between two
    ("convert", ["f64"], "f32", ["0.1"], "", np.float32(0.1)),
    ("convert", ["i64"], "f32", ["16777217"], "", np.float32(16777216)),
    ("convert", ["f32"], "f16", ["65520.0"], "", np.float16(np.inf)),
    ("convert", ["f32"], "i8", ["-127.9"], "", np.int8(-127)),
    ("convert", ["f16"], "i1", ["-0.0"], "", np.bool_(False)),
    ("convert", ["f32"], "i1", ["0x7FC00000"], "", np.bool_(True)),
    ("convert", ["i1"], "f64", ["true"], "", np.float64(1)),
    ("convert", ["ui8"], "i8", ["200"], "", np.int8(-56)),
    ("bitcast_convert", ["f32"], "i32", ["-0.0"], "", np.int32(-(2**31))),
    ("bitcast_convert", ["ui16"], "bf16", ["16256"], "", ml_dtypes.bfloat16(1)),
    ("is_finite", ["f32"], "i1", ["0x7F800000"], "", np.bool_(False)),
    ("compare", ["f32", "f32"], "i1", ["0.0", "0x7FC00000"], COMPARED.format("LT"), np.bool_(False)),
    ("compare", ["f32", "f32"], "i1", ["0.0", "-0.0"], COMPARED.format("EQ"), np.bool_(True)),
    ("compare", ["ui8", "ui8"], "i1", ["200", "100"], COMPARED.format("GT"), np.bool_(True)),
    ("select", ["i1", "f16", "f16"], "f16", ["false", "1.0", "-0.0"], "", np.float16(-0.0)),
]
OTHERS_KEPT: list[tuple[str, list[str], str, list[str], str]] = [
    ("convert", ["f32"], "i8", ["128.0"], ""),
    ("convert", ["f32"], "i32", ["2147483648.0"], ""),
    ("convert", ["f32"], "ui8", ["-1.0"], ""),
    ("convert", ["f32"], "i32", ["0x7FC00000"], ""),
    ("convert", ["i32"], "bf16", ["257"], ""),  # rounded to float32 first, or not
    ("convert", ["f64"], "f16", ["0.1"], ""),
    ("convert", ["f32"], "f8E4M3FN", ["1.0"], ""),
    ("bitcast_convert", ["i32"], "f32", ["2143289344"], ""),
    ("select", ["i1", "f32", "f32"], "f32", ["true", "0x7FC00000", "0.0"], ""),
    ("compare", ["f32", "f32"], "i1", ["0.0", "-0.0"], TOTAL),
]
KEPT: list[tuple[str, str, list[str]]] = [
    ("divide", "f32", ["0.0", "0.0"]),  # the compiler chooses the bits of a NaN
    ("clamp", "f32", ["0.0", "0x7FC00000", "1.0"]),
    ("divide", "i32", ["1", "0"]),
    ("add", "f16", ["1.0", "2.0"]),
    ("add", "bf16", ["1.0", "2.0"]),
    ("exponential", "f32", ["1.0"]),
    ("add", "complex<f32>", ["(1.0, 2.0)", "(1.0, 2.0)"]),
    ("add", "i1", ["true", "true"]),
    ("maximum", "f32", ["0.0", "-0.0"]),
    ("shift_left", "i8", ["3", "8"]),
    ("shift_right_logical", "i8", ["3", "-1"]),
]


def folded(name: str, elements: list[str], result: str, operands: list[str], shape: str, attributes: str = "") -> Any:
    """What the last operation of a module is after the pass."""
    types, type_ = [f"tensor<{shape}{element}>" for element in elements], f"tensor<{shape}{result}>"
    pairs = enumerate(zip(operands, types, strict=True))
    lines = [f"%{i} = stablehlo.constant dense<{value}> : {of}" for i, (value, of) in pairs]
    named = ", ".join(f"%{i}" for i in range(len(operands)))
    lines.append(f'%r = "stablehlo.{name}"({named}) {attributes} : ({", ".join(types)}) -> {type_}')
    body = "\n".join([*lines, f"return %r : {type_}"])
    module = ir.Module.parse(f"func.func @main() -> {type_} {{\n{body}\n}}")
    fold_constants(module.operation)
    (end,) = [op for op in operations(module.operation) if op.name == "func.return"]
    return module, end.operands[0]


@pytest.mark.parametrize("shape", ["", "3x5x"])
@pytest.mark.parametrize(("name", "element", "operands", "expected"), FOLDED)
def test_folded(name: str, element: str, operands: list[str], expected: Any, shape: str) -> None:
    check_folded(name, [element] * len(operands), element, operands, shape, "", expected)


@pytest.mark.parametrize("shape", ["", "3x5x"])
@pytest.mark.parametrize(("name", "elements", "result", "operands", "attributes", "expected"), OTHERS)
def test_folded_into_another_type(
    name: str, elements: list[str], result: str, operands: list[str], attributes: str, expected: Any, shape: str
) -> None:
    check_folded(name, elements, result, operands, shape, attributes, expected)


def check_folded(
    name: str, elements: list[str], result: str, operands: list[str], shape: str, attributes: str, expected: Any
) -> None:
    with context():
        module, value = folded(name, elements, result, operands, shape, attributes)
        got = hlo.splat_of(value)
        assert got is not None, module
        assert hlo.shape_of(value) == ((3, 5) if shape else ())
        assert (got.dtype, got.tobytes()) == (expected.dtype, expected.tobytes())


@pytest.mark.parametrize(("name", "element", "operands"), KEPT)
def test_kept(name: str, element: str, operands: list[str]) -> None:
    with context():
        module, value = folded(name, [element] * len(operands), element, operands, "3x")
        assert not hlo.is_constant(value), module


@pytest.mark.parametrize(("name", "elements", "result", "operands", "attributes"), OTHERS_KEPT)
def test_kept_of_other_types(name: str, elements: list[str], result: str, operands: list[str], attributes: str) -> None:
    with context():
        module, value = folded(name, elements, result, operands, "", attributes)
        assert not hlo.is_constant(value), module


@pytest.mark.parametrize(
    "operation", ["reshape %c", "transpose %c, dims = [1, 0]", "broadcast_in_dim %c, dims = [1, 2]"]
)
def test_what_is_moved_is_known(operation: str) -> None:
    result = "tensor<4x2x3xf32>" if "broadcast" in operation else "tensor<3x2xf32>"
    text = f"""func.func @main() -> {result} {{
  %c = stablehlo.constant dense<2.0> : tensor<2x3xf32>
  %r = stablehlo.{operation} : (tensor<2x3xf32>) -> {result}
  return %r : {result}
}}"""
    with context():
        module = ir.Module.parse(text)
        fold_constants(module.operation)
        (value,) = next(op for op in operations(module.operation) if op.name == "func.return").operands
        assert hlo.splat_of(value) == 2.0 and str(value.type) == result


def test_constants_of_different_elements_are_kept() -> None:
    with context():
        module, value = folded("negate", ["f32"], "f32", ["[1.0, 2.0]"], "2x")
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


def test_functions_of_constants_compute_nothing_when_they_are_loaded() -> None:
    def scaled(x: veery.Array) -> veery.Array:
        return x * jnp.log(2.0) + jnp.sqrt(2 / jnp.pi) * jnp.tanh(0.5) - jnp.where(jnp.float32(2) > 1, jnp.exp(1.0), 0)

    x = np.ones(32, np.float32)
    assert "util.initializer" not in veery.jit(scaled).lower(x).as_text("stream")
    np.testing.assert_allclose(
        veery.jit(scaled)(x), x * np.log(2) + np.sqrt(2 / np.pi) * np.tanh(0.5) - np.exp(1), rtol=1e-5
    )


@pytest.mark.parametrize("divisor", [2, 2 * np.pi])
def test_remainders_by_a_number_compute_nothing_of_it(divisor: float) -> None:
    """The number is converted, and then broadcast: it is known behind both."""
    lowered = veery.jit(lambda x: x % divisor).lower(np.ones((3, 32), np.float32))
    assert "util.initializer" not in lowered.as_text("stream")
    assert lowered.as_text("flow").count("flow.dispatch @") == 1


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_elements_that_constants_give(dtype: Any) -> None:
    """IREE has no globals for them, in which it keeps what it computes when a program is loaded."""

    def calls(x: veery.Array) -> list[veery.Array]:
        elements = [jnp.array(1), jnp.sin(jnp.array(1.5)), jnp.arange(4.0).max(), jnp.exp(jnp.array(1, dtype)) * 2]
        return [
            f(element.astype(dtype))
            for element in elements
            for f in (lambda e: lax.pad(x, e, [(1, 2, 0)]), lambda e: lax.reduce(x, e, lax.add, (0,)))
        ]

    x = np.arange(3).astype(dtype)
    starts = [1, np.sin(1.5), 3, 2 * np.e]
    expected = [y for start in starts for y in ([start, 0, 1, 2, start, start], 3 + start)]
    for got, right in zip(veery.jit(calls)(x), expected, strict=True):
        np.testing.assert_allclose(np.asarray(got, np.float64), right, rtol=2e-2)
