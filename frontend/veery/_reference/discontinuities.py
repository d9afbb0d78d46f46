"""Operations with jumps. Where an operand's error reaches over a jump, samples get the values on both of its sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veery._core.jaxpr import JaxprEqn
from veery._reference.formats import format_of, held, rounded
from veery._reference.interpreter import Interpreter, rule
from veery._reference.leaves import leaf
from veery._reference.samples import SAFETY, Value, each, known, shared, spread
from veery.lax._sort import _sort_keys


def _reach(value: Value) -> np.ndarray:
    """By how much a compiled program's value may differ."""
    return np.zeros(value[0].shape) if value[0].dtype.kind not in "fc" else SAFETY * spread(value)


@rule("eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to")
def _compare(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    function = leaf(eqn.primitive.name, eqn)
    outs = each(function, operands, count)
    if all(map(known, operands)) or eqn.invars[0] is eqn.invars[1]:
        return outs
    x, y = (value[0] if value[0].dtype != bool else value[0].astype(np.int8) for value in operands)
    dx, dy = map(_reach, operands)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= dx + dy
        sides = [function(x - dx, y + dy)[0], function(x + dx, y - dy)[0], function(x, np.where(near, x, y))[0]]
    differ = np.zeros(outs[0][0].shape, bool)
    for other in (*sides, *outs[0][1:]):
        differ |= other != outs[0][0]
    return [_both(outs[0], differ, ~outs[0][0], interp)]


def _both(value: Value, open_: np.ndarray, other: np.ndarray, interp: Interpreter) -> Value:
    """Samples of which one has the value and one the other, by chance which, in the places that are open."""
    if not open_.any():
        return (value[0],) * len(value) if value[0].dtype.kind == "b" else value
    arrays = list(value)
    chance = interp.rng.random(value[0].shape) < 0.5
    first = value[0]
    if len(arrays) == 2:
        chance = np.ones_like(chance)
    for i, array in enumerate(arrays[1:], 1):
        take = chance if i == 1 else ~chance if i == 2 else interp.rng.random(first.shape) < 0.5
        arrays[i] = np.where(open_, np.where(take, other, first), array)
    return shared(arrays)


@rule("bitcast_convert_type")
def _bits(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """Which sign a NaN has is not defined: those of an array may all have the other one."""
    function = leaf(eqn.primitive.name, eqn)
    outs = each(function, operands, count)
    (value,) = operands
    if value[0].dtype.kind != "f" or outs[0][0].dtype.kind == "f":
        return outs
    other = function(np.where(np.isnan(value[0]), -value[0], value[0]))[0]
    found = list(_both(outs[0], other != outs[0][0], other, interp))
    found[1:2] = [other] * len(found[1:2])
    return [shared(found)]


@rule("floor", "ceil", "round", "sign", "rem")
def _step(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    function = leaf(eqn.primitive.name, eqn)
    outs = each(function, operands, count)
    if all(map(known, operands)):
        return interp.rounded(eqn, operands, outs)
    x, *rest = (v[0] for v in operands)
    reach = _reach(operands[0])
    with np.errstate(all="ignore"):
        sides = [function(x - reach, *rest)[0], function(x + reach, *rest)[0]]
    return interp.rounded(eqn, operands, [_sides(outs[0], sides)])


def _sides(value: Value, sides: Sequence[np.ndarray]) -> Value:
    """Samples of which two have the values on both sides, where these are not the value itself."""
    arrays = list(value)
    for i, side in enumerate(sides[: len(arrays) - 1], 1):
        usual = (side == value[0]) | np.isnan(side)
        arrays[i] = np.where(usual, arrays[i], side)
    return shared(arrays)


@rule("convert_element_type")
def _convert(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """To integers, with steps; to floats, rounded exactly where the operand is known, or with an error."""
    (operand,) = operands
    new = eqn.outvars[0].aval.dtype
    function = leaf(eqn.primitive.name, eqn)
    outs = each(function, operands, count)
    form = format_of(new)
    if form is not None:
        if known(operand):
            return [interp.disturb((held(rounded(outs[0][0], new), new),) * count, 0.0, form)]
        return interp.rounded(eqn, operands, outs)
    if known(operand) or format_of(eqn.invars[0].aval.dtype) is None:
        return outs
    reach = _reach(operand)
    return [_sides(outs[0], [function(operand[0] - reach)[0], function(operand[0] + reach)[0]])]


@rule("reduce_precision")
def _reduce_precision(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    outs = each(leaf(eqn.primitive.name, eqn), operands, count)
    if known(operands[0]):
        return outs
    form = format_of(eqn.outvars[0].aval.dtype)
    assert form is not None
    error = np.ldexp(np.abs(outs[0][0]), -eqn.params["mantissa_bits"])
    return [interp.disturb(outs[0], np.where(np.isfinite(error), error, 0), form)]


@rule("argmax", "argmin")
def _arg_extreme(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """Of the places whose values may be extreme, one sample has the first, one the last."""
    (operand,) = operands
    function = leaf(eqn.primitive.name, eqn)
    outs = each(function, operands, count)
    if known(operand) or operand[0].dtype.kind not in "f":
        return outs
    (axis,) = eqn.params["axes"]
    x = operand[0] if eqn.primitive.name == "argmax" else -operand[0]
    reach = _reach(operand)
    with np.errstate(all="ignore"):
        best = np.max(np.where(np.isnan(x), -np.inf, x - reach), axis, keepdims=True)
        may = (x + reach >= best) | np.isnan(x)
    dtype = outs[0][0].dtype
    first = np.argmax(may, axis).astype(dtype)
    last = (x.shape[axis] - 1 - np.argmax(np.flip(may, axis), axis)).astype(dtype)
    several = first != last
    return [_sides(outs[0], [np.where(several, first, outs[0][0]), np.where(several, last, outs[0][0])])]


@rule("sort")
def _sort(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    """Neighbours that errors may exchange are in either order."""
    keys = eqn.params["num_keys"]
    outs = each(leaf("sort", eqn), operands, count)
    if all(map(known, operands[:keys])) or len(operands) == 1:
        return outs
    axis = eqn.params["dimension"]
    orders = _orders([operands[i] for i in range(keys)], axis)
    arrange = lambda order: [np.take_along_axis(v[0], order, axis) for v in operands]
    sides = [arrange(order) for order in orders]
    return [_exchanged(out, [s[i] for s in sides]) for i, out in enumerate(outs)]


def _exchanged(value: Value, sides: Sequence[np.ndarray]) -> Value:
    arrays = list(value)
    for i, side in enumerate(sides[: len(arrays) - 1], 1):
        arrays[i] = side
    return shared(arrays)


def _orders(keys: Sequence[Value], axis: int) -> list[np.ndarray]:
    """Two orders of the elements along an axis: where neighbours may be exchanged they are as before, and reversed."""
    levels, shape = [], keys[0][0].shape
    for key in keys:
        reach = _reach(key)
        for part in _sort_keys(key[0]):
            levels.append(_levels(part, reach, axis) if part.dtype.kind == "f" else part)
    place = np.broadcast_to(np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
    return [np.lexsort([p, *levels[::-1]], axis=axis) for p in (place, -place)]


def _levels(x: np.ndarray, reach: np.ndarray, axis: int) -> np.ndarray:
    """Integers in the order of x, the same for numbers between which errors leave no gap."""
    order = np.argsort(x, axis, kind="stable")
    y, r = np.take_along_axis(x, order, axis), np.take_along_axis(reach, order, axis)
    with np.errstate(all="ignore"):
        before, after = np.diff(y, axis=axis), np.take(r, range(1, y.shape[axis]), axis)
        gap = ~(before <= after + np.take(r, range(y.shape[axis] - 1), axis)) & (before != 0)
        same = np.isnan(np.take(y, range(y.shape[axis] - 1), axis))
    steps = np.cumsum(gap & ~same, axis)
    sorted_levels = np.concatenate([np.zeros_like(np.take(order, [0], axis)), steps], axis) if y.shape[axis] else order
    out = np.empty_like(order)
    np.put_along_axis(out, order, sorted_levels, axis)
    return out


@rule("top_k")
def _top_k(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    outs = each(leaf("top_k", eqn), operands, count)
    (operand,) = operands
    if known(operand) or operand[0].dtype.kind != "f":
        return outs
    axis, k = eqn.params["axis"], eqn.params["k"]
    negated = tuple(-x for x in operand)
    sides = []
    for order in _orders([negated], axis):
        order = np.take(order, range(k), axis)
        sides.append([np.take_along_axis(operand[0], order, axis), order.astype(np.int32)])
    return [_exchanged(out, [s[i] for s in sides]) for i, out in enumerate(outs)]


@rule("select_and_gather_add", "select_and_scatter_add")
def _select_and(interp: Interpreter, eqn: JaxprEqn, operands: list[Value], count: int) -> list[Value]:
    source, chooser = operands
    if not known(chooser) and chooser[0].dtype.kind == "f":
        reach = _reach(chooser)
        sign = np.where(interp.rng.random(chooser[0].shape) < 0.5, -1.0, 1.0)
        shift = np.where(np.isfinite(reach), sign * reach, 0)
        chooser = shared([chooser[0], *(x + (shift, -shift)[i % 2] for i, x in enumerate(chooser[1:]))])
    outs = each(leaf(eqn.primitive.name, eqn), [source, chooser], count)
    return interp.rounded(eqn, [source, chooser], outs)
