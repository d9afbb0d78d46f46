"""What is computed element by element of arrays that lie in memory, as one dispatch.

IREE makes one, too; but this one is compiled while IREE decides on the rest, and keeps to it what is left for IREE:
`x + 1` takes 42 instead of 53 ms to compile, a gelu 68 instead of 82. us a call, of float32 on two cores, by each:
gelu of 1000000 637 and 526, tanh of 999x1001 471 and 424, log1p(x) ** 1.5 of 1000000 1083 and 931; of bfloat16, with
AVX-512, gelu 1131 and 711.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import MOST_IN_A_ROW, VIEWS, Body, checked, is_line
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._followers import FusedKernel, in_order, in_place
from veery_lowering.kernels._forms import Buffer, Form, Lazy, View, leaves, whole
from veery_lowering.kernels._lifetimes import RESHAPE
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._reading import detail_of
from veery_lowering.mlir import base_name, ir, maker

# Operations: what has more takes long to compile.
MOST_TOGETHER = 400
# Elements for which a workgroup is worth its start, and how many there are at most.
_LEAST_SHARE = 1 << 13
_MOST_WORKGROUPS = 64
# Elements of an array that is read across its rows: of more of them a cache does not keep the lines that are read.
# 64x64 take 7 us as by IREE, 128x128 38 and 17.
_MOST_ACROSS = 1 << 12
_ENDS = ("func.return", "func.call", "stablehlo.optimization_barrier")
_IN_MEMORY = ("func.call", "stablehlo.optimization_barrier")


def is_end(op: Any) -> bool:
    """Whether an operation is elementwise, and of its result all else is computed by kernels or behind a barrier."""
    if base_name(op.name) not in ELEMENTWISE or len(op.results) != 1:
        return False
    users = list(_users(op.results[0]))
    return bool(users) and all(name in _ENDS for name in users)


def _users(value: Any) -> Iterator[str]:
    """The names of the operations that read an array, in any shape."""
    for use in value.uses:
        if use.owner.name == RESHAPE:
            yield from _users(use.owner.results[0])
        else:
            yield use.owner.name


class ElementKernel(FusedKernel):
    """What is computed element by element as an executable.

    Args:
        op: the last operation; what it reads is computed with it.
        machine: what it is written for.
        donated: values in whose place results may be written.

    Raises:
        Unfit: it cannot be written so, or IREE computes it with something else.
    """

    form = "element by element"

    def __init__(self, op: Any, machine: Machine, donated: Collection[Any]) -> None:
        self.op = self.before = op
        (result,) = op.results
        self.shape, dtype = checked(result)
        size = math.prod(self.shape)
        if dtype.kind == "b" or size == 1:
            raise Unfit(f"{dtype} of shape {self.shape}")
        self.inside, read = self._gathered()
        self.body = Body(machine)
        forms: dict[Any, Form] = {x: self._lies(x) for x in read}
        for value in self.inside:
            of = value.owner
            operands = tuple(forms[x] for x in of.operands)
            forms[value] = form = Lazy(base_name(of.name), detail_of(of), operands, checked(value)[1])
            if form.depth > MOST_IN_A_ROW:
                raise Unfit("many operations in a row")
        target = Buffer("%out", dtype, size)
        workgroups = max(1, min(size // _LEAST_SHARE, _MOST_WORKGROUPS))
        self.body.nests.divide(workgroups)
        shared = in_place(self.body.inputs, donated, leaves(forms[result]), [target])
        self.body.nests.fill(whole(target, self.shape), forms[result], size, once=bool(shared))
        self.results = {result: target}
        self.executable = Executable(self.body.out, self.body.inputs, [target], workgroups, in_place=shared)

    def _gathered(self) -> tuple[list[Any], list[Any]]:
        """The values that are computed, in their order, and those that are read."""
        (result,) = self.op.results
        found: dict[Any, None] = {result: None}
        read: dict[Any, None] = {}
        waiting = [result]
        while waiting:
            for x in waiting.pop().owner.operands:
                shape, dtype = checked(x)
                if shape not in (self.shape, ()):
                    raise Unfit(f"{dtype} of shape {shape}")
                if _lies_in_memory(x):
                    read[x] = None
                elif base_name(maker(x)) not in ELEMENTWISE or shape != self.shape:
                    raise Unfit(f"IREE computes {base_name(maker(x))}")
                elif x not in found:
                    found[x] = None
                    waiting.append(x)
            if len(found) > MOST_TOGETHER:
                raise Unfit("many operations")
        inside = {value.owner.operation for value in found}
        if any(use.owner.operation not in inside for value in found if value != result for use in value.uses):
            raise Unfit("IREE computes something else of the same")
        return in_order(found), list(read)

    def _lies(self, value: Any) -> Form:
        form = self.body.read_through(value)
        across = isinstance(form, View) and form.strides[-1:] not in ((), (0,), (1,)) and self.shape[-1] > 1
        if across and math.prod(self.shape) > _MOST_ACROSS:
            raise Unfit("it is read across")
        return form


def _lies_in_memory(value: Any) -> bool:
    """Whether a value is an argument, a constant, made by a kernel or behind a barrier, or says how to read one.

    Numbers along an axis count as such.
    """
    while maker(value) in VIEWS:
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or hlo.is_constant(value) or is_line(value):
        return True
    return maker(value) in _IN_MEMORY
