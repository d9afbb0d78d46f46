"""Keep programs from writing into their arguments.

Problem: IREE 3.13 updates in place what `dynamic_update_slice`, `scatter` and `sort` are applied to, even if that is an
argument of the program. (The argument is imported without `consume`, yet its dispatch is emitted as `readwrite`.)
Example: after `x.at[0].set(1)` the caller's x is changed too, and of `(x, x.at[0].set(1))` both results are the new
array. Operations without effect between the argument and the update do not help, since IREE folds them away. Fix: the
pass finds the arguments that may reach such an operand through operations that IREE can fold, and copies them on that
path in a form that IREE does not see through. Test: tests/lowering/test_aliasing.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import base_name, ir, maker
from veery_lowering.types import is_static

Use = tuple[Any, int]  # operation, operand number

_IN_PLACE = frozenset(("dynamic_update_slice", "scatter", "sort", "tensor.insert_slice"))
_UPDATE = {"dynamic_update_slice": 1, "tensor.insert_slice": 0}  # which operand is the update

# Operations that can become one of these operands when folded (None: any of them).
_FORWARDING: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "reshape broadcast_in_dim transpose reverse slice convert bitcast_convert optimization_barrier negate not"
            " real imag complex concatenate reduce_precision"
        ).split()
    ),
    "pad": (0,),
    "dynamic_slice": (0,),
    "gather": (0,),
    **dict.fromkeys(
        (
            "dynamic_broadcast_in_dim tensor.cast tensor.collapse_shape tensor.expand_shape tensor.extract_slice"
            " flow.tensor.tie_shape"
        ).split(),
        (0,),
    ),
    "reduce": None,
    "reduce_window": None,
    "select": (1, 2),
    "clamp": (1,),
}
# value with which each of these leaves the other operand as it is
_NEUTRAL = {
    **dict.fromkeys("add subtract or xor shift_left shift_right_logical shift_right_arithmetic".split(), 0),
    **dict.fromkeys("multiply divide power".split(), 1),
    "and": -1,
    "maximum": -math.inf,
    "minimum": math.inf,
}


def protect_arguments(module: ir.Module, donated: tuple[bool, ...]) -> None:
    """Copy the arguments of `main` that an operation of the module might overwrite.

    Args:
        module: a StableHLO module.
        donated: for each argument, whether it may be overwritten. One that is also returned is copied all the same.
    """
    operations = list(_walk(module.operation))
    if not any(base_name(op.name) in _IN_PLACE for op in operations):
        return
    flow = _Flow(operations)
    arguments = list(flow.functions["main"].regions[0].blocks[0].arguments)
    endangered = flow.reaching(flow.writes)
    returned = flow.reaching(flow.returns)
    shared = [argument for i, argument in enumerate(arguments) if argument in returned or not any(donated[i : i + 1])]
    for value in shared:
        if value in endangered:
            uses = [use for use in _uses(value) if flow.is_write(use) or endangered.intersection(flow.next(use))]
            _copy_for(value, uses)


def overwritten(op: Any) -> range:
    """The operands of an operation that IREE overwrites with its results where it can."""
    name = base_name(op.name)
    if name not in _IN_PLACE:
        return range(0)
    if name in _UPDATE:
        return range(1 - _UPDATE[name], 2 - _UPDATE[name])
    return range(len(op.results))


def _walk(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from _walk(op.operation)


def _uses(value: ir.Value) -> list[Use]:
    return [(use.owner.operation, use.operand_number) for use in value.uses]


class _Flow:
    """Which values may share memory with which later ones."""

    def __init__(self, operations: list[Any]):
        self.functions: dict[str, Any] = {}
        self.calls: dict[str, list[Any]] = {}
        self.writes: set[ir.Value] = set()
        self.returns: set[ir.Value] = set()
        for op in operations:
            if op.name == "func.func":
                self.functions[ir.StringAttr(op.attributes["sym_name"]).value] = op
            elif op.name == "func.call":
                self.calls.setdefault(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, []).append(op)
        for op in operations:
            self.writes.update(op.operands[i] for i in overwritten(op))
            if op.name == "func.return" and self._function_of(op) == "main":
                self.returns.update(op.operands)

    def is_write(self, use: Use) -> bool:
        """Whether a use overwrites the used value."""
        op, index = use
        return index in overwritten(op)

    def reaching(self, targets: set[ir.Value]) -> set[ir.Value]:
        """The values that may be one of `targets`, those included."""
        found = set(targets)
        stack = list(targets)
        while stack:
            for origin in self._origins(stack.pop()):
                if origin not in found:
                    found.add(origin)
                    stack.append(origin)
        return found

    def next(self, use: Use) -> set[ir.Value]:
        """The values that may be the used one after the operation that uses it."""
        op, index = use
        name = base_name(op.name)
        if name == "while":
            return {op.results[index], *(region.blocks[0].arguments[index] for region in op.regions)}
        if name == "func.call":
            function = self.functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            return (
                {function.regions[0].blocks[0].arguments[index]} if function and function.regions[0].blocks else set()
            )
        if name == "func.return":
            return {call.results[index] for call in self.calls.get(self._function_of(op), ())}
        if name == "return":
            parent = op.parent.operation
            if parent.name == "stablehlo.while":
                return {parent.results[index], *(region.blocks[0].arguments[index] for region in parent.regions)}
            return {parent.results[index]} if parent.name in ("stablehlo.case", "stablehlo.if") else set()
        if index == _UPDATE.get(name):
            return set(op.results) if _may_be_all(op) else set()
        return set(op.results) if index in self._forwarded(op) else set()

    def _origins(self, value: ir.Value) -> Iterator[ir.Value]:
        """The values that `value` may be: the inverse of `next`."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            parent = owner.owner.operation
            index = ir.BlockArgument(value).arg_number
            if parent.name == "func.func":
                name = ir.StringAttr(parent.attributes["sym_name"]).value
                yield from (call.operands[index] for call in self.calls.get(name, ()))
            elif parent.name == "stablehlo.while":
                yield parent.operands[index]
                yield parent.regions[1].blocks[0].operations[-1].operands[index]
            return
        op, index = owner.operation, ir.OpResult(value).result_number
        name = base_name(op.name)
        if name == "while":
            yield op.operands[index]
            yield op.regions[1].blocks[0].operations[-1].operands[index]
        elif name in ("case", "if"):
            yield from (region.blocks[0].operations[-1].operands[index] for region in op.regions)
        elif name == "func.call":
            function = self.functions.get(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            if function and function.regions[0].blocks:
                yield function.regions[0].blocks[0].operations[-1].operands[index]
        elif name == "optimization_barrier":
            yield op.operands[index]
        elif name in _UPDATE:
            if _may_be_all(op):
                yield op.operands[_UPDATE[name]]
        else:
            yield from (op.operands[i] for i in self._forwarded(op))

    @staticmethod
    def _function_of(op: Any) -> str:
        return str(ir.StringAttr(op.parent.operation.attributes["sym_name"]).value)

    def _forwarded(self, op: Any) -> tuple[int, ...] | range:
        name = base_name(op.name)
        if name in _FORWARDING:
            operands = _FORWARDING[name]
            return range(len(op.operands)) if operands is None else operands
        if name not in _NEUTRAL:
            return ()
        if _is_integer(op.results[0]) or op.operands[0] == op.operands[1]:
            return (0, 1)  # `x + y - y`, `max(x, x)` and their like
        neutral = _NEUTRAL[name]
        return tuple(i for i in (0, 1) if self._may_be(op.operands[1 - i], neutral))

    def _may_be(self, value: ir.Value, neutral: float) -> bool:
        """Whether the compiler could find out that all elements of `value` are `neutral`."""
        seen, waiting = set(), [value]
        while waiting:
            value = waiting.pop()
            while maker(value) in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"):
                value = value.owner.operands[0]
            if value in seen:  # what loops carry may change places
                continue
            seen.add(value)
            if isinstance(value.owner, ir.Block):
                waiting += self._origins(value)
            elif _may_result(value, neutral):
                return True
        return False


def _may_be_all(update: Any) -> bool:
    """Whether an operation may write all of its result, which its update is then."""
    given, made = (
        ir.RankedTensorType(x.type) for x in (update.operands[_UPDATE[base_name(update.name)]], *update.results)
    )
    return bool(given == made or not (given.has_static_shape and made.has_static_shape))


def _may_result(value: ir.Value, neutral: float) -> bool:
    """Whether the compiler could find out that all elements of the result of an operation are `neutral`."""
    op = value.owner.operation
    if op.name == "stablehlo.constant":
        if hlo.dtype_of(value).kind == "c":  # the bindings cannot read attributes of complex elements
            return True
        number = hlo.splat_attribute(value)
        return number is not None and (not isinstance(number, ir.FloatAttr) or number.value == neutral)
    return not _depends_on_arguments(op)


def _depends_on_arguments(op: Any) -> bool:
    """Whether an operation, or what it reads, may be known only when the program runs."""
    seen, waiting = {op}, [op]
    while waiting:
        op = waiting.pop()
        if op.regions or any(isinstance(x.owner, ir.Block) for x in op.operands):
            return True
        makers = {x.owner.operation for x in op.operands} - seen
        seen |= makers
        waiting += makers
    return False


def _is_integer(value: ir.Value) -> bool:
    return isinstance(ir.RankedTensorType(value.type).element_type, ir.IntegerType)


def _behind_barriers(value: ir.Value) -> ir.Value:
    """What the barriers that a value has passed were given."""
    while maker(value) == "stablehlo.optimization_barrier":
        value = value.owner.operands[list(value.owner.results).index(value)]
    return value


def _copy_for(value: ir.Value, uses: list[Use]) -> None:
    """Let `uses` see a copy of a value."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        here = ir.InsertionPoint.at_block_begin(owner)
    else:
        here = ir.InsertionPoint.after(owner.operation)
    with here, ir.Location.name("keep", ir.Location.unknown()):
        copy = masked_copy(value)
    for op, number in uses:
        op.operands[number] = copy


def masked_copy(value: ir.Value, limit: int = -1) -> ir.Value:
    """A copy of a value: `select(iota > -1, x, 0)`, a mask that no folder of IREE proves true.

    A copy of a copy needs another limit: what the same mask selects twice is selected once.
    """
    shape = hlo.shape_of(value)
    if 0 in shape:
        return value
    if all(map(is_static, shape)) and math.prod(shape) == 1:
        return _copy_of_one(value, limit)
    x = hlo.tie_shape(value, _behind_barriers(value))  # IREE knows no sizes of a barrier's result
    longest = max(range(len(shape)), key=lambda i: shape[i] if is_static(shape[i]) else math.inf)
    index = hlo.iota("int32", shape, longest)
    zeros = hlo.full(0, shape, hlo.dtype_of(x))
    return hlo.select(hlo.compare(index, hlo.full_like(index, limit), "GT"), x, zeros)


def _copy_of_one(value: ir.Value, limit: int) -> ir.Value:
    """A copy of an element, one bit of it and the others: the mask of one element is folded."""
    dtype = hlo.dtype_of(value)
    if dtype.kind == "c":
        return hlo.complex(*(_copy_of_one(part(value), limit) for part in (hlo.real, hlo.imag)))
    if dtype.kind == "b":
        copy = _copy_of_one(hlo.convert(value, np.uint8), limit)
        return hlo.compare(copy, hlo.full_like(copy, 0), "NE")
    width = hlo.width_of(dtype)
    x = hlo.bitcast_convert(value, f"uint{width}")
    bit = 1 << (-limit - 1) % width
    parts = (hlo.and_(x, hlo.full_like(x, mask)) for mask in (bit, 2**width - 1 - bit))
    return hlo.bitcast_convert(hlo.or_(*parts), dtype)
