"""A crash of IREE's compiler ends one process; after that it is an exception. A kill is not mistaken for a crash."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.jaxpr_graphs import Graph

import veery_lowering
from veery_lowering import isolation
from veery_lowering.isolation import Marker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks that go with a process")

# LLVM aborts on this layout of data, as IREE 3.13 does on some programs, but each time.
CRASHING = """
import sys, veery
veery.config.update("veery_compiler_isolation", sys.argv[1])
increase = veery.jit(lambda x: x + 1, compiler_options={"iree-llvmcpu-target-data-layout": "nonsense"})
for _ in range(2):
    try:
        increase(1.0)
    except RuntimeError as error:
        print(error)
print(veery.jit(lambda x: x + 1)(1.0), "still here")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def markers(folder: Path) -> list[Path]:
    return list((folder / isolation.JOURNAL).glob("*"))


def start(script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment, text=True, **options)


def test_a_program_that_crashes_the_compiler_does_so_once(folder: Path) -> None:
    def run(mode: str) -> tuple[int, str]:
        process = start(CRASHING, mode, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    crash = "cannot compile '<lambda>' for target 'cpu' at <string>:4:\nthe compiler crashed (SIGABRT: LLVM ERROR: "
    status, said = run("always")
    assert status == 0 and said.count(crash) == 2 and said.endswith("2.0 still here\n")
    assert not markers(folder)
    assert run("auto") == (-signal.SIGABRT, "")
    (marker,) = markers(folder)
    assert run("auto") == (0, said) and markers(folder) == [marker]


def test_a_killed_compilation_is_repeated_in_another_process(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def graph() -> Graph:
        g = Graph()
        x = g.input(np.ones(7, np.float32))
        g.check("sum", g.op("add", x, x), np.full(7, 2, np.float32))
        return g

    lowered = veery_lowering.lower(graph().closed())
    script = "import sys, time; from pathlib import Path; from veery_lowering.isolation import Marker\n"
    script += "with Marker(Path(sys.argv[1]), sys.argv[2]).held(): print(flush=True); time.sleep(100)"
    key = lowered.compile().key
    veery_lowering.clear_cache()
    process = start(script, str(folder / isolation.JOURNAL), key, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    marker = Marker(folder / isolation.JOURNAL, key)
    assert len(markers(folder)) == 1 and not marker.is_abandoned()
    process.kill()
    process.communicate()
    assert marker.is_abandoned()
    with caplog.at_level(logging.INFO, "veery"):
        graph().run()
        assert caplog.text.count("compiled in a process of its own") == 1
        assert not markers(folder)
        veery_lowering.clear_cache()
        graph().run()
    assert caplog.text.count("compiled in a process of its own") == 1


def test_markers_are_cheap_and_optional(tmp_path: Path) -> None:
    def cost(folder: Path) -> float:
        begun = time.perf_counter()
        marker = Marker(folder, "ab" * 32)
        assert not marker.is_abandoned()
        with marker.held():
            pass
        return time.perf_counter() - begun

    assert min(cost(tmp_path / "journal") for _ in range(20)) < 1e-3
    assert not markers(tmp_path)
    (tmp_path / "file").touch()
    cost(tmp_path / "file" / "journal")
