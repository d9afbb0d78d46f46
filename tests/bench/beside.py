"""Programs of many kinds beside JAX and NumPy: first calls with an empty cache and in a second process, later calls.

    python tests/bench/beside.py [--jax-python PYTHON] [--only TEXT] [--rounds N] [--json FILE] [--baseline FILE]

veery runs with each of its compilers: IREE's, XLA's if its plugin is installed, and the better of both ("auto", whose
later calls are those after it has decided). Each runs in processes of its own, in turn; the least of the rounds is
shown. What the programs give is compared with JAX's.
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
from typing import Any

import numpy as np

COMPILERS = ("iree", "xla", "auto")
SLOWER = 1.1  # than before, by which a program counts as slower
TOLERANCE = 5e-3  # of the largest number of a result: sums of many terms in another order

Timings = dict[str, dict[str, float]]  # of a program: "first", "later", "peak"


def timings(python: str, library: str, only: str, results: Path, **environment: str) -> Timings:
    """The timings of a library in a process of its own, and what its programs give as a file."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    command = [python, "-m", "programs", library, "--only", only, "--results", str(results)]
    process = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path, **environment}
    )
    if process.returncode:
        sys.exit(f"the programs of {library} failed:\n{process.stderr}")
    found: Timings = json.loads(process.stdout.splitlines()[-1])
    return found


def least(rounds: list[Timings]) -> Timings:
    return {name: {k: min(each[name][k] for each in rounds) for k in rounds[0][name]} for name in rounds[0]}


def has_xla() -> bool:
    """Whether there is a plugin for XLA on this processor."""
    program = "import veery; veery.devices('xla')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Timings]:
    """The timings of all columns, by their names; what they gave is in the folder."""
    found: dict[str, list[Timings]] = {}

    def run(column: str, python: str, library: str, **environment: str) -> None:
        results = folder / f"{column}.npz"
        found.setdefault(column, []).append(timings(python, library, options.only, results, **environment))

    compilers = COMPILERS if has_xla() else COMPILERS[:1]
    for _ in range(options.rounds):
        for compiler in compilers:
            with tempfile.TemporaryDirectory() as cache:
                chosen = {"VEERY_CACHE_DIR": cache, "VEERY_COMPILER_OPTIONS": f"compiler={compiler}"}
                run(compiler, sys.executable, "veery", **chosen)
                run(f"{compiler}, second process", sys.executable, "veery", **chosen)
        run("numpy", sys.executable, "numpy")
        if options.jax_python:
            run("jax", options.jax_python, "jax", JAX_PLATFORMS="cpu")
    return {column: least(each) for column, each in found.items()}


def show(found: dict[str, Timings], title: str, columns: list[str], k: str, factor: float, wanted: float) -> None:
    """A table of one kind of calls, and the columns' ratios to JAX, which shall be no greater than what is wanted."""
    names = list(found["iree"])
    width = max(map(len, (*names, title)))
    print(f"{title:<{width}}", *(f"{column:>22}" for column in columns))
    for name in names:
        cells = [found[column].get(name, {}).get(k) for column in columns]
        print(f"{name:<{width}}", *(f"{'' if x is None else f'{factor * x:.1f}':>22}" for x in cells))
    for column in columns if "jax" in found else ():
        ratios = {name: found[column][name][k] / found["jax"][name][k] for name in names if name in found[column]}
        if not ratios:
            continue
        mean, above = statistics.geometric_mean(ratios.values()), sum(ratio > wanted for ratio in ratios.values())
        worst = max(ratios, key=lambda name: ratios[name])
        print(
            f"{column}: {mean:.2f} of JAX's time in the geometric mean of {len(ratios)}, above {wanted:g} {above}, "
            f"at most {ratios[worst]:.1f} ({worst})"
        )
    print()


def show_differences(folder: Path, columns: list[str]) -> None:
    """Which results are not JAX's."""
    theirs = np.load(folder / "jax.npz")
    for column in columns:
        ours = np.load(folder / f"{column}.npz")
        for name in ours.files:
            a, b = np.asarray(ours[name]), np.asarray(theirs[name])
            scale = np.abs(b[np.isfinite(b)]).max(initial=0)
            if a.shape != b.shape or not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
                print(f"{column}: {name} is not what JAX gives")


def show_slower(found: dict[str, Timings], before: dict[str, Timings]) -> None:
    """What takes longer than it did."""
    for column in sorted(found.keys() & before.keys()):
        for name in found[column].keys() & before[column].keys():
            ratio = found[column][name]["later"] / before[column][name]["later"]
            if ratio > SLOWER:
                print(f"{column}: {name} takes {ratio:.2f} of the time it took")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jax-python", help="an interpreter of an environment that has JAX")
    parser.add_argument("--only", default="", help="programs whose names have this text")
    parser.add_argument("--rounds", type=int, default=2, help="how often each runs")
    parser.add_argument("--json", type=Path, help="also write the timings, in seconds and bytes, to this file")
    parser.add_argument("--baseline", type=Path, help="such a file of before: tell what takes a tenth longer now")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        found = measured(options, Path(folder))
        columns = [column for column in found if "second" not in column]
        show(found, "first call, ms", [column for column in found if column != "numpy"], "first", 1e3, wanted=4)
        show(found, "later calls, us", columns, "later", 1e6, wanted=1.2)
        if options.jax_python:
            show_differences(Path(folder), [column for column in columns if column not in ("numpy", "jax")])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    if options.baseline:
        before: dict[str, Any] = json.loads(options.baseline.read_text())
        show_slower(found, before)


if __name__ == "__main__":
    main()
