"""Settings of all tests: a cache of compiled programs that workers and reruns of one session share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _restore_settings():
    """Tests may change settings; each begins with those the session began with."""
    from veery._core.config import config

    before = dict(config.values)
    yield
    for name, value in before.items():
        if config.values[name] != value:
            config.update(name, value)


def pytest_configure(config: pytest.Config) -> None:
    # Compiled programs must not be found from an earlier run of another version of the lowering.
    if "VEERY_CACHE_DIR" not in os.environ:
        import tempfile

        os.environ["VEERY_CACHE_DIR"] = tempfile.mkdtemp(prefix="veery-tests-")
