"""Which operations may be computed with one of their block: those that use what it gives, if all is known by then."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from veery_lowering.kernels._arithmetic import ELEMENTWISE, Unfit
from veery_lowering.kernels._body import checked
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Buffer
from veery_lowering.kernels._lifetimes import around
from veery_lowering.mlir import base_name, ir

# Bytes of arguments from which on results take their place, and how many operations back these are looked for.
_REUSED = 1 << 16
_MOST_BACK = 200


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


class Given:
    """Arguments in whose place results may be written.

    Args:
        arguments: those that are given away.
    """

    def __init__(self, arguments: Collection[Any] = ()) -> None:
        self._taken = {x: True for x in arguments if _nbytes(x) >= _REUSED}

    def is_taken_by(self, op: Any) -> bool:
        """Whether what an operation gives may take the place of such an argument, which it is computed from."""
        return bool(self._taken) and any(map(self._is_of_one, op.operands))

    def _is_of_one(self, value: Any, back: int = 0) -> bool:
        """Whether a value is one of them, or computed of one element by element, as far as that is looked for."""
        if back > _MOST_BACK:
            return True
        if value not in self._taken:
            op = value.owner
            elementwise = not isinstance(op, ir.Block) and base_name(op.name) in ELEMENTWISE
            self._taken[value] = False  # until it is known
            self._taken[value] = elementwise and any(
                x.type.shape == value.type.shape and self._is_of_one(x, back + 1) for x in op.operands
            )
        return self._taken[value]


def _nbytes(value: Any) -> int:
    """The bytes of an array such as kernels hold; 0 of others."""
    try:
        shape, dtype = checked(value)
    except Unfit:
        return 0
    return math.prod(shape) * dtype.itemsize
