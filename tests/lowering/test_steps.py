"""What a compilation tells of its steps, and what a terminal shows of it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import veery
from veery_lowering.compiler import progress, steps

SCRIPT = """
import sys
import numpy as np
import veery
from veery_lowering.compiler import progress

progress._PATIENCE = progress._PERIOD = {patience}
veery.jit(lambda x: x * 3 - 1).lower(np.ones(3, np.float32)).compile()
print("done", file=sys.stderr)
"""


def in_terminal(script: str, cache: Path) -> str:
    """What a script writes to its terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "VEERY_CACHE_DIR": str(cache)}
    process = subprocess.Popen([sys.executable, "-c", script], stderr=theirs, stdout=theirs, env=environment)
    os.close(theirs)
    said = b""
    while True:
        try:
            more = os.read(ours, 1 << 12)
        except OSError:  # it has ended
            break
        if not more:
            break
        said += more
    os.close(ours)
    assert process.wait() == 0, said
    return said.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="has no terminals of this kind")
def test_a_terminal_shows_what_is_compiled(tmp_path: Path) -> None:
    said = in_terminal(SCRIPT.format(patience=0.005), tmp_path)
    lines = said.split("\x1b[K")
    shown = [line for line in lines if line.startswith("veery: compiling")]
    assert re.match(r"veery: compiling <lambda> for cpu: .+, 0 s\r?$", shown[0]), shown
    assert len({line.split(": ")[2] for line in shown}) > 1  # it goes on
    assert lines[-1].strip() == "done"  # the line is gone before anything else is written


@pytest.mark.skipif(sys.platform == "win32", reason="has no terminals of this kind")
def test_a_terminal_is_left_alone_where_it_is_quick(tmp_path: Path) -> None:
    assert in_terminal(SCRIPT.format(patience=1000), tmp_path).strip() == "done"


def test_pipes_get_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(patience=0.005)],
        env={**os.environ, "VEERY_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "done\n")


def test_one_compilation_at_a_time_has_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.said: list[str] = []

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            self.said.append(text)

        def flush(self) -> None:
            pass

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    monkeypatch.setattr(progress, "_PERIOD", 0.01)
    with progress.shown("first", "cpu"):
        steps.begin("a step")
        with progress.shown("second", "cpu"):
            steps.begin("another step")
            time.sleep(0.1)
    assert "first for cpu: another step" in "".join(terminal.said) and "second" not in "".join(terminal.said)
    assert terminal.said[-1] == "\r\x1b[K"
    assert not [thread for thread in threading.enumerate() if thread.name == "veery progress"]
    with progress.shown("third", "cpu"):
        time.sleep(0.1)
    assert "third" in "".join(terminal.said)


def test_where_no_step_begins_none_is_timed() -> None:
    assert steps.timed(lambda: 3) == (3, [])


def test_steps_are_timed() -> None:
    lowered = veery.jit(lambda x: x * 3 - 1).lower(np.ones(3, np.float32))._lowered
    (program, outer) = steps.timed(lambda: lowered.timed())
    program, found = program
    names = [name for name, _ in found]
    assert names[0] == "passes" and "forming dispatches" in names and "machine code" in names
    assert "translating dispatches (1, 0 of them known)" in names  # compiled anew
    assert all(seconds >= 0 for _, seconds in found)
    assert [name for name, _ in outer] == names  # who listens further out hears them too


def test_the_command_shows_them(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def f(x):\n    return x * 3 - 1\n")
    command = [sys.executable, "-m", "veery", "inspect", "model.py:f", "--args", "f32[3]", "--timing"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    assert rows[0] == ["step", "ms", "share"]
    times = {row[0]: float(row[1]) for row in rows[1:]}
    assert {"tracing", "lowering", "passes", "machine code"} <= times.keys()
    *parts, whole = times.values()
    assert whole == pytest.approx(sum(parts), abs=len(times))
    as_json = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert '"step": "tracing"' in as_json
