"""Compiled programs that are calls of libraries: NumPy evaluates them whole, so that nothing is compiled for them.

A sort, a Fourier transform or a decomposition is a call of NumPy, SciPy or LAPACK in a compiled program, too. Where
nearly all that a program does is such calls, IREE has nothing to add: it takes 100 to 350 ms to compile what moves
arrays between them, and 10 to 20 us for each call. What else may stand in such a program is a positive list: operations
with a rule for the host (see veery._core.host), and those of veery._eager.operations.

So are products of matrices with nothing beside them but a move of elements or two, but for shapes that IREE multiplies
faster. Measured on two cores with AVX2, compiled, by BLAS, and JAX 0.10.2, in us of float32:

| | IREE | BLAS | JAX | | IREE | BLAS | JAX |
|---|---|---|---|---|---|---|---|
| 256x256 | 389 | 367 | 370 | 16x3000x3000 | 14173 | 3781 | 6023 |
| 500x300x200 | 836 | 542 | 505 | 8x1000x1000 | 781 | 514 | 244 |
| 24 of 200x200 | 4248 | 3250 | 5798 | 1x1000x2000 | 264 | 185 | 178 |
| 32 of 64x64 | 182 | 249 | 310 | 1x4096x4096 | 18161 | 3071 | 2506 |
| 500 of 8x8 (left to IREE) | 29 | 149 | 64 | 3000x3000x16 (too) | 2987 | 4749 | 3860 |

Up to 64x64 each call takes 2 to 4 us more than a compiled one.

Where LAPACK takes not much longer than Python, a function that a user asks to compile is compiled, since it will be
called often, though that takes 60 to 150 ms: us a call, evaluated, compiled, and by JAX:

| | NumPy | compiled | JAX | | NumPy | compiled | JAX |
|---|---|---|---|---|---|---|---|
| cholesky of 20x20 | 34 | 9 | 12 | eigenvectors, 32x32 and 24x24 | 486 | 149 | 248 |
| a Kalman filter's covariance, 6x6 | 45 | 13 | 21 | qr of 100x40 | 152 | 63 | 207 |
| cho_factor and cho_solve, 10x10 | 62 | 18 | 16 | svd of 200x20, values | 125 | 74 | 70 |
| 20 unique ones of 100 | 117 | 17 | 71 | cholesky of 200x200 | 210 | 116 | 250 |

And so are sums and extremes, with little beside them, where NumPy is as fast as compiled code (see
veery.lax._host_reductions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery._core.host import Mode, Step, calls_library, dtype_of, step_of
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, memoized, subjaxprs
from veery._eager import NotExact, are_hosts, largest
from veery._eager.operations import REDUCTIONS, reduction
from veery._eager.solutions import Line
from veery._eager.written import Calls, WrittenProgram, terms_of
from veery._transforms.batching import AxisData, batch_jaxpr
from veery.lax import _on_host

# What other operations may take beside the calls, in nanoseconds: a part of these, or so little that IREE's call, of
# 10 us, and its dispatches, of 2 us each, take as long.
_PART = 0.25
_LITTLE = 1 << 15
_FEW = 64  # such operations; each takes a microsecond
# How many of them, and products within LAPACK, where what a user has asked to compile is still evaluated.
_FEW_COMPILED, _LEAST_PRODUCTS = 24, 1 << 23

_MOST_AT_ONCE = 1 << 22  # elements of a loop whose trips are made at once
_LARGEST = 1 << 26  # of arrays, in elements
_TERMS_ALONE = 64  # of a product of matrices that is the program, in a nanosecond
_LITTLE_BESIDE, _BESIDE = 1 << 12, 2  # the same of moves beside products, of programs that call nothing else
_FEW_BESIDE = 4  # other operations, small ones, beside sums and extremes
_MANY_BESIDE = 16  # the same before some are left out
_REDUCED_IN = 16  # bytes that these take in a nanosecond
_ASIDE = 8  # so much more work counts: products of 0.6 ms leave the caller's thread, as compiled ones do

# What costs nothing beside sums and extremes.
_VIEWS = ("reshape", "slice", "squeeze", "transpose")


class LibraryProgram(WrittenProgram):
    """A jaxpr as calls of libraries, and of little else.

    Args:
        closed, calls: as for WrittenProgram.

    Attributes:
        work: an estimate of the nanoseconds that it takes, for products more.

    Raises:
        NotExact: there are no calls of libraries, too much else, or an operation that is not on the list.
    """

    def __init__(self, closed: ClosedJaxpr, calls: Calls):
        # What it does if it calls no libraries: it multiplies matrices, or else it reduces.
        self._multiplies = not _calls_libraries(closed) and _has_product(closed)
        self._reduces = not _calls_libraries(closed) and not self._multiplies
        super().__init__(closed, calls)

    def _callee(self, eqn: JaxprEqn, operands: list[int]) -> tuple[ClosedJaxpr, list[int]] | None:
        return _map(eqn, operands) if eqn.primitive.name == "scan" else super()._callee(eqn, operands)

    def _step(self, eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
        name = eqn.primitive.name
        if self._multiplies and name != "dot_general":
            step = step_of(eqn, known)
            return step if step and step.mode is Mode.NEUTRAL else None
        if self._multiplies:
            product = _on_host.product(eqn, whole=True)
            return product and Step(product, Mode.CALLED)
        if self._reduces and name in REDUCTIONS:
            return None if dtype_of(eqn.invars[0].aval) is None else reduction(eqn)
        return super()._step(eqn, known)

    def _add(self, eqn: JaxprEqn, operands: list[int]) -> list[int]:
        if largest(eqn) > _LARGEST:
            raise NotExact
        return super()._add(eqn, operands)

    def _time(self, eqn: JaxprEqn, step: Step) -> tuple[bool, int]:
        name = eqn.primitive.name
        if self._multiplies and name == "dot_general":
            elements = sum(v.aval.size for v in (*eqn.invars, *eqn.outvars))
            return True, (eqn.outvars[0].aval.size * terms_of(eqn) + elements) // _TERMS_ALONE
        if self._reduces and name in REDUCTIONS:
            return True, eqn.invars[0].aval.size * eqn.invars[0].aval.dtype.itemsize // _REDUCED_IN
        called, time = super()._time(eqn, step)
        return called, 0 if self._is_view(eqn) else time

    def _count(self, eqn: JaxprEqn, step: Step) -> None:
        super()._count(eqn, step)
        # Most programs that reduce something are large ones, of which 900 operations would be looked at for 17 ms.
        if self._reduces and self._others > _MANY_BESIDE:
            raise NotExact

    def _is_view(self, eqn: JaxprEqn) -> bool:
        if self._multiplies:
            return eqn.primitive.name == "reshape" or _turns(eqn)
        return self._reduces and eqn.primitive.name in _VIEWS

    def _check(self, lines: Sequence[Line]) -> None:
        calls, others = (sum(line.time for line in lines if line.called is called) for called in (True, False))
        few = sum(not line.called for line in lines)
        calls_nothing = self._multiplies or self._reduces
        most = _BESIDE if self._multiplies else _FEW_BESIDE if self._reduces else _FEW
        little = _LITTLE_BESIDE if calls_nothing else _LITTLE
        if not any(line.called for line in lines) or others > max(little, _PART * calls) or few > most:
            raise NotExact
        self.work = (calls + others) * (_ASIDE if calls_nothing else 1)

    def is_little(self, routines: Mapping[str, int]) -> bool:
        """Whether Python takes most of the time, which a compiled program would not.

        Args:
            routines: the primitives that this calls without Python, and the products for each element and column.
        """
        if self._multiplies or self._reduces:
            return False
        called = [line.eqn for line in self.lines if line.called]
        if not self.called <= routines.keys():
            return len(self.lines) - len(called) > _FEW_COMPILED
        return sum(routines[eqn.primitive.name] * _products(eqn) for eqn in called) < _LEAST_PRODUCTS


def _products(eqn: JaxprEqn) -> int:
    """The elements of an equation's matrices, times their columns; of a solution by factors, with these."""
    shapes = [v.aval.shape for v in eqn.invars if v.aval.ndim > 1]
    if eqn.primitive.name == "triangular_solve":
        return math.prod(shapes[1]) * shapes[0][-1]
    return max([math.prod(shape) * min(shape[-2:]) for shape in shapes], default=0)


def library_program(closed: ClosedJaxpr, calls: Calls) -> LibraryProgram | None:
    """The jaxpr as calls of libraries; None if it is to be compiled."""
    is_one = _calls_libraries(closed) or _has_product(closed) or _has_reduction(closed)
    if not is_one or not are_hosts((*closed.in_avals, *closed.out_avals)):
        return None
    try:
        return LibraryProgram(closed, calls)
    except NotExact:
        return None


@memoized
def _calls_libraries(closed: ClosedJaxpr) -> bool:
    """Whether there is a call of a library in a jaxpr, at any depth."""
    return _has(closed, lambda primitive: calls_library(primitive.host), _calls_libraries)


@memoized
def _has_product(closed: ClosedJaxpr) -> bool:
    """Whether there is a product in a jaxpr, at any depth."""
    return _has(closed, lambda primitive: primitive.name == "dot_general", _has_product)


@memoized
def _has_reduction(closed: ClosedJaxpr) -> bool:
    """Whether there is a sum or an extreme in a jaxpr, at any depth."""
    return _has(closed, lambda primitive: primitive.name in REDUCTIONS, _has_reduction)


def _turns(eqn: JaxprEqn) -> bool:
    """Whether an equation transposes matrices, as BLAS does on the way."""
    if eqn.primitive.name != "transpose":
        return False
    order = tuple(eqn.params["permutation"])
    last = len(order) - 1
    return order == (*range(last - 1), last, last - 1)


def _has(closed: ClosedJaxpr, found: Callable[[Any], bool], within: Callable[[ClosedJaxpr], bool]) -> bool:
    for eqn in closed.eqns:
        if found(eqn.primitive):
            return True
        if any(within(inner) for inner in subjaxprs(eqn.params) if isinstance(inner, ClosedJaxpr)):
            return True
    return False


def _map(eqn: JaxprEqn, operands: list[int]) -> tuple[ClosedJaxpr, list[int]] | None:
    """The trips of a loop that hands nothing on, all at once: a sort of each row is one call."""
    params = eqn.params
    body, length, constant = params["jaxpr"], params["length"], params["num_consts"]
    elements = sum(v.aval.size for inner in body.eqns for v in inner.outvars)
    if params["num_carry"] or eqn.effects or not length or length * elements > _MOST_AT_ONCE:
        return None
    dims = [None if i < constant else 0 for i in range(len(operands))]
    batched, _ = batch_jaxpr(body, AxisData(None, length), dims, [True] * len(body.out_avals))
    return batched, operands
