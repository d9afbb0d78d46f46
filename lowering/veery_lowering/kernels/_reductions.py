"""Reductions of an array and what is elementwise of it, and of what they give, as one dispatch.

What is reduced together, a row or some columns, is read, reduced and written while it is in a cache near by. `_rows.py`
and `_columns.py` say what that is, and go over it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _moves  # noqa: F401  (registers what it writes)
from veery_lowering.kernels._arithmetic import ELEMENTWISE, REDUCTIONS, Unfit, is_half
from veery_lowering.kernels._body import MOST_IN_A_ROW, Body, checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._followers import FusedKernel, followers, with_sources
from veery_lowering.kernels._forms import Affine, Buffer, Form, Lazy, View, whole
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._reading import detail_of, integers, static_shape
from veery_lowering.kernels._windows import work_of
from veery_lowering.mlir import base_name

# Operations: what has more takes long to compile.
_MOST_INSIDE = 400
# Work that is rather done again than kept in memory, of an element in cheap operations.
_REPEATED = 3
# Elements that are reduced together.
_MOST_FILLED = 1 << 24
# Work for which a workgroup is worth its start, in cheap operations, and how many workgroups there are at most.
_LEAST_SHARE = 1 << 16
_MOST_WORKGROUPS = 16


class ReductionKernel(FusedKernel, ABC):
    """What is computed of an array with reductions of it as an executable.

    Args:
        op: a reduction; what it reads, and what is made of its result, is computed with it.
        machine: what it is written for.
        donated: values in whose place results may be written.

    Raises:
        Unfit: it cannot be written so, or nothing reads what it gives.

    Attributes:
        shape: of the arrays.
        reduced: the shapes that it has without the axes that are reduced, and with a single element along them.
        axes: those that are reduced.
        workgroups: between how many it is divided.
        body: writes it.
    """

    reduced: tuple[tuple[int, ...], tuple[int, ...]]
    axes: list[int]

    def __init__(self, op: Any, machine: Machine, donated: Collection[Any]) -> None:
        self.op = op
        self.shape, _ = checked(op.operands[0])
        self._look()
        if not self._fits(op):
            raise Unfit("no such reduction")
        self.inside, self.before = self._gathered()
        self._made = frozenset(self.inside)
        results = [value for value in self.inside if self._used_outside(value)]
        if not results:
            raise Unfit("no result")
        self.results = {x: Buffer(f"%out{k}", checked(x)[1], math.prod(checked(x)[0])) for k, x in enumerate(results)}
        self.body = Body(machine)
        self._kept = self._read_often()
        read = dict.fromkeys(x for value in self.inside for x in value.owner.operands if x not in self._made)
        self._outside = {x: self.body.read_through(x) for x in read}
        places = {id(form): form for form in self._outside.values() if isinstance(form, View)}
        self._targets = {value: whole(buffer, static_shape(value)) for value, buffer in self.results.items()}
        self._views = [*places.values(), *self._targets.values()]
        self.workgroups = 1
        self._in_place = self._shared(donated)
        self._write()
        outputs, inputs = list(self.results.values()), self.body.inputs
        self.executable = Executable(
            self.body.out, inputs, outputs, self.workgroups, self.body.scratch, in_place=self._in_place
        )

    # What each kind says of itself.

    @abstractmethod
    def _look(self) -> None:
        """Tell `reduced` and `axes`, or raise Unfit."""

    @abstractmethod
    def _write(self) -> None:
        """Write the kernel: `_each` for all that is reduced together."""

    @abstractmethod
    def _part(self, view: View, is_array: bool) -> View:
        """What of a view of an array, or of what it is reduced to, is reduced together."""

    @abstractmethod
    def _leave(self, form: Form, target: View) -> None:
        """Write what an array is reduced to."""

    @abstractmethod
    def _computed(self, op: Any, operands: Sequence[Form]) -> Form:
        """What an operation gives, of what is reduced together."""

    def _shared(self, donated: Collection[Any]) -> list[tuple[Buffer, Buffer]]:
        """What is read and what is written that may be the same memory."""
        return []

    # What is computed.

    def _gathered(self) -> tuple[list[Any], Any]:
        """The values that are computed, in their order, and the first operation that uses them but is not of theirs."""
        inside, first = followers(self.op, self._fits, _MOST_INSIDE)
        left = {value.owner.operation for value in self._left(inside)}
        if left:
            inside, first = followers(self.op, lambda op: op not in left and self._fits(op), _MOST_INSIDE)
        read = [x for value in inside for x in value.owner.operands]
        return with_sources(inside, read, self._fits, _MOST_INSIDE), first

    def _left(self, inside: Sequence[Any]) -> set[Any]:
        """What of these is better left to IREE."""
        return set()

    def _fits(self, op: Any) -> bool:
        """Whether an operation gives such arrays, or what they are reduced to, of such."""
        name = base_name(op.name)
        if len(op.results) != 1 or not op.name.startswith("stablehlo."):
            return False
        try:
            shapes = [checked(x)[0] for x in (*op.operands, op.results[0])]
            detail_of(op)
        except Unfit:
            return False
        *read, made = shapes
        if name in ELEMENTWISE:
            return made in (self.shape, *self.reduced) and all(shape in (made, ()) for shape in read)
        if name == "reduce":
            is_such = read == [self.shape, ()] and made == self.reduced[0] and _is_written(op)
            return is_such and integers(op.attributes["dimensions"]) == self.axes
        if name == "broadcast_in_dim":
            every = list(range(len(self.shape)))
            places = {self.reduced[0]: [i for i in every if i not in self.axes], self.reduced[1]: every}
            is_such = integers(op.attributes["broadcast_dimensions"]) == places.get(read[0])
            return is_such and made in (self.shape, self.reduced[1])
        return name in ("reshape", "optimization_barrier") and read[0] in self.reduced and made in self.reduced

    def _is_array(self, value: Any) -> bool:
        return static_shape(value) == self.shape

    def _used_outside(self, value: Any) -> bool:
        return any(not use.owner.results or use.owner.results[0] not in self._made for use in value.uses)

    def _read_often(self) -> set[Any]:
        """The arrays that are read for several results or reductions, and are worth being kept for that."""
        work: dict[Any, int] = {}
        for value in self.inside:
            if self._is_array(value):
                each = work_of(value) // math.prod(self.shape) if base_name(value.owner.name) in ELEMENTWISE else 0
                work[value] = each + sum(work.get(x, 0) for x in value.owner.operands)
        ends: dict[Any, set[Any]] = {}
        kept = set()
        for value in reversed(self.inside):
            if not self._is_array(value):
                continue
            found = {value} if value in self.results else set()
            for use in value.uses:
                user = use.owner.results[0] if use.owner.results else None
                if user in self._made:
                    found |= ends[user] if self._is_array(user) else {user}
            if len(found) > 1 and work[value] > _REPEATED:
                kept.add(value)
                found = {value}
            ends[value] = found
        return kept

    # Text.

    def _each(self) -> None:
        """Write what is computed of what is reduced together."""
        forms: dict[Any, Form] = {}
        parts = {id(view): self._part(view, view.shape == self.shape) for view in self._views}

        def read(value: Any) -> Form:
            if value not in forms:
                form = self._outside[value]
                if isinstance(form, View):
                    part = parts[id(form)]
                    form = self.body.kept(part, part.shape)
                forms[value] = form
            return forms[value]

        for value in self.inside:
            form = self._computed(value.owner, [read(x) for x in value.owner.operands])
            target = parts[id(self._targets[value])] if value in self._targets else self._memory.get(value)
            if target is not None and self._is_array(value):
                self.body.nests.fill(target, form, _MOST_FILLED, once=bool(self._in_place))
                form = target
            elif target is not None:
                self._leave(form, target)
            forms[value] = form

    def _divide(self, numbers: range, shape: Sequence[int], write: Callable[[Affine], None]) -> None:
        """Write what is reduced together for each number, with what is kept, of some shape; workgroups divide that."""
        nests, work = self.body.nests, sum(map(work_of, self.inside))
        self.workgroups = max(1, min(len(numbers), work // _LEAST_SHARE, _MOST_WORKGROUPS))
        workgroup = nests.workgroup() if self.workgroups > 1 else ""
        self.body.divide(self.workgroups, workgroup)
        self._memory = {
            value: self.body.temporary(shape, checked(value)[1]) for value in self._kept if value not in self.results
        }
        if self.workgroups > 1:
            nests.part(numbers, write, self.workgroups, workgroup)
        else:
            nests.each(numbers, write, 1)

    def _lazy(self, op: Any, operands: Sequence[Form]) -> Lazy:
        """What is elementwise."""
        form = Lazy(base_name(op.name), detail_of(op), tuple(operands), checked(op.results[0])[1])
        if form.depth > MOST_IN_A_ROW:
            raise Unfit("many operations in a row")
        return form


def _is_written(op: Any) -> bool:
    """Whether a kernel may hold a reduction."""
    inner = op.regions[0].blocks[0].operations
    return len(inner) == 2 and base_name(inner[0].name) in REDUCTIONS and not is_half(hlo.dtype_of(op.results[0]))
