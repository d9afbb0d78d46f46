"""Hundreds of small expressions: values, dtypes, weak types and exceptions as recorded from JAX 0.10.

They are evaluated in a process of their own, without the compiler (see support/interpreted_programs.py).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED: dict[str, Any] = json.loads((HERE / "recorded_expressions.json").read_text())


def agree(ours: Any, theirs: Any, tolerance: float = 2e-5) -> bool:
    """Whether two outcomes are the same, floats to about the precision of their type."""
    if isinstance(theirs, list) and isinstance(ours, list):
        if theirs and isinstance(theirs[0], str) and "float16" in theirs[0]:
            tolerance = 0.01
        return len(ours) == len(theirs) and all(agree(a, b, tolerance) for a, b in zip(ours, theirs))
    if isinstance(theirs, float) and isinstance(ours, float):
        if math.isnan(theirs) or math.isnan(ours):
            return math.isnan(theirs) and math.isnan(ours)
        return ours == theirs or abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))
    return type(ours) is type(theirs) and bool(ours == theirs)


def test_outcomes_are_those_of_jax():
    run = subprocess.run(
        [sys.executable, str(HERE / "expressions.py"), "veery", "--interpreted"],
        input="\n".join(RECORDED),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.returncode == 0, run.stderr
    ours = json.loads(run.stdout)
    wrong = {e: (ours[e], theirs) for e, theirs in RECORDED.items() if not agree(ours[e], theirs)}
    lines = [f"{e}\n    gave     {a}\n    expected {b}" for e, (a, b) in wrong.items()]
    assert not wrong, f"{len(wrong)} of {len(RECORDED)} differ:\n" + "\n".join(lines)
