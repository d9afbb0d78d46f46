"""Portable artifacts: what is written, and that StableHLO's own reader makes the same module of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import table_elementwise, table_structural
from scipy import special
from support.operations import CASES

import veery
from veery_lowering.emit.portable import portable
from veery_lowering.emit.versioned import readable
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import context, ir

pytestmark = pytest.mark.compiler

ARTIFACTS = sorted((Path(__file__).parents[1] / "aot" / "data").glob("jax_0_10_*.mlirbc"))

# Attributes that say what holds without them: StableHLO's reader leaves them out.
_ONES = r"(?:lhs_dilation|rhs_dilation|base_dilations|window_dilations|window_strides) = array<i64(?:: 1(?:, 1)*)?>"
_NOTHING = r"(?:indices_are_sorted|unique_indices) = false|window_reversal = array<i1: false(?:, false)*>"
_UNPADDED = r"padding = dense<0?> : tensor<\d+x2xi64>"
_BY_TYPE = r"compare_type = #stablehlo<comparison_type (?:FLOAT|SIGNED|UNSIGNED)>"
DEFAULTS = re.compile(rf"(?:, )?(?:{_ONES}|{_NOTHING}|{_UNPADDED}|{_BY_TYPE})")


def artifact(text: str) -> bytes:
    with context():
        return portable(ir.Module.parse(text))


def printed(source: str | bytes, **choices: Any) -> str:
    """A module in generic form, without attributes that have their default values."""
    with context():
        text = ir.Module.parse(source).operation.get_asm(print_generic_op_form=True, **choices)
    return DEFAULTS.sub("", text).replace("<{, ", "<{").replace("dense<false> : tensor<0x", "dense<> : tensor<0x")


def function(body: str, arguments: Sequence[str] = (), results: Sequence[str] = (), others: str = "") -> str:
    """A module whose function has arguments %0, %1, ... and returns %r, or %r#0, %r#1, ..."""
    given = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(arguments))
    names = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r" * len(results)
    kinds = ", ".join(results)
    returned = f"return {names} : {kinds}" if results else "return"
    return f"func.func public @main({given}) -> ({kinds}) {{\n{body}\n{returned}\n}}\n{others}"


def elementwise(dtype: str) -> list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    return [
        (partial(row.primitive.bind, **params), table_elementwise.samples(row, table_elementwise.dtype_of(dtype)))
        for row in table_elementwise.ROWS
        if dtype in (row.dtypes if row.compiled is None else row.compiled)
        for params in row.params
    ]


def structural(dtype: str) -> list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    return [(row.fun, row.cast(dtype)) for row in table_structural.ROWS if dtype in row.dtypes]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", sorted({*table_elementwise.ALL, *table_structural.ALL}))
def test_modules_of_all_primitives_come_back(dtype: str) -> None:
    """But those that call NumPy; in one module for the rows of a dtype."""
    lowered = [veery.jit(fun).lower(*operands) for fun, operands in (*elementwise(dtype), *structural(dtype))]
    texts = [one.as_text() for one in lowered if "@host." not in one.as_text() and "chlo." not in one.as_text()]
    assert len(texts) > 20
    text = ""
    for i, one in enumerate(texts):
        inner = one[one.index("{\n") + 2 : one.rindex("}")]
        text += re.sub(r'@("?)([\w.$<>-]+)', rf"@\1f{i}.\2", inner)
    assert printed(readable(artifact(text))) == printed(text)


SCALAR = "tensor<f32>"
ADDED = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""

MODULES = {
    "loop": function(
        """%c = stablehlo.constant dense<3> : tensor<i32>
        %r:2 = "stablehlo.while"(%0, %1) ({
        ^bb0(%i: tensor<i32>, %x: tensor<4xf32>):
          %p = "stablehlo.compare"(%i, %c) {comparison_direction = #stablehlo<comparison_direction LT>}
            : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }, {
        ^bb0(%i: tensor<i32>, %x: tensor<4xf32>):
          %j = stablehlo.add %i, %c : tensor<i32>
          %y = stablehlo.tanh %x : tensor<4xf32>
          stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
        }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)""",
        ("tensor<i32>", "tensor<4xf32>"), ("tensor<i32>", "tensor<4xf32>"),
    ),
    "branches": function(
        """%f = "stablehlo.if"(%0) ({
          %t = stablehlo.exponential %2 : tensor<4xf32>
          stablehlo.return %t : tensor<4xf32>
        }, {
          stablehlo.return %2 : tensor<4xf32>
        }) : (tensor<i1>) -> tensor<4xf32>
        %r = "stablehlo.case"(%1) ({
          stablehlo.return %f : tensor<4xf32>
        }, {
          stablehlo.return %2 : tensor<4xf32>
        }, {
          %t = stablehlo.negate %2 : tensor<4xf32>
          stablehlo.return %t : tensor<4xf32>
        }) : (tensor<i32>) -> tensor<4xf32>""",
        ("tensor<i1>", "tensor<i32>", "tensor<4xf32>"), ("tensor<4xf32>",),
    ),
    "sorts of several": function(
        """%r:2 = "stablehlo.sort"(%0, %1) <{dimension = 0 : i64, is_stable = true}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
          %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)""",
        ("tensor<4xf32>", "tensor<4xi32>"), ("tensor<4xf32>", "tensor<4xi32>"),
    ),
    "scatter in batches": function(
        f"""%r = "stablehlo.scatter"(%0, %1, %2) <{{scatter_dimension_numbers = #stablehlo.scatter<
            update_window_dims = [1], inserted_window_dims = [1], input_batching_dims = [0],
            scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>,
            unique_indices = true}}> {ADDED}
          : (tensor<2x3x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<2x3x4xf32>""",
        ("tensor<2x3x4xf32>", "tensor<2x1xi32>", "tensor<2x4xf32>"), ("tensor<2x3x4xf32>",),
    ),
    "gather in batches": function(
        """%r = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
            start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 4>, indices_are_sorted = true}>
          : (tensor<2x3x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>""",
        ("tensor<2x3x4xf32>", "tensor<2x1xi32>"), ("tensor<2x4xf32>",),
    ),
    "windows": function(
        f"""%r = "stablehlo.reduce_window"(%0, %1) <{{window_dimensions = array<i64: 2, 3>,
            window_strides = array<i64: 2, 1>, padding = dense<[[0, 1], [2, 0]]> : tensor<2x2xi64>,
            base_dilations = array<i64: 1, 2>}}> {ADDED} : (tensor<4x5xf32>, tensor<f32>) -> tensor<2x9xf32>""",
        ("tensor<4x5xf32>", SCALAR), ("tensor<2x9xf32>",),
    ),
    "windows of numbers": function(
        f"""%r = "stablehlo.reduce_window"(%0, %1) <{{window_dimensions = array<i64>}}> {ADDED}
          : (tensor<f32>, tensor<f32>) -> tensor<f32>""",
        (SCALAR, SCALAR), (SCALAR,),
    ),
    "windows as they are if nothing is said": function(
        f"""%r = "stablehlo.reduce_window"(%0, %1) <{{window_dimensions = array<i64: 2, 3>}}> {ADDED}
          : (tensor<4x5xf32>, tensor<f32>) -> tensor<3x3xf32>""",
        ("tensor<4x5xf32>", SCALAR), ("tensor<3x3xf32>",),
    ),
    "pooling backwards": function(
        f"""%r = "stablehlo.select_and_scatter"(%0, %1, %2) <{{window_dimensions = array<i64: 2>,
            window_strides = array<i64: 2>}}> ({{
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }}, {ADDED[1:]} : (tensor<6xf32>, tensor<3xf32>, tensor<f32>) -> tensor<6xf32>""",
        ("tensor<6xf32>", "tensor<3xf32>", SCALAR), ("tensor<6xf32>",),
    ),
    "convolutions": function(
        """%f = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[f, 1, b, 0],
            window = {stride = [2, 1], pad = [[0, 1], [2, 0]], rhs_dilate = [1, 2], reverse = [true, false]}
            {batch_group_count = 1 : i64, feature_group_count = 2 : i64,
             precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]}
          : (tensor<2x6x7x4xf32>, tensor<3x3x2x8xf32>) -> tensor<8x5x2x3xf32>
        %r = stablehlo.convolution(%2, %3) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<2x3x6xi8>, tensor<4x3x2xi8>) -> tensor<2x4x5xi32>""",
        ("tensor<2x6x7x4xf32>", "tensor<3x3x2x8xf32>", "tensor<2x3x6xi8>", "tensor<4x3x2xi8>"), ("tensor<2x4x5xi32>",),
    ),
    "products": function(
        """%d = stablehlo.dot_general %0, %1, batching_dims = [0] x [1], contracting_dims = [2] x [0],
            precision = [DEFAULT, HIGHEST] : (tensor<2x3x4xf32>, tensor<4x2x5xf32>) -> tensor<2x3x5xf32>
        %r = stablehlo.dot_general %0, %1, batching_dims = [0] x [1], contracting_dims = [2] x [0],
            algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32,
              lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
              allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<4x2x5xf32>) -> tensor<2x3x5xf32>""",
        ("tensor<2x3x4xf32>", "tensor<4x2x5xf32>"), ("tensor<2x3x5xf32>",),
    ),
    "whole algorithms": function(
        """%f = stablehlo.fft %0, type = RFFT, length = [8] : (tensor<2x8xf32>) -> tensor<2x5xcomplex<f32>>
        %i = stablehlo.fft %f, type = IRFFT, length = [8] : (tensor<2x5xcomplex<f32>>) -> tensor<2x8xf32>
        %c = stablehlo.cholesky %1, lower = true : tensor<3x3xf64>
        %u = stablehlo.cholesky %1 : tensor<3x3xf64>
        %s = "stablehlo.triangular_solve"(%c, %1) <{left_side = true, lower = true, unit_diagonal = false,
            transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
        %b:2 = stablehlo.rng_bit_generator %2, algorithm = THREE_FRY
          : (tensor<2xui64>) -> (tensor<2xui64>, tensor<9xui32>)
        %p = stablehlo.reduce_precision %0, format = e8m7 : tensor<2x8xf32>
        %n:3 = "stablehlo.batch_norm_training"(%0, %3, %3) <{epsilon = 1.1e-3 : f32, feature_index = 1 : i64}>
          : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>)""",
        ("tensor<2x8xf32>", "tensor<3x3xf64>", "tensor<2xui64>", "tensor<8xf32>"),
    ),
    "element types": function(
        """%a = stablehlo.convert %0 : (tensor<0x3xi4>) -> tensor<0x3xf8E4M3FN>
        %b = stablehlo.convert %1 : (tensor<ui2>) -> tensor<bf16>
        %c = stablehlo.convert %2 : (tensor<2xf8E5M2FNUZ>) -> tensor<2xf4E2M1FN>
        %d = stablehlo.complex %3, %3 : tensor<2xcomplex<f64>>
        %e = stablehlo.convert %b : (tensor<bf16>) -> tensor<f8E8M0FNU>
        %r = stablehlo.compare NE, %3, %3, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>""",
        ("tensor<0x3xi4>", "tensor<ui2>", "tensor<2xf8E5M2FNUZ>", "tensor<2xf64>"), ("tensor<2xi1>",),
    ),
    "constants": function(
        """%a = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
        %b = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
        %c = stablehlo.constant dense<[(1.0, -0.0), (0x7FC00001, 0xFF800000)]> : tensor<2xcomplex<f32>>
        %d = stablehlo.constant dense<> : tensor<0x4xbf16>
        %e = stablehlo.constant dense<[1.5, 0x7F80]> : tensor<2xbf16>
        %f = stablehlo.constant dense<[-1.5, 0x80]> : tensor<2xf8E5M2FNUZ>
        %g = stablehlo.constant dense<true> : tensor<7xi1>
        %h = stablehlo.constant dense<[18446744073709551615, 3]> : tensor<2xui64>
        %i = stablehlo.constant dense<0.1> : tensor<f64>"""
    ),
    "foreign functions": function(
        """%t = stablehlo.create_token : !stablehlo.token
        %f = stablehlo.custom_call @lapack_sgetrf_ffi(%0) {api_version = 4 : i32, has_side_effect = true,
            backend_config = {a = 3 : i64, "b c" = "x, \\22} = y", f = -1.1 : f32, g = true, h = {n = 0.1},
              i = 0x7F800000 : f32, j = 1.0e-3 : bf16, k = -2.5 : f16, l = dense<[1, 2]> : tensor<2xi32>},
            mhlo.sharding = "{replicated}", mhlo.frontend_attributes = {_xla_compute_type = "host"},
            output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [],
              operand_index = 0, operand_tuple_indices = []>],
            operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]}
          : (tensor<3x3xf32>) -> tensor<3x3xf32>
        %g = stablehlo.custom_call @empty(%f) {api_version = 4 : i32} : (tensor<3x3xf32>) -> tensor<3x3xf32>
        %h = stablehlo.custom_call @Sharding(%g) {called_computations = [@other], backend_config = "\\01x"}
          : (tensor<3x3xf32>) -> tensor<3x3xf32>
        %u = stablehlo.after_all %t, %t : !stablehlo.token
        %r:2 = stablehlo.optimization_barrier %h, %u : tensor<3x3xf32>, !stablehlo.token""",
        ("tensor<3x3xf32>",), ("tensor<3x3xf32>", "!stablehlo.token"),
        "func.func private @other() -> () { return }",
    ),
    "composites": function(
        """%r = stablehlo.composite "my.norm" %0 {
            composite_attributes = {eps = 1.0e-6 : f32, axes = dense<1> : tensor<1xi64>}, decomposition = @norm,
            version = 3 : i32} : (tensor<4xf32>) -> tensor<4xf32>""",
        ("tensor<4xf32>",), ("tensor<4xf32>",),
        "func.func private @norm(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
    ),
    "many devices": """module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 4 : i32} {
      func.func public @main(
        %x: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 0 : i32},
        %y: tensor<8xf32> {jax.buffer_donor = true, mhlo.layout_mode = "default"}
      ) -> (tensor<8xf32> {jax.result_info = "", mhlo.sharding = "{replicated}"}) attributes {my.note = "x"} {
        %a = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 0>,
            replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %s = stablehlo.add %p, %q : tensor<f32>
            stablehlo.return %s : tensor<f32>
          }) : (tensor<8xf32>) -> tensor<8xf32>
        %b = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
          : (tensor<8xf32>) -> tensor<8xf32>
        %c = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}>
          : (tensor<8xf32>) -> tensor<8xf32>
        %i = stablehlo.partition_id : tensor<ui32>
        %d = "stablehlo.collective_broadcast"(%c) <{replica_groups = dense<0> : tensor<1x1xi64>}>
          : (tensor<8xf32>) -> tensor<8xf32>
        return %d : tensor<8xf32>
      }
    }""",
    "unknown sizes": function(
        """%r = stablehlo.dynamic_broadcast_in_dim %0, %1, dims = [1]
          : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
        %s = stablehlo.get_dimension_size %r, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>""",
        ("tensor<?xf32>", "tensor<2xi32>"), ("tensor<?x?xf32>",),
    ),
    "nothing": "",
    **{name: case.text for name, case in CASES.items() if "chlo" not in case.text},
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules_come_back(name: str) -> None:
    code = artifact(MODULES[name])
    assert code.startswith(b"ML\xefR\x0dStableHLO_v1.9.0\0")
    assert printed(readable(code)) == printed(MODULES[name])


def test_comparisons_say_what_they_compare() -> None:
    """XLA of November 2025 takes constants for unsigned where they do not."""
    words = {"i1": "UNSIGNED", "ui8": "UNSIGNED", "i16": "SIGNED", "bf16": "FLOAT", "complex<f32>": "FLOAT"}
    for element, word in words.items():
        kinds = f"(tensor<2x?x{element}>, tensor<2x?x{element}>) -> tensor<2x?xi1>"
        body = f"%r = stablehlo.compare EQ, %0, %1 : {kinds}"
        text = function(body, [f"tensor<2x?x{element}>"] * 2, ["tensor<2x?xi1>"])
        with context():
            assert f", {word} :" in str(ir.Module.parse(readable(artifact(text))))


def test_every_operation_and_attribute_is_of_its_version() -> None:
    """Of the 22 operations that VHLO has twice or came after 1.9, those are written that it had then."""
    found = set()
    for text in (*MODULES.values(), *(case.text for case in CASES.values())):
        found |= set(re.findall(r"vhlo\.(\w+)_v([2-9])", printed(artifact(text))))
    assert {name for name, _ in found} == {
        "all_gather",
        "all_reduce",
        "dot_general",
        "exponential",
        "gather",
        "scatter",
    }
    assert {number for _, number in found} == {"2"}


def test_windows_of_numbers_have_no_default_elements() -> None:
    assert re.findall(r"dense<[^>]+>", printed(artifact(MODULES["windows of numbers"]))) == []


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.stem)
def test_what_jax_exported_comes_back_with_its_places(path: Path) -> None:
    module = readable(path.read_bytes())
    again = readable(artifact_of(module))
    assert printed(again, enable_debug_info=True) == printed(module, enable_debug_info=True)


def artifact_of(code: bytes) -> bytes:
    with context():
        return portable(ir.Module.parse(code))


LONG = {
    "f32": np.arange(5000, dtype=np.float32),
    "i1": np.arange(5000) % 3 == 0,
    "i4": np.arange(5000, dtype=np.int8) % 8,
    "ui8": np.arange(5000).astype(np.uint8),
    "f64": np.linspace(0, 1, 5000),
    "complex<f32>": (np.arange(5000) * (1 + 2j)).astype(np.complex64),
}


@pytest.mark.parametrize("kind", LONG)
def test_long_constants_are_kept_bit_for_bit(kind: str) -> None:
    data = LONG[kind].tobytes()
    type_ = f"tensor<5000x{kind}>"
    text = function(
        f"""%r = stablehlo.constant dense<"0x{data.hex().upper()}"> : {type_}
        %s = stablehlo.custom_call @note() {{backend_config = "0x{"A" * 999}"}} : () -> {type_}""",
        (), (type_,),
    )  # fmt: skip
    code = artifact(text)
    assert kind == "i1" or data in code
    assert printed(readable(code)) == printed(text)


def test_places_are_kept() -> None:
    def scaled(x: Any) -> Any:
        return veery.lax.erf(x) * 3

    lowered = veery.jit(scaled).lower(np.ones(3, np.float16))
    with context():
        text = ir.Module.parse(readable(portable(lowered.compiler_ir()))).operation.get_asm(enable_debug_info=True)
    line = scaled.__code__.co_firstlineno + 1
    (place,) = re.findall(rf'#(loc\d+) = loc\("{re.escape(__file__)}":{line}:\d+\)', text)
    assert place
    product = re.search(r"stablehlo.multiply .*loc\(#(loc\d+)\)", text)
    assert product is not None and re.search(rf'#{product[1]} = loc\("mul"\(#{place}\)\)', text)


CHLO: dict[str, tuple[str, Callable[..., Any]]] = {
    "acos": ("composite", np.arccos), "asin": ("composite", np.arcsin), "atanh": ("composite", np.arctanh),
    "asinh": ("composite", np.arcsinh), "cosh": ("composite", np.cosh), "sinh": ("composite", np.sinh),
    "erf": ("composite", special.erf), "erfc": ("composite", special.erfc),
    "atan": ("call", np.arctan), "lgamma": ("call", special.gammaln), "digamma": ("call", special.psi),
    "erf_inv": ("call", special.erfinv), "bessel_i1e": ("call", special.i1e),
}  # fmt: skip


def test_operations_of_chlo_are_composites_or_calls_of_what_computes_them() -> None:
    x = np.linspace(0.05, 0.95, 7, dtype=np.float32)
    lines = [f"%a{i} = chlo.{name} %0 : tensor<7xf32> -> tensor<7xf32>" for i, name in enumerate(CHLO)]
    lines.append("%k:2 = chlo.top_k(%0, k = 3) : tensor<7xf32> -> (tensor<3xf32>, tensor<3xi32>)")
    names = ", ".join((*(f"%a{i}" for i in range(len(CHLO))), "%k#0", "%k#1"))
    kinds = ", ".join((*["tensor<7xf32>"] * len(CHLO), "tensor<3xf32>", "tensor<3xi32>"))
    body = "\n".join(lines)
    code = artifact(f"func.func public @main(%0: tensor<7xf32>) -> ({kinds}) {{\n{body}\nreturn {names} : {kinds}\n}}")
    text = printed(readable(code))
    assert 'chlo.erf"(' not in text
    composites = dict(re.findall(r'decomposition = @([\w.]+), name = "(chlo\.\w+)", version = 1', text))
    assert set(composites.values()) == {f"chlo.{name}" for name, (how, _) in CHLO.items() if how == "composite"} | {
        "chlo.top_k"
    }
    assert "composite_attributes = {k = 3 : i64}" in text
    *outs, largest, places = veery.stablehlo.load(code)(x)
    for out, (name, (_, expected)) in zip(outs, CHLO.items(), strict=True):
        np.testing.assert_allclose(out, expected(x.astype(np.float64)), rtol=1e-5, err_msg=name)
    assert (largest.tolist(), places.tolist()) == (x[:3:-1].tolist(), [6, 5, 4])


def test_functions_of_chlo_have_names_of_their_own_and_the_place_of_the_call() -> None:
    text = function(
        """%a = chlo.lgamma %0 : tensor<4xf32> -> tensor<4xf32> loc("one.py":1:2)
        %b = chlo.lgamma %a : tensor<4xf32> -> tensor<4xf32> loc("one.py":1:2)
        %r = chlo.lgamma %b : tensor<4xf32> -> tensor<4xf32> loc("two.py":3:4)""",
        ("tensor<4xf32>",), ("tensor<4xf32>",),
        'func.func private @chlo.lgamma.impl_0(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }',
    )  # fmt: skip
    found = printed(readable(artifact(text)), use_local_scope=True, enable_debug_info=True)
    functions = re.findall(r'sym_name = "(chlo[^"]*)"', found)
    calls = re.findall(r'callee = @("?[\w.]*"?)}> .* loc\("(\w+\.py)"', found)
    assert len(functions) == len(set(functions)) == 3
    assert [place for _, place in calls] == ["one.py", "one.py", "two.py"]
    assert calls[0] == calls[1] != calls[2] and "chlo.lgamma.impl_0" not in {name for name, _ in calls}
    assert len(re.findall(r'"stablehlo.add".* loc\("two.py":3:4\)', found)) > 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%r = arith.constant dense<0.0> : tensor<4xf32>", r"arith\.constant is no operation of StableHLO or CHLO"),
        ("%r = stablehlo.abs %0 {my.note} : tensor<4xf32>", r"stablehlo\.abs has the attribute unit"),
        ("%r = stablehlo.abs %0 {my.note = affine_map<(d0) -> (d0)>} : tensor<4xf32>", r"attribute (affine_map|#map)"),
        ("%r = stablehlo.abs %0 {my.note = 1.0 : f8E4M3FN} : tensor<4xf32>", "number of type f8E4M3FN"),
        (
            '%r = "stablehlo.tanh"(%0) {result_accuracy = #stablehlo.result_accuracy<ulps = 3, '
            "mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<4xf32>) -> tensor<4xf32>",
            r"stablehlo\.tanh has a result_accuracy .* which StableHLO 1\.9\.0 does not have",
        ),
        ("%r = stablehlo.constant dense_resource<x> : tensor<4xf32>", "attribute dense_resource<x>"),
        ("%s = chlo.cosh %1 : tensor<?xf32> -> tensor<?xf32>\n%r = stablehlo.abs %0 : tensor<4xf32>", "shape.* is no"),
    ],
    ids=["dialect", "unit", "map", "float8", "accuracy", "resource", "sizes"],
)  # fmt: skip
def test_what_it_cannot_say_is_refused_by_name(body: str, said: str) -> None:
    with pytest.raises(LoweringError, match=said):
        artifact(function(body, ("tensor<4xf32>", "tensor<?xf32>"), ("tensor<4xf32>",)))


def test_accuracies_that_stablehlo_had_then_are_kept() -> None:
    text = function(
        """%r = "stablehlo.exponential"(%0) <{result_accuracy = #stablehlo.result_accuracy<atol = 1.0e-5, rtol = 0.25,
            ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}> : (tensor<4xf32>) -> tensor<4xf32>
        %s = "stablehlo.tanh"(%0) <{result_accuracy = #stablehlo.result_accuracy<
            mode = #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<4xf32>) -> tensor<4xf32>""",
        ("tensor<4xf32>",), ("tensor<4xf32>",),
    )  # fmt: skip
    found = printed(readable(artifact(text)))
    assert "atol = 1.000000e-05, rtol = 2.500000e-01, ulps = 3" in found and found.count("result_accuracy<") == 1
