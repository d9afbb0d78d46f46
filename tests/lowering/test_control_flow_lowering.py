"""Calls, branches and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.jaxpr_graphs import Graph, Literal

F = np.float32


def splat(g: Graph, value: float, shape: tuple[int, ...]) -> Any:
    return g.op("broadcast_in_dim", Literal(value, F), out=shape, shape=shape, broadcast_dimensions=())


def scan_body() -> Any:
    """(scale, carry, x) -> (carry * scale + x, carry)"""
    body = Graph(((3,), F), ((3,), F), ((3,), F))
    scale, carry, x = body.invars
    return body.closed(body.op("add", body.op("mul", carry, scale), x), carry)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    g = Graph()
    scale, start = np.array([1, 2, 0.5], F), np.ones(3, F)
    for length in (0, 1, 2, 5):
        xs = np.arange(3 * length, dtype=F).reshape(length, 3)
        carry, ys = start, np.zeros((length, 3), F)
        for i in reversed(range(length)) if reverse else range(length):
            ys[i] = carry
            carry = carry * scale + xs[i]
        for unroll in (1, 2, 7):
            last, stacked = g.ops(
                "scan", [g.input(scale), g.input(start), g.input(xs)], [((3,), F), ((length, 3), F)], length=length,
                reverse=reverse, jaxpr=scan_body(), num_consts=1, num_carry=1, linear=(False,) * 3, unroll=unroll,
            )  # fmt: skip
            g.check(f"carry {length} {unroll}", last, carry)
            g.check(f"ys {length} {unroll}", stacked, ys)
    g.run()


def test_while_with_constants_on_both_sides() -> None:
    """while (x < limit).any: x = x * factor, count += 1"""
    condition = Graph(((), F), ((), np.int32), ((), F))
    body = Graph(((), F), ((), np.int32), ((), F))
    g = Graph()
    closed_condition = condition.closed(condition.op("lt", condition.invars[2], condition.invars[0], of=np.bool_))
    count = body.op("add", body.invars[1], Literal(1, np.int32))
    closed_body = body.closed(count, body.op("mul", body.invars[2], body.invars[0]))
    for limit, start in ((100, 1), (1, 5)):
        operands = [g.input(F(limit)), g.input(F(3)), g.input(np.int32(0)), g.input(F(start))]
        trips, last = g.ops(
            "while", operands, [((), np.int32), ((), F)], cond_nconsts=1, cond_jaxpr=closed_condition, body_nconsts=1,
            body_jaxpr=closed_body,
        )  # fmt: skip
        expected = 5 if start == 1 else 0
        g.check("trips", trips, np.int32(expected))
        g.check("value", last, F(start * 3**expected))
    g.run()


def branches(size: int) -> tuple[Any, ...]:
    closed = []
    for primitive in ("add", "mul", "sub"):
        branch = Graph(((size,), F), ((size,), F))
        closed.append(branch.closed(branch.op(primitive, *branch.invars)))
    return tuple(closed)


@pytest.mark.parametrize("size", [4, 100_000], ids=["selected", "branched"])
def test_cond(size: int) -> None:
    """An index out of range means the last branch, whether all are computed or one is run."""
    g = Graph()
    values = np.arange(size, dtype=F), np.full(size, 2, F)
    x, y = map(g.input, values)
    expected = [values[0] + values[1], values[0] * values[1], values[0] - values[1]]
    for index in (0, 1, 2, 3):
        (out,) = g.ops("cond", [g.input(np.int32(index)), x, y], [((size,), F)], branches=branches(size))
        g.check(str(index), out, expected[min(index, 2)])
    assert ("stablehlo.case" in g.text()) == (size > 4)
    g.run()


def test_calls_share_functions() -> None:
    """One function for one jaxpr, and for equal ones; the names are the users'."""
    g = Graph()
    x = g.input(np.ones(3, F))
    for _ in range(2):
        body = Graph(((3,), F))
        closed = body.closed(body.op("add", *body.invars * 2), name="double")
        for _ in range(2):
            (x,) = g.ops("jit", [x], [((3,), F)], jaxpr=closed, name="double", inline=False)
    other = Graph(((3,), F))
    closed = other.closed(other.op("mul", *other.invars * 2), name="<lambda>")
    (x,) = g.ops("jit", [x], [((3,), F)], jaxpr=closed, name="<lambda>", inline=False)
    g.check("result", x, np.full(3, 256, F))
    text = g.text()
    assert text.count("func.func private") == 2 and text.count("call @double(") == 4 and "@lambda(" in text
    g.run()


def test_inlined_calls() -> None:
    g = Graph()
    x = g.input(np.ones(3, F))
    body = Graph(((3,), F))
    closed = body.closed(body.op("add", *body.invars * 2))
    (a,) = g.ops("custom_jvp_call", [x], [((3,), F)], call_jaxpr=closed, jvp_jaxpr_fun=None, num_consts=0)
    (b,) = g.ops("custom_vjp_call", [a], [((3,), F)], call_jaxpr=closed, fwd_jaxpr_thunk=None)
    (c,) = g.ops("remat2", [b], [((3,), F)], jaxpr=closed.jaxpr, prevent_cse=True, policy=None)
    g.check("result", c, np.full(3, 8, F))
    assert "call @" not in g.text() and "optimization_barrier" in g.text()
    g.run()


def test_empty_arrays_in_loops() -> None:
    g = Graph()
    body = Graph(((0, 2), F), ((2, 0), F))
    closed = body.closed(*body.invars)
    operands = [g.input(np.zeros((0, 2), F)), g.input(np.zeros((3, 2, 0), F))]
    params = dict(length=3, reverse=False, jaxpr=closed, num_consts=0, num_carry=1)
    outs = g.ops("scan", operands, [((0, 2), F), ((3, 2, 0), F)], **params)
    g.check("carry", outs[0], np.zeros((0, 2), F))
    g.check("ys", outs[1], np.zeros((3, 2, 0), F))
    g.run()
