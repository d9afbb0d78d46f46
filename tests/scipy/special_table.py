"""Special functions with samples, references in float64, and how near they come to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

INF, NAN = np.inf, np.nan


@dataclass(frozen=True, eq=False)
class Row:
    """A function, where it is compared with a reference, and within how many units in the last place.

    Each of `samples` and `specials` has an array for each argument. Samples are within the domain, away from kinks:
    there derivatives by the arguments at the positions `smooth` are compared with differences. Specials are ends of the
    domain, poles, and what is outside of it.
    """

    name: str
    reference: Callable[..., Any]
    samples: tuple[Any, ...]
    specials: tuple[Any, ...]
    ulps: tuple[float, float] = (4, 4)  # in float32, in float64
    smooth: tuple[int, ...] = (0,)
    twice: tuple[int, ...] | None = None  # the positions of second derivatives, if others
    slack: float = 1e-6  # of derivatives

    def operands(self, dtype: Any) -> tuple[np.ndarray, ...]:
        """Samples and specials in a dtype."""
        parts = zip(self.samples, self.specials, strict=True)
        return tuple(np.concatenate([np.asarray(x, np.float64).ravel() for x in pair]).astype(dtype) for pair in parts)


def near(low: float, high: float, count: int = 40) -> np.ndarray:
    """Random numbers of an interval, the same in each session."""
    return np.random.default_rng(count).uniform(low, high, count)


def wide(low: float, high: float, count: int = 40) -> np.ndarray:
    """Random numbers whose magnitudes differ."""
    return np.exp(near(np.log(low), np.log(high), count))


_PAIRS = np.repeat([-1.0, 0.0, 2.0, 1e-30, INF, NAN], 6), np.tile([-1.0, 0.0, 3.0, 1e30, INF, NAN], 6)
_SPECIAL = [0.0, -0.0, 1.0, 2.0, -1.0, -2.5, INF, -INF, NAN]
_REALS = [*_SPECIAL, 1e-30, -1e-30, 1e10, -1e10, 1e30, 9.5, -9.5]
_SQUARE = np.repeat([0.0, 1.0, 2.0, INF, NAN], 6), np.tile([0.0, 1.0, 0.5, 20.0, INF, NAN], 5)
_ORDERS = np.repeat([-1.0, 0.0, 1.0, 2.0, 30.0], 6), np.tile([0.0, 1.0, 1.5, 20.0, INF, NAN], 5)
_ZETAS = [2.0, 3.0, 2.0, 3.0, 4.0, 5.0, 2.0, 2.5, 2.0], [1.0, 50.0, -0.5, -9.75, -20.25, -0.125, -600.125, -3.5, -3.0]
_LAMBDAS = [0.0, 2.0, 1e-9, -2.0, NAN, 4.0], [1.0, 0.0, 1.0, 1.0, 1.0, 1e-12]


def _factorial(n: np.ndarray) -> np.ndarray:
    return np.where(n < 0, 0, np.where(n == 0, 1, n * special.gamma(n)))  # SciPy's rounds n + 1


def _expn(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    return special.expn(n.astype(int), x)


ROWS = [
    # Logistic functions and entropies.
    Row("expit", special.expit, (near(-30, 30),), ([0.0, INF, -INF, NAN],)),
    Row("logit", special.logit, (near(0.01, 0.99),), ([0.0, 1.0, 0.5, 0.499999, 1e-30, -1.0, 2.0, NAN],)),
    Row("xlogy", special.xlogy, (near(-3, 3), wide(0.1, 10)), _PAIRS, smooth=(0, 1)),
    Row("xlog1py", special.xlog1py, (near(-3, 3), wide(0.1, 10)), _PAIRS, smooth=(0, 1)),
    Row("entr", special.entr, (wide(0.1, 10),), ([0.0, -1.0, 1.0, 1e-30, 1e30, INF, NAN],)),
    Row("rel_entr", special.rel_entr, (wide(0.1, 10), wide(0.1, 10)[::-1]), _PAIRS, smooth=(0, 1)),
    Row("kl_div", special.kl_div, (wide(0.1, 1), wide(2, 10)), _PAIRS, (32, 32), (0, 1)),
    Row("boxcox", special.boxcox, (wide(0.1, 10), near(-3, 3)), _LAMBDAS, (16, 16), (0, 1)),
    Row("boxcox1p", special.boxcox1p, (wide(0.1, 10), near(-3, 3)), _LAMBDAS, (16, 16), (0, 1)),
    # The gamma function and its relatives.
    Row("gamma", special.gamma, (near(-9.9, 9.9),), (_SPECIAL + [30.5, 1e-30, -1e-30, 171.0],), (4, 6)),
    Row("gammaln", special.gammaln, (near(0.1, 30),), ([0.0, 1e-10, 1e10, INF, NAN],), (4, 40)),
    Row("gammasgn", special.gammasgn, (near(-9.9, 9.9),), (_SPECIAL,), (0, 0), ()),
    Row("loggamma", special.loggamma, (near(0.1, 30),), ([1e-10, 1e10, INF, NAN],), (4, 40)),
    Row("factorial", _factorial, (near(0.1, 20),), ([-1.0, 0.0, 3.0, 10.0, NAN],), (8, 8)),
    Row(
        "comb",
        special.comb,
        (near(11, 20), near(1, 10)),
        ([5.0, 5.0, -1.0, 3.0, 49.0], [6.0, -1.0, 1.0, 3.0, 7.0]),
        (50, 50),
        (0, 1),
    ),
    Row(
        "beta",
        special.beta,
        (near(0.1, 9), near(0.1, 9)[::-1]),
        ([0.5, 3.0, 1e-9, 20.0], [30.0, 1e-9, 1e-9, 1.0]),
        (40, 100),
        (0, 1),
    ),
    Row(
        "betaln",
        special.betaln,
        (near(0.1, 30), near(0.1, 30)[::-1]),
        ([0.5, 1e-9, 40.0, -2.625, 20.0, 1e30, 3.0], [30.0, 1e-9, 50.0, 1e30, -3.5, -0.5, 3e38]),
        (40, 400),
        (0, 1),
    ),
    Row(
        "poch",
        special.poch,
        (near(0.5, 9), near(0.5, 9)[::-1]),
        ([2.0, 20.0, 20.0, 0.0], [0.0, 3.0, -3.0, 2.0]),
        (50, 200),
        (0, 1),
    ),
    Row(
        "betainc",
        special.betainc,
        (near(0.5, 5), near(0.5, 5)[::-1], near(0.1, 0.9)),
        ([1.0, 1.0], [2.0, 2.0], [0.0, 1.0]),
        (24, 60),
        (2,),
    ),
    Row(
        "gammainc",
        special.gammainc,
        (near(0.5, 5), near(0.5, 5)[::-1]),
        ([1.0, 1.0], [0.0, INF]),
        (4, 60),
        (0, 1),
        (1,),
    ),
    Row(
        "gammaincc",
        special.gammaincc,
        (near(0.5, 5), near(0.5, 5)[::-1]),
        ([1.0, 1.0], [0.0, INF]),
        (16, 60),
        (0, 1),
        (1,),
    ),
    Row("digamma", special.digamma, (near(2, 30),), ([-0.5, 0.5, 1e-5, 1e5, INF, NAN],), (4, 4)),
    Row("zeta", special.zeta, (near(1.5, 9), near(0.5, 5)[::-1]), _ZETAS, (16, 16), (0, 1)),
    # Error functions and the normal distribution.
    Row("erf", special.erf, (near(-4, 4),), ([0.0, 1e-30, INF, -INF, NAN],)),
    Row("erfc", special.erfc, (near(-4, 4),), ([0.0, 1e-30, INF, -INF, NAN],), (8, 8)),
    Row("erfinv", special.erfinv, (near(-0.99, 0.99),), ([0.0, 1e-30, 1.0, -1.0, 2.0, NAN],)),
    Row("erfcx", special.erfcx, (near(-4, 20),), (_REALS,), (4, 20)),
    Row("dawsn", special.dawsn, (near(-12, 12),), (_REALS,), (4, 100)),
    Row("ndtr", special.ndtr, (near(-6, 6),), (_REALS,), (4, 30)),
    Row(
        "ndtri",
        special.ndtri,
        (near(0.01, 0.99),),
        ([0.0, 1e-30, 1e-5, 0.5, 1.0, 2.0, -1.0, -1e-30, NAN],),
        (4, 6),
        slack=1e-5,
    ),
    Row("log_ndtr", special.log_ndtr, (near(-12, 6),), (_REALS,), (5, 40)),
    Row("owens_t", special.owens_t, (near(-3, 3), near(-4, 4)[::-1]), _SQUARE, (20, 600), (0, 1)),
    # Integrals.
    Row("exp1", special.exp1, (near(0.2, 20),), (_REALS,), (4, 12)),
    Row("expi", special.expi, (wide(0.5, 20) * np.where(np.arange(40) % 3 == 0, -1, 1),), (_REALS,), (4, 100)),
    Row("expn", _expn, (np.arange(40) % 9 + 3.0, near(0.2, 20)), _ORDERS, (40, 60), (1,)),
    Row("sici", special.sici, (near(0.2, 30),), (_REALS,), (100, 100)),
    Row("fresnel", special.fresnel, (near(0.2, 6),), (_REALS,), (4, 20)),
    Row("spence", special.spence, (near(0.1, 9),), ([0.0, 1.0, 1e-9, 1e9, -1.0, NAN],), (6, 40)),
    # Bessel and hypergeometric functions.
    Row("i0", special.i0, (near(-20, 20),), ([0.0, 80.0, NAN],), (6, 6)),
    Row("i1", special.i1, (near(-20, 20),), ([0.0, 80.0, NAN],), (16, 12)),
    Row("i0e", special.i0e, (near(-20, 20),), ([0.0, 1e10, NAN],), (6, 6)),
    Row("i1e", special.i1e, (near(-20, 20),), ([0.0, 1e10, NAN],), (16, 12)),
    Row(
        "hyp1f1",
        special.hyp1f1,
        (near(0.2, 3), near(0.5, 4)[::-1], near(-9, 9)),
        ([0.0, 1.0, 2.0, -2.0, 2.0, 1.5], [2.0, 1.0, 0.0, -1.0, 2.5, 2.5], [3.0, 3.0, 1.0, 0.5, 200.0, -150.0]),
        (60, 400),
        (),
    ),
    Row(
        "hyp2f1",
        special.hyp2f1,
        (near(0.2, 2), near(0.5, 2)[::-1], near(2.5, 5), near(-0.9, 0.85)[::-1]),
        (
            [0.0, 1.0, -2.0, 1.0, 0.5, 0.5, 1.5],
            [2.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5],
            [3.0, -1.0, 2.5, 2.0, 2.0, 2.0, 3.25],
            [0.5, 0.5, 3.0, 2.0, 1.0, 0.95, 0.95],
        ),
        (60, 60),
        (),
    ),
]
