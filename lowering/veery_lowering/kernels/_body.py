"""The operations of a loop as loop nests over buffers.

Elementwise results that one operation uses are computed there; everything else lies in memory, of which slices,
transposes, broadcasts and the like are views. A loop's arrays have a place each, which the end of a trip fills; what is
written in part (`dynamic_update_slice`) is written in place where nothing reads the old values afterwards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Lines, Unfit, elementwise, spelled, supported
from veery_lowering.kernels._forms import (
    Affine,
    Buffer,
    Form,
    Lazy,
    Taken,
    Uniform,
    View,
    half,
    leaves,
    row_major,
    whole,
)
from veery_lowering.kernels._lifetimes import RESHAPE, dies_in, is_updated
from veery_lowering.kernels._machine import Machine
from veery_lowering.kernels._nests import Nests, Point
from veery_lowering.kernels._reading import counted_axis, detail_of, static_shape
from veery_lowering.kernels._rounds import most_trips, overwritten, trips_of
from veery_lowering.mlir import ir, maker

# Bytes of memory beyond the stack, a result that nobody reads.
_MOST_SCRATCH = 4 << 20
# Elements of an array that a loop begins with. IREE updates larger ones in place, which costs less than the copy; but
# as much as 20 us, the copy of so many, in each trip.
_MOST_COPIED = 1 << 18
_COPIED_FOR_A_TRIP = 1 << 16
_TRIPS = 1 << 8  # of a loop for which they are not known
# Elements of a constant that a kernel has in its text: what programs are given of them is a global for IREE, for which
# its passes do as much again. A step of training a network whose loss looks up the labels' terms, with all of its 12
# kernels known, takes 57 instead of 90 ms of them.
_MOST_WRITTEN = 64
# Bytes of numbers along an axis that a kernel writes itself rather than reads them for each element.
_LONGEST_LINE = 16 << 10
EXACT = 4  # bytes of numbers of which sums of so many are exact
# Elementwise operations in a row that are computed where the last one is used: what writes them calls itself for each.
# Fewer would part what random numbers are made of, whose products and sums are then rounded in other places.
MOST_IN_A_ROW = 200

VIEWS = frozenset("stablehlo.broadcast_in_dim stablehlo.reshape stablehlo.slice stablehlo.transpose".split())

OPERATIONS: dict[str, Callable[[Body, Any], Form | None]] = {}


def writes(*names: str) -> Callable[[Callable[[Body, Any], Form | None]], Callable[[Body, Any], Form | None]]:
    """Say that a function writes an operation; it returns the form of its result, or sets it itself."""

    def register(function: Callable[[Body, Any], Form | None]) -> Callable[[Body, Any], Form | None]:
        OPERATIONS.update(dict.fromkeys(names, function))
        return function

    return register


class Body:
    """Writes operations, and what they need from outside.

    Attributes:
        inputs: the buffers of arrays from outside.
        scratch: memory beyond the stack.
        before: operations in the loop that are to be moved out: constants.
        in_place: names of the buffers that a trip writes to before its end.
        destined: where the values go that are results.
    """

    def __init__(self, machine: Machine) -> None:
        self.out = Lines()
        self.nests = Nests(self.out, machine)
        self.inputs: dict[Any, Buffer] = {}
        self.scratch: list[Buffer] = []
        self.before: list[Any] = []
        self.in_place: set[str] = set()
        self.destined: Mapping[Any, View] = {}
        self._stack = 0
        self._workgroups, self._workgroup = 1, ""
        self._env: dict[Any, Form] = {}
        self._inside: set[Any] = set()
        self._users: dict[Any, Any] = {}
        self._turned: dict[Any, View] = {}
        self._lines: dict[tuple[int, np.dtype], View] = {}
        self._trips: float = 1  # of the outermost loop, which counts as one where work is counted

    # Values.

    def read(self, value: Any) -> Form:
        """A value of the loop, or from outside."""
        if value not in self._env:
            if value in self._inside:
                raise Unfit("a value without a form")
            self._env[value] = self._from_outside(value)
        return self._env[value]

    def read_through(self, value: Any) -> Form:
        """A value from outside, where it lies in memory: what says how to read another one is looked through."""
        if maker(value) in VIEWS:
            self.read_through(value.owner.operands[0])
            self.operation(value.owner)
        return self.read(value)

    def _from_outside(self, value: Any) -> Form:
        shape, dtype = checked(value)
        element = hlo.splat_of(value)
        if element is not None:
            return Uniform(self.out.constant(element, dtype, ""), dtype)
        if math.prod(shape) <= _MOST_WRITTEN and self._is_on_stack(shape, dtype):
            elements = hlo.elements_of(value)
            if elements is not None:
                return self._written(elements)
        if is_line(value) and self.nests.machine.has_vectors:
            axis = counted_axis(value.owner)
            if self._is_on_stack((shape[axis],), dtype):
                return self.line(shape[axis], dtype).spread(shape, [axis])
        if hlo.is_constant(value) and value.owner not in self.before:
            self.before.append(value.owner)
        buffer = self.inputs[value] = Buffer(f"%in{len(self.inputs)}", dtype, math.prod(shape))
        if buffer.size > 1:
            return whole(buffer, shape)
        with self.nests.first():
            return Uniform(self.nests.load(whole(buffer, (1,)), Affine(), 0, 1), dtype)

    def line(self, size: int, dtype: np.dtype) -> View:
        """0, 1, 2, ... in memory, written where the kernel begins."""
        if size <= _MOST_WRITTEN:
            return self._written(np.arange(size).astype(dtype))
        if (size, dtype) not in self._lines:
            self._lines[size, dtype] = made = self.temporary((size,), dtype)
            with self.nests.first():
                for width, starts in self.nests.chunks(size, dtype, False, (1,)):
                    self.nests.each(starts, functools.partial(self._count, made, width))
        return self._lines[size, dtype]

    def _count(self, line: View, width: int, start: Affine) -> None:
        out, dtype, shape = self.out, line.dtype, f"{width}x" if width > 1 else ""
        number = out.add(f"arith.index_cast {self.nests.position(start)} : index to i64")
        number = elementwise(out, "convert", "", [number], np.dtype(np.int64), dtype, "")
        if shape:
            number = out.add(f"vector.broadcast {number} : {spelled(dtype)} to {spelled(dtype, shape)}")
        first = out.constants(np.arange(width).astype(dtype))
        self.nests.store(elementwise(out, "add", "", [number, first], dtype, dtype, shape), line, start, 1, width)
        self.nests.forget()

    def _written(self, elements: np.ndarray) -> View:
        """A constant, written to memory where the kernel begins."""
        made = self.temporary(elements.shape, elements.dtype)
        with self.nests.first():
            name = self.out.constants(elements.reshape(-1))
            self.nests.store(name, whole(made.buffer, (elements.size,)), Affine(), 1, elements.size)
        return made

    def half(self, value: Any, part: int) -> Form:
        """The real (0) or imaginary parts (1) of complex numbers from outside."""
        shape, dtype = static_shape(value), hlo.dtype_of(value)
        if value not in self.inputs:
            name, size = f"%in{len(self.inputs)}", 2 * math.prod(shape)
            self.inputs[value] = Buffer(name, np.dtype(f"f{dtype.itemsize // 2}"), size, is_paired=True)
        return half(self.inputs[value], shape, part)

    def memory(self, value: Any) -> View | Uniform:
        """A value that lies in memory, or has equal elements."""
        form = self._env[value] = self.kept(self.read(value), static_shape(value), value)
        return form

    def number(self, value: Any) -> str:
        """The name of a value of one element."""
        form = self.memory(value)
        if not isinstance(form, Uniform):
            raise Unfit("a number in memory")
        return form.name

    def divide(self, workgroups: int, workgroup: str) -> None:
        """Have each of so many workgroups, of this number, its own of all memory that is taken from now on."""
        self._workgroups, self._workgroup = workgroups, workgroup

    def temporary(self, shape: Sequence[int], dtype: np.dtype) -> View:
        """New memory."""
        size = math.prod(shape)
        if self._is_on_stack(shape, dtype):
            buffer = Buffer(self.out.new(), dtype, size)
            self._stack += size * dtype.itemsize
            given = "<{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>"
            self.out.head.append(f'{buffer.name} = "memref.alloca"() {given} : () -> {buffer.type}')
            return whole(buffer, shape)
        buffer = Buffer(self.out.new(), dtype, size * self._workgroups)
        self.scratch.append(buffer)
        if sum(b.size * b.dtype.itemsize for b in self.scratch) > _MOST_SCRATCH:
            raise Unfit("too much memory")
        start = Affine(0, ((self._workgroup, size),)) if self._workgroups > 1 else Affine()
        return View(buffer, tuple(shape), row_major(shape), start)

    def _is_on_stack(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        return self._stack + math.prod(shape) * dtype.itemsize <= self.nests.machine.stack

    def kept(self, form: Form, shape: Sequence[int], value: Any = None) -> View | Uniform:
        """A value that is computed now: in memory unless it is one number; which one it is tells where it goes."""
        if isinstance(form, Lazy | Taken):
            if not leaves(form) or math.prod(shape) == 1:
                return Uniform(Point(self.nests, leaves(form), 1, None).vector(form), form.dtype)
            return self.copied(form, shape, value)
        if isinstance(form, View) and math.prod(shape) == 1:
            return Uniform(self.nests.load(form, form.offset, 0, 1), form.dtype)
        return form

    def copied(self, form: Form, shape: Sequence[int], value: Any = None) -> View:
        """A value in memory of its own."""
        target = self.place(shape, form.dtype, value)
        self.nests.fill(target, form)
        return target

    def place(self, shape: Sequence[int], dtype: np.dtype, value: Any) -> View:
        """Where a value is written: where it goes if it is a result, in new memory else."""
        found = self.destined.get(value)
        return found if found is not None and found.dtype == dtype else self.temporary(shape, dtype)

    def uses(self, view: View) -> float:
        """How often a copy of a view is used that is made now: of what loops do not change one serves all trips."""
        return self.out.times * self._trips if self._stays(view) else 1

    def turned(self, view: View, order: Sequence[int]) -> View:
        """A view with its axes in another order, copied so that they lie in memory like that."""
        other = view.permuted(order)
        if not self._stays(view):
            return self.copied(other, other.shape)
        key = other.buffer, other.shape, other.strides, other.offset
        if key not in self._turned:
            with self.nests.first():
                self._turned[key] = self.copied(other, other.shape)
        return self._turned[key]

    def _stays(self, view: View) -> bool:
        """Whether a view is the same, of the same, wherever it is read."""
        is_given = view.buffer in self.inputs.values() and not view.offset.terms
        return is_given and self.nests.machine.has_vectors and self._workgroups == 1

    def set(self, value: Any, form: Form) -> None:
        """Give a value the form that it is to have."""
        self._env[value] = form

    # Operations.

    def block(self, block: Any, arguments: Sequence[Form]) -> list[Any]:
        """Write the operations of a block; returns the operands of its last one."""
        for argument, form in zip(block.arguments, arguments):
            self.set(argument, form)
        operations = list(block.operations)
        for op in operations[:-1]:
            self.operation(op)
        return list(operations[-1].operands)

    def operation(self, op: Any) -> None:
        """Write an operation, unless that was done before the loop."""
        dialect, _, name = op.name.partition(".")
        if dialect != "stablehlo":
            raise Unfit(op.name)
        if name == "constant" or op.results[0] in self._env:
            return
        if name in OPERATIONS:
            form = OPERATIONS[name](self, op)
        elif name in ELEMENTWISE:
            _, dtype = checked(op.results[0])
            form = Lazy(name, detail_of(op), tuple(map(self.read, op.operands)), dtype)
        else:
            raise Unfit(op.name)
        if form is not None:
            self.set(op.results[0], self._settled(op, form))

    def _settled(self, op: Any, form: Form) -> Form:
        """Compute a result now if it is one number, has several users, or reads what the trip overwrites."""
        shape, _ = checked(op.results[0])
        if op.name != RESHAPE and any(view.buffer.name in self.in_place for view in leaves(form)):
            return self.copied(form, shape) if math.prod(shape) > 1 else self.kept(form, shape)
        if isinstance(form, Lazy) and form.depth < MOST_IN_A_ROW and leaves(form) and math.prod(shape) > 1:
            return form if self._user(op) is not None else self.kept(form, shape)
        return self.kept(form, shape)

    def _user(self, op: Any) -> Any:
        """The one operation for which a result is computed there; None if there is none such."""
        waiting = [op]
        while waiting:  # users first; there may be more in a row than Python calls functions within functions
            (result,) = waiting[-1].results
            known = result in self._users
            unknown = [] if known else [x for x in _passing(waiting[-1]) if x.results[0] not in self._users]
            if unknown:
                waiting += unknown
            else:
                waiting.pop()
                if result not in self._users:
                    users = {self._computed_for(result, use.owner, use.operand_number) for use in result.uses}
                    self._users[result] = users.pop() if len(users) == 1 else None
        return self._users[op.results[0]]

    def _computed_for(self, value: Any, user: Any, number: int) -> Any:
        if user.operation.block != value.owner.operation.block:
            return None
        name = user.name.partition(".")[2]
        if name == "return":
            return "return", number
        (result,) = list(user.results)[:1]
        if _passes_on(value, user):
            return self._users[result] or result
        reads_once = (name == "reduce" and number == 0) or name in ("concatenate", "custom_call")
        return result if reads_once or (name == "dynamic_update_slice" and number == 1) else None

    # Loops.

    def invariants(self, loop: Any) -> None:
        """Compute what does not depend on the trip, before the loop."""
        self._inside = {x for x in _defined(loop) if not hlo.is_constant(x)}
        self._invariants(loop, lambda x: x not in self._inside or x in self._env)

    def _invariants(self, loop: Any, known: Callable[[Any], bool]) -> None:
        for region in loop.regions:
            for op in region.blocks[0].operations:
                if op.name == "stablehlo.while":
                    self._invariants(op, known)
                elif _is_movable(op) and all(map(known, reads(op))):
                    self.operation(op)
                    for x in op.results:
                        if x in self._env:
                            self.memory(x)

    def places(self, loop: Any) -> list[View | None]:
        """Memory for the arrays that a loop carries, where it can be that in which they are; None for numbers."""
        return self.results_in(loop.operands, [self.own(x, loop) for x in loop.operands])

    def results_in(self, values: Sequence[Any], owned: Sequence[View | None]) -> list[View | None]:
        """Memory for arrays like some values, each its own, new where it has none; None for numbers."""
        found: list[View | None] = []
        for value, view in zip(values, owned):
            shape, dtype = checked(value)
            if math.prod(shape) == 1:
                found.append(None)
            elif view is None or any(view.buffer == other.buffer for other in found if other):
                found.append(self.temporary(shape, dtype))
            else:
                found.append(whole(view.buffer, shape))
        return found

    def own(self, value: Any, op: Any) -> View | None:
        """The memory of an array that an operation may overwrite; None if there is none."""
        form = self._env.get(value)
        if not isinstance(form, View) or form.buffer.name not in self.in_place or not dies_in(value, op):
            return None
        return form if is_same(whole(form.buffer, (form.buffer.size,)), form) else None

    def loop(self, loop: Any, places: Sequence[View | None], times: float | None = None) -> None:
        """Write a loop whose arrays are in these places; `times` are its trips, as `repeated` counts them."""
        condition, body = (region.blocks[0] for region in loop.regions)
        starts = []
        most_copied = _MOST_COPIED if times is None else self._most_copied(loop)
        if times is not None:
            self._trips = most_trips(loop)
        lost = overwritten(loop)
        for i, (place, x) in enumerate(zip(places, loop.operands)):
            if place is None:
                starts.append(self.number(x))
            elif i not in lost:
                start = self.read(x)
                most = math.prod(place.shape) if isinstance(start, Uniform) else most_copied
                if not is_same(place, start):
                    self.nests.fill(place, start, most)
        before = set(self.in_place)
        self.in_place -= {place.buffer.name for place in places if place is not None}
        dtypes = [hlo.dtype_of(x) for x in loop.operands]
        types = [spelled(dtype) for place, dtype in zip(places, dtypes) if place is None]
        names = [[self.out.new() for _ in types] for _ in range(2)]
        result, joined, lines = self.out.new(), ", ".join(types), self.out.lines
        carried = ", ".join(f"{a} = {b}" for a, b in zip(names[0], starts))
        results = f"{result}:{len(types)} = " if types else ""
        lines.append(f"{results}scf.while ({carried}) : ({joined}) -> ({joined}) {{")
        typed = f" : {joined}" if types else ""
        with self.out.repeated(most_trips(loop) if times is None else times):
            with self.nests.apart():
                (goes_on,) = self.block(condition, _forms(places, dtypes, names[0]))
                lines.append(f"scf.condition({self.number(goes_on)}) {', '.join(names[0])}{typed}")
            arguments = ", ".join(f"{a}: {t}" for a, t in zip(names[1], types))
            lines += ["} do {", *([f"^bb0({arguments}):"] if types else [])]
            with self.nests.apart():
                self._trip(body, places, _forms(places, dtypes, names[1]), typed)
        lines.append("}")
        self.in_place = before
        for x, form in zip(loop.results, _forms(places, dtypes, [f"{result}#{i}" for i in range(len(types))])):
            self.set(x, form)

    def _most_copied(self, loop: Any) -> int:
        """The most elements of an array that the outermost loop begins with, which is copied once."""
        if not self.nests.machine.has_vectors:
            return _MOST_COPIED
        trips = trips_of(loop)
        return max(_MOST_COPIED, (_TRIPS if trips is None else trips) * _COPIED_FOR_A_TRIP)

    def _trip(self, body: Any, places: Sequence[View | None], arguments: Sequence[Form], typed: str) -> None:
        before = set(self.in_place)
        for argument, place in zip(body.arguments, places):
            if place is not None and is_updated(argument):
                self.in_place.add(place.buffer.name)
        ends = self.block(body, arguments)
        yielded = [self.number(x) for place, x in zip(places, ends) if place is None]
        self.write_back([(place, self.read(x)) for place, x in zip(places, ends) if place is not None])
        self.out.lines.append(f"scf.yield {', '.join(yielded)}{typed}")
        self.in_place = before

    def write_back(self, ends: list[tuple[View, Form]]) -> None:
        """Fill the places of arrays at the end of a trip or a branch, each when nothing else reads its old values."""
        rest = [(place, form) for place, form in ends if not is_same(place, form)]
        copied = []
        while rest:
            others: Callable[[int], Any] = lambda k: (form for j, (_, form) in enumerate(rest) if j != k)
            free = next((k for k, (place, form) in enumerate(rest) if _may_fill(place, form, others(k))), None)
            if free is not None:
                self.nests.fill(*rest.pop(free))
            else:
                place, form = rest.pop(0)
                copied.append((place, self.copied(form, place.shape)))
        for place, form in copied:
            self.nests.fill(place, form)


def _is_movable(op: Any) -> bool:
    """Whether an operation is computed before a loop where nothing that it reads is of that."""
    return len(op.results) == 1 and not hlo.is_constant(op.results[0]) or op.name == "stablehlo.custom_call"


_LAZY_MOVES = frozenset("reshape transpose slice reverse".split())


def _passes_on(value: Any, user: Any) -> bool:
    """Whether an operation that reads a value is computed where its own result is used."""
    name = user.name.partition(".")[2]
    return name in ELEMENTWISE or (name in _LAZY_MOVES and len(list(value.uses)) == 1)


def _passing(op: Any) -> list[Any]:
    """The operations in the same block that pass on what an operation computes."""
    (result,) = op.results
    users = [use.owner for use in result.uses]
    return [user for user in users if user.operation.block == op.operation.block and _passes_on(result, user)]


def is_written_out(value: Any) -> bool:
    """Whether a value is a constant that kernels may have in their text."""
    if not hlo.is_constant(value):
        return False
    return (
        math.prod(static_shape(value)) <= _MOST_WRITTEN
        or ir.DenseElementsAttr(value.owner.attributes["value"]).is_splat
    )


def is_line(value: Any) -> bool:
    """Whether a value is numbers along an axis, which a kernel writes itself: what it would read is larger."""
    if maker(value) != "stablehlo.iota":
        return False
    size, dtype = static_shape(value)[counted_axis(value.owner)], hlo.dtype_of(value)
    return dtype.itemsize >= EXACT and size * dtype.itemsize <= _LONGEST_LINE


def checked(value: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of a value that a kernel can hold.

    Raises:
        Unfit: it cannot.
    """
    shape, dtype = static_shape(value), hlo.dtype_of(value)
    if not supported(dtype) or 0 in shape:
        raise Unfit(f"{dtype} of shape {shape}")
    return shape, dtype


def _forms(places: Sequence[View | None], dtypes: Sequence[np.dtype], names: Sequence[str]) -> list[Form]:
    rest = iter(names)
    return [Uniform(next(rest), dtype) if place is None else place for place, dtype in zip(places, dtypes)]


def _defined(loop: Any) -> set[Any]:
    """The arguments and results in a loop."""
    found: set[Any] = set()
    for region in loop.regions:
        block = region.blocks[0]
        found.update(block.arguments)
        for op in block.operations:
            found.update(op.results)
            found |= _defined(op)
    return found


def reads(op: Any) -> set[Any]:
    """What an operation reads, in its blocks too."""
    inner = [inner for region in op.regions for block in region.blocks for inner in block.operations]
    return set(op.operands).union(*map(reads, inner)) - _defined(op)


def is_same(place: View, form: Form) -> bool:
    """Whether a value lies in a place already."""
    return (
        isinstance(form, View)
        and form.buffer == place.buffer
        and (form.offset, form.is_contiguous) == (place.offset, True)
        and math.prod(form.shape) == math.prod(place.shape)
    )


def _may_fill(place: View, form: Form, others: Any) -> bool:
    """Whether a place can be filled at once: its old values are read element by element, and by nothing else."""
    if any(view.buffer == place.buffer for other in others for view in leaves(other)):
        return False
    return all(is_same(place, view) for view in leaves(form) if view.buffer == place.buffer)
