"""Lowering rules of primitives. `hlo` is a module of builders for StableHLO operations, `ir` MLIR's bindings."""

from __future__ import annotations

from typing import Any

from veery import _dispatch
from veery._api.rule_tables import (
    ir_constant as ir_constant,
    lower_fun as lower_fun,
    register_lowering as register_lowering,
)
from veery._core.absent import attributes as _attributes


def aval_to_ir_type(aval: Any) -> Any:
    """The MLIR type of values of an aval, within a lowering rule."""
    return _dispatch.tensor_type(aval)


_absent, _ = _attributes(__name__)


def __getattr__(name: str) -> Any:
    # The compiler is loaded when it is needed.

    if name == "hlo":
        return _dispatch.stablehlo_builders()
    if name == "ir":
        return _dispatch.mlir_bindings()
    return _absent(name)
