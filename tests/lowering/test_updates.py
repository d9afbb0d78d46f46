"""Values that are written in part while something else reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted
from support.passes import leave_out

import veery
from veery import lax, numpy as jnp
from veery_lowering.passes.simplification import inlined
from veery_lowering.passes.stablehlo.folding import fold_constants
from veery_lowering.passes.stablehlo.updates import endangered_writes

X = np.linspace(0, 1, 40, dtype=np.float32).reshape(8, 5)
U = np.full((1, 5), 7, np.float32)
W = np.linspace(0, 1, 33, dtype=np.float32)


def written(y: Any, u: Any, i: Any) -> list[Any]:
    """What writes into a value."""
    return [lax.dynamic_update_slice(y, u, (i, 0)), y.at[jnp.array([1, 2]) + i].add(3), jnp.sort(y, 0), y.at[1].set(7)]


READ = {
    "itself": lambda y: y,
    "a view": lambda y: y.reshape(2, 20),
    "a product": lambda y: y @ y.T,
    "sums": lambda y: y.sum(0),
    "sums along": lambda y: jnp.cumsum(y, 0),
    "a row": lambda y: jnp.tanh(y[3]),
}


@pytest.mark.parametrize("number", range(4))
def test_what_is_read_is_not_written_before(number: int) -> None:
    """IREE puts what it computes at the same time as something else in front of what reads the old value."""
    for read in READ.values():

        def function(x: Any, u: Any, i: Any, w: Any) -> Any:
            y = x * 2
            return read(y), written(y, u, i)[number], jnp.cumsum(w)  # noqa: B023

        outs = veery.jit(function)(X, U, np.int32(3), W)
        for actual, expected in zip(outs, interpreted(function, X, U, np.int32(3), W), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def updated(x: Any, w: Any) -> Any:
    y = x * 2
    return y, y.at[1].set(7), jnp.cumsum(w)


def copies(fun: Any, *args: Any) -> tuple[int, int]:
    """Of how many values that are written into, and that are written."""
    found: list[Any] = []

    def find(module: Any) -> None:
        fold_constants(module)
        found.extend(endangered_writes(module))

    inlined(veery.jit(fun).lower(*args)._lowered.module, find)
    shared, crossed = found
    return len(shared), len(crossed)


def test_copies_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, the pass can go."""
    veery.config.update("jax_enable_compilation_cache", False)
    leave_out(monkeypatch, "part_updates")
    y, *_ = veery.jit(updated)(X, W)
    assert (np.asarray(y)[1] == 7).all()


def test_what_only_the_update_needs_is_written_in_place() -> None:
    assert copies(updated, X, W) == (1, 0)
    assert copies(lambda x: (x * 2).at[1].set(7), X) == (0, 0)
    last = lambda x: lax.fori_loop(1, 8, lambda i, y: y.at[i].set(jnp.tanh(y[i - 1])), x * 2)
    assert copies(last, X) == (0, 1)  # a row, not the whole
    assert copies(last, W) == (0, 0)


def test_what_is_computed_in_its_place_is_not_copied() -> None:
    part = lambda y, i: lax.dynamic_update_slice(y, jnp.tanh(lax.dynamic_slice(y, (i, 0), (2, 5))) * 3, (i, 0))
    for in_place in (part, lambda y, i: y.at[2:4].set(y[2:4] + i), lambda y, i: y.at[:2].set(y[4:6] * i)):
        assert copies(lambda x, i: in_place(x * 2, i), X, np.int32(3)) == (0, 0)  # noqa: B023
    turned = lambda y, i: lax.dynamic_update_slice(y, lax.dynamic_slice(y, (i, i), (2, 2)).T, (i, i))
    for moved in (turned, lambda y, i: y.at[2:4].set(y[3:5] + i), lambda y, i: y.at[2:4].set(y[2:4][::-1] * i)):
        assert copies(lambda x, i: moved(x * 2, i), X, np.int32(3)) == (0, 1)  # noqa: B023


FROM_ELSEWHERE: dict[str, Any] = {
    "shifted": lambda y, p: y.at[1:].set(y[:-1]),
    "shifted back": lambda y, p: y.at[:-1].set(y[1:]),
    "to a computed place": lambda y, p: lax.dynamic_update_slice(y, y[:-2], (jnp.minimum(p[0], 2),)),
    "smoothed": lambda y, p: y.at[1:-1].set((y[:-2] + y[2:]) / 2),
    "smoothed again and again": lambda y, p: lax.fori_loop(0, 5, lambda _, y: FROM_ELSEWHERE["smoothed"](y, p), y),
    "smoothed in a loop of sorts": lambda y, p: lax.fori_loop(
        0, 5, lambda _, y: FROM_ELSEWHERE["smoothed"](jnp.sort(y), p), y
    ),
    "turned about": lambda y, p: y.at[: len(p) // 2].set(y[: len(p) // 2][::-1]),
    "windows": lambda y, p: y.at[1:-1].set(lax.reduce_window(y, 0.0, lax.add, (3,), (1,), "VALID")),
    "convolved": lambda y, p: y.at[1:-1].set(jnp.convolve(y, jnp.array([1.0, 2, 3]), "valid")),
    "summed": lambda y, p: y.at[1:].set(jnp.cumsum(y)[:-1]),
    "spread": lambda y, p: y.at[:-1].set(y[-1]),
    "joined": lambda y, p: y.at[2:].set(jnp.concatenate([y[:1], y[:-3]])),
    "permuted": lambda y, p: y.at[p].set(y[p[::-1]]),
    "added": lambda y, p: y.at[p].add(y[p[::-1]]),
    "scattered": lambda y, p: y.at[p[:3]].set(y[:3]),
    "where itself says": lambda y, p: y.at[(jnp.abs(y) * 3).astype(int) % len(p)].max(2.0),
    "sorted beside itself": lambda y, p: jnp.stack(lax.sort((y, -y))),
    "in place": lambda y, p: y.at[2:5].set(jnp.sin(y[2:5]) * 3),
    "apart": lambda y, p: y.at[:3].set(y[3:6] * 2),
    "rows times rows": lambda y, p: (m := jnp.outer(y[:30], y[:30] + 1)).at[:3].set(m[1:4] @ m),
    "a row of the last": lambda y, p: (m := jnp.outer(y, y + 1)).at[p[0]].set(m[p[0] - 1] @ m),
    "a column": lambda y, p: (m := jnp.outer(y, y + 1)).at[0].set(m[:, 0]),
}


@pytest.mark.parametrize("size", [6, 33, 1000])
def test_what_is_written_may_come_from_what_it_overwrites(size: int) -> None:
    rng = np.random.default_rng(size)
    x, p = rng.standard_normal(size).astype(np.float32), rng.permutation(size).astype(np.int32)
    functions = {name: f for name, f in FROM_ELSEWHERE.items() if size < 1000 or "a " not in name}
    each = lambda x, p: {name: f((x + i) * 2, p) for i, (name, f) in enumerate(functions.items())}
    found, expected = veery.jit(each)(x, p), interpreted(each, x, p)
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_donated_arrays_are_shifted_and_smoothed() -> None:
    for name in ("shifted", "smoothed", "turned about"):
        function = lambda x: FROM_ELSEWHERE[name](x, x)  # noqa: B023
        expected = interpreted(function, W * W)
        np.testing.assert_allclose(veery.jit(function, donate_argnums=0)(jnp.array(W * W)), expected, rtol=1e-6)


# A part that is copied to where it is: IREE finds that out at different times.
TO_ITSELF: dict[str, Any] = {
    "known": lambda y, k: y.at[2, 1].set(y[2, 1]),
    "known, of a reshaped array": lambda y, k: y.reshape(12).at[7].set(y[2, 1]).reshape(4, 3),
    "known, behind a barrier": lambda y, k: y.at[2, 1].set(lax.optimization_barrier(y[2, 1])),
    "folded": lambda y, k: lax.dynamic_update_slice(y, y[2:3, 1:2], (2 + k * 0, 1)),
    "folded, wrapped": lambda y, k: y.at[2 + k * 0, 1].set(y[2, 1]),
    "found when it is loaded": lambda y, k: y.at[(jnp.exp(k * 0.0) * 2).astype(int), 1].set(y[2, 1]),
    "found when it runs": lambda y, k: y.at[k, 1].set(y[k, 1]),
    "rows": lambda y, k: y.at[1:3].set(lax.optimization_barrier(y[1:3])),
    "rows, folded": lambda y, k: lax.dynamic_update_slice(y, y[1:3], (1 + k * 0, 0)),
}


@pytest.mark.parametrize("dtype", ["float32", "bool", "uint8", "float16", "bfloat16", "complex64", "float8_e4m3fn"])
def test_a_part_is_copied_to_where_it_is(dtype: str) -> None:
    """It failed: "source and target ranges overlap within the same buffer"."""
    x = np.arange(12).reshape(4, 3) % 5 == 1
    summed = lambda x, n: lax.optimization_barrier(jnp.cumsum(x * np.float32(n + 1), 1).astype(dtype))
    each = lambda x, k: [f(summed(x, n), k) for n, f in enumerate(TO_ITSELF.values())]
    for n, (name, found) in enumerate(zip(TO_ITSELF, veery.jit(each)(x, np.int32(2)), strict=True)):
        assert found.dtype == jnp.dtype(dtype)
        expected = np.cumsum(x * np.float32(n + 1), 1).astype(jnp.dtype(dtype))
        np.testing.assert_array_equal(np.asarray(found).astype(np.complex64), expected.astype(np.complex64), name)


def test_an_element_from_elsewhere_is_not_copied_first() -> None:
    assert copies(lambda x: (x * 2).at[0].set(x[1] + 1), W) == (0, 0)
    assert copies(lambda x: (y := x * 2).at[0].set(y[-2]), W) == (0, 0)
    assert copies(lambda x: (y := x * 2).at[3].set(y[3]), W) == (0, 1)


def test_copies_of_what_is_written_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, that part of the pass can go."""
    veery.config.update("jax_enable_compilation_cache", False)
    leave_out(monkeypatch, "part_updates")
    smoothed = lambda x: FROM_ELSEWHERE["smoothed"](x * 2, x)
    x = np.sin(40 * W)
    assert abs(np.asarray(veery.jit(smoothed)(x)) - interpreted(smoothed, x)).max() > 0.01


def trips(x: Any, w: Any, p: Any) -> tuple[Any, Any]:
    """Each trip writes into what all of them get."""
    y = x * 2
    one = lambda c, s: (c, jnp.sort(x.at[p].add(s)))
    two = lambda c, s: (c, jnp.sort(y.at[1].set(s)))
    return lax.scan(one, 0, w)[1], lax.scan(two, 0, w)[1]


TRIPS = np.arange(1, 9, dtype=np.float32), np.array([3, 1, 4, 1.5], np.float32), np.array([0, 5], np.int32)


def test_every_trip_gets_what_was_before_the_loop() -> None:
    x, w, p = TRIPS
    for target in (x, np.stack([x, x[::-1]], 1)):
        for actual, expected in zip(veery.jit(trips)(target, w, p), interpreted(trips, target, w, p), strict=True):
            np.testing.assert_array_equal(actual, expected)
    added = lambda x, w, p: lax.scan(lambda c, s: (c, (x.at[p].add(x[::-1][p]), s)), 0, w)[1]
    for actual, expected in zip(veery.jit(added)(x, w, p), interpreted(added, x, w, p), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_every_trip_gets_a_constant() -> None:
    x, i = np.array([[2.0], [1.0], [3.0]], np.float32), np.zeros((3, 1), np.int32)
    largest = lambda x, i: lax.map(lambda row: jnp.full((1,), -9.0).at[row[1]].max(row[0], mode="drop"), (x, i))
    found = veery.jit(largest, compiler_options={"kernels": False})(x, i)
    np.testing.assert_array_equal(found, x)


def test_behind_a_barrier_on_a_constant() -> None:
    def function(u: Any) -> Any:
        x = jnp.asarray(X)
        return lax.dynamic_update_slice(lax.optimization_barrier(x), u, (1, 0)), jnp.sort(x, 0)[::-1][::-1]

    updated, x = veery.jit(function)(U)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(updated, np.concatenate([X[:1], U, X[2:]]))


def test_in_a_versioned_module() -> None:
    """`updated`, as `jax.export` gives it."""
    path = Path(__file__).parents[1] / "aot/data/jax_0_10_update.mlirbc"
    y, z, sums = veery.stablehlo.load(path)(X, W)
    np.testing.assert_array_equal(y, X * 2)
    np.testing.assert_array_equal(z, np.concatenate([2 * X[:1], U, 2 * X[2:]]))
    np.testing.assert_allclose(sums, np.cumsum(W), rtol=1e-5)


def test_every_trip_of_a_versioned_module_gets_what_was_before_the_loop() -> None:
    """`trips`, as `jax.export` gives it."""
    found = veery.stablehlo.load(Path(__file__).parents[1] / "aot/data/jax_0_10_trips.mlirbc")(*TRIPS)
    for actual, expected in zip(found, interpreted(trips, *TRIPS), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_in_a_versioned_module_from_what_is_overwritten() -> None:
    """Of `(x + k) * 2`: smoothed, shifted, half of it turned about, written at a place, and a part in front.

    And a part of `outer(x, x + 3)`, doubled, beside where it was.
    """
    path = Path(__file__).parents[1] / "aot/data/jax_0_10_shifts.mlirbc"
    y = [(W + k) * 2 for k in range(5)]
    smoothed, shifted, turned, placed, front, aside = veery.stablehlo.load(path)(W, np.int32(1))
    np.testing.assert_allclose(smoothed, [y[0][0], *(y[0][:-2] + y[0][2:]) / 2, y[0][-1]], rtol=1e-6)
    np.testing.assert_array_equal(shifted, [y[1][0], *y[1][:-1]])
    np.testing.assert_array_equal(turned, [*y[2][15::-1], *y[2][16:]])
    np.testing.assert_array_equal(placed, [y[3][0], *y[3][:-1]])
    np.testing.assert_array_equal(front, [*y[4][3:6], *y[4][3:]])
    table = np.outer(W, W + 3)
    table[:20, 1:30] = 2 * table[:20, :29]
    np.testing.assert_array_equal(aside, table)
