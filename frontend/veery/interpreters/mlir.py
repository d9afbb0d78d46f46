"""Lowering rules of primitives. `hlo` is a module of builders for StableHLO operations, `ir` MLIR's bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery import _dispatch
from veery._api.rule_tables import (
    ir_constant as ir_constant,
    lower_fun as lower_fun,
    register_lowering as register_lowering,
)
from veery._core.absent import attributes as _attributes
from veery._core.tree import tree_structure as _tree_structure
from veery.lax._callback import Callback as _Callback


def aval_to_ir_type(aval: Any) -> Any:
    """The MLIR type of values of an aval, within a lowering rule."""
    return _dispatch.tensor_type(aval)


def emit_python_callback(
    ctx: Any,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[Sequence[Any], Any, Any]:
    """Emit the call of a Python function on NumPy arrays, within a lowering rule.

    Args:
        ctx: what the rule was given.
        callback: takes an array for each operand, returns a sequence of arrays.
        token: given back, since calls with effects are kept in order by themselves.
        operands: values.
        operand_avals: their types.
        result_avals: types of the results.
        has_side_effect: whether each call counts; others may be merged or dropped.
        returns_token: accepted for compatibility.
        partitioned: accepted for compatibility.
        sharding: accepted for compatibility.

    Returns:
        The results, the token, and None: the program keeps the function itself.
    """
    function = _Callback("a lowering rule", callback, _tree_structure((tuple(operands), {})), operand_avals)
    results = ctx.host_call(function.typed(result_avals), operands, result_avals, pure=not has_side_effect)
    return results, token, None


# Of the compiler, which is loaded when it is needed.
_LATER = {
    "LoweringRuleContext": lambda: _dispatch.lowering_module("emit.registry").Context,
    "hlo": lambda: _dispatch.lowering_module("stablehlo"),
    "ir": lambda: _dispatch.lowering_module("mlir").ir,
}
_absent, _names = _attributes(__name__)


def __getattr__(name: str) -> Any:
    return _LATER[name]() if name in _LATER else _absent(name)


def __dir__() -> list[str]:
    return sorted({*_names(), *_LATER})
