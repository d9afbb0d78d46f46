"""Arguments of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# name -> a function, and its arguments
Programs = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


class Some:
    """Arrays of a library with normal numbers, which follow from a seed."""

    def __init__(self, jnp: Any, seed: int) -> None:
        self._jnp = jnp
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Any:
        return self._jnp.asarray(self._rng.standard_normal(shape, np.float32))

    def integers(self, most: int, *shape: int, dtype: Any = np.int32) -> Any:
        return self._jnp.asarray(self._rng.integers(0, most, shape).astype(dtype))

    def layers(self, *sizes: int) -> list[tuple[Any, Any]]:
        """Weights and biases of a network."""
        return [(self(m, n) * m**-0.5, self._jnp.zeros(n, np.float32)) for m, n in zip(sizes, sizes[1:])]

    def positive(self, size: int) -> Any:
        """A symmetric matrix with eigenvalues above 1."""
        x = self(size, size)
        return x @ x.T / size + self._jnp.eye(size, dtype=np.float32)
