"""What is computed with reductions of whole arrays, as kernels: that they compute what NumPy does, and of what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import Call, assert_as_numpy, results
from support.interpreted import interpreted
from support.kernels import how_many
from support.reductions import array, assert_exact, assert_near_of_floats

import veery
from veery import lax, numpy as jnp
from veery.scipy.special import logsumexp
from veery_lowering.kernels import fuse_totals
from veery_lowering.kernels._totals import _MOST, _MOST_LEFT
from veery_lowering.passes.simplification import inlined

pytestmark = pytest.mark.usefixtures("as_preferred")

# Of an array x and a row w, to results; floats may be wrong by some units in the last place, since sums are others.
FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "mean of squares": lambda x, w: ((x - w) ** 2).mean(),
    "variance": lambda x, w: x.var(),
    "norm": lambda x, w: jnp.sqrt((x * x).sum()) * 2 + 1,
    "scaled by it": lambda x, w: x / jnp.maximum(jnp.sqrt((x * x).sum()), 1) + w,
    "sums and largest": lambda x, w: (x.sum(), jnp.abs(x).max(), (x * w).sum(keepdims=True)),
    "logsumexp": lambda x, w: logsumexp(x + w),
    "softmax of all": lambda x, w: veery.nn.softmax(x, axis=None),
    "gradient of a variance": lambda x, w: veery.grad(lambda x: (x * w).var())(x),
    "in turn": lambda x, w: (z := x - x.mean(), z.max(), (z / z.max()).min()),
    "elementwise of arrays that are read on": lambda x, w: (y := jnp.tanh(x * w), y.sum(), y + 1),
    "in a branch": lambda x, w: lax.cond(w[0] > 100, lambda: x.ravel()[0], lambda: (x * x).sum()),
    "half precision": lambda x, w: x.sum().astype(jnp.bfloat16).astype(np.float32),
}
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "largest and sums": lambda x, w: (x.max(), x.sum(), x - x.min()),
    "how many": lambda x, w: (x == x.max()).sum(),
    "any and all": lambda x, w: ((x > w).any(), (x >= x.min()).all()),
    "chosen": lambda x, w: jnp.where(x.sum() > 3, x, w),
    "transposed": lambda x, w: (x.T * 2).sum() + (x[..., ::-1] * w).max(),
    "of numbers": lambda x, w: (x.sum() + x.max(keepdims=True) * 2, x.min() > 1),
    "bits": lambda x, w: lax.reduce(x, np.array(0, x.dtype), lax.bitwise_xor, tuple(range(x.ndim))),
}
SHAPES = [(7, 33), (3, 5, 64), (1, 1, 100), (130, 200), (2, 1000)]


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    assert_near_of_floats(FLOATS[name], SHAPES, 8e-3 if name == "half precision" else 2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8], ids=str)
def test_whole_numbers_are_exact(dtype: Any) -> None:
    kinds = [name for name in EXACT if name != "bits" or np.dtype(dtype).kind in "iu"]
    assert_exact([EXACT[name] for name in kinds], SHAPES, dtype)


def test_vectors_and_masks_of_other_shapes() -> None:
    x, mask, each = array((3, 33, 40), np.float32), array((33, 40), bool), array((3, 1, 40), np.float32)
    line = array((1001,), np.float32)
    calls = [
        (lambda x, mask, each: jnp.where(mask, x, each).max() - (each * mask).sum(), (x, mask, each)),
        (lambda x, mask, each: jnp.where(mask, x, 0).sum(), (x, mask, each)),
        (lambda x: (x.sum(), (x * 2).max(), x - x.min()), (line,)),
    ]
    assert_as_numpy(calls)


@pytest.mark.parametrize("name", ["sums and largest", "variance", "in turn"])
def test_nan_and_infinities(name: str) -> None:
    calls: list[Call] = []
    for place, value in [((3, 5), np.nan), ((7, 9), np.inf), ((39, 69), -np.inf), ((11, 0), -np.nan)]:
        x = array((40, 70), np.float32)
        x[place] = value
        calls.append((FLOATS[name], (x, array((70,), np.float32))))
    for (fun, operands), outs in zip(calls, results(calls)):
        for actual, wanted in zip(veery.tree.leaves(outs), veery.tree.leaves(interpreted(fun, *operands)), strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-5)


def test_zeros_keep_their_signs() -> None:
    x = np.full((9, 50), -0.0, np.float32)
    (outs,) = results([(lambda x: (x.max() * 1, x.min() * 1), (x,))])
    assert [bool(np.signbit(out)) for out in outs] == [True] * 2


@pytest.mark.parametrize("number", [0.1, 0.7, 1.1])
def test_sums_are_of_short_sums(number: float) -> None:
    """Of equal numbers, which err in one direction: one after the other in 64 lanes they would be wrong by 3e-4."""
    x = np.full((700, 700), number, np.float32)
    (total,) = results([(lambda x: (x * np.float32(3)).sum(), (x,))])
    exact = (x * np.float32(3)).astype(np.float64).sum()
    assert abs(float(total) - exact) / exact < 5e-6


kernels = functools.partial(how_many, fuse_totals)


X = np.ones((300, 200), np.float32)


@pytest.mark.parametrize(
    ("fun", "count"),
    [
        (lambda x: ((x * 2) ** 2).mean(), 1),
        (lambda x: x.var(), 1),
        (lambda x: (x.sum(), (x * 2).max()), 2),
        (lambda x: x.argmax(), 1),
        (lambda x: x - x.max(), 1),
        (lambda x: x.sum(1), 0),
        (lambda x: x.sum(0), 0),
        (lambda x: x[:5, :5].sum(), 0),
        (lambda x: jnp.tile(x, (10, 1)).sum(), 0),
        (lambda x: (x * 1j).sum().real, 0),
    ],
)
def test_which_become_kernels(fun: Callable[[Any], Any], count: int) -> None:
    assert kernels(fun, X) == count


def test_large_arrays_are_shared_by_the_cores() -> None:
    """What is left of one is no part of the kernel, only what the numbers are made of."""
    assert X.size > _MOST_LEFT and 10 * X.size > _MOST
    module_of = lambda fun: veery.jit(fun).lower(X)._lowered.module
    texts: list[str] = []

    def change(module: Any) -> None:
        fuse_totals(module)
        texts.append(str(module))

    inlined(module_of(lambda x: x - x.max()), change)
    assert "stablehlo.subtract" in texts[0] and "stablehlo.reduce" not in texts[0]
