"""Numbers that are written in a program as arguments of it: with another learning rate it is the same program.

It is then found where it was compiled before, in this process or on disk: a step of training that takes a second to
compile has its result at once with another rate. What a literal is worth to the compiler stays one: whole numbers and
powers of two, of which it makes shifts, squares and exact divisions, and what no argument has a part in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, memoized, subjaxprs
from veery._core.primitive import Primitive
from veery._transforms.calls import jit_p
from veery.lax._arithmetic import add_p, div_p, max_p, min_p, mul_p, neg_p, pow_p, sub_p
from veery.lax._compare import ge_p, gt_p, le_p, lt_p, select_n_p
from veery.lax._convert import convert_element_type_p
from veery.lax._scan import scan_p
from veery.lax._shape import broadcast_in_dim_p

# Fewer operations compile in a fifth of a second, and each argument costs a call 0.6 us.
_FEWEST_OPERATIONS = 32
_MOST_NUMBERS = 16
# Operations for which a number is a number, whichever it is, and those that give the number that they take.
_INDIFFERENT = frozenset((add_p, sub_p, mul_p, div_p, max_p, min_p, lt_p, le_p, gt_p, ge_p, select_n_p))
_HANDING_ON = frozenset((convert_element_type_p, broadcast_in_dim_p))
# What is computed of numbers alone is one: gradients multiply by cotangents of 1.
_COMPUTED: dict[Primitive, Callable[..., Any]] = {
    add_p: np.add, sub_p: np.subtract, mul_p: np.multiply, div_p: np.divide, neg_p: np.negative
}  # fmt: skip


# What makes two literals one: the value, its dtype, whether its type is weak, and the place in the user's program. By
# the value alone a rate of 0.001 and a decay of 0.001 would be one, and the program another than with other values.
_Key = tuple[float, Any, bool, Any]


class Parameterized(NamedTuple):
    """A jaxpr that takes numbers first that were literals in it, and their values."""

    jaxpr: ClosedJaxpr
    numbers: tuple[np.ndarray, ...]


def parameterized(closed: ClosedJaxpr) -> Parameterized:
    """A program of a user's whose numbers are arguments, where it is large enough for that to pay."""
    if not closed.debug_info.compiled or _operations(closed) < _FEWEST_OPERATIONS:
        return Parameterized(closed, ())
    lifted, literals = _lifted(closed)
    return Parameterized(lifted, tuple([np.asarray(x.val, x.aval.dtype) for x in literals.values()]))


@memoized
def _operations(closed: ClosedJaxpr) -> int:
    inner = [jaxpr for eqn in closed.eqns for jaxpr in subjaxprs(eqn.params) if isinstance(jaxpr, ClosedJaxpr)]
    return len(closed.eqns) + sum(map(_operations, inner))


@memoized
def _lifted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, dict[_Key, Literal]]:
    """The jaxpr with leading arguments in the place of literals, and these."""
    folded = _folded(closed.jaxpr)
    lifting = _Lifting(folded)
    eqns = [lifting.equation(eqn) for eqn in folded.eqns]
    if not lifting.literals:
        return closed, {}
    invars = [*lifting.variables.values(), *folded.invars]
    return ClosedJaxpr(folded.replace(eqns=eqns, invars=invars), closed.consts), lifting.literals


def _folded(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without arithmetic of literals alone."""
    known: dict[Atom, Literal] = {}
    value = lambda a: a if type(a) is Literal else known.get(a, a)
    eqns = []
    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=list(map(value, eqn.invars)))
        literal = _computed(eqn)
        if literal is None:
            eqns.append(eqn)
        else:
            known[eqn.outvars[0]] = literal
    return jaxpr.replace(eqns=eqns, outvars=list(map(value, jaxpr.outvars))) if known else jaxpr


def _computed(eqn: JaxprEqn) -> Literal | None:
    """What an equation gives whose operands are numbers."""
    function = _COMPUTED.get(eqn.primitive)
    if function is None or not all(type(a) is Literal and _is_float(a) for a in eqn.invars):
        return None
    aval = eqn.outvars[0].aval
    result = function(*(np.asarray(a.val, aval.dtype) for a in eqn.invars))  # type: ignore[union-attr]
    # programs take numbers that are smaller for zeros
    return Literal(result, aval) if np.finfo(aval.dtype).tiny <= abs(result) < np.inf else None


class _Lifting:
    """The literals of a jaxpr that become variables."""

    def __init__(self, jaxpr: Jaxpr):
        self.literals: dict[_Key, Literal] = {}
        self.variables: dict[_Key, Var] = {}
        self._varying = _varying(jaxpr)
        self._partial = _partial(jaxpr, self._varying)

    def equation(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation with variables in the place of literals."""
        handed_on = eqn.primitive in _HANDING_ON and eqn.outvars[0] not in self._partial
        if not handed_on and self._varying.isdisjoint(eqn.outvars):
            return eqn
        flags = [handed_on] if eqn.primitive in _HANDING_ON else _takes_any_number(eqn)
        place = eqn.source_info and eqn.source_info.place
        atoms = [self._number(a, place) if flag else a for a, flag in zip(eqn.invars, flags)]  # type: ignore[arg-type]
        eqn = eqn.replace(invars=atoms)
        return self._call(eqn) if eqn.primitive is scan_p or _is_of_users(eqn) else eqn

    def _call(self, eqn: JaxprEqn) -> JaxprEqn:
        inner, literals = _lifted(eqn.params["jaxpr"])
        params = eqn.params | {"jaxpr": inner}
        if eqn.primitive is scan_p:
            params["num_consts"] += len(literals)
        return eqn.replace(params=params, invars=[*itertools.starmap(self._variable, literals.items()), *eqn.invars])

    def _number(self, atom: Atom, place: Any) -> Atom:
        if type(atom) is not Literal or not _is_any_number(atom):
            return atom
        return self._variable((float(atom.val), atom.aval.dtype, atom.aval.weak_type, place), atom)

    def _variable(self, key: _Key, literal: Literal) -> Atom:
        if key not in self.literals:
            if len(self.literals) == _MOST_NUMBERS:
                return literal
            self.literals[key], self.variables[key] = literal, Var(literal.aval)
        return self.variables[key]


def _is_of_users(eqn: JaxprEqn) -> bool:
    """Whether an equation calls a function that a user had compiled; what the library's have in them stays."""
    return eqn.primitive is jit_p and eqn.params["jaxpr"].debug_info.compiled


def _is_float(literal: Literal) -> bool:
    return not literal.aval.shape and literal.aval.dtype in (np.float32, np.float64)


def _is_any_number(literal: Literal) -> bool:
    """Whether nothing is simpler for this number than for any other."""
    if not _is_float(literal):
        return False
    value = float(literal.val)
    return math.isfinite(value) and not value.is_integer() and abs(math.frexp(value)[0]) != 0.5


def _varying(jaxpr: Jaxpr) -> set[Any]:
    """The variables in which an argument has a part; the others are known when a program is compiled."""
    found: set[Any] = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if any(type(a) is not Literal and a in found for a in eqn.invars):
            found.update(eqn.outvars)
    return found


def _partial(jaxpr: Jaxpr, varying: set[Any]) -> set[Any]:
    """The variables that are used in another way than any number is."""
    found: set[Any] = {a for a in jaxpr.outvars if type(a) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        if eqn.primitive in _HANDING_ON:
            flags: Sequence[bool] = [eqn.outvars[0] not in found]
        elif varying.isdisjoint(eqn.outvars):
            flags = [False] * len(eqn.invars)
        else:
            flags = _takes_any_number(eqn)
        found.update(a for a, flag in zip(eqn.invars, flags) if not flag and type(a) is not Literal)
    return found


def _takes_any_number(eqn: JaxprEqn) -> Sequence[bool]:
    """For each operand of an equation, whether it may be any number, without being worse for it."""
    if eqn.primitive is jit_p:
        flags: Sequence[bool] = _arguments_that_are_any_number(eqn.params["jaxpr"])
        return flags
    if eqn.primitive is pow_p:  # of an array the base's logarithm would be computed for each exponent
        return [not eqn.outvars[0].aval.shape, False]
    return [eqn.primitive in _INDIFFERENT] * len(eqn.invars)


@memoized
def _arguments_that_are_any_number(closed: ClosedJaxpr) -> tuple[bool, ...]:
    partial = _partial(closed.jaxpr, _varying(closed.jaxpr))
    return tuple([v not in partial for v in closed.jaxpr.invars])
