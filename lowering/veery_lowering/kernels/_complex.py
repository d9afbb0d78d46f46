"""Computations of complex numbers as those of their real and imaginary parts, of which kernels can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._body import reads
from veery_lowering.kernels._halves import is_complex
from veery_lowering.kernels._reading import integers
from veery_lowering.kernels._transforms import transform_of_parts
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.stablehlo import Value

Parts = tuple[Value, ...]  # a complex number's two, or a value itself

# Operations that do the same with both parts.
_EACH = frozenset(
    f"stablehlo.{name}"
    for name in "add broadcast_in_dim concatenate dynamic_slice dynamic_update_slice gather negate pad reshape reverse"
    " select slice subtract transpose".split()
)


# Operations that put parts together, or take them apart.
_JOINS = frozenset(("stablehlo.complex", "stablehlo.real", "stablehlo.imag"))


def holds_complex(loop: Any) -> bool:
    """Whether a loop computes complex numbers."""
    return any(map(reads_complex, operations(loop)))


def reads_complex(op: Any) -> bool:
    """Whether an operation reads or computes complex numbers."""
    return any(map(is_complex, (*op.operands, *op.results)))


class _Writer:
    """Writes what operations on complex numbers do as operations on their parts."""

    def __init__(self) -> None:
        self._env: dict[Any, Parts] = {}

    # Values.

    def parts(self, value: Any) -> Parts:
        """The parts of a value that is written, or from outside."""
        return self._env.get(value, (value,))

    def one(self, value: Any) -> Value:
        """A value that is not complex."""
        (x,) = self.parts(value)
        return x

    def _from_outside(self, value: Any) -> Parts:
        if maker(value) == "stablehlo.complex":
            return tuple(value.owner.operands)
        return hlo.real(value), hlo.imag(value)

    def _grouped(self, values: Sequence[Any], flat: Sequence[Value]) -> list[Parts]:
        """One or two of what is flat for each of some values."""
        rest = iter(flat)
        return [tuple(next(rest) for _ in range(1 + is_complex(x))) for x in values]

    def _flat(self, values: Sequence[Any]) -> list[Value]:
        return [part for x in values for part in self.parts(x)]

    # Operations.

    def _operation(self, op: Any) -> list[Parts]:
        """Write an operation that computes complex numbers, or reads them.

        Raises:
            Unfit: it does not come in parts.
        """
        if op.name == "stablehlo.optimization_barrier":
            return self._grouped(op.results, hlo.optimization_barrier(self._flat(op.operands)))
        if op.name in _EACH:
            return [tuple(_made(op, operands) for operands in self._each(op))]
        if op.name == "func.call":
            return self._call(op)
        if op.name in _OWN:
            return [_OWN[op.name](op, *map(self.parts, op.operands))]
        raise Unfit(op.name)

    def _each(self, op: Any) -> Iterator[list[Value]]:
        """The operands for the real and for the imaginary part."""
        for k in range(2):
            yield [self.parts(x)[k] if is_complex(x) else self.one(x) for x in op.operands]

    def _call(self, op: Any) -> list[Parts]:
        parts = transform_of_parts(op, self._flat(op.operands), _types_of_parts(op))
        if parts is None:
            raise Unfit("a call")
        return self._grouped(op.results, parts)


class LoopOfParts(_Writer):
    """A loop that takes the place of one over complex numbers, and computes their parts.

    Attributes:
        loop: the new one; the other one is still there, and nothing uses it.

    Raises:
        Unfit: there is something in it that does not come in parts.
    """

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given
        self._joined: list[Value] = []
        self._first = self._place()
        try:
            with ir.InsertionPoint(given), given.location:
                for x in filter(is_complex, reads(given)):
                    self._env[x] = self._from_outside(x)
                for op in operations(given):
                    if op.name == "stablehlo.constant" and is_complex(op.results[0]):
                        self._env[op.results[0]] = self._from_outside(op.clone().results[0])
                results = self._while(given)
                self._joined = [hlo.complex(*parts) if len(parts) == 2 else parts[0] for parts in results]
        except Exception:
            self.undo()
            raise
        self.loop = results[0][0].owner.operation
        for x, joined in zip(given.results, self._joined):
            x.replace_all_uses_with(joined)

    def undo(self) -> None:
        """Put the loop back that was given."""
        for x, joined in zip(self.given.results, self._joined):
            joined.replace_all_uses_with(x)
        for op in list(self.given.operation.block.operations)[self._first : self._place()][::-1]:
            op.operation.erase()

    def _place(self) -> int:
        return list(self.given.operation.block.operations).index(self.given)

    # Operations.

    def _block(self, block: Any, arguments: Sequence[Value]) -> list[Value]:
        """Write the operations of a block; returns the parts of what it ends with."""
        self._env.update(zip(block.arguments, self._grouped(block.arguments, arguments)))
        *inner, end = block.operations
        for op in inner:
            if op.name != "stablehlo.constant" or op.results[0] not in self._env:
                self._env.update(zip(op.results, self._operation(op.operation)))
        return self._flat(end.operands)

    def _operation(self, op: Any) -> list[Parts]:
        if op.name == "stablehlo.while":
            return self._while(op)
        if op.name in ("stablehlo.if", "stablehlo.case"):
            return self._branches(op)
        if not reads_complex(op):
            return [(x,) for x in self._copied(op).results]
        return super()._operation(op)

    def _copied(self, op: Any) -> Any:
        inside = {x for inner in operations(op) for x in inner.results}
        inside.update(x for region in op.regions for block in region.blocks for x in block.arguments)
        if any(x not in inside and x not in list(op.operands) for inner in operations(op) for x in inner.operands):
            raise Unfit("a region that reads what is around it")
        copy = op.clone()
        for i, x in enumerate(op.operands):
            copy.operands[i] = self.one(x)
        return copy

    def _while(self, op: Any) -> list[Parts]:
        condition, body = (region.blocks[0] for region in op.regions)
        write: Callable[[Any], hlo.Body] = lambda block: lambda *arguments: self._block(block, arguments)
        return self._grouped(op.results, hlo.while_(self._flat(op.operands), write(condition), write(body)))

    def _branches(self, op: Any) -> list[Parts]:
        write: Callable[[Any], Callable[[], list[Value]]] = lambda region: lambda: self._block(region.blocks[0], ())
        types = _types_of_parts(op)
        chosen, branches = self.one(op.operands[0]), list(map(write, op.regions))
        if op.name == "stablehlo.if":
            flat = hlo.if_(chosen, branches[0], branches[1], types)
        else:
            flat = hlo.case(chosen, branches, types)
        return self._grouped(op.results, flat)


def part_block(block: Any, chosen: Callable[[Any], bool]) -> None:
    """Write operations of a block in parts, in place: those on complex numbers that are chosen, and come in parts."""
    writer = _BlockWriter()
    for op in list(block.operations)[:-1]:
        if reads_complex(op) and op.name not in _JOINS and chosen(op):
            with ir.InsertionPoint(op), op.location:
                writer.replace(op.operation)
    for op in list(block.operations)[::-1]:
        if op.name in _JOINS and not any(True for _ in op.results[0].uses):
            op.operation.erase()


class _BlockWriter(_Writer):
    """Writes operations of a block where they are; what reads their results reads these joined."""

    def replace(self, op: Any) -> None:
        """Write an operation in parts if it comes in such."""
        for x in filter(is_complex, op.operands):
            if x not in self._env:
                self._env[x] = self._from_outside(x)
        try:
            results = self._operation(op)
        except Unfit:
            return
        for x, parts in zip(op.results, results):
            joined = hlo.complex(*parts) if len(parts) == 2 else parts[0]
            self._env[joined] = parts
            x.replace_all_uses_with(joined)
        op.erase()


def _part(value: Any) -> ir.Type:
    """The type of a part of a complex value."""
    return ir.RankedTensorType.get(value.type.shape, ir.ComplexType(value.type.element_type).element_type)


def _types_of_parts(op: Any) -> list[ir.Type]:
    """The types of the parts of an operation's results."""
    return [_part(x) if is_complex(x) else x.type for x in op.results for _ in range(1 + is_complex(x))]


def _made(op: Any, operands: Sequence[Value]) -> Value:
    """An operation on parts instead of complex numbers."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, [_part(op.results[0])], operands, attributes).results[0]


def _multiply(op: Any, x: Parts, y: Parts) -> Parts:
    product: Callable[[int, int], Value] = lambda i, j: _made(op, [x[i], y[j]])
    return hlo.subtract(product(0, 0), product(1, 1)), hlo.add(product(0, 1), product(1, 0))


def _compare(op: Any, x: Parts, y: Parts) -> Parts:
    direction = hlo.direction_of(op)
    if direction not in ("EQ", "NE"):
        raise Unfit("an order of complex numbers")
    join = hlo.and_ if direction == "EQ" else hlo.or_
    return (join(*(hlo.compare(a, b, direction) for a, b in zip(x, y))),)


def _convert(op: Any, x: Parts) -> Parts:
    dtype = hlo.dtype_of(op.results[0]).type(0).real.dtype
    real, *rest = (hlo.convert(part, dtype) for part in x)
    return real, rest[0] if rest else hlo.full_like(real, 0)


def _reduce(op: Any, x: Parts, start: Parts, *others: Parts) -> Parts:
    inner = list(op.regions[0].blocks[0].operations)
    if others or len(inner) != 2 or inner[0].name != "stablehlo.add":
        raise Unfit("reduce")
    axes = integers(op.attributes["dimensions"])
    return tuple(hlo.reduce(part, begin, axes, hlo.add) for part, begin in zip(x, start))


_OWN: dict[str, Callable[..., Parts]] = {
    "stablehlo.complex": lambda op, real, imag: (*real, *imag),
    "stablehlo.real": lambda op, x: x[:1],
    "stablehlo.imag": lambda op, x: x[1:],
    "stablehlo.multiply": _multiply,
    "stablehlo.dot_general": _multiply,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.reduce": _reduce,
}
