"""Records JAX's functions: function_table.json and recorded_expressions.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/numpy/record.py [--check]

The expressions are those that are in the file: to record more, put them in with any value.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from function_table import ROWS, Row, operands
from support.recording import arguments, keep

HERE = Path(__file__).parent


def dtypes_of(row: Row, dtype: str, shapes: Any) -> str:
    """The dtypes of a row's results, with * those of weak type, or the name of the exception.

    They are those of the traced function: the types of a function's results are JAX's own even where a CPU cannot
    compute them, as `argmax` of complex numbers, unless JAX says that this is not implemented.
    """
    try:
        traced = jax.jit(lambda *xs: row.call(jnp, *xs)).trace(*operands(dtype, shapes, row.domain))
    except Exception as error:
        return type(error).__name__
    try:
        traced.lower()
    except NotImplementedError as error:
        return type(error).__name__
    except TypeError:
        pass
    return " ".join(f"{x.dtype}{'*' * x.weak_type}" for x in jax.tree.leaves(traced.out_info))


def function_table() -> str:
    lines = []
    for row in ROWS:
        lines.append(json.dumps([row.name, *(dtypes_of(row, *case) for case in row.cases())]))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def expressions() -> str:
    """In a process of its own, as the test evaluates them."""
    known = json.loads((HERE / "recorded_expressions.json").read_text())
    command = [sys.executable, str(HERE / "expressions.py"), "jax"]
    return subprocess.run(command, input="\n".join(known), capture_output=True, text=True, check=True).stdout


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")
    keep(HERE / "function_table.json", function_table(), options)
    keep(HERE / "recorded_expressions.json", expressions(), options)


if __name__ == "__main__":
    main()
