"""Portable artifacts, whose operations are versioned (VHLO), as StableHLO.

The bindings do not have the pass that converts them; it is the second of IREE's conversion of StableHLO to what comes
after that. Each pass must leave a valid module, or is the last one. So there is a function here that only StableHLO
finds wrong, a sum of arrays that differ in size, and is taken out again.
"""

from __future__ import annotations

from veery_lowering.mlir import PassManager, bytecode, context, ir

NOT_TEXT = "not a StableHLO module that can be read: a name in it is not text"
_NAME = "veery.wrong"
_SMALL, _LARGE = (f"!vhlo.tensor_v1<{n}x!vhlo.f32_v1>" for n in (2, 3))
_WRONG = f"""
vhlo.func_v1 @{_NAME}(%a: {_SMALL}, %b: {_LARGE}) -> ({_SMALL}) {{
  %sum = "vhlo.add_v1"(%a, %b) : ({_SMALL}, {_LARGE}) -> {_SMALL}
  "vhlo.return_v1"(%sum) : ({_SMALL}) -> ()
}} {{arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"private">}}
"""
_PIPELINE = "builtin.module(iree-stablehlo-input-transformation-pipeline)"


def readable(source: str | bytes) -> bytes:
    """MLIR bytecode of StableHLO of what may be text, other bytecode, or a portable artifact.

    To be run in another process: of damaged bytecode some ends the reader, or asks it for more memory than there is.

    Raises:
        ValueError: it is not one, or has operations or types of a version that this compiler does not know.
    """
    with context():
        try:
            module = ir.Module.parse(source)
        except (ir.MLIRError, ValueError) as error:
            raise ValueError(f"not a StableHLO module that can be read: {_reason(str(error))}") from None
        except RuntimeError:  # of the bindings
            raise ValueError(NOT_TEXT) from None
        if _is_versioned(module):
            _convert(module)
        return bytecode(module)


def _is_versioned(module: ir.Module) -> bool:
    return any(op.operation.name.startswith("vhlo.") for op in module.body.operations)


def _convert(module: ir.Module) -> None:
    """Make the operations of a portable artifact those of StableHLO, in place."""
    holder = ir.Module.parse(_WRONG)
    with ir.InsertionPoint(module.body):
        holder.body.operations[0].operation.clone()
    said = ""
    try:
        PassManager.parse(_PIPELINE).run(module.operation)
    except ir.MLIRError as error:
        said = str(error)
    for op in list(module.body.operations):
        if "sym_name" in op.operation.attributes and _NAME in str(op.operation.attributes["sym_name"]):
            op.operation.erase()
    if _is_versioned(module) or not _is_valid(module):
        raise ValueError(f"not a portable artifact that can be read: {_reason(said)}")


def _reason(said: str) -> str:
    """The first error of what was said."""
    return next((line for line in said.splitlines() if "error:" in line), said).strip()


def _is_valid(module: ir.Module) -> bool:
    try:
        return bool(module.operation.verify())
    except ir.MLIRError:
        return False
