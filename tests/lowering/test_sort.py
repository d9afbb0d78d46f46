"""Sorts are stable, NaN comes last, on the host as well as in the program."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.jaxpr_graphs import Graph

import veery_lowering
from veery_lowering import host
from veery_lowering.emit.rules import sort
from veery_lowering.host import HostTopK

RNG = np.random.default_rng(0)
HOST = veery_lowering.Options()
DEVICE = veery_lowering.Options(self_contained=True)


def sample(dtype: type, length: int) -> np.ndarray:
    values = RNG.integers(0, 9, (3, length)).astype(dtype)
    if values.dtype.kind in "fV":
        values[0, 3], values[1, :4], values[2, 2] = np.nan, [0.0, -0.0, 0.0, -0.0], -np.inf
    if values.dtype.kind == "c":
        values[:, 1:] += 1j * values[:, :-1]
        values[0, :3] = complex(1, np.nan), complex(np.nan, 1), complex(np.nan, np.nan)
    return values


def order_of(values: np.ndarray) -> np.ndarray:
    """Stable, NaN last; complex numbers by their real parts, then by their imaginary parts."""
    if values.dtype.kind == "c":
        return np.lexsort((values.imag, values.real), axis=1)
    return np.argsort(key(values), axis=1, kind="stable")


def key(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) if values.dtype.kind == "V" else values


@pytest.fixture(params=["host", "device", "counted", "searched"])
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> veery_lowering.Options:
    if request.param in ("counted", "searched"):
        monkeypatch.setattr(sort, "_MOST_COMPARISONS", 1 << 24)
    if request.param != "searched":
        monkeypatch.setattr(sort, "_MOST_SEARCHED", 0)
    return DEVICE if request.param == "device" else HOST


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint64, ml_dtypes.bfloat16, np.bool_, np.complex64])
def test_sort_argsort_and_top_k(dtype: type, options: veery_lowering.Options) -> None:
    g = Graph()
    for length in (7, 100):
        values = sample(dtype, length)
        shape = values.shape
        x = g.input(values)
        position = g.input(np.broadcast_to(np.arange(length, dtype=np.int32), shape))
        order = order_of(values)
        (alone,) = g.ops("sort", [x], [(shape, dtype)], dimension=1, is_stable=True, num_keys=1)
        g.check(f"sort {length}", alone, np.take_along_axis(values, order, 1))
        pair = g.ops("sort", [x, position], [(shape, dtype), (shape, np.int32)], dimension=1, num_keys=1)
        g.check(f"order {length}", pair[1], order.astype(np.int32))
        if np.dtype(dtype).kind == "c":
            continue
        backwards = key(values)[:, ::-1]
        above_minus_zero = (backwards == 0) & ~np.signbit(backwards.astype(np.float64))
        best = length - 1 - np.lexsort((above_minus_zero, backwards), axis=1)[:, ::-1][:, :5]
        top, index = g.ops("top_k", [x], [((3, 5), dtype), ((3, 5), np.int32)], k=5, axis=1)
        g.check(f"top {length}", top, np.take_along_axis(values, best, 1))
        g.check(f"top index {length}", index, best.astype(np.int32))
    results = g.run(options=options)
    if dtype is np.float32:
        for result, (_, expected, _) in zip(results, g.expected):
            np.testing.assert_array_equal(np.signbit(result) & (result == 0), np.signbit(expected) & (expected == 0))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int8, np.uint8])
@pytest.mark.parametrize("k", [1, 4])
def test_top_k_of_the_least_and_the_most(dtype: type, k: int) -> None:
    limits = np.iinfo(dtype)
    values = np.array([[limits.min, limits.max, 3, limits.max], [limits.min] * 4], dtype)
    order = np.array([[1, 3, 2, 0], [0, 1, 2, 3]], np.int32)[:, :k]
    g = Graph()
    top, index = g.ops("top_k", [g.input(values)], [((2, k), dtype), ((2, k), np.int32)], k=k, axis=1)
    g.check("top", top, np.take_along_axis(values, order, 1))
    g.check("index", index, order)
    assert "host.cb" not in g.text(target="cpu")
    g.run()


def test_several_keys_and_other_axes(options: veery_lowering.Options) -> None:
    g = Graph()
    for length in (9, 100):
        first, second = RNG.integers(0, 3, length).astype(np.int32), RNG.integers(0, 3, length).astype(np.float32)
        payload = np.arange(length, dtype=np.int32)
        order = np.lexsort((second, first))
        outs = [((length,), np.int32), ((length,), np.float32), ((length,), np.int32)]
        operands = [g.input(x) for x in (first, second, payload)]
        for out, x in zip(g.ops("sort", operands, outs, dimension=0, num_keys=2), (first, second, payload)):
            g.check("lexicographic", out, x[order])
        cube = RNG.standard_normal((2, length, 3)).astype(np.float32)
        (out,) = g.ops("sort", [g.input(cube)], [(cube.shape, np.float32)], dimension=1, num_keys=1)
        g.check("middle axis", out, np.sort(cube, 1))
    g.run(options=options)


@pytest.mark.parametrize("target", ["cpu", "vulkan", "cuda"])
def test_the_host_is_asked_for_many_elements(target: str) -> None:
    g = Graph(((999,), np.float32), ((1,), np.float32), ((100,), np.float32))
    for x in g.invars:
        g.outvars += g.ops("sort", [x], [(x.aval.shape, np.float32)], dimension=0, num_keys=1)
    assert g.text(target=target).count("call @host.cb") == (0 if target == "cuda" else 1)
    assert "stablehlo.sort" not in g.text(target=target)


def test_threads_of_cuda_compare_each_with_each() -> None:
    g = Graph(((200, 300), np.float32), ((40_000,), np.float32))
    few, many = g.invars
    g.outvars += g.ops("sort", [few], [((200, 300), np.float32)], dimension=1, num_keys=1)
    assert "call @host.cb" not in g.text(target="cuda")
    g.outvars += g.ops("sort", [many], [((40_000,), np.float32)], dimension=0, num_keys=1)
    assert g.text(target="cuda").count("call @host.cb") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_top_k_of_long_rows_with_ties(dtype: type, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By partition where k is small; ties at its end go to the lowest index, NaN come first."""
    monkeypatch.setattr(host, "_FEW", 0)
    monkeypatch.setattr(host, "_SHORT", 0)
    values = np.random.default_rng(0).integers(-9, 9, (2, 3, 40)).astype(dtype)
    if np.dtype(dtype).kind in "fcV":
        values[0, 1, 5:8] = np.nan
        values[1, 2, ::2] = np.nan
    top, index = HostTopK(k, "int32")(values)
    wide = values.astype(np.complex64)
    for row, found, place in zip(wide.reshape(6, 40), top.astype(np.complex64).reshape(6, k), index.reshape(6, k)):
        order = sorted(range(40), key=lambda i: (not np.isnan(row[i]), -np.nan_to_num(row[i].real), i))
        assert place.tolist() == order[:k]
        np.testing.assert_array_equal(found, row[order[:k]])
    for row, place in zip(values.reshape(6, 40), index.reshape(6, k)):
        np.testing.assert_array_equal(HostTopK(k, "int32")(row)[1], place)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "uint32", "int64", "bool"])
@pytest.mark.parametrize("n", [4001, 90])
@pytest.mark.parametrize("kind", ["plain", "ties", "special", "few"])
def test_top_k_of_many(dtype: str, kind: str, n: int) -> None:
    """By the largest of parts, where there are neither NaN nor many ties; of short rows by a sort of all."""
    rng = np.random.default_rng(len(dtype) + len(kind))
    x = 30 * rng.normal(size=(3, 2, n))
    if kind == "ties":
        x = np.round(x / 20)
    elif kind == "special":
        x[rng.random(x.shape) < 0.01] = np.inf
        x[0, 0, n - 1], x[0, 0, 7], x[0, 1, 17], x[1, 0, :] = np.nan, -np.nan, np.nan, -np.inf
        x[2, 0] = np.where(rng.random(n) < 0.5, 0.0, -0.0)
    elif kind == "few":
        x = np.where(rng.random(x.shape) < 0.002, 1.0, -x * x)
    x = (
        np.clip(np.nan_to_num(x), 0 if dtype[0] in "ub" else -100, 100).astype(dtype)
        if dtype[0] in "iub"
        else x.astype(dtype)
    )
    for k in (1, 7):
        top, index = HostTopK(k, "int32")(x)
        order = [
            sorted(
                range(n), key=lambda i, row=row: (not np.isnan(row[i]), -float(row[i]), np.signbit(float(row[i])), i)
            )
            for row in x.reshape(-1, n)
        ]
        expected = np.array(order)[:, :k].reshape(3, 2, k)
        np.testing.assert_array_equal(index, expected)
        np.testing.assert_array_equal(top, np.take_along_axis(x, expected, -1))
        for row, found in zip(x.reshape(-1, n), index.reshape(-1, k)):
            np.testing.assert_array_equal(HostTopK(k, "int32")(row)[1], found)
