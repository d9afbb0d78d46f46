"""Functions traced to a jaxpr that is then evaluated in NumPy: the traced path tested without a compiler.

interpreted(lambda x: x[::2] + 1, np.arange(4))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.numpy_trace import numpy_evaluation

from veery._core import tree
from veery._core.avals import aval_of
from veery._core.jaxpr import eval_jaxpr
from veery._transforms.staging import stage


def interpreted(fun: Callable[..., Any], *args: Any) -> Any:
    """The result of `fun(*args)` for arrays, as NumPy arrays in the tree that it returns."""
    return interpreted_with_avals(fun, *args)[0]


def interpreted_with_avals(fun: Callable[..., Any], *args: Any) -> tuple[Any, list[Any]]:
    """What `interpreted` gives, and the avals of its leaves."""
    out_tree = None

    def flat(*xs: Any) -> Any:
        nonlocal out_tree
        leaves, out_tree = tree.tree_flatten(fun(*xs))
        return leaves

    avals = [aval_of(x) for x in args]
    closed = stage(flat, avals)
    with numpy_evaluation():
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *(np.asarray(x, a.dtype) for x, a in zip(args, avals)))
    for out, aval in zip(outs, closed.out_avals):
        assert np.shape(out) == aval.shape
    return tree.tree_unflatten(out_tree, [np.asarray(x) for x in outs]), list(closed.out_avals)
