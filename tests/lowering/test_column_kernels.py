"""What is computed of columns with reductions of them, as kernels: that they compute what NumPy does, and of what."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_as_numpy, results
from support.kernels import how_many
from support.reductions import array, assert_exact, assert_near, assert_near_of_floats

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import _reductions, fuse_columns

pytestmark = pytest.mark.usefixtures("as_preferred")


def normed(x: Any) -> Any:
    axes = tuple(range(x.ndim - 1))
    return (x - x.mean(axes)) / jnp.sqrt(x.var(axes) + 1e-5)


# Of arrays x and rows w, to results; floats may be wrong by some units in the last place, since sums are others.
FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "norm": lambda x, w: normed(x) * w + 1,
    "softmax": lambda x, w: veery.nn.softmax(x, axis=tuple(range(x.ndim - 1))),
    "sum of products": lambda x, w: (x * jnp.exp(-x)).sum(tuple(range(x.ndim - 1))) * 0.5 + w,
    "gradient of a norm": lambda x, w: veery.grad(lambda x: (normed(x) * jnp.sin(x) * w).sum())(x),
    "gradient by a bias": lambda x, w: veery.grad(lambda w: (jnp.tanh(x + w) ** 2).sum())(w),
    "several": lambda x, w: (x.mean(tuple(range(x.ndim - 1))), (x * w).var(tuple(range(x.ndim - 1)), keepdims=True)),
    "two in turn": lambda x, w: normed(normed(x) * 2 + w) + x,
    "read before it is computed": lambda x, w: (y := x - x.max(0, keepdims=True), y.sum(-1), jnp.exp(y) + y.sum()),
    "in a branch": lambda x, w: lax.cond(w[0] > 100, lambda: x, lambda: normed(x)),
    "of rows, too": lambda x, w: normed(veery.nn.softmax(x, axis=-1)),
    "half precision": lambda x, w: normed(x).astype(jnp.bfloat16).astype(np.float32),
}
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, w: (x * 2 + 1).sum(tuple(range(x.ndim - 1))) - w,
    "largest and sums": lambda x, w: (x.max(0), x.sum(0), x - x.min(0, keepdims=True)),
    "which are the largest": lambda x, w: (x == x.max(0)).sum(0),
    "products": lambda x, w: x * (x * w).sum(0) + w,
    "any and all": lambda x, w: ((x > w).any(0), (x > x.min(0)).all(0)),
    "as bools": lambda x, w: (x > x.max(0) - 2, x.max(0) > 1),
    "first of the largest": lambda x, w: (x * w).argmax(0),
    "bits": lambda x, w: x ^ lax.reduce(x, np.array(0, x.dtype), lax.bitwise_xor, (0,)),
    "backwards": lambda x, w: x[::-1] - x[..., ::-1].max(0),
}
SHAPES = [(7, 8), (33, 70), (5, 3, 64), (4, 3, 2, 100), (2, 300), (300, 17)]


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


@pytest.mark.parametrize("register", [16, 32, 64])
def test_blocks_of_any_width(register: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many vectors as there are registers for, and of fewer where the columns are long or few."""
    monkeypatch.setattr("veery_lowering.targets.target.Target.register", register)
    sum_of = lambda x, w: (x * 2 + 1).sum(0) - w
    kept = lambda x, w: (x - x.max(0)) * w
    shapes = [(3, 1000), (50, 513), (600, 100), (1500, 70), (2500, 40)]
    calls = [(fun, (array(s, np.float32), array(s[1:], np.float32))) for fun in (sum_of, kept) for s in shapes]
    assert_as_numpy(calls)


def test_sums_of_many_are_as_exact_as_pairwise_ones() -> None:
    x = np.random.default_rng(5).random((20_000, 40), np.float32)
    (sums,) = results([(lambda x: (x + 1).sum(0), (x,))])
    exact = (x + np.float32(1)).astype(np.float64).sum(0)
    assert np.abs(np.asarray(sums) - exact).max() < 8 * np.finfo(np.float32).eps * exact.max()


@pytest.mark.parametrize("name", ["several", "softmax", "norm"])
def test_nan_and_infinities(name: str) -> None:
    x, w = array((40, 70), np.float32), array((70,), np.float32)
    x[3, 5], x[7, 9], x[8, 69], x[:, 9], x[11, 0] = np.nan, np.inf, -np.inf, -np.inf, -np.nan
    assert_near([(FLOATS[name], (x, w))], 1e-6)


kernels = functools.partial(how_many, fuse_columns)


X, THIN, LONG = np.ones((300, 200), np.float32), np.ones((300, 5), np.float32), np.ones((90_000, 10), np.float32)


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (normed, (X,), 1),
        (normed, (X.reshape(3, 10, 10, 200),), 1),
        (normed, (THIN,), 0),  # too little for a vector
        (lambda x: (x * x).sum(0), (X,), 1),
        (lambda x: (x * x).sum(0), (LONG,), 0),  # divided along the columns
        (lambda x: x - x.max(0), (X,), 1),
        (lambda x: x - x.max(-1, keepdims=True), (X,), 0),
        (lambda x: (x * x).sum(1), (X.reshape(3, 100, 200),), 0),  # of an axis in the middle
        (lambda x: (x + 1j) / jnp.abs(x).sum(0), (X,), 1),  # the sums alone
        (lambda x: (x.astype(jnp.bfloat16) + 1).sum(0), (X,), 1),  # that are made in float32
    ],
)
def test_which_columns_become_kernels(fun: Callable[..., Any], args: tuple[Any, ...], count: int) -> None:
    assert kernels(fun, *args) == count


def test_columns_of_donated_arguments() -> None:
    assert kernels(lambda x: x + 1 - (x + 1).max(0), X, donated=(True,)) == 1
    donated = veery.jit(lambda x: x - x.max(0), donate_argnums=0)
    x = array((300, 200), np.float32)
    np.testing.assert_array_equal(donated(jnp.array(x)), x - x.max(0))
