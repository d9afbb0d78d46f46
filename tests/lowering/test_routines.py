"""LAPACK's routines in dispatches: factors and solutions of stacks of all dtypes, failures, threads, processes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kernels import how_many
from support.matrices import DTYPES, adjoint, check_unitary, close, sample

import veery
import veery.numpy as jnp
import veery_runtime
from veery import export, lax
from veery.lax import _lapack, linalg
from veery.lax._linalg_determinant import determinant
from veery.lax._linalg_solution import lu_solve
from veery.lax._openblas import OF_SCIPY
from veery_lowering import addresses, host
from veery_lowering.addresses import BEFORE, CALLING, ROUTINES, place_of
from veery_lowering.emit.rules.lapack import BY_ROUTINES
from veery_lowering.kernels import call_routines
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined

pytestmark = pytest.mark.compiler

SQUARE = [(1, 1), (5, 5), (40, 40), (3, 4, 4), (2, 3, 33, 33), (40, 3, 3)]
ANY = [(1, 4), (4, 1), (40, 30), (3, 4, 7), (2, 3, 7, 4), (2, 40, 33)]


@pytest.fixture(autouse=True)
def _wide(x64: None) -> None:
    """Programs of double precision, too."""


def compiled(function: Callable[..., Any], *operands: np.ndarray) -> Any:
    """What a program gives that calls LAPACK, and Python for nothing."""
    made = veery.jit(function).lower(*operands).compile()
    assert made._program.calls_routines and not made._program.host_calls
    return veery.tree.map(np.asarray, made(*operands))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_factors_of_square_matrices(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    positive = x @ adjoint(x) / shape[-1] + np.eye(shape[-1], dtype=dtype)
    wide = positive.astype(np.result_type(dtype, np.float64))

    def factors(x: Any) -> dict[str, Any]:
        eigen = {lower: linalg.eigh(x, lower=lower, symmetrize_input=False) for lower in (False, True)}
        values = linalg.eigh(x + 1, symmetrize_input=False)[1]
        return {"factor": linalg.cholesky(x, symmetrize_input=False), "eigen": eigen, "values": values}

    found = compiled(factors, positive)
    assert found["factor"].dtype == dtype
    close(found["factor"], np.linalg.cholesky(wide), dtype)
    assert not np.triu(found["factor"], 1).any()
    for v, w in found["eigen"].values():
        assert v.dtype == dtype and w.dtype == positive.real.dtype
        close(w, np.linalg.eigvalsh(wide), dtype)
        close(v * w[..., None, :] @ adjoint(v), wide, dtype)
        check_unitary(v, dtype)
    close(found["values"], np.linalg.eigvalsh(wide + 1), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SQUARE, *ANY])
def test_factors_of_matrices(shape: tuple[int, ...], dtype: str) -> None:
    m, n = shape[-2:]
    k = min(m, n)
    x = sample(shape, dtype)

    def factors(x: Any) -> dict[str, Any]:
        pivots = linalg.lu(x)[1]
        wholes = {
            full: (
                linalg.qr(x, full_matrices=full),
                linalg.svd(x, full_matrices=full),
                linalg.qr(x + 1, full_matrices=full)[1],
            )
            for full in (False, True)
        }
        order = linalg.lu_pivots_to_permutation(pivots, m)
        return {"lu": linalg.lu(x), "order": order, "wholes": wholes, "values": linalg.svd(x, compute_uv=False)}

    found = compiled(factors, x)
    combined, _, order = found["lu"]
    lower, upper = np.tril(combined, -1)[..., :k] + np.eye(m, k, dtype=dtype), np.triu(combined)[..., :k, :]
    close(lower @ upper, np.take_along_axis(x, order[..., None].astype(int), -2), dtype)
    np.testing.assert_array_equal(found["order"], order)
    assert combined.dtype == dtype
    wide = x.astype(np.result_type(dtype, np.float64))
    for (q, r), (u, s, vh), other in found["wholes"].values():
        close(q @ r, x, dtype)
        check_unitary(q, dtype)
        assert not np.tril(r, -1).any()
        close(adjoint(other) @ other, adjoint(wide + 1) @ (wide + 1), dtype)
        close(s, np.linalg.svd(wide, compute_uv=False), dtype)
        close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, dtype)
        check_unitary(u, dtype)
        check_unitary(vh, dtype)
        assert {y.dtype.name for y in (q, r, u, vh)} == {dtype}
    close(found["values"], np.linalg.svd(wide, compute_uv=False), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("columns", [1, 3])
def test_solutions(columns: int, shape: tuple[int, ...], dtype: str) -> None:
    n = shape[-1]
    a = sample(shape, dtype) / n + 2 * np.eye(n, dtype=dtype)
    b = sample((*shape[:-1], columns), dtype)

    def solutions(a: Any, b: Any) -> list[Any]:
        factored = linalg.lu(a)
        return [*(lu_solve(*factored, b, transposed=transposed) for transposed in (False, True)), determinant(a)]

    x, y, product = compiled(solutions, a, b)
    close(a @ x, b, dtype)
    close(a.swapaxes(-1, -2) @ y, b, dtype)
    close(product, np.linalg.det(a), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 33, 33)])
def test_triangular_systems(shape: tuple[int, ...], dtype: str) -> None:
    n = shape[-1]
    whole = sample(shape, dtype) / n + 2 * np.eye(n, dtype=dtype)
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    ways = [dict(zip(names, each)) for each in itertools.product((False, True), repeat=len(names))]
    right = {
        (left, columns): sample((*shape[:-2], n, columns) if left else (*shape[:-2], columns, n), dtype)
        for left in (False, True)
        for columns in (1, 3)
    }
    keys = [(way, columns) for way in ways for columns in (1, 3)]

    def solve(a: Any, right: Any) -> list[Any]:
        return [linalg.triangular_solve(a, right[way["left_side"], columns], **way) for way, columns in keys]

    made = veery.jit(lambda a, *b: solve(a, dict(zip(right, b)))).lower(whole, *right.values()).compile()
    assert made._program.calls_routines and not made._program.host_calls
    for (way, columns), x in zip(keys, map(np.asarray, made(whole, *right.values())), strict=True):
        part = np.tril(whole) if way["lower"] else np.triu(whole)
        part = np.where(np.eye(n, dtype=bool), 1, part) if way["unit_diagonal"] else part
        part = part.conj() if way["conjugate_a"] else part
        part = part.swapaxes(-1, -2) if way["transpose_a"] else part
        close(part @ x if way["left_side"] else x @ part, right[way["left_side"], columns], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_reflections(dtype: str) -> None:
    a, taus = sample((3, 7, 5), dtype), sample((3, 4), dtype) / 9
    product = compiled(lambda a, taus: linalg.householder_product(a, taus) * 1, a, taus)
    expected = np.broadcast_to(np.eye(7, dtype=dtype), (3, 7, 7))
    for j in range(4):
        v = np.tril(a, -1)[..., :, j] + np.eye(7, dtype=dtype)[j]
        v[..., :j] = 0
        expected = expected @ (np.eye(7) - taus[:, j, None, None] * v[..., :, None] * v[..., None, :].conj())
    close(product, expected[..., :5], dtype)


def transposes_left(fun: Callable[..., Any], x: np.ndarray) -> int:
    """How many IREE is left with."""
    counts: list[int] = []

    def change(module: Any) -> None:
        call_routines(module)
        counts.append([op.name for op in operations(module)].count("stablehlo.transpose"))

    inlined(veery.jit(fun).lower(x)._lowered.module, change)
    return counts[0]


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_kernels_transpose_for_themselves(dtype: str) -> None:
    x = sample((3, 40, 17), dtype)

    def both(x: Any) -> Any:
        y = x.mT
        q, r = linalg.qr(y, full_matrices=False)
        return q, r, y + 1, r.mT * 2

    solved = lambda x: lu_solve(*linalg.lu(x[:, :17]), x[:, :17], transposed=False)
    alone: list[Callable[..., Any]] = [linalg.lu, linalg.qr, linalg.svd, solved, lambda x: linalg.qr(x.mT)[1].mT]
    assert [transposes_left(fun, x) for fun in alone] == [0] * len(alone)
    assert transposes_left(both, x) > 0  # what something else reads, too
    assert transposes_left(linalg.lu, sample((130, 130), dtype)) == 2  # on all threads
    turned = x.swapaxes(-1, -2)
    (lower,) = compiled(lambda x: [alone[-1](x)], x)  # turned = q @ r, lower = r.T
    upper = lower.swapaxes(-1, -2)
    close(adjoint(upper) @ upper, adjoint(turned) @ turned, dtype)
    q, r, y, doubled = compiled(both, x)
    np.testing.assert_array_equal(y, turned + 1)
    np.testing.assert_array_equal(doubled, 2 * r.swapaxes(-1, -2))
    close(q @ r, turned, dtype)


@pytest.mark.parametrize("batch", [1, 3])
def test_stacks_along_other_axes(batch: int) -> None:
    """Vectors of pivots that were transposed are no matrices."""
    a = sample((batch, 5, 5), "float64") + 9 * np.eye(5)
    b = sample((batch, 5, 2), "float64")
    factored = compiled(lambda a: veery.vmap(linalg.lu, out_axes=-1)(a), a)
    for part, expected in zip(factored, compiled(lambda a: linalg.lu(a), a), strict=True):
        np.testing.assert_array_equal(np.moveaxis(part, -1, 0), expected)
    one = lambda *given: lu_solve(*given, transposed=False)
    solve = lambda *given: veery.vmap(one, in_axes=-1, out_axes=-1)(*given)
    close(np.moveaxis(compiled(solve, *factored, np.moveaxis(b, 0, -1)), -1, 0), np.linalg.solve(a, b), "float64")


def test_what_nobody_reads_is_not_called() -> None:
    twice = lambda x: (linalg.cholesky(linalg.cholesky(x, symmetrize_input=False), symmetrize_input=False), x + 1)
    chosen = lambda x: lax.cond(x[0, 0] > 0, twice, lambda x: (x, x), x)[1]
    x = np.eye(5, dtype="float32")
    assert how_many(call_routines, chosen, x) == 0 and how_many(call_routines, twice, x) == 2
    made = veery.jit(chosen).lower(x).compile()
    np.testing.assert_array_equal(made(x), x + 1)


FACTORS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: [linalg.cholesky(x, symmetrize_input=False)],
    "eigh": lambda x: linalg.eigh(x, symmetrize_input=False),
    "eigenvalues": lambda x: [linalg.eigh(x, symmetrize_input=False)[1]],
    "svd": linalg.svd,
    "singular values": lambda x: [linalg.svd(x, compute_uv=False)],
    "lu": linalg.lu,
    "qr": linalg.qr,
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FACTORS)
def test_what_is_no_number_disturbs_its_own_matrix_alone(name: str, bad: float) -> None:
    """Of infinity LAPACK's singular values came to no end."""
    x = sample((3, 20, 20), "float64")
    x = x @ adjoint(x) + np.eye(20)
    expected = veery.tree.leaves(compiled(FACTORS[name], x))
    x[1, 2, 1] = bad
    found = veery.tree.leaves(compiled(FACTORS[name], x))
    for y, z in zip(found, expected, strict=True):
        np.testing.assert_allclose(y[[0, 2]], z[[0, 2]], rtol=1e-9, atol=1e-9)
    if name == "lu":
        assert sorted(found[2][1]) == list(range(20))
    elif name not in ("cholesky", "qr"):
        assert all(np.isnan(y[1]).all() for y in found)
    else:
        assert np.isnan(found[0][1]).any()


def test_what_is_not_read_may_be_anything() -> None:
    x = np.array([[4.0, np.nan], [2.0, 5.0]])
    assert np.isfinite(compiled(FACTORS["cholesky"], x)[0]).all()
    assert np.isfinite(compiled(FACTORS["eigenvalues"], x)[0]).all()
    assert np.isnan(compiled(lambda x: linalg.eigh(x, lower=False, symmetrize_input=False)[1], x)).all()


def test_matrices_that_are_not_definite_or_singular() -> None:
    stack = np.stack([np.eye(40), -np.eye(40)])
    (factors,) = compiled(FACTORS["cholesky"], stack)
    np.testing.assert_array_equal(factors, [np.eye(40), np.where(np.tri(40), np.nan, 0)])
    combined, _, order = compiled(FACTORS["lu"], np.zeros((2, 3, 3)))
    assert not combined.any() and order.tolist() == [[0, 1, 2]] * 2


def test_arguments_stay_as_they_are() -> None:
    x = np.asarray(sample((6, 6), "float32"))
    x = x @ x.T + np.eye(6, dtype="float32")
    given = jnp.asarray(x)
    program = lambda x: [f(x) for f in FACTORS.values()]
    made = veery.jit(program).lower(given).compile()
    made(given)
    np.testing.assert_array_equal(given, x)


def test_loops_branches_and_maps() -> None:
    x = sample((50, 50), "float64")
    x = x @ x.T + np.eye(50)

    def program(x: Any, positive: Any) -> Any:
        step = lambda _, x: linalg.cholesky(x) @ linalg.cholesky(x).T + jnp.eye(50)
        looped = lax.fori_loop(0, 3, step, x)
        chosen = lax.cond(positive, lambda x: linalg.eigh(x)[1], lambda x: linalg.svd(x, compute_uv=False) * 2, x)
        mapped = veery.vmap(lambda s: linalg.cholesky(s * x))(jnp.arange(1.0, 4.0))
        return looped, chosen, mapped

    for positive in (False, True):
        looped, chosen, mapped = compiled(program, x, np.asarray(positive))
        np.testing.assert_allclose(looped, x + 3 * np.eye(50), rtol=1e-10, atol=1e-10)
        values = np.linalg.eigvalsh(x)
        np.testing.assert_allclose(chosen, values if positive else 2 * values[::-1], rtol=1e-10)
        scaled = np.linalg.cholesky(np.arange(1.0, 4.0)[:, None, None] * x)
        np.testing.assert_allclose(mapped, scaled, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_threads_call_at_once(queue: str) -> None:
    """The library has as many threads afterwards as before, which other calls of it take for themselves."""
    get, set = OF_SCIPY._threads
    before = get()
    set(2)
    try:
        x = sample((8, 60, 60), "float32")
        x = x @ adjoint(x) + np.eye(60, dtype="float32")
        expected = np.linalg.cholesky(x)
        made = veery.jit(linalg.cholesky, compiler_options={"queue": queue}).lower(x).compile()
        assert made._program.calls_routines
        wrong: list[Any] = []

        def call() -> None:
            for _ in range(100):
                with _lapack.threads_for(60, 60):
                    pass
                if not np.allclose(made(x), expected, rtol=1e-3, atol=1e-3):
                    wrong.append(threading.get_ident())

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and get() == 2
        table = _lapack.table(addresses)
        assert table[CALLING] == table[BEFORE] == 0
    finally:
        set(before)


@pytest.mark.parametrize("queue", ["inline", "threaded"])
def test_large_matrices(queue: str) -> None:
    """One has several of the library's threads, some have one each."""
    x = sample((3, 600, 600), "float32")
    x = x @ adjoint(x) / 600 + np.eye(600, dtype="float32")
    program = lambda x: (linalg.cholesky(x), linalg.cholesky(x[0] + 1), linalg.svd(x[1], compute_uv=False))
    made = veery.jit(program, compiler_options={"queue": queue}).lower(x).compile()
    factors, alone, values = map(np.asarray, made(x))
    close(factors @ adjoint(factors), x, "float32")
    close(alone @ alone.T, x[0] + 1, "float32")
    close(values, np.linalg.svd(x[1], compute_uv=False), "float32")


def test_other_processes_call_what_was_compiled(tmp_path: Path) -> None:
    """Their addresses are others; a fork's are not, but threads of its parent do not call there."""
    script = """
import os, numpy as np, veery, veery.numpy as jnp
solve = veery.jit(lambda a, b: jnp.tanh(jnp.linalg.solve(a, b)) @ b, compiler_options={"queue": "threaded"})
a, b = 9 * np.eye(70, dtype="f") + np.ones((70, 70), "f"), np.ones(70, "f")
made = solve.lower(a, b).compile()
print(made._program.calls_routines, made._program.metadata["pipeline"], float(made(a, b)), flush=True)
child = os.fork()
if not child:
    print(float(made(a, b)), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "VEERY_CACHE_DIR": str(tmp_path)}
    run = lambda: subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    first, second = run(), run()
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout == second.stdout
    words = first.stdout.split()
    assert words[0] == "True" and words[2] == words[3]
    np.testing.assert_allclose(float(words[2]), 70 * np.tanh(1 / 79), rtol=1e-5)


def test_saved_programs_have_none(tmp_path: Path) -> None:
    """They are composed of loops: files know no addresses."""
    a = 9 * np.eye(5, dtype="float32")
    made = veery.jit(linalg.cholesky).lower(a).compile()
    assert made._program.calls_routines
    made.save(tmp_path / "factor.vmfb")
    np.testing.assert_array_equal(veery_runtime.load(tmp_path / "factor.vmfb")(a), 3 * np.eye(5))


def test_primitives_that_call_routines_are_known() -> None:
    assert host.ROUTINES.keys() == BY_ROUTINES.keys()


def test_routines_have_addresses() -> None:
    table = _lapack.table(addresses)
    assert all(table[place_of(name).number] for name in ROUTINES)
    with pytest.raises(ValueError, match="not in tuple"):
        place_of("sgemm")


def test_where_addresses_do_not_do_the_host_is_called() -> None:
    """IREE's own list of passes, which a user's flags ask for, and what shows its last phases, refuse such calls."""
    x = np.asarray(sample((60, 60), "float32"))
    x = x @ x.T + 60 * np.eye(60, dtype="float32")
    lowered = veery.jit(lambda x: linalg.cholesky(x) * 2, compiler_options={"iree-opt-level": "O2"}).lower(x)
    made = lowered.compile()
    assert made._program.metadata["pipeline"] == "standard"
    assert not made._program.calls_routines and len(made._program.host_calls) == 1
    np.testing.assert_allclose(made(x), 2 * np.linalg.cholesky(x), rtol=1e-4, atol=1e-4)
    assert "vm.func" in veery.jit(linalg.cholesky).lower(x).as_text("vm")


def test_sizes_that_are_not_known() -> None:
    (n,) = export.symbolic_shape("n")
    made = veery.jit(lambda x, y: linalg.cholesky(x) * y).lower(
        veery.ShapeDtypeStruct((40, 40), "float32"), veery.ShapeDtypeStruct((n, 1, 1), "float32")
    )
    y = np.arange(3, dtype="float32")[:, None, None]
    np.testing.assert_array_equal(made.compile()(4 * np.eye(40, dtype="float32"), y), 2 * y * np.eye(40))
