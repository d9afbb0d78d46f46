"""Linear algebra: factors against their definitions, loops against LAPACK, derivatives, batching and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_batching, check_forward, check_second_order
from support.samples import normal_samples

import veery
import veery_lowering
from veery import lax
from veery.lax import _linalg_loops as loops, _linalg_reduction_loops as reductions, _linalg_reference as lapack, linalg
from veery.lax._linalg_determinant import determinant
from veery.lax._linalg_solution import lu_solve, lu_solve_p
from veery.lax._matrix import adjoint, matmul

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("x64")]

random = normal_samples(0)


def dagger(x: Any) -> np.ndarray:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


def definite(*shape: int, complex: bool = False) -> np.ndarray:
    x = random(*shape, complex=complex)
    return x @ dagger(x) + np.eye(shape[-1])


def close(actual: Any, expected: Any, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=tolerance, atol=tolerance)


def check_unitary(q: Any) -> None:
    close(dagger(q) @ np.asarray(q), np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)))


# Loops and LAPACK have one contract; their pivots and signs agree too, but for those of eigenvectors.

SQUARE = [(0, 0), (1, 1), (2, 2), (5, 5), (2, 4, 4)]
ANY = [(0, 2), (3, 0), (1, 3), (4, 3), (2, 2, 5)]


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("shape", SQUARE)
def test_loops_on_square_matrices(shape: tuple[int, ...], complex: bool, references: Any) -> None:
    x, s = random(*shape, complex=complex), definite(*shape, complex=complex)
    close(loops.cholesky(s), lapack.cholesky(s))
    close(lapack.cholesky(s) @ dagger(lapack.cholesky(s)), s)
    for lower in (True, False):
        v, w = loops.eigh(s, lower=lower)
        close(w, lapack.eigh(s, lower=lower)[1])
        close(np.asarray(v) * np.asarray(w)[..., None, :] @ dagger(v), s)
        check_unitary(v)
    for code in range(32):
        names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
        params = {name: bool(code >> i & 1) for i, name in enumerate(names)}
        b = random(*shape, complex=complex)
        expected = lapack.triangular_solve(x, b, **params)
        close(loops.triangular_solve(x, b, **params), expected, 1e-9)
        a = np.tril(x) if params["lower"] else np.triu(x)
        a = np.where(np.eye(shape[-1], dtype=bool), 1, a) if params["unit_diagonal"] else a
        a = a.conj() if params["conjugate_a"] else a
        a = np.swapaxes(a, -1, -2) if params["transpose_a"] else a
        close(a @ expected if params["left_side"] else expected @ a, b, 1e-9)


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("shape", [*SQUARE, *ANY])
def test_loops_on_matrices(shape: tuple[int, ...], complex: bool, references: Any) -> None:
    x = random(*shape, complex=complex)
    m, n = shape[-2:]
    k = min(m, n)
    for actual, expected in zip(loops.lu(x), lapack.lu(x)):
        close(actual, expected)
    factors, pivots, permutation = lapack.lu(x)
    lower = np.tril(factors, -1)[..., :k] + np.eye(m, k)
    close(lower @ np.triu(factors)[..., :k, :], np.take_along_axis(x, permutation[..., None].astype(int), -2))
    close(loops.lu_pivots_to_permutation(pivots, permutation_size=m), permutation)
    for full in (False, True):
        for pivoting in (False, True):
            q, r, *order = lapack.qr(x, full_matrices=full, pivoting=pivoting)
            for actual, expected in zip(loops.qr(x, full_matrices=full, pivoting=pivoting), [q, r, *order]):
                close(actual, expected)
            moved = np.take_along_axis(x, order[0][..., None, :].astype(int), -1) if pivoting else x
            close(q @ r, moved)
        s, u, vh = loops.svd(x, full_matrices=full, compute_uv=True)
        close(s, lapack.svd(x, full_matrices=full, compute_uv=True)[0])
        close(loops.svd(x, full_matrices=full, compute_uv=False)[0], s)
        check_unitary(u)
        check_unitary(dagger(vh))
        close(np.asarray(u)[..., :k] * np.asarray(s)[..., None, :] @ np.asarray(vh)[..., :k, :], x)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("shape", [*SQUARE, (3, 60, 60)])
def test_solutions_by_factors(shape: tuple[int, ...], complex: bool, transposed: bool, references: Any) -> None:
    x = random(*shape, complex=complex) + 3 * np.eye(shape[-1])
    factors = lapack.lu(x)
    a = np.swapaxes(x, -1, -2) if transposed else x
    for columns in (0, 1, 3):
        b = random(*shape[:-1], columns, complex=complex)
        found = lu_solve(*factors, b, transposed=transposed)
        close(a @ np.asarray(found), b, 1e-10)
        close(lu_solve_p.composition(*factors, b, transposed=transposed), found, 1e-10)


def test_loops_on_awkward_matrices(references: Any) -> None:
    low = random(6, 2) @ random(2, 4)
    graded = np.diag(10.0 ** -np.arange(0, 40, 5)) @ random(8, 8)
    for x in (low, low.T, graded, np.zeros((3, 2)), np.ones((4, 4)), 1e-200 * random(3, 3)):
        for full in (False, True):
            s, u, vh = loops.svd(x, full_matrices=full, compute_uv=True)
            scale = max(np.abs(x).max(), 1e-300)
            k = min(x.shape)
            close(s / scale, np.linalg.svd(x, compute_uv=False) / scale)
            close((u[:, :k] * s) @ vh[:k] / scale, x / scale)
            check_unitary(u)
            check_unitary(dagger(vh))
    hilbert = 1 / (np.arange(8)[:, None] + np.arange(8) + 1.0)
    clustered = np.diag([1.0, 1.0, 1.0, 1.0 + 1e-15]) + 1e-16
    for x in (hilbert, clustered, np.zeros((3, 3)), np.diag([1.0, -1.0, 1.0])):
        v, w = loops.eigh(x, lower=True)
        close(w, np.linalg.eigvalsh(x))
        check_unitary(v)
        close((v * w) @ v.T, x)


@pytest.mark.parametrize("module", [loops, lapack])
def test_failures_are_nan_in_their_matrix_alone(module: Any, references: Any) -> None:
    good, bad = np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    factors = module.cholesky(np.stack([good, bad, np.full((2, 2), np.nan)]))
    close(factors[0], [[2.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(factors[1:], [[[np.nan, 0], [np.nan, np.nan]]] * 2)
    for n in (3, 40):  # NumPy's loop and LAPACK
        factor = np.asarray(module.cholesky(-np.eye(n, dtype=complex)))
        np.testing.assert_array_equal(np.isnan(factor.real) & np.isnan(factor.imag), np.tri(n))
        assert not np.triu(factor, 1).any()
    nan = np.full((3, 3), np.nan)
    assert np.isnan(module.eigh(nan, lower=True)[1]).all()
    assert np.isnan(module.svd(nan, full_matrices=False, compute_uv=False)[0]).all()
    singular, _, _ = module.lu(np.array([[1.0, 2.0], [1.0, 2.0]]))
    close(singular, [[1.0, 2.0], [1.0, 0.0]])


def test_eig_of_lapack(references: Any) -> None:
    for x in (random(2, 4, 4), random(3, 3, complex=True), np.array([[0.0, 1.0], [-1.0, 0.0]]), random(0, 0)):
        w, left, right = (np.asarray(y) for y in linalg.eig(x))
        close(x @ right, right * w[..., None, :])
        close(dagger(left) @ x, w[..., :, None] * dagger(left))
        assert w.dtype == np.complex128
    assert np.isnan(np.asarray(linalg.eig(np.full((2, 2), np.nan))[0]).imag).all()


def test_householder_product_is_that_of_reflections(references: Any) -> None:
    for complex in (False, True):
        a, taus = random(2, 4, 3, complex=complex), random(2, 2, complex=complex)
        expected = np.broadcast_to(np.eye(4), (2, 4, 4))
        for i in range(2):
            v = np.where(np.arange(4) > i, a[..., i], np.arange(4) == i)[..., None]
            expected = expected @ (np.eye(4) - taus[:, i, None, None] * v @ dagger(v))
        for module in (loops, lapack):
            close(module.householder_product(a, taus), expected[..., :3])


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("shape", [(2, 1, 1), (2, 2), (2, 5, 5)])
def test_reductions(shape: tuple[int, ...], complex: bool, references: Any) -> None:
    x, n = random(*shape, complex=complex), shape[-1]
    for module in (reductions, lapack):
        reduced, taus = (np.asarray(y) for y in module.hessenberg(x))
        q = np.broadcast_to(np.eye(n, dtype=x.dtype), shape).copy()
        if n > 1:
            q[..., 1:, 1:] = lapack.householder_product(reduced[..., 1:, :-1].copy(), taus)
        close(q @ np.triu(reduced, -1) @ dagger(q), x)
        for lower in (True, False):
            a, d, e, taus = (np.asarray(y) for y in module.tridiagonal(x, lower=lower))
            for y, expected in zip((a, d, e, taus), lapack.tridiagonal(x, lower=lower), strict=True):
                close(y, expected)
            full = np.tril(x, -1) if lower else np.triu(x, 1)
            full = full + dagger(full) + np.eye(n) * x.real
            middle = d[..., None] * np.eye(n)
            middle[..., 1:, :-1] += e[..., None] * np.eye(n - 1)
            middle[..., :-1, 1:] += e[..., None] * np.eye(n - 1)
            close(np.linalg.eigvalsh(full), np.linalg.eigvalsh(middle))
    t, q = (np.asarray(y) for y in linalg.schur(x))
    close(q @ t @ dagger(q), x)
    close(np.tril(t, -1 if complex else -2), 0)
    (alone,) = linalg.schur(x, compute_schur_vectors=False)
    close(alone, t)
    assert np.isnan(np.asarray(linalg.schur(np.full((2, 2), np.nan))[0])).all()


@pytest.mark.parametrize("complex", [False, True])
def test_ormqr_is_the_product_with_q(complex: bool, references: Any) -> None:
    for n in (2, 4, 6):
        a, taus = random(2, 4, n, complex=complex), random(2, min(4, n) - 1, complex=complex)
        wide = np.concatenate([a, np.zeros((2, 4, 4), a.dtype)], -1)[..., :4].copy()
        q = lapack.householder_product(wide, taus)
        c, d = random(2, 4, 3, complex=complex), random(2, 3, 4, complex=complex)
        for module in (reductions, lapack):
            for transpose, factor in ((False, q), (True, dagger(q))):
                close(module.ormqr(a, taus, c, left=True, transpose=transpose), factor @ c)
                close(module.ormqr(a, taus, d, left=False, transpose=transpose), d @ factor)


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_tridiagonal_systems(n: int, complex: bool, references: Any) -> None:
    dl, d, du = (random(2, n, complex=complex) for _ in range(3))
    d, b = d + 4, random(2, n, 3, complex=complex)
    diagonal = lambda x, k: np.stack([np.diag(row, k) for row in x])
    a = diagonal(d, 0) + (diagonal(dl[:, 1:], -1) + diagonal(du[:, :-1], 1) if n > 1 else 0)
    for module in (reductions, lapack):
        close(a @ np.asarray(module.tridiagonal_solve(dl, d, du, b, perturb_singular=False)), b)
    close(lapack.tridiagonal_solve(dl, d, du, b, perturb_singular=True), np.linalg.solve(a, b))
    zero = np.zeros_like(d)
    assert np.isnan(linalg.tridiagonal_solve(zero, zero, zero, b)).all()
    assert np.isfinite(linalg.tridiagonal_solve(zero, zero, zero, b, perturb_singular=True)).all()


def test_updates_and_polar_factors(references: Any) -> None:
    r, w = np.triu(random(4, 4)) + 3 * np.eye(4), random(4)
    w[1] = 0
    updated = np.asarray(linalg.cholesky_update(r, w))
    close(updated.T @ updated, r.T @ r + np.outer(w, w))
    close(np.tril(updated, -1), 0)
    a, c = random(2, 3, 4), random(2, 3, 3)
    expected = 2 * a @ np.swapaxes(a, -1, -2) + 3 * c
    close(linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), expected)
    lower = np.tril(expected, -1)
    both = linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True)
    close(both, np.tril(expected) + np.swapaxes(lower, -1, -2))
    for complex in (False, True):
        x = random(5, 3, complex=complex)
        u, h, _, converged = linalg.qdwh(x)
        check_unitary(u)
        close(np.asarray(u) @ np.asarray(h), x)
        assert converged and (np.linalg.eigvalsh(h) > 0).all()
        padded = np.pad(x, ((0, 2), (0, 1)), constant_values=np.nan)
        inner, h_inner, *_ = linalg.qdwh(padded, dynamic_shape=(5, 3))
        close(inner, np.pad(u, ((0, 2), (0, 1))))
        close(h_inner, np.pad(h, ((0, 1), (0, 1))))
    _, _, steps, converged = linalg.qdwh(x, max_iterations=1)
    assert steps == 1 and not converged


# Derivatives. What has a free phase is made independent of it.


def _svd_parts(x: Any, part: int) -> Any:
    u, s, vh = linalg.svd(x, full_matrices=False)
    return (s, lax.abs(u), lax.abs(vh), matmul(u, vh))[part]


def _eigh_projections(x: Any) -> Any:
    v, w = linalg.eigh(x)
    weights = lax.convert_element_type(np.arange(1.0, 4.0), lax.dtype(v))
    return matmul(lax.mul(v, lax.broadcast_in_dim(weights, np.shape(v), (np.ndim(v) - 1,))), adjoint(v))


def _eig_values(x: Any) -> Any:
    return linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def _eig_vectors(x: Any) -> Any:
    """Squares, for LAPACK turns the largest element to the real axis, to either side."""
    return lax.concatenate([v * v for v in linalg.eig(x, enable_eigvec_derivs=True)[1:]], 0)


_solve = linalg.triangular_solve
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {}
for _name, _c in (("real", False), ("complex", True)):
    _x, _s, _b = random(3, 3, complex=_c), definite(3, 3, complex=_c), random(3, 2, complex=_c)
    _tall, _wide = random(4, 2, complex=_c), random(2, 4, complex=_c)
    SMOOTH |= {
        f"cholesky-{_name}": (linalg.cholesky, (_s,)),
        f"triangular_solve-{_name}": (lambda a, b: _solve(a, b, left_side=True, lower=True), (_s, _b)),
        f"triangular_solve-right-{_name}": (
            lambda a, b: _solve(a, b, transpose_a=True, conjugate_a=True, unit_diagonal=True),
            (_x, _b.T.copy()),
        ),
        f"determinant-{_name}": (determinant, (_x,)),
        f"lu_solve-{_name}": (lambda b, x=_x: lu_solve(*lapack.lu(x), b), (_b,)),
        f"lu_solve-factors-{_name}": (lambda x, b: lu_solve(*linalg.lu(x), b), (_x, _b)),
        f"lu_solve-transposed-{_name}": (lambda x, b: lu_solve(*linalg.lu(x), b, transposed=True), (_x, _b)),
        f"lu-{_name}": (lambda x: linalg.lu(x)[0], (_x,)),
        f"lu-tall-{_name}": (lambda x: linalg.lu(x)[0], (_tall,)),
        f"lu-wide-{_name}": (lambda x: linalg.lu(x)[0], (_wide,)),
        f"qr-q-{_name}": (lambda x: linalg.qr(x, full_matrices=False)[0], (_tall,)),
        f"qr-r-{_name}": (lambda x: linalg.qr(x, pivoting=True)[1], (_x,)),
        f"householder_product-{_name}": (linalg.householder_product, (_tall, random(2, complex=_c))),
        f"ormqr-{_name}": (linalg.ormqr, (_tall, random(2, complex=_c), random(4, 3, complex=_c))),
        f"hessenberg-{_name}": (lambda x: linalg.hessenberg(x)[0], (_x,)),
        f"tridiagonal-{_name}": (lambda x: linalg.tridiagonal(x, lower=False)[1], (_s,)),
        f"tridiagonal_solve-{_name}": (
            linalg.tridiagonal_solve,
            (random(3, complex=_c), 4 + random(3, complex=_c), random(3, complex=_c), _b),
        ),
        f"eigh-values-{_name}": (lambda x: linalg.eigh(x)[1], (_s,)),
        f"eigh-vectors-{_name}": (_eigh_projections, (_s,)),
        f"svd-values-{_name}": (lambda x: linalg.svd(x, compute_uv=False), (_wide,)),
        f"svd-u-{_name}": (lambda x: _svd_parts(x, 1), (_tall,)),
        f"svd-v-{_name}": (lambda x: _svd_parts(x, 2), (_wide,)),
        f"svd-polar-{_name}": (lambda x: _svd_parts(x, 3), (_tall,)),
        f"eig-values-{_name}": (_eig_values, (_x,)),
        f"eig-vectors-{_name}": (_eig_vectors, (_x,)),
    }


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_equal_numerical_differences(name: str, references: Any) -> None:
    fun, operands = SMOOTH[name]
    wanted = range(len(operands))
    check_forward(fun, operands, wanted, 1e-5)
    check_backward(fun, operands, wanted, 1e-8)


ONCE = ("householder", "ormqr", "hessenberg", "tridiagonal-")


@pytest.mark.parametrize("name", [name for name in SMOOTH if not name.startswith(ONCE)])
def test_second_derivatives_equal_numerical_differences(name: str, references: Any) -> None:
    fun, operands = SMOOTH[name]
    check_second_order(fun, operands, [0], 1e-4)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name.endswith("real")])
def test_batching_equals_a_loop(name: str, references: Any) -> None:
    check_batching(*SMOOTH[name], 1e-7)


def test_pivots_are_batched(references: Any) -> None:
    pivots = np.array([1, 2], np.int32)
    check_batching(lambda p: linalg.lu_pivots_to_permutation(p, 3), (pivots,))


# Compiled.

SINGLE = [("float32", 2e-5), ("complex64", 2e-5), ("float64", 1e-12)]


def _factors(x: Any) -> list[Any]:
    """All factorisations of a square matrix, multiplied together again, and what does not depend on signs."""
    s = lax.add(matmul(x, adjoint(x)), np.eye(np.shape(x)[-1], dtype=lax.dtype(x)))
    factor = linalg.cholesky(s)
    v, w = linalg.eigh(s)
    u, values, vh = linalg.svd(x)
    spread = lambda d: lax.convert_element_type(lax.broadcast_in_dim(d, np.shape(x), (1,)), lax.dtype(x))
    return [
        *(factor, linalg.triangular_solve(factor, x, left_side=True, lower=True), *linalg.lu(x)),
        *(lu_solve(*linalg.lu(x), s), lu_solve(*linalg.lu(s), x, transposed=True)),
        *(*linalg.qr(x, pivoting=True), w, values),
        *(matmul(lax.mul(v, spread(w)), adjoint(v)), matmul(lax.mul(u, spread(values)), vh)),
    ]


@pytest.mark.compiler
@pytest.mark.parametrize(("dtype", "tolerance"), SINGLE)
def test_programs_that_call_the_host(dtype: str, tolerance: float) -> None:
    x = random(5, 5, complex=dtype.startswith("c")).astype(dtype)
    actual = veery.jit(_factors)(x)
    with numpy_evaluation():
        expected = _factors(x)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype
        close(a, b, 10 * tolerance)


@pytest.mark.compiler
@pytest.mark.parametrize("transposed", [False, True])
def test_solutions_in_programs_call_no_python(transposed: bool) -> None:
    a, b = random(60, 60) + 9 * np.eye(60), random(60, 2)
    fun = lambda a, b: lu_solve(*linalg.lu(a), b, transposed=transposed) * 2
    program = veery_lowering.compile(veery.make_jaxpr(fun)(a, b))
    assert program.calls_routines and not program.host_calls
    close(veery.jit(fun)(a, b), 2 * np.linalg.solve(a.T if transposed else a, b))


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_triangular_systems_of_narrow_floats(dtype: str) -> None:
    """Solved in single precision, and rounded once."""
    a, b = (lax.convert_element_type(random(*shape), dtype) for shape in ((2, 3, 3), (2, 2, 3)))
    solve = lambda a, b: linalg.triangular_solve(a, b, lower=True, transpose_a=True, unit_diagonal=True)
    expected = solve(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
    for fun in (solve, veery.jit(solve)):
        assert fun(a, b).dtype == dtype
        np.testing.assert_array_equal(np.asarray(fun(a, b)), np.asarray(expected))
    solution, tangent = veery.jvp(solve, (a, b), (a, b))
    assert (solution.dtype, tangent.dtype) == (dtype, dtype)


@pytest.mark.compiler
def test_saved_programs_do_without_the_host(tmp_path: Path) -> None:
    import veery_runtime
    from veery import aot

    operands = (definite(4, 4).astype("float32"), definite(4, 4, complex=True).astype("complex64"))

    def fun(x: Any, y: Any) -> list[Any]:
        v, w = linalg.eigh(y)
        factor = linalg.cholesky(x)
        solution = linalg.triangular_solve(factor, x, left_side=True, lower=True)
        return [factor, solution, determinant(x), *linalg.lu(x), linalg.svd(x, full_matrices=False)[1], w, lax.abs(v)]

    def reflect(x: Any, y: Any) -> list[Any]:
        reduced, taus = linalg.hessenberg(y)
        return [reduced, linalg.ormqr(reduced, taus, y)]

    def reduce(x: Any, y: Any) -> tuple[Any, ...]:
        return linalg.tridiagonal(y, lower=False)

    def solve(x: Any, y: Any) -> list[Any]:
        return [linalg.tridiagonal_solve(x[0], x[1] + 9, x[2], x)]

    for function in (fun, reflect, reduce, solve):
        aot.compile(function, operands, out=tmp_path / "factors.vmfb")
        actual = veery_runtime.load(tmp_path / "factors.vmfb")(*operands)
        with numpy_evaluation():
            expected = function(*operands)
        for a, b in zip(actual, expected, strict=True):
            close(a, b, 1e-4)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: linalg.cholesky(np.ones((2, 3))), TypeError, "incompatible shapes"),
    (lambda: linalg.cholesky(np.ones((2, 3)), symmetrize_input=False), ValueError, "must be a square matrix"),
    (lambda: linalg.lu(np.ones(3)), TypeError, "Input 0 to lu must have rank at least 2"),
    (lambda: linalg.qr(np.ones((2, 2), int)), TypeError, "qr does not accept dtype int64"),
    (lambda: linalg.qr(np.ones((2, 2), np.float16)), NotImplementedError, "unsupported dtype float16"),
    (lambda: _solve(np.ones((2, 2)), np.ones((3, 2)), left_side=True), ValueError, "Incompatible shapes for argu"),
    (lambda: _solve(np.ones((2, 2)), np.ones((1, 3, 2))), TypeError, "same number of batch dimensions"),
    (lambda: linalg.eigh(np.ones((2, 3)), symmetrize_input=False), ValueError, r"must have shape \[\.\.\., n, n\]"),
    (lambda: linalg.eigh(np.eye(2), subset_by_index=(1, 3)), ValueError, "must be a range within 0 and 2"),
    (lambda: linalg.svd(np.eye(2), subset_by_index=(0, 1)), ValueError, "cannot both be set"),
    (lambda: linalg.householder_product(np.ones((2, 3)), np.ones(2)), ValueError, "at least as many rows as columns"),
    (lambda: linalg.ormqr(np.eye(3), np.ones(2), np.ones((2, 3))), ValueError, "the same number of rows as the Hous"),
    (lambda: linalg.ormqr(np.eye(3), np.ones(4), np.eye(3)), ValueError, r"at most min\(m, n\) elements"),
    (lambda: linalg.schur(np.ones((2, 3))), ValueError, "must be a square matrix"),
    (lambda: linalg.schur(np.eye(2), sort_eig_vals=True), NotImplementedError, "gees"),
    (lambda: check_forward(lambda x: linalg.schur(x)[0], (random(2, 2),), [0]), NotImplementedError, "'schur'"),
    (lambda: linalg.hessenberg(np.ones((2, 3))), ValueError, r"must have shape \[\.\.\., n, n\]"),
    (lambda: linalg.tridiagonal(np.ones((0, 0))), ValueError, "must be a square matrix"),
    (lambda: linalg.tridiagonal_solve(*[np.ones(2)] * 2, np.ones(3), np.eye(2)), TypeError, "have the same shape"),
    (lambda: linalg.tridiagonal_solve(*[np.ones(2)] * 3, np.eye(3)), TypeError, "leading ndim-1 dimensions"),
    (lambda: linalg.cholesky_update(np.eye(2), np.ones(3)), ValueError, "takes a square matrix and a vector"),
    (lambda: linalg.symmetric_product(np.ones((2, 3)), np.eye(3)), ValueError, "expects a rectangular matrix"),
    (lambda: linalg.qdwh(np.ones((2, 3))), ValueError, "must have M >= N"),
    (lambda: linalg.lu_pivots_to_permutation(np.ones(3, np.int32), 2), ValueError, "has to exceed the trailing dim"),
    (lambda: check_forward(lambda x: linalg.qr(x)[0], (random(3, 2),), [0]), NotImplementedError, "QR decomposition"),
    (lambda: check_forward(lambda x: linalg.svd(x)[0], (random(3, 2),), [0]), NotImplementedError, "full matrices"),
    (lambda: check_forward(lambda x: linalg.eig(x)[1], (random(2, 2),), [0]), NotImplementedError, "non-symmetric"),
]


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_errors_have_type_and_words(
    call: Callable[[], Any], error: type[Exception], words: str, references: Any
) -> None:
    with pytest.raises(error, match=words):
        call()
