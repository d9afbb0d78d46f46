"""How much a jaxpr computes, at once and in all, and whether its control flow waits for values from the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

from veery_lowering.host import ROUTINES
from veery_lowering.types import is_static, physical_dtype

_UNKNOWN_TRIPS = 16


def estimate_work(jaxpr: Any) -> int:
    """Floating-point operations plus bytes touched, loops multiplied by their trip count where it is known."""
    return sum(_equation_work(eqn) for eqn in jaxpr.eqns)


# Loops whose trips have no larger steps are one thread's, as kernels and as steps of the host. (Kernels of loops over
# more than 4096 elements divide them.)
_UNDIVIDED = 1 << 16


def largest_step(jaxpr: Any, calling: Collection[int]) -> Any:
    """The most work of one equation, of those that no Python function computes, which threads could divide.

    Of loops that call Python functions, and of those over few elements, that of one trip.

    Args:
        calling: the ids of the equations that are calls of Python functions, or have such.
    """
    return _most([_step_work(eqn, calling) for eqn in jaxpr.eqns])


def _step_work(eqn: Any, calling: Collection[int]) -> Any:
    inner = [closed.jaxpr for closed in inner_jaxprs(eqn)]
    if any(_calls(jaxpr, calling) for jaxpr in inner):
        return _most([largest_step(jaxpr, calling) for jaxpr in inner])
    if eqn.primitive.name in ("while", "scan"):
        trip = _most([largest_step(jaxpr, calling) for jaxpr in inner])
        if is_static(trip) and trip <= _UNDIVIDED:
            return trip
    return 0 if id(eqn) in calling or _is_one_matrix(eqn) else _equation_work(eqn)


def _is_one_matrix(eqn: Any) -> bool:
    """Whether LAPACK is called once."""
    return ROUTINES.get(eqn.primitive.name, 0) > 0 and _matrices(eqn) == 1


def _calls(jaxpr: Any, calling: Collection[int]) -> bool:
    return any(
        id(eqn) in calling or any(_calls(closed.jaxpr, calling) for closed in inner_jaxprs(eqn)) for eqn in jaxpr.eqns
    )


def is_blocking(jaxpr: Any) -> bool:
    """Whether a call waits for a value from the device: at a branch, or a loop that is no counter of known length."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "while" and trip_count(eqn) is None:
            return True
        if name == "cond" and not is_selected(eqn):
            return True
        if any(is_blocking(inner.jaxpr) for inner in inner_jaxprs(eqn)):
            return True
    return False


def inner_jaxprs(eqn: Any) -> Iterator[Any]:
    """The closed jaxprs among an equation's parameters."""
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "jaxpr") and hasattr(item, "consts"):
                yield item


# Below this a branch costs less than the host's reading of its predicate (12 to 45 us on the threaded queue).
_SELECTED_WORK = 1 << 16
_NEVER_SELECTED = frozenset(("while", "scan", "pure_callback", "io_callback", "ffi_call", "debug_callback"))


def is_selected(eqn: Any) -> bool:
    """Whether all branches of a cond are so cheap that computing them all beats reading the predicate on the host."""

    def plain(jaxpr: Any) -> bool:
        return not getattr(jaxpr, "effects", None) and all(
            inner_eqn.primitive.name not in _NEVER_SELECTED and all(plain(x.jaxpr) for x in inner_jaxprs(inner_eqn))
            for inner_eqn in jaxpr.eqns
        )

    jaxprs = [branch.jaxpr for branch in eqn.params["branches"]]
    results = sum(_nbytes(var.aval) for var in eqn.outvars) * len(jaxprs)
    work = sum(map(estimate_work, jaxprs)) + results
    return is_static(work) and work <= _SELECTED_WORK and all(map(plain, jaxprs))


def trip_count(eqn: Any) -> int | None:
    """The number of trips of a `while` that counts a carried integer up to a literal, or None."""
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    if len(condition.eqns) != 1 or condition.eqns[0].primitive.name != "lt":
        return None
    counter, limit = condition.eqns[0].invars
    if condition.outvars[0] is not condition.eqns[0].outvars[0] or not hasattr(limit, "val") or hasattr(counter, "val"):
        return None
    position = condition.invars.index(counter) - eqn.params["cond_nconsts"]
    if position < 0:
        return None
    start = eqn.invars[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] + position]
    step = increment(body, eqn.params["body_nconsts"] + position, position)
    if step is None or step <= 0 or not hasattr(start, "val"):
        return None
    return max(0, math.ceil((int(limit.val) - int(start.val)) / step))


def increment(body: Any, argument: int, result: int) -> int | None:
    """The literal that a body adds to its argument to make its result."""
    for eqn in body.eqns:
        if eqn.primitive.name == "add" and eqn.outvars[0] is body.outvars[result]:
            left, right = eqn.invars
            if left is body.invars[argument] and hasattr(right, "val"):
                return int(right.val)
            if right is body.invars[argument] and hasattr(left, "val"):
                return int(left.val)
    return None


def _nbytes(aval: Any) -> int:
    shape = getattr(aval, "shape", None)
    return 0 if shape is None else math.prod(shape) * physical_dtype(aval.dtype).itemsize


# What is read of the first operand is what they give, where that is used; and what moves nothing.
_PARTS = frozenset(("dynamic_slice", "gather", "slice"))
_VIEWS = frozenset(("broadcast_in_dim", "reshape", "squeeze"))


def _touched(eqn: Any) -> int:
    if eqn.primitive.name in _VIEWS:
        return 0
    if eqn.primitive.name in _PARTS:
        return sum(_nbytes(atom.aval) for atom in (*eqn.invars[1:], *eqn.outvars))
    return sum(_nbytes(atom.aval) for atom in (*eqn.invars, *eqn.outvars))


def _equation_work(eqn: Any) -> int:
    special = _CONTROL_FLOW.get(eqn.primitive.name)
    if special is not None:
        return special(eqn)
    terms = _TERMS.get(eqn.primitive.name)
    if terms and is_static(math.prod(eqn.invars[0].aval.shape)):
        return terms * _products(eqn) // _LAPACK_SPEED + _matrices(eqn) * (1 + terms // 2) * _LAPACK_START
    inner = sum(estimate_work(jaxpr.jaxpr) for jaxpr in inner_jaxprs(eqn))
    return inner or _touched(eqn) + sum(eqn.primitive.cost(eqn))


# What LAPACK multiplies, and how many such products it computes while IREE's kernels do one operation, or touch a byte.
_TERMS = {**ROUTINES, "eig": 40, "schur": 40, "hessenberg": 4, "tridiagonal": 4}
_LAPACK_SPEED = 8
# What it does before and behind those of a matrix, in such operations: 50 times svd of 30x10 takes 1.4 ms.
_LAPACK_START = 2000


def _matrices(eqn: Any) -> int:
    """How many there are in a stack."""
    return math.prod(eqn.invars[0].aval.shape[:-2])


def _products(eqn: Any) -> int:
    if eqn.primitive.name in ("triangular_solve", "lu_solve"):
        return int(math.prod(eqn.invars[-1].aval.shape) * eqn.invars[0].aval.shape[-1])
    shape = eqn.invars[0].aval.shape
    return int(math.prod(shape) * min(shape[-2:]))


def _while_work(eqn: Any) -> int:
    trips = trip_count(eqn)
    trip = estimate_work(eqn.params["cond_jaxpr"].jaxpr) + estimate_work(eqn.params["body_jaxpr"].jaxpr)
    return (_UNKNOWN_TRIPS if trips is None else trips) * trip


def _scan_work(eqn: Any) -> int:
    length: int = eqn.params["length"]
    return length * estimate_work(eqn.params["jaxpr"].jaxpr) + _touched(eqn)


def _linear_solve_work(eqn: Any) -> int:
    """Of what describes the problem, the solution alone is computed."""
    return estimate_work(eqn.params["problem"].solve.jaxpr)


def _most(works: list[Any]) -> Any:
    """The greatest; of symbolic ones, which may have no order, the sum."""
    return max(works, default=0) if all(map(is_static, works)) else sum(works)


_CONTROL_FLOW: dict[str, Callable[[Any], int]] = {
    "while": _while_work,
    "scan": _scan_work,
    "cond": lambda eqn: _most([estimate_work(branch.jaxpr) for branch in eqn.params["branches"]]),
    "custom_linear_solve": _linear_solve_work,
}
