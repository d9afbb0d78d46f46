"""Gather and scatter of all windows at once, and products by BLAS, as NumPy evaluates them (see veery._core.host)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.host import processors
from veery._core.jaxpr import JaxprEqn
from veery.lax import _blas as blas
from veery.lax._gather_scatter_dims import GatherScatterMode
from veery.lax._openblas import OF_NUMPY

Shape = tuple[int, ...]


def gather(eqn: JaxprEqn) -> Callable[..., np.ndarray]:
    """The windows of an operand that start at indices, for the parameters of the equation."""
    numbers, sizes, mode = (eqn.params[name] for name in ("dimension_numbers", "slice_sizes", "mode"))
    shape, indices_shape = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    batching = list(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims))
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    batch_shape = indices_shape[:-1]
    stacked = batch_shape + tuple(n for i, n in enumerate(sizes) if i not in removed)
    order = _order(len(stacked), len(batch_shape), numbers.offset_dims)
    fills = mode is GatherScatterMode.FILL_OR_DROP
    fill_value = eqn.params["fill_value"]
    if indices_shape[:-1] == () and not batching:
        return functools.partial(_window_of, numbers.start_index_map, shape, sizes, stacked, order, fills, fill_value)
    plain = not fills and eqn.invars[1].aval.dtype in (np.int32, np.int64)
    if plain and _takes_rows(numbers, sizes, shape, indices_shape):
        return functools.partial(_rows, len(numbers.operand_batching_dims))

    def gathered(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        starts, inside = _starts(indices, shape, sizes, numbers.start_index_map, batching, fills)
        out = x[_windows(starts, sizes)].reshape(stacked)
        if fills and not inside.all():
            out[~inside] = fill_value
        return np.transpose(out, order)

    return gathered


def _window_of(
    index_map: Sequence[int], shape: Shape, sizes: Shape, kept: Shape, order: Sequence[int], fills: bool, value: Any,
    x: np.ndarray, index: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The one window at an index: an element of a row in 2 us, of which all indices of a window take 10."""
    starts = [0] * len(shape)
    for dim, given in zip(index_map, index.tolist()):
        starts[dim] = min(max(given, 0), shape[dim] - sizes[dim])
        if fills and starts[dim] != given:
            return np.full([kept[i] for i in order], value, x.dtype)
    window = x[tuple([slice(start, start + n) for start, n in zip(starts, sizes)])]
    return window.reshape(kept).transpose(order)


def _takes_rows(numbers: Any, sizes: Shape, shape: Shape, indices_shape: Shape) -> bool:
    """Whether an index for each row says which row of the operand it is, in stacks of leading dimensions."""
    stack = len(numbers.operand_batching_dims)
    leading = tuple(range(stack))
    batch = len(indices_shape) - 1
    return (
        indices_shape[-1:] == (1,)
        and batch == stack + 1
        and tuple(numbers.operand_batching_dims) == tuple(numbers.start_indices_batching_dims) == leading
        and tuple(numbers.start_index_map) == tuple(numbers.collapsed_slice_dims) == (stack,)
        and tuple(sizes) == (1,) * (stack + 1) + tuple(shape[stack + 1 :])
        and tuple(numbers.offset_dims) == tuple(range(batch, batch + len(shape) - stack - 1))
        and all(shape)
    )


def _rows(stack: int, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The rows at indices, which are moved inside: 50 of them in 1 us, of which windows take 15."""
    chosen, size = indices[..., 0], x.shape[stack]
    if not stack:
        return x.take(chosen, 0, mode="clip")
    first = np.arange(0, math.prod(x.shape[: stack + 1]), size).reshape((*x.shape[:stack], 1))
    whole = x.reshape(-1, *x.shape[stack + 1 :])
    return whole.take(chosen.astype(np.intp).clip(0, size - 1) + first, 0)


def scatter(combine: np.ufunc | None = None) -> Callable[[JaxprEqn], Callable[..., np.ndarray]]:
    """From an equation to an operand with updates combined into its windows at indices.

    Without `combine` they replace what is there, and of several the last wins.
    """
    return functools.partial(_scatter, combine)


def _scatter(combine: np.ufunc | None, eqn: JaxprEqn) -> Callable[..., np.ndarray]:
    numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
    shape, indices_shape, updates_shape = (v.aval.shape for v in eqn.invars)
    batching = list(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter([updates_shape[i] for i in numbers.update_window_dims])
    sizes = tuple(1 if i in single else next(window) for i in range(len(shape)))
    batch_shape = indices_shape[:-1]
    order = np.argsort(_order(len(updates_shape), len(batch_shape), numbers.update_window_dims))
    drops = mode is not GatherScatterMode.CLIP
    if any(size > n for size, n in zip(sizes, shape)):
        return lambda x, indices, updates: np.array(x)  # no window fits

    def scattered(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        starts, inside = _starts(indices, shape, sizes, numbers.scatter_dims_to_operand_dims, batching, drops)
        updates = np.transpose(updates, order).reshape(batch_shape + sizes)
        out = np.array(x)
        if drops and not inside.all():
            starts, updates = [np.broadcast_to(s, batch_shape)[inside] for s in starts], updates[inside]
        if combine is None:
            out[_windows(starts, sizes)] = updates
        else:
            combine.at(out, _windows(starts, sizes), updates)
        return out

    return scattered


def _order(ndim: int, batch_ndim: int, window_dims: Sequence[int]) -> list[int]:
    """The permutation that takes (batch, window) dimensions to where window dimensions are at `window_dims`."""
    batch, windows = iter(range(batch_ndim)), iter(range(batch_ndim, ndim))
    return [next(windows) if i in window_dims else next(batch) for i in range(ndim)]


def _starts(
    indices: np.ndarray, shape: Shape, sizes: Shape, index_map: Sequence[int], batching: Any, outside: bool
) -> tuple[list[np.ndarray], Any]:
    """For each dimension of the operand where the windows start, moved inside, and (if asked) which were inside."""
    batch_shape = indices.shape[:-1]
    starts = [np.zeros((1,) * len(batch_shape) if index_map else batch_shape, np.intp)] * len(shape)
    inside: Any = np.ones(batch_shape, bool) if outside else None
    for position, dim in enumerate(index_map):
        given = indices[..., position]
        starts[dim] = np.clip(given, 0, shape[dim] - sizes[dim]).astype(np.intp)
        if outside:
            inside = inside & (starts[dim] == given)
    for dim, index_dim in batching:
        spread = [-1 if i == index_dim else 1 for i in range(len(batch_shape))]
        starts[dim] = np.arange(shape[dim]).reshape(spread)
    return starts, inside


def _windows(starts: Sequence[np.ndarray], sizes: Shape) -> tuple[np.ndarray, ...]:
    """Indices of all elements of all windows: of the shape of the starts and the sizes."""
    ndim = len(sizes)
    if sizes == (1,) * ndim:
        return tuple([start.reshape(start.shape + sizes) for start in starts])
    return tuple(
        start.reshape(start.shape + (1,) * ndim) + np.arange(size).reshape([-1 if i == dim else 1 for i in range(ndim)])
        for dim, (start, size) in enumerate(zip(starts, sizes))
    )


_TERMS_AT_MOST = 64  # of an element of a sliding product


def convolution(eqn: JaxprEqn) -> Callable[..., np.ndarray] | None:
    """A vector's products with a short one at all offsets, in double precision; None for other convolutions."""
    params, result = eqn.params, eqn.outvars[0].aval
    others = [v.aval.shape[i] for v, spec in zip(eqn.invars, params["dimension_numbers"]) for i in spec[:2]]
    ones = *params["window_strides"], *params["lhs_dilation"], *params["rhs_dilation"], *others
    plain = result.ndim == 3 and set(ones) == {1}
    if not plain or result.dtype.char not in "fd" or not 0 < eqn.invars[1].aval.size <= _TERMS_AT_MOST:
        return None
    ((before, after),) = params["padding"]
    length = eqn.invars[0].aval.size
    if min(before, after) < 0 or not result.size:
        return None

    def convolved(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        padded = np.zeros(before + length + after)
        padded[before : before + length] = x.reshape(-1)
        sums = np.correlate(padded, kernel.reshape(-1).astype(np.float64), "valid")
        return sums.astype(result.dtype).reshape(result.shape)

    return convolved


# Products of so many terms are left to NumPy, whose OpenBLAS takes one thread for them. Its threads wait for each other
# in loops (see veery.lax._openblas), so that others are divided among threads of our own.
_ALONE = 1 << 18

# Where BLAS is as fast as IREE's code, or nearly so, and then as fast as XLA's.
_NARROW, _FEW_ROWS = 32, 8  # columns and terms are no fewer, and rows, unless the other matrix has so many elements
_STREAMED = 1 << 22
_EACH = 1 << 16  # terms of each matrix of a stack
_TERMS = 1 << 24  # of float32, divided by the processors, where IREE's code has wider vectors


def product(eqn: JaxprEqn, whole: bool = False) -> Callable[..., np.ndarray] | None:
    """The contraction of an equation by BLAS; None where that has none for the types, or stacks of large matrices.

    Args:
        eqn: a `dot_general`.
        whole: whether it is all that a program does; None then says too that IREE's code would be faster.
    """
    params = eqn.params
    types = {v.aval.dtype for v in (*eqn.invars, *eqn.outvars)}
    if len(types) > 1 or types.pop().char not in "fdFD" or not all(v.aval.size for v in eqn.invars):
        return None
    contract, batch = params["dimension_numbers"]
    shapes = [v.aval.shape for v in eqn.invars]
    kept = [[i for i in range(len(s)) if i not in (*c, *b)] for s, c, b in zip(shapes, contract, batch)]
    stack = [shapes[0][i] for i in batch[0]]
    rows, columns = [math.prod([shape[i] for i in dims]) for shape, dims in zip(shapes, kept)]
    terms = math.prod([shapes[0][i] for i in contract[0]])
    orders = (*batch[0], *kept[0], *contract[0]), (*batch[1], *contract[1], *kept[1])
    small = math.prod(stack) * rows * columns * terms <= _ALONE
    if stack and not (small or whole):
        return None
    if whole and not (
        _gains(rows, columns, terms, len(stack) > 0, eqn.outvars[0].aval.dtype)
        and all(tuple(axes) == tuple(range(len(stack))) for axes in batch)
        and all(_adjoin(axes, shape) for axes, shape in zip((*kept, *contract), shapes * 2))
    ):
        return None
    result = eqn.outvars[0].aval.shape
    left = _laid_out(orders[0], shapes[0], (*stack, rows, terms))
    right = _laid_out(orders[1], shapes[1], (*stack, terms, columns))
    if not small:
        multiply: Callable[..., np.ndarray] = functools.partial(blas.product, threads=processors() if whole else 1)
    else:
        multiply = np.matmul if whole or terms > 1 else np.multiply
    return lambda a, b: multiply(_in_rows(left(a)), _in_rows(right(b))).reshape(result)


def _gains(rows: int, columns: int, terms: int, stacked: bool, dtype: Any) -> bool:
    """Whether BLAS multiplies matrices as fast as IREE's code does, or nearly so."""
    work = rows * columns * terms
    if terms == 1 or (stacked and work < _EACH):
        return False
    if min(rows, columns) == 1 or work <= _ALONE:
        return True
    if dtype == np.float32 and work > _TERMS // processors() and not OF_NUMPY.has_wide_vectors:
        return False
    return min(columns, terms) >= _NARROW and (rows >= _FEW_ROWS or columns * terms >= _STREAMED)


def _in_rows(x: np.ndarray) -> np.ndarray:
    """Matrices as BLAS takes them, whose rows or columns lie in sequence; NumPy multiplies others by a loop."""
    return x if x.flags.c_contiguous or x.swapaxes(-1, -2).flags.c_contiguous else np.ascontiguousarray(x)


def _adjoin(axes: Sequence[int], shape: Shape) -> bool:
    """Whether axes become one without elements being moved."""
    left = [i for i, n in enumerate(shape) if n != 1]
    places = [left.index(i) for i in axes if shape[i] != 1]
    return places == list(range(places[0], places[0] + len(places))) if places else True


def _laid_out(order: Shape, shape: Shape, wanted: Shape) -> Callable[[np.ndarray], np.ndarray]:
    """A view in another order, and then of another shape, where it is not so already."""
    if order == tuple(range(len(shape))):
        return (lambda x: x) if shape == wanted else lambda x: x.reshape(wanted)
    if tuple(shape[i] for i in order) == wanted:
        return lambda x: x.transpose(order)
    return lambda x: x.transpose(order).reshape(wanted)
