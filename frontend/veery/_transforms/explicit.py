"""How results are divided over the Explicit axes of a mesh, which the types of arrays tell.

Each primitive says it by its rule `divides`, from how its operands are divided; where that leaves several ways the
user has to say which. It says nothing of what is computed: a program computes the same however its arrays lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from veery._core import provided
from veery._core.avals import ShapedArray, aval_of, explicit_part
from veery._core.errors import ShardingTypeError
from veery._core.jaxpr import subjaxprs
from veery._core.mesh import AbstractMesh, context
from veery._core.partition_spec import PartitionSpec, axes_of
from veery._core.primitive import Primitive
from veery._core.sharding import NamedSharding

Ways = tuple[tuple[Any, ...], ...]  # for each dimension, the axes that divide it, the coarsest first


def ways_of(aval: Any) -> Ways:
    """The axes that divide the dimensions of an array."""
    if aval.divided is None:
        return ((),) * getattr(aval, "ndim", 0)
    return tuple(map(axes_of, aval.divided.spec))


def as_spec(ways: Ways) -> PartitionSpec:
    """The PartitionSpec that names these axes."""
    return PartitionSpec(*ways)


def typed(primitive: Primitive, avals: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
    """The types of the results of an operation, of whose operands some are divided.

    Raises:
        ShardingTypeError: it is ambiguous how the results are divided, or it cannot be done.
        NotImplementedError: no rule says it.
        ValueError: an operand is divided over another mesh than that of the context.
    """
    if primitive.divides is None and (primitive.apart is not None or primitive.with_refs is not None):
        return out  # it says so itself
    if primitive.divides is None and next(subjaxprs(params), None) is not None:
        return out  # as the functions in it say
    mesh = _mesh_of(primitive, avals)
    outs = list(out) if primitive.multiple_results else [out]
    if primitive.divides is None:
        raise NotImplementedError(
            f"{primitive} is given arrays that are divided over Explicit axes of a mesh, "
            f"{', '.join(map(str, avals))}; how its results are divided no rule says. Apply it within "
            "`jax.sharding.auto_axes`, or to arrays that `jax.sharding.reshard` has made whole."
        )
    found = primitive.divides(avals, outs, params)
    typed_outs = [_typed(primitive, avals, aval, ways, mesh) for aval, ways in zip(outs, found, strict=True)]
    return typed_outs if primitive.multiple_results else typed_outs[0]


def _mesh_of(primitive: Primitive, avals: Sequence[Any]) -> Any:
    expected = None if context().settled else context().abstract
    found: Any = expected
    for aval in avals:
        if aval.divided is None:
            continue
        mesh = aval.divided.mesh
        if found is not None and not _alike(found, mesh):
            raise ValueError(
                f"For primitive {primitive}, context mesh {found} should match the aval mesh {mesh} for shape {aval}"
            )
        found = mesh
    return found


def _alike(a: AbstractMesh, b: AbstractMesh) -> bool:
    return (a.shape_tuple, a.axis_types) == (b.shape_tuple, b.axis_types)


def _typed(primitive: Primitive, avals: Sequence[Any], aval: Any, ways: Ways | None, mesh: Any) -> Any:
    if not isinstance(aval, ShapedArray):
        return aval
    if ways is None:
        return aval.update(divided=None)
    seen: set[Any] = set()
    kept: list[tuple[Any, ...]] = []
    for size, axes in zip(aval.shape, ways, strict=True):
        fits = not seen.intersection(axes) and size % math.prod(mesh.shape[axis] for axis in axes) == 0
        kept.append(axes if fits else ())
        seen.update(axes)
    typed = aval.update(divided=explicit_part(NamedSharding(mesh, as_spec(tuple(kept))), aval.ndim))
    if tuple(kept) != ways and not context().settled:
        entries = ",".join(
            f"{size}{'@' + '.'.join(map(str, axes)) if axes else ''}" for size, axes in zip(aval.shape, ways)
        )
        raise ShardingTypeError(
            f"{primitive} operation with inputs: {', '.join(a.str_short() for a in avals)} produces an illegally "
            f"sharded result: {aval.update(divided=None).str_short().split('[')[0]}[{entries}]"
        )
    return typed


def ambiguous(message: Callable[[], str]) -> None:
    """Refuse what the user has to say, unless it was said."""
    if not context().settled:
        raise ShardingTypeError(message())


def meet(entries: Sequence[tuple[Any, ...]], message: Callable[[], str]) -> tuple[Any, ...]:
    """The axes that divide a dimension of which operands say this; those that say nothing are divided as others are."""
    named = list(dict.fromkeys(axes for axes in entries if axes))
    if len(named) > 1:
        ambiguous(message)
    return named[0] if named else ()


def elementwise(name: str, avals: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> list[Ways]:
    """The rule of operations whose results have an element for each of their operands', which broadcast."""
    shape = outs[0].shape
    arrays = [aval for aval in avals if aval.ndim == len(shape)]
    message = lambda: (
        f"{name} got incompatible shardings for broadcasting: "
        f"{', '.join(str(tuple(aval.divided.spec)) for aval in avals if aval.divided is not None)}."
    )
    ways = tuple(
        meet([ways_of(aval)[i] for aval in arrays if aval.shape[i] == size], message) for i, size in enumerate(shape)
    )
    return [ways] * len(outs)


def alike(x: Any, aval: Any) -> Any:
    """A value divided as a type says."""
    divided: Any = aval_of(x).divided
    if divided == aval.divided:
        return x
    mesh = (aval.divided or divided).mesh
    spec = PartitionSpec() if aval.divided is None else aval.divided.spec
    return provided.operations.reshard(x, NamedSharding(mesh, spec))


def joining(x: Any, other: Any) -> Any:
    """A value, which is divided as another of its shape is unless it is divided itself."""
    aval = aval_of(other)
    return x if aval.divided is None or aval_of(x).divided is not None else alike(x, aval)


def whole(x: Any) -> Any:
    """A value that no axes divide."""
    aval = aval_of(x)
    return x if aval.divided is None else alike(x, aval.update(divided=None))


def along(x: Any, shape: Sequence[Any], axis: int) -> NamedSharding | None:
    """How what is taken of an array along one of its dimensions is divided: as the array along the others.

    None where the array is whole, or it is divided along that dimension.
    """
    aval = aval_of(x)
    ways = ways_of(aval)
    if aval.divided is None or ways[axis]:
        return None
    kept = (axes if a == b else () for axes, a, b in zip(ways, aval.shape, shape))
    divided: NamedSharding = aval.divided.update(spec=as_spec(tuple(kept)))
    return divided


def without_dimension(aval: Any, dim: int) -> NamedSharding | None:
    """How an element of a batch is divided, of which this dimension runs over the batch."""
    ways = ways_of(aval)
    spec = as_spec((*ways[:dim], *ways[dim + 1 :]))
    return explicit_part(aval.divided.update(spec=spec), aval.ndim - 1)


def with_dimension(aval: Any, dim: int, axes: tuple[Any, ...]) -> NamedSharding | None:
    """How a batch of such elements is divided, of which axes divide the new dimension."""
    ways = ways_of(aval)
    mesh = context().abstract if aval.divided is None else aval.divided.mesh
    if mesh is None:
        return None
    return explicit_part(NamedSharding(mesh, as_spec((*ways[:dim], axes, *ways[dim:]))), aval.ndim + 1)


def over_batch(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, ...]:
    """The axes that divide a batch: those of the first operand that is divided along it."""
    found = (ways_of(aval_of(x))[dim] for x, dim in zip(args, dims) if dim is not None)
    return next(filter(None, found), ())


def over_batches(avals: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, ...]:
    """The axes that divide a mapped axis.

    Raises:
        ValueError: arguments are divided in different ways along it.
    """
    found = [ways_of(aval)[dim] for aval, dim in zip(avals, dims) if dim is not None and isinstance(aval, ShapedArray)]
    for axes in found[1:]:
        if axes != found[0]:
            shown = [str(*as_spec((each,))) for each in (found[0], axes)]
            raise ValueError(
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got inconsistent axis "
                f"specs: {shown[0]} vs {shown[1]}"
            )
    return found[0] if found else ()
