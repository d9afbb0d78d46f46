"""The Vulkan device of these tests; without one they are skipped, with what was looked for."""

from __future__ import annotations

from typing import Any

import pytest

import veery


@pytest.fixture(scope="session")
def vulkan() -> Any:
    try:
        return veery.devices("vulkan")[0]
    except RuntimeError as error:
        pytest.skip(str(error))
