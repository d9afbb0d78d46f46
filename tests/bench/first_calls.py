"""First calls of programs of many kinds, with an empty cache and in a second process, and later calls, beside JAX.

    python tests/bench/first_calls.py [--jax-python PYTHON] [--rounds N] [--json FILE]

Each library runs in processes of its own, in turn; the least of the rounds is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs.py")
Timings = dict[str, list[float]]  # of the first call, and of later ones


def timings(python: str, library: str, **environment: str) -> Timings:
    command = [python, str(PROGRAMS), library]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if process.returncode:
        sys.exit(f"the programs of {library} failed:\n{process.stderr}")
    found: Timings = json.loads(process.stdout.splitlines()[-1])
    return found


def least(rounds: list[Timings]) -> Timings:
    return {name: [min(each[name][k] for each in rounds) for k in range(2)] for name in rounds[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jax-python", help="an interpreter of an environment that has JAX")
    parser.add_argument("--rounds", type=int, default=2, help="how often each runs")
    parser.add_argument("--json", type=Path, help="also write the timings, in seconds, to this file")
    options = parser.parse_args()

    rounds: dict[str, list[Timings]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            rounds.setdefault("veery", []).append(timings(sys.executable, "veery", VEERY_CACHE_DIR=cache))
            again = timings(sys.executable, "veery", VEERY_CACHE_DIR=cache)
            rounds.setdefault("veery, second process", []).append(again)
        if options.jax_python:
            rounds.setdefault("jax", []).append(timings(options.jax_python, "jax", JAX_PLATFORMS="cpu"))
    found = {library: least(each) for library, each in rounds.items()}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))

    first, again, jax = found["veery"], found["veery, second process"], found.get("jax")
    width = max(map(len, first))
    print(
        f"{'first call, ms':<{width}} {'veery':>9} {'2nd process':>12}" + f"{'JAX':>9} {'ratio':>6}" * bool(jax), end=""
    )
    print(f"   {'later, us':>10}" + f"{'JAX':>10} {'ratio':>6}" * bool(jax))
    for name, (call, later) in first.items():
        line = f"{name:<{width}} {1e3 * call:>9.1f} {1e3 * again[name][0]:>12.1f}"
        if jax:
            line += f"{1e3 * jax[name][0]:>9.1f} {call / jax[name][0]:>6.2f}"
        line += f"   {1e6 * later:>10.1f}"
        if jax:
            line += f"{1e6 * jax[name][1]:>10.1f} {later / jax[name][1]:>6.2f}"
        print(line)
    if jax:
        for what, k in (("first calls", 0), ("later calls", 1)):
            ratios = [first[name][k] / jax[name][k] for name in first]
            mine, theirs = (sum(each[name][k] for name in first) for each in (first, jax))
            print(f"{what}: {statistics.geometric_mean(ratios):.2f} of JAX's time in the geometric mean, ", end="")
            print(f"at most {max(ratios):.1f}; in sum {1e3 * mine:.1f} ms, JAX's {1e3 * theirs:.1f} ms")


if __name__ == "__main__":
    main()
