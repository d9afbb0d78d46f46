"""Eager programs of a few operations that NumPy evaluates: what compiled ones give, to rounding, and which they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results
from support.table_calls import elementwise_calls, structural_calls

import veery
import veery.numpy as jnp
import veery_lowering
from veery import _eager, lax
from veery._dispatch import lowering
from veery._eager.small import SmallProgram, small_program

R = np.random.default_rng(11)
X = R.normal(size=60).astype(np.float32)
MATRIX = R.normal(size=(12, 7)).astype(np.float32)
# Whose results are differences near their zeros, or sums of many terms.
INACCURATE = ("cumlogsumexp", "digamma", "lgamma")
UNITS = {"float32": 16, "float64": 64}  # of these, in the last place
DTYPES = ("int32", "uint8", "float16", "bfloat16", "float32", "float64", "complex64")


def program_of(fun: Callable[..., Any], *operands: Any) -> SmallProgram | None:
    return small_program(veery.make_jaxpr(fun)(*operands), lowering().host.CALLS)


def compilations() -> int:
    info = veery_lowering.cache_info()
    return int(info.hits + info.misses)


@contextmanager
def nothing_compiled() -> Iterator[None]:
    before = compilations()
    yield
    assert compilations() == before


def far_apart(out: np.ndarray, compiled: np.ndarray, units: int) -> np.ndarray:
    """Where results are not the same number, zero, infinity or NaN, but for some units in the last place.

    Of complex numbers these are of their absolute value, and one that is not finite is like another.
    """
    if out.dtype.kind in "biu":
        return out != compiled
    eps = float(ml_dtypes.finfo(out.dtype).eps)
    wide = np.complex128 if out.dtype.kind == "c" else np.float64
    a, b = out.astype(wide), compiled.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(a - b) <= units * eps * np.abs(b)
    if wide is np.complex128:
        return ~(close | ~np.isfinite(a) & ~np.isfinite(b))
    same = (a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b)))
    return ~(same | np.isnan(a) & np.isnan(b) | close & (a != 0) & (b != 0) & np.isfinite(b))


def is_subnormal(x: np.ndarray) -> np.ndarray:
    """Where numbers are as small as the smallest normal one, of which compiled programs flush some."""
    if x.dtype.kind == "c":
        return is_subnormal(x.real) | is_subnormal(x.imag)
    tiny = float(ml_dtypes.finfo(x.dtype).smallest_normal) if x.dtype.kind in "fV" else 0.0
    return (x != 0) & (np.abs(x) <= tiny)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", DTYPES)
def test_operations_are_those_of_compiled_programs(name: str) -> None:
    """In all their samples, with special values, of dtypes and shapes."""
    calls = elementwise_calls(name) + structural_calls(name)
    programs = [(program_of(fun, *operands), title, fun, operands) for title, fun, operands in calls]
    chosen = [(program, *call) for program, *call in programs if program is not None]
    assert len(chosen) > 40
    wrong = []
    for (program, title, _, operands), compiled in zip(
        chosen, results([(fun, operands) for _, _, fun, operands in chosen]), strict=True
    ):
        if isinstance(compiled, Exception):
            raise compiled
        out = np.asarray(program([np.asarray(x) for x in operands])[0])
        if (out.dtype, out.shape) != (compiled.dtype, compiled.shape):
            wrong.append(f"{title}: {out.dtype}{out.shape}, compiled {compiled.dtype}{compiled.shape}")
            continue
        is_inaccurate = any(each in title for each in INACCURATE)
        far = far_apart(out, compiled, UNITS.get(name, 8) if is_inaccurate else 8)
        if title.startswith("special"):
            far &= ~np.logical_or.reduce([is_subnormal(x) for x in (*operands, compiled)])
        if title == "special pow":  # whose subnormal results lose their sign when they are flushed
            far &= (out != 0) | (compiled != 0)
        if (
            title == "special exp2" and name == "complex64"
        ):  # of larger ones an angle has fewer digits than this asks for
            far &= np.abs(operands[0]) < 1e4
        for i in np.argwhere(far)[:3]:
            at = [x[tuple(i)] if x.shape == out.shape else ... for x in operands]
            wrong.append(f"{title} of {at}: {out[tuple(i)]}, compiled {compiled[tuple(i)]}")
    assert not wrong, "\n".join(wrong)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "variance": jnp.var,
    "deviation of columns": lambda x: jnp.std(x, axis=0),
    "covariance": jnp.cov,
    "correlation": lambda x: jnp.corrcoef(x, rowvar=False),
    "norm": lambda x: jnp.linalg.norm(x, axis=1),
    "product": lambda x: x @ x.T,
    "products of all": lambda x: jnp.einsum("ij,kj->ik", x, x),
    "softmax": veery.nn.softmax,
    "logarithm of a sum": veery.nn.logsumexp,
    "gelu": veery.nn.gelu,
    "histogram": lambda x: jnp.histogram(x[:, 0], bins=4),
    "sliding means": lambda x: jnp.convolve(x[:, 0], jnp.ones(3) / 3, mode="same"),
    "correlation of vectors": lambda x: jnp.correlate(x[:3, 0], x[:, 1], mode="full"),
    "sums from the left": lambda x: jnp.cumsum(x, axis=1),
    "products of columns": lambda x: jnp.prod(x, axis=0),
    "percentile": lambda x: jnp.percentile(x, 30, axis=1),
    "density": lambda x: veery.scipy.stats.norm.logpdf(x),
    "angles": lambda x: jnp.angle(jnp.exp(1j * x)),
    "entropy": lambda x: veery.scipy.special.entr(jnp.abs(x)),
    "powers": lambda x: jnp.abs(x) ** 1.5,
    "remainders": lambda x: x % 0.3,
    "half precision": lambda x: jnp.tanh(x.astype(jnp.bfloat16)) * 3,
    "counts": lambda x: jnp.bincount(jnp.abs(x[:, 0]).astype(int), length=4),
    "nothing": lambda x: jnp.exp(x[:0]).sum(0),
}


@pytest.mark.parametrize("title", FUNCTIONS)
def test_eager_functions_are_those_that_are_compiled(title: str) -> None:
    """Without a compilation, with the types of compiled ones, and as accurate."""
    fun, x = FUNCTIONS[title], jnp.asarray(MATRIX)
    with nothing_compiled():
        outs = fun(x)
    compiled = veery.jit(fun)(x)
    for out, expected in zip(veery.tree.leaves(outs), veery.tree.leaves(compiled), strict=True):
        assert (out.aval, out.committed, out.device) == (expected.aval, expected.committed, expected.device)
        wide = np.result_type(expected.dtype, np.float64) if expected.dtype != jnp.bfloat16 else np.float64
        tolerance = 1e-2 if expected.dtype == jnp.bfloat16 else 2e-6
        a, b = np.asarray(out).astype(wide), np.asarray(expected).astype(wide)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.abs(b).max(initial=0)))


@pytest.mark.parametrize("shape", [(5, 3), (40, 7), (200, 64), (3, 3)])
@pytest.mark.parametrize("pads", [(0, 0), (2, 1), (2, 2)])
def test_sliding_products(shape: tuple[int, int], pads: tuple[int, int]) -> None:
    x, kernel = R.normal(size=shape[0]).astype(np.float32), R.normal(size=shape[1]).astype(np.float32)
    fun = lambda x, k: lax.conv_general_dilated(x[None, None], k[None, None], (1,), [pads])[0, 0]
    program = program_of(fun, x, kernel)
    assert program is not None
    padded = np.pad(x.astype(np.float64), pads)
    expected = [padded[i : i + shape[1]] @ kernel for i in range(sum(pads) + shape[0] - shape[1] + 1)]
    np.testing.assert_allclose(program([x, kernel])[0], expected, rtol=1e-6, atol=1e-6)


SLIDING_OTHERWISE: dict[str, dict[str, Any]] = {
    "steps": {"window_strides": (2,)},
    "a dilated kernel": {"rhs_dilation": (2,)},
    "dilated numbers": {"lhs_dilation": (2,)},
    "fewer than there are": {"padding": [(-1, 0)]},
}


@pytest.mark.parametrize("title", SLIDING_OTHERWISE)
def test_other_convolutions_are_compiled(title: str) -> None:
    options = {"window_strides": (1,), "padding": [(0, 0)], **SLIDING_OTHERWISE[title]}
    fun = lambda x, k: lax.conv_general_dilated(x[None, None], k[None, None], **options)
    assert program_of(fun, X, X[:3]) is None
    assert program_of(lambda x, k: lax.conv_general_dilated(x, k, (1,), [(0, 0)]), *np.ones((2, 1, 2, 5))) is None


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("features", "outputs", "groups"), [(1, 1, 1), (3, 1, 1), (1, 3, 1), (3, 3, 1), (3, 3, 3)])
def test_what_slides_along_other_dimensions(batch: int, features: int, outputs: int, groups: int) -> None:
    """Arrays that are vectors, too, but of batches and features: it is their width that is padded."""
    x = R.normal(size=(batch, features, 1)).astype(np.float32)
    kernel = R.normal(size=(outputs, features // groups, 3)).astype(np.float32)
    out = lax.conv_general_dilated(x, kernel, (1,), [(1, 1)], feature_group_count=groups)
    parts = x.reshape(batch, groups, -1), kernel[..., 1].reshape(groups, outputs // groups, -1)
    expected = np.einsum("bgi,goi->bgo", *parts).reshape(batch, outputs, 1)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


LEFT_TO_THE_COMPILER: dict[str, Callable[..., Any]] = {
    "many elements": lambda x: jnp.exp(jnp.zeros((100, 60)) + x),
    "many operations": lambda x: sum((jnp.sin(x * i) for i in range(20)), x),
    "a loop": lambda x: lax.fori_loop(0, 3, lambda i, x: jnp.sin(x), x),
    "a branch": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "normal numbers, which are JAX's": lambda x: veery.random.normal(veery.random.key(0), (5,)),
    "an effect": lambda x: veery.debug.print("{}", x[0]) or jnp.sin(x),
    "a function of the user's": lambda x: veery.pure_callback(np.sin, x, x) + jnp.exp(x),
    "a function that is not on the list": veery.scipy.special.i1e,
}


@pytest.mark.parametrize("title", LEFT_TO_THE_COMPILER)
def test_left_to_the_compiler(title: str) -> None:
    assert program_of(LEFT_TO_THE_COMPILER[title], X) is None


def test_shapes_that_are_not_known_are_left_to_the_compiler() -> None:
    (b,) = veery.export.symbolic_shape("b")
    assert program_of(jnp.exp, veery.ShapeDtypeStruct((b,), np.float32)) is None


def test_functions_that_the_user_has_compiled_are_compiled() -> None:
    before = compilations()
    veery.jit(lambda x: jnp.sin(x) + 3)(X)
    assert compilations() == before + 1
    veery.config.update("veery_host_evaluation", False)
    jnp.sin(X[:17])
    assert compilations() == before + 2


def test_subnormal_numbers_are_zeros_as_in_compiled_programs() -> None:
    x = jnp.asarray([1e-40, -1e-40, 2e-38, 0.0], jnp.float32)
    found = {name: getattr(jnp, name)(x) for name in ("log", "exp", "expm1", "tanh", "cbrt", "arctan")}
    for name, out in found.items():
        compiled = veery.jit(getattr(jnp, name))(x)
        np.testing.assert_allclose(out, compiled, rtol=1e-6, err_msg=name)
    assert found["log"][0] == -np.inf and not found["tanh"][:2].any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_powers_of_one_half_are_not_roots(dtype: str) -> None:
    """NumPy takes roots where all exponents are 0.5, and those of -inf and -0.0 are others."""
    with veery.enable_x64(True):
        x = jnp.asarray([-np.inf, -0.0, -4.0, 4.0, np.inf], dtype)
        with nothing_compiled():
            found = [x**0.5, jnp.power(x, jnp.asarray(0.5, dtype)), jnp.stack([each**0.5 for each in x])]
    for out in found:
        out = np.asarray(out, np.float64)
        np.testing.assert_array_equal(out, [np.inf, 0, np.nan, 2, np.inf])
        assert not np.signbit(out[1])


def test_products_of_complex_numbers_round_once() -> None:
    x = jnp.asarray([0.1, -0.3, 1e18], jnp.float32)
    z = x + 1j * x
    with nothing_compiled():
        found = [z * z, jnp.square(z), z**2]
    for out in found:
        np.testing.assert_array_equal(out.real, 0.0)
        np.testing.assert_array_equal(out.imag, 2 * np.asarray(x) ** 2)
    with veery.enable_x64(True):
        assert program_of(lambda z: z * z, np.ones(3, np.complex128)) is None


def test_bits_are_the_same_whether_arguments_are_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.asarray(X)
    fun = lambda: jnp.var(jnp.exp(x))
    with nothing_compiled():
        first = fun()
        monkeypatch.setattr(type(x._buffer), "numpy_if_ready", lambda buffer: None)
        again = fun()
        monkeypatch.undo()
        assert first.item() == again.item() == fun().item()


def test_results_are_waited_for() -> None:
    """Of a program that takes its time: what follows it is queued, not computed of what is not there."""
    square = R.normal(size=(900, 900)).astype(np.float32) / 30
    slow = veery.jit(lambda x: veery.lax.fori_loop(0, 20, lambda i, y: jnp.tanh(x @ y), x)[0, :5])
    expected = np.exp(np.asarray(slow(square), np.float64))
    np.testing.assert_allclose(jnp.exp(slow(square)), expected, rtol=1e-5)


def test_what_is_called_for_long_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_eager, "MOST_SECONDS", 0.0)
    with nothing_compiled():
        first = np.asarray(jnp.exp(X[:33]))
        assert all((np.asarray(jnp.exp(X[:33])) == first).all() for _ in range(50))


def test_settings_hold() -> None:
    with veery.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jnp.log(jnp.asarray(-(X**2)))
    with veery.enable_x64(True):
        assert jnp.exp(jnp.arange(3.0)).dtype == np.float64
    with nothing_compiled():
        mapped = veery.vmap(lambda row: jnp.tanh(row).sum())(MATRIX)
        slope = veery.grad(lambda x: jnp.tanh(x).sum())(X[:29])
    np.testing.assert_allclose(mapped, np.tanh(MATRIX.astype(np.float64)).sum(1), rtol=1e-5)
    np.testing.assert_allclose(slope, 1 / np.cosh(X[:29].astype(np.float64)) ** 2, rtol=1e-5)
