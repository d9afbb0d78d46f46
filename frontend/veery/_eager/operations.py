"""How NumPy evaluates operations to other bits than compiled ones, and what they take.

Their results are those that compiled programs are tested against: floats are computed in double precision and rounded
once, so that they are at least as accurate, and subnormal numbers are zeros. What has the same bits is told by a rule
of the primitive instead (see veery._core.host).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core.host import NATIVE, Mode, Step, dtype_of, reference
from veery._core.jaxpr import JaxprEqn
from veery.lax import _host_reductions, _on_host

REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")

# The nanoseconds that an element takes, or more: of elementary functions half or less where NumPy has AVX-512.
_WEIGHTS = {
    **dict.fromkeys(("abs", "square", "real", "imag", "conj", "complex", "neg", "add", "sub", "mul", "max", "min"), 2),
    **dict.fromkeys(("reduce_sum", "reduce_prod", "cumsum", "cumprod", "div", "sqrt", "sign", "integer_pow"), 8),
    **dict.fromkeys(("cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "tanh"), 8),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosh", "erf", "sinh", "tan"), 16),
    **dict.fromkeys(("atan2", "conv_general_dilated", "pow", "reduce_precision", "rem", "scatter_add"), 32),
    **dict.fromkeys(("bessel_i0e", "cumlogsumexp", "digamma", "erfc", "lgamma"), 64),
    **dict.fromkeys(("reduce_window_max", "reduce_window_min", "reduce_window_sum"), 128),
    "convert_element_type": 8,
}

# Those of complex numbers that NumPy does to the same bits in a tenth of the time.
_QUICK: dict[str, Callable[..., Any]] = {"real": operator.attrgetter("real"), "imag": operator.attrgetter("imag")}

# Those of floats that are computed in double precision and rounded: a sum of 5 numbers in 1.3 us for 3.7.
_REDUCED = {"reduce_sum": np.add, "reduce_prod": np.multiply}
_IN_DOUBLE = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log1p", "expm1", "sin", "cos", "tan", "sqrt")},
    **{name: getattr(np, name) for name in ("tanh", "sinh", "cosh", "cbrt")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
# Those whose references are slow; each gives None for equations that it does not evaluate.
_MADE: dict[str, Callable[[JaxprEqn], Callable[..., Any] | None]] = {
    "conv_general_dilated": _on_host.convolution,
    "scatter_add": _on_host.scatter(np.add),
}


def operation(eqn: JaxprEqn) -> Step | None:
    """How NumPy evaluates an equation; None if that is not on the list."""
    name = eqn.primitive.name
    if name not in _WEIGHTS:
        return None
    if name in _QUICK and dtype_of(eqn.invars[0].aval).kind == "c":  # type: ignore[union-attr]
        return Step(_QUICK[name], weight=1)
    function = (_MADE[name] if name in _MADE else _rounded)(eqn)
    return function and Step(function, Mode.FLUSHED, _WEIGHTS[name])


def reduction(eqn: JaxprEqn) -> Step | None:
    """How NumPy reduces an array in its own precision; None where compiled code is faster, and for other types."""
    function = _host_reductions.reduction(eqn)
    return function and Step(function, Mode.FLUSHED if eqn.invars[0].aval.dtype in NATIVE else Mode.NEUTRAL)


def _rounded(eqn: JaxprEqn) -> Callable[..., Any]:
    """A primitive's reference with results of the declared dtype; of real floats the same by fewer calls."""
    dtype, name = dtype_of(eqn.outvars[0].aval), eqn.primitive.name
    if dtype is not None and dtype.kind == "f":
        if name in _REDUCED:
            reduce, axes = _REDUCED[name].reduce, tuple(eqn.params["axes"])
            return lambda x: np.asarray(reduce(x, axes, np.float64), dtype)
        if name in _IN_DOUBLE:
            ufunc = _IN_DOUBLE[name]
            return lambda x: np.asarray(ufunc(x, dtype=np.float64), dtype)
    function = reference(eqn)
    return lambda *operands: np.asarray(function(*operands), dtype)
