"""Machine code by several threads: the same program, whose dispatches are known afterwards."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering.test_parts import compiled, forget_programs
from lowering.test_short import FLAGS, some
from support.dialects import loaded

import veery
from veery import numpy as jnp
from veery_lowering.compiler import isolation, machine_code, sessions, short
from veery_lowering.mlir import context, ir

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


def in_this_process(*arguments: Any, deadline: Any, **options: Any) -> Any:
    return sessions.run_pipeline(*arguments, **options)


def test_threads_make_the_same_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one thread and by three; then of what is known, with and without new dispatches."""

    def noted(*arguments: Any) -> Any:
        shares.append(share(*arguments))
        return shares[-1]

    shares: list[Any] = []
    share = machine_code._shares
    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    monkeypatch.setattr(machine_code, "_WORTH", 1)
    monkeypatch.setattr(machine_code, "_shares", noted)
    fun, operands = (lambda x: [jnp.exp(x[:n] * n).sum() for n in range(3, 16)]), [some(20)]
    veery.config.update("jax_compilation_cache_dir", str(tmp_path / "first"))
    _, (count, _) = compiled(fun, *operands)
    assert count >= 4, "too few dispatches for three threads"
    found = {}
    for processors in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=processors: set(range(n)))
        folder = tmp_path / str(processors)
        veery.config.update("jax_compilation_cache_dir", str(folder))
        found[processors], (_, known) = compiled(fun, *operands)
        assert not known
        assert len(shares[-1]) == processors
        forget_programs(folder)
        again, (_, known) = compiled(fun, *operands)
        assert known == count
        for got, expected in zip(again, found[processors], strict=True):
            np.testing.assert_array_equal(got, expected)
    for got, expected in zip(found[3], found[1], strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("fails", [False, True])
def test_no_files_are_left(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of none of several threads."""

    def noted(self: Path) -> bytes:
        seen.append(self)
        if fails and len(seen) == 2:
            raise short.Unfit("a file")
        return read(self)

    seen: list[Path] = []
    read = Path.read_bytes
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(machine_code, "_WORTH", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "read_bytes", noted)
    module = b"""func.func @main(%x: tensor<9xf32>, %y: tensor<5xf32>) -> (tensor<9xf32>, tensor<5xf32>) {
      %z = stablehlo.add %x, %x : tensor<9xf32>
      %w = stablehlo.negate %y : tensor<5xf32>
      return %z, %w : tensor<9xf32>, tensor<5xf32>
    }"""
    sessions.prepare(FLAGS, shortly=True)
    seen.clear()
    program, _ = sessions.run_pipeline(module, FLAGS, shortly=True)
    assert (program is None) == fails and len(seen) == 2 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "processors", "operations", "sizes"),
    [
        (0, 8, 1, [0]),
        (1, 8, 9000, [1]),
        (2, 8, 9000, [1, 1]),
        (5, 8, 9000, [2, 2, 1]),
        (9, 2, 9000, [5, 4]),
        (43, 4, 9000, [11, 11, 11, 10]),
        (43, 4, 1600, [15, 14, 14]),
        (43, 4, 1001, [22, 21]),
        (43, 4, 900, [43]),  # for which a second thread would take longer than it brings
        (43, 1, 9000, [43]),
    ],
)
def test_shares(
    count: int, processors: int, operations: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    names = [f"f{k}" for k in range(count)]
    with context():
        executable = ir.Module.parse("\n".join(f"func.func private @g{k}()" for k in range(operations - 1)))
        shares = machine_code._shares(names, executable.operation)
    assert [len(share) for share in shares] == sizes
    assert sorted(name for share in shares for name in share) == sorted(names)


@pytest.mark.parametrize(
    ("fun", "several"),
    [
        (lambda x: x + 1, False),
        (lambda x: (x @ x, x.sum(0)), True),
        (lambda x: veery.lax.fori_loop(0, 9, lambda i, y: jnp.sin(y) + i, x[0]) + (x @ x).sum(0), True),  # and a kernel
    ],
)
def test_threads_translate_where_there_are_several_dispatches(
    fun: Any, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    translate = short.translate

    def noted(module: Any, run: Any, threads: bool) -> bool:
        made.append(threads)
        return translate(module, run, threads)

    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    monkeypatch.setattr(short, "translate", noted)
    monkeypatch.setattr(sessions, "_idle", {})  # also the first of a session
    veery.config.update("jax_enable_compilation_cache", False)
    veery.jit(lambda *x: fun(*x)).lower(some(64, 64)).compile()
    assert made[-1] == several


def test_no_dialect_is_loaded_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is, no other thread may be at work in the context."""
    found: list[tuple[int, int]] = []

    def noted(*arguments: Any, **options: Any) -> Any:
        before = loaded(options["context"])
        code = machine_code.machine_code(*arguments, **options | {"threads": False})
        found.append((before, loaded(options["context"])))
        return code

    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    monkeypatch.setattr(sessions, "machine_code", noted)
    veery.config.update("jax_enable_compilation_cache", False)
    for fun, operands in (
        (lambda x: x + 1, (some(7),)),
        (lambda x: (x @ x.T, x.sum(0), jnp.cumsum(x, 1)), (some(40, 30),)),
        (lambda x: veery.lax.fori_loop(0, 9, lambda i, y: jnp.sin(y) + i, x), (some(5),)),
        (
            lambda x: (x.astype(jnp.float16) @ x.astype(jnp.float16).T, jnp.floor(x), x.astype(complex) ** 2),
            (some(9, 9),),
        ),
    ):
        monkeypatch.setattr(sessions, "_idle", {})  # a new one, whose contexts have no more than they are given
        veery.jit(fun).lower(*operands).compile()
    assert found and all(before == after for before, after in found)
