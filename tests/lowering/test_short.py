"""The short pipeline: which programs it compiles, and that they are the same ones as the standard pipeline's."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
from veery import experimental, lax, numpy as jnp
from veery_lowering.compiler import compile as compilation, isolation, sessions, short
from veery_lowering.compiler.managers import Managers
from veery_lowering.errors import CompileError
from veery_lowering.targets import Traits, cpu, fusion, resolve

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)

FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]
RNG = np.random.default_rng(0)


def some(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def network(w: Any, x: Any) -> Any:
    for a, b in w[:-1]:
        x = jnp.tanh(x @ a + b)
    a, b = w[-1]
    return -jnp.mean(veery.nn.log_softmax(x @ a + b)[:, 0])


def step(w: Any, x: Any) -> Any:
    return veery.tree_util.tree_map(lambda p, g: p - 0.1 * g, w, veery.grad(network)(w, x))


def attention(q: Any, k: Any, v: Any) -> Any:
    mask = jnp.tril(jnp.ones((q.shape[0], q.shape[0]), bool))
    return veery.nn.softmax(jnp.where(mask, q @ k.T, -jnp.inf), axis=-1) @ v


TABLE = RNG.normal(size=(40, 30)).astype(np.float32)
WEIGHTS = [(some(16, 24), some(24)), (some(24, 5), some(5))]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: (x + 1, jnp.exp(x) * jnp.tanh(x), x.astype(np.int32)), (some(37),)),
    "kinds of numbers": (
        lambda f, b, i, u, c, t: (f * 2, b + 1, i // 3, u >> 2, c * c, ~t),
        (
            some(9, dtype="float16"), some(9).astype(jnp.bfloat16), np.arange(-4, 5), np.arange(9, dtype=np.uint8),
            some(9) + 1j * some(9).astype(np.complex64), np.arange(9) % 2 == 0,
        ),
    ),
    "products of whole sizes": (lambda x, y: x @ y, (some(64, 64), some(64, 32))),
    "products with tiled operands": (lambda x, y: x @ y, (some(450, 500), some(500, 450))),
    "steps with tiled operands": (
        lambda w, x: w - 1e-3 * veery.grad(lambda w: (jnp.tanh(x @ w + 1) ** 2).mean())(w),
        (some(450, 450), some(512, 450)),
    ),
    "products of odd sizes": (lambda x, y: x @ y, (some(33, 17), some(17, 9))),
    "products of bytes": (
        lambda x, y: lax.dot(x, y, preferred_element_type=np.int32),
        (np.arange(64, dtype=np.int8).reshape(8, 8), np.arange(64, dtype=np.int8).reshape(8, 8)),
    ),
    "a batch of products": (lambda x, y: jnp.einsum("bij,bkj->bik", x, y), (some(3, 16, 8), some(3, 24, 8))),
    "softmax": (lambda x: veery.nn.softmax(x, axis=-1), (some(32, 100),)),
    "reductions": (lambda x: (x.sum(0), x.max(1), x.argmin(), x.std(), jnp.cumsum(x, 1)), (some(13, 29),)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME"), (some(2, 3, 9, 9), some(4, 3, 3, 3))
    ),
    "a step of training": (step, (WEIGHTS, some(8, 16))),
    "attention": (attention, (some(12, 8), some(12, 8), some(12, 8))),
    "a large constant": (lambda x: x @ TABLE + TABLE.sum(0), (some(5, 40),)),
    "what is computed when it is loaded": (
        lambda x: x + lax.pad(jnp.arange(3.0), 0.0, ((1, 0, 0),)) + jnp.cumsum(jnp.arange(4.0)), (some(4),)
    ),
    "a loop": (lambda x: lax.fori_loop(0, 10, lambda i, y: jnp.sin(y) + i, x), (some(7),)),
    "a loop of products": (lambda x: lax.fori_loop(0, 3, lambda i, y: y @ y / 8, x), (some(8, 8),)),
    "a loop on the host": (
        lambda x: lax.while_loop(lambda y: jnp.linalg.norm(y) > 1, lambda y: jnp.sort(y, axis=0) @ y / 9, x),
        (some(6, 6),),
    ),
    "a branch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x[::-1]], x), (np.int32(2), some(3))),
    "indices": (lambda x, i: (x[i], x.at[i].add(1.0), jnp.sort(x), x[::-2]), (some(11), np.array([3, 3, 0, 10]))),
    "decompositions": (lambda x: (jnp.linalg.eigvals(x @ x.T + 9 * jnp.eye(4)), jnp.fft.fft(x)), (some(4, 4),)),
    "functions of Python": (
        lambda x: (
            veery.debug.print("{}", x.sum()), veery.pure_callback(np.cos, x, jnp.sin(x)) + 1,
            *(experimental.io_callback(np.square, x, x * i, ordered=True) for i in range(3)),
        )[1:],
        (some(11),),
    ),
    "random numbers": (
        lambda k: (veery.random.normal(k, (50,)), veery.random.split(k)), (np.array([0, 7], np.uint32),)
    ),
    "empty arrays": (lambda x: (x + 1, x.sum(0), jnp.concatenate([x, x])), (some(0, 3),)),
    "what is given back": (lambda x, y: (x, y, x), (some(3), some(2))),
    "a constant result": (lambda: (jnp.arange(5), 3.0), ()),
}  # fmt: skip


def compiled(name: str, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> Any:
    """A program, by one of the pipelines."""
    if pipeline == "standard":
        monkeypatch.setattr(cpu, "_SHORT", frozenset())
    fun, operands = PROGRAMS[name]
    lowered = veery.jit(lambda *xs: fun(*xs)).lower(*operands)
    veery.config.update("jax_enable_compilation_cache", False)
    program = lowered.compile()
    assert program._program.metadata["pipeline"] == pipeline
    return [np.asarray(out) for out in veery.tree_util.tree_leaves(program(*operands))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_standard_pipeline(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit."""
    shortly = compiled(name, monkeypatch, "short")
    for got, expected in zip(shortly, compiled(name, monkeypatch, "standard"), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def ways(lowered: Any, **choices: Any) -> list[bool]:
    """For each way to compile a program, in turn, whether the short pipeline is it."""
    made = lowered._lowered.with_options(**choices)
    return [way.shortly for way in compilation.attempts_of(made.emission, made.target, made.options)]


def test_what_it_was_not_shown_right_for_takes_the_standard_pipeline() -> None:
    x = np.ones(8, np.float32)
    plain = veery.jit(lambda x: x + 1).lower(x)
    assert ways(plain) == [True, False, True, False]  # the second two with fewer fusions
    assert not any(ways(plain, flags=("--iree-opt-level=O1",)))
    assert not any(ways(plain, optimize_for="size"))
    assert not any(ways(plain, isolation="never"))  # where it crashes, it would take this process along
    of_the_c_library = frozenset([("stablehlo.sine", "float64")])
    (linked_by_the_system,) = resolve("cpu").attempts(Traits(of_the_c_library, ()))
    assert not resolve("cpu").compiles_shortly(linked_by_the_system)
    for other in ("cpu:generic", "vulkan", "cuda"):
        assert not resolve(other).compiles_shortly(resolve(other).attempts(Traits(frozenset(), ()))[0])
    sizes = veery.export.symbolic_shape("n")
    exported = veery.jit(lambda x: x + 1).trace(veery.ShapeDtypeStruct(sizes, np.float32)).lower()
    assert not any(ways(exported))


MODULE = b"""func.func @main(%x: tensor<3x3xf32>, %y: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = stablehlo.remainder %x, %y : tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}"""


def test_calls_of_the_c_library_are_said_to_be_unfit() -> None:
    program, diagnostics = isolation.run_pipeline(MODULE, FLAGS, shortly=True)
    assert program is None
    assert [(d.severity, d.message) for d in diagnostics] == [(sessions.UNFIT, "calls 'fmodf', which it does not have")]


def test_what_is_unfit_is_compiled_by_the_standard_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    run = isolation.run_pipeline
    asked = []

    def unfit(*arguments: Any, **options: Any) -> Any:
        asked.append(options["shortly"])
        if options["shortly"]:
            return None, [sessions.Diagnostic(sessions.UNFIT, "no")]
        return run(*arguments, **options)

    monkeypatch.setattr(isolation, "run_pipeline", unfit)
    program = veery.jit(lambda x: x * 3 - 1).lower(np.ones(5, np.float32)).compile()
    assert asked == [True, False]
    assert program._program.metadata["pipeline"] == "standard, since the short one fails: no"
    assert "fallback" not in program._program.metadata  # it is the same program
    np.testing.assert_array_equal(program(np.ones(5, np.float32)), np.full(5, 2.0))


def test_what_no_pipeline_compiles_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE's passes up to dispatches are the same in both."""
    asked = []

    def failing(*arguments: Any, **options: Any) -> Any:
        asked.append((*arguments, options["shortly"]))
        return None, [sessions.Diagnostic("error", "no")]

    monkeypatch.setattr(isolation, "run_pipeline", failing)
    with pytest.raises(CompileError, match="no"):
        veery.jit(lambda x: x * 5 - 1).lower(np.ones(5, np.float32)).compile()
    assert len(asked) == len(set(asked)) and all(shortly for *_, shortly in asked)


def test_what_cannot_be_translated_is_not_tried_by_the_standard_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its passes are the same."""
    monkeypatch.setattr(Managers, "run_on", lambda *_: False)
    program, diagnostics = sessions.run_pipeline(
        b"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {"
        b" %y = stablehlo.add %x, %x : tensor<3xf32> return %y : tensor<3xf32> }",
        FLAGS,
        shortly=True,
    )
    assert program is None and sessions.UNFIT not in [d.severity for d in diagnostics]


@pytest.mark.parametrize("step", ["commands", "hal"])
def test_invalid_modules_are_refused(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier runs after steps: what a pass breaks does not become a program."""
    broken = []

    def run(run_passes: Any, name: str, pipelines: Any) -> None:
        original(run_passes, name, pipelines)
        if name == step:
            (changed,) = run_passes.args
            for op in changed.body.operations:
                if op.name == "util.func" and not broken:
                    broken.append(op.name)
                    del op.attributes["function_type"]

    original = short._run
    monkeypatch.setattr(short, "_run", run)
    module = b"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    program, diagnostics = sessions.run_pipeline(module, FLAGS, shortly=True)
    assert broken and program is None
    assert diagnostics[-1].severity == sessions.UNFIT


def test_what_data_tiling_decides_on_has_its_passes() -> None:
    """Which programs without it are spared; that those with it are the same is shown above."""
    tiled, plain = short._configure((fusion.DATA_TILING,)), short._configure(())
    assert "encoding" in str(tiled) and "encoding" not in str(plain)
    assert [passes.replace(short._TILED, "") for passes in tiled] == plain
