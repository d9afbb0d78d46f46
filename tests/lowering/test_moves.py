"""What joins arrays, looks elements up or scatters them, as kernels: that they compute what NumPy does, and which."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_as_numpy
from support.kernels import how_many

import veery
from veery import lax, numpy as jnp, ops
from veery_lowering import kernels as kernels_
from veery_lowering.kernels import JoinKernel, decisions, fuse_moves

JOINS: dict[str, Callable[[Any], Any]] = {
    "stacked last": lambda x: jnp.stack([x, x + x, x * x], axis=-1),
    "stacked in the middle": lambda x: jnp.stack([x, -x], axis=1),
    "five of them": lambda x: jnp.stack([x] * 5, axis=-1) * x[..., None],
    "slices of a padded join": lambda x: jnp.pad(jnp.concatenate([x, x[::-1]], 1), ((2, 3), (1, 4)))[1:-1, ::2],
    "cut and spread": lambda x: lax.pad(x, x[0, 0], ((-1, 2, 1), (3, -2, 3))) + x[1, 1],
    "nothing left of it": lambda x: lax.pad(x, x[0, 1], ((-x.shape[0], 2, 0), (0, 0, 0))),
    "backwards": lambda x: lax.rev(lax.pad(x, x[0, 0], ((0, 0, 2), (1, 0, 1))), (0, 1))[::2, 1::3],
    "far apart": lambda x: lax.pad(x * 2, x[0, 0], ((1, -1, 9), (-2, 3, 20))) + 1,
    "rolled": lambda x: jnp.roll(x, 3, axis=1) - x,
    "of rows and columns": lambda x: jnp.concatenate([jnp.broadcast_to(x[:1], x.shape), x.mT.mT], axis=1) * x[:, :1],
    "alternating": lambda x: jnp.stack([x[:, ::2], x[:, 1::2]], axis=2).reshape(x.shape),
    "where": lambda x: jnp.where(jnp.pad(x, ((0, 0), (1, 0)))[:, :-1] > x, x, jnp.pad(x, ((1, 0), (0, 0)))[:-1]),
    "with empty ones": lambda x: jnp.tanh(jnp.concatenate([x[:0], x, x[1:1], x * 2, x[:0]])[1:, ::-1]),
    "several": lambda x: (jnp.stack([x, x], 2), jnp.concatenate([x, x], 1), x * 2),
}
CROSSED: dict[str, Callable[[Any], Any]] = {
    "backwards": lambda x: x[..., ::-1],
    "backwards and back": lambda x: -x[::-1, ::-1] + x[::-1],
    "every second": lambda x: (x[..., ::2], x[..., 1::2]),
    "every third, backwards": lambda x: x[..., ::-3],
    "every fourth of every second": lambda x: jnp.abs(x)[1::2, 3::4] * x[0, 0],
    "every fifth": lambda x: x[:, ::5] * 2,
    "of a product": lambda x: (x @ x.T)[:, ::-2],
    "summed": lambda x: x[:, ::2].sum(1) + x[::-1, ::-1].max(1),
    "chosen": lambda x: jnp.where(x[:, ::2] > 3, x[:, ::-2], x[:1, 1::2]),
}
MODES = "fill", "clip", "promise_in_bounds"


def array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 2 if dtype is bool else 9, shape).astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.float32, (130, 36)), (np.uint8, (6, 10)), (np.float16, (6, 10))], ids=str
)
def test_joins(dtype: Any, shape: tuple[int, ...]) -> None:
    assert_as_numpy([(fun, (array(shape, dtype),)) for fun in JOINS.values()])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float16, bool], ids=str)
def test_what_is_read_backwards_or_by_steps(dtype: Any) -> None:
    x = array((131, 150), dtype)
    kinds = "summed", "chosen", "of a product", "backwards and back", "every fourth of every second"
    calls = [(fun, (x,)) for name, fun in CROSSED.items() if dtype is not bool or name not in kinds]
    assert_as_numpy(
        [*calls, *((CROSSED[name], (x.ravel(),)) for name in ("backwards", "every second", "every third, backwards"))]
    )


def indices(low: int, high: int, shape: Any, dtype: Any) -> np.ndarray:
    return np.random.default_rng(3).integers(max(low, np.iinfo(dtype).min), high, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, bool], ids=str)
def test_lookups(dtype: Any) -> None:
    x, calls = array((20, 33), dtype), []
    for k, mode in enumerate(MODES):
        low, high = (0, 20) if mode == "promise_in_bounds" else (-23, 24)
        integer = (np.int32, np.uint8, np.int64)[k]
        i = indices(low, high, (7,), integer)
        calls.append((lambda x, i, mode=mode: jnp.take(x, i, axis=0, mode=mode), (x, i)))
        calls.append((lambda x, i, mode=mode: jnp.take(x, i, axis=1, mode=mode), (x, i)))
        calls.append((lambda x, i, mode=mode: x.at[i, i[::-1]].get(mode=mode), (x, i)))
        along = indices(low, high, (20, 5), integer)
        calls.append((lambda x, i, mode=mode: jnp.take_along_axis(x, i, 1, mode=mode), (x, along)))
        calls.append((lambda x, i: jnp.concatenate([x[i], x[i]], 1), (x, indices(0, 20, (3,), integer))))
    assert_as_numpy(calls)


@pytest.mark.parametrize("dtype", [np.float32, np.int8], ids=str)
def test_scatters(dtype: Any) -> None:
    calls = []
    for k, (count, row) in enumerate([(1, ()), (3, (1,)), (40, (5,)), (17, (2, 128)), (9, (700,))]):
        mode = MODES[k % 2]
        i = indices(-count - 2, count + 3, (130,), (np.int32, np.int8)[k % 2])
        u = array((130, *row), dtype)
        calls.append((lambda u, i, n=count, m=mode: ops.segment_sum(u, i, n, mode=m), (u, i)))
        zeros = lambda u, n=count: jnp.zeros((n, *u.shape[1:]), u.dtype)
        calls.append((lambda u, i, z=zeros, m=mode: z(u).at[i].max(u - 2, mode=m), (u, i)))
        calls.append((lambda u, i, z=zeros, m=mode: (z(u) + 1).at[i].subtract(u, mode=m), (u, i)))
        each = np.arange(count).astype(np.int32)[::-1]
        calls.append((lambda u, i, n=count: jnp.zeros((n, *u.shape[1:]), u.dtype).at[i].set(u), (u[:count], each)))
    calls.append((lambda i: jnp.bincount(i, length=50), (indices(0, 60, (1000,), np.int32),)))
    assert_as_numpy(calls)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int32, np.float16, bool], ids=str)
def test_scatters_into_what_is_there(dtype: Any) -> None:
    """Rows and numbers, of one axis or two, some of them outside and several to one place, with what is around them."""
    calls = []
    for k, (shape, mode) in enumerate(itertools.product([(1,), (40,), (40, 1), (17, 5), (9, 2, 130)], MODES[:2])):
        x, integer = array(shape, dtype), (np.int32, np.int8, np.uint8)[k % 3]
        i = indices(-shape[0] - 3, shape[0] + 3, (65,), integer)
        u = array((65, *shape[1:]), dtype)
        calls.append((lambda x, i, u, m=mode: (x, x.at[i].set(u, mode=m)), (x, i, u)))
        calls.append((lambda x, i, u, m=mode: x.at[i].set(u[0], mode=m)[::-1], (x, i, u)))
        calls.append((lambda x, i, u, m=mode: x.at[i + 100].set(u, mode=m), (x, i.astype(np.int32), u)))  # none
        calls.append((lambda x, i, u, m=mode: jnp.abs(x).at[i].set(jnp.abs(u), mode=m), (x, i, u)))
        calls.append((lambda x, i, u, m=mode: jnp.where(x > 0, x, u[0]).at[i].max(u, mode=m), (x, i, u)))
        if np.dtype(dtype).kind in "iu" or dtype is np.float32:
            calls.append((lambda x, i, u, m=mode: -x.at[i].add(u * 2, mode=m), (x, i, u)))
    x, i, j = array((30, 20), dtype), indices(-33, 33, (50,), np.int32), indices(-23, 23, (50,), np.int32)
    for mode in MODES[:2]:
        calls.append((lambda x, i, j, m=mode: x.at[i, j].set(x[0, 0], mode=m), (x, i, j)))
        calls.append((lambda x, i, j, m=mode: x.at[i[:3], 2:].set(x[:3, 2:], mode=m), (x, i, j)))
        calls.append((lambda x, i, j, m=mode: x.at[:, j[:4]].set(x[:, :4], mode=m), (x, i, j)))
        calls.append((lambda x, i, j, m=mode: x.at[i].set(x[j], mode=m).at[j, i].min(x[1, 1], mode=m), (x, i, j)))
    assert_as_numpy(calls)


def test_scatters_of_columns_by_several_workgroups() -> None:
    x, u, i = array((40, 256), np.float32), array((300, 256), np.float32), indices(-50, 50, (300,), np.int32)
    x[3, 7], u[5, 9] = np.nan, np.inf
    assert_as_numpy(
        [(lambda x, i, u: jnp.sqrt(x).at[i].add(u), (x, i, u)), (lambda x, i, u: x.at[i].set(u), (x, i, u))]
    )


def test_scatters_without_kernels_write_nothing_outside() -> None:
    x, i = np.arange(4, dtype=np.float32), np.array([2**29, 1, -(2**29), 2], np.int32)
    scattered = veery.jit(lambda x, i: x.at[i].set(9.0), compiler_options={"kernels": False})
    np.testing.assert_array_equal(scattered(x, i), [0, 9, 9, 3])
    np.testing.assert_array_equal(scattered(x, i + 10), x)


kernels = functools.partial(how_many, fuse_moves)


X = np.ones((300, 200), np.float32)
I = np.arange(100, dtype=np.int32)


@pytest.mark.parametrize(
    ("fun", "args", "count"),
    [
        (lambda x: jnp.stack([x, x + 1], -1), (X,), 1),
        (lambda x: jnp.concatenate([x, x * 2]), (X,), 0),  # IREE writes both to their places
        (lambda x: jnp.concatenate([x[:3], x[:3] * 2]), (X,), 1),
        (lambda x: jnp.tanh(jnp.concatenate([jnp.pad(x, 1), jnp.pad(x, 1)])), (X,), 1),
        (lambda x: (y := jnp.pad(x, 1), y + 1, y[::-1] * y), (X,), 1),
        (lambda x, i: x[i] * 2, (X, I), 1),
        (lambda x, i: ops.segment_sum(x[i] * 2, i, 50), (X, I), 1),
        (lambda x, i: x.at[i].add(1.0), (X, I), 1),
        (lambda x, i: (x @ x.T).at[i[:3]].set(1.0), (X, I), 0),  # IREE updates the product in place
        (lambda x, i: x.at[i].set(1.0), (X.astype(np.float16), I), 1),
        (lambda x, i: x.at[i].add(1.0), (X.astype(np.float16), I), 0),
        (lambda x: jnp.stack([x, x], -1), (X.astype(np.float16),), 1),
        (lambda x: jnp.stack([x, x], -1), (X.astype(np.complex64),), 0),
        (lambda x: x[::2] + 1, (X,), 0),  # of rows
        (lambda x: x[:, ::2] + 1, (X,), 1),
        (lambda x: x[:, ::-1], (X,), 1),
        (lambda x: x[:, ::5], (X,), 0),
        (lambda x: x[:20, ::-1], (X,), 0),  # few
        (lambda x: jnp.concatenate([x, x]), (X,), 1),
        (lambda x: lax.pad(x[0, :40] * 2, x[0, 0], ((1, 1, 7),)), (X,), 1),
        (lambda x: lax.pad(x[0, :40] * 2, x[0, 0], ((1, 1, 8),)), (X,), 0),  # as are the ones of an identity
    ],
)
def test_which_become_kernels(fun: Callable[..., Any], args: tuple[np.ndarray, ...], count: int) -> None:
    assert kernels(fun, *args) == count


def test_each_kernel_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several joins in one, too, until something in the block has changed."""
    tried: list[Any] = []

    def noted(root: Any, places: Any, machine: Any) -> Any:
        tried.append(root.location)
        return JoinKernel(root, places, machine)

    monkeypatch.setattr(kernels_, "JoinKernel", noted)
    join = jnp.concatenate
    assert kernels(lambda x: join([join([x, x + 1]), join([x * 2, x]), join([x, x - 1])]), X) == 0
    assert len(tried) == 4
    tried.clear()
    assert kernels(lambda x: (join([join([x, x + 1]), join([x * 2, x])]), jnp.stack([x, x], -1)), X) == 1
    assert len(tried) == 4


@pytest.mark.parametrize("steps", [3, 7])
def test_steps_of_a_stencil_are_a_kernel_each(steps: int) -> None:
    """What each element is computed from grows with the steps: kernels of several would compute it many times."""

    def run(x: Any, roll: Callable[..., Any]) -> Any:
        for _ in range(steps):
            x = x + (roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x) * x.dtype.type(0.125)
        return x

    x = array((150, 130), np.float32)
    with decisions() as decided:
        program = veery.jit(lambda x: run(x, jnp.roll)).lower(x).compile()
    np.testing.assert_allclose(program(x), run(x.astype(np.float64), np.roll), rtol=1e-5, atol=1e-5)
    assert sum(bool(decision.kernel) for decision in decided) == steps


def test_what_is_costly_is_computed_once() -> None:
    """A value that is read in two places is not computed in both."""
    module = veery.jit(lambda x: (lambda y: jnp.roll(y, 1, 1) + y)(jnp.tanh(x))).lower(X)
    text = module.as_text("flow")
    assert text.count("flow.dispatch @") == 2


def test_kernels_of_the_same_text_are_compiled_once() -> None:
    pair = lambda x: jnp.stack([x, x * 2], -1)
    again = lambda x, y: (pair(x), pair(y) * 3, pair(y[:40]))
    called = lambda fun: re.findall(r"flow.dispatch @(\w+)_code", veery.jit(fun).lower(X, X).as_text("flow"))
    assert called(lambda x, y: (pair(x), pair(y))) == ["veery_move_0"] * 2
    assert len(set(called(again))) == 3
    y = array(X.shape, np.float32)
    assert_as_numpy([(lambda x, y: (pair(x), pair(y)), (X, y)), (again, (X, y))])


def test_bits_of_several_elements_are_taken_before(caplog: pytest.LogCaptureFixture) -> None:
    def words(x: Any, y: Any) -> Any:
        pairs = lax.bitcast_convert_type((x.astype(jnp.uint64) << 32) | y.astype(jnp.uint64), jnp.uint32)
        return jnp.concatenate([pairs, pairs], 1)

    x = np.arange(7, dtype=np.uint32)
    with veery.enable_x64(True):
        np.testing.assert_array_equal(veery.jit(words)(x, x * 3), np.stack([x * 3, x] * 2, 1))
    assert not caplog.records
