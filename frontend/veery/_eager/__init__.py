"""Eager programs that NumPy evaluates, so that nothing is compiled for them.

IREE takes 50 ms for the smallest program, at each new shape; NumPy takes microseconds. Where NumPy gives the bits that
the compiled program gives is said by a rule of each primitive, its field `host`. A program whose operations all have
such a rule is evaluated on the host while its arrays are small. Nothing is waited for: where an argument is still being
computed the program is compiled. Others are evaluated, always, if there is little to do (see veery._eager.small).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.dimensions import is_symbolic
from veery._core.host import Mode, Step, dtype_of, step_of
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from veery._eager.subnormals import modes
from veery._transforms.dce import dce, side_effects
from veery.lax._reference import silently

# What a call may do on the host: elements, each times the weight of its rule.
MOST_WORK = 1 << 15

# Compiled, a small program takes 4 us; here its operations take 1 to 10 us each. One that has been evaluated for so
# long in all is compiled after all: those called often are fast, the others have not cost a compilation.
MOST_SECONDS = 0.1


class NotExact(Exception):
    """A program that is not evaluated on the host."""


class HostProgram:
    """A jaxpr as calls of NumPy functions. Every value has a place in a list: the arguments first.

    Raises:
        NotExact: the bits of the results might differ from those of the compiled program, or there is too much to do.
    """

    def __init__(self, closed: ClosedJaxpr):
        count = len(closed.in_avals)
        self.steps: list[tuple[Callable[..., Any], tuple[int, ...], int | slice]] = []  # function, operands, results
        self.values: list[Any] = [None] * count  # of constants; None for what is known when the program runs
        self._products: set[int] = set()
        self._modes: list[Mode] = []
        self._work = 0
        self.outputs = self._inline(closed, list(range(count)))
        self._finish(count)
        self._rest = self.values[count:]
        self.flushed: Callable[..., Any] | None = None
        if Mode.FLUSHED in self._modes:
            self._flush()

    def __call__(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        """The results; they may share memory with the arguments."""
        if self.flushed is None:
            return silently(self._evaluate, arguments)
        return self.flushed(silently, self._evaluate, arguments)

    def _evaluate(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        values = arguments + self._rest
        for function, operands, results in self.steps:
            values[results] = function(*[values[i] for i in operands])
        return [values[i] for i in self.outputs]

    def _flush(self) -> None:
        """Have subnormal numbers flushed: for the program as a whole, or for those steps that must be."""
        found = modes()
        if found is None:
            raise NotExact
        if Mode.CALLED not in self._modes:
            self.flushed = found.flushed
            return
        for i, ((function, operands, results), mode) in enumerate(zip(self.steps, self._modes)):
            if mode is Mode.FLUSHED:
                self.steps[i] = (functools.partial(found.flushed, function), operands, results)

    def _inline(self, closed: ClosedJaxpr, arguments: Sequence[int]) -> list[int]:
        """Add the operations of a jaxpr on values at some places; the places of its results."""
        closed = dce(closed)
        jaxpr = closed.jaxpr
        if side_effects(jaxpr.effects):
            raise NotExact
        constants = [self._constant(x, v.aval) for x, v in zip(closed.consts, jaxpr.constvars)]
        places: dict[Any, int] = dict(zip([*jaxpr.invars, *jaxpr.constvars], [*arguments, *constants]))
        place = lambda atom: self._constant(atom.val, atom.aval) if type(atom) is Literal else places[atom]
        for eqn in jaxpr.eqns:
            operands = [place(atom) for atom in eqn.invars]
            call = self._callee(eqn, operands)
            results = self._add(eqn, operands) if call is None else self._inline(*call)
            places.update(zip(eqn.outvars, results))
        return [place(atom) for atom in jaxpr.outvars]

    def _constant(self, value: Any, aval: Any) -> int:
        if dtype_of(aval) is None:
            raise NotExact
        return self._place(np.asarray(value, dtype_of(aval)))

    def _place(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _add(self, eqn: JaxprEqn, operands: list[int]) -> list[int]:
        known = [self.values[i] for i in operands]
        step = self._step(eqn, known)
        if step is None:
            raise NotExact
        self._check_contraction(eqn, operands)
        results = [self._place(None) for _ in eqn.outvars]
        if step.product or (not step.rounds and not self._products.isdisjoint(operands)):
            self._products.update(results)
        where = slice(results[0], results[-1] + 1) if eqn.primitive.multiple_results else results[0]
        if all(x is not None for x in known) and self._folds(eqn, step):
            self.values[where] = silently(step.function, *known)
            return results
        self.steps.append((step.function, tuple(operands), where))
        self._modes.append(step.mode)
        self._count(eqn, step)
        return results

    def _callee(self, eqn: JaxprEqn, operands: list[int]) -> tuple[ClosedJaxpr, list[int]] | None:
        """The jaxpr that an equation applies, and to which operands; None for an operation."""
        return _call(eqn, operands)

    def _step(self, eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
        """How an equation is evaluated; None if it must be compiled."""
        return step_of(eqn, known)

    def _finish(self, arguments: int) -> None:
        """The steps are complete, of a program of so many arguments; flushing comes after this."""

    def _folds(self, eqn: JaxprEqn, step: Step) -> bool:
        """Whether what an operation gives of constants is computed once."""
        return step.mode is Mode.NEUTRAL

    def _count(self, eqn: JaxprEqn, step: Step) -> None:
        """Raise NotExact where there is too much to do."""
        self._work += step.weight * largest(eqn)
        if self._work > MOST_WORK:
            raise NotExact

    def _check_contraction(self, eqn: JaxprEqn, operands: list[int]) -> None:
        """Raise NotExact for the sum of a product of floats: compiled, it is one operation that rounds once."""
        if eqn.primitive.name in ("add", "sub") and not self._products.isdisjoint(operands):
            raise NotExact


def _call(eqn: JaxprEqn, operands: list[int]) -> tuple[ClosedJaxpr, list[int]] | None:
    """The jaxpr that an equation applies, and to which operands; None for an operation."""
    name, params = eqn.primitive.name, eqn.params
    if name == "jit":
        return params["jaxpr"], operands
    if name in ("custom_jvp_call", "custom_vjp_call"):
        return params["call_jaxpr"], operands
    if name == "custom_linear_solve":
        lengths = params["lengths"]
        start = sum(lengths[:2])
        return params["problem"].solve, operands[start : start + lengths[2]] + operands[sum(lengths) :]
    return None


def largest(eqn: JaxprEqn) -> int:
    """The elements of the largest array of an equation."""
    return max([v.aval.size for v in (*eqn.invars, *eqn.outvars)])


def are_hosts(avals: Sequence[Any]) -> bool:
    """Whether arrays of these types are of known sizes, and in memory as NumPy has them."""
    return not any(is_symbolic(a.shape) for a in avals) and all(
        dtypes.stored(a.dtype) == getattr(a.dtype, "physical", a.dtype) for a in avals
    )


def host_program(closed: ClosedJaxpr) -> HostProgram | None:
    """The jaxpr for evaluation on the host; None if it is to be compiled."""
    if not are_hosts((*closed.in_avals, *closed.out_avals)):
        return None
    try:
        return HostProgram(closed)
    except NotExact:
        return None


class HostExecutable:
    """Stands for a program on a CPU device that NumPy evaluates in the caller's thread.

    Args:
        program: what is evaluated.
        device: on which the results are.
        put: from an array and a device to a buffer.
        otherwise: makes the executable for calls whose arguments are still being computed.
        exact: whether that one gives the same bits faster, so that it is used in the end; it is for those calls alone
            else.

    Attributes:
        queue: "NumPy", while it is evaluated; then as of an executable of the runtime.
    """

    def __init__(
        self, program: HostProgram, device: Any, put: Callable[..., Any], otherwise: Callable[[], Any], exact: bool
    ):
        self._program = program
        self.device = device
        self.queue = "NumPy"
        self._put = put
        self._otherwise = functools.cache(otherwise)
        self._exact = exact
        self._seconds = 0.0
        self._run = self._evaluate

    def call(self, buffers: Sequence[Any]) -> list[Any]:
        """The buffers of the results."""
        return self._run(buffers)

    __call__ = call

    def _evaluate(self, buffers: Sequence[Any]) -> list[Any]:
        begin = time.perf_counter()
        arguments = []
        for buffer in buffers:
            value = buffer.numpy_if_ready()
            if value is None:
                return self._leave(buffers)
            arguments.append(value)
        if self._exact and self._seconds > MOST_SECONDS:
            return self._leave(buffers)
        device = self.device
        results = [self._put(x, device) for x in self._program(arguments)]
        self._seconds += time.perf_counter() - begin
        return results

    def _leave(self, buffers: Sequence[Any]) -> list[Any]:
        """A call by the other executable, which has all calls from now on if bits are the same."""
        executable = self._otherwise()
        if self._exact:
            self.queue = executable.queue
            self._run = executable.call
        results: list[Any] = executable.call(buffers)
        return results
