"""The compile service: errors name the user's line, float64 stays float64, threads compile side by side."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.jaxpr_graphs import Graph, execute

import veery
import veery_lowering
from veery import lax, numpy as jnp
from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import _rules, rule
from veery_lowering.targets import resolve

FRESH = veery_lowering.Options(cache=False)


def test_float64_stays_float64() -> None:
    """IREE's default is to compute in float32, with float32 arguments."""
    g = Graph()
    x = g.input(np.array([1 + 1e-12, 2], np.float64))
    g.check("add", g.op("add", x, x), g.values[0] * 2)
    g.run()
    with pytest.raises(Exception, match="(?i)type"):
        g.run(options=veery_lowering.Options(flags=("--iree-input-demote-f64-to-f32=true",), cache=False))


def test_float64_functions_of_the_c_library() -> None:
    """They link only with the flags that the CPU target chooses for them."""
    register("test_sine", hlo.sine)
    g = Graph()
    x = g.input(np.array([0.5, 1e8]))
    g.check("sin", g.op("test_sine", x), np.sin(g.values[0]), 1e-12)
    g.run(options=FRESH)


def test_equal_calls_on_a_reshaped_value() -> None:
    """IREE's own inlining leaves invalid operations behind where two equal calls read a reshaped value."""
    g = Graph()
    x = g.input(np.arange(6, dtype=np.float32))
    y = g.op("reshape", x, out=(6, 1), new_sizes=(6, 1), dimensions=None)
    for i in range(2):
        g.check(f"cos{i}", g.op("cos", y), np.cos(g.values[0])[:, None], 1e-6)
    g.run(options=FRESH)


def register(name: str, builder) -> None:
    _rules.pop((name, None), None)
    rule(name)(lambda ctx, x: builder(x))


def unsupported(g: Graph) -> None:
    """An operation that StableHLO has and IREE has not."""
    from veery_lowering.mlir import ir

    register("test_cholesky", lambda x: ir.Operation.create("stablehlo.cholesky", [x.type], [x]).results[0])
    x = g.input(np.eye(2, dtype=np.float32))
    g.outvars += g.ops("test_cholesky", [x], [((2, 2), np.float32)], line=("/home/user/model.py", 42))


def test_error_names_primitive_and_line() -> None:
    g = Graph()
    unsupported(g)
    with pytest.raises(veery_lowering.CompileError) as caught:
        veery_lowering.compile(g.closed(), name="fit", options=FRESH)
    message = str(caught.value)
    assert "'fit'" in message and "/home/user/model.py:42 (primitive test_cholesky)" in message
    assert "stablehlo.cholesky" in message


def test_missing_rule_names_primitive_and_line() -> None:
    g = Graph()
    x = g.input(np.ones(3, np.float32))
    g.outvars += g.ops("frobnicate", [x], [((3,), np.float32)], line=("model.py", 3))
    with pytest.raises(
        veery_lowering.LoweringError, match=r"frobnicate: no lowering for target 'cpu' \(at model.py:3\)"
    ):
        veery_lowering.compile(g.closed())


def test_compiler_survives_a_failure_and_threads() -> None:
    def graph(i: int) -> Graph:
        g = Graph()
        if i % 4 == 3:
            unsupported(g)
        else:
            x = g.input(np.full(i + 1, 2, np.float32))
            g.check("mul", g.op("mul", x, x), np.full(i + 1, 4, np.float32))
        return g

    def attempt(i: int) -> bool:
        try:
            program = veery_lowering.compile(graph(i).closed(), options=FRESH)
        except veery_lowering.CompileError:
            return False
        return execute(program, graph(i).values)[0].tolist() == [4.0] * (i + 1)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(attempt, range(8))) == [i % 4 != 3 for i in range(8)]


def test_what_iree_refuses_is_compiled_with_each_value_for_itself() -> None:
    """IREE makes operations of wrong ranks of an update of an array of one element."""

    def updated(x: Any, i: Any) -> Any:
        written = x.at[i].set(2.0)
        return written, written + 1

    one = np.ones((1, 1, 1), np.float32)
    compiled = veery.jit(updated).lower(one, np.zeros(1, np.int32)).compile()
    for i, expected in ((0, 2.0), (1, 1.0)):
        written, more = compiled(one, np.full(1, i, np.int32))
        assert (written.item(), more.item()) == (expected, expected + 1)
    assert compiled._program.metadata["fallback"].startswith("compiled with each value for itself, ")
    assert "same rank" in compiled._program.metadata["fallback"]


def test_constants_that_are_computed_of_others() -> None:
    """IREE's evaluation of constants computes these in an order in which one is missing."""

    def constants(u: Any) -> Any:
        z, half = lax.complex(jnp.eye(1)[0], jnp.eye(1)[0]), lax.complex(jnp.float32(1), jnp.float32(0)) / 2
        squares = jnp.arange(3.0) * jnp.arange(3.0)
        written = squares.at[jnp.array([0, 0, 2])].add(u), squares.at[:1].set(u)
        return half * jnp.conj(z) + jnp.conj(z * half), *written

    compiled = veery.jit(constants).lower(jnp.float32(1)).compile()
    for _ in range(2):  # the squares stay as they are
        assert [x.tolist() for x in compiled(jnp.float32(2))] == [[1 - 1j], [4, 1, 6], [2, 1, 4]]
    assert "fallback" not in compiled._program.metadata


def test_intermediate_ir() -> None:
    g = Graph()
    x = g.input(np.ones((4, 8), np.float32))
    g.outvars.append(g.op("reduce_sum", g.op("mul", x, x), out=(4,), axes=(1,)))
    assert veery_lowering.lower(g.closed()).intermediate("flow").count("flow.dispatch @") == 1


@pytest.mark.parametrize("name", ["npu", "cpu:", "vulkan:nonsense", "cuda:sm_90"])
def test_unknown_targets(name: str) -> None:
    """The compiler dies of an unknown Vulkan chip, and accepts sm_90 and then fails."""
    if name == "cpu:":
        assert resolve("cpu:").name == "cpu"
    else:
        with pytest.raises(ValueError, match="unknown"):
            resolve(name)


def _convolved(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=3)


_donating = veery.jit(lambda x, y: (0.9 * x + jnp.tanh(x @ y) @ y, 0.9 * y + x), donate_argnums=(0, 1))
STEPS = {
    "donated": (_donating, (300, 300)),
    "in part": (veery.jit(lambda x, y: (y := x + y, y.at[1].set(7), jnp.cumsum(y))), (9,)),
    "grouped": (veery.jit(_convolved), ((2, 3, 9, 9), (3, 1, 3, 3))),
    "loop": (veery.jit(lambda x, y: lax.fori_loop(0, 5, lambda i, z: jnp.sort(z) * 0.5 + y, x)), (31,)),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_lowered_program_is_compiled_by_another_thread(name: str) -> None:
    """That thread has another MLIR context than the one that the program was made in."""
    function, shape = STEPS[name]
    shapes = shape if isinstance(shape[0], tuple) else (shape, shape)
    inputs = [np.random.default_rng(i).standard_normal(s).astype(np.float16) for i, s in enumerate(shapes)]
    lowered = function.lower(*inputs)
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(lowered.compile).result(120)
    for found, expected in zip(veery.tree.leaves(compiled(*inputs)), veery.tree.leaves(function(*inputs)), strict=True):
        np.testing.assert_array_equal(found, expected)


WITHOUT_CLASSES = """
import sys
import veery
from veery import lax, numpy as jnp
veery.jit(lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) + i, x))(jnp.ones(7))
assert not [name for name in sys.modules if name.startswith("iree.compiler.dialects.")]
from iree.compiler import ir
from iree.compiler.dialects import arith, func
with ir.Context():
    module = ir.Module.parse("func.func @f(%x: f32) -> f32 { %y = arith.addf %x, %x : f32 return %y : f32 }")
    (function,) = module.body.operations
    assert isinstance(function, func.FuncOp) and isinstance(function.entry_block.operations[0], arith.AddFOp)
"""


def test_classes_of_operations_are_left_to_those_who_import_them() -> None:
    """They take 40 ms to import, and nothing here needs them."""
    subprocess.run([sys.executable, "-c", WITHOUT_CLASSES], check=True)
