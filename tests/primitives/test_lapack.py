"""LAPACK and BLAS in place: factors of stacks of all dtypes and layouts against NumPy, failures, threads, forks."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.matrices import DTYPES, adjoint, check_unitary, close, sample

from veery.lax import _lapack, _linalg_reference as reference
from veery.lax._openblas import OF_SCIPY

SQUARE = [(0, 0), (1, 1), (5, 5), (40, 40), (3, 4, 4), (2, 3, 33, 33), (0, 3, 3), (2, 0, 0)]
ANY = [(0, 3), (3, 0), (1, 4), (4, 1), (40, 30), (3, 4, 7), (2, 3, 7, 4), (2, 40, 33), (0, 2, 3)]


def layouts(x: np.ndarray) -> Iterator[np.ndarray]:
    """The same matrices, also where they are not in one piece, and in memory that must not be written to."""
    yield x
    fixed = x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    fixed.flags.writeable = False
    yield fixed
    yield np.repeat(x, 2, -1)[..., ::2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_factors_of_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    positive = x @ adjoint(x) / max(shape[-1], 1) + np.eye(shape[-1], dtype=dtype)
    wide = positive.astype(np.result_type(dtype, np.float64))
    for given in layouts(positive):
        factor = reference.cholesky(given)
        assert factor.dtype == dtype
        close(factor, np.linalg.cholesky(wide), dtype)
        for lower in (False, True):
            v, w = reference.eigh(given, lower=lower)
            assert v.dtype == dtype and w.dtype == given.real.dtype
            close(w, np.linalg.eigvalsh(wide), dtype)
            close(v * w[..., None, :] @ adjoint(v), wide, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SQUARE, *ANY])
def test_factors_of_matrices(shape: tuple[int, ...], dtype: str) -> None:
    m, n = shape[-2:]
    k = min(m, n)
    for x in layouts(sample(shape, dtype)):
        before = x.copy()
        factors, pivots, order = reference.lu(x)
        lower, upper = np.tril(factors, -1)[..., :k] + np.eye(m, k, dtype=dtype), np.triu(factors)[..., :k, :]
        close(lower @ upper, np.take_along_axis(x, order[..., None].astype(int), -2), dtype)
        assert np.array_equal(reference.lu_pivots_to_permutation(pivots, permutation_size=m), order)
        for full in (False, True):
            q, r = reference.qr(x, full_matrices=full, pivoting=False)
            close(q @ r, x, dtype)
            check_unitary(q, dtype)
            assert not np.tril(r, -1).any()
            s, u, vh = reference.svd(x, full_matrices=full, compute_uv=True)
            close(s, np.linalg.svd(x.astype(np.result_type(dtype, np.float64)), compute_uv=False), dtype)
            close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, dtype)
            check_unitary(u, dtype)
            check_unitary(vh, dtype)
            (alone,) = reference.svd(x, full_matrices=full, compute_uv=False)
            close(alone, s, dtype)
            assert {y.dtype.name for y in (factors, q, r, u, vh)} == {dtype}
        assert np.array_equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SQUARE, (200, 12, 12)])
def test_determinants(shape: tuple[int, ...], dtype: str) -> None:
    for x in layouts(sample(shape, dtype)):
        found = reference.determinant(x)
        assert type(found) is np.ndarray and found.dtype == dtype and found.shape == shape[:-2]
        expected = np.linalg.det(x.astype(np.result_type(dtype, np.float64)))
        np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype in ("float32", "complex64") else 1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4, 12, 40])
def test_determinants_without_an_inverse(n: int, dtype: str) -> None:
    x = sample((5, n, n), dtype)
    x[0, :, 1], x[1, 0, 0], x[2, 2], x[3] = 0, np.nan, np.inf, np.eye(n)[::-1]
    found = reference.determinant(x)
    assert found[0] == 0 and np.isnan(found[1]) and not np.isfinite(found[2])
    assert np.isclose(found[3], (-1) ** (n * (n - 1) // 2), rtol=1e-6)
    assert np.isfinite(found[4])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_triangular_systems(shape: tuple[int, ...], dtype: str) -> None:
    n = shape[-1]
    whole = sample(shape, dtype) / max(n, 1) + 2 * np.eye(n, dtype=dtype)
    for code, a in itertools.product(range(32), layouts(whole)):
        names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        params = {name: bool(code >> i & 1) for i, name in enumerate(names)}
        b = sample((*shape[:-2], n, 3) if params["left_side"] else (*shape[:-2], 3, n), dtype)
        x = reference.triangular_solve(a, b, **params)
        part = np.tril(whole) if params["lower"] else np.triu(whole)
        part = np.where(np.eye(n, dtype=bool), 1, part) if params["unit_diagonal"] else part
        part = part.conj() if params["conjugate_a"] else part
        part = part.swapaxes(-1, -2) if params["transpose_a"] else part
        close(part @ x if params["left_side"] else x @ part, b, dtype)


FUNCTIONS: dict[str, Callable[[np.ndarray], list[np.ndarray]]] = {
    "cholesky": lambda x: [reference.cholesky(x)],
    "eigh": lambda x: reference.eigh(x, lower=True),
    "svd": lambda x: reference.svd(x, full_matrices=False, compute_uv=True),
    "lu": reference.lu,
    "qr": lambda x: reference.qr(x, full_matrices=False, pivoting=False),
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [3, 40])
def test_what_is_no_number_disturbs_its_own_matrix_alone(name: str, bad: float, n: int) -> None:
    """Of infinity LAPACK's singular values came to no end."""
    x = sample((3, n, n), "float64")
    x = x @ adjoint(x) + np.eye(n)
    alone = [FUNCTIONS[name](x[i]) for i in (0, 2)]
    x[1, 2, 1] = bad
    found = FUNCTIONS[name](x)
    for i, expected in zip((0, 2), alone):
        for y, z in zip(found, expected):
            np.testing.assert_allclose(y[i], z, rtol=1e-9, atol=1e-9)
    if name != "lu":
        assert np.isnan(found[0][1]).any()
    else:
        assert sorted(found[2][1]) == list(range(n))


def test_results_have_memory_of_their_own() -> None:
    """Programs give their own memory as arguments, and take that of the results."""
    x, row = sample((200, 200), "float32"), sample((200,), "float32")
    solve = dict(left_side=True, lower=True, transpose_a=False, conjugate_a=False, unit_diagonal=False)
    functions: dict[str, Callable[[np.ndarray], Any]] = FUNCTIONS | {
        "triangular_solve": lambda x: [reference.triangular_solve(x, x, **solve)],
        "householder_product": lambda x: [reference.householder_product(x, row)],
        "householder_product of nothing": lambda x: [reference.householder_product(x, row[:0])],
        "ormqr": lambda x: [reference.ormqr(x, row, x, left=True, transpose=False)],
        "ormqr of nothing": lambda x: [reference.ormqr(x, row[:0], x, left=True, transpose=False)],
        "schur": lambda x: reference.schur(x, compute_schur_vectors=True),
        "hessenberg": reference.hessenberg,
        "tridiagonal": lambda x: reference.tridiagonal(x + x.T, lower=True),
        "tridiagonal_solve": lambda x: [reference.tridiagonal_solve(row, row, row, x, perturb_singular=False)],
        "eig": lambda x: reference.eig(
            x, compute_left_eigenvectors=True, compute_right_eigenvectors=True, enable_eigvec_derivs=False
        ),
    }
    for name, function in functions.items():
        for result in function(x):
            assert not np.shares_memory(result, x) and not np.shares_memory(result, row), name


def test_what_is_not_read_may_be_anything() -> None:
    x = np.array([[4.0, np.nan], [2.0, 5.0]])
    assert np.isfinite(reference.eigh(x, lower=True)[1]).all() and np.isfinite(reference.cholesky(x)).all()
    assert np.isnan(reference.eigh(x, lower=False)[1]).all()


def test_matrices_that_are_not_definite_or_singular() -> None:
    good, bad = np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    for stack in (np.stack([good, bad]), np.stack([np.eye(40), -np.eye(40)])):
        factors = reference.cholesky(stack)
        assert np.isfinite(factors[0]).all()
        np.testing.assert_array_equal(factors[1], np.where(np.tri(len(factors[1])), np.nan, 0))
    factors, _, order = reference.lu(np.zeros((2, 3, 3)))
    assert not factors.any() and order.tolist() == [[0, 1, 2]] * 2


def test_pivots_out_of_bounds_are_moved_inside() -> None:
    pivots = np.array([[7, -3], [1, 1]], np.int32)
    found = reference.lu_pivots_to_permutation(pivots, permutation_size=3)
    assert [sorted(order) for order in found] == [[0, 1, 2]] * 2 and found[1].tolist() == [1, 0, 2]
    none = reference.lu_pivots_to_permutation(pivots[:, :0], permutation_size=3)
    assert none.tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("shape", [(0, 0), (3, 3), (40, 30), (30, 40), (2, 5, 5), (2, 50, 50)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_nobody_reads_is_left_out(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    for full_matrices in (False, True):
        q, r = reference.qr(x, full_matrices=full_matrices, pivoting=False)
        none, alone = reference.qr(x, full_matrices=full_matrices, pivoting=False, with_q=False)
        np.testing.assert_array_equal(alone, r)
        assert (none.shape, none.dtype) == (q.shape, q.dtype)
    if shape[-2] == shape[-1]:
        hermitian = x + adjoint(x)
        if shape == (2, 50, 50):
            hermitian[1, 3, 3] = np.nan
        for lower in (False, True):
            vectors, values = reference.eigh(hermitian, lower=lower)
            none, alone = reference.eigh(hermitian, lower=lower, with_vectors=False)
            tolerance = 100 * np.finfo(dtype).eps
            np.testing.assert_allclose(alone, values, rtol=tolerance, atol=tolerance)
            assert (none.shape, none.dtype) == (vectors.shape, vectors.dtype)


# Threads.


@pytest.fixture
def threads() -> Iterator[Callable[[], int]]:
    """What tells the number of OpenBLAS's threads, which are three."""
    get, set = OF_SCIPY._threads
    before = get()
    set(3)
    if get() != 3:
        pytest.skip("SciPy is linked with another library")
    yield get
    set(before)


def test_small_matrices_are_computed_in_one_thread(threads: Any, monkeypatch: Any) -> None:
    seen = []
    call = _lapack.call
    monkeypatch.setattr(_lapack, "call", lambda *arguments: (seen.append(threads()), call(*arguments)))
    reference.lu(np.eye(50))
    assert seen[0] == 1 and threads() == 3
    seen.clear()
    reference.lu(np.eye(600))
    assert seen[0] == 3 and threads() == 3
    with pytest.raises(ZeroDivisionError), _lapack.threads_for(2, 2):
        assert threads() == 1
        with _lapack.threads_for(2, 2):
            pass
        assert threads() == 1
        raise ZeroDivisionError
    assert threads() == 3


def test_several_threads_at_once(threads: Any) -> None:
    inputs = {n: sample((4, n, n), "float64") for n in (3, 20, 60, 200)}
    inputs = {n: x @ adjoint(x) + n * np.eye(n) for n, x in inputs.items()}
    expected = {(name, n): f(x) for name, f in FUNCTIONS.items() for n, x in inputs.items()}
    wrong = []

    def work(offset: int) -> None:
        cases = list(expected)
        for name, n in 2 * (cases[offset:] + cases[:offset]):
            found = FUNCTIONS[name](inputs[n])
            if not all(np.allclose(x, y, rtol=1e-9, atol=1e-9) for x, y in zip(found, expected[name, n])):
                wrong.append((name, n))

    workers = [threading.Thread(target=work, args=(4 * i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and threads() == 3


def test_a_child_after_a_fork_has_its_threads(threads: Any) -> None:
    """Also where another thread of the parent was within."""
    with _lapack.threads_for(2, 2):
        child = os.fork()
        if not child:
            worked = threads() == 3 and np.allclose(reference.cholesky(4 * np.eye(9)), 2 * np.eye(9))
            os._exit(0 if worked else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert threads() == 3
