"""Shared by the tests of artifacts: a file with several functions and targets, and processes without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import veery
import veery.numpy as jnp

ROOT = Path(__file__).parents[2]

# A finder that fails for what only compilation needs, as if it were not installed.
_WITHOUT = """
import sys
hidden = ('scipy', 'optree', 'veery', 'veery_lowering', 'jax')
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in hidden or name.startswith('iree.compiler'):
            raise ModuleNotFoundError(f'No module named {name!r} (hidden by the test)')
sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
"""


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> Path:
    """An artifact with the functions init, step and predict for two kinds of CPU."""
    x = veery.ShapeDtypeStruct((4, 3), "float32")
    params = {"w": veery.ShapeDtypeStruct((3,), "float32"), "b": veery.ShapeDtypeStruct((), "float32")}

    def predict(params, x):
        return jnp.sum(x * params["w"], axis=1) + params["b"]

    def step(params, x):
        grads = veery.grad(lambda p: jnp.sum(predict(p, x) ** 2))(params)
        return {k: params[k] - 0.01 * grads[k] for k in params}

    functions = {
        "init": (lambda: {"w": jnp.ones(3), "b": jnp.zeros(())}, ()),
        "step": (step, (params, x)),
        "predict": (predict, (params, x)),
    }
    path = tmp_path_factory.mktemp("model") / "model.vmfb"
    veery.aot.compile(functions, targets=["cpu:generic", "cpu:x86-64-v3"], out=path)
    return path


@pytest.fixture
def run_without_compiler() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script where only NumPy, ml_dtypes, iree.runtime and veery_runtime can be imported."""

    def run(script: str, *arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", _site() + _WITHOUT + script, str(ROOT / "runtime"), *map(str, arguments)],
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


def _site() -> str:
    """Third-party packages without `.pth` files: those of editable installations would import their finders first."""
    paths = [p for p in sys.path if p.endswith("site-packages")]
    return f"import sys; sys.path += {paths!r}\n"
