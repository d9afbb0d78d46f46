"""Shared by the tests of the command line: a file of functions, and the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MODEL = '''\
import veery.numpy as jnp
from veery import lax


def layer(params, x):
    y = lax.dot_general(x, params["w"], (((1,), (0,)), ((), ())))
    return jnp.tanh(y + params["b"])


def loss(params, x):
    return jnp.sum(layer(params, x) ** 2)


def double(x):
    return {"y": 2 * x}


def broken(x):
    return x.nothing
'''

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with model.py."""
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


@pytest.fixture
def veery(folder) -> Command:
    """Runs `veery` in the folder."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(ROOT / p) for p in ("frontend", "lowering", "runtime"))
        return subprocess.run(
            [sys.executable, "-m", "veery", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
