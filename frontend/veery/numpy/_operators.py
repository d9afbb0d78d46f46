"""Operators of arrays: attached to concrete arrays and to tracers alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery._core.array import ArrayImpl
from veery._core.trace import Tracer
from veery.numpy import _arithmetic, _logic, _products
from veery.numpy._promotion import Array
from veery.numpy._ufunc import ufunc

_ACCEPTED = (int, float, complex, np.generic, np.ndarray, ArrayImpl, Tracer)
_REJECTED = (list, tuple, set, dict)
_PLAIN = frozenset((bool, int, float, complex, np.ndarray, ArrayImpl))


def _accepts(x: Any) -> bool:
    return isinstance(x, _ACCEPTED) or hasattr(x, "__jax_array__")


def _function(fun: Any) -> Callable[..., Any]:
    """The function of arrays behind a ufunc: no check for `out` on every operator."""
    return fun._call if isinstance(fun, ufunc) else fun


def _refuse(symbol: str, left: Any, right: Any) -> TypeError:
    return TypeError(f"unsupported operand type(s) for {symbol}: {type(left).__name__!r} and {type(right).__name__!r}")


def binary(symbol: str, fun: Any) -> Callable[[Any, Any], Any]:
    """The method for `self <symbol> other`; NotImplemented for what is no array, TypeError for containers."""
    apply = _function(fun)

    def operator(self: Array, other: Any) -> Any:
        if type(other) in _PLAIN or _accepts(other):
            return apply(self, other)
        if type(other) in _REJECTED:
            raise _refuse(symbol, self, other)
        return NotImplemented

    return operator


def reflected(symbol: str, fun: Any) -> Callable[[Any, Any], Any]:
    """The method for `other <symbol> self`."""
    apply = _function(fun)

    def operator(self: Array, other: Any) -> Any:
        if type(other) in _PLAIN or _accepts(other):
            return apply(other, self)
        if type(other) in _REJECTED:
            raise _refuse(symbol, other, self)
        return NotImplemented

    return operator


_BINARY: dict[str, tuple[str, Any]] = {
    "add": ("+", _arithmetic.add),
    "sub": ("-", _arithmetic.subtract),
    "mul": ("*", _arithmetic.multiply),
    "truediv": ("/", _arithmetic.true_divide),
    "floordiv": ("//", _arithmetic.floor_divide),
    "mod": ("%", _arithmetic.remainder),
    "divmod": ("divmod", _arithmetic.divmod),
    "pow": ("**", _arithmetic.power),
    "matmul": ("@", _products.matmul),
    "and": ("&", _logic.bitwise_and),
    "or": ("|", _logic.bitwise_or),
    "xor": ("^", _logic.bitwise_xor),
    "lshift": ("<<", _logic.left_shift),
    "rshift": (">>", _logic.right_shift),
}
_COMPARISONS: dict[str, tuple[str, Any]] = {
    "eq": ("==", _logic.equal),
    "ne": ("!=", _logic.not_equal),
    "lt": ("<", _logic.less),
    "le": ("<=", _logic.less_equal),
    "gt": (">", _logic.greater),
    "ge": (">=", _logic.greater_equal),
}


def _round(self: Array, ndigits: int | None = None) -> Array:
    rounded = _arithmetic.round(self, ndigits or 0)
    return rounded.astype(int) if ndigits is None else rounded


def operators() -> dict[str, Callable[..., Any]]:
    """All operator methods by their names."""
    methods: dict[str, Callable[..., Any]] = {}
    for name, (symbol, fun) in _BINARY.items():
        methods[f"__{name}__"] = binary(symbol, fun)
        methods[f"__r{name}__"] = reflected(symbol, fun)
    for name, (symbol, fun) in _COMPARISONS.items():
        methods[f"__{name}__"] = binary(symbol, fun)
    return methods | {
        "__neg__": lambda self: _arithmetic.negative(self),
        "__pos__": lambda self: _arithmetic.positive(self),
        "__abs__": lambda self: _arithmetic.absolute(self),
        "__invert__": lambda self: _logic.invert(self),
        "__round__": _round,
    }
