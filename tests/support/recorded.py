"""Cases that are run by JAX and by veery: functions of the package, whose outcome is recorded and compared.

An outcome is a pytree of arrays and plain values, or an exception.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Case = Callable[[Any], Any]


def module(jax: Any, name: str) -> Any:
    """A submodule of the package, as module(jax, "experimental.ode")."""
    return importlib.import_module(f"{jax.__name__}.{name}")


def outcome(jax: Any, case: Case) -> dict[str, Any]:
    """What a case gives, as JSON."""
    try:
        result = case(jax)
    except Exception as error:
        return {"raises": type(error).__name__}
    leaves, tree = jax.tree_util.tree_flatten(result)
    return {"tree": str(tree), "leaves": [_described(jax, leaf) for leaf in leaves]}


def _described(jax: Any, leaf: Any) -> Any:
    if isinstance(leaf, (str, bool, int)):
        return leaf
    kind = type(leaf).__name__ if isinstance(leaf, float) else "array"
    weak = bool(getattr(getattr(leaf, "aval", None), "weak_type", False))
    array = np.asarray(leaf)
    data = base64.b64encode(array.tobytes()).decode()
    return {"kind": kind, "dtype": array.dtype.name, "weak": weak, "shape": list(array.shape), "data": data}


def record(jax: Any, cases: dict[str, Case]) -> str:
    """The outcomes of cases, for a file."""
    return json.dumps({name: outcome(jax, case) for name, case in cases.items()}, indent=0) + "\n"


def read(path: Path) -> dict[str, Any]:
    """The outcomes in a file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def check(jax: Any, case: Case, expected: dict[str, Any], rtol: float = 2e-6, atol: float = 1e-6) -> None:
    """Compare what a case gives with what was recorded of it; floats within the tolerances, in float64."""
    if "raises" in expected:
        try:
            case(jax)
        except Exception as error:
            assert expected["raises"] in [cls.__name__ for cls in type(error).__mro__], repr(error)
            assert str(error) or expected["raises"] == "AssertionError"
            return
        raise AssertionError(f"JAX raises {expected['raises']}")
    result = case(jax)
    leaves, tree = jax.tree_util.tree_flatten(result)
    assert str(tree) == expected["tree"], f"{tree} is not {expected['tree']}"
    for leaf, wanted in zip(leaves, expected["leaves"], strict=True):
        found = _described(jax, leaf)
        if not isinstance(wanted, dict):
            assert found == wanted
            continue
        same = {key: found[key] for key in ("kind", "dtype", "weak", "shape")}
        expected_same = {key: wanted[key] for key in same}
        assert same == expected_same, (same, expected_same)
        np.testing.assert_allclose(_value(found), _value(wanted), rtol=rtol, atol=atol)


def _value(described: dict[str, Any]) -> Any:
    import ml_dtypes

    name = described["dtype"]
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    value = np.frombuffer(base64.b64decode(described["data"]), dtype).reshape(described["shape"])
    return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
