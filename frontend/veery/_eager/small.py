"""Eager programs of a few operations on small arrays: NumPy evaluates them, so that nothing is compiled for them.

A script that computes something of a hundred numbers, or somebody at a prompt, would wait for a compilation at each new
function and shape, 50 to 90 ms. Here a program takes 2 to 5 us, and 1 to 2 for each operation. Later calls of compiled
ones are faster, but JAX's are not by much: in us, of 50 numbers,

| | compiled | here | JAX | | compiled | here | JAX |
|---|---|---|---|---|---|---|---|
| exp | 5.5 | 6.9 | 5.2 | softmax | 6 | 14 | 40 |
| variance | 14 | 18 | 11 | histogram | 13 | 57 | 1160 |

Bits may differ from those of compiled programs, but never from one call to the next: functions that a user has compiled
are compiled, always, and what is evaluated is never compiled later, whoever waits for what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.host import Step
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn
from veery._eager import HostExecutable, NotExact, are_hosts, host_program
from veery._eager.operations import REDUCTIONS, reduction
from veery._eager.solutions import Line
from veery._eager.written import Calls, WrittenProgram
from veery._transforms.dce import dce

_MOST_NANOSECONDS = 1 << 15  # beside what each operation takes, however small it is
_MOST_OPERATIONS, _MOST_LOOKED_AT = 48, 96  # as many as a histogram has; and before some are left out
# In its own precision NumPy's products of complex numbers are rounded twice, or once, as the processor likes: the real
# part of (x + x j) ** 2 is not 0.
_MULTIPLYING = frozenset(("div", "integer_pow", "mul", "square"))


class SmallProgram(WrittenProgram):
    """A jaxpr of a few operations on small arrays, as functions of NumPy.

    Attributes:
        work: an estimate of the nanoseconds that it takes.
    """

    def _step(self, eqn: JaxprEqn, known: Sequence[np.ndarray | None]) -> Step | None:
        step = reduction(eqn) if eqn.primitive.name in REDUCTIONS else None
        step = step or super()._step(eqn, known)
        if step is None or eqn.primitive.name not in _MULTIPLYING:
            return step
        return _multiplied_in_double(eqn, step)

    def _count(self, eqn: JaxprEqn, step: Step) -> None:
        super()._count(eqn, step)
        if len(self.steps) > _MOST_LOOKED_AT or self._told[-1][2] > _MOST_NANOSECONDS:
            raise NotExact

    def _check(self, lines: Sequence[Line]) -> None:
        self.work = sum(line.time for line in lines)
        if len(lines) > _MOST_OPERATIONS or self.work > _MOST_NANOSECONDS:
            raise NotExact


def _multiplied_in_double(eqn: JaxprEqn, step: Step) -> Step | None:
    dtype = eqn.outvars[0].aval.dtype
    if dtype.kind != "c":
        return step
    if dtype != np.complex64:
        return None
    function = step.function
    return step._replace(function=lambda *xs: np.asarray(function(*[x.astype(np.complex128) for x in xs]), dtype))


def small_program(closed: ClosedJaxpr, calls: Calls) -> SmallProgram | None:
    """The jaxpr as functions of NumPy; None if it is to be compiled."""
    if not are_hosts((*closed.in_avals, *closed.out_avals)):
        return None
    try:
        return SmallProgram(closed, calls)
    except NotExact:
        return None


def host_executable(
    closed: ClosedJaxpr,
    calls: Calls,
    device: Any,
    put: Callable[..., Any],
    compile: Callable[[], Any],
    queued: Callable[[SmallProgram], Any],
) -> HostExecutable | None:
    """What evaluates an eager program in the caller's thread; None if it is to be compiled.

    Args:
        closed, calls: as for SmallProgram.
        device, put: as for HostExecutable.
        compile: makes the executable of the compiled program.
        queued: makes one that evaluates a program behind what it waits for.
    """
    exact = host_program(closed)
    if exact is not None:
        return HostExecutable(exact, device, put, compile, exact=True)
    small = small_program(dce(closed), calls)
    if small is None:
        return None
    return HostExecutable(small, device, put, lambda: queued(small), exact=False)
