"""Shared by the tests of the command line: a file of functions, and the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from veery._cli import application

ROOT = Path(__file__).parents[2]

MODEL = """\
import veery.numpy as jnp
from veery import lax, pure_callback


def layer(params, x):
    y = lax.dot_general(x, params["w"], (((1,), (0,)), ((), ())))
    return jnp.tanh(y + params["b"])


def loss(params, x):
    return jnp.sum(layer(params, x) ** 2)


def double(x):
    return {"y": 2 * x}


def turns(x, w):
    hosted = lax.fori_loop(0, 9, lambda _, x: pure_callback(abs, x, x) * 0.5, x)
    return lax.fori_loop(0, 9, lambda _, x: jnp.tanh(w @ x), hosted)


def broken(x):
    return x.nothing
"""


class Result(NamedTuple):
    """What a command gave back."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Result]


def run_process(folder: Path, arguments: tuple[str, ...]) -> Result:
    """`veery` in a process of its own."""
    path = os.pathsep.join(str(ROOT / p) for p in ("frontend", "lowering", "runtime"))
    done = subprocess.run(
        [sys.executable, "-m", "veery", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with model.py."""
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture
def process(folder) -> Command:
    """Runs `veery` in the folder, as a shell would."""
    return lambda *arguments: run_process(folder, arguments)


@pytest.fixture
def veery(folder, monkeypatch, capfd) -> Command:
    """Runs `veery` in the folder and in this process, which saves starting many."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "model", raising=False)

    def run(*arguments: str) -> Result:
        capfd.readouterr()
        with warnings.catch_warnings():
            code = application.run(list(arguments))
        return Result(code, *capfd.readouterr())

    return run
