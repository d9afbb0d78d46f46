"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax
from veery import numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery.nn._normalizing import logsumexp, softmax
from veery.numpy._promotion import Array, ArrayLike


def _in_four_dimensions(x: ArrayLike | None) -> Any:
    if x is None:
        return None
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _check(name: str, x: Any, shape: tuple[int, ...], dtype: Any = None) -> None:
    """Raise ValueError unless an operand has the shape, in which -1 stands for any size, and dtype."""
    if x is None:
        return
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {x.dtype}")
    if any(wanted not in (-1, size) for wanted, size in zip(shape, x.shape)):
        raise ValueError(f"{name} shape should be {list(shape)}: but got {x.shape}")


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
    """softmax(scale * query @ key.T + bias) @ value for each head.

    Sizes: B sequences, T queries, S keys, N query heads, K heads of keys and values (N is a multiple of K; each of them
    serves N / K successive query heads), H features.

    Args:
        query: [B, T, N, H] or [T, N, H].
        key: [B, S, K, H] or [S, K, H].
        value: like key.
        bias: added to the scores; [B or 1, N or 1, T or 1, S or 1].
        mask: bool array of such a shape: which scores count.
        scale: of the scores; 1 / sqrt(H) by default.
        is_causal: whether a query sees no later keys than its own position.
        query_seq_lengths: int32 [B]; queries from there on give 0.
        key_value_seq_lengths: int32 [B]; keys from there on do not count.
        local_window_size: how many keys before and after its own position a query sees, one number for both or two.
        implementation: None or "xla", which mean the same. "cudnn" is not available.
        return_residual: whether the logsumexp of the scores is returned too, [B, T, N].

    Raises:
        ValueError: shapes, dtypes or the implementation do not fit.

    >>> x = np.ones((1, 2, 1, 4), np.float32)
    >>> dot_product_attention(x, x, x).tolist() == x.tolist()
    True
    """
    shape = np.shape(query)
    q, k, v, b, m = map(_in_four_dimensions, (query, key, value, bias, mask))
    q_lengths, kv_lengths = (None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths))
    batch, _, heads, features = k.shape
    _check("value", v, k.shape, k.dtype)
    _check("query", q, (batch, -1, -1, features), k.dtype)
    _check("mask", m, (-1,) * 4, np.dtype(np.bool_))
    _check("bias", b, (-1,) * 4)
    _check("query_seq_lengths", q_lengths, (batch,), np.dtype(np.int32))
    _check("key_value_seq_lengths", kv_lengths, (batch,), np.dtype(np.int32))
    if q.shape[2] % heads:
        raise ValueError(
            f"The number of query heads must be a multiple of key/value heads, but got {q.shape[2]} vs {heads}"
        )
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    scale = 1.0 / math.sqrt(features) if scale is None else scale
    window = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size
    out, residual = _attention(q, k, v, b, m, q_lengths, kv_lengths, scale, is_causal=bool(is_causal), window=window)
    out = jnp.reshape(out, shape)
    return (out, jnp.reshape(residual, shape[:-1])) if return_residual else out


def _grouped(x: Array | None, heads: int) -> Any:
    """Scores-like [B, N, T, S] as [B, K, N / K, T, S]; a single head stays single."""
    if x is None:
        return None
    batch, n, t, s = x.shape
    return jnp.reshape(x, (batch, 1, 1, t, s) if n == 1 else (batch, heads, n // heads, t, s))


def _visible(t: int, s: int, mask: Any, q_lengths: Any, kv_lengths: Any, is_causal: bool, window: Any) -> Array | None:
    """Which scores [B, K, G, T, S] count; None for all."""
    masks = [] if mask is None else [mask]
    rows, columns = lax.broadcasted_iota(np.int32, (t, s), 0), lax.broadcasted_iota(np.int32, (t, s), 1)
    if is_causal:
        masks.append(columns <= rows)
    if window is not None:
        masks += [rows <= columns + window[0], rows >= columns - window[1]]
    if q_lengths is not None:
        masks.append(rows < jnp.reshape(q_lengths, (-1, 1, 1, 1, 1)))
    if kv_lengths is not None:
        masks.append(columns < jnp.reshape(kv_lengths, (-1, 1, 1, 1, 1)))
    visible = None
    for each in masks:
        visible = each if visible is None else jnp.logical_and(visible, each)
    return visible


@jit(static_argnames=("is_causal", "window"))
def _attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Any,
    mask: Any,
    q_lengths: Any,
    kv_lengths: Any,
    scale: ArrayLike,
    *,
    is_causal: bool,
    window: tuple[int, int] | None,
) -> tuple[Array, Array]:
    batch, t, n, features = q.shape
    s, heads = k.shape[1:3]
    grouped = jnp.reshape(q, (batch, t, heads, n // heads, features))
    computed = dtypes.promote_types(q.dtype, np.dtype(np.float32))
    scores = jnp.einsum("btkgh,bskh->bkgts", grouped, k, preferred_element_type=computed)
    scores = scores * jnp.asarray(scale, computed)
    if bias is not None:
        scores = (scores + _grouped(bias, heads)).astype(computed)
    visible = _visible(t, s, _grouped(mask, heads), q_lengths, kv_lengths, is_causal, window)
    if visible is not None:
        # finite, so that a row in which nothing counts is uniform and not NaN
        scores = jnp.where(visible, scores, -0.7 * float(dtypes.finfo(computed).max))
    scores = scores.astype(np.float32)
    weights = softmax(scores, axis=-1).astype(k.dtype)
    out = jnp.reshape(jnp.einsum("bkgts,bskh->btkgh", weights, v), (batch, t, n, features))
    if q_lengths is not None:
        counts = lax.broadcasted_iota(np.int32, (1, t, 1, 1), 1) < jnp.reshape(q_lengths, (-1, 1, 1, 1))
        out = out * counts.astype(out.dtype)
    residual = jnp.reshape(logsumexp(scores, axis=-1).astype(k.dtype), (batch, n, t))
    return out, lax.stop_gradient(jnp.transpose(residual, (0, 2, 1)))
