"""All functions of veery.numpy over edge shapes and dtypes: values against NumPy in float64, dtypes against JAX's.

Where JAX refuses operands, so must veery, or do as NumPy does. function_table.json records what JAX 0.10.2 gives for
the cases of each row: the dtypes of the results, with * those of weak type, or the name of the exception.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from function_table import ROWS, Row, operands, public_functions
from support.interpreted import interpreted_with_avals

import veery.numpy as jnp
from veery._core import tree

pytestmark = pytest.mark.slow

RECORDED = json.loads(Path(__file__).with_name("function_table.json").read_text())
IDS = [f"{row.name}{i}" for i, row in enumerate(ROWS)]


# Functions of no arrays, or of known values only: NumPy's own results.
CALLS = [
    lambda np: np.indices((2, 3)),
    lambda np: np.indices((2, 0), sparse=True),
    lambda np: np.diag_indices(3, 2),
    lambda np: np.diag_indices_from(np.eye(2)),
    lambda np: np.tril_indices(3, -1, 4),
    lambda np: np.triu_indices(3, 1, 2),
    lambda np: np.tril_indices_from(np.eye(3), 1),
    lambda np: np.triu_indices_from(np.eye(3, 2)),
    lambda np: (np.bartlett(7), np.blackman(1), np.hamming(0), np.hanning(6)),
    lambda np: np.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int),
    lambda np: np.broadcast_shapes((2, 1), (3,), ()),
    lambda np: np.trim_zeros(_ZEROS),
    lambda np: np.trim_zeros(_ZEROS, "f"),
    lambda np: np.trim_zeros(0 * _ZEROS),
    lambda np: (np.iterable([1]), np.iterable(1)),
    lambda np: np.unravel_index(np.array([100, 7], "int8"), (20, 20)),
    lambda np: np.unravel_index(np.array([250, 7], "uint8"), (3, 300)),
    lambda np: (np.ogrid[0:3, 0:1:2j], np.mgrid[1:4]),
    lambda np: np.ix_(np.array([1, 2]), np.array([0])),
]
_ZEROS = np.array([0, 0, 1, 0, 2, 0])


@pytest.mark.parametrize("call", CALLS)
def test_calls_without_operands(call):
    leaves = [np.asarray(x) for x in tree.tree_leaves(interpreted_with_avals(lambda: jax_arrays(call(jnp)))[0])]
    expected = [np.asarray(x) for x in tree.tree_leaves(call(np)) if not isinstance(x, str)]
    assert not differences(leaves, expected)


def jax_arrays(x: Any) -> Any:
    return tree.tree_map(jnp.asarray, x)


def test_calls_of_known_values():
    assert not differences(
        list(map(np.asarray, jnp.mask_indices(3, jnp.triu, 1))), list(np.mask_indices(3, np.triu, 1))
    )
    path, _ = jnp.einsum_path("ij,jk,kl->il", np.ones((9, 9)), np.ones((9, 9)), np.ones((9, 1)))
    assert path == [(1, 2), (0, 1)]


# Functions that are no calls on arrays with one result to expect: the file that tests each.
ELSEWHERE = {
    "test_function_table.py": "mask_indices einsum_path",
    "test_input_output.py": """
        array_repr array_str printoptions set_printoptions get_printoptions save savez load from_dlpack frombuffer
        fromfile fromiter fromstring
    """,
    "../core/test_dtypes.py": "can_cast isdtype issubdtype promote_types result_type",
    "test_polynomials.py": "polyfit roots",
}


def test_every_public_function_has_a_row_or_its_own_test():
    called = {name for call in CALLS for name in call.__code__.co_names}
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    assert public_functions(jnp) - {row.name for row in ROWS} - called == elsewhere


@pytest.mark.parametrize("file", ELSEWHERE)
def test_files_have_the_tests_that_are_said_to_be_there(file):
    nodes = ast.walk(ast.parse((Path(__file__).parent / file).read_text()))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    assert set(ELSEWHERE[file].split()) - used == set()


def test_the_record_is_of_this_table():
    assert [(line[0], len(line) - 1) for line in RECORDED] == [(row.name, len(row.cases())) for row in ROWS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row, recorded", list(zip(ROWS, RECORDED)), ids=IDS)
def test_values_and_dtypes(row, recorded):
    wrong = [w for case, expected in zip(row.cases(), recorded[1:]) for w in _wrongs(row, *case, expected)]
    assert not wrong, "\n".join(wrong)


def _wrongs(row: Row, dtype: str, shapes: Any, expected: str) -> list[str]:
    """What is wrong with a row's results in this dtype, of these shapes."""
    xs = operands(dtype, shapes, row.domain)
    context = f"{row.name} of {dtype}, {shapes}:"
    try:
        out, avals = interpreted_with_avals(lambda *xs: row.call(jnp, *xs), *xs)
    except Exception as error:
        names = [c.__name__ for c in type(error).__mro__]
        return [] if expected in names else [f"{context} {type(error).__name__}: {error}, expected {expected}"]
    leaves = tree.tree_leaves(out)
    values = reference(row, xs, any(x.dtype.kind not in "biu" for x in leaves))
    actual = " ".join(f"{a.dtype}{'*' * a.weak_type}" for a in avals)
    if actual != expected and not (expected.endswith("Error") and values is not None):
        return [f"{context} gave {actual}, expected {expected}"]
    return [f"{context} {w}" for w in differences(leaves, values)]


def reference(row: Row, xs: list[np.ndarray], inexact: bool) -> list[np.ndarray] | None:
    """What NumPy computes from the operands in float64, complex128 or int64; None where it refuses them.

    Where the result is inexact integers become floats first: of small ones NumPy would compute in float16.
    """
    call = row.reference or row.call
    if row.exact:
        xs = [x.astype(np.float32) if x.dtype.kind in "biu" and inexact else x for x in xs]
    else:
        xs = [widened(x, inexact) for x in xs]
    try:
        out = call(np, *xs)
    except (TypeError, ValueError, IndexError):
        return None
    return [np.asarray(x) for x in (out if isinstance(out, (tuple, list)) else [out])]


def widened(x: np.ndarray, inexact: bool = True) -> np.ndarray:
    if x.dtype.kind in "biu" and not inexact:
        return x if x.dtype == bool else x.astype(np.int64)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def differences(actual: list[np.ndarray], expected: list[np.ndarray] | None) -> list[str]:
    if expected is None:
        return []
    if [x.shape for x in actual] != [x.shape for x in expected]:
        return [f"shapes {[x.shape for x in actual]}, expected {[x.shape for x in expected]}"]
    return [f"gave\n{a}\nexpected\n{e}" for a, e in zip(actual, expected) if not close(a, e)]


def close(a: np.ndarray, e: np.ndarray) -> bool:
    if a.dtype.kind in "biu":
        return np.array_equal(a, e.astype(a.dtype))
    tolerance = 16 * float(ml_dtypes.finfo(a.dtype).eps)
    a, e = widened(a), e.astype(widened(a).dtype)
    scale = np.max(np.abs(e[np.isfinite(e)]), initial=1.0)
    return np.allclose(a, e, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
