"""`veery bench --first-call`: what the call of a function takes that was never compiled, each in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from veery._cli import functions
from veery._cli.application import fail
from veery._cli.arguments import concrete

LATER = 5  # calls after the first, of which the shortest counts
STATES = ("nothing known", "program on disk")


def measured(request: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """Seconds of the first and of later calls with an empty folder of programs, and in a second process with that one.

    Args:
        request: the function and what is done with it, as `functions.request` tells.
        rounds: how often each is measured; the shortest counts.
    """
    found: dict[str, list[dict[str, float]]] = {state: [] for state in STATES}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="veery-first-call-") as folder:
            for state in STATES:
                found[state].append(_in_a_process(request, folder))
    return [
        {"state": state, **{name: min(each[name] for each in times) for name in times[0]}}
        for state, times in found.items()
    ]


def _in_a_process(request: dict[str, Any], folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", __name__, json.dumps(request)]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VEERY_CACHE_DIR": folder})
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["its process ended without a word"])[-1]
        fail(f"the call failed: {last.partition(': ')[2] or last}")
    times: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return times


def main() -> None:
    """Measure in this process, and print the seconds as JSON."""
    import veery

    fun, arguments = functions.requested(json.loads(sys.argv[1]))
    jitted = functions.jitted(fun, arguments)
    given = concrete(arguments)
    veery.block_until_ready((given.args, given.kwargs))
    times = []
    for _ in range(1 + LATER):
        start = time.perf_counter()
        veery.block_until_ready(jitted(*given.args, **given.kwargs))
        times.append(time.perf_counter() - start)
    print(json.dumps({"first": times[0], "later": min(times[1:])}))


if __name__ == "__main__":
    main()
