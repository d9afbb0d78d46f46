"""What a value of a kernel with buffers is: a number, a part of a buffer, or something yet to be computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from veery_lowering.kernels._arithmetic import spelled


@dataclass(frozen=True)
class Affine:
    """A position: a number and multiples of indices that are known at run time."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(name: str) -> Affine:
        return Affine(0, ((name, 1),))

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0) + factor
        return Affine(self.constant + other.constant, tuple((n, f) for n, f in terms.items() if f))

    def __mul__(self, factor: int) -> Affine:
        return Affine(self.constant * factor, tuple((n, f * factor) for n, f in self.terms if factor))


@dataclass(frozen=True)
class Buffer:
    """Memory of a kernel, one after the other; if it is paired, each two elements are a complex number outside."""

    name: str
    dtype: np.dtype
    size: int
    is_paired: bool = False

    @property
    def length(self) -> int:
        """How many numbers it is outside."""
        return self.size // 2 if self.is_paired else self.size

    @property
    def type(self) -> str:
        return f"memref<{self.size}x{spelled(stored(self.dtype))}>"


@dataclass(frozen=True, eq=False)
class View:
    """Elements of a buffer, by strides, as NumPy's views."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: Affine = Affine()

    @property
    def dtype(self) -> np.dtype:
        return self.buffer.dtype

    @property
    def is_contiguous(self) -> bool:
        kept = [(n, s) for n, s in zip(self.shape, self.strides) if n != 1]
        return [s for _, s in kept] == list(row_major([n for n, _ in kept]))

    def permuted(self, order: Sequence[int]) -> View:
        return self._with([self.shape[i] for i in order], [self.strides[i] for i in order], self.offset)

    def sliced(self, starts: Sequence[Affine | int], shape: Sequence[int], steps: Sequence[int] | None = None) -> View:
        steps = steps or [1] * len(shape)
        offset = self.offset
        for start, stride in zip(starts, self.strides):
            offset = offset + (start * stride)
        return self._with(shape, [a * b for a, b in zip(self.strides, steps)], offset)

    def flipped(self, axes: Sequence[int]) -> View:
        offset = self.offset
        for axis in axes:
            offset = offset + (self.shape[axis] - 1) * self.strides[axis]
        return self._with(self.shape, [-s if i in axes else s for i, s in enumerate(self.strides)], offset)

    def spread(self, shape: Sequence[int], axes: Sequence[int]) -> View:
        """Broadcast: `axes` says where the axes go."""
        strides = [0] * len(shape)
        for axis, n, stride in zip(axes, self.shape, self.strides):
            strides[axis] = stride if n != 1 else 0
        return self._with(shape, strides, self.offset)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The elements in another shape; None if no strides say that."""
        if [n for n in shape if n != 1] == [n for n in self.shape if n != 1]:
            rest = iter(s for n, s in zip(self.shape, self.strides) if n != 1)
            return self._with(shape, [next(rest) if n != 1 else 0 for n in shape], self.offset)
        kept = [(n, s) for n, s in zip(self.shape, self.strides) if n != 1]
        apart = kept[-1][1] if kept else 1
        if [s for _, s in kept] != [apart * s for s in row_major([n for n, _ in kept])]:
            return None
        return self._with(shape, [apart * s for s in row_major(shape)], self.offset)

    def _with(self, shape: Sequence[int], strides: Sequence[int], offset: Affine) -> View:
        return View(self.buffer, tuple(shape), tuple(strides), offset)


@dataclass(frozen=True, eq=False)
class Uniform:
    """A value of equal elements: a name of the text."""

    name: str
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Lazy:
    """A result of an elementwise operation, computed where it is used."""

    name: str
    detail: str
    operands: tuple[Form, ...]
    dtype: np.dtype
    depth: int = field(init=False)  # how many elementwise operations it is, one after the other
    leaves: tuple[View, ...] = field(init=False)  # the views that it is computed from

    def __post_init__(self) -> None:
        depth = 1 + max((x.depth for x in self.operands if isinstance(x, Lazy)), default=0)
        object.__setattr__(self, "depth", depth)
        object.__setattr__(self, "leaves", _each_once(x for operand in self.operands for x in leaves(operand)))


@dataclass(frozen=True, eq=False)
class Taken:
    """Elements of a buffer at positions that are computed.

    Attributes:
        base: where the elements were if all numbers were 0.
        numbers: of steps; they keep within the buffer.
        strides: how far a step of each goes.
    """

    base: View
    numbers: tuple[Form, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        return self.base.dtype


Form = View | Uniform | Lazy | Taken


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def whole(buffer: Buffer, shape: Sequence[int]) -> View:
    return View(buffer, tuple(shape), row_major(shape))


def half(buffer: Buffer, shape: Sequence[int], part: int) -> View:
    """The real (0) or imaginary parts (1) of complex numbers."""
    return View(buffer, tuple(shape), tuple(2 * s for s in row_major(shape)), Affine(part))


def changed(form: Form, change: Callable[[View], View]) -> Form:
    """A value computed from other views."""
    return all_changed([form], change)[0]


def all_changed(forms: Sequence[Form], change: Callable[[View], View]) -> list[Form]:
    """Values computed from other views; what they have in common they have there, too."""
    made: dict[int, Form] = {}

    def visit(x: Form) -> Form:
        if id(x) not in made:
            if isinstance(x, View):
                made[id(x)] = change(x)
            elif isinstance(x, Lazy):
                made[id(x)] = Lazy(x.name, x.detail, tuple(map(visit, x.operands)), x.dtype)
            elif isinstance(x, Taken):
                made[id(x)] = Taken(change(x.base), tuple(map(visit, x.numbers)), x.strides)
            else:
                made[id(x)] = x
        return made[id(x)]

    return [visit(form) for form in forms]


def leaves(form: Form) -> tuple[View, ...]:
    """The views that a value is computed from, each once."""
    if isinstance(form, Lazy):
        return form.leaves
    if isinstance(form, Taken):
        return _each_once([form.base, *(x for number in form.numbers for x in leaves(number))])
    return (form,) if isinstance(form, View) else ()


def _each_once(views: Iterable[View]) -> tuple[View, ...]:
    return tuple({id(view): view for view in views}.values())


def nodes(*forms: Form) -> list[Form]:
    """All that values are computed from, and they, each once."""
    found: dict[int, Form] = {}

    def visit(x: Form) -> None:
        if id(x) in found:
            return
        found[id(x)] = x
        if isinstance(x, (Lazy, Taken)):
            for operand in x.operands if isinstance(x, Lazy) else (x.base, *x.numbers):
                visit(operand)

    for form in forms:
        visit(form)
    return list(found.values())


def as_bytes(view: View) -> View:
    """Booleans as the numbers that memory has of them, 0 and 1."""
    return replace(view, buffer=replace(view.buffer, dtype=np.dtype(np.uint8)))


def stored(dtype: np.dtype) -> np.dtype[Any]:
    """The dtype in which a value lies in memory."""
    return np.dtype(np.int8) if dtype.kind == "b" else dtype
