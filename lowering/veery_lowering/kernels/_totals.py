"""What is computed of an array with reductions of all of it, to a number each, as one dispatch: losses and norms.

IREE makes a dispatch for each such reduction, whose code it takes 25 ms to choose and to write. Ours is that of a row
(`_rows.py`), the array. ms to the first result, and us a call, of float32 on two cores with AVX2, by IREE and so: a
mean of squares of 300x100 108 and 53, 9.8 and 9.1, a norm of 400x400 120 and 67, 70 and 18, a sum of products of
300x100 with a row 90 and 54, 45 and 8, logsumexp of 300x100 190 and 88, 29 and 25.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._forms import Buffer, View
from veery_lowering.kernels._rows import RowKernel

# Elements that one thread reduces: fewer are parts of other kernels, more are reduced in stages, with all cores.
_LEAST, _MOST = 32, (1 << 19) - 1
# Elements of an array that is a result, which several cores would share.
_MOST_LEFT = 1 << 14


class TotalKernel(RowKernel):
    """What is computed of an array and of the numbers to which all of it is reduced."""

    form = "all at once"

    def _look(self) -> None:
        self.axes, self._row = list(range(len(self.shape))), self.shape
        self.reduced = (), (1,) * len(self.shape)
        if not _LEAST <= math.prod(self.shape) <= _MOST:
            raise Unfit("no reduction of a whole array")

    def _left(self, inside: Sequence[Any]) -> set[Any]:
        """Large arrays that are results, and those that these are made of."""
        if math.prod(self.shape) <= _MOST_LEFT:
            return set()
        kept = set(inside)
        for value in reversed(inside):
            users = {use.owner.results[0] if use.owner.results else None for use in value.uses}
            if self._is_array(value) and not users <= kept:
                kept.remove(value)
        return set(inside) - kept

    def _write(self) -> None:
        self._divide(range(1), self.shape, lambda _: self._each())

    def _shared(self, donated: Collection[Any]) -> list[tuple[Buffer, Buffer]]:
        return []

    def _part(self, view: View, is_array: bool) -> View:
        return view if is_array else View(view.buffer, (), (), view.offset)
