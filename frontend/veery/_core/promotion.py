"""The promotion lattice: which dtype two dtypes meet in.

Nodes are dtype names and the three weak types `i*`, `f*`, `c*` of Python's int, float and complex. An edge leads from
a node to those that it may be promoted to in one step; two dtypes meet in the least node that both reach. The lattice
is JAX's, so that programs compute in the same precision here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

# Types below 8 bits and floats of at most 8 bits meet nothing but themselves, bool and weak types: a silent promotion
# of them is nearly always a mistake.
SMALL_UNSIGNED = ("uint1", "uint2", "uint4")
SMALL_SIGNED = ("int1", "int2", "int4")
SMALL_FLOATS = (
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz"),
)
WEAK = ("i*", "f*", "c*")

_COMMON_EDGES: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("uint8", "int8", *SMALL_UNSIGNED, *SMALL_SIGNED),
    "uint8": ("uint16", "int16"),
    "int8": ("int16",),
    "int16": ("int32",),
    "f*": ("bfloat16", "float16", "c*", *SMALL_FLOATS),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "c*": ("complex64",),
    "complex128": (),
    **{name: () for name in (*SMALL_UNSIGNED, *SMALL_SIGNED, *SMALL_FLOATS)},
}
_X64_EDGES: dict[str, tuple[str, ...]] = {
    "uint16": ("uint32", "int32"),
    "uint32": ("uint64", "int64"),
    "uint64": ("f*",),
    "int32": ("int64",),
    "int64": ("f*",),
    "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "complex64": ("complex128",),
}
# Without 64-bit types uint32 meets the signed integers in int32. The 64-bit types stand beside their 32-bit forms, for
# promote_types may be asked about them.
_X32_EDGES = _X64_EDGES | {"uint32": ("int32", "uint64")}


def _edges(x64: bool, strict: bool) -> dict[str, tuple[str, ...]]:
    if not strict:
        return _COMMON_EDGES | (_X64_EDGES if x64 else _X32_EDGES)
    nodes = _COMMON_EDGES | _X64_EDGES
    integers = tuple(name for name in nodes if name.removeprefix("u").startswith("int"))
    floats = tuple(name for name in nodes if name.startswith(("float", "bfloat")))
    strict_edges: dict[str, tuple[str, ...]] = {name: () for name in nodes}
    strict_edges |= {"i*": ("f*", *integers), "f*": ("c*", *floats), "c*": ("complex64", "complex128")}
    return strict_edges


@functools.cache
def _upper_bounds(x64: bool, strict: bool) -> dict[str, frozenset[str]]:
    """Per node, the node itself and all that it reaches."""
    edges = _edges(x64, strict)

    def reach(node: str) -> frozenset[str]:
        return frozenset({node}).union(*(reach(above) for above in edges[node]))

    return {node: reach(node) for node in edges}


def least_upper_bound(nodes: Iterable[str], *, x64: bool, strict: bool = False) -> str | None:
    """The node in which `nodes` meet, or None when there is none.

    >>> least_upper_bound(["int8", "uint8"], x64=False)
    'int16'
    >>> least_upper_bound(["bfloat16", "f*"], x64=False)
    'bfloat16'
    >>> least_upper_bound(["int8", "int4"], x64=False) is None
    True
    """
    bounds = _upper_bounds(x64, strict)
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    least = [node for node in common if common <= bounds[node]]
    return least[0] if len(least) == 1 else None
