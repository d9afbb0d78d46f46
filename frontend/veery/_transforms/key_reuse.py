"""Random keys that are used twice, which `jax_debug_key_reuse` looks for.

What a program does with keys is read off its jaxpr; a `Uses` says it of each operation, by the places of its operands
and results. Of the arrays of keys that exist it is remembered which of their elements have been used.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes, source
from veery._core.errors import KeyReuseError
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, memoized

Mask = Any  # True, or a bool array: which elements of an array of keys


@dataclass(frozen=True)
class Uses:
    """What an operation, or a whole program, does with keys.

    Attributes:
        used: by the place of an operand, which of its keys are used up.
        new: the places of the results whose keys are new.
        same: by the place of a result, that of the operand whose keys it has. Keys of other results count as used.
    """

    used: dict[int, Mask] = field(default_factory=dict)
    new: frozenset[int] = frozenset()
    same: dict[int, int] = field(default_factory=dict)


_UNTOUCHED, _SAME, _NEW = Uses(), Uses(same={0: 0}), Uses(new=frozenset({0}))

_by_name: dict[str, Uses | Callable[[JaxprEqn], Uses]] = {
    **dict.fromkeys(
        ("broadcast_in_dim", "copy", "copy_p", "convert_element_type", "reshape", "squeeze", "dynamic_slice", "gather"),
        _SAME,
    ),
    **dict.fromkeys(("random_seed", "random_wrap", "random_fold_in", "random_clone"), _NEW),
    **dict.fromkeys(("random_unwrap", "debug_callback", "debug_print", "eq", "ne"), _UNTOUCHED),
    "random_bits": Uses({0: True}),
    "random_split": Uses({0: True}, frozenset({0})),
    "dynamic_update_slice": Uses({1: True}, same={0: 0}),
    "scatter": Uses({2: True}, same={0: 0}),
    "device_put": lambda eqn: Uses(same={i: i for i in range(len(eqn.invars))}),
    "select_n": lambda eqn: Uses(_all_used(eqn), frozenset({0})),
    "concatenate": lambda eqn: _SAME if len(eqn.invars) == 1 else Uses(_all_used(eqn), frozenset({0})),
    "jit": lambda eqn: uses_of(eqn.params["jaxpr"]),
    "shard_map": lambda eqn: _uses_of_jaxpr(eqn.params["jaxpr"]),
    "slice": lambda eqn: _of_slice(eqn),
    "cond": lambda eqn: _of_cond(eqn),
    "scan": lambda eqn: _of_scan(eqn),
    "while": lambda eqn: _of_while(eqn),
    # Of a derivative: the function itself has been looked at.
    "remat2": lambda eqn: _UNTOUCHED if eqn.params["differentiated"] else uses_of(eqn.params["jaxpr"]),
}


def _is_key(x: Any) -> bool:
    return isinstance(getattr(x.aval, "dtype", None), dtypes.KeyDType)


def _all_used(eqn: JaxprEqn) -> dict[int, Mask]:
    return {i: True for i, v in enumerate(eqn.invars) if _is_key(v)}


def _of(eqn: JaxprEqn) -> Uses:
    """What an equation does with keys; an operation that nothing is known of uses them up."""
    rule = _by_name.get(eqn.primitive.name)
    if rule is None:
        return Uses(_all_used(eqn))
    return rule if isinstance(rule, Uses) else rule(eqn)


def _of_slice(eqn: JaxprEqn) -> Uses:
    aval, params = eqn.invars[0].aval, eqn.params
    if not _is_key(eqn.invars[0]) or not all(isinstance(n, int) for n in aval.shape):
        return _SAME
    chosen = np.zeros(aval.shape, bool)
    steps = params["strides"] or (1,) * aval.ndim
    chosen[tuple(map(slice, params["start_indices"], params["limit_indices"], steps))] = True
    return Uses({0: chosen}, frozenset({0}))


def _of_cond(eqn: JaxprEqn) -> Uses:
    """What either branch uses is used; new is what is new in each. The first operand says which branch it is."""
    branches = [uses_of(branch) for branch in eqn.params["branches"]]
    used: dict[int, Mask] = {}
    for branch in branches:
        for i, mask in branch.used.items():
            used[i + 1] = _either(used.get(i + 1, False), mask)
    same = {k: i + 1 for k, i in branches[0].same.items() if all(other.same.get(k) == i for other in branches)}
    return Uses(used, frozenset.intersection(*(branch.new for branch in branches)), same)


def _of_scan(eqn: JaxprEqn) -> Uses:
    uses = uses_of(eqn.params["jaxpr"])
    consts, carries = eqn.params["num_consts"], eqn.params["num_carry"]
    _check_repeated("scan body", "key constants are repeatedly consumed", {i for i in uses.used if i < consts})
    carried = {i - consts for i in uses.used if consts <= i < consts + carries}
    _check_repeated("scan body", "consumed inputs don't match sourced outputs", carried - uses.new)
    # A key among the operands that are taken apart is used in each of its elements.
    return Uses(dict.fromkeys(uses.used, True), uses.new, uses.same)


def _of_while(eqn: JaxprEqn) -> Uses:
    condition, body = uses_of(eqn.params["cond_jaxpr"]), uses_of(eqn.params["body_jaxpr"])
    of_condition, of_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    carried = {}
    for name, uses, consts in (("cond", condition, of_condition), ("body", body, of_body)):
        what = f"while_loop {name}"
        _check_repeated(what, "key constants are repeatedly consumed", {i for i in uses.used if i < consts})
        carried[name] = {i - consts for i in uses.used if i >= consts}
        _check_repeated(what, "consumed inputs don't match sourced outputs", carried[name] - body.new)
    if carried["cond"] & carried["body"]:
        raise KeyReuseError("while_loop cond and body functions both use the same key.")
    used = {i + of_condition + of_body: True for i in carried["cond"] | carried["body"]}
    same = {k: i + of_condition for k, i in body.same.items()}
    return Uses(used, body.new, same)


def _check_repeated(function: str, why: str, places: set[int]) -> None:
    if places:
        raise KeyReuseError(
            f"{function} function leads to key reuse when repeatedly executed, because {why}: split a key that is "
            "carried, and carry on with a new one."
        )


def _either(a: Mask, b: Mask) -> Mask:
    joined = np.logical_or(a, b)
    return True if joined.size and joined.all() else joined


@memoized
def uses_of(closed: ClosedJaxpr) -> Uses:
    """What a program does with keys, those that it closes over aside.

    Raises:
        KeyReuseError: it uses a key twice.
    """
    return _uses_of_jaxpr(closed.jaxpr)


def _uses_of_jaxpr(jaxpr: Jaxpr) -> Uses:
    used: dict[Var, Mask] = {}
    origin: dict[Var, Var] = {}  # of a variable that has the keys of another

    def resolved(v: Any) -> Any:
        return origin.get(v, v) if type(v) is not Literal else v

    for eqn in jaxpr.eqns:
        uses = _of(eqn)
        for i, mask in uses.used.items():
            v = resolved(eqn.invars[i])
            if not _is_key(v) or not np.any(mask):
                continue
            if np.any(np.logical_and(used.get(v, False), mask)):
                raise KeyReuseError(f"In {eqn.primitive}, argument {i} is already consumed.{_at(eqn.source_info)}")
            used[v] = _either(used.get(v, False), mask)
        for k, out in enumerate(eqn.outvars):
            if k in uses.same and _is_key(out):
                origin[out] = resolved(eqn.invars[uses.same[k]])
            elif _is_key(out) and k not in uses.new:
                used[out] = True

    places = {v: i for i, v in reversed(list(enumerate(jaxpr.invars)))}
    outs = [(k, resolved(v)) for k, v in enumerate(jaxpr.outvars) if _is_key(v)]
    return Uses(
        {i: used[v] for i, v in enumerate(jaxpr.invars) if v in used},
        frozenset(k for k, v in outs if v not in places and not np.any(used.get(v, False))),
        {k: places[v] for k, v in outs if v in places},
    )


def _at(place: Any) -> str:
    return f" (at {place})" if place is not None and place.line else ""


# Arrays of keys.


class _Used(NamedTuple):
    """Of an array, which of its keys have been used, and where the last was."""

    array: weakref.ref[Any]
    mask: Mask
    place: Any


_used: dict[int, _Used] = {}  # by the identity of the array


def _used_of(array: Any) -> Mask:
    found = _used.get(id(array))
    return False if found is None else found.mask


def _mark(array: Any, mask: Mask) -> None:
    key = id(array)
    _used[key] = _Used(weakref.ref(array, lambda _: _used.pop(key, None)), mask, source.current())


def checked(closed: ClosedJaxpr, name: str, arrays: Sequence[Any], run: Callable[[], Any]) -> Any:
    """Run a program on arrays, unless it uses keys of theirs that have been used.

    Args:
        closed: the program.
        name: of the function.
        arrays: its arguments.
        run: runs it; the result has the arrays that it gave as `outs`.

    Raises:
        KeyReuseError: a key has been used, or is used twice within.
    """
    uses = uses_of(closed)
    eqns = closed.jaxpr.eqns
    what = name if len(eqns) == 1 and eqns[0].primitive.name == name else "jit-compiled function"
    for i, mask in uses.used.items():
        if np.any(np.logical_and(_used_of(arrays[i]), mask)):
            first = f"\nThe key was first used{_at(_used[id(arrays[i])].place)}." if id(arrays[i]) in _used else ""
            raise KeyReuseError(f"Previously-consumed key passed to {what} at index {i}{first}")
    result = run()
    for i, mask in uses.used.items():
        _mark(arrays[i], _either(_used_of(arrays[i]), mask))
    for k, out in enumerate(result.outs):
        if isinstance(out.dtype, dtypes.KeyDType) and k not in uses.new:
            mask = _used_of(arrays[uses.same[k]]) if k in uses.same else True
            _mark(out, mask if np.shape(mask) == out.shape or np.ndim(mask) == 0 else np.any(mask))
    return result
