"""Where values are to be, as operations: identities that move."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from veery._core import provided, source, tree
from veery._core.ad import LINEAR
from veery._core.avals import Shape, aval_of, explicit_part
from veery._core.layout import sharding_of
from veery._core.memory import MemorySpace, space_of
from veery._core.mesh import AxisType, Mesh, context, current_mesh, using
from veery._core.partition_spec import PartitionSpec, axes_in, axes_of
from veery._core.primitive import Primitive
from veery._core.sharding import NamedSharding, Sharding
from veery._core.trace import Tracer, current_trace, eval_trace
from veery._transforms.batching import AxisData

F = TypeVar("F", bound=Callable[..., Any])


@source.api_boundary
def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Have values laid out over devices, within `jit` too.

    Args:
        x: a pytree of arrays.
        shardings: a sharding, or a PartitionSpec of the mesh of the context, for all; or a pytree prefix of them. They
            are about axes of type Auto; for Explicit ones it is checked that values are laid out so (see `reshard`).

    Returns:
        The pytree. There is no partitioner: what follows within `jit` runs on one device, on whole arrays.

    Raises:
        RuntimeError: a PartitionSpec without a mesh in the context.
        TypeError: what is no sharding.
        ValueError: no sharding is given, it does not fit a value, or it is about Explicit axes of another mesh.
        AssertionError: values are not laid out as Explicit axes say.

    >>> import veery, veery.numpy as jnp
    >>> place = veery.NamedSharding(veery.sharding.Mesh(veery.devices("cpu")[:1], "x"), veery.P("x"))
    >>> with_sharding_constraint(jnp.ones(2), place).sharding.spec
    P('x',)
    """
    leaves, treedef = tree.tree_flatten(x)
    found = tree.flatten_axes("with_sharding_constraint shardings", treedef, shardings)
    return tree.tree_unflatten(treedef, [_constrained(leaf, place) for leaf, place in zip(leaves, found)])


def _constrained(x: Any, place: Any) -> Any:
    if place is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed. Please only pass "
            "`jax.sharding.Sharding` instances."
        )
    aval = aval_of(x)
    sharding = resolved(sharding_of(place, aval.ndim), "with_sharding_constraint shardings", entered=True)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"shardings leaf specifications are expected to be PartitionSpec instances or None, but got {place}"
        )
    check_fits(sharding, aval, "with_sharding_constraint arguments")
    if isinstance(sharding, NamedSharding):
        types = {sharding.mesh._name_to_type[axis] for axis in axes_in(sharding.spec)}
        if AxisType.Explicit in types:
            return _asserted(x, sharding)
        if context().abstract is not None and AxisType.Manual in types | _types_here(sharding):
            raise ValueError(
                f"with_sharding_constraint: {sharding.spec} names axes along which a `shard_map` around has divided "
                "the values already"
            )
    return sharding_constraint_p.bind(x, sharding=sharding)


def _types_here(sharding: NamedSharding) -> set[AxisType]:
    """The types that the axes of a spec have in the context."""
    mesh = context().abstract
    known = mesh._name_to_type if mesh is not None else {}
    return {known[axis] for axis in axes_in(sharding.spec) if axis in known}


def _asserted(x: Any, sharding: NamedSharding) -> Any:
    here = context().abstract
    if here is None or here != sharding.mesh.abstract_mesh or not here.are_all_axes_explicit:
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto axes of the mesh. Got "
            f"spec={sharding.spec} and mesh={sharding.mesh.abstract_mesh}. You probably meant to use `reshard` API?"
        )
    aval = aval_of(x)
    if aval.divided != explicit_part(sharding, aval.ndim):
        spec = aval.sharding.spec
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type `Explicit`. The array "
            f"sharding: {spec} did not match the sharding provided: {sharding.spec}. Please use `jax.sharding.reshard` "
            "to shard your input to the sharding you want."
        )
    return sharding_constraint_p.bind(x, sharding=sharding)


def resolved(place: Any, what: str, entered: bool = False) -> Any:
    """A sharding in which a PartitionSpec refers to the mesh of the context, if `entered` that of `with mesh:` too.

    Raises:
        RuntimeError: there is none.
    """
    if not isinstance(place, PartitionSpec):
        return place
    concrete, abstract = context().concrete, context().abstract
    within = abstract is not None and concrete is not None and abstract.axis_names != concrete.axis_names
    mesh: Any = abstract if within else concrete or abstract
    if mesh is None and entered:
        mesh = current_mesh()
    if mesh is None or not mesh.axis_names:
        raise RuntimeError(
            f"{what.split()[0]} requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            f"{what.split()[-1]}. You can define a context mesh via `jax.set_mesh(mesh)`. Alternatively, provide "
            f"`Sharding`s to {what.split()[-1]} and then the mesh context manager is not required."
        )
    return NamedSharding(mesh, place)


def laid_out(compute: Callable[[], Any], out_sharding: Any, what: str) -> Any:
    """What is computed, its result divided over Explicit axes as the user says (None: as it follows from the operands).

    Raises:
        ValueError: there is no mesh, an axis is not Explicit, or the sharding does not fit.
    """
    if out_sharding is None:
        return compute()
    with using(settled=True):
        out = compute()
    if isinstance(out_sharding, NamedSharding) and not out_sharding.mesh.axis_names and aval_of(out).divided is None:
        return out  # as in `out_sharding=typeof(x).sharding` where there is no mesh
    return resharded(out, out_sharding, what)


def lays_out(fun: F) -> F:
    """A function whose result is divided as its argument `out_sharding` says.

    A call costs 0.2 us more: those that are called most ask for the argument themselves.
    """
    code = inspect.unwrap(fun).__code__
    positional = code.co_varnames[: code.co_argcount]
    place = positional.index("out_sharding") if "out_sharding" in positional else None

    @functools.wraps(fun)
    def laying_out(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if place is not None and len(args) > place:
            args, out_sharding = args[:place], args[place]
        if out_sharding is None:
            return fun(*args, **kwargs)
        return laid_out(lambda: fun(*args, **kwargs), out_sharding, fun.__name__)

    return laying_out  # type: ignore[return-value]


def canonicalize_sharding(sharding: Any, what: str) -> Any:
    """A sharding, or a PartitionSpec over the mesh of the context as one, for a function of this name."""
    if not isinstance(sharding, PartitionSpec):
        return sharding
    mesh = context().abstract or current_mesh()
    if mesh is None or not mesh.axis_names:
        raise ValueError(
            f"{what}: Using PartitionSpec when you are not under a mesh context is not allowed. Please pass a "
            f"NamedSharding instance or enter into a mesh context via `jax.set_mesh`. Got {sharding}"
        )
    return NamedSharding(mesh, sharding)


def resharded(x: Any, place: Any, what: str = "reshard") -> Any:
    """A value laid out anew over Explicit axes of a mesh; see `veery.sharding.reshard`."""
    place = canonicalize_sharding(place, what)
    if not isinstance(place, NamedSharding):
        raise ValueError(f"{what}: a NamedSharding or a PartitionSpec is expected, got {place!r}")
    if not place.mesh.axis_names:
        raise ValueError(f"{what}: a sharding over a mesh with axes is expected, got {place!r}")
    for axis in axes_in(place.spec):
        kind = place.mesh._name_to_type[axis]
        if kind is not AxisType.Explicit:
            raise ValueError(
                f"PartitionSpec passed to {what} cannot contain axis names that are of type Auto or Manual. Got "
                f"PartitionSpec: {place.spec} with axis name: {axis} of type: AxisType.{kind.name}."
            )
    aval = aval_of(x)
    check_fits(place, aval, f"{what} args")
    if current_trace() is eval_trace and not isinstance(x, Tracer):
        provided.distribution.concrete_mesh(place.mesh, [x])
    place = place.update(spec=PartitionSpec(*place.spec, *[None] * (aval.ndim - len(place.spec))))
    return reshard_p.bind(x, sharding=place)


def sharding_like(x: Any, shape: Shape) -> Any:
    """Where an array goes that is made like x; None for anywhere, as it is while a function is traced."""
    if isinstance(x, Tracer) or current_trace() is not eval_trace or not getattr(x, "_committed", True):
        return None
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, Sharding):
        return None
    if isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh) and context().concrete is None:
        return None
    return sharding if sharding.is_fully_replicated or shape == np.shape(x) else None


def placed(x: Any, sharding: Any) -> Any:
    """A value laid out by a sharding, if there is one and no function is traced."""
    return x if sharding is None or isinstance(x, Tracer) else provided.distribution.place(x, sharding)


def in_memory_of(x: Any, other: Any) -> Any:
    """An array in the memory that another one is in."""
    space = aval_of(other).memory_space
    return x if aval_of(x).memory_space is space else device_put_p.bind(x, sharding=space)


def check_fits(sharding: Any, aval: Any, what: str) -> None:
    """Raise ValueError if arrays of that type cannot be laid out like this."""
    if not isinstance(sharding, NamedSharding):
        return
    try:
        sharding.check_compatible_aval(aval.shape)
    except ValueError as error:
        raise ValueError(f"One of {what} is incompatible with its sharding annotation {sharding}: {error}") from None
    sharding.shard_shape(aval.shape)


# The operations.


def _is_apart(params: dict[str, Any]) -> bool:
    sharding = params["sharding"]
    if isinstance(sharding, MemorySpace):
        return False
    if isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
        # the types of results say how they are laid out over Explicit axes
        return not set(axes_in(sharding.spec)).issubset(sharding.mesh.explicit_axes)
    return sharding.num_devices > 1


def _put(x: Any, *, sharding: Any) -> Any:
    return provided.distribution.place(x, sharding)


def _reshard(x: Any, *, sharding: Any) -> Any:
    """An array that lies like this; as it is where nothing tells the devices, as derivatives may ask for it."""
    return _put(x, sharding=sharding) if provided.distribution.is_known(sharding.mesh, [x]) else x


def _moved(x: Any, *, sharding: Any) -> Any:
    """The type of an array that was put somewhere."""
    if isinstance(sharding, MemorySpace):
        return x.update(memory_space=sharding)
    space = x.memory_space if sharding.memory_kind is None else space_of(sharding.memory_kind)
    return x.update(divided=explicit_part(sharding, x.ndim), memory_space=space)


def _put_back(ct: Any, x: Any, *, sharding: Any) -> list[Any]:
    """A cotangent in the memory that the operand is in, laid out as the result was."""
    space = x.aval.memory_space
    if space is not _moved(x.aval, sharding=sharding).memory_space:
        return [device_put_p.bind(ct, sharding=space)]
    return [ct if isinstance(sharding, MemorySpace) else device_put_p.bind(ct, sharding=sharding)]


def _placement(name: str, impl: Callable[..., Any] = _put, moves: bool = True) -> Primitive:
    def batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, sharding: Any) -> tuple[Any, Any]:
        (x,), (dim,) = args, dims
        if dim is not None and isinstance(sharding, NamedSharding):
            entries = [*sharding.spec, *[None] * (dim - len(sharding.spec))]
            over = axis.spmd_name if axis.spmd_name not in axes_in(sharding.spec) else None
            explicit = [name for name in axis.explicit if name in sharding.mesh.explicit_axes]
            entries.insert(dim, (*axes_of(over), *explicit) if explicit else over)
            sharding = sharding.update(spec=sharding.spec.update(partitions=tuple(entries)))
        return primitive.bind(x, sharding=sharding), dim

    primitive = Primitive(
        name,
        abstract_eval=_moved if moves else lambda x, *, sharding: x,
        impl=impl,
        jvp=LINEAR,
        transpose=lambda ct, x, *, sharding: [primitive.bind(ct, sharding=sharding)],
        axis_batch=batch,
        composition=lambda x, *, sharding: x,
        reference=lambda x, *, sharding: x,
        inert=("sharding",),
        apart=_is_apart,
    )
    return primitive


sharding_constraint_p = _placement("sharding_constraint", moves=False)
reshard_p = _placement("reshard", _reshard)
device_put_p = _placement("device_put")
device_put_p.transpose = _put_back
