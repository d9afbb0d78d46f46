"""veery.numpy.linalg against NumPy's, and its derivatives against numerical differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward, check_second_order
from support.samples import normal_samples

import veery
import veery.numpy as jnp

la, nl = jnp.linalg, np.linalg

pytestmark = pytest.mark.usefixtures("x64")

random = normal_samples(1)
# Calls that NumPy's module and veery's take alike, on a stack of square matrices x, one of tall ones, and vectors.
CALLS: list[Callable[..., Any]] = [
    lambda m, x, tall, b: m.cholesky(x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])),
    lambda m, x, tall, b: m.inv(x),
    lambda m, x, tall, b: m.det(x),
    lambda m, x, tall, b: m.det(x[..., :2, :2]),
    lambda m, x, tall, b: m.det(x[..., :0, :0]),
    lambda m, x, tall, b: m.slogdet(x),
    lambda m, x, tall, b: m.slogdet(x[..., :1, :1] * 0),
    lambda m, x, tall, b: m.solve(x, tall),
    lambda m, x, tall, b: m.solve(x, b),
    lambda m, x, tall, b: m.solve(x[0], x),
    lambda m, x, tall, b: m.svdvals(tall),
    lambda m, x, tall, b: m.svd(tall, full_matrices=False)[1],
    lambda m, x, tall, b: m.svd(x + np.conj(np.swapaxes(x, -1, -2)), hermitian=True)[1],
    lambda m, x, tall, b: m.pinv(tall),
    lambda m, x, tall, b: m.pinv(x + np.conj(np.swapaxes(x, -1, -2)), hermitian=True),
    lambda m, x, tall, b: m.pinv(tall[..., :0]),
    lambda m, x, tall, b: m.matrix_rank(tall @ np.swapaxes(tall, -1, -2)),
    lambda m, x, tall, b: m.matrix_rank(b),
    lambda m, x, tall, b: m.matrix_rank(x, rtol=0.5),
    lambda m, x, tall, b: m.eigvalsh(x, UPLO="U") if m is nl else m.eigvalsh(x, UPLO="U", symmetrize_input=False),
    lambda m, x, tall, b: m.qr(tall),
    lambda m, x, tall, b: m.qr(tall, mode="r"),
    lambda m, x, tall, b: m.qr(tall, mode="raw"),
    lambda m, x, tall, b: m.qr(tall, mode="complete"),
    lambda m, x, tall, b: m.lstsq(tall[0], b),
    lambda m, x, tall, b: m.lstsq(tall[0], x[0], rcond=0.5, **({} if m is nl else {"numpy_resid": True})),
    lambda m, x, tall, b: m.lstsq(x[0], b)[0],
    lambda m, x, tall, b: m.matrix_power(x, -3),
    lambda m, x, tall, b: m.tensorinv(np.eye(6).reshape(2, 3, 6) + 0.1),
    lambda m, x, tall, b: m.tensorsolve(np.eye(6).reshape(2, 3, 6) + 0.1, np.ones((2, 3))),
    lambda m, x, tall, b: m.tensorsolve(np.eye(6).reshape(2, 6, 3) + 0.1, np.ones((2, 3)), axes=(1,)),
    lambda m, x, tall, b: [m.cond(x, p) for p in (None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf)],
    lambda m, x, tall, b: [m.cond(x * 0, p) for p in (None, 1)],
    lambda m, x, tall, b: [m.norm(tall, p, axis=(2, 0), keepdims=True) for p in (2, -2, "nuc")],
    lambda m, x, tall, b: [m.matrix_norm(tall, ord=p) for p in (2, -2, "nuc", "fro")],
]


def flat(x: Any) -> list[np.ndarray]:
    return [y for part in x for y in flat(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("place", range(len(CALLS)))
def test_values_are_numpys(place: int, complex: bool, references: Any) -> None:
    x, tall, b = (random(*shape, complex=complex) for shape in ((2, 4, 4), (2, 4, 3), (4,)))
    try:
        expected = flat(CALLS[place](nl, x, tall, b))
    except np.linalg.LinAlgError:
        expected = [np.array([np.inf, np.inf])] * 2  # veery, as JAX, has no exception
    actual = flat(CALLS[place](la, x, tall, b))
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype.kind == e.dtype.kind
        np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-11)


def test_eigenvectors_and_singular_vectors(references: Any) -> None:
    for complex in (False, True):
        x = random(2, 4, 4, complex=complex)
        s = x + np.conj(np.swapaxes(x, -1, -2))
        for w, v in (la.eigh(s), la.eigh(s, "U", False), la.eig(s), la.eig(x)):
            a = x if np.iscomplexobj(w) and not np.allclose(s @ v, v * w[..., None, :]) else s
            np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-10)
        np.testing.assert_allclose(np.sort(la.eigvals(s).real), la.eigvalsh(s), atol=1e-10)
        for u, d, vh in (la.svd(s), la.svd(s, hermitian=True)):
            np.testing.assert_allclose((u * d[..., None, :]) @ vh, s, atol=1e-10)
        u, d, vh = la.svd(s, full_matrices=False, subset_by_index=(1, 3))
        np.testing.assert_allclose(d, nl.svd(s, compute_uv=False)[:, 1:3])
        assert (u.shape, vh.shape) == ((2, 4, 2), (2, 2, 4))
    np.testing.assert_allclose(la.slogdet(x, method="qr"), nl.slogdet(x), rtol=1e-9)
    np.testing.assert_allclose(la.slogdet(x.real, method="qr"), nl.slogdet(x.real), rtol=1e-9)


_singular = np.array([[1.0, 2, 3, 4], [2, 4, 6, 8], [0, 1, 0, 1], [1, 0, 1, 1]])
SMOOTH: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {}
for _name, _c in (("real", False), ("complex", True)):
    _x, _tall = random(4, 4, complex=_c), random(4, 2, complex=_c)
    SMOOTH |= {
        f"solve-{_name}": (la.solve, (_x, _tall)),
        f"inv-{_name}": (la.inv, (random(2, 3, 3, complex=_c),)),
        f"det-{_name}": (la.det, (_x,)),
        f"det3-{_name}": (la.det, (_x[:3, :3],)),
        f"sign-{_name}": (lambda x: la.slogdet(x).sign, (_x,)),
        f"logdet-{_name}": (lambda x: la.slogdet(x).logabsdet, (_x,)),
        f"logdet-qr-{_name}": (lambda x: la.slogdet(x, method="qr").logabsdet, (_x,)),
        f"pinv-{_name}": (la.pinv, (_tall,)),
        f"pinv-hermitian-{_name}": (lambda x: la.pinv(x, hermitian=True), (_x + _x.conj().T,)),
        f"svd-hermitian-{_name}": (lambda x: la.svd(x, hermitian=True)[1], (_x + _x.conj().T,)),
        f"lstsq-{_name}": (lambda a, b: la.lstsq(a, b)[0], (_tall, _x[:, 0])),
        f"cond-{_name}": (la.cond, (_x,)),
        f"nuclear-{_name}": (lambda x: la.norm(x, "nuc"), (_tall,)),
        f"power-{_name}": (lambda x: la.matrix_power(x, -2), (_x,)),
        f"upper-{_name}": (lambda x: la.cholesky(x, upper=True), (_x @ _x.conj().T + np.eye(4),)),
    }
SMOOTH["det-singular"] = (la.det, (_singular,))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_equal_numerical_differences(name: str, references: Any) -> None:
    fun, operands = SMOOTH[name]
    wanted = range(len(operands))
    check_forward(fun, operands, wanted, 1e-5)
    check_backward(fun, operands, wanted, 1e-8)
    if "singular" not in name:
        check_second_order(fun, operands, [0], 1e-4)


@pytest.mark.compiler
def test_compiled_in_one_program() -> None:
    """Solutions, their gradient and batch, in float32."""
    x, b = random(3, 4, 4).astype("float32"), random(3, 4, 2).astype("float32")

    def fun(x: Any, b: Any) -> list[Any]:
        gradient = veery.grad(lambda x: jnp.sum(la.solve(x, b) ** 2) + la.slogdet(x).logabsdet.sum())
        batched = veery.vmap(la.solve, in_axes=(None, 0))(x[0], b)
        values = [la.solve(x, b), la.inv(x), la.det(x), la.pinv(x[..., :2]), la.lstsq(x[0], b[0])[0]]
        return [*values, gradient(x), batched]

    actual = veery.jit(fun)(x, b)
    with numpy_evaluation():
        expected = fun(x.astype("float64"), b.astype("float64"))
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, e, rtol=2e-3, atol=2e-3)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: la.inv(np.ones((2, 3))), ValueError, r"Argument to inv must have shape \[\.\.\., n, n\]"),
    (lambda: la.det(np.ones(3)), ValueError, "Argument to det must have shape"),
    (lambda: la.solve(np.eye(2), np.ones(3)), ValueError, "The arguments to solve must have shapes"),
    (lambda: la.solve([[1.0]], np.ones(1)), TypeError, "requires ndarray or scalar arguments"),
    (lambda: la.qr(np.eye(2), mode="x"), ValueError, "Unsupported QR decomposition mode 'x'"),
    (lambda: la.slogdet(np.eye(2), method="x"), ValueError, "Unknown slogdet method 'x'"),
    (lambda: la.eigh(np.eye(2), "X"), ValueError, "UPLO must be one of None, 'L', or 'U'"),
    (lambda: la.lstsq(np.ones(2), np.ones(2)), TypeError, "Array must be two-dimensional"),
    (lambda: la.lstsq(np.eye(2), np.ones(3)), ValueError, "Leading dimensions of input arrays must match"),
    (lambda: la.norm(np.eye(2), 3), ValueError, "Invalid order '3' for matrix norm"),
    (lambda: la.cond(np.ones((0, 2))), ValueError, "must be at least 2D and not empty"),
    (lambda: la.tensorinv(np.ones((2, 3)), 1), ValueError, "product of dimensions before and after ind must match"),
    (lambda: la.tensorinv(np.eye(2), 0), ValueError, "ind must be a positive integer"),
    (lambda: la.matrix_power(np.eye(2), 1.5), TypeError, "exponent must be an integer"),
]


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_errors_have_type_and_words(
    call: Callable[[], Any], error: type[Exception], words: str, references: Any
) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("stack", [(), (2,), (0,)])
def test_systems_without_equations(stack):
    a = np.zeros((*stack, 0, 0), np.float32)
    assert la.inv(a).shape == a.shape
    assert la.solve(a, np.zeros((*stack, 0, 3), np.float32)).shape == (*stack, 0, 3)
    assert veery.jit(veery.grad(lambda a: la.inv(a).sum()))(a).shape == a.shape
    if not stack:
        assert la.solve(a, np.zeros(0, np.float32)).shape == (0,)


def test_hermitian_matrices_are_symmetrized(references: Any) -> None:
    for function in (lambda x: la.pinv(x, hermitian=True), lambda x: la.svd(x, hermitian=True)[1]):
        np.testing.assert_allclose(function(_x), function((_x + _x.conj().T) / 2), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 9])
def test_determinants_of_half_precision_are_rounded_once(n: int, dtype: str, references: Any) -> None:
    x = np.asarray(random(2, n, n), dtype)
    wide = x.astype(np.float32)
    found = [la.det(x), *la.slogdet(x)]
    assert [str(each.dtype) for each in found] == [dtype] * 3
    for each, expected in zip(found, (la.det(wide), *la.slogdet(wide)), strict=True):
        np.testing.assert_array_equal(np.asarray(each), np.asarray(expected).astype(x.dtype))
    slope = veery.grad(lambda x: la.det(x).astype(np.float32).sum())(x)
    expected = veery.grad(lambda x: la.det(x).sum())(wide)
    np.testing.assert_allclose(
        np.asarray(slope).astype(np.float32), expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max(initial=1)
    )
