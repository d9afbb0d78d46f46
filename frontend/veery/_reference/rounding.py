"""The size of the rounding errors of each operation, in units of the roundoff: half the distance between neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.jaxpr import JaxprEqn
from veery._reference.formats import Format
from veery._reference.leaves import leaf
from veery._reference.samples import Value, representable

# Operations whose results are numbers that they were given, or exact functions of them.
EXACT = frozenset(
    "all_gather broadcast_in_dim ceil clamp complex concatenate conj copy cummax cummin dynamic_slice "
    "dynamic_update_slice floor gather imag iota max min name neg nextafter optimization_barrier pad real reduce_max "
    "reduce_min reduce_window_max reduce_window_min rem reshape rev round scatter scatter_max scatter_min "
    "select_and_gather_add select_n slice sort split squeeze stop_gradient top_k transpose".split()
)
EXACT_REAL = frozenset(("abs", "sign"))  # of real numbers; of complex ones they round
CORRECT = frozenset("add sub mul div sqrt square convert_element_type integer_pow".split())  # exact if they can be

MIXED = frozenset(("fft",))  # in whose zeros others cancel, as far as they are rounded alike

# Units of the roundoff of the result, or of 1 for functions that lose digits near their zeros. `sample_log1p` rounds as
# XLA's log1p does, which errs by 2.7e-14 of its result at -0.414.
ULPS = {
    "acos": 4, "acosh": 4, "add": 1, "asin": 4, "asinh": 4, "atan": 4, "atan2": 4, "atanh": 4, "bessel_i0e": 8,
    "bessel_i1e": 8, "cbrt": 2, "convert_element_type": 1, "cos": 2, "cosh": 4, "digamma": 8, "div": 1, "erf": 4,
    "erf_inv": 8, "erfc": 8, "exp": 2, "exp2": 2, "expm1": 4, "igamma": 1000, "igamma_grad_a": 1000, "igammac": 1000,
    "lgamma": 8, "log": 2, "log1p": 2, "logistic": 4, "mul": 1, "polygamma": 20, "pow": 4, "random_gamma_grad": 1000,
    "regularized_incomplete_beta": 100, "rsqrt": 2, "sample_log1p": 128, "sin": 2, "sinh": 4, "sqrt": 1, "square": 1,
    "sub": 1, "tan": 4, "tanh": 4, "zeta": 20,
}  # fmt: skip
OTHER = 4.0  # ULPS of operations that are not listed, and at most of floats narrower than float32, computed in that
NEAR_ZEROS = frozenset("digamma lgamma zeta polygamma igamma_grad_a random_gamma_grad cumlogsumexp".split())


def terms(eqn: JaxprEqn, operands: Sequence[Value]) -> np.ndarray | None:
    """The sum of the sizes of what an equation adds up, None for operations that add nothing."""
    name = eqn.primitive.name
    with np.errstate(all="ignore"):
        if name in ("add", "sub"):
            return np.abs(operands[0][0]) + np.abs(operands[1][0])
        return _total(eqn, [v[0] for v in operands], np.abs) if name in _SUMS else None


def amplitude(eqn: JaxprEqn, operands: Sequence[Value], out: Value, form: Format, total: np.ndarray | None) -> Any:
    """How large the rounding error of an equation's result may be, element by element (or 0).

    Args:
        eqn: the equation.
        operands: what it is applied to.
        out: one of its results.
        form: the format of the result.
        total: what `terms` gives.
    """
    name = eqn.primitive.name
    if name in EXACT or (name in EXACT_REAL and operands[0][0].dtype.kind != "c"):
        return 0.0
    if name in _SUMS:
        assert total is not None
        return _of_sum(eqn, [v[0] for v in operands], out[0], form, total)
    x = np.abs(out[0])
    if name in _SCALED:
        return form.eps / 2 * np.where(np.isfinite(x), _SCALED[name](eqn, operands[0][0], x), 0)
    size = np.maximum(x, 1) if name in NEAR_ZEROS else x
    units = ULPS.get(name, OTHER) if form.eps <= SINGLE else min(ULPS.get(name, OTHER), OTHER)
    error = form.eps / 2 * units * np.where(np.isfinite(x), size, 0)
    return np.where(representable(out[0], form), 0, error) if name in CORRECT else error


# Sums: errors are in proportion to the sum of the terms' sizes, and grow with the root of the number of those that are
# not zero, of which one alone needs no addition. In long sums of like terms they grow with the number itself, because
# they have one sign.


def _of_sum(
    eqn: JaxprEqn, operands: Sequence[np.ndarray], out: np.ndarray, form: Format, total: np.ndarray
) -> np.ndarray:
    floats = [x for x in operands if x.dtype.kind in "fc"]
    with np.errstate(all="ignore"):
        if all(_whole(x) for x in floats) and np.max(total, initial=0) < 1 / form.eps:
            return np.zeros(out.shape)
        count = _total(eqn, operands, lambda x: (x != 0).astype(np.float64))
        once = form.eps * np.where(representable(out, form) & (count <= 1), 0, np.abs(out))
        step = form.eps if eqn.primitive.name in _SCATTERS else min(form.eps, SINGLE)
        error = np.where(count <= 1, 0, step * (np.sqrt(count) + count / 4) * total) + once
        return np.where(np.isnan(error), 0, np.where(total > form.largest, np.inf, error / 2))


def _whole(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" and bool(np.all(x == np.rint(x)))


def _total(eqn: JaxprEqn, operands: Sequence[np.ndarray], size: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The sum with some measure in the place of each term."""
    name = "scatter_add" if eqn.primitive.name == "scatter_sub" else eqn.primitive.name
    measured = [size(x) if i in _SUMS[name] else x for i, x in enumerate(operands)]

    out = leaf(name, eqn)(*measured)[0]
    return out.real if out.dtype.kind == "c" else out


_SUMS: dict[str, tuple[int, ...]] = {
    "reduce_sum": (0,), "cumsum": (0,), "dot_general": (0, 1), "conv_general_dilated": (0, 1),
    "reduce_window_sum": (0,),
    "scatter_add": (0, 2), "scatter_sub": (0, 2), "select_and_scatter_add": (0,),
}  # fmt: skip
_SCATTERS = ("scatter_add", "scatter_sub", "select_and_scatter_add")
SINGLE = float(np.finfo(np.float32).eps)  # others sum narrower floats in float32


def _product(eqn: JaxprEqn, operand: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x * 2 * math.sqrt(max(operand.size / max(x.size, 1), 1))


def _running(eqn: JaxprEqn, operand: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x * 2 * math.sqrt(max(operand.shape[eqn.params["axis"]], 1))


def _fft(eqn: JaxprEqn, operand: np.ndarray, x: np.ndarray) -> np.ndarray:
    lengths = eqn.params["fft_lengths"]
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    whole = np.sqrt(np.mean(x**2, axis=axes, keepdims=True)) if x.size else x
    return (2 + math.log2(max(math.prod(lengths), 1))) * np.broadcast_to(whole, x.shape)


def _erf_inv(eqn: JaxprEqn, operand: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Those of a few operations and, from single precision on, that of x² in log(1 - x²), large near -1 and 1."""
    rounded = ULPS["erf_inv"] * x
    wide = np.dtype(eqn.outvars[0].aval.dtype).itemsize >= 4
    return rounded + np.abs(operand) * math.sqrt(math.pi) / 4 * np.exp(x**2) if wide else rounded / 2


def _logistic(eqn: JaxprEqn, operand: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Near poles of 1 / (1 + exp(-z)), of complex z, exp(-z) is near -1, and one unit of it is many of that."""
    return ULPS["logistic"] * np.maximum(x, x**2)


_SCALED: dict[str, Callable[[JaxprEqn, np.ndarray, np.ndarray], np.ndarray]] = {
    "reduce_prod": _product,
    "cumprod": _running,
    "cumlogsumexp": lambda eqn, operand, x: _running(eqn, operand, x + 1),
    "erf_inv": _erf_inv,
    "fft": _fft,
    "logistic": _logistic,
    "scatter_mul": lambda eqn, operand, x: 4 * x,
}
