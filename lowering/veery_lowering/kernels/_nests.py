r"""Loop nests over arrays in buffers, as MLIR text.

`Nests.fill` writes a value to memory, `Nests.fold` sums over axes. Both go through the places of a nest, each a
`Point`, at which the expression of a value (a `Form`) becomes text. The innermost loop takes vectors, and loops of few
trips are written out: here is `y = x + 1` of 20 floats.

>>> import numpy as np
>>> from veery_lowering.kernels._forms import Buffer, Lazy, Uniform, whole
>>> out, f4 = Lines(), np.dtype(np.float32)
>>> x, y = (whole(Buffer(name, f4, 20), (20,)) for name in ("%x", "%y"))
>>> one = Uniform(out.constant(1.0, f4, ""), f4)
>>> Nests(out).fill(y, Lazy("add", "", (x, one), f4))
>>> print("\n".join(out.lines))
%v3 = vector.load %x[%v2] : memref<20xf32>, vector<16xf32>
%v5 = arith.addf %v3, %v4 : vector<16xf32>
vector.store %v5, %y[%v2] : memref<20xf32>, vector<16xf32>
%v7 = vector.load %x[%v6] : memref<20xf32>, vector<4xf32>
%v9 = arith.addf %v7, %v8 : vector<4xf32>
vector.store %v9, %y[%v6] : memref<20xf32>, vector<4xf32>
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from veery_lowering.kernels._arithmetic import NEUTRAL, Lines, Unfit, elementwise, is_rounded, spelled
from veery_lowering.kernels._forms import Affine, Form, Lazy, Taken, Uniform, View, as_bytes, leaves, nodes, stored
from veery_lowering.kernels._machine import CPU, Machine

# Bytes of a vector, which is a register or several, and how many vectors a value takes at once: as many operations are
# under way. LLVM keeps vectors of three nowhere: 50 trips of `tanh(h @ w)`, h of 3x96, take 330 us with them, else 47;
# of 3x300 3000 and 180.
_VECTOR = 64
_VECTORS = (4, 2, 1)
# The same of long values, of which four registers are under way: of 200,000 tanh, exp or gelu take the same time with
# eight of 32 bytes, sines 1.04 of it, softplus 0.87, the sum of 4096 gelus 0.55; with eight LLVM takes 1.5 of the time.
_VECTORS_OF_LONG = {64: _VECTORS}
# The same where several rows are added up at once. There are 32 registers of 64 bytes, of others 16: h of 16x128 takes
# 460 us on a machine with those; with four vectors, whose sums do not fit, 1000.
_VECTORS_OF_ROWS = {64: _VECTORS}
# Of a single sum: of 2000x1000 elements it takes 205 us by 16 vectors of each row, by four 337, by one 1100.
_VECTORS_OF_SUMS = {64: (16, 8, *_VECTORS)}
# Values from which each term is computed: of more, so many vectors of all of them do not fit in the registers.
_FEW_VALUES = 8
# How far elements are apart, at most, that are read or written together with those between them.
_MOST_APART = 4
ALTERNATING = range(2, _MOST_APART + 1)
# Loops of up to so many trips are written out, unless each computes more than so many values: four sines in a row of
# 100 numbers take 440 ms to compile when their three trips are written out, and 150 in one text with what is left.
_UNROLLED = 4
_MOST_WRITTEN_OUT = 32
# Rows of a sum that are added up at the same time: what they share is read once.
_ROWS = 4
# Terms of a float that are added up one after the other before they are added to others: as many as NumPy does.
_IN_A_ROW = 128
# In instructions: reading one element for all lanes, and adding up the lanes.
_READ_OF_ALL = 0.5
_SUM_OF_LANES = 8


Step = Callable[[str, "Point"], str]  # from what was added up so far, and a point, to the next


@dataclass(frozen=True)
class Axis:
    """A loop of a nest: its number of trips, and how far a trip goes in each of the nest's views."""

    size: int
    strides: tuple[int, ...]  # in each view


class Point:
    """A place of a nest: where each view is read there, and how many elements at once along one axis.

    Args:
        nests: writes the text.
        views: the arrays that the nest goes over.
        width: how many elements are taken at once.
        lane: the axis along which they lie; None where there is one element.
    """

    def __init__(self, nests: Nests, views: Sequence[View], width: int, lane: Axis | None) -> None:
        self.nests, self.width = nests, width
        self._at = {id(view): view.offset for view in views}
        self._step = {id(view): lane.strides[i] if lane else 0 for i, view in enumerate(views)}
        self._views = views
        self._made: dict[int, tuple[str, bool]] = {}

    def moved(self, places: Sequence[tuple[Axis, Affine]]) -> Point:
        """The place that is so many steps further along each of some axes."""
        copy = Point(self.nests, (), self.width, None)
        copy._step, copy._views = self._step, self._views
        copy._at = {
            id(view): functools.reduce(
                operator.add, (place * axis.strides[i] for axis, place in places), self._at[id(view)]
            )
            for i, view in enumerate(self._views)
        }
        return copy

    @property
    def shape(self) -> str:
        """The vector's part of a type, as in `vector<8xf32>`: "8x", or "" for a scalar."""
        return f"{self.width}x" if self.width > 1 else ""

    def vector(self, form: Form) -> str:
        """A value here, as a vector (a scalar where the width is one)."""
        name, uniform = self._value(form)
        return self.nests.spread(name, form.dtype, self.width) if uniform else name

    def _value(self, form: Form) -> tuple[str, bool]:
        """A value here, and whether it is a scalar for all lanes."""
        if id(form) not in self._made:
            self._made[id(form)] = self._make(form)
        return self._made[id(form)]

    def _make(self, form: Form) -> tuple[str, bool]:
        if isinstance(form, Uniform):
            return form.name, True
        if isinstance(form, View):
            return self._read(form, form)
        if isinstance(form, Taken):
            return self._taken(form)
        if form.name == "convert" and _is_of_booleans(form.operands[0]) and form.dtype.kind != "b":
            return self._number(form)
        operands = [self._value(x) for x in form.operands]
        uniform = all(u for _, u in operands)
        names = [
            x if u == uniform else self.nests.spread(x, of.dtype, self.width)
            for (x, u), of in zip(operands, form.operands)
        ]
        shape = "" if uniform else self.shape
        of = form.operands[-1].dtype
        key = form.name, form.detail, *names, of, form.dtype, shape
        make = lambda: elementwise(self.nests.out, form.name, form.detail, names, of, form.dtype, shape)
        return self.nests.once(key, make), uniform

    def _read(self, view: View, elements: View) -> tuple[str, bool]:
        """What is read where a view is here, of the same memory."""
        at, step = self._at[id(view)], self._step[id(view)] if self.width > 1 else 0
        key = view.buffer.name, elements.dtype, at, step, self.width if step else 1
        return self.nests.once(key, lambda: self.nests.load(elements, at, step, self.width)), step == 0

    def _number(self, form: Lazy) -> tuple[str, bool]:
        """Booleans as numbers, which they are in memory."""
        view = form.operands[0]
        assert isinstance(view, View)
        elements = as_bytes(view)
        name, uniform = self._read(view, elements)
        shape = "" if uniform else self.shape
        make = lambda: elementwise(self.nests.out, "convert", "", [name], elements.dtype, form.dtype, shape)
        return self.nests.once(("convert", "", name, elements.dtype, form.dtype, shape), make), uniform

    def _taken(self, form: Taken) -> tuple[str, bool]:
        numbers = [self._value(x) for x in form.numbers]
        at, step = self._at[id(form.base)], self._step[id(form.base)] if self.width > 1 else 0
        nests, buffer = self.nests, form.base.buffer.name

        def place(lane: int) -> Affine:
            found = at + lane * step
            for (name, uniform), number, stride in zip(numbers, form.numbers, form.strides):
                found = found + nests.number(name, number.dtype, 0 if uniform else self.width, lane) * stride
            return found

        if all(uniform for _, uniform in numbers):
            start = place(0)
            read = lambda: nests.load(form.base, start, step, self.width)
            return nests.once((buffer, form.dtype, start, step, self.width if step else 1), read), step == 0

        def read_each() -> str:
            elements = [nests.load(form.base, place(lane), 0, 1) for lane in range(self.width)]
            return nests.out.add(f"vector.from_elements {', '.join(elements)} : {spelled(form.dtype, self.shape)}")

        return nests.once((buffer, at, step, *numbers), read_each), False

    def store(self, name: str, view: View, together: int = 0) -> None:
        """Write a value to where a view is here; with `together`, so many for each element, which are adjacent."""
        step, width = (1, self.width * together) if together else (self._step[id(view)], self.width)
        self.nests.store(name, view, self._at[id(view)], step, width)


class Nests:
    """Writes nests as lines of MLIR.

    A value that was read or computed is not read or computed a second time in the same region of the text, until
    something is written to memory. `_known` has the names of such values, for each region that is open, the innermost
    one last.

    Args:
        out: where the lines go.
        machine: what they are written for.
    """

    def __init__(self, out: Lines, machine: Machine = CPU) -> None:
        self.out, self.machine = out, machine
        self._known: list[dict[object, str]] = [{}]
        self._workgroups, self._workgroup = 1, ""
        self._unrolled = _UNROLLED

    def divide(self, workgroups: int) -> None:
        """Have each of so many workgroups write a part of what is filled from now on."""
        self._workgroups, self._workgroup = workgroups, self.workgroup()

    def workgroup(self) -> str:
        """The number of the workgroup."""
        name = self.out.new()
        self.out.head.append(f"{name} = hal.interface.workgroup.id[0] : index")
        return name

    # Text.

    def once(self, key: object, make: Callable[[], str]) -> str:
        """The name of a value: the one that is known by `key`, or what `make` writes."""
        for known in self._known:
            if key in known:
                return known[key]
        name = self._known[-1][key] = make()
        return name

    @contextmanager
    def region(self) -> Iterator[None]:
        """A region of the text, such as the body of a loop: values that are made in it are not known behind it."""
        self._known.append({})
        yield
        self._known.pop()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """A region that runs at another time than what is around it: what was read in one is read anew in the other."""
        self.forget()
        yield
        self.forget()

    @contextmanager
    def first(self) -> Iterator[None]:
        """What is done once, before all else, so that nothing is known that is read or computed elsewhere."""
        known, self._known = self._known, [{}]
        with self.out.first():
            yield
        self._known = known

    def forget(self) -> None:
        """Something was written to memory, so that values must be read again.

        Raises:
            Unfit: the text has become longer than a kernel may be.
        """
        for known in self._known:
            known.clear()
        if len(self.out.lines) > self.machine.most_lines:
            raise Unfit("more than fits into a kernel")

    def position(self, at: Affine) -> str:
        """The name of an index: a constant, and loop counters times factors, added up."""
        if not at.terms:
            return self.out.index(at.constant)
        total = self.once(("position", at.terms), lambda: functools.reduce(self._sum, map(self._multiple, at.terms)))
        return self._sum(total, self.out.index(at.constant)) if at.constant else total

    def _multiple(self, term: tuple[str, int]) -> str:
        name, factor = term
        if factor == 1:
            return name
        return self.once(term, lambda: self.out.add(f"arith.muli {name}, {self.out.index(factor)} : index"))

    def _sum(self, a: str, b: str) -> str:
        return self.once(("sum", a, b), lambda: self.out.add(f"arith.addi {a}, {b} : index"))

    def number(self, name: str, dtype: np.dtype, width: int = 0, lane: int = 0) -> Affine:
        """An integer that is not negative as a position: a scalar, or of a vector of some width that of a lane."""
        scalar = spelled(dtype)
        if width:
            name = self.lane(name, dtype, width, lane)
        cast = "index_castui" if dtype.kind == "u" else "index_cast"
        return Affine.of(self.once(("index", name), lambda: self.out.add(f"arith.{cast} {name} : {scalar} to index")))

    def lane(self, name: str, dtype: np.dtype, width: int, lane: int) -> str:
        """An element of a vector."""
        types = f"{spelled(dtype)} from {spelled(dtype, f'{width}x')}"
        return self.once(("lane", name, lane), lambda: self.out.add(f"vector.extract {name}[{lane}] : {types}"))

    def spread(self, name: str, dtype: np.dtype, width: int) -> str:
        """A scalar in all lanes of a vector."""
        if width == 1:
            return name
        return self.once(("spread", name, width), lambda: self.out.spread(name, dtype, f"{width}x"))

    def load(self, view: View, at: Affine, step: int, width: int) -> str:
        """Read elements of a view: `width` of them from a place on, `step` apart.

        A vector is loaded where they are adjacent or nearly so, and reversed where they are so backwards. Others are
        read one by one. Where all lanes have the same element (a step of 0) it is a scalar. Bools are bytes in memory.
        """
        out, memory = self.out, view.buffer.type
        dtype, vector = stored(view.dtype), spelled(stored(view.dtype), f"{width}x")
        scalar: Callable[[Affine], str] = lambda place: out.add(
            f"memref.load {view.buffer.name}[{self.position(place)}] : {memory}"
        )
        if step == 0:
            name, width = scalar(at), 1
        elif step == 1:
            name = out.add(f"vector.load {view.buffer.name}[{self.position(at)}] : {memory}, {vector}")
        elif step == -1:
            place = self.position(at + (1 - width))
            name = out.add(f"vector.load {view.buffer.name}[{place}] : {memory}, {vector}")
            name = out.add(f"vector.shuffle {name}, {name} {list(range(width))[::-1]} : {vector}, {vector}")
        elif 1 < step <= _MOST_APART:
            all_of = spelled(stored(view.dtype), f"{(width - 1) * step + 1}x")
            name = out.add(f"vector.load {view.buffer.name}[{self.position(at)}] : {memory}, {all_of}")
            name = out.add(f"vector.shuffle {name}, {name} {[i * step for i in range(width)]} : {all_of}, {all_of}")
        else:
            elements = ", ".join([scalar(at + i * step) for i in range(width)])
            name = out.add(f"vector.from_elements {elements} : {vector}")
        if view.dtype.kind == "b":
            shape = f"{width}x" if width > 1 else ""
            return elementwise(out, "convert", "", [name], dtype, view.dtype, shape)
        return name

    def store(self, name: str, view: View, at: Affine, step: int, width: int) -> None:
        """Write elements, as `load` reads them."""
        out, memory = self.out, view.buffer.type
        dtype, shape = stored(view.dtype), f"{width}x" if width > 1 else ""
        name = elementwise(out, "convert", "", [name], view.dtype, dtype, shape)
        vector = spelled(dtype, shape)
        if width == 1:
            out.lines.append(f"memref.store {name}, {view.buffer.name}[{self.position(at)}] : {memory}")
        elif step == 1:
            out.lines.append(f"vector.store {name}, {view.buffer.name}[{self.position(at)}] : {memory}, {vector}")
        else:
            for i in range(width):
                element = out.add(f"vector.extract {name}[{i}] : {spelled(dtype)} from {vector}")
                place = self.position(at + i * step)
                out.lines.append(f"memref.store {element}, {view.buffer.name}[{place}] : {memory}")

    # Nests.

    def fill(self, target: View, form: Form, most: int = 0, once: bool = False) -> None:
        """Write a value to memory, element by element.

        Args:
            target: where it goes.
            form: the value, an expression of arrays of the target's shape.
            most: the number of elements from which on IREE's own dispatches are faster, if that is not the machine's.
            once: whether no element may be computed twice, since what is read may be where the value goes.

        Raises:
            Unfit: it has more.
        """
        count = math.prod(target.shape)
        if count > (most or self.machine.most_elements) and (most or count * len(nodes(form)) > self.machine.most_work):
            raise Unfit("a large array")
        if _is_of_booleans(form):
            target, form = as_bytes(target), as_bytes(form)
        views = [target, *leaves(form)]
        axes = merged(target.shape, views)
        lane = _lane(axes, False)
        outer = [axis for axis in axes if axis is not lane]
        shared = self._shared(axes, lane)
        values = len(nodes(form))
        is_long = values > _MOST_WRITTEN_OUT
        size = lane.size if lane else 1
        chunks = self.chunks(size, form.dtype, _is_strided(lane), self._vectors_of(values))
        may_repeat = not once and all(view.buffer != target.buffer for view in views[1:])
        overlaps = may_repeat and is_long and len(chunks) > 1
        if overlaps:  # what is left is computed together with some that is before it, which is computed again
            width = chunks[0][0]
            chunks = [(width, range(0, size, width))]

        def write(width: int, start: Affine, place: Sequence[tuple[Axis, Affine]]) -> None:
            point = Point(self, views, width, lane).moved([*place, *([(lane, start)] if lane else [])])
            point.store(point.vector(form), target)

        in_turn = functools.partial(self.each, unrolled=1 if _is_strided(lane) else None)

        def row(place: Sequence[tuple[Axis, Affine]]) -> None:
            for width, starts in chunks:
                inside = self._no_later(size - width) if overlaps else lambda start: start
                each = self._part if lane is shared and self._workgroups > 1 else in_turn
                each(starts, lambda start, width=width, inside=inside: write(width, inside(start), place))  # type: ignore[misc]

        with self._written_out(form):
            self.over(outer, row, shared)
        self.forget()

    @contextmanager
    def _written_out(self, *forms: Form) -> Iterator[None]:
        """Where loops of few trips are written out, unless long values are computed in them."""
        before = self._unrolled
        self._unrolled = _UNROLLED if len(nodes(*forms)) <= _MOST_WRITTEN_OUT else 1
        yield
        self._unrolled = before

    def _no_later(self, last: int) -> Callable[[Affine], Affine]:
        """What makes the last one of later places."""
        return lambda start: Affine.of(
            self.out.add(f"arith.minui {self.position(start)}, {self.out.index(last)} : index")
        )

    def fill_rows(
        self, targets: Sequence[View], forms: Sequence[Form], first: tuple[Affine, Affine] = (Affine(), Affine())
    ) -> None:
        """Write values of rows and columns to memory, all of them row by row: what they share is computed once.

        What is read may be where values go: of each element all is computed before any is written.

        Args:
            targets: where they go.
            forms: the values.
            first: the row and the column that are the first to be written.
        """
        views = [*targets, *{id(view): view for form in forms for view in leaves(form)}.values()]
        rows, lane = (Axis(n, tuple(view.strides[i] for view in views)) for i, n in enumerate(targets[0].shape))
        top, left = first

        def write(width: int, i: Affine, j: Affine) -> None:
            point = Point(self, views, width, lane).moved([(rows, i), (lane, j)])
            for name, target in [(point.vector(form), target) for form, target in zip(forms, targets)]:
                point.store(name, target)

        def whole_row(i: Affine) -> None:
            for width, starts in self.chunks(lane.size, targets[0].dtype, False, self._vectors_of(len(nodes(*forms)))):
                for start in starts:
                    write(width, i, Affine(start))

        def row(i: Affine) -> None:
            if left == Affine():
                whole_row(i)
                return
            self.out.lines.append(f"scf.if {self._is_zero(left)} {{")
            with self.region():
                whole_row(i)
            self.out.lines.append("} else {")
            with self.region():
                self._from(left, lane.size, lambda j: write(1, i, j))
            self.out.lines.append("}")

        if top == Affine():
            self.each(range(rows.size), row, 1)
        else:
            self._from(top, rows.size, row)
        self.forget()

    def _is_zero(self, place: Affine) -> str:
        return self.out.add(f"arith.cmpi eq, {self.position(place)}, {self.out.index(0)} : index")

    def _from(self, first: Affine, end: int, body: Callable[[Affine], None]) -> None:
        """Write something for each number from one on that is known at run time."""
        index, start = self.out.new(), self.position(first)
        self.out.lines.append(f"scf.for {index} = {start} to {self.out.index(end)} step {self.out.index(1)} {{")
        with self.region():
            body(Affine.of(index))
        self.out.lines.append("}")

    def interleave(self, targets: Sequence[View], forms: Sequence[Form]) -> None:
        """Write values to places that alternate: each target begins an element behind the one before it."""
        first, count = targets[0], len(targets)
        views = [first, *{id(view): view for form in forms for view in leaves(form)}.values()]
        axes = merged(first.shape, views)
        lane = next(axis for axis in axes if axis.strides[0] == count)
        shared = self._shared(axes, lane)

        def write(width: int, start: Affine, place: Sequence[tuple[Axis, Affine]]) -> None:
            point = Point(self, views, width, lane).moved([*place, (lane, start)])
            point.store(self._alternating([point.vector(form) for form in forms], first.dtype, width), first, count)

        def row(place: Sequence[tuple[Axis, Affine]]) -> None:
            for width, starts in self.chunks(lane.size, first.dtype, True):
                each = self._part if lane is shared and self._workgroups > 1 else self.each
                each(starts, lambda start, width=width: write(width, start, place))  # type: ignore[misc]

        self.over([axis for axis in axes if axis is not lane], row, shared)
        self.forget()

    def _alternating(self, names: Sequence[str], dtype: np.dtype, width: int) -> str:
        """A vector of an element of each value, then the next of each."""
        type_, count = spelled(dtype, f"{width}x"), len(names)
        if width == 1:
            return self.out.add(f"vector.from_elements {', '.join(names)} : {spelled(dtype, f'{count}x')}")
        rest = list(names) + [names[-1]] * (_MOST_APART - count if count > 2 else 0)
        length = width
        while len(rest) > 2:
            order, type_ = list(range(2 * length)), spelled(dtype, f"{length}x")
            rest = [
                self.out.add(f"vector.shuffle {a}, {b} {order} : {type_}, {type_}")
                for a, b in zip(rest[::2], rest[1::2])
            ]
            length *= 2
        type_, order = spelled(dtype, f"{length}x"), [k * width + i for i in range(width) for k in range(count)]
        return self.out.add(f"vector.shuffle {rest[0]}, {rest[1]} {order} : {type_}, {type_}")

    def lanes(self, dtype: np.dtype) -> int:
        """How many elements of a dtype a register holds; of bytes a fourth."""
        return _VECTOR // dtype.itemsize if dtype.itemsize > 1 else _VECTOR // 4

    def _vectors_of(self, values: int) -> Sequence[int]:
        """How many vectors are computed at once of what takes so many values, the most first."""
        return _VECTORS_OF_LONG.get(self.machine.register, (2, 1)) if values > _MOST_WRITTEN_OUT else _VECTORS

    def vectors_of_sums(self, values: int) -> Sequence[int]:
        """How many vectors of sums are made at once, the most first, whose terms are computed from so many values."""
        if values <= _FEW_VALUES:
            return _VECTORS_OF_SUMS.get(self.machine.register, _VECTORS)
        return self._vectors_of(values)

    def chunks(
        self, size: int, dtype: np.dtype, strided: bool, most: Sequence[int] = _VECTORS
    ) -> list[tuple[int, range]]:
        """Widths of what is taken at once to cover an axis, and where it starts; `most` are numbers of vectors."""
        if not self.machine.has_vectors:
            return [(1, range(size))] if size else []
        register = self.lanes(dtype)
        whole = size - size % register
        counts = (1,) if strided else most
        width = next((register * k for k in counts if whole and whole % (register * k) == 0), 0)
        parts = [(width, range(0, whole, width))] if width else []
        return parts + ([(size - whole, range(whole, size, size - whole))] if size > whole else [])

    def _shared(self, axes: Sequence[Axis], lane: Axis | None) -> Axis | None:
        """The axis along which a nest is divided between workgroups: the first that is long enough for all of them."""
        trips = [axis.size if axis is not lane else axis.size // _VECTOR for axis in axes]
        most = max(trips, default=0)
        return next((axis for axis, n in zip(axes, trips) if n >= min(most, self._workgroups)), None)

    def over(
        self,
        axes: Sequence[Axis],
        body: Callable[[Sequence[tuple[Axis, Affine]]], None],
        shared: Axis | None = None,
    ) -> None:
        """A loop over each axis, the first outermost, around what `body` writes at a place."""
        if not axes:
            body([])
            return
        first, *rest = axes
        inside = lambda i: self.over(rest, lambda place: body([(first, i), *place]), shared)
        each = self._part if first is shared and self._workgroups > 1 else self.each
        each(range(first.size), inside)

    def _part(self, numbers: range, body: Callable[[Affine], None]) -> None:
        self.part(numbers, body, self._workgroups, self._workgroup)

    def part(self, numbers: range, body: Callable[[Affine], None], workgroups: int, workgroup: str) -> None:
        """Write something for each number of those that are this workgroup's."""
        out, share = self.out, -(-len(numbers) // workgroups) * numbers.step
        begin = self.position(Affine(numbers.start, ((workgroup, share),)))
        end = out.add(f"arith.addi {begin}, {out.index(share)} : index")
        end = out.add(f"arith.minui {end}, {out.index(numbers.stop)} : index")
        index = out.new()
        out.lines.append(f"scf.for {index} = {begin} to {end} step {out.index(numbers.step)} {{")
        with self.region():
            body(Affine.of(index))
        out.lines.append("}")

    def each(self, numbers: range, body: Callable[[Affine], None], unrolled: int | None = None) -> None:
        """Write something for each number: a loop, unless they are few."""
        if len(numbers) <= (unrolled or self._unrolled):
            for i in numbers:
                body(Affine(i))
            return
        index, out = self.out.new(), self.out
        first, last, step = map(out.index, (numbers.start, numbers.stop, numbers.step))
        out.lines.append(f"scf.for {index} = {first} to {last} step {step} {{")
        with self.region(), out.repeated(len(numbers)):
            body(Affine.of(index))
        out.lines.append("}")

    # Sums.

    def fold(
        self,
        target: View,
        shape: Sequence[int],
        forms: Sequence[Form],
        start: str,
        step: Callable[[str, Point], str],
        combine: Callable[[str, str, str], str],
        kind: str | None,
    ) -> None:
        """Reduce over the axes along which `target`, of shape `shape`, has no stride.

        Args:
            target: where the results go.
            shape: of the nest.
            forms: what is read, in that shape.
            start: the name of what all sums begin with, a scalar.
            step: adds what is at a point to a sum.
            combine: makes one of two sums of a shape ("" or "8x").
            kind: how `vector.reduction` calls that; None if it cannot.
        """
        if math.prod(shape) > self.machine.most_terms:
            raise Unfit("a large sum")
        views = [target, *{id(v): v for form in forms for v in leaves(form)}.values()]
        axes = merged(shape, views)
        kept = [axis for axis in axes if axis.strides[0]]
        summed = [axis for axis in axes if not axis.strides[0]]
        lane = _lane(axes, kind is not None)
        values = len(nodes(*forms))
        if lane is not None and not lane.strides[0]:
            vectors = self._vectors_of(values)
            with self._written_out(*forms):
                self._fold_lanes(views, kept, summed, lane, vectors, start, step, combine, str(kind))
            return
        outer = [axis for axis in kept if axis is not lane]
        rows = outer.pop() if outer else None
        of_rows = _VECTORS_OF_ROWS.get(self.machine.register, (1,))
        together = of_rows if rows else self.vectors_of_sums(values)
        dtype = target.dtype
        rounds = is_rounded(dtype, kind)
        at_once = _ROWS if values <= _MOST_WRITTEN_OUT else 1
        unrolled = 1 if math.prod(axis.size for axis in summed) > 2 * _UNROLLED else None

        def block(count: int, row: Affine, place: Sequence[tuple[Axis, Affine]]) -> None:
            for width, starts in self.chunks(lane.size if lane else 1, dtype, _is_strided(lane), together):

                def write(start_at: Affine, width: int = width) -> None:
                    base = Point(self, views, width, lane).moved([*place, *([(lane, start_at)] if lane else [])])
                    points = [base.moved([(rows, row + i)]) if rows else base for i in range(count)]
                    begins = [self.spread(start, dtype, width)] * count
                    if rounds and summed and summed[0].size > 2 * _IN_A_ROW:
                        nothing = self.spread(self.out.constant(NEUTRAL[str(kind)](dtype), dtype, ""), dtype, width)
                        totals = self._sums_of_sums(points, summed, begins, nothing, dtype, step, combine)
                    else:
                        totals = self._sums(points, summed, begins, dtype, step)
                    for point, total in zip(points, totals):
                        point.store(total, target)

                self.each(starts, write, 1 if _is_strided(lane) else unrolled)

        def blocks(place: Sequence[tuple[Axis, Affine]]) -> None:
            size = rows.size if rows else 1
            whole = size - size % at_once
            self.each(range(0, whole, at_once), lambda row: block(at_once, row, place), unrolled)
            if size > whole:
                block(size - whole, Affine(whole), place)

        with self._written_out(*forms):
            self.over(outer, blocks)
        self.forget()

    def _sums(
        self, points: Sequence[Point], axes: Sequence[Axis], starts: Sequence[str], dtype: np.dtype, step: Step
    ) -> list[str]:
        """Sums over axes, one for each point."""
        if not axes:
            return [step(total, point) for point, total in zip(points, starts)]
        first, *rest = axes
        inside = lambda i, totals: self._sums([p.moved([(first, i)]) for p in points], rest, totals, dtype, step)
        return self.carried(range(first.size), starts, spelled(dtype, points[0].shape), inside)

    def _sums_of_sums(
        self,
        points: Sequence[Point],
        axes: Sequence[Axis],
        starts: Sequence[str],
        nothing: str,
        dtype: np.dtype,
        step: Step,
        combine: Callable[[str, str, str], str],
    ) -> list[str]:
        """Sums over axes, of which the first is long, as sums of those of its parts: `nothing` begins each of these."""
        first, *rest = axes

        def add(i: Affine | int, totals: Sequence[str], length: int = _IN_A_ROW) -> list[str]:
            parts = [point.moved([(first, Affine() + i)]) for point in points]
            sums = self._sums(parts, [Axis(length, first.strides), *rest], [nothing] * len(parts), dtype, step)
            return [combine(total, part, point.shape) for total, part, point in zip(totals, sums, points)]

        left = first.size % _IN_A_ROW
        whole = first.size - left
        totals = self.carried(range(0, whole, _IN_A_ROW), starts, spelled(dtype, points[0].shape), add)
        return add(whole, totals, left) if left else totals

    def carried(
        self,
        numbers: range,
        starts: Sequence[str],
        type_: str,
        body: Callable[[Affine, Sequence[str]], list[str]],
        begin: Affine = Affine(),  # noqa: B008  (it cannot change)
        may_be_written_out: bool = True,
    ) -> list[str]:
        """A loop that carries values of one type, if wanted from a later number on; written out if they are few."""
        totals = list(starts)
        most = 2 * self._unrolled if may_be_written_out and self._unrolled > 1 else 1
        few = len(numbers) <= most and len(numbers) * len(starts) <= most * _ROWS
        if few and begin == Affine():
            for i in numbers:
                totals = body(Affine(i), totals)
            return totals
        out, index, result = self.out, self.out.new(), self.out.new()
        inside = [out.new() for _ in totals]
        first = self.position(begin + numbers.start)
        last, step = map(out.index, (numbers.stop, numbers.step))
        carried = ", ".join(f"{a} = {b}" for a, b in zip(inside, totals))
        types = ", ".join([type_] * len(totals))
        bounds = f"{index} = {first} to {last} step {step}"
        out.lines.append(f"{result}:{len(totals)} = scf.for {bounds} iter_args({carried}) -> ({types}) {{")
        with self.region(), out.repeated(len(numbers)):
            ends = body(Affine.of(index), inside)
        out.lines += [f"scf.yield {', '.join(ends)} : {types}", "}"]
        return [f"{result}#{i}" for i in range(len(totals))]

    def _fold_lanes(
        self,
        views: Sequence[View],
        kept: Sequence[Axis],
        summed: Sequence[Axis],
        lane: Axis,
        vectors: Sequence[int],
        start: str,
        step: Step,
        combine: Callable[[str, str, str], str],
        kind: str,
    ) -> None:
        """Sums along the axis of the vectors, whose lanes are added up at the end."""
        target, dtype = views[0], views[0].dtype
        rest = [axis for axis in summed if axis is not lane]

        def write(place: Sequence[tuple[Axis, Affine]]) -> None:
            total = start
            for width, starts in self.chunks(lane.size, dtype, _is_strided(lane), vectors):
                first = Point(self, views, width, lane).moved([*place, (lane, Affine(starts.start))])
                begin = self.spread(self.out.constant(NEUTRAL[kind](dtype), dtype, ""), dtype, width)
                over = Axis(len(starts), tuple(s * starts.step for s in lane.strides))
                if is_rounded(dtype, kind) and over.size > 2 * _IN_A_ROW:
                    (sums,) = self._sums_of_sums([first], [over, *rest], [begin], begin, dtype, step, combine)
                else:
                    (sums,) = self._sums([first], [*rest, over], [begin], dtype, step)
                if width > 1:
                    fast = " fastmath<reassoc>" if is_rounded(dtype, kind) else ""
                    type_ = spelled(dtype, f"{width}x")
                    sums = self.out.add(f"vector.reduction <{kind}>, {sums}{fast} : {type_} into {spelled(dtype)}")
                total = combine(total, sums, "")
            point = Point(self, views, 1, None).moved(place)
            point.store(total, target)

        self.over(kept, write)
        self.forget()


def merged(shape: Sequence[int], views: Sequence[View]) -> list[Axis]:
    """The axes of a nest over views of one shape, where all of them allow it several as one."""
    axes: list[Axis] = []
    for i, n in enumerate(shape):
        if n == 1:
            continue
        strides = tuple(view.strides[i] for view in views)
        if axes and axes[-1].strides == tuple(s * n for s in strides):
            axes[-1] = Axis(axes[-1].size * n, strides)
        else:
            axes.append(Axis(n, strides))
    return axes


def _is_of_booleans(form: Form) -> TypeGuard[View]:
    """Whether it is booleans in memory, each a byte."""
    return isinstance(form, View) and form.dtype.kind == "b"


def _is_strided(lane: Axis | None) -> bool:
    """Whether a vector along an axis is read or written across."""
    # One of four registers, whose 64 floats lie among 253, takes LLVM half a second, and is no faster than four of one.
    return lane is not None and any(abs(stride) > 1 for stride in lane.strides)


def _lane(axes: Sequence[Axis], may_sum: bool) -> Axis | None:
    """The axis along which vectors lie best: where each element takes the fewest instructions."""
    depth = math.prod(axis.size for axis in axes if not axis.strides[0])

    def cost(axis: Axis) -> float:
        width = min(axis.size, 16)
        reads = sum(_READ_OF_ALL if s == 0 else 1 if abs(s) == 1 else width for s in axis.strides[1:])
        target = axis.strides[0]
        result = _SUM_OF_LANES if target == 0 else 1 / width if target == 1 else 1
        return reads / width + result / depth

    return min((axis for axis in axes if may_sum or axis.strides[0]), key=cost, default=None)
