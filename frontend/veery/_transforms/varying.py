"""Along which axes of a mesh values vary, within `shard_map`.

An operation on operands of which some vary along an axis and others do not has all of them vary first, by `pvary`.
That is no operation on any device, but it has a transpose: what all devices share receives the sum of their
cotangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import provided
from veery._core.ad import LINEAR
from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import subjaxprs
from veery._core.mesh import context
from veery._core.primitive import Primitive


def in_order(axes: Any) -> tuple[Any, ...]:
    """Axes in the order of the mesh."""
    mesh = context().abstract
    names = mesh.axis_names if mesh else ()
    return tuple(sorted(axes, key=lambda a: (names.index(a) if a in names else len(names), str(a))))


def pvary(x: Any, axes: Any) -> Any:
    """A value that does not vary along these axes, as one that may."""
    missing = frozenset(axes) - aval_of(x).varying
    return pvary_p.bind(x, axes=in_order(missing)) if missing else x


def _transpose(ct: Any, x: Any, *, axes: tuple[Any, ...]) -> list[Any]:
    return [provided.operations.invariant_sum(ct, axes)]


pvary_p: Primitive = Primitive(
    "pvary",
    abstract_eval=lambda x, *, axes: x,
    jvp=LINEAR,
    transpose=_transpose,
    batch=lambda args, dims, *, axes: (pvary_p.bind(args[0], axes=axes), dims[0]),
    reference=lambda x, *, axes: x,
    varies=lambda varying, *, axes: (varying, varying | frozenset(axes)),
)


def required(primitive: Primitive, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The axes along which each operand has to vary, and those of the results; None where the results' types say it."""
    union = frozenset().union(*(aval.varying for aval in avals))
    if primitive.varies is not None:
        needed, out = primitive.varies(union, **params)
        return [aval.varying if needed is None else needed for aval in avals], out
    if next(subjaxprs(params), None) is not None:  # results have the types of those of its functions
        return [aval.varying for aval in avals], None
    return [union] * len(avals), union


def without(aval: Any) -> Any:
    """The type of a value of which it is not known along which axes it varies."""
    return aval.update(varying=frozenset()) if aval.varying else aval


def typed(aval: Any, varying: frozenset[Any]) -> Any:
    """The type with other axes along which values vary."""
    return aval.update(varying=varying) if isinstance(aval, ShapedArray) else aval
