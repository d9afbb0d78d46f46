"""Numbers that are written in a program as arguments of it: with another learning rate it is the same program.

It is then found where it was compiled before, in this process or on disk: a step of training that takes a second to
compile has its result at once with another rate. What a literal is worth to the compiler stays one: whole numbers and
powers of two, of which it makes shifts, squares and exact divisions, and what no argument has a part in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, memoized, subjaxprs
from veery._core.primitive import Primitive
from veery._transforms.calls import jit_p
from veery.lax._arithmetic import add_p, div_p, max_p, min_p, mul_p, neg_p, sub_p
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


class Parameterized(NamedTuple):
    """A jaxpr that takes numbers first that were literals in it, and their values."""

    jaxpr: ClosedJaxpr
    numbers: tuple[np.ndarray, ...]


def parameterized(closed: ClosedJaxpr) -> Parameterized:
    """A program whose numbers are arguments, where it is large enough for that to pay."""
    if _operations(closed) < _FEWEST_OPERATIONS:
        return Parameterized(closed, ())
    lifted, literals = _lifted(closed)
    return Parameterized(lifted, tuple([np.asarray(x.val, x.aval.dtype) for x in literals]))


@memoized
def _operations(closed: ClosedJaxpr) -> int:
    inner = [jaxpr for eqn in closed.eqns for jaxpr in subjaxprs(eqn.params) if isinstance(jaxpr, ClosedJaxpr)]
    return len(closed.eqns) + sum(map(_operations, inner))


@memoized
def _lifted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, tuple[Literal, ...]]:
    """The jaxpr with leading arguments in the place of literals, and these, each once."""
    folded = _folded(closed.jaxpr)
    lifting = _Lifting(folded)
    eqns = [lifting.equation(eqn) for eqn in folded.eqns]
    if not lifting.found:
        return closed, ()
    variables, literals = zip(*lifting.found.values())
    return ClosedJaxpr(folded.replace(eqns=eqns, invars=[*variables, *folded.invars]), closed.consts), literals


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
    function, aval = _COMPUTED.get(eqn.primitive), eqn.outvars[0].aval
    if function is None or not all(type(a) is Literal and _is_float(a) for a in eqn.invars):
        return None
    result = function(*(np.asarray(a.val, aval.dtype) for a in eqn.invars))  # type: ignore[union-attr]
    # programs take numbers that are smaller for zeros
    return Literal(result, aval) if np.finfo(aval.dtype).tiny <= abs(result) < np.inf else None


class _Lifting:
    """The literals of a jaxpr that become variables."""

    def __init__(self, jaxpr: Jaxpr):
        self.found: dict[tuple[float, np.dtype, bool], tuple[Var, Literal]] = {}
        self._varying = _varying(jaxpr)
        self._partial = _partial(jaxpr, self._varying)

    def equation(self, eqn: JaxprEqn) -> JaxprEqn:
        """The equation with variables in the place of literals."""
        varies = eqn.outvars and eqn.outvars[0] in self._varying
        handed_on = eqn.primitive in _HANDING_ON and eqn.outvars[0] not in self._partial
        if handed_on or (varies and eqn.primitive in _INDIFFERENT):
            return eqn.replace(invars=list(map(self._variable, eqn.invars)))
        return self._call(eqn) if varies and eqn.primitive in (jit_p, scan_p) else eqn

    def _call(self, eqn: JaxprEqn) -> JaxprEqn:
        inner: ClosedJaxpr = eqn.params["jaxpr"]
        invars = eqn.invars
        if eqn.primitive is jit_p:
            invars = [self._variable(a) if flag else a for a, flag in zip(invars, _takes_any(inner))]
        inner, literals = _lifted(inner)
        params = eqn.params | {"jaxpr": inner}
        if eqn.primitive is scan_p:
            params["num_consts"] += len(literals)
        return eqn.replace(params=params, invars=[*map(self._variable, literals), *invars])

    def _variable(self, atom: Atom) -> Atom:
        if type(atom) is not Literal or not _is_any_number(atom):
            return atom
        key = (float(atom.val), atom.aval.dtype, atom.aval.weak_type)
        if key not in self.found:
            if len(self.found) == _MOST_NUMBERS:
                return atom
            self.found[key] = Var(atom.aval), atom
        return self.found[key][0]


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
        uses: Sequence[bool] = [eqn.primitive not in _INDIFFERENT or eqn.outvars[0] not in varying] * len(eqn.invars)
        if eqn.primitive in _HANDING_ON:
            uses = [eqn.outvars[0] in found]
        elif eqn.primitive is jit_p:
            uses = [not flag for flag in _takes_any(eqn.params["jaxpr"])]
        found.update(a for a, use in zip(eqn.invars, uses) if use and type(a) is not Literal)
    return found


@memoized
def _takes_any(closed: ClosedJaxpr) -> tuple[bool, ...]:
    """For each argument, whether it is used as any number is."""
    partial = _partial(closed.jaxpr, _varying(closed.jaxpr))
    return tuple([v not in partial for v in closed.jaxpr.invars])
