"""Portable artifacts, whose operations are versioned (VHLO), as StableHLO.

The bindings do not have the pass that converts them; it is the second of IREE's conversion of StableHLO to what comes
after that. Each pass must leave a valid module, or is the last one. So there is a function here that only StableHLO
finds wrong, a sum of arrays that differ in size, and is taken out again.
"""

from __future__ import annotations

from veery_lowering.mlir import PassManager, ir

_NAME = "veery.wrong"
_SMALL, _LARGE = (f"!vhlo.tensor_v1<{n}x!vhlo.f32_v1>" for n in (2, 3))
_WRONG = f"""
vhlo.func_v1 @{_NAME}(%a: {_SMALL}, %b: {_LARGE}) -> ({_SMALL}) {{
  %sum = "vhlo.add_v1"(%a, %b) : ({_SMALL}, {_LARGE}) -> {_SMALL}
  "vhlo.return_v1"(%sum) : ({_SMALL}) -> ()
}} {{arg_attrs = #vhlo.array_v1<[]>, res_attrs = #vhlo.array_v1<[]>, sym_visibility = #vhlo.string_v1<"private">}}
"""
_PIPELINE = "builtin.module(iree-stablehlo-input-transformation-pipeline)"


def is_versioned(module: ir.Module) -> bool:
    """Whether a module is a portable artifact."""
    return any(op.operation.name.startswith("vhlo.") for op in module.body.operations)


def convert_versioned(module: ir.Module) -> None:
    """Make the operations of a portable artifact those of StableHLO, in place.

    Raises:
        ValueError: it has operations or types of a version that this compiler does not know, or wrong ones.
    """
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
    if is_versioned(module) or not _is_valid(module):
        lines = [line for line in said.splitlines() if "error:" in line] or [said]
        raise ValueError(f"not a portable artifact that can be read: {lines[0].strip()}")


def _is_valid(module: ir.Module) -> bool:
    try:
        return bool(module.operation.verify())
    except ir.MLIRError:
        return False
