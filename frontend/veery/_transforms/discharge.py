"""Discharge: jaxprs with references as jaxprs that take what these hold, and give what they hold then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from veery._core import provided
from veery._core.effects import ref_effect
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, memoized
from veery._core.primitive import Primitive, Rule
from veery._core.refs import AbstractRef, Ref, inner_aval, is_ref
from veery._core.trace import Trace, current_trace, new_trace, set_current_trace
from veery._transforms.staging import stage


class DischargeTrace(Trace):
    """Knows what references hold; everything else goes to its parent."""

    __slots__ = ("evaluates",)
    lowers = True

    def __init__(self, parent: Trace, evaluates: bool):
        super().__init__(parent)
        self.evaluates = evaluates

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            return primitive.bind(*args, **params)


class Discharged(NamedTuple):
    """A jaxpr that takes values in place of references.

    Behind its own outputs it gives what those inputs that are `written` to hold then.
    """

    jaxpr: ClosedJaxpr
    written: tuple[int, ...]


@memoized
def _discharge(closed: ClosedJaxpr, evaluates: bool) -> Discharged:
    written: tuple[int, ...] = ()

    def fun(*args: Any) -> list[Any]:
        nonlocal written
        trace = DischargeTrace(current_trace(), evaluates)
        with new_trace(trace):
            values = [Ref(a, trace, x) if type(a) is AbstractRef else x for a, x in zip(closed.in_avals, args)]
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *values)
        written = tuple([i for i, (ref, x) in enumerate(zip(values, args)) if ref is not x and ref._value is not x])
        return [*outs, *(values[i]._value for i in written)]

    pure = stage(fun, [inner_aval(a) for a in closed.in_avals], closed.debug_info)
    return Discharged(pure, written)


def discharge(closed: ClosedJaxpr, evaluates: bool | None = None) -> Discharged:
    """A jaxpr without references, for the current trace: whether one is transformed any more depends on it."""
    result: Discharged = _discharge(closed, current_trace().evaluates if evaluates is None else evaluates)
    return result


def without_own(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr of a function of arrays for its evaluation, with values in place of references of its own."""
    return discharge(closed, evaluates=True).jaxpr if ref_effect in closed.effects else closed


def contents(args: Sequence[Any]) -> list[Any]:
    """The values, with what references hold in their place."""
    return [provided.operations.read(x) if is_ref(x) else x for x in args]


def store(args: Sequence[Any], written: Sequence[int], results: Sequence[Any]) -> list[Any]:
    """Write the last results to the references among the arguments, and return those before them."""
    n = len(results) - len(written)
    for i, value in zip(written, results[n:], strict=True):
        provided.operations.write(args[i], value)
    return list(results[:n])


def replacing(name: str) -> Rule:
    """The rule `with_refs` of an operation that calls the jaxpr of a parameter once: it calls a jaxpr of values."""

    def rule(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        pure = discharge(params[name])
        # not `bind`: rules of the user's own in it may keep references of theirs until they are evaluated
        results = current_trace().process_primitive(primitive, contents(args), params | {name: pure.jaxpr})
        return store(args, pure.written, results)

    return rule
