"""Sorting, searching and sets against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery.numpy as jnp
from veery import jit, vmap

RNG = np.random.default_rng(0)
F = RNG.normal(size=(3, 5)).astype(np.float32)
I = RNG.integers(-3, 4, (3, 5)).astype(np.int32)
N = np.where(I > 1, np.nan, F).astype(np.float32)
U = RNG.integers(0, 255, (3, 5)).astype(np.uint8)
C = (I + 1j * I[::-1]).astype(np.complex64)
V = np.sort(RNG.integers(0, 60, 50)).astype(np.float32)
V[-2:] = np.nan
W = np.array([[-1.0, 0.0, 30.0], [59.0, np.nan, 100.0], V[7:10]], np.float32)


def check(actual: Any, expected: Any, name: str = "") -> None:
    actual, expected = (tuple(x) if isinstance(x, tuple) else (x,) for x in (actual, expected))
    assert len(actual) == len(expected), name
    for a, e in zip(actual, expected):
        assert np.shape(a) == np.shape(e), name
        np.testing.assert_array_equal(np.asarray(a), np.asarray(e).astype(np.asarray(a).dtype), err_msg=name)


@pytest.mark.parametrize("x", [F, I, N, U, C], ids=lambda x: x.dtype.name)
def test_sort(x):
    for axis in (-1, 0, None):
        check(interpreted(lambda x, a=axis: jnp.sort(x, axis=a), x), np.sort(x, axis=axis))
        order = np.argsort(x, axis=axis, kind="stable")
        check(interpreted(lambda x, a=axis: jnp.argsort(x, axis=a), x), order)
    check(interpreted(lambda x: jnp.sort(x, descending=True), x), np.sort(x)[:, ::-1])
    check(interpreted(jnp.sort_complex, x), np.sort(x).astype(np.complex64))


def test_descending_argsort_keeps_the_order_of_equals():
    check(interpreted(lambda x: jnp.argsort(x, descending=True), I), np.argsort(-I, kind="stable"))


def test_lexsort_and_partition():
    check(interpreted(lambda x, y: jnp.lexsort((x, y)), F[0], I[0]), np.lexsort((F[0], I[0])))
    check(interpreted(lambda x: jnp.lexsort(x, axis=0), I), np.lexsort(I, axis=0))
    for x in (F, I, N, U):
        out = interpreted(lambda x: jnp.partition(x, 2), x)
        check(out[:, 2], np.partition(x, 2)[:, 2])
        check(np.sort(out), np.sort(x))
        positions = interpreted(lambda x: jnp.argpartition(x, 2, axis=0), x)
        check(np.take_along_axis(x, positions, 0)[2], np.partition(x, 2, axis=0)[2])


@pytest.mark.parametrize("method", ["scan", "scan_unrolled", "sort", "compare_all"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(method, side):
    for a, v in ((V, W), (V[:3], W), (V, np.float32(3)), (V[:0], W), (np.sort(C.ravel()), C)):
        out = interpreted(lambda a, v: jnp.searchsorted(a, v, side, method=method), a, v)
        assert out.dtype == np.int32
        check(out, np.searchsorted(a, v, side))
    order = np.argsort(F.ravel())
    out = interpreted(lambda a, v, s: jnp.searchsorted(a, v, side, s, method=method), F.ravel(), F, order)
    check(out, np.searchsorted(F.ravel(), F, side, sorter=order))


UNIQUE = {"return_index": True, "return_inverse": True, "return_counts": True}


@pytest.mark.parametrize("x", [F, I, N, U, C, I[:0]], ids=lambda x: x.dtype.name)
def test_unique(x):
    check(jnp.unique(x, **UNIQUE), np.unique(x, **UNIQUE))
    values, index, inverse, counts = np.unique(x, **UNIQUE)
    size, k = len(values) + 2, len(values)
    out = interpreted(lambda x: jnp.unique(x, size=size, fill_value=7, **UNIQUE), x)
    check((out[0][:k], out[1][:k], out[2], out[3]), (values, index, inverse, np.append(counts, [0, 0])))
    check(out[0][k:], np.full(2, 7))


def test_unique_along_axes():
    x = I[:, [0, 1, 0, 2, 1]]
    for axis in (0, 1):
        expected = np.unique(x, axis=axis, **UNIQUE)
        expected = (expected[0], expected[1], expected[2].reshape(-1), expected[3])
        check(jnp.unique(x, axis=axis, **UNIQUE), expected)
        size = len(expected[3])
        check(interpreted(lambda x, a=axis, n=size: jnp.unique(x, axis=a, size=n, **UNIQUE), x), expected)
    check(tuple(jnp.unique_all(N)), tuple(np.unique_all(N)))
    check(tuple(jnp.unique_counts(I)), tuple(np.unique_counts(I)))
    check(tuple(jnp.unique_inverse(I)), tuple(np.unique_inverse(I)))
    check(jnp.unique_values(I), np.unique(I))


@pytest.mark.parametrize("name", ["setdiff1d", "union1d", "intersect1d", "setxor1d"])
def test_sets(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    many = RNG.integers(0, 90, 60).astype(np.int32)
    for x, y in ((I, I[0] + 2), (F, F[1]), (I[0], I[:0]), (I[:0], I[0]), (many[:40], many[20:])):
        expected = theirs(x, y)
        check(ours(x, y), expected, name)
        size, k = len(expected) + 2, len(expected)
        out = interpreted(lambda x, y, n=size: ours(x, y, size=n, fill_value=-9), x, y)
        check(out, np.append(expected, [-9, -9]), name)
        if k and name != "setdiff1d":
            check(interpreted(lambda x, y, n=size: ours(x, y, size=n), x, y)[k:], np.full(2, expected.min()), name)
    if name == "intersect1d":
        expected = theirs(I, I[0] + 2, return_indices=True)
        check(ours(I, I[0] + 2, return_indices=True), expected)
        out = interpreted(lambda x, y: ours(x, y, return_indices=True, size=len(expected[0]) + 1), I, I[0] + 2)
        check(tuple(a[:-1] for a in out), expected)
        check(tuple(a[-1] for a in out[1:]), (I.size, 5))


def test_batched_and_methods():
    rows = interpreted(lambda a, v: vmap(lambda row: jnp.searchsorted(a, row, method="sort"))(v), V, W)
    check(rows, np.searchsorted(V, W))
    check(interpreted(lambda x: (x.sort(), x.argsort(0)), F), (np.sort(F), np.argsort(F, axis=0)))


def test_isin():
    for x, y in ((I, I[0]), (N, N), (F, F[0]), (F, np.tile(F, (4, 1))), (I, I[:0]), (C, np.tile(C[0], 8))):
        check(interpreted(jnp.isin, x, y), np.isin(x, y))
        check(interpreted(lambda x, y: jnp.isin(x, y, invert=True), x, y), np.isin(x, y, invert=True))


@pytest.mark.compiler
def test_compiled():
    fun = jit(
        lambda x, a, v, i: (
            jnp.sort(x, descending=True),
            jnp.argsort(x[0]),
            jnp.searchsorted(a, v),
            jnp.unique(i, size=9, fill_value=99),
            jnp.intersect1d(i, i[0], size=5, fill_value=99),
        )
    )
    sort, argsort, search, unique, shared = fun(F, V, W, I)
    check(sort, np.sort(F)[:, ::-1])
    check(argsort, np.argsort(F[0]))
    check(search, np.searchsorted(V, W))
    check(unique, np.append(np.unique(I), [99] * 9)[:9])
    check(shared, np.append(np.unique(I[0]), [99] * 5)[:5])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: jnp.sort(F, kind="stable"), TypeError, "'kind' argument to sort is not supported"),
        (lambda: jnp.argsort(F, order="x"), TypeError, "'order' argument to argsort is not supported"),
        (lambda: jnp.sort(F, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda: jnp.sort([1]), TypeError, "sort requires ndarray or scalar arguments"),
        (lambda: jnp.lexsort(()), TypeError, "need sequence of keys"),
        (lambda: jnp.partition(C, 1), NotImplementedError, "complex"),
        (lambda: jnp.searchsorted(F, 1.0), ValueError, "a should be 1-dimensional"),
        (lambda: jnp.searchsorted(V, 1.0, side="up"), ValueError, "invalid value for keyword 'side'"),
        (lambda: jit(jnp.unique)(I), TypeError, "jnp.unique"),
        (lambda: jnp.unique(I[:0], size=2), ValueError, "fill_value must be specified"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
