"""Slices of different lengths, each sent to a position of a named axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import source
from veery._core.avals import aval_of
from veery.lax import _arithmetic, _bitwise, _compare, _convert, _parallel, _reduce, _shape, _slicing


@source.api_boundary
def ragged_all_to_all(
    operand: Any,
    output: Any,
    input_offsets: Any,
    send_sizes: Any,
    output_offsets: Any,
    recv_sizes: Any,
    *,
    axis_name: Any,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Send slices of rows, which may differ in length, to the positions of a named axis.

    Each position has as many slices for each other one, in the order of these: n of n * (size of the axis).

    Args:
        operand: array of rows.
        output: array of rows, what is left where nothing is received.
        input_offsets: int[n * size], the row of `operand` that each slice begins with.
        send_sizes: int[n * size], how many rows each slice has.
        output_offsets: int[n * size], the row of the receiver's result that each slice begins at.
        recv_sizes: int[n * size], how many rows are received: `all_to_all(send_sizes, axis_name, 0, 0, tiled=True)`.
        axis_name: name of the axis, or a tuple of names.
        axis_index_groups: groups to send within.

    Returns:
        An array like `output` with the rows that were received.

    Raises:
        ValueError: offsets or sizes are no vectors of integers, or not as long as they must be.
        TypeError: rows of `operand` and `output` differ.

    >>> import veery, veery.numpy as jnp
    >>> exchange = lambda *args: ragged_all_to_all(*args, axis_name="i")
    >>> rows, offsets, sizes = jnp.arange(1, 7).reshape(2, 3), jnp.array([[0, 1], [0, 2]]), jnp.array([[1, 2], [2, 1]])
    >>> starts = jnp.array([[0, 0], [1, 2]])
    >>> result = veery.vmap(exchange, axis_name="i")(rows, jnp.zeros((2, 4), int), offsets, sizes, starts, sizes)
    >>> result.tolist()
    [[1, 4, 5, 0], [2, 3, 6, 0]]
    """
    vectors = {
        "input_offsets": input_offsets, "send_sizes": send_sizes,
        "output_offsets": output_offsets, "recv_sizes": recv_sizes,
    }  # fmt: skip
    size = _parallel.axis_size(axis_name) if axis_index_groups is None else len(axis_index_groups[0])
    _check(aval_of(operand), aval_of(output), {name: aval_of(x) for name, x in vectors.items()}, size)

    def received(x: Any) -> Any:
        """For each slice that comes here, from position after position."""
        x = _convert.convert_element_type(x, np.int32)
        return _parallel.all_to_all(x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)

    starts, counts = received(output_offsets), _convert.convert_element_type(recv_sizes, np.int32)
    slices, rows = counts.shape[0], aval_of(output).shape[0]
    row = _shape.broadcasted_iota(np.int32, (rows, slices), 0)
    place = _arithmetic.sub(row, _across(starts, rows))
    inside = _bitwise.bitwise_and(_compare.ge(place, np.int32(0)), _compare.lt(place, _across(counts, rows)))
    # Which slice a row is of; -1 where of none. Of slices that overlap the last counts.
    number = _shape.broadcasted_iota(np.int32, (rows, slices), 1)
    owner = _reduce.reduce_max(_compare.select(inside, number, _shape.full_like(number, -1)), (1,))
    chosen = _compare.eq(number, _shape.broadcast_in_dim(owner, (rows, slices), (0,)))

    everywhere = _parallel.all_gather(operand, axis_name, axis_index_groups=axis_index_groups)
    height = everywhere.shape[1]
    origins = _arithmetic.mul(_arithmetic.div(number, np.int32(slices // size)), np.int32(height))
    position = _arithmetic.add(_arithmetic.add(origins, _across(received(input_offsets), rows)), place)
    picked = _reduce.reduce_sum(_compare.select(chosen, position, _shape.full_like(position, 0)), (1,))
    flat = _shape.reshape(everywhere, (size * height, *everywhere.shape[2:]))
    taken = _slicing.index_take(flat, [picked], [0])
    found = _compare.ge(owner, np.int32(0))
    mask = _shape.broadcast_in_dim(found, taken.shape, (0,))
    return _compare.select(mask, taken, output)


def _across(x: Any, rows: int) -> Any:
    """A vector as each of so many rows."""
    return _shape.broadcast_in_dim(x, (rows, *aval_of(x).shape), (1,))


def _check(operand: Any, output: Any, vectors: dict[str, Any], size: int) -> None:
    for name, vector in vectors.items():
        if not np.issubdtype(vector.dtype, np.integer):
            raise ValueError(f"ragged_all_to_all {name} must be integer type, but got {vector.dtype}.")
        if vector.ndim != 1 or vector.shape[0] < 1:
            raise ValueError(
                f"ragged_all_to_all {name} must be rank 1 with positive dimension size, but got shape {vector.shape}"
            )
    lengths = {name: vector.shape[0] for name, vector in vectors.items()}
    if len(set(lengths.values())) > 1 or lengths["recv_sizes"] % size:
        raise ValueError(
            f"ragged_all_to_all offsets and sizes must be of one length, a multiple of the {size} positions that send "
            f"to each other, but got {lengths}"
        )
    if not operand.ndim or operand.dtype != output.dtype or operand.shape[1:] != output.shape[1:]:
        raise TypeError(
            f"ragged_all_to_all needs an operand and an output whose rows are alike, but got {operand.str_short()} and "
            f"{output.str_short()}"
        )
