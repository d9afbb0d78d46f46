"""Discrete Fourier transforms in kernels, in stages.

A transform of n = r m elements is m transforms of r elements, and r of m elements, with factors between (Cooley and
Tukey). In Stockham's order nothing is permuted: with s = 1 at first, a stage makes of `x[q + s (p + m k)]`, k < r,
`y[q + s (r p + j)]`, j < r, for all p < m and q < s; then s is r times as large, and m is what is split.

Vectors lie along the last dimension. Where another one is transformed, each lane has a transform of its own. Where that
one is, the lanes have different p and q, and as long as s is less than a vector, results of different j alternate.

us a trip of `ifftn(fftn(x) * 0.9)`, so, as calls of SciPy's library, and by JAX: of 64 complex
numbers 0.4, 21 and 3, 4096 9.5, 99 and 28, 128x128 43, 171 and 90, 256x256 209, 675 and 410.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit, spelled
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._butterflies import Butterflies, Number, radices, roots
from veery_lowering.kernels._forms import Affine, Form, Lazy, View, changed, leaves
from veery_lowering.kernels._nests import Axis, Point, merged
from veery_lowering.kernels._reading import static_shape
from veery_lowering.mlir import ir
from veery_lowering.stablehlo import Value
from veery_lowering.stablehlo._build import integer

# Numbers from which on a library on all cores is faster, and the largest prime factor that is worth writing out.
_MOST_ELEMENTS = 1 << 16
_LARGEST_PRIME = 13

_NAME = "veery.fourier"  # of the mark, and of what is called with parts

Parts = Sequence[Form | None]  # real and imaginary; None for zeros
Where = Callable[[Affine, int], Point]  # an element of the lines that are transformed, or as many as a vector has


def mark_transform(call: Any, kind: str, lengths: Sequence[int]) -> None:
    """Say that a call is of a library that transforms the last dimensions, so that a kernel may do that in its place.

    Args:
        call: the operation; what is no call, or of unknown lengths, is left as it is.
        kind: "FFT", "IFFT", "RFFT" or "IRFFT".
        lengths: as those of `lax.fft`.
    """
    if call.name == "func.call" and all(isinstance(n, int) for n in lengths):
        rank, last = integer(len(lengths)), integer(lengths[-1])
        call.attributes[_NAME] = ir.DictAttr.get({"kind": ir.StringAttr.get(kind), "rank": rank, "last": last})


def transform_of_parts(call: Any, parts: Sequence[Value], types: Sequence[ir.Type]) -> list[Value] | None:
    """What `mark_transform` said of a call as an operation on real and imaginary parts; None if it said nothing.

    Args:
        call: the operation.
        parts: of its operand; the real part alone if that is real.
        types: of the parts of its result.
    """
    if _NAME not in call.attributes:
        return None
    kind, rank, last = _told(call.attributes[_NAME])
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    config: dict[str, str | int] = {"kind": kind, "rank": rank, "last": last, "callee": callee}
    return hlo.custom_call(_NAME, parts, types, config, has_side_effect=False)


def is_transform(op: Any) -> bool:
    """Whether an operation is one on parts."""
    return hlo.called_by(op) == _NAME


def may_be_transform(op: Any) -> bool:
    """Whether an operation is a call of a library for which a kernel can do the same."""
    if _NAME not in op.attributes:
        return False
    given = static_shape(op.operands[0])
    return _is_written(given, *_told(op.attributes[_NAME]))


def call_library(op: Any) -> None:
    """Put the call back of which `transform_of_parts` made an operation on parts, in its place."""
    callee = ir.StringAttr(ir.DictAttr(op.attributes["backend_config"])["callee"]).value
    operands, results = list(op.operands), list(op.results)
    with op.location, ir.InsertionPoint(op):
        given = operands[0] if len(operands) == 1 else hlo.complex(*operands)
        type = results[0].type
        if len(results) == 2:
            type = ir.RankedTensorType.get(type.shape, ir.ComplexType.get(type.element_type))
        (made,) = hlo.call(callee, [given], [type])
        parts = [made] if len(results) == 1 else [hlo.real(made), hlo.imag(made)]
    for result, part in zip(results, parts):
        result.replace_all_uses_with(part)
    op.erase()


def _is_written(given: Sequence[int], kind: str, rank: int, last: int) -> bool:
    """Whether a kernel computes a transform of an array of a shape."""
    sizes = [*given[:-1], last]
    return math.prod(sizes) <= _MOST_ELEMENTS and all(max(radices(n)) <= _LARGEST_PRIME for n in sizes[-rank:])


def _told(attribute: Any) -> tuple[str, int, int]:
    """The kind, how many dimensions are transformed, and how many real or complex numbers the last one has."""
    told = ir.DictAttr(attribute)
    rank, last = (ir.IntegerAttr(told[name]).value for name in ("rank", "last"))
    return ir.StringAttr(told["kind"]).value, rank, last


@writes("custom_call")
def _custom_call(body: Body, op: Any) -> None:
    if not is_transform(op):
        raise Unfit(hlo.called_by(op))
    (kind, rank, last), (given, dtype) = _told(op.attributes["backend_config"]), checked(op.operands[0])
    shape, axes = (*given[:-1], last), range(len(given) - rank, len(given))
    sizes = [shape[axis] for axis in axes]
    if not _is_written(given, kind, rank, last):
        raise Unfit(f"a Fourier transform of {'x'.join(map(str, shape))}")
    parts: Parts = [*(None if _is_zero(x) else body.read(x) for x in op.operands), None][:2]
    if not any(parts):
        raise Unfit("a Fourier transform of zeros")
    is_real = None in parts
    read = [any(True for _ in x.uses) for x in op.results]
    if not any(read):
        return
    # Of a spectrum of real numbers half of the last dimension is there: these begin with it, and come to it at the end.
    *others, end = axes
    order = [*others, end] if kind == "IRFFT" else [end, *others]
    is_inverse = kind.startswith("I")
    back = -1 if is_inverse else 1  # the inverse one is that with real and imaginary parts in each other's place
    for axis in order:
        if kind == "IRFFT" and axis == end:
            parts, given = _whole(body, parts, given, last), shape
        is_last = axis == order[-1]
        scale = 1 / math.prod(sizes) if is_inverse and is_last else 1.0
        needed = [*read, False][:2] if is_last else [True, True]
        made = [body.temporary(given, dtype) if need else None for need in needed]
        unsigned = made[1] if is_real and is_last else None
        _Lines(body, op, axis, given, parts[::back], made[::back], scale, unsigned).write()
        parts = made
        if kind == "RFFT" and axis == end:
            given = (*shape[:-1], last // 2 + 1)
            parts = [part and part.sliced([0] * len(given), given) for part in made]
    for x, part in zip(op.results, parts):
        if part:
            body.set(x, part)


def _is_zero(value: Any) -> bool:
    element = hlo.splat_of(value)
    return element is not None and not element.any()


def _whole(body: Body, parts: Parts, shape: Sequence[int], n: int) -> list[View | None]:
    """Of the half of a spectrum that real numbers have, the whole: what is missing is conjugate, in reversed order."""
    half, zeros = shape[-1], [0] * (len(shape) - 1)
    made: list[View | None] = []
    rest = [*shape[:-1], n - half]
    for part, is_imaginary in zip(parts, (False, True)):
        if part is None:
            made.append(None)
            continue
        target = body.temporary((*shape[:-1], n), part.dtype)
        body.nests.fill(target.sliced([*zeros, 0], shape), part)
        if n > half:
            mirrored = changed(part, lambda view: view.sliced([*zeros, 1], rest).flipped([len(shape) - 1]))
            conjugate = Lazy("negate", "", (mirrored,), part.dtype) if is_imaginary else mirrored
            body.nests.fill(target.sliced([*zeros, half], rest), conjugate)
        made.append(target)
    return made


class _Lines:
    """Writes transforms along one axis.

    Args:
        body: writes the rest of the kernel.
        op: the operation before which constants are put.
        axis: which one.
        shape: of the arrays.
        sources: what is transformed.
        targets: where the results go; None for what is not needed.
        scale: what the results are multiplied with.
        unsigned: the target whose zeros are positive: of the imaginary parts of a transform of real numbers. With
            negative ones the angles of negative numbers would be those of the other side.
    """

    def __init__(
        self,
        body: Body,
        op: Any,
        axis: int,
        shape: Sequence[int],
        sources: Parts,
        targets: Sequence[View | None],
        scale: float,
        unsigned: View | None,
    ) -> None:
        self.body, self.nests, self.sources, self.targets = body, body.nests, sources, targets
        self.scale, self.unsigned = scale, unsigned
        read = {id(view): view for form in sources if form for view in leaves(form)}
        self.views = [*read.values(), *filter(None, targets)]
        self.dtype = self.views[-1].dtype
        self.line = Axis(shape[axis], tuple(view.strides[axis] for view in self.views))
        before, after = self._merged(shape[:axis], 0), self._merged(shape[axis + 1 :], axis + 1)
        # The axis of the vectors where another one is transformed.
        self.across = after.pop() if after else None
        self.outer = before + after
        width = self.nests.lanes(self.dtype)
        self.width = min(width, self.across.size) if self.across else width
        self.stages = _stages(shape[axis])
        elements = shape[axis] * (self.width if self.across else 1)
        self.rooms = [[body.temporary((elements,), self.dtype) for _ in range(2)] for _ in self.stages[1:3]]
        self.starts: list[int] = []  # of the factors of each stage
        self.factors = self._constants(op)

    def _merged(self, shape: Sequence[int], first: int) -> list[Axis]:
        cut = slice(first, first + len(shape))
        return merged(shape, [View(v.buffer, v.shape[cut], v.strides[cut]) for v in self.views])

    def write(self) -> None:
        """Write all of them."""
        self.nests.over(self.outer, self._line if self.across is None else self._lines)
        self.nests.forget()

    def _line(self, place: Sequence[tuple[Axis, Affine]]) -> None:
        """One of them, along which vectors lie."""
        views = self.views
        self._in_stages(
            lambda index, width: Point(self.nests, views, width, self.line).moved([*place, (self.line, index)])
        )

    def _lines(self, place: Sequence[tuple[Axis, Affine]]) -> None:
        """As many of them at once as a vector has lanes, side by side."""
        across = self.across
        assert across is not None

        def block(start: Affine) -> None:
            point = Point(self.nests, self.views, self.width, across).moved([*place, (across, start)])
            self._in_stages(lambda index, _: point.moved([(self.line, index)]))

        self._in_parts(across.size, self.width, block)

    def _in_parts(self, size: int, width: int, write: Callable[[Affine], None]) -> None:
        """Write something for parts of a width that cover a size; the last one may begin within the one before it."""

        def part(number: Affine) -> None:
            start = number * width
            if size % width:
                last = self.body.out.index(size - width)
                start = Affine.of(self.body.out.add(f"arith.minui {self.nests.position(start)}, {last} : index"))
            write(start)

        self.nests.each(range(-(-size // width)), part, unrolled=1)

    def _in_stages(self, where: Where) -> None:
        """All stages at one place."""
        for number, (_, m, s) in enumerate(self.stages):
            if self._alternates(m, s):
                width = s * min(m, max(1, self.width // s))
                self._in_parts(m * s, width, functools.partial(self._alternating, where, number, width))
            else:
                width = self.width if self.across else min(self.width, s)

                def butterflies(p: Affine, number: int = number, s: int = s, width: int = width) -> None:
                    at: Callable[[Affine], None] = lambda q: self._butterfly(where, number, p, q, width)
                    self._in_parts(s, 1 if self.across else width, at)

                self.nests.each(range(m), butterflies, unrolled=1)
            self.nests.forget()

    def _alternates(self, m: int, s: int) -> bool:
        """Whether a vector has different p and q, so that results of different j alternate."""
        return self.across is None and m > 1 and s < self.width

    def _butterfly(self, where: Where, number: int, p: Affine, q: Affine, width: int) -> None:
        """A transform of a stage, at p, and at q and those behind it."""
        r, m, s = self.stages[number]
        write = Butterflies(self.body.out, self.dtype, width)
        ys = write.transform([self._read(where, number, (p + m * k) * s + q, width) for k in range(r)])
        if m > 1:
            ys[1:] = [write.times(y, self._factor(number, p, j, width)) for j, y in enumerate(ys[1:], 1)]
        for j, y in enumerate(ys):
            index = (p * r + j) * s + q
            if number < len(self.stages) - 1:
                step, apart = int(width > 1), width if self.across else 1
                for part, room in zip(write.full(y), self.rooms[number % 2]):
                    self.nests.store(part, room, index * apart, step, width)
                continue
            point = where(index, width)
            for part, target in zip(write.full(write.scaled(y, self.scale)), self.targets):
                if target is not None:
                    point.store(write.unsigned(part) if target is self.unsigned else part, target)

    def _alternating(self, where: Where, number: int, width: int, at: Affine) -> None:
        """Transforms of a stage, as many as a vector has lanes: at q + s p."""
        r, m, s = self.stages[number]
        write = Butterflies(self.body.out, self.dtype, width)
        ys = write.transform([self._read(where, number, at + m * s * k, width) for k in range(r)])
        for j in range(1, r):
            start = at + (self.starts[number] + 2 * (j - 1) * m * s)
            real, imaginary = (self._loaded(start + i * m * s, int(width > 1), width) for i in range(2))
            ys[j] = write.times(ys[j], (real, imaginary))
        for parts, room in zip(zip(*map(write.full, ys)), self.rooms[number % 2]):
            self.nests.store(self._in_turn(parts, width, s), room, at * r, 1, width * r)

    def _read(self, where: Where, number: int, index: Affine, width: int) -> Number:
        """Elements of what a stage reads: of all, or of what the one before it wrote."""
        if number:
            at, step = index * (width if self.across else 1), int(width > 1)
            real, imaginary = (self.nests.load(room, at, step, width) for room in self.rooms[(number - 1) % 2])
            return real, imaginary
        point = where(index, width)
        first, second = (None if form is None else point.vector(form) for form in self.sources)
        return first, second

    def _in_turn(self, names: Sequence[str], width: int, s: int) -> str:
        """A vector of the first s elements of each of some vectors, then the next of each."""
        out, count = self.body.out, len(names)
        vector: Callable[[int], str] = lambda length: spelled(self.dtype, f"{length}x")
        if width == 1:
            return out.add(f"vector.from_elements {', '.join(names)} : {vector(count)}")
        rest, length = [*names, *[names[-1]] * ((1 << (count - 1).bit_length()) - count)], width
        while len(rest) > 2:
            order, both = list(range(2 * length)), f"{vector(length)}, {vector(length)}"
            rest = [out.add(f"vector.shuffle {a}, {b} {order} : {both}") for a, b in zip(rest[::2], rest[1::2])]
            length *= 2
        order = [j * width + first + q for first in range(0, width, s) for j in range(count) for q in range(s)]
        return out.add(f"vector.shuffle {rest[0]}, {rest[1]} {order} : {vector(length)}, {vector(length)}")

    # The factors between stages: exp(-2 pi i j p / (r m)).

    def _factor(self, number: int, p: Affine, j: int, width: int) -> Number:
        """A factor, in all lanes."""
        at = p * (2 * (self.stages[number][0] - 1)) + (self.starts[number] + 2 * (j - 1))
        real, imaginary = (self.nests.spread(self._loaded(at + i, 0, 1), self.dtype, width) for i in range(2))
        return real, imaginary

    def _loaded(self, at: Affine, step: int, width: int) -> str:
        return self.nests.once(
            (self.factors.buffer.name, at, width), lambda: self.nests.load(self.factors, at, step, width)
        )

    def _constants(self, op: Any) -> Any:
        """The factors of all stages in memory; None if there are none."""
        tables: list[np.ndarray] = []
        for r, m, s in self.stages:
            self.starts.append(sum(table.size for table in tables))
            table = roots(np.outer(np.arange(m), np.arange(1, r)), r * m)  # of p and j
            if self._alternates(m, s):
                lanes = np.repeat(table.T, s, axis=1)
                tables.append(np.stack([lanes.real, lanes.imag], 1))
            elif m > 1:
                tables.append(np.stack([table.real, table.imag], 2))
        if not tables:
            return None
        with ir.InsertionPoint(op), op.location:
            return self.body.read(hlo.constant(np.concatenate([table.ravel() for table in tables]).astype(self.dtype)))


def _stages(n: int) -> list[tuple[int, int, int]]:
    """r, m and s of each stage."""
    found, s = [], 1
    for r in radices(n):
        found.append((r, n // (s * r), s))
        s *= r
    return found
