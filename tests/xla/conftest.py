"""The XLA device of these tests, of the plugin that the development extra brings; without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import veery


@pytest.fixture(scope="session")
def xla() -> Any:
    try:
        return veery.devices("xla")[0]
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture
def on_xla(xla: Any) -> Iterator[Any]:
    """New arrays and computations go to the XLA device."""
    with veery.default_device(xla):
        yield xla
