"""`shard_map`: a function of each device's part of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from veery import _distributed
from veery._api.arguments import argument_names, function_name, wraps
from veery._api.jit import JitOptions, check_outputs, debug_info
from veery._api.shard_values import ShardValues
from veery._core import source, tree, tree_errors, tree_registry
from veery._core.array import ArrayImpl
from veery._core.avals import aval_of, explicit_part, maybe_aval_of
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr
from veery._core.mesh import AbstractMesh, AxisType, Mesh, context
from veery._core.partition_spec import PartitionSpec, axes_in, axes_of
from veery._core.sharding import NamedSharding
from veery._core.trace import Tracer, axis_env, current_trace, eval_trace
from veery._transforms.staging import close_over, forbid_tracing, stage
from veery._transforms.varying import in_order, pvary
from veery.lax import _shard_map


class _Infer:
    """Stands for specs that are read off the arguments."""

    def __repr__(self) -> str:
        return "jax.sharding.Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: Collection[Any] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """A function that applies `f` to each device's part of its arguments, on all devices of a mesh at the same time.

    Args:
        f: function of the parts; collectives such as `lax.psum` over the mesh's axes exchange values between devices.
            Without it, a decorator.
        out_specs: for each output, a PartitionSpec that says how the parts make up the whole: those of devices along an
            axis that it names are joined; along the others all devices return the same. A pytree prefix of the output.
        in_specs: for each argument, a PartitionSpec that says which part each device gets: that of its position along
            the axes that it names. A pytree prefix of the tuple of arguments; None for what all devices get whole, and
            for what is no array, which `f` gets as it is.
        mesh: the mesh; by default that of `set_mesh`.
        axis_names: the axes that `f` is written for a position of; all by default. Along the others all devices compute
            the same.
        check_vma: whether it is known of each value along which axes it varies: an output that varies along an axis
            that its spec does not name is refused then, and derivatives within `f` are those of the whole program.

    Returns:
        A function of whole arrays. Its results are arrays whose parts live on the devices.

    Raises:
        TypeError: f is not callable, a spec is no PartitionSpec, or an argument is not an array.
        ValueError: a spec does not fit its array, names an axis that is not there, or an output may vary along an axis
            that its spec does not name; or there is no mesh.

    Within `jit`, operations between calls run on one device. A call within a loop or a branch is computed there too.

    >>> import veery, veery.numpy as jnp
    >>> mesh = veery.make_mesh((1,), ("x",))
    >>> share = veery.shard_map(
    ...     lambda x: x / veery.lax.psum(x.sum(), "x"), mesh=mesh, in_specs=veery.P("x"), out_specs=veery.P("x"))
    >>> share(jnp.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    options = dict(out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma)
    if f is None:
        return lambda f: shard_map(f, **options)  # type: ignore[arg-type]
    if not callable(f):
        raise TypeError(f"shard_map requires a callable for its first argument, but got {f} of type {type(f)}.")
    if mesh is not None and not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(f"shard_map requires a `jax.sharding.Mesh` or a `jax.sharding.AbstractMesh`, got {mesh!r}")
    fun = f
    programs: dict[Any, tuple[ClosedJaxpr, list[Any], Any, tuple[PartitionSpec, ...]]] = {}

    @wraps(fun)
    @source.api_boundary
    def shard_map_fun(*args: Any) -> Any:
        found = _mesh(mesh)
        manual = _manual_axes(found, axis_names)
        leaves, in_tree = tree.tree_flatten(args)
        given = None if in_specs is Infer else _given(in_specs, args)
        if given is not None and any(map(_is_static, given, leaves)):
            return _with_static(fun, leaves, in_tree, given, {**options, "mesh": found})
        for leaf in leaves:
            if maybe_aval_of(leaf) is None:
                raise TypeError(f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type")
        if isinstance(found, AbstractMesh) and not any(isinstance(x, Tracer) for x in leaves):
            found = _distributed.concrete_mesh(found, leaves)
        specs = _in_specs(in_specs, args, in_tree, leaves, found, manual)
        avals = [aval_of(x) for x in leaves]
        _check_in_specs(fun, args, specs, avals, found)
        _check_types(specs, avals, found, manual)
        local = tuple(_shard_map.divided(a, s, found, check_vma) for a, s in zip(avals, specs))
        key = (in_tree, local, found, manual, config.trace_key(), axis_env())
        program = programs.get(key)
        if program is None:
            forbid_tracing(fun)
            values = _values(leaves, specs, found, manual, check_vma)
            program = _trace(fun, in_tree, local, args, out_specs, found, manual, check_vma, values)
            if (values is None or not values.asked) and not any(isinstance(x, Tracer) for x in program[1]):
                programs[key] = program
        closed, consts, out_tree, wanted = program
        outs = _shard_map.shard_map_p.bind(
            *consts,
            *leaves,
            jaxpr=closed,
            mesh=found,
            in_specs=(*[PartitionSpec()] * len(consts), *specs),
            out_specs=wanted,
            manual_axes=manual,
            check_vma=check_vma,
        )
        return tree.tree_unflatten(out_tree, outs)

    return shard_map_fun


def _mesh(mesh: Mesh | AbstractMesh | None) -> Mesh | AbstractMesh:
    """The mesh that was given, or that of the context."""
    here = context()
    if mesh is None:
        found = here.concrete or here.abstract
        if found is None or not found.axis_names:
            raise ValueError("The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh context")
        return found
    if here.abstract is not None and here.abstract.manual_axes and here.abstract.axis_names == mesh.axis_names:
        taken = here.abstract.manual_axes
        if set(taken) == set(mesh.axis_names):
            raise ValueError(
                f"The context mesh {here.abstract} should match the mesh passed to shard_map {mesh!s}: all of its axes "
                "are those of the `shard_map` around already"
            )
    if isinstance(mesh, AbstractMesh) and here.concrete is not None and here.concrete.shape_tuple == mesh.shape_tuple:
        return here.concrete
    return mesh


def _manual_axes(mesh: Mesh | AbstractMesh, axis_names: Collection[Any]) -> tuple[Any, ...]:
    names = frozenset({axis_names} if isinstance(axis_names, str) else axis_names)
    if not names <= set(mesh.axis_names):
        raise ValueError(
            f"jax.shard_map requires axis_names={names} to be a subset of mesh.axis_names={frozenset(mesh.axis_names)}"
        )
    here = context().abstract
    taken = here.manual_axes if here is not None else ()
    if names & set(taken):
        raise ValueError(
            f"shard_map: the axes {sorted(names & set(taken))} are those of the `shard_map` around already"
        )
    return tuple(name for name in mesh.axis_names if name in (names or set(mesh.axis_names) - set(taken)))


def _check_names(what: str, specs: Any, manual: tuple[Any, ...]) -> None:
    for path, spec in tree.tree_flatten_with_path(specs)[0]:
        where = f"{what}{tree_registry.keystr(path)}"
        if not isinstance(spec, PartitionSpec):
            raise TypeError(
                f"shard_map {what} argument must be a pytree of `jax.sharding.PartitionSpec` instances, but:\n\n"
                f"  {where} is {spec} of type {type(spec).__name__}\n\nCheck the {what} values passed to shard_map."
            )
        for name in axes_in(spec):
            if name not in manual:
                raise ValueError(
                    f"shard_map {what} argument must refer to an axis marked as manual ({frozenset(manual)}), but:\n\n"
                    f"  {where} refers to {name!r}\n\nCheck the {what} values passed to shard_map."
                )


def _in_specs(
    in_specs: Any, args: tuple, in_tree: Any, leaves: list[Any], mesh: Any, manual: tuple[Any, ...]
) -> tuple[PartitionSpec, ...]:
    """A spec for each leaf of the arguments."""
    if in_specs is Infer:
        return tuple(_inferred(x, mesh, manual) for x in leaves)
    _check_names("in_specs", tuple(in_specs) if isinstance(in_specs, list) else in_specs, manual)
    return tuple(PartitionSpec() if spec is None else spec for spec in _given(in_specs, args))


def _given(in_specs: Any, args: tuple) -> list[Any]:
    """What is given for each leaf of the arguments: a spec or None."""
    prefix = tuple(in_specs) if isinstance(in_specs, (tuple, list)) else (in_specs,) * len(args)
    try:
        return tree.broadcast_optional(prefix, args)
    except ValueError:
        _explain_mismatch("in_specs", prefix, args)
        raise


def _is_static(spec: PartitionSpec | None, x: Any) -> bool:
    """Whether the function gets an argument as it is."""
    return spec is None and not isinstance(x, (ArrayImpl, Tracer, np.ndarray))


def _with_static(fun: Callable[..., Any], leaves: list[Any], in_tree: Any, given: list[Any], options: Any) -> Any:
    """A call some of whose arguments are part of the function."""
    static = [*map(_is_static, given, leaves)]

    def of_arrays(*arrays: Any) -> Any:
        rest = iter(arrays)
        return fun(*tree.tree_unflatten(in_tree, [x if fixed else next(rest) for x, fixed in zip(leaves, static)]))

    of_arrays.__name__ = function_name(fun)
    specs = tuple(spec for spec, fixed in zip(given, static) if not fixed)
    arrays = [x for x, fixed in zip(leaves, static) if not fixed]
    return shard_map(of_arrays, **{**options, "in_specs": specs})(*arrays)


def _explain_mismatch(what: str, prefix: Any, full: Any) -> None:
    for error in tree_errors.prefix_errors(prefix, full):
        raise error(f"shard_map {what}") from None


def _inferred(x: Any, mesh: Any, manual: tuple[Any, ...]) -> PartitionSpec:
    """The spec of an array's sharding."""
    types = dict(zip(mesh.axis_names, mesh.axis_types))
    if any(types[name] is not AxisType.Explicit for name in manual):
        raise TypeError(
            "shard_map in_specs argument must be a pytree of `jax.sharding.PartitionSpec` instances, but it was `None` "
            f"when axis_names={frozenset(manual)} are of type {', '.join(str(types[name]) for name in manual)}"
        )
    layout = _distributed.layout_of(x) if isinstance(x, ArrayImpl) else aval_of(x).sharding
    spec = getattr(layout, "spec", PartitionSpec())
    return PartitionSpec(*(tuple(a for a in axes_of(entry) if a in manual) or None for entry in spec))


def _check_in_specs(fun: Any, args: tuple, specs: tuple[PartitionSpec, ...], avals: list[Any], mesh: Any) -> None:
    paths = [
        (f"args[{i}]{tree_registry.keystr(path)}", name)
        for i, (x, name) in enumerate(zip(args, argument_names(fun, args, {})))
        for path, _ in tree.tree_flatten_with_path(x)[0]
    ]
    for (path, name), spec, aval in zip(paths, specs, avals):
        text = aval.str_short(short_dtypes=False)
        bound = f"{path}, where {path.split('[')[0]} is bound to {function_name(fun)}'s parameter '{name}',"
        if len(spec) > aval.ndim:
            raise ValueError(
                f"shard_map applied to the function '{function_name(fun)}' was given an in_specs entry which is too "
                f"long to be compatible with the corresponding input value from the function:\n\nin_specs is {spec} "
                f"which has length {len(spec)}, but the passed {bound} has shape {text}, which has rank {aval.ndim} "
                f"(and {aval.ndim} < {len(spec)})\n\nEntries in in_specs must be of length no greater than the number "
                "of axes in the corresponding input value."
            )
        for i, entry in enumerate(spec):
            count = math.prod(mesh.shape[axis] for axis in axes_of(entry))
            if aval.shape[i] % count:
                axes = (
                    f"axis {entry!r} (of size {count})"
                    if not isinstance(entry, tuple)
                    else (f"axes {entry} (of total size {count})")
                )
                raise ValueError(
                    f"shard_map applied to the function '{function_name(fun)}' was given argument arrays with axis "
                    f"sizes that are not evenly divisible by the corresponding mesh axis sizes:\n\n{_mesh_text(mesh)}"
                    f"\n\nthe passed {bound} of shape {text} corresponds to in_specs of value {spec}, which maps array "
                    f"axis {i} (of size {aval.shape[i]}) to mesh {axes}, but {count} does not evenly divide "
                    f"{aval.shape[i]}\n\nArray arguments' axis sizes must be evenly divisible by the mesh axis or axes "
                    "indicated by the corresponding elements of the argument's in_specs entry."
                )


def _check_types(specs: tuple[PartitionSpec, ...], avals: list[Any], mesh: Any, manual: tuple[Any, ...]) -> None:
    """Refuse to divide arrays otherwise than their types say, where these say it of all axes. Whole ones may be."""
    if set(manual) != set(mesh.explicit_axes) or len(manual) != len(mesh.axis_names):
        return
    for spec, aval in zip(specs, avals):
        if aval.divided is not None and explicit_part(NamedSharding(mesh, spec), aval.ndim) != aval.divided:
            full = PartitionSpec(*spec, *[None] * (aval.ndim - len(spec)))
            raise ValueError(
                f"in_specs passed to shard_map: {full} does not match the specs of the input: {aval.sharding.spec} for "
                f"arg: {aval}. `in_specs` is an optional argument so you can omit specifying it and shard_map will "
                "infer the in_specs from the arguments. If you want to reshard your inputs, you can use `jax.reshard` "
                "on the arguments and then pass those args to shard_map."
            )


def _mesh_text(mesh: Any) -> str:
    return f"The mesh given has shape {mesh.axis_sizes} with corresponding axis names {mesh.axis_names}."


def _values(leaves: list[Any], specs: tuple[PartitionSpec, ...], mesh: Any, manual: Any, check: bool) -> Any:
    """What knows the values within a call with arrays; None where they are traced, or some axes are not manual."""
    if current_trace() is not eval_trace or not isinstance(mesh, Mesh) or len(manual) < len(mesh.axis_names):
        return None
    again = lambda f, out: shard_map(f, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)(*leaves)
    return ShardValues(mesh, again, check)


def _trace(
    fun: Any,
    in_tree: Any,
    avals: tuple[Any, ...],
    args: tuple,
    out_specs: Any,
    mesh: Any,
    manual: Any,
    check: bool,
    values: Any,
) -> tuple:
    out_tree: Any = None
    wanted: tuple[PartitionSpec, ...] = ()

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree, wanted
        out = fun(*tree.tree_unflatten(in_tree, xs))
        leaves, out_tree = tree.tree_flatten(out)
        check_outputs(leaves, out, fun)
        wanted = _out_specs(out_specs, out, manual)
        return [_checked(fun, x, spec, mesh, manual, check) for x, spec in zip(leaves, wanted)]

    with _shard_map.inside(mesh, manual, check):
        closed, consts = close_over(stage(flat, avals, debug_info(fun, args, {}, JitOptions()), values))
    return closed, consts, out_tree, wanted


def _out_specs(out_specs: Any, out: Any, manual: tuple[Any, ...]) -> tuple[PartitionSpec, ...]:
    _check_names("out_specs", out_specs, manual)
    try:
        return tuple(tree.broadcast_prefix(out_specs, out))
    except ValueError:
        _explain_mismatch("out_specs", out_specs, out)
        raise


def _checked(fun: Any, x: Any, spec: PartitionSpec, mesh: Any, manual: tuple[Any, ...], check: bool) -> Any:
    """An output of the program, which must fit its spec."""
    aval = aval_of(x)
    if len(spec) > aval.ndim:
        raise ValueError(
            f"shard_map applied to the function '{function_name(fun)}' was given an out_specs entry which is too long "
            f"to be compatible with the corresponding output value from the function:\n\nout_specs is {spec} which "
            f"has length {len(spec)}, but {function_name(fun)}(*args) has shape {aval.str_short(short_dtypes=False)}, "
            f"which has rank {aval.ndim} (and {aval.ndim} < {len(spec)})\n\nEntries in out_specs must be of length no "
            "greater than the number of axes in the corresponding output value.\n\nFor scalar values (rank 0), "
            "consider using an out_specs entry of `P()`. In particular, for rank 0 outputs which are not constant over "
            "the mesh, add at least one (singleton) axis to them so that they can be concatenated using out_specs."
        )
    if not check:
        return x
    more = in_order(aval.varying.intersection(manual).difference(axes_in(spec)))
    if more:
        raise ValueError(
            f"shard_map applied to the function '{function_name(fun)}' was given out_specs which require replication "
            f"which can't be statically inferred given the mesh:\n\n{_mesh_text(mesh)}\n\nout_specs is {spec} which "
            f"implies that the corresponding output value is only varying across mesh axes "
            f"{{{', '.join(axes_in(spec))}}} and not {{{', '.join(map(str, more))}}}, but it was inferred to be "
            f"possibly varying over {{{', '.join(map(str, in_order(aval.varying)))}}}\n\nCheck if these output values "
            "are meant to be replicated over those mesh axes. If not, consider revising the corresponding out_specs "
            "entries. If so, consider disabling the check by passing the check_vma=False argument to `jax.shard_map`."
        )
    return pvary(x, axes_in(spec))


def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: Any) -> Any:
    """`shard_map` along one axis of the mesh of the context, with axes in the place of specs, as for `vmap`.

    Args:
        f: function of the parts. Without it, a decorator.
        in_axes: for each argument the dimension that is divided, None for what all devices get whole.
        out_axes: for each output the dimension along which parts are joined, None where all return the same.
        axis_name: the axis.

    Returns:
        A function of whole arrays.

    Raises:
        TypeError: an axis is no integer or None.
        ValueError: there is no mesh.
    """
    if f is None:
        return lambda f: smap(f, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not isinstance(axis_name, str):
        raise TypeError(f"smap: axis_name is a string, got {axis_name!r}")
    return shard_map(
        f,
        in_specs=in_axes if in_axes is Infer else _specs_of(in_axes, axis_name, "in_axes"),
        out_specs=_specs_of(out_axes, axis_name, "out_axes"),
        axis_names={axis_name},
    )


def _specs_of(axes: Any, name: str, what: str) -> Any:
    def spec(axis: Any) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        if not isinstance(axis, (int, np.integer)):
            raise TypeError(f"smap {what} must be an int, None, or a pytree of them, got {axis!r}")
        return PartitionSpec(*[None] * int(axis), name)

    return tree.tree_map(spec, axes, is_leaf=lambda x: x is None)
