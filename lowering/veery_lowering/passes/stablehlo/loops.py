"""Put loops into forms that IREE compiles correctly.

Unread carries. Problem: IREE 3.13 rotates loops, so that the body comes before the condition, and then drops carries
that the body does not read or returns twice. Its conversion to streams still uses the types from before, and the
compiler dies of memory that it overwrote ("LLVM ERROR: out of memory"). Example: (x, done) -> (x * 2, sum(x) > 9). Fix:
bodies read all their carries and return nothing twice. Later passes find more to drop than can be seen here, so every
carry that might be dropped is bound.

Rotating carries. Problem: where arrays change places, (a, b) -> (b, a), so do their offsets, in 64-bit registers for
which the program's code reserves one word too few: the numbers are wrong. Fix: what changes places is computed anew.

Counters. Problem: what depends on a loop's counter alone is computed on the host, whose code lacks some conversions: to
half precision, to unsigned integers, from integers to double precision. Fix: what is converted is computed with a zero
that is in memory, which leaves it to the device.

Barriers. Problem: at a barrier a call waits for what is before it, but not where that is what a loop carries, as it is:
the first trip then reads memory that is not written yet ("transient buffer has not been committed", or wrong numbers).
Example: barrier(key) in a loop whose first key is computed. Fix: it is computed anew before the barrier. What a loop
hands on unchanged is waited for before the loop.

Test: tests/lowering/test_loops.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._rounds import counting
from veery_lowering.mlir import ir, operations, terminator
from veery_lowering.passes.stablehlo.barriers import bar_operand
from veery_lowering.stablehlo import Value

# Up to so many elements a carry is bound whatever it is.
_SMALL = 4096


def settle(module: Any) -> None:
    """Change the loops of a module operation in place."""
    zeros: dict[Any, Value] = {}
    for op in operations(module):
        if op.name == "stablehlo.while":
            _settle(op)
        elif op.name == "stablehlo.convert" and not _is_known_to_host(op) and _is_on_host(op.operands[0]):
            _compute_operand(op, 0, zeros)
    for op in operations(module):
        if op.name == "stablehlo.optimization_barrier":
            for i, (x, result) in enumerate(zip(op.operands, op.results)):
                if _is_carried(x) and list(result.uses) and not _is_handed_on(x, result):
                    _compute_operand(op, i, zeros)


def _is_known_to_host(conversion: Any) -> bool:
    """Whether IREE's code for the host has a conversion, or it is one of an array, which is not done there."""
    given, made = hlo.dtype_of(conversion.operands[0]), hlo.dtype_of(conversion.results[0])
    if hlo.shape_of(conversion.operands[0]) or made.kind in "ib" or made == np.float32:
        return True
    return bool(made == np.float64 and given.kind == "f")


def _is_on_host(x: Value) -> bool:
    """Whether a number is made of constants and of what decides how often a loop runs."""
    seen, found = [x], False
    for value in seen:
        if _is_carried(value):
            if value.arg_number not in _deciding(value.owner.owner):
                return False
            found = True
        elif not _is_arithmetic(value):
            return False
        else:
            seen += [operand for operand in value.owner.operands if operand not in seen]
    return found


def _deciding(loop: Any) -> set[int]:
    """The carries that a loop's condition reads, as numbers, and those of which these are made in turn."""
    condition, body = (region.blocks[0] for region in loop.regions)
    returned = terminator(body).operands
    found: set[int] = set()
    values = [terminator(condition).operands[0]]
    for value in values:
        if _is_carried(value):
            if value.arg_number not in found:
                found.add(value.arg_number)
                values.append(returned[value.arg_number])
        elif _is_arithmetic(value):
            values += [operand for operand in value.owner.operands if operand not in values]
    return found


def _is_arithmetic(x: Value) -> bool:
    """Whether a number is computed of numbers."""
    if isinstance(x.owner, ir.Block) or x.owner.operation.regions or not x.owner.name.startswith("stablehlo."):
        return False
    return not any(hlo.shape_of(value) for value in (x, *x.owner.operands))


def _is_carried(x: Value) -> bool:
    return isinstance(x.owner, ir.Block) and x.owner.owner.name == "stablehlo.while"


def _is_handed_on(x: Value, result: Value) -> bool:
    """Whether a carry of a loop is what it was, behind a barrier."""
    return bool(terminator(x.owner).operands[x.arg_number] == result)


def _compute_operand(op: Any, number: int, zeros: dict[Any, Value]) -> None:
    """Have an operand computed on the device, anew, with a zero of its outermost loop: a call waits for each zero."""
    x = op.operands[number]
    if not x.type.has_static_shape:
        return
    loop = _outermost_loop(op)
    with op.location:
        if loop not in zeros:
            with ir.InsertionPoint(loop):
                zeros[loop] = _zero()
        with ir.InsertionPoint(op):
            op.operands[number] = _computed(x, zeros[loop])


def _outermost_loop(op: Any) -> Any:
    outermost, around = None, op.operation.parent
    while around is not None:
        outermost = around if around.name == "stablehlo.while" else outermost
        around = around.operation.parent
    return outermost


def _zero() -> Value:
    """A zero in memory that no compiler takes for one."""
    return hlo.optimization_barrier([hlo.constant(np.uint8(0))])[0]


def _settle(loop: Any) -> None:
    body = loop.regions[1].blocks[0]
    given, end = list(body.arguments), terminator(body)
    returned = list(end.operands)
    moved = _one_of_each_circle(given, returned)
    bound = _bound(body, given, returned) if counting(body) is None else []
    if not moved and not bound:
        return
    with loop.location:
        if moved:
            with ir.InsertionPoint(loop):
                zero = _zero()
        for i in bound:
            if returned[i] == given[i]:
                bar_operand(loop, i)
        with ir.InsertionPoint(end):
            for i in moved:
                returned[i] = _computed(returned[i], zero)
            if bound:
                kept = hlo.optimization_barrier([*(returned[i] for i in bound), *(given[i] for i in bound)])
                for i, x in zip(bound, kept):
                    returned[i] = x
    for i, x in enumerate(returned):
        end.operands[i] = x


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
    if dtype.kind in "biu":
        return hlo.or_(x, hlo.spread(hlo.convert(zero, dtype), x.type.shape))
    if dtype.kind == "c":
        return hlo.complex(_computed(hlo.real(x), zero), _computed(hlo.imag(x), zero))
    bits = np.dtype(f"uint{8 * dtype.itemsize}")
    return hlo.bitcast_convert(
        hlo.or_(hlo.bitcast_convert(x, bits), hlo.spread(hlo.convert(zero, bits), x.type.shape)), dtype
    )
