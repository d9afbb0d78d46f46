"""Conditionals: one of several branches is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, effects, provided, source, tree, tree_errors, tree_registry
from veery._core.ad import Zero, is_undefined_primal
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, eval_jaxpr, reference_eval
from veery._core.mesh import context
from veery._core.primitive import Primitive
from veery._core.refs import AbstractRef, check_aliases, is_ref
from veery._core.trace import Tracer
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.dce import dce_jaxpr
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import LinearizedJaxpr, linearize_jaxpr
from veery._transforms.remat import Piece, Policy, inline_calls, partition
from veery._transforms.transpose import transpose_jaxpr
from veery._transforms.varying import pvary
from veery.lax import _bodies, _compare, _convert, _shape, _stop_gradient
from veery.lax._control_refs import cond_with_refs

_missing = object()


@source.api_boundary
def cond(
    pred: Any, true_fun: Any, false_fun: Any = _missing, *operands: Any, operand: Any = _missing, linear: Any = None
) -> Any:
    """Evaluate one of two functions.

    Args:
        pred: scalar bool (or number, true if not zero).
        true_fun: function of the operands.
        false_fun: function of the operands, with outputs of the same pytree, shapes and dtypes.
        *operands: pytrees of arrays.
        operand: a single operand, by keyword.
        linear: accepted for compatibility.

    Returns:
        The output of the chosen function. Only that one is evaluated, except under vmap with a batched pred.

    Raises:
        TypeError: pred is not scalar, or the outputs differ in type.

    >>> import veery
    >>> float(veery.lax.cond(True, lambda x: x + 1, lambda x: x - 1, 2.0))
    3.0
    """
    if not callable(true_fun) and callable(false_fun) and len(operands) == 2 and callable(operands[1]):
        # the older form: pred, operand and function for true, operand and function for false
        each = (true_fun, operands[0])
        first, second = false_fun, operands[1]
        return cond(pred, lambda xs: first(xs[0]), lambda xs: second(xs[1]), each)
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if operand is not _missing:
        if operands:
            raise TypeError("if 'operand' keyword is passed then no positional operands can be passed to cond")
        operands = (operand,)
    index = _as_index(pred)
    if config.jax_disable_jit and not isinstance(index, Tracer):
        return true_fun(*operands) if bool(index) else false_fun(*operands)
    return _switch("cond", index, [false_fun, true_fun], operands, ("false_fun", "true_fun"))


def _as_index(pred: Any) -> Any:
    if pred is None:
        raise TypeError("cond predicate is None")
    if isinstance(pred, Sequence):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}.")
    aval: Any = maybe_aval_of(pred)
    if aval is None:
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if dtypes.issubdtype(aval.dtype, np.bool_):
        return _convert.convert_element_type(pred, np.int32)
    if not dtypes.issubdtype(aval.dtype, np.number):
        raise TypeError(f"Pred type must be either boolean or number, got {aval.dtype}.")
    return _convert.convert_element_type(_compare.ne(pred, _shape.full_like(pred, 0)), np.int32)


@source.api_boundary
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _missing) -> Any:
    """Evaluate one of several functions.

    Args:
        index: scalar integer; values out of range are clamped.
        branches: functions of the operands with outputs of the same type.
        *operands: pytrees of arrays.
        operand: a single operand, by keyword.

    Raises:
        TypeError: the index is not a scalar integer, or the outputs differ in type.
        ValueError: there are no branches.

    >>> import veery
    >>> float(veery.lax.switch(1, [lambda x: x, lambda x: 2 * x], 3.0))
    6.0
    """
    if not all(callable(branch) for branch in branches):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if operand is not _missing:
        operands = (operand,)
    aval: Any = maybe_aval_of(index)
    shape = np.shape(index) if aval is None else aval.shape
    if shape:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {shape}.")
    if aval is None:
        raise TypeError(f"Index type must be an integer, got {index}.")
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {aval.dtype.name} in switch")
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    index = _compare.clamp(np.int32(0), _convert.convert_element_type(index, np.int32), np.int32(len(branches) - 1))
    if config.jax_disable_jit and not isinstance(index, Tracer):
        return branches[int(index)](*operands)
    names = tuple(f"branch {i}" for i in range(len(branches)))
    return _switch("switch", index, branches, operands, names)


def _switch(name: str, index: Any, funs: Sequence[Any], operands: tuple, names: Sequence[str]) -> Any:
    leaves, in_tree = tree.tree_flatten(operands)
    avals = [aval_of(x) for x in leaves]
    bodies = [_bodies.stage_body(f, in_tree, avals, name) for f in funs]
    bodies = _common_types(bodies)
    _check_outputs(name, funs, bodies, names)
    jaxprs, consts = _bodies.share_consts(bodies)
    check_aliases(_bodies.function_name(funs[-1]), name, leaves, consts)
    if context().tracked:
        jaxprs, consts, leaves = _varying_alike(index, jaxprs, consts, leaves)
    inputs = [*consts, *leaves]
    passed = _passed_through(jaxprs)
    kept = [i for i, place in enumerate(passed) if place is None]
    branches = tuple([b.map_jaxpr(lambda j: j.replace(outvars=[j.outvars[i] for i in kept])) for b in jaxprs])
    chosen = iter(cond_p.bind(index, *inputs, branches=branches))
    outs = [next(chosen) if place is None else _bodies.as_array(inputs[place]) for place in passed]
    return tree.tree_unflatten(bodies[0].out_tree, outs)


def _varying_alike(index: Any, jaxprs: list[ClosedJaxpr], consts: list[Any], leaves: list[Any]) -> tuple:
    """Within `shard_map`, branches whose results vary along the same axes of a mesh, those of the index among them."""
    ways = aval_of(index).varying
    ins = [ways] * (len(consts) + len(leaves))
    nothing = [ways] * len(jaxprs[0].out_avals)
    jaxprs = [_bodies.varying_over(jaxpr, ins, nothing) for jaxpr in jaxprs]
    outs = [frozenset().union(*(a.varying for a in avals)) for avals in zip(*(j.out_avals for j in jaxprs))]
    jaxprs = [_bodies.varying_over(jaxpr, [frozenset()] * len(ins), outs) for jaxpr in jaxprs]
    vary: Callable[[list[Any]], list[Any]] = lambda xs: [pvary(x, ways) for x in xs]
    return jaxprs, vary(consts), vary(leaves)


def _passed_through(branches: Sequence[ClosedJaxpr]) -> list[int | None]:
    """For each output the input that every branch gives for it, if there is one: it depends on no choice."""
    places = [{v: i for i, v in enumerate(b.jaxpr.invars)} for b in branches]
    columns = zip(*(b.jaxpr.outvars for b in branches))
    found = [{None if type(a) is Literal else own.get(a) for own, a in zip(places, atoms)} for atoms in columns]
    return [place.pop() if len(place) == 1 else None for place in found]


def choose(index: Any, funs: Sequence[Any], operands: tuple, name: str, labels: Sequence[str]) -> Any:
    """Evaluate the function at `index`, an int32 known to be in range; for other modules."""
    return _switch(name, index, funs, operands, labels)


def _common_types(bodies: list[_bodies.Body]) -> list[_bodies.Body]:
    """Make outputs that differ only in weak type the same: those of the first branch (that of False), as in JAX."""
    if len({b.out_tree for b in bodies}) > 1 or len({len(b.jaxpr.out_avals) for b in bodies}) > 1:
        return bodies
    outs = zip(*(b.jaxpr.out_avals for b in bodies))
    wanted = [avals[0] if _only_weak_differs(avals) else None for avals in outs]
    if all(w is None for w in wanted):
        return bodies
    return [
        b._replace(
            jaxpr=_bodies.with_avals(
                b.jaxpr, b.jaxpr.in_avals, [a if w is None else w for w, a in zip(wanted, b.jaxpr.out_avals)]
            )
        )
        for b in bodies
    ]


def _only_weak_differs(avals: Sequence[ShapedArray]) -> bool:
    return len({(a.shape, a.dtype) for a in avals}) == 1 and len({a.weak_type for a in avals}) > 1


def _check_outputs(name: str, funs: Sequence[Any], bodies: Sequence[_bodies.Body], names: Sequence[str]) -> None:
    """Raise TypeError, with what differs, unless the branches' outputs are alike."""
    # the last is compared with the others: of two branches true_fun comes first in messages
    reference, label = bodies[-1], names[-1]
    for fun, body, other in zip(funs, bodies[:-1], names[:-1]):
        header = f"\n\n{label} is {_bodies.place(funs[-1])}\n{other} is {_bodies.place(fun)}\n\n"
        if body.out_tree != reference.out_tree:
            lines = [
                f"{label} output{_at(path)} is {mine} but {other} output{_at(path)} is {theirs}, so {why}."
                for path, mine, theirs, why in tree_errors.equality_errors_pytreedef(reference.out_tree, body.out_tree)
            ]
            raise TypeError(
                f"{name} branch outputs must have the same pytree structure, but they differ:{header}"
                + "\n".join(lines)
                + f"\n\nRevise {label} and/or {other} so that they have the same pytree structure."
            )
        avals = list(zip(reference.jaxpr.out_avals, body.jaxpr.out_avals))
        paths = [p for p, _ in tree.tree_flatten_with_path(tree.tree_unflatten(body.out_tree, [0] * len(avals)))[0]]
        lines = [
            f"The output of {label}{_at(path)} has type {a.str_short(short_dtypes=False)} but the corresponding output "
            f"of {other} has type {b.str_short(short_dtypes=False)}, so {_bodies.difference(a, b)}."
            for path, (a, b) in zip(paths, avals)
            if not _bodies.same_type(a, b)
        ]
        if lines:
            raise TypeError(
                f"{name} branches must have equal output types but they differ.{header}"
                + "\n".join(lines)
                + f"\n\nRevise {label} and/or {other} so that all output types match."
            )


def _at(path: Any) -> str:
    return f" at path {tree_registry.keystr(path)}" if path else ""


# Rules. The first operand of the primitive is the index of the branch, the others go to all branches.


def _abstract_eval(index: ShapedArray, *avals: ShapedArray, branches: Sequence[ClosedJaxpr]) -> list[Any]:
    return branches[0].out_avals


def _effects(*avals: ShapedArray, branches: Sequence[ClosedJaxpr]) -> frozenset[Any]:
    return frozenset().union(*(b.effects for b in branches))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, branches: tuple[ClosedJaxpr, ...]) -> tuple[list, list]:
    index, *ops = primals
    nonzeros = tuple(type(t) is not Zero for t in tangents[1:])
    nonzeros_out = _any_nonzero([jvp_jaxpr(b, nonzeros)[1] for b in branches])
    both = tuple(jvp_jaxpr(b, nonzeros, nonzeros_out)[0] for b in branches)
    results = cond_p.bind(index, *ops, *(t for t in tangents[1:] if type(t) is not Zero), branches=both)
    n = len(branches[0].out_avals)
    outs, out_tangents = results[:n], iter(results[n:])
    return outs, [next(out_tangents) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


def _any_nonzero(flags: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    return tuple(any(column) for column in zip(*flags))


def _linearize(nonzeros: tuple[bool, ...], index: Any, *ops: Any, branches: tuple[ClosedJaxpr, ...]) -> tuple:
    nonzeros = nonzeros[1:]
    nonzeros_out = _any_nonzero([linearize_jaxpr(b, nonzeros).nonzeros_out for b in branches])
    splits = [linearize_jaxpr(b, nonzeros, nonzeros_out) for b in branches]
    n_out = len(branches[0].out_avals)
    slots, places = share_slots([s.primal.out_avals[n_out:] for s in splits])
    primal = tuple(fill_slots(s.primal, n_out, slots, p) for s, p in zip(splits, places))
    results = cond_p.bind(index, *ops, branches=primal)
    outs, residuals = results[:n_out], results[n_out:]
    # The linear branches take all operands, outputs and slots; each uses what it needs.
    known = [*ops, *outs, *residuals]
    used = sorted({_known_index(src, len(ops), n_out, p) for s, p in zip(splits, places) for src in s.sources})
    linear = tuple(_linear_branch(s, p, known, used, len(ops), n_out) for s, p in zip(splits, places))

    def apply(kept: Sequence[Any], *tangents: Any) -> list[Any]:
        return cond_p.bind(kept[0], *kept[1:], *tangents, branches=linear)

    return outs, nonzeros_out, [index, *(known[i] for i in used)], apply


def share_slots(residuals: Sequence[Sequence[Any]]) -> tuple[list[Any], list[list[int]]]:
    """Output slots for the residuals of all branches, shared by type; and each branch's slot for each residual.

    Args:
        residuals: for each branch, the avals of its residuals.
    """
    slots: list[Any] = []
    places = []
    for avals in residuals:
        free = list(range(len(slots)))
        place = []
        for aval in avals:
            slot = next((i for i in free if _bodies.same_type(slots[i], aval)), None)
            if slot is None:
                slots.append(aval)
                place.append(len(slots) - 1)
            else:
                free.remove(slot)
                place.append(slot)
        places.append(place)
    return slots, places


def fill_slots(primal: ClosedJaxpr, n_out: int, slots: Sequence[Any], place: Sequence[int]) -> ClosedJaxpr:
    """The branch, whose residuals follow `n_out` outputs, with an output for each slot; zeros if it has none for it."""

    def fun(*args: Any) -> list[Any]:
        results = eval_jaxpr(primal.jaxpr, primal.consts, *args)
        filled = {slot: results[n_out + i] for i, slot in enumerate(place)}
        missing = provided.operations.zeros
        return [*results[:n_out], *(filled[i] if i in filled else missing(a) for i, a in enumerate(slots))]

    return staging.stage(fun, primal.in_avals, primal.debug_info)


def _known_index(src: tuple[str, int], n_ops: int, n_out: int, place: Sequence[int]) -> int:
    """Where a residual is among operands, outputs and slots."""
    kind, i = src
    if kind == "in":
        return i
    return n_ops + i if i < n_out else n_ops + n_out + place[i - n_out]


def _linear_branch(
    split: LinearizedJaxpr, place: Sequence[int], known: Sequence[Any], used: Sequence[int], n_ops: int, n_out: int
) -> ClosedJaxpr:
    n_res = len(split.sources)
    where = [used.index(_known_index(src, n_ops, n_out, place)) for src in split.sources]

    def fun(*args: Any) -> list[Any]:
        kept, tangents = args[: len(used)], args[len(used) :]
        return eval_jaxpr(split.linear.jaxpr, split.linear.consts, *(kept[i] for i in where), *tangents)

    avals = [*(aval_of(known[i]) for i in used), *split.linear.in_avals[n_res:]]
    return staging.stage(fun, avals, split.linear.debug_info)


def _transpose(cts: Sequence[Any], index: Any, *operands: Any, branches: tuple[ClosedJaxpr, ...]) -> list[Any]:
    linear = tuple(map(is_undefined_primal, operands))
    nonzero_cts = tuple(type(ct) is not Zero for ct in cts)
    transposed = tuple(transpose_jaxpr(b, linear, nonzero_cts, True)[0] for b in branches)
    known = [x for x, lin in zip(operands, linear) if not lin]
    results = iter(cond_p.bind(index, *known, *(ct for ct in cts if type(ct) is not Zero), branches=transposed))
    return [None, *(next(results) if lin else None for lin in linear)]


def _batch(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, branches: tuple[ClosedJaxpr, ...]
) -> tuple:
    index, *ops = args
    index_dim, *op_dims = dims
    n_out = len(branches[0].out_avals)
    if index_dim is None:
        batched = _any_nonzero([[d is not None for d in batch_jaxpr(b, axis, op_dims)[1]] for b in branches])
        jaxprs = tuple(batch_jaxpr(b, axis, op_dims, batched)[0] for b in branches)
        return cond_p.bind(index, *ops, branches=jaxprs), [0 if b else None for b in batched]
    if effects.has_io(_effects(branches=branches)):
        raise NotImplementedError("IO effect not supported in vmap-of-cond.")
    if any(type(v.aval) is AbstractRef for b in branches for v in (*b.jaxpr.constvars, *b.jaxpr.invars)):
        raise NotImplementedError(
            "State effect not supported in vmap-of-cond: a branch writes to an array reference from outside of vmap. "
            "Pass the reference as an argument that is mapped."
        )
    # A batch of indices: all branches are evaluated for all elements, and each element chooses.
    index = move_batch(index, index_dim, 0, axis.size)
    pairs = [_spread_inexact(x, d, axis) for x, d in zip(ops, op_dims)]
    op_dims = [d for _, d in pairs]
    results = []
    for i, branch in enumerate(branches):
        batched_branch = batch_jaxpr(branch, axis, op_dims, (True,) * n_out)[0]
        chosen = _compare.eq(index, np.int32(i))
        operands = [_differentiated_where(chosen, x) for x, _ in pairs]
        results.append(eval_jaxpr(batched_branch.jaxpr, batched_branch.consts, *operands))
    return [_choose(index, [r[i] for r in results]) for i in range(n_out)], [0] * n_out


def _spread_inexact(x: Any, dim: int | None, axis: AxisData) -> tuple[Any, int | None]:
    """An operand that may be differentiated with a batch dimension in front; others as they are."""
    return (move_batch(x, dim, 0, axis.size, axis.explicit), 0) if _is_inexact(x) else (x, dim)


def _is_inexact(x: Any) -> bool:
    return not is_ref(x) and dtypes.issubdtype(aval_of(x).dtype, np.inexact)  # type: ignore[attr-defined]


def _differentiated_where(chosen: Any, x: Any) -> Any:
    """The operand itself, without a derivative for the elements that do not choose the branch.

    There the branch's derivative is not multiplied by zero, which would make infinities of it NaN.
    """
    if not _is_inexact(x):
        return x
    spread = _shape.broadcast_in_dim(chosen, np.shape(x), (0,))
    return _compare.select(spread, x, _stop_gradient.stop_gradient(x))


def _choose(index: Any, cases: Sequence[Any]) -> Any:
    """Element by element of the leading axis, one of the cases."""
    which = _shape.broadcast_in_dim(index, np.shape(cases[0]), (0,))
    return _compare.select_n(which if len(cases) > 2 else _convert.convert_element_type(which, np.bool_), *cases)


def _reference(index: Any, *args: Any, branches: Sequence[ClosedJaxpr]) -> list[Any]:
    return reference_eval(branches[int(np.clip(index, 0, len(branches) - 1))], *args)


def _divide(eqn: JaxprEqn, needed: set[Var], policy: Policy) -> tuple[Piece, list[Var]]:
    """A conditional whose branches are divided: all have an output for what any of them saves."""
    branches = [inline_calls(b) for b in eqn.params["branches"]]
    kept = [i for i, v in enumerate(eqn.outvars) if v in needed]
    parts = [partition(b.jaxpr, [b.jaxpr.outvars[i] for i in kept], policy) for b in branches]
    slots, places = share_slots([[v.aval for v in part.saved] for part in parts])
    if not slots:
        return Piece(eqn, eqn), []
    known, again = [], []
    for branch, part, place in zip(branches, parts, places):
        computed = ClosedJaxpr(dce_jaxpr(part.known), branch.consts)
        known.append(fill_slots(computed, len(eqn.outvars), slots, place))
        own = dict(zip(place, part.saved))
        invars = [*branch.jaxpr.invars, *(own.get(i) or Var(aval) for i, aval in enumerate(slots))]
        again.append(ClosedJaxpr(dce_jaxpr(part.again.replace(invars=invars)), branch.consts))
    saved = [Var(aval) for aval in slots]
    return Piece(
        eqn.replace(outvars=[*eqn.outvars, *saved], params={"branches": tuple(known)}),
        eqn.replace(
            invars=[*eqn.invars, *saved],
            outvars=[eqn.outvars[i] for i in kept],
            params={"branches": tuple(again)},
        ),
    ), saved


cond_p = Primitive(
    "cond",
    with_refs=cond_with_refs,
    takes_refs=True,
    multiple_results=True,
    abstract_eval=_abstract_eval,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
    divide=_divide,
    reference=_reference,
)
