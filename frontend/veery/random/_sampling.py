"""Samples from given elements: permutations, choices, categories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.dimensions import is_symbolic_dim
from veery._core.shapes import canonicalize_axis, canonicalize_shape, concrete_int
from veery.lax import _samples
from veery.lax._placement import lays_out
from veery.numpy._promotion import ensure_arraylike, promote_dtypes_inexact
from veery.random._continuous import gumbel_of
from veery.random._keys import Array, ArrayLike, Shape, bits_of, check_key, check_shape, split_in, typed
from veery.random._uniform import randint, uniform_of


@lays_out
def permutation(
    key: ArrayLike, x: int | ArrayLike, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Array:
    """The elements of an array in random order along an axis.

    Args:
        key: one key.
        x: an array, or an integer for that many first integers.
        axis: the axis.
        independent: whether each vector along the axis has an order of its own.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        TypeError: x is a scalar, but no integer.

    >>> import veery.random
    >>> sorted(veery.random.permutation(veery.random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    key = check_key("permutation", key)
    _check_known_size(x)
    x = ensure_arraylike("permutation", x)
    axis = canonicalize_axis(axis, np.ndim(x) or 1)
    if not np.ndim(x):
        if not dtypes.issubdtype(dtypes.dtype_of(x), np.integer):
            raise TypeError("x must be an integer or at least 1-dimensional")
        return _shuffled_range(key, size=concrete_int(x, "argument x of jax.random.permutation()"))
    return _permutation(key, x, axis=axis, independent=bool(independent))


@jit(static_argnames=("size",))
def _shuffled_range(key: Any, *, size: int) -> Array:
    return _shuffle(typed(key), lax.iota(dtypes.default_int_dtype(), size), 0)


@jit(static_argnames=("axis", "independent"))
def _permutation(key: Any, x: Any, *, axis: int, independent: bool) -> Array:
    x = jnp.asarray(x)
    if independent or x.ndim == 1:
        return _shuffle(typed(key), x, axis)
    order = _shuffle(typed(key), lax.iota(dtypes.default_int_dtype(), x.shape[axis]), 0)
    return jnp.take(x, order, axis, unique_indices=True)


def _shuffle(key: Array, x: Array, axis: int) -> Array:
    """Sorted by random 32-bit numbers, often enough that equal ones do no harm: n**3 <= 2**(32 rounds)."""
    _check_known_size(x.size)
    rounds = int(np.ceil(3 * np.log(max(1, x.size)) / np.log(np.iinfo(np.uint32).max)))
    for _ in range(rounds):
        key, subkey = split_in(key)
        _, x = lax.sort_key_val(bits_of(subkey, 32, x.shape), x, axis)
    return x


def _check_known_size(size: Any) -> None:
    """Raise for a symbolic size, of which it is unknown how often to sort."""
    if is_symbolic_dim(size):
        raise NotImplementedError(
            f"shape polymorphism for `permutation` or `shuffle` for arrays of non-constant size: {size}. Sort by "
            "random numbers instead: jnp.argsort(random.uniform(key, shape))"
        )


def choice(
    key: ArrayLike,
    a: int | ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of an array.

    Args:
        key: one key.
        a: an array, or an integer for that many first integers.
        shape: of the sample.
        replace: whether an element may be chosen again.
        p: probabilities of the elements; equal ones by default.
        axis: along which elements lie.
        mode: of the Gumbel samples that choose without replacement by `p` (see gumbel).

    Raises:
        TypeError: shape is no sequence.
        ValueError: there are too few elements, or p has another size.

    >>> import veery.random, veery.numpy as jnp
    >>> veery.random.choice(veery.random.key(0), jnp.array([5, 7]), (3,)).shape
    (3,)
    """
    key = check_key("choice", key)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"shape argument of jax.random.choice must be a sequence, got {shape}")
    a = ensure_arraylike("choice", a)
    shape, ndim = canonicalize_shape(shape), np.ndim(a)
    axis = canonicalize_axis(axis, ndim) if ndim else 0
    count = np.shape(a)[axis] if ndim else concrete_int(a, "The error occurred in jax.random.choice()")
    draws = math.prod(shape)
    if draws == 0:
        return jnp.zeros(shape, dtype=dtypes.dtype_of(a))
    if count <= 0:
        raise ValueError("a must be greater than 0 unless no samples are taken")
    if not replace and draws > count:
        raise ValueError(
            f"Cannot take a larger sample (size {draws}) than population (size {count}) when 'replace=False'"
        )
    if p is not None:
        p = ensure_arraylike("choice", p)
        if np.shape(p) != (count,):
            raise ValueError(
                "p must be None or a 1D vector with the same size as a.shape[axis]. "
                f"p has shape {np.shape(p)} and a.shape[axis] is {count}."
            )
    return _choice(key, a if ndim else None, p, count=count, shape=shape, replace=bool(replace), axis=axis, mode=mode)


@jit(static_argnames=("count", "shape", "replace", "axis", "mode"))
def _choice(
    key: Any, a: Any, p: Any, *, count: int, shape: tuple[int, ...], replace: bool, axis: int, mode: str | None
) -> Array:
    index = _chosen(typed(key), p, count, shape, replace, mode)
    if a is None:
        return lax.reshape(index, shape)
    return jnp.take(a, lax.reshape(index, shape), axis)


def _chosen(key: Array, p: Any, count: int, shape: tuple[int, ...], replace: bool, mode: str | None) -> Array:
    """The indices of the chosen elements."""
    draws, integer = math.prod(shape), dtypes.default_int_dtype()
    if p is None:
        if replace:
            return randint(key, shape, 0, count)
        return lax.slice_in_dim(_shuffle(key, lax.iota(integer, count), 0), 0, draws, axis=0)
    (p,) = promote_dtypes_inexact(p)
    p = jnp.asarray(p)
    if replace:
        cumulative = jnp.cumsum(p)
        r = cumulative[-1] * (1 - uniform_of(key, shape, p.dtype))
        return lax.convert_element_type(jnp.searchsorted(cumulative, r), integer)
    scores = jnp.add(gumbel_of(key, (count,), p.dtype, mode), _samples.log(p))
    return lax.convert_element_type(lax.top_k(scores, draws)[1], integer)


@lays_out
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Categories with probabilities proportional to exp(logits).

    Args:
        key: one key.
        logits: unnormalised log probabilities.
        axis: along which the categories lie.
        shape: of the result; it ends with logits' shape without the axis, which it is by default.
        replace: whether a category may be chosen again, over the leading dimensions of the shape.
        mode: of the Gumbel samples (see gumbel).

    Raises:
        ValueError: the shape does not fit, or there are too few categories.

    >>> import veery.random, veery.numpy as jnp
    >>> int(veery.random.categorical(veery.random.key(0), jnp.array([-100.0, 0.0])))
    1
    """
    key = check_key("categorical", key)
    logits = ensure_arraylike("categorical", logits)
    size = np.shape(logits)
    axis = canonicalize_axis(axis, len(size))
    batch = size[:axis] + size[axis + 1 :]
    shape = batch if shape is None else canonicalize_shape(shape)
    check_shape("categorical", shape, batch)
    leading = shape[: len(shape) - len(batch)]
    if not replace and math.prod(leading) > size[axis]:
        raise ValueError(
            f"Number of samples without replacement ({math.prod(leading)}) cannot exceed number of categories "
            f"({size[axis]})."
        )
    return _categorical(key, logits, axis=axis, shape=shape, leading=leading, replace=bool(replace), mode=mode)


@jit(static_argnames=("axis", "shape", "leading", "replace", "mode"))
def _categorical(
    key: Any, logits: Any, *, axis: int, shape: tuple[int, ...], leading: tuple[int, ...], replace: bool, mode: Any
) -> Array:
    key, logits = typed(key), jnp.asarray(logits)
    if replace:
        rest = list(shape[len(leading) :])
        rest.insert(axis, logits.shape[axis])
        noise = gumbel_of(key, (*leading, *rest), logits.dtype, mode)
        spread = lax.expand_dims(logits, tuple(range(len(leading))))
        return jnp.argmax(jnp.add(noise, spread), axis=axis - logits.ndim)
    scores = jnp.add(logits, gumbel_of(key, logits.shape, logits.dtype, mode))
    _, indices = lax.top_k(jnp.moveaxis(scores, axis, -1), math.prod(leading))
    return lax.reshape(jnp.moveaxis(indices, -1, 0), shape)
