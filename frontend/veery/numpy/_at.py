"""Writing with index expressions: `x.at[idx].set(v)` and its like give an updated copy."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes, source
from veery._core.array import ArrayImpl
from veery._core.slices import has_slice
from veery._transforms import explicit
from veery.lax import GatherScatterMode, ScatterDimensionNumbers
from veery.lax._check import check_index
from veery.lax._placement import in_memory_of, laid_out
from veery.numpy import _arithmetic
from veery.numpy._arithmetic import choose
from veery.numpy._creation import asarray, ones_like
from veery.numpy._dynamic_slices import write_window
from veery.numpy._elementwise import jitted
from veery.numpy._index_expressions import Index, concrete_mask, parse
from veery.numpy._indexing import (
    Plan,
    check_static,
    index_vectors,
    is_eager,
    mode_of,
    normalize,
    placement,
    plan_gather,
    take_index,
    unify,
    wrap,
)
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    broadcast_to,
    ensure_arraylike,
    promote_dtypes,
    size_as,
    to_dtype,
    unwrap,
)

Update = Callable[[Any, Any], Any]  # (what was there, the value) -> what will be there

_UPDATES: dict[str, Update] = {
    "set": lambda old, v: v,
    "add": lambda old, v: lax.add(old, v),
    "sub": lambda old, v: lax.sub(old, v),
    "mul": lambda old, v: lax.mul(old, v),
    "min": lambda old, v: lax.min(old, v),
    "max": lambda old, v: lax.max(old, v),
}
_SCATTERS: dict[str, Callable[..., Array]] = {
    "set": lax.scatter,
    "add": lax.scatter_add,
    "sub": lax.scatter_sub,
    "mul": lax.scatter_mul,
    "min": lax.scatter_min,
    "max": lax.scatter_max,
}


class IndexUpdateHelper:
    """What `x.at` is: `x.at[idx]` names places of x, to be read or written by its methods.

    The methods take these keyword arguments:

    - `indices_are_sorted`, `unique_indices`: promises that make some programs faster.
    - `mode`: out of bounds, "drop" (also "fill", the default) writes nothing and "clip" writes at the edge; reading,
      "fill" gives the fill value and "clip" (the default) the element at the edge.
    - `wrap_negative_indices`: whether negative integers count from the end; True by default.

    >>> import veery.numpy as jnp
    >>> x = jnp.arange(4.0)
    >>> x.at[1].set(10)
    Array([ 0., 10.,  2.,  3.], dtype=float32)
    >>> x.at[jnp.array([0, 0])].add(1)
    Array([2., 1., 2., 3.], dtype=float32)
    >>> x.at[7].get(mode="fill", fill_value=-1)
    Array(-1., dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


def _updating(name: str, doc: str) -> Callable[..., Array]:
    """A method of IndexUpdateRef that writes values by an update of `write`, or by division or power."""

    def update(
        self: IndexUpdateRef,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        apply = _through_ones if name in ("divide", "power") else write
        updated = lambda: apply(
            name,
            self.array,
            self.index,
            values,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )
        return updated() if out_sharding is None else laid_out(updated, out_sharding, name)

    update.__name__ = name
    update.__doc__ = doc
    return update


def _from_list(values: Any) -> ArrayLike:
    return asarray(values) if isinstance(values, (list, tuple)) else values


def _through_ones(name: str, x: Array, idx: Any, values: ArrayLike, **options: Any) -> Array:
    """x divided by the values, or to their power, at places: elsewhere by one."""
    values = _from_list(values)
    values = ensure_arraylike(name, values)
    ones = ones_like(x, dtypes.result_type(x, values))
    return getattr(_arithmetic, name)(x, write("mul", ones, idx, values, **options))


class IndexUpdateRef:
    """Places of an array (see IndexUpdateHelper)."""

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The elements there, as `x[idx]`; out of bounds as `mode` says."""
        taken = lambda: take_index(
            self.array,
            self.index,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            fill_value=fill_value,
            wrap_negative_indices=wrap_negative_indices,
        )
        return taken() if out_sharding is None else laid_out(taken, out_sharding, "get")

    set = _updating("set", "The array with the values there: `x[idx] = values`. Of several for a place any may win.")
    add = _updating("add", "The array with the values added there, for each occurrence of a place: `x[idx] += values`.")
    subtract = _updating("sub", "The array with the values subtracted there: `x[idx] -= values`.")
    multiply = _updating("mul", "The array with what is there multiplied by the values: `x[idx] *= values`.")
    mul = multiply
    divide = _updating("divide", "The array with what is there divided by the values: `x[idx] /= values`.")
    power = _updating("power", "The array with what is there raised to the power of the values: `x[idx] **= values`.")
    min = _updating("min", "The array with the values where they are smaller: `x[idx] = minimum(x[idx], values)`.")
    max = _updating("max", "The array with the values where they are larger: `x[idx] = maximum(x[idx], values)`.")

    def apply(
        self,
        func: Callable[[Array], Array],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The array with an elementwise function applied there, once for each occurrence of a place."""
        return _apply(self.array, self.index, func, indices_are_sorted, unique_indices, mode, wrap_negative_indices)


def write(
    name: str,
    x: Array,
    idx: Any,
    values: ArrayLike,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
    wrap_negative_indices: bool = True,
) -> Array:
    """x with values written at places.

    Args:
        name: of the update: set, add, sub, mul, min or max.
        x: array.
        idx: index expression.
        values: of x's dtype, or such that can be converted to it; they broadcast to the shape of x[idx].
        indices_are_sorted, unique_indices, mode, wrap_negative_indices: see IndexUpdateHelper.
    """
    if has_slice(idx):
        options: Any = {"unique_indices": unique_indices, "wrap_negative_indices": wrap_negative_indices}
        update = lambda part, index: write(name, part, index, values, **options)
        return write_window(x, idx, update, mode_of(mode))
    values = _from_list(values)
    values = ensure_arraylike(f"at[...].{name}", values)
    mode = mode_of(mode)
    values = asarray(values) if isinstance(x.dtype, dtypes.ExtendedDType) else unwrap(values)
    if type(values) is int and dtypes.issubdtype(x.dtype, np.unsignedinteger):
        values = _unsigned(values, x.dtype)
    _check_cast(name, values, x)
    if _is_scalar_mask(x, idx, values):
        return _masked_program(name)(x, idx, values)
    promises = (indices_are_sorted, unique_indices, mode, None, wrap_negative_indices)
    return _write(name, x, parse(x.shape, idx), values, promises)


def _unsigned(value: int, dtype: Any) -> int | np.ndarray:
    """A Python int that x's dtype holds, and the default integer dtype does not, in x's dtype."""
    fits = np.iinfo(dtypes.default_int_dtype()).max < value <= np.iinfo(dtype).max
    return np.asarray(value, dtype) if fits else value


def _in_common_dtype(name: str, x: Array, values: ArrayLike, update: Callable[[Array, Array], Array]) -> Array:
    """Update in the dtype in which both meet, and convert the result to x's."""
    if isinstance(x.dtype, dtypes.ExtendedDType):
        return update(x, values)
    common, values = promote_dtypes(x, values)
    return to_dtype(update(common, values), x.dtype, x.weak_type)


def _check_cast(name: str, values: ArrayLike, x: Array) -> None:
    if isinstance(x.dtype, dtypes.ExtendedDType):
        return
    dtype = dtypes.dtype_of(values)
    if x.dtype == np.bool_ and dtype == np.bool_ and name not in ("set", "min", "max"):
        raise TypeError(
            f"{name} does not accept dtype bool at position 0. Accepted dtypes at position 0 are subtypes of integer, "
            "floating, complexfloating."
        )
    if dtypes.result_type(x, values) != x.dtype:
        warnings.warn(
            f"scatter inputs have incompatible types: cannot safely cast value from dtype={dtype.name} to "
            f"dtype={x.dtype.name} with jax_numpy_dtype_promotion=standard. In future JAX releases this will result in "
            "an error.",
            FutureWarning,
            stacklevel=source.user_stacklevel(),
        )


def _is_scalar_mask(x: Array, idx: Any, values: Any) -> bool:
    """Whether one value is written where a known mask of x's shape is true: a select, whatever the mask's values."""
    if not isinstance(idx, (np.ndarray, ArrayImpl)) or idx.dtype != np.bool_ or np.ndim(values):
        return False
    return idx.ndim > 0 and idx.shape == x.shape and concrete_mask(idx) is not None


@functools.cache
def _masked_program(name: str) -> Any:
    def masked_update(x: Array, mask: Array, value: Array) -> Array:
        update = lambda x, v: choose(mask, broadcast_to(_UPDATES[name](x, v), x.shape), x)
        return _in_common_dtype(name, x, value, update)

    return jitted(masked_update)


def _write(name: str, x: Array, index: Index, values: Array, promises: tuple) -> Array:
    mode, wrap_negative = promises[2], promises[4]
    plan, arrays = plan_gather(index, *promises)
    unit = all(abs(s.step) == 1 for s in plan.slices if s is not None)
    if index.is_basic and unit:
        if index.is_static and wrap_negative:
            starts, inside = _static_starts(index, mode)
            check_static(index)
            if not inside:
                return asarray(x)
            arrays = starts
        program: Any = _region_program
        update: Any = update_region
    else:
        program, update = _scatter_program, scatter_by_plan
    if is_eager(x, values, *arrays):
        return program(name, plan)(x, values, *arrays)
    arrays = [np.asarray(a, np.int32) if isinstance(a, int) else a for a in arrays]
    return _in_common_dtype(name, x, values, lambda x, v: update(name, x, v, plan, arrays))


def _static_starts(index: Index, mode: Any) -> tuple[list[int], bool]:
    """Places of the scalars in an index, and whether anything is to be written there."""
    pairs = [(e, n) for e, n in zip(index.entries, index.shape) if isinstance(e, int)]
    inside = all(-n <= e < n for e, n in pairs)
    return [wrap(e, n) for e, n in pairs], inside or mode is GatherScatterMode.CLIP


@functools.lru_cache(maxsize=1024)
def _region_program(name: str, plan: Plan) -> Any:
    def update(x: Array, values: Array, *arrays: Array) -> Array:
        return _in_common_dtype(name, x, values, lambda x, v: update_region(name, x, v, plan, arrays))

    return jitted(update)


@functools.lru_cache(maxsize=1024)
def _scatter_program(name: str, plan: Plan) -> Any:
    def update(x: Array, values: Array, *arrays: Array) -> Array:
        return _in_common_dtype(name, x, values, lambda x, v: scatter_by_plan(name, x, v, plan, arrays))

    return jitted(update)


def _broadcast_values(values: Array, shape: tuple[int, ...]) -> Array:
    if np.ndim(values) > len(shape):
        raise ValueError(f"Cannot broadcast to shape with fewer dimensions: arr_shape={np.shape(values)} shape={shape}")
    return broadcast_to(values, shape)


def update_region(name: str, x: Array, values: Array, plan: Plan, starts: Sequence[Any]) -> Array:
    """Update a box of the array: slices of step 1 or -1, and scalars, which may be traced.

    The box is read, updated and put back. Where it is to be dropped out of bounds it is put back as it was.
    """
    shape = x.shape
    x = lax.expand_dims(x, plan.newaxes) if plan.newaxes else x
    sizes = tuple(1 if s is None else s.size for s in plan.slices)
    values = _broadcast_values(values, tuple(s.size for s in plan.slices if s is not None))
    values = lax.reshape(values, sizes) if np.shape(values) != sizes else values
    reversed_dims = [i for i, s in enumerate(plan.slices) if s is not None and s.step < 0]
    values = lax.rev(values, reversed_dims) if reversed_dims else values
    values = in_memory_of(values, x)
    if 0 in sizes:
        return lax.reshape(x, shape) if plan.newaxes else x
    places, inside = _places(x.shape, plan, starts)
    if sizes == x.shape:
        out = _UPDATES[name](x, values)
        for condition in inside:
            out = choose(condition, out, x)
        out = explicit.joining(out, x)
    else:
        old = lax.dynamic_slice(x, places, sizes, allow_negative_indices=False) if name != "set" or inside else None
        new = _UPDATES[name](old, values)
        for condition in inside:
            new = choose(condition, new, old)
        out = lax.dynamic_update_slice(x, new, places, allow_negative_indices=False)
    return lax.reshape(out, shape) if plan.newaxes else out


def _places(shape: tuple[int, ...], plan: Plan, starts: Sequence[Any]) -> tuple[list[Any], list[Array]]:
    """Starts of a box, inside the array, and the conditions under which it was inside."""
    rest = iter(starts)
    places: list[Any] = []
    inside: list[Array] = []
    for s, n in zip(plan.slices, shape):
        if s is not None:
            places.append(size_as(s.start if s.step > 0 else s.start - s.size + 1, np.dtype(np.int32)))
            continue
        start = normalize(next(rest), n, plan.wrap)
        check_index(start, shape, len(places))
        clamped = lax.clamp(start.dtype.type(0), start, size_as(n - 1, start.dtype))
        if plan.mode is not GatherScatterMode.CLIP and not isinstance(start, (np.ndarray, np.generic)):
            inside.append(lax.eq(start, clamped))
        places.append(clamped)
    return unify(places), inside


def scatter_by_plan(name: str, x: Array, values: Array, plan: Plan, arrays: Sequence[Any]) -> Array:
    """Update with slices and integer arrays: one scatter.

    Slices of step 1 are windows of the scatter, others become integer arrays of their own.
    """
    numbers, vectors, order, shape = scatter_layout(x.shape, plan, arrays)
    operand = lax.expand_dims(x, plan.newaxes) if plan.newaxes else x
    values = _broadcast_values(values, shape)
    if 0 in shape or 0 in operand.shape:
        return asarray(x)
    values = lax.transpose(values, order) if order != tuple(range(len(order))) else values
    reversed_dims = _reversed_windows(plan, order)
    values = lax.rev(values, reversed_dims) if reversed_dims else values
    out = _SCATTERS[name](
        operand,
        vectors,
        values,
        numbers,
        indices_are_sorted=plan.sorted,
        unique_indices=plan.unique or all(np.ndim(a) == 0 for a in arrays),
        mode=plan.mode or GatherScatterMode.FILL_OR_DROP,
    )
    return lax.reshape(out, x.shape) if plan.newaxes else out


def _reversed_windows(plan: Plan, order: tuple[int, ...]) -> list[int]:
    windows = [s for s in plan.slices if s is not None and abs(s.step) == 1]
    first = len(order) - len(windows)
    return [first + i for i, s in enumerate(windows) if s.step < 0]


def scatter_layout(
    shape: tuple[int, ...], plan: Plan, arrays: Sequence[Any]
) -> tuple[ScatterDimensionNumbers, Array, tuple[int, ...], tuple[int, ...]]:
    """Dimension numbers, index vectors, the order of the values' dimensions, and the values' shape.

    The values arrive in the shape of x[idx]. They are transposed to: dimensions of the index arrays, then those of
    the strided slices (which are index arrays here), then windows.
    """
    full = list(shape)
    for axis in plan.newaxes:
        full.insert(axis, 1)
    common = lax.broadcast_shapes(*(np.shape(a) for a in arrays)) if arrays else ()
    at = placement(plan) if arrays else 0
    kept = [i for i, s in enumerate(plan.slices) if s is not None]
    strided = [i for i in kept if abs(plan.slices[i].step) != 1]  # type: ignore[union-attr]
    windows = [i for i in kept if i not in strided]
    partial = [i for i in windows if plan.slices[i].size != full[i]]  # type: ignore[union-attr]
    position = {axis: j + (len(common) if j >= at else 0) for j, axis in enumerate(kept)}
    order = (*range(at, at + len(common)), *(position[i] for i in strided), *(position[i] for i in windows))
    sizes = [plan.slices[i].size for i in kept]  # type: ignore[union-attr]
    value_shape = (*sizes[:at], *common, *sizes[at:])
    rest = iter(arrays)
    columns: list[Any] = []
    mapped: list[int] = []
    for i, s in enumerate(plan.slices):
        if s is None:
            a = next(rest)
            columns.append(_with_trailing(a, len(strided)))
        elif i in strided:
            values = s.start + s.step * np.arange(s.size, dtype=np.int32)
            columns.append(values.reshape((-1,) + (1,) * (len(strided) - 1 - strided.index(i))))
        elif i in partial:
            columns.append(size_as(s.start if s.step > 0 else s.start - s.size + 1, np.dtype(np.int32)))
        else:
            continue
        mapped.append(i)
    vectors, batch = index_vectors(columns, [full[i] for i in mapped], plan.wrap)
    inserted = tuple(i for i in range(len(full)) if i not in windows)
    window_dims = tuple(range(len(batch), len(batch) + len(windows)))
    return ScatterDimensionNumbers(window_dims, inserted, tuple(mapped)), vectors, order, value_shape


def _with_trailing(a: Any, count: int) -> Any:
    if not count:
        return a
    return (
        np.reshape(a, np.shape(a) + (1,) * count)
        if isinstance(a, (np.ndarray, np.generic, int))
        else lax.reshape(a, (*a.shape, *(1,) * count))
    )


def _apply(
    x: Array,
    idx: Any,
    func: Callable[[Array], Array],
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
    wrap_negative_indices: bool,
) -> Array:
    options = {"mode": mode, "wrap_negative_indices": wrap_negative_indices}
    if has_slice(idx):
        promises = (indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return write_window(x, idx, lambda part, at: _apply(part, at, func, *promises), mode_of(mode))
    index = parse(x.shape, idx)
    if index.is_basic or unique_indices:
        kept = take_index(x, idx, wrap_negative_indices=wrap_negative_indices, mode="clip")
        return write("set", x, idx, func(kept), unique_indices=unique_indices, **options)
    plan, arrays = plan_gather(index, indices_are_sorted, unique_indices, mode_of(mode), None, wrap_negative_indices)
    numbers, vectors, order, shape = scatter_layout(x.shape, plan, arrays)
    operand = lax.expand_dims(x, plan.newaxes) if plan.newaxes else x
    if 0 in shape:
        return asarray(x)
    out = lax.scatter_apply(
        operand,
        vectors,
        func,
        numbers,
        update_shape=tuple(shape[i] for i in order),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=plan.mode or GatherScatterMode.FILL_OR_DROP,
    )
    return lax.reshape(out, x.shape) if plan.newaxes else out
