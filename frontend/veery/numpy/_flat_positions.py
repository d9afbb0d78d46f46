"""Positions in arrays as positions in flattened ones, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.shapes import canonicalize_shape
from veery._core.trace import Tracer
from veery._core.tree import tree_leaves
from veery.numpy._arithmetic import _dtype, choose, clip, is_kind, remainder
from veery.numpy._creation import asarray
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    as_positions,
    broadcast_arrays,
    ensure_arraylike,
    ensure_arraylikes,
    to_dtype,
    unwrap,
)
from veery.numpy._selection import known_values


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Positions in a flattened array as positions in each dimension; out of bounds those at the edge.

    The shape may be traced, as an array or a sequence of integers.

    >>> unravel_index(np.array([4]), (2, 3))
    (Array([1], dtype=int32), Array([1], dtype=int32))
    """
    indices = ensure_arraylike("unravel_index", indices)
    if not is_kind(unwrap(indices), np.integer):
        raise TypeError(f"unravel_index: indices must be integers, got {_dtype(unwrap(indices))}")
    if not any(isinstance(n, Tracer) for n in tree_leaves(shape)):
        return _unravel_index(asarray(indices), None, shape=canonicalize_shape(shape))
    sizes = asarray(shape)
    if sizes.ndim > 1 or not is_kind(sizes, np.integer):
        raise ValueError(f"unravel_index: shape should be a scalar or 1D sequence of integers, got {shape}")
    return _unravel_index(asarray(indices), lax.reshape(sizes, (sizes.size,)), shape=None)


@jit(static_argnames=("shape",))
def _unravel_index(indices: Array, sizes: Any, shape: Any) -> tuple[Array, ...]:
    """`shape` is a tuple of ints, or None where `sizes` is an array."""
    dtype, weak = indices.dtype, indices.weak_type
    indices = as_positions(indices)
    if shape is None:
        shape = [lax.squeeze(n, (0,)) for n in lax.split(to_dtype(sizes, indices.dtype), [1] * sizes.size)]
    total = math.prod(shape)
    at_least = lambda least, n: max(n, least) if isinstance(n, int) else lax.max(n, n.dtype.type(least))
    if is_kind(indices, np.signedinteger):  # negative positions count from the end
        indices = choose(lax.lt(indices, 0), lax.add(indices, total), indices)
    last = at_least(0, total - 1)
    indices = lax.clamp(
        np.asarray(0, indices.dtype), indices, np.asarray(last, indices.dtype) if sizes is None else last
    )
    coordinates = []
    for n in reversed(shape):
        divisor = lax.full_like(indices, at_least(1, n))
        coordinates.append(to_dtype(lax.rem(indices, divisor), dtype, weak))
        indices = lax.div(indices, divisor)
    return tuple(reversed(coordinates))


_unravel_index._name = "unravel_index"


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Array:
    """Positions in each dimension as positions in the flattened array.

    Args:
        multi_index: positions, an array for each dimension.
        dims: the array's shape.
        mode: out of bounds: "raise" (not while traced), "wrap", "clip" or "ignore", which computes with what is given.
        order: "C" or "F".
        dtype: of the result, an integer; by default that of the positions.

    >>> ravel_multi_index((np.array([1]), np.array([1])), (2, 3))
    Array([4], dtype=int32)
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    dims = tuple(int(d) for d in dims)
    multi_index = ensure_arraylikes("ravel_multi_index", *multi_index)
    positions = [asarray(i) for i in multi_index]
    result = dtypes.result_type(0, *positions) if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype)
    if any(not is_kind(i, np.integer) for i in positions):
        raise TypeError("only int indices permitted")
    if mode == "raise":
        message = (
            "The error occurred because ravel_multi_index was jit-compiled with mode='raise'. Use mode='wrap' or "
            "mode='clip' instead."
        )
        if any(((v := known_values(i, message)) < 0).any() or (v >= n).any() for i, n in zip(positions, dims)):
            raise ValueError("invalid entry in coordinates array")
    elif mode in ("wrap", "clip"):
        fit = remainder if mode == "wrap" else lambda i, n: clip(i, 0, n - 1)
        positions = [fit(as_positions(i), n) for i, n in zip(positions, dims)]
    elif mode != "ignore":
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    if order == "F":
        strides = [math.prod(dims[:i]) for i in range(len(dims))]
    elif order == "C":
        strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    else:
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    if not dtypes.issubdtype(result, np.integer):
        raise ValueError(f"ravel_multi_index: dtype={result} is not an integer type.")
    return _ravel(tuple(positions), strides=tuple(strides), dtype=result)


@jit(static_argnames=("strides", "dtype"))
def _ravel(positions: tuple[Array, ...], strides: tuple[int, ...], dtype: Any) -> Array:
    terms = broadcast_arrays(*(lax.mul(to_dtype(i, dtype), dtype.type(s)) for i, s in zip(positions, strides)))
    out = terms[0]
    for term in terms[1:]:
        out = lax.add(out, term)
    return out


_ravel._name = "ravel_multi_index"
