"""What a jaxpr costs: operations, bytes and memory, counted before any fusion."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from veery._core.dimensions import max_dim
from veery._core.jaxpr import Literal


def count_operations(jaxpr: Any) -> dict[str, dict[str, Any]]:
    """For each primitive "count", "flops", "transcendentals" and "bytes" of operands and results.

    What a scan does is counted for each step; what a loop or branch does, once. With symbolic shapes the numbers are
    expressions.
    """
    found: dict[str, dict[str, Any]] = {}
    _count(jaxpr, 1, found)
    return found


def total_costs(jaxpr: Any) -> dict[str, Any]:
    """FLOPs, transcendental operations and bytes of a jaxpr, under XLA's names."""
    operations = count_operations(jaxpr).values()
    names = {"flops": "flops", "transcendentals": "transcendentals", "bytes accessed": "bytes"}
    return {name: sum(each[key] for each in operations) for name, key in names.items()}


def nbytes(avals: Any) -> Any:
    """The bytes of values of these types."""
    return sum(math.prod(aval.shape) * getattr(aval.dtype, "itemsize", 8) for aval in avals)


def peak_bytes(jaxpr: Any) -> Any:
    """The most memory that is alive at once if operations run one by one, without fusion."""
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if not isinstance(v, Literal)}
    keep = {v for v in (*jaxpr.outvars, *jaxpr.invars, *jaxpr.constvars) if not isinstance(v, Literal)}
    live = peak = nbytes(v.aval for v in (*jaxpr.invars, *jaxpr.constvars))
    for i, eqn in enumerate(jaxpr.eqns):
        live += nbytes(v.aval for v in eqn.outvars)
        inside = functools.reduce(max_dim, map(peak_bytes, _inner(eqn)), 0)
        peak = max_dim(peak, live + inside)
        done = {v for v in eqn.invars if not isinstance(v, Literal) and last[v] == i and v not in keep}
        unused = [v for v in eqn.outvars if v not in last and v not in keep]
        live -= nbytes(v.aval for v in (*done, *unused))
    return peak


def _inner(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(item, "jaxpr") and hasattr(item, "consts"):
                yield item.jaxpr


def _count(jaxpr: Any, times: int, found: dict[str, dict[str, Any]]) -> None:
    for eqn in jaxpr.eqns:
        inner = list(_inner(eqn))
        trips = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        for each in inner:
            _count(each, times * trips, found)
        if inner:
            continue
        blank = {"count": 0, "flops": 0, "transcendentals": 0, "bytes": 0}
        entry = found.setdefault(eqn.primitive.name, blank)
        entry["count"] += times
        cost = eqn.primitive.cost(eqn)
        entry["flops"] += times * cost.flops
        entry["transcendentals"] += times * cost.transcendentals
        entry["bytes"] += times * nbytes(x.aval for x in (*eqn.invars, *eqn.outvars))
