"""Products of matrices whose rows are stored in blocks with one scale each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.custom_derivatives import custom_vjp
from veery._api.jit import jit
from veery._core import dtypes

Array = Any  # an Array or a tracer


def scaled_matmul(
    lhs: Array, rhs: Array, lhs_scales: Array, rhs_scales: Array, preferred_element_type: Any = np.float32
) -> Array:
    """The product of matrices whose rows are stored in blocks with one scale each.

    Args:
        lhs: array of shape (B, M, K).
        rhs: array of shape (B, N, K).
        lhs_scales: array of shape (B, M, K / block).
        rhs_scales: array of shape (B, N, K / block).
        preferred_element_type: the dtype of the result.

    Returns:
        An array of shape (B, M, N).

    Raises:
        ValueError: the shapes do not fit.
    """
    if not all(np.ndim(x) == 3 for x in (lhs, rhs, lhs_scales, rhs_scales)):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    if (lhs.shape[0], lhs.shape[2]) != (rhs.shape[0], rhs.shape[2]):
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) dimensions, but got "
            f"shapes {lhs.shape} and {rhs.shape}"
        )
    if (lhs_scales.shape[0], lhs_scales.shape[2]) != (rhs_scales.shape[0], rhs_scales.shape[2]):
        raise ValueError(
            "scaled_matmul requires scales to have matching batch (B) and contract (K) dimensions, but got shapes "
            f"{lhs_scales.shape} and {rhs_scales.shape}"
        )
    if lhs_scales.shape[1] != lhs.shape[1] or rhs_scales.shape[1] != rhs.shape[1] or lhs.shape[2] % lhs_scales.shape[2]:
        raise ValueError(
            "scaled_matmul requires scales to match non-contract dimensions of inputs, but got shapes "
            f"a: {lhs.shape}, b: {rhs.shape}, a_scales: {lhs_scales.shape}, b_scales: {rhs_scales.shape}"
        )
    dtype = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "scaled_matmul")
    return _scaled_matmul(lhs, rhs, lhs_scales, rhs_scales, dtype=dtype)


@jit(static_argnames=("dtype",))
def _scaled_matmul(lhs: Array, rhs: Array, lhs_scales: Array, rhs_scales: Array, *, dtype: Any) -> Array:
    a, b = _dequantise(lhs, lhs_scales), _dequantise(rhs, rhs_scales)
    return lax.convert_element_type(lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,)))), dtype)


def _dequantise(x: Array, scales: Array) -> Array:
    block = x.shape[-1] // scales.shape[-1]
    return jnp.multiply(jnp.astype(x, np.float32), jnp.repeat(jnp.astype(scales, np.float32), block, axis=-1))


@dataclass
class BlockScaleConfig:
    """How an operand of scaled_dot_general is rounded: to `data_type`, with a scale of `scale_type` for each block."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Array | None
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: Array | None = None) -> BlockScaleConfig:
    """The block scaling named "nvfp4" or "mxfp8".

    Raises:
        ValueError: another mode.
    """
    if mode == "nvfp4":
        scale = jnp.ones((1,), dtype=np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn, scale, False)
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu, None, False)
    raise ValueError(f"Unsupported mode: {mode}")


def scaled_dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Array:
    """A product of arrays that are rounded to 8 or 4 bits first, in blocks with one scale each.

    Blocks lie along the contracting dimensions, taken together in the order that `lhs` has them. Sums are in float32.

    Args:
        lhs: array of floats.
        rhs: array of floats.
        dimension_numbers: ((contracting dimensions of lhs, of rhs), (batch dimensions of lhs, of rhs)).
        preferred_element_type: dtype of the result: float32, bfloat16 or float16.
        configs: how lhs, rhs and the cotangent are rounded, from `get_scaled_dot_general_config`; None: not at all.
            Derivatives are products of rounded arrays again with "mxfp8", of the arrays themselves with "nvfp4", where
            they are 0 for elements that were too large.
        implementation: without effect, and deprecated.

    Returns:
        The product: batch dimensions, then those of lhs that are left, then those of rhs.

    Raises:
        TypeError: another `preferred_element_type`.
        ValueError: dimensions that are contracted, also in a derivative, have together no multiple of a block's size.

    >>> import veery
    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> x = jnp.linspace(0, 1, 32).reshape(1, 32)
    >>> scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)
    Array([[10.5546875]], dtype=float32)
    """
    if implementation is not None:
        warnings.warn("scaled_dot_general: `implementation` has no effect.", DeprecationWarning, stacklevel=2)
    if configs is None:
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    if preferred_element_type not in (np.float32, dtypes.bfloat16, np.float16):
        raise TypeError(f"Only support preferred_element_type in (f32, bf16, f16), but got {preferred_element_type}")
    lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
    contracting, batch = (_paired(dims) for dims in dimension_numbers)
    a, lhs_rest = _as_matrices(lhs, [i for i, _ in contracting], [i for i, _ in batch])
    b, rhs_rest = _as_matrices(rhs, [j for _, j in contracting], [j for _, j in batch])
    out = _product(tuple(configs), np.dtype(preferred_element_type))(a, b)
    return jnp.reshape(out, (*(lhs.shape[i] for i, _ in batch), *lhs_rest, *rhs_rest))


def _paired(dims: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Dimensions of lhs with those of rhs that they meet, in the order of lhs."""
    return sorted(zip(*dims))


def _as_matrices(x: Array, contracting: Sequence[int], batch: Sequence[int]) -> tuple[Array, list[int]]:
    """The array as (batches, rows, contracted), and the sizes that make the rows."""
    rest = [i for i in range(x.ndim) if i not in contracting and i not in batch]
    sizes = [[x.shape[i] for i in dims] for dims in (batch, rest, contracting)]
    matrices = jnp.reshape(jnp.transpose(x, (*batch, *rest, *contracting)), [int(np.prod(n)) for n in sizes])
    return matrices, sizes[1]


def _product(configs: tuple[BlockScaleConfig, ...], dtype: Any) -> Any:
    """The product of (B, M, K) and (B, N, K) as a function with derivatives."""

    @custom_vjp
    def product(lhs: Array, rhs: Array) -> Array:
        return _rounded_product(lhs, rhs, configs[0], configs[1], dtype)

    def forward(lhs: Array, rhs: Array) -> tuple[Array, Any]:
        return product(lhs, rhs), (lhs, rhs)

    def backward(operands: Any, ct: Array) -> tuple[Array, Array]:
        lhs, rhs = operands
        by_rows, by_columns = ct, jnp.swapaxes(ct, 1, 2)
        if configs[2].mode == "nvfp4":
            times = functools.partial(jnp.matmul, preferred_element_type=dtype)
            found = times(by_rows, rhs), times(by_columns, lhs)
            kept = [_within(x, config) for x, config in zip(operands, configs)]
            found = tuple(jnp.where(inside, grad, 0) for inside, grad in zip(kept, found))
        else:
            found = (
                _rounded_product(by_rows, jnp.swapaxes(rhs, 1, 2), configs[2], configs[1], dtype),
                _rounded_product(by_columns, jnp.swapaxes(lhs, 1, 2), configs[2], configs[0], dtype),
            )
        return jnp.astype(found[0], lhs.dtype), jnp.astype(found[1], rhs.dtype)

    product.defvjp(forward, backward)
    return product


def _rounded_product(a: Array, b: Array, of_a: BlockScaleConfig, of_b: BlockScaleConfig, dtype: Any) -> Array:
    (a, scale_a), (b, scale_b) = _rounded(a, of_a), _rounded(b, of_b)
    out = lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,))))
    return jnp.astype(out * (scale_a * scale_b), dtype)


def _rounded(x: Array, config: BlockScaleConfig) -> tuple[Array, Any]:
    """The float32 array whose blocks are as they are after rounding, and the scale of all together."""
    *outer, size = x.shape
    if size < config.block_size or size % config.block_size:
        raise ValueError(
            f"scaled_dot_general: the contracted dimensions have {size} elements together, which is no multiple of "
            f"{config.block_size}, the size of a block of {config.mode!r}"
        )
    blocks = jnp.reshape(x, (*outer, size // config.block_size, config.block_size))
    largest = dtypes.finfo(config.data_type).max.astype(x.dtype)
    if config.mode == "mxfp8":
        common: Any = 1
        scale = _next_power_of_two(jnp.max(jnp.abs(blocks), -1, keepdims=True) / largest)
    else:
        common, blocks = config.global_scale, blocks / config.global_scale
        scale = jnp.max(jnp.abs(blocks), -1, keepdims=True) / largest
        scale = _stored(jnp.clip(scale, 0, float(dtypes.finfo(config.scale_type).max)), config.scale_type)
    # A block without a scale is one of zeros.
    narrow = jnp.clip(jnp.astype(blocks, np.float32) / jnp.where(scale == 0, 1, scale), -largest, largest)
    return jnp.reshape(_stored(narrow, config.data_type) * scale, x.shape), common


def _stored(x: Array, dtype: Any) -> Array:
    """What is left of numbers that are kept in a narrow dtype."""
    return jnp.astype(lax.optimization_barrier(jnp.astype(x, dtype)), np.float32)


def _next_power_of_two(x: Array) -> Array:
    """The least power of two that is not below a number of 0 or more, in float32; 0 of subnormal numbers."""
    bits = lax.bitcast_convert_type(jnp.astype(x, np.float32), np.uint32)
    up = lax.bitcast_convert_type((bits + np.uint32(0x7FFFFF)) & np.uint32(0x7F800000), np.float32)
    return jnp.where(bits < 0x800000, 0, jnp.where(jnp.isnan(x), x, up)).astype(np.float32)


def _within(x: Array, config: BlockScaleConfig) -> Array:
    """Which elements are not too large to be stored."""
    limit = dtypes.finfo(config.data_type).max.astype(x.dtype) * dtypes.finfo(config.scale_type).max.astype(x.dtype)
    return jnp.abs(x) <= config.global_scale * limit
