"""What is asked of OpenBLAS, and of libraries in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veery.lax import _openblas
from veery.lax._openblas import OpenBLAS


def linked_with(library: Any, monkeypatch: pytest.MonkeyPatch) -> OpenBLAS:
    monkeypatch.setattr(_openblas.ctypes, "PyDLL", lambda name: library)
    return OpenBLAS(lambda: np)


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


def test_that_of_numpy_and_that_of_scipy_are_found() -> None:
    for library in (_openblas.OF_NUMPY, _openblas.OF_SCIPY):
        get, set = library._threads
        before = get()
        with library, library:
            assert get() == 1
        assert get() == before
