"""Operands for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def normal_samples(seed: int) -> Callable[..., np.ndarray]:
    """A function of a shape, `random(2, 3, complex=True)`, that gives float64 or complex128 numbers in sequence."""
    rng = np.random.default_rng(seed)

    def random(*shape: int, complex: bool = False) -> np.ndarray:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if complex else x

    return random
