"""Kernels that are compiled ahead: the same programs, whatever is known of them and whichever fails."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lowering.test_machine_code import in_this_process
from lowering.test_parts import compiled, forget_programs
from lowering.test_short import some

import veery
from veery import lax, numpy as jnp
from veery_lowering.compiler import ahead, isolation, sessions, short
from veery_lowering.compiler.emptied import SOURCES, code_of, mark_of, write_out
from veery_lowering.kernels._executable import Executable
from veery_lowering.mlir import CODE, WRITTEN_AS, context, ir, operations

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda i, y: jnp.sin(y) + i, x)


def source(name: str, written_as: str, number: int) -> str:
    return f"""
    hal.executable.source private @{name} attributes {{{WRITTEN_AS} = "{written_as}"}} {{
      hal.executable.export public @{name}_run ordinal(0) layout(#hal.pipeline.layout<bindings = []>)
      builtin.module {{ func.func @{name}_run() {{ %0 = arith.constant {number} : index
        return }} }}
    }}"""


def test_equal_kernels_are_compiled_once() -> None:
    """They are equal if they were written as the same text, whatever their names are."""
    with context():
        module = ir.Module.parse(source("a", "x", 1) + source("b", "y", 2) + source("c", "x", 1))
        kernels = ahead.Kernels(module, None, ("--flag",), "device")
        marks = [mark_of(code) for _, code in code_of(module, SOURCES)]
        assert marks[0] == marks[2] != marks[1] and all(mark in kernels for mark in marks)
        assert "arith.constant" not in str(module)
        module.operation.verify()
        made = ir.Module.parse(kernels.code)
        assert kernels.count == 2
        assert [op.name for op in operations(made)].count("hal.executable.source") == 2


@pytest.mark.parametrize("change", [{"flags": ("--other",)}, {"device": "another"}, {"written_as": "y"}])
def test_what_they_are_known_by(change: dict[str, Any]) -> None:
    def mark(written_as: str = "x", flags: tuple[str, ...] = ("--flag",), device: str = "device") -> str:
        module = ir.Module.parse(source("a", written_as, 1))
        ahead.Kernels(module, None, flags, device)
        ((_, code),) = code_of(module, SOURCES)
        return mark_of(code)

    with context():
        assert mark() == mark() != mark(**change)


@pytest.mark.parametrize(
    "fun",
    [
        loop,
        lambda x: (loop(x), loop(x[::-1])),  # one kernel, called twice
        lambda x: (loop(x), jnp.sort(x), (x[:, None] * x).sum(0), jnp.cumsum(x)),  # and dispatches of IREE's
        lambda x: veery.grad(lambda x: loop(x).sum())(x),
    ],
)
@pytest.mark.parametrize("threads", [True, False])
def test_known_and_new_kernels_make_the_same_program(
    fun: Any, threads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: Any, deadline: Any, **options: Any) -> Any:
        return sessions.run_pipeline(*arguments, **options | {"threads": threads})

    monkeypatch.setattr(isolation, "run_pipeline", run)
    veery.config.update("jax_compilation_cache_dir", str(tmp_path))
    x = some(37)
    first, (count, known) = compiled(fun, x)
    assert count and not known
    forget_programs(tmp_path)
    again, (_, known) = compiled(fun, x)
    assert known == count
    veery.config.update("jax_enable_compilation_cache", False)
    alone, _ = compiled(fun, x)
    for one, other, third in zip(first, again, alone, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


@pytest.mark.parametrize("where", ["translate_kernels", "machine_code"])
def test_a_kernel_that_fails_is_one_of_the_standard_pipeline(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise short.Unfit("a kernel")

    monkeypatch.setattr(isolation, "run_pipeline", in_this_process)
    monkeypatch.setattr(*((short, where) if where == "translate_kernels" else (sessions, where)), failing)
    veery.config.update("jax_enable_compilation_cache", False)
    x = some(11)
    program = veery.jit(lambda x: loop(x)).lower(x).compile()
    assert program._program.metadata["pipeline"] == "standard, since the short one fails: a kernel"
    y = np.asarray(x, np.float64)
    for i in range(9):
        y = np.sin(y) + i
    np.testing.assert_allclose(program(x), y, rtol=1e-5)


def test_what_is_not_known_is_parsed_where_it_is_compiled() -> None:
    """A kernel has its code as text until then."""
    with context():
        module = ir.Module.parse(source("a", "x", 1))
        ((executable, code),) = code_of(module, SOURCES)
        (function,) = code.regions[0].blocks[0].operations
        executable.attributes[CODE] = ir.StringAttr.get(str(function))
        function.erase()
        kernels = ahead.Kernels(module, None, (), "device")
        assert CODE not in executable.attributes
        module = ir.Module.parse(kernels.code)
        write_out(module)
        ((executable, code),) = code_of(module, SOURCES)
        assert CODE not in executable.attributes
        assert [op.name for op in operations(code)] == ["arith.constant", "func.return", "func.func"]
        executable.attributes[CODE] = ir.StringAttr.get("func.func @a_run() { %0 = nothing }")
        with pytest.raises(ir.MLIRError):
            write_out(module)


def test_a_kernel_whose_text_is_wrong_is_dispatches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executable, "_lines", lambda self, given: ["%0 = nothing"])
    veery.config.update("jax_enable_compilation_cache", False)
    x = some(12)
    program = veery.jit(lambda x: loop(x)).lower(x).compile()
    assert "without kernels" in program._program.metadata["fallback"]
    y = np.asarray(x, np.float64)
    for i in range(9):
        y = np.sin(y) + i
    np.testing.assert_allclose(program(x), y, rtol=1e-5)
