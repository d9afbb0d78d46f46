"""Where two pytrees differ in structure, in words."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from veery._core.tree_registry import KeyPath, Level, keystr, one_level

PrefixError = Callable[[str], ValueError]
IsLeaf = Callable[[Any], bool]


class AnyLeaf:
    """Stands for a leaf of a structure in messages."""


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[PrefixError]:
    """Functions from a name for `prefix_tree` to an error, one for each place where `full_tree` does not fit it."""
    return list(_prefix_errors((), prefix_tree, full_tree, is_leaf))


def _prefix_errors(path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf | None) -> Iterator[PrefixError]:
    if is_leaf is not None and is_leaf(prefix):
        return
    level = one_level(prefix)
    if level is None:
        return
    full_level = one_level(full) if type(full) is type(prefix) else None
    if full_level is None:
        yield _types_differ(path, prefix, full)
    elif len(level.children) != len(full_level.children):
        yield _lengths_differ(path, prefix, level, full_level)
    elif level.metadata != full_level.metadata:
        yield _metadata_differ(path, prefix, level, full_level)
    else:
        for key, child, full_child in zip(level.keys, level.children, full_level.children):
            yield from _prefix_errors((*path, key), child, full_child, is_leaf)


def _types_differ(path: KeyPath, prefix: Any, full: Any) -> PrefixError:
    kind = "a leaf" if isinstance(full, AnyLeaf) else f"a subtree of different type\n    {type(full)}"
    return lambda name: ValueError(
        f"pytree structure error: different types at key path\n    {name}{keystr(path)}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n    {type(prefix)}\n"
        f"but at the same key path the full pytree has {kind}."
    )


def _lengths_differ(path: KeyPath, prefix: Any, level: Level, full: Level) -> PrefixError:
    kind = type(prefix)
    if kind in (list, tuple):
        return lambda name: ValueError(
            f"pytree structure error: different lengths of {kind.__name__} at key path\n    {name}{keystr(path)}\n"
            f"At that key path, the prefix pytree {name} has a subtree of type {kind.__name__} of length "
            f"{len(level.children)}, but the full pytree has a subtree of the same type but of length "
            f"{len(full.children)}."
        )
    keys, full_keys = [[keystr((key,), simple=True) for key in each.keys] for each in (level, full)]
    difference = sorted(set(keys) ^ set(full_keys))
    return lambda name: ValueError(
        f"pytree structure error: different numbers of pytree children at key path\n    {name}{keystr(path)}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n    {kind}\n"
        f"with {len(keys)} child keys\n    {' '.join(keys)}\n"
        "but at the same key path the full pytree has a subtree of the same type but with "
        f"{len(full_keys)} child keys\n    {' '.join(full_keys)}\n"
        f"so the symmetric difference on key sets is\n    {' '.join(difference)}"
    )


def _metadata_differ(path: KeyPath, prefix: Any, level: Level, full: Level) -> PrefixError:
    one, other = str(level.metadata), str(full.metadata)
    difference = textwrap.indent("\n".join(difflib.ndiff(one.splitlines(), other.splitlines())), "    ")
    return lambda name: ValueError(
        f"pytree structure error: different pytree metadata at key path\n    {name}{keystr(path)}\n"
        f"At that key path, the prefix pytree {name} has a subtree of type\n    {type(prefix)}\n"
        f"with metadata\n    {one}\nbut at the same key path the full pytree has a subtree of the same type but with "
        f"metadata\n    {other}\nso the diff in the metadata at these pytree nodes is\n{difference}"
    )


def equality_errors(tree1: Any, tree2: Any, is_leaf: IsLeaf | None = None) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Where two trees differ in structure: (path, what is in the first, what is in the second, why they differ)."""
    yield from _equality_errors((), tree1, tree2, is_leaf)


def equality_errors_pytreedef(tree1: Any, tree2: Any) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Like `equality_errors`, of structures."""
    one, other = [treedef.unflatten([AnyLeaf()] * treedef.num_leaves) for treedef in (tree1, tree2)]
    return equality_errors(one, other)


def _describe(tree: Any) -> str:
    return "a pytree leaf" if isinstance(tree, AnyLeaf) else f"a {type(tree)}"


def _with_children(tree: Any, count: int) -> str:
    if isinstance(tree, (list, tuple)):
        return f"a {type(tree).__name__} of length {count}"
    return f"{_describe(tree)} with {count} child{'' if count == 1 else 'ren'}"


def _equality_errors(
    path: KeyPath, tree1: Any, tree2: Any, is_leaf: IsLeaf | None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    one, other = [None if is_leaf is not None and is_leaf(tree) else one_level(tree) for tree in (tree1, tree2)]
    if one is None and other is None:
        return
    if one is None or other is None or type(tree1) is not type(tree2):
        yield path, _describe(tree1), _describe(tree2), "their Python types differ"
    elif len(one.children) != len(other.children):
        yield (
            path,
            _with_children(tree1, len(one.children)),
            _with_children(tree2, len(other.children)),
            f"the {'lengths' if isinstance(tree1, (list, tuple)) else 'numbers of children'} do not match",
        )
    elif one.metadata != other.metadata:
        yield (
            path,
            f"{_describe(tree1)} with pytree metadata {one.metadata}",
            f"{_describe(tree2)} with pytree metadata {other.metadata}",
            "the pytree node metadata does not match",
        )
    else:
        for key, child1, child2 in zip(one.keys, one.children, other.children):
            yield from _equality_errors((*path, key), child1, child2, is_leaf)
