"""Programs must not write into their arguments, nor into values that are still needed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from support.jaxpr_graphs import Graph, Literal, Var, execute

import veery_lowering

X = np.arange(8, dtype=np.float32)[::-1].copy()
U = np.array([-1], np.float32)
I0 = Literal(0, np.int32)


def update(g: Graph, x: Var, u: Var) -> Var:
    return g.op("dynamic_update_slice", x, u, I0)


def scatter(g: Graph, x: Var, u: Var) -> Var:
    numbers = SimpleNamespace(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    index = g.const(np.zeros((1, 1), np.int32))
    return g.op("scatter_add", x, index, u, dimension_numbers=numbers, mode="clip")


def sort(g: Graph, x: Var, u: Var) -> Var:
    return g.ops("sort", [x], [(x.aval.shape, np.float32)], dimension=0, num_keys=1)[0]


def scalar(g: Graph, value: float, like: Var) -> Var:
    return g.op("broadcast_in_dim", Literal(value, np.float32), out=like.aval.shape, shape=like.aval.shape,
                broadcast_dimensions=())  # fmt: skip


def barrier(g: Graph, x: Var) -> Var:
    return g.ops("optimization_barrier", [x], [(x.aval.shape, x.aval.dtype)])[0]


def reshaped(g: Graph, x: Var) -> Var:
    return g.op("reshape", g.op("reshape", x, out=(2, 4), new_sizes=(2, 4)), out=(8,), new_sizes=(8,))


CHAINS = {
    "none": lambda g, x: x,
    "reshape": reshaped,
    "barrier": barrier,
    "times one": lambda g, x: g.op("mul", x, scalar(g, 1.0, x)),
    "plus zero": lambda g, x: g.op("add", x, scalar(g, -0.0, x)),
    "max of itself": lambda g, x: g.op("max", x, x),
    "two reverses": lambda g, x: g.op("rev", g.op("rev", x, dimensions=(0,)), dimensions=(0,)),
    "two negations": lambda g, x: g.op("neg", g.op("neg", x)),
}


def jitted(g: Graph, x: Var, u: Var) -> Var:
    inner = Graph(((8,), np.float32), ((1,), np.float32))
    body = inner.closed(update(inner, *inner.invars), name="inner")
    return g.ops("jit", [x, u], [((8,), np.float32)], jaxpr=body, name="inner")[0]


def looped(g: Graph, x: Var, u: Var, trips: int = 1) -> Var:
    body = Graph(((1,), np.float32), ((8,), np.float32))
    closed = body.closed(update(body, body.invars[1], body.invars[0]))
    return g.ops(
        "scan", [u, x], [((8,), np.float32)], length=trips, reverse=False, jaxpr=closed, num_consts=1, num_carry=1
    )[0]


def expected(kind: str) -> np.ndarray:
    if kind == "sort":
        return np.sort(X)
    result = X.copy()
    result[0] = X[0] + U[0] if kind == "scatter" else U[0]
    return result


def test_arguments_are_not_written_to() -> None:
    """Also behind operations that fold away, calls and loops, and when the argument is returned as well."""
    g = Graph()
    for kind, write in {"update": update, "scatter": scatter, "sort": sort}.items():
        for chain in CHAINS.values():
            x, u = g.input(X), g.input(U)
            g.check(kind, write(g, chain(g, x), u), expected(kind))
            g.check(f"{kind}: the argument", x, X)
    for write in (jitted, looped, lambda g, x, u: looped(g, x, u, trips=3)):
        x, u = g.input(X), g.input(U)
        g.check("inner", write(g, x, u), expected("update"))
    g.run()


def test_one_element_is_not_written_to() -> None:
    """An iota of one element folds to zero, and with it the mask that protects the argument."""
    g = Graph()
    for shape in ((1,), (1, 1), ()):
        x = g.input(np.full(shape, 3, np.float32))
        rank = len(shape)
        numbers = SimpleNamespace(
            update_window_dims=(), inserted_window_dims=tuple(range(rank)),
            scatter_dims_to_operand_dims=tuple(range(rank)),
        )  # fmt: skip
        index, u = g.input(np.zeros((1, rank), np.int32)), g.input(U)
        g.check(str(shape), g.op("scatter_add", x, index, u, dimension_numbers=numbers, mode="clip"),
                np.full(shape, 2, np.float32))  # fmt: skip
    g.run()


def test_guard_is_needed() -> None:
    """Without the guard IREE writes into the argument: when this fails, the pass can go."""
    g = Graph()
    x, u = g.input(X), g.input(U)
    g.check("update", update(g, x, u), expected("update"))
    with pytest.raises(AssertionError, match="argument 0 was written to"):
        g.run(options=veery_lowering.Options(protect_arguments=False))


def test_donated_argument_is_updated_in_place() -> None:
    g = Graph()
    x, u = g.input(X), g.input(U)
    g.check("update", update(g, x, u), expected("update"))
    text = g.text(donated=(True, False))
    assert "iota" not in text and "iota" in g.text()
    program = veery_lowering.compile(g.closed(), donated=(True, False))
    np.testing.assert_array_equal(execute(program, [X.copy(), U])[0], expected("update"))


def test_donated_argument_that_is_returned_is_copied() -> None:
    g = Graph()
    x, u = g.input(X), g.input(U)
    g.check("update", update(g, x, u), expected("update"))
    g.check("argument", x, X)
    g.run(donated=(True, False))


def test_computed_values_are_not_copied() -> None:
    g = Graph()
    x, u = g.input(X), g.input(U)
    g.check("update", update(g, g.op("exp", x), u), np.concatenate([U, np.exp(X[1:])]), 1e-6)
    assert "iota" not in g.text()
