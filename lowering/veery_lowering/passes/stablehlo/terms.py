"""Write reductions of few terms out, where each term is an array with a number of its own.

IREE 3.13 reduces along the innermost loop, which for few terms is no vector. Example: `(x[:, None] == y[None]).any(1)`
for 3 numbers y, which is what `isin` is. Measured on two cores, us, of 100,000 numbers, as a reduction and written out:
`isin` among 3 65 and 14, how many of 5 are smaller 75 and 24, how far the nearest of 5 is 151 and 30, of 8 127 and 50.
Where terms are exponentials, these take all the time. Arrays that are stacked to be reduced are not stacked: the mean
of three of 300x300 takes 19 us instead of 124. Test: tests/lowering/test_terms.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, maker, operations, sizes
from veery_lowering.stablehlo import Value

_MOST = 8  # terms
_MOST_OPERATIONS = 64  # of all terms
_LEAST = 1 << 10  # results: of fewer a kernel has it

_QUICK = frozenset(
    "abs add and ceil clamp compare convert divide floor is_finite maximum minimum multiply negate not or popcnt select"
    " shift_left shift_right_arithmetic shift_right_logical sign sqrt subtract xor".split()
)
_COMBINE: dict[str, Callable[[Value, Value], Value]] = {
    "add": hlo.add,
    "multiply": hlo.multiply,
    "maximum": hlo.maximum,
    "minimum": hlo.minimum,
    "and": hlo.and_,
    "or": hlo.or_,
}


def write_terms_out(module: ir.Module) -> None:
    """Write reductions of few terms as operations on these, in place."""
    for op in [op for op in operations(module.operation) if op.name == "stablehlo.reduce"]:
        combine = _combination(op)
        with op.location, ir.InsertionPoint(op):
            terms = _Terms(op).written() if combine else None
            if combine is None or terms is None:
                continue
            first = hlo.broadcast_in_dim(op.operands[1], hlo.shape_of(op.results[0]), ())
            op.results[0].replace_all_uses_with(combine(first, _total(terms, combine)))
        op.erase()


def write_stacks_out(module: Any) -> None:
    """Write reductions along an axis on which arrays were stacked for it as operations on these, in place."""
    for op in [op for op in operations(module) if op.name == "stablehlo.reduce"]:
        combine, stacked = _combination(op), _stacked(op)
        if combine is not None and stacked:
            with op.location, ir.InsertionPoint(op):
                shape = hlo.shape_of(op.results[0])
                total = _total([hlo.reshape(x, shape) for x in stacked], combine)
                first = hlo.broadcast_in_dim(op.operands[1], shape, ())
                op.results[0].replace_all_uses_with(combine(first, total))
            op.erase()


def _stacked(op: Any) -> list[Value]:
    """The arrays that an operation reduces, if those were stacked for reductions alone."""
    x = op.operands[0]
    if maker(x) != "stablehlo.concatenate" or None in sizes(x) or not _is_exact(hlo.dtype_of(x)):
        return []
    axis, parts = ir.IntegerAttr(x.owner.attributes["dimension"]).value, list(x.owner.operands)
    are_stacked = len(parts) <= _MOST and all(sizes(part)[axis] == 1 for part in parts)
    return parts if are_stacked and all(_axes(use.owner) == [axis] for use in x.uses) else []


def _axes(op: Any) -> list[int]:
    """The axes along which a reduction reduces; none of other operations."""
    return list(ir.DenseI64ArrayAttr(op.attributes["dimensions"])) if op.name == "stablehlo.reduce" else []


def _is_exact(dtype: np.dtype) -> bool:
    """Whether sums of a dtype may be written out: those of half precision would be rounded after each term."""
    return dtype.kind in "iub" or dtype in (np.float32, np.float64)


def _combination(op: Any) -> Callable[[Value, Value], Value] | None:
    """What a reduction does with two of its terms; None where it is none of the usual."""
    names = [base_name(each.operation.name) for each in op.regions[0].blocks[0].operations]
    return _COMBINE.get(names[0]) if len(op.results) == 1 and names[1:] == ["return"] else None


def _total(terms: list[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Neighbours are combined first, so that sums err less."""
    while len(terms) > 1:
        pairs = [combine(a, b) for a, b in zip(terms[::2], terms[1::2])]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


class _Terms:
    """The terms of a reduction along one axis."""

    def __init__(self, op: Any) -> None:
        self.op, self.root = op, op.operands[0]
        self.shape: list[Any] = sizes(self.root)
        axes = _axes(op)
        self.axis = axes[0] if len(axes) == 1 else -1
        self.inner: list[Any] = []  # the operations that compute them
        self.numbers = 0  # arrays with one for each term

    def written(self) -> list[Value] | None:
        """The terms as values of their own; None where that does not pay."""
        if self.axis < 0 or None in self.shape or not _is_exact(hlo.dtype_of(self.root)):
            return None
        count = self.shape[self.axis]
        if not 1 < count <= _MOST or math.prod(self.shape) < _LEAST * count:
            return None
        if not self._are_apart(self.root) or not self.numbers or count * len(self.inner) > _MOST_OPERATIONS:
            return None
        used = {self.op, *self.inner}
        if any(use.owner not in used for each in self.inner for use in each.results[0].uses):
            return None  # computed for others, too
        return [self._term(self.root, k, {}) for k in range(count)]

    def _are_apart(self, value: Any) -> bool:
        """Whether a value is computed of arrays that are the same for all terms, or a number for each."""
        if hlo.splat_of(value) is not None:
            return True
        name = maker(value)
        if name == "stablehlo.broadcast_in_dim":
            number = self._is_numbers(value.owner)
            self.numbers += bool(number)
            return number is not None
        if base_name(name) not in _QUICK or any(sizes(x) != self.shape for x in value.owner.operands):
            return False
        if value.owner.operation not in self.inner:
            self.inner.append(value.owner.operation)
        return len(self.inner) <= _MOST_OPERATIONS and all(map(self._are_apart, value.owner.operands))

    def _is_numbers(self, op: Any) -> bool | None:
        """Of a broadcast whether it has a number for each term, or is the same for all; None if neither."""
        own: list[Any] = sizes(op.operands[0])
        axes = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
        if self.axis not in axes or own[axes.index(self.axis)] == 1:
            return False
        return True if math.prod(own) == own[axes.index(self.axis)] else None

    def _term(self, value: Any, k: int, made: dict[Any, Value]) -> Value:
        if value not in made:
            made[value] = self._made(value, k, made)
        return made[value]

    def _made(self, value: Any, k: int, made: dict[Any, Value]) -> Value:
        shape = [n for axis, n in enumerate(self.shape) if axis != self.axis]
        element = hlo.splat_of(value)
        if element is not None:
            return hlo.full(element, shape)
        op = value.owner
        if maker(value) == "stablehlo.broadcast_in_dim":
            return self._part(op, k, shape)
        operands = [self._term(x, k, made) for x in op.operands]
        type_ = ir.RankedTensorType.get(shape, value.type.element_type)
        attributes = {name: op.attributes[name] for name in op.attributes}
        return ir.Operation.create(op.name, [type_], operands, attributes).result

    def _part(self, op: Any, k: int, shape: Sequence[int]) -> Value:
        """A term of a broadcast."""
        (x,), axes = op.operands, list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
        if self._is_numbers(op):
            flat = hlo.reshape(x, [self.shape[self.axis]])
            return hlo.broadcast_in_dim(hlo.reshape(hlo.slice(flat, [k], [k + 1]), []), shape, ())
        own = [n for n, axis in zip(hlo.shape_of(x), axes) if axis != self.axis]
        return hlo.broadcast_in_dim(hlo.reshape(x, own), shape, [a - (a > self.axis) for a in axes if a != self.axis])
