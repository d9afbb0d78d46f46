"""Elements of what a dispatch computes, which the dispatch reads too."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from support.compiled import results

import veery
from veery import numpy as jnp, tree

# What each dispatch that reads it computes anew, so that a dispatch may read the whole and a part of its own copy.
CHEAP = {
    "floats of small integers": ("int8", lambda np_, x: x.astype("float32")),
    "numbers of a mask": ("bool", lambda np_, x: x.astype("float32") * 3 - 1),
    "positions": ("int32", lambda np_, x: np_.arange(x.size, dtype="int32").reshape(x.shape) * 3 + (x[0, 0, 0] >> 8)),
    "rows of a table": ("float32", lambda np_, x: x[np_.array([2, 0, 1, 3])]),
    "copies of a row": ("int16", lambda np_, x: np_.broadcast_to(x[0], x.shape).astype("int32")),
}
PARTS = {
    "first": lambda y, k: y.ravel()[0],
    "last": lambda y, k: y.ravel()[-1],
    "somewhere": lambda y, k: y.ravel()[k],
    "of the transpose": lambda y, k: y.T.ravel()[5],
    "row": lambda y, k: y.reshape(24, 10)[3],
    "element and row": lambda y, k: y.ravel()[7] * y.reshape(24, 10)[2],
    "column": lambda y, k: y.reshape(24, 10)[5:9, 3].reshape(4, 1, 1),
    "strided": lambda y, k: y.ravel()[::24],
}
USES = {
    "differences": lambda np_, y, part: y - part,
    "sums": lambda np_, y, part: (y * part).sum(0),
    "rows where": lambda np_, y, part: np_.where(y > part, y, part)[1:],
    "two": lambda np_, y, part: ((y - part).max(-1), y + part),
}


@pytest.mark.parametrize("cheap", CHEAP)
def test_parts_of_what_a_dispatch_computes(cheap: str) -> None:
    """The compiler never returned for `y - y.ravel()[0]` of `y = x.astype(float32)`, where x is int8."""
    dtype, compute = CHEAP[cheap]
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (4, 6, 10)).astype(dtype)

    def program(part: Any, use: Any, np_: Any, x: Any, k: Any) -> Any:
        y = compute(np_, x)
        return use(np_, y, part(y, k))

    kinds = list(itertools.product(PARTS.values(), USES.values()))
    veery.config.update("veery_compiler_timeout", 200)
    found = results([(functools.partial(program, *kind, jnp), (x, np.int32(11))) for kind in kinds])
    for kind, outs in zip(kinds, found, strict=True):
        assert not isinstance(outs, Exception), outs
        expected = program(*kind, np, x, 11)
        for actual, right in zip(tree.leaves(outs), tree.leaves(expected), strict=True):
            np.testing.assert_allclose(actual, right, rtol=1e-6)
