"""Records JAX's functions of SciPy: recorded_functions.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/scipy/record.py [--check]

The expressions are those that are in the file: to record more, put them in with any value.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.recording import arguments, keep

HERE = Path(__file__).parent


def main() -> None:
    options = arguments(__doc__)
    path = HERE / "recorded_functions.json"
    command = [sys.executable, str(HERE / "evaluate.py"), "jax"]
    keep(
        path,
        subprocess.run(command, input=path.read_text(), capture_output=True, text=True, check=True).stdout,
        options,
    )


if __name__ == "__main__":
    main()
