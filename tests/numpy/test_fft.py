"""Discrete Fourier transforms against NumPy's: of all sizes, over all axes, their derivatives, without the host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_batching, check_forward
from support.samples import normal_samples

import veery
import veery.numpy as jnp
from veery import lax
from veery.lax._fft import FftType, _fft_composition

random = normal_samples(2)
KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
OVER_TWO = ("fft2", "ifft2", "rfft2", "irfft2")
FUNCTIONS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

pytestmark = pytest.mark.usefixtures("x64")


def operand(kind: str, *shape: int) -> np.ndarray:
    """What a transform of that kind and those real sizes takes."""
    if kind == "IRFFT":
        return random(*shape[:-1], shape[-1] // 2 + 1, complex=True)
    return random(*shape, complex=kind != "RFFT")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_along_an_axis(name: str, references: Any) -> None:
    ours, theirs = getattr(jnp.fft, name), getattr(np.fft, name)
    x = random(3, 6, 5, complex=name not in ("rfft", "ihfft"))
    for n in (None, 1, 4, 7):
        for axis in (-1, 0, 1):
            for norm in (None, "backward", "ortho", "forward"):
                actual, expected = ours(x, n, axis, norm), theirs(x, n, axis, norm)
                assert actual.dtype == expected.dtype
                np.testing.assert_allclose(actual, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_over_several_axes(name: str, references: Any) -> None:
    ours, theirs = getattr(jnp.fft, name), getattr(np.fft, name)
    x = random(2, 3, 4, 5, complex=not name.startswith("rfft"))
    calls: list[dict[str, Any]] = [{}, {"axes": (1, 0)}, {"s": (4, 3), "axes": (2, 3), "norm": "ortho"}]
    if name.endswith("n"):
        calls += [{"axes": (3,)}, {"axes": (0, 2, 1), "norm": "forward"}]
    for call in calls:
        np.testing.assert_allclose(ours(x, **call), theirs(x, **call), atol=1e-12)
    if name.endswith("n"):
        np.testing.assert_allclose(ours(x, s=(3, 6)), theirs(x, s=(3, 6), axes=(2, 3)), atol=1e-12)


def test_real_numbers_are_transformed_as_such() -> None:
    """Which are made complex in the program; what is complex stays so, also where its imaginary parts are constant."""
    x = random(6, 5)
    for call, half in ((jnp.fft.fft2, np.fft.fft2), (jnp.fft.ifft, np.fft.ifft)):
        compiled = veery.jit(call).lower(x)
        assert "@host.cb0(tensor<6x5xf64>) -> tensor<6x5xcomplex<f64>>" in compiled.as_text()
        np.testing.assert_allclose(compiled.compile()(x), half(x), atol=1e-12)
    for imaginary in (1.0, np.nan, -0.0):
        shifted = veery.jit(lambda x, y=imaginary: jnp.fft.fft(lax.complex(x, jnp.full_like(x, y))))
        np.testing.assert_allclose(shifted(x), np.fft.fft(x + 1j * imaginary), atol=1e-12)


def test_compiled_transforms_of_real_numbers() -> None:
    x = random(4, 6)
    outs = veery.jit(lambda x: {name: getattr(jnp.fft, name)(x) for name in (*FUNCTIONS, *OVER_TWO)})(x)
    for name, found in outs.items():
        np.testing.assert_allclose(found, getattr(np.fft, name)(x), atol=1e-12, err_msg=name)
    constant = veery.jit(lambda x: jnp.fft.irfft(lax.complex(x, jnp.zeros_like(x))))(x)
    np.testing.assert_allclose(constant, np.fft.irfft(x), atol=1e-12)


def test_frequencies_and_shifts(references: Any) -> None:
    for n in (1, 4, 5):
        np.testing.assert_allclose(jnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(jnp.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
    assert jnp.fft.fftfreq(4, dtype=np.float32).dtype == np.float32
    x = random(3, 4)
    for axes in (None, 0, (1,), (0, -1)):
        np.testing.assert_array_equal(jnp.fft.fftshift(x, axes), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(jnp.fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))


def test_empty_arrays_and_dtypes(references: Any) -> None:
    assert (jnp.fft.fft(np.ones((3, 0)), axis=0).shape, jnp.fft.irfft(np.ones(1)).shape) == ((3, 0), (0,))
    assert jnp.fft.rfft(np.ones((0, 4))).shape == (0, 3)
    wanted = {"float32": "complex64", "int8": "complex64", "int64": "complex128", "float16": "complex64"}
    for given, result in wanted.items():
        assert jnp.fft.fft(np.ones(4, given)).dtype == result
    assert jnp.fft.irfft(np.ones(4, np.float32)).dtype == np.float32


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_narrow_numbers_are_transformed_by_the_library(dtype: str) -> None:
    x = jnp.arange(6).astype(dtype)
    for transform in (jnp.fft.fft, jnp.fft.ifft):
        expected = getattr(np.fft, transform.__name__)(np.arange(6))
        for fun in (transform, veery.jit(transform)):
            np.testing.assert_allclose(fun(x), expected, rtol=1e-6, atol=1e-6)


SIZES = [1, 2, 3, 64, 65, 67, 72, 96, 131, 134, 128]


@pytest.mark.parametrize("size", SIZES)
def test_products_of_matrices_are_the_transform(size: int, references: Any) -> None:
    """Factors up to 64, powers of two, primes and multiples of primes."""
    for kind in KINDS:
        x = operand(kind, 2, size)
        params = {"fft_type": FftType[kind], "fft_lengths": (size,)}
        expected = np.asarray(lax.fft(x, kind, (size,)))
        np.testing.assert_allclose(_fft_composition(x, **params), expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("lengths", [(5,), (4,), (3, 4), (2, 3, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_rules(kind: str, lengths: tuple[int, ...], references: Any) -> None:
    fun = lambda x: lax.fft(x, kind, lengths)
    x = operand(kind, 2, *lengths)
    params = {"fft_type": FftType[kind], "fft_lengths": lengths}
    np.testing.assert_allclose(_fft_composition(x, **params), fun(x), atol=1e-12)
    check_forward(fun, [x], [0])
    check_backward(fun, [x], [0])
    check_batching(fun, [x])


@pytest.mark.compiler
def test_programs_with_and_without_the_host(tmp_path: Path) -> None:
    import veery_runtime
    from veery import aot

    def fun(x: Any) -> list[Any]:
        gradient = veery.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfftn(x)) ** 2))(x)
        return [jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x, axis=0), 67, axis=0), gradient]

    x = random(67, 6).astype("float32")
    aot.compile(fun, (x,), out=tmp_path / "transforms.vmfb")
    with numpy_evaluation():
        expected = fun(x)
    for outs in (veery_runtime.load(tmp_path / "transforms.vmfb")(x), veery.jit(fun)(x)):
        for a, e in zip(outs, expected, strict=True):
            assert a.dtype == e.dtype
            np.testing.assert_allclose(a, e, atol=1e-5 * np.abs(e).max())


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.fft.fft(np.ones(4), norm="x"), ValueError, "Invalid norm value x"),
    (lambda: jnp.fft.fft(np.ones(4), 0), ValueError, "Shape should be positive"),
    (lambda: jnp.fft.fft(np.ones(4), axis=(0,)), ValueError, "does not support multiple axes"),
    (lambda: jnp.fft.fft2(np.ones((2, 2)), axes=(0,)), ValueError, "only supports 2 axes"),
    (lambda: jnp.fft.fftn(np.ones((2, 2)), axes=(0, 0)), ValueError, "does not support repeated axes"),
    (lambda: jnp.fft.fftn(np.ones((2, 2)), (4,), (0, 1)), ValueError, "Shape and axes have different lengths"),
    (lambda: jnp.fft.fft(np.ones(4), axis=1), ValueError, "axis 1 is out of bounds"),
    (lambda: jnp.fft.rfft(np.ones(4, complex)), ValueError, "only real valued inputs supported for rfft"),
    (lambda: jnp.fft.fft([1.0]), TypeError, "requires ndarray or scalar arguments"),
    (lambda: jnp.fft.fftfreq([4]), ValueError, "only takes an int"),
    (lambda: jnp.fft.fftfreq(4, np.ones(2)), ValueError, "only takes a single value"),
    (lambda: lax.fft(np.ones(4), "DCT", (4,)), ValueError, "Unknown FFT type 'DCT'"),
    (lambda: lax.fft(np.ones(4), 7, (4,)), TypeError, "Unknown FFT type value '7'"),
    (
        lambda: lax.fft(np.ones(4), "FFT", (3,)),
        ValueError,
        r"FFT input shape \(4,\) minor dimensions must be equal to fft_lengths \(3,\)",
    ),
    (
        lambda: lax.fft(np.ones((2, 4)) * 1j, "IRFFT", (3, 6)),
        ValueError,
        "equal to all except the last fft_length, got fft_lengths=",
    ),
    (
        lambda: lax.fft(np.ones(4), "IRFFT", (4,)),
        ValueError,
        r"half of the last fft_length and one, got fft_lengths \(4,\)",
    ),
    (lambda: lax.fft(np.ones(4, np.float16), "RFFT", (4,)), ValueError, "RFFT input must be float32 or float64, got"),
    (lambda: lax.fft(np.ones(4), "FFT", (4, 4)), ValueError, "must have at least as many input dimensions"),
]


@pytest.mark.parametrize(("call", "error", "words"), ERRORS)
def test_errors_have_type_and_words(
    call: Callable[[], Any], error: type[Exception], words: str, references: Any
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_quarter_turns_of_compositions_are_exact() -> None:
    for n in (2, 4, 64):
        x = np.zeros(n, np.complex128)
        x[0] = x[n // 2] = 1
        expected = np.where(np.arange(n) % 2 == 0, 2, 0)
        np.testing.assert_array_equal(_fft_composition(x, fft_type=FftType.FFT, fft_lengths=(n,)), expected)
