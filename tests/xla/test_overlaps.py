"""Parts of arrays that are computed from other parts, which XLA writes where it still reads, seen through reshapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.compiled import results

import veery
import veery.numpy as jnp
from veery import lax

X = np.random.default_rng(0).standard_normal((7, 1)).astype(np.float32)
V = np.random.default_rng(1).standard_normal((2, 1)).astype(np.float32)


def _shifted(x: Any) -> Any:
    return x.at[1:].set(x[:-1] + 1)


def _shifted_by_numpy(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[:1], x[:-1] + 1])


def _from_a_column(x: Any) -> Any:
    y = x[:, 0].at[1:].set(x[:-1, 0] + 1)
    return y[:, None] + y.sum()


def _in_a_function(x: Any) -> Any:
    return veery.jit(lambda x, part: x.at[1:].set(part))(x, x[:-1] + 1)[:, 0]


def _at_a_computed_place(x: Any) -> Any:
    """Beyond the end, so that it goes to the last place that holds it."""
    y = lax.dynamic_update_slice(x, x[:2] + V, (jnp.argmax(x) + 9, jnp.int32(-3)))
    return y[:, 0] * 2


def _in_a_loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, x: _shifted(x), x)[:, 0]


def _of_gathered_rows(x: Any) -> Any:
    return _shifted(jnp.broadcast_to(x, (7, 3))[jnp.array([1, 0, 1, 0, 2])] * 2)[:, 1]


COLUMN = _shifted_by_numpy(X)
THRICE = _shifted_by_numpy(_shifted_by_numpy(COLUMN))
LAST = np.concatenate([X[:5], X[:2] + V])[:, 0] * 2
PROGRAMS = {
    "column": (lambda x: _shifted(x)[:, 0], COLUMN[:, 0]),
    "broadcast": (
        lambda x: jnp.broadcast_to(_shifted(x), (7, 3)) + _shifted(x).sum(),
        COLUMN + np.full(3, COLUMN.sum()),
    ),
    "view": (_from_a_column, COLUMN + COLUMN.sum()),
    "function": (_in_a_function, COLUMN[:, 0]),
    "computed": (lambda x: _shifted(jnp.abs(x))[:, 0], _shifted_by_numpy(abs(X))[:, 0]),
    "place": (_at_a_computed_place, LAST),
    "gathered": (_of_gathered_rows, _shifted_by_numpy(2 * X[[1, 0, 1, 0, 2], 0])),
    "loop": (_in_a_loop, THRICE[:, 0]),
}


def test_parts_are_computed_from_what_was_there(on_xla: Any) -> None:
    apart = [results([(fun, (X,))])[0] for fun, _ in PROGRAMS.values()]  # in one program they would be others
    for (name, (_, expected)), actual in zip(PROGRAMS.items(), apart, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, err_msg=name)


def test_other_updates_are_left_alone(on_xla: Any) -> None:
    """They take time in proportion to the part."""

    def fun(x: Any, new: Any, i: Any) -> Any:
        def trip(x: Any, row: Any) -> Any:
            return lax.dynamic_update_slice(x, row[None] * 2, (i, jnp.int32(0))), row + 1

        x, rows = lax.scan(trip, lax.dynamic_update_slice(x, new, (i, jnp.int32(0))), new)
        return x.at[2].set(x[1] + 1), rows, x.at[1:3].set(rows)

    selections = lambda fun, *args: veery.jit(fun).lower(*args).as_text().count("stablehlo.iota")
    assert selections(fun, X, V, np.int32(1)) == 0
    assert selections(_shifted, np.ones((7, 3), np.float32)) == 0
    assert selections(_shifted, X) == 1
