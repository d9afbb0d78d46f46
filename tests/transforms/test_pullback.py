"""What `vjp` returns, and the two functions of `fwd_and_bwd`."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import numpy as jnp
from veery._api.pullback import NotNeeded
from veery.ad import DidntWant, DontWant, GradRef, GradValue

X, Y = np.array([0.3, -0.7, 1.1]), np.array([2.0, 3.0, -1.0])


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6, atol=1e-9)


def product(x, y):
    return jnp.sin(x) * y["a"]


def test_residuals_that_are_arguments_may_be_replaced(in_numpy):
    _, pullback = veery.vjp(product, X, {"a": Y})
    assert repr(pullback.args_res[0]) == "NotNeeded()" and pullback.args_res[1][0] is Y
    assert len(pullback.opaque_residuals) == 2 and pullback.jaxpr.eqns
    close(pullback(np.ones(3))[0], np.cos(X) * Y)
    pullback.args_res[1] = {"a": 10 * Y}
    dx, dy = pullback(np.ones(3))
    close(dx, 10 * np.cos(X) * Y)
    close(dy["a"], np.sin(X))
    assert veery.vjp(lambda x, i: x * i, 1.0, 2)[1].args_res == [NotNeeded(), NotNeeded()]
    both = veery.vjp(lambda x, y: x * y, X, X)[1]
    close(both(np.ones(3))[0], X)


def test_cotangents_are_added_to_references(in_numpy):
    _, pullback = veery.vjp(product, X, {"a": Y})
    into, other = veery.new_ref(np.ones(3)), veery.new_ref(np.zeros(3))
    results = pullback.with_refs(into, {"a": other})(np.full(3, 2.0))
    assert repr(results) == "(GradRef(), {'a': GradRef()})" and not veery.tree.leaves(results)
    assert results == (GradRef(), {"a": GradRef()})
    close(into[...], 1 + 2 * np.cos(X) * Y)
    close(other[...], 2 * np.sin(X))
    kept, given = pullback.with_refs(DontWant(), {"a": GradValue()})(np.ones(3))
    assert repr(kept) == "DidntWant()"
    close(given["a"], np.sin(X))
    count = veery.new_ref(np.zeros(()))
    accumulate = veery.jit(lambda x: veery.vjp(lambda x: x * x, x)[1].with_refs(count)(1.0) and None)
    for x in (1.0, 2.0):
        accumulate(x)
    close(count[...], 6.0)
    unused = veery.vjp(lambda x, y: x, 1.0, 2.0)[1].with_refs(GradValue(), count)(1.0)
    assert float(unused[0]) == 1
    close(count[...], 6.0)


def test_without_references_all_cotangents_are_returned(in_numpy):
    _, pullback = veery.vjp(product, X, {"a": Y})
    dx, dy = pullback.with_refs()(np.ones(3))
    close(dx, np.cos(X) * Y)
    close(dy["a"], np.sin(X))


def test_what_only_unwanted_cotangents_need_is_not_computed(in_numpy):
    _, pullback = veery.vjp(lambda w, x: jnp.sin(w @ x), np.eye(3), X)
    count = lambda *wanted: str(veery.make_jaxpr(pullback.with_refs(*wanted))(np.ones(3))).count("dot_general")
    one, none = GradValue(), DontWant()
    assert [count(), count(one, none), count(none, one), count(none, none)] == [2, 1, 1, 0]
    dw, dx = pullback.with_refs(one, none)(np.ones(3))
    close(dw, np.outer(np.cos(X), X))
    assert dx == DidntWant()
    close(pullback.with_refs(none, one)(np.ones(3))[1], np.cos(X))
    called = []
    f = veery.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (called.append(1), (ct,))[1])
    for times, g in enumerate((f, veery.jit(f)), 1):
        dx, dy = veery.vjp(lambda x, y, g=g: g(x) * y, X, Y)[1].with_refs(none, one)(np.ones(3))
        assert called == [1] * times  # rules may have effects
        close(dy, X)


REFUSED = [
    (lambda f: f(1.0, 2.0), TypeError, "called with 2 arguments"),
    (lambda f: f((1.0,)), ValueError, "unexpected tree structure"),
    (lambda f: f(np.ones(2)), ValueError, "unexpected JAX type"),
    (lambda f: f.with_refs(veery.new_ref(1.0)), ValueError, "a reference for each argument"),
    (lambda f: f.with_refs(None, {"a": None}), ValueError, "a reference for each argument"),
    (lambda f: f.with_refs(veery.new_ref(1.0), {"a": GradValue()})(np.ones(3)), ValueError, "Invalid shape for `addup"),
]


@pytest.mark.parametrize("use, error, words", REFUSED)
def test_refusals(in_numpy, use, error, words):
    with pytest.raises(error, match=words):
        use(veery.vjp(product, X, {"a": Y})[1])


@pytest.mark.compiler
def test_forward_and_backward_pass_are_compiled_once():
    traced = []

    def f(x, y, scale=1.0):
        traced.append(x)
        return jnp.sin(x) * y * scale, x

    fwd, bwd = veery.fwd_and_bwd(f, argnums=(0, 1), has_aux=True)
    for scale in (1.0, 2.0):
        out, residuals, aux = fwd(X, Y, scale)
        close(out, scale * np.sin(X) * Y)
        close(aux, X.astype(np.float32))
        assert isinstance(residuals, veery._api.pullback.VJP)
        dx, dy = bwd(residuals, jnp.ones(3))
        close(dx, scale * np.cos(X) * Y)
        close(dy, scale * np.sin(X))
    assert len(traced) == 1 and bwd._cache_size() == 1
    fwd, bwd = veery.fwd_and_bwd(product, 0, jitted=False)
    out, residuals = fwd(X, {"a": Y})
    close(bwd(residuals, jnp.ones(3)), np.cos(X) * Y)
    with pytest.raises(TypeError, match="Expected a callable"):
        veery.fwd_and_bwd(1, 0)
