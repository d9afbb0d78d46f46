"""In which memory the results of operations are, which the types of arrays tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core.avals import ShapedArray
from veery._core.jaxpr import subjaxprs
from veery._core.memory import MemorySpace
from veery._core.mesh import context
from veery._core.primitive import Primitive


def typed(primitive: Primitive, avals: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
    """The types of the results of an operation, of whose operands some are not in the device's own memory.

    Raises:
        ValueError: operands are in different memories; scalars are in any.
    """
    if primitive.apart is not None or primitive.with_refs is not None or next(subjaxprs(params), None) is not None:
        return out  # it says so itself, or the functions in it do
    space = avals[0].memory_space if primitive.keeps_memory else _shared(primitive, avals)
    if not primitive.multiple_results:
        return _in(out, space)
    return [_in(aval, space) for aval in out]


def _shared(primitive: Primitive, avals: Sequence[Any]) -> MemorySpace:
    arrays = [aval for aval in avals if getattr(aval, "ndim", 0)]
    for before, aval in zip(arrays, arrays[1:]):
        if before.memory_space is not aval.memory_space and not context().settled:
            one, other = (a.str_short(short_dtypes=False) for a in (before, aval))
            raise ValueError(
                f"memory_space of all inputs passed to `{primitive}` must be the same. Got one operand with type: "
                f"{one} and another operand with type: {other}"
            )
    return arrays[0].memory_space if arrays else MemorySpace.Device


def _in(aval: Any, space: MemorySpace) -> Any:
    return aval.update(memory_space=space) if isinstance(aval, ShapedArray) else aval
