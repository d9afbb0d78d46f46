"""Products by NumPy's BLAS: whatever is divided among threads, and in which order the operands lie."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from veery.lax import _blas
from veery.lax._openblas import OF_NUMPY

R = np.random.default_rng(8)
SHAPES = [
    ((300, 90), (90, 7)),
    ((5, 90), (90, 300)),
    ((1, 600), (600, 1)),
    ((1, 40), (40, 90)),
    ((90, 40), (40, 1)),
    ((7, 20, 30), (7, 30, 11)),
    ((2, 70, 30), (2, 30, 9)),
    ((2, 3, 9, 30), (2, 3, 30, 50)),
    ((3, 1, 200), (3, 200, 1)),
    ((2, 3, 1, 129), (2, 3, 129, 1)),
]


def sample(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = R.normal(size=shape)
    return (x + 1j * R.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_blas, "_BLOCK", 200)
    monkeypatch.setattr(_blas, "_TERMS", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
@pytest.mark.parametrize("shapes", SHAPES)
def test_products_by_threads(shapes: tuple[tuple[int, ...], ...], threads: int, dtype: str) -> None:
    a, b = (sample(shape, dtype) for shape in shapes)
    expected = np.einsum("...ij,...jk->...ik", a.astype(complex), b.astype(complex))
    expected = expected if a.dtype.kind == "c" else expected.real
    tolerance = 1e-12 if a.real.dtype == np.float64 else 1e-4
    turned = lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    for x in (a, turned(a)):
        for y in (b, turned(b)):
            found = _blas.product(x, y, threads)
            assert found.dtype == dtype and found.flags.c_contiguous
            np.testing.assert_allclose(
                found, expected if found.dtype.kind == "c" else expected.real, tolerance, tolerance
            )


@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 100_003, 1 << 20])
def test_dots_are_added_in_pairs(size: int) -> None:
    """Of numbers of one sign a sum in order would be off by thousands of units in the last place."""
    x = np.full((1, size), 0.1, np.float32)
    (found,) = _blas.product(x, x.T, 2).ravel()
    exact = size * float(np.float32(0.1)) ** 2
    assert abs(found - exact) <= 60 * np.spacing(np.float32(exact))


@pytest.mark.usefixtures("small_blocks")
def test_numpy_has_one_thread_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of several calls, and then as many as before, also after a failure."""
    get, set = OF_NUMPY._threads
    before = get()
    set(3)
    if get() != 3:
        pytest.skip("NumPy is linked with another library")
    seen: list[int] = []
    matmul = np.matmul
    monkeypatch.setattr(np, "matmul", lambda *xs, **options: (seen.append(get()), matmul(*xs, **options))[1])
    x = R.normal(size=(60, 60))

    def work() -> None:
        for _ in range(20):
            _blas.product(x, x, 2)

    try:
        workers = [threading.Thread(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert {*seen} == {1} and len(seen) == 120 and get() == 3
        with pytest.raises(ValueError):
            _blas.product(x, x[1:], 2)
        assert get() == 3
    finally:
        set(before)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("within", [False, True])
def test_a_product_after_a_fork(within: bool) -> None:
    """The parent's threads are not there; they may have been in the middle of one."""
    x = R.normal(size=(60, 60))
    right = _blas.product(x, x, 2)
    threads = OF_NUMPY._threads[0]()

    def fork() -> int:
        child = os.fork()
        if child == 0:
            same = OF_NUMPY._threads[0]() == threads and (_blas.product(x, x, 2) == right).all()
            os._exit(int(not same))
        return os.waitpid(child, 0)[1]

    if within:
        with OF_NUMPY:
            assert fork() == 0
    else:
        assert fork() == 0
    assert OF_NUMPY._threads[0]() == threads
