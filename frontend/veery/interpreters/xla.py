"""Evaluation of single operations."""

from __future__ import annotations

from typing import Any

from veery._core.absent import attributes as _attributes
from veery._core.avals import aval_rules
from veery._core.primitive import Primitive

pytype_aval_mappings = aval_rules


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply an operation to concrete values."""
    return primitive.run(*args, **params)


__getattr__, __dir__ = _attributes(__name__)
