"""What is computed of columns with reductions of them, as one dispatch: gradients by biases, norms of batches.

IREE makes a dispatch for each reduction, and one for what follows the last; each reads the array anew. Here columns
side by side, as many as a few vectors have, are read, reduced and written together. us a call of float32 on two cores,
by IREE and so: (x * y).sum(0) of 2000x1000 338 and 195, (x - x.mean(0)) / x.std(0) of as many 543 and 460; with AVX2
1230 and 240, 630 and 422.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import checked
from veery_lowering.kernels._forms import Affine, Form, View
from veery_lowering.kernels._reading import static_shape
from veery_lowering.kernels._reductions import ReductionKernel
from veery_lowering.kernels._sums import folded
from veery_lowering.kernels._windows import work_of
from veery_lowering.mlir import base_name

# Columns: of fewer, a vector has too little.
_LEAST = 8
# Work from which on it is divided, by IREE if not here.
_MUCH = 1 << 18
# Bytes of columns that are read more than once, which a second cache holds.
_CACHED = 1 << 18
# Blocks of columns, that there are at least if they can be.
_BLOCKS = 4


class ColumnKernel(ReductionKernel):
    """What is computed of columns, which are all axes but the last; they are reduced to a row."""

    form = "columns together"

    def _look(self) -> None:
        *columns, width = self.shape or (1,)
        self.axes = list(range(len(columns)))
        self.reduced = (width,), (*[1] * len(columns), width)
        if width < _LEAST or math.prod(columns) < 2:
            raise Unfit("no reduction of columns")

    def _write(self) -> None:
        width, total = self._width(), self.shape[-1]
        if width == total and sum(map(work_of, self.inside)) > _MUCH:
            raise Unfit("few columns, and long ones")
        self._block = (*self.shape[:-1], width)

        def block(i: Affine) -> None:
            # The last ones are computed twice where they are no whole block.
            first = self.body.nests.position(i)
            if total % width:
                first = self.body.out.add(f"arith.minui {first}, {self.body.out.index(total - width)} : index")
            self._first = Affine.of(first)
            self._each()

        self._divide(range(0, total, width), self._block, block)

    def _width(self) -> int:
        """How many columns are read together."""
        nests, total = self.body.nests, self.shape[-1]
        register = nests.lanes(checked(self.op.results[0])[1])
        reductions = sum(value.owner.name == "stablehlo.reduce" for value in self.inside)
        arrays = any(map(self._is_array, self.results))
        length = math.prod(self.shape[:-1]) * checked(self.op.operands[0])[1].itemsize
        values = sum(map(self._is_array, [*self.inside, *self._outside]))
        for vectors in nests.vectors_of_sums(values):
            width = vectors * register
            is_cached = length * width <= _CACHED or reductions + arrays == 1
            if is_cached and -(-total // width) >= _BLOCKS:
                return width
        return min(register, total)

    def _part(self, view: View, is_array: bool) -> View:
        offset = view.offset + self._first * view.strides[-1]
        if is_array:
            return View(view.buffer, self._block, view.strides, offset)
        return View(view.buffer, self._block[-1:], view.strides[-1:], offset)

    def _leave(self, form: Form, target: View) -> None:
        self.body.nests.fill(target, form)

    def _computed(self, op: Any, operands: Sequence[Form]) -> Form:
        name, row = base_name(op.name), self._block[-1:]
        made = static_shape(op.results[0])
        if name == "reduce":
            return self.body.kept(folded(self.body, op, operands[0], self._block, self.axes, row), row)
        if name in ELEMENTWISE:
            lazy = self._lazy(op, operands)
            return lazy if made == self.shape else self.body.kept(lazy, row)
        (form,) = operands
        if made == self.shape and isinstance(form, View):
            return form.spread(self._block, [len(self.axes)])
        return form
