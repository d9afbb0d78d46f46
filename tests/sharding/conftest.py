"""Eight CPU devices."""

from __future__ import annotations

import pytest

import veery
import veery_runtime


@pytest.fixture(scope="session", autouse=True)
def eight_devices():
    """More devices can be asked for at any time."""
    veery_runtime.configure(num_cpu_devices=max(8, len(veery.devices("cpu"))))
