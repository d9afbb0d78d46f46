"""Statistics against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
from veery import jit

Call = Callable[[Any, Any], Any]  # (module, arrays) -> arrays

RNG = np.random.default_rng(0)
F = RNG.normal(size=(3, 4)).astype(np.float32)
I = RNG.integers(-5, 6, (3, 4)).astype(np.int32)
B = np.array([[True, False, True, True], [True, True, False, False], [True, True, False, True]])
N = np.where(B, F, np.nan).astype(np.float32)
C = (F + 1j * F[::-1]).astype(np.complex64)
G = np.abs(RNG.normal(size=(4,))).astype(np.float32)
T = RNG.normal(size=(2, 3, 4)).astype(np.float32)
Q = np.array([0.0, 0.3, 0.5, 1.0], np.float32)
EDGES = np.array([-0.9, -0.2, 0.1, 0.3, 1.1], np.float32)
EDGES_OF = np.array([1, 5, 1, 0])
ARGUMENTS = (F, I, B, N, C, G, T, Q)

CALLS: dict[str, Call] = {
    "mean": lambda np, a: (np.mean(a[0]), np.mean(a[1], 0), np.mean(a[4], 1, keepdims=True), np.mean(a[6], (0, 2))),
    "mean where": lambda np, a: np.mean(a[0], 1, where=a[2]),
    "var": lambda np, a: (np.var(a[0]), np.var(a[1], 0), np.var(a[4], 1, keepdims=True), np.var(a[6], (0, 2))),
    "std": lambda np, a: (np.std(a[0], 1, ddof=1), np.std(a[0], 0, where=a[2]), np.std(a[1], correction=1)),
    "var mean": lambda np, a: np.var(a[0], 1, mean=np.mean(a[0], 1, keepdims=True)),
    "methods": lambda np, a: (a[0].mean(0), a[0].var(), a[0].std(1, ddof=1)),
    "average": lambda np, a: (np.average(a[0]), np.average(a[0], 1, a[5]), np.average(a[1], weights=a[1] ** 2 + 1)),
    "average returned": lambda np, a: np.average(a[0], 1, a[5], returned=True),
    "average sum": lambda np, a: np.average(a[6], (0, 2), returned=True),
    "average axes": lambda np, a: np.average(a[6], (2, 0), a[6][:, 0].T ** 2, keepdims=True),
    "nanmean": lambda np, a: (np.nanmean(a[3]), np.nanmean(a[3], 0), np.nanmean(a[1], 1), np.nanmean(a[3], where=a[2])),
    "nanvar": lambda np, a: (np.nanvar(a[3]), np.nanvar(a[3], 1, ddof=1), np.nanstd(a[3], 0, keepdims=True)),
    "median": lambda np, a: (np.median(a[0]), np.median(a[1], 0), np.median(a[6], (0, 2), keepdims=True)),
    "median of nan": lambda np, a: (np.median(a[3], 1), np.nanmedian(a[3], 1), np.nanmedian(a[3], 0, keepdims=True)),
    "quantile": lambda np, a: (np.quantile(a[0], a[7]), np.quantile(a[0], 0.4, 1), np.quantile(a[6], a[7], (0, 2))),
    "quantile kept": lambda np, a: np.quantile(a[6], a[7], (2, 0), keepdims=True),
    "nanquantile": lambda np, a: (np.nanquantile(a[3], a[7], 1), np.nanquantile(a[3], 0.3, 0, keepdims=True)),
    "percentile": lambda np, a: (np.percentile(a[0], 30), np.percentile(a[1], 100 * a[7], 0)),
    "nanpercentile": lambda np, a: np.nanpercentile(a[3], 30, 1),
    "weighted": lambda np, a: np.quantile(a[0], a[7], 1, method="inverted_cdf", weights=a[5]),
    "cov": lambda np, a: (np.cov(a[0]), np.cov(a[0], rowvar=False, bias=True), np.cov(a[0][0]), np.cov(a[4])),
    "cov y": lambda np, a: np.cov(a[0], a[1], ddof=0),
    "cov weights": lambda np, a: np.cov(a[0], fweights=abs(a[1][0]) + 1, aweights=a[5]),
    "corrcoef": lambda np, a: (np.corrcoef(a[0]), np.corrcoef(a[0], rowvar=False), np.corrcoef(a[4])),
    "bincount": lambda np, a: np.bincount(EDGES_OF, minlength=9) + 0 * a[1].sum(),
    "digitize": lambda np, a: (np.digitize(a[0], EDGES), np.digitize(a[0], EDGES[::-1], right=True)),
    "digitize edges": lambda np, a: (np.digitize(EDGES, EDGES), np.digitize(EDGES, EDGES[::-1]) + 0 * a[1].sum()),
    "histogram": lambda np, a: np.histogram(a[0], 5),
    "histogram edges": lambda np, a: np.histogram(a[0], EDGES, weights=a[0] ** 2, density=True),
    "histogram range": lambda np, a: np.histogram(a[3], 4, range=(-0.5, 0.5)),
    "histogram2d": lambda np, a: np.histogram2d(a[0][0], a[0][1], [3, 4]),
    "histogram2d edges": lambda np, a: np.histogram2d(a[0][0], a[0][1], EDGES, density=True),
    "histogramdd": lambda np, a: (np.histogramdd(a[0], 3, weights=a[0][:, 0] ** 2)[0],),
    "interp": lambda np, a: (np.interp(a[0], EDGES, EDGES**2), np.interp(a[0], EDGES, EDGES, -9.0, 9.0)),
    "interp period": lambda np, a: np.interp(a[0], EDGES[::-1], EDGES**2, period=1.7),
    **{
        f"{f} {m}": lambda np, a, f=f, m=m: (getattr(np, f)(a[5], a[0][1, :3], m), getattr(np, f)(a[0][1, :2], a[5], m))
        for f in ("convolve", "correlate")
        for m in ("full", "same", "valid")
    },
    "correlate complex": lambda np, a: np.correlate(a[4][0], a[4][1, :2], "full"),
    **{
        f"quantile {m}": lambda np, a, m=m: (
            np.quantile(a[0], 0.9 * a[7], 1, method=m),
            np.quantile(a[0], 0.4, method=m),
        )
        for m in ("lower", "higher", "midpoint", "nearest", "inverted_cdf")
    },
}


def check(actual: Any, expected: Any, name: str, rtol: float = 2e-5) -> None:
    actual, expected = (tuple(x) if isinstance(x, (tuple, list)) else (x,) for x in (actual, expected))
    assert len(actual) == len(expected), name
    for a, e in zip(actual, expected):
        a, e = np.asarray(a), np.asarray(e)
        assert a.shape == e.shape, name
        np.testing.assert_allclose(a, e.astype(a.dtype), rtol=rtol, atol=2e-6, err_msg=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    call = CALLS[name]
    check(interpreted(lambda *a: call(jnp, a), *ARGUMENTS), call(np, ARGUMENTS), name)


@pytest.mark.compiler
def test_compiled():
    calls = {name: CALLS[name] for name in ("var", "cov", "quantile kept", "interp")}
    outs = jit(lambda *a: [call(jnp, a) for call in calls.values()])(*ARGUMENTS)
    for (name, call), out in zip(calls.items(), outs):
        check(out, call(np, ARGUMENTS), name)


@pytest.mark.compiler
def test_eager():
    x = jnp.array(F)
    check((x.mean(), x.std(1), x.var(0)), (F.mean(), F.std(1), F.var(0)), "methods")
    check(jnp.bincount(np.array([3, 1, 1])), np.bincount([3, 1, 1]), "bincount")
    check(
        jit(lambda i: jnp.bincount(i, length=3))(np.array([-1, 1, 7])), np.array([1, 1, 0]), "bincount of known length"
    )


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: jnp.mean([1.0]), TypeError, "mean requires ndarray or scalar arguments"),
        (lambda: jnp.var(F, ddof=1, correction=1), ValueError, "can't be provided simultaneously"),
        (lambda: jnp.average(F, weights=G), ValueError, "Axis must be specified"),
        (lambda: jnp.quantile(C, 0.5), ValueError, "does not support complex input"),
        (lambda: jnp.quantile(F, 0.5, method="x"), ValueError, "method can only be"),
        (lambda: jnp.quantile(F, F), ValueError, "q must be have rank <= 1"),
        (lambda: jnp.median(F, overwrite_input=True), ValueError, "does not support overwrite_input"),
        (lambda: jnp.cov(T), ValueError, "more than 2 dimensions"),
        (lambda: jnp.histogram(F, weights=G), ValueError, "same shape as a"),
        (lambda: jnp.histogram_bin_edges(F, "auto"), NotImplementedError, "string values"),
        (lambda: jit(jnp.bincount)(I[0]), TypeError, "argument 'x' of jnp.bincount"),
        (lambda: jnp.interp(F, G, G[:2]), ValueError, "one-dimensional arrays of equal size"),
        (lambda: jnp.convolve(F, G), ValueError, "only support 1-dimensional"),
        (lambda: jnp.convolve(G, G, "x"), ValueError, "mode must be one of"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_derivatives_of_masked_statistics(x64):
    """They count in the shape of the results in every trace, and what does not count has a derivative of zero."""
    x = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan], [np.nan] * 3, [1.0, 2.0, 4.0]])
    with numpy_evaluation(), np.errstate(all="ignore"):
        gradient = veery.grad(lambda a: jnp.nansum(jnp.nanvar(a, axis=1)))(x)
        variances = [[-0.5, 0.5, 0], [0, 0, 0], [0, 0, 0], [-8 / 9, -2 / 9, 10 / 9]]
        np.testing.assert_allclose(gradient, variances, atol=1e-12)
        np.testing.assert_array_equal(np.isnan(jnp.nanvar(x, axis=1, ddof=2)), [True, True, True, False])
        assert not np.isnan(veery.grad(lambda a: jnp.nansum(jnp.nanstd(a, axis=1, ddof=1)))(x)).any()
        for fun in jnp.nanmedian, lambda a, axis: jnp.nanquantile(a, np.array([0.3, 0.9]), axis=axis)[1]:
            gradient = veery.grad(lambda a, fun=fun: jnp.nansum(fun(a, axis=1)))(x)
            np.testing.assert_allclose(gradient.sum(1), [1, 1, 0, 1])
        one = np.ones((3, 1, 1))
        for fun in jnp.mean, jnp.var, jnp.std:
            for axis in None, 0, 1, (0, 1):
                masked = lambda a, fun=fun, axis=axis: fun(a, axis=axis, where=a > 0).sum()
                rows = np.stack([veery.grad(masked)(a) for a in one])
                np.testing.assert_array_equal(veery.vmap(veery.grad(masked))(one), rows)


@pytest.mark.parametrize(
    "name", ["sum", "nansum", "nanmax", "mean", "nanmean", "var", "std", "nanvar", "nanstd", "all"]
)
def test_masks_are_of_bools(name: str) -> None:
    more = {"initial": 0} if name == "nanmax" else {}
    with pytest.raises(ValueError, match=r"where must be None or a boolean array; got where.dtype=dtype\('int32'\)"):
        getattr(jnp, name)(jnp.ones(4), where=jnp.ones(4, int), **more)


@pytest.mark.parametrize("function", [jnp.std, jnp.nanstd])
def test_standard_deviations_are_no_integers(function):
    with pytest.raises(ValueError, match=f"dtype argument to jnp.{function.__name__} must be inexact; got int32"):
        function(jnp.arange(3.0), dtype="int32")
