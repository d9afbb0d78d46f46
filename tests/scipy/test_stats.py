"""Distributions against SciPy: values in each dtype, traced and compiled, derivatives; statistics of samples."""

from __future__ import annotations

import functools
import inspect
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.stats
from support.compiled import assert_close, results
from support.interpreted import interpreted
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward

import veery
import veery.numpy as jnp
from veery import random
from veery.scipy import stats

# Families with the intervals of their parameters; those of whole numbers have a probability instead of a density.
FAMILIES: dict[str, dict[str, tuple[float, float]]] = {
    "norm": {}, "cauchy": {}, "expon": {}, "laplace": {}, "logistic": {}, "uniform": {}, "gumbel_r": {}, "gumbel_l": {},
    "beta": {"a": (0.5, 5), "b": (0.5, 5)}, "chi2": {"df": (0.5, 9)}, "gamma": {"a": (0.5, 9)},
    "gennorm": {"beta": (0.5, 4)}, "pareto": {"b": (0.5, 5)}, "t": {"df": (0.5, 20)},
    "truncnorm": {"a": (-4, 0), "b": (0.5, 6)}, "vonmises": {"kappa": (0.1, 9)}, "wrapcauchy": {"c": (0.1, 0.9)},
    "bernoulli": {"p": (0.05, 0.95)}, "binom": {"n": (5, 40), "p": (0.05, 0.95)},
    "nbinom": {"n": (1, 20), "p": (0.05, 0.95)}, "geom": {"p": (0.05, 0.95)}, "poisson": {"mu": (0.1, 60)},
    "betabinom": {"n": (5, 40), "a": (0.5, 5), "b": (0.5, 5)},
}  # fmt: skip
DISCRETE = {"bernoulli", "binom", "nbinom", "geom", "poisson", "betabinom"}
ELSEWHERE = {"dirichlet", "gaussian_kde", "mode", "multinomial", "multivariate_normal", "rankdata", "sem"}
FUNCTIONS = [
    (family, name)
    for family in FAMILIES
    for name, value in vars(getattr(stats, family)).items()
    if not name.startswith("_") and callable(value) and hasattr(getattr(scipy.stats, family), name)
]
ULPS = {np.float32: 160, np.float64: 160}
by_function = pytest.mark.parametrize(("family", "name"), [pytest.param(*f, id=".".join(f)) for f in FUNCTIONS])


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def function(family: str, name: str) -> Callable[..., Any]:
    return getattr(getattr(stats, family), name)


def operands(family: str, name: str, dtype: Any, count: int = 60) -> tuple[np.ndarray, ...]:
    """Random arguments of a function of a family, in the order of its signature."""
    rng = np.random.default_rng(zlib.crc32(f"{family}.{name}".encode()))
    whole = family in DISCRETE
    values = {key: rng.uniform(*ends, count) for key, ends in FAMILIES[family].items()}
    if "n" in values:
        values["n"] = np.round(values["n"])
    values["loc"] = np.round(rng.uniform(-2, 2, count)) if whole else rng.uniform(-1, 1, count)
    values["scale"] = rng.uniform(0.5, 3, count)
    parameters = list(inspect.signature(function(family, name)).parameters)
    first = rng.uniform(*(0, 6) if family in ("vonmises", "wrapcauchy") else (-4, 8), count)
    if whole:
        first = np.round(rng.uniform(0, 15, count)) + values["loc"] * ("loc" in parameters)
    if name in ("ppf", "isf"):
        first, values["loc"] = rng.uniform(0.02, 0.98, count), 5 + values["loc"]  # so that no digits cancel
    if name != "entropy":
        values[parameters[0]] = first
    return tuple(values[key].astype(dtype) for key in parameters)


def expected(family: str, name: str, xs: tuple[np.ndarray, ...]) -> np.ndarray:
    wanted = getattr(getattr(scipy.stats, family), name)(*(x.astype(np.float64) for x in xs))
    return np.asarray(wanted).astype(xs[0].dtype)


@pytest.mark.parametrize("dtype", ULPS)
@by_function
def test_values(family, name, dtype):
    with veery.enable_x64(True):
        xs = operands(family, name, dtype)
        assert_close(interpreted(function(family, name), *xs), expected(family, name, xs), ULPS[dtype], xs)


@by_function
def test_16_bits_are_computed_in_32(family, name):
    xs = operands(family, name, ml_dtypes.bfloat16)
    assert_close(interpreted(function(family, name), *xs), expected(family, name, xs), 1, xs)


@functools.cache
def compiled(family: str) -> dict[str, Any]:
    names = [name for f, name in FUNCTIONS if f == family]
    outs = results([(function(family, name), operands(family, name, np.float32)) for name in names])
    return dict(zip(names, outs, strict=True))


@pytest.mark.compiler
@pytest.mark.parametrize("family", ["norm", "gamma", "cauchy", "truncnorm", "binom"])
def test_compiled_values(family):
    for name, out in compiled(family).items():
        if isinstance(out, Exception):
            raise out
        xs = operands(family, name, np.float32)
        assert_close(out, expected(family, name, xs), 2000, xs)


@by_function
def test_derivatives(family, name, x64):
    xs = operands(family, name, np.float64, 12)
    fun = function(family, name)
    parameters = list(inspect.signature(fun).parameters)
    fixed = {"n", "k"} | ({"loc"} if family in DISCRETE or family == "uniform" else set())
    if family in ("beta", "gamma", "chi2", "gennorm", "poisson") and name.endswith(("cdf", "sf")):
        fixed |= {"a", "b"} if family == "beta" else set()  # which JAX has not either
    if (family, name) in {("bernoulli", "ppf"), ("bernoulli", "cdf")}:
        return  # steps
    places = [i for i, key in enumerate(parameters) if key not in fixed]
    with numpy_evaluation():
        inside = np.isfinite(np.asarray(fun(*xs)))
        xs = tuple(x[inside] for x in xs)
        check_forward(fun, xs, places, 2e-5)
        check_backward(fun, xs, places)


SPECIAL = [
    (stats.norm.cdf, (-40.0,), 0.0), (stats.norm.logcdf, (-40.0,), -804.6084420137538),
    (stats.norm.ppf, (0.0,), -np.inf), (stats.norm.ppf, (1.0,), np.inf), (stats.norm.ppf, (1.5,), np.nan),
    (stats.norm.isf, (1e-20,), 9.262340089798408), (stats.cauchy.ppf, (0.0,), -np.inf),
    (stats.cauchy.isf, (0.0,), np.inf), (stats.cauchy.ppf, (-0.1,), np.nan), (stats.cauchy.cdf, (-1e20,), 3.183099e-21),
    (stats.expon.ppf, (1.0,), np.inf), (stats.expon.ppf, (-0.1,), np.nan), (stats.expon.cdf, (-1.0,), 0.0),
    (stats.expon.logcdf, (-1.0,), -np.inf), (stats.expon.logcdf, (1e-20,), -46.051701859880914),
    (stats.uniform.pdf, (2.0,), 0.0), (stats.uniform.logpdf, (-1.0,), -np.inf), (stats.uniform.ppf, (2.0,), np.nan),
    (stats.beta.logpdf, (0.5, -1.0, 1.0), np.nan), (stats.beta.logpdf, (2.0, 1.0, 1.0), -np.inf),
    (stats.beta.logpdf, (0.0, 1.0, 2.0), np.log(2)), (stats.gamma.logpdf, (-1.0, 2.0), -np.inf),
    (stats.gamma.logpdf, (0.0, 1.0), 0.0), (stats.pareto.sf, (0.5, 2.0), 1.0), (stats.pareto.ppf, (1.0, 2.0), np.inf),
    (stats.gumbel_r.logpdf, (0.0, 0.0, -1.0), np.nan), (stats.gumbel_l.ppf, (0.0,), np.nan),
    (stats.gumbel_r.sf, (50.0,), 1.9287498479639178e-22), (stats.gumbel_l.cdf, (-50.0,), 1.9287498479639178e-22),
    (stats.bernoulli.pmf, (2, 0.5), 0.0), (stats.bernoulli.logpmf, (0, 0.0), 0.0),
    (stats.bernoulli.cdf, (0, 2.0), np.nan),
    (stats.binom.pmf, (0, 0, 0.5), 1.0), (stats.binom.pmf, (5, 4, 0.5), 0.0), (stats.binom.pmf, (4, 4, 1.0), 1.0),
    (stats.poisson.pmf, (0, 0.0), 1.0), (stats.poisson.pmf, (1.5, 2.0), 0.0), (stats.poisson.cdf, (-1, 2.0), 0.0),
    (stats.poisson.entropy, (0.0,), 0.0), (stats.poisson.entropy, (1e6,), 8.326693745),
    (stats.geom.pmf, (0, 0.5), 0.0), (stats.geom.pmf, (1, 1.0), 1.0), (stats.nbinom.pmf, (-1, 2, 0.5), 0.0),
    (stats.betabinom.pmf, (0, 0, 1.0, 1.0), 1.0), (stats.betabinom.logpmf, (1, 2, -1.0, 1.0), np.nan),
    (stats.truncnorm.logpdf, (0.0, 1.0, 0.5), np.nan), (stats.truncnorm.cdf, (3.0, 0.0, 2.0), 1.0),
    (stats.truncnorm.logcdf, (20.5, 20.0, np.inf), scipy.stats.truncnorm.logcdf(20.5, 20, np.inf)),
    (stats.vonmises.pdf, (0.0, -1.0), np.nan), (stats.wrapcauchy.pdf, (7.0, 0.5), 0.0),
    (stats.wrapcauchy.pdf, (1.0, 2.0), np.nan),
    (stats.wrapcauchy.logpdf, (1e-4, 0.9999), scipy.stats.wrapcauchy.logpdf(1e-4, 0.9999)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SPECIAL)))
def test_ends_and_tails(number):
    fun, xs, wanted = SPECIAL[number]
    with veery.enable_x64(True):
        out = interpreted(fun, *map(np.float64, xs))
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-300)


def test_derivatives_are_finite_at_ends_and_outside():
    cases = [
        (stats.gamma.logpdf, (-1.0, 2.0)), (stats.beta.logpdf, (2.0, 2.0, 3.0)), (stats.expon.cdf, (-1.0,)),
        (stats.truncnorm.logcdf, (0.5, -np.inf, np.inf)), (stats.truncnorm.logsf, (0.5, -1.0, np.inf)),
        (stats.pareto.logsf, (-1.0, 2.0)), (stats.poisson.logpmf, (0.0, 2.0)), (stats.binom.logpmf, (0.0, 5.0, 0.5)),
        (stats.norm.logcdf, (-40.0,)), (stats.norm.logsf, (40.0,)), (stats.gumbel_r.logsf, (50.0,)),
    ]  # fmt: skip
    for fun, xs in cases:
        slope = interpreted(veery.grad(fun), *map(np.float32, xs))
        assert np.isfinite(slope), fun


def test_derivatives_where_formulas_meet():
    """As JAX gives them: at medians, ends and infinity."""
    cases = [
        (stats.cauchy.ppf, (0.5,), np.pi), (stats.cauchy.isf, (0.5,), -np.pi), (stats.laplace.cdf, (0.0,), 0.5),
        (stats.gamma.cdf, (np.inf, 2.5), 0.0), (stats.gamma.sf, (np.inf, 2.5), 0.0),
        (stats.chi2.cdf, (np.inf, 3.0), 0.0),
        (stats.gamma.logcdf, (0.0, 2.5), 0.0), (stats.beta.logcdf, (0.0, 2.5, 1.5), 0.0),
        (stats.norm.cdf, (0.0,), 0.3989423),
    ]  # fmt: skip
    for fun, xs, wanted in cases:
        slope = interpreted(veery.grad(fun), *map(np.float32, xs))
        np.testing.assert_allclose(slope, wanted, rtol=1e-6, err_msg=fun.__module__)


def test_probabilities_far_out():
    """The rounding of squares in exponents is made up for only where it counts: these are its greatest multiples."""
    x = np.array([5000.04, 200000.046875, 3e5 + 0.046875, 1e20], np.float32)
    for fun, wanted in ((stats.norm.pdf, 0), (stats.norm.sf, 0), (stats.norm.cdf, 1)):
        np.testing.assert_array_equal(interpreted(fun, x), wanted)
        np.testing.assert_array_equal(interpreted(lambda x, fun=fun: veery.vmap(veery.grad(fun))(x), x), 0)


def test_beta_of_numbers_next_to_zero(x64):
    """What 1 - x is rounded to has lost them."""
    x = np.array([5.5e-26, 2.9e-17, 1e-10, 1e-3, 0.3, 0.7])[:, None]
    a, b = np.array([0.0034, 0.0055, 0.5, 2.0, 300.0, 1.0]), np.array([9.9, 4.8, 0.5, 300.0, 2.0, 1.0])
    for name in ("cdf", "sf", "logcdf", "logsf"):
        out = interpreted(getattr(stats.beta, name), x, a, b)
        np.testing.assert_allclose(out, getattr(scipy.stats.beta, name)(x, a, b), rtol=1e-11)
    assert interpreted(stats.beta.logcdf, np.float64(1e-20), np.float64(2), np.float64(np.inf)) == 0
    assert np.isnan(interpreted(stats.beta.cdf, np.array([-1.0, 2.0]), np.float64(2), np.float64(np.nan))).all()


def test_powers_that_float32_cannot_hold():
    """Squares too large, exponentials and powers too small: 88 is not far out, nor is 0.5."""
    cases = [
        (stats.cauchy.logpdf, (1e30,), -139.2998354654921), (stats.t.logpdf, (1e30, 2.0), -207.2326583694641),
        (stats.gumbel_l.logcdf, (-100.0,), -100.0), (stats.gumbel_r.logsf, (170.5,), -170.5),
        (stats.gennorm.cdf, (-0.5, 139.0), scipy.stats.gennorm.cdf(-0.5, 139.0)), (stats.gennorm.cdf, (0.0, 99.0), 0.5),
    ]  # fmt: skip
    for fun, xs, wanted in cases:
        operands = [np.float32(x) for x in xs]
        np.testing.assert_allclose(interpreted(fun, *operands), wanted, rtol=1e-6)
        assert np.isfinite(interpreted(veery.grad(fun), *operands)), fun.__module__
    slope = interpreted(veery.grad(stats.gennorm.cdf), np.float32(0), np.float32(99))
    np.testing.assert_allclose(slope, scipy.stats.gennorm.pdf(0, 99), rtol=1e-6)


@pytest.mark.parametrize("name", ["cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize("family", ["gamma", "chi2"])
def test_what_has_no_distribution_has_no_probabilities(family, name):
    x = np.array([-np.inf, -1, 0, 2, np.inf], np.float32)
    for parameters in ((-1, 0, 1), (np.nan, 0, 1), (2, np.nan, 1), (2, 0, np.nan), (2, 0, -1)):
        out = interpreted(function(family, name), x, *np.float32(parameters))
        assert np.isnan(out).all(), parameters


def test_integers_become_floats():
    assert interpreted(stats.norm.logpdf, np.int32(1)).dtype == np.float32
    assert interpreted(stats.poisson.pmf, np.arange(3), np.int32(2)).dtype == np.float32
    with pytest.raises(TypeError, match="logpdf requires ndarray or scalar arguments"):
        stats.norm.logpdf([1.0])
    with pytest.raises(TypeError, match="logpdf does not support complex-valued inputs"):
        stats.norm.logpdf(1j)


# Of which JAX 0.10.2 gives weakly typed results for weakly typed arrays; and strong ones for numbers, too.
WEAK = set(
    """
    binom.logpmf binom.pmf expon.cdf expon.logcdf expon.logpdf expon.logsf expon.pdf expon.ppf expon.sf gamma.logsf
    gamma.sf gennorm.cdf gennorm.logpdf gennorm.pdf gumbel_l.cdf gumbel_l.logcdf gumbel_l.logpdf gumbel_l.logsf
    gumbel_l.pdf gumbel_l.ppf gumbel_l.sf gumbel_r.cdf gumbel_r.logcdf gumbel_r.logpdf gumbel_r.logsf gumbel_r.pdf
    gumbel_r.ppf logistic.cdf logistic.sf pareto.logcdf poisson.logpmf poisson.pmf uniform.logpdf uniform.pdf
    uniform.ppf vonmises.logpdf vonmises.pdf wrapcauchy.logpdf wrapcauchy.pdf
    """.split()
)
STRONG = set(
    """
    norm.cdf norm.isf norm.logcdf norm.logsf norm.ppf norm.sf poisson.entropy truncnorm.cdf truncnorm.logcdf
    truncnorm.logpdf truncnorm.logsf truncnorm.pdf truncnorm.sf uniform.cdf
    """.split()
)


@by_function
def test_weak_types_are_those_of_jax(family, name):
    fun, count = function(family, name), 1 + len(FAMILIES[family])
    number = jnp.asarray(0.4)
    array = jnp.full_like(number, 0.4, shape=(3,))
    assert number.weak_type and array.weak_type
    out = veery.eval_shape(fun, *[number] * count)
    assert (str(out.dtype), out.weak_type) == ("float32", f"{family}.{name}" not in STRONG)
    whole = [np.ones(3, np.int32)] + [0.4] * (count - 1)
    for operands, is_weak in (([array] * count, True), (whole, count > 1)):
        out = veery.eval_shape(lambda x, operands=operands: fun(x, *operands[1:]), operands[0])
        assert (str(out.dtype), out.weak_type) == ("float32", is_weak and f"{family}.{name}" in WEAK)


def test_every_family_is_tested():
    names = {name for name in dir(stats) if not name.startswith("_")}
    assert names == FAMILIES.keys() | ELSEWHERE
    tested = {f"{f}.{n}" for f, n in FUNCTIONS}
    wanted = "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf entropy".split()
    assert {f"{f}.{n}" for f in FAMILIES for n in wanted if hasattr(getattr(stats, f), n)} == tested


# ---------------------------------------------------------------------------------------------------------------------
# Distributions of vectors

RNG = np.random.default_rng(1)


def test_dirichlet(x64):
    x = RNG.dirichlet([1.0, 2.0, 3.0], 5).T
    alpha = np.array([0.7, 2.0, 3.5])
    wanted = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(interpreted(stats.dirichlet.logpdf, x, alpha), wanted, rtol=1e-12)
    np.testing.assert_allclose(interpreted(stats.dirichlet.logpdf, x[:-1], alpha), wanted, rtol=1e-12)
    np.testing.assert_allclose(interpreted(stats.dirichlet.pdf, x, alpha), np.exp(wanted), rtol=1e-12)
    assert interpreted(stats.dirichlet.logpdf, np.array([0.5, 0.6, 0.1]), alpha) == -np.inf
    with pytest.raises(ValueError, match="must be one-dimensional"):
        stats.dirichlet.logpdf(x, alpha[None])
    with pytest.raises(ValueError, match="one entry fewer"):
        stats.dirichlet.logpdf(x[:1], alpha)


def test_multinomial(x64):
    x = np.array([[1, 2, 3], [0, 0, 6], [1, 1, 1]])
    p = np.array([0.2, 0.3, 0.5])
    wanted = scipy.stats.multinomial.logpmf(x, 6, p)
    np.testing.assert_allclose(interpreted(stats.multinomial.logpmf, x, np.int64(6), p), wanted, rtol=1e-12)
    np.testing.assert_allclose(interpreted(stats.multinomial.pmf, x[0], np.int64(6), p), np.exp(wanted[0]), rtol=1e-12)
    with pytest.raises(ValueError, match="must be of integer type"):
        stats.multinomial.logpmf(x * 1.0, 6, p)


def test_multivariate_normal(x64):
    x, mean = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    a = RNG.normal(size=(4, 3, 3))
    covs = a @ a.mT + np.eye(3)
    fun = stats.multivariate_normal.logpdf
    reference = scipy.stats.multivariate_normal.logpdf
    np.testing.assert_allclose(interpreted(fun, x, mean, covs[0]), reference(x, mean, covs[0]), rtol=1e-10)
    each = [reference(y, mean, c) for y, c in zip(x, covs)]
    np.testing.assert_allclose(interpreted(fun, x, mean, covs), each, rtol=1e-10)
    np.testing.assert_allclose(interpreted(fun, x[0], mean, np.float64(2)), reference(x[0], mean, 2.0), rtol=1e-10)
    np.testing.assert_allclose(interpreted(fun, x[0], np.float64(1), np.float64(2)), reference(x[0][:, None], 1.0, 2.0))
    density = interpreted(stats.multivariate_normal.pdf, x, mean, covs[0])
    np.testing.assert_allclose(density, np.exp(reference(x, mean, covs[0])), rtol=1e-10)
    with numpy_evaluation():
        check_forward(lambda x, m, c: fun(x, m, c @ c.mT), [x, mean, covs[0]], [0, 1, 2], 1e-5)
    with pytest.raises(ValueError, match="incompatible shapes"):
        fun(x, mean, covs[0][:2])
    with pytest.raises(ValueError, match="incompatible shapes"):
        fun(x, mean[:2], covs[0])
    with pytest.raises(NotImplementedError, match="allow_singular"):
        fun(x, mean, covs[0], allow_singular=True)


# ---------------------------------------------------------------------------------------------------------------------
# Samples

TIES = RNG.integers(0, 4, (6, 5)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mode(axis, keepdims):
    out = interpreted(lambda x: tuple(stats.mode(x, axis=axis, keepdims=keepdims)), TIES)
    for actual, wanted in zip(out, scipy.stats.mode(TIES, axis=axis, keepdims=keepdims), strict=True):
        np.testing.assert_array_equal(actual, wanted)
        assert actual.shape == np.shape(wanted)


def test_mode_of_nothing_and_of_nan():
    assert np.isnan(interpreted(lambda x: stats.mode(x).mode, np.zeros((0, 2), np.float32))).all()
    value, count = interpreted(lambda x: tuple(stats.mode(x)), np.array([np.nan, 1, np.nan, 2], np.float32))
    assert np.isnan(value) and count == 2
    for policy, error in (("omit", NotImplementedError), ("raise", NotImplementedError), ("drop", ValueError)):
        with pytest.raises(error, match="nan"):
            stats.mode(TIES, nan_policy=policy)
        with pytest.raises(error, match="nan"):
            stats.rankdata(TIES, nan_policy=policy)


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_rankdata(method, axis):
    out = interpreted(lambda x: stats.rankdata(x, method, axis=axis), TIES)
    wanted = scipy.stats.rankdata(TIES, method, axis=axis)
    np.testing.assert_array_equal(out, wanted.ravel() if axis is None else wanted)
    assert out.dtype == np.float32
    with_nan = np.where(TIES == 3, np.nan, TIES)
    assert np.isnan(interpreted(lambda x: stats.rankdata(x, method), with_nan)).all()
    with pytest.raises(ValueError, match="unknown method 'least'"):
        stats.rankdata(TIES, "least")


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("policy", ["propagate", "omit"])
def test_sem(axis, policy):
    x = TIES.copy()
    x[0, 1] = x[3, 2] = np.nan
    for keepdims in (False, True):
        out = interpreted(lambda x, k=keepdims: stats.sem(x, axis, 0, policy, keepdims=k), x)
        wanted = scipy.stats.sem(x, axis, 0, policy, keepdims=keepdims)
        np.testing.assert_allclose(out, np.ma.filled(wanted, np.nan), rtol=1e-5)
    with pytest.raises(ValueError, match="raise is not supported"):
        stats.sem(x, nan_policy="raise")


# ---------------------------------------------------------------------------------------------------------------------
# Density estimates

POINTS = RNG.normal(size=(2, 20))
WEIGHTS = RNG.uniform(size=20)


def estimates(method: Any, weights: Any) -> list[Any]:
    return [module.gaussian_kde(POINTS, method, weights) for module in (stats, scipy.stats)]


@pytest.mark.compiler
@pytest.mark.parametrize("method", [None, "silverman", 0.7, lambda kde: 1.3])
def test_density_estimates(method, x64):
    ours, theirs = estimates(method, WEIGHTS if method is None else None)
    at = RNG.normal(size=(2, 7))
    np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-10)
    np.testing.assert_allclose(ours.inv_cov, theirs.inv_cov, rtol=1e-10)
    np.testing.assert_allclose(ours.neff, theirs.neff, rtol=1e-10)
    np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-9)
    np.testing.assert_allclose(ours.pdf(at[:, 0]), theirs(at[:, :1]), rtol=1e-9)
    np.testing.assert_allclose(veery.jit(lambda k, x: k.logpdf(x))(ours, at), theirs.logpdf(at), rtol=1e-9)
    cov = np.eye(2) * 0.3
    np.testing.assert_allclose(ours.integrate_gaussian(at[:, 0], cov), theirs.integrate_gaussian(at[:, 0], cov))
    np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs), rtol=1e-9)


@pytest.mark.compiler
def test_density_estimates_in_one_dimension():
    ours, theirs = stats.gaussian_kde(POINTS[0]), scipy.stats.gaussian_kde(POINTS[0])
    np.testing.assert_allclose(ours.integrate_box_1d(-1.0, 0.5), theirs.integrate_box_1d(-1.0, 0.5), rtol=1e-5)
    assert (ours.d, ours.n) == (1, 20)
    samples = ours.resample(random.key(0), (3000,))
    assert samples.shape == (1, 3000) and samples.dtype == np.float32
    spread = POINTS[0].var() + ours.covariance[0, 0]
    assert abs(float(samples.mean() - POINTS[0].mean())) < 0.1 and abs(float(samples.var() / spread) - 1) < 0.1
    slope = veery.grad(lambda x: ours.logpdf(x)[0])(jnp.float32(0.3))
    difference = (theirs.logpdf(0.3 + 1e-4) - theirs.logpdf(0.3 - 1e-4)) / 2e-4
    np.testing.assert_allclose(slope, difference[0], rtol=1e-3)


def test_density_estimates_refuse():
    kde = stats.gaussian_kde(POINTS)
    cases = [
        (lambda: stats.gaussian_kde(POINTS[0, :1]), ValueError, "multiple elements"),
        (lambda: stats.gaussian_kde(POINTS * 1j), NotImplementedError, "complex data"),
        (lambda: stats.gaussian_kde(POINTS, weights=WEIGHTS[:3]), ValueError, "of length n"),
        (lambda: stats.gaussian_kde(POINTS, weights=WEIGHTS[None]), ValueError, "one-dimensional"),
        (lambda: stats.gaussian_kde(POINTS, "wide"), ValueError, "bw_method"),
        (lambda: kde.evaluate(np.zeros((3, 4))), ValueError, "points have dimension 3, dataset has dimension 2"),
        (lambda: kde.evaluate(np.zeros((2, 4)) * 1j), NotImplementedError, "complex coordinates"),
        (lambda: kde.integrate_box_1d(0.0, 1.0), ValueError, "only handles 1D"),
        (lambda: kde.integrate_gaussian(np.zeros(3), np.eye(3)), ValueError, "mean does not have dimension 2"),
        (lambda: kde.integrate_gaussian(np.zeros(2), np.eye(3)), ValueError, "covariance does not have dimension 2"),
        (lambda: kde.integrate_kde(stats.gaussian_kde(POINTS[0])), ValueError, "not the same dimensionality"),
        (lambda: kde.integrate_box(0.0, 1.0), NotImplementedError, "only 1D box"),
        (lambda: kde.set_bandwidth("scott"), NotImplementedError, "bandwidth"),
    ]
    for call, error, words in cases:
        with pytest.raises(error, match=words):
            call()
