"""Formulas as functions of the module: a program's text reads `call @math.sin_f32_8x3`, not forty operations.

IREE inlines them all before it fuses: the compiled code is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics.elementary import is_native
from veery_lowering.mlir import PassManager, ir
from veery_lowering.stablehlo import Value

# Bodies of these become scalar code in which nothing can be called.
_SCALAR_REGIONS = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
)

# What IREE would do of its own later: kernels of veery's own are written of StableHLO alone.
_EXPANSION = "func.func(chlo-legalize-to-stablehlo)"


def _enclosing_module() -> ir.Operation | None:
    """The module that is being written, or None where a call is no good."""
    operation = ir.InsertionPoint.current.block.owner
    while operation is not None and operation.operation.name != "builtin.module":
        if operation.operation.name in _SCALAR_REGIONS:
            return None
        operation = operation.operation.parent
    return None if operation is None else operation.operation


def _symbol(name: str, operands: Sequence[Value]) -> str:
    parts = [name]
    for operand in operands:
        type_ = ir.RankedTensorType(operand.type)
        element = str(type_.element_type).replace("complex<f32>", "c64").replace("complex<f64>", "c128")
        text = "_".join([element, "x".join(_sizes(type_))]).rstrip("_")
        if text not in parts:
            parts.append(text)
    return f"math.{'_'.join(parts)}"


def _sizes(type_: ir.RankedTensorType) -> list[str]:
    return ["n" if type_.is_dynamic_dim(i) else str(size) for i, size in enumerate(type_.shape)]


def outlined(name: str, formula: Callable[..., Value], operands: Sequence[Value]) -> Value:
    """Call the function of the module that computes `formula` on operands of these types; write it on first use.

    Args:
        name: tells formulas apart; part of the symbol.
        formula: from values to one value.
        operands: the arguments.
    """
    module = _enclosing_module()
    if module is None:
        return formula(*operands)
    symbol = _symbol(name, operands)
    table = ir.SymbolTable(module)
    if symbol not in table:
        _write(module, symbol, formula, operands)
        table = ir.SymbolTable(module)
    result = ir.FunctionType(ir.TypeAttr(table[symbol].attributes["function_type"]).value).results[0]
    return hlo.call(symbol, operands, [result])[0]


def _write(module: ir.Operation, symbol: str, formula: Callable[..., Value], operands: Sequence[Value]) -> None:
    types = [operand.type for operand in operands]
    body = module.regions[0].blocks[0]
    location = ir.Location.name(symbol)
    with location, ir.InsertionPoint(body):
        function = ir.Operation.create("func.func", regions=1, attributes={
            "sym_name": ir.StringAttr.get(symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
        })  # fmt: skip
        block = function.regions[0].blocks.append(*types, arg_locs=[location] * len(types))
        with ir.InsertionPoint(block):
            result = formula(*block.arguments)
            ir.Operation.create("func.return", operands=[result])
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [result.type]))
    if any(op.operation.name.startswith("chlo.") for op in block.operations) and not is_native():
        PassManager.parse(_EXPANSION).run(function)
