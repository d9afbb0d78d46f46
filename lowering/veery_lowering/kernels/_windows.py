"""Parts of arrays, and what they are of values that are joined of others: each part is computed from its own."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import Body
from veery_lowering.kernels._forms import Form, Lazy, Taken, Uniform, View, changed, leaves, nodes
from veery_lowering.kernels._halves import Halves, in_halves, is_complex, work_in_halves
from veery_lowering.kernels._indexed import gathered
from veery_lowering.kernels._reading import detail_of, integers, static_shape
from veery_lowering.mlir import base_name, ir, maker

_MOST_PARTS = 64
# Parts of all values, each of which takes 0.03 ms: four steps of a stencil of five points have 8000.
_MOST_MADE = 1 << 11
# Of what is padded between its elements: each part is written element by element. The gradient of a trace of 50x50,
# whose ones are 51 elements apart, would take 200 ms to compile.
_MOST_APART = 8
# Elementwise operations that cost no more than reading what they read.
CHEAP = frozenset(
    "abs add and bitcast_convert clamp compare convert maximum minimum multiply negate not or select"
    " subtract xor".split()
)
_COST = 16  # of others, in such operations
_SMALL = 64  # elements of a constant that is looked into


@dataclass(frozen=True)
class Window:
    """A part of an array: of each axis where it starts, how many elements it has, and how far these are apart."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @staticmethod
    def of(ranges: Sequence[tuple[int, int, int]]) -> Window:
        return Window(*zip(*ranges)) if ranges else Window((), (), ())

    @staticmethod
    def whole(shape: Sequence[int]) -> Window:
        return Window.of([(0, n, 1) for n in shape])

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        return list(zip(self.starts, self.sizes, self.steps))

    def replaced(self, axis: int, start: int, size: int, step: int) -> Window:
        ranges = self.ranges
        ranges[axis] = start, size, step
        return Window.of(ranges)


class Cut(Exception):
    """A window is not computed in one way: it has to be divided along an axis.

    Attributes:
        at: before which element.
        period: how many elements are computed each in a way of its own, again and again; 1 where `at` is meant.
    """

    def __init__(self, axis: int, at: int = 0, period: int = 1) -> None:
        super().__init__(axis)
        self.axis, self.at, self.period = axis, at, period

    def divided(self, window: Window, target: View) -> Iterator[tuple[Window, View]]:
        """The parts of a window, and where they go."""
        start, size, step = window.ranges[self.axis]
        if self.period > 1:
            parts = [(k, -(-(size - k) // self.period)) for k in range(min(self.period, size))]
        else:
            parts = [(0, self.at), (self.at, size - self.at)]
        for first, count in parts:
            part = window.replaced(self.axis, start + first * step, count, step * self.period)
            zeros = [0] * len(window.sizes)
            places = Window(tuple(zeros), part.sizes, tuple(1 for _ in zeros))
            places = places.replaced(self.axis, first, count, self.period)
            yield part, target.sliced(places.starts, places.sizes, places.steps)


class Opaque(Exception):
    """A value cannot be computed part by part here.

    Attributes:
        value: it.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Repeated(Exception):
    """Parts of the same values are computed at too many places: their number grows with each step of a stencil."""


class Parts:
    """Computes parts of values.

    Args:
        body: writes what is read from outside.
        inside: the values that are computed; all others are read.
    """

    def __init__(self, body: Body, inside: Collection[Any]) -> None:
        self.body, self.inside = body, inside
        self.halves = Half(self, 0), Half(self, 1)
        self._made: dict[tuple[Any, Window], Form] = {}
        self._ends: dict[Any, tuple[int, list[int]]] = {}

    def of(self, value: Any, *targets: View) -> list[tuple[View, Form]]:
        """The parts of a value, each with its place in memory; of complex ones each half with its own.

        Raises:
            Opaque: a value has to be outside.
            Repeated: there are very many parts of what is inside.
            Unfit: there are too many parts of the value.
        """
        rest = [(Window.whole(static_shape(value)), targets)]
        found: list[tuple[View, Form]] = []
        makers = self.halves if is_complex(value) else (self,)
        while rest:
            window, places = rest.pop()
            try:
                found += zip(places, [maker.form(value, window) for maker in makers])
            except Cut as cut:
                for divided in zip(*(cut.divided(window, place) for place in places)):
                    rest.append((divided[0][0], tuple(place for _, place in divided)))
            if len(rest) + len(found) > _MOST_PARTS:
                raise Unfit("many parts")
        return found[::-1]

    def form(self, value: Any, window: Window) -> Form:
        """A part of a value.

        Raises:
            Cut: the part has to be divided.
            Opaque: a value has to be outside.
            Repeated: there are very many parts of what is inside.
        """
        key = value, window
        if key not in self._made:
            if len(self._made) > _MOST_MADE:
                raise Repeated
            self._made[key] = self._form(value, window)
        return self._made[key]

    def _form(self, value: Any, window: Window) -> Form:
        if value not in self.inside:
            return self._constant(value, window) or _part(self.read(value), window)
        op = value.owner
        name = base_name(op.name)
        if name == "optimization_barrier":
            return self.form(op.operands[ir.OpResult(value).result_number], window)
        if (copied := _copied(op)) is not None:
            return self.form(copied, window)
        if name in _PARTS:
            return _PARTS[name](self, op, window)
        return self._elementwise(op, window)

    def _elementwise(self, op: Any, window: Window) -> Form:
        if is_complex(op.operands[0]):
            return in_halves(op, self._in_halves(op, window))[0]
        forms = [self._operand(x, window) for x in op.operands]
        return Lazy(base_name(op.name), detail_of(op), tuple(forms), hlo.dtype_of(op.results[0]))

    def _in_halves(self, op: Any, window: Window) -> list[Halves]:
        """The operands of an operation, complex ones in halves."""
        each: Callable[[Any], Sequence[Parts]] = lambda x: self.halves if is_complex(x) else (self,)
        return [tuple(maker._operand(x, window) for maker in each(x)) for x in op.operands]

    def read(self, value: Any) -> Form:
        """A value from outside."""
        return self.body.read(value)

    def ends(self, join: Any) -> tuple[int, list[int]]:
        """The axis along which a concatenation joins its operands, and where each of these ends."""
        (result,) = join.results
        if result not in self._ends:
            axis = ir.IntegerAttr(join.attributes["dimension"]).value
            self._ends[result] = axis, list(itertools.accumulate(static_shape(x)[axis] for x in join.operands))
        return self._ends[result]

    def _operand(self, value: Any, window: Window) -> Form:
        """What an elementwise operation reads: a selection and a clamp may be given one number for all elements."""
        if static_shape(value) or not window.sizes:
            return self.form(value, window)
        return changed(self.form(value, Window((), (), ())), lambda view: view.spread(window.sizes, ()))

    def _constant(self, value: Any, window: Window) -> Form | None:
        """One element of a small constant; None where there are several, or it is none."""
        few = math.prod(window.sizes) == 1 and math.prod(static_shape(value)) <= _SMALL
        elements = hlo.elements_of(value) if few else None
        if elements is None:
            return None
        return Uniform(self.body.out.constant(elements[window.starts], elements.dtype, ""), elements.dtype)


class Half(Parts):
    """Computes the real (0) or imaginary parts (1) of complex values; other values are those of `given`."""

    def __init__(self, given: Parts, number: int) -> None:
        self._given, self._number = given, number
        self.body, self.inside, self._made = given.body, given.inside, {}

    def form(self, value: Any, window: Window) -> Form:
        return super().form(value, window) if is_complex(value) else self._given.form(value, window)

    def read(self, value: Any) -> Form:
        return self.body.half(value, self._number) if is_complex(value) else self.body.read(value)

    def ends(self, join: Any) -> tuple[int, list[int]]:
        return self._given.ends(join)

    def _elementwise(self, op: Any, window: Window) -> Form:
        return in_halves(op, self._given._in_halves(op, window))[self._number]


def work_of(value: Any) -> int:
    """How much it is to compute all elements of a value, in cheap operations."""
    op, size = value.owner, math.prod(static_shape(value))
    name = base_name(op.name)
    return size * (work_in_halves(name) if any(map(is_complex, op.operands)) else _cost(name))


def work_at(*forms: Form) -> int:
    """How much it is to compute one element of each of some forms."""
    found = nodes(*forms)
    return sum(_cost(x.name) if isinstance(x, Lazy) else isinstance(x, Taken) for x in found)


def _cost(name: str) -> int:
    return (1 if name in CHEAP else _COST) if name in ELEMENTWISE else int(name == "gather")


def _copied(op: Any) -> Any:
    """What a selection copies, whatever the position, so that IREE does not write to it: a kernel does not, either."""
    if op.name != "stablehlo.select" or maker(op.operands[0]) != "stablehlo.compare":
        return None
    test = op.operands[0].owner
    limit = hlo.splat_of(test.operands[1])
    always = maker(test.operands[0]) == "stablehlo.iota" and limit is not None and limit < 0
    return op.operands[1] if always and hlo.direction_of(test) == "GT" else None


def _part(form: Form, window: Window) -> Form:
    return changed(form, lambda view: view.sliced(window.starts, window.sizes, window.steps))


def _slice(parts: Parts, op: Any, window: Window) -> Form:
    starts, steps = (integers(op.attributes[name]) for name in ("start_indices", "strides"))
    ranges = [(a + s * b, n, t * b) for (s, n, t), a, b in zip(window.ranges, starts, steps)]
    return parts.form(op.operands[0], Window.of(ranges))


def _reverse(parts: Parts, op: Any, window: Window) -> Form:
    axes, shape = integers(op.attributes["dimensions"]), static_shape(op.operands[0])
    ranges = window.ranges
    for axis in axes:
        start, size, step = ranges[axis]
        ranges[axis] = shape[axis] - 1 - start - (size - 1) * step, size, step
    try:
        form = parts.form(op.operands[0], Window.of(ranges))
    except Cut as cut:
        if cut.axis in axes:
            raise Cut(cut.axis, window.sizes[cut.axis] - cut.at, cut.period) from None
        raise
    return changed(form, lambda view: view.flipped(axes))


def _transpose(parts: Parts, op: Any, window: Window) -> Form:
    order = integers(op.attributes["permutation"])
    ranges = [window.ranges[order.index(i)] for i in range(len(order))]
    form = _moved(parts, op.operands[0], Window.of(ranges), lambda axis: order.index(axis))
    return changed(form, lambda view: view.permuted(order))


def _broadcast_in_dim(parts: Parts, op: Any, window: Window) -> Form:
    axes, shape = integers(op.attributes["broadcast_dimensions"]), static_shape(op.operands[0])
    ranges = [window.ranges[axis] if n != 1 else (0, 1, 1) for axis, n in zip(axes, shape)]
    form = _moved(parts, op.operands[0], Window.of(ranges), lambda axis: axes[axis])
    return changed(form, lambda view: view.spread(window.sizes, axes))


def _reshape(parts: Parts, op: Any, window: Window) -> Form:
    x, shape = op.operands[0], static_shape(op.results[0])
    given = static_shape(x)
    kept = [[axis for axis, n in enumerate(each) if n != 1] for each in (given, shape)]
    if [given[axis] for axis in kept[0]] == [shape[axis] for axis in kept[1]]:
        axes = dict(zip(*kept))
        ranges = [window.ranges[axes[axis]] if axis in axes else (0, 1, 1) for axis in range(len(given))]
        form = _moved(parts, x, Window.of(ranges), lambda axis: axes[axis])
        return changed(form, lambda view: view.reshaped(window.sizes) or view)
    try:
        form = parts.form(x, Window.whole(given))
    except Cut:
        raise Opaque(op.results[0]) from None
    if not all(view.reshaped(shape) for view in leaves(form)):
        raise Opaque(op.results[0])
    return _part(changed(form, lambda view: view.reshaped(shape) or view), window)


def _moved(parts: Parts, x: Any, window: Window, axis_of: Callable[[int], int]) -> Form:
    """A part of the operand of what moves axes; `axis_of` says where an axis of it goes."""
    try:
        return parts.form(x, window)
    except Cut as cut:
        raise Cut(axis_of(cut.axis), cut.at, cut.period) from None


def _concatenate(parts: Parts, op: Any, window: Window) -> Form:
    axis, ends = parts.ends(op)
    start, size, step = window.ranges[axis]
    place = min(bisect.bisect_right(ends, start), len(ends) - 1)
    inside = -(-(ends[place] - start) // step)
    if inside < size:
        raise Cut(axis, inside)
    begin = ends[place - 1] if place else 0
    return parts.form(op.operands[place], window.replaced(axis, start - begin, size, step))


def _pad(parts: Parts, op: Any, window: Window) -> Form:
    names = "edge_padding_low", "interior_padding"
    lows, inner = (integers(op.attributes[name]) for name in names)
    shape, ranges, cuts = static_shape(op.operands[0]), [], []
    for axis, ((start, size, step), n, low, k) in enumerate(zip(window.ranges, shape, lows, inner)):
        apart, last = k + 1, low + (n - 1) * (k + 1)
        end, phase = start + (size - 1) * step, (start - low) % (k + 1)
        fixed = size == 1 or step % apart == 0
        if not n or end < low or start > last or (fixed and phase):
            return _part(parts.read(op.operands[1]), window)
        if start < low:
            cuts.append(Cut(axis, -(-(low - start) // step)))
        elif end > last:
            cuts.append(Cut(axis, (last - start) // step + 1))
        elif not fixed:
            period = apart // math.gcd(step, apart)
            if period > _MOST_APART:
                raise Unfit("elements that are far apart")
            cuts.append(Cut(axis, period=period))
        ranges.append(((start - low) // apart, size, step // apart if size > 1 else 1))
    if cuts:
        raise cuts[0]
    return parts.form(op.operands[0], Window.of(ranges))


def _gather(parts: Parts, op: Any, window: Window) -> Form:
    windows, sizes = gathered(op), integers(op.attributes["slice_sizes"])
    source, limits = parts.read(op.operands[0]), static_shape(op.operands[0])
    if not isinstance(source, View):
        return source
    numbered = [axis for axis in range(len(window.sizes)) if axis not in windows.window]
    axes = dict(zip(windows.window, [i for i in range(len(sizes)) if i not in (*windows.dropped, *windows.batched)]))
    # Of the axis of the result that an axis of the indices is.
    placed = dict(zip([i for i in range(len(numbered) + 1) if i != windows.vector], numbered))
    axes |= {placed[number]: axis for axis, number in zip(windows.batched, windows.index_batched)}
    strides = [source.strides[axes[d]] * step if d in axes else 0 for d, (_, _, step) in enumerate(window.ranges)]
    offset = source.offset + sum(source.strides[axes[d]] * window.starts[d] for d in axes)
    base = View(source.buffer, window.sizes, tuple(strides), offset)
    indices, ranges = op.operands[1], [window.ranges[d] for d in numbered]
    batch = [n for _, n, _ in ranges]
    dtype = hlo.dtype_of(indices)
    if dtype == np.uint64:
        raise Unfit("an index of uint64")
    has_vector, numbers = windows.vector < len(static_shape(indices)), []
    for k, axis in enumerate(windows.mapped):
        each = [*ranges[: windows.vector], *[(k, 1, 1)] * has_vector, *ranges[windows.vector :]]
        form = _moved(parts, indices, Window.of(each), lambda axis: placed[axis])
        form = changed(form, lambda view: (view.reshaped(batch) or view).spread(window.sizes, numbered))
        most = min(limits[axis] - sizes[axis], np.iinfo(dtype).max)
        ends = [Uniform(parts.body.out.constant(n, dtype, ""), dtype) for n in (0, most)]
        numbers.append(Lazy("clamp", "", (ends[0], form, ends[1]), dtype))
    return Taken(base, tuple(numbers), tuple(source.strides[axis] for axis in windows.mapped))


_PARTS: dict[str, Callable[[Parts, Any, Window], Form]] = {
    "slice": _slice,
    "reverse": _reverse,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "pad": _pad,
    "gather": _gather,
}
