"""Pytrees by short names: `veery.tree.map` is `veery.tree_util.tree_map`."""

from veery._core.tree import tree_all as all
from veery._core.tree import tree_broadcast as broadcast
from veery._core.tree import tree_flatten as flatten
from veery._core.tree import tree_flatten_with_path as flatten_with_path
from veery._core.tree import tree_leaves as leaves
from veery._core.tree import tree_leaves_with_path as leaves_with_path
from veery._core.tree import tree_map as map
from veery._core.tree import tree_map_with_path as map_with_path
from veery._core.tree import tree_reduce as reduce
from veery._core.tree import tree_reduce_associative as reduce_associative
from veery._core.tree import tree_structure as structure
from veery._core.tree import tree_transpose as transpose
from veery._core.tree import tree_unflatten as unflatten
from veery._core.tree_registry import static as static

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
