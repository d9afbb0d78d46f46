"""Dispatches on disk: programs made of known ones are the same programs, and nothing is taken for known that is not."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering.test_short import PROGRAMS, some
from support import objects

import veery
from veery import numpy as jnp
from veery_lowering.compiler import isolation, library, linking, places
from veery_lowering.mlir import context, ir
from veery_lowering.targets import Traits, resolve

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty cache."""
    veery.config.update("jax_compilation_cache_dir", str(tmp_path))
    return tmp_path


def forget_programs(folder: Path) -> None:
    for kind in ("veery", "link"):
        for file in folder.glob(f"??/*.{kind}"):
            file.unlink()


def compiled(fun: Callable[..., Any], *operands: Any) -> tuple[list[np.ndarray], tuple[int, int]]:
    """The results of a function, and how many dispatches it has, and had that were known."""
    program = veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
    count, known = program._program.metadata["dispatches"].split(", ")
    return [np.asarray(out) for out in veery.tree_util.tree_leaves(program(*operands))], (
        int(count),
        int(known.split()[0]),
    )


@pytest.mark.parametrize("name", ["elementwise", "softmax", "a step of training", "attention", "a loop", "indices"])
def test_programs_of_known_dispatches_are_the_same(name: str, folder: Path) -> None:
    fun, operands = PROGRAMS[name]
    first, (count, known) = compiled(fun, *operands)
    assert count and not known
    forget_programs(folder)
    again, (same, known) = compiled(fun, *operands)
    assert same == known == count
    for got, expected in zip(again, first, strict=True):
        np.testing.assert_array_equal(got, expected)


def steps(rate: float, activation: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(w: Any, x: Any) -> Any:
        a, b = w
        return (jnp.sum(activation(x @ a) * b, axis=1) ** 2).mean()

    return lambda w, x: veery.tree_util.tree_map(lambda p, g: p - rate * g, w, veery.grad(loss)(w, x))


def test_what_is_changed_is_compiled(folder: Path) -> None:
    """With another learning rate only the updates are others."""
    w, x = (some(16, 24), some(24)), some(8, 16)
    compiled(steps(0.1, jnp.tanh), w, x)
    slower, (count, known) = compiled(steps(0.05, jnp.tanh), w, x)
    assert 0 < known < count
    veery.config.update("jax_enable_compilation_cache", False)
    alone = veery.jit(steps(0.05, jnp.tanh)).lower(w, x).compile()
    for got, expected in zip(slower, veery.tree_util.tree_leaves(alone(w, x)), strict=True):
        np.testing.assert_array_equal(got, np.asarray(expected))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x * 3, lambda x: x * 4),
        (lambda x: x + 1, lambda x: x - 1),
        (lambda x: x[1:] * 2, lambda x: x[:-1] * 2),
        (lambda x: x.sum(), lambda x: x.max()),
        (lambda x: x.astype(np.int32), lambda x: x.astype(np.int16)),
        (lambda x: x + np.arange(7.0, dtype=np.float32), lambda x: x + np.arange(1.0, 8.0, dtype=np.float32)),
    ],
)
def test_another_dispatch_is_not_known(one: Any, other: Any, folder: Path) -> None:
    x = some(7)
    compiled(one, x)
    (out,), (count, known) = compiled(other, x)
    assert known < count
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out, other(x), rtol=1e-6)


def test_a_program_that_is_known_in_part_runs_them_in_their_places(folder: Path) -> None:
    """The names of dispatches say nothing: the second of one program is the first of another."""
    x = some(32, 100)
    compiled(lambda x: jnp.sin(x).sum(1), x)
    (out,), _ = compiled(lambda x: jnp.cos(jnp.sin(x).sum(1))[:, None] @ jnp.sin(x).sum(1)[None], x)
    rows = np.sin(x.astype(np.float64)).sum(1)
    np.testing.assert_allclose(out, np.cos(rows)[:, None] * rows, rtol=1e-4, atol=1e-4)


def test_damaged_parts_are_compiled_anew(folder: Path) -> None:
    fun, operands = PROGRAMS["softmax"]
    first, (count, _) = compiled(fun, *operands)
    parts = list(folder.glob("??/*.part"))
    assert len(parts) == count
    for k, part in enumerate(parts):
        data = part.read_bytes()
        part.write_bytes(data[: len(data) // 2] if k % 2 else data[:-1] + bytes([data[-1] ^ 1]))
    forget_programs(folder)
    again, (_, known) = compiled(fun, *operands)
    assert known == 0
    np.testing.assert_array_equal(again[0], first[0])


def test_nothing_is_kept_without_a_cache(folder: Path) -> None:
    veery.config.update("jax_enable_compilation_cache", False)
    _, (_, known) = compiled(lambda x: x * 7, some(5))
    assert not known and not list(folder.glob("??/*"))


def step_of_layers(count: int) -> tuple[Callable[..., Any], Any]:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    return veery.value_and_grad(loss), ([some(24, 24) for _ in range(count)], some(8, 24))


def test_another_place_in_memory_is_no_other_dispatch(folder: Path) -> None:
    """One layer more moves all values. Every dispatch of five layers is one of four."""
    small, operands = step_of_layers(4)
    compiled(small, *operands)
    large, operands = step_of_layers(5)
    outs, (count, known) = compiled(large, *operands)
    assert count >= known >= count - 1
    veery.config.update("jax_enable_compilation_cache", False)
    alone = veery.jit(large).lower(*operands).compile()
    for got, expected in zip(outs, veery.tree_util.tree_leaves(alone(*operands)), strict=True):
        np.testing.assert_array_equal(got, np.asarray(expected))


def test_dispatches_that_are_the_same_but_for_their_places(folder: Path) -> None:
    """Two tiled copies of a program are one dispatch under two names, once where they lie is passed."""

    def fun(x: Any, y: Any, w: Any) -> Any:
        return (x @ w).T @ (y @ w), jnp.cumsum(x, 0) @ w, jnp.cumsum(y, 0) @ w

    operands = some(90, 88), some(90, 88), some(88, 100)
    first, _ = compiled(fun, *operands)
    forget_programs(folder)
    again, (count, known) = compiled(fun, *operands)
    assert known == count
    for got, expected in zip(again, first, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("n", [17, 20, 40, 68])
def test_places_are_aligned_as_they_are(n: int) -> None:
    """The parts of what is joined are computed in their places, which are multiples of 4, 16 and 32 bytes."""
    m, x = some(n, n), some(3 * n)
    a, b, c = x[:n], x[n : 2 * n], x[2 * n :]
    joined = veery.jit(lambda m, a, b, c: jnp.concatenate([c * 2, m @ a, m.T @ b, c + 1]))(m, a, b, c)
    np.testing.assert_allclose(joined, np.concatenate([c * 2, m @ a, m.T @ b, c + 1]), rtol=1e-4, atol=1e-4)


def test_nothing_is_kept_of_what_compiles_too_quickly(folder: Path) -> None:
    veery.config.update("jax_persistent_cache_min_compile_time_secs", 1000)
    compiled(lambda x: x * 7, some(5))
    assert not list(folder.glob("??/*.part"))


BARRIERS = """
util.func private @main(%x: index, %y: index) -> (index, index, index) {
  %place = util.optimization_barrier {veery.place} %x : index
  %waited = util.optimization_barrier %y : index
  %both = arith.addi %place, %waited : index
  util.return %place, %waited, %both : index, index, index
}"""


def test_barriers_that_are_not_of_places_stay() -> None:
    """They keep apart what a program waits for: without them loops read what was not yet there."""
    with context():
        module = ir.Module.parse(BARRIERS)
        places.show_places(module)
        module.operation.verify()
        text = str(module)
    assert text.count("util.optimization_barrier") == 1
    assert "util.optimization_barrier %arg1" in text
    assert "util.return %arg0, %0, %1" in text and "arith.addi %arg0, %0" in text


def test_functions_are_the_same_after_the_disk() -> None:
    module = b"""func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
      %0 = stablehlo.exponential %x : tensor<64xf32>
      return %0 : tensor<64xf32>
    }"""
    code, _, made = isolation.call(objects.linked, module, resolve("cpu").attempts(Traits(frozenset(), ()))[0])
    name = re.search(rb"\.text\.(main_dispatch_0_(?!library)\w+)", code)[1].decode()
    part = linking.Object(code, "elsewhere").function(name)
    kept = linking.decode(linking.encode(part), "elsewhere")
    assert linking.encode(kept) == linking.encode(part)
    linked = linking.link(library.query([(library.Export(name, 0, 2, 0, (1, 1, 1)), kept)]))
    assert objects.places_of(part.sections[part.section], linked) == 1
    assert objects.places_of(part.sections[part.section], made) == 1


def test_dispatches_with_many_places() -> None:
    """More are not passed than a dispatch takes, 64 words."""
    product = veery.jit(lambda x: jnp.cumprod(jnp.arange(1.0, 7.0) * (1 + x)))  # k! (1 + x)^k
    derivative = product
    for _ in range(4):
        derivative = lambda x, f=derivative: veery.jvp(f, (x,), (jnp.ones(()),))[1]
    expected = [0, 0, 0, 24 * 24, 120 * 120, 720 * 360]
    np.testing.assert_allclose(derivative(jnp.zeros(())), expected, rtol=1e-6)
