"""Effects in the order of the program, for XLA.

XLA orders operations by their operands alone: of two calls that print, either may come first, in each run another. So a
number that is passed from one call to the next goes through the program, into loops, branches and functions that have
such calls in them, and out of them. `print(x); print(y)` becomes `n = print(x, 0); print(y, n)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery_lowering.mlir import ir, operations, terminator

_CONTROL = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))


def order_effects(module: ir.Module) -> None:
    """Thread a number through the calls with side effects, in the order in which they stand."""
    functions = {ir.StringAttr(f.attributes["sym_name"]).value: f.operation for f in module.body.operations}
    effectful = {name for name, function in functions.items() if any(map(_has_effect, operations(function)))}
    while True:
        more = {
            name
            for name, function in functions.items()
            if name not in effectful and any(_callee(op) in effectful for op in operations(function))
        }
        if not more:
            break
        effectful |= more
    if effectful:
        _Threading(effectful).run(functions)


def _has_effect(op: Any) -> bool:
    found = op.attributes
    return bool(op.name == "stablehlo.custom_call" and "has_side_effect" in found and found["has_side_effect"].value)


def _callee(op: Any) -> str | None:
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.name == "func.call" else None


class _Threading:
    """Rewrites functions so that a number passes through their calls with effects."""

    def __init__(self, effectful: set[str]) -> None:
        self.effectful = effectful
        self.type = ir.RankedTensorType.get((), ir.IntegerType.get_signless(32))

    def run(self, functions: dict[str, Any]) -> None:
        for name in self.effectful:
            function = functions[name]
            block = function.regions[0].blocks[0]
            if name == "main":
                with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown():
                    zero = ir.DenseElementsAttr.get_splat(self.type, ir.IntegerAttr.get(self.type.element_type, 0))
                    token = ir.Operation.create("stablehlo.constant", [self.type], attributes={"value": zero}).result
                self._thread(block, token)
                continue
            token = self._thread(block, block.add_argument(self.type, function.location))
            self._return(block, token)
            before = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            after = ir.FunctionType.get([*before.inputs, self.type], [*before.results, self.type])
            function.attributes["function_type"] = ir.TypeAttr.get(after)

    def _thread(self, block: Any, token: Any) -> Any:
        """Pass a number through a block; what comes out at its end."""
        for op in [each.operation for each in block.operations]:
            if _has_effect(op) or _callee(op) in self.effectful:
                token = self._rebuilt(op, [*op.operands, token])
            elif op.name in _CONTROL and self._has_effects_within(op):
                carried = [*op.operands, token] if op.name == "stablehlo.while" else list(op.operands)
                for region in op.regions:
                    self._enter(op.name, region.blocks[0], token)
                token = self._rebuilt(op, carried)
        return token

    def _enter(self, name: str, inner: Any, token: Any) -> None:
        if name != "stablehlo.while":
            self._return(inner, self._thread(inner, token))
            return
        after = self._thread(inner, inner.add_argument(self.type, ir.Location.unknown()))
        if not self._is_condition(inner):
            self._return(inner, after)

    def _is_condition(self, block: Any) -> bool:
        return bool(block.owner.regions[0].blocks[0] == block)

    def _has_effects_within(self, op: Any) -> bool:
        return any(_has_effect(each) or _callee(each) in self.effectful for each in operations(op))

    def _return(self, block: Any, token: Any) -> None:
        end = terminator(block)
        with ir.InsertionPoint(end), end.location:
            ir.Operation.create(end.name, operands=[*end.operands, token])
        end.erase()

    def _rebuilt(self, op: Any, operands: Sequence[Any]) -> Any:
        """The operation with these operands and one more result, which is returned."""
        types = [*(result.type for result in op.results), self.type]
        attributes = {name: op.attributes[name] for name in op.attributes}
        with ir.InsertionPoint(op), op.location:
            made = ir.Operation.create(op.name, types, list(operands), attributes, regions=len(op.regions))
        for old, new in zip(op.regions, made.regions):
            old.blocks[0].append_to(new)
        for old, new in zip(op.results, made.results):
            old.replace_all_uses_with(new)
        op.erase()
        return made.results[len(types) - 1]
