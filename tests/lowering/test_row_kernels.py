"""What is computed of rows with reductions of them, as kernels: that they compute what NumPy does, and of what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_as_numpy
from support.kernels import how_many
from support.reductions import array, assert_exact, assert_near, assert_near_of_floats

import veery
from veery import lax, numpy as jnp
from veery.scipy.special import logsumexp
from veery_lowering.kernels import _reductions, fuse_rows
from veery_lowering.kernels._machine import cpu
from veery_lowering.kernels._rows import RowKernel
from veery_lowering.mlir import operations
from veery_lowering.passes.simplification import inlined

pytestmark = pytest.mark.usefixtures("as_preferred")


def numbers(x: Any, axis: int) -> Any:
    return lax.broadcasted_iota(x.dtype, x.shape, axis)


def normed(x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax_where(x: Any, mask: Any) -> Any:
    return jnp.where(mask, veery.nn.softmax(jnp.where(mask, x, -1e9), axis=-1), 0)


# Of rows of x and of a row w, to results; floats may be wrong by some units in the last place, since sums are others.
FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": lambda x, w: veery.nn.softmax(x, axis=-1),
    "log of it": lambda x, w: veery.nn.log_softmax(x + w, axis=-1),
    "of a mask": lambda x, w: softmax_where(x, w > 0),
    "norm": lambda x, w: normed(x) * w + 1,
    "sums and largest": lambda x, w: (x.sum(-1), jnp.abs(x).max(-1), (x * w).sum(-1, keepdims=True)),
    "distance from the largest": lambda x, w: (x.max(-1, keepdims=True) - x, x - x.min(-1, keepdims=True) * w),
    "logsumexp": lambda x, w: logsumexp(x, axis=-1),
    "gradient of a norm": lambda x, w: veery.grad(lambda x: (normed(x) * w * w).sum())(x),
    "gradient of a softmax": lambda x, w: veery.grad(lambda x: (veery.nn.softmax(x, axis=-1) * w).sum())(x),
    "two in turn": lambda x, w: veery.nn.softmax(normed(x) * 2, axis=-1) + x,
    "read before it is computed": lambda x, w: (y := x - x.max(-1, keepdims=True), y.sum(0), jnp.exp(y) + y.sum()),
    "in a branch": lambda x, w: lax.cond(w[0] > 100, lambda: x, lambda: veery.nn.softmax(x, axis=-1)),
    "half precision": lambda x, w: normed(x).astype(jnp.bfloat16).astype(np.float32),
}
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "largest and sums": lambda x, w: (x.max(-1), x.sum(-1), x - x.min(-1, keepdims=True)),
    "which are the largest": lambda x, w: (x == x.max(-1, keepdims=True)).sum(-1),
    "products": lambda x, w: x * (x * w).sum(-1, keepdims=True) + w,
    "any and all": lambda x, w: ((x > w).any(-1), (x > x.min(-1, keepdims=True)).all(-1)),
    "chosen": lambda x, w: jnp.where(x.sum(-1, keepdims=True) > 3, x, w),
    "as bools": lambda x, w: (x > x.max(-1, keepdims=True) - 2, x.max(-1) > 1),
    "bits": lambda x, w: x ^ lax.reduce(x, np.array(0, x.dtype), lax.bitwise_xor, (x.ndim - 1,))[..., None],
    "first of the largest": lambda x, w: ((x * w).argmax(-1), (x + w).argmin(-1)),
    "numbered": lambda x, w: (numbers(x, x.ndim - 1) * (numbers(x, 0) + 1) - x).max(-1),
}
SHAPES = [(7, 33), (3, 5, 64), (2, 3, 4, 100), (130, 32), (2, 1000)]


@pytest.fixture(params=["one workgroup", "several"])
def shares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "several":
        monkeypatch.setattr(_reductions, "_LEAST_SHARE", 300)


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, shares: None) -> None:
    assert_near_of_floats(FLOATS[name], SHAPES, 8e-3 if name == "half precision" else 2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8], ids=str)
def test_whole_numbers_are_exact(dtype: Any, shares: None) -> None:
    kinds = [name for name in EXACT if name != "bits" or np.dtype(dtype).kind in "iu"]
    assert_exact([EXACT[name] for name in kinds], SHAPES, dtype)


def test_masks_of_other_shapes() -> None:
    x, mask = array((2, 3, 33, 40), np.float32), array((33, 40), bool)
    each, rows = array((2, 1, 33, 40), np.float32), array((3, 33, 1), np.float32)
    chosen = lambda x, mask, each, rows: jnp.where(mask, x, each).max(-1, keepdims=True) - x * rows
    fun = lambda x, mask, each, rows: chosen(x, mask, each, rows) + each.sum(-1)[..., None]
    assert_as_numpy(
        [(fun, (x, mask, each, rows)), (lambda x, *_: x.mT - x.mT.max(-1, keepdims=True), (x, mask, each, rows))]
    )


@pytest.mark.parametrize("name", ["sums and largest", "distance from the largest", "softmax"])
def test_nan_and_infinities(name: str) -> None:
    x, w = array((40, 70), np.float32), array((70,), np.float32)
    x[3, 5], x[7, 9], x[8, 69], x[9], x[11, 0] = np.nan, np.inf, -np.inf, -np.inf, -np.nan
    assert_near([(FLOATS[name], (x, w))], 1e-6)


def test_workgroups_have_memory_of_their_own() -> None:
    """Also of the numbers, where a row takes all of the stack."""
    fun = lambda x: veery.nn.softmax(x * 1.5, axis=-1)
    made: list[RowKernel] = []

    def make(module: Any) -> None:
        reduction = next(op for op in operations(module) if op.name == "stablehlo.reduce")
        made.append(RowKernel(reduction, cpu(32), ()))

    inlined(veery.jit(fun).lower(np.zeros((300, 4096), np.float32))._lowered.module, make)
    (kernel,) = made
    assert kernel.workgroups > 1 and kernel.body.scratch
    assert all(buffer.size % kernel.workgroups == 0 for buffer in kernel.body.scratch)
    x = np.random.default_rng(2).normal(size=(300, 4096)).astype(np.float32)
    assert_near([(lambda x, w: fun(x), (x, x[0]))], 2e-5)


kernels = functools.partial(how_many, fuse_rows)


X, SHORT = np.ones((300, 200), np.float32), np.ones((300, 10), np.float32)


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (veery.nn.softmax, (X,), 1),
        (veery.nn.softmax, (SHORT,), 0),  # IREE reduces several rows at once
        (lambda x: veery.nn.softmax(normed(x)), (X,), 1),
        (lambda x: x.sum(-1), (X,), 1),
        (lambda x: x.T.sum(-1), (X,), 0),  # across
        (lambda x: veery.nn.softmax(x.T), (X,), 1),
        (lambda x: (x[:, None, :40] * x[None, :50, 40:80]).sum(-1), (X,), 0),  # short rows along two axes
        (lambda x: (x[:, None] * x[None]).sum(-1), (X,), 1),
        (lambda x: x[:, ::2].max(-1), (X,), 1),
        (lambda x: (x.sum(-1), (x * x).sum(-1)), (X,), 2),  # nothing is made of both
        (lambda x: (x * x).sum(-1) / x.max(-1), (X,), 1),
        (lambda x: x - x.max(-1, keepdims=True), (X,), 1),
        (lambda x: x - x.max(0), (X,), 0),
        (lambda x: x - x.max(), (X,), 0),
        (lambda x: x.var(-1), (X,), 1),
        (lambda x: x.argmax(-1), (X,), 1),
        (lambda x: (x + 1j) / jnp.abs(x).sum(-1, keepdims=True), (X,), 1),  # the sums
    ],
)
def test_which_rows_become_kernels(fun: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert kernels(fun, *args) == count
