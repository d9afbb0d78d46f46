"""The loops of a product of matrices: panels of columns, and tiles whose sums are in registers.

A panel, some columns of a block of terms, is copied to where it lies together and stays in the first cache, while one
tile of rows after the other is multiplied by it (Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", 2008). Where rows, columns or terms are no multiple of a tile the last one begins earlier, and
computes some numbers once more: so all code is there once, and nothing is masked. What is computed of these is, too,
unless it may be written where it is read: then only those are finished that no tile before has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from veery_lowering.kernels._arithmetic import spelled
from veery_lowering.kernels._body import Body
from veery_lowering.kernels._forms import Affine, Form, Lazy, Uniform, View

# Vector registers of a row of a tile, and how many rows a tile has by the bytes of a register: AVX-512 has 32, others
# 16.
_REGISTERS = 2
_HEIGHTS = {64: 8, 32: 6, 16: 6}
# Bytes of a panel, half of a first cache; of panels that are copied together, a part of a second one; and rows whose
# sums are kept there.
_PANEL = 16 << 10
_GROUP = 128 << 10
_BLOCK = 1024
# Rows from which on a panel is copied though its rows could be read where they are, and tiles of rows up to which it
# may be longer.
_COPIED = 64
_FEW = 2
# Columns beyond which nothing is gained by more.
_ENOUGH = 32
# Terms that are written out.
_WRITTEN_OUT = 4
# Multiplications and additions for which a workgroup is worth its start, how many of them what becomes of a sum is
# taken for, and how many workgroups there are at most.
_LEAST_SHARE = 1 << 19
_FINISHED = 32
_MOST_WORKGROUPS = 16


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a product: its length, how far a step goes in each operand, and its place in the result (-1: none)."""

    size: int
    x: int
    y: int
    place: int = -1


Place = Mapping[Axis, Affine]
Finish = Callable[[View, Place], None]


def widest(columns: Sequence[Axis]) -> Axis:
    """The axis of which panels have columns: one that fills registers, if there is such where they lie together."""
    return max(columns, key=lambda axis: (min(axis.size, _ENOUGH), axis.y == 1, axis.size))


class Panels:
    """Writes a product.

    Args:
        body: where to.
        x, y: the operands.
        dtype: of the result, and of `x`; what `y` has is converted.
        outer: axes along which there is a product of matrices each.
        row, column: the longest axis of the rows of `x` and of the columns of `y`.
        terms: the axes that are summed.
    """

    def __init__(
        self,
        body: Body,
        x: View,
        y: View,
        dtype: np.dtype,
        outer: Sequence[Axis],
        row: Axis,
        column: Axis,
        terms: Sequence[Axis],
    ) -> None:
        self.body, self.nests, self.out = body, body.nests, body.out
        self.x, self.y, self.dtype = x, y, dtype
        self.row, self.column = row, column
        first, *rest = sorted(terms, key=lambda axis: axis.size, reverse=True)
        self.blocked, self.terms = first, rest
        register = self.nests.machine.register
        lanes = register // self.dtype.itemsize
        n, m = column.size, row.size
        most = _HEIGHTS[register]
        self.height = min(range(1, most + 1), key=lambda h: (-(-m // h) * (h + 2), -h))
        registers = range(max(_REGISTERS, min(2 * _REGISTERS, most // self.height)), 0, -1)
        widths = [lanes * k for k in registers] if n >= lanes else [1 << (n - 1).bit_length()]
        self.width = min(widths, key=lambda width: -(-n // width) * self._instructions(max(1, width // lanes)))
        self.kept = min(n, self.width)
        inner = math.prod(axis.size for axis in rest)
        again = math.prod(axis.size for axis in outer if axis.y == 0)
        tiles, panels = -(-m // self.height), -(-n // self.width)
        read_in_place = column.y == 1 and self.kept == self.width and y.dtype == dtype
        each = self.width * self.dtype.itemsize * inner  # bytes of a term of a panel
        self.blocks = 1 if read_in_place and again * tiles <= _FEW else -(-first.size // max(1, _PANEL // each))
        self.depth = -(-first.size // self.blocks)
        self.is_copied = self.blocks > 1 or not read_in_place or again * m >= _COPIED
        # The axes along which products have the same columns are gone along while these are in the cache.
        self.repeated = [axis for axis in outer if axis.y == 0 and self.blocks == 1]
        self.outer = [axis for axis in outer if axis not in self.repeated]
        self.row_blocks = -(-m // _BLOCK) if self.blocks > 1 else 1
        self.tiles = -(-tiles // self.row_blocks)
        products, repeated = (math.prod(axis.size for axis in axes) for axes in (self.outer, self.repeated))
        work = products * repeated * m * n * (first.size * inner + _FINISHED)
        wanted = max(1, min(work // _LEAST_SHARE, _MOST_WORKGROUPS))
        is_divided = max(products, repeated // 2) >= wanted
        together = min(_GROUP // (each * self.depth), panels if is_divided else panels // wanted)
        self.group = max(1, together) if self.is_copied and self.blocks == 1 else 1
        rows = self.tiles if self.blocks == 1 else self.row_blocks
        # Each workgroup that has rows copies the panels for itself.
        self._again = Axis(repeated, 0, 0)  # for all of those axes
        divided = rows // 2 if self.is_copied else rows
        counts = {None: products, column: -(-panels // self.group), self._again: repeated // 2, row: divided}
        self.shared = max(counts, key=lambda axis: min(counts[axis], wanted))
        self.workgroups = min(rows if self.shared is row else counts[self.shared], wanted)
        # Where the row and the column are that no tile before has finished.
        self._top, self._left = Axis(m, 0, 0), Axis(n, 0, 0)
        self._workgroup = self.nests.workgroup() if self.workgroups > 1 else ""
        self.body.divide(self.workgroups, self._workgroup)

    def _instructions(self, registers: int) -> int:
        """For a term of a tile with so many registers in a row: products, and what is read for them."""
        return self.height * registers + self.height + registers

    def _memory(self, shape: Sequence[int]) -> View:
        return self.body.temporary(shape, self.dtype)

    def write(self, end: View | Finish, once: bool = False) -> None:
        """Write the loops.

        Args:
            end: where the product goes; or what writes what becomes of a tile, given where its sums are, by rows and
                columns, and where it begins.
            once: whether `first` says what of a tile is not finished.
        """
        self.end, self._once = end, once
        rows = self.tiles * self.height if self.blocks > 1 else self.height
        is_left = self.blocks > 1 or not isinstance(end, View) or self.kept < self.width
        self.sums = self._memory((rows, self.width)) if is_left else None
        sizes = (self.depth, *(axis.size for axis in self.terms), self.width)
        self._copies = self._memory((self.group, *sizes)) if self.is_copied else None
        together = min(self.group * self.width, self.column.size)

        def columns(at: Place) -> None:
            self._starts(self.column, together, lambda j, new: self._columns({**at, self.column: j, self._left: new}))

        self._each_place(None, self.outer, columns)

    def first(self, at: Place) -> tuple[Affine, Affine]:
        """The row and the column of a tile from which on it has what no other one has."""
        if not self._once:
            return Affine(), Affine()
        return at[self._top] + at[self.row] * -1, at[self._left] + at[self.column] * -1

    def _each_place(self, shared: Axis | None, axes: Sequence[Axis], body: Callable[[Place], None]) -> None:
        """Something for each place along some axes, which workgroups share if it is these that they do."""
        sizes = [axis.size for axis in axes]

        def each(i: Affine) -> None:
            if len(sizes) < 2:
                body(dict.fromkeys(axes, i))
                return
            number, at = self.nests.position(i), {}
            for axis in reversed(axes):
                size = self.out.index(axis.size)
                at[axis] = Affine.of(self.out.add(f"arith.remui {number}, {size} : index"))
                number = self.out.add(f"arith.divui {number}, {size} : index")
            body(at)

        self._each(shared, range(math.prod(sizes)), each)

    def _each(self, axis: Axis | None, numbers: range, body: Callable[[Affine], None]) -> None:
        if axis is self.shared and self.workgroups > 1:
            self.nests.part(numbers, body, self.workgroups, self._workgroup)
        else:
            self.nests.each(numbers, body, 1)

    def _starts(self, axis: Axis, size: int, body: Callable[[Affine, Affine], None]) -> None:
        """Something for each part of an axis of a size, by where it begins, and where the one before has ended."""
        if axis.size <= size:
            body(Affine(), Affine())
        else:
            self._each(axis, range(0, axis.size, size), lambda i: body(self._at_most(i, axis.size - size, size), i))

    def _at_most(self, i: Affine, most: int, step: int) -> Affine:
        if most % step == 0:
            return i
        return Affine.of(self.out.add(f"arith.minui {self.nests.position(i)}, {self.out.index(most)} : index"))

    def _columns(self, at: Place) -> None:
        if self.blocks == 1:
            panels = range(0, self.group * self.width, self.width)

            def there(j: Affine) -> Place:
                new = self._later(at[self._left], at[self.column], j)
                return {**at, self.column: self._column(j, at), self._left: new}

            if self.is_copied:
                self.nests.each(panels, lambda j: self._copy(j, there(j), Affine()), 1)

            def rows(i: Affine, above: Place) -> None:
                tile: Callable[[Affine], None] = lambda j: self._tile(
                    self._panel(j, there(j), Affine()), {**there(j), **above, self.row: i}
                )
                self.nests.each(panels, tile, 1)

            of_all: Callable[[Place], None] = lambda above: self._starts(
                self.row, self.height, lambda i, new: rows(i, {**above, self._top: new})
            )
            self._each_place(self._again, self.repeated, of_all)
            return
        height = min(self.tiles * self.height, self.row.size)
        self._starts(self.row, height, lambda i, new: self._block({**at, self.row: i, self._top: new}))

    def _block(self, at: Place) -> None:
        """A block of rows, whose sums are added up in memory, one block of terms after the other."""
        size, depth = self.blocked.size, self.depth
        assert self.sums is not None

        def terms(k: Affine) -> None:
            start = self._at_most(k, size - depth, depth)
            self._copy(Affine(), at, start)
            panel = self._panel(Affine(), at, start)
            first = self.out.add(f"arith.cmpi eq, {self.nests.position(k)}, {self.out.index(0)} : index")
            # What the last block has in common with the one before was added up.
            skipped = Affine() if size % depth == 0 else k + start * -1

            def rows(i: Affine) -> None:
                row = self._within(i, at)
                self._added(panel, {**at, self.row: row, self.blocked: start}, i, skipped, first)

            self.nests.each(range(0, self.tiles * self.height, self.height), rows, 1)

        self.nests.each(range(0, size, depth), terms, 1)

        def ends(i: Affine) -> None:
            new = self._later(at[self._top], at[self.row], i)
            self._end(self._rows_of(i), {**at, self.row: self._within(i, at), self._top: new})

        self.nests.each(range(0, self.tiles * self.height, self.height), ends, 1)

    def _later(self, ended: Affine, start: Affine, i: Affine) -> Affine:
        """Where a part of a group is new: it is `i` behind the group's start, before which others may have ended."""
        if ended == start or not self._once:
            return start + i
        places = self.nests.position(ended), self.nests.position(start + i)
        return Affine.of(self.out.add(f"arith.maxui {', '.join(places)} : index"))

    def _within(self, i: Affine, at: Place) -> Affine:
        """Where a tile of a block reads rows."""
        most = min(self.tiles * self.height, self.row.size) - self.height
        return at[self.row] + self._at_most(i, most, self.height)

    def _column(self, j: Affine, at: Place) -> Affine:
        """Where a panel of a group begins."""
        most = min(self.group * self.width, self.column.size) - self.kept
        return at[self.column] + self._at_most(j, most, self.width)

    def _panel(self, j: Affine, at: Place, k: Affine) -> View:
        """A panel of a group, from a term on."""
        if self._copies is None:
            return self._source(at, k)
        size = self._copies.strides[0] // self.width
        return View(
            self._copies.buffer, self._copies.shape[1:], self._copies.strides[1:], self._copies.offset + j * size
        )

    def _source(self, at: Place, k: Affine) -> View:
        """Where the panel is that begins at a place and a term."""
        offset = self.y.offset + k * self.blocked.y
        for axis, i in at.items():
            offset = offset + i * axis.y
        terms = [(self.depth, self.blocked.y), *((axis.size, axis.y) for axis in self.terms)]
        sizes, strides = zip(*terms, (self.kept, self.column.y))
        return View(self.y.buffer, sizes, strides, offset)

    def _copy(self, j: Affine, at: Place, k: Affine) -> None:
        """Copy a panel to its place in a group."""
        panel, source = self._panel(j, at, k), self._source(at, k)
        if self.kept < self.width:
            self._fill(panel, Uniform(self.out.constant(0, self.dtype, ""), self.dtype))
        form = source if self.y.dtype == self.dtype else Lazy("convert", "", (source,), self.dtype)
        self._fill(panel.sliced([0] * len(source.shape), source.shape), form)

    def _fill(self, target: View, form: Form) -> None:
        self.nests.fill(target, form, math.prod(target.shape) + 1)

    def _tile(self, panel: View, at: Place) -> None:
        zero = self.nests.spread(self.out.constant(0, self.dtype, ""), self.dtype, self.width)
        totals = self._products(panel, at, [zero] * self.height, Affine())
        if self.sums is None:
            assert isinstance(self.end, View)
            target = self.part(self.end, at)
            for i, total in enumerate(totals):
                place = target.offset + i * target.strides[0]
                self.nests.store(total, target, place, target.strides[1], self.width)
            self.nests.forget()
            return
        for i, total in enumerate(totals):
            self.nests.store(total, self.sums, self.sums.offset + i * self.width, 1, self.width)
        self.nests.forget()
        self._end(self._rows_of(Affine()), at)

    def _rows_of(self, i: Affine) -> View:
        assert self.sums is not None
        return View(self.sums.buffer, (self.height, self.kept), self.sums.strides, self.sums.offset + i * self.width)

    def _added(self, panel: View, at: Place, i: Affine, skipped: Affine, first: str) -> None:
        sums, width = self._rows_of(i), self.width
        places = [sums.offset + row * width for row in range(self.height)]
        type_ = spelled(self.dtype, f"{width}x")
        zero = self.nests.spread(self.out.constant(0, self.dtype, ""), self.dtype, width)
        totals = []
        for place in places:
            before = self.nests.load(sums, place, 1, width)
            totals.append(self.out.add(f"arith.select {first}, {zero}, {before} : {type_}"))
        for place, total in zip(places, self._products(panel, at, totals, skipped)):
            self.nests.store(total, sums, place, 1, width)
        self.nests.forget()

    def _products(self, panel: View, at: Place, totals: Sequence[str], skipped: Affine) -> list[str]:
        """Sums with the products of a tile's rows with a panel, from a term of this on."""
        x = self.x.offset
        for axis, i in at.items():
            x = x + i * axis.x
        rows = [x + i * self.row.x for i in range(self.height)]
        axes = [Axis(self.depth, self.blocked.x, 0), *self.terms]
        return self._sums(axes, panel.strides, rows, panel.offset, panel, totals, skipped)

    def _sums(
        self,
        axes: Sequence[Axis],
        strides: Sequence[int],
        rows: Sequence[Affine],
        y: Affine,
        panel: View,
        totals: Sequence[str],
        skipped: Affine,
    ) -> list[str]:
        type_ = spelled(self.dtype, f"{self.width}x" if self.width > 1 else "")
        if not axes:
            values = self.nests.load(panel, y, 1, self.width)
            return [self._term(x, values, total, type_) for x, total in zip(rows, totals)]
        first, *rest = axes
        is_short = math.prod(axis.size for axis in axes) <= _WRITTEN_OUT

        def inside(k: Affine, totals: Sequence[str]) -> list[str]:
            moved = [x + k * first.x for x in rows]
            return self._sums(rest, strides[1:], moved, y + k * strides[0], panel, totals, Affine())

        return self.nests.carried(range(first.size), totals, type_, inside, skipped, is_short)

    def _term(self, x: Affine, values: str, total: str, type_: str) -> str:
        add, multiply, fast = ("arith.addf", "arith.mulf", " fastmath<contract>")
        if self.dtype.kind != "f":
            add, multiply, fast = "arith.addi", "arith.muli", ""
        factor = self.nests.spread(self.nests.load(self.x, x, 0, 1), self.dtype, self.width)
        term = self.out.add(f"{multiply} {factor}, {values}{fast} : {type_}")
        return self.out.add(f"{add} {total}, {term}{fast} : {type_}")

    def part(self, view: View, at: Place) -> View:
        """The tile of an array of the result's shape."""
        offset = view.offset
        for axis, i in at.items():
            offset = offset + i * (view.strides[axis.place] if axis.place >= 0 else 0)
        strides = view.strides[self.row.place], view.strides[self.column.place]
        return View(view.buffer, (self.height, self.kept), strides, offset)

    def _end(self, sums: View, at: Place) -> None:
        if isinstance(self.end, View):
            self._fill(self.part(self.end, at), sums)
        else:
            self.end(sums, at)
