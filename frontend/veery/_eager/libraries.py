"""Compiled programs that are calls of libraries: NumPy evaluates them whole, so that nothing is compiled for them.

A sort, a Fourier transform or a decomposition is a call of NumPy, SciPy or LAPACK in a compiled program, too. Where
nearly all that a program does is such calls, IREE has nothing to add: it takes 100 to 350 ms to compile what moves
arrays between them, and 10 to 20 us for each call. What else may stand in such a program is a positive list: operations
with a rule for the host (see veery._core.host), and those of `_OTHERS`. They are what compiled programs are tested
against: at least as accurate, and not always to the same bit.

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

And so are sums and extremes, with little beside them, where NumPy is as fast as compiled code (see
veery.lax._host_reductions).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery._core.host import NATIVE, Mode, Step, calls_library, dtype_of, reference, step_of
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, memoized, subjaxprs
from veery._eager import HostProgram, NotExact, are_hosts, largest
from veery._eager.solutions import Line, needed, with_solutions
from veery._eager.subnormals import modes
from veery._transforms.batching import AxisData, batch_jaxpr
from veery.lax import _host_reductions, _on_host
from veery.lax._reference import silently

# What other operations may take beside the calls, in nanoseconds: a part of these, or so little that IREE's call, of
# 10 us, and its dispatches, of 2 us each, take as long.
_PART = 0.25
_LITTLE = 1 << 15
_FEW = 64  # such operations; each takes a microsecond

_MOST_AT_ONCE = 1 << 22  # elements of a loop whose trips are made at once
_LARGEST = 1 << 26  # of arrays, in elements
_FOLDED = 1 << 18  # of those that are computed once, of constants
_TERMS = 16  # of a product of matrices in a nanosecond
_TERMS_ALONE = 64  # the same of one that is the program
_LITTLE_BESIDE, _BESIDE = 1 << 12, 2  # the same of moves beside products, of programs that call nothing else
_FEW_BESIDE, _MANY_BESIDE = (
    4,
    16,
)  # other operations, small ones, beside sums and extremes; and before some are left out
_REDUCED_IN = 16  # bytes that these take in a nanosecond
_ASIDE = 8  # so much more work counts: products of 0.6 ms leave the caller's thread, as compiled ones do
_WIDE = 64  # the weight of an elementary function, computed in float64, of subnormal numbers as they are

# Operations by their references: the weight of an element.
_OTHERS = {
    **dict.fromkeys(("abs", "square", "real", "imag", "conj", "complex", "neg", "add", "sub", "mul", "max", "min"), 2),
    **dict.fromkeys(("reduce_sum", "reduce_prod", "cumsum", "cumprod", "div", "sqrt", "sign", "integer_pow"), 8),
    **dict.fromkeys(("exp", "log", "log1p", "expm1", "logistic", "tanh", "sin", "cos", "rsqrt"), _WIDE),
    "convert_element_type": 8,
}

# What NumPy evaluates where little is beside it, and what costs nothing there.
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
_VIEWS = ("reshape", "slice", "squeeze", "transpose")

# Those of complex numbers that NumPy does to the same bits in a tenth of the time.
_QUICK: dict[str, Callable[..., Any]] = {"real": operator.attrgetter("real"), "imag": operator.attrgetter("imag")}

# Those of floats that are computed in double precision and rounded: a sum of 5 numbers in 1.3 us for 3.7.
_REDUCED = {"reduce_sum": np.add, "reduce_prod": np.multiply}
_IN_DOUBLE = {name: getattr(np, name) for name in ("exp", "log", "log1p", "expm1", "tanh", "sin", "cos", "sqrt")}

Calls = Mapping[str, Callable[[JaxprEqn], Callable[..., Any] | None]]


class LibraryProgram(HostProgram):
    """A jaxpr as calls of libraries, and of little else.

    Args:
        closed: the jaxpr.
        calls: what the compiled program would call for an equation of a primitive, if not its reference.

    Attributes:
        lines: what is done.
        called: the names of the primitives that are calls.
        constants: the arrays that results must not share memory with.
        work: an estimate of the nanoseconds that it takes, for products more.

    Raises:
        NotExact: there are no calls of libraries, too much else, or an operation that is not on the list.
    """

    def __init__(self, closed: ClosedJaxpr, calls: Calls):
        self._library = calls
        # What it does if it calls no libraries: it multiplies matrices, or else it reduces.
        self._multiplies = not _calls_libraries(closed) and _has_product(closed)
        self._reduces = not _calls_libraries(closed) and not self._multiplies
        self._told: list[tuple[JaxprEqn, bool, int]] = []  # of each step, as in Line
        self.lines: Sequence[Line] = ()
        self.called: set[str] = set()
        self.constants: list[np.ndarray] = []
        self._real: dict[int, int] = {}  # complex numbers that were made of real ones, and these
        super().__init__(closed)

    def __call__(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        results: list[np.ndarray] = silently(self._written, *arguments)
        return results

    def _write(self, lines: Sequence[Line], arguments: int) -> Callable[..., list[np.ndarray]]:
        """The steps as a function: in a loop each takes 0.3 us more, and to flush subnormal numbers 0.7."""
        names: dict[str, Any] = {f"v{i}": x for i, x in enumerate(self.values) if x is not None}
        used = {*self.outputs, *(i for line in lines for i in line.operands)}
        listed = lambda places: "".join(f"v{i}, " if i in used else "_, " for i in places)
        body, flushes = [], False
        for i, line in enumerate(lines):
            if line.mode is not Mode.NEUTRAL and flushes is not (line.mode is Mode.FLUSHED):
                flushes = not flushes
                body.append("set(during)" if flushes else "set(before)")
            names[f"f{i}"] = line.function
            made = listed(line.made) if isinstance(line.results, slice) else f"v{line.results}"
            body.append(f"{made} = f{i}({listed(line.operands)})")
        body.append(f"return [{listed(self.outputs)}]")
        if any(line.mode is Mode.FLUSHED for line in lines):
            names["modes"] = modes()
            if names["modes"] is None:
                raise NotExact
            begin = [
                "get, set, before, during = modes.get, modes.set, modes.before, modes.during",
                "get(before)",
                "try:",
            ]
            body = [*begin, *("    " + line for line in body), "finally:", "    set(before)"]
        head = f"def evaluate({', '.join(f'v{i}' for i in range(arguments))}):"
        exec("\n    ".join([head, *body]), names)
        written: Callable[..., list[np.ndarray]] = names["evaluate"]
        return written

    def _flush(self) -> None:
        """What is written sees to it."""

    def _callee(self, eqn: JaxprEqn, operands: list[int]) -> tuple[ClosedJaxpr, list[int]] | None:
        return _map(eqn, operands) if eqn.primitive.name == "scan" else super()._callee(eqn, operands)

    def _step(self, eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
        if any([dtype_of(v.aval) is None for v in (*eqn.invars, *eqn.outvars)]):
            return None
        name = eqn.primitive.name
        if self._multiplies and name != "dot_general":
            step = step_of(eqn, known)
            return step if step and step.mode is Mode.NEUTRAL else None
        if self._reduces and name in _REDUCTIONS:
            reduction = _host_reductions.reduction(eqn)
            return reduction and Step(reduction, _mode_of(eqn))
        step = step_of(eqn, known) or step_of(eqn, [None] * len(known))  # x * 1 may flush x
        if step is None:
            if name == "dot_general":
                product = _on_host.product(eqn, self._multiplies)
                mode = Mode.CALLED if self._multiplies else Mode.FLUSHED
                return product and Step(product, mode, 1 + _terms(eqn) // _TERMS)
            if name not in _OTHERS:
                return None
            weight = _OTHERS[name]
            if name in _QUICK and dtype_of(eqn.invars[0].aval).kind == "c":  # type: ignore[union-attr]
                return Step(_QUICK[name], weight=1)
            return Step(_rounded(eqn), Mode.CALLED if weight == _WIDE else Mode.FLUSHED, weight)
        if step.mode is Mode.CALLED and name in self._library:
            function = self._library[name](eqn)
            return step if function is None else step._replace(function=function)
        return step

    def _add(self, eqn: JaxprEqn, operands: list[int]) -> list[int]:
        if largest(eqn) > _LARGEST:
            raise NotExact
        if eqn.primitive.name == "fft" and eqn.params["fft_type"].name in ("FFT", "IFFT"):
            # which take real numbers as they are, in half the time
            operands = [self._real.get(i, i) for i in operands]
        results = super()._add(eqn, operands)
        if eqn.primitive.name == "convert_element_type" and _makes_complex(eqn):
            self._real[results[0]] = operands[0]
        return results

    def _folds(self, eqn: JaxprEqn, step: Step) -> bool:
        return largest(eqn) <= _FOLDED and (step.mode is not Mode.CALLED or not calls_library(eqn.primitive.host))

    def _count(self, eqn: JaxprEqn, step: Step) -> None:
        called, time = calls_library(eqn.primitive.host), step.weight * largest(eqn)
        if self._multiplies and eqn.primitive.name == "dot_general":
            elements = sum(v.aval.size for v in (*eqn.invars, *eqn.outvars))
            called, time = True, (eqn.outvars[0].aval.size * _terms(eqn) + elements) // _TERMS_ALONE
        elif self._reduces and eqn.primitive.name in _REDUCTIONS:
            called, time = True, eqn.invars[0].aval.size * eqn.invars[0].aval.dtype.itemsize // _REDUCED_IN
        elif self._is_view(eqn):
            time = 0
        if called:
            self.called.add(eqn.primitive.name)
        self._told.append((eqn, called, time))
        # Most programs that reduce something are large ones, of which 900 operations would be looked at for 17 ms.
        if self._reduces and sum(not called for _, called, _ in self._told) > _MANY_BESIDE:
            raise NotExact

    def _is_view(self, eqn: JaxprEqn) -> bool:
        if self._multiplies:
            return eqn.primitive.name == "reshape" or _turns(eqn)
        return self._reduces and eqn.primitive.name in _VIEWS

    def _finish(self, arguments: int) -> None:
        """Leave out what is not needed, and refuse what is not worth it."""
        lines = [Line(*step, mode, *told) for step, mode, told in zip(self.steps, self._modes, self._told, strict=True)]
        lines = with_solutions(needed(lines, self.outputs), self.outputs, self.values)
        calls, others = (sum(line.time for line in lines if line.called is called) for called in (True, False))
        few = sum(not line.called for line in lines)
        calls_nothing = self._multiplies or self._reduces
        most = _BESIDE if self._multiplies else _FEW_BESIDE if self._reduces else _FEW
        little = _LITTLE_BESIDE if calls_nothing else _LITTLE
        if not any(line.called for line in lines) or others > max(little, _PART * calls) or few > most:
            raise NotExact
        used = {*self.outputs, *(i for line in lines for i in line.operands)}
        self.constants = [x for i, x in enumerate(self.values) if x is not None and i in used]
        self.lines, self.work = lines, (calls + others) * (_ASIDE if calls_nothing else 1)
        self._written = self._write(lines, arguments)

    def _check_contraction(self, eqn: JaxprEqn, operands: list[int]) -> None:
        """Nothing: bits may differ."""


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
    return _has(closed, lambda primitive: primitive.name in _REDUCTIONS, _has_reduction)


def _mode_of(reduction: JaxprEqn) -> Mode:
    return Mode.FLUSHED if reduction.invars[0].aval.dtype in NATIVE else Mode.NEUTRAL


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


def _rounded(eqn: JaxprEqn) -> Callable[..., Any]:
    """A primitive's reference with results of the declared dtype; of real floats the same by fewer calls."""
    dtype, name = dtype_of(eqn.outvars[0].aval), eqn.primitive.name
    if dtype is not None and dtype.kind == "f":
        if name in _REDUCED:
            reduce, axes = _REDUCED[name].reduce, tuple(eqn.params["axes"])
            return lambda x: np.asarray(reduce(x, axes, np.float64), dtype)
        if name in _IN_DOUBLE and not eqn.params:
            ufunc = _IN_DOUBLE[name]
            return lambda x: np.asarray(ufunc(x, dtype=np.float64), dtype)
    function = reference(eqn)
    return lambda *operands: np.asarray(function(*operands), dtype)


def _terms(eqn: JaxprEqn) -> int:
    """The products whose sum an element of a product of matrices is."""
    (contracting, _), _ = eqn.params["dimension_numbers"]
    return math.prod([eqn.invars[0].aval.shape[i] for i in contracting])


def _makes_complex(eqn: JaxprEqn) -> bool:
    old, new = (dtype_of(v.aval) for v in (eqn.invars[0], eqn.outvars[0]))
    return old is not None and new is not None and old.kind == "f" and new == np.result_type(old, np.complex64)
