"""Records what JAX does in the cases of this folder: recorded/*.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/experimental/record.py [--check] [theme...]
"""

from __future__ import annotations

import importlib
from pathlib import Path

import jax
from support.recorded import record
from support.recording import arguments, keep


def main() -> None:
    options = arguments(__doc__)
    folder = Path(__file__).parent
    for path in sorted(folder.glob("cases_*.py")):
        theme = path.stem.removeprefix("cases_")
        if not options.themes or theme in options.themes:
            keep(folder / f"recorded/{theme}.json", record(jax, importlib.import_module(path.stem).CASES), options)


if __name__ == "__main__":
    main()
