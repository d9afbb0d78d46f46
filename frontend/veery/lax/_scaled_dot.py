"""Products of arrays that are stored in blocks with one scale each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, source
from veery._core.avals import aval_of
from veery.lax import _arithmetic, _contract, _convert, _shape


@source.api_boundary
def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The product of `lhs * lhs_scale` and `rhs * rhs_scale`, each scale being that of a block of elements.

    Scaled operands are rounded to bfloat16 on all devices.

    Args:
        lhs: array.
        rhs: array of the same rank.
        lhs_scale: array of the shape of `lhs`, but for contracting dimensions, each of which it has in as many elements
            as there are blocks of two elements or more. None: it is one.
        rhs_scale: the same for `rhs`.
        dimension_numbers: ((contracting dimensions of lhs, of rhs), (batch dimensions of lhs, of rhs)). None: the last
            of lhs and the last but one of rhs are contracted, all before are batches.
        preferred_element_type: dtype of the result, and of the sums; bfloat16 if None.

    Returns:
        The product, as `dot_general` gives it.

    Raises:
        TypeError: ranks or sizes do not fit.

    >>> import veery.numpy as jnp
    >>> scaled_dot(jnp.ones((1, 4)), jnp.ones((4, 1)), lhs_scale=jnp.array([[2.0, 8.0]]))
    Array([[20]], dtype=bfloat16)
    """
    a, b = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None:
        if a.ndim < 2:
            raise TypeError("scaled_dot does not support 0-rank and 1-rank operands.")
        batch = tuple(range(a.ndim - 2))
        dimension_numbers = (((a.ndim - 1,), (a.ndim - 2,)), (batch, batch))
    contracting, batches = dimension_numbers
    _check_operands(a.shape, b.shape, contracting, batches)
    dtype = dtypes.bfloat16 if preferred_element_type is None else preferred_element_type
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "scaled_dot")
    scaled_lhs = _scaled("LHS", lhs, lhs_scale, contracting[0])
    scaled_rhs = _scaled("RHS", rhs, rhs_scale, contracting[1])
    return _contract.dot_general(scaled_lhs, scaled_rhs, dimension_numbers, preferred_element_type=dtype)


def _check_operands(lhs: Sequence[int], rhs: Sequence[int], contracting: Any, batches: Any) -> None:
    if len(lhs) != len(rhs):
        raise TypeError(f"All input tensors must have the same rank. Got lhs rank: {len(lhs)} rhs rank: {len(rhs)}.")
    for dims, what in ((batches, "batch"), (contracting, "contracting")):
        if len(dims[0]) != len(dims[1]):
            raise TypeError(
                f"LHS and RHS must have the same number of {what} dimensions, got {len(dims[0])} and {len(dims[1])}."
            )
    for i, j in zip(*batches):
        if lhs[i] != rhs[j]:
            raise TypeError(f"All input tensors must have the same batch dimension size for batch dims ({i}, {j}).")
    for i, j in zip(*contracting):
        if lhs[i] != rhs[j]:
            raise TypeError(
                f"LHS contracting dim {i} of size {lhs[i]} does not match RHS contracting dim {j} of size {rhs[j]}."
            )


def _scaled(side: str, x: Any, scale: Any, contracting: Sequence[int]) -> Any:
    """The operand times its scale, in bfloat16."""
    shape = aval_of(x).shape
    blocks = aval_of(scale).shape if scale is not None else _one_block(shape, contracting)
    if len(blocks) != len(shape):
        raise TypeError(
            f"All input tensors must have the same rank. Got {side} rank: {len(shape)} and its scale's rank: "
            f"{len(blocks)}."
        )
    for i, (size, count) in enumerate(zip(shape, blocks)):
        _check_blocks(side, i, size, count, i in contracting)
    wide = _convert.convert_element_type(x, dtypes.bfloat16)
    if scale is None:
        return wide
    # Each contracting dimension is one of blocks and one of the elements of a block, along which a scale is the same.
    parts = [(n, size // n) if i in contracting else (n,) for i, (size, n) in enumerate(zip(shape, blocks))]
    places = np.cumsum([0, *map(len, parts)])[:-1]
    divided = [n for part in parts for n in part]
    factors = _shape.broadcast_in_dim(_convert.convert_element_type(scale, dtypes.bfloat16), divided, places.tolist())
    return _arithmetic.mul(wide, _shape.reshape(factors, shape))


def _one_block(shape: Sequence[int], contracting: Sequence[int]) -> tuple[int, ...]:
    return tuple(1 if i in contracting else size for i, size in enumerate(shape))


def _check_blocks(side: str, i: int, size: int, count: int, contracted: bool) -> None:
    if not contracted:
        if count != size:
            raise TypeError(f"{side} dim {i} of size {size} does not match scale dim size {count}.")
        return
    if count == 0 or size % count:
        raise TypeError(f"{side} contracting dim {i} of size {size} must be divisible by its scale's dim size {count}.")
    if size // count < 2:
        raise TypeError(
            f"The ratio of {side} contracting dim {i} to its scale's dim size ({size // count}) must be at least 2."
        )
