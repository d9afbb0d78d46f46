"""Reading and writing windows at computed places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import Zero, instantiate_zeros, is_undefined_primal, zeros_like_aval
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_shape
from veery._transforms.batching import move_batch
from veery._transforms.explicit import over_batch
from veery.lax import (
    _arithmetic,
    _bitwise,
    _compare,
    _computation,
    _convert,
    _gather_scatter_dims as _dims,
    _gather_scatter_reference as _reference,
    _on_host,
    _reduce,
    _shape,
    _while,
)
from veery.lax._gather_scatter_dims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

ArrayLike = Any


# ---------------------------------------------------------------------------------------------------------------------
# gather


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Read windows of one size from computed places.

    Args:
        operand: array of any shape.
        start_indices: integer array; index vectors lie along its last dimension.
        dimension_numbers: which dimension is what.
        slice_sizes: the size of windows in each dimension of the operand.
        unique_indices: a promise that no element is read twice, which helps reverse-mode differentiation.
        indices_are_sorted: a promise.
        mode: what happens to windows out of bounds; None for PROMISE_IN_BOUNDS.
        fill_value: what they read in mode "fill"; None for NaN, the least signed, the largest unsigned integer, True.

    Raises:
        TypeError: the dimension numbers do not fit the shapes.
        ValueError: the indices are not integers, or there is no such mode.

    >>> from veery import lax
    >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> x = lax.iota("int32", 9)
    >>> lax.gather(x, lax.reshape(lax.rev(lax.iota("int32", 3), (0,)), (3, 1)), numbers, (1,)).tolist()
    [2, 1, 0]
    """
    parsed = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if parsed is GatherScatterMode.ONE_HOT:
        parsed, fill_value = GatherScatterMode.FILL_OR_DROP, 0
    dtype: Any = aval_of(operand).dtype
    if parsed is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = _default_fill(dtype)
    else:
        fill_value = _as_element(np.asarray(fill_value), dtype).item()
    numbers = _dims.normal(dimension_numbers)
    if not np.ndim(operand) and not any(numbers):  # IREE's compiler crashes on elements of no array
        operand, slice_sizes = _shape.reshape(operand, (1,)), (*slice_sizes, 1)
        numbers = numbers._replace(collapsed_slice_dims=(0,))
    return gather_p.bind(
        operand,
        start_indices,
        dimension_numbers=numbers,
        slice_sizes=canonicalize_shape(slice_sizes),
        unique_indices=bool(unique_indices),
        indices_are_sorted=bool(indices_are_sorted),
        mode=parsed,
        fill_value=fill_value,
    )


def _as_element(value: np.ndarray, dtype: Any) -> np.ndarray:
    """A number of an integer dtype as its element: what does not fit loses its high bits, as where arrays convert."""
    if not dtypes.issubdtype(dtype, np.integer) or value.dtype.kind == "c":
        return value
    with np.errstate(invalid="ignore"):
        return value.astype(dtype)


def _default_fill(dtype: Any) -> Any:
    """What reading out of bounds gives: a value that stands out."""
    if isinstance(dtype, dtypes.KeyDType):
        return int(np.iinfo(np.uint64).max)
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, np.inexact):
        return math.nan
    info = dtypes.iinfo(dtype)
    return int(info.min if dtypes.issubdtype(dtype, np.signedinteger) else info.max)


def _gather_zero_filled(x: Any, indices: Any, **params: Any) -> Any:
    """The gather that is the linear part of another: it reads zeros where that one fills."""
    fill_value = 0 if params["mode"] is GatherScatterMode.FILL_OR_DROP else None
    return gather_p.bind(x, indices, **(params | {"fill_value": fill_value}))


def _gather_transpose(
    ct: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    fill_value: Any,
    **params: Any,
) -> list[Any]:
    zeros = zeros_like_aval(ShapedArray(x.aval.shape, aval_of(ct).dtype))
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    return [scatter_add_p.bind(zeros, indices, ct, dimension_numbers=numbers, **params), None]


def _shifted(dims: Sequence[int]) -> Shape:
    return tuple(d + 1 for d in dims)


def _gather_batch(
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **params: Any,
) -> tuple[Any, int]:
    """The batch dimension goes in front: in windows, or with the indices, or along both."""
    (x, indices), (dim, index_dim) = args, dims
    offset, collapsed, index_map, batching, index_batching = dimension_numbers
    offset = _shifted(offset)
    if dim is not None:
        x = _shape.moveaxis(x, dim, 0)
        collapsed, index_map, batching = _shifted(collapsed), _shifted(index_map), _shifted(batching)
    if index_dim is not None:
        indices = _shape.moveaxis(indices, index_dim, 0)
        index_batching = _shifted(index_batching)
    if dim is not None and index_dim is None:
        offset, slice_sizes = (0, *offset), (np.shape(x)[0], *slice_sizes)
    elif dim is not None:
        batching, index_batching = (0, *batching), (0, *index_batching)
        slice_sizes = (min(1, np.shape(x)[0]), *slice_sizes)
    numbers = GatherDimensionNumbers(offset, collapsed, index_map, batching, index_batching)
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, **params), 0


def _gather_reference(
    x: np.ndarray,
    indices: np.ndarray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    mode: GatherScatterMode,
    fill_value: Any,
    **_params: Any,
) -> np.ndarray:
    numbers = dimension_numbers
    return _reference.gather(
        x,
        indices,
        offset_dims=numbers.offset_dims,
        removed_dims=(*numbers.collapsed_slice_dims, *numbers.operand_batching_dims),
        index_map=numbers.start_index_map,
        batching=list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)),
        sizes=slice_sizes,
        clip=mode is not GatherScatterMode.FILL_OR_DROP,
        fill_value=fill_value,
    )


gather_p = Primitive(
    "gather",
    checks=("index",),
    cost=cost.free,
    host=host.moves(_on_host.gather),
    abstract_eval=_dims.gather_aval,
    jvp=(lambda t, out, x, indices, **params: _gather_zero_filled(t, indices, **params), None),
    transpose=_gather_transpose,
    batch=_gather_batch,
    reference=_gather_reference,
)


def _index_vectors(indices: Sequence[Any], dims: Sequence[int | None], size: int) -> Any:
    """Batches of scalars, one for each dimension, as an array of index vectors (size, dimensions)."""
    return _shape.stack([_shape.broadcast(i, (size,)) if d is None else i for i, d in zip(indices, dims)], 1)


def batch_dynamic_slice(
    x: Any, indices: Sequence[Any], dim: int | None, index_dims: Sequence[int | None], slice_sizes: Shape
) -> tuple[Any, int]:
    """dynamic_slice with batches of indices: a gather that clips."""
    size = _shape.batch_size(indices, index_dims)
    every = tuple(range(len(slice_sizes)))
    numbers = GatherDimensionNumbers(every, (), every)
    params = {"unique_indices": True, "indices_are_sorted": True, "mode": GatherScatterMode.CLIP, "fill_value": None}
    vectors = _index_vectors(indices, index_dims, size)
    return _gather_batch((x, vectors), (dim, 0), dimension_numbers=numbers, slice_sizes=slice_sizes, **params)


def batch_dynamic_update_slice(
    x: Any, update: Any, indices: Sequence[Any], index_dims: Sequence[int | None]
) -> tuple[Any, int]:
    """dynamic_update_slice with batches (in front) of operands, updates and indices: a scatter that clips."""
    size, *shape = np.shape(x)
    windows = tuple(range(1, len(shape) + 1))
    numbers = ScatterDimensionNumbers(windows, (), windows, (0,), (0,))
    vectors = _index_vectors(indices, index_dims, size)
    return _scatter_bind(scatter_p, x, vectors, update, numbers, GatherScatterMode.CLIP, True, True), 0


# ---------------------------------------------------------------------------------------------------------------------
# scatter: public functions


def _scatter_bind(
    primitive: Primitive,
    operand: Any,
    indices: Any,
    updates: Any,
    numbers: ScatterDimensionNumbers,
    mode: Any,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
) -> Any:
    numbers = _dims.normal(numbers)
    shape = np.shape(operand)
    if not shape and not any(numbers):  # as in `gather`
        operand, numbers = _shape.reshape(operand, (1,)), numbers._replace(inserted_window_dims=(0,))
    out = primitive.bind(
        operand,
        indices,
        updates,
        dimension_numbers=numbers,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
    )
    return out if shape else _shape.reshape(out, shape)


def _public(name: str, doc: str, limit: str = "") -> Callable[..., Array]:
    def function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        primitive = _PRIMITIVES[name]
        return _scatter_bind(
            primitive, operand, scatter_indices, updates, dimension_numbers, mode, unique_indices, indices_are_sorted
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

    Args:
        operand: array of any shape.
        scatter_indices: integer array; index vectors lie along its last dimension.
        updates: array of the same dtype: a window for each index vector.
        dimension_numbers: which dimension is what.
        indices_are_sorted: a promise.
        unique_indices: a promise that no element is written twice.{limit}
        mode: what happens to windows out of bounds; None drops them.

    Returns:
        An array like operand.

    Raises:
        TypeError: the dimension numbers do not fit the shapes, or the dtypes differ.
        ValueError: the indices are not integers, or there is no such mode.
    """
    return function


scatter = _public("scatter", "Write windows at computed places; where they overlap, one of them wins.")
scatter_add = _public("scatter_add", "Add to windows at computed places.")
scatter_sub = _public("scatter_sub", "Subtract from windows at computed places.")
scatter_mul = _public(
    "scatter_mul", "Multiply windows at computed places.", " Differentiation with respect to the updates needs it."
)
scatter_min = _public("scatter_min", "The minimum of windows at computed places and updates.")
scatter_max = _public("scatter_max", "The maximum of windows at computed places and updates.")


def scatter_apply(
    operand: Array,
    scatter_indices: Array,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Apply a function of scalars to elements at computed places, as often as each is named.

    Args:
        operand: array of any shape.
        scatter_indices: integer array; index vectors lie along its last dimension.
        func: from a scalar to a scalar of the same dtype.
        dimension_numbers: which dimension is what.
        update_shape: the shape that updates of scatter would have.
        indices_are_sorted: a promise.
        unique_indices: a promise that no element is named twice; without it there is no reverse-mode derivative.
        mode: what happens to windows out of bounds; None drops them.
    """
    aval: Any = aval_of(operand)
    jaxpr = _computation.stage_computation("scatter_apply", lambda x, _: func(x), [aval])
    if jaxpr.out_avals[0].dtype != aval.dtype:
        raise TypeError(f"scatter_apply: func must return {aval.dtype}, got {jaxpr.out_avals[0].dtype}")
    apply = lambda x: _computation.vectorized(jaxpr)(x, x)[0]
    ones = _shape.full(update_shape, 1, np.int32)
    times = scatter_add(
        _shape.full(aval.shape, 0, np.int32),
        scatter_indices,
        ones,
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    step = lambda i, x: _compare.select(_compare.gt(times, i), apply(x), x)
    if unique_indices or _is_single(np.shape(scatter_indices)):
        return step(np.int32(0), operand)

    every = tuple(range(aval.ndim))
    most = _reduce.reduce_max(times, every)
    return _while.fori_loop(np.int32(0), most, step, operand)


def _is_single(index_shape: Shape) -> bool:
    """Whether there is one index vector only, so that no two windows can overlap."""
    return math.prod(index_shape[:-1]) == 1


# ---------------------------------------------------------------------------------------------------------------------
# scatter: rules


def _window_sizes(ndim: int, update_shape: Shape, numbers: ScatterDimensionNumbers) -> Shape:
    """The size of windows in each dimension of the operand."""
    removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter([update_shape[d] for d in numbers.update_window_dims])
    return tuple(1 if i in removed else next(sizes) for i in range(ndim))


def _gather_back(x: Any, indices: Any, update_shape: Shape, params: dict[str, Any]) -> Any:
    """What x holds where a scatter writes its updates; zeros for updates that it drops."""
    numbers, mode = params["dimension_numbers"], params["mode"]
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*numbers),
        slice_sizes=_window_sizes(np.ndim(x), update_shape, numbers),
        unique_indices=params["unique_indices"],
        indices_are_sorted=params["indices_are_sorted"],
        mode=mode,
        fill_value=0 if mode is GatherScatterMode.FILL_OR_DROP else None,
    )


def _update_shape(updates: Any) -> Shape:
    return updates.aval.shape if is_undefined_primal(updates) else np.shape(updates)


def _all_zero(*tangents: Any) -> bool:
    return all(type(t) is Zero for t in tangents)


def _scatter_linear_jvp(
    primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, Any]:
    """For a scatter that is linear in operand and updates together."""
    (x, indices, updates), (t_x, _, t_updates) = primals, tangents
    out = primitive.bind(x, indices, updates, **params)
    if _all_zero(t_x, t_updates):
        return out, Zero.from_primal_value(out)
    return out, primitive.bind(instantiate_zeros(t_x), indices, instantiate_zeros(t_updates), **params)


def _scatter_add_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    ct_updates = None
    if is_undefined_primal(updates):
        ct_updates = _gather_back(ct, indices, _update_shape(updates), params)
    return [ct if is_undefined_primal(x) else None, None, ct_updates]


def _scatter_sub_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    ct_x, _, ct_updates = _scatter_add_transpose(ct, x, indices, updates, **params)
    return [ct_x, None, None if ct_updates is None else _arithmetic.neg(ct_updates)]


def _needs_unique(params: dict[str, Any], indices: Any) -> None:
    if not params["unique_indices"] and not _is_single(np.shape(indices)):
        raise NotImplementedError("scatter_mul gradients are only implemented if `unique_indices=True`")


def _scatter_mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """x u, of which u's part is added where it is written: dx u + x du."""
    (x, indices, updates), (t_x, _, t_updates) = primals, tangents
    out = scatter_mul_p.bind(x, indices, updates, **params)
    if _all_zero(t_x, t_updates):
        return out, Zero.from_primal_value(out)
    t_out = scatter_mul_p.bind(instantiate_zeros(t_x), indices, updates, **params)
    if type(t_updates) is not Zero:
        _needs_unique(params, indices)
        change = _arithmetic.mul(t_updates, _gather_back(x, indices, np.shape(updates), params))
        t_out = scatter_add_p.bind(t_out, indices, change, **params)
    return out, t_out


def _scatter_mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_undefined_primal(x):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    _needs_unique(params, indices)
    return [None, None, _gather_back(_arithmetic.mul(ct, x), indices, _update_shape(updates), params)]


def _scatter_extreme_jvp(
    primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, Any]:
    """The mean of the tangents of all that is equal to the extreme: the operand and the updates that met there.

    Where the extreme is NaN and updates met, it is zero. These are counted with the operand, which tells them from a
    NaN that was there and that no update reached: it keeps its tangent.
    """
    (x, indices, updates), (t_x, _, t_updates) = primals, tangents
    out = primitive.bind(x, indices, updates, **params)
    if _all_zero(t_x, t_updates):
        return out, Zero.from_primal_value(out)
    t_x, t_updates = instantiate_zeros(t_x), instantiate_zeros(t_updates)
    in_dtype = lambda condition: _convert.convert_element_type(condition, aval_of(t_x).dtype)
    reached = _gather_back(out, indices, np.shape(updates), params)
    was_nan, meets_nan, won = _compare.ne(x, x), _compare.ne(reached, reached), _compare.eq(updates, reached)
    kept = in_dtype(_bitwise.bitwise_or(_compare.eq(x, out), was_nan))
    total = scatter_add_p.bind(_arithmetic.mul(t_x, kept), indices, _arithmetic.mul(t_updates, in_dtype(won)), **params)
    count = scatter_add_p.bind(kept, indices, in_dtype(_bitwise.bitwise_or(won, meets_nan)), **params)
    lost = _bitwise.bitwise_and(was_nan, _compare.gt(count, in_dtype(was_nan)))
    return out, _compare.select(lost, zeros_like_aval(aval_of(t_x).strip_weak_type()), _arithmetic.div(total, count))


def _scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """The tangents of what is written where no two windows overlap, or where nothing written has a tangent.

    Otherwise one of the updates wins. Numbers are scattered in their place to see which: the same operation on the
    same indices has the same winners. The tangents of the others are masked, and what is left can be added up.
    """
    (x, indices, updates), (t_x, _, t_updates) = primals, tangents
    unique = params["unique_indices"] or _is_single(np.shape(indices))
    if unique or type(t_updates) is Zero:
        return _scatter_linear_jvp(scatter_p, primals, tangents, params | {"unique_indices": unique})
    out = scatter_p.bind(x, indices, updates, **params)
    numbers = params["dimension_numbers"]
    names = _update_numbers(np.shape(updates), numbers)
    written = scatter_p.bind(_shape.full(np.shape(x), 0, np.int32), indices, names, **params)
    won = _compare.eq(names, _gather_back(written, indices, np.shape(updates), params))
    zero = lambda t: zeros_like_aval(aval_of(t).strip_weak_type())
    t_x, t_updates = instantiate_zeros(t_x), instantiate_zeros(t_updates)
    kept = _compare.select(_compare.eq(written, _shape.full(np.shape(x), 0, np.int32)), t_x, zero(t_x))
    return out, scatter_add_p.bind(kept, indices, _compare.select(won, t_updates, zero(t_updates)), **params)


def _update_numbers(shape: Shape, numbers: ScatterDimensionNumbers) -> Any:
    """1, 2, 3... for the windows of updates."""
    places = [1 if i in numbers.update_window_dims else d for i, d in enumerate(shape)]
    count = math.prod(places)
    names = _arithmetic.add(_shape.iota(np.int32, count), np.ones(count, np.int32))
    return _shape.broadcast_in_dim(_shape.reshape(names, places), shape, tuple(range(len(shape))))


def _scatter_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    ct_x = ct_updates = None
    if is_undefined_primal(updates):
        if not params["unique_indices"]:
            raise NotImplementedError("scatter transpose is only implemented where unique_indices=True")
        ct_updates = _gather_back(ct, indices, _update_shape(updates), params)
    if is_undefined_primal(x):
        hole = zeros_like_aval(ShapedArray(_update_shape(updates), aval_of(ct).dtype))
        ct_x = scatter_p.bind(ct, indices, hole, **params)
    return [ct_x, None, ct_updates]


def _scatter_batch(
    primitive: Primitive,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> tuple[Any, int]:
    """The batch dimension goes in front: in windows, or along with the indices."""
    (x, indices, updates), (dim, index_dim, update_dim) = args, dims
    size = _shape.batch_size(args, dims)
    over = over_batch(args, dims)
    x, updates = move_batch(x, dim, 0, size, over), move_batch(updates, update_dim, 0, size, over)
    windows, inserted, index_map, batching, index_batching = dimension_numbers
    windows, inserted, index_map, batching = map(_shifted, (windows, inserted, index_map, batching))
    if index_dim is None:
        windows = (0, *windows)
    else:
        indices = _shape.moveaxis(indices, index_dim, 0)
        batching, index_batching = (0, *batching), (0, *_shifted(index_batching))
    numbers = ScatterDimensionNumbers(windows, inserted, index_map, batching, index_batching)
    return primitive.bind(x, indices, updates, dimension_numbers=numbers, **params), 0


def _scatter_reference(combine: Callable[[Any, Any], Any]) -> Callable[..., np.ndarray]:
    def reference(
        x: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        **_params: Any,
    ) -> np.ndarray:
        numbers = dimension_numbers
        return _reference.scatter(
            x,
            indices,
            updates,
            combine,
            window_dims=numbers.update_window_dims,
            index_map=numbers.scatter_dims_to_operand_dims,
            batching=list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)),
            sizes=_window_sizes(x.ndim, updates.shape, numbers),
            clip=mode is GatherScatterMode.CLIP,
        )

    return reference


def _scatter_primitive(name: str, combine: Any, *, jvp: Any, transpose: Any = None, **facts: Any) -> Primitive:
    primitive = Primitive(
        name,
        abstract_eval=_dims.scatter_aval,
        transpose=transpose,
        reference=_scatter_reference(combine),
        keeps_memory=True,
        **facts,
    )
    primitive.jvp = lambda primals, tangents, **params: jvp(primitive, primals, tangents, params)
    primitive.batch = lambda args, dims, **params: _scatter_batch(primitive, args, dims, **params)
    return primitive


_by_params = lambda rule: lambda _, primals, tangents, params: rule(primals, tangents, **params)

scatter_p = _scatter_primitive(
    "scatter",
    lambda x, u: u,
    checks=("index",),
    host=host.moves(_on_host.scatter()),
    jvp=_by_params(_scatter_jvp),
    transpose=_scatter_transpose,
)
scatter_add_p = _scatter_primitive(
    "scatter_add",
    np.add,
    checks=("index",),
    host=host.arithmetic(integers=16, make=_on_host.scatter(np.add)),
    jvp=_scatter_linear_jvp,
    transpose=_scatter_add_transpose,
)
scatter_sub_p = _scatter_primitive(
    "scatter_sub",
    np.subtract,
    checks=("index",),
    host=host.arithmetic(integers=16, make=_on_host.scatter(np.subtract)),
    jvp=_scatter_linear_jvp,
    transpose=_scatter_sub_transpose,
)
scatter_mul_p = _scatter_primitive(
    "scatter_mul",
    np.multiply,
    checks=("index",),
    host=host.arithmetic(integers=16, make=_on_host.scatter(np.multiply)),
    jvp=_by_params(_scatter_mul_jvp),
    transpose=_scatter_mul_transpose,
)
scatter_min_p = _scatter_primitive(
    "scatter_min",
    np.minimum,
    checks=("index",),
    host=host.arithmetic(integers=16, make=_on_host.scatter(np.minimum)),
    jvp=_scatter_extreme_jvp,
)
scatter_max_p = _scatter_primitive(
    "scatter_max",
    np.maximum,
    checks=("index",),
    host=host.arithmetic(integers=16, make=_on_host.scatter(np.maximum)),
    jvp=_scatter_extreme_jvp,
)

_PRIMITIVES = {
    p.name: p for p in (scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)
}
