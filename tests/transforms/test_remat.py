"""Rematerialisation: the same values and derivatives, fewer residuals."""

from __future__ import annotations

import numpy as np
import pytest
from support import numerics

import veery
from veery import lax
from veery._core.jaxpr import check_jaxpr
from veery.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals

policies = veery.checkpoint_policies
X = np.array([0.3, -0.7, 1.1])
W = np.array([[0.5, -0.2, 0.1], [0.3, 0.8, -0.6], [-0.4, 0.2, 0.9]])
POLICIES = {
    "default": None,
    "nothing": policies.nothing_saveable,
    "everything": policies.everything_saveable,
    "dots": policies.dots_saveable,
    "plain dots": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("product"),
    "other names": policies.save_any_names_but_these("product"),
    "all but names": policies.save_anything_except_these_names("product"),
    "both": policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("wave")),
    "offloaded dots": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "offloaded names": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["wave"], names_which_can_be_offloaded=["product"], offload_src="a", offload_dst="b"
    ),
}


def block(x, w):
    product = checkpoint_name(lax.dot(w, x), "product")
    wave = checkpoint_name(lax.sin(product), "wave")
    return lax.mul(lax.tanh(wave), wave)


def scalar(f):
    return lambda x: lax.reduce_sum(lax.sin(f(x)), (0,))


def jitted(x):
    return veery.jit(block)(x, W)


def scanned(x):
    return lax.scan(lambda c, w: (block(c, w), lax.sin(c)), x, np.stack([W, W * 0.5]))[0]


def branching(x):
    return lax.cond(lax.gt(lax.reduce_sum(x, (0,)), 0.0), lambda y: block(y, W), lambda y: y, x)


def looped(x):
    return lax.fori_loop(0, 3, lambda i, y: block(y, W), x)


def nested(x):
    return veery.checkpoint(lambda y: block(block(y, W), W))(block(x, W))


def integers(x):
    """Operands that are not differentiated, and one that is not used."""
    f = veery.checkpoint(lambda y, n, unused: lax.mul(lax.sin(y), lax.convert_element_type(n, np.float64)))
    return f(x, np.array([1, 2, 3]), x)


FUNCTIONS = {f.__name__: f for f in (jitted, scanned, branching, looped, nested, integers)} | {
    "block": lambda x: block(x, W)
}


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_derivatives_are_those_of_the_plain_function(in_numpy, policy, name):
    plain = scalar(FUNCTIONS[name])
    remat = scalar(veery.checkpoint(FUNCTIONS[name], policy=POLICIES[policy]))
    close(remat(X), plain(X))
    close(veery.grad(remat)(X), veery.grad(plain)(X))
    close(veery.grad(veery.jit(remat))(X), veery.grad(plain)(X))
    close(veery.jvp(remat, (X,), (X * 2,))[1], veery.jvp(plain, (X,), (X * 2,))[1])
    close(veery.linearize(remat, X)[1](X), veery.linearize(plain, X)[1](X))
    batch = np.stack([X, -X])
    close(veery.vmap(veery.grad(remat))(batch), np.stack([veery.grad(plain)(x) for x in batch]))
    close(veery.grad(lambda b: lax.reduce_sum(veery.vmap(remat)(b), (0,)))(batch), veery.vmap(veery.grad(plain))(batch))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(in_numpy, name):
    plain, remat = scalar(FUNCTIONS[name]), scalar(veery.checkpoint(FUNCTIONS[name], policy=policies.dots_saveable))
    expected = veery.hessian(plain)(X)
    columns = [numerics.directional(veery.grad(remat), [X], [e]) for e in np.eye(3)]
    close(expected, np.stack(columns), 1e-5)
    close(veery.hessian(remat)(X), expected)
    close(veery.jacrev(veery.grad(remat))(X), expected)
    close(veery.hessian(veery.checkpoint(remat))(X), expected)
    third = veery.jvp(veery.grad(veery.grad(lambda t: remat(lax.mul(t, X)))), (0.5,), (1.0,))[1]
    close(third, veery.jvp(veery.grad(veery.grad(lambda t: plain(lax.mul(t, X)))), (0.5,), (1.0,))[1])
    check_jaxpr(veery.make_jaxpr(veery.grad(veery.grad(lambda t: remat(lax.mul(t, X)))))(0.5))


def network(layer, depth=6):
    def apply(x):
        for _ in range(depth):
            x = layer(x)
        return lax.reduce_sum(x, (0,))

    return apply


def size(f, *args):
    return sum(aval.size for aval, _ in saved_residuals(f, *args))


def test_deep_networks_keep_less(in_numpy):
    layer = lambda x: lax.mul(lax.tanh(lax.sin(x)), lax.cos(x))
    depth = 6
    plain, remat = network(layer, depth), network(veery.checkpoint(layer), depth)
    assert size(remat, X) == depth * X.size  # the inputs of the layers
    assert size(plain, X) > 2 * size(remat, X)
    everything = network(veery.checkpoint(layer, policy=policies.everything_saveable), depth)
    assert size(everything, X) <= size(plain, X) + depth * X.size
    # all of it as one: the argument alone
    assert size(veery.checkpoint(plain), X) == X.size
    halves = lambda x: network(veery.checkpoint(lambda y: network_body(layer, y, 3)), 2)(x)
    assert size(halves, X) == 2 * X.size


def network_body(layer, x, depth):
    for _ in range(depth):
        x = layer(x)
    return x


def test_policies_choose_what_is_kept(in_numpy):
    def kept(policy):
        f = veery.checkpoint(lambda x: block(x, W), policy=POLICIES[policy])
        return sorted(text.split(" from ")[0] for _, text in saved_residuals(f, X) if "argument" not in text)

    assert kept("default") == kept("nothing") == ["from a constant"]
    assert kept("dots") == kept("plain dots") == ["from a constant", "output of dot_general"]
    assert kept("names") == ["from a constant", "named 'product'"]
    assert kept("other names") == ["from a constant", "named 'wave'"]
    assert "named 'wave'" in kept("both")
    assert "output of tanh" in kept("everything")
    batched = veery.vmap(veery.checkpoint(lambda x, w: lax.sin(lax.dot(w, x)), policy=POLICIES["plain dots"]))
    texts = [text for _, text in saved_residuals(batched, np.stack([X, X]), np.stack([W, W]))]
    assert not any("dot_general" in text for text in texts)


def test_scans_keep_what_policies_say_of_their_bodies(in_numpy):
    f = veery.checkpoint(lambda x: scanned(x), policy=policies.save_only_these_names("product"))
    shapes = sorted(aval.shape for aval, text in saved_residuals(f, X) if "scan" in text)
    assert shapes == [(2, 3)]
    backward = str(veery.make_jaxpr(veery.grad(scalar(f)))(X))
    # the products are computed once, forward; what follows them twice
    assert backward.count("dot_general") == 2 and backward.count("cos") >= 1
    body = lambda c, w: (veery.checkpoint(block, prevent_cse=False)(c, w), None)
    looped = lambda x: lax.scan(body, x, np.stack([W] * 4))[0]
    kept = [aval.shape for aval, text in saved_residuals(looped, X) if "scan" in text]
    assert kept == [(4, 3)]  # the carry of each step


def test_branches_keep_what_policies_say_of_them(in_numpy):
    def kept(f, policy):
        f = veery.checkpoint(f, policy=policy)
        return sorted(aval.shape for aval, text in saved_residuals(f, X) if "cond" in text or "scan" in text)

    either = lambda x: lax.cond(x[0] > 0.0, lambda y: lax.sin(block(y, W)), lambda y: lax.exp(block(y, 2 * W)), x)
    wave = policies.save_only_these_names("wave")
    assert kept(either, wave) == [(3,)]  # one place for both branches
    assert kept(either, policies.save_only_these_names("product", "wave")) == [(3,), (3,)]
    assert kept(either, policies.nothing_saveable) == []
    one_only = lambda x: lax.cond(x[0] > 0.0, lambda y: block(y, W), lambda y: y * 2.0, x)
    assert kept(one_only, wave) == [(3,)]
    in_a_scan = lambda x: lax.scan(lambda c, w: (one_only(c), None), x, np.stack([W, W]))[0]
    assert (2, 3) in kept(in_a_scan, wave)
    for f in (either, one_only, in_a_scan):
        for sign in (1.0, -1.0):
            gradient = veery.grad(scalar(veery.checkpoint(f, policy=wave)))
            close(gradient(sign * X), veery.grad(scalar(f))(sign * X))
            close(veery.vmap(gradient)(np.stack([X, -X]))[0], gradient(X))


NESTED = {
    "called": lambda inner: lambda x: inner(lax.sin(x), W),
    "called by a jitted function": lambda inner: lambda x: veery.jit(inner)(lax.sin(x), W),
    "in a scan": lambda inner: lambda x: lax.scan(lambda c, _: (inner(c, W), None), x, None, length=4)[0],
}


@pytest.mark.parametrize("where", NESTED)
@pytest.mark.parametrize("policy, kept", [("nothing", 0), ("names", 1), ("dots", 1), ("both", 2)])
def test_a_policy_reaches_into_what_is_checkpointed_inside(in_numpy, where, policy, kept):
    """What is kept follows the outer policy, whatever the inner one says."""
    for inside in "default", "everything", "names":
        f = NESTED[where](veery.checkpoint(block, policy=POLICIES[inside]))
        outer = veery.checkpoint(lambda x, f=f: lax.reduce_sum(lax.sin(f(x)), (0,)), policy=POLICIES[policy])
        saved = [aval.shape for aval, text in saved_residuals(outer, X) if "argument" not in text]
        assert len([shape for shape in saved if shape not in ((), W.shape)]) == kept, (inside, saved)
        plain = NESTED[where](block)
        expected = veery.grad(lambda x, f=plain: lax.reduce_sum(lax.sin(f(x)), (0,)))(X)
        np.testing.assert_allclose(veery.grad(outer)(X), expected, rtol=1e-12)


def test_saved_residuals_say_where_values_come_from(in_numpy, capsys):
    print_saved_residuals(lambda a, b: lax.mul(lax.sin(a["x"]), b), {"x": 1.0}, 2.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "f64[] from the argument b"
    assert lines[1].startswith("f64[] output of sin from") and "test_remat.py" in lines[1]
    assert lines[2].startswith("f64[] output of cos from") and len(lines) == 3


def test_static_arguments_and_keywords(in_numpy):
    f = veery.checkpoint(lambda x, power, scale=1.0: lax.mul(x**power if power else x, scale), static_argnums=1)
    close(veery.grad(f)(3.0, [], scale=2.0), 2.0)
    g = veery.remat(lambda flag, x: lax.sin(x) if flag else x, static_argnums=(-2,))
    close(veery.grad(g, argnums=1)(True, 0.5), np.cos(0.5))
    decorated = veery.checkpoint(policy=policies.dots_saveable)(lax.sin)
    close(veery.grad(decorated)(0.5), np.cos(0.5))


def test_closures_over_tracers(in_numpy):
    f = lambda y: veery.checkpoint(lambda x: lax.mul(lax.sin(x), y))(2.0)
    close(veery.grad(f)(3.0), np.sin(2.0))
    close(veery.vmap(veery.grad(f))(np.arange(3.0)), [np.sin(2.0)] * 3)


def test_errors(in_numpy):
    identity = lambda x, y=0: x
    with pytest.raises(ValueError, match="static_argnums.*can only take integer values greater than or equal"):
        veery.checkpoint(identity, static_argnums=(5,))(1.0, 1)
    with pytest.raises(TypeError, match="static_argnums"):
        veery.checkpoint(identity, static_argnums=("y",))(1.0, 1)
    with pytest.raises(veery.errors.TracerBoolConversionError, match="Consider using the `static_argnums`"):
        veery.checkpoint(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(NotImplementedError, match="static_argnums"):
        veery.checkpoint(identity, concrete=True)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        veery.checkpoint(identity)("text")
    with pytest.raises(TypeError, match="not a valid JAX type"):
        veery.checkpoint(lambda x: "text")(1.0)
    with pytest.raises(ValueError, match="should be exclusive"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"], offload_src="a", offload_dst="b"
        )
    mixed = policies.save_from_both_policies(POLICIES["offloaded dots"], policies.dots_saveable)
    with pytest.raises(ValueError, match="should be a boolean"):
        veery.grad(scalar(veery.checkpoint(lambda x: block(x, W), policy=mixed)))(X)


@pytest.mark.compiler
def test_compiled():
    w = W.astype(np.float32)
    layer = lambda y: lax.mul(lax.dot(w, y), lax.dot(w, y))
    plain = lambda x: lax.reduce_sum(layer(layer(x)), (0,))
    remat = lambda x: lax.reduce_sum(veery.checkpoint(lambda y: layer(layer(y)))(x), (0,))
    x = X.astype(np.float32)
    gradient = veery.jit(veery.grad(remat))
    close(gradient(x), numerics.gradient(lambda x: np.sum((W @ (W @ x) ** 2) ** 2), X), 1e-4)
    both = [veery.jit(veery.value_and_grad(f)).lower(x).as_text() for f in (plain, remat)]
    assert both[1].count("stablehlo.dot_general") > both[0].count("stablehlo.dot_general")
    assert ["optimization_barrier" in text for text in both] == [False, True]
