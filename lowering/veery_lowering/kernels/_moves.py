"""Operations of kernels that move elements: views where that is enough, else nests that copy."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit, elementwise
from veery_lowering.kernels._body import EXACT, Body, checked, writes
from veery_lowering.kernels._forms import Affine, Form, Lazy, Uniform, View, changed, leaves
from veery_lowering.kernels._lifetimes import dies_in
from veery_lowering.kernels._reading import counted_axis, integers, static_shape
from veery_lowering.mlir import ir


@writes("reshape")
def _reshape(body: Body, op: Any) -> Form:
    x, shape = body.read(op.operands[0]), static_shape(op.results[0])
    if all(view.reshaped(shape) for view in leaves(x)):
        return changed(x, lambda view: view.reshaped(shape) or view)
    copy = body.copied(x, static_shape(op.operands[0]))
    return copy.reshaped(shape) or copy


@writes("transpose")
def _transpose(body: Body, op: Any) -> Form:
    order = integers(op.attributes["permutation"])
    return changed(body.read(op.operands[0]), lambda view: view.permuted(order))


@writes("slice")
def _slice(body: Body, op: Any) -> Form:
    starts, steps = (integers(op.attributes[name]) for name in ("start_indices", "strides"))
    shape = static_shape(op.results[0])
    return changed(body.read(op.operands[0]), lambda view: view.sliced(starts, shape, steps))


@writes("reverse")
def _reverse(body: Body, op: Any) -> Form:
    axes = integers(op.attributes["dimensions"])
    return changed(body.read(op.operands[0]), lambda view: view.flipped(axes))


@writes("broadcast_in_dim")
def _broadcast_in_dim(body: Body, op: Any) -> Form:
    shape, axes = static_shape(op.results[0]), integers(op.attributes["broadcast_dimensions"])
    return changed(body.memory(op.operands[0]), lambda view: view.spread(shape, axes))


@writes("bitcast_convert")
def _bitcast_convert(body: Body, op: Any) -> Form:
    """To elements of another width: the last axis, of the parts of the wider ones, is one more or one less."""
    (shape, dtype), given = checked(op.results[0]), hlo.dtype_of(op.operands[0])
    if dtype.itemsize == given.itemsize:
        return Lazy("bitcast_convert", "", (body.read(op.operands[0]),), dtype)
    x = body.memory(op.operands[0])
    narrow, wide = (np.dtype(f"u{n}") for n in sorted((dtype.itemsize, given.itemsize)))
    shifts = [Uniform(body.out.constant(n, wide, ""), wide) for n in range(0, 8 * wide.itemsize, 8 * narrow.itemsize)]
    if dtype.itemsize == narrow.itemsize:
        target, bits = body.temporary(shape, dtype), Lazy("bitcast_convert", "", (x,), wide)
        for i, shift in enumerate(shifts):
            part = Lazy("convert", "", (Lazy("shift_right_logical", "", (bits, shift), wide),), narrow)
            body.nests.fill(_last(target, i), Lazy("bitcast_convert", "", (part,), dtype))
        return target
    total: Form = Uniform(body.out.constant(0, wide, ""), wide)
    for i, shift in enumerate(shifts):
        part = Lazy("bitcast_convert", "", (changed(x, functools.partial(_last, i=i)),), narrow)
        part = Lazy("shift_left", "", (Lazy("convert", "", (part,), wide), shift), wide)
        total = Lazy("or", "", (total, part), wide)
    return Lazy("bitcast_convert", "", (total,), dtype)


def _last(view: View, i: int) -> View:
    """What has a number along the last axis, without that axis."""
    return View(view.buffer, view.shape[:-1], view.strides[:-1], view.offset + i * view.strides[-1])


@writes("iota")
def _iota(body: Body, op: Any) -> Form:
    shape, dtype = checked(op.results[0])
    axis = counted_axis(op)
    if body.nests.machine.has_vectors and dtype.itemsize >= EXACT:
        return body.line(shape[axis], dtype).spread(shape, [axis])
    numbers, line = np.arange(shape[axis]).astype(dtype), body.temporary(shape[axis : axis + 1], dtype)
    for width, starts in body.nests.chunks(shape[axis], dtype, False):
        for start in starts:
            name = body.out.constants(numbers[start : start + width])
            body.nests.store(name, line, Affine(start), 1, width)
    body.nests.forget()
    return line.spread(shape, [axis])


@writes("concatenate")
def _concatenate(body: Body, op: Any) -> Form:
    shape, dtype = checked(op.results[0])
    axis, start = ir.IntegerAttr(op.attributes["dimension"]).value, 0
    target = body.place(shape, dtype, op.results[0])
    for x in op.operands:
        part = static_shape(x)
        if 0 in part:
            continue
        body.nests.fill(target.sliced([start if k == axis else 0 for k in range(len(part))], part), body.read(x))
        start += part[axis]
    return target


@writes("pad")
def _pad(body: Body, op: Any) -> Form:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, inner = (integers(op.attributes[name]) for name in names)
    x, around = map(body.memory, op.operands)
    return padded(body, x, around, static_shape(op.operands[0]), low, high, inner)


def padded(body: Body, x: Form, around: Form, given: Sequence[int], *pads: Sequence[int]) -> View:
    """A value of a given shape in new memory, with numbers before, behind and between its elements along each axis."""
    low, high, inner = pads
    shape = [a + n + (n - 1) * k + b for n, a, b, k in zip(given, low, high, inner)]
    if min(shape, default=1) < 1:
        raise Unfit("an empty array")
    target = body.temporary(shape, x.dtype)
    body.nests.fill(target, around)
    # Of each axis: which elements are left of it where the padding is negative, and where the first one goes.
    firsts = [max(0, -(a // (k + 1))) if a < 0 else 0 for a, k in zip(low, inner)]
    starts = [a + first * (k + 1) for a, first, k in zip(low, firsts, inner)]
    counts = [
        min(n - first, max(0, -(-(size - start) // (k + 1))))
        for n, first, size, start, k in zip(given, firsts, shape, starts, inner)
    ]
    if 0 not in counts:
        steps = [k + 1 for k in inner]
        body.nests.fill(target.sliced(starts, counts, steps), changed(x, lambda view: view.sliced(firsts, counts)))
    return target


@writes("dynamic_slice")
def _dynamic_slice(body: Body, op: Any) -> Form:
    source, (shape, _) = body.memory(op.operands[0]), checked(op.results[0])
    starts = _starts(body, op.operands[1:], static_shape(op.operands[0]), shape)
    return changed(source, lambda view: view.sliced(starts, shape))


@writes("dynamic_update_slice")
def _dynamic_update_slice(body: Body, op: Any) -> None:
    (shape, _), size = checked(op.results[0]), static_shape(op.operands[1])
    if math.prod(shape) == 1:
        body.set(op.results[0], body.memory(op.operands[1]))
        return
    target = overwritable(body, op)
    starts = _starts(body, op.operands[2:], shape, size)
    body.nests.fill(target.sliced(starts, size), body.read(op.operands[1]))
    body.set(op.results[0], target)


def _starts(body: Body, values: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> list[Affine]:
    """Where a slice starts along each axis, clamped as StableHLO does it."""
    wide, found = np.dtype(np.int64), []
    for value, n, size in zip(values, shape, sizes):
        name, dtype = body.number(value), hlo.dtype_of(value)
        known = body.out.known(name)
        if n == size or known is not None:
            found.append(Affine(min(max(known or 0, 0), n - size)))
            continue
        if dtype == np.uint64:
            raise Unfit("a start of uint64")
        name = elementwise(body.out, "convert", "", [name], dtype, wide, "")
        found.append(clamped(body, name, n - size))
    return found


def clamped(body: Body, name: str, most: int) -> Affine:
    """An int64 as a position from 0 to `most`."""
    wide = np.dtype(np.int64)
    bounds = [body.out.constant(k, wide, "") for k in (0, most)]
    name = elementwise(body.out, "clamp", "", [bounds[0], name, bounds[1]], wide, wide, "")
    return Affine.of(body.out.add(f"arith.index_cast {name} : i64 to index"))


def overwritable(body: Body, op: Any) -> View:
    """The first operand in memory that may be written to: its own where nothing else reads that, or a copy."""
    target = body.memory(op.operands[0])
    if isinstance(target, View) and target.buffer.name in body.in_place and dies_in(op.operands[0], op):
        return target
    target = body.copied(target, static_shape(op.operands[0]))
    body.in_place.add(target.buffer.name)
    return target
