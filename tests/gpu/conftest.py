"""The GPUs of these tests: each runs on a Vulkan device, or is skipped, and where NVIDIA's driver is on one of CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes.util import find_library
from typing import Any

import pytest

import veery

PLATFORMS = ["vulkan", "cuda"] if find_library("cuda") else ["vulkan"]


@pytest.fixture(scope="session", params=PLATFORMS)
def gpu(request: pytest.FixtureRequest) -> Any:
    try:
        return veery.devices(request.param)[0]
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.fixture
def on_gpu(gpu: Any) -> Iterator[Any]:
    """New arrays and computations go to the GPU."""
    with veery.default_device(gpu):
        yield gpu
