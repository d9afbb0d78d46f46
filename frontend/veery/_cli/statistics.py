"""What a program costs, counted on its jaxpr and on IREE's dispatches."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import Any

from veery._core.dimensions import is_symbolic, max_dim
from veery._core.jaxpr import Literal

# Operations that compute nothing, and those that cost more than one FLOP an element (counted as XLA does: one).
_MOVES = frozenset(
    "broadcast_in_dim reshape squeeze transpose concatenate pad rev slice dynamic_slice dynamic_update_slice gather"
    " iota copy convert_element_type bitcast_convert_type split expand_dims select_n jit cond while scan".split()
)


def _nbytes(aval: Any) -> int:
    return math.prod(aval.shape) * getattr(aval.dtype, "itemsize", 8)


def _flops(eqn: Any) -> int:
    name = eqn.primitive.name
    size = sum(math.prod(v.aval.shape) for v in eqn.outvars)
    if name == "dot_general":
        (contracting, _), _ = eqn.params["dimension_numbers"]
        return 2 * size * math.prod(eqn.invars[0].aval.shape[i] for i in contracting)
    if name == "conv_general_dilated":
        kernel = eqn.invars[1].aval.shape
        return 2 * size * math.prod(kernel) // max(1, kernel[eqn.params["dimension_numbers"].rhs_spec[0]])
    if name.startswith(("reduce_", "arg", "cum")):
        return math.prod(eqn.invars[0].aval.shape)
    return 0 if name in _MOVES else size


def _inner(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "jaxpr") and hasattr(item, "consts"):
                yield item.jaxpr


def _count(jaxpr: Any, times: int, found: dict[str, dict[str, int]]) -> None:
    for eqn in jaxpr.eqns:
        inner = list(_inner(eqn))
        trips = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        for each in inner:
            _count(each, times * trips, found)
        if inner:
            continue
        entry = found.setdefault(eqn.primitive.name, {"count": 0, "flops": 0, "bytes": 0})
        entry["count"] += times
        entry["flops"] += times * _flops(eqn)
        entry["bytes"] += times * sum(_nbytes(x.aval) for x in (*eqn.invars, *eqn.outvars))


def peak_bytes(jaxpr: Any) -> int:
    """The most memory that is alive at once if operations run one by one, without fusion."""
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if not isinstance(v, Literal)}
    keep = {v for v in (*jaxpr.outvars, *jaxpr.invars, *jaxpr.constvars) if not isinstance(v, Literal)}
    live = peak = sum(_nbytes(v.aval) for v in (*jaxpr.invars, *jaxpr.constvars))
    for i, eqn in enumerate(jaxpr.eqns):
        live += sum(_nbytes(v.aval) for v in eqn.outvars)
        inside = functools.reduce(max_dim, map(peak_bytes, _inner(eqn)), 0)
        peak = max_dim(peak, live + inside)
        done = {v for v in eqn.invars if not isinstance(v, Literal) and last[v] == i and v not in keep}
        unused = [v for v in eqn.outvars if v not in last and v not in keep]
        live -= sum(_nbytes(v.aval) for v in (*done, *unused))
    return peak


def dispatches(flow: str) -> list[str]:
    """The names of the dispatches in IREE's flow IR, in order, with repetitions."""
    return re.findall(r"flow\.dispatch @[\w$]+::@([\w$]+)", flow)


def statistics(traced: Any, lowered: Any) -> dict[str, Any]:
    """Operations with counts, FLOPs and bytes; totals; dispatches and the code's size; memory.

    With symbolic shapes the numbers are expressions, and the operations in the order of the program.
    """
    jaxpr = traced.jaxpr.jaxpr
    operations: dict[str, dict[str, int]] = {}
    _count(jaxpr, 1, operations)
    rank = lambda item: (-item[1]["flops"], -item[1]["bytes"], item[0])
    compiled = lowered.compile()
    symbolic = is_symbolic(d[key] for d in operations.values() for key in ("count", "flops", "bytes"))
    ordered = operations if symbolic else dict(sorted(operations.items(), key=rank))
    total = lambda key: sum(d[key] for d in operations.values())
    return {
        "operation_count": total("count"),
        "flops": total("flops"),
        "bytes_touched": total("bytes"),
        "argument_bytes": sum(_nbytes(v.aval) for v in (*jaxpr.invars, *jaxpr.constvars)),
        "result_bytes": sum(_nbytes(v.aval) for v in jaxpr.outvars),
        "peak_bytes_unfused": peak_bytes(jaxpr),
        "dispatches": len(dispatches(lowered.as_text("flow"))),
        "program_bytes": len(compiled._program.vmfb),
        **compiled.cost_analysis(),
        **{key: text for key, text in compiled._program.metadata.items() if key == "fallback"},
        "operations": ordered,
    }
