"""Which operations may be computed with one of their block.

They are those that use what it gives, if all is known by then, and those that nothing else uses than these.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Affine, Buffer, View
from veery_lowering.kernels._lifetimes import around
from veery_lowering.mlir import ir


def followers(op: Any, fits: Callable[[Any], bool], most: int) -> tuple[list[Any], Any]:
    """The values that are computed with an operation.

    Args:
        op: it has one result.
        fits: whether another one, which uses that or what is made of it, may be computed with it.
        most: how many there are at most.

    Returns:
        the values in their order, and the first operation of the block that uses them and is none of theirs.
    """
    block, inside, first = op.block, {op.results[0]: None}, None
    waiting = _users(op, block)
    while waiting:
        user = functools.reduce(_earlier, waiting)
        waiting.remove(user)
        known = (x in inside or _is_known(x, block, first) for x in user.operands)
        if len(inside) < most and fits(user) and all(known):
            inside[user.results[0]] = None
            waiting |= _users(user, block)
        else:
            first = first or user
    return list(inside), first


def with_sources(inside: Sequence[Any], read: Iterable[Any], fits: Callable[[Any], bool], most: int) -> list[Any]:
    """Values with those that are read for nothing else, in their order.

    Args:
        inside: values that are computed together, of one block.
        read: what is read for them.
        fits: whether an operation may be computed with them.
        most: how many there are at most. If there would be more, none is added: what is parted in the middle is rounded
            in other places.
    """
    block, found, waiting = inside[0].owner.operation.block, dict.fromkeys(inside), list(read)
    while waiting:
        value = waiting.pop()
        if value in found or isinstance(value.owner, ir.Block) or hlo.is_constant(value):
            continue
        op = value.owner.operation
        users = {use.owner.operation for use in value.uses}
        if op.block == block and all(user.results and user.results[0] in found for user in users) and fits(op):
            found[value] = None
            waiting += op.operands
    return in_order(found if len(found) <= most else inside)


def in_order(values: Iterable[Any]) -> list[Any]:
    """Values that a block computes, in their order."""
    before: Callable[[Any, Any], int] = lambda a, b: -1 if a.owner.is_before_in_block(b.owner) else 1
    return sorted(values, key=functools.cmp_to_key(before))


def _users(op: Any, block: Any) -> set[Any]:
    """The operations of a block that use what one of them gives, or in which something does."""
    return {around(use.owner.operation, block) for value in op.results for use in value.uses}


def _earlier(a: Any, b: Any) -> Any:
    """The one of two operations of a block that comes first."""
    return a if a.is_before_in_block(b) else b


def _is_known(value: Any, block: Any, first: Any) -> bool:
    """Whether a value is computed before an operation of a block, if there is one."""
    op = value.owner
    if first is None or isinstance(op, ir.Block) or op.operation.block != block:
        return True
    return bool(op.operation.is_before_in_block(first))


class FusedKernel:
    """A kernel of an operation and of what is computed with it.

    Attributes:
        op: the operation.
        inside: the values that are computed, in their order.
        before: the first operation of the block that uses them and is none of theirs.
        results: those that others use, with where the kernel writes them.
        executable: the kernel.
    """

    form: str
    op: Any
    inside: list[Any]
    before: Any
    results: dict[Any, Buffer]
    executable: Executable

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of what it computes."""
        results = {buffer: value for value, buffer in self.results.items()}
        self.executable.call(module, name, self.before, results, self.op)
        for value in reversed(self.inside):
            value.owner.operation.erase()


def in_place(
    inputs: Mapping[Any, Buffer], donated: Collection[Any], views: Iterable[View], outputs: Iterable[Buffer]
) -> list[tuple[Buffer, Buffer]]:
    """What a kernel reads and writes that may be the same memory: it has read all of an element when it writes that.

    Args:
        inputs: the values that it reads, and where they are.
        donated: those values that are given away.
        views: all that is read with what is written, which are arrays of one shape.
        outputs: where its results go.
    """
    found = []
    for value, buffer in inputs.items():
        if value in donated:
            mine = [view for view in views if view.buffer == buffer]
            if mine and all(view.is_contiguous and view.offset == Affine() for view in mine):
                alike = (out for out in outputs if (out.dtype, out.size) == (buffer.dtype, buffer.size))
                found += [(buffer, out) for out in alike if math.prod(mine[0].shape) == buffer.size]
    return found
