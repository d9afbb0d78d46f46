"""Settings of all tests: a cache of compiled programs that workers and reruns of one session share."""

from __future__ import annotations

import datetime
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _restore_settings():
    """Tests may change settings; each begins with those the session began with."""
    from veery._core.config import config

    before = config.values
    yield
    now = config.values
    for name, value in before.items():
        if now[name] != value:
            config.update(name, value)


@pytest.fixture(autouse=True)
def _vulkan_stays_closed(request):
    """Mesa's software device polls on two cores once it is open: all else would take three times as long.

    The tests of Vulkan come last, therefore: `make test` keeps pytest-xdist from running large groups first.
    """
    is_open = lambda: "vulkan" in getattr(sys.modules.get("veery_runtime.device"), "_gpus", ())
    before = is_open()
    yield
    may_open = before or "vulkan" in request.node.nodeid
    assert may_open or not is_open(), "open Vulkan in tests/vulkan, or in a process of its own"


@pytest.fixture
def x64():
    from veery._core.config import enable_x64

    with enable_x64(True):
        yield


@pytest.fixture
def references():
    """Operations are evaluated by their NumPy references, without a compiler."""
    from support.numpy_trace import numpy_evaluation

    with numpy_evaluation() as trace:
        yield trace


def pytest_report_header() -> str:
    return f"VEERY_TEST_SEED={os.environ['VEERY_TEST_SEED']}"


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("VEERY_TEST_NO_COMPILER"):  # `make test-fast`
        import support.no_compiler.sitecustomize  # noqa: F401
    # What chooses programs at random: workers and reruns of one session have it from here.
    os.environ.setdefault("VEERY_TEST_SEED", datetime.date.today().strftime("%Y%m%d"))
    # Compiled programs must not be found from an earlier run of another version of the lowering.
    if "VEERY_CACHE_DIR" not in os.environ:
        import tempfile

        os.environ["VEERY_CACHE_DIR"] = tempfile.mkdtemp(prefix="veery-tests-")
