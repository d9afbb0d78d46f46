"""Arrays with borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes, tree
from veery._core.dimensions import is_symbolic_dim, min_dim
from veery._core.shapes import check_concrete
from veery.lax._convert import convert
from veery.numpy._creation import asarray
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, to_dtype, unwrap
from veery.numpy._quantiles import median
from veery.numpy._reductions import max as maximum, min as minimum
from veery.numpy._statistics import mean
from veery.numpy._vectorize import apply_along_axis

Widths = tuple[tuple[int, int], ...]

# The keyword arguments of each mode with their defaults.
_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0},
    "edge": {},
    "empty": {},
    "linear_ramp": {"end_values": 0},
    "maximum": {"stat_length": None},
    "mean": {"stat_length": None},
    "median": {"stat_length": None},
    "minimum": {"stat_length": None},
    "reflect": {"reflect_type": "even"},
    "symmetric": {"reflect_type": "even"},
    "wrap": {},
}
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": maximum, "mean": mean, "median": median, "minimum": minimum
}  # fmt: skip


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any) -> Array:
    """An array with elements put before and after it along each dimension.

    Args:
        array: the array.
        pad_width: how many: an int, a pair (before, after) for all dimensions, a pair for each, or a dictionary from
            dimensions to either.
        mode: "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
            "symmetric", "wrap", or a function as for numpy.pad that returns the padded vector.
        **kwargs: constant_values, end_values, stat_length or reflect_type, as in numpy.pad.

    Raises:
        NotImplementedError: unknown mode.
        ValueError: unknown option, negative widths, or an empty dimension that has nothing to repeat.

    >>> import veery.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect").tolist()
    [2, 1, 2, 3, 2, 1]
    """
    array = ensure_arraylike("pad", array)
    x = unwrap(array)
    widths = _widths(pad_width, np.ndim(x))
    if callable(mode):
        return _by_function(x, widths, mode, kwargs)
    result = _padded(x, widths, mode, kwargs)
    return convert(result, result.dtype, weak_type=True) if dtypes.is_weakly_typed(x) else result


def _padded(x: Array, widths: Widths, mode: str, kwargs: dict[str, Any]) -> Array:
    if mode not in _OPTIONS:
        raise NotImplementedError(f"Unimplemented padding mode '{mode}' for np.pad.")
    unknown = sorted(kwargs.keys() - _OPTIONS[mode].keys())
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {unknown}")
    options = _OPTIONS[mode] | kwargs
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    if mode in ("constant", "linear_ramp"):
        (key,) = _OPTIONS[mode]
        values = options[key] if np.isscalar(options[key]) else asarray(options[key])
        return _filled(x, values, widths=widths, ramp=mode == "linear_ramp")
    if mode == "empty":
        return _filled(x, 0, widths=widths, ramp=False)
    if mode in _STATISTICS:
        lengths = None if options["stat_length"] is None else _widths(options["stat_length"], np.ndim(x))
        return _with_statistics(x, mode=mode, widths=widths, lengths=lengths)
    reflect_type = options.get("reflect_type", "even")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"jnp.pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    return _repeated(x, mode=mode, widths=widths, odd=reflect_type == "odd")


def _widths(value: Any, ndim: int) -> Widths:
    """A pair of ints for each dimension."""
    if isinstance(value, dict):
        pairs: list[Any] = [(0, 0)] * ndim
        for axis, width in value.items():
            pairs[axis] = width if isinstance(width, (tuple, list)) else (width, width)
        value = pairs
    for width in tree.tree_leaves(value):
        check_concrete(width, "pad_width argument of jnp.pad")
    given = np.asarray(value)
    if given.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    try:
        table = np.broadcast_to(given, (ndim, 2)) if given.ndim != 1 or given.size != 1 else np.full((ndim, 2), given)
    except ValueError:
        raise ValueError(f"jnp.pad: pad_width with ndim={ndim} has unsupported shape {given.shape}") from None
    return tuple((int(a), int(b)) for a, b in table)


@jit(static_argnames=("widths", "ramp"))
def _filled(x: Array, values: ArrayLike, *, widths: Widths, ramp: bool) -> Array:
    """Borders of given values, or with a ramp towards them."""
    x = lax.full_like(x, 0) if x.size == 0 else x
    if not ramp and np.shape(values) == ():  # by XLA half the time that a concatenation for each axis takes
        return lax.pad(x, to_dtype(values, x.dtype), [(before, after, 0) for before, after in widths])
    table = _table(values, x.ndim)
    for axis, (before, after) in enumerate(widths):
        ends = [to_dtype(table(axis, side), x.dtype) for side in (0, 1)]
        parts = []
        if before:
            parts.append(_ramp(x, axis, before, ends[0], first=True) if ramp else _block(x, axis, before, ends[0]))
        parts.append(x)
        if after:
            parts.append(_ramp(x, axis, after, ends[1], first=False) if ramp else _block(x, axis, after, ends[1]))
        x = lax.concatenate(parts, axis) if len(parts) > 1 else x
    return x


def _table(values: ArrayLike, ndim: int) -> Callable[[int, int], Any]:
    """From (dimension, side) to the value there, by NumPy's rules of broadcasting to (ndim, 2)."""
    shape = np.shape(values)
    if shape == ():
        return lambda axis, side: values
    x = to_dtype(values, dtypes.dtype_of(values))
    while len(np.shape(x)) < 2:
        x = lax.expand_dims(x, (0,))
    rows, columns = np.shape(x)

    def at(axis: int, side: int) -> Any:
        row, column = (axis if rows > 1 else 0), (side if columns > 1 else 0)
        return lax.reshape(lax.slice(x, (row, column), (row + 1, column + 1)), ())

    return at


def _block(x: Array, axis: int, width: int, value: Array) -> Array:
    return lax.broadcast_in_dim(value, (*x.shape[:axis], width, *x.shape[axis + 1 :]), ())


def _ramp(x: Array, axis: int, width: int, end: Array, first: bool) -> Array:
    """Values from the end value to the array's edge, which is left out."""
    size = x.shape[axis]
    edge = lax.slice_in_dim(x, 0, 1, axis=axis) if first else lax.slice_in_dim(x, size - 1, size, axis=axis)
    shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
    work = x.dtype if dtypes.issubdtype(x.dtype, np.inexact) else dtypes.default_float_dtype()
    steps = np.arange(width) if first else np.arange(width - 1, -1, -1)
    weight = lax.broadcast_in_dim(np.asarray(steps / width, work), shape, (axis,))
    start = lax.broadcast_in_dim(to_dtype(end, work), shape, ())
    rise = lax.sub(lax.broadcast_in_dim(to_dtype(edge, work), shape, tuple(range(x.ndim))), start)
    ramp = lax.add(start, lax.mul(rise, weight))
    if dtypes.issubdtype(x.dtype, np.integer):
        ramp = lax.floor(ramp)  # as NumPy rounds ramps of integers
    return to_dtype(ramp, x.dtype)


@jit(static_argnames=("mode", "widths", "lengths"))
def _with_statistics(x: Array, *, mode: str, widths: Widths, lengths: Widths | None) -> Array:
    """Borders of a statistic of the elements next to them."""
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        if size == 0:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        near = (size, size) if lengths is None else tuple(min_dim(n, size) for n in lengths[axis])
        if 0 in near:
            raise ValueError("stat_length of 0 yields no value for padding")
        parts = []
        for width, part in (
            (before, lax.slice_in_dim(x, 0, near[0], axis=axis)),
            (after, lax.slice_in_dim(x, size - near[1], size, axis=axis)),
        ):
            value = _STATISTICS[mode](part, axis=axis, keepdims=True)
            if dtypes.issubdtype(x.dtype, np.integer) and dtypes.issubdtype(value.dtype, np.inexact):
                value = lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
            shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
            parts.append(lax.broadcast_in_dim(to_dtype(value, x.dtype), shape, tuple(range(x.ndim))))
        x = lax.concatenate([parts[0], x, parts[1]], axis)
    return x


@jit(static_argnames=("mode", "widths", "odd"))
def _repeated(x: Array, *, mode: str, widths: Widths, odd: bool) -> Array:
    """Borders of elements of the array itself: slices of it where these are few, else looked up at their positions."""
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        size = x.shape[axis]
        if size == 0:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if odd and is_symbolic_dim(size):
            raise NotImplementedError(
                f"jnp.pad: reflect_type='odd' needs a known size, that of axis {axis} is symbolic: {size}"
            )
        positions = _positions(size, before, after, mode)
        even = _of_slices(x, positions, axis, before) if isinstance(positions, np.ndarray) else None
        even = _looked_up(x, positions, axis) if even is None else even
        x = _odd(x, even, positions, mode, axis, before) if odd else even
    return x


def _looked_up(x: Array, positions: Any, axis: int) -> Array:
    found = lax.index_take(x, (positions,), (axis,))
    return lax.transpose(found, [*range(1, axis + 1), 0, *range(axis + 1, x.ndim)]) if axis else found


_MOST_SLICES = 8  # of a border; the gradient of a lookup is a scatter


def _of_slices(x: Array, positions: np.ndarray, axis: int, before: int) -> Array | None:
    """The array between slices of it, backwards or repeated where the positions say so; None if these are many."""
    inside = before + x.shape[axis]
    first, last = (_runs(each) for each in (positions[:before], positions[inside:]))
    if max(len(first), len(last)) > _MOST_SLICES:
        return None

    def part(run: np.ndarray) -> Array:
        low, high = int(run.min()), int(run.max())
        found = lax.slice_in_dim(x, low, high + 1, axis=axis)
        if len(run) > 1 and low == high:
            shape = (*x.shape[:axis], len(run), *x.shape[axis + 1 :])
            return lax.broadcast_in_dim(found, shape, tuple(range(x.ndim)))
        return lax.rev(found, (axis,)) if run[0] > run[-1] else found

    return lax.concatenate([*map(part, first), x, *map(part, last)], axis)


def _runs(positions: np.ndarray) -> list[np.ndarray]:
    """Positions in parts that rise by one, fall by one, or stay."""
    found, begin = [], 0
    steps = np.diff(positions)
    while begin < len(positions):
        end = begin + 1
        while end < len(positions) and steps[end - 1] == steps[begin] and abs(steps[begin]) <= 1:
            end += 1
        found.append(positions[begin:end])
        begin = end
    return found


def _positions(size: Any, before: int, after: int, mode: str) -> Any:
    """The positions that a padded axis shows: NumPy pads them where their number is known."""
    if not is_symbolic_dim(size):
        return np.pad(np.arange(size), (before, after), mode=mode).astype(np.int32)  # type: ignore[call-overload]
    places = lax.iota(np.int32, before + size + after) - before
    n = asarray(size, np.int32)
    if mode == "edge":
        return lax.clamp(np.int32(0), places, lax.convert_element_type(n - 1, np.int32))
    if mode == "wrap":
        return places % n
    period = 2 * n if mode == "symmetric" else lax.max(2 * n - 2, np.int32(1))
    places = places % period
    return lax.select(places < n, places, period - (mode == "symmetric") - places)


def _odd(x: Array, even: Array, positions: np.ndarray, mode: str, axis: int, before: int) -> Array:
    """Reflection through the edges: 2 edge - x, for each time that a position has been reflected.

    An odd reflection continues a straight line: padding the line 0, 1, 2, ... so shows how much each border element
    has gained over the even one, in units of the distance between the array's edges.
    """
    size = x.shape[axis]
    span = size - 1 if mode == "reflect" else size
    if size == 1:
        return even
    offsets = np.arange(len(positions)) - before
    folds = np.floor_divide(offsets, span).astype(int)  # how often the array has been left
    first, last = (lax.slice_in_dim(x, i, i + 1, axis=axis) for i in (0, size - 1))
    shape = even.shape
    spread = lambda edge: lax.broadcast_in_dim(edge, shape, tuple(range(x.ndim)))
    column = lambda values: lax.broadcast_in_dim(np.asarray(values, x.dtype), shape, (axis,))
    turned = folds % 2 != 0
    ups = np.where(folds > 0, (folds + 1) // 2, 0) - np.where(folds < 0, -folds // 2, 0)
    downs = np.where(folds > 0, folds // 2, 0) - np.where(folds < 0, (-folds + 1) // 2, 0)
    sign = column(np.where(turned, -1, 1))
    gain = lax.sub(lax.mul(column(2 * ups), spread(last)), lax.mul(column(2 * downs), spread(first)))
    return lax.add(lax.mul(sign, even), gain)


def _by_function(x: Array, widths: Widths, mode: Callable[..., Any], kwargs: dict[str, Any]) -> Array:
    """Apply a padding function to each vector along each dimension."""
    x = _filled(x, 0, widths=widths, ramp=False)
    for axis, pair in enumerate(widths):
        x = apply_along_axis(mode, axis, x, pair, axis, kwargs)
    return x
