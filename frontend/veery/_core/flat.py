"""Functions of trees as functions of flat arguments, which is what transformations know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery._core import tree


class FlatFunction:
    """A function of pytrees as one of their leaves.

    Args:
        fun: takes positional pytrees.
        in_tree: the tree of the tuple of its arguments.
        has_aux: whether it returns a pair: what is transformed, and auxiliary output.

    Attributes:
        out_tree: the tree of what it returned when it was called last.
        aux: its auxiliary output then.

    Example:
        >>> double = FlatFunction(lambda pair: {"sum": pair[0] + pair[1]}, tree.tree_flatten(((0, 0),))[1])
        >>> double(1, 2), tree.tree_unflatten(double.out_tree, [5])
        ([3], {'sum': 5})
    """

    __slots__ = ("_fun", "_has_aux", "_in_tree", "aux", "out_tree")

    def __init__(self, fun: Callable[..., Any], in_tree: Any, has_aux: bool = False):
        self._fun = fun
        self._in_tree = in_tree
        self._has_aux = has_aux
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self._fun(*tree.tree_unflatten(self._in_tree, leaves))
        if self._has_aux:
            out, self.aux = _pair(out)
        flat, self.out_tree = tree.tree_flatten(out)
        return flat


def _pair(out: Any) -> tuple[Any, Any]:
    if not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise TypeError(
            f"expected function with aux output to return a two-element tuple, but got type {type(out)} with value "
            f"{out!r}"
        )
    return out[0], out[1]
