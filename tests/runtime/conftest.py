"""Shared by the runtime's tests: a device, and Python processes for what may crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import veery_runtime

ROOT = Path(__file__).parents[2]


@pytest.fixture
def device() -> veery_runtime.Device:
    return veery_runtime.devices("cpu")[0]


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a process of its own, with the runtime and the tests' programs on its path."""

    def run(script: str, *arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, (ROOT / "runtime", Path(__file__).parent)))
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
            env={**os.environ, "PYTHONPATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
