"""What is computed of rows, each for itself, as one dispatch: softmax, norms, variances, and their gradients.

IREE makes a dispatch for each reduction, and one for what follows the last; each reads the array anew. Here a row is
read, reduced and written while it is in the first cache. us a call of float32 on two cores, by IREE and so: softmax of
1500 rows of 1000 598 and 383, layer norm of 512 rows of 256 80 and 32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels import _moves  # noqa: F401  (registers what it writes)
from veery_lowering.kernels._arithmetic import ELEMENTWISE, REDUCTIONS, Unfit, is_half
from veery_lowering.kernels._body import Body, checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._followers import FusedKernel, Given, followers, in_order
from veery_lowering.kernels._forms import Affine, Buffer, Form, Lazy, Uniform, View, whole
from veery_lowering.kernels._nests import Axis, Machine, merged
from veery_lowering.kernels._reading import detail_of, integers, static_shape
from veery_lowering.kernels._sums import folded
from veery_lowering.kernels._windows import work_of
from veery_lowering.mlir import base_name, ir

# Elements of a row: of shorter ones IREE reduces several at once, longer ones fill more than a first cache.
_LEAST, _MOST = 32, 1 << 16
# Work for which a workgroup is worth its start, in cheap operations, and how many workgroups there are at most.
_LEAST_SHARE = 1 << 16
_MOST_WORKGROUPS = 16
# Operations: what has more takes long to compile.
_MOST_INSIDE = 400
# Operations on numbers that nothing else is made of.
_FEW = 12
# Work that is rather done again than kept in memory, of an element in cheap operations.
_REPEATED = 3


class RowKernel(FusedKernel):
    """What is computed of rows as an executable.

    Args:
        op: a reduction of rows; what it reads, and what is made of its result, is computed with it.
        machine: what it is written for.
        given: the arguments in whose place results may be written, which this kernel does not do.

    Raises:
        Unfit: it cannot be written so, or IREE makes one dispatch of it.
    """

    form = "row by row"

    def __init__(self, op: Any, machine: Machine, given: Given) -> None:
        self.op = op
        self.shape, _ = checked(op.operands[0])
        if not (self._fits(op) and _LEAST <= self.shape[-1] <= _MOST and math.prod(self.shape[:-1]) > 1):
            raise Unfit("no reduction of rows")
        self.inside, self.before = self._gathered(given)
        self._made = frozenset(self.inside)
        results = [value for value in self.inside if self._used_outside(value)]
        reductions = sum(value.owner.name == "stablehlo.reduce" for value in self.inside)
        if not results or (reductions < 2 and not any(map(self._is_array, results))):
            raise Unfit("a single reduction")
        self.results = {x: Buffer(f"%out{k}", checked(x)[1], math.prod(checked(x)[0])) for k, x in enumerate(results)}
        self.body = Body(machine)
        self._kept = self._read_often()
        read = dict.fromkeys(x for value in self.inside for x in value.owner.operands if x not in self._made)
        self._outside = {x: self.body.read_through(x) for x in read}
        self.workgroups = self._write()
        outputs = list(self.results.values())
        self.executable = Executable(self.body.out, self.body.inputs, outputs, self.workgroups, self.body.scratch)

    # What is computed.

    def _gathered(self, given: Given) -> tuple[list[Any], Any]:
        """The values that are computed, in their order, and the first operation that uses them but is not of theirs."""
        fits: Callable[[Any], bool] = lambda op: self._fits(op) and not given.is_taken_by(op)
        inside, first = followers(self.op, fits, _MOST_INSIDE)
        ends = self._numbers_at_the_end(inside)
        if len(ends) > _FEW:
            left = {value.owner.operation for value in ends}
            inside, first = followers(self.op, lambda op: op not in left and fits(op), _MOST_INSIDE)
        return self._with_sources(inside, fits), first

    def _numbers_at_the_end(self, inside: Sequence[Any]) -> set[Any]:
        """What is made of numbers alone: where that is much, it is faster made of all rows' at once, in vectors."""
        rest = set(inside)
        for value in reversed(inside):
            users = {use.owner.results[0] for use in value.uses if use.owner.results}
            if not self._is_array(value) and value.owner.name != "stablehlo.reduce" and users.isdisjoint(rest):
                rest.remove(value)
        return set(inside) - rest

    def _with_sources(self, inside: Sequence[Any], fits: Callable[[Any], bool]) -> list[Any]:
        """Values with those that are read for nothing else, in their order."""
        found = dict.fromkeys(inside)
        waiting = [x for value in inside for x in value.owner.operands]
        while waiting and len(found) < _MOST_INSIDE:
            value = waiting.pop()
            if value in found or isinstance(value.owner, ir.Block) or hlo.is_constant(value):
                continue
            op = value.owner.operation
            users = {use.owner.operation for use in value.uses}
            if op.block == self.op.block and all(user.results and user.results[0] in found for user in users):
                if fits(op):
                    found[value] = None
                    waiting += op.operands
        return in_order(found)

    def _fits(self, op: Any) -> bool:
        """Whether an operation gives rows, or a number for each row, of such."""
        name = base_name(op.name)
        if len(op.results) != 1 or not op.name.startswith("stablehlo."):
            return False
        try:
            shapes = [checked(x)[0] for x in (*op.operands, op.results[0])]
            detail_of(op)
        except Unfit:
            return False
        *read, made = shapes
        rows, last = self.shape[:-1], len(self.shape) - 1
        numbers = (rows, (*rows, 1))
        if name in ELEMENTWISE:
            return made in (self.shape, *numbers) and all(shape in (made, ()) for shape in read)
        if name == "reduce":
            return read == [self.shape, ()] and made == rows and _is_written(op) and (
                integers(op.attributes["dimensions"]) == [last]
            )  # fmt: skip
        if name == "broadcast_in_dim":
            places = integers(op.attributes["broadcast_dimensions"])
            of_all = read[0] in numbers and places == list(range(len(read[0])))
            return of_all and made in (self.shape, numbers[1])
        return name in ("reshape", "optimization_barrier") and read[0] in numbers and made in numbers

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

    def _write(self) -> int:
        """Write the loop over the rows; returns between how many workgroups it is divided."""
        rows, nests, out = self.shape[:-1], self.body.nests, self.body.out
        places = {id(form): form for form in self._outside.values() if isinstance(form, View)}
        self._targets = {value: whole(buffer, static_shape(value)) for value, buffer in self.results.items()}
        self._views = [*places.values(), *self._targets.values()]
        axes = merged(rows, [View(v.buffer, rows, v.strides[: len(rows)], v.offset) for v in self._views])
        count = math.prod(rows)
        work = sum(map(work_of, self.inside))
        workgroups = max(1, min(count, work // _LEAST_SHARE, _MOST_WORKGROUPS))
        self._workgroup = nests.workgroup() if workgroups > 1 else ""
        self._memory = {
            value: self.body.private(self.shape[-1:], checked(value)[1], workgroups, self._workgroup)
            for value in self._kept
            if value not in self.results
        }

        def row(i: Affine) -> None:
            at, number = [], nests.position(i)
            for axis in reversed(axes[1:]):
                size = out.index(axis.size)
                at.append((axis, Affine.of(out.add(f"arith.remui {number}, {size} : index"))))
                number = out.add(f"arith.divui {number}, {size} : index")
            self._row([*at, (axes[0], Affine.of(number))])

        if workgroups > 1:
            nests.part(range(count), row, workgroups, self._workgroup)
        else:
            nests.each(range(count), row, 1)
        return workgroups

    def _row(self, at: Sequence[tuple[Axis, Affine]]) -> None:
        """Write what is computed of a row."""
        offsets = {
            id(view): functools.reduce(lambda total, a: total + a[1] * a[0].strides[i], at, view.offset)
            for i, view in enumerate(self._views)
        }
        forms: dict[Any, Form] = {}

        def part(view: View, is_array: bool) -> View:
            strides = view.strides[-1:] if is_array else ()
            return View(view.buffer, self.shape[-1:] if is_array else (), strides, offsets[id(view)])

        def read(value: Any) -> Form:
            if value not in forms:
                form = self._outside[value]
                if isinstance(form, View):
                    form = self.body.kept(part(form, self._is_array(value)), self.shape[-1:] * self._is_array(value))
                forms[value] = form
            return forms[value]

        for value in self.inside:
            form = self._computed(value.owner, [read(x) for x in value.owner.operands])
            target = self._memory.get(value)
            if value in self._targets:
                target = part(self._targets[value], self._is_array(value))
            if target is not None and self._is_array(value):
                self.body.nests.fill(target, form, _MOST + 1)
                form = target
            elif target is not None:
                assert isinstance(form, Uniform)
                self.body.nests.store(form.name, target, target.offset, 0, 1)
                self.body.nests.forget()
            forms[value] = form

    def _computed(self, op: Any, operands: Sequence[Form]) -> Form:
        name, (shape, dtype) = base_name(op.name), checked(op.results[0])
        if name == "reduce":
            return self.body.kept(folded(self.body, op, operands[0], self.shape[-1:], [0], ()), ())
        if name not in ELEMENTWISE:
            return operands[0]
        form = Lazy(name, detail_of(op), tuple(operands), dtype)
        return form if shape == self.shape else self.body.kept(form, ())


def _is_written(op: Any) -> bool:
    """Whether a kernel may hold a reduction."""
    inner = op.regions[0].blocks[0].operations
    return len(inner) == 2 and base_name(inner[0].name) in REDUCTIONS and not is_half(hlo.dtype_of(op.results[0]))
