"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.work import increment, is_selected
from veery_lowering.types import aval_type, is_static

_FEW = 16  # equations


@rule("jit", any_shape=True)
def _jit(ctx: Context, *operands: Value, jaxpr: Any, name: str = "", inline: bool = False, **_: Any) -> list[Value]:
    # XLA has no functions when it compiles; what a small one is given tells its rules of constants.
    if inline or len(jaxpr.jaxpr.eqns) <= (_FEW if ctx.target == "xla" else 0):
        return ctx.inline(jaxpr, *operands)
    return ctx.call(jaxpr, *operands, name=name or None)


@rule("custom_jvp_call", any_shape=True)
@rule("custom_vjp_call", any_shape=True)
@rule("custom_partitioning")
@rule("custom_vmap_call")
@rule("linear_call")
def _inlined(ctx: Context, *operands: Value, **params: Any) -> list[Value]:
    """What stands for a function whose derivative or memory is special is just that function."""
    jaxpr = params[ctx.definition.stands_for]
    if not hasattr(jaxpr, "jaxpr"):
        jaxpr = SimpleNamespace(jaxpr=jaxpr, consts=())
    return ctx.inline(jaxpr, *operands)


@rule("custom_lin")
def _custom_lin(ctx: Context, *operands: Value, name: str = "", **_: Any) -> list[Value]:
    raise TypeError(
        f"can't apply forward-mode autodiff (jvp) to a custom_vjp function. Function {name} has a reverse-mode rule "
        "only; differentiate it with grad or vjp, or define it with custom_jvp."
    )


@rule("remat2", any_shape=True)
def _checkpoint(
    ctx: Context, *operands: Value, jaxpr: Any, prevent_cse: Any = True, differentiated: bool = True, **_: Any
) -> list[Value]:
    if prevent_cse and differentiated and operands:
        # Else the recomputation is merged with the forward pass, and everything is kept after all.
        operands = tuple(hlo.optimization_barrier(operands))
    closed = jaxpr if hasattr(jaxpr, "jaxpr") else SimpleNamespace(jaxpr=jaxpr, consts=())
    return ctx.inline(closed, *operands)


@rule("dce_sink")
def _dce_sink(ctx: Context, *operands: Value) -> list[Value]:
    return []


@rule("name", any_shape=True)
def _checkpoint_name(ctx: Context, x: Value, *, name: str) -> Value:
    return x


@rule("custom_linear_solve")
def _custom_linear_solve(ctx: Context, *operands: Value, lengths: Sequence[int], problem: Any) -> list[Value]:
    start = sum(lengths[:2])
    b = operands[sum(lengths) :]
    return ctx.inline(problem.solve, *operands[start : start + lengths[2]], *b)


@rule("check")
def _check(ctx: Context, *operands: Value, site: Any, debug: bool) -> list[Value]:
    if debug:
        return []
    raise ValueError(
        "Cannot compile a checkify.check which was not functionalized. This probably means you tried to stage (jit/"
        "scan/pmap/...) a `check` without functionalizing it through `checkify.checkify`."
    )


@rule("platform_index")
def _platform_index(ctx: Context, *, platforms: Sequence[str], has_default: bool) -> Value:
    if ctx.hardware in platforms:
        return hlo.constant(np.int32(platforms.index(ctx.hardware)))
    if has_default:
        return hlo.constant(np.int32(len(platforms)))
    raise NotImplementedError(
        f"lax.platform_dependent: no branch for platform {ctx.hardware!r}; there are {', '.join(platforms)}, no default"
    )


@rule("cond", any_shape=True)
def _cond(ctx: Context, index: Value, *operands: Value, branches: Sequence[Any], **_: Any) -> list[Value]:
    known = hlo.scalar_of(index)
    if len(branches) == 1 or known is not None:
        return ctx.inline(branches[min(max(int(known or 0), 0), len(branches) - 1)], *operands)
    index = hlo.convert(index, np.int32) if hlo.dtype_of(index) != np.int32 else index
    equation = SimpleNamespace(
        params={"branches": branches}, outvars=[SimpleNamespace(aval=aval) for aval in ctx.avals_out]
    )
    if ctx.target != "xla" and is_selected(equation):
        return _select_branch(index, [ctx.inline(branch, *operands) for branch in branches])
    results = [aval_type(aval) for aval in ctx.avals_out]
    # IREE ends each branch of a `case` without results twice, if there are more than two
    more = [] if results or len(branches) == 2 else [index]
    thunks = [_thunk(ctx, branch, operands, more) for branch in branches]
    return hlo.case(index, thunks, [*results, *(x.type for x in more)])[: len(results)]


def _thunk(
    ctx: Context, branch: Any, operands: Sequence[Value], more: Sequence[Value] = ()
) -> Callable[[], list[Value]]:
    return lambda: [*ctx.inline(branch, *operands), *more]


def _select_branch(index: Value, outcomes: list[list[Value]]) -> list[Value]:
    """Choose among computed branches; as for `case`, an index out of range means the last."""
    chosen = outcomes[-1]
    for i in reversed(range(len(outcomes) - 1)):
        here = hlo.compare(index, hlo.constant(np.int32(i)), "EQ")
        chosen = [x if x == y else hlo.select(here, x, y) for x, y in zip(outcomes[i], chosen)]
    return chosen


@rule("while", any_shape=True)
def _while(
    ctx: Context, *operands: Value, cond_nconsts: int, cond_jaxpr: Any, body_nconsts: int, body_jaxpr: Any, **_: Any
) -> list[Value]:
    cond_consts = operands[:cond_nconsts]
    body_consts = operands[cond_nconsts : cond_nconsts + body_nconsts]
    carry = list(operands[cond_nconsts + body_nconsts :])
    body = body_jaxpr.jaxpr
    # What the body passes on as it is stays outside of the loop.
    changing = [i for i, (x, y) in enumerate(zip(body.invars[body_nconsts:], body.outvars)) if x is not y]
    changing = changing or list(range(len(carry)))

    def whole(state: Sequence[Value]) -> list[Value]:
        values = dict(zip(changing, state))
        return [values.get(i, x) for i, x in enumerate(carry)]

    def step(*state: Value) -> list[Value]:
        outs = ctx.inline(body_jaxpr, *body_consts, *whole(state))
        return [outs[i] for i in changing]

    goes_on = lambda *state: ctx.inline(cond_jaxpr, *cond_consts, *whole(state))
    return whole(hlo.while_([carry[i] for i in changing], goes_on, step))


@rule("scan", any_shape=True)
def _scan(
    ctx: Context,
    *operands: Value,
    length: int,
    reverse: bool,
    jaxpr: Any,
    num_consts: int,
    num_carry: int,
    unroll: int | bool = 1,
    **_: Any,
) -> list[Value]:
    consts, carry = operands[:num_consts], list(operands[num_consts : num_consts + num_carry])
    xs = operands[num_consts + num_carry :]
    stacked = [hlo.full(0, aval.shape, aval.dtype) for aval in ctx.avals_out[num_carry:]]
    steps = _known_steps(jaxpr.jaxpr, num_consts, num_carry)
    moving = [k for k in range(num_carry) if k not in steps]

    def carry_at(trip: Value | int, state: Sequence[Value]) -> list[Value]:
        changed = dict(zip(moving, state))
        return [changed[k] if k in changed else _stepped(carry[k], steps[k], trip) for k in range(num_carry)]

    element_shapes = [aval.shape for aval in jaxpr.in_avals[num_consts + num_carry :]]
    result_shapes = [aval.shape for aval in jaxpr.out_avals[num_carry:]]
    trips = length if is_static(length) else hlo.scalar_of_size(length, np.int32)

    def step(trip: Value, state: Sequence[Value]) -> list[Value]:
        """One trip: from (changing carry, results so far) to the same after it."""
        i = _from_end(trips, trip) if reverse else trip
        elements = [_element(x, i, shape) for x, shape in zip(xs, element_shapes)]
        out = ctx.inline(jaxpr, *consts, *carry_at(trip, state), *elements)
        written = [
            _with_element(ys, y, i, shape) for ys, y, shape in zip(state[len(moving) :], out[num_carry:], result_shapes)
        ]
        return [*(out[k] for k in moving), *written]

    state = [*(carry[k] for k in moving), *stacked]
    if isinstance(trips, int):
        unrolled = trips if unroll is True else max(1, min(int(unroll), trips))
        state = _count(trips, unrolled, step, state)
    else:
        state = _count_to(trips, step, state)
    return [*carry_at(trips, state), *state[len(moving) :]]


def _from_end(trips: Value | int, trip: Value) -> Value:
    """The position that a reversed scan reads in a trip."""
    last = trips - 1 if isinstance(trips, int) else hlo.subtract(trips, hlo.constant(np.int32(1)))
    return hlo.subtract(hlo.constant(np.int32(last)) if isinstance(last, int) else last, trip)


def _known_steps(jaxpr: Any, num_consts: int, num_carry: int) -> dict[int, int]:
    """The carried values that each trip leaves alone (0), or adds a literal to.

    They are computed from the loop's own counter, which IREE keeps on the host. A second counter would live in device
    memory, and a slice at it would make the host wait for the device in every trip.
    """
    steps = {}
    for k in range(num_carry):
        before, after = jaxpr.invars[num_consts + k], jaxpr.outvars[k]
        if before is after:
            steps[k] = 0
        elif before.aval.shape == () and getattr(before.aval.dtype, "kind", "") in ("i", "u"):
            step = increment(jaxpr, num_consts + k, k)
            if step is not None:
                steps[k] = step
    return steps


def _stepped(start: Value, step: int, trip: Value | int) -> Value:
    """start + trip * step"""
    if step == 0:
        return start
    dtype = hlo.dtype_of(start)
    if isinstance(trip, int):
        return hlo.add(start, hlo.constant(np.array(trip * step).astype(dtype)))
    return hlo.add(start, hlo.multiply(hlo.convert(trip, dtype), hlo.constant(np.array(step).astype(dtype))))


def _count(
    length: int, unroll: int, step: Callable[[Value, Sequence[Value]], list[Value]], state: list[Value]
) -> list[Value]:
    """Apply `step` for i in range(length), `unroll` times a trip; the rest, and short loops, without a loop."""

    def trip(i: Value, current: Sequence[Value]) -> list[Value]:
        for offset in range(unroll):
            here = i if offset == 0 else hlo.add(i, hlo.constant(np.int32(offset)))
            current = step(here, current)
        return list(current)

    looped = length - length % unroll if length else 0
    if looped > unroll:

        def body(i: Value, *current: Value) -> list[Value]:
            return [hlo.add(i, hlo.constant(np.int32(unroll))), *trip(i, current)]

        def condition(i: Value, *current: Value) -> Value:
            return hlo.compare(i, hlo.constant(np.int32(looped)), "LT")

        state = hlo.while_([hlo.constant(np.int32(0)), *state], condition, body)[1:]
    elif looped:
        state = trip(hlo.constant(np.int32(0)), state)
    for i in range(looped, length):
        state = step(hlo.constant(np.int32(i)), state)
    return state


def _count_to(
    trips: Value, step: Callable[[Value, Sequence[Value]], list[Value]], state: Sequence[Value]
) -> list[Value]:
    """Apply `step` for i below a number that is known at run time."""

    def body(i: Value, *current: Value) -> list[Value]:
        return [hlo.add(i, hlo.constant(np.int32(1))), *step(i, current)]

    return hlo.while_([hlo.constant(np.int32(0)), *state], lambda i, *_: hlo.compare(i, trips, "LT"), body)[1:]


def _starts(x: Value, i: Value) -> list[Value]:
    zero = hlo.constant(np.int32(0))
    return [i, *[zero] * (len(hlo.shape_of(x)) - 1)]


def _element(x: Value, i: Value, shape: Sequence[int]) -> Value:
    if 0 in shape:
        return hlo.full(0, shape, hlo.dtype_of(x))
    return hlo.reshape(hlo.dynamic_slice(x, _starts(x, i), (1, *shape)), shape, (1, *shape))


def _with_element(stacked: Value, y: Value, i: Value, shape: Sequence[int]) -> Value:
    if 0 in shape:
        return stacked
    row = hlo.reshape(y, (1, *shape), shape)
    return hlo.dynamic_update_slice(stacked, row, _starts(stacked, i))
