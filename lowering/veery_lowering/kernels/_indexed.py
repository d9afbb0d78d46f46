"""Operations of kernels that read and write windows at indices from an array: gather and scatter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit, elementwise, spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Affine, Form, Lazy, View, changed
from veery_lowering.kernels._moves import clamped, overwritable
from veery_lowering.kernels._reading import integers, static_shape


class Windows(NamedTuple):
    """What the axes are of a gather or scatter.

    window: those of a slice among the axes of the result (or the updates); the others number the slices.
    dropped: axes of the operand that slices do not have; batched: those of them that are numbered like the indices are
    along `index_batched`.
    mapped: the axis of the operand for each number of an index; vector: the axis of the indices along which these lie.
    """

    window: list[int]
    dropped: list[int]
    batched: list[int]
    index_batched: list[int]
    mapped: list[int]
    vector: int


def _windows(op: Any, attribute: str, names: Sequence[str]) -> Windows:
    text = str(op.attributes[attribute])
    lists: list[list[int]] = []
    for name in names:
        found = re.search(rf"\b{name} = \[([^\]]*)\]", text)
        lists.append([int(n) for n in found[1].split(",")] if found and found[1] else [])
    vector = re.search(r"index_vector_dim = (\d+)", text)
    window, dropped, batched, index_batched, mapped = lists
    return Windows(window, dropped, batched, index_batched, mapped, int(vector[1]) if vector else 0)


def gathered(op: Any) -> Windows:
    """What the axes of a gather are."""
    names = "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"
    return _windows(op, "dimension_numbers", (*names, "start_index_map"))


@writes("gather")
def _gather(body: Body, op: Any) -> Form:
    windows = gathered(op)
    sizes, (shape, dtype) = integers(op.attributes["slice_sizes"]), checked(op.results[0])
    source, target = body.memory(op.operands[0]), body.place(shape, dtype, op.results[0])
    bounds = [n - size for n, size in zip(static_shape(op.operands[0]), sizes)]

    def read(place: Sequence[Affine], part: View) -> None:
        indices = _index(body, op, windows, place)
        starts = [clamped(body, x, bound) if isinstance(x, str) else x for x, bound in zip(indices, bounds)]
        shape = [n for i, n in enumerate(sizes) if i not in (*windows.dropped, *windows.batched)]
        body.nests.fill(part, changed(source, lambda view: _dropped(view.sliced(starts, sizes), shape)))

    _each_window(body, target, windows, read)
    return target


def scattered(op: Any) -> Windows:
    """What the axes of a scatter are."""
    names = "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims"
    return _windows(op, "scatter_dimension_numbers", (*names, "scatter_dims_to_operand_dims"))


@writes("scatter")
def _scatter(body: Body, op: Any) -> None:
    windows = scattered(op)
    if len(op.operands) != 3 or math.prod(static_shape(op.results[0])) == 1:
        raise Unfit("scatter")
    combine, updates = combination(op), body.memory(op.operands[2])
    shape = static_shape(op.operands[2])
    if not isinstance(updates, View):
        updates = body.copied(updates, shape)
    target = overwritable(body, op)
    limits, window = static_shape(op.operands[0]), [shape[i] for i in windows.window]
    rest = iter(window)
    sizes = [1 if i in (*windows.dropped, *windows.batched) else next(rest) for i in range(len(limits))]

    def write(place: Sequence[Affine], part: View) -> None:
        indices = _index(body, op, windows, place)
        starts = [clamped(body, x, n - size) if isinstance(x, str) else x for x, n, size in zip(indices, limits, sizes)]
        here = _dropped(target.sliced(starts, sizes), window)
        inside = _inside(body, indices, [n - size for n, size in zip(limits, sizes)])
        body.out.lines.append(f"scf.if {inside} {{")
        with body.nests.apart():
            body.nests.fill(here, combine(here, part))
        body.out.lines.append("}")

    _each_window(body, updates, windows, write)
    body.set(op.results[0], target)


def _each_window(body: Body, parts: View, windows: Windows, do: Callable[[Sequence[Affine], View], None]) -> None:
    """Do something for each slice of an array: with its place, and what it is."""
    numbered = [i for i in range(len(parts.shape)) if i not in windows.window]

    def visit(place: list[Affine]) -> None:
        if len(place) < len(numbered):
            body.nests.each(range(parts.shape[numbered[len(place)]]), lambda i: visit([*place, i]))
            return
        at = dict(zip(numbered, place))
        starts = [at.get(i, 0) for i in range(len(parts.shape))]
        one = parts.sliced(starts, [1 if i in at else n for i, n in enumerate(parts.shape)])
        do(place, _dropped(one, [parts.shape[i] for i in windows.window]))

    visit([])


def _index(body: Body, op: Any, windows: Windows, place: Sequence[Affine]) -> list[str | Affine]:
    """Where a slice starts along each axis of the operand: the name of an int64, or what is known."""
    value, rank = op.operands[1], len(static_shape(op.operands[0]))
    form, shape, dtype = body.memory(value), static_shape(value), hlo.dtype_of(value)
    if dtype == np.uint64:
        raise Unfit("an index of uint64")
    starts: dict[int, str | Affine] = {}
    for k, axis in enumerate(windows.mapped):
        if isinstance(form, View):
            at = list(place)
            if windows.vector < len(shape):
                at.insert(windows.vector, Affine(k))
            offset = sum((a * s for a, s in zip(at, form.strides)), form.offset)
            name = body.nests.load(form, offset, 0, 1)
        else:
            name = form.name
        starts[axis] = elementwise(body.out, "convert", "", [name], dtype, np.dtype(np.int64), "")
    for axis, numbered in zip(windows.batched, windows.index_batched):
        starts[axis] = place[numbered - (numbered > windows.vector)]
    return [starts.get(axis, Affine()) for axis in range(rank)]


def _inside(body: Body, indices: Sequence[str | Affine], bounds: Sequence[int]) -> str:
    """Whether a slice lies in the operand."""
    wide, found = np.dtype(np.int64), body.out.constant(True, np.dtype(bool), "")
    for x, bound in zip(indices, bounds):
        if isinstance(x, str):
            for direction, limit in (("sge", 0), ("sle", bound)):
                held = body.out.constant(limit, wide, "")
                test = body.out.add(f"arith.cmpi {direction}, {x}, {held} : {spelled(wide)}")
                found = body.out.add(f"arith.andi {found}, {test} : i1")
    return found


def is_of_rows(op: Any) -> bool:
    """Whether a scatter is of rows: one of each number, into rows of a matrix."""
    windows = scattered(op)
    axes = windows.window, windows.dropped, windows.batched, windows.mapped, windows.vector
    return len(op.operands) == 3 and axes == ([1], [0], [], [0], 1)


def replaces(op: Any) -> bool:
    """Whether a scatter writes updates over what was there."""
    block = op.regions[0].blocks[0]
    return len(block.operations) == 1 and block.operations[0].operands[0] == block.arguments[1]


def combination(op: Any) -> Callable[[Form, Form], Form]:
    """How a scatter makes a new value of an old one and an update."""
    block = op.regions[0].blocks[0]
    *inner, end = block.operations
    old, new = block.arguments
    if replaces(op):
        return lambda target, update: update
    if len(inner) == 1 and end.operands[0] == inner[0].results[0] and set(inner[0].operands) == {old, new}:
        name = inner[0].name.partition(".")[2]
        if name in ELEMENTWISE:
            return lambda target, update: Lazy(
                name, "", tuple(target if x == old else update for x in inner[0].operands), target.dtype
            )
    raise Unfit("scatter")


def _dropped(view: View, shape: Sequence[int]) -> View:
    """A view without axes of size one."""
    found = view.reshaped(shape)
    assert found is not None
    return found
