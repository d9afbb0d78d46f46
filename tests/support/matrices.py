"""Matrices of all dtypes of LAPACK's, and what is said of their factors."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.samples import normal_samples

DTYPES = ("float32", "float64", "complex64", "complex128")

random = normal_samples(0)


def sample(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Normal numbers, of which complex ones have both parts."""
    return np.asarray(random(*shape, complex=dtype.startswith("complex")), dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    """The conjugate matrices, transposed."""
    return np.conj(x.swapaxes(-1, -2))


def close(actual: Any, expected: Any, dtype: str) -> None:
    """They are of one shape, and as near as computing in a dtype allows."""
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-10
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def check_unitary(q: np.ndarray, dtype: str) -> None:
    """Rows or columns, whichever are fewer, are orthonormal."""
    product = adjoint(q) @ q if q.shape[-2] >= q.shape[-1] else q @ adjoint(q)
    close(product, np.broadcast_to(np.eye(product.shape[-1]), product.shape), dtype)
