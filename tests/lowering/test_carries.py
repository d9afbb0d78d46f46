"""What loops carry that are no kernels: they write into it, and what else reads it has the values from before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp
from veery_lowering.mlir import context, ir
from veery_lowering.passes.stream.carries import _transfers

N = 7
STEP = np.float32(0.5)
ZEROS = lambda: jnp.zeros((N, 5), jnp.float32)


def trips(body: Callable[..., Any], *start: Any, count: int = N) -> Any:
    return lax.fori_loop(0, count, body, start)


def row(x: Any, i: Any) -> Any:
    return lax.dynamic_index_in_dim(x, i, 0, keepdims=False)


def put(x: Any, i: Any, value: Any) -> Any:
    return lax.dynamic_update_index_in_dim(x, value, i, 0)


# Of two arguments of N x 5.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "two stacks that begin with one array": lambda x, y: trips(
        lambda i, c: (put(c[0], i, row(x, i) * 2), put(c[1], i, row(y, i) - 1)), ZEROS(), ZEROS()
    ),
    "the argument itself twice": lambda x, y: trips(
        lambda i, c: (put(c[0], i, row(c[1], i) + 1), put(c[1], i, row(c[0], i) * 2)), x, x
    ),
    "what is read after the loop": lambda x, y: (
        lambda z: (trips(lambda i, c: (put(c[0], i, row(y, i)),), z)[0], z * 2)
    )(x + y),
    "what is read in the loop": lambda x, y: (
        lambda z: trips(lambda i, c: (put(c[0], i, row(z, (i + 1) % N)),), z)
    )(x + y),
    "old values beside new ones": lambda x, y: trips(
        lambda i, c: (put(c[0], i, row(y, i)), c[1] + c[0]), x, y
    ),
    "carries that change places": lambda x, y: trips(lambda i, c: (put(c[1], i, row(y, i)), c[0]), x, x * 2),
    "three that go round": lambda x, y: trips(
        lambda i, c: (c[1], c[2], put(c[0], i, c[2].sum(0))), x, y, x + y
    ),
    "one result for two carries": lambda x, y: trips(
        lambda i, c: (lambda z: (z, z))(put(c[0], i, row(c[1], i) * STEP)), x, y
    ),
    "one of two is written": lambda x, y: trips(
        lambda i, c: (lambda z: (put(z, i, row(y, i)), z))(c[0] * STEP + c[1]), x, y
    ),
    "written twice a trip": lambda x, y: trips(
        lambda i, c: (put(put(c[0], i, row(y, i)), (i + 2) % N, row(c[0], i)),), x
    ),
    "written, and its older state too": lambda x, y: trips(
        lambda i, c: (put(c[0], i, row(y, i)), put(c[0], (i + 1) % N, row(y, i) * 2)), x, y
    ),
    "outputs beside a carry": lambda x, y: lax.scan(lambda c, a: (c * STEP + a, (c, c[::-1])), y[0], x),
    "a loop in a loop": lambda x, y: trips(
        lambda i, c: trips(lambda j, d: (put(d[0], j, row(d[0], i) + row(y, j)),), c[0], count=3), x, count=4
    ),
    "an inner loop begins with what the outer one carries": lambda x, y: trips(
        lambda i, c: (
            c[0] + trips(lambda j, d: (put(d[0], j, row(y, j)),), c[0], count=3)[0],
            put(c[1], i, row(c[0], i)),
        ),
        x, y, count=4,
    ),
    "a branch that writes": lambda x, y: trips(
        lambda i, c: (lax.cond(row(y, i)[0] > 0, lambda z: put(z, i, row(y, i)), lambda z: z, c[0]), c[0] + c[1]), x, y
    ),
    "a branch that keeps another": lambda x, y: trips(
        lambda i, c: lax.cond(i % 2 == 0, lambda a, b: (put(a, i, row(b, i)), a), lambda a, b: (b, a), *c), x, y
    ),
    "two loops that begin with one array": lambda x, y: (
        lambda z: (
            trips(lambda i, c: (put(c[0], i, row(y, i)),), z),
            trips(lambda i, c: (put(c[0], i, row(y, i) * 2),), z),
        )
    )(x * 2),
    "two loops that begin with an argument": lambda x, y: (
        trips(lambda i, c: (put(c[0], i, row(y, i)),), x), trips(lambda i, c: (put(c[0], i, row(y, i) * 2),), x)
    ),
    "a loop that begins with another's result": lambda x, y: (
        lambda z: (z, trips(lambda i, c: (put(c[0], i, row(y, i) * 2),), z[0]))
    )(trips(lambda i, c: (put(c[0], i, row(y, i)),), x)),
    "an end that the trips find": lambda x, y: lax.while_loop(
        lambda c: (c[0] < N) & (c[1].sum() < 1e6), lambda c: (c[0] + 1, put(c[1], c[0], row(c[2], c[0])), c[1]),
        (0, x, y),
    ),
    "a scatter": lambda x, y: trips(lambda i, c: (c[0].at[jnp.array([0, 3]), i % 5].add(row(y, i)[:2]), c[0]), x, y),
    "a part of a part": lambda x, y: trips(lambda i, c: (c[0].at[1:4, 1:3].set(c[0][2:5, :2] + row(y, i)[0]),), x),
    "what a scan is given is also carried": lambda x, y: lax.scan(lambda c, a: (put(c, 0, a), c[0] + a), x, x),
    "constants": lambda x, y: trips(
        lambda i, c: (put(c[0], i, row(y, i)), put(c[1], i, row(x, i))), *[jnp.arange(5.0 * N).reshape(N, 5)] * 2
    ),
    "results that are one array": lambda x, y: (
        lambda a, b: (put(a, 1, row(y, 1)), put(b, 2, row(y, 2)))
    )(*trips(lambda i, c: (lambda z: (z, z))(put(c[0], i, row(y, i))), x, y)),
    "a branch whose results are one array": lambda x, y: (
        lambda a, b: (put(a, 1, row(y, 1)), put(b, 2, row(y, 2)))
    )(*lax.cond(x[0, 0] > 0, lambda x: (lambda z: (z, z))(put(x, 0, row(y, 0))), lambda x: (x * 2, x + 1), x)),
    "one result for two carries that are both written": lambda x, y: trips(
        lambda i, c: (lambda z: (z, z))(put(c[0], i, row(y, i)) + put(c[1], i, row(y, i) * 2)), x, y
    ),
    "one result for two carries that are written in turn": lambda x, y: trips(
        lambda i, c: (lambda a, b: (a.sum(0) + b, a.sum(0) + b, a))(put(c[0], i, row(y, i)), put(c[1], i, row(x, i))),
        x, y, x,
    ),
    "zeros that are carried, read and returned": lambda x, y: (
        lambda z: (trips(lambda i, c: (put(c[0], i, row(y, i)), put(c[1], i, row(z, i)), c[0] + z), z, z, z), z)
    )(ZEROS()),
    "rows that change places": lambda x, y: lax.fori_loop(
        0, N, lambda i, c: (lambda a, b: put(put(c, i, b), (i + 3) % N, a))(row(c, i), row(c, (i + 3) % N)), x * 2
    ),
    "sums of carries that change places, written": lambda x, y: trips(
        lambda i, c: (c[1], c[0], put(c[0] + c[1], i, row(y, i))), x, y, x
    ),
    "no trip": lambda x, y: trips(lambda i, c: (put(c[0], i, row(y, i)), c[0]), x, y, count=0),
}  # fmt: skip


def check(fun: Callable[..., Any], *args: Any) -> None:
    before = [x.copy() for x in args]
    arrays = [jnp.asarray(x) for x in args]
    wanted = veery.tree.leaves(interpreted(fun, *args))
    for queue in ("inline", "threaded"):  # whose memory comes from elsewhere
        compiled = veery.jit(fun, compiler_options={"kernels": False, "queue": queue})
        for _ in range(2):  # the second time in memory that was used before
            for found, value in zip(veery.tree.leaves(compiled(*arrays)), wanted, strict=True):
                np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
    for array, x in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, x)


X, Y = np.random.default_rng(0).standard_normal((2, N, 5)).astype(np.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_carries(name: str) -> None:
    check(PROGRAMS[name], X, Y)


# What a trip does with one of its values, another one, and the trip's number.
MOVES: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, i: put(put(a, i, row(a, 0)), 0, row(a, i) + row(b, i)),
    lambda a, b, i: put(a, i, row(b, i)),
    lambda a, b, i: put(a, (i + 1) % N, row(a, i) * STEP + row(b, 0)),
    lambda a, b, i: a.at[:, i % 5].add(b[:, 0]),
    lambda a, b, i: a.at[1:4, 1:3].set(b[2:5, :2]),
    lambda a, b, i: jnp.tanh(a + b),
    lambda a, b, i: a[::-1],
    lambda a, b, i: b,
    lambda a, b, i: lax.cond(row(a, i)[0] > 0, lambda a, b: put(a, i, row(b, i)), lambda a, b: b, a, b),
    lambda a, b, i: lax.cond(i % 2 == 0, lambda a, b: a, lambda a, b: put(b, 0, row(a, i)), a, b),
    lambda a, b, i: trips(lambda j, c: (put(c[0], j, row(b, i)), c[1]), a, b, count=2)[0],
    lambda a, b, i: (lambda c, d: jnp.tanh(c - d))(
        *trips(lambda j, c: (put(c[1], j, row(c[0], i)), c[0]), a, b, count=3)
    ),
]


def random_program(seed: int) -> Callable[[Any, Any], Any]:
    """A loop of three carries, of which some begin with one array, are one in the next trip, or change places."""
    rng = np.random.default_rng(seed)
    moves = [(MOVES[rng.integers(len(MOVES))], *rng.integers(5, size=2)) for _ in range(rng.integers(1, 5))]
    start, end, last = rng.integers(5, size=(3, 3))
    old = bool(rng.integers(2))

    def program(x: Any, y: Any) -> Any:
        def body(carry: Any, i: Any) -> Any:
            values = [*carry, x, y]
            for move, a, b in moves:
                new = move(values[a], values[b], i)
                values = [*values[:a], new, *values[a + 1 :]] if old else [new, *values[:4]]
            return tuple(values[k] for k in end), (values[0], row(values[1], i))

        arrays = [x, y, ZEROS(), x + y, ZEROS()]
        carry, outputs = lax.scan(body, tuple(arrays[k] for k in start), jnp.arange(N))
        after = [*carry, x, arrays[3]]
        return carry, outputs, put(after[last[0]], 0, row(after[last[1]], 1)), after[last[2]]

    return program


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_carries(first: int) -> None:
    programs = [random_program(seed) for seed in range(first, first + 10)]
    check(lambda x, y: [program(x, y) for program in programs], X, Y)


def test_what_is_made_of_nothing_is_made_in_each_block() -> None:
    def value(x: Any, y: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            new = lax.cond(i % 2 == 0, lambda a, b: a, lambda a, b: put(b, i, row(a, i)), x, c[1])
            return (c[1], y, c[0]), (new, row(c[0], i))

        last, (news, _) = lax.scan(body, (y, x, x + y), jnp.arange(N))
        return sum(jnp.sum(jnp.sin(x)) for x in (*last, news))

    x = np.linspace(-2, 2, N * 2000, dtype=np.float32).reshape(N, 2000)  # of more than 4096 elements
    check(veery.grad(value), x, np.cos(x))


def test_a_size_is_not_what_is_transferred() -> None:
    """A transfer names its size twice. Taken for what is transferred, it was erased twice, which may never end."""
    text = """
    util.func private @f(%x: !stream.resource<*>, %n: index) -> !stream.resource<*> {
      %y = stream.async.transfer %x : !stream.resource<*>{%n} -> !stream.resource<*>{%n}
      util.return %y : !stream.resource<*>
    }"""
    with context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        x, n = block.arguments
        assert _transfers(x) == [block.operations[0].operation] and _transfers(n) == []
