"""`example_libraries` beside JAX 0.10.2, as recorded in recorded/example_libraries.json."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases_example_libraries import CASES, OPTIMIZERS
from support.recorded import check, read

import veery
import veery.numpy as jnp
from veery.example_libraries import optimizers, stax

RECORDED = read(Path(__file__).with_name("recorded") / "example_libraries.json")


# Float16 rounds at each step.
HALF = {name for name in OPTIMIZERS} | {"adam under jit"}


@pytest.mark.compiler
@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name], rtol=3e-6, atol=3e-3 if name in HALF else 1e-6)


@pytest.mark.compiler
def test_a_network_learns_under_jit():
    init, apply = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    _, params = init(veery.random.key(0), (-1, 2))
    x = veery.random.normal(veery.random.key(1), (64, 2))
    y = x[:, :1] * x[:, 1:]
    first, update, get = optimizers.adam(0.02)
    loss = lambda params: jnp.mean((apply(params, x) - y) ** 2)
    step = veery.jit(lambda i, state: update(i, veery.grad(loss)(get(state)), state))
    state = first(params)
    for i in range(150):
        state = step(i, state)
    assert loss(get(state)) < 0.05 * loss(params)
