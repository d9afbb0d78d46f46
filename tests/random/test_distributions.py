"""Samples follow their distributions: those with a density by Kolmogorov and Smirnov's test, counts by chi-squared's.

The key is fixed, so the samples are always the same, and a test that passes does so for ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veery
import veery.numpy as jnp
from veery import random
from veery._core.jaxpr import reference_eval

pytestmark = pytest.mark.slow

COUNT = 1000
LEAST = 1e-3  # of the probability that what is right differs so much

CONTINUOUS = {
    "exponential": (lambda k, n: random.exponential(k, n), stats.expon()),
    "laplace": (lambda k, n: random.laplace(k, n), stats.laplace()),
    "logistic": (lambda k, n: random.logistic(k, n), stats.logistic()),
    "cauchy": (lambda k, n: random.cauchy(k, n), stats.cauchy()),
    "maxwell": (lambda k, n: random.maxwell(k, n), stats.maxwell()),
    "gumbel": (lambda k, n: random.gumbel(k, n), stats.gumbel_r()),
    "gumbel, accurate": (lambda k, n: random.gumbel(k, n, mode="high"), stats.gumbel_r()),
    "pareto": (lambda k, n: random.pareto(k, 2.5, n), stats.pareto(2.5)),
    "rayleigh": (lambda k, n: random.rayleigh(k, 1.5, n), stats.rayleigh(scale=1.5)),
    "weibull_min": (lambda k, n: random.weibull_min(k, 2.0, 1.5, n), stats.weibull_min(1.5, scale=2)),
    "wald": (lambda k, n: random.wald(k, 1.5, n), stats.invgauss(1.5, scale=1)),
    "triangular": (lambda k, n: random.triangular(k, -1.0, 0.5, 2.0, n), stats.triang(0.5, loc=-1, scale=3)),
    "lognormal": (lambda k, n: random.lognormal(k, 0.7, n), stats.lognorm(0.7)),
    "double_sided_maxwell": (
        lambda k, n: abs(random.double_sided_maxwell(k, 1.0, 2.0, n) - 1),
        stats.maxwell(scale=2),
    ),
    "gamma": (lambda k, n: random.gamma(k, 2.5, n), stats.gamma(2.5)),
    "gamma below 1": (lambda k, n: random.gamma(k, 0.3, n), stats.gamma(0.3)),
    "loggamma": (lambda k, n: random.loggamma(k, 0.3, n), stats.loggamma(0.3)),
    "beta": (lambda k, n: random.beta(k, 0.7, 3.0, n), stats.beta(0.7, 3)),
    "dirichlet": (lambda k, n: random.dirichlet(k, jnp.array([1.0, 2.0, 3.0]), n)[:, 1], stats.beta(2, 4)),
    "chisquare": (lambda k, n: random.chisquare(k, 3.0, shape=n), stats.chi2(3)),
    "f": (lambda k, n: random.f(k, 4.0, 7.0, n), stats.f(4, 7)),
    "t": (lambda k, n: random.t(k, 3.0, n), stats.t(3)),
    "generalized_normal": (lambda k, n: random.generalized_normal(k, 1.5, n), stats.gennorm(1.5)),
    "ball": (lambda k, n: jnp.linalg.norm(random.ball(k, 3, 2.0, n), axis=-1) ** 3, stats.uniform()),
    "multivariate_normal": (
        lambda k, n: random.multivariate_normal(k, jnp.array([1.0, -1.0]), jnp.array([[2.0, 0.6], [0.6, 1.0]]), n).sum(
            -1
        ),
        stats.norm(0, np.sqrt(4.2)),
    ),
    "orthogonal": (lambda k, n: random.orthogonal(k, 2, n)[:, 0, 0], stats.arcsine(loc=-1, scale=2)),
}
DISCRETE = {
    "poisson": (lambda k, n: random.poisson(k, 3.0, n), stats.poisson(3)),
    "poisson of many": (lambda k, n: random.poisson(k, 40.0, n), stats.poisson(40)),
    "geometric": (lambda k, n: random.geometric(k, 0.4, n), stats.geom(0.4)),
    "binomial": (lambda k, n: random.binomial(k, 10.0, 0.3, n), stats.binom(10, 0.3)),
    "binomial of many": (lambda k, n: random.binomial(k, 100.0, 0.6, n), stats.binom(100, 0.6)),
    "multinomial": (
        lambda k, n: random.multinomial(k, 12.0, jnp.array([0.2, 0.3, 0.5]), shape=(*n, 3))[:, 1],
        stats.binom(12, 0.3),
    ),
    "categorical": (
        lambda k, n: random.categorical(k, jnp.log(jnp.array([0.2, 0.3, 0.5])), shape=n),
        stats.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])),
    ),
}


@functools.cache
def samples(name: str) -> np.ndarray:
    """By the references of operations, without the compiler: test_recorded.py has values of compiled programs."""
    function = {**CONTINUOUS, **DISCRETE}[name][0]
    seed = 3 + [*CONTINUOUS, *DISCRETE].index(name)
    key = np.array([0, seed], np.uint32)
    return evaluated(lambda key: function(key, (COUNT,)), key)[0]


def evaluated(function: Callable[[Any], Any], key: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(x) for x in reference_eval(veery.make_jaxpr(function)(key), key)]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    assert samples(name).shape == (COUNT,)
    assert stats.kstest(samples(name).astype(np.float64), CONTINUOUS[name][1].cdf).pvalue > LEAST


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    values, expected = samples(name).astype(int), DISCRETE[name][1]
    assert np.array_equal(values, samples(name))
    edges = np.unique(expected.ppf(np.linspace(0, 1, 9)[1:-1]))  # so that each part has many
    probabilities = np.diff([0, *expected.cdf(edges), 1])
    parts = probabilities > 1e-9
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    assert not counts[~parts].any()
    assert stats.chisquare(counts[parts], COUNT * probabilities[parts]).pvalue > LEAST


def test_what_holds_of_each_sample():
    def function(key):
        three = jnp.array([0.2, 0.3, 0.5])
        counts = random.multinomial(key, 20.0, three, shape=(50, 3))
        return random.dirichlet(key, three, (50,)), counts, random.orthogonal(key, 4)

    shares, counts, q = evaluated(function, np.array([0, 2], np.uint32))
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(counts.sum(-1), 20)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-5)
