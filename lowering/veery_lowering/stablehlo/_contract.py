"""Builders of contractions, gather and the operations that are whole algorithms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery_lowering.mlir import ir, maker
from veery_lowering.stablehlo import _dynamic
from veery_lowering.stablehlo._build import (
    Value,
    boolean,
    booleans,
    dtype_of,
    inferred,
    integer,
    integers,
    one,
    operation,
    pairs,
    parse,
    precision_config,
    shape_of,
)
from veery_lowering.types import is_static, tensor_type


def dot_general(
    a: Value,
    b: Value,
    *,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: Any = None,
    precision: Sequence[str] | None = None,
) -> Value:
    """Contract and batch dimensions of two tensors.

    Args:
        a, b: the operands.
        contracting: dimensions of `a` and of `b` that are summed over.
        batch: dimensions of `a` and of `b` that run in parallel; they come first in the result.
        dtype: of the result; by default that of `a`.
        precision: DEFAULT, HIGH or HIGHEST for each operand.
    """
    (a_sum, b_sum), (a_batch, b_batch) = contracting, batch
    a_shape, b_shape = shape_of(a), shape_of(b)
    shape = [a_shape[axis] for axis in a_batch]
    shape += [size for axis, size in enumerate(a_shape) if axis not in (*a_sum, *a_batch)]
    shape += [size for axis, size in enumerate(b_shape) if axis not in (*b_sum, *b_batch)]
    fields = {
        "lhs_batching_dimensions": list(a_batch),
        "rhs_batching_dimensions": list(b_batch),
        "lhs_contracting_dimensions": list(a_sum),
        "rhs_contracting_dimensions": list(b_sum),
    }
    text = ", ".join(f"{name} = {dims}" for name, dims in fields.items() if dims)
    attributes = {"dot_dimension_numbers": parse(f"#stablehlo.dot<{text}>"), **precision_config(precision)}
    result = tensor_type(shape, dtype_of(a) if dtype is None else dtype)
    return one("stablehlo.dot_general", [a, b], result, attributes)


def product_axes(operation: Any, kind: str) -> tuple[list[int], list[int]]:
    """The "contracting" or "batching" dimensions of both operands of a dot_general."""
    numbers = str(operation.attributes["dot_dimension_numbers"])  # its Python binding has no accessors

    def listed(side: str) -> list[int]:
        found = re.search(rf"{side}_{kind}_dimensions = \[([0-9, ]*)\]", numbers)
        return [int(number) for number in found[1].split(",") if number.strip()] if found else []

    return listed("lhs"), listed("rhs")


def transposed_product(x: Value, permutation: Sequence[int]) -> Value | None:
    """The transpose of a product as the product of its operands swapped; None where x or the transpose is another.

    Gradients of weights are such. IREE 3.13 makes one dispatch of product and transpose, which is slow: for 256 rows of
    300 and of 700 it takes 10.7 ms, the swapped product 2.1 ms.
    """
    if maker(x) != "stablehlo.dot_general":
        return None
    a, b = x.owner.operation.operands
    contracting, batch = product_axes(x.owner.operation, "contracting"), product_axes(x.owner.operation, "batching")
    n_batch = len(batch[0])
    n_rows = len(shape_of(a)) - n_batch - len(contracting[0])
    swapped = (*range(n_batch), *range(n_batch + n_rows, len(permutation)), *range(n_batch, n_batch + n_rows))
    if tuple(permutation) != swapped:
        return None
    return dot_general(b, a, contracting=contracting[::-1], batch=batch[::-1], dtype=dtype_of(x))


def convolution(
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: str,
    shape: Sequence[int],
    dtype: Any = None,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Sequence[str] | None = None,
) -> Value:
    """Convolve.

    Args:
        lhs, rhs: input and kernel.
        dimension_numbers: layouts as StableHLO spells them, `"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"`.
        shape, dtype: of the result; its dtype is by default that of `lhs`.
        window_strides, padding, lhs_dilation, rhs_dilation, window_reversal: one entry a spatial dimension.
        feature_group_count, batch_group_count, precision: numbers of groups; as in `dot_general`.
    """
    spatial = len(tuple(window_strides))
    attributes = {
        "dimension_numbers": parse(f"#stablehlo.conv<{dimension_numbers}>"),
        "window_strides": integers(window_strides),
        "padding": pairs(padding),
        "lhs_dilation": integers(lhs_dilation or [1] * spatial),
        "rhs_dilation": integers(rhs_dilation or [1] * spatial),
        "window_reversal": booleans(window_reversal or [False] * spatial),
        "feature_group_count": integer(feature_group_count),
        "batch_group_count": integer(batch_group_count),
        **precision_config(precision),
    }
    result = tensor_type(shape, dtype_of(lhs) if dtype is None else dtype)
    return one("stablehlo.convolution", [lhs, rhs], result, attributes)


def gather(
    operand: Value,
    indices: Value,
    *,
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    index_vector_dim: int,
    slice_sizes: Sequence[int],
    operand_batching_dims: Sequence[int] = (),
    start_indices_batching_dims: Sequence[int] = (),
    indices_are_sorted: bool = False,
    shape: Sequence[Any] = (),
) -> Value:
    """Gather slices. IREE does not clamp the indices in every form: clamp them first.

    With sizes that are known at run time, index vectors lie along the last dimension, and `shape` is the result's.
    """
    if not all(map(is_static, (*slice_sizes, *shape, *shape_of(operand)))):
        batching = (operand_batching_dims, start_indices_batching_dims)
        numbers = _dynamic.Gathered(offset_dims, collapsed_slice_dims, start_index_map, *batching)
        return _dynamic.gather(operand, indices, shape, numbers)
    fields = {
        "offset_dims": list(offset_dims),
        "collapsed_slice_dims": list(collapsed_slice_dims),
        "operand_batching_dims": list(operand_batching_dims),
        "start_indices_batching_dims": list(start_indices_batching_dims),
        "start_index_map": list(start_index_map),
        "index_vector_dim": index_vector_dim,
    }
    text = ", ".join(f"{name} = {value}" for name, value in fields.items() if value != [])
    attributes = {
        "dimension_numbers": parse(f"#stablehlo.gather<{text}>"),
        "slice_sizes": integers(slice_sizes),
        "indices_are_sorted": boolean(indices_are_sorted),
    }
    return inferred("stablehlo.gather", [operand, indices], attributes)


def take_rows(x: Value, index: Value, shape: Sequence[Any], axis: int = 0) -> Value:
    """x at an index [N, 1] along an axis, which is in bounds; `shape` is the result's, of N elements along the axis."""
    return gather(
        x,
        index,
        offset_dims=[i for i in range(len(shape)) if i != axis],
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=1,
        slice_sizes=[1 if i == axis else n for i, n in enumerate(shape)],
        shape=shape,
    )


def fft(x: Value, kind: str, lengths: Sequence[int]) -> Value:
    """Fourier transform; kind is FFT, IFFT, RFFT or IRFFT. IREE: one power-of-two length, float32 only."""
    attributes = {"fft_type": parse(f"#stablehlo<fft_type {kind}>"), "fft_length": integers(lengths)}
    return inferred("stablehlo.fft", [x], attributes)


def rng_bit_generator(state: Value, shape: Sequence[int], dtype: Any, algorithm: str = "DEFAULT") -> list[Value]:
    """The next state and random bits; the algorithm is DEFAULT, THREE_FRY or PHILOX."""
    attributes = {"rng_algorithm": parse(f"#stablehlo<rng_algorithm {algorithm}>")}
    results = [state.type, tensor_type(shape, dtype)]
    return list(operation("stablehlo.rng_bit_generator", [state], results, attributes).results)


def top_k(x: Value, k: int) -> tuple[Value, Value]:
    """The k largest along the last dimension, descending, and their int32 indices."""
    shape = (*shape_of(x)[:-1], k)
    results = [tensor_type(shape, dtype_of(x)), tensor_type(shape, np.int32)]
    values, indices = operation("chlo.top_k", [x], results, {"k": integer(k)}).results
    return values, indices


def batch_norm_inference(
    x: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float, feature_index: int
) -> Value:
    """Normalise with given statistics."""
    attributes = {
        "epsilon": ir.FloatAttr.get(ir.F32Type.get(), epsilon),
        "feature_index": integer(feature_index),
    }
    return one("stablehlo.batch_norm_inference", [x, scale, offset, mean, variance], x.type, attributes)


def get_dimension_size(x: Value, dimension: int) -> Value:
    """The size of a dimension as a rank-0 int32."""
    return inferred("stablehlo.get_dimension_size", [x], {"dimension": integer(dimension)})


def composite(name: str, decomposition: str, operands: Sequence[Value], results: Sequence[ir.Type]) -> list[Value]:
    """A named operation with a decomposition, a function of the module, that computes it."""
    attributes = {
        "name": ir.StringAttr.get(name),
        "decomposition": ir.FlatSymbolRefAttr.get(decomposition),
    }
    return list(operation("stablehlo.composite", operands, results, attributes).results)
