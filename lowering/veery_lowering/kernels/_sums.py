"""Operations of kernels that add up: products of matrices and reductions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering.kernels._arithmetic import REDUCTIONS, Unfit, elementwise, is_half, spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Form, Lazy, View, changed
from veery_lowering.kernels._nests import Point
from veery_lowering.kernels._reading import integers, static_shape
from veery_lowering.stablehlo import product_axes

# Columns of a factor that is turned, at least, and its elements at most. In cycles: to turn an element, and what each
# result takes that is summed along vectors, for them and for each term more than one that is summed across. 40 trips
# of `maximum(h @ w.T, -h)` take 120 us instead of 230 for h of 64x32, 22 instead of 48 of 16x32, 1150 instead of 2600
# of 64x128.
_LEAST_COLUMNS, _MOST_TURNED = 8, 1 << 17
_TO_TURN, _TO_ADD_UP, _FOR_A_TERM = 3, 4, 0.05


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
        form = changed(converted(body, x, dtype), functools.partial(View.permuted, order=order))
        if k == 1 and isinstance(form, View):
            form = _turned(body, form, len(batched[k]), len(free[k]), math.prod(rows[1]))
        forms.append(changed(form, functools.partial(View.spread, shape=sizes, axes=axes)))
    target = body.place(shape, dtype, op.results[0])
    add_products(body, target.spread(sizes, range(len(shape))), sizes, forms)
    return target


def converted(body: Body, value: Any, dtype: np.dtype) -> Form:
    """A value in memory, of a dtype: what is read several times is converted once."""
    form = body.memory(value)
    return form if form.dtype == dtype else body.kept(Lazy("convert", "", (form,), dtype), static_shape(value))


def add_products(body: Body, target: View, sizes: Sequence[int], factors: Sequence[Form]) -> None:
    """Fill a target with sums of products over the axes, of a nest of some sizes, along which it has no stride."""
    dtype = target.dtype
    if dtype.kind == "b" or is_half(dtype):
        raise Unfit(f"a product of {dtype}")
    fast = " fastmath<contract>" if dtype.kind == "f" else ""
    add, multiply = ("arith.addf", "arith.mulf") if dtype.kind == "f" else ("arith.addi", "arith.muli")

    def step(total: str, point: Point) -> str:
        type_ = spelled(dtype, point.shape)
        term = body.out.add(f"{multiply} {point.vector(factors[0])}, {point.vector(factors[1])}{fast} : {type_}")
        return body.out.add(f"{add} {total}, {term}{fast} : {type_}")

    start, combine = body.out.constant(0, dtype, ""), _combination(body, "add", dtype)
    body.nests.fold(target, sizes, factors, start, step, combine, "add")


def _turned(body: Body, view: View, batched: int, free: int, rows: int) -> View:
    """A factor for so many rows; one whose columns lie in memory with those elements side by side that meet a term."""
    first, last = batched + free, len(view.shape)
    columns, terms = math.prod(view.shape[batched:first]), math.prod(view.shape[first:])
    if not free or view.strides[first - 1] == 1 or columns < _LEAST_COLUMNS or math.prod(view.shape) > _MOST_TURNED:
        return view
    if _TO_TURN * terms > rows * body.uses(view) * (_TO_ADD_UP + _FOR_A_TERM * terms):
        return view
    order = [*range(batched), *range(first, last), *range(batched, first)]
    return body.turned(view, order).permuted([order.index(i) for i in range(last)])


@writes("reduce")
def _reduce(body: Body, op: Any) -> Form:
    sizes, _ = checked(op.operands[0])
    summed = integers(op.attributes["dimensions"])
    return folded(body, op, body.read(op.operands[0]), sizes, summed, static_shape(op.results[0]))


def folded(body: Body, op: Any, x: Form, sizes: Sequence[int], summed: Sequence[int], shape: Sequence[int]) -> Form:
    """What an operation with a region for two numbers makes of a value of some sizes, by folding some of its axes."""
    inner = op.regions[0].blocks[0]
    if len(op.operands) != 2 or len(inner.operations) != 2 or len(inner.operations[0].operands) != 2:
        raise Unfit(op.name)
    name, dtype = inner.operations[0].name.partition(".")[2], x.dtype
    if name not in REDUCTIONS or set(inner.operations[0].operands) != set(inner.arguments):
        raise Unfit(op.name)
    # Extremes of half precision are those of float32; sums and products are rounded at each step, one after the other.
    of = np.dtype(np.float32) if is_half(dtype) and name in ("maximum", "minimum") else dtype
    kind = None if is_half(of) else REDUCTIONS[name].get(of.kind)
    if kind is None and not is_half(of):
        raise Unfit(op.name)
    start = elementwise(body.out, "convert", "", [body.number(op.operands[1])], dtype, of, "")
    values = x if of == dtype else Lazy("convert", "", (x,), of)
    combine = _combination(body, name, of)
    step = lambda total, point: combine(total, point.vector(values), point.shape)
    target = body.place(shape, of, op.results[0])
    spread = target.spread(sizes, [i for i in range(len(sizes)) if i not in summed])
    body.nests.fold(spread, sizes, [values], start, step, combine, kind)
    return target if of == dtype else Lazy("convert", "", (target,), dtype)


def _combination(body: Body, name: str, dtype: np.dtype) -> Callable[[Any, Any, Any], Any]:
    return lambda a, b, shape: elementwise(body.out, name, "", [a, b], dtype, dtype, shape)
