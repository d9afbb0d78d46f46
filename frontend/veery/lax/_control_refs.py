"""Loops and conditionals whose functions use references: what these hold is carried along, and written back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, memoized
from veery._core.primitive import Primitive
from veery._core.refs import is_ref, same_ref
from veery._core.trace import current_trace
from veery._transforms import staging
from veery._transforms.discharge import Discharged, contents, discharge, store
from veery._transforms.high import Referred, raise_outputs, referring, takes_high

# Operations of values are not bound (see `discharge.replacing`): rules of the user's own in them may keep references of
# theirs until they are evaluated.


def scan_with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A scan in which constants that are written to are carried, and xs that are written to are ys too."""
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    if takes_high(params["jaxpr"].jaxpr):
        return _scan_of_high(primitive, args, params)
    pure = discharge(params["jaxpr"])
    carried = tuple([i for i in pure.written if i < num_consts])
    body = _carrying_consts(pure.jaxpr, num_consts, num_carry, carried, len(pure.written))
    values = contents(args)
    consts = [x for i, x in enumerate(values[:num_consts]) if i not in carried]
    operands = [*consts, *(values[i] for i in carried), *values[num_consts:]]
    changed = {"jaxpr": body, "num_consts": len(consts), "num_carry": len(carried) + num_carry}
    results = current_trace().process_primitive(primitive, operands, params | changed)
    n = len(carried)
    # written inputs come in the order of inputs: constants first, then xs
    written_xs = len(pure.written) - n
    outs, xs = results[n : len(results) - written_xs], results[len(results) - written_xs :]
    return store(args, pure.written, [*outs, *results[:n], *xs])


def _scan_of_high(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A scan that uses, or carries, values of types of the user's."""
    closed: ClosedJaxpr = params["jaxpr"]
    a, b = params["num_consts"], params["num_consts"] + params["num_carry"]
    invars, outs = closed.jaxpr.invars, closed.jaxpr.outvars
    mutable = any(var.aval.has_qdd for var in invars[a:])
    if mutable or any(atom.aval.is_high for atom in (*invars[b:], *outs[params["num_carry"] :])):
        raise NotImplementedError(
            "scan neither carries mutable values of types of the user's nor runs over values of such types; close over "
            "them, or pass the arrays that they are made of"
        )
    known = Referred()
    groups = [known.expand(args[i:j], closed.jaxpr, invars[i:j]) for i, j in ((0, a), (a, b), (b, len(args)))]
    changed = {"jaxpr": referring(closed), "num_consts": len(groups[0]), "num_carry": len(groups[1])}
    results = primitive.bind(*(x for group in groups for x in group), **params | changed)
    known.write_back()
    return raise_outputs(closed, iter(results))


@memoized
def _carrying_consts(
    body: ClosedJaxpr, num_consts: int, num_carry: int, carried: tuple[int, ...], num_written: int
) -> ClosedJaxpr:
    """The body of a scan with some of its constants in front of the carry.

    It gives what they become behind its own outputs, followed by what xs become.
    """
    kept = [i for i in range(num_consts) if i not in carried]
    order = [*kept, *carried, *range(num_consts, len(body.in_avals))]
    num_outs = len(body.out_avals) - num_written

    def fun(*args: Any) -> list[Any]:
        given = dict(zip(order, args))
        outs = eval_jaxpr(body.jaxpr, body.consts, *(given[i] for i in range(len(order))))
        n = num_outs + len(carried)
        return [*outs[num_outs:n], *outs[:num_outs], *outs[n:]]

    return staging.stage(fun, [body.in_avals[i] for i in order], body.debug_info)


def cond_with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A conditional whose branches also give what they write."""
    if any(takes_high(branch.jaxpr) for branch in params["branches"]):
        return _cond_of_high(primitive, args, params)
    branches = [discharge(branch) for branch in params["branches"]]
    written = tuple(sorted({i for branch in branches for i in branch.written}))
    jaxprs = tuple([_writing(branch.jaxpr, branch.written, written) for branch in branches])
    results = current_trace().process_primitive(primitive, contents(args), {"branches": jaxprs})
    return store(args, [i + 1 for i in written], results)  # behind the index


def _cond_of_high(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A conditional whose branches use values of types of the user's."""
    first: ClosedJaxpr = params["branches"][0]
    known = Referred()
    operands = known.expand(args[1:], first.jaxpr, first.jaxpr.invars)
    results = primitive.bind(args[0], *operands, branches=tuple(map(referring, params["branches"])))
    known.write_back()
    return raise_outputs(first, iter(results))


@memoized
def _writing(pure: ClosedJaxpr, own: tuple[int, ...], written: tuple[int, ...]) -> ClosedJaxpr:
    """A branch that gives what all inputs that some branch writes to hold then."""
    if own == written:
        return pure
    n = len(pure.out_avals) - len(own)

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(pure.jaxpr, pure.consts, *args)
        held = dict(zip(own, outs[n:]))
        return [*outs[:n], *(held.get(i, args[i]) for i in written)]

    return staging.stage(fun, pure.in_avals, pure.debug_info)


def while_with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A loop that carries what its condition and its body write. One reference may be a constant of both."""
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    if takes_high(params["cond_jaxpr"].jaxpr) or takes_high(params["body_jaxpr"].jaxpr):
        return _while_of_high(primitive, args, params)
    cond, body = discharge(params["cond_jaxpr"]), discharge(params["body_jaxpr"])
    known: dict[int, int] = {}  # where a reference first is among the constants
    places = [known.setdefault(id(same_ref(x)), i) if is_ref(x) else i for i, x in enumerate(args[:b])]
    written = sorted({places[i] for i in cond.written} | {places[a + i] for i in body.written})
    values = contents(args)
    loop = _Loop(cond, body, tuple(places[:a]), tuple(places[a:]), tuple(written))
    return store(args, written, loop.run(primitive, values[:b], values[b:]))


def _while_of_high(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """A loop that uses, or carries, values of types of the user's."""
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    carried = body.jaxpr.invars[b - a :]
    if any(var.aval.has_qdd for var in carried):
        raise NotImplementedError("while_loop carries no mutable values of types of the user's; close over them")
    known = Referred()
    of_cond = known.expand(args[:a], cond.jaxpr, cond.jaxpr.invars[:a])
    of_body = known.expand(args[a:b], body.jaxpr, body.jaxpr.invars[: b - a])
    carry = known.expand(args[b:], body.jaxpr, carried)
    results = primitive.bind(
        *of_cond, *of_body, *carry, cond_nconsts=len(of_cond), cond_jaxpr=referring(cond), body_nconsts=len(of_body),
        body_jaxpr=referring(body),
    )  # fmt: skip
    known.write_back()
    return raise_outputs(body, iter(results))


class _Loop:
    """A loop over what is carried and the constants that are written to."""

    def __init__(
        self, cond: Discharged, body: Discharged, of_cond: tuple[int, ...], of_body: tuple[int, ...], written: Any
    ):
        self.cond = cond
        self.body = body
        self.of_cond = of_cond
        self.of_body = of_body
        self.written = written

    def _apply(
        self, step: Discharged, places: Sequence[int], consts: dict[int, Any], carry: Sequence[Any]
    ) -> tuple[list[Any], dict[int, Any]]:
        """The outputs of the condition or the body, and the constants after it."""
        outs = eval_jaxpr(step.jaxpr.jaxpr, step.jaxpr.consts, *(consts[i] for i in places), *carry)
        n = len(outs) - len(step.written)
        return outs[:n], consts | {places[i]: x for i, x in zip(step.written, outs[n:])}

    def run(self, primitive: Primitive, values: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
        """The last carry, followed by what was written.

        The condition may write as well: it is then evaluated before the loop and at the end of each trip.
        """
        consts = dict(enumerate(values))
        fixed = [i for i in sorted({*self.of_cond, *self.of_body}) if i not in self.written]
        n, ahead = len(carry), bool(self.cond.written)

        def joined(flat: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
            state = list(flat[len(fixed) :])
            carried, held = state[:n], state[n : n + len(self.written)]
            return carried, dict(zip(fixed, flat)) | dict(zip(self.written, held))

        def condition(*flat: Any) -> list[Any]:
            if ahead:
                return [flat[-1]]
            carried, known = joined(flat)
            return self._apply(self.cond, self.of_cond, known, carried)[0]

        def trip(*flat: Any) -> list[Any]:
            carried, known = joined(flat)
            carried, known = self._apply(self.body, self.of_body, known, carried)
            pred: list[Any] = []
            if ahead:
                pred, known = self._apply(self.cond, self.of_cond, known, carried)
            return [*carried, *(known[i] for i in self.written), *pred]

        pred: list[Any] = []
        if ahead:
            pred, consts = self._apply(self.cond, self.of_cond, consts, carry)
        operands = [*(consts[i] for i in fixed), *carry, *(consts[i] for i in self.written), *pred]
        avals = [aval_of(x) for x in operands]
        cond_jaxpr = staging.stage(condition, avals, self.cond.jaxpr.debug_info)
        body_jaxpr = staging.stage(trip, avals, self.body.jaxpr.debug_info)
        n_fixed = len(fixed)
        params = {
            "cond_nconsts": n_fixed, "cond_jaxpr": cond_jaxpr, "body_nconsts": n_fixed, "body_jaxpr": body_jaxpr
        }  # fmt: skip
        results = current_trace().process_primitive(primitive, [*operands[:n_fixed], *operands], params)
        return list(results[: n + len(self.written)])
