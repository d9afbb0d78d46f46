"""Derivatives of all functions of veery.numpy: forward mode against numerical differences, reverse against forward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from function_table import ROWS, Row, operands, public_functions
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward, check_second_order

import veery.numpy as jnp
from veery._core import tree
from veery._core.avals import aval_of
from veery._core.config import enable_x64
from veery._core.jaxpr import eval_jaxpr
from veery._transforms.staging import stage

pytestmark = pytest.mark.slow

RECORDED = json.loads(Path(__file__).with_name("function_table.json").read_text())

# Their results are integers or bools, or do not depend on operands.
DISCRETE = frozenset(
    """
    all allclose any argmax argmin argsort argwhere array_equal array_equiv bitwise_and bitwise_count bitwise_invert
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor count_nonzero digitize equal flatnonzero
    gcd greater greater_equal histogram2d histogramdd invert iscomplex iscomplexobj isclose isfinite isin isinf isnan
    isneginf isposinf isreal isrealobj isscalar iterable lcm left_shift less less_equal lexsort linalg.matrix_rank
    logical_and logical_not logical_or logical_xor nanargmax nanargmin ndim nonzero not_equal packbits
    ravel_multi_index right_shift searchsorted shape signbit size unpackbits unravel_index
    """.split()
)
# They have no row: their results depend on no numbers, or not on numbers that may be traced.
CONSTANT = frozenset(
    """
    array_repr array_str bartlett blackman broadcast_shapes can_cast diag_indices diag_indices_from einsum_path
    from_dlpack frombuffer fromfile fromfunction fromiter fromstring get_printoptions hamming hanning indices isdtype
    issubdtype load mask_indices printoptions promote_types result_type save savez set_printoptions tril_indices
    tril_indices_from trim_zeros triu_indices triu_indices_from
    """.split()
)
# Differentiated in test_polynomials.py.
ELSEWHERE = frozenset({"polyfit", "roots"})
# The derivatives of eigenvalues have eigenvectors in them, and those of general matrices have none, as in JAX.
FIRST_ORDER = frozenset({"linalg.eigvals"})
# They have a row that computes in 32 bits, besides those that do not.
NARROW = frozenset({"sum", "prod", "mean", "astype"})
# JAX gives nextafter and spacing derivatives that are not those of neighbouring numbers; it has no fix.
EXEMPT = frozenset({"nextafter", "spacing", "fix", "linalg.eig"})


def is_inexact(row: Row, recorded: list[str], dtype: str) -> bool:
    """Whether JAX takes operands of the dtype, and the results are floats or complex."""
    outcome = recorded[1 + row.dtypes.index(dtype)] if dtype in row.dtypes else ""
    return "float" in outcome or "complex" in outcome


SMOOTH = [
    pytest.param(row, is_inexact(row, recorded, "complex64"), id=f"{row.name}{i}")
    for i, (row, recorded) in enumerate(zip(ROWS, RECORDED))
    if is_inexact(row, recorded, "float32") and row.name not in EXEMPT
]


def test_every_function_is_differentiated_or_discrete():
    rows = {row.name for row in ROWS}
    assert rows - {p.values[0].name for p in SMOOTH} - EXEMPT == DISCRETE
    assert public_functions(jnp) - rows - ELSEWHERE == CONSTANT


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row, of_complex", SMOOTH)
def test_derivatives(row, of_complex):
    with enable_x64(True):
        check_derivatives(row, "float64")
        if of_complex and row.name != "sign":  # in JAX that of a complex number has no derivative
            check_derivatives(row, "complex128")


def check_derivatives(row: Row, dtype: str) -> None:
    xs = operands(dtype, row.shapes[0], row.domain)
    fun, wanted = joined(row, xs), range(len(xs))
    with numpy_evaluation():
        if fun(*xs).dtype not in (np.float64, np.complex128):
            assert row.name in NARROW  # numerical differences say nothing of what a call computes in 32 bits
            return
        check_forward(fun, xs, wanted)
        check_backward(fun, xs, wanted)
        if dtype == "float64" and row.name not in FIRST_ORDER:
            check_second_order(fun, xs, wanted)


def joined(row: Row, xs: list[np.ndarray]) -> Any:
    """A function of the row's operands whose result is all its inexact results, as one array."""

    def leaves(*xs: Any) -> list[Any]:
        outs = [jnp.ravel(x) for x in tree.tree_leaves(row.call(jnp, *xs)) if jnp.issubdtype(x.dtype, jnp.inexact)]
        return [jnp.concatenate(outs)]

    closed = stage(leaves, [aval_of(x) for x in xs])
    return lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)[0]
