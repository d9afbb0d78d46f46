"""Small expressions in all modules: values, dtypes, weak types and exceptions as recorded from JAX 0.10.

They are evaluated in a process of their own, without the compiler (see support/interpreted_programs.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.outcomes import difference

HERE = Path(__file__).parent
RECORDED: dict[str, dict[str, Any]] = json.loads((HERE / "recorded_functions.json").read_text())


@pytest.fixture(scope="module")
def ours() -> Any:
    run = subprocess.run(
        [sys.executable, str(HERE / "evaluate.py"), "veery", "--interpreted"],
        input=json.dumps(RECORDED),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("module", RECORDED)
def test_outcomes_are_those_of_jax(module: str, ours: Any) -> None:
    found = difference(ours[module], RECORDED[module], 1e-4)
    assert not found, found
