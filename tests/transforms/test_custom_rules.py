"""Functions with derivative and batching rules of the user's own."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from support import numerics

import veery
from veery import lax, numpy as jnp
from veery.custom_batching import custom_vmap, sequential_vmap
from veery.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values, linear_call

X, Y = 0.7, 1.3


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


def raises(kind, words):
    return pytest.raises(kind, match=words)


def with_jvp(factor=1.0):
    """sin(x) y, with derivatives that are `factor` times the true ones."""

    @veery.custom_jvp
    def f(x, y):
        return lax.mul(lax.sin(x), y)

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        tangent = lax.add(lax.mul(lax.mul(lax.cos(x), y), dx), lax.mul(lax.sin(x), dy))
        return f(x, y), lax.mul(tangent, factor)

    return f


def with_vjp(factor=1.0):
    @veery.custom_vjp
    def f(x, y):
        return lax.mul(lax.sin(x), y)

    def backward(kept, ct):
        x, y = kept
        return lax.mul(lax.mul(lax.mul(lax.cos(x), y), ct), factor), lax.mul(lax.mul(lax.sin(x), ct), factor)

    f.defvjp(lambda x, y: (f.fun(x, y), (x, y)), backward)
    return f


def with_gradient():
    @veery.custom_gradient
    def f(x, y):
        return lax.mul(lax.sin(x), y), lambda ct: (lax.mul(lax.mul(lax.cos(x), y), ct), lax.mul(lax.sin(x), ct))

    return f


WRAPPERS = {
    "plain": lambda f: f,
    "jit": veery.jit,
    "checkpoint": veery.checkpoint,
    "scan": lambda f: lambda x, y: lax.scan(lambda c, _: (f(c, y), None), x, None, length=1)[0],
    "cond": lambda f: lambda x, y: lax.cond(True, f, lambda x, y: x, x, y),
    "vmap": lambda f: lambda x, y: lax.squeeze(veery.vmap(f, (0, None))(lax.broadcast(x, (1,)), y), (0,)),
    "vmap of jit": lambda f: (
        lambda x, y: lax.squeeze(veery.vmap(veery.jit(f), (None, 0))(x, lax.broadcast(y, (1,))), (0,))
    ),
    "jit of vmap": lambda f: veery.jit(WRAPPERS["vmap"](f)),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("make", [with_jvp, with_vjp, with_gradient])
def test_reverse_mode_of_every_order(in_numpy, make, wrapper):
    f = WRAPPERS[wrapper](make())
    close(f(X, Y), np.sin(X) * Y)
    close(veery.grad(f, (0, 1))(X, Y), (np.cos(X) * Y, np.sin(X)))
    close(veery.jit(veery.grad(f, (0, 1)))(X, Y), (np.cos(X) * Y, np.sin(X)))
    close(veery.grad(veery.grad(f))(X, Y), -np.sin(X) * Y)
    close(veery.grad(veery.grad(f), 1)(X, Y), np.cos(X))
    close(veery.jacfwd(veery.grad(f))(X, Y), -np.sin(X) * Y)
    close(veery.grad(veery.grad(veery.grad(f)))(X, Y), -np.cos(X) * Y)
    xs = np.array([0.1, 0.5, 2.0])
    close(veery.vmap(veery.grad(f), (0, None))(xs, Y), np.cos(xs) * Y)
    close(veery.vmap(veery.grad(f, 1), (None, 0))(X, xs), [np.sin(X)] * 3)
    total = lambda xs, y: lax.reduce_sum(veery.vmap(f, (0, None))(xs, y), (0,))
    close(veery.grad(total, 1)(xs, Y), np.sin(xs).sum())
    close(veery.hessian(total)(xs, Y), np.diag(-np.sin(xs) * Y))


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_forward_mode(in_numpy, wrapper):
    f = WRAPPERS[wrapper](with_jvp())
    close(veery.jvp(f, (X, Y), (1.0, 2.0))[1], np.cos(X) * Y + 2 * np.sin(X))
    line = lambda t: f(lax.add(t, X), lax.mul(t, Y))
    second = lambda t: veery.jvp(line, (t,), (1.0,))[1]
    close(veery.jvp(second, (0.3,), (1.0,))[1], numerics.gradient(second, 0.3), 1e-5)
    g = WRAPPERS[wrapper](with_vjp())
    with raises(TypeError, "can't apply forward-mode autodiff"):
        veery.jvp(g, (X, Y), (1.0, 1.0))
    if wrapper in ("jit", "plain"):
        with raises(TypeError, "can't apply forward-mode autodiff"):
            veery.jit(lambda x: veery.jvp(g, (x, Y), (1.0, 1.0)))(X)


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("make", [with_jvp, with_vjp])
def test_the_rule_is_what_counts(in_numpy, make, wrapper):
    f = WRAPPERS[wrapper](make(10.0))
    close(veery.grad(f)(X, Y), 10 * np.cos(X) * Y)
    close(veery.vmap(veery.grad(f))(np.full(2, X), np.full(2, Y)), [10 * np.cos(X) * Y] * 2)
    close(
        veery.grad(lambda x: lax.reduce_sum(veery.vmap(f)(x, x), (0,)))(np.full(2, X)),
        10 * (np.cos(X) * X + np.sin(X)) * np.ones(2),
    )


def test_rules_that_call_the_function_itself(in_numpy):
    f = veery.custom_vjp(lambda x: lax.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (lax.mul(ct, lax.cos(x)),))
    close(veery.grad(f)(X), np.cos(X))
    close(veery.grad(veery.grad(f))(X), -np.sin(X))
    close(veery.jit(veery.grad(veery.jit(veery.grad(f))))(X), -np.sin(X))


def test_forward_rule_under_linear_transpose(in_numpy):
    f = with_vjp()
    (ct,) = veery.linear_transpose(lambda t: veery.jvp(lambda x: f(x, Y), (X,), (t,))[1], 1.0)(1.0)
    close(ct, np.cos(X) * Y)


def test_linear_transpose_of_functions_with_rules_of_their_own(in_numpy):
    """As solvers transpose operators that are given as functions."""
    f = veery.custom_jvp(lambda x: 3 * x)
    f.defjvps(lambda t, out, x: 3 * t)
    assert veery.linear_transpose(veery.jit(lambda x: (f(x), x)), 1.0)((2.0, 1.0)) == (7.0,)
    looped = lambda x: lax.fori_loop(0, 3, lambda i, c: f(c), x)
    assert veery.linear_transpose(looped, X)(X) == (27 * X,)


def test_zeros_of_primals_are_pytrees():
    values = {"x": np.ones(3, np.float32), "n": np.arange(2)}
    zeros = veery.custom_derivatives.zero_from_primal(values)
    assert zeros["x"].tolist() == [0, 0, 0] and zeros["n"].dtype == veery.dtypes.float0
    symbolic = veery.custom_derivatives.zero_from_primal(values, symbolic_zeros=True)
    assert (symbolic["x"].shape, symbolic["n"].dtype) == ((3,), veery.dtypes.float0)


def test_defjvps_and_pytrees(in_numpy):
    f = veery.custom_jvp(lambda x, y: lax.mul(lax.sin(x), y))
    f.defjvps(lambda t, out, x, y: lax.mul(lax.mul(lax.cos(x), y), t), None)
    close(veery.jvp(f, (X, Y), (1.0, 5.0)), (np.sin(X) * Y, np.cos(X) * Y))

    @veery.custom_jvp
    def tree_function(p):
        return {"s": lax.mul(p["a"], p["b"][0]), "n": p["n"]}

    @tree_function.defjvp
    def _(primals, tangents):
        (p,), (t,) = primals, tangents
        assert t["n"].dtype == veery.float0
        out = tree_function(p)
        return out, {"s": lax.add(lax.mul(p["a"], t["b"][0]), lax.mul(t["a"], p["b"][0])), "n": t["n"]}

    p = {"a": 2.0, "b": [3.0], "n": np.int64(4)}
    gradient = veery.grad(lambda p: tree_function(p)["s"], allow_int=True)(p)
    close((gradient["a"], gradient["b"][0]), (3.0, 2.0))
    close(veery.grad(veery.jit(lambda a: tree_function(p | {"a": a})["s"]))(2.0), 3.0)


def test_arguments_that_are_not_differentiated(in_numpy):
    @functools.partial(veery.custom_jvp, nondiff_argnums=(0, 2))
    def f(function, x, n):
        return lax.mul(function(x), n)

    @f.defjvp
    def _(function, n, primals, tangents):
        return f(function, *primals, n), lax.mul(lax.mul(lax.cos(primals[0]), n), tangents[0])

    close(veery.grad(f, 1)(lax.sin, X, 3.0), 3 * np.cos(X))
    close(veery.grad(lambda x, n: f(lax.sin, x, n), 1)(X, 3.0), 0.0)
    traced = veery.jit(lambda x, n: f(lax.sin, x, n))
    close(veery.grad(traced)(X, 3.0), 3 * np.cos(X))  # a traced value that the rule holds on to
    close(veery.vmap(veery.grad(traced), (None, 0))(X, np.arange(3.0)), np.arange(3) * np.cos(X))
    over_n = lambda x: veery.vmap(lambda x, n: f(lax.sin, x, n))(x, np.arange(3.0))
    close(veery.jvp(over_n, (np.full(3, X),), (np.ones(3),))[1], np.arange(3) * np.cos(X))  # the rule calls f again

    @functools.partial(veery.custom_vjp, nondiff_argnums=(1,))
    def g(x, n):
        return lax.mul(x, float(n))

    g.defvjp(lambda x, n: (g(x, n), None), lambda n, kept, ct: (lax.mul(ct, 10.0 * n),))
    close(veery.jit(veery.grad(g), static_argnums=1)(X, 3), 30.0)
    close(veery.vmap(veery.grad(lambda x: g(x, n=3)))(np.ones(2)), [30.0, 30.0])
    with raises(veery.errors.UnexpectedTracerError, "nondiff_argnums"):
        veery.jit(g)(X, 3)


def closing(kind):
    def outer(y):
        @getattr(veery, kind)
        def inner(x):
            return lax.mul(x, y)

        if kind == "custom_jvp":
            inner.defjvp(lambda p, t: (inner(*p), lax.mul(t[0], lax.mul(y, 10.0))))
        else:
            inner.defvjp(lambda x: (inner(x), None), lambda _, ct: (lax.mul(ct, lax.mul(y, 10.0)),))
        return inner

    return outer


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_closures(in_numpy, kind):
    outer = closing(kind)
    close(veery.grad(outer(Y))(X), 10 * Y)
    close(veery.vmap(lambda y: veery.grad(outer(y))(X))(np.array([1.0, 2.0])), [10.0, 20.0])
    close(veery.vmap(lambda y: outer(y)(X))(np.array([1.0, 2.0])), [X, 2 * X])
    close(veery.jit(lambda y: veery.grad(outer(y))(X))(Y), 10 * Y)
    close(veery.jit(lambda y: veery.grad(veery.jit(outer(y)))(X))(Y), 10 * Y)
    staged = lambda x, y: outer(lax.stop_gradient(lax.mul(y, 2.0)))(x)
    close(veery.grad(veery.jit(staged))(X, Y), 20 * Y)
    close(veery.vmap(veery.grad(veery.jit(staged)), (None, 0))(X, np.array([1.0, 2.0])), [20.0, 40.0])
    close(
        veery.grad(lambda x: lax.reduce_sum(veery.vmap(veery.jit(staged), (None, 0))(x, np.array([1.0, 2.0])), (0,)))(
            X
        ),
        60.0,
    )
    with raises(TypeError, "with respect to a closed-over value"):
        veery.grad(veery.jit(lambda y: outer(y)(X)))(Y)
    with raises(veery.errors.UnexpectedTracerError, "unexpected tracer"):
        veery.grad(lambda y: outer(y)(X))(Y)


def test_what_is_not_mapped_is_not_batched(in_numpy):
    f = with_jvp()
    text = str(veery.make_jaxpr(veery.vmap(lambda x: lax.mul(x, f(X, Y))))(np.ones(5)))
    assert "5" not in next(line for line in text.splitlines() if "sin" in line)


@pytest.mark.parametrize("wrap", [lambda f: f, veery.jit, veery.vmap], ids=["plain", "jit", "vmap"])
def test_symbolic_zeros(in_numpy, wrap):
    seen = []

    @veery.custom_jvp
    def f(x, y):
        return lax.mul(x, y), y

    def rule(primals, tangents):
        seen.append([type(t) is SymbolicZero for t in tangents])
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), (lax.mul(dx, y), dy)

    f.defjvp(rule, symbolic_zeros=True)
    batched = wrap is veery.vmap
    x, y = (np.full(2, v) if batched else v for v in (X, Y))
    scalar = lambda f: (lambda x, y: lax.reduce_sum(f(x, y), (0,))) if batched else f
    close(veery.grad(scalar(lambda x, y: wrap(f)(x, y)[0]))(x, y), y)
    assert seen[-1] == [False, True]

    @veery.custom_vjp
    def g(x, y):
        return lax.mul(x, y), y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        x, y = custom_vjp_primal_tree_values((x, y))
        return g(x, y), y

    def backward(y, cts):
        seen.append([type(ct) is SymbolicZero for ct in cts])
        return lax.mul(cts[0], y), None

    g.defvjp(forward, backward, symbolic_zeros=True)
    close(veery.grad(scalar(lambda x, y: wrap(g)(x, y)[0]))(x, y), y)
    assert seen[-2:] == [(True, False), [False, True]]


BATCHED = {
    "grad of vmap": lambda f, x, y: veery.grad(lambda x, y: veery.vmap(f)(x, y).sum(), (0, 1))(x, y),
    "one of two": lambda f, x, y: (veery.grad(lambda x: veery.vmap(f)(x, y).sum())(x), np.sin(x)),
    "of jit": lambda f, x, y: veery.grad(lambda x, y: veery.vmap(veery.jit(f))(x, y).sum(), (0, 1))(x, y),
    "vmap of grad": lambda f, x, y: veery.vmap(veery.grad(f, (0, 1)))(x, y),
    "twice": lambda f, x, y: [
        g[0] for g in veery.grad(lambda *xs: veery.vmap(veery.vmap(f))(*xs).sum(), (0, 1))(x[None], y[None])
    ],
}


def test_residuals_that_are_not_batched_stay_so(in_numpy):
    @veery.custom_vjp
    def scaled(x, w):
        return lax.mul(x, lax.reduce_sum(w, (0,)))

    def bwd(residuals, ct):
        x, w, ones = residuals
        seen.append([type(r).__name__ == "VmapTracer" for r in residuals])
        return lax.mul(ct, lax.reduce_sum(w, (0,))), lax.mul(ones, lax.broadcast(lax.mul(ct, x), (4,)))

    seen = []
    scaled.defvjp(lambda x, w: (scaled(x, w), (x, w, np.ones(4))), bwd)
    x, w = np.arange(3.0), np.arange(4.0)
    once, twice = veery.vmap(scaled, (0, None)), veery.vmap(veery.vmap(scaled, (0, None)), (None, 0))
    for jitted in (lambda f: f, veery.jit):
        of_x, of_w = veery.vjp(jitted(once), x, w)[1](np.ones(3))
        close(of_x, np.full(3, 6.0))
        close(of_w, np.full(4, 3.0))
        of_x, of_w = veery.vjp(jitted(twice), x, np.stack([w, w]))[1](np.ones((2, 3)))
        close(of_x, np.full(3, 12.0))
        close(of_w, np.full((2, 4), 3.0))
    assert seen == 2 * [[True, False, False], [True, True, False]]


@pytest.mark.parametrize("wrap", [lambda f: f, veery.jit], ids=["plain", "jit"])
@pytest.mark.parametrize(
    "residuals",
    [lambda x, w, of_x: x if of_x else w, lambda x, w, of_x: {"x": x} if of_x else (w, w)],
    ids=["one type", "other trees"],
)
def test_residuals_go_to_the_rule_of_their_own_call(in_numpy, residuals, wrap):
    """According to what is perturbed they are batched or not, and of one tree or another."""

    @veery.custom_vjp
    def f(x, w):
        return lax.mul(x, lax.reduce_sum(w, (0,)))

    def bwd(residuals, ct):
        ct = lax.mul(ct, sum(lax.reduce_sum(r, tuple(range(r.ndim))) for r in veery.tree.leaves(residuals)))
        return ct, lax.broadcast(ct, (3,))

    fwd = lambda x, w: (f(x.value, w.value), residuals(x.value, w.value, x.perturbed))
    f.defvjp(fwd, bwd, symbolic_zeros=True)
    x, w, ones = np.arange(3.0), np.arange(1.0, 4.0), np.ones(3)
    for_w = 18.0 * len(veery.tree.leaves(residuals(x, w, False)))
    batch = wrap(veery.vmap(f, (0, None)))
    _, of_x = veery.vjp(lambda x: batch(x, w), x)
    _, of_w = veery.vjp(lambda w: batch(x, w), w)
    close(of_x(ones), (x,))
    close(of_w(ones), (np.full(3, for_w),))
    close(of_x(ones), (x,))
    close(wrap(veery.vmap(veery.grad(f), (0, None)))(x, w), x)
    close(wrap(veery.vmap(veery.grad(f, 1), (0, None)))(x, w), np.full((3, 3), for_w / 3))
    scanned = lambda x, w: lax.scan(lambda c, _: (batch(c, w), None), x, None, length=2)[0]
    _, of_both = veery.vjp(wrap(scanned), x, w)
    close(of_both(ones), (6 * x * x, np.full(3, 48.0)))


@pytest.mark.parametrize("batched", BATCHED.values(), ids=BATCHED)
def test_residuals_that_are_numbers_stay_numbers_in_batches(in_numpy, batched):
    """Rules ask which arguments are perturbed, in Python."""
    f = veery.custom_vjp(lambda x, y: lax.mul(lax.sin(x), y))

    def forward(x, y):
        return f(x.value, y.value), (x.value, y.value, x.perturbed, y.perturbed, 2.0)

    def backward(residuals, ct):
        x, y, of_x, of_y, half = residuals
        return ct * lax.cos(x) * y * (half / 2) if of_x else None, ct * lax.sin(x) if of_y else None

    f.defvjp(forward, backward, symbolic_zeros=True)
    x, y = np.array([0.5, 1.5, 2.5]), np.array([1.0, 2.0, 3.0])
    for actual, expected in zip(batched(f, x, y), (np.cos(x) * y, np.sin(x)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_zeros_and_integers_in_vjps(in_numpy):
    f = veery.custom_vjp(lambda x, n: lax.mul(x, lax.convert_element_type(n, np.float64)))
    f.defvjp(lambda x, n: (f(x, n), n), lambda n, ct: (lax.mul(ct, 7.0), None))
    close(veery.grad(f)(X, np.int64(3)), 7.0)
    assert veery.grad(f, 1, allow_int=True)(X, np.int64(3)).dtype == veery.float0
    unused = veery.custom_vjp(lambda x, y: x)
    unused.defvjp(lambda x, y: (x, None), lambda _, ct: (ct, None))
    close(veery.grad(unused, (0, 1))(X, Y), (1.0, 0.0))
    with raises(NotImplementedError, "symbolic zeros"):
        f.defvjp(None, None, symbolic_zeros=True, optimize_remat=True)


def test_closure_convert(in_numpy):
    def minimum(objective, x0):
        converted, values = veery.closure_convert(objective, x0)
        return solve(converted, x0, *values)

    @functools.partial(veery.custom_vjp, nondiff_argnums=(0,))
    def solve(objective, x0, *values):
        step = lambda i, x: lax.sub(x, lax.mul(veery.grad(objective)(x, *values), 0.2))
        return lax.fori_loop(0, 100, step, x0)

    def forward(objective, x0, *values):
        x = solve(objective, x0, *values)
        return x, (x, values)

    def backward(objective, kept, ct):
        x, values = kept
        slope = veery.grad(objective)
        curvature = veery.grad(slope)(x, *values)
        _, pullback = veery.vjp(lambda *v: slope(x, *v), *values)
        return 0.0, *pullback(lax.neg(lax.div(ct, curvature)))

    solve.defvjp(forward, backward)
    f = lambda a: minimum(lambda x: lax.mul(lax.sub(x, lax.sin(a)), lax.sub(x, lax.sin(a))), 0.0)
    close(f(X), np.sin(X), 1e-8)
    close(veery.grad(f)(X), np.cos(X), 1e-8)


@pytest.mark.parametrize("wrap", [lambda f: f, veery.jit], ids=["plain", "jit"])
def test_errors_of_jvp_rules(in_numpy, wrap):
    @veery.custom_jvp
    def f(x):
        return lax.sin(x)

    def differentiate(rule):
        f.defjvp(rule)
        return veery.jvp(wrap(lambda x: f(x)), (X,), (1.0,))

    with raises(AttributeError, "No JVP defined for custom_jvp function f using defjvp"):
        f(X)
    with raises(TypeError, "must produce a pair .* but got 3"):
        differentiate(lambda p, t: 3)
    with raises(TypeError, r"equal container \(pytree\) structures"):
        differentiate(lambda p, t: (p[0], (t[0],)))
    with raises(TypeError, r"with corresponding shapes and dtypes. Expected .*float64\[\].* but got .*float64\[2\]"):
        differentiate(lambda p, t: (p[0], np.ones(2)))
    with raises(TypeError, r"with corresponding shapes and dtypes. Expected .*float64\[\].* but got .*int"):
        differentiate(lambda p, t: (p[0], 1))
    if wrap is veery.jit:
        with raises(TypeError, r"JVP rule output's first element had container/pytree structure:\s+\(float64\[\],\)"):
            differentiate(lambda p, t: ((p[0],), (t[0],)))
        with raises(TypeError, r"first element had shapes/dtypes of:\s+float64\[2\]\s+while"):
            differentiate(lambda p, t: (np.ones(2), np.ones(2)))
    with raises(TypeError, r"could not be resolved to positional-only arguments(.|\s)*got an unexpected"):
        f(X, y=3)
    with raises(TypeError, "Can't use ``defjvps`` with ``nondiff_argnums``"):
        veery.custom_jvp(lambda x: x, nondiff_argnums=0).defjvps(None)


@pytest.mark.parametrize("wrap", [lambda f: f, veery.jit], ids=["plain", "jit"])
def test_errors_of_vjp_rules(in_numpy, wrap):
    @veery.custom_vjp
    def f(x, y):
        return lax.mul(lax.sin(x), y)

    def differentiate(forward, backward):
        f.defvjp(forward, backward)
        return veery.grad(wrap(lambda x, y: f(x, y)))(X, Y)

    product = lambda x, y: (lax.mul(x, y), None)
    with raises(AttributeError, "No VJP defined for custom_vjp function f using defvjp"):
        f(X, Y)
    with raises(TypeError, "instead of a pair the fwd rule <lambda> produced 3"):
        differentiate(lambda x, y: 3, None or (lambda r, c: c))
    with raises(TypeError, r"tuple of length equal to the number of arguments .* but got bwd output structure"):
        differentiate(product, lambda _, ct: ct)
    with raises(TypeError, r"tuple of length equal to the number of arguments"):
        differentiate(product, lambda _, ct: (ct,))
    with raises(
        ValueError, r"at output\[1\] the bwd rule produced an output of type f64\[2\] .* the shapes do not match"
    ):
        differentiate(product, lambda _, ct: (ct, np.ones(2)))
    with raises(ValueError, r"produced an output of type c128\[\] .* the dtypes do not match"):
        differentiate(product, lambda _, ct: (ct, lax.complex(ct, ct)))
    if wrap is veery.jit:
        with raises(
            TypeError, r"the fwd rule output's first element had container/pytree structure:\s+\(float64\[\],\)"
        ):
            differentiate(lambda x, y: ((x,), None), lambda _, ct: (ct, ct))


def doubling():
    @custom_vmap
    def f(x, y):
        return lax.add(x, lax.sin(y))

    @f.def_vmap
    def rule(size, batched, x, y):
        calls.append((size, tuple(batched)))
        x, y = (a if b else lax.broadcast(a, (size,)) for a, b in zip((x, y), batched))
        return lax.mul(f.fun(x, y), 2.0), True

    calls = []
    return f, calls


def test_custom_vmap(in_numpy):
    f, calls = doubling()
    xs = np.array([0.1, 0.2])
    close(f(X, Y), X + np.sin(Y))
    close(veery.vmap(f)(xs, xs), 2 * (xs + np.sin(xs)))
    close(veery.vmap(veery.jit(f), (0, None))(xs, Y), 2 * (xs + np.sin(Y)))
    assert calls == [(2, (True, True)), (2, (True, False))]
    close(veery.jvp(f, (X, Y), (1.0, 1.0))[1], 1 + np.cos(Y))
    forward = lambda x, y: veery.jvp(f, (x, y), (1.0, 1.0))
    out, tangent = veery.vmap(forward)(xs, xs)
    close((out, tangent), (2 * (xs + np.sin(xs)), 2 * (1 + np.cos(xs))))
    close(veery.vmap(lambda x, t: veery.jvp(f, (x, Y), (t, t)))(xs, xs)[1], 2 * (xs + np.cos(Y) * xs))
    close(veery.grad(lambda x: lax.reduce_sum(veery.vmap(f)(x, x), (0,)))(xs), 2 * (1 + np.cos(xs)))
    with raises(ValueError, "do not support reverse-mode"):
        veery.grad(f)(X, Y)
    g = veery.custom_vjp(f)
    g.defvjp(lambda x, y: (f(x, y), y), lambda y, ct: (ct, lax.mul(ct, lax.cos(y))))
    close(veery.vmap(veery.grad(g, 1))(xs, xs), np.cos(xs))


def test_errors_of_custom_vmap(in_numpy):
    f = custom_vmap(lambda x: x)
    with raises(AttributeError, "No batching rule defined for custom_vmap function <lambda> using def_vmap"):
        f(X)
    f.def_vmap(lambda n, b, x: (x, (True,)))
    with raises(ValueError, "structure of output value and output batching specification"):
        veery.vmap(f)(np.ones(2))
    f.def_vmap(lambda n, b, x: ((x,), (True,)))
    with raises(ValueError, "does not match that of original"):
        veery.vmap(f)(np.ones(2))
    f.def_vmap(lambda n, b, x: (x, True))
    with raises(TypeError, "could not be resolved"):
        f(z=1)


def test_arguments_by_keyword(in_numpy):
    def f(x, y=2.0, *, scale=3.0):
        return lax.mul(lax.mul(x, y), scale)

    def rule(primals, tangents):
        return f(*primals), lax.mul(tangents[0], 10.0)

    with_rule, partial = veery.custom_jvp(f), veery.custom_jvp(functools.partial(f, scale=5.0))
    for each in (with_rule, partial):
        each.defjvp(rule)
    close([with_rule(X), with_rule(X, y=4.0), partial(X, 1.0)], [6 * X, 12 * X, 5 * X])
    close(veery.grad(partial)(X, 1.0), 10.0)
    for each in (with_rule, partial):
        with raises(TypeError, "The following keyword arguments could not be resolved to positions: scale"):
            each(X, 2.0, scale=4.0)


def test_rules_of_two_kinds(in_numpy):
    for outer, inner in [(custom_vmap, veery.custom_jvp), (veery.custom_jvp, custom_vmap)]:
        f = outer(inner(lambda x: lax.mul(x, 2.0)))
        f.defjvp(lambda p, t, f=f: (f(*p), lax.mul(t[0], 5.0)))
        f.def_vmap(lambda size, batched, xs: (lax.mul(xs, 3.0), True))
        close([f(X), veery.jvp(f, (X,), (1.0,))[1]], [2 * X, 5.0])
        close(veery.vmap(f)(np.ones(2)), [3.0, 3.0])
    with raises(AttributeError, "no attribute 'defvjp'"):
        f.defvjp(None, None)


def test_sequential_vmap(in_numpy):
    f = sequential_vmap(lambda x, y: {"z": lax.mul(lax.sin(x), y)})
    xs = np.array([0.1, 0.2])
    close(veery.vmap(f, (0, None))(xs, Y)["z"], np.sin(xs) * Y)
    assert "scan" in str(veery.make_jaxpr(veery.vmap(f, (0, None)))(xs, Y))
    ranks = []
    g = sequential_vmap(lambda x: (ranks.append(x.ndim), lax.neg(x))[1])
    np.testing.assert_array_equal(veery.vmap(veery.vmap(g))(np.ones((2, 3))), -np.ones((2, 3)))
    assert set(ranks) == {0} and str(veery.make_jaxpr(veery.vmap(veery.vmap(g)))(np.ones((2, 3)))).count("scan") == 2


def test_linear_call(in_numpy):
    f = lambda x, r=2.0: linear_call(lambda r, x: lax.div(x, r), lambda r, y: lax.mul(y, 10.0), r, x)
    close(f(3.0), 1.5)
    close(veery.jvp(f, (3.0,), (1.0,))[1], 0.5)
    close(veery.grad(f)(3.0), 10.0)
    close(veery.jit(veery.grad(veery.jit(f)))(3.0), 10.0)
    close(veery.vmap(veery.grad(f))(np.ones(2)), [10.0, 10.0])
    close(veery.grad(lambda x: lax.reduce_sum(veery.vmap(f)(x, np.array([1.0, 2.0])), (0,)))(np.ones(2)), [10.0, 10.0])
    twice = veery.linear_transpose(lambda y: veery.linear_transpose(f, 1.0)(y)[0], 1.0)
    close(twice(3.0)[0], 1.5)
    with raises(NotImplementedError, "residual arguments"):
        veery.grad(lambda r: f(3.0, r))(2.0)
    with raises(TypeError, "must match that of linear inputs"):
        linear_call(lambda r, x: x, lambda r, y: (y,), 1.0, 2.0)


@pytest.mark.compiler
def test_compiled():
    f, g = with_jvp(10.0), with_vjp(10.0)
    h, _ = doubling()
    x = np.array([0.1, 0.2], np.float32)

    def everything(x):
        total = lambda f: lambda y: lax.reduce_sum(veery.vmap(f)(y, y), (0,))
        return [veery.grad(total(f))(x), veery.grad(total(g))(x), veery.vmap(h)(x, x), f(x[0], x[1])]

    expected = [10 * (np.cos(x) * x + np.sin(x))] * 2 + [2 * (x + np.sin(x)), np.sin(x[0]) * x[1]]
    for actual, wanted in zip(veery.jit(everything)(x), expected):
        close(actual, wanted, 1e-5)
    with raises(TypeError, "can't apply forward-mode autodiff"):
        veery.jit(lambda x: veery.jvp(veery.jit(g), (x, x), (x, x)))(np.float32(1))


@pytest.mark.compiler
def test_rules_take_arrays():
    """Also where the cotangent is the 1 that a gradient begins with."""
    kinds = []
    f = veery.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (kinds.append(isinstance(ct, veery.Array)) or ct.reshape(()) * x,))
    for fun in (veery.grad(f), veery.jit(veery.grad(f)), veery.grad(veery.jit(f))):
        assert float(fun(3.0)) == 3
    assert kinds == [True] * len(kinds) and kinds


@pytest.mark.parametrize("symbolic_zeros", [False, True])
def test_forward_rules_of_scalars_take_arrays(in_numpy, symbolic_zeros):
    """A Python number has no shape and no dtype, which rules read."""

    @veery.custom_vjp
    def f(x, n):
        return x * n

    def fwd(x, n):
        values = custom_vjp_primal_tree_values((x, n)) if symbolic_zeros else (x, n)
        seen.extend((v.shape, v.dtype.name, veery.typeof(v).weak_type) for v in values)
        return values[0] * values[1], values[1]

    f.defvjp(fwd, lambda n, ct: (ct * n, None), symbolic_zeros=symbolic_zeros)
    for differentiate in (veery.grad(f), lambda x, n: veery.vjp(f, x, n)[1](1.0)[0], veery.jit(veery.grad(f))):
        seen = []
        close(differentiate(0.5, 3), 3.0)
        assert seen == [((), "float64", True), ((), "int64", True)]


def test_backward_rules_are_called_with_zeros(in_numpy):
    @veery.custom_vjp
    def noted(x, note):
        return lax.mul(x, 2.0)

    noted.defvjp(lambda x, note: (noted(x, note), note), lambda note, g: (g, lax.add(note, 1.0)))

    @veery.custom_vjp
    def last(x, y):
        return y

    last.defvjp(lambda x, y: (y, None), lambda _, g: (None, g))
    f = lambda x, note: last(noted(x, note), x)
    for wrapped in (f, veery.jit(f), veery.checkpoint(f)):
        assert veery.grad(wrapped, (0, 1))(3.0, 5.0) == (1.0, 6.0)  # as JAX 0.10.2 gives


def test_cotangents_of_narrow_floats_keep_their_precision():
    """As in JAX: what a rule gives for an argument of 8 bits is not rounded to 8 bits before it is converted back."""
    widened = veery.custom_vjp(lambda x: x.astype(jnp.bfloat16))
    widened.defvjp(lambda x: (x.astype(jnp.bfloat16), None), lambda _, ct: (ct * 1.0625,))
    loss = lambda w: widened(w.astype(jnp.float8_e4m3fn)).astype(jnp.float32).sum()
    for gradient in (veery.grad(loss), veery.jit(veery.grad(loss)), veery.grad(veery.checkpoint(loss))):
        assert gradient(jnp.ones(2)).tolist() == [1.0625, 1.0625]
    assert (
        veery.grad(lambda x: widened(x).astype(jnp.float32).sum())(jnp.ones(2, "float8_e4m3fn")).dtype == jnp.bfloat16
    )
