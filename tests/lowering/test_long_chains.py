"""Programs of thousands of operations in a row: what walks along them does not call itself for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
from veery import lax, numpy as jnp
from veery_lowering.kernels import fuse_elements, fuse_loops, fuse_moves, fuse_rows
from veery_lowering.kernels._body import MOST_IN_A_ROW
from veery_lowering.passes.simplification import inlined

LONG = 3000
X = np.arange(7, dtype=np.float32)

pytestmark = [pytest.mark.slow, pytest.mark.compiler]


def added(x: Any, n: int = LONG) -> Any:
    for _ in range(n):
        x = x + 0.5
    return x


def made(fuse: Callable[[Any], int], fun: Callable[..., Any], *args: Any) -> int:
    """How many kernels a pass makes of a function."""
    counts: list[int] = []
    inlined(veery.jit(fun).lower(*args)._lowered.module, lambda module: counts.append(fuse(module)))
    return counts[0]


def looped(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, 3, lambda i, x: body(x), x)


# of each what finds kernels, how many there are, and a function with the longest chain that fits into one
KERNELS: dict[str, tuple[Callable[[Any], int], int, Callable[[Any], Any]]] = {
    "a loop": (fuse_loops, 1, looped(lambda x: added(x)[::-1])),
    "several users": (fuse_loops, 1, looped(lambda x: added(x, 900) * added(x * 0.5, 900) - x)),
    "moved and joined": (
        fuse_loops,
        1,
        looped(lambda x: jnp.concatenate([added(x[3:], 900), added(x[:3], 900)[::-1]])),
    ),
    "joined": (fuse_moves, 1, lambda x: jnp.stack([added(x, 300), added(x[::-1], 300), x], 1)[1:]),
    "element by element": (fuse_elements, 1, lambda x: added(x, MOST_IN_A_ROW)),
    "too long": (fuse_elements, 0, lambda x: added(x, 2 * MOST_IN_A_ROW)),
    "rows": (fuse_rows, 1, lambda x: veery.nn.softmax(added(jnp.tile(x, (3, 9)), 100))),
    "rows of many": (fuse_rows, 0, lambda x: veery.nn.softmax(added(jnp.tile(x, (3, 9)), 300))),
    "complex": (fuse_moves, 0, lambda x: jnp.real(added(x * 1j))),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_long_chains(name: str, caplog: pytest.LogCaptureFixture) -> None:
    fuse, count, fun = KERNELS[name]
    assert made(fuse, fun, X) == count
    assert not caplog.records  # nothing failed unforeseen


@pytest.mark.parametrize("n", [99, 100, 101, MOST_IN_A_ROW - 1, MOST_IN_A_ROW, MOST_IN_A_ROW + 1, 5 * MOST_IN_A_ROW])
def test_chains_are_computed_in_parts(n: int, caplog: pytest.LogCaptureFixture) -> None:
    """Also where other operations read what is computed on the way."""
    loop = looped(lambda x: added(x, n)[::-1] + added(x, 2) * 0.125)
    joined = lambda x: jnp.stack([added(x, n), added(x[::-1], n) * x, x], 1)[1:]
    for x in (X, X[:1], np.float32(2.0)):
        functions = [loop, joined] if x.ndim else [looped(lambda x: added(x, n))]
        for fun in functions:
            np.testing.assert_array_equal(veery.jit(fun)(x), interpreted(fun, x))
    assert not caplog.records


def test_long_chains_in_the_place_of_arguments(caplog: pytest.LogCaptureFixture) -> None:
    """What takes an argument's place is looked for as far as that is worth it."""
    rows = lambda x: veery.nn.softmax(added(x, 1000))
    x = np.linspace(-3, 3, 300 * 200, dtype=np.float32).reshape(300, 200)
    np.testing.assert_allclose(veery.jit(rows, donate_argnums=0)(jnp.array(x)), interpreted(rows, x), rtol=1e-5)
    assert not caplog.records


def test_arguments_are_not_written_to() -> None:
    """What could be a neutral element is looked for along all that it is computed from."""
    x, y = jnp.asarray(X), jnp.asarray(X)
    result = veery.jit(lambda x, y: (x * added(y)).at[0].set(1.0))(x, y)
    np.testing.assert_array_equal(result, (X * (X + LONG / 2)) + (X == 0))
    np.testing.assert_array_equal(x, X)
