"""scatter: XLA's own leaves out updates that are out of bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.elementwise import add, maximum, minimum, multiply
from veery_lowering.emit.rules.gather_scatter import bound, drops, window_sizes

_COMBINERS: dict[str, Callable[[Value, Value], Value]] = {
    "scatter": lambda old, new: new,
    "scatter_add": add,
    "scatter_sub": hlo.subtract,
    "scatter_mul": multiply,
    "scatter_min": minimum,
    "scatter_max": maximum,
}


def _register(name: str, combine: Callable[[Value, Value], Value]) -> None:
    @rule(name, target="xla")
    def lower(
        ctx: Context,
        operand: Value,
        indices: Value,
        updates: Value,
        *,
        dimension_numbers: Any,
        mode: Any,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        **_: Any,
    ) -> Value:
        numbers = dimension_numbers
        shape, update_shape = ctx.avals_in[0].shape, ctx.avals_in[2].shape
        window = window_sizes(shape, update_shape, numbers)
        limits = [shape[axis] - window[axis] for axis in numbers.scatter_dims_to_operand_dims]
        if 0 in update_shape or any(n < 0 for n in limits):
            return operand
        if not drops(mode):
            indices = bound(indices, limits, mask=False).indices
        elif hlo.dtype_of(indices).itemsize < 4:  # whose sizes may not hold the operand's
            indices = hlo.convert(indices, np.int64 if hlo.dtype_of(indices).kind == "u" else np.int32)
        (result,) = hlo.scatter(
            [operand],
            indices,
            [updates],
            combine,
            update_window_dims=numbers.update_window_dims,
            inserted_window_dims=numbers.inserted_window_dims,
            scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
            input_batching_dims=getattr(numbers, "operand_batching_dims", ()),
            scatter_indices_batching_dims=getattr(numbers, "scatter_indices_batching_dims", ()),
            index_vector_dim=len(hlo.shape_of(indices)) - 1,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
        )
        return result


for _name, _combine in _COMBINERS.items():
    _register(_name, _combine)
