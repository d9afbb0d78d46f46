"""What is computed of rows, each for itself, as one dispatch: softmax, norms, variances, and their gradients.

IREE makes a dispatch for each reduction, and one for what follows the last; each reads the array anew. Here a row is
read, reduced and written while it is in the first cache. us a call of float32 on two cores, by IREE and so: softmax of
1500 rows of 1000 598 and 383, layer norm of 512 rows of 256 80 and 32; with AVX2, sums of 1500 rows of 777 118 and 72.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._followers import in_place
from veery_lowering.kernels._forms import Affine, Buffer, Form, Uniform, View
from veery_lowering.kernels._nests import ALTERNATING, merged
from veery_lowering.kernels._reading import static_shape
from veery_lowering.kernels._reductions import ReductionKernel
from veery_lowering.kernels._sums import folded
from veery_lowering.mlir import base_name

# Elements of a row: of shorter ones IREE reduces several at once, longer ones fill more than a first cache.
_LEAST, _MOST = 32, 1 << 16
# The same of a single reduction of rows along several axes, where to find each row costs more than short ones: sums of
# products of 100 with 200 rows of 64 take 171 us, by IREE 61. Where rows lie across, 1000x700 transposed, 450 and 107.
_LEAST_ALONE = 100
# Operations on numbers that nothing else is made of.
_FEW = 12


class RowKernel(ReductionKernel):
    """What is computed of rows; what each is reduced to is a number."""

    form = "row by row"

    def _look(self) -> None:
        rows, self.axes, self._row = self.shape[:-1], [len(self.shape) - 1], self.shape[-1:]
        self.reduced = rows, (*rows, 1)
        if not (self.shape and _LEAST <= self.shape[-1] <= _MOST and math.prod(rows) > 1):
            raise Unfit("no reduction of rows")

    def _left(self, inside: Sequence[Any]) -> set[Any]:
        """What is made of numbers alone: where that is much, it is faster made of all rows' at once, in vectors."""
        rest = set(inside)
        for value in reversed(inside):
            users = {use.owner.results[0] for use in value.uses if use.owner.results}
            if not self._is_array(value) and value.owner.name != "stablehlo.reduce" and users.isdisjoint(rest):
                rest.remove(value)
        ends = set(inside) - rest
        return ends if len(ends) > _FEW else set()

    def _write(self) -> None:
        rows, nests, out = self.shape[:-1], self.body.nests, self.body.out
        axes = merged(rows, [View(v.buffer, rows, v.strides[: len(rows)], v.offset) for v in self._views])
        if self._is_alone() and (self._is_across() or len(axes) > 1 and self.shape[-1] < _LEAST_ALONE):
            raise Unfit("a single reduction that IREE is quicker with")

        def row(i: Affine) -> None:
            at, number = [], nests.position(i)
            for axis in reversed(axes[1:]):
                size = out.index(axis.size)
                at.append((axis, Affine.of(out.add(f"arith.remui {number}, {size} : index"))))
                number = out.add(f"arith.divui {number}, {size} : index")
            at.append((axes[0], Affine.of(number)))
            self._offsets = {
                id(view): functools.reduce(lambda total, a: total + a[1] * a[0].strides[i], at, view.offset)
                for i, view in enumerate(self._views)
            }
            self._each()

        self._divide(range(math.prod(rows)), self._row, row)

    def _is_alone(self) -> bool:
        """Whether IREE, too, makes one dispatch of it: a reduction, and what is made of the numbers."""
        reductions = sum(value.owner.name == "stablehlo.reduce" for value in self.inside)
        return reductions == 1 and not any(map(self._is_array, self.results))

    def _is_across(self) -> bool:
        """Whether elements of a row that is read do not lie together."""
        return any(view.strides[-1] not in (0, 1, *ALTERNATING) for view in self._views if view.shape == self.shape)

    def _shared(self, donated: Collection[Any]) -> list[tuple[Buffer, Buffer]]:
        last = self.inside[-1]  # before it is written all else of a row is computed
        if last not in self._targets or not self._is_array(last):
            return []
        views = [form for form in self._outside.values() if isinstance(form, View)]
        return in_place(self.body.inputs, donated, views, [self._targets[last].buffer])

    def _part(self, view: View, is_array: bool) -> View:
        shape, strides = (self._row, view.strides[-1:]) if is_array else ((), ())
        return View(view.buffer, shape, strides, self._offsets[id(view)])

    def _leave(self, form: Form, target: View) -> None:
        assert isinstance(form, Uniform)
        self.body.nests.store(form.name, target, target.offset, 0, 1)
        self.body.nests.forget()

    def _computed(self, op: Any, operands: Sequence[Form]) -> Form:
        name = base_name(op.name)
        if name == "reduce":
            return self.body.kept(folded(self.body, op, operands[0], self._row, range(len(self._row)), ()), ())
        if name not in ELEMENTWISE:
            return operands[0]
        form = self._lazy(op, operands)
        return form if static_shape(op.results[0]) == self.shape else self.body.kept(form, ())
