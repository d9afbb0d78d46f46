"""Vector quantization."""

from __future__ import annotations

from veery import lax, numpy as jnp
from veery.numpy._elementwise import run
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.numpy._shaping import as_array

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """For each observation the nearest code.

    Args:
        obs: array of shape (m, n), or (m,) for numbers.
        code_book: array of shape (k, n) or (k,).
        check_finite: accepted for compatibility.

    Returns:
        The places of the codes, integers of shape (m,), and their distances.

    Raises:
        TypeError: obs or code_book is no array, or their sizes n differ.
        ValueError: they have different ranks, or neither one nor two dimensions.

    >>> import veery.numpy as jnp
    >>> codes, distances = vq(jnp.array([1.0, 8.0]), jnp.array([0.0, 10.0]))
    >>> codes.tolist(), distances.tolist()
    ([0, 1], [1.0, 2.0])
    """
    obs, code_book = ensure_arraylike("scipy.cluster.vq.vq", obs, code_book)
    x, codes = (as_array(a) for a in promote_dtypes_inexact(obs, code_book))
    if x.ndim != codes.ndim:
        raise ValueError("Observation and code_book should have the same rank")
    if x.ndim == 1:
        x, codes = (lax.expand_dims(a, (1,)) for a in (x, codes))
    if x.ndim != 2:
        raise ValueError("ndim different than 1 or 2 are not supported")
    places, distances = run(_nearest, x, codes)
    return places, distances


def _nearest(x: Array, codes: Array) -> tuple[Array, Array]:
    distances = jnp.linalg.norm(x[:, None, :] - codes[None, :, :], axis=-1)
    places = jnp.argmin(distances, axis=-1)
    return places, jnp.take_along_axis(distances, places[:, None], axis=-1)[:, 0]
