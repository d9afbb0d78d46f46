"""What an expression gives, as JSON has it: the values that are recorded from JAX, and compared with veery's.

An outcome is the name of an exception's class after "!", or the value: arrays as [type, elements], the type with "~" in
front if it is weak.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

ELEMENTS = 40  # no more of an array are kept


def described(value: Any, array: type) -> Any:
    """A value as JSON has it."""
    if isinstance(value, (tuple, list)):
        return [described(v, array) for v in value]
    if isinstance(value, dict):
        return {str(key): described(v, array) for key, v in value.items()}
    if isinstance(value, (array, np.ndarray, np.generic)):
        kind = f"{value.dtype}{list(value.shape)}"
        if isinstance(value, array):
            kind = ("~" if value.weak_type else "") + kind  # type: ignore[attr-defined]
        elements = np.asarray(value).ravel()[:ELEMENTS]
        if elements.dtype.kind == "c":
            return [kind, [[number(x.real), number(x.imag)] for x in elements.tolist()]]
        wide = elements if elements.dtype.kind in "biuf" else elements.astype(np.float32)
        return [kind, [number(x) for x in wide.tolist()]]
    if isinstance(value, np.dtype) and value.kind == "V":  # whose class has a name for each version of ml_dtypes
        return f"dtype[{value.name}]"
    return value if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def number(x: Any) -> Any:
    return float(f"{x:.7g}") if isinstance(x, float) else x


def outcome(expression: str, names: dict[str, Any], array: type) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(eval(expression, dict(names)), array)
        except Exception as error:
            return f"!{type(error).__name__}"


def agree(ours: Any, theirs: Any, tolerance: float = 2e-5) -> bool:
    """Whether two outcomes are the same, floats to about the precision of their type."""
    if ours == "!AxisError":  # which is caught as either
        return theirs in ("!ValueError", "!IndexError")
    if isinstance(theirs, list) and isinstance(ours, list):
        if theirs and isinstance(theirs[0], str) and "float16" in theirs[0]:
            tolerance = 0.01
        return len(ours) == len(theirs) and all(agree(a, b, tolerance) for a, b in zip(ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(agree(ours[k], theirs[k], tolerance) for k in theirs)
    if isinstance(theirs, float) and isinstance(ours, float):
        if math.isnan(theirs) or math.isnan(ours):
            return math.isnan(theirs) and math.isnan(ours)
        return ours == theirs or abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))
    return type(ours) is type(theirs) and bool(ours == theirs)


def difference(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float = 2e-5) -> str:
    """What to read of the expressions whose outcomes are not the same; empty if all are."""
    wrong = {e: (ours[e], expected) for e, expected in theirs.items() if not agree(ours[e], expected, tolerance)}
    lines = [f"{e}\n    gave     {a}\n    expected {b}" for e, (a, b) in wrong.items()]
    return "\n".join([f"{len(wrong)} of {len(theirs)} differ:", *lines]) if wrong else ""
