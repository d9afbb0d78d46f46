"""The estimate of work, and which programs wait for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.jaxpr_graphs import Graph, Literal

from veery_lowering.emit.work import estimate_work, is_blocking, largest_step

F, I = np.float32, np.int32


def counted_loop(limit: Any, step: int = 1) -> Graph:
    """while i < limit: i, x = i + step, x * x"""
    condition, body = Graph(((), I), ((1000,), F)), Graph(((), I), ((1000,), F))
    closed_condition = condition.closed(condition.op("lt", condition.invars[0], limit, of=np.bool_))
    i, x = body.invars
    closed_body = body.closed(body.op("add", i, Literal(step, I)), body.op("mul", x, x))
    g = Graph(((1000,), F))
    g.outvars = g.ops(
        "while", [Literal(0, I), g.invars[0]], [((), I), ((1000,), F)], cond_nconsts=0, cond_jaxpr=closed_condition,
        body_nconsts=0, body_jaxpr=closed_body,
    )  # fmt: skip
    return g


def test_counted_loops_do_not_block() -> None:
    g = counted_loop(Literal(100, I))
    assert not is_blocking(g.closed().jaxpr)
    assert estimate_work(g.closed().jaxpr) == pytest.approx(100 * 13_000, rel=0.1)
    assert estimate_work(counted_loop(Literal(100, I), step=10).closed().jaxpr) == pytest.approx(130_000, rel=0.1)


def test_loops_over_computed_conditions_block() -> None:
    condition, body = Graph(((), F)), Graph(((), F))
    closed = condition.closed(condition.op("lt", condition.invars[0], Literal(3, F), of=np.bool_))
    g = Graph(((), F))
    g.outvars = g.ops(
        "while", g.invars, [((), F)], cond_nconsts=0, cond_jaxpr=closed, body_nconsts=0,
        body_jaxpr=body.closed(body.op("mul", *body.invars * 2)),
    )  # fmt: skip
    assert is_blocking(g.closed().jaxpr)
    outer = Graph(((), F))
    outer.outvars = outer.ops("jit", outer.invars, [((), F)], jaxpr=g.closed(), name="f", inline=False)
    assert is_blocking(outer.closed().jaxpr)


def test_products_count_their_terms() -> None:
    g = Graph(((64, 32), F), ((32, 16), F))
    dims = (((1,), (0,)), ((), ()))
    g.outvars.append(g.op("dot_general", *g.invars, out=(64, 16), dimension_numbers=dims))
    assert estimate_work(g.closed().jaxpr) == 2 * 64 * 32 * 16 + 4 * (64 * 32 + 32 * 16 + 64 * 16)


def test_decompositions_count_their_products() -> None:
    """Which LAPACK computes faster than IREE's kernels would, and what each call takes besides."""
    for name, expected in (("cholesky", 10 * (80**3 // 8 + 2000)), ("svd", 10 * (20 * 80**3 // 8 + 11 * 2000))):
        g = Graph(((10, 80, 80), F))
        g.outvars.append(g.op(name, *g.invars))
        assert estimate_work(g.closed().jaxpr) == expected
    g = Graph(((80, 80), F), ((80, 3), F))
    g.outvars.append(g.op("triangular_solve", *g.invars, out=(80, 3)))
    assert estimate_work(g.closed().jaxpr) == 80 * 80 * 3 // 8 + 2000


def test_parts_count_what_is_read_of_them() -> None:
    g = Graph(((1000, 1000), F))
    part = g.op("slice", g.invars[0], out=(10, 10), start_indices=(0, 0), limit_indices=(10, 10), strides=None)
    g.outvars.append(g.op("reshape", part, out=(100,), new_sizes=(100,), dimensions=None))
    assert estimate_work(g.closed().jaxpr) == 4 * 100


@pytest.mark.parametrize("size", [1000, 6000])
def test_steps_of_loops_with_calls_count_once(size: int) -> None:
    """So do those of loops over few elements, which no threads divide."""
    body, condition = Graph(((), I), ((size,), F)), Graph(((), I), ((size,), F))
    i, x = body.invars
    called = body.op("mul", x, x)
    closed_body = body.closed(body.op("add", i, Literal(1, I)), body.op("add", called, called))
    closed_condition = condition.closed(condition.op("lt", condition.invars[0], Literal(100, I), of=np.bool_))
    g = Graph(((size,), F))
    g.outvars = g.ops(
        "while", [Literal(0, I), g.invars[0]], [((), I), ((size,), F)], cond_nconsts=0, cond_jaxpr=closed_condition,
        body_nconsts=0, body_jaxpr=closed_body,
    )  # fmt: skip
    jaxpr = g.closed().jaxpr
    call = next(eqn for eqn in closed_body.jaxpr.eqns if eqn.primitive.name == "mul")
    one_addition = 3 * 4 * size + size
    assert largest_step(jaxpr, ()) == (one_addition if size == 1000 else estimate_work(jaxpr))
    assert estimate_work(jaxpr) > 100 * one_addition
    assert largest_step(jaxpr, {id(call), id(jaxpr.eqns[0])}) == one_addition
    assert largest_step(jaxpr, {id(eqn) for eqn in (*closed_body.jaxpr.eqns, *closed_condition.jaxpr.eqns)}) == 0


@pytest.mark.parametrize("primitive", ["cholesky", "lu_solve", "svd"])
def test_threads_divide_stacks_of_matrices(primitive: str) -> None:
    """Not one; of small ones what a routine does before and behind its products counts."""
    steps = []
    for count in (1, 50):
        g = Graph(((count, 8, 8), F))
        g.outvars.append(g.op(primitive, g.invars[0], out=(count, 8, 8)))
        jaxpr = g.closed().jaxpr
        assert estimate_work(jaxpr) > 2000 * count
        steps.append((largest_step(jaxpr, ()), estimate_work(jaxpr)))
    assert steps[0][0] == 0 and steps[1][0] == steps[1][1] == 50 * steps[0][1]
