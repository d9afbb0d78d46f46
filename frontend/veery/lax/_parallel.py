"""Collectives: operations over named axes, which `vmap` resolves and `pmap` runs between devices.

Each primitive concerns a named axis of a size that is known when it is traced. Batching over that axis turns it into an
operation along the batch dimension; batching over any other axis leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, source, tree
from veery._core.ad import LINEAR, NONDIFFERENTIABLE, Zero, instantiate_zeros
from veery._core.avals import ShapedArray, aval_of
from veery._core.errors import PermutationError
from veery._core.jaxpr import NamedAxisEffect
from veery._core.mesh import context
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_axis
from veery._core.trace import axis_size as size_in_scope
from veery._transforms import varying
from veery._transforms.batching import AxisData, move_batch
from veery.lax import _arithmetic, _compare, _convert, _reduce, _shape, _slicing

Groups = tuple[tuple[int, ...], ...] | None


def _names(axis_name: Any) -> tuple[Any, ...]:
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    if len(set(names)) != len(names):
        raise ValueError(f"duplicate axis names in {names}: each axis can be meant once")
    return names


def _groups(groups: Sequence[Sequence[int]] | None, size: int, equal: bool = False) -> Groups:
    """Groups as tuples, checked: they cover the axis; where the shape of the result is their size, they are equal."""
    if groups is None:
        return None
    if not isinstance(groups, Sequence):
        raise TypeError(f"axis_index_groups must be a sequence of sequences of indices, got {groups!r}")
    found = tuple(tuple(int(i) for i in group) for group in groups)
    if sorted(i for group in found for i in group) != list(range(size)):
        raise ValueError(
            f"axis_index_groups must cover all indices of the axis exactly once; got {groups} for size {size}"
        )
    if equal and len(set(map(len, found))) > 1:
        raise ValueError(f"axis_index_groups must all be the same size here, since it is the result's; got {groups}")
    return found


def axis_size(axis_name: Any) -> int:
    """The size of a named axis (or of a tuple of them).

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(lambda x: x * veery.lax.axis_size("i"), axis_name="i")(jnp.ones(3)).tolist()
    [3.0, 3.0, 3.0]
    """
    return int(np.prod([size_in_scope(name) for name in _names(axis_name)], dtype=int))


def axis_index(axis_name: Any) -> Any:
    """The position along a named axis (row by row along a tuple of them), an int32 scalar.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(lambda x: veery.lax.axis_index("i"), axis_name="i")(jnp.ones(3)).tolist()
    [0, 1, 2]
    """
    index: Any = None
    for name in _names(axis_name):
        size = size_in_scope(name)
        here = axis_index_p.bind(axis_name=name, axis_size=size)
        index = here if index is None else _arithmetic.add(_arithmetic.mul(index, np.int32(size)), here)
    return index if index is not None else np.int32(0)


# Reductions.


@source.api_boundary
def psum(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The sum over a named axis.

    Args:
        x: pytree of arrays.
        axis_name: name of the axis, or a tuple of names. Integers among them are dimensions of x, which are summed too.
        axis_index_groups: lists of indices that cover the axis; sums are then within groups.

    Returns:
        The pytree with the sums, the same at each position (of a group). The sum of a constant is known at once.

    Raises:
        NameError: no axis of that name is in scope.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(lambda x: x / veery.lax.psum(x, "i"), axis_name="i")(jnp.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    names, dimensions = _names_and_dimensions(axis_name)
    size = axis_size(names)
    groups = _groups(axis_index_groups, size)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, (bool, int, float, complex)) and not dimensions:
            if groups is not None and len(set(map(len, groups))) > 1:
                raise ValueError(f"axis_index_groups must all be the same size to sum a constant, got {groups}")
            count = size if groups is None else len(groups[0])
            return np.int32(leaf * count) if isinstance(leaf, bool) else leaf * count
        if aval_of(leaf).dtype == np.bool_:
            leaf = _convert.convert_element_type(leaf, np.int32)
        return _reduce_over("psum", leaf, names, dimensions, groups)

    return tree.tree_map(one, x)


def _names_and_dimensions(axis_name: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Axis names, and the integers among them, which are dimensions of the operand."""
    found = _names(axis_name)
    return tuple(n for n in found if not isinstance(n, int)), tuple(n for n in found if isinstance(n, int))


@source.api_boundary
def pmean(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The mean over a named axis; arguments as for `psum`."""
    names, dimensions = _names_and_dimensions(axis_name)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    members = psum(1, names, axis_index_groups=axis_index_groups)

    def divide(leaf: Any, summed: Any) -> Any:
        count = members * int(np.prod([np.shape(leaf)[d] for d in dimensions], dtype=int))
        if isinstance(summed, (int, float, complex)):
            return summed / count
        if aval_of(summed).dtype.kind in "iub":
            summed = _convert.convert_element_type(summed, dtypes.canonicalize_dtype(np.float64))
        return _arithmetic.div(summed, count)

    return tree.tree_map(divide, x, total)


@source.api_boundary
def pmax(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The maximum over a named axis; arguments as for `psum`."""
    names, dimensions = _names_and_dimensions(axis_name)
    groups = _groups(axis_index_groups, axis_size(names))
    return tree.tree_map(lambda leaf: _reduce_over("pmax", leaf, names, dimensions, groups), x)


@source.api_boundary
def pmin(x: Any, axis_name: Any, *, axis_index_groups: Sequence[Sequence[int]] | None = None) -> Any:
    """The minimum over a named axis; arguments as for `psum`."""
    names, dimensions = _names_and_dimensions(axis_name)
    groups = _groups(axis_index_groups, axis_size(names))
    return tree.tree_map(lambda leaf: _reduce_over("pmin", leaf, names, dimensions, groups), x)


def _reduce_over(kind: str, x: Any, names: tuple[Any, ...], dimensions: tuple[int, ...], groups: Groups) -> Any:
    if groups is not None and (len(names) > 1 or dimensions):
        raise ValueError(f"{kind}: axis_index_groups needs a single axis name, got {(*names, *dimensions)}")
    if dimensions:
        ndim = len(np.shape(x))
        x = _over_dimensions[kind](x, tuple(canonicalize_axis(d, ndim) for d in dimensions))
    return reduce_axes(kind, x, names, groups)


def reduce_axes(kind: str, x: Any, names: tuple[Any, ...], groups: Groups = None) -> Any:
    """A reduction over named axes ("psum", "pmax" or "pmin")."""
    for name in names:
        primitive = psum_invariant_p if kind == "psum" and groups is None and _tracked(name) else _reductions[kind]
        x = primitive.bind(x, axis_name=name, axis_size=size_in_scope(name), axis_index_groups=groups)
    return x


def _tracked(name: Any) -> bool:
    """Whether it is known of values whether they vary along an axis (within `shard_map` with check_vma)."""
    return name in context().tracked


@source.api_boundary
def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Take a value that is the same along axes of a mesh for one that may vary along them, within `shard_map`.

    Values stay as they are; what changes is the derivative: a value that devices share receives the sum of the
    cotangents of all. Operations on values of both kinds do this by themselves.

    Args:
        x: pytree of arrays that do not vary along the axes.
        axis_name: name of an axis, or a tuple of names.
        to: "varying".

    Raises:
        ValueError: the value varies already, or there is no such kind.
        NotImplementedError: `to` is "reduced" or "unreduced", which are about the partitioning of explicit axes.
    """
    names = _names(axis_name)
    kinds = {"varying", "reduced", "unreduced"}
    if to not in kinds:
        raise ValueError(f"Got unexpected `to` value. Allowed `to` values are: {kinds}")
    if to != "varying":
        raise NotImplementedError(f"pcast to {to!r}: values are not divided into sums. Use lax.psum, or to='varying'.")
    tracked = frozenset(name for name in names if _tracked(name))
    axis_size(names)

    def one(leaf: Any) -> Any:
        if aval_of(leaf).varying & tracked:
            raise ValueError(f"Unsupported pcast from=varying, to={to!r}")
        return varying.pvary(leaf, tracked)

    return tree.tree_map(one, x)


# Exchanges.


@source.api_boundary
def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values at all positions of a named axis, at each of them.

    Args:
        x: pytree of arrays.
        axis_name: name of the axis, or a tuple of names.
        axis_index_groups: groups to gather within.
        axis: where the gathered axis goes.
        tiled: whether values are concatenated along `axis` instead of stacked.
        to: within `shard_map`, whether the result counts as "varying" along the axis, or "invarying": then it may be
            returned as the same for all, and its cotangent is that of all together.

    Raises:
        ValueError: `to` is neither.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(lambda x: veery.lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2)).tolist()
    [[0, 1], [0, 1]]
    """
    names = _names(axis_name)
    groups = _one_name("all_gather", names, axis_index_groups)
    if to not in ("varying", "invarying"):
        raise ValueError(f"all_gather: `to` is 'varying' or 'invarying', got {to!r}")

    def one(leaf: Any) -> Any:
        ndim = len(np.shape(leaf))
        at = canonicalize_axis(axis, ndim if tiled else ndim + 1)
        for name in reversed(names):
            gather = all_gather_invariant_p if to == "invarying" and _tracked(name) else all_gather_p
            leaf = gather.bind(
                leaf, all_gather_dimension=at, axis_name=name, axis_size=size_in_scope(name), axis_index_groups=groups
            )
        if len(names) > 1:
            shape = np.shape(leaf)
            k = len(names)
            leaf = _shape.reshape(leaf, (*shape[:at], int(np.prod(shape[at : at + k])), *shape[at + k :]))
        return _merge(leaf, at) if tiled else leaf

    return tree.tree_map(one, x)


def _one_name(what: str, names: tuple[Any, ...], groups: Any) -> Groups:
    """Groups of equal size, which are of positions along a single axis."""
    if groups is not None and len(names) > 1:
        raise ValueError(f"{what}: axis_index_groups needs a single axis name, got {names}")
    return _groups(groups, axis_size(names), equal=True)


def _merge(x: Any, at: int) -> Any:
    """Dimensions `at` and `at + 1` as one."""
    shape = np.shape(x)
    return _shape.reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def _divide(x: Any, at: int, size: int, what: str) -> Any:
    """Dimension `at` as two, the first of the given size."""
    shape = np.shape(x)
    if shape[at] % size:
        raise ValueError(
            f"{what} with tiled=True: dimension {at} of size {shape[at]} is not divisible by the axis size {size}"
        )
    return _shape.reshape(x, (*shape[:at], size, shape[at] // size, *shape[at + 1 :]))


@source.api_boundary
def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Like `psum`, but each position gets its own slice of the sum.

    Args:
        x: pytree of arrays whose `scatter_dimension` has the size of the axis (a multiple of it, if tiled).
        axis_name: name of the axis, or a tuple of names.
        scatter_dimension: the dimension that is divided.
        axis_index_groups: groups to sum within; the dimension then has a group's size.
        tiled: whether the dimension stays, divided by the axis size, instead of going.
    """
    names = _names(axis_name)
    groups = _one_name("psum_scatter", names, axis_index_groups)
    count = axis_size(names) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        at = canonicalize_axis(scatter_dimension, len(np.shape(leaf)))
        if tiled:
            leaf = _divide(leaf, at, count, "psum_scatter")
        elif np.shape(leaf)[at] != count:
            raise ValueError(
                f"psum_scatter operand scatter dimension size {np.shape(leaf)[at]} must match shard count {count}"
            )
        for name in names:  # what is left to divide stays in front of the rest of the dimension
            size = size_in_scope(name)
            leaf = leaf if len(names) == 1 else _divide(leaf, at, size, "psum_scatter")
            leaf = reduce_scatter_p.bind(
                leaf, scatter_dimension=at, axis_name=name, axis_size=size, axis_index_groups=groups
            )
        return leaf if len(names) == 1 else _shape.squeeze(leaf, (at,))

    return tree.tree_map(one, x)


@source.api_boundary
def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Exchange slices: slice j of `split_axis` at position i goes to slice i of `concat_axis` at position j.

    Args:
        x: pytree of arrays; `split_axis` has the size of the axis (a multiple of it, if tiled).
        axis_name: name of the axis, or a tuple of names.
        split_axis: the dimension that is divided among positions.
        concat_axis: where the received slices are stacked (concatenated, if tiled).
        axis_index_groups: groups to exchange within.
        tiled: whether dimensions are divided and concatenated instead of removed and stacked.
    """
    names = _names(axis_name)
    groups = _one_name("all_to_all", names, axis_index_groups)
    count = axis_size(names) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        split, concat = (canonicalize_axis(a, len(np.shape(leaf))) for a in (split_axis, concat_axis))
        if tiled:
            leaf = _divide(leaf, split, count, "all_to_all")
        elif np.shape(leaf)[split] != count:
            raise ValueError(
                f"all_to_all requires the size of the mapped axis axis_name to equal x.shape[split_axis], but they are "
                f"{count} and {np.shape(leaf)[split]} respectively."
            )
        if len(names) > 1:
            return _exchange_over_several(leaf, names, split, concat, tiled)
        out = all_to_all_p.bind(
            leaf, split_axis=split, concat_axis=concat, axis_name=names[0], axis_size=axis_size(names),
            axis_index_groups=groups,
        )  # fmt: skip
        return _merge(out, concat) if tiled else out

    return tree.tree_map(one, x)


def _exchange_over_several(x: Any, names: tuple[Any, ...], split: int, concat: int, tiled: bool) -> Any:
    """An exchange along the axis that several named axes make together, row by row: one along each."""
    sizes = [size_in_scope(name) for name in names]
    shape = np.shape(x)
    x = _shape.reshape(x, (*shape[:split], *sizes, *shape[split + 1 :]))
    for k, (name, size) in enumerate(zip(names, sizes)):
        x = all_to_all_p.bind(
            x, split_axis=split + k, concat_axis=split + k, axis_name=name, axis_size=size, axis_index_groups=None
        )
    x = _shape.moveaxis(_shape.reshape(x, shape), split, concat)
    return _merge(x, concat) if tiled else x


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a named axis with a dimension of the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


@source.api_boundary
def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values along a named axis.

    Args:
        x: pytree of arrays.
        axis_name: name of the axis, or a tuple of names.
        perm: (source, destination) pairs; positions that receive nothing get zeros.

    Raises:
        PermutationError: a source or destination occurs twice, or is none of the axis' positions. It is a ValueError
            and an AssertionError.

    >>> import veery, veery.numpy as jnp
    >>> veery.vmap(lambda x: veery.lax.ppermute(x, "i", [(0, 1)]), axis_name="i")(jnp.array([5, 6])).tolist()
    [0, 5]
    """
    pairs = tuple((int(a), int(b)) for a, b in perm)
    for side, ends in (("source", [a for a, _ in pairs]), ("destination", [b for _, b in pairs])):
        if len(set(ends)) != len(ends):
            raise PermutationError(f"ppermute: each {side} may occur once in perm, got {perm}")
    names = _names(axis_name)
    size = axis_size(names)
    if any(not 0 <= end < size for pair in pairs for end in pair):
        raise PermutationError(f"ppermute: perm has positions outside of the axis, which has size {size}; got {perm}")
    if len(names) > 1:
        return tree.tree_map(lambda leaf: _permute_over_several(leaf, names, pairs), x)
    return tree.tree_map(lambda leaf: ppermute_p.bind(leaf, axis_name=names[0], axis_size=size, perm=pairs), x)


def _permute_over_several(x: Any, names: tuple[Any, ...], pairs: Sequence[tuple[int, int]]) -> Any:
    """A permutation along the axis that several named axes make together: each position picks from all values."""
    origins: Any = np.full(axis_size(names), -1, np.int32)
    for start, destination in pairs:
        origins[destination] = start
    origin = _slicing.dynamic_index_in_dim(origins, axis_index(names), 0, keepdims=False)
    picked = _slicing.dynamic_index_in_dim(all_gather(x, names), origin, 0, keepdims=False)
    return _compare.select(_compare.ge(origin, np.int32(0)), picked, _shape.full_like(picked, 0))


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Permute values along a named axis: position i gets the value of position perm[i]."""
    if sorted(perm) != list(range(axis_size(axis_name))):
        raise PermutationError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)))))


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value at one position of a named axis, at each of them."""
    return tree.tree_map(lambda leaf: _slicing.index_in_dim(all_gather(leaf, axis_name), source, 0, keepdims=False), x)


# Rules. In each batching rule over the collective's own axis, x has its batch dimension in front.


def _effects(*avals: Any, axis_name: Any, **_: Any) -> set[Any]:
    return {NamedAxisEffect(axis_name)}


def _over_groups(x: Any, groups: Groups, apply: Callable[[Any], Any]) -> Any:
    """Apply a function of batches to each group; the results, one for each member, come back in the axis' order."""
    if groups is None:
        return apply(x)
    members: dict[int, Any] = {}
    for group in groups:
        part = _shape.concatenate([_slicing.slice_in_dim(x, i, i + 1) for i in group], 0)
        result = apply(part)
        for k, i in enumerate(group):
            members[i] = _slicing.slice_in_dim(result, k, k + 1)
    return _shape.concatenate([members[i] for i in range(len(members))], 0)


def _same_for_all(x: Any, count: int) -> Any:
    return move_batch(x, None, 0, count)


def _batcher(
    primitive: Callable[[], Primitive],
    own_axis: Callable[..., tuple[Any, int | None]],
    shifted: Callable[..., dict[str, Any]],
) -> Callable[..., Any]:
    """A batching rule: `own_axis(x, **params)` for the collective's own axis, `shifted(params, dim)` for any other.

    `shifted` gives the parameters for an operand with one more dimension, in front.
    """

    def rule(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        (x,), (dim,) = args, dims
        if axis.name is not None and params["axis_name"] == axis.name:
            return own_axis(move_batch(x, dim, 0, axis.size), **params)
        if dim is None:
            return primitive().bind(x, **params), None
        return primitive().bind(move_batch(x, dim, 0, axis.size), **shifted(params)), 0

    return rule


def _same_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    return x


def _unshifted(params: dict[str, Any]) -> dict[str, Any]:
    return params


def _shift(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda params: params | {name: params[name] + 1 for name in names}


def _stays_varying(found: frozenset[Any], *, axis_name: Any, **_: Any) -> tuple[frozenset[Any], frozenset[Any]]:
    needed = found | {axis_name} if _tracked(axis_name) else found
    return needed, needed


def _becomes_same(
    found: frozenset[Any], *, axis_name: Any, axis_index_groups: Groups, **_: Any
) -> tuple[frozenset[Any], frozenset[Any]]:
    needed = _stays_varying(found, axis_name=axis_name)[0]
    return needed, needed - {axis_name} if axis_index_groups is None else needed


def _reduction(
    kind: str, reduce: Callable[[Any], Any], jvp: Any, transpose: Any = None, varies: Any = _becomes_same
) -> Primitive:
    def own_axis(x: Any, *, axis_index_groups: Groups, **_: Any) -> tuple[Any, int | None]:
        if axis_index_groups is None:
            return reduce(x), None
        return _over_groups(x, axis_index_groups, lambda part: _same_for_all(reduce(part), np.shape(part)[0])), 0

    primitive = Primitive(kind, abstract_eval=_same_aval, effects=_effects, jvp=jvp, transpose=transpose, varies=varies)
    primitive.axis_batch = _batcher(lambda: primitive, own_axis, _unshifted)
    return primitive


def _extremum_jvp(kind: str) -> Callable[..., Any]:
    """Ties share the tangent equally, as for reductions over dimensions."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = _reductions[kind].bind(x, **params)
        if type(t) is Zero:
            return out, t
        chosen = _convert.convert_element_type(_compare.eq(x, out), aval_of(x).dtype)
        names, groups = (params["axis_name"],), params["axis_index_groups"]
        count = reduce_axes("psum", chosen, names, groups)
        total = reduce_axes("psum", _arithmetic.mul(instantiate_zeros(t), chosen), names, groups)
        return out, _arithmetic.div(total, count)

    return jvp


def _psum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    return [psum_p.bind(ct, **params)]


def _invariant_transpose(ct: Any, x: Any, *, axis_name: Any, **_: Any) -> list[Any]:
    return [varying.pvary(ct, {axis_name})]


psum_p = _reduction("psum", lambda x: _reduce.reduce_sum(x, (0,)), LINEAR, _psum_transpose, _stays_varying)
# The sum as a value that all devices share: what it is within `shard_map`, where that is known.
psum_invariant_p = _reduction("psum_invariant", lambda x: _reduce.reduce_sum(x, (0,)), LINEAR, _invariant_transpose)
pmax_p = _reduction("pmax", lambda x: _reduce.reduce_max(x, (0,)), _extremum_jvp("pmax"))
pmin_p = _reduction("pmin", lambda x: _reduce.reduce_min(x, (0,)), _extremum_jvp("pmin"))
_reductions = {"psum": psum_p, "pmax": pmax_p, "pmin": pmin_p}
_over_dimensions = {"psum": _reduce.reduce_sum, "pmax": _reduce.reduce_max, "pmin": _reduce.reduce_min}


def _gather_aval(
    x: ShapedArray, *, all_gather_dimension: int, axis_size: int, axis_index_groups: Groups, **_: Any
) -> ShapedArray:
    count = axis_size if axis_index_groups is None else len(axis_index_groups[0])
    return x.update(shape=(*x.shape[:all_gather_dimension], count, *x.shape[all_gather_dimension:]))


def _gather_own_axis(
    x: Any, *, all_gather_dimension: int, axis_index_groups: Groups, **_: Any
) -> tuple[Any, int | None]:
    if axis_index_groups is None:
        return _shape.moveaxis(x, 0, all_gather_dimension), None
    gathered = lambda part: _same_for_all(_shape.moveaxis(part, 0, all_gather_dimension), np.shape(part)[0])
    return _over_groups(x, axis_index_groups, gathered), 0


def _gather_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


all_gather_p = Primitive(
    "all_gather", abstract_eval=_gather_aval, effects=_effects, jvp=LINEAR, transpose=_gather_transpose,
    varies=_stays_varying,
)  # fmt: skip
all_gather_p.axis_batch = _batcher(lambda: all_gather_p, _gather_own_axis, _shift("all_gather_dimension"))


def _gather_invariant_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_index_groups: Groups, **_: Any
) -> list[Any]:
    """Each device takes the cotangent of what it gave."""
    here = axis_index(axis_name)
    if axis_index_groups is not None:
        positions = np.zeros(axis_size(axis_name), np.int32)
        for group in axis_index_groups:
            positions[list(group)] = range(len(group))
        here = _slicing.dynamic_index_in_dim(
            _convert.convert_element_type(positions, np.int32), here, 0, keepdims=False
        )
    return [_slicing.dynamic_index_in_dim(ct, here, all_gather_dimension, keepdims=False)]


all_gather_invariant_p = Primitive(
    "all_gather_invariant", abstract_eval=_gather_aval, effects=_effects, jvp=LINEAR,
    transpose=_gather_invariant_transpose, varies=_becomes_same,
)  # fmt: skip
all_gather_invariant_p.axis_batch = _batcher(
    lambda: all_gather_invariant_p, _gather_own_axis, _shift("all_gather_dimension")
)


def _scatter_aval(x: ShapedArray, *, scatter_dimension: int, **_: Any) -> ShapedArray:
    return x.update(shape=(*x.shape[:scatter_dimension], *x.shape[scatter_dimension + 1 :]))


def _scatter_own_axis(x: Any, *, scatter_dimension: int, axis_index_groups: Groups, **_: Any) -> tuple[Any, int | None]:
    scattered = lambda part: _shape.moveaxis(_reduce.reduce_sum(part, (0,)), scatter_dimension, 0)
    return _over_groups(x, axis_index_groups, scattered), 0


def _scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


reduce_scatter_p = Primitive(
    "reduce_scatter", abstract_eval=_scatter_aval, effects=_effects, jvp=LINEAR, transpose=_scatter_transpose,
    varies=_stays_varying,
)  # fmt: skip
reduce_scatter_p.axis_batch = _batcher(lambda: reduce_scatter_p, _scatter_own_axis, _shift("scatter_dimension"))


def _exchange_aval(x: ShapedArray, *, split_axis: int, concat_axis: int, **_: Any) -> ShapedArray:
    rest = [*x.shape[:split_axis], *x.shape[split_axis + 1 :]]
    return x.update(shape=(*rest[:concat_axis], x.shape[split_axis], *rest[concat_axis:]))


def _exchange_own_axis(
    x: Any, *, split_axis: int, concat_axis: int, axis_index_groups: Groups, **_: Any
) -> tuple[Any, int | None]:
    def exchanged(part: Any) -> Any:
        by_destination = _shape.moveaxis(part, split_axis + 1, 0)  # destination, source, rest
        return _shape.moveaxis(by_destination, 1, concat_axis + 1)

    return _over_groups(x, axis_index_groups, exchanged), 0


def _exchange_transpose(ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


all_to_all_p = Primitive(
    "all_to_all", abstract_eval=_exchange_aval, effects=_effects, jvp=LINEAR, transpose=_exchange_transpose,
    varies=_stays_varying,
)  # fmt: skip
all_to_all_p.axis_batch = _batcher(lambda: all_to_all_p, _exchange_own_axis, _shift("split_axis", "concat_axis"))


def _permute_own_axis(x: Any, *, perm: tuple[tuple[int, int], ...], axis_size: int, **_: Any) -> tuple[Any, int | None]:
    source_of = {destination: origin for origin, destination in perm}
    zero = _shape.full_like(_slicing.slice_in_dim(x, 0, 1), 0)
    parts = [
        _slicing.slice_in_dim(x, source_of[i], source_of[i] + 1) if i in source_of else zero for i in range(axis_size)
    ]
    return _shape.concatenate(parts, 0), 0


def _permute_transpose(ct: Any, x: Any, *, perm: tuple[tuple[int, int], ...], **params: Any) -> list[Any]:
    return [ppermute_p.bind(ct, perm=tuple((b, a) for a, b in perm), **params)]


ppermute_p = Primitive(
    "ppermute", abstract_eval=_same_aval, effects=_effects, jvp=LINEAR, transpose=_permute_transpose,
    varies=_stays_varying,
)  # fmt: skip
ppermute_p.axis_batch = _batcher(lambda: ppermute_p, _permute_own_axis, _unshifted)


def _index_batch(axis: AxisData, args: Any, dims: Any, *, axis_name: Any, axis_size: int) -> tuple[Any, int | None]:
    if axis_name == axis.name:
        return _shape.iota(np.int32, axis_size), 0
    return axis_index_p.bind(axis_name=axis_name, axis_size=axis_size), None


axis_index_p = Primitive(
    "axis_index",
    abstract_eval=lambda *, axis_name, axis_size: ShapedArray((), np.int32),
    effects=_effects,
    jvp=NONDIFFERENTIABLE,
    axis_batch=_index_batch,
    varies=_stays_varying,
)
