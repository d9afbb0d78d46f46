"""Records in function_table.json what the rows of function_table.py give in JAX. Run it where JAX is installed."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import jax

sys.path.insert(0, str(Path(__file__).parent))
from function_table import ROWS, operands


def outcome(row, dtype, shapes) -> str:
    """The dtypes of the results, with * those of weak type; or the name of the exception."""
    try:
        outs = jax.eval_shape(lambda *xs: row.call(jax.numpy, *xs), *operands(dtype, shapes, row.domain))
    except Exception as error:
        return type(error).__name__
    return " ".join(f"{x.dtype}{'*' * x.weak_type}" for x in jax.tree.leaves(outs))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    recorded = [[row.name, *(outcome(row, *case) for case in row.cases())] for row in ROWS]
    lines = ",\n".join(json.dumps(line) for line in recorded)
    Path(__file__).with_name("function_table.json").write_text(f"[\n{lines}\n]\n")
