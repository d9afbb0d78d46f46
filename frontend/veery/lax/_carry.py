"""What loops do with their carried values: types that must not change, flags that spread until they are stable."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from veery._core import dtypes, tree, tree_errors, tree_registry
from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import ClosedJaxpr, Var, eval_jaxpr, memoized
from veery._core.mesh import context
from veery._core.refs import is_ref
from veery._transforms import staging
from veery._transforms.varying import pvary
from veery.lax import _bodies


def fixpoint(flags: Sequence[bool], step: Callable[[list[bool]], Sequence[bool]]) -> list[bool]:
    """The least set of flags that contains the given ones and is stable under `step`."""
    current = list(flags)
    while True:
        found = [a or b for a, b in zip(current, step(current))]
        if found == current:
            return current
        current = found


def stage_with_carry(
    stage: Callable[[list[Any]], _bodies.Body], carry: Sequence[Any], n_extra: int = 0
) -> tuple[list[Any], Any]:
    """Stage a loop's body, with weakly typed initial values made what the body makes of them.

    Args:
        stage: from the types of the carry to the staged body.
        carry: the initial values.
        n_extra: number of outputs that are not carried (they follow the carry).

    Returns:
        The initial values, maybe converted, and the body.
    """
    carry = list(carry)
    for _ in range(2):
        avals = [aval_of(x) for x in carry]
        body = stage(avals)
        outs = body.jaxpr.out_avals[: len(avals)]
        if len(outs) != len(avals):
            break
        changed = False
        for i, (a, out) in enumerate(zip(avals, outs)):
            wanted = _promoted(a, out)
            if wanted is not None:
                carry[i] = _bodies.as_aval(carry[i], wanted)
                changed = True
        if not changed:
            break
    return _varying_alike(stage, carry, body) if context().tracked else (carry, body)


def _varying_alike(
    stage: Callable[[list[Any]], _bodies.Body], carry: list[Any], body: _bodies.Body
) -> tuple[list[Any], _bodies.Body]:
    """Within `shard_map`, a carry that varies along the axes of a mesh along which the body makes it vary."""
    n = len(carry)
    while True:
        found = [out.varying for out in body.jaxpr.out_avals[:n]]
        if len(found) != n or all(axes <= aval_of(x).varying for x, axes in zip(carry, found)):
            break
        carry = [pvary(x, axes) for x, axes in zip(carry, found)]
        body = stage([aval_of(x) for x in carry])
    nothing: frozenset[Any] = frozenset()
    outs = [aval_of(x).varying for x in carry] + [nothing] * (len(body.jaxpr.out_avals) - n)
    jaxpr = _bodies.varying_over(body.jaxpr, [nothing] * len(body.jaxpr.in_avals), outs)
    return carry, body._replace(jaxpr=jaxpr)


def _promoted(a: Any, out: Any) -> ShapedArray | None:
    """The type that a weakly typed initial value should have, if the body's output is of another dtype."""
    if not (isinstance(a, ShapedArray) and isinstance(out, ShapedArray)) or not a.weak_type or a.shape != out.shape:
        return None
    if a.dtype == out.dtype:
        return None
    return a.update(dtype=dtypes.result_type(dtypes.scalar_type_of(a.dtype), out.dtype), weak_type=False)


def read_only(closed: ClosedJaxpr, n_consts: int, carry: Sequence[Any]) -> tuple[bool, ...]:
    """Which values the body, that takes them behind constants, gives back as they are: they are no part of the loop."""
    jaxpr = closed.jaxpr
    ins = jaxpr.invars[n_consts : n_consts + len(carry)]
    return tuple([a is v and not v.aval.has_qdd and not is_ref(x) for v, a, x in zip(ins, jaxpr.outvars, carry)])


@memoized
def as_consts(closed: ClosedJaxpr, n_consts: int, flags: tuple[bool, ...], gives_back: bool = True) -> ClosedJaxpr:
    """The jaxpr with flagged values of the carry among its constants, the last of them; it does not give them back."""
    jaxpr = closed.jaxpr
    n = n_consts + len(flags)
    carry = jaxpr.invars[n_consts:n]
    moved = [v for v, flag in zip(carry, flags) if flag]
    rest = [v for v, flag in zip(carry, flags) if not flag]
    invars = [*jaxpr.invars[:n_consts], *moved, *rest, *jaxpr.invars[n:]]
    given = [a for a, flag in itertools.zip_longest(jaxpr.outvars, flags) if not flag] if gives_back else jaxpr.outvars
    return ClosedJaxpr(jaxpr.replace(invars=invars, outvars=given), closed.consts)


def check(what: str, name: str, out_tree: Any, out_avals: Sequence[Any], in_tree: Any, in_avals: Sequence[Any]) -> None:
    """Raise TypeError, with the leaves that differ, unless a loop's body gives back what it takes."""
    if out_tree != in_tree:
        lines = [
            f"The input carry {_component(name, path)} is {mine} but the corresponding component of the carry output "
            f"is {other}, so {why}."
            for path, mine, other, why in tree_errors.equality_errors_pytreedef(in_tree, out_tree)
        ]
        raise TypeError(
            f"{what} carry input and carry output must have the same pytree structure, but they differ:\n\n"
            f"{_listed(lines)}\n\nRevise the function so that the carry output has the same pytree structure as the "
            "carry input."
        )
    paths = [p for p, _ in tree.tree_flatten_with_path(tree.tree_unflatten(in_tree, list(in_avals)))[0]]
    lines = [
        f"The input carry {_component(name, path)} has type {a.str_short(short_dtypes=False)} but the corresponding "
        f"output carry component has type {b.str_short(short_dtypes=False)}, so {_bodies.difference(a, b)}."
        for path, a, b in zip(paths, in_avals, out_avals)
        if not _bodies.same_type(a, b)
    ]
    if lines:
        raise TypeError(
            f"{what} carry input and carry output must have equal types, but they differ:\n\n{_listed(lines)}\n\n"
            "Revise the function so that all output types match the corresponding input types."
        )


def _component(name: str, path: Any) -> str:
    return f"component {name}{tree_registry.keystr(path)}" if path else name


def _listed(lines: Sequence[str]) -> str:
    """One sentence, or a list of several."""
    if len(lines) == 1:
        return lines[0]
    items = ";\n".join(f"  * {line[0].lower()}{line[1:].rstrip('.')}" for line in lines)
    return f"{items}."


@memoized
def reorder(closed: ClosedJaxpr, sizes: tuple[int, ...], order: tuple[int, ...]) -> ClosedJaxpr:
    """The jaxpr with groups of inputs (of the given sizes) in another order."""
    groups, start = [], 0
    for size in sizes:
        groups.append(closed.jaxpr.invars[start : start + size])
        start += size
    invars = [v for i in order for v in groups[i]]
    return ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts)


@memoized
def add_unused(closed: ClosedJaxpr, avals: tuple[Any, ...]) -> ClosedJaxpr:
    """The jaxpr with further inputs that it does not use."""
    return ClosedJaxpr(closed.jaxpr.replace(invars=[*closed.jaxpr.invars, *map(Var, avals)]), closed.consts)


def rewrite(closed: ClosedJaxpr, avals: Sequence[Any], fun: Callable[..., Sequence[Any]]) -> ClosedJaxpr:
    """A new jaxpr of `fun(evaluate, *args)`, where `evaluate` applies the old one."""
    evaluate = lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs)
    return staging.stage(lambda *xs: fun(evaluate, *xs), avals, closed.debug_info)
