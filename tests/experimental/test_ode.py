"""`experimental.ode` beside JAX 0.10.2 (recorded/ode.json), solutions that are known, and SciPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
from cases_ode import CASES
from support.recorded import check, read

import veery
import veery.numpy as jnp
from veery.experimental.ode import fit_4th_order_polynomial, odeint, runge_kutta_step

RECORDED = read(Path(__file__).with_name("recorded") / "ode.json")
pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_those_of_jax(name):
    check(veery, CASES[name], RECORDED[name], rtol=2e-5, atol=2e-5)


def test_gradients_are_those_of_differences(x64):
    """Of the Van der Pol oscillator, in float64."""

    def loss(y0, mu, end):
        slope = lambda y, t, mu: jnp.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0] * jnp.cos(t)])
        y = odeint(slope, y0, jnp.stack([0.0, end / 2, end]), mu, rtol=1e-10, atol=1e-10)
        return jnp.sum(jnp.sin(y))

    loss = veery.jit(loss)
    args = jnp.array([1.0, 0.5]), 1.2, 1.5
    step = 1e-5
    shifted = lambda i, d: [a + d if k == i else a for k, a in enumerate(args)]
    gradient = veery.jit(veery.grad(loss, argnums=(0, 1, 2)))(*args)
    for i in (1, 2):
        difference = (loss(*shifted(i, step)) - loss(*shifted(i, -step))) / (2 * step)
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-6)
    for j in range(2):
        unit = jnp.eye(2)[j] * step
        difference = (loss(*shifted(0, unit)) - loss(*shifted(0, -unit))) / (2 * step)
        np.testing.assert_allclose(gradient[0][j], difference, rtol=1e-6)


def test_solutions_are_those_of_scipy(x64):
    sigma, rho, beta = 10.0, 28.0, 8 / 3
    lorenz = lambda y: [sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]]
    t = np.linspace(0.0, 3.0, 7)
    y0 = np.array([1.0, 2.0, 3.0])
    wanted = scipy.integrate.solve_ivp(lambda t, y: lorenz(y), (0.0, 3.0), y0, t_eval=t, rtol=1e-12, atol=1e-12).y.T
    np.testing.assert_allclose(odeint(lambda y, t: jnp.array(lorenz(y)), y0, t, rtol=1e-10, atol=1e-10), wanted, 1e-6)


def test_a_step_has_order_five(x64):
    """Halved, it makes a sixth power of the error; the polynomial has the values that it is made of."""
    error = {}
    for dt in (0.2, 0.1):
        y, _, _, k = runge_kutta_step(lambda y, t: y * jnp.cos(t), jnp.array([1.0]), jnp.array([1.0]), 0.0, dt)
        error[dt] = abs(float(y[0]) - np.exp(np.sin(dt)))
        assert k.shape == (7, 1)
    assert 45 < error[0.2] / error[0.1] < 80
    polynomial = np.poly1d(fit_4th_order_polynomial(1.0, 2.0, 1.7, 0.3, -0.4, 2.0))
    found = [polynomial(0), polynomial(1), polynomial(0.5), polynomial.deriv()(0) / 2, polynomial.deriv()(1) / 2]
    np.testing.assert_allclose(found, [1.0, 2.0, 1.7, 0.3, -0.4])
