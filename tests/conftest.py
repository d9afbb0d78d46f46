"""Settings of all tests and of the examples in docstrings: folders of a session's own, what is restored after each."""

from __future__ import annotations

import datetime
import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")
gc.disable()  # until the tests are collected
_LAST = ("tests/gpu/", "tests/vulkan/")  # see `_vulkan_stays_closed`


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

    The tests that open it come last, therefore: `make test` keeps pytest-xdist from running large groups first.
    """
    is_open = lambda: "vulkan" in getattr(sys.modules.get("veery_runtime.discovery"), "_gpus", ())
    before = is_open()
    yield
    may_open = before or request.node.nodeid.startswith(_LAST) or isinstance(request.node, pytest.DoctestItem)
    assert may_open or not is_open(), "open Vulkan in tests/gpu or tests/vulkan, or in a process of its own"


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request):
    """The files of examples in docstrings go to a folder of their own."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.startswith(_LAST))  # see `_vulkan_stays_closed`


def pytest_collection_finish() -> None:
    """Collected tests are half a million objects, which the collector would look through each time: a tenth of all."""
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"VEERY_TEST_SEED={os.environ['VEERY_TEST_SEED']}"


_folder = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("VEERY_TEST_NO_COMPILER"):  # `make test-fast`
        import support.no_compiler.sitecustomize  # noqa: F401
    # What chooses programs at random: workers and reruns of one session have it from here.
    os.environ.setdefault("VEERY_TEST_SEED", datetime.date.today().strftime("%Y%m%d"))
    if hasattr(config, "workerinput"):
        return  # a worker of pytest-xdist has the folders of the process that started it
    config.stash[_folder] = folder = Path(tempfile.mkdtemp(prefix="veery-tests-"))
    # Compiled programs must not be found from an earlier run of another version of the lowering.
    os.environ.setdefault("VEERY_CACHE_DIR", str(folder / "cache"))
    # All that tests make outside of `tmp_path` is here, where it can be told from what others make at the same time.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # where `tmp_path` is
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
    (folder / "temporary").mkdir()


@pytest.hookimpl(trylast=True)  # when workers have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that leaves files behind: tests write to `tmp_path`, or remove what they made."""
    folder = session.config.stash.get(_folder, None)
    if folder is None:
        return
    # What a process has that is killed while it loads a program (iree_dylib_..., which IREE names and removes itself)
    # or has another compile one (veery-compile-...) stays. Some tests kill such processes.
    is_killed = lambda name: name.startswith(("iree_dylib_", "veery-compile-")) or "_dispatch_" in name
    files = lambda: [name for name in os.listdir(folder / "temporary") if not is_killed(name)]
    end = time.monotonic() + 5  # the compiler's processes end when they see that ours have
    while (left := sorted(files())) and time.monotonic() < end:
        time.sleep(0.1)
    if left:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(f"\nleft behind in the folder for temporary files: {', '.join(left)}", red=True)
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_folder, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
