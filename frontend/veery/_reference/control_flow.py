"""Calls, branches, loops and callbacks. Samples that take different ways go on apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core.jaxpr import ClosedJaxpr, JaxprEqn
from veery._core.trace import eval_trace, set_current_trace
from veery._reference.formats import held, rounded
from veery._reference.interpreter import Interpreter, Unverifiable, alike, merge, rule, take
from veery._reference.samples import Value, each
from veery._transforms.batching import AxisData, batch_jaxpr
from veery.lax._ffi import call_foreign
from veery.lax._window import _patches

CALLEES = {
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "custom_partitioning": "call",
    "linear_call": "callee",
    "remat2": "jaxpr",
}


@rule(*CALLEES)
def _call(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    return interp.run(eqn.params[CALLEES[eqn.primitive.name]], operands, count)


@rule("custom_linear_solve")
def _linear_solve(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    matvec, vecmat, solve, back = eqn.params["lengths"]
    known = operands[matvec + vecmat : matvec + vecmat + solve]
    right = operands[matvec + vecmat + solve + back :]
    return interp.run(eqn.params["problem"].solve, [*known, *right], count)


@rule("cond")
def _cond(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    index, *rest = operands
    branches = eqn.params["branches"]
    groups = []
    for chosen in alike(index):
        branch = branches[int(np.clip(int(index[chosen[0]]), 0, len(branches) - 1))]
        groups.append((chosen, interp.run(branch, take(rest, chosen), len(chosen))))
    return merge(groups, count)


@rule("scan")
def _scan(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    body, length = eqn.params["jaxpr"], eqn.params["length"]
    num_consts, num_carry = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry = operands[:num_consts], operands[num_consts : num_consts + num_carry]
    xs = operands[num_consts + num_carry :]
    ys: list[list[Value]] = [[]] * length
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        outs = interp.run(body, [*consts, *carry, *(_element(x, i) for x in xs)], count)
        carry, ys[i] = outs[:num_carry], outs[num_carry:]
    if not length:
        empty = [held(np.zeros((0, *a.shape)), a.dtype) for a in body.out_avals[num_carry:]]
        return [*carry, *((x,) * count for x in empty)]
    stack = lambda *elements: [np.stack(elements)]
    return [*carry, *(each(stack, [y[j] for y in ys], count)[0] for j in range(len(ys[0])))]


def _element(x: Value, i: int) -> Value:
    by_array: dict[int, np.ndarray] = {id(a): a[i] for a in x}
    return tuple(np.asarray(by_array[id(a)]) for a in x) if len(by_array) > 1 else (np.asarray(x[0][i]),) * len(x)


@rule("while")
def _while(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """Samples that are done wait for the others, which have twice as many turns as the first, and some, at most."""
    params = eqn.params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts = operands[:n_cond], operands[n_cond : n_cond + n_body]
    carry, active = operands[n_cond + n_body :], list(range(count))
    groups: list[tuple[list[int], list[Value]]] = []
    turns, limit = 0, float("inf")
    while active:
        some = len(active) < count
        consts = take(cond_consts, active) if some else cond_consts
        (pred,) = interp.run(params["cond_jaxpr"], [*consts, *carry], len(active))
        done = [i for i, p in enumerate(pred) if not p or turns > limit]
        if done:
            groups.append(([active[i] for i in done], take(carry, done)))
            if 0 in groups[-1][0]:
                limit = 2 * turns + 16
            left = [i for i in range(len(active)) if i not in done]
            active, carry = [active[i] for i in left], take(carry, left)
            if not active:
                break
        consts = take(body_consts, active) if len(active) < count else body_consts
        carry = interp.run(params["body_jaxpr"], [*consts, *carry], len(active))
        turns += 1
    return merge(groups, count)


@rule("pmap")
def _pmap(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    outs = interp.run(on_all_devices(**eqn.params), operands, count)
    first = lambda value: each(lambda x: [x[0]], [value], count)[0]
    return [out if mapped else first(out) for out, mapped in zip(outs, eqn.params["out_mapped"])]


def on_all_devices(
    jaxpr: ClosedJaxpr,
    axis_name: Any,
    axis_size: int,
    in_mapped: Sequence[bool],
    out_mapped: Sequence[bool],
    **_: Any,
) -> ClosedJaxpr:
    """The program of a `pmap` for all devices at once, by batching, which resolves the collectives.

    All of its results have the axis in front.

    Raises:
        Unverifiable: it has callbacks that take no batches.
    """
    dims = tuple(0 if mapped else None for mapped in in_mapped)
    try:
        with set_current_trace(eval_trace):
            return batch_jaxpr(jaxpr, AxisData(axis_name, axis_size), dims, (True,) * len(out_mapped))[0]
    except (NotImplementedError, ValueError) as error:
        raise Unverifiable(str(error)) from None


@rule("pure_callback")
def _pure_callback(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    callback = eqn.params["callback"].typed(eqn.params["result_avals"])

    def call(*xs: np.ndarray) -> list[np.ndarray]:
        results = callback(*(rounded(x, a.aval.dtype) for x, a in zip(xs, eqn.invars)))
        return [held(x, v.aval.dtype) for x, v in zip(results, eqn.outvars)]

    return each(call, operands, count)


@rule("ffi_call")
def _ffi_call(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    if eqn.params["has_side_effect"]:
        raise Unverifiable("it calls a foreign function with side effects, which runs once for each execution")

    def call(*xs: np.ndarray) -> list[np.ndarray]:
        values = (np.array(rounded(x, a.aval.dtype)) for x, a in zip(xs, eqn.invars))  # some are written to
        return [held(x, v.aval.dtype) for x, v in zip(call_foreign(*values, **eqn.params), eqn.outvars)]

    return each(call, operands, count)


@rule("debug_callback", "debug_print", "check", "dce_sink")
def _without_results(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    return []


@rule("io_callback")
def _io_callback(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """What the program's own call returned."""
    returned = interp.calls.get(eqn.params["callback"])
    if returned is None:
        raise Unverifiable("it has an io_callback, which runs once for each execution")
    if count < interp.count:
        raise Unverifiable("whether it calls an io_callback depends on rounding")
    results = next(returned, None)
    if results is None:
        raise Unverifiable("its evaluation calls an io_callback more often than the program did")
    return [(held(x, v.aval.dtype),) * count for x, v in zip(results, eqn.outvars, strict=True)]


@rule("reduce", "reduce_window")
def _by_function(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """Elements combined one after the other by a jaxpr of scalars, for all places of the result at once."""
    half = len(operands) // 2
    xs, inits = operands[:half], operands[half:]
    rows = [each(lambda x, init: [_rows(eqn, x, init)], [x, init], count)[0] for x, init in zip(xs, inits)]
    shape = rows[0][0].shape[1:]
    size = int(np.prod(shape))
    combine = _vectorised(eqn.params["jaxpr"], size)
    total = [each(lambda x: [np.full(size, x)], [init], count)[0] for init in inits]
    if size:
        flat = [each(lambda x: [x.reshape(len(x), size)], [row], count)[0] for row in rows]
        for i in range(rows[0][0].shape[0]):
            total = interp.run(combine, [*total, *(_element(row, i) for row in flat)], count)
    return [each(lambda x: [x.reshape(shape)], [t], count)[0] for t in total]


def _vectorised(closed: ClosedJaxpr, size: int) -> ClosedJaxpr:
    with set_current_trace(eval_trace):
        dims = (0,) * len(closed.in_avals)
        return batch_jaxpr(closed, AxisData(None, size), dims, (True,) * len(closed.out_avals))[0]


def _rows(eqn: JaxprEqn, x: np.ndarray, init: np.ndarray) -> np.ndarray:
    """What is combined to each place of the result, along the first axis."""
    if eqn.primitive.name == "reduce_window":
        return _patches(x, init, {k: v for k, v in eqn.params.items() if k != "jaxpr"})
    reduced = eqn.params["dimensions"]
    kept = [i for i in range(x.ndim) if i not in reduced]
    return np.transpose(x, (*reduced, *kept)).reshape(-1, *(x.shape[i] for i in kept))
