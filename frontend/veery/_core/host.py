"""How NumPy evaluates operations with the bits of compiled programs: rules for the field `host` of primitives.

A rule takes an equation, and the values of those of its operands that are constants, and gives a `Step`, or None where
the bits may differ: of sums and products of floats (their order does), transcendental functions, arithmetic in 16 bits
and of complex numbers. Of small matrices NumPy computes in double precision what LAPACK computes in single in programs
that are compiled, and in their loops kernels: those bits may differ. See `veery._eager`, and `veery._eager.operations`
for what is evaluated although it has no rule.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes
from veery._core.dimensions import is_symbolic
from veery._core.jaxpr import DropVar, JaxprEqn


class Mode(enum.Enum):
    """What an operation does with subnormal floats."""

    NEUTRAL = enum.auto()  # it computes with no floats
    FLUSHED = enum.auto()  # the compiled one takes them for zeros
    CALLED = enum.auto()  # what NumPy or LAPACK computes, which keeps them


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


Known = Sequence[np.ndarray[Any, Any] | None]
Rule = Callable[[JaxprEqn, Known], Step | None]
Make = Callable[[JaxprEqn], Callable[..., Any]]

NATIVE = frozenset(map(np.dtype, ("float32", "float64")))
INTEGRAL = frozenset(np.dtype(f"{kind}int{bits}") for kind in ("", "u") for bits in (8, 16, 32, 64)) | {np.dtype(bool)}
_CARRIED = NATIVE | INTEGRAL | frozenset(map(np.dtype, ("float16", "complex64", "complex128", dtypes.bfloat16)))


def dtype_of(aval: Any) -> np.dtype[Any] | None:
    """The dtype of an array of that type in memory; None for those that are not evaluated here."""
    given = getattr(aval, "dtype", None)
    dtype: np.dtype[Any] | None = getattr(given, "physical", given)
    if dtype not in _CARRIED or is_symbolic(aval.shape):
        return None
    return dtype


def step_of(eqn: JaxprEqn, known: Known) -> Step | None:
    """How an equation is done on the host; None if it is not."""
    rule = eqn.primitive.host
    # `None in types` would find float64
    if rule is None or any([dtype_of(v.aval) is None for v in (*eqn.invars, *eqn.outvars)]):
        return None
    result: Step | None = rule(eqn, known)
    return result


def reference(eqn: JaxprEqn) -> Callable[..., Any]:
    """The primitive's own NumPy reference, with the equation's parameters."""
    function: Any = eqn.primitive.reference
    return functools.partial(function, **eqn.params) if eqn.params else function


def moves(make: Make = reference) -> Rule:
    """For what moves elements, of any dtype; `make` gives the function for an equation."""
    return lambda eqn, known: Step(make(eqn))


def calls(weight: int, without_first: str | None = None) -> Rule:
    """For what compiled programs call the host for, by the primitive's own reference.

    Args:
        weight: as in Step.
        without_first: the argument by which the reference is told that nothing reads its first result.
    """
    return _Calls(weight, without_first)


@dataclass(frozen=True)
class _Calls:
    weight: int
    without_first: str | None

    def __call__(self, eqn: JaxprEqn, known: Known) -> Step:
        function = reference(eqn)
        if self.without_first and isinstance(eqn.outvars[0], DropVar):
            function = functools.partial(function, **{self.without_first: False})
        return Step(function, Mode.CALLED, self.weight)


def calls_library(rule: Rule | None) -> bool:
    """Whether a rule is for what compiled programs call the host for."""
    return isinstance(rule, _Calls)


def arithmetic(
    ufunc: Callable[..., Any] | None = None,
    *,
    integers: int = 0,
    floats: int = 0,
    of_floats: Callable[..., Any] | None = None,
    make: Make | None = None,
    product: bool = False,
    rounds: bool = False,
    folded: Sequence[float] = (),
) -> Rule:
    """For arithmetic.

    Args:
        ufunc: computes it, but for bools; None for the primitive's reference.
        integers: the weight where operands and results are integers or bools; 0 to compile it.
        floats: the weight where the first operand is of float32 or float64; 0 to compile it.
        of_floats: computes it of floats instead of `ufunc`, with the parameters.
        make: makes the function from the equation instead.
        product, rounds: as in Step, of floats.
        folded: the constants with which the compiler has no operation: x * 1 is x, subnormal or not.
    """

    def rule(eqn: JaxprEqn, known: Known) -> Step | None:
        types = [dtype_of(v.aval) for v in (*eqn.invars, *eqn.outvars)]
        if integers and all(dtype in INTEGRAL for dtype in types):
            return Step(chosen(eqn, types[0]), weight=integers)
        if floats and types[0] in NATIVE:
            if any(x is not None and np.isin(x, folded).all() for x in known if folded):
                return None
            return Step(chosen(eqn, types[0]), Mode.FLUSHED, floats, product, rounds)
        return None

    def chosen(eqn: JaxprEqn, dtype: Any) -> Callable[..., Any]:
        if make is not None:
            return make(eqn)
        if of_floats is not None and dtype in NATIVE:
            return functools.partial(of_floats, **eqn.params)
        if ufunc is None or dtype == np.bool_:
            return reference(eqn)
        return ufunc if eqn.outvars[0].aval.ndim else lambda *xs: np.asarray(ufunc(*xs))

    return rule


def _extreme(ufunc: Callable[..., Any], sum_of: Callable[..., Any]) -> Callable[..., np.ndarray[Any, Any]]:
    """The larger or smaller of floats, also of 0.0 and -0.0, of which NumPy gives either."""

    def extreme(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        out = np.asarray(ufunc(x, y))
        return out if out.all() else np.where((x == 0) & (y == 0), sum_of(x, y), out)

    return extreme


maximum = _extreme(np.maximum, np.add)
minimum = _extreme(np.minimum, lambda x, y: -(-x - y))


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
