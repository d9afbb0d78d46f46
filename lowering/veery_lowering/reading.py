"""Reading StableHLO modules from elsewhere, and checking them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.compiler import isolation
from veery_lowering.emit.foreign import Foreign, functions, symbol_of
from veery_lowering.emit.versioned import NOT_TEXT, readable
from veery_lowering.errors import CompilerCrash, CompilerTimeout
from veery_lowering.mlir import bytecode, context, ir, operations
from veery_lowering.program import Signature
from veery_lowering.types import numpy_dtype

# Calls that say where values lie among devices, and compute nothing.
_ANNOTATIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"))

# What reading may take: 0.05 s for a small module and 1 s for 200 MB of constants on an idle machine, and of damaged
# bytecode whatever there is.
_SECONDS, _PER_SECOND = 20.0, 1e7  # bytes
_MEMORY, _PER_BYTE = 1 << 30, 32


def read_module(source: str | bytes, *, lowered: bool = False, isolated: bool = True) -> Foreign:
    """Read a module: StableHLO as MLIR text or bytecode, or a versioned portable artifact (VHLO bytecode).

    Args:
        source: the module.
        lowered: whether rules made it, so that its operations stay. Its dimensions need not be static then; such ones
            are "?" in the signature.
        isolated: whether it is read in another process first, which what is damaged may end.

    Raises:
        ValueError: it cannot be parsed, has no or several public functions, dimensions that are not static, or floats
            of 4 bits.
    """
    code = _read(source) if isolated else readable(source)
    with context():
        module = ir.Module.parse(code)
        _drop_annotations(module)
        _refuse_float4(module)
        try:
            return _described(module, lowered)
        except RuntimeError:  # of the bindings
            raise ValueError(NOT_TEXT) from None


def _described(module: ir.Module, lowered: bool) -> Foreign:
    public = [f for f in functions(module) if "sym_visibility" not in f.attributes or _visibility(f) == "public"]
    mains = [f for f in public if symbol_of(f) == "main"] or public
    if len(mains) != 1:
        found = ", ".join(map(symbol_of, public)) or "none"
        raise ValueError(f"a StableHLO module needs one public function, or one named main; it has {found}")
    (entry,) = mains
    types = ir.FunctionType(ir.TypeAttr(entry.attributes["function_type"]).value)
    inputs, outputs = (_signature(part, lowered) for part in (types.inputs, types.results))
    names = tuple(_name_of(argument) for argument in entry.regions[0].blocks[0].arguments)
    name = ir.StringAttr(module.operation.attributes["sym_name"]).value if _named(module) else symbol_of(entry)
    return Foreign(name, bytecode(module), inputs, outputs, names, symbol_of(entry), lowered)


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


def _visibility(function: Any) -> str:
    return str(ir.StringAttr(function.attributes["sym_visibility"]).value)


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
    for op in operations(module.operation):
        if hlo.called_by(op) in _ANNOTATIONS:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _refuse_float4(module: ir.Module) -> None:
    """Raise ValueError for floats of 4 bits, in whose place programs of veery have their bits (types.py)."""
    for op in operations(module.operation):
        for x in op.results:
            if "f4E2M1FN" in str(x.type):
                raise ValueError(
                    f"{op.name} gives {x.type}: floats of 4 bits are not read from modules, since IREE computes "
                    "wrongly with them. Convert them where they come from, to float8_e4m3fn say"
                )
