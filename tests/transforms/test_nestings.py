"""Operations that hold functions, each within each: their rules meet the others' and what those close over."""

from __future__ import annotations

import numpy as np
import pytest
from support import numerics

import veery
import veery.numpy as jnp
from veery import lax
from veery._core.jaxpr import check_jaxpr

pytestmark = pytest.mark.slow

C = np.array([0.5, -0.25, 1.5])
X = np.array([0.31, -0.42, 0.53])
T = np.array([0.5, -0.25, 0.7])


def scan_with_counter(f):
    def looped(x):
        step = lambda c, _: ((c[0] + 1, jnp.sin(f(c[1])) + c[0] * 0.1), c[1])
        (_, y), ys = lax.scan(step, (0, x), None, length=2)
        return y + ys.sum(0)

    return looped


def scan_that_forwards(f):
    def looped(x):
        (a, b), (c, d, e) = lax.scan(lambda c, a: ((c[1], f(c[0])), (c[0], a, c[1] * a)), (x, x * 0.5), x)
        return a + b * c.sum(0) + d + e[1]

    return looped


def with_jvp(f):
    g = veery.custom_jvp(lambda x: f(x))
    g.defjvp(lambda primals, tangents: veery.jvp(f, primals, tangents))
    return lambda x: g(x) * C


def with_vjp(f):
    g = veery.custom_vjp(lambda x: f(x))
    g.defvjp(lambda x: (f(x), x), lambda x, ct: veery.vjp(f, x)[1](ct))
    return lambda x: g(x) * C


def solved(f):
    def solution(x):
        d = f(x) ** 2 + 1.0
        return lax.custom_linear_solve(lambda y: d * y, x, lambda _, b: b / d, symmetric=True)

    return solution


def linear_algebra(f):
    def solution(x):
        matrix = jnp.eye(3) * 2 + jnp.outer(f(x), x) * 0.2
        return jnp.linalg.solve(matrix, x) * jnp.linalg.slogdet(matrix)[1]

    return solution


HOLDERS = {
    "scan": lambda f: lambda x: lax.scan(lambda c, a: (f(c) * 0.5 + a, c * a), x, np.array([0.1, 0.4]))[0],
    "scan_of_constants": lambda f: lambda x: lax.scan(lambda c, a: (c * 0.5 + f(x)[0], f(x) * a), 0.3, C)[1].sum(0),
    "scan_with_counter": scan_with_counter,
    "scan_that_forwards": scan_that_forwards,
    "reverse_scan": lambda f: lambda x: lax.scan(lambda c, a: (f(c), jnp.sin(a) * c), x, x, reverse=True)[1].sum(0),
    "map": lambda f: lambda x: lax.map(f, jnp.stack([x, x + 0.1])).sum(0),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, lambda y: f(y) * 2.0, lambda y: jnp.cos(y) * C, x),
    "switch": lambda f: lambda x: lax.switch((x[1] * 3).astype(int) + 1, [f, lambda y: y * C, lambda y: f(y) + y], x),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "checkpoint": lambda f: lambda x: jnp.sin(veery.checkpoint(lambda y: f(jnp.sin(y)))(x)),
    "checkpoint_with_policy": lambda f: veery.checkpoint(
        lambda y: f(jnp.sin(y * jnp.dot(y, y))), policy=veery.checkpoint_policies.dots_saveable
    ),
    "jit": lambda f: lambda x: veery.jit(f)(x) + veery.jit(f)(x * 0.5),
    "custom_linear_solve": solved,
    "vmap": lambda f: lambda x: veery.vmap(f)(jnp.stack([x, x * 0.3])).sum(0),
    "linalg": linear_algebra,
}


def close(actual, expected, tolerance):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("inner", HOLDERS)
@pytest.mark.parametrize("outer", HOLDERS)
def test_nested(in_numpy, outer, inner):
    fun = HOLDERS[outer](HOLDERS[inner](lambda x: jnp.sin(x) * C + x[::-1]))
    loss = lambda x: jnp.sin(fun(x)).sum()
    gradient = veery.grad(loss)(X)
    close(np.vdot(gradient, T), numerics.directional(loss, [X], [T]), 1e-5)
    batch = np.stack([X, -X])
    staged = veery.make_jaxpr(veery.vmap(veery.grad(loss)))(batch)
    check_jaxpr(staged)
    rows = np.stack([gradient, veery.grad(loss)(-X)])
    close(veery.jit(veery.vmap(veery.grad(loss)))(batch), rows, 1e-9)
    close(veery.grad(lambda b: veery.vmap(loss)(b).sum())(batch), rows, 1e-9)
    if "custom_vjp" not in (outer, inner):
        close(veery.jvp(veery.jit(fun), (X,), (T,))[1], veery.linearize(fun, X)[1](T), 1e-9)


# custom_vjp has no forward mode
@pytest.mark.parametrize("name", [name for name in HOLDERS if name != "custom_vjp"])
def test_rules_that_map_primals_and_tangents_at_once(in_numpy, name):
    """The jvp rule of a custom_jvp may hold one loop or call for both, of which reverse mode needs the linear part."""
    fun = with_jvp(HOLDERS[name](jnp.sin))
    loss = lambda x: jnp.sin(fun(x)).sum()
    hessian = veery.hessian(loss)(X)
    close(hessian @ T, numerics.directional(veery.grad(loss), [X], [T]), 1e-5)
    close(veery.jacrev(veery.jacrev(loss))(X), hessian, 1e-9)
