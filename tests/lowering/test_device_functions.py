"""Functions that IREE puts into each program: without LLVM's work on them the program is the same."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import objects

import veery
from veery import numpy as jnp
from veery_lowering.compiler import device_functions, isolation

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)


def compilation(monkeypatch: pytest.MonkeyPatch, fun: Any, *operands: Any) -> tuple[bytes, tuple[str, ...]]:
    """What the compiler is given of a function: a module and flags."""
    given: list[tuple[bytes, tuple[str, ...]]] = []
    run = isolation.run_pipeline

    def noted(module: bytes, flags: tuple[str, ...], **options: Any) -> Any:
        given.append((module, flags))
        return run(module, flags, **options)

    with monkeypatch.context() as patch:
        patch.setattr(isolation, "run_pipeline", noted)
        veery.config.update("jax_enable_compilation_cache", False)
        veery.jit(lambda *xs: fun(*xs)).lower(*operands).compile()
    return given[-1]


def test_they_are_those_that_an_object_has(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = isolation.call(objects.functions, *compilation(monkeypatch, lambda x: x + 1, np.ones(5, np.float32)))
    assert len(functions) == len(device_functions.NAMES) + 2  # the dispatch, and that which tells of it
    assert set(device_functions.NAMES) < set(functions)


def test_a_program_that_needs_one_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fun = veery.hessian(jnp.prod)
    given = compilation(monkeypatch, fun, np.linspace(0.5, 1, 20, dtype=np.float32))
    before, after, needed = isolation.call(objects.hastened, *given)
    assert before is not None and before == after
    if not needed:
        pytest.skip("LLVM needs none of them for this processor, which has wider vectors")
    assert needed == ["memset"]


def test_no_session_is_made_in_a_process_that_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are made there have other defaults: those that there are serve for ever."""
    module, flags = compilation(monkeypatch, lambda x: x + 1, np.ones(5, np.float32))
    for hastens, kept in ((True, True), (False, False)):
        assert isolation.call(objects.is_kept, module, flags, hastens) == kept


def test_nothing_is_verified_for_analyses_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLIR verifies what it is to print, as those of IREE have it do, and prints in generic form what is invalid."""
    given = compilation(monkeypatch, lambda x: x + 1, np.ones(5, np.float32))
    for hastens in (True, False):
        assert ('"util.func"' in isolation.call(objects.printed, *given, hastens)) is not hastens


def test_phases_do_not_link_there_what_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    fun = lambda x: (x.sum(), x.T + 1)
    given = compilation(monkeypatch, fun, np.ones((40, 40), np.float32))
    assert isolation.call(objects.executables, *given, False) == 1
    assert isolation.call(objects.executables, *given, True) > 1


def test_they_are_left_out_as_soon_as_they_are_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = compilation(monkeypatch, lambda x: x + 1, np.ones(5, np.float32))
    helpers: list[Any] = []
    monkeypatch.setattr(isolation, "_idle", helpers)  # new ones, which know of nothing

    def left_out(hastens: bool) -> list[bool]:
        for dispatch in tmp_path.glob("??/*.part"):
            if dispatch not in known:
                dispatch.unlink()
        found = isolation.call(objects.left_out, *given, str(tmp_path), hastens)
        programs.update(enumerate(program for _, program in found))
        return [each for each, _ in found]

    known: set[Path] = set()
    programs: set[tuple[int, bytes]] = set()
    assert left_out(hastens=True) == [False, True]
    by_size = sorted(tmp_path.glob("??/*.part"), key=lambda path: path.stat().st_size)
    known.add(by_size[-1])
    assert left_out(hastens=True) == [True, True]
    assert left_out(hastens=False) == [False, False]  # there may be other sessions
    by_size[-1].write_bytes(b"damaged")
    assert left_out(hastens=True) == [False, True]
    assert len(programs) == 2  # one when its dispatch is not known yet, and one when it is
    for helper in helpers:
        helper.close()
