"""Compiled programs that are calls of libraries, and of little else: evaluated whole, with nothing compiled."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax
from veery._dispatch import lowering
from veery._eager import libraries, operations
from veery._eager.libraries import LibraryProgram, library_program
from veery.lax import _openblas
from veery.lax._linalg_orthogonal import qr_p
from veery.lax._linalg_spectral import eigh_p
from veery.lax._reference import silently
from veery.scipy.linalg import solve_triangular

R = np.random.default_rng(5)
SQUARE, RIGHT = R.normal(size=(7, 7)) + 7 * np.eye(7), R.normal(size=(7, 3))
STACK = R.normal(size=(4, 5, 5)) + 4 * np.eye(5)
ROWS = R.normal(size=(6, 50))
LARGE = R.normal(size=(300, 300)) + 300 * np.eye(300)  # results that are shared instead of copied

Function = Callable[..., Any]


def squares(solution: Any) -> Any:
    return (solution**2).sum()


EVALUATED: dict[str, tuple[Function, Function, tuple[np.ndarray, ...]]] = {
    "sort": (jnp.sort, np.sort, (ROWS,)),
    "order": (lambda x: jnp.argsort(x, axis=0), lambda x: np.argsort(x, axis=0), (ROWS,)),
    "sorted backwards": (lambda x: -jnp.sort(-x, axis=0), lambda x: -np.sort(-x, axis=0), (ROWS,)),
    "largest": (lambda x: lax.top_k(x, 3)[0], lambda x: -np.sort(-x)[:, :3], (ROWS,)),
    "median": (lambda x: jnp.median(x, axis=1), lambda x: np.median(x, axis=1), (ROWS,)),
    "solution": (jnp.linalg.solve, np.linalg.solve, (SQUARE, RIGHT)),
    "solution, large": (jnp.linalg.solve, np.linalg.solve, (LARGE, LARGE[:, :250])),
    "inverses": (jnp.linalg.inv, np.linalg.inv, (STACK,)),
    "determinants": (jnp.linalg.det, np.linalg.det, (STACK,)),
    "logarithm of a determinant": (
        lambda x: jnp.linalg.slogdet(x)[1], lambda x: np.linalg.slogdet(x)[1], (SQUARE,)
    ),
    "factor of a product": (
        lambda x: jnp.linalg.cholesky(x @ x.T), lambda x: np.linalg.cholesky(x @ x.T), (SQUARE,)
    ),
    "factor of a large product": (
        lambda x: jnp.linalg.cholesky(x.T @ x), lambda x: np.linalg.cholesky(x.T @ x), (LARGE[:150, :150],)
    ),
    "eigenvalues": (lambda x: jnp.linalg.eigvalsh(x + x.T), lambda x: np.linalg.eigvalsh(x + x.T), (SQUARE,)),
    "singular values": (
        lambda x: jnp.linalg.svd(x, compute_uv=False), lambda x: np.linalg.svd(x, compute_uv=False), (RIGHT,)
    ),
    "least squares": (
        lambda x, y: jnp.linalg.lstsq(x, y)[0], lambda x, y: np.linalg.lstsq(x, y)[0], (RIGHT, SQUARE[:, 0])
    ),
    "product": (lambda x, y: x @ y, np.matmul, (SQUARE, RIGHT)),
    "product with a vector": (lambda x, y: x @ y, np.matmul, (SQUARE, RIGHT[:, 0])),
    "dot": (lambda x, y: x @ y, np.dot, (ROWS[0], ROWS[1])),
    "product of transposed matrices": (
        lambda x, y: x.T @ y.T, lambda x, y: x.T @ y.T, (R.normal(size=(40, 90)), R.normal(size=(70, 40)))
    ),
    "einsum": (
        lambda x, y: jnp.einsum("abc,cd->abd", x, y), lambda x, y: np.tensordot(x, y, 1), (STACK, ROWS[:5, :40])
    ),
    "tensordot of two axes": (
        lambda x, y: jnp.tensordot(x, y, 2), lambda x, y: np.tensordot(x, y, 2), (STACK, R.normal(size=(5, 5, 70)))
    ),
    "product of parts": (
        lambda x, y: x[:, 1:21:2] @ y[::-1], lambda x, y: x[:, 1:21:2] @ y[::-1], (ROWS, R.normal(size=(10, 90)))
    ),
    "product of products": (lambda x: x @ x @ x, lambda x: x @ x @ x, (SQUARE,)),
    "product, large": (lambda x, y: x @ y, np.matmul, (R.normal(size=(600, 300)), R.normal(size=(300, 999)))),
    "products of a stack": (
        lambda x, y: x @ y, np.matmul, (R.normal(size=(3, 70, 80)), R.normal(size=(3, 80, 70)))
    ),
    "products of a stack, transposed": (
        lambda x: jnp.einsum("bik,bjk->bij", x, x), lambda x: x @ x.swapaxes(1, 2), (R.normal(size=(3, 70, 80)),)
    ),
    "few rows, and a large matrix": (
        lambda x, y: x @ y, np.matmul, (R.normal(size=(2, 2100)), R.normal(size=(2100, 2000)))
    ),
    "large matrix and vector": (lambda x, y: x @ y, np.matmul, (R.normal(size=(900, 800)), R.normal(size=800))),
    "vector and large matrix": (lambda x, y: x @ y, np.matmul, (R.normal(size=800), R.normal(size=(800, 900)))),
    "large vectors": (lambda x, y: x @ y, np.dot, (R.normal(size=300_001), R.normal(size=300_001))),
    "spectrum": (lambda x: jnp.abs(jnp.fft.rfft(x)), lambda x: np.abs(np.fft.rfft(x)), (ROWS,)),
    "transform in two directions": (jnp.fft.fft2, np.fft.fft2, (ROWS,)),
    "transform back of real numbers": (jnp.fft.hfft, np.fft.hfft, (ROWS,)),
    "filter": (
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.arange(26)),
        lambda x: np.fft.irfft(np.fft.rfft(x) * np.arange(26)),
        (ROWS,),
    ),
    "map": (
        lambda x: lax.map(lambda row: jnp.sort(row)[0] + row.sum(), x),
        lambda x: x.min(axis=1) + x.sum(axis=1),
        (ROWS,),
    ),
    "map of solutions": (
        lambda a, b: lax.map(lambda a: jnp.linalg.solve(a, b), a),
        lambda a, b: np.linalg.solve(a, np.stack([b] * 4)),
        (STACK, RIGHT[:5]),
    ),
    "gradient of a solution": (
        veery.grad(lambda a, b: squares(jnp.linalg.solve(a, b))),
        lambda a, b: np.outer(np.linalg.solve(a.T, -2 * np.linalg.solve(a, b)), np.linalg.solve(a, b)),
        (SQUARE, RIGHT[:, 0]),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def wide_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is evaluated is the same on all machines."""
    monkeypatch.setattr(_openblas.OF_NUMPY, "has_wide_vectors", True)


@pytest.fixture
def however_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What LAPACK computes is evaluated however little that is."""
    monkeypatch.setattr(libraries, "_LEAST_PRODUCTS", 0)


def compilations() -> int:
    info = lowering().cache_info()
    return int(info.hits + info.misses)


def evaluates(fun: Function, *operands: Any, **options: Any) -> bool:
    """Whether calls of a function that the user has compiled are evaluated; its results are waited for."""
    before = compilations()
    veery.block_until_ready(veery.jit(lambda *xs: fun(*xs), **options)(*operands))
    return compilations() == before


@pytest.mark.usefixtures("x64", "however_little")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("title", EVALUATED)
def test_results_without_a_compilation(title: str, dtype: str) -> None:
    fun, expected, operands = EVALUATED[title]
    arguments = [x.astype(dtype) for x in operands]
    before = compilations()
    out = veery.jit(lambda *xs: fun(*xs))(*arguments)
    values = np.asarray(out)
    assert compilations() == before
    assert out.dtype == dtype or out.dtype.kind in "ic"
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    right = expected(*[x.astype("float64") for x in arguments])
    np.testing.assert_allclose(values, right, rtol=tolerance, atol=tolerance * np.abs(right).max())


@pytest.mark.usefixtures("however_little")
@pytest.mark.parametrize("title", EVALUATED)
def test_results_are_those_of_compiled_programs(title: str) -> None:
    """To rounding, with their types."""
    fun, _, operands = EVALUATED[title]
    arguments = [x.astype("float32") for x in operands]
    out = veery.jit(lambda *xs: fun(*xs))(*arguments)
    veery.config.update("veery_host_evaluation", False)
    before = compilations()
    compiled = veery.jit(lambda *xs: fun(*xs))(*arguments)
    assert compilations() > before
    assert (out.aval, out.committed, out.device) == (compiled.aval, compiled.committed, compiled.device)
    scale = float(np.abs(np.asarray(compiled)).max())
    np.testing.assert_allclose(np.asarray(out), np.asarray(compiled), rtol=2e-4, atol=2e-5 * scale)


LEFT_TO_THE_COMPILER: dict[str, Function] = {
    "no call of a library": lambda x: x[::-1] + 1,
    "a product of integers": lambda x: x.astype(int)[:, None] @ x.astype(int)[None],
    "a product of half precision": lambda x: x.astype(np.float16) @ x.astype(np.float16),
    "a product, and arithmetic": lambda x: jnp.ones((49, 49)) @ x + 1,
    "a product, and moves": lambda x: (jnp.ones((49, 49)) @ x[::-1, None])[::2, 0].reshape(5, 5).T,
    "a product of few columns": lambda x: jnp.ones((500, 900)) @ jnp.ones((900, 10)),
    "a product of few rows": lambda x: jnp.ones((4, 900)) @ jnp.ones((900, 900)),
    "a product of few terms": lambda x: jnp.ones((900, 10)) @ jnp.ones((10, 900)),
    "products of a stack in another order": lambda x: jnp.einsum("ibk,bkj->bij", *[jnp.ones((70,) * 3)] * 2),
    "small products in a stack": lambda x: jnp.ones((500, 8, 8)) @ jnp.ones((500, 8, 8)) * x[0],
    "an outer product": lambda x: jnp.einsum("i,j->ij", x, x),
    "much else": lambda x: jnp.sort(jnp.tanh(x[:, None] * jnp.arange(1000.0)).sum(1)),
    "a long map of large values": lambda x: lax.map(lambda y: jnp.sort(y * x)[::7], jnp.ones((100_000, 1))),
    "a loop": lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sort(x) * 2, x),
    "a branch": lambda x: lax.cond(x[0] > 0, jnp.sort, lambda x: x, x),
    "a function of the user's": lambda x: veery.pure_callback(np.asarray, x, jnp.sort(x)),
    "an effect": lambda x: veery.debug.print("{}", x[0]) or jnp.sort(x),
    "an operation that is not on the list": lambda x: jnp.sort(veery.scipy.special.bessel_jn(x, v=2)[0]),
    "many operations": lambda x: jnp.sort(sum((jnp.floor(x * i) for i in range(1, 80)), x)),
}


@pytest.mark.parametrize("title", LEFT_TO_THE_COMPILER)
def test_left_to_the_compiler(title: str) -> None:
    closed = veery.make_jaxpr(LEFT_TO_THE_COMPILER[title])(np.arange(1, 50, dtype=np.float32))
    assert library_program(closed, lowering().host.CALLS) is None


def test_shapes_that_are_not_known_are_left_to_the_compiler() -> None:
    (b,) = veery.export.symbolic_shape("b")
    closed = veery.make_jaxpr(lambda x: jnp.sort(x))(veery.ShapeDtypeStruct((b, 5), np.float32))
    assert library_program(closed, lowering().host.CALLS) is None


def test_left_to_the_compiler_by_options() -> None:
    x = ROWS[0].astype("float32")
    assert evaluates(jnp.sort, x)
    assert not evaluates(jnp.sort, x, compiler_options={"queue": "threaded"})
    veery.config.update("veery_host_evaluation", False)
    assert not evaluates(jnp.sort, x)


@pytest.mark.usefixtures("x64")
def test_products_of_complex_numbers() -> None:
    a, b = R.normal(size=(2, 30, 40)), R.normal(size=(2, 40, 20))
    for dtype in ("complex64", "complex128"):
        x, y = ((1j * z[0] + z[1]).astype(dtype) for z in (a, b))
        assert evaluates(jnp.matmul, x, y)
        out = veery.jit(lambda x, y: x @ y)(x, y)
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out), x @ y, rtol=1e-5, atol=1e-5)


def test_products_that_take_long_leave_the_callers_thread() -> None:
    f = veery.jit(lambda x: x @ x)
    for n, queue in ((100, "inline"), (600, "threaded")):
        x = R.normal(size=(n, n)).astype(np.float32)
        assert evaluates(jnp.matmul, x, x)
        np.testing.assert_allclose(np.asarray(f(x)), x @ x, rtol=1e-3, atol=1e-3)
        assert list(f._entries.values())[-1].executable.queue == queue


def test_large_products_are_compiled_where_blas_has_narrow_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_openblas.OF_NUMPY, "has_wide_vectors", False)
    x = R.normal(size=(600, 600)).astype(np.float32)
    assert not evaluates(jnp.matmul, x, x)
    assert evaluates(jnp.matmul, x[:100, :100], x[:100, :100])
    with veery.enable_x64(True):
        assert evaluates(jnp.matmul, x.astype(np.float64), x.astype(np.float64))


LITTLE: dict[str, tuple[Function, int, int]] = {  # and sizes of a matrix for which Python takes most of the time or not
    "factor": (jnp.linalg.cholesky, 203, 204),
    "solution": (lambda x: jnp.linalg.solve(x, x[0]), 161, 162),
    "triangular solution": (lambda x: solve_triangular(x, x, lower=True), 203, 204),
    "inverse": (jnp.linalg.inv, 161, 162),
    "eigenvalues": (jnp.linalg.eigvalsh, 94, 95),
    "singular values": (jnp.linalg.svd, 74, 75),
    "determinant": (jnp.linalg.det, 203, 204),
    "factors of a stack": (lambda x: jnp.linalg.qr(jnp.broadcast_to(x, (100, *x.shape)))[1], 27, 28),
    "nothing that routines compute": (lambda x: jnp.linalg.eigvals(x).real, 0, 5),
    "a sort, and much else": (lambda x: jnp.unique(x[0], size=5), 9, 0),
}


@pytest.mark.parametrize("title", LITTLE)
def test_what_takes_python_longer_than_lapack_is_compiled_where_users_ask_for_it(title: str) -> None:
    fun, little, much = LITTLE[title]
    for n, compiles in ((little, True), (much, False)):
        x = np.tri(n, dtype="float32") + n * np.eye(n, dtype="float32")
        if n:
            assert evaluates(fun, x) is not compiles
        if title == "factor":
            before = compilations()
            fun(jnp.asarray(x)).block_until_ready()  # not asked for
            assert compilations() == before


@pytest.mark.parametrize(
    ("compile", "n"), [(veery.jit, 5), (functools.partial(veery.jit), 6), (lambda fun: veery.jit()(fun), 7)]
)
def test_functions_of_the_library_are_compiled_where_users_ask_for_it(compile: Any, n: int) -> None:
    x = jnp.asarray(9 * np.eye(n, dtype=np.float32))
    for fun in (jnp.linalg.inv, jnp.tanh, veery.scipy.linalg.det):
        before = compilations()
        expected = np.asarray(fun(x))
        assert compilations() == before
        found = np.asarray(compile(fun)(x))
        assert compilations() == before + 1
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_a_program_does_not_need_is_not_computed() -> None:
    closed = veery.make_jaxpr(lambda x: (jnp.argsort(x), jnp.linalg.eigh(jnp.outer(x, x)))[0])(ROWS[0])
    assert len(LibraryProgram(closed, lowering().host.CALLS).lines) == 1


@pytest.mark.usefixtures("however_little")
@pytest.mark.parametrize(
    ("fun", "left_out"),
    [
        (lambda x: jnp.linalg.qr(x)[1], "with_q"),
        (lambda x: jnp.linalg.qr(x, mode="r"), "with_q"),
        (lambda x: jnp.linalg.eigh(x)[0], "with_vectors"),
        (jnp.linalg.eigvalsh, "with_vectors"),
    ],
)
def test_a_result_that_is_not_needed_is_not_computed(fun: Any, left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def listened(reference: Any) -> Any:
        def call(*operands: Any, **how: Any) -> Any:
            told.append(how.get(left_out, True))
            return reference(*operands, **how)

        return call

    for primitive in (qr_p, eigh_p):
        monkeypatch.setattr(primitive, "reference", listened(primitive.reference))
    x = np.cov(R.normal(size=(60, 200))).astype(np.float32)
    found = np.asarray(veery.jit(lambda x: fun(x))(x))
    assert told == [False]
    expected = np.linalg.eigvalsh(x) if left_out == "with_vectors" else np.linalg.qr(x)[1]
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=2e-5, atol=2e-5)


def test_results_share_no_memory() -> None:
    """With arguments, constants or each other: what is donated later is overwritten."""
    constant = np.arange(90_000, dtype=np.float32).reshape(300, 300)

    def several(x: Any, i: Any) -> Any:
        y = jnp.fft.fft(jnp.fft.fft(x)).real
        return x, y, y, y.T, lax.dynamic_slice(constant, (i, 0), (299, 300)), constant

    f = veery.jit(several)
    x = jnp.asarray(LARGE, jnp.float32)
    assert evaluates(several, x, 1)
    overwrite = veery.jit(lambda x: x * 0, donate_argnums=0)
    expected = [np.array(y) for y in f(x, 1)]
    for i in range(len(expected)):
        outs = list(f(x, 1))
        overwrite(outs.pop(i)).block_until_ready()
        for out, right in zip(outs, [*expected[:i], *expected[i + 1 :]], strict=True):
            np.testing.assert_array_equal(np.asarray(out), right)
    np.testing.assert_array_equal(np.asarray(x), LARGE.astype("float32"))


def test_donated_and_deleted_arguments() -> None:
    x = jnp.asarray(LARGE, jnp.float32)
    right = np.sort(np.asarray(x))
    f = veery.jit(lambda x: jnp.sort(x), donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(f(x)), right)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        f(x)
    g = veery.jit(lambda x: jnp.sort(x))
    y = jnp.ones(5)
    g(y)
    y.delete()
    with pytest.raises(RuntimeError, match="Array has been deleted"):
        g(y)


def test_an_argument_that_is_being_computed_is_waited_for_elsewhere() -> None:
    x = jnp.asarray(R.normal(size=(1500, 1500)), jnp.float32)
    product = veery.jit(lambda x: x @ x)
    right = np.sort(np.asarray(product(x))[0])
    f = veery.jit(lambda x: jnp.sort(x[0]))
    f(x).block_until_ready()
    outs = [f(product(x)) for _ in range(3)]  # each argument is gone before it is there
    for out in outs:
        np.testing.assert_array_equal(np.asarray(out), right)


def test_the_failure_of_an_argument_is_that_of_the_result() -> None:
    def fails(x: np.ndarray) -> np.ndarray:
        raise ValueError("no such thing")

    options = {"queue": "threaded"}
    broken = veery.jit(lambda x: veery.pure_callback(fails, x, x), compiler_options=options)(jnp.ones(3))
    f = veery.jit(lambda x: jnp.sort(x))
    f(jnp.ones(3))
    with pytest.raises(Exception, match="no such thing"):
        np.asarray(f(broken))


def test_subnormal_numbers() -> None:
    """Arithmetic flushes them and libraries do not, as in compiled programs; the caller's modes stay."""
    tiny = np.array([3, 1, 2], np.float32) * np.float32(2.0**-149)
    np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: jnp.sort(x))(tiny)), np.sort(tiny))
    np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: -jnp.sort(x * 2))(tiny)), np.zeros(3))
    assert (tiny * 2 > 0).all()


@pytest.mark.parametrize("name", [*operations._IN_DOUBLE, *operations._REDUCED])
def test_fewer_calls_give_what_references_give(name: str, x64: Any) -> None:
    numbers = [0.0, -0.0, 1.0, -0.5, 0.25, 1e-30, 3e38, -90.0, 500.0, np.inf, -np.inf, np.nan]
    for dtype in ("float16", "float32", "float64"):
        with np.errstate(over="ignore"):
            x = np.array([numbers, numbers[::-1]]).astype(dtype)
        for axes in ((0,), (1,), (0, 1)) if name in operations._REDUCED else ((),):
            fun = functools.partial(getattr(lax, name), **({"axes": axes} if axes else {}))
            (eqn,) = veery.make_jaxpr(fun)(x).jaxpr.eqns
            assert eqn.primitive.name == name
            found = silently(operations._rounded(eqn), x)
            expected = eqn.primitive.reference(x, **eqn.params)
            assert found.dtype == dtype and type(found) is np.ndarray
            np.testing.assert_array_equal(found, expected)


def test_special_numbers_and_sizes() -> None:
    x = np.array([np.nan, -0.0, np.inf, 0.0, -np.inf, -np.nan], np.float32)
    np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: jnp.sort(x))(x)), np.sort(x))
    singular = jnp.zeros((2, 3, 3)).at[0].set(jnp.eye(3))
    out = np.asarray(veery.jit(lambda x: jnp.linalg.inv(x))(singular))
    np.testing.assert_array_equal(out[0], np.eye(3))
    assert not np.isfinite(out[1]).all()
    for shape in ((0,), (3, 0), (0, 4)):
        assert veery.jit(lambda x: jnp.sort(x))(jnp.zeros(shape)).shape == shape
    assert veery.jit(lambda x: jnp.linalg.det(x))(jnp.zeros((0, 0))).item() == 1
    assert veery.jit(lambda x: jnp.linalg.inv(x))(jnp.zeros((0, 2, 2))).shape == (0, 2, 2)
    with np.errstate(all="raise"):
        factor = veery.jit(lambda x: jnp.linalg.cholesky(x))(-jnp.eye(2))
    np.testing.assert_array_equal(factor, [[np.nan, 0], [np.nan, np.nan]])


def test_threads_at_once() -> None:
    f = veery.jit(lambda a, b: squares(jnp.linalg.solve(a, b)))
    systems = [(SQUARE + i * np.eye(7), RIGHT) for i in range(8)]
    right = [float(f(*system)) for system in systems]
    wrong: list[Any] = []

    def work(i: int) -> None:
        wrong.extend(x for _ in range(200) if (x := float(f(*systems[i]))) != right[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
