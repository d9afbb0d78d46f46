"""Transformations are tested in NumPy and float64: what they do to graphs does not depend on the compiler."""

from __future__ import annotations

import pytest
from support.numpy_trace import numpy_evaluation

import veery


@pytest.fixture
def in_numpy():
    """Operations are evaluated by their references, with 64-bit types."""
    with veery.enable_x64(True), numpy_evaluation():
        yield
