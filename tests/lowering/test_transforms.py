"""Fourier transforms that kernels compute themselves, in loops and outside, against NumPy's in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.days import of_the_day
from support.interpreted import interpreted
from support.kernels import how_many

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_loops, fuse_pieces

RNG = np.random.default_rng(29)

# Of each length all stages there are: 4, 2, 8, odd primes; vectors that results of stages alternate in, whole and not.
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 20, 26, 30, 32, 49, 60, 64, 66, 100, 121, 128, 225, 256, 360, 1024]
KINDS = ["fft", "ifft", "rfft", "irfft", "fftn", "ifftn", "rfftn", "irfftn"]


def looped(fun: Callable[[Any], Any], x: Any) -> Any:
    """What a function gives in the second trip of a loop."""
    out = veery.eval_shape(fun, x)
    return lax.fori_loop(0, 2, lambda _, c: (c[0], fun(c[0])), (x, jnp.zeros(out.shape, out.dtype)))[1]


kernels = functools.partial(how_many, fuse_loops)


def sample(shape: tuple[int, ...], dtype: Any, is_complex: bool) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape)).astype(np.result_type(dtype, 1j)) if is_complex else x.astype(dtype)


def assert_transforms(rows: Sequence[tuple[str, np.ndarray, dict[str, Any]]], dtype: Any) -> None:
    """Rows of a function's name, what it is given, and its options, all in one program, each as a loop."""
    funs = [functools.partial(getattr(jnp.fft, name), **options) for name, _, options in rows]
    arguments = [x for _, x, _ in rows]
    program = lambda *xs: [looped(fun, x) for fun, x in zip(funs, xs)]
    assert kernels(program, *arguments) == len(rows)
    bound = 4 * np.finfo(dtype).eps
    for (name, x, options), actual in zip(rows, veery.jit(program)(*arguments)):
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        wanted = getattr(np.fft, name)(wide, **options)
        assert actual.dtype == (np.result_type(dtype, 1j) if wanted.dtype.kind == "c" else dtype)
        assert actual.shape == wanted.shape
        error = np.abs(np.asarray(actual) - wanted).max() / np.abs(wanted).max()
        assert error < bound, (name, x.shape, options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", range(6))
def test_along_one_axis(part: int, dtype: Any) -> None:
    rows = []
    for n in LENGTHS[part::6]:
        for shape, axis in (((3, n), -1), ((n, 21), 0), ((2, n, 5), 1)):
            if n * 21 > 8192:
                continue
            rows += [(name, sample(shape, dtype, True), {"axis": axis}) for name in ("fft", "ifft")]
        rows += [("rfft", sample((2, n), dtype, False), {}), ("irfft", sample((2, n // 2 + 1), dtype, True), {"n": n})]
        rows.append(("fft", sample((2, n), dtype, False), {}))
    with veery.enable_x64(dtype == np.float64):
        assert_transforms(of_the_day(rows, 3), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 6, 16, 33])
def test_along_several_axes(n: int, dtype: Any) -> None:
    full, half = (2, 12, n), (2, 12, n // 2 + 1)
    axes = (0, 1, 2)
    rows: list[tuple[str, np.ndarray, dict[str, Any]]] = []
    for name, shape, options in (
        ("fftn", full, {}), ("ifftn", full, {}), ("fft2", full, {}), ("rfftn", full, {}), ("rfft2", full, {}),
        ("irfftn", half, {"s": full, "axes": axes}), ("irfft2", half, {"s": full[1:]}),
    ):  # fmt: skip
        rows.append((name, sample(shape, dtype, not name.startswith("rfft")), options))
    rows.append(("ifft2", sample(full, dtype, False), {}))
    with veery.enable_x64(dtype == np.float64):
        assert_transforms(rows, dtype)


def heat(u: Any) -> Any:
    """20 steps of the heat equation with a reaction."""
    waves = jnp.fft.fftfreq(u.shape[0]) * u.shape[0]
    decay = jnp.exp(-0.001 * (waves[:, None] ** 2 + waves**2))
    step = lambda _, u: jnp.real(jnp.fft.ifft2(jnp.fft.fft2(u - 0.1 * u**3) * decay))
    return lax.fori_loop(0, 20, step, u)


def waves_of(u: Any) -> Any:
    """Burgers' equation, states kept."""
    k = 1j * jnp.fft.rfftfreq(u.shape[-1]) * u.shape[-1]

    def step(u: Any, _: Any) -> tuple[Any, Any]:
        spectrum = jnp.fft.rfft(u)
        slope = jnp.fft.irfft(k * spectrum, u.shape[-1])
        return u - 0.001 * u * slope + 0.001 * jnp.fft.irfft(k * k * spectrum, u.shape[-1]), spectrum

    return lax.scan(step, u, None, length=15)


def projected(z: Any) -> Any:
    """Alternating projections, of trips that nobody counts, with a loop and a branch within."""
    mask = jnp.arange(z.size) < z.size // 2

    def trip(c: Any) -> Any:
        i, z = c
        z = lax.cond(i % 2 == 0, lambda z: jnp.fft.fft(z), lambda z: jnp.fft.ifft(z), z)
        z = lax.fori_loop(0, 2, lambda _, z: jnp.fft.ifft(jnp.where(mask, jnp.fft.fft(z), 0.5)), z)
        return i + 1, z / jnp.linalg.norm(z)

    return lax.while_loop(lambda c: (c[0] < 9) & (jnp.abs(c[1][0]) < 2), trip, (0, z))


def filtered(x: Any, h: Any) -> Any:
    """Convolutions with the same filter, whose transform is one of no trip."""
    return lax.fori_loop(0, 4, lambda _, x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(h), x.size), x)


FILTER = np.exp(-np.arange(48.0)).astype(np.float32)
PROGRAMS = {
    "heat": (heat, sample((32, 32), np.float32, False)),
    "gradient of heat": (veery.grad(lambda u: (heat(u) ** 2).sum()), sample((16, 16), np.float32, False)),
    "derivative of heat": (lambda u: veery.jvp(heat, (u,), (u + 1,)), sample((8, 8), np.float32, False)),
    "waves": (waves_of, sample((64,), np.float32, False)),
    "rows of waves": (veery.vmap(waves_of), sample((3, 30), np.float32, False)),
    "gradient of waves": (veery.grad(lambda u: (waves_of(u)[0] ** 2).sum()), sample((24,), np.float32, False)),
    "projections": (projected, sample((40,), np.float32, True)),
    "rows of projections": (veery.vmap(projected), sample((3, 20), np.float32, True)),
    "one filter": (lambda x: filtered(x, FILTER), sample((48,), np.float32, False)),
    "its gradient": (veery.grad(lambda h: (filtered(FILTER, h) ** 2).sum()), FILTER),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    fun, x = PROGRAMS[name]
    assert kernels(fun, x) >= 1
    for actual, wanted in zip(
        veery.tree.leaves(veery.jit(fun)(x)), veery.tree.leaves(interpreted(fun, x)), strict=True
    ):
        np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=2e-5)


@settings(max_examples=12, deadline=None)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 5, 8, 14, 16, 18, 32, 48, 77]), min_size=1, max_size=3),
    kind=st.sampled_from(KINDS),
    last=st.sampled_from([1, 2, 3, 6, 15, 16, 27, 33, 40, 64]),
    axis=st.integers(0, 2),
)
def test_any_shape(shape: list[int], kind: str, last: int, axis: int) -> None:
    while np.prod(shape) > 4096:
        shape.pop()
    x = sample(tuple(shape), np.float32, kind not in ("rfft", "rfftn"))
    options: dict[str, Any] = {} if kind.endswith("n") else {"axis": axis % len(shape)}
    if kind == "irfftn":
        options = {"s": (*shape[:-1], last), "axes": tuple(range(len(shape)))}
    elif kind == "irfft":
        options["n"] = last
    assert_transforms([(kind, x, options)], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outside_of_loops(dtype: Any) -> None:
    """Each is a kernel; equal ones are one."""
    rows: list[tuple[str, np.ndarray, dict[str, Any]]] = [
        (name, sample(shape, dtype, not name.startswith("rfft")), options)
        for name, shape, options in (
            ("fft", (60,), {}), ("ifft", (3, 128), {}), ("rfft", (2, 49), {}), ("irfft", (2, 33), {}),
            ("fft2", (16, 12), {}), ("irfft2", (16, 9), {}), ("fft", (5, 8, 3), {"axis": 1}), ("fftn", (4, 6, 5), {}),
        )
    ]  # fmt: skip
    rows += [("fft", sample((60,), dtype, True), {}), ("fft", sample((60,), dtype, False), {})]
    program = lambda *xs: [getattr(jnp.fft, name)(x, **options) for (name, _, options), x in zip(rows, xs)]
    arguments = [x for _, x, _ in rows]
    with veery.enable_x64(dtype == np.float64):
        assert how_many(fuse_pieces, program, *arguments) == len(rows)
        found = veery.jit(program).lower(*arguments).compile()(*arguments)
    for (name, x, options), actual in zip(rows, found, strict=True):
        wanted = getattr(np.fft, name)(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64), **options)
        assert actual.dtype == (np.result_type(dtype, 1j) if wanted.dtype.kind == "c" else dtype)
        assert np.abs(np.asarray(actual) - wanted).max() < 4 * np.finfo(dtype).eps * np.abs(wanted).max(), name


def spectral(u: Any, v: Any) -> Any:
    """Transforms between all else: what is joined, summed, sorted, and of their results."""
    for _ in range(2):
        a, b = jnp.fft.rfft(u), jnp.fft.rfft(v)
        most = jnp.max(jnp.cumsum(jnp.abs(jnp.concatenate([a, b[:3]]))))
        u = jnp.fft.irfft(a * jnp.exp(-0.01 * jnp.arange(a.shape[0])) + b / most, u.size) + jnp.sort(v) * jnp.sum(v)
        v = jnp.fft.ifft(jnp.fft.fft(u) * b[0]).real / jnp.linalg.norm(u) + jnp.flip(v) * most / 1e3
        u, v = u / jnp.max(jnp.abs(u)), v / jnp.max(jnp.abs(v))
    return u, v


@pytest.mark.parametrize("n", [32, 45, 64])
def test_between_other_operations(n: int) -> None:
    """And where a library computes them, since 34 has a large prime factor, and in branches."""
    u, v = sample((n,), np.float32, False), sample((n,), np.float32, False)
    gradient = veery.grad(lambda u, v: sum((x**3).sum() for x in spectral(u, v)))
    larger = lambda u, v: jnp.abs(jnp.fft.fft(jnp.fft.fft(u) * jnp.fft.fft(jnp.resize(v, 34))[0]))
    chosen = lambda u, v: lax.cond(u[0] > v[0], lambda x: jnp.fft.fft(x).real, lambda x: jnp.fft.ifft(x).imag, u)
    for fun in (spectral, gradient, larger, chosen):
        actual = veery.jit(fun).lower(u, v).compile()(u, v)
        for x, y in zip(veery.tree.leaves(actual), veery.tree.leaves(interpreted(fun, u, v)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def test_what_a_library_computes() -> None:
    """Large prime factors, many numbers, zeros: the loop calls a library."""
    fourier = lambda x: looped(jnp.fft.fft, x)
    for x in (np.ones(17, np.complex64), np.ones((2, 34), np.complex64), np.ones((512, 256), np.complex64)):
        assert kernels(fourier, x) == 0
        np.testing.assert_allclose(veery.jit(fourier)(x), np.fft.fft(x), rtol=1e-5, atol=1e-3)
    for x in (np.ones(17, np.complex64), np.ones((256, 128), np.complex64)):
        assert how_many(fuse_pieces, jnp.fft.fft, x) == 0
    zeros = lambda x: lax.fori_loop(0, 3, lambda _, x: x + jnp.fft.fft(jnp.zeros(8)), x)
    np.testing.assert_array_equal(veery.jit(zeros)(np.ones(8, np.complex64)), np.ones(8))


def test_a_transform_that_nobody_reads() -> None:
    unread = lambda x: lax.fori_loop(0, 3, lambda _, c: (c[0] + 1, c[1] + jnp.fft.fft(c[0]).real), (x, x.real))[1]
    x = sample((16,), np.float32, True)
    wanted = x.real + sum(np.fft.fft(x + k).real for k in range(3))
    np.testing.assert_allclose(veery.jit(unread)(x), wanted, rtol=1e-4, atol=1e-4)
    chosen = lambda x: lax.cond(x[0].real > -9, lambda x: (jnp.fft.fft(x), x.real), lambda x: (x, x.imag), x)[1]
    assert how_many(fuse_pieces, chosen, x) == 0
    np.testing.assert_array_equal(veery.jit(chosen).lower(x).compile()(x), x.real)


@pytest.mark.parametrize("n", [2, 4, 8, 12, 15, 16])
def test_angles_of_negative_numbers(n: int) -> None:
    """Transforms of real numbers have no negative zeros as imaginary parts: pi, never -pi."""
    x = np.zeros(n, np.float32)
    x[0], x[1], x[-1] = -3, 1, 1
    for fun in (jnp.fft.fft, jnp.fft.ifft, jnp.fft.fft2, jnp.fft.rfft):
        given = np.tile(x, (4, 1)) if fun is jnp.fft.fft2 else x
        imaginary = np.asarray(veery.jit(lambda x: looped(fun, x))(given)).imag  # noqa: B023
        assert not np.signbit(imaginary[imaginary == 0]).any()
