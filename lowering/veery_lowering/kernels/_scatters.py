"""Sums of segments, histograms, rows that are set and all else that is scattered, as one dispatch.

IREE computes the rows' numbers, what is added to each, and the sums in dispatches of their own, the last one element by
element. Here a row's number and what is added are computed where they are used, rows are added as vectors, and where
they are long, each workgroup adds up columns of its own, so that no two of them write to one place. us, on two cores,
by IREE and so: sums of 100,000 numbers in 1000 segments 92 and 39, of 5000 rows of 32 in 100 segments 70 and 13.

What is scattered into is written anew: where IREE may update it in place, and little is scattered, that is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit, elementwise, is_half
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Affine, Buffer, Form, Lazy, Uniform, View, changed, leaves, whole
from veery_lowering.kernels._indexed import combination, is_of_rows, replaces
from veery_lowering.kernels._joins import JOINS, TOO_MANY, computed, erase
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._nests import Axis, Point, merged
from veery_lowering.kernels._reading import static_shape
from veery_lowering.kernels._windows import Cut, Opaque, Parts, Repeated, Window
from veery_lowering.mlir import maker

# Elements of a row that a workgroup adds up at least, and terms from which on there are several workgroups.
_LEAST_COLUMNS = 64
_LEAST_TERMS = 1 << 15
# Elements that are copied for each that is scattered, at most, where IREE would copy none, and where it would copy them
# on all cores.
_MOST_COPIED, _MOST_COPIED_ALONE = 8, 64
_FEW = 1 << 17
_VIEWS = frozenset(("stablehlo.reshape", "stablehlo.transpose"))


class ScatterKernel:
    """A scatter of rows as an executable.

    Args:
        root: the operation: of rows [P, R] into [N, R].
        places: the values that its block computes, with their order.
        machine: what it is written for.

    Raises:
        Unfit: it cannot be written so.
    """

    form = "in one piece"

    def __init__(self, root: Any, places: Mapping[Any, int], machine: Machine) -> None:
        self.root, self.result = root, root.results[0]
        _check(root)
        (self.rows, self.row), self.dtype = checked(self.result)
        self.points, _ = static_shape(root.operands[2])
        self.combine = combination(root)
        if is_half(self.dtype) and not replaces(root):
            raise Unfit(self.dtype.name)
        outside: set[Any] = set()
        while True:
            self.inside = computed(root, places, outside)
            self.body = Body(machine)
            parts = Parts(self.body, set(self.inside))
            try:
                start, numbers, updates = (parts.form(x, Window.whole(static_shape(x))) for x in root.operands)
                break
            except Opaque as opaque:
                outside.add(opaque.value)
            except (Cut, Repeated):
                joins = [x for x in self.inside if x.owner.name in JOINS]
                if not joins:
                    raise Unfit(TOO_MANY) from None
                outside.update(joins)
        if isinstance(start, View):
            self._check_copy()
        self.target = Buffer("%out", self.dtype, self.rows * self.row)
        workgroups = 1
        if self.row == 1:
            self.body.nests.fill(whole(self.target, (self.rows, 1)), start, self.rows)
            self._add_numbers(numbers, updates)
        else:
            workgroups = _workgroups(self.points, self.row)
            self._add_rows(numbers, updates, start, self.row // workgroups)
        self.executable = Executable(self.body.out, self.body.inputs, [self.target], workgroups)

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the scatter."""
        self.executable.call(module, name, self.root, {self.target: self.result})
        erase(self.inside)

    def _check_copy(self) -> None:
        """Refuse to copy what is scattered into where IREE does better."""
        copied, source = self.rows / self.points, self.root.operands[0]
        while maker(source) in _VIEWS and source in self.inside:
            source = source.owner.operands[0]
        in_place = source not in self.inside
        if copied > (_MOST_COPIED if in_place else _MOST_COPIED_ALONE) and (in_place or self.rows * self.row > _FEW):
            raise Unfit("little is scattered")

    def _add_numbers(self, numbers: Form, updates: Form) -> None:
        """Of rows of one element: numbers and updates as vectors, then one sum after the other."""
        nests, flat = self.body.nests, (self.points,)
        forms = [changed(x, lambda view: view.reshaped(flat) or view) for x in (numbers, updates)]
        views = list({id(view): view for form in forms for view in leaves(form)}.values())
        axes = merged(flat, views) or [Axis(self.points, tuple(0 for _ in views))]
        (lane,) = axes

        def add(width: int, begin: Affine) -> None:
            point = Point(nests, views, width, lane).moved([(lane, begin)])
            names = [point.vector(form) for form in forms]
            for k in range(width):
                number, update = (self._lane(name, form, width, k) for name, form in zip(names, forms))
                self._add(number, numbers, Uniform(update, self.dtype), lambda at: View(self.target, (1,), (1,), at))

        for width, starts in self.body.nests.chunks(self.points, numbers.dtype, True):
            nests.each(starts, lambda begin, width=width: add(width, begin))  # type: ignore[misc]
        nests.forget()

    def _lane(self, name: str, form: Form, width: int, k: int) -> str:
        return name if width == 1 else self.body.nests.lane(name, form.dtype, width, k)

    def _add_rows(self, numbers: Form, updates: Form, start: Form, columns: int) -> None:
        """Of longer rows: one after the other, of each the columns of a workgroup."""
        nests, row = self.body.nests, self.row
        first = Affine()
        if columns < row:
            first = Affine.of(nests.workgroup()) * columns
        begin = changed(start, lambda view: view.sliced([0, first], (self.rows, columns)))
        nests.fill(View(self.target, (self.rows, columns), (row, 1), first), begin, self.rows * columns)

        def add(point: Affine) -> None:
            one = changed(numbers, lambda view: view.sliced([point, 0], (1, 1)))
            number = self.body.kept(one, (1, 1))
            assert isinstance(number, Uniform)
            part = changed(updates, lambda view: view.sliced([point, first], (1, columns)).permuted([0, 1]))
            part = changed(part, lambda view: view.reshaped((columns,)) or view)
            self._add(number.name, numbers, part, lambda at: View(self.target, (columns,), (1,), at * row + first))

        nests.each(range(self.points), add)
        nests.forget()

    def _add(self, number: str, numbers: Form, update: Form, place: Callable[[Affine], View]) -> None:
        """Write the code that joins an update with a row, where there is such a row."""
        out, nests, dtype = self.body.out, self.body.nests, numbers.dtype
        low, high = _bounds(self.body, numbers)
        if 0 <= low and high < self.rows:
            here = place(nests.number(number, dtype))
            nests.fill(here, self.combine(here, update))
            return
        wide = np.dtype(np.int64)
        number = elementwise(out, "convert", "", [number], dtype, wide, "")
        tests = [out.add(f"arith.cmpi sge, {number}, {out.constant(0, wide, '')} : i64")]
        tests.append(out.add(f"arith.cmpi slt, {number}, {out.constant(self.rows, wide, '')} : i64"))
        out.lines.append(f"scf.if {out.add(f'arith.andi {tests[0]}, {tests[1]} : i1')} {{")
        with nests.apart():
            here = place(nests.number(number, wide))
            nests.fill(here, self.combine(here, update))
        out.lines.append("}")


def _check(root: Any) -> None:
    """Refuse a scatter of another form."""
    if not is_of_rows(root) or hlo.dtype_of(root.operands[1]) == np.uint64:
        raise Unfit("a scatter of another form")


def _workgroups(points: int, row: int) -> int:
    """How many workgroups have columns of their own."""
    if points * row < _LEAST_TERMS:
        return 1
    return max(n for n in range(1, max(1, row // _LEAST_COLUMNS) + 1) if row % n == 0)


def _bounds(body: Body, form: Form) -> tuple[float, float]:
    """Between which numbers an integer lies."""
    if isinstance(form, Uniform):
        known = body.out.known(form.name)
        return (-math.inf, math.inf) if known is None else (known, known)
    if not isinstance(form, Lazy) or form.dtype.kind != "i":
        return -math.inf, math.inf
    ends = [_bounds(body, x) for x in form.operands]
    if form.name == "clamp":
        return ends[0][0], ends[2][1]
    if form.name == "maximum":
        return max(a for a, _ in ends), max(b for _, b in ends)
    if form.name == "minimum":
        return min(a for a, _ in ends), min(b for _, b in ends)
    if form.name == "select":
        return min(a for a, _ in ends[1:]), max(b for _, b in ends[1:])
    return -math.inf, math.inf
