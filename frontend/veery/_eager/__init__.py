"""Eager programs that NumPy evaluates, so that nothing is compiled for them.

IREE takes 0.2 to 0.6 s for the smallest program, at each new shape; NumPy takes microseconds. A program whose operations
all have a rule in `rules.py`, by which NumPy gives the bits that the compiled program gives, is evaluated on the host
while its arrays are small. Nothing is waited for: where an argument is still being computed the program is compiled.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from veery._eager.rules import Mode, dtype_of, step_of
from veery._eager.subnormals import flushing
from veery._transforms.dce import dce, side_effects

# What a call may do on the host: elements, each times the weight of its rule.
MOST_WORK = 1 << 15

# So many operations (1 to 3 us each) of a program of several are done on the host, then it is compiled: it takes 4 us
# from there on, whatever it does. By then the host has spent about as long on it as the compiler will.
MOST_STEPS = 1 << 17

_quiet = contextvars.copy_context()
_quiet.run(np.seterr, all="ignore")


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
        self._rest = self.values[count:]
        self.flushed = None
        if Mode.FLUSHED in self._modes:
            self._flush()

    def __call__(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        """The results; they may share memory with the arguments."""
        evaluate = _quiet.copy().run
        if self.flushed is None:
            return evaluate(self._evaluate, arguments)
        return self.flushed(evaluate, self._evaluate, arguments)

    def _evaluate(self, arguments: list[np.ndarray]) -> list[np.ndarray]:
        values = arguments + self._rest
        for function, operands, results in self.steps:
            values[results] = function(*[values[i] for i in operands])
        return [values[i] for i in self.outputs]

    def _flush(self) -> None:
        """Have subnormal numbers flushed: for the program as a whole, or for those steps that must be."""
        flushed = flushing()
        if flushed is None:
            raise NotExact
        if Mode.CALLED not in self._modes:
            self.flushed = flushed
            return
        for i, ((function, *places), mode) in enumerate(zip(self.steps, self._modes)):
            if mode is Mode.FLUSHED:
                self.steps[i] = (functools.partial(flushed, function), *places)

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
            inner = eqn.params.get("jaxpr" if eqn.primitive.name == "jit" else "call_jaxpr")
            results = self._add(eqn, operands) if inner is None else self._inline(inner, operands)
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
        step = step_of(eqn, known)
        if step is None:
            raise NotExact
        self._check_contraction(eqn, operands)
        results = [self._place(None) for _ in eqn.outvars]
        if step.product or (not step.rounds and not self._products.isdisjoint(operands)):
            self._products.update(results)
        where = slice(results[0], results[-1] + 1) if eqn.primitive.multiple_results else results[0]
        if all(x is not None for x in known) and step.mode is Mode.NEUTRAL:
            self.values[where] = _quiet.copy().run(step.function, *known)
            return results
        self.steps.append((step.function, tuple(operands), where))
        self._modes.append(step.mode)
        self._work += step.weight * max([v.aval.size for v in (*eqn.invars, *eqn.outvars)])
        if self._work > MOST_WORK:
            raise NotExact
        return results

    def _check_contraction(self, eqn: JaxprEqn, operands: list[int]) -> None:
        """Raise NotExact for the sum of a product of floats, which the compiler makes one operation that rounds once."""
        if eqn.primitive.name in ("add", "sub") and not self._products.isdisjoint(operands):
            raise NotExact


def host_program(closed: ClosedJaxpr) -> HostProgram | None:
    """The jaxpr for evaluation on the host; None if it is to be compiled."""
    try:
        return HostProgram(closed)
    except NotExact:
        return None


class HostExecutable:
    """Stands for a compiled program on a CPU device, which it compiles if need be.

    Args:
        program: what is evaluated.
        device: on which the results are.
        put: from an array and a device to a buffer.
        compile: makes the executable of the compiled program.
    """

    def __init__(self, program: HostProgram, device: Any, put: Callable[..., Any], compile: Callable[[], Any]):
        self._program = program
        self._device = device
        self._put = put
        self._compile = compile
        self._compiled: Any = None
        self._steps_left = MOST_STEPS

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """The buffers of the results."""
        steps = len(self._program.steps)
        if steps > 1:
            self._steps_left -= steps
        arguments = [buffer.numpy_if_ready() for buffer in buffers]
        if self._steps_left < 0 or any([x is None for x in arguments]):
            return self._call_compiled(buffers)
        put, device = self._put, self._device
        return [put(x, device) for x in self._program(arguments)]

    call = __call__

    def _call_compiled(self, buffers: Sequence[Any]) -> list[Any]:
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled(buffers)
