"""First calls of programs of many kinds, with an empty cache and in a second process, and later calls, beside JAX.

    python tests/bench/first_calls.py [--jax-python PYTHON] [--rounds N] [--json FILE]

veery runs with each of its compilers: IREE's, XLA's if its plugin is installed, and the better of both ("auto", whose
later calls are those after it has decided). Each runs in processes of its own, in turn; the least of the rounds is
shown.
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
COMPILERS = ("iree", "xla", "auto")
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


def has_xla() -> bool:
    """Whether there is a plugin for XLA on this processor."""
    program = "import veery; veery.devices('xla')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def measured(rounds: int, jax_python: str | None) -> dict[str, Timings]:
    """The timings of all columns, by their names."""
    found: dict[str, list[Timings]] = {}
    compilers = COMPILERS if has_xla() else COMPILERS[:1]
    for _ in range(rounds):
        for compiler in compilers:
            with tempfile.TemporaryDirectory() as cache:
                chosen = {"VEERY_CACHE_DIR": cache, "VEERY_COMPILER_OPTIONS": f"compiler={compiler}"}
                found.setdefault(compiler, []).append(timings(sys.executable, "veery", **chosen))
                again = timings(sys.executable, "veery", **chosen)
                found.setdefault(f"{compiler}, second process", []).append(again)
        if jax_python:
            found.setdefault("jax", []).append(timings(jax_python, "jax", JAX_PLATFORMS="cpu"))
    return {column: least(each) for column, each in found.items()}


def show(found: dict[str, Timings], title: str, columns: list[str], k: int, factor: float) -> None:
    """A table of one kind of calls, and the columns' ratios to JAX."""
    names = list(found["iree"])
    width = max(map(len, (*names, title)))
    print(f"{title:<{width}}", *(f"{column:>22}" for column in columns))
    for name in names:
        print(f"{name:<{width}}", *(f"{factor * found[column][name][k]:>22.1f}" for column in columns))
    for column in columns if "jax" in found else ():
        ratios = [found[column][name][k] / found["jax"][name][k] for name in names]
        total = sum(found[column][name][k] for name in names)
        mean = statistics.geometric_mean(ratios)
        print(f"{column}: {mean:.2f} of JAX's time in the geometric mean, at most {max(ratios):.1f}; ", end="")
        print(f"in sum {1e3 * total:.1f} ms")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jax-python", help="an interpreter of an environment that has JAX")
    parser.add_argument("--rounds", type=int, default=2, help="how often each runs")
    parser.add_argument("--json", type=Path, help="also write the timings, in seconds, to this file")
    options = parser.parse_args()

    found = measured(options.rounds, options.jax_python)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    show(found, "first call, ms", list(found), 0, 1e3)
    show(found, "later calls, us", [column for column in found if "second" not in column], 1, 1e6)


if __name__ == "__main__":
    main()
