"""Run the Array API standard's test suite on veery.numpy (see README.md).

python tests/numpy/array_api/run.py SUITE [--interpreted] [arguments of pytest]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1]


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    suite, *rest = arguments
    plugins = ["-p", "without_shrinking"]
    if "--interpreted" in rest:
        plugins += ["-p", "without_compiler"]
    command = [sys.executable, "-m", "pytest", "array_api_tests", *plugins, "--disable-deadline", "--derandomize"]
    command += ["--xfails-file", str(HERE / "xfails.txt"), *(a for a in rest if a != "--interpreted")]
    sources = [str(TESTS.parent / folder) for folder in ("frontend", "lowering", "runtime")]
    path = os.pathsep.join([str(HERE), str(TESTS), *sources, os.environ.get("PYTHONPATH", "")])
    settings = {"ARRAY_API_TESTS_MODULE": "veery.numpy", "VEERY_ENABLE_X64": "1", "PYTHONPATH": path}
    return subprocess.call(command, cwd=suite, env=os.environ | settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
