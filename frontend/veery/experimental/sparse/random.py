"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import numpy as jnp, random
from veery._core.dtypes import canonicalize_dtype
from veery.experimental.sparse._bcoo import BCOO
from veery.experimental.sparse.util import Array, nfold_vmap


def random_bcoo(
    key: Array,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A BCOO with random elements in random places.

    Args:
        key: a key.
        shape: of the array.
        dtype: of the elements.
        indices_dtype: of the indices; int32 by default.
        nse: how many elements are stored, or, if below 1, which part of the elements.
        n_batch, n_dense: the numbers of axes of the batch and of dense axes.
        unique_indices: whether no place is taken twice.
        sorted_indices: whether the places are in order.
        generator: makes the elements of (key, shape, dtype, **kwds).

    Raises:
        ValueError: there are not so many places.
    """
    shape = tuple(map(operator.index, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if n_batch < 0 or n_dense < 0 or n_sparse < 0:
        raise ValueError(f"Invalid n_batch={n_batch}, n_dense={n_dense} for shape={shape}")
    batch, sizes, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    places = math.prod(sizes)
    count = math.ceil(nse * places) if 0 < nse < 1 else operator.index(nse)  # type: ignore[arg-type]
    if not 0 <= count <= places:
        raise ValueError(f"got nse={nse}, expected to be between 0 and {places}")
    key_places, key_values = random.split(key)

    def indices_of(key: Array) -> Array:
        chosen = random.choice(key, places, (count,), replace=not unique_indices)
        found = jnp.unravel_index(chosen, sizes)
        made = jnp.stack(found, axis=-1) if n_sparse else jnp.zeros((count, 0), np.int32)
        return made.astype(indices_dtype or np.int32)

    indices = nfold_vmap(indices_of, n_batch, broadcasted=False)(
        random.split(key_places, batch) if batch else key_places
    )
    data = generator(key_values, (*batch, count, *dense), canonicalize_dtype(dtype), **kwds)
    made = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return made.sort_indices() if sorted_indices else made
