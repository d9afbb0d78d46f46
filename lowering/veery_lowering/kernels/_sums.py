"""Operations of kernels that add up: products of matrices and reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import REDUCTIONS, Unfit, elementwise, spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Form, Lazy, View, changed
from veery_lowering.kernels._nests import Point
from veery_lowering.kernels._reading import integers, static_shape
from veery_lowering.stablehlo import product_axes


@writes("dot_general")
def _dot_general(body: Body, op: Any) -> Form:
    contracted, batched = product_axes(op, "contracting"), product_axes(op, "batching")
    shape, dtype = checked(op.results[0])
    forms = []
    shapes = [checked(x)[0] for x in op.operands]
    free = [[i for i in range(len(s)) if i not in (*c, *b)] for s, c, b in zip(shapes, contracted, batched)]
    rows = [shapes[0][i] for i in batched[0]], [shapes[0][i] for i in free[0]], [shapes[1][i] for i in free[1]]
    sizes = [*rows[0], *rows[1], *rows[2], *(shapes[0][i] for i in contracted[0])]
    ends = [len(rows[0]), len(rows[0]) + len(rows[1]), len(shape)]
    for k, x in enumerate(op.operands):
        order = [*batched[k], *free[k], *contracted[k]]
        axes = [*range(ends[0]), *range(ends[k], ends[k + 1]), *range(ends[2], len(sizes))]
        form = changed(body.memory(x), functools.partial(_spread, order, sizes, axes))
        forms.append(form if form.dtype == dtype else Lazy("convert", "", (form,), dtype))
    fast = " fastmath<contract>" if dtype.kind == "f" else ""
    add, multiply = ("arith.addf", "arith.mulf") if dtype.kind == "f" else ("arith.addi", "arith.muli")

    def step(total: str, point: Point) -> str:
        type_ = spelled(dtype, point.shape)
        term = body.out.add(f"{multiply} {point.vector(forms[0])}, {point.vector(forms[1])}{fast} : {type_}")
        return body.out.add(f"{add} {total}, {term}{fast} : {type_}")

    if dtype.kind == "b":
        raise Unfit("a product of booleans")
    combine: Callable[[Any, Any, Any], Any] = lambda a, b, shape: elementwise(
        body.out, "add", "", [a, b], dtype, dtype, shape
    )
    target = body.temporary(shape, dtype)
    spread = target.spread(sizes, range(len(shape)))
    body.nests.fold(spread, sizes, forms, body.out.constant(0, dtype, ""), step, combine, "add")
    return target


def _spread(order: Sequence[int], sizes: Sequence[int], axes: Sequence[int], view: View) -> View:
    return view.permuted(order).spread(sizes, axes)


@writes("reduce")
def _reduce(body: Body, op: Any) -> Form:
    inner = op.regions[0].blocks[0]
    if len(op.operands) != 2 or len(inner.operations) != 2 or len(inner.operations[0].operands) != 2:
        raise Unfit("reduce")
    sizes, dtype = checked(op.operands[0])
    name, shape = inner.operations[0].name.partition(".")[2], static_shape(op.results[0])
    kind = REDUCTIONS.get(name, {}).get(dtype.kind)
    if kind is None or set(inner.operations[0].operands) != set(inner.arguments):
        raise Unfit("reduce")
    x, start = body.read(op.operands[0]), body.number(op.operands[1])
    combine: Callable[[Any, Any, Any], Any] = lambda a, b, shape: elementwise(
        body.out, name, "", [a, b], dtype, dtype, shape
    )
    step = lambda total, point: combine(total, point.vector(x), point.shape)
    target = body.temporary(shape, dtype)
    summed = integers(op.attributes["dimensions"])
    spread = target.spread(sizes, [i for i in range(len(sizes)) if i not in summed])
    body.nests.fold(spread, sizes, [x], start, step, combine, kind)
    return target
