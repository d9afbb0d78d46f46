"""What is asked of OpenBLAS, and of libraries in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veery._core.host import processors
from veery.lax import _openblas
from veery.lax._openblas import OpenBLAS


def linked_with(library: Any, monkeypatch: pytest.MonkeyPatch) -> OpenBLAS:
    monkeypatch.setattr(_openblas.ctypes, "PyDLL", lambda name: library)
    blas = OpenBLAS(lambda: np)
    blas.let_rest()
    return blas


@pytest.mark.parametrize(
    ("core", "features", "expected"),
    [
        (b"Haswell", {"AVX512F": True}, False),
        (b"Zen", {"AVX512F": True}, False),
        (b"Haswell", {"AVX512F": False}, True),
        (b"Haswell", {}, True),
        (b"SkylakeX", {"AVX512F": True}, True),
        (b"Sapphirerapids", {"AVX512F": True}, True),
    ],
)
@pytest.mark.parametrize("name", ["{}", "scipy_{}", "scipy_{}64_", "{}64_"])
def test_vectors(
    core: bytes, features: dict[str, bool], expected: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(**{name.format("openblas_get_corename"): lambda: core})
    monkeypatch.setattr(_openblas, "_features", lambda: features)
    assert linked_with(library, monkeypatch).has_wide_vectors is expected


def test_another_library_has_one_thread_and_vectors_as_wide_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    other = linked_with(object(), monkeypatch)
    assert other.has_wide_vectors
    with other:
        assert other._threads[0]() == 1


def test_without_a_library() -> None:
    nothing = OpenBLAS(lambda: None)
    nothing.let_rest()
    assert nothing.has_wide_vectors
    with nothing, nothing.for_vectors(1 << 30):
        assert nothing._threads[0]() == 1


class Library:
    """Tells what it is asked, with four threads; `asked` has the rest of what is called, and how long they wait."""

    def __init__(self) -> None:
        self.number = 4
        self.asked: list[Any] = []
        self.openblas_get_num_threads = lambda: self.number
        # Functions of ctypes can be told what they give.
        self.openblas_set_num_threads = lambda number: setattr(self, "number", number)
        self.openblas_read_env = lambda: self.asked.append(os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
        self.blas_thread_shutdown_ = lambda: self.asked.append("end")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread in Python, and nothing in the environment."""
    monkeypatch.setattr(_openblas.threading, "active_count", lambda: 1)
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)


@pytest.mark.usefixtures("alone")
def test_products_with_vectors_have_the_threads_that_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    blas = linked_with(library, monkeypatch)
    for elements, number in ((1, 1), (1 << 18, 2), (3 << 17, 3), (1 << 30, 4)):
        with blas.for_vectors(elements):
            assert library.number == number
            with blas, blas.for_vectors(1 << 30):
                assert library.number == 1
            assert library.number == number
        assert library.number == 4
    with pytest.raises(ZeroDivisionError), blas.for_vectors(1 << 18):
        raise ZeroDivisionError
    assert library.number == 4 and library.asked == ["18", "end"]  # once


@pytest.mark.usefixtures("alone")
def test_the_fewest_threads_that_one_allows_are_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where those within leave in another order than they came in."""
    library = Library()
    blas = linked_with(library, monkeypatch)
    for number in (2, 1, 3):
        blas._enter(number)
    assert library.number == 1
    blas._exit(1)
    assert library.number == 2
    blas._exit(2)
    assert library.number == 3
    blas._exit(3)
    assert library.number == 4


@pytest.mark.usefixtures("alone")
def test_nothing_is_changed_beside_other_threads_or_where_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library()
    monkeypatch.setattr(_openblas.threading, "active_count", lambda: 2)
    blas = linked_with(library, monkeypatch)
    with blas.for_vectors(1 << 30):
        assert library.number == 1
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "24")
    blas = linked_with(library, monkeypatch)
    with blas.for_vectors(1 << 30):
        assert library.number == 4
    assert not library.asked and os.environ["OPENBLAS_THREAD_TIMEOUT"] == "24"


PROGRAM = """
import os, time
import numpy as np
{first}
x, ones = np.ones((3000, 3000), np.float32), np.ones(3000, np.float32)
def used():
    begin = time.process_time()
    for _ in range(10):
        assert (x @ ones == 3000).all()
    time.sleep(0.3)
    return time.process_time() - begin
used()
assert "OPENBLAS_THREAD_TIMEOUT" not in os.environ
print(min(used() for _ in range(3)))
"""


@pytest.mark.skipif(processors() < 2, reason="it has one thread")
def test_threads_of_numpy_rest_after_a_call() -> None:
    """In a program's pauses, of 0.3 s here, they take no time; without veery they look for work for 20 ms and more."""
    if _openblas.OF_NUMPY._linked("blas_thread_shutdown_") is None:
        pytest.skip("NumPy is linked with another library")
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_THREAD_TIMEOUT"}
    run = lambda first: float(
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(first=first)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert run("import veery") < run("") - 0.01


def test_that_of_numpy_and_that_of_scipy_are_found() -> None:
    for library in (_openblas.OF_NUMPY, _openblas.OF_SCIPY):
        get, set = library._threads
        before = get()
        with library, library:
            assert get() == 1
        assert get() == before
