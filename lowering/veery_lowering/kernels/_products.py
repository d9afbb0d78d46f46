"""Products of matrices as one dispatch each, with all that is elementwise of them.

IREE copies the operands into tiles, each by a dispatch of its own, and makes a product's code by some twenty passes;
what follows a product it writes out once for each register of a tile. Here the loops are written as they run
(`_panels`), and what follows is computed of one tile after the other, in a loop. That is as fast, and compiles in a
fraction of the time: `tanh(x @ w + b)` of 32x64 and 64x128 takes 10 ms to translate instead of 35, and 12 us a call;
distances of 500 and 400 points in 20 dimensions 25 instead of 122 ms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _moves  # noqa: F401  (registers what it writes)
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._convolutions import Factors, convolved
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._followers import FusedKernel, followers, in_place, with_sources
from veery_lowering.kernels._forms import Buffer, Form, Lazy, View, all_changed, leaves, whole
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._panels import Axis, Panels, Place, widest
from veery_lowering.kernels._reading import detail_of, integers
from veery_lowering.mlir import base_name, ir, maker
from veery_lowering.stablehlo import product_axes

# A panel and a tile are on the stack; IREE allows 32 kB.
_STACK = 24 << 10
# Operations on what follows a product: what has more takes long to compile.
_MOST_INSIDE = 200


class ProductKernel(FusedKernel):
    """A product of matrices, and what is elementwise of it, as an executable.

    Args:
        op: the product.
        machine: what it is written for.
        donated: values in whose place results may be written.

    Raises:
        Unfit: it cannot be written so.
    """

    form = "tile by tile"

    def __init__(self, op: Any, machine: Machine, donated: Collection[Any]) -> None:
        self.op = op
        self.shape, self.dtype = checked(op.results[0])
        if self.dtype.kind not in "fiu" or self.dtype.itemsize < 4 or checked(op.operands[0])[1] != self.dtype:
            raise Unfit(f"a product of {self.dtype}")
        self.body = Body(dataclasses.replace(machine, stack=_STACK))
        factors = list(op.operands)
        fits: Callable[[Any], bool] = lambda other: _is_elementwise(other, op.results[0])
        inside, self.before = followers(op, fits, _MOST_INSIDE)
        used = [x for value in inside[1:] for x in value.owner.operands]
        is_beside: Callable[[Any], bool] = lambda other: fits(other) and other.results[0] not in factors
        self.inside = with_sources(inside, used, is_beside, _MOST_INSIDE)
        ops = {value.owner.operation for value in self.inside}
        read = [value for value in self.inside if any(use.owner.operation not in ops for use in value.uses)]
        self.results = {x: Buffer(f"%out{k}", checked(x)[1], math.prod(self.shape)) for k, x in enumerate(read)}
        if not self.results:
            raise Unfit("a product that nothing reads")
        # The product, wherever a tile of it is.
        self._product = View(Buffer("", self.dtype, 0), self.shape, (0,) * len(self.shape))
        made = self._computed()
        self._forms = [made[value] for value in self.results]
        self._factors: set[Buffer] = set()
        self._panels = self._divided()
        is_alone = self._forms == [self._product]
        outputs = list(self.results.values())
        views = [view for form in self._forms for view in leaves(form)]
        beside = {x: buffer for x, buffer in self.body.inputs.items() if buffer not in self._factors}
        shared = in_place(beside, donated, views, outputs)
        self._panels.write(whole(outputs[0], self.shape) if is_alone else self._finish, once=bool(shared))
        self.executable = Executable(
            self.body.out, self.body.inputs, outputs, self._panels.workgroups, self.body.scratch, in_place=shared
        )

    def _computed(self) -> dict[Any, Form]:
        """The values that the kernel computes, as expressions of the product and of what is read."""
        made: dict[Any, Form] = {self.op.results[0]: self._product}
        for value in self.inside:
            op = value.owner
            if value in made:
                continue
            operands = tuple(made[x] if x in made else self.body.read_through(x) for x in op.operands)
            made[value] = Lazy(base_name(op.name), detail_of(op), operands, checked(value)[1])
        return made

    def _divided(self) -> Panels:
        """The product, in panels."""
        given = self.op.operands[1]
        is_convolution = base_name(self.op.name) == "convolution"
        if maker(given) == "stablehlo.convert" and not is_convolution:  # in each panel
            given = given.owner.operands[0]
        x, y = self.body.read_through(self.op.operands[0]), self.body.read_through(given)
        if not (isinstance(x, View) and isinstance(y, View)):
            raise Unfit("a product with equal elements")
        self._factors |= {x.buffer, y.buffer}
        x, y, *axes = convolved(self.op, x, y) if is_convolution else _factors(self.op, x, y)
        outer, rows, columns, terms = map(self._merged, axes)
        if not (rows and columns and terms):
            raise Unfit("not a product of matrices")
        row = max(rows, key=lambda axis: axis.size)
        column = widest(columns)
        outer += [axis for axis in (*rows, *columns) if axis is not row and axis is not column]
        return Panels(self.body, x, y, self.dtype, outer, row, column, terms)

    def _merged(self, axes: Sequence[Axis]) -> list[Axis]:
        """The axes that are more than one element, those as one that lie one behind the other wherever they are."""
        views = [view for form in self._forms for view in leaves(form) if view is not self._product]
        views.append(whole(next(iter(self.results.values())), self.shape))
        found: list[Axis] = []
        for axis in axes:
            if axis.size == 1:
                continue
            before = found[-1] if found else None
            together = before is not None and (before.x, before.y) == (axis.x * axis.size, axis.y * axis.size)
            if before is not None and together and (
                axis.place < 0
                or all(view.strides[before.place] == view.strides[axis.place] * axis.size for view in views)
            ):  # fmt: skip
                found[-1] = Axis(before.size * axis.size, axis.x, axis.y, axis.place)
            else:
                found.append(axis)
        return found

    def _finish(self, sums: View, at: Place) -> None:
        """Write what is computed of a tile."""

        def part(view: View) -> View:
            return sums if view is self._product else self._panels.part(view, at)

        targets = [part(whole(buffer, self.shape)) for buffer in self.results.values()]
        self.body.nests.fill_rows(targets, all_changed(self._forms, part), self._panels.first(at))


def _factors(op: Any, x: View, y: View) -> Factors:
    """The matrices of a product of arrays."""
    contracted, batched = product_axes(op, "contracting"), product_axes(op, "batching")
    free = [[i for i in range(len(view.shape)) if i not in (*c, *b)] for view, c, b in zip((x, y), contracted, batched)]
    ends = len(batched[0]), len(batched[0]) + len(free[0])
    outer = [Axis(x.shape[a], x.strides[a], y.strides[b], i) for i, (a, b) in enumerate(zip(*batched))]
    rows = [Axis(x.shape[a], x.strides[a], 0, ends[0] + i) for i, a in enumerate(free[0])]
    columns = [Axis(y.shape[a], 0, y.strides[a], ends[1] + i) for i, a in enumerate(free[1])]
    terms = [Axis(x.shape[a], x.strides[a], y.strides[b]) for a, b in zip(*contracted)]
    return Factors(x, y, outer, rows, columns, terms)


@contextmanager
def converted_operands(op: Any) -> Iterator[Any]:
    """A context with a product whose operands have its result's dtype: they are not converted for each of its blocks.

    Where it ends by an exception the product has the operands that it had.
    """
    dtype, given, made = hlo.dtype_of(op.results[0]), list(op.operands), []
    with ir.InsertionPoint(op), op.location:
        for i, x in enumerate(given):
            if hlo.dtype_of(x) != dtype and {hlo.dtype_of(x).kind, dtype.kind} <= set("fV"):
                made += _converted(x, dtype)
                op.operands[i] = made[-1]
    try:
        yield op
    except Exception:
        for i, x in enumerate(given):
            op.operands[i] = x
        for x in reversed(dict.fromkeys(made)):
            x.owner.erase()
        raise


def _converted(value: Any, dtype: Any) -> list[Any]:
    """A value of another dtype, the last one, and others on the way: IREE fails with conversions of some views."""
    if maker(value) not in ("stablehlo.reshape", "stablehlo.transpose"):
        return [hlo.convert(value, dtype)]
    before = _converted(value.owner.operands[0], dtype)
    if maker(value) == "stablehlo.reshape":
        return [*before, hlo.reshape(before[-1], hlo.shape_of(value))]
    return [*before, hlo.transpose(before[-1], integers(value.owner.attributes["permutation"]))]


def _is_elementwise(op: Any, product: Any) -> bool:
    """Whether an operation can be computed element by element with a product."""
    if base_name(op.name) not in ELEMENTWISE or len(op.results) != 1:
        return False
    try:
        shape, _ = checked(product)
        detail_of(op)
        return checked(op.results[0])[0] == shape and all(checked(x)[0] in (shape, ()) for x in op.operands)
    except Unfit:
        return False
