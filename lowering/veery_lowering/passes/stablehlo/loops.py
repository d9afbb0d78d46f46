"""Put loops into forms that IREE compiles correctly.

Unread carries. Problem: IREE 3.13 rotates loops, so that the body comes before the condition, and then drops carries
that the body does not read or returns twice. Its conversion to streams still uses the types from before, and the
compiler dies of memory that it overwrote ("LLVM ERROR: out of memory"). Example: (x, done) -> (x * 2, sum(x) > 9). Fix:
bodies read all their carries and return nothing twice. Later passes find more to drop than can be seen here, so every
carry that might be dropped is bound.

Rotating carries. Problem: where arrays change places, (a, b) -> (b, a), so do their offsets, in 64-bit registers for
which the program's code reserves one word too few: the numbers are wrong. Fix: what changes places is computed anew.

Counters. Problem: what depends on a loop's counter alone is computed on the host, whose code lacks some conversions: to
half precision, to unsigned integers, from integers to double precision. Fix: a barrier before such conversions leaves
them to the device.

Test: tests/lowering/test_loops.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations, terminator
from veery_lowering.passes.stablehlo.barriers import bar_operand
from veery_lowering.stablehlo import Value

# Up to so many elements a carry is bound whatever it is.
_SMALL = 4096


def settle(module: Any) -> None:
    """Change the loops of a module operation in place."""
    for op in operations(module):
        if op.name == "stablehlo.while":
            _settle(op)
        elif op.name == "stablehlo.convert" and _is_in_loop(op) and not _is_known_to_host(op):
            bar_operand(op, 0)


def _is_in_loop(op: Any) -> bool:
    around = op.operation.parent
    while around is not None and around.name != "stablehlo.while":
        around = around.operation.parent
    return around is not None


def _is_known_to_host(conversion: Any) -> bool:
    """Whether IREE's code for the host has a conversion, or it is one of an array, which is not done there."""
    given, made = hlo.dtype_of(conversion.operands[0]), hlo.dtype_of(conversion.results[0])
    if hlo.shape_of(conversion.operands[0]) or made.kind in "ib" or made == np.float32:
        return True
    return bool(made == np.float64 and given.kind == "f")


def _settle(loop: Any) -> None:
    condition, body = (region.blocks[0] for region in loop.regions)
    given, end = list(body.arguments), terminator(body)
    returned = list(end.operands)
    moved = _one_of_each_circle(given, returned)
    bound = [] if _counts(condition, given, returned) else _bound(body, given, returned)
    if not moved and not bound:
        return
    with loop.location:
        if moved:
            with ir.InsertionPoint(loop):
                (zero,) = hlo.optimization_barrier([hlo.constant(np.uint8(0))])
        with ir.InsertionPoint(end):
            for i in moved:
                returned[i] = _computed(returned[i], zero)
            if bound:
                kept = hlo.optimization_barrier([*(returned[i] for i in bound), *(given[i] for i in bound)])
                for i, x in zip(bound, kept):
                    returned[i] = x
    for i, x in enumerate(returned):
        end.operands[i] = x


def _counts(condition: Any, given: Sequence[Value], returned: Sequence[Value]) -> bool:
    """Whether a loop adds to a number while that is less than another: IREE makes a counted loop of it."""
    (goes_on,) = terminator(condition).operands
    test = goes_on.owner
    if isinstance(test, ir.Block) or test.name != "stablehlo.compare":
        return False
    if hlo.direction_of(test) != "LT":
        return False
    number = test.operands[0]
    if not np.issubdtype(hlo.dtype_of(number), np.integer) or number not in list(condition.arguments):
        return False
    i = list(condition.arguments).index(number)
    step = returned[i].owner
    return not isinstance(step, ir.Block) and step.name == "stablehlo.add" and given[i] in list(step.operands)


def _bound(body: Any, given: Sequence[Value], returned: Sequence[Value]) -> list[int]:
    """The carries that IREE may drop: small ones, and those that the body does not read, returns twice or not computed.

    A large one that is bound is computed in fresh memory each time: 3.6 ms instead of 1.4 for two of 1M floats.
    """
    return [
        i
        for i, (old, new) in enumerate(zip(given, returned))
        if _is_small(old.type) or not any(True for _ in old.uses) or new in returned[:i] or not _is_computed(new, body)
    ]


def _is_small(kind: Any) -> bool:
    return bool(kind.has_static_shape and math.prod(kind.shape) <= _SMALL)


def _is_computed(x: Value, body: Any) -> bool:
    if isinstance(x.owner, ir.Block):
        return False
    return bool(x.owner.operation.block == body and x.owner.name != "stablehlo.constant")


def _one_of_each_circle(given: Sequence[Value], returned: Sequence[Value]) -> list[int]:
    """For each circle of carries that take the places of each other, the number of one of them."""
    source = {i: given.index(x) for i, x in enumerate(returned) if x in given and x.type.has_static_shape}
    found, seen = [], set()
    for start in source:
        path, i = [], start
        while i in source and i not in seen:
            seen.add(i)
            path.append(i)
            i = source[i]
        if i in path and len(path) - path.index(i) > 1:
            found.append(i)
    return found


def _computed(x: Value, zero: Value) -> Value:
    """A value equal to x that no compiler takes for x: its bits, and a zero that is not known to be one."""
    dtype = hlo.dtype_of(x)
    if dtype == np.bool_:
        return hlo.or_(x, hlo.spread(hlo.convert(zero, np.bool_), x.type.shape))
    if dtype.kind == "c":
        return hlo.complex(_computed(hlo.real(x), zero), _computed(hlo.imag(x), zero))
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    return hlo.bitcast_convert(
        hlo.or_(hlo.bitcast_convert(x, bits), hlo.spread(hlo.convert(zero, bits), x.type.shape)), dtype
    )
