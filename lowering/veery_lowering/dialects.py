"""What the operations of StableHLO and of its versioned form (VHLO) are called, and are given, whichever they are of.

The bindings have no accessors for the versioned form: its types and attributes are read as text.
"""

from __future__ import annotations

import math
import re
from typing import Any

from veery_lowering.mlir import ir

_NAME = re.compile(r"(?:stablehlo|vhlo)\.(\w+?)(?:_v\d+)?")
_SIZES = re.compile(r"!?(?:vhlo\.tensor_v1|tensor)<((?:[\d?]+x)*)")
_DENSE = re.compile(r"dense<(.*?)> : tensor<((?:\d+x)*)")
_INTEGERS = re.compile(r"-?\d+")


def base_name(name: str) -> str:
    """The name of an operation without dialect and version; of others than StableHLO's the whole name."""
    match = _NAME.fullmatch(name)
    return match[1] if match else name


def sizes(x: Any) -> list[str]:
    """The sizes of a value, as text; empty for what is no tensor."""
    if isinstance(x.type, ir.RankedTensorType):
        return [str(n) for n in ir.RankedTensorType(x.type).shape]
    match = _SIZES.match(str(x.type))
    return match[1].split("x")[:-1] if match else []


def integers(attribute: Any) -> list[int]:
    """The numbers of an attribute, a list or a table."""
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    match = _DENSE.search(str(attribute))
    numbers = [int(n) for n in _INTEGERS.findall(match[1])] if match else []
    count = math.prod(int(n) for n in match[2].split("x")[:-1]) if match else 0
    return numbers * count if len(numbers) == 1 else numbers  # of equal ones the text has one
