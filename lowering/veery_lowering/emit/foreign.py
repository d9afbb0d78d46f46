"""StableHLO modules from elsewhere as data, and how they become functions of a module under construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import BY_IREE
from veery_lowering.emit.translation import translate
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import context, ir, operations
from veery_lowering.program import Signature
from veery_lowering.types import tensor_type


@dataclass(frozen=True)
class Foreign:
    """A module with one public function, as plain data.

    source: MLIR bytecode of StableHLO.
    lowered: whether rules made it.
    names: of the arguments, "" where unknown.
    """

    name: str
    source: bytes = field(repr=False)
    inputs: Signature
    outputs: Signature
    names: tuple[str, ...]
    entry: str
    lowered: bool = False

    def __repr__(self) -> str:
        return f"@{self.name}"

    def text(self) -> str:
        """The module as MLIR text."""
        with context():
            return str(ir.Module.parse(self.source))


@dataclass(frozen=True)
class ForeignByTarget:
    """One function as a module for each of several targets."""

    modules: tuple[tuple[str, Foreign], ...]

    name = property(lambda self: self.modules[0][1].name)
    inputs = property(lambda self: self.modules[0][1].inputs)
    outputs = property(lambda self: self.modules[0][1].outputs)
    names = property(lambda self: self.modules[0][1].names)

    def __repr__(self) -> str:
        return f"@{self.name}"

    def choose(self, target: str, hardware: str) -> Foreign:
        """The module for "cpu", "vulkan", "cuda", or XLA's devices of a kind; LoweringError when there is none."""
        for platform, module in self.modules:
            # IREE's modules are not for XLA, whose algebra takes the steps of their exponentials for nothing.
            is_other = target == "xla" and platform == hardware and platform not in BY_IREE
            if is_other or platform.partition(":")[0] == target:
                return module
        platforms = ", ".join(platform for platform, _ in self.modules)
        by_iree = target == "xla" and hardware == "cpu" and any(platform == "cpu" for platform, _ in self.modules)
        hint = ". On the CPU device IREE compiles it: jit(f, compiler='iree')" if by_iree else ""
        raise LoweringError(
            f"Function '{self.name}' was exported for platforms ({platforms}), it is used on {target}{hint}"
        )


def functions(module: ir.Module) -> list[Any]:
    """The functions of a module."""
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def symbol_of(function: Any) -> str:
    """The name of a function."""
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def call(emitter: Any, foreign: Foreign, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Call the function of a foreign module, whose functions become private ones of the module under construction.

    Raises LoweringError when its operations are unknown.
    """
    symbol = emitter.foreign.get(foreign)
    if symbol is None:
        symbol = emitter.foreign[foreign] = _merge(emitter, foreign)
    function = next(f for f in functions(emitter.module) if symbol_of(f) == symbol)
    types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    given = [_cast(x, t) for x, t in zip(operands, types.inputs)]
    produced = hlo.call(symbol, given, list(types.results))
    return [_cast(x, tensor_type(a.shape, a.dtype)) for x, a in zip(produced, results)]


def _cast(x: Any, type_: ir.Type) -> Any:
    """Sizes become known or unknown."""
    return x if x.type == type_ else hlo.cast_shape(x, type_)


def _merge(emitter: Any, foreign: Foreign) -> str:
    try:
        module = ir.Module.parse(foreign.source)
    except (ir.MLIRError, ValueError) as error:
        raise LoweringError(f"call_module: {foreign.name} cannot be read: {error}") from None
    symbols = {}
    for op in module.body.operations:
        if "sym_name" in op.operation.attributes:
            old = symbol_of(op.operation)
            symbols[old] = emitter._unique(f"{foreign.name}_{old}" if old == foreign.entry else old)

    for op in operations(module.operation):
        for name in list(op.attributes) if op.name != "stablehlo.constant" else ():  # complex ones cannot be read
            value = op.attributes[name]
            if isinstance(value, ir.FlatSymbolRefAttr) and value.value in symbols:
                op.attributes[name] = ir.FlatSymbolRefAttr.get(symbols[value.value])
    with ir.InsertionPoint(emitter.module.body):
        for op in module.body.operations:
            clone = op.operation.clone()
            if "sym_name" in clone.attributes:
                clone.attributes["sym_name"] = ir.StringAttr.get(symbols[symbol_of(op.operation)])
                clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for name in ("arg_attrs", "res_attrs"):
                if name in clone.attributes:
                    del clone.attributes[name]
            if not foreign.lowered:
                translate(clone, emitter.emit)
    entry: str = symbols[foreign.entry]
    return entry
