"""Pytrees: nested containers as a flat list of leaves and a structure.

Nodes are None (without children), tuples, lists, dictionaries (in the order of their sorted keys), OrderedDict,
defaultdict, namedtuples and registered types; everything else is a leaf.
"""

from __future__ import annotations

import collections
import functools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from veery._core.optree_door import optree
from veery._core.tree_errors import AnyLeaf, IsLeaf, prefix_errors
from veery._core.tree_registry import (
    NAMESPACE,
    KeyPath,
    is_namedtuple_type,
    is_tree_node,
    one_level,
    register_pytree_node,
    sorted_keys,
    unflatten_function,
)

_optree_flatten = optree.tree_flatten


class PyTreeDef:
    """The structure of a pytree, without its leaves. Hashable and comparable.

    Attributes:
        spec: optree's form of it, which `flatten_spec` gives faster.
    """

    __slots__ = ("spec",)

    def __init__(self, spec: optree.PyTreeSpec):
        self.spec = spec

    @property
    def num_leaves(self) -> int:
        return self.spec.num_leaves

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return self.spec.num_nodes

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves; ValueError when their number is wrong."""
        try:
            return self.spec.unflatten(leaves)
        except ValueError as error:
            raise _renamed(error) from None

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        return [PyTreeDef(child) for child in self.spec.children()]

    def node_data(self) -> tuple[type, Any] | None:
        """(type, auxiliary data) of the root; None for a leaf."""
        return None if self.is_leaf() else (self.spec.type, _node_data(self.spec))  # type: ignore[return-value]

    def is_leaf(self) -> bool:
        """Whether the structure is a single leaf (None is not)."""
        return self.spec.is_leaf()

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """The structure with each leaf replaced by `inner`."""
        return PyTreeDef(self.spec.compose(inner.spec))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` at this structure's leaves; ValueError where it does not begin with the structure."""
        subtrees: list[Any] = []
        _flatten_up_to(self.spec, tree, subtrees)
        return subtrees

    def walk(
        self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Iterable[Any]
    ) -> Any:
        """Folds from the leaves: `f_node(children's results, auxiliary data)`, `f_leaf(leaf)`."""
        return self.spec.walk(list(leaves), lambda kind, data, children: f_node(children, data), f_leaf)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and self.spec == other.spec

    def __ne__(self, other: object) -> bool:
        return not (isinstance(other, PyTreeDef) and self.spec == other.spec)

    def __hash__(self) -> int:
        try:
            return hash(self.spec)
        except TypeError:
            # Auxiliary data without a hash can still be compared.
            return hash((self.spec.num_nodes, self.spec.num_leaves))

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self.spec,)

    def __repr__(self) -> str:
        return f"PyTreeDef({self.spec.walk(['*'] * self.spec.num_leaves, _node_text, None)})"


def _renamed(error: ValueError) -> ValueError:
    return ValueError(
        str(error).replace("PyTreeSpec; expected:", "PyTreeDef; expected").replace("PyTreeSpec", "PyTreeDef")
    )


def _node_text(kind: Any, data: Any, children: Sequence[str]) -> str:
    inner = ", ".join(children)
    if kind is type(None):
        return "None"
    if kind is tuple:
        return f"({inner},)" if len(children) == 1 else f"({inner})"
    if kind is list:
        return f"[{inner}]"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(data, children)) + "}"
    if kind is collections.OrderedDict:
        name = f"OrderedDict[{tuple(data)}]"
    elif kind is collections.defaultdict:
        name = f"defaultdict[({data[0]}, {tuple(data[1])})]"
    elif is_namedtuple_type(kind) and unflatten_function(kind) is None:
        name = f"namedtuple[{kind.__name__}]"
    else:
        name = f"{kind.__name__}[{data}]"
    return f"CustomNode({name}, [{inner}])"


def _node_data(spec: optree.PyTreeSpec) -> Any:
    """The auxiliary data of the root."""
    top = spec.one_level()
    return top.walk([None] * top.num_leaves, lambda kind, data, children: data, None)  # type: ignore[union-attr]


def _metadata(spec: optree.PyTreeSpec) -> Any:
    """The auxiliary data of the root in the form of `Level.metadata`."""
    data = _node_data(spec)
    if spec.type in (dict, collections.OrderedDict):
        return tuple(data)
    if spec.type is collections.defaultdict:
        return data[0], tuple(data[1])
    return data


def _flatten_up_to(spec: optree.PyTreeSpec, tree: Any, subtrees: list[Any]) -> None:
    if spec.is_leaf():
        subtrees.append(tree)
        return
    kind: Any = spec.type
    level = one_level(tree) if type(tree) is kind else None
    if level is None:
        raise ValueError(_other_type(kind, tree))
    children = spec.children()
    expected, present = _metadata(spec), level.metadata
    if kind is dict and expected != present:
        raise ValueError(f"Dict key mismatch; expected keys: {[*expected]}; present keys: {[*present]}.")
    if expected != present:
        raise ValueError(f"Mismatch custom node data: {expected!r} != {present!r}; value: {tree!r}.")
    if len(children) != len(level.children):
        name, value = (kind.__name__.capitalize(), kind.__name__) if kind in (list, tuple) else ("Custom type", "value")
        raise ValueError(f"{name} arity mismatch: {len(level.children)} != {len(children)}; {value}: {tree!r}.")
    for child, subtree in zip(children, level.children):
        _flatten_up_to(child, subtree, subtrees)


def _other_type(kind: Any, tree: Any) -> str:
    """What to say of a value where a node of another type is expected."""
    if kind is type(None):
        hint = "None is a tree without leaves: for a None that stands for a value pass `is_leaf=lambda x: x is None`."
        return f"Expected None, got {tree!r}.\n{hint}"
    if is_namedtuple_type(kind):
        if is_namedtuple_type(type(tree)):
            return f"Named tuple type mismatch: expected type: {kind}, tuple: {tree!r}."
        return f"Expected named tuple, got {tree!r}."
    if kind in (list, tuple, dict):
        return f"Expected {kind.__name__}, got {tree!r}."
    return f"Custom node type mismatch: expected type: {kind}, value: {tree!r}."


# Flattening.


def flatten_spec(tree: Any) -> tuple[list[Any], optree.PyTreeSpec]:
    """Leaves and structure, as fast as can be: the structure is optree's (hashable; `PyTreeDef(spec)` wraps it).

    For keys of caches. Unlike `tree_flatten` it takes deques for nodes and gives incomparable keys some fixed order.
    """
    return _optree_flatten(tree, namespace=NAMESPACE)


_sorted: dict[optree.PyTreeSpec, optree.PyTreeSpec | None] = {}


def _with_sorted_keys(spec: optree.PyTreeSpec) -> optree.PyTreeSpec | None:
    """The structure, which makes dictionaries in the order of their sorted keys; optree's keeps that of insertion.

    None where optree's reading of the tree is not ours: there are deques, struct sequences, incomparable keys.
    """
    try:
        if spec in _sorted:
            return _sorted[spec]
    except TypeError:
        return spec.transform(_sort_keys) if _is_regular(spec) else None
    if len(_sorted) > 10_000:
        _sorted.clear()
    found = _sorted[spec] = spec.transform(_sort_keys) if _is_regular(spec) else None
    return found


def _sort_keys(node: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """A node whose children are leaves, with its keys in the order of the children."""
    if node.type is not dict and node.type is not collections.defaultdict:
        return node
    children = dict.fromkeys(node.entries(), optree.treespec_leaf())
    if node.type is dict:
        return optree.treespec_dict(children)
    return optree.treespec_defaultdict(_node_data(node)[0], children)


def _is_regular(spec: optree.PyTreeSpec) -> bool:
    def visit(kind: Any, data: Any, children: Sequence[bool]) -> bool:
        if kind is dict or kind is collections.defaultdict:
            sorted_keys(dict.fromkeys(data if kind is dict else data[1]))
        return is_tree_node(kind) and all(children)

    return spec.walk([True] * spec.num_leaves, visit, None)


def _flatten(tree: Any, is_leaf: IsLeaf | None) -> tuple[list[Any], optree.PyTreeSpec]:
    leaves, spec = _optree_flatten(tree, is_leaf, namespace=NAMESPACE)
    ordered = _with_sorted_keys(spec)
    if ordered is not None:
        return leaves, ordered

    def stop(node: Any) -> bool:
        return not is_tree_node(type(node)) or (is_leaf is not None and is_leaf(node))

    leaves, spec = _optree_flatten(tree, stop, namespace=NAMESPACE)
    return leaves, spec.transform(_sort_keys)


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree and its structure.

    Args:
        tree: the pytree.
        is_leaf: takes a node and says whether it shall be a leaf.

    Returns:
        The list of leaves, and the structure, from which `tree_unflatten` makes the tree again.

    Raises:
        ValueError: the keys of a dictionary cannot be sorted.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    leaves, spec = _flatten(tree, is_leaf)
    return leaves, PyTreeDef(spec)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of a structure and leaves; ValueError when their number is wrong.

    >>> tree_unflatten(tree_structure([0, (0, 0)]), "abc")
    ['a', ('b', 'c')]
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a pytree.

    >>> tree_leaves([1, {"a": 2}, None])
    [1, 2]
    """
    return _flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a pytree.

    >>> tree_structure([1, {"a": 2}, None])
    PyTreeDef([*, {'a': *}, None])
    """
    return PyTreeDef(_flatten(tree, is_leaf)[1])


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Applies a function to each leaf.

    Args:
        f: takes the leaf and what stands at its place in each tree of `rest`.
        tree: the pytree.
        *rest: pytrees that have the structure of `tree`, or begin with it.
        is_leaf: takes a node and says whether it shall be a leaf.

    Returns:
        A pytree of the structure of `tree` with the results.

    Raises:
        ValueError: a tree of `rest` has another structure; the message names the place.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, spec = _flatten(tree, is_leaf)
    if not rest:
        return spec.unflatten(map(f, leaves))
    return spec.unflatten(map(f, leaves, *[_subtrees(spec, tree, other, is_leaf) for other in rest]))


def _subtrees(spec: optree.PyTreeSpec, tree: Any, other: Any, is_leaf: IsLeaf | None) -> list[Any]:
    """What stands in `other` at the leaves of `tree`, whose structure is `spec`."""
    leaves, other_spec = _optree_flatten(other, is_leaf, namespace=NAMESPACE)
    # Same structure, the common case; with is_leaf a leaf of `other` may lie deeper than that of `tree`.
    if is_leaf is None and other_spec == spec:
        return leaves
    try:
        return PyTreeDef(spec).flatten_up_to(other)
    except ValueError:
        if errors := prefix_errors(tree, other, is_leaf):
            raise errors[0]("tree_map tree") from None
        raise


_MISSING: Any = object()


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """Folds the leaves from the left.

    >>> tree_reduce(lambda x, y: x + y, [1, (2, 3)])
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    return (
        functools.reduce(function, leaves)
        if initializer is _MISSING
        else functools.reduce(function, leaves, initializer)
    )


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """Folds the leaves as a balanced tree: the operation is applied in about log2(n) levels.

    Raises:
        TypeError: there are no leaves and no identity.

    >>> tree_reduce_associative(lambda x, y: f"({x}{y})", list("abcd"))
    '((ab)(cd))'
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _MISSING:
            raise TypeError("Must specify identity for parallel reduction of empty sequence.")
        return identity

    def fold(sequence: list[Any]) -> Any:
        if len(sequence) == 1:
            return sequence[0]
        middle = len(sequence) // 2
        return operation(fold(sequence[:middle]), fold(sequence[middle:]))

    return fold(leaves)


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all([True, {"a": 1}, []])
    True
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turns a tree of trees inside out.

    Args:
        outer_treedef: the structure of the tree.
        inner_treedef: the structure of the trees at its leaves; None: that of the first.
        pytree_to_transpose: the tree.

    Returns:
        A tree of structure `inner_treedef` with trees of structure `outer_treedef`.

    Raises:
        TypeError: the tree has another number of leaves.

    >>> tree_transpose(tree_structure([0, 0]), tree_structure((0, 0, 0)), [(1, 2, 3), (4, 5, 6)])
    ([1, 4], [2, 5], [3, 6])
    """
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    leaves, treedef = tree_flatten(pytree_to_transpose)
    size = inner_treedef.num_leaves
    if len(leaves) != outer_treedef.num_leaves * size:
        raise TypeError(f"Mismatch\n{treedef}\n != \n{outer_treedef.compose(inner_treedef)}")
    return inner_treedef.unflatten([outer_treedef.unflatten(leaves[i::size]) for i in range(size)])


# Paths.


def _with_path(
    tree: Any, path: KeyPath, is_leaf: Callable[..., bool] | None, takes_path: bool
) -> Iterator[tuple[KeyPath, Any]]:
    if is_leaf is not None and (is_leaf(path, tree) if takes_path else is_leaf(tree)):
        yield path, tree
        return
    level = one_level(tree)
    if level is None:
        yield path, tree
        return
    for key, child in zip(level.keys, level.children):
        yield from _with_path(child, (*path, key), is_leaf, takes_path)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a pytree with their paths.

    Args:
        tree: the pytree.
        is_leaf: takes a node (after its path, if `is_leaf_takes_path`) and says whether it shall be a leaf.
        is_leaf_takes_path: whether is_leaf takes (path, node).

    >>> tree_leaves_with_path({"a": [5]})
    [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    return list(_with_path(tree, (), is_leaf, is_leaf_takes_path))


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Like `tree_flatten`, with (path, leaf) pairs. Arguments as in `tree_leaves_with_path`."""
    if is_leaf is None or not is_leaf_takes_path:
        return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)
    pairs = tree_leaves_with_path(tree, is_leaf, True)
    # optree tells is_leaf no path: give it the answers by identity, in the order of the walk.
    leaves = iter(pairs)
    pending = [next(leaves, (None, _MISSING))[1]]

    def stop(node: Any) -> bool:
        if node is not pending[0]:
            return False
        pending[0] = next(leaves, (None, _MISSING))[1]
        return True

    return pairs, tree_structure(tree, stop)


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, for a function that takes the leaf's path first.

    >>> tree_map_with_path(lambda path, x: (len(path), x), {"a": [5]})
    {'a': [(2, 5)]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    if is_leaf is not None and is_leaf_takes_path:
        others = [treedef.flatten_up_to(other) for other in rest]
    else:
        others = [_subtrees(treedef.spec, tree, other, is_leaf) for other in rest]
    return treedef.unflatten(map(f, paths, leaves, *others))


def generate_key_paths(tree: Any) -> Iterator[tuple[KeyPath, Any]]:
    """The (path, leaf) pairs of a pytree, lazily."""
    return _with_path(tree, (), None, False)


# Structures.


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether no element is a node.

    >>> all_leaves([1, "a"]), all_leaves([1, [2]])
    (True, False)
    """
    return all(not is_tree_node(type(element)) or (is_leaf is not None and is_leaf(element)) for element in iterable)


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of these structures."""
    return PyTreeDef(optree.treespec_tuple([treedef.spec for treedef in treedefs], namespace=NAMESPACE))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure has a single node: a leaf, None, an empty container."""
    return treedef.num_nodes == 1


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a leaf."""
    return treedef.is_leaf()


# Prefixes: one value for a whole subtree.


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of `prefix_tree`, each repeated for every leaf of the subtree of `full_tree` at its place.

    Args:
        prefix_tree: a pytree that `full_tree` begins with.
        full_tree: a pytree.
        is_leaf: takes a node of either and says whether it shall be a leaf.

    Raises:
        ValueError: `full_tree` does not begin with `prefix_tree`; the message names the first place.

    >>> broadcast_prefix([1, 2], ["a", ("b", "c")])
    [1, 2, 2]
    """
    return _broadcast_prefix(prefix_tree, full_tree, is_leaf, is_leaf)


def broadcast_optional(prefix_tree: Any, full_tree: Any) -> list[Any]:
    """As `broadcast_prefix`, where None is a leaf of the prefix, and in `full_tree` a node without leaves as ever.

    >>> broadcast_optional((None, 1), (None, "a")), broadcast_optional((None, 1), ("a", None))
    ([1], [None])
    """
    return _broadcast_prefix(prefix_tree, full_tree, lambda x: x is None, None)


def _broadcast_prefix(
    prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None, is_leaf_of_full: IsLeaf | None
) -> list[Any]:
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except ValueError:
        if errors := prefix_errors(prefix_tree, full_tree, is_leaf):
            raise errors[0]("broadcast_prefix prefix_tree") from None
        raise
    counts = [tree_structure(subtree, is_leaf_of_full).num_leaves for subtree in subtrees]
    return [leaf for leaf, count in zip(leaves, counts) for _ in range(count)]


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A tree of the structure of `full_tree` with the leaves of its prefix. Arguments as in `broadcast_prefix`.

    >>> tree_broadcast([1, 2], ["a", ("b", "c")])
    [1, (2, 2)]
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree, is_leaf).unflatten(leaves)


def _is_none(node: Any) -> bool:
    return node is None


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any, *, tupled_args: bool = False) -> list[Any]:
    """One axis for each leaf of `treedef`: the leaves of a prefix of it, of which None is one.

    Args:
        name: what to call `axis_tree` in messages: "vmap in_axes".
        treedef: the structure of the values.
        axis_tree: axes, a prefix of `treedef`.
        tupled_args: whether `treedef` is that of all positional arguments, as a tuple.

    Raises:
        ValueError: `axis_tree` is not a prefix; the message names each place that differs.
    """
    if one_level(axis_tree) is None or axis_tree is None:
        return [axis_tree] * treedef.num_leaves
    axes, axes_def = tree_flatten(axis_tree, _is_none)
    try:
        counts = _leaves_under(axes_def.spec, treedef.spec)
    except ValueError:
        raise _axes_error(name, treedef, axis_tree, tupled_args) from None
    return [axis for axis, count in zip(axes, counts) for _ in range(count)]


def _leaves_under(prefix: optree.PyTreeSpec, spec: optree.PyTreeSpec) -> list[int]:
    """How many leaves `spec` has at each leaf of its prefix; ValueError if it does not begin with the prefix.

    No tree is made for this: classes of the user's may refuse leaves that are no arrays.
    """
    if prefix.is_leaf():
        return [spec.num_leaves]
    same = prefix.type is spec.type and prefix.num_children == spec.num_children
    if not same or _metadata(prefix) != _metadata(spec):
        raise ValueError("not a prefix")
    return [n for pair in zip(prefix.children(), spec.children()) for n in _leaves_under(*pair)]


def _axes_error(name: str, treedef: PyTreeDef, axis_tree: Any, tupled_args: bool) -> ValueError:
    message = f"{name} specification must be a tree prefix of the corresponding value"
    if tupled_args:
        message += (
            ". Note that the specification must describe the tuple of all positional arguments: one entry for each of "
            f"them, or a single value for all. Got specification {axis_tree!r} for value tree {treedef}."
        )
    full = treedef.unflatten([AnyLeaf()] * treedef.num_leaves)
    errors = prefix_errors(axis_tree, full, _is_none)
    details = "\n".join(textwrap.indent(str(error(name)), "  ") for error in errors)
    return ValueError(f"{message}; \n  Mismatch details ({len(errors)} found):\n{details}" if errors else message)


class PyTreeRegistry:
    """The registry of node types, as an object. There is one."""

    def flatten(self, tree: Any, leaf_predicate: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
        """As `tree_flatten`."""
        return tree_flatten(tree, leaf_predicate)

    def flatten_one_level(self, tree: Any) -> tuple[Iterable[Any], Any] | None:
        """The children and the auxiliary data of a node; None for a leaf."""
        level = one_level(tree)
        return None if level is None else (level.children, level.metadata)

    def register_node(self, nodetype: type[Any], flatten_func: Any, unflatten_func: Any) -> None:
        """As `register_pytree_node`."""
        register_pytree_node(nodetype, flatten_func, unflatten_func)


default_registry = PyTreeRegistry()
