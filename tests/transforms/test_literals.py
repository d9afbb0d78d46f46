"""Numbers in programs are arguments of theirs: which, that programs are found by other numbers, and what they give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veery
import veery_lowering
from veery import lax, numpy as jnp
from veery._api.literals import Parameterized
from veery._core.jaxpr import ClosedJaxpr, check_jaxpr, subjaxprs

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def longer(x: Any) -> Any:
    """So many operations that a program of them has numbers as arguments."""
    for _ in range(20):
        x = jnp.sin(x) * x
    return x


def called(fun: Callable[..., Any], *args: Any) -> Parameterized:
    """What is compiled for a call."""
    found: Parameterized = veery.jit(fun).trace(*args)._traced.called
    return found


def numbers(fun: Callable[..., Any], *args: Any) -> list[float]:
    """The numbers of a program that are arguments of it."""
    found = called(lambda x, *rest: (fun(x, *rest), longer(x)), X, *args)
    check_jaxpr(found.jaxpr)
    assert [x.dtype for x in found.numbers] == [v.aval.dtype for v in found.jaxpr.invars[: len(found.numbers)]]
    return [float(x) for x in found.numbers]


def literals(closed: ClosedJaxpr) -> list[Any]:
    """All literals in a jaxpr, at any depth."""
    inner = [jaxpr for eqn in closed.eqns for jaxpr in subjaxprs(eqn.params) if isinstance(jaxpr, ClosedJaxpr)]
    own = [a.val for eqn in closed.eqns for a in eqn.invars if hasattr(a, "val")]
    return own + [x for jaxpr in inner for x in literals(jaxpr)]


LIFTED: dict[str, tuple[Callable[..., Any], list[float]]] = {
    "arithmetic": (lambda x: (x + 0.1) * 0.3 - x / 0.7, [0.1, 0.3, 0.7]),
    "equal ones of one place once": (lambda x: [y * 0.1 + 0.1 for y in (x, x + 1, x + 2)], [0.1, 0.1]),
    "comparison and extremes": (
        lambda x: jnp.where(x > 0.2, jnp.maximum(x, -0.6), jnp.minimum(0.4, x)),
        [0.2, -0.6, 0.4],
    ),
    "large and small": (lambda x: x * 1e-8 + 1.5e30, [1e-8]),
    "in a call": (lambda x: veery.jit(lambda x: x * 0.1)(x) + veery.jit(lambda x: x * 0.1 + 0.3)(x), [0.1, 0.1, 0.3]),
    "given to a call": (lambda x: jnp.clip(x, -0.3, 0.7), [-0.3, 0.7]),
    "of a loop": (lambda x: lax.scan(lambda c, x: (c * 0.9 + x, c - 0.2), x[0], x), [0.9, 0.2]),
    "a rate of dropout": (lambda x: veery.random.bernoulli(veery.random.key(x[0, 0].astype(int)), 0.9) * x, [0.9]),
    "leaky": (lambda x: veery.nn.leaky_relu(x, 0.02), [0.02]),
    "chosen, and spread out": (
        lambda x: jnp.where(x > 0, x, 0.3) + jnp.full((3, 4), 0.7) * x + jnp.broadcast_to(0.9, (3, 4)) / x,
        [0.3, 0.7, 0.9],
    ),
    "computed of others": (veery.grad(lambda x: 0.3 * (x * x).sum() + (0.7 * x).sum() ** 2), [0.3, 0.7, 0.3]),
    "bases of powers": (lambda x: x / (1 - 0.9 ** x[0, 0]), [0.9]),
    "a gradient's": (veery.grad(lambda x: (jnp.tanh(x * 0.3) ** 2).sum()), [0.3]),
}
KEPT: dict[str, Callable[..., Any]] = {
    "whole numbers": lambda x: (x * 3.0 + 7.0) / -100.0,
    "powers of two": lambda x: x * 0.5 + x / 0.125 - 2.0**-30,
    "infinities and NaN": lambda x: jnp.maximum(x, -jnp.inf) + jnp.nan,
    "integers": lambda x: x.astype(int) * 7 + 3,
    "half precision": lambda x: x.astype(jnp.float16) * 0.3,
    "complex numbers": lambda x: x * (0.1 + 0.3j),
    "exponents": lambda x: x**0.7 + jnp.power(x, 0.7),
    "of no argument": lambda x: (jnp.ones((3, 4)) * 0.3 + lax.iota("float32", 4) * 0.1, x),
    "bases of many powers": lambda x: 0.9**x,
    "the library's": lambda x: veery.scipy.special.erfinv(x) + veery.scipy.special.digamma(x),
    "of products": lambda x: jnp.full((2, 3), 0.3) @ x,
    "an effect": lambda x: veery.debug.callback(lambda x: None, x),
    "of a branch": lambda x: lax.cond(x[0, 0] > 0, lambda x: x * 0.1, lambda x: x * 0.3, x),
    "of a loop that is not counted": lambda x: lax.while_loop(lambda c: (c < 0.7).all(), lambda c: c + 0.3, x),
    "an array": lambda x: x * np.linspace(0.1, 0.7, 4, dtype=np.float32),
}


@pytest.mark.parametrize("title", LIFTED)
def test_numbers_that_are_arguments(title: str) -> None:
    fun, expected = LIFTED[title]
    np.testing.assert_array_equal(np.float32(numbers(fun)), np.float32(expected))
    closed = veery.make_jaxpr(lambda x: (fun(x), longer(x)))(X)
    lifted, values = called(lambda x: (fun(x), longer(x)), X)
    left = {float(x) for x in literals(lifted) if np.issubdtype(np.result_type(x), np.floating)}
    assert left.isdisjoint(map(float, values))
    outs = veery.jit(veery.core.jaxpr_as_fun(lifted))(*values, X)
    for out, other in zip(outs, veery.jit(veery.core.jaxpr_as_fun(closed))(X), strict=True):
        assert out.dtype == other.dtype
        np.testing.assert_allclose(out, other, rtol=1e-6)  # in other code a product and a sum may be one operation


@pytest.mark.parametrize("title", KEPT)
def test_numbers_that_stay(title: str) -> None:
    assert numbers(KEPT[title]) == []


def test_few_operations_and_many_numbers() -> None:
    assert not called(lambda x: x * 0.1 + 0.3, X).numbers
    many = lambda x: [x * (i + 0.1) for i in range(40)]
    assert len(called(many, X).numbers) == 16
    call = lambda x, i: veery.jit(lambda x: x * (i + 0.1) + (i + 0.3))(x)
    calls = lambda x: [call(x, i) for i in range(20)]
    lifted, values = called(calls, X)
    check_jaxpr(lifted)
    assert len(values) == 16
    for out, other in zip(veery.core.jaxpr_as_fun(lifted)(*values, X), calls(X), strict=True):
        np.testing.assert_array_equal(out, other)


def test_numbers_that_are_equal_by_chance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two numbers of a line are two, whatever their values."""
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path))
    make = lambda a, b: veery.jit(lambda x: longer(x) * a + b)
    make(0.3, 0.3)(X)
    before = veery_lowering.cache_info().misses
    np.testing.assert_allclose(make(0.1, 0.7)(X), longer(X) * 0.1 + 0.7, rtol=1e-6)
    assert veery_lowering.cache_info().misses == before


def test_double_precision() -> None:
    with veery.enable_x64(True):
        fun = lambda x: longer(x) * 0.1 + x.astype("float32") * np.float32(0.1)
        lifted, values = called(fun, X.astype(np.float64))
        assert [x.dtype.name for x in values] == ["float64", "float32"]
        np.testing.assert_array_equal(veery.jit(fun)(X.astype(np.float64)), fun(X.astype(np.float64)))


def step_with(rate: float, decay: float) -> Any:
    def loss(w: list[Any], x: Any) -> Any:
        return (jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]) ** 2).mean() + decay * sum((v * v).sum() for v in w)

    @veery.jit
    def step(w: list[Any], x: Any) -> Any:
        return [v - rate * g for v, g in zip(w, veery.grad(loss)(w, x))]

    return step


W = [np.linspace(-1, 1, n * m, dtype=np.float32).reshape(n, m) for n, m in ((4, 5), (5, 2))]


def test_other_numbers_compile_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path))
    first = step_with(0.1, 0.01)(W, X)
    before = veery_lowering.cache_info().misses
    others = [step_with(rate, 0.03)(W, X) for rate in (0.3, 0.7)]
    assert veery_lowering.cache_info().misses == before
    for rate, found in ((0.3, others[0]), (0.7, others[1])):
        with veery.disable_jit():
            expected = step_with(rate, 0.03)(W, X)
        for x, y, other in zip(found, expected, first, strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)
            assert np.abs(np.asarray(x) - other).max() > 1e-3
    step_with(0.5, 0.03)(W, X)  # of which it makes an exact product
    assert veery_lowering.cache_info().misses == before + 1


def test_donated_arguments_and_later_calls() -> None:
    """Behind the numbers everything has its place: donated, closed over, static, keyword arguments, of any device."""
    offset = jnp.full((3, 4), 0.6)

    def fun(x: Any, power: int, *, y: Any) -> tuple[Any, Any]:
        return x * 0.3 + offset * y**power, longer(y) / 0.7

    jitted = veery.jit(fun, static_argnames="power", donate_argnames="y")
    for power in (2, 3, 2, 3, 2):
        given = jnp.asarray(X)
        found = jitted(X, power, y=given)
        assert given.is_deleted()
        for x, y in zip(found, fun(X, power, y=jnp.asarray(X)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7)
            assert not x.committed
    there = veery.device_put(X, veery.devices()[0])
    assert all(x.committed for x in jitted(there, 2, y=jnp.asarray(X)))
    assert len(jitted.lower(X, 2, y=X).compile()(X, y=X)) == 2


def test_other_transformations() -> None:
    fun = lambda x: (longer(x) * 0.3).sum()
    inner = veery.jit(fun)
    for transformed in (veery.grad, veery.vmap, veery.hessian, veery.checkpoint):
        np.testing.assert_allclose(
            veery.jit(transformed(inner))(X), transformed(fun)(jnp.asarray(X)), rtol=1e-5, atol=1e-6
        )
    assert "0.3" in str(veery.make_jaxpr(inner)(X))
    assert re.search(r"dense<(0\.3|3\.0+\d*[eE]-0?1)", inner.lower(X).as_text())


@pytest.mark.parametrize("setting", ["jax_debug_nans", "jax_debug_key_reuse", "veery_verify"])
def test_settings_that_look_at_calls(setting: str) -> None:
    fun = veery.jit(lambda x: longer(x) * 0.3 + 0.7)
    veery.config.update(setting, "always" if setting == "veery_verify" else True)
    for _ in range(3):
        np.testing.assert_allclose(fun(X), longer(X) * 0.3 + 0.7, rtol=1e-5, atol=1e-6)
