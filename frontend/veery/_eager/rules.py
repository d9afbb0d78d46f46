"""Which operations NumPy computes with the bits of compiled programs, and how.

Most are done by the primitives' own references. What has no rule for a dtype is compiled: sums and products of floats
(their order differs), transcendental functions, arithmetic in 16 bits and of complex numbers.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes
from veery._core.dimensions import is_symbolic
from veery._core.jaxpr import JaxprEqn
from veery._eager import indexing


class Mode(enum.Enum):
    """What an operation does with subnormal floats."""

    NEUTRAL = enum.auto()  # it computes with no floats
    FLUSHED = enum.auto()  # the compiled one takes them for zeros
    CALLED = enum.auto()  # the compiled one calls the same function of NumPy or LAPACK, which keeps them


class Step(NamedTuple):
    """How an operation is done on the host.

    Attributes:
        function: of arrays, gives an array, or a list of them for a primitive of several results.
        mode: see Mode.
        weight: its time for an element, in those of an addition.
        product: whether the compiler makes one operation of it and a sum of its result.
        rounds: whether it computes floats from its operands, so that no product goes through it.
    """

    function: Callable[..., Any]
    mode: Mode = Mode.NEUTRAL
    weight: int = 1
    product: bool = False
    rounds: bool = False


Make = Callable[[JaxprEqn], Callable[..., Any]]

_NATIVE = frozenset(map(np.dtype, ("float32", "float64")))
_INTEGRAL = frozenset(np.dtype(f"{kind}int{bits}") for kind in ("", "u") for bits in (8, 16, 32, 64)) | {np.dtype(bool)}
_CARRIED = _NATIVE | _INTEGRAL | frozenset(map(np.dtype, ("float16", "complex64", "complex128", dtypes.bfloat16)))


def dtype_of(aval: Any) -> np.dtype | None:
    """The dtype of an array of that type in memory; None for those that are not handled here."""
    dtype = getattr(aval, "dtype", None)
    dtype = getattr(dtype, "physical", dtype)
    if dtype not in _CARRIED or is_symbolic(aval.shape):
        return None
    return dtype


def step_of(eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
    """How an equation is done on the host; None if it is not.

    Args:
        eqn: the equation.
        known: the values of those operands that are constants.
    """
    types = [dtype_of(v.aval) for v in (*eqn.invars, *eqn.outvars)]
    if any([dtype is None for dtype in types]):  # `None in types` finds float64
        return None
    name, (first, *_) = eqn.primitive.name, types
    if name in _MOVES:
        return Step(_MOVES[name](eqn))
    if name in _CALLS:
        return Step(_function(eqn), Mode.CALLED, _CALLS[name])
    if name == "convert_element_type":
        return _conversion(eqn)
    if name in _OF_INTEGERS and all(dtype in _INTEGRAL for dtype in types):
        return Step(_function(eqn), weight=_OF_INTEGERS[name])
    if name in _OF_FLOATS and first in _NATIVE:
        if name in _FOLDED and any(x is not None and np.isin(x, _FOLDED[name]).all() for x in known):
            return None
        if name == "integer_pow" and eqn.params["y"] < 0:
            return None
        return Step(_function(eqn), Mode.FLUSHED, _OF_FLOATS[name], name in _PRODUCTS, name in _ROUNDING)
    return None


def _function(eqn: JaxprEqn) -> Callable[..., Any]:
    if eqn.primitive.name in indexing.COMBINES:
        return indexing.scatter(eqn)
    ufunc = _UFUNCS.get(eqn.primitive.name)
    dtype = dtype_of(eqn.invars[0].aval)
    if dtype in _NATIVE and eqn.primitive.name in _FLOAT_FUNCTIONS:
        return functools.partial(_FLOAT_FUNCTIONS[eqn.primitive.name], **eqn.params)
    if ufunc is None or dtype == np.bool_:
        return _reference(eqn)
    return ufunc if eqn.outvars[0].aval.ndim else lambda *xs: np.asarray(ufunc(*xs))


def _reference(eqn: JaxprEqn) -> Callable[..., Any]:
    reference: Any = eqn.primitive.reference
    return functools.partial(reference, **eqn.params) if eqn.params else reference


def _conversion(eqn: JaxprEqn) -> Step | None:
    old, new = dtype_of(eqn.invars[0].aval), dtype_of(eqn.outvars[0].aval)
    if old == new:
        return Step(lambda x: x)
    if old in _INTEGRAL and new in _INTEGRAL | _NATIVE:
        return Step(_reference(eqn) if new == np.bool_ else lambda x: x.astype(new))
    if old in _NATIVE and new in _INTEGRAL | _NATIVE:
        return Step(_reference(eqn), Mode.FLUSHED, 8, rounds=new in _NATIVE)
    return None


# What moves elements, of any dtype.


def _broadcast(eqn: JaxprEqn) -> Callable[..., Any]:
    shape, places = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    if list(places) != sorted(places):
        return _reference(eqn)
    spread = [1] * len(shape)
    for place, size in zip(places, eqn.invars[0].aval.shape):
        spread[place] = size
    if len(places) == len(shape) or not places:
        return lambda x: np.broadcast_to(x, shape)
    return lambda x: np.broadcast_to(x.reshape(spread), shape)


def _slice(eqn: JaxprEqn) -> Callable[..., Any]:
    bounds = eqn.params["start_indices"], eqn.params["limit_indices"], eqn.params["strides"]
    index = tuple(map(slice, bounds[0], bounds[1], bounds[2] or [None] * len(bounds[0])))
    return lambda x: x[(..., *index)]


def _reshape(eqn: JaxprEqn) -> Callable[..., Any]:
    shape = eqn.outvars[0].aval.shape
    return lambda x: x.reshape(shape)


def _select(eqn: JaxprEqn) -> Callable[..., Any]:
    which, *cases = eqn.invars
    if len(cases) != 2 or which.aval.dtype != np.bool_:
        return _reference(eqn)
    return lambda which, no, yes: np.where(which, yes, no)


_MOVES: dict[str, Make] = dict.fromkeys(
    ("transpose", "concatenate", "split", "pad", "rev", "iota", "copy", "dynamic_slice", "dynamic_update_slice",
     "bitcast_convert_type", "random_wrap", "random_unwrap", "random_clone", "stop_gradient"),
    _reference,
)  # fmt: skip
_MOVES |= {
    "broadcast_in_dim": _broadcast, "slice": _slice, "reshape": _reshape, "squeeze": _reshape, "select_n": _select,
    "gather": indexing.gather, "scatter": indexing.scatter,
}  # fmt: skip

# What compiled programs call the host for, by the primitive's own reference.
_CALLS = dict.fromkeys(("sort", "top_k", "fft"), 16)
_CALLS |= dict.fromkeys(
    ("cholesky", "triangular_solve", "lu", "qr", "householder_product", "eigh", "svd", "eig",
     "lu_pivots_to_permutation"),
    64,
)  # fmt: skip

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

_OF_INTEGERS = dict.fromkeys(
    ("add", "sub", "mul", "neg", "abs", "sign", "max", "min", "and", "or", "xor", "not", "square", "clamp",
     *_COMPARISONS, "reduce_and", "reduce_or", "reduce_xor", "reduce_max", "reduce_min", "reduce_sum", "reduce_prod",
     "cumsum", "cumprod", "cummax", "cummin", "argmax", "argmin"),
    1,
)  # fmt: skip
_OF_INTEGERS |= dict.fromkeys(
    ("div", "rem", "integer_pow", "shift_left", "shift_right_logical", "shift_right_arithmetic", "population_count"), 8
)
_OF_INTEGERS |= dict.fromkeys(("scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"), 16)
_OF_INTEGERS |= {"clz": 64, "random_seed": 4}
_OF_INTEGERS |= dict.fromkeys(("threefry2x32", "random_bits", "random_split", "random_fold_in"), 24)

_PRODUCTS = frozenset(("mul", "square", "integer_pow"))
# With these constants the compiler has no operation: x * 1 is x, subnormal or not.
_FOLDED = {"add": (0,), "sub": (0,), "mul": (-1, 0, 1), "div": (-1, 0, 1)}
_ROUNDING = frozenset(("add", "sub", "div", "sqrt"))
_OF_FLOATS = dict.fromkeys(
    ("add", "sub", "mul", "div", "sqrt", "neg", "abs", "floor", "ceil", "is_finite", "square", "max", "min", "clamp",
     *_COMPARISONS, "reduce_max", "reduce_min", "argmax", "argmin"),
    1,
)  # fmt: skip
_OF_FLOATS |= dict.fromkeys(("round", "sign", "integer_pow", "nextafter", "cummax", "cummin"), 8)


def _extreme(ufunc: Callable[..., Any], sum_of: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The larger or smaller of floats, also of 0.0 and -0.0, of which NumPy gives either."""

    def extreme(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.asarray(ufunc(x, y))
        return out if out.all() else np.where((x == 0) & (y == 0), sum_of(x, y), out)

    return extreme


_maximum = _extreme(np.maximum, np.add)
_minimum = _extreme(np.minimum, lambda x, y: -(-x - y))


def _reduced(function: Callable[..., Any], start: float) -> Callable[..., np.ndarray]:
    """The largest or smallest of floats. A zero is the larger or smaller one, if there are both."""

    def reduced(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
        out = np.asarray(function(x, axis=axes, initial=x.dtype.type(start)))
        if out.all():
            return out
        negative = np.signbit(x) if start > 0 else ~np.signbit(x)
        preferred = np.logical_or.reduce((x == 0) & negative, axis=tuple(axes))
        return np.where(out == 0, np.where(preferred == (start > 0), x.dtype.type(-0.0), x.dtype.type(0.0)), out)

    return reduced


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, x, np.sign(x))


def _integer_power(x: np.ndarray, *, y: int) -> np.ndarray:
    """x ** y, y not negative, with the products of the compiled program, in their order."""
    result, factor = None, x
    while y:
        if y & 1:
            result = factor if result is None else result * factor
        y >>= 1
        factor = factor * factor if y else factor
    return np.ones_like(x) if result is None else np.asarray(result)


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(x, y))


_FLOAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "div": _quotient, "sign": _sign, "integer_pow": _integer_power, "max": _maximum, "min": _minimum,
    "clamp": lambda low, x, high: _minimum(_maximum(low, x), high),
    "reduce_max": _reduced(np.max, -np.inf), "reduce_min": _reduced(np.min, np.inf),
}  # fmt: skip

_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "max": np.maximum, "min": np.minimum, "square": np.square,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "is_finite": np.isfinite,
}  # fmt: skip
