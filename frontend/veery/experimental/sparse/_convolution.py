"""Convolutions of sparse vectors: all pairs of stored elements."""

from __future__ import annotations

import functools
from typing import Any

from veery import lax, numpy as jnp
from veery._api.inspection import make_jaxpr
from veery._api.shape_structs import ShapeDtypeStruct
from veery.experimental.sparse._bcoo import BCOO, _without_padding, bcoo_update_layout


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any = None, rhs_dilation: Any = None,
    dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """As `lax.conv_general_dilated`, of vectors of shape (1, 1, n), of which one or both are sparse.

    Args:
        lhs, rhs: BCOOs, or arrays.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count, batch_group_count,
            precision, preferred_element_type: as of `lax.conv_general_dilated`.

    Returns:
        A BCOO of shape (1, 1, n) with so many elements as there are pairs.

    Raises:
        NotImplementedError: strides, dilations, groups, batches or channels.
    """
    convolve = functools.partial(
        lax.conv_general_dilated,
        window_strides=window_strides, padding=padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
        dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip
    traced = make_jaxpr(convolve)(*(ShapeDtypeStruct(x.shape, x.dtype) for x in (lhs, rhs)))
    params, (out,) = traced.eqns[-1].params, traced.out_avals
    return of_equation(lhs, rhs, out, params)


def of_equation(lhs: Any, rhs: Any, out: Any, params: dict[str, Any]) -> BCOO:
    """What an equation of a convolution gives for operands of which one or both are sparse."""
    for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
        if any(n != 1 for n in params[name]):
            raise NotImplementedError(f"bcoo convolution with non-unit {name}.")
    if (params["feature_group_count"], params["batch_group_count"]) != (1, 1):
        raise NotImplementedError("bcoo convolution with non-unit group counts.")
    if len(out.shape) != 3 or lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1) or out.shape[:2] != (1, 1):
        raise NotImplementedError("bcoo convolution of other shapes than (1, 1, n)")
    ((low, _),) = params["padding"]
    (a, at), (b, by) = _vector(lhs), _vector(rhs)
    place = at[:, None] + (low - by)[None, :]
    outside = (place < 0) | (at >= lhs.shape[2])[:, None] | (by >= rhs.shape[2])[None, :]
    size = out.shape[2]
    indices = jnp.where(outside, size, jnp.minimum(place, size)).ravel()
    data = (a.astype(out.dtype)[:, None] * b.astype(out.dtype)[None, :]).ravel()
    data = jnp.where(indices < size, data, jnp.zeros((), data.dtype))
    return BCOO((data[None, None], indices[None, None, :, None]), shape=out.shape)


def _vector(x: Any) -> tuple[Any, Any]:
    """The elements of a vector of shape (1, 1, n), and their places; n or more for padding."""
    if not isinstance(x, BCOO):
        return jnp.asarray(x)[0, 0], jnp.arange(x.shape[2], dtype="int32")
    data, indices = _without_padding(bcoo_update_layout(x, n_batch=2, n_dense=0, on_inefficient=None))
    return data[0, 0], indices[0, 0, :, 0]
