"""`veery doctor --libraries`, on libraries that are made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from veery._cli import libraries

GOOD = """
import jax
import jax.numpy as jnp
from jax.tree_util import tree_map as mapped

def scale(x):
    return mapped(jnp.sin, jax.nn.relu(x)).at[0].set(1)
"""

LACKING = """
import jax, os
import jax.experimental.mosaic
import jax.experimental.pallas as pl
import jax.numpy as jnp
from jax import lax, no_such_function
from jax.lax import ragged_all_to_all

def f(x):
    return lax.no_such_operation(jnp.linalg.no_such_norm(x), pl.load, os.path.join)
"""


def library(folder: Path, name: str, distribution: str, source: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)
    (folder / name / "test_it.py").write_text("import jax\njax.what_tests_use_does_not_count")
    info = folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    library(tmp_path, "optax", "optax", GOOD)
    library(tmp_path, "haiku", "dm-haiku", LACKING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def test_what_libraries_lack(installed):
    assert libraries.lacking("optax") == set()
    assert libraries.lacking("haiku") == {
        "jax.experimental.mosaic",
        "jax.experimental.pallas.load",
        "jax.lax.no_such_operation",
        "jax.no_such_function",
        "jax.numpy.linalg.no_such_norm",
    }


def test_the_report(installed):
    command = [sys.executable, "-m", "veery", "doctor", "--libraries"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert found["optax"] == {"name": "optax", "version": "1.2", "error": "", "lacks": []}
    error = found["dm-haiku"]["error"]
    assert error.startswith("haiku: ModuleNotFoundError: veery, which stands in JAX's place, has no jax.experimental.")
    told = subprocess.run(command, capture_output=True, text=True).stdout
    assert "optax" in told and "imports" in told and "jax.lax.no_such_operation" in told
