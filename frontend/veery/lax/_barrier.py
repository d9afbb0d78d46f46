"""An identity that compilers do not move operations across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import source, tree
from veery._core.ad import Zero
from veery._core.primitive import Primitive


@source.api_boundary
def optimization_barrier(operand: Any, /) -> Any:
    """Keep the compiler from computing any of the results before all of the operands, or from merging what is equal.

    Args:
        operand: a pytree of arrays.

    Returns:
        The same values.

    >>> import veery
    >>> float(veery.jit(lambda x: veery.lax.optimization_barrier(x) + 1)(2.0))
    3.0
    """
    leaves, treedef = tree.tree_flatten(operand)
    return tree.tree_unflatten(treedef, optimization_barrier_p.bind(*leaves) if leaves else [])


def _behind(values: Sequence[Any]) -> list[Any]:
    """Tangents or cotangents behind a barrier, symbolic zeros left as they are."""
    nonzero = [x for x in values if type(x) is not Zero]
    results = iter(optimization_barrier_p.bind(*nonzero) if nonzero else [])
    return [x if type(x) is Zero else next(results) for x in values]


def _batch(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], Sequence[int | None]]:
    return optimization_barrier_p.bind(*args), dims


optimization_barrier_p: Primitive = Primitive(
    "optimization_barrier",
    multiple_results=True,
    abstract_eval=lambda *avals: list(avals),
    jvp=lambda primals, tangents: (optimization_barrier_p.bind(*primals), _behind(tangents)),
    transpose=lambda cts, *operands: _behind(cts),
    batch=_batch,
    reference=lambda *xs: [np.array(x) for x in xs],
)
