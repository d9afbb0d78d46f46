"""Complex numbers in kernels, as pairs of real ones: that they are what NumPy gives, and of which kernels are made."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_close, results
from support.interpreted import interpreted
from support.kernels import how_many

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_moves

# Of integers, which are exact.
EXACT: dict[str, Callable[..., Any]] = {
    "sum": lambda z, w: z + w - 2 * w,
    "product": lambda z, w: z * w,
    "negative": lambda z, w: -z * z,
    "conjugate": lambda z, w: z.conj() * w,
    "parts": lambda z, w: (z.real, z.imag + w.real, z.imag),
    "squares": lambda z, w: z.real**2 + z.imag**2,
    "of real ones": lambda z, w: lax.complex(z.real + w.imag, z.imag * 3),
    "scaled": lambda z, w: z * w.real + 1,
    "by a number": lambda z, w: z * (2 - 3j) + w[..., :1],
    "equal": lambda z, w: jnp.where(z == w, z, w * 2),
    "different": lambda z, w: (z != w.conj()) * z.real,
    "chosen": lambda z, w: jnp.where(z.real > w.real, z, w) * 2,
    "backwards": lambda z, w: z[..., ::-1] * w,
    "by steps": lambda z, w: z[..., ::2] + w[..., ::-2],
    "turned": lambda z, w: z.T * w.T + 1,
    "as a row": lambda z, w: z.reshape(-1) * w.reshape(-1),
    "rows": lambda z, w: z * w[:1] + z[:, :1],
    "joined": lambda z, w: jnp.concatenate([z * w, w], -1) * 2,
    "padded": lambda z, w: jnp.pad(z * w, 1, constant_values=2 + 1j) + 1,
    "between": lambda z, w: lax.pad(z, z[0, 0], ((1, -1, 1), (0, 2, 2))) * 2,
    "rolled": lambda z, w: jnp.roll(z, 3, -1) - z + w,
    "looked up": lambda z, w: z[jnp.arange(2 * z.shape[0]) // 3 % z.shape[0]] * 2,
    "stacked": lambda z, w: jnp.stack([z * w, w, z], -1) * 1j,
    "several": lambda z, w: (z * w, (z * w).real, (z * w).sum(0), w + 1),
    "added up": lambda z, w: (z * w.conj()).sum(-1) + (z.real * w.imag).sum(),
    "set": lambda z, w: (z * w).at[1:, 2].set(3j) + w,
    "added at": lambda z, w: (z.real * 2).at[jnp.arange(9) % 4].add(w.imag[0]),
    "a constant": lambda z, w: z * (np.arange(z.shape[-1]) * (1 + 2j)).astype(z.dtype) + w,
    "multiplied": lambda z, w: (z + 1) @ (w * 2).T,
}
# Within so many units in the last place.
ROUNDED: dict[str, tuple[Callable[..., Any], float]] = {
    "abs": (lambda z, w: abs(z), 3),
    "quotient": (lambda z, w: z / w, 6),
    "exp": (lambda z, w: jnp.exp(z), 3),
    "log": (lambda z, w: jnp.log(z), 3),
    "root": (lambda z, w: jnp.sqrt(z), 3),
    "angle": (lambda z, w: jnp.angle(z), 3),
    "phase": (lambda z, w: jnp.exp(1j * z.real), 3),
    "power spectrum": (lambda z, w: abs(jnp.fft.fft(z)) ** 2, 40),
}
SHAPES = [(40, 50), (37, 131), (130, 1), (1, 2051), (5, 3)]


def numbers(seed: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.integers(-9, 10, shape) + 1j * rng.integers(-9, 10, shape)).astype(dtype)


def agree(fun: Callable[..., Any], operands: list[tuple[np.ndarray, ...]], ulps: float = 0) -> None:
    for given, outs in zip(operands, results([(fun, given) for given in operands]), strict=True):
        assert not isinstance(outs, Exception), (given[0].shape, outs)
        with np.errstate(all="ignore"):
            expected = veery.tree.leaves(interpreted(fun, *given))
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            assert_close(actual, np.asarray(wanted), ulps, given)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str, dtype: Any) -> None:
    shapes = [shape for shape in SHAPES if name not in ("set", "added at", "between") or min(shape) > 4]
    with veery.enable_x64(dtype == np.complex128):
        agree(EXACT[name], [(numbers(1, shape, dtype), numbers(2, shape, dtype)) for shape in shapes])


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name: str) -> None:
    fun, ulps = ROUNDED[name]
    made = lambda seed, shape: numbers(seed, shape, np.complex64) / np.complex64(4) + np.complex64(0.3j)
    agree(fun, [(made(1, shape), made(2, shape)) for shape in SHAPES], ulps)


SPECIAL = np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3e38, 1e-38, 1e-45], np.float32)
OPERATIONS: dict[str, Callable[..., Any]] = {
    "product": lambda z, w: z * w,
    "sum": lambda z, w: z + w,
    "quotient": lambda z, w: z / w,
    "negative": lambda z, w: -z,
    "abs": lambda z, w: abs(z),
    "exp": lambda z, w: jnp.exp(z),
    "root": lambda z, w: jnp.sqrt(z),
    "log": lambda z, w: jnp.log(z),
    "equal": lambda z, w: jnp.where(z == w, z, 7),
    "parts": lambda z, w: lax.complex(z.imag, z.real),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_zeros_infinities_and_nan_are_those_without_kernels(name: str) -> None:
    """Signs of zeros, too; products, sums of products, may be rounded once less."""
    pairs = np.array(list(itertools.product(SPECIAL, repeat=2)), np.float32).view(np.complex64).ravel()
    z, w = (x.ravel() for x in np.meshgrid(pairs, pairs))
    assert kernels(OPERATIONS[name], z, w) == 1
    found = [
        np.asarray(veery.jit(OPERATIONS[name], compiler_options={"kernels": has})(z, w)).view(np.float32)
        for has in (True, False)
    ]
    np.testing.assert_array_equal(*(np.where(np.isnan(x), 0, np.signbit(x)) for x in found))
    np.testing.assert_allclose(*found, rtol=3e-7, atol=1e-37)


kernels = functools.partial(how_many, fuse_moves)


Z = np.ones((90, 100), np.complex64)
FEW = Z[:10]


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (lambda z, w: z * w, (Z, Z), 1),
        (lambda z, w: z * w, (FEW, FEW), 0),  # few
        (lambda z: abs(z), (FEW,), 1),  # much for few
        (lambda z: abs(z) * 2 + jnp.tanh(abs(z)), (Z,), 1),
        (lambda z: (abs(z) ** 2).sum(), (Z,), 1),
        (lambda x: jnp.exp(1j * x), (Z.real,), 1),
        (lambda z, w: (z * w, jnp.exp(z)), (Z, Z), 2),
        (lambda z: z[::-1, ::-1], (Z,), 0),  # moved alone
        (lambda z, w: jnp.concatenate([z, w]), (Z, Z), 0),
        (lambda z: z[::-1, ::-1] + 1, (Z,), 1),
        (lambda z: z @ z.T, (Z,), 0),
        (lambda x: x + 1, (Z.real,), 0),
    ],
)
def test_which_become_kernels(fun: Callable[..., Any], args: tuple[np.ndarray, ...], count: int) -> None:
    assert kernels(fun, *args) == count


def test_gradients_and_loops_around() -> None:
    """What a kernel reads and gives goes on: into reductions, loops, and gradients of them."""
    z = numbers(3, (64, 33), np.complex64)

    def energy(x: Any, z: Any) -> Any:
        y = lax.fori_loop(0, 3, lambda i, y: y * (0.5 + 0.5j) + z, z * x)
        return (abs(y + 1) ** 2).sum()

    found = np.asarray(veery.jit(veery.grad(energy))(np.float32(0.5), z))
    with veery.enable_x64(True):
        step = 1e-6
        high, low = (interpreted(functools.partial(energy), 0.5 + s, z.astype(np.complex128)) for s in (step, -step))
    np.testing.assert_allclose(found, (high - low) / (2 * step), rtol=1e-5)
