"""Timings of veery beside NumPy's and JAX's, in one run on one machine.

    python tests/bench/run.py [--jax-python PYTHON] [--json FILE]

Each library runs in a process of its own; veery runs twice, first with an empty cache of compiled programs, with IREE,
and, where its plugin is installed, with XLA, and with the better of both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from beside import has_xla

CASES = Path(__file__).with_name("cases.py")


def timings(python: str, library: str, **environment: str) -> dict[str, float]:
    """The timings of one library, in seconds; Python keeps its bytecode, as it does of what is installed."""
    environment = {**os.environ, **environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.run([python, str(CASES), library], capture_output=True, text=True, env=environment)
    if process.returncode:
        sys.exit(f"the timings of {library} failed:\n{process.stderr}")
    sys.stderr.write(process.stderr)
    return json.loads(process.stdout.splitlines()[-1])


def as_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.2f} {unit}"
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jax-python", help="an interpreter of an environment that has JAX")
    parser.add_argument("--json", type=Path, help="also write the timings, in seconds, to this file")
    options = parser.parse_args()

    columns = {"numpy": timings(sys.executable, "numpy")}
    with tempfile.TemporaryDirectory() as cache:
        columns["veery, cold cache"] = timings(sys.executable, "veery", VEERY_CACHE_DIR=cache)
        columns["veery"] = timings(sys.executable, "veery", VEERY_CACHE_DIR=cache)
    for compiler, title in (("xla", "veery by XLA"), ("auto", "veery, the better")) if has_xla() else ():
        with tempfile.TemporaryDirectory() as cache:
            chosen = {"VEERY_CACHE_DIR": cache, "VEERY_COMPILER_OPTIONS": f"compiler={compiler}"}
            timings(sys.executable, "veery", **chosen)
            columns[title] = timings(sys.executable, "veery", **chosen)
    if options.jax_python:
        columns["jax"] = timings(options.jax_python, "jax")

    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    width = max(map(len, names))
    print(f"{os.cpu_count()} cores")
    print(" " * width, *(f"{title:>18}" for title in columns))
    for name in names:
        print(f"{name:<{width}}", *(f"{as_text(column.get(name)):>18}" for column in columns.values()))
    if options.json:
        options.json.write_text(json.dumps(columns, indent=1))


if __name__ == "__main__":
    main()
