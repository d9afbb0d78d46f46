"""Special functions with samples, references in float64, and how near they come to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

INF, NAN = np.inf, np.nan


@dataclass(frozen=True)
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
_LAMBDAS = [0.0, 2.0, 1e-9, -2.0, NAN, 4.0], [1.0, 0.0, 1.0, 1.0, 1.0, 1e-12]

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
]
