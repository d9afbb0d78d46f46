"""What is compiled for CUDA computes what it should, on machines without a GPU: an emulator runs it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from combinations.checking import combined, triples
from primitives import table_structural as structural
from support.cuda_programs import Unsupported, run
from support.days import of_the_day

import veery
import veery.numpy as jnp
from veery import _reference, lax
from veery_lowering.passes.stablehlo import wholes

RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def _places(most: int, *shape: int) -> Any:
    return RNG.integers(0, most, shape).astype(np.int32)


def _begin_with_the_same_zeros(x: Any, y: Any) -> Any:
    sums = [lax.reduce_window(x, np.float32(0), lax.add, (3,)), lax.reduce_window(y, np.float32(0), lax.add, (2,))]
    return sums, lax.reduce_window(x, -np.float32(np.inf), lax.max, (3,)), lax.cummax(y), y @ jnp.outer(y, x[:6])


PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "windows": (_begin_with_the_same_zeros, [_normal(7), _normal(6)]),
    "elementwise": (lambda x: jnp.tanh(x) * jnp.exp(-x) + jnp.sqrt(jnp.abs(x)) / 2, [_normal(70)]),
    "reductions": (lambda x: (x.sum(1), x.sum(0), x.max(), x.var(), jnp.dot(x[0], x[1])), [_normal(30, 20)]),
    "softmax": (lambda x: (veery.nn.softmax(x), veery.nn.logsumexp(x, axis=1)), [_normal(9, 33)]),
    "histogram": (lambda i: jnp.bincount(i, length=10), [_places(10, 600)]),
    "segments": (lambda x, i: veery.ops.segment_sum(x, i, 7), [_normal(300, 5), _places(7, 300)]),
    "written": (lambda x, i, u: x.at[i].set(u), [_normal(20, 4), _places(20, 200), _normal(200, 4)]),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, axis=-1), lax.top_k(x, 3)), [_normal(3, 20)]),
    "dense layer": (lambda x, w, b: jnp.maximum(x @ w + b, 0), [_normal(64, 32), _normal(32, 48), _normal(48)]),
    "gradient": (
        lambda w, x: veery.grad(lambda w: (jnp.tanh(x @ w) ** 2).sum())(w),
        [_normal(8, 16), _normal(12, 8)],
    ),
    "odd product": (lambda x, y: x @ y, [_normal(33, 17), _normal(17, 35)]),
    "convolution": (lambda x, w: jnp.convolve(x, w), [_normal(20), _normal(3)]),
    "lookups": (lambda x, i: x[i], [_normal(20, 3), _places(20, 15)]),
    "loop": (lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, x), [_normal(30)]),
    "branch": (lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x), [_normal(30)]),
    "joined": (lambda x, y: jnp.concatenate([x, y * 2])[::-1], [_normal(10), _normal(7)]),
    "complex": (lambda x: (x + x.sum(), x @ x), [_normal(6, 6) + 1j * _normal(6, 6)]),
}


def failures(fun: Any, args: Any) -> list[str]:
    closed = veery.make_jaxpr(lambda *xs: veery.tree.leaves(fun(*xs)))(*args)
    with np.errstate(all="ignore"):
        return [str(each) for each in _reference.compare(closed, args, run(closed, args)).failures]


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    fun, args = PROGRAMS[name]
    assert not failures(fun, args)


def test_products_that_are_made_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wholes, "_LEAST", 1)
    x, y = _normal(33, 17), _normal(17, 35)
    assert not failures(lambda x, y: (x @ y, y.T @ y, x[:32, :16] @ y[:16].T[:32].T), [x, y])


# Those that call the host, and what takes long to emulate.
_LEFT_OUT = ("cumlogsumexp", "conv_general_dilated")
# Of one dtype each: to emulate them in two takes minutes more.
ROWS = [
    pytest.param(row, name, id=f"{name}-{row.primitive}")
    for row in {row.primitive: row for row in reversed(structural.ROWS)}.values()
    for name in [name for name in ("float32", "int8") if name in row.dtypes][:1]
    if row.primitive not in _LEFT_OUT
]


@pytest.mark.compiler
@pytest.mark.parametrize(("row", "name"), of_the_day(ROWS, 2))
def test_primitives(row: structural.Row, name: str, x64: None) -> None:
    assert not failures(row.fun, [np.asarray(x) for x in row.cast(name)])


_DTYPES = ("float32", "int32", "float64", "int8", "uint8", "bool")


@pytest.mark.compiler
@pytest.mark.parametrize("number", range(3))
def test_combinations(number: int, x64: None) -> None:
    """Of three steps."""
    rng = np.random.default_rng((20261126, number))  # others take from seconds to minutes to emulate
    made = filter(None, (combined(steps, rng, _DTYPES) for steps in triples(rng)))
    wrong = []
    for p in itertools.islice(made, 4):
        try:
            wrong += [f"{p.name}: {failure}" for failure in failures(p.fun, p.operands)]
        except Unsupported:
            continue
    assert not wrong, "\n".join(wrong)
