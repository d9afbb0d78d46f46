"""Compute what constants of one element say, before the compiler does.

Problem: IREE 3.13 takes what is computed of constants for something to be computed when a program is loaded, and
compiles a dispatch for it. Example: the gradient of a mean has `-(1.0) / 32.0`, and so each training step had a
dispatch more, 20 of 800 ms of its compilation; `x * jnp.log(2.0)` had 9. Fix: NumPy computes it, where it gives the
same bits: operations that IEEE 754 rounds exactly, and those of integers that have no exceptions. Test:
tests/lowering/test_folding.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, operations

Element = np.ndarray[Any, Any]

_COMPARED = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def _extreme(of: Callable[..., Any], a: Element, b: Element) -> Any:
    """Of two zeros the compiler chooses."""
    return None if a == b and a.tobytes() != b.tobytes() else of(a, b)


def _shifted(by: Callable[..., Any], x: Element, n: Element) -> Any:
    return by(x, n) if 0 <= n < 8 * x.dtype.itemsize else None


def _shifted_bits(x: Element, n: Element) -> Any:
    bits = np.dtype(f"u{x.dtype.itemsize}")
    return _shifted(np.right_shift, x.view(bits), n.view(bits))


def _converted(x: Element, dtype: np.dtype[Any]) -> Any:
    """What fits, as an integer; what is rounded once, as a float."""
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        limits = np.iinfo(dtype)
        return np.trunc(x) if limits.min <= float(x) <= limits.max else None
    if _kind(dtype) == "h" and x.dtype != np.float32 and x.astype(dtype).astype(x.dtype) != x:
        return None
    return x


# By the kinds of NumPy's dtypes that they have in common ("h" stands for half precision), with what computes them.
_FOLDED: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("iuf", np.add),
    "subtract": ("iuf", np.subtract),
    "multiply": ("iuf", np.multiply),
    "negate": ("iuf", np.negative),
    "abs": ("iuf", np.abs),
    "clamp": ("iuf", lambda low, x, high: np.minimum(np.maximum(low, x), high)),
    "maximum": ("iuf", lambda a, b: _extreme(np.maximum, a, b)),
    "minimum": ("iuf", lambda a, b: _extreme(np.minimum, a, b)),
    "divide": ("f", np.divide),
    "sqrt": ("f", np.sqrt),
    "floor": ("f", np.floor),
    "ceil": ("f", np.ceil),
    "round_nearest_even": ("f", np.rint),
    "and": ("iub", np.bitwise_and),
    "or": ("iub", np.bitwise_or),
    "xor": ("iub", np.bitwise_xor),
    "not": ("iub", np.invert),
    "shift_left": ("iu", lambda x, n: _shifted(np.left_shift, x, n)),
    "shift_right_arithmetic": ("i", lambda x, n: _shifted(np.right_shift, x, n)),
    "shift_right_logical": ("iu", _shifted_bits),
    "is_finite": ("fb", np.isfinite),
    "select": ("iufhb", lambda which, a, b: a if which else b),
}


def fold_constants(module: Any) -> None:
    """Replace elementwise and moved results of constants whose elements are equal by constants, in place."""
    for op in operations(module):
        # Of most operations that is known by their first operand; those of other dialects have sizes: index.
        known = op.name.startswith("stablehlo.") and op.operands and hlo.is_constant(op.operands[0])
        element = _element(op) if known and len(op.results) == 1 else None
        if element is not None and ir.RankedTensorType(op.results[0].type).has_static_shape:
            with op.location, ir.InsertionPoint(op):
                folded = hlo.full(element, hlo.shape_of(op.results[0]), element.dtype)
            op.results[0].replace_all_uses_with(folded)
            op.erase()


def _element(op: Any) -> Element | None:
    """What each element of an operation's result is, if that is known and the same for all."""
    kinds, compute = _computation(op)
    if not kinds or any(_kind(hlo.dtype_of(x)) not in kinds for x in (*op.operands, op.results[0])):
        return None
    elements = [hlo.splat_of(x) for x in op.operands]
    if any(element is None for element in elements):
        return None
    dtype = hlo.dtype_of(op.results[0])
    with np.errstate(all="ignore"):
        computed = compute(*elements)
        element = None if computed is None else np.asarray(computed).astype(dtype)
    return None if element is None or np.isnan(element) else element  # the compiler chooses the bits of a NaN


def _computation(op: Any) -> tuple[str, Callable[..., Any]]:
    dtype = hlo.dtype_of(op.results[0])
    match op.name.removeprefix("stablehlo."):
        case "broadcast_in_dim" | "reshape" | "transpose":
            return "iufhb", lambda x: x
        case "convert":
            return "iufhb", lambda x: _converted(x, dtype)
        case "bitcast_convert" if hlo.dtype_of(op.operands[0]).itemsize == dtype.itemsize:
            return "iufh", lambda x: x.view(dtype)
        case "compare" if "compare_type" not in op.attributes or "TOTALORDER" not in str(op.attributes["compare_type"]):
            return "iufhb", _COMPARED[hlo.direction_of(op)]
        case name:
            return _FOLDED.get(name, ("", np.asarray))


def _kind(dtype: np.dtype[Any]) -> str:
    return "h" if dtype.name in ("bfloat16", "float16") else dtype.kind if dtype.kind in "iufb" else "other"
