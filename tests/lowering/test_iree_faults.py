"""What IREE 3.13 gets wrong, each as small as it gets, with the file that works around it.

The modules are compiled as they stand, without the rules and passes. Should one of these tests fail, IREE was mended:
the workaround can go.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import phases
from support.compiled import results
from support.wrong_modules import WRONG, Wrong

import veery
import veery_lowering
import veery_runtime
from veery import lax, numpy as jnp
from veery_lowering.compiler.isolation import call, run_pipeline
from veery_lowering.errors import CompilerCrash
from veery_lowering.program import Program
from veery_lowering.targets import Traits, resolve

SOURCES = Path(veery_lowering.__file__).parent


def flags(target: str = "cpu") -> tuple[str, ...]:
    """The options of every program, without those for what is known to lack something."""
    return resolve(target).attempts(Traits(frozenset(), ()))[0]


# Wrong numbers: `WRONG` in support/wrong_modules.py.


def test_bools_in_products_with_the_generalisation_of_products() -> None:
    """Which targets/target.py turns off for that."""
    case = Wrong(
        "targets/target.py",
        """%f = stablehlo.convert %0 : (tensor<3x5xi1>) -> tensor<3x5xf32>
        %r = stablehlo.dot_general %f, %1, contracting_dims = [1] x [0]
          : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>""",
        (np.ones((3, 5), bool), np.ones((5, 4), np.float32)),
        np.full((3, 4), 5, np.float32),
    )
    without = "--iree-opt-generalize-matmul=false"
    assert without in flags()
    signed = []
    for options in (flags(), tuple(flag for flag in flags() if flag != without)):
        text, diagnostics = run_pipeline(case.text("f").encode(), options, "flow")
        assert text is not None, diagnostics
        signed.append(b"arith.sitofp %in : i1" in text)
    assert signed == [False, True]


def test_aggressive_fusion() -> None:
    """Which targets/fusion.py leaves to programs of rows."""
    a = np.random.default_rng(0).uniform(0.5, 2, (7, 7)).astype(np.float32)
    d = a.sum(1) ** -0.5
    case = Wrong(
        "targets/fusion.py",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
          : (tensor<7x7xf32>, tensor<f32>) -> tensor<7xf32>
        %d = stablehlo.rsqrt %s : tensor<7xf32>
        %a = stablehlo.broadcast_in_dim %d, dims = [0] : (tensor<7xf32>) -> tensor<7x7xf32>
        %b = stablehlo.broadcast_in_dim %d, dims = [1] : (tensor<7xf32>) -> tensor<7x7xf32>
        %c = stablehlo.multiply %a, %0 : tensor<7x7xf32>
        %r = stablehlo.multiply %c, %b : tensor<7x7xf32>""",
        (a,),
        d[:, None] * a * d,
    )
    options = tuple(flag for flag in flags() if "aggressive-fusion" not in flag)
    program, diagnostics = run_pipeline(case.text("f").encode(), options)
    assert program is not None, diagnostics
    assert not agree(run(program, "f", case.arguments, case.right), case.right)


def test_a_value_that_a_dispatch_returns_twice() -> None:
    """Where compiler/dispatches.py is not in between, as with options that it does not know."""
    a, b, x = (np.arange(n, n + 12, dtype=np.float32).reshape(3, 4) for n in range(3))
    product = x * (a * b)
    case = Wrong(
        "compiler/dispatches.py",
        """%p = stablehlo.multiply %0, %1 : tensor<3x4xf32>
        %c = stablehlo.multiply %2, %p : tensor<3x4xf32>
        %d = stablehlo.multiply %p, %2 : tensor<3x4xf32>
        %e = stablehlo.reverse %c, dims = [0] : tensor<3x4xf32>
        %f = stablehlo.reverse %d, dims = [1] : tensor<3x4xf32>
        %g = stablehlo.reverse %p, dims = [0] : tensor<3x4xf32>
        %h = stablehlo.add %e, %f : tensor<3x4xf32>
        %r = stablehlo.add %h, %g : tensor<3x4xf32>""",
        (a, b, x),
        product[::-1] + product[:, ::-1] + (a * b)[::-1],
    )
    right = []
    for options in ((), ("--iree-dispatch-creation-fuse-multi-use=true",)):
        program, diagnostics = run_pipeline(case.text("f").encode(), (*flags(), *options))
        assert program is not None, diagnostics
        right.append(agree(run(program, "f", case.arguments, case.right), case.right))
    assert right == [True, False]


HOSTED = {
    "a switch": lambda x, y: (y, lax.sort(lax.switch(jnp.int32(x.sum()), [jnp.abs, jnp.tanh, lambda x: x * 2], x))),
    "a loop": lambda x, y: (y, lax.sort(lax.while_loop(lambda x: x.sum() < 10, lambda x: x + 1, x)), y + 1),
    "two branches": lambda x, y: ((a := _sorted_if_negative(x @ x)) + 1, _sorted_if_negative(a @ x) + 1, y),
    "a function in a loop": lambda x, y: (lax.fori_loop(0, 3, lambda i, x: lax.sort(x) * 0.5 + y[0], x), y),
}


def _sorted_if_negative(x):
    return lax.cond((x < 0).any(), lax.sort, lambda x: x, x)


@pytest.mark.parametrize("name", HOSTED)
@pytest.mark.parametrize("n", [3, 128])
def test_programs_that_call_the_host(name, n) -> None:
    """With fences IREE waits for ever, or forgets to wait, where values decide before or after a function is called."""
    x, y = np.eye(n, dtype=np.float32) - 0.25, np.arange(4, dtype=np.float32)
    found = veery.jit(HOSTED[name])(x, y)
    with veery.disable_jit():
        expected = HOSTED[name](x, y)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_options_of_a_process_turn_off_what_belongs_to_a_level() -> None:
    """For which reason mlir.py asks for no such option, not even for the user's locations in IREE's IR."""
    module = """func.func @f(%0: tensor<5x7xf32>, %1: tensor<7x3xf32>) -> tensor<5x3xf32> {
        %t = stablehlo.exponential %0 : tensor<5x7xf32>
        %r = stablehlo.dot_general %t, %1, contracting_dims = [1] x [0]
          : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>
        return %r : tensor<5x3xf32> }"""
    script = f"""if True:
        import sys
        from iree.compiler.api import ctypes_dl
        from veery_lowering.compiler import sessions
        if len(sys.argv) > 1:
            ctypes_dl._initializeGlobalCL("veery", *sys.argv[1:])
        flags = tuple(flag for flag in {flags()!r} if "generalize-matmul" not in flag)
        text, diagnostics = sessions.run_pipeline({module!r}.encode(), flags, "global-optimization")
        print("linalg.matmul" in text.decode())"""
    found = [
        subprocess.run([sys.executable, "-c", script, *options], capture_output=True, text=True, check=True).stdout
        for options in ((), ("--mlir-print-debuginfo",))
    ]
    assert [text.strip() for text in found] == ["False", "True"]


def test_wrong_numbers() -> None:
    names = {name: f"f{i}" for i, name in enumerate(WRONG)}
    module = "\n".join(w.text(names[n]) for n, w in WRONG.items()).encode()
    program, diagnostics = call(phases.run_theirs, module, flags())
    assert program is not None, diagnostics
    found = {name: run(program, names[name], case.arguments, case.right) for name, case in WRONG.items()}
    assert not [f"{name} ({case.guard})" for name, case in WRONG.items() if agree(found[name], case.right)]


def agree(found: np.ndarray, right: np.ndarray) -> bool:
    zeros = lambda x: np.signbit(x.real) if x.dtype.kind in "fc" else np.zeros(x.shape)
    return np.allclose(found, right, rtol=1e-3, equal_nan=True) and np.array_equal(zeros(found), zeros(right))


def run(vmfb: bytes, entry: str, arguments: tuple[np.ndarray, ...], result: np.ndarray) -> np.ndarray:
    signature = lambda xs: tuple((x.shape, x.dtype.name) for x in xs)
    sizes = signature(arguments), signature([result])
    program = Program(entry, vmfb, "cpu", "cpu", *sizes, (False,) * len(arguments), entry=entry)
    device = veery_runtime.devices("cpu")[0]
    (out,) = veery_runtime.load(program, device)([veery_runtime.put(x, device) for x in arguments])
    return np.array(out.numpy())


# Modules that do not compile.


def function(arguments: str, results: str, *lines: str) -> str:
    """A function that returns `%r`, from the types of its arguments, which are `%0`, `%1`..."""
    types = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(filter(None, arguments.split("; "))))
    return f"func.func @main({types}) -> {results} {{\n" + "\n".join(lines) + f"\nreturn %r : {results}\n}}"


def running_sums(element: str, zero: str, width: int, operand: str) -> str:
    """Sums in windows that end at each element."""
    return function(
        operand, operand,
        f"%zero = stablehlo.constant dense<{zero}> : tensor<{element}>",
        '%r = "stablehlo.reduce_window"(%0, %zero) ({',
        f"^bb0(%a: tensor<{element}>, %b: tensor<{element}>):",
        f"%c = stablehlo.add %a, %b : tensor<{element}>",
        f"stablehlo.return %c : tensor<{element}>",
        f"}}) {{window_dimensions = array<i64: {width}>, padding = dense<[[{width - 1}, 0]]> : tensor<1x2xi64>}}",
        f": ({operand}, tensor<{element}>) -> {operand}",
    )  # fmt: skip


def scatter(numbers: str, operand: str, indices: str, updates: str) -> str:
    """A scatter that writes."""
    return function(
        f"{operand}; {indices}; {updates}", operand,
        '%r = "stablehlo.scatter"(%0, %1, %2) ({',
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
        "stablehlo.return %b : tensor<f32>",
        f"}}) {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, indices_are_sorted = false,",
        f"unique_indices = false}} : ({operand}, {indices}, {updates}) -> {operand}",
    )  # fmt: skip


@dataclass(frozen=True)
class Refused:
    guard: str
    says: str  # part of a diagnostic
    module: str


def counting(element: str) -> str:
    """A loop that converts its counter."""
    return function(
        f"tensor<7x{element}>", f"tensor<7x{element}>",
        "%zero = stablehlo.constant dense<0> : tensor<i32>",
        "%one = stablehlo.constant dense<1> : tensor<i32>",
        "%five = stablehlo.constant dense<5> : tensor<i32>",
        f"%l:2 = stablehlo.while(%i = %zero, %a = %0) : tensor<i32>, tensor<7x{element}>",
        "cond {",
        "%more = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "stablehlo.return %more : tensor<i1>",
        "} do {",
        "%next = stablehlo.add %i, %one : tensor<i32>",
        f"%c = stablehlo.convert %i : (tensor<i32>) -> tensor<{element}>",
        f"%d = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<{element}>) -> tensor<7x{element}>",
        f"%b = stablehlo.multiply %a, %d : tensor<7x{element}>",
        f"stablehlo.return %next, %b : tensor<i32>, tensor<7x{element}>",
        "}",
        f"%r = stablehlo.add %l#1, %l#1 : tensor<7x{element}>",
    )  # fmt: skip


_CONV = "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f]"

REFUSED = {
    "a sum of products with a row": Refused(
        "products.py", "invalid accumulator/result vector shape",
        function(
            "tensor<7x5xf32>; tensor<5xf32>", "tensor<f32>",
            "%z = stablehlo.constant dense<0.0> : tensor<f32>",
            "%a = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<5xf32>) -> tensor<7x5xf32>",
            "%b = stablehlo.multiply %0, %a : tensor<7x5xf32>",
            "%r = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0, 1]"
            " : (tensor<7x5xf32>, tensor<f32>) -> tensor<f32>",
        ),
    ),
    "a complex constant written into another": Refused(
        "constants.py", "failed to satisfy constraint: TypedAttr instance",
        function(
            "", "tensor<2xcomplex<f32>>",
            "%a = stablehlo.constant dense<(1.0, 0.0)> : tensor<2xcomplex<f32>>",
            "%b = stablehlo.constant dense<(0.0, 2.0)> : tensor<1xcomplex<f32>>",
            "%one = stablehlo.constant dense<1> : tensor<i32>",
            "%r = stablehlo.dynamic_update_slice %a, %b, %one"
            " : (tensor<2xcomplex<f32>>, tensor<1xcomplex<f32>>, tensor<i32>) -> tensor<2xcomplex<f32>>",
        ),
    ),
    "conversions of two broadcasts of one reshaped value": Refused(
        "simplification.py", "failed to legalize",
        function(
            "tensor<1x1xf32>", "tensor<2x3xf16>",
            "%x = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<1xf32>",
            "%a = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<1xf32>) -> tensor<1x3xf32>",
            "%b = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<1xf32>) -> tensor<1x2x3xf32>",
            "%c = stablehlo.convert %a : (tensor<1x3xf32>) -> tensor<1x3xf16>",
            "%d = stablehlo.convert %b : (tensor<1x2x3xf32>) -> tensor<1x2x3xf16>",
            "%e = stablehlo.broadcast_in_dim %c, dims = [0, 2] : (tensor<1x3xf16>) -> tensor<1x2x3xf16>",
            "%f = stablehlo.add %d, %e : tensor<1x2x3xf16>",
            "%r = stablehlo.reshape %f : (tensor<1x2x3xf16>) -> tensor<2x3xf16>",
        ),
    ),
    "a function of the C library": Refused(
        "targets/cpu.py", "failed to link",
        function("tensor<2xf64>", "tensor<2xf64>", "%r = stablehlo.sine %0 : tensor<2xf64>"),
    ),
    "remainder of float64": Refused(
        "numerics/real.py", "failed to link",
        function("tensor<2xf64>", "tensor<2xf64>", "%r = stablehlo.remainder %0, %0 : tensor<2xf64>"),
    ),
    "cbrt of float64": Refused(
        "numerics/real.py", "failed to legalize operation 'math.cbrt'",
        function("tensor<2xf64>", "tensor<2xf64>", "%r = stablehlo.cbrt %0 : tensor<2xf64>"),
    ),
    "reverse of unsigned integers": Refused(
        "rules/shape.py", "failed to legalize operation 'linalg.generic'",
        function("tensor<3xui8>", "tensor<3xui8>", "%r = stablehlo.reverse %0, dims = [0] : tensor<3xui8>"),
    ),
    "constant of int4": Refused(
        "stablehlo/_shape.py", "memref.get_global",
        function("", "tensor<2xi8>", "%c = stablehlo.constant dense<[1, 2]> : tensor<2xi4>",
                 "%r = stablehlo.convert %c : (tensor<2xi4>) -> tensor<2xi8>"),
    ),
    "padded slice of a reversed constant": Refused(
        "constants.py", "restricted to workgroup distributed contexts",
        function("", "tensor<16x8xf32>", """
            %z = stablehlo.constant dense<0.0> : tensor<f32>
            %c = stablehlo.constant dense<1.0> : tensor<16x8xf32>
            %v = stablehlo.reverse %c, dims = [0, 1] : tensor<16x8xf32>
            %a = stablehlo.slice %v [0:16, 0:1] : (tensor<16x8xf32>) -> tensor<16x1xf32>
            %b = stablehlo.slice %v [0:16, 1:8] : (tensor<16x8xf32>) -> tensor<16x7xf32>
            %p = stablehlo.pad %b, %z, low = [0, 0], high = [0, 1], interior = [0, 0]
                : (tensor<16x7xf32>, tensor<f32>) -> tensor<16x8xf32>
            %q = stablehlo.pad %a, %z, low = [0, 7], high = [0, 0], interior = [0, 0]
                : (tensor<16x1xf32>, tensor<f32>) -> tensor<16x8xf32>
            %r = stablehlo.add %p, %q : tensor<16x8xf32>"""),
    ),
    "pad of complex128": Refused(
        "stablehlo/_shape.py", "",
        function("tensor<2xcomplex<f64>>; tensor<complex<f64>>", "tensor<3xcomplex<f64>>",
                 "%r = stablehlo.pad %0, %1, low = [1], high = [0], interior = [0]"
                 " : (tensor<2xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>"),
    ),
    "float16 of float8": Refused(
        "rules/convert.py", "arith.extf",
        function("tensor<2xf8E4M3FN>", "tensor<2xf16>",
                 "%r = stablehlo.convert %0 : (tensor<2xf8E4M3FN>) -> tensor<2xf16>"),
    ),
    "windows of unsigned integers": Refused(
        "rules/window.py", "failed to legalize unresolved target materialization",
        running_sums("ui32", "0", 4, "tensor<4xui32>"),
    ),
    "one window, with more behind it": Refused(
        "rules/conv.py", "inferred input/output operand",
        function("tensor<1x4x1xf32>; tensor<3x1x1xf32>", "tensor<1x1x1xf32>",
                 f"%r = stablehlo.convolution(%0, %1) {_CONV}, window = {{stride = [2]}}"
                 " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
                 " : (tensor<1x4x1xf32>, tensor<3x1x1xf32>) -> tensor<1x1x1xf32>"),
    ),
    "strided slice, reversed": Refused(
        "rules/slicing.py", "unrealized_conversion_cast",
        function("tensor<8xf32>", "tensor<4xf32>", "%s = stablehlo.slice %0 [0:8:2] : (tensor<8xf32>) -> tensor<4xf32>",
                 "%r = stablehlo.reverse %s, dims = [0] : tensor<4xf32>"),
    ),
    "one fold, with more behind it": Refused(
        "rules/window.py", "inferred input/output operand",
        function("tensor<3x6xf32>", "tensor<1x5xf32>",
                 "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
                 '%r = "stablehlo.reduce_window"(%0, %zero) ({',
                 "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
                 "%c = stablehlo.maximum %a, %b : tensor<f32>",
                 "stablehlo.return %c : tensor<f32>",
                 "}) {window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 1>}",
                 ": (tensor<3x6xf32>, tensor<f32>) -> tensor<1x5xf32>"),
    ),
    "column, reversed and broadcast": Refused(
        "lookups.py", "unrealized_conversion_cast",
        function("tensor<1x17x3xf32>", "tensor<1x17x3xf32>",
                 "%c = stablehlo.slice %0 [0:1, 0:17, 0:1] : (tensor<1x17x3xf32>) -> tensor<1x17x1xf32>",
                 "%d = stablehlo.reverse %c, dims = [1] : tensor<1x17x1xf32>",
                 "%e = stablehlo.reshape %d : (tensor<1x17x1xf32>) -> tensor<17xf32>",
                 "%f = stablehlo.broadcast_in_dim %e, dims = [1] : (tensor<17xf32>) -> tensor<1x17x3xf32>",
                 "%r = stablehlo.multiply %0, %f : tensor<1x17x3xf32>"),
    ),
    "column, gathered from": Refused(
        "lookups.py", "unrealized_conversion_cast",
        function("tensor<4x17x3xf32>; tensor<5x1xi32>", "tensor<5xf32>",
                 "%c = stablehlo.slice %0 [0:1, 0:17, 0:1] : (tensor<4x17x3xf32>) -> tensor<1x17x1xf32>",
                 "%d = stablehlo.reshape %c : (tensor<1x17x1xf32>) -> tensor<17xf32>",
                 '%r = "stablehlo.gather"(%d, %1) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],'
                 " start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}"
                 " : (tensor<17xf32>, tensor<5x1xi32>) -> tensor<5xf32>"),
    ),
    "integer as bfloat16": Refused(
        "products.py", "failed to link",
        function("tensor<3xi32>", "tensor<3xbf16>", "%r = stablehlo.convert %0 : (tensor<3xi32>) -> tensor<3xbf16>"),
    ),
    "scatter of part of a row": Refused(
        "rules/gather_scatter.py", "iree_linalg_ext.scatter",
        scatter("update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
                "tensor<4x5xf32>", "tensor<1x2xi32>", "tensor<1x2x2xf32>"),
    ),
    "Fourier transform of a length that is no power of two": Refused(
        "rules/fft.py", "",
        function("tensor<6xcomplex<f32>>", "tensor<6xcomplex<f32>>",
                 "%r = stablehlo.fft %0, type = FFT, length = [6]"
                 " : (tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>>"),
    ),
    "Cholesky's decomposition": Refused(
        "rules/linalg.py", "stablehlo.cholesky",
        function("tensor<2x2xf32>", "tensor<2x2xf32>", "%r = stablehlo.cholesky %0 : tensor<2x2xf32>"),
    ),
    "a reshape to sizes known at run time": Refused(
        "stablehlo/_dynamic.py", "stablehlo.dynamic_reshape",
        function("tensor<?x2xf32>; tensor<1xi32>", "tensor<?xf32>",
                 "%r = stablehlo.dynamic_reshape %0, %1 : (tensor<?x2xf32>, tensor<1xi32>) -> tensor<?xf32>"),
    ),
    "half precision of a counter": Refused("loops.py", "'arith.sitofp' that was explicitly", counting("bf16")),
    "double precision of a counter": Refused("loops.py", "'arith.sitofp' that was explicitly", counting("f64")),
    "a counter without sign": Refused("loops.py", "'arith.extsi' op result #0 must be signless", counting("ui64")),
    "a loop that only its condition reads": Refused(
        "loops.py", "'scf.while' op along control flow edge",
        function(
            "tensor<6xf32>", "tensor<i1>",
            "%hundred = stablehlo.constant dense<100.0> : tensor<f32>",
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
            "%true = stablehlo.constant dense<true> : tensor<i1>",
            "%w:2 = stablehlo.while(%x = %0, %more = %true) : tensor<6xf32>, tensor<i1>",
            "cond { stablehlo.return %more : tensor<i1> } do {",
            "%y = stablehlo.add %x, %x : tensor<6xf32>",
            "%sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]"
            " : (tensor<6xf32>, tensor<f32>) -> tensor<f32>",
            "%less = stablehlo.compare LT, %sum, %hundred : (tensor<f32>, tensor<f32>) -> tensor<i1>",
            "stablehlo.return %y, %less : tensor<6xf32>, tensor<i1> }",
            "%r = stablehlo.not %w#1 : tensor<i1>",
        ),
    ),
    "one of three branches without results": Refused(
        "control_flow.py", "'scf.yield' op must be the last operation in the parent block",
        "func.func private @host.cb0(tensor<i32>)\n" + function(
            "tensor<i32>", "tensor<i32>",
            '"stablehlo.case"(%0) ({',
            "func.call @host.cb0(%0) : (tensor<i32>) -> ()",
            '"stablehlo.return"() : () -> ()',
            "}, {",
            "func.call @host.cb0(%0) : (tensor<i32>) -> ()",
            '"stablehlo.return"() : () -> ()',
            "}, {",
            '"stablehlo.return"() : () -> ()',
            "}) : (tensor<i32>) -> ()",
            "%r = stablehlo.add %0, %0 : tensor<i32>",
        ),
    ),
}  # fmt: skip


def test_modules_that_do_not_compile() -> None:
    mended = {}
    for name, case in REFUSED.items():
        # for any processor: some have instructions for what others call a function that is missing
        program, diagnostics = run_pipeline(case.module.encode(), flags("cpu:generic"))
        if program is not None or not any(case.says in d.message for d in diagnostics):
            mended[f"{name} ({case.guard})"] = [d.message[:300] for d in diagnostics]
    assert not mended


# Modules of which the compiler's process dies.

FATAL = {
    "constant of complex128": ("stablehlo/_shape.py", function(
        "", "tensor<2xcomplex<f64>>",
        "%r = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f64>>",
    )),
    "pad of complex64": ("stablehlo/_shape.py", function(
        "tensor<3xcomplex<f32>>", "tensor<5xcomplex<f32>>",
        "%zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>",
        "%r = stablehlo.pad %0, %zero, low = [1], high = [1], interior = [0]"
        " : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<5xcomplex<f32>>",
    )),
    "convolution of complex numbers": ("rules/conv.py", function(
        "tensor<1x4x1xcomplex<f32>>; tensor<3x1x1xcomplex<f32>>", "tensor<1x4x1xcomplex<f32>>",
        f"%r = stablehlo.convolution(%0, %1) {_CONV}, window = {{pad = [[1, 1]]}}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<1x4x1xcomplex<f32>>, tensor<3x1x1xcomplex<f32>>) -> tensor<1x4x1xcomplex<f32>>",
    )),
    "windows of complex numbers": ("rules/window.py, rules/cumulative.py", running_sums(
        "complex<f32>", "(0.0, 0.0)", 2, "tensor<4xcomplex<f32>>",
    )),
    "a product that sums nothing": ("products.py", function(
        "tensor<3x0xf32>; tensor<0x3xf32>", "tensor<3x3xf32>",
        "%r = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]"
        " : (tensor<3x0xf32>, tensor<0x3xf32>) -> tensor<3x3xf32>",
    )),
    "rounding of an unknown size": ("bfloat16.py", function(
        "tensor<?xf32>", "tensor<?xf32>",
        "%r = stablehlo.reduce_precision %0, format = e8m7 : tensor<?xf32>",
    )),
    "scatter of nothing": ("rules/gather_scatter.py", scatter(
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
        "tensor<4xf32>", "tensor<0x1xi32>", "tensor<0xf32>",
    )),
}  # fmt: skip


def test_modules_that_kill_the_compiler() -> None:
    def survives(case: tuple[str, str]) -> bool:
        try:
            run_pipeline(case[1].encode(), flags())
        except CompilerCrash:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        survivors = list(pool.map(survives, FATAL.values()))
    assert not [name for name, alive in zip(FATAL, survivors) if alive]


# Indices far outside, at which nothing keeps a program from reading and writing. In processes of their own.

FAR = {
    "gather": function(
        "tensor<4x2xf32>; tensor<1x1xi32>; tensor<1x2xf32>", "tensor<1x2xf32>",
        '%r = "stablehlo.gather"(%0, %1) {dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}"
        " : (tensor<4x2xf32>, tensor<1x1xi32>) -> tensor<1x2xf32>",
    ),
    "scatter": scatter(
        "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1",
        "tensor<4x2xf32>", "tensor<1x1xi32>", "tensor<1x2xf32>",
    ),
}  # fmt: skip


def far(name: str) -> None:
    """What the processes do."""
    program, _ = run_pipeline(FAR[name].encode(), flags())
    assert program is not None
    arguments = np.ones((4, 2), np.float32), np.array([[2**29]], np.int32), np.ones((1, 2), np.float32)
    run(program, "main", arguments, np.ones((1 if name == "gather" else 4, 2), np.float32))


def test_rows_far_outside() -> None:
    """emit/rules/gather_scatter.py clamps indices."""
    paths = [str(folder) for folder in Path(__file__).parents[:2]]
    here = f"import sys; sys.path[:0] = {paths!r}; import test_iree_faults as t; t.far("
    codes = [subprocess.run([sys.executable, "-c", f"{here}{n!r})"], capture_output=True).returncode for n in FAR]
    assert all(code < 0 for code in codes), codes


# Modules from elsewhere go through the rules (translation.py) and passes, and so around all of this.

_NOT_LOADED = frozenset((
    "constant of int4", "Fourier transform of a length that is no power of two", "Cholesky's decomposition",
    "a reshape to sizes known at run time", "one of three branches without results", "rounding of an unknown size",
    "a part of floats of 4 bits behind others",
))  # fmt: skip


def test_modules_from_elsewhere_are_right(x64: None) -> None:
    wrong = {name: case for name, case in WRONG.items() if name not in _NOT_LOADED}
    calls = [(veery.stablehlo.load(case.text("main")), case.arguments) for case in wrong.values()]
    found = dict(zip(wrong, zip(results(calls), wrong.values(), strict=True)))
    assert not [name for name, (out, case) in found.items() if not agree(out, case.right)]


def test_modules_from_elsewhere_compile(x64: None) -> None:
    refused = {name: case.module for name, case in REFUSED.items() if name not in _NOT_LOADED}
    modules = refused | {name: module for name, (_, module) in FATAL.items() if name not in _NOT_LOADED} | FAR
    loaded = [veery.stablehlo.load(module) for module in modules.values()]
    far = lambda a: np.full(a.shape, 50_000_000 if a.dtype == np.int32 else 1, a.dtype)
    outs = results([(load, tuple(map(far, load.in_avals))) for load in loaded])
    assert not {name: out for name, out in zip(modules, outs, strict=True) if isinstance(out, Exception)}


def test_floats_of_4_bits_from_elsewhere_are_refused() -> None:
    with pytest.raises(ValueError, match="tensor<4xf4E2M1FN>: floats of 4 bits are not read from modules"):
        veery.stablehlo.load(WRONG["a part of floats of 4 bits behind others"].text("main"))


def test_guards_are_there() -> None:
    files = [w.guard for w in (*WRONG.values(), *REFUSED.values())] + [guard for guard, _ in FATAL.values()]
    assert [f for each in files for f in each.split(", ") if not next(SOURCES.rglob(f), None)] == []
