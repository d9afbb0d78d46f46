"""Collectives over the axes that vmap names, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import veery
from veery import lax

X = np.arange(12.0).reshape(4, 3) ** 1.5
SQUARE = np.arange(48.0).reshape(4, 4, 3)
PAIRS = [[0, 2], [1, 3]]


def over_i(fun):
    return veery.vmap(fun, axis_name="i")


def over_k(fun):
    return veery.vmap(fun, axis_name="k")


CASES = {
    "psum": (lambda x: lax.psum(x, "i"), X, np.broadcast_to(X.sum(0), X.shape)),
    "pmean": (lambda x: lax.pmean(x, "i"), X, np.broadcast_to(X.mean(0), X.shape)),
    "pmax": (lambda x: lax.pmax(x, "i"), X, np.broadcast_to(X.max(0), X.shape)),
    "pmin": (lambda x: lax.pmin(x, "i"), X, np.broadcast_to(X.min(0), X.shape)),
    "psum in groups": (
        lambda x: lax.psum(x, "i", axis_index_groups=PAIRS),
        X,
        np.stack([X[0] + X[2], X[1] + X[3], X[0] + X[2], X[1] + X[3]]),
    ),
    "all_gather": (lambda x: lax.all_gather(x, "i"), X, np.broadcast_to(X, (4, 4, 3))),
    "all_gather at 1": (lambda x: lax.all_gather(x, "i", axis=1), X, np.broadcast_to(X.T, (4, 3, 4))),
    "all_gather tiled": (lambda x: lax.all_gather(x, "i", tiled=True), X, np.broadcast_to(X.reshape(12), (4, 12))),
    "all_gather in groups": (
        lambda x: lax.all_gather(x, "i", axis_index_groups=PAIRS),
        X,
        np.stack([X[[0, 2]], X[[1, 3]], X[[0, 2]], X[[1, 3]]]),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), SQUARE, SQUARE.sum(0)),
    "psum_scatter tiled": (
        lambda x: lax.psum_scatter(lax.reshape(x, (12,)), "i", tiled=True),
        SQUARE,
        SQUARE.sum(0).reshape(4, 3),
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), SQUARE, SQUARE.transpose(1, 0, 2)),
    "all_to_all to the end": (lambda x: lax.all_to_all(x, "i", 0, 1), SQUARE, SQUARE.transpose(1, 2, 0)),
    "ppermute": (lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), X, np.stack([0 * X[0], X[0], X[1], 0 * X[0]])),
    "pshuffle": (lambda x: lax.pshuffle(x, "i", [3, 2, 1, 0]), X, X[::-1]),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "i", 2), X, np.broadcast_to(X[2], X.shape)),
    "axis_index": (
        lambda x: lax.add(x, lax.convert_element_type(lax.axis_index("i"), x.dtype)),
        X,
        X + np.arange(4)[:, None],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_collectives_against_numpy(in_numpy, name):
    fun, x, expected = CASES[name]
    np.testing.assert_allclose(over_i(fun)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(veery.jit(over_i(fun))(x), expected, rtol=1e-12)
    np.testing.assert_allclose(over_i(veery.jit(fun))(x), expected, rtol=1e-12)
    moved = veery.vmap(fun, axis_name="i", in_axes=1)(np.moveaxis(x, 0, 1))
    np.testing.assert_allclose(moved, expected, rtol=1e-12)
    # an outer batch
    outer = veery.vmap(over_i(fun))(np.stack([x, x]))
    np.testing.assert_allclose(outer, np.stack([expected, expected]), rtol=1e-12)
    # an inner batch, over which the collective is not
    inner = over_i(veery.vmap(fun))(np.stack([x, 2 * x], axis=1))
    np.testing.assert_allclose(inner[:, 0], expected, rtol=1e-12)
    if name != "axis_index":
        np.testing.assert_allclose(inner[:, 1], 2 * expected, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_against_numerical_differences(in_numpy, name):
    fun, x, _ = CASES[name]
    whole = over_i(lambda x: lax.sin(fun(lax.mul(x, 0.1))))
    rng = np.random.default_rng(0)
    t = rng.standard_normal(x.shape)
    out, tangent = veery.jvp(whole, (x,), (t,))
    numeric = (np.asarray(whole(x + 1e-6 * t)) - np.asarray(whole(x - 1e-6 * t))) / 2e-6
    np.testing.assert_allclose(tangent, numeric, rtol=1e-5, atol=1e-6)
    _, pullback = veery.vjp(whole, x)
    ct = rng.standard_normal(out.shape)
    np.testing.assert_allclose(np.vdot(pullback(ct)[0], t), np.vdot(ct, tangent), rtol=1e-9)


def test_collectives_inside_loops_and_branches(in_numpy):
    def fun(x):
        y, _ = lax.scan(lambda c, _: (lax.mul(lax.psum(c, "i"), 0.1), None), x, None, length=3)
        return lax.cond(lax.gt(lax.axis_index("i"), np.int32(1)), lambda: y, lambda: lax.neg(lax.pmax(y, "i")))

    y = X
    for _ in range(3):
        y = np.broadcast_to(0.1 * y.sum(0), X.shape)
    expected = np.where(np.arange(4)[:, None] > 1, y, -y.max(0))
    np.testing.assert_allclose(over_i(fun)(X), expected, rtol=1e-12)


def test_nested_axes(in_numpy):
    fun = lambda x: (
        lax.psum(x, ("i", "j")),
        lax.psum(x, "j"),
        lax.axis_index(("i", "j")),
        lax.all_gather(x, ("i", "j")),
    )
    both, inner, index, gathered = veery.vmap(veery.vmap(fun, axis_name="j"), axis_name="i")(X)
    np.testing.assert_allclose(both, np.full((4, 3), X.sum()), rtol=1e-12)
    np.testing.assert_allclose(inner, np.broadcast_to(X.sum(1, keepdims=True), X.shape), rtol=1e-12)
    np.testing.assert_array_equal(index, np.arange(12).reshape(4, 3))
    np.testing.assert_allclose(gathered[1, 2], X.reshape(-1), rtol=1e-12)


OVER_TWO_AXES = {
    "all_to_all": lambda a, names: lax.all_to_all(a, names, 0, 0),
    "all_to_all tiled": lambda a, names: lax.all_to_all(a, names, 0, 0, tiled=True),
    "psum_scatter": lambda a, names: lax.psum_scatter(a, names),
    "psum_scatter tiled": lambda a, names: lax.psum_scatter(a, names, tiled=True),
    "ppermute": lambda a, names: lax.ppermute(a, names, [(k, (k + 4) % 6) for k in range(5)]),
    "pshuffle": lambda a, names: lax.pshuffle(a, names, [5, 0, 3, 1, 2, 4]),
    "a list of names": lambda a, names: lax.psum(a, [*names]),
    "names and dimensions": lambda a, names: lax.pmean(a, (*names, 0)),
}


@pytest.mark.parametrize("name", OVER_TWO_AXES)
def test_exchanges_over_two_axes(in_numpy, name):
    """Over a tuple of names they are those over one axis of as many positions, row by row."""
    fun = OVER_TWO_AXES[name]
    one = over_k(lambda a: lax.sin(fun(a, ("k",))))
    row = veery.vmap(lambda a: lax.sin(fun(a, ("i", "j"))), axis_name="j")
    two = lambda x: veery.vmap(row, axis_name="i")(lax.reshape(x, (2, 3, 6)))
    x = np.arange(36.0).reshape(6, 6)
    expected, pullback = veery.vjp(one, x)
    out, pullback_of_two = veery.vjp(two, x)
    np.testing.assert_allclose(np.reshape(out, np.shape(expected)), expected, rtol=1e-12)
    cotangents = pullback_of_two(np.ones_like(out))[0], pullback(np.ones_like(expected))[0]
    np.testing.assert_allclose(*cotangents, rtol=1e-12)


def test_reductions_over_dimensions(in_numpy):
    mapped = over_i(lambda x: (lax.psum(x, 0), lax.pmax(x, ("i", 0)), lax.pmean(x, (0,)), lax.pmin(x, ("i", -1))))(X)
    for ours, theirs in zip(mapped, [X.sum(1), np.full(4, X.max()), X.mean(1), np.full(4, X.min())]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_tangents_of_integers_leave_a_vmap(in_numpy):
    outs, tangents = over_i(lambda x: veery.jvp(lambda x: (lax.axis_index("i"), lax.neg(x)), (x,), (x,)))(X)
    assert tangents[0].shape == (4,) and tangents[0].dtype == veery.float0
    np.testing.assert_array_equal(tangents[1], -X)


def test_constants_are_summed_when_traced(in_numpy):
    sizes = []
    over_i(lambda x: sizes.append((lax.psum(1, "i"), lax.axis_size("i"))) or x)(X)
    assert sizes == [(4, 4)] and isinstance(sizes[0][0], int)


def test_unbound_and_malformed_axes(in_numpy):
    with pytest.raises(NameError, match="unbound axis name: k"):
        over_i(lambda x: lax.psum(x, "k"))(X)
    with pytest.raises(NameError, match="unbound axis name: i"):
        lax.axis_index("i")
    for kind in (ValueError, AssertionError):  # JAX raises the one on devices, the other under vmap
        with pytest.raises(kind, match="once in perm"):
            over_i(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]))(X)
    with pytest.raises(ValueError, match="exactly once"):
        over_i(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]))(X)
    with pytest.raises(ValueError, match="outside of the axis"):
        over_i(lambda x: lax.ppermute(x, "i", [(0, 4)]))(X)
    with pytest.raises(AssertionError, match="does not represent a permutation"):
        over_i(lambda x: lax.pshuffle(x, "i", [1, 0]))(X)
    with pytest.raises(ValueError, match="all be the same size"):
        over_i(lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2, 3]]))(X)
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):
        over_i(lambda x: lax.all_gather(x, "i", axis=5))(X)
    with pytest.raises(ValueError, match="duplicate axis names"):
        over_i(lambda x: lax.psum(x, ("i", "i")))(X)
    with pytest.raises(ValueError, match="equal x.shape"):
        over_i(lambda x: lax.all_to_all(x, "i", 0, 0))(X)
