"""What is lengthened so that whole warps reduce it is reduced to what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.passes import run_everywhere

import veery
import veery.numpy as jnp
from veery import lax
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.warps import fill_warps

SHAPES = [(), (0,), (1,), (63,), (64,), (65,), (1009,), (33, 35), (3, 1, 41, 5), (5000,), (0, 70)]
REDUCTIONS = {
    "sum": jnp.sum,
    "prod": lambda x: jnp.prod(x if x.dtype.kind == "b" else x * 0 + 1 + (x > 1).astype(x.dtype)),
    "max": lambda x: lax.reduce_max(x, tuple(range(x.ndim))),
    "min": lambda x: lax.reduce_min(x, tuple(range(x.ndim))),
    "all": lambda x: (x != 99).all(),
    "any": lambda x: (x == 99).any(),
    "and": lambda x: lax.reduce_and(x, tuple(range(x.ndim))) if x.dtype.kind in "iub" else x.sum(),
    "or": lambda x: lax.reduce_or(x, tuple(range(x.ndim))) if x.dtype.kind in "iub" else x.sum(),
    "of what is computed": lambda x: (x + x).sum() + (x * x).max(initial=0),
}


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_reductions_are_as_before(dtype: str, monkeypatch: pytest.MonkeyPatch, x64: None) -> None:
    """The pass alone changes them: sums of floats are of the same numbers and zeros, in another order."""
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=shape) * 3).astype(dtype) for shape in SHAPES]
    program = lambda arrays: [reduce(x) for reduce in REDUCTIONS.values() for x in arrays]
    veery.config.update("jax_enable_compilation_cache", False)
    before = veery.jit(program)(arrays)
    veery.clear_caches()
    run_everywhere(monkeypatch, "fill_warps")
    after = veery.jit(program)(arrays)
    near = {"float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    for x, y in zip(before, after, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(y, x, rtol=near, atol=near * 100)


def test_numbers_that_are_none_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    run_everywhere(monkeypatch, "fill_warps")
    x = np.full(75, -np.inf, np.float32)
    veery.config.update("jax_enable_compilation_cache", False)
    most, least, none = veery.jit(lambda x: (x.max(), (-x).min(), x.at[3].set(np.nan).max()))(x)
    assert most == -np.inf and least == np.inf and np.isnan(none)


@pytest.mark.parametrize(
    ("shape", "axes", "lengths"),
    [((100,), (0,), [128]), ((5000,), (0,), [5120]), ((1500,), (0,), [1536]), ((64,), (0,), []), ((63,), (0,), []),
     ((10, 10), (0, 1), [128]), ((10, 100), (1,), [])],
)  # fmt: skip
def test_what_is_lengthened(shape: tuple[int, ...], axes: tuple[int, ...], lengths: list[int]) -> None:
    found: list[Any] = []

    def visit(module: Any) -> None:
        fill_warps(module)
        pads = [op for op in operations(module.operation) if op.name == "stablehlo.pad"]
        found.extend(op.results[0].type.shape[0] for op in pads)

    inlined(veery.jit(lambda x: x.sum(axes)).lower(np.ones(shape, np.float32))._lowered.module, visit)
    assert found == lengths
