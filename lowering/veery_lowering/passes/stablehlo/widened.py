"""Compute widened values first where shaders would race for them.

Problem: IREE 3.13 computes a value that is wider than everything it is made of (a mask or bytes as float32) in each
dispatch that uses it. Where the value cannot be part of the dispatch's own loop, the invocations of a workgroup write
it to shared memory, each a part, and read each other's parts without waiting for them. That is so where the value is an
operand of a product, is broadcast, has another use, or comes from a reduction. Example: `w @ mask.astype(float32)`
beside `(mask * w).sum(0)`. Fix: a barrier behind such a value. Test: tests/gpu/test_gpu_races.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations
from veery_lowering.passes.stablehlo.barriers import behind_barrier

_CHEAP = frozenset(
    f"stablehlo.{name}"
    for name in "abs add and clamp compare convert divide maximum minimum multiply negate not or remainder select"
    " shift_left shift_right_arithmetic shift_right_logical sign subtract xor".split()
)
_RESHAPED = frozenset(("stablehlo.reshape", "stablehlo.transpose", "stablehlo.dynamic_reshape"))
_BROADCASTS = frozenset(("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"))
_DIVIDES_OTHERWISE = _BROADCASTS | frozenset(
    f"stablehlo.{name}" for name in "dot dot_general convolution reduce_window".split()
)
_FACTORS = frozenset(("stablehlo.multiply", "stablehlo.and"))
_MADE_ANYWHERE = frozenset(("stablehlo.constant", "stablehlo.iota", "stablehlo.dynamic_iota"))


class _Source(NamedTuple):
    """What a value is made of: the highest rank of arrays that are read for it, and the most bits of those."""

    rank: int
    bits: float


def compute_widened(module: Any) -> None:
    """Put barriers behind values that would be computed where others share memory, in place."""
    sources: dict[Any, _Source | None] = {}
    for op in operations(module):
        if len(op.results) != 1 or not _is_array(op.results[0]):
            continue
        (x,) = op.results
        own = _Source(len(hlo.shape_of(x)), _bits(x))
        source = _source(op, sources, own)
        if _joins_bits(op) or (source is not None and 0 < source.rank and source.bits < own.bits and _is_shared(x)):
            x, source = behind_barrier(op), own
        elif op.name in _CHEAP and len(list(x.uses)) > 1:
            source = own
        sources[x] = source


def _source(op: Any, sources: dict[Any, _Source | None], own: _Source) -> _Source | None:
    of: Callable[[Any], _Source | None] = lambda x: sources.get(x, _Source(len(hlo.shape_of(x)), _bits(x)))
    if op.name in _MADE_ANYWHERE:
        return None
    if op.name in _BROADCASTS:
        return of(op.operands[0])
    if op.name in _RESHAPED:
        source = of(op.operands[0])
        return source and _Source(own.rank if source.rank == len(hlo.shape_of(op.operands[0])) else 0, source.bits)
    if op.name not in _CHEAP:
        return own
    return max(filter(None, map(of, op.operands)), default=None)


def _is_shared(x: Any) -> bool:
    """Whether a value is used more than once, or where work is not divided as it is for the value itself."""
    uses = list(x.uses)
    if len(uses) != 1:
        return bool(uses)
    user = uses[0].owner.operation
    if user.name in _RESHAPED:
        return _is_shared(user.results[0])
    return user.name in _DIVIDES_OTHERWISE or (user.name in _FACTORS and _is_summed(user.results[0]))


def _is_summed(x: Any) -> bool:
    users = [use.owner.operation for use in x.uses]
    return any(
        user.name == "stablehlo.reduce" or (user.name in _RESHAPED and _is_summed(user.results[0])) for user in users
    )


def _joins_bits(op: Any) -> bool:
    """Whether integers become one of more bits, which is a reduction."""
    return op.name == "stablehlo.bitcast_convert" and _bits(op.results[0]) > _bits(op.operands[0])


def _is_array(x: Any) -> bool:
    return isinstance(x.type, ir.RankedTensorType) and not isinstance(x.type.element_type, ir.IndexType)


def _bits(x: Any) -> float:
    """The bits of an element; complex numbers count as none of which others are made, and are never made of fewer."""
    element = x.type.element_type
    return getattr(element, "width", 0 if isinstance(element, ir.ComplexType) else float("inf"))
