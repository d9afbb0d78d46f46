"""Reductions of few terms are written out where each has a number of its own: which ones, and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import lax, numpy as jnp
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.terms import write_stacks_out, write_terms_out


def reductions(fun: Callable[..., Any], *args: Any, change: Callable[[Any], None] = write_terms_out) -> int:
    """How many reductions a function has when terms are written out."""
    counts: list[int] = []

    def count(module: Any) -> None:
        change(module)
        assert module.operation.verify()
        counts.append(sum(op.name == "stablehlo.reduce" for op in operations(module.operation)))

    inlined(veery.jit(fun).lower(*args)._lowered.module, count)
    return counts[0]


X, FEW = np.arange(-700, 700, dtype=np.int32), np.array([3, 699, -5], np.int32)

OUT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "among": lambda np_, x, s: (x[:, None] == s[None]).any(1),
    "in front": lambda np_, x, s: abs(x[None] - s[:, None]).min(0),
    "between": lambda np_, x, s: (x.reshape(7, 1, 200) * s[:, None]).sum(1),
    "of rows and columns": lambda np_, x, s: (
        abs(x[:40, None, None] - x[None, 40:75, None] - s) * 2 + x[:40, None, None]
    ).max(-1),
    "all": lambda np_, x, s: ((x[:, None] > s) | (x[:, None] < -s)).all(1),
    "products": lambda np_, x, s: (x[:, None] % 3 + s).astype(x.dtype).prod(1) if np_ is np else lax.reduce_prod(
        x[:, None] % 3 + s, axes=(1,)
    ),
    "with numbers": lambda np_, x, s: (np_.where(x[:, None] > s, x[:, None], 2) * s + 1).sum(1),
    "two terms": lambda np_, x, s: (x[:, None] - s[:2]).max(1),
    "the largest and what is left": lambda np_, x, s: (
        (abs(x[:, None] - s).max(1)[:, None] - s).min(1) + (x[:, None] < s).sum(1)
    ),
}  # fmt: skip

KEPT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "many terms": lambda np_, x, s: (x[:, None] - np_.arange(20, dtype=np.int32)).max(1),
    "rows in memory": lambda np_, x, s: x.reshape(-1, 4).sum(1),
    "both": lambda np_, x, s: (x[:300, None] * x.reshape(-1, 4)[:300]).sum(1),
    "few results": lambda np_, x, s: (x[:9, None] - s).max(1),
    "read by others": lambda np_, x, s: (lambda y: (y.sum(1), y * 2))(x[:, None] - s),
    "no number of its own": lambda np_, x, s: np_.broadcast_to(x[:, None] * 2, (1400, 3)).sum(1),
}


@pytest.mark.parametrize("name", OUT)
def test_terms_are_written_out(name: str) -> None:
    assert not reductions(lambda x, s: OUT[name](jnp, x, s), X, FEW)


@pytest.mark.parametrize("name", KEPT)
def test_other_reductions_stay(name: str) -> None:
    assert reductions(lambda x, s: KEPT[name](jnp, x, s), X, FEW) == 1


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", "bfloat16", "complex64"])
def test_what_they_give(dtype: str) -> None:
    with veery.enable_x64(dtype == "float64"):
        x, s = jnp.asarray(abs(X) % 50).astype(dtype), jnp.asarray(abs(FEW) % 7).astype(dtype)
        names = [name for name in (*OUT, *KEPT) if dtype in ("int32", "float32") or name in ("among", "between", "all")]
        programs = OUT | KEPT
        cases = [name for name in names if dtype != "complex64" or name != "all"]
        found = results([(lambda x, s, name=name: programs[name](jnp, x, s), (x, s)) for name in cases])
        wide = [np.asarray(each).astype("complex128" if dtype == "complex64" else "float64") for each in (x, s)]
        if dtype in ("int32", "uint8"):
            wide = [np.asarray(each) for each in (x, s)]
        for name, outs in zip(cases, found, strict=True):
            assert not isinstance(outs, Exception), (name, outs)
            expected = veery.tree.leaves(programs[name](np, *wide))
            for actual, right in zip(veery.tree.leaves(outs), expected, strict=True):
                right = right.astype(actual.dtype) if actual.dtype == np.uint8 else right
                error = 2**-7 if dtype == "bfloat16" else 1e-6
                np.testing.assert_allclose(np.asarray(actual).astype(right.dtype), right, rtol=error, err_msg=name)


def test_what_is_not_finite() -> None:
    x = jnp.asarray(np.tile(np.array([np.nan, np.inf, -np.inf, -0.0, 1], np.float32), 300))
    s = jnp.asarray([np.inf, 0.0, np.nan], jnp.float32)
    sums, largest, none = veery.jit(
        lambda x, s: ((x[:, None] + s[:2]).sum(1), (x[:, None] * s).max(1), (x[:, None] > s).any(1))
    )(x, s)
    wide, numbers = np.asarray(x, np.float64), np.asarray(s, np.float64)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(sums, (wide[:, None] + numbers[:2]).sum(1))
        np.testing.assert_array_equal(largest, (wide[:, None] * numbers).max(1))
        np.testing.assert_array_equal(none, (wide[:, None] > numbers).any(1))


STACKS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "mean": (0, lambda np_, x: np_.stack([x, x * 2, x**2]).mean(0)),
    "of the last axis": (0, lambda np_, x: np_.stack([x, x[::-1], x * x, x - 1, x[:, ::-1]], -1).max(-1)),
    "twice": (0, lambda np_, x: (lambda y: y.sum(1) - y.min(1))(np_.stack([x, x + 1], 1))),
    "both axes": (1, lambda np_, x: np_.stack([x, x + 1], 1).sum((0, 1))),
    "another axis": (1, lambda np_, x: np_.stack([x, x + 1], 1).sum(0)),
    "read by others": (1, lambda np_, x: (lambda y: y - y.sum(0))(np_.stack([x, x + 1]))),
    "longer parts": (1, lambda np_, x: np_.concatenate([x, x[:3]]).sum(0)),
    "a place": (2, lambda np_, x: np_.stack([x, 3 - x, x * 0]).argmax(0)),
    "many": (1, lambda np_, x: np_.stack([x * i for i in range(40)]).sum(0)),
}


@pytest.mark.parametrize("name", STACKS)
def test_what_is_stacked_to_be_reduced(name: str) -> None:
    count, fun = STACKS[name]
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    assert reductions(lambda x: fun(jnp, x), x, change=write_stacks_out) == count
    np.testing.assert_allclose(veery.jit(lambda x: fun(jnp, x))(x), fun(np, x.astype(np.float64)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_stacks_of_every_dtype(dtype: str) -> None:
    x = jnp.asarray(np.random.default_rng(2).integers(0, 3, (5, 7))).astype(dtype)
    fun = lambda np_, x: np_.stack([x, x[::-1], x]).sum(0)
    found = veery.jit(lambda x: fun(jnp, x))(x)
    np.testing.assert_array_equal(np.asarray(found).astype(complex), fun(np, np.asarray(x).astype(complex)))
