"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery.nn._normalisation import logsumexp, softmax

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query key^T * scale + bias) value, for each head.

    Letters: B batch, T queries, S keys, N query heads, K key heads (a divisor of N), H size of a head.

    Args:
        query: array of shape ([B,] T, N, H).
        key: array of shape ([B,] S, K, H).
        value: array of shape ([B,] S, K, H).
        bias: added to the logits; it broadcasts to (B, N, T, S).
        mask: bool array that broadcasts to (B, N, T, S); a query sees the keys where it is True.
        scale: of the logits; 1 / sqrt(H) by default.
        is_causal: whether query t sees keys up to t only.
        query_seq_lengths: int32[B], how many queries count; the others give 0.
        key_value_seq_lengths: int32[B], how many keys count.
        local_window_size: how many keys to the left and to the right each query sees.
        implementation: None or "xla": one program of matrix products. "cudnn" is not available.
        return_residual: whether to return the logarithms of the softmax' denominators as well.

    Returns:
        An array like query, or a pair of it and the logarithms, of shape ([B,] T, N).

    Raises:
        ValueError: shapes, dtypes or the implementation do not fit.

    >>> import veery, veery.numpy as jnp
    >>> x = jnp.ones((5, 2, 4))
    >>> veery.nn.dot_product_attention(x, x, x, is_causal=True).shape
    (5, 2, 4)
    """
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    query = jnp.asarray(query)
    shape = query.shape
    q, k, v = (_four_dimensions(x) for x in (query, key, value))
    bias, mask = (None if x is None else _four_dimensions(x) for x in (bias, mask))
    lengths = [None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths)]
    _check_attention(q, k, v, bias, mask, lengths)
    window = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size
    scale = 1.0 / np.sqrt(q.shape[-1]) if scale is None else scale
    out, residual = _attention(
        q, k, v, bias, mask, *lengths, scale, is_causal=bool(is_causal),
        window=None if window is None else tuple(window), return_residual=bool(return_residual),
    )  # fmt: skip
    out = jnp.reshape(out, shape)
    return (out, jnp.reshape(residual, shape[:-1])) if return_residual else out


def _four_dimensions(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return x if x.ndim >= 4 else lax.broadcast_to_rank(x, 4)


def _check(x: Array | None, shape: Sequence[int], dtype: Any, name: str) -> None:
    """Raise ValueError unless x has this dtype and shape, in which -1 is any size."""
    if x is None:
        return
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(want not in (-1, got) for want, got in zip(shape, x.shape)):
        raise ValueError(f"{name} shape should be {list(shape)}: but got {x.shape}")


def _check_attention(q: Array, k: Array, v: Array, bias: Any, mask: Any, lengths: Sequence[Any]) -> None:
    _check(k, (-1,) * 4, None, "key")
    batch, count, heads, size = k.shape
    _check(v, (batch, count, heads, size), k.dtype, "value")
    _check(q, (batch, -1, -1, size), k.dtype, "query")
    _check(mask, (-1,) * 4, np.dtype(bool), "mask")
    _check(bias, (-1,) * 4, None, "bias")
    _check(lengths[0], (batch,), np.dtype("int32"), "query_seq_lengths")
    _check(lengths[1], (batch,), np.dtype("int32"), "key_value_seq_lengths")
    if q.shape[2] % heads:
        raise ValueError(
            f"The number of query heads must be a multiple of key/value heads, but got {q.shape[2]} vs {heads}"
        )


@jit(static_argnames=("is_causal", "window", "return_residual"))
def _attention(
    q: Array, k: Array, v: Array, bias: Any, mask: Any, q_lengths: Any, kv_lengths: Any, scale: Any, *,
    is_causal: bool, window: tuple[int, int] | None, return_residual: bool,
) -> tuple[Array, Array | None]:  # fmt: skip
    batch, queries, heads, size = q.shape
    keys, key_heads = k.shape[1:3]
    grouped = jnp.reshape(q, (batch, queries, key_heads, heads // key_heads, size))
    wide = jnp.promote_types(q.dtype, np.float32)
    logits = jnp.einsum("BTKGH,BSKH->BKGTS", grouped, k, preferred_element_type=wide)
    logits = jnp.reshape(logits, (batch, heads, queries, keys))
    logits = jnp.multiply(logits, jnp.astype(scale, logits.dtype))
    if bias is not None:
        logits = jnp.astype(jnp.add(logits, bias), logits.dtype)
    visible = _visible(queries, keys, mask, is_causal, window, q_lengths, kv_lengths)
    if visible is not None:
        least = -0.7 * min(float(dtypes.finfo(logits.dtype).max), float(np.finfo(np.float32).max))
        logits = jnp.where(visible, logits, jnp.asarray(least, logits.dtype))
    logits = jnp.astype(logits, np.float32) if logits.dtype.itemsize <= 4 else logits
    weights = jnp.reshape(jnp.astype(softmax(logits, axis=-1), k.dtype), (batch, key_heads, -1, queries, keys))
    out = jnp.reshape(jnp.einsum("BKGTS,BSKH->BTKGH", weights, v), (batch, queries, heads, size))
    if q_lengths is not None:
        counted = jnp.less(jnp.arange(queries)[None, :], q_lengths[:, None])
        out = jnp.multiply(out, jnp.astype(counted, out.dtype)[:, :, None, None])
    if not return_residual:
        return out, None
    residual = jnp.transpose(jnp.astype(logsumexp(logits, axis=-1), k.dtype), (0, 2, 1))
    return out, lax.stop_gradient(residual)


def _visible(
    queries: int, keys: int, mask: Any, is_causal: bool, window: Any, q_lengths: Any, kv_lengths: Any
) -> Array | None:
    """Which keys each query sees, as a bool array that broadcasts to (B, N, T, S); None for all."""
    q, k = jnp.arange(queries)[:, None], jnp.arange(keys)[None, :]
    conditions = [] if mask is None else [mask]
    if is_causal:
        conditions.append(jnp.greater_equal(q, k)[None, None])
    if window is not None:
        left, right = window
        near = jnp.logical_and(jnp.less_equal(q, jnp.add(k, left)), jnp.greater_equal(q, jnp.subtract(k, right)))
        conditions.append(near[None, None])
    if q_lengths is not None:
        conditions.append(jnp.less(q[None, None], q_lengths[:, None, None, None]))
    if kv_lengths is not None:
        conditions.append(jnp.less(k[None, None], kv_lengths[:, None, None, None]))
    result = None
    for condition in conditions:
        result = condition if result is None else jnp.logical_and(result, condition)
    return result
