"""Records JAX's functions: function_table.json, signatures.json and recorded_expressions.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/numpy/record.py [--check]

The expressions are those that are in the file: to record more, put them in with any value.
"""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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


NAMESPACES = """
    numpy numpy.linalg numpy.fft lax.linalg lax random nn nn.initializers tree_util tree dtypes veery Array ufunc at
""".split()


class _Text(str):
    """A default as it is written."""

    __repr__ = str.__str__


def written(default: Any) -> str:
    """A default as text; "..." for what is private to JAX."""
    if isinstance(default, type):
        return repr(default.__name__)
    if isinstance(default, np.generic):
        return repr(default.item())
    plain = default is None or type(default) in (bool, int, float, complex, str, tuple)
    return repr(default) if plain or default == frozenset() else "..."


def signature_of(owner: Any, name: str) -> str:
    if isinstance(inspect.getattr_static(type(owner), name, None), property):
        return "property"
    value = getattr(owner, name)
    if isinstance(value, type):
        return "class"
    if inspect.ismodule(value):
        return "module"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # no function, or one that has no signature
        return "value"
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    parameters = [p if p.default is p.empty else p.replace(default=_Text(written(p.default))) for p in parameters]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def signatures() -> str:
    instances = {"Array": jnp.ones(1), "ufunc": jnp.add, "at": jnp.ones(1).at[0], "veery": jax}
    spaces = []
    for space in NAMESPACES:
        owner = instances[space] if space in instances else importlib.import_module(f"jax.{space}")
        names = {name: signature_of(owner, name) for name in dir(owner) if not name.startswith("_")}
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(text)}" for name, text in names.items())
        spaces.append(f"{json.dumps(space)}: {{\n{lines}\n}}")
    return "{\n" + ",\n".join(spaces) + "\n}\n"


def expressions() -> str:
    """In a process of its own, as the test evaluates them."""
    known = json.loads((HERE / "recorded_expressions.json").read_text())
    command = [sys.executable, str(HERE / "expressions.py"), "jax"]
    return subprocess.run(command, input="\n".join(known), capture_output=True, text=True, check=True).stdout


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")
    keep(HERE / "signatures.json", signatures(), options)
    keep(HERE / "function_table.json", function_table(), options)
    keep(HERE / "recorded_expressions.json", expressions(), options)


if __name__ == "__main__":
    main()
