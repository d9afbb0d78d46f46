"""StableHLO modules from elsewhere: read, checked, and made functions of a module under construction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from veery_lowering import isolation
from veery_lowering import stablehlo as hlo
from veery_lowering.errors import CompilerCrash, CompilerTimeout, LoweringError
from veery_lowering.mlir import bytecode, context, ir
from veery_lowering.program import Signature
from veery_lowering.translation import translate
from veery_lowering.types import numpy_dtype, tensor_type
from veery_lowering.versioned import NOT_TEXT, readable

# Calls that say where values lie among devices, and compute nothing.
_ANNOTATIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"))

# What reading may take: 0.05 s for a small module and 1 s for 200 MB of constants on an idle machine, and of damaged
# bytecode whatever there is.
_SECONDS, _PER_SECOND = 20.0, 1e7  # bytes
_MEMORY, _PER_BYTE = 1 << 30, 32


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

    def choose(self, target: str) -> Foreign:
        """The module for "cpu", "vulkan" or "cuda"; LoweringError when there is none."""
        for platform, module in self.modules:
            if platform.partition(":")[0] == target:
                return module
        platforms = ", ".join(platform for platform, _ in self.modules)
        raise LoweringError(f"Function '{self.name}' was exported for platforms ({platforms}), it is used on {target}")


def read_module(source: str | bytes, *, lowered: bool = False, isolated: bool = True) -> Foreign:
    """Read a module: StableHLO as MLIR text or bytecode, or a versioned portable artifact (VHLO bytecode).

    Args:
        source: the module.
        lowered: whether rules made it, so that its operations stay. Its dimensions need not be static then; such ones
            are "?" in the signature.
        isolated: whether it is read in another process first, which what is damaged may end.

    Raises:
        ValueError: it cannot be parsed, has no or several public functions, or dimensions that are not static.
    """
    code = _read(source) if isolated else readable(source)
    with context():
        module = ir.Module.parse(code)
        _drop_annotations(module)
        try:
            return _described(module, lowered)
        except RuntimeError:  # of the bindings
            raise ValueError(NOT_TEXT) from None


def _described(module: ir.Module, lowered: bool) -> Foreign:
    public = [f for f in _functions(module) if "sym_visibility" not in f.attributes or _visibility(f) == "public"]
    mains = [f for f in public if _symbol(f) == "main"] or public
    if len(mains) != 1:
        found = ", ".join(map(_symbol, public)) or "none"
        raise ValueError(f"a StableHLO module needs one public function, or one named main; it has {found}")
    (entry,) = mains
    types = ir.FunctionType(ir.TypeAttr(entry.attributes["function_type"]).value)
    inputs, outputs = (_signature(part, lowered) for part in (types.inputs, types.results))
    names = tuple(_name_of(argument) for argument in entry.regions[0].blocks[0].arguments)
    name = ir.StringAttr(module.operation.attributes["sym_name"]).value if _named(module) else _symbol(entry)
    return Foreign(name, bytecode(module), inputs, outputs, names, _symbol(entry), lowered)


def _named(module: ir.Module) -> bool:
    return "sym_name" in module.operation.attributes


def _read(source: str | bytes) -> bytes:
    deadline = isolation.Deadline(_SECONDS + len(source) / _PER_SECOND)
    try:
        code: bytes = isolation.call(readable, source, deadline=deadline, memory=_MEMORY + _PER_BYTE * len(source))
    except CompilerTimeout:
        raise ValueError(f"not a StableHLO module that can be read: not in {deadline.seconds:.0f} s") from None
    except CompilerCrash as error:
        raise ValueError(f"not a StableHLO module that can be read: {error}") from None
    return code


def _functions(module: ir.Module) -> list[Any]:
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def _symbol(function: Any) -> str:
    return ir.StringAttr(function.attributes["sym_name"]).value


def _visibility(function: Any) -> str:
    return ir.StringAttr(function.attributes["sym_visibility"]).value


def _signature(types: Sequence[ir.Type], dynamic: bool) -> Signature:
    found = []
    for type_ in types:
        if not isinstance(type_, ir.RankedTensorType) or not (dynamic or type_.has_static_shape):
            raise ValueError(f"arguments and results must be tensors of static shape, got {type_}")
        sizes = ("?" if type_.is_dynamic_dim(i) else size for i, size in enumerate(type_.shape))
        found.append((tuple(sizes), numpy_dtype(type_).name))
    return tuple(found)


def _name_of(argument: Any) -> str:
    match = re.match(r'loc\("([^"]*)"(?!:)', str(argument.location))
    return match[1] if match else ""


def _drop_annotations(module: ir.Module) -> None:
    def visit(op: Any) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call" and _target(op) in _ANNOTATIONS:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _target(op: Any) -> str:
    return ir.StringAttr(op.attributes["call_target_name"]).value


# Calls.


def call(emitter: Any, foreign: Foreign, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Call the function of a foreign module, whose functions become private ones of the module under construction.

    Raises LoweringError when its operations are unknown.
    """
    symbol = emitter.foreign.get(foreign)
    if symbol is None:
        symbol = emitter.foreign[foreign] = _merge(emitter, foreign)
    function = next(f for f in _functions(emitter.module) if _symbol(f) == symbol)
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
            old = _symbol(op.operation)
            symbols[old] = emitter._unique(f"{foreign.name}_{old}" if old == foreign.entry else old)

    def rename(op: Any) -> ir.WalkResult:
        for name in list(op.attributes) if op.name != "stablehlo.constant" else ():  # complex ones cannot be read
            value = op.attributes[name]
            if isinstance(value, ir.FlatSymbolRefAttr) and value.value in symbols:
                op.attributes[name] = ir.FlatSymbolRefAttr.get(symbols[value.value])
        return ir.WalkResult.ADVANCE

    module.operation.walk(rename)
    with ir.InsertionPoint(emitter.module.body):
        for op in module.body.operations:
            clone = op.operation.clone()
            if "sym_name" in clone.attributes:
                clone.attributes["sym_name"] = ir.StringAttr.get(symbols[_symbol(op.operation)])
                clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for name in ("arg_attrs", "res_attrs"):
                if name in clone.attributes:
                    del clone.attributes[name]
            if not foreign.lowered:
                translate(clone, emitter.emit)
    return symbols[foreign.entry]
