"""`vmap`: a function of single elements as a function of batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._api.arguments import argument_names, function_name, wraps
from veery._core import source, tree, tree_registry
from veery._core.avals import aval_of, maybe_aval_of
from veery._core.dimensions import as_dimension
from veery._core.refs import Ref
from veery._core.trace import current_trace
from veery._transforms import batching, explicit, vmappables
from veery.lax._refs import new_ref


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[..., Any]:
    """A function that applies `fun` to each element of batches at once.

    Args:
        fun: function of single elements.
        in_axes: the axis of each positional argument that runs over the batch, None for what is not batched; an int
            for all, or a tuple (list) with an entry, maybe a pytree, for each argument. Keyword arguments have axis 0.
        out_axes: where the batch axis goes in each output; an int or a pytree.
        axis_name: a name for the axis, for collectives.
        axis_size: the size of the batch, needed only if no argument has it.
        spmd_axis_name: axes of a mesh, a name or a tuple of them, that divide the batch within `shard_map`, and where
            `with_sharding_constraint` places values.

    Returns:
        A function of batches.

    Raises:
        ValueError: axes that do not exist or have different sizes.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2)).tolist()
    [2.0, 2.0, 2.0]
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun!r}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if type(in_axes) is bool or not (in_axes is None or isinstance(in_axes, (int, tuple, *vmappables.spec_types()))):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed "
            f"to the function, but got {in_axes}."
        )
    for axis in tree.tree_leaves(in_axes):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer, *vmappables.spec_types())):
            raise TypeError(
                "vmap in_axes must be an int, None, or (nested) container with those types as leaves, but got "
                f"{in_axes}."
            )
    for axis in tree.tree_leaves(out_axes):
        if not isinstance(axis, (int, np.integer)):
            raise TypeError(
                "vmap out_axes must be an int, None, or (nested) container with those types as leaves, but got "
                f"{out_axes}."
            )

    @wraps(fun)
    @source.api_boundary
    def vmap_fun(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments "
                f"passed to the function, but got len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        leaves, in_tree = tree.tree_flatten((args, kwargs), vmappables.is_vmappable)
        in_dims = _flat_axes("vmap in_axes", in_tree, (in_axes, 0), kwargs)
        dims = [
            d if d is None or vmappables.is_vmappable(x) else normalize_axis(d, x, "vmap", fun)
            for d, x in zip(in_dims, leaves)
        ]
        size = mapped_size(fun, args, kwargs, leaves, dims, axis_size, "vmap")
        wholes = [i for i, x in enumerate(leaves) if vmappables.is_vmappable(x)]
        out_tree: Any = None
        wanted: list[Any] = []
        made: list[bool] = []  # which outputs are references to batches

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree, wanted
            trace: Any = current_trace()
            if wholes:
                xs = tuple(vmappables.elements(trace, x, dims[i]) if i in wholes else x for i, x in enumerate(xs))
            a, k = tree.tree_unflatten(in_tree, xs)
            out_leaves, out_tree = tree.tree_flatten(fun(*a, **k), vmappables.is_vmappable)
            made[:] = [type(leaf) is Ref and leaf._trace is trace for leaf in out_leaves]
            out_leaves = [leaf._value if own else leaf for leaf, own in zip(out_leaves, made)]
            for leaf in out_leaves:
                if maybe_aval_of(leaf) is None and not vmappables.is_vmappable(leaf):
                    raise TypeError(
                        f"Output from batched function {leaf!r} with type {type(leaf)} is not a valid JAX type. It was "
                        f"returned by {function_name(fun)}, which may return arrays and pytrees of them."
                    )
            wanted = _flat_axes("vmap out_axes", out_tree, out_axes, None)
            return [
                vmappables.batches(trace, x, w) if vmappables.is_vmappable(x) else x for x, w in zip(out_leaves, wanted)
            ]

        over = explicit.over_batches([maybe_aval_of(x) for x in leaves], dims)
        axis = batching.AxisData(axis_name, size, spmd_axis_name, over)
        outs, out_dims = batching.batch(flat, axis, leaves, [None if i in wholes else d for i, d in enumerate(dims)])
        if any(d is not None and w is None for d, w in zip(out_dims, wanted)):
            _refuse_mapped(out_tree, out_dims, wanted)
        placed = [_place(x, d, w, axis) for x, d, w in zip(outs, out_dims, wanted)]
        return tree.tree_unflatten(out_tree, [new_ref(x) if own else x for x, own in zip(placed, made)])

    return vmap_fun


def _flat_axes(what: str, treedef: Any, axes: Any, kwargs: dict[str, Any] | None) -> list[int | None]:
    """An axis for each leaf, from a prefix tree of axes."""
    if kwargs is not None and not kwargs:
        return tree.flatten_axes(what, treedef, (axes[0], {}), tupled_args=True)
    return tree.flatten_axes(what, treedef, axes, tupled_args=kwargs is not None)


def normalize_axis(dim: int, x: Any, name: str, fun: Any) -> int:
    """The mapped axis of an argument, counted from the front.

    Raises:
        TypeError: the argument is no array.
        ValueError: it does not have the axis.
    """
    if maybe_aval_of(x) is None:
        raise TypeError(f"Argument '{x}' of type {type(x)} is not a valid JAX type in {name} of {function_name(fun)}")
    ndim = len(np.shape(x))
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"{name} was requested to map its argument along axis {dim}, which implies that its rank should be at "
            "least "
            f"{dim + 1 if dim >= 0 else -dim}, but is only {ndim} (its shape is {np.shape(x)})"
        )
    return int(dim) % ndim


def mapped_size(
    fun: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    dims: Sequence[int | None],
    axis_size: int | None,
    name: str,
) -> int:
    """The common size of the mapped axes.

    Raises:
        ValueError: nothing is mapped, or sizes differ.
    """
    sizes = [np.shape(x)[d] for x, d in zip(leaves, dims) if d is not None]
    if axis_size is not None:
        sizes = [as_dimension(axis_size), *sizes]
    if not sizes and not leaves:
        raise ValueError(
            f"{name} wrapped function must be passed at least one argument containing an array or axis_size must be "
            f"specified, got empty *args={args} and **kwargs={kwargs}"
        )
    if not sizes:
        raise ValueError(f"{name} must have at least one non-None value in in_axes or axis_size must be specified")
    if len(set(sizes)) == 1:
        return as_dimension(sizes[0])
    raise ValueError(_size_message(fun, args, kwargs, leaves, dims, axis_size, name))


def _size_message(fun: Any, args: Any, kwargs: Any, leaves: Any, dims: Any, axis_size: int | None, name: str) -> str:
    names = argument_names(fun, args, kwargs)
    paths = [
        (f"kwargs['{arg_name}']" if i >= len(args) else f"argument {arg_name}") + tree_registry.keystr(path)
        for i, (arg_name, x) in enumerate(zip(names, [*args, *kwargs.values()]))
        for path, _ in tree.tree_flatten_with_path(x)[0]
    ]
    mapped = [(path, x, d) for path, x, d in zip(paths, leaves, dims) if d is not None]
    counts = Counter(np.shape(x)[d] for _, x, d in mapped)
    lines = [f"{name} got inconsistent sizes for array axes to be mapped:"]
    if axis_size is not None:
        lines.append(f"  * the `axis_size` argument was {axis_size};")
    for rank, (size, count) in enumerate(counts.most_common()):
        path, x, d = next(m for m in mapped if np.shape(m[1])[m[2]] == size)
        type_ = aval_of(x).str_short(short_dtypes=False)
        where = f"axis {d} of {path} of type {type_}"
        if count == 1:
            lines.append(f"  * one axis had size {size}: {where};")
        else:
            lines.append(f"  * {'most' if rank == 0 else 'some'} axes ({count} of them) had size {size}, e.g. {where};")
    return "\n".join(lines)[:-1]


def _refuse_mapped(out_tree: Any, dims: Sequence[int | None], wanted: Sequence[int | None]) -> None:
    """Raise ValueError for the first output that is mapped though out_axes says that it is not."""
    paths = [path for path, _ in tree.tree_flatten_with_path(tree.tree_unflatten(out_tree, list(range(len(dims)))))[0]]
    path, dim = next((p, d) for p, d, w in zip(paths, dims, wanted) if d is not None and w is None)
    raise ValueError(
        f"at vmap out_axes{tree_registry.keystr(path)}, got axis spec None but output was batched on axis {dim}. Pass "
        "an out_axes for it, or reduce over the batch, for example with a collective."
    )


def _place(x: Any, dim: int | None, wanted: int | None, axis: batching.AxisData) -> Any:
    """An output with its batch axis where out_axes wants it."""
    if wanted is None or vmappables.is_vmappable(x):
        return x
    ndim = len(np.shape(x)) + (dim is None)
    if not -ndim <= wanted < ndim:
        raise ValueError(f"axis {wanted} is out of bounds for array of dimension {ndim}, which out_axes asks for")
    return batching.move_batch(x, dim, int(wanted) % ndim, axis.size, axis.explicit)
