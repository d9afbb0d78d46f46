"""Hundreds of small expressions: values, dtypes, weak types and exceptions as recorded from JAX 0.10.

They are evaluated in a process of their own, without the compiler (see support/interpreted_programs.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.outcomes import difference

HERE = Path(__file__).parent
RECORDED: dict[str, Any] = json.loads((HERE / "recorded_expressions.json").read_text())


def test_outcomes_are_those_of_jax():
    run = subprocess.run(
        [sys.executable, str(HERE / "expressions.py"), "veery", "--interpreted"],
        input="\n".join(RECORDED),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    found = difference(json.loads(run.stdout), RECORDED)
    assert not found, found
