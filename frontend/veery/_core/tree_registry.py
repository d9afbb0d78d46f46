"""Which types are nodes of pytrees: the built-in ones, and those that programs register.

Flattening itself happens in optree's C++; what is here serves registration, paths and error messages, one level at
a time.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from veery._core.optree_door import optree

T = TypeVar("T")

NAMESPACE = "veery"


# Keys of paths.


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """The key of an element of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """The key of a value of a dictionary."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """The key of a child that is an attribute: of a namedtuple, a dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """The key of a child of a type that was registered without keys: its place among the children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = Any
KeyPath = tuple[KeyEntry, ...]


def _simple(entry: KeyEntry) -> str:
    for attribute in ("key", "idx", "name"):
        if isinstance(entry, (SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey)) and hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    Args:
        keys: the path, as in `tree_flatten_with_path`.
        simple: only what identifies each child, without brackets and dots.
        separator: what to put between the entries.

    >>> keystr((DictKey("a"), SequenceKey(0), GetAttrKey("x")))
    "['a'][0].x"
    >>> keystr((DictKey("a"), SequenceKey(0), GetAttrKey("x")), simple=True, separator="/")
    'a/0/x'
    """
    return separator.join(map(_simple if simple else str, keys))


# Registration.


class _Entry(NamedTuple):
    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None
    unflatten: Callable[[Any, Iterable[Any]], Any]


_entries: dict[type, _Entry] = {}


def _check_new(nodetype: type, kind: str) -> None:
    if nodetype in _entries or nodetype in (type(None), tuple, list, dict):
        raise ValueError(f"Duplicate custom {kind} type registration for {nodetype}.")


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Makes a type a node of pytrees.

    Args:
        nodetype: the type; its subclasses stay leaves.
        flatten_func: gives (children, auxiliary data); the data must be hashable and comparable.
        unflatten_func: makes an object of (auxiliary data, children). The children may be any objects.
        flatten_with_keys_func: like flatten_func, with (key, child) pairs.

    Raises:
        ValueError: the type is registered already.
    """
    _check_new(nodetype, "PyTreeDef")
    with warnings.catch_warnings():  # of named tuples, which may be nodes of their own
        warnings.simplefilter("ignore", UserWarning)
        optree.register_pytree_node(nodetype, flatten_func, unflatten_func, namespace=NAMESPACE)  # type: ignore[arg-type]
    _entries[nodetype] = _Entry(flatten_func, flatten_with_keys_func, unflatten_func)


def unflatten_function(nodetype: type) -> Callable[[Any, Iterable[Any]], Any] | None:
    """What makes an object of a registered type from auxiliary data and children; None for other types."""
    entry = _entries.get(nodetype)
    return None if entry is None else entry.unflatten


def register_pytree_node_class(cls: type[T]) -> type[T]:
    """Class decorator: a pytree node by its methods `tree_flatten(self)` and `tree_unflatten(cls, aux, children)`."""
    register_pytree_node(cls, lambda node: node.tree_flatten(), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Makes a type a node of pytrees whose children have keys.

    Args:
        nodetype: the type.
        flatten_with_keys: gives ((key, child) pairs, auxiliary data).
        unflatten_func: makes an object of (auxiliary data, children).
        flatten_func: gives (children, auxiliary data) faster.
    """

    def flatten(node: T) -> tuple[list[Any], Any]:
        pairs, aux = flatten_with_keys(node)
        return [child for _, child in pairs], aux

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: type[T]) -> type[T]:
    """Class decorator: a pytree node by its methods `tree_flatten_with_keys` and `tree_unflatten`."""
    register_pytree_with_keys(
        cls,
        lambda node: node.tree_flatten_with_keys(),  # type: ignore[attr-defined]
        cls.tree_unflatten,  # type: ignore[attr-defined]
        getattr(cls, "tree_flatten", None),
    )
    return cls


def _dataclass_fields(
    nodetype: type, data_fields: Sequence[str] | None, meta_fields: Sequence[str] | None, drop_fields: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the fields that are children, and of those that are auxiliary data."""
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is specified. "
            f"Got {data_fields=} {meta_fields=}."
        )
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass. "
                f"Got {nodetype=}."
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    if overlap := {*data_fields} & {*meta_fields}:
        raise ValueError(f"data_fields and meta_fields must not overlap. Overlapping fields: {overlap}.")
    if is_dataclass:
        expected = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        given = {*data_fields, *meta_fields}
        if given != expected:
            message = "data_fields and meta_fields must include all dataclass fields with ``init=True`` and only them."
            if missing := expected - given:
                message += f" Missing fields: {missing}. Add them to drop_fields to suppress this error."
            if unexpected := given - expected:
                message += f" Unexpected fields: {unexpected}."
            raise ValueError(message)
    return tuple(data_fields), tuple(meta_fields)


def register_dataclass(
    nodetype: type[T],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type[T]:
    """Makes a dataclass (or a class like one) a node of pytrees. Also a decorator.

    Args:
        nodetype: the class; it is made anew by its constructor with keyword arguments.
        data_fields: names of the fields that are children. By default those that are not static.
        meta_fields: names of the static fields: hashable and comparable. By default those declared with
            `field(metadata={"static": True})` or `veery.tree.static()`.
        drop_fields: names of fields that are left to their defaults.

    Raises:
        TypeError: only one of data_fields and meta_fields is given, or none and the class is not a dataclass.
        ValueError: the fields are not those of the dataclass, one is both, or the class is registered already.
    """
    data, meta = _dataclass_fields(nodetype, data_fields, meta_fields, drop_fields)
    _check_new(nodetype, "dataclass PyTreeDef")

    def flatten(node: T) -> tuple[tuple[Any, ...], Any]:
        return tuple([getattr(node, name) for name in data]), tuple([getattr(node, name) for name in meta])

    def flatten_with_keys(node: T) -> tuple[tuple[Any, ...], Any]:
        children, aux = flatten(node)
        return tuple(zip(map(GetAttrKey, data), children)), aux

    def unflatten(aux: Any, children: Iterable[Any]) -> T:
        return nodetype(**dict(zip(meta, aux)), **dict(zip(data, children)))

    register_pytree_node(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def static(**kwargs: Any) -> Any:
    """A static field of a dataclass that `register_dataclass` makes a pytree: `op: str = veery.tree.static()`.

    Args:
        **kwargs: those of `dataclasses.field`.
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_static(cls: type[T]) -> type[T]:
    """Class decorator: objects of the class are nodes without children, part of the structure.

    The class must be hashable and comparable; a function is traced anew for an object that differs.
    """
    register_pytree_with_keys(cls, lambda node: ((), node), lambda node, _: node, lambda node: ((), node))
    return cls


# Partial application.


class _Opaque:
    """A partial object as the function of a Partial, kept whole: its own arguments stay static."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return self.fun == other.fun if isinstance(other, _Opaque) else self.fun == other

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial[Any]):
    """`functools.partial` as a pytree: its arguments are children, its function is static.

    >>> import operator
    >>> Partial(operator.add, 1)(2)
    3
    """

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        # functools.partial would merge an inner partial and so turn its static arguments into children.
        return super().__new__(cls, _Opaque(func) if isinstance(func, functools.partial) else func, *args, **kw)


def _unflatten_partial(func: Callable[..., Any], children: Iterable[Any]) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_pytree_node(Partial, lambda partial: ((partial.args, partial.keywords), partial.func), _unflatten_partial)


# One level of a tree.


class Level(NamedTuple):
    """A node's children, their keys, and what two nodes of the type must agree in."""

    children: Sequence[Any]
    keys: Sequence[KeyEntry]
    metadata: Any


def is_namedtuple_type(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def sorted_keys(mapping: dict[Any, Any]) -> list[Any]:
    """The keys of a dictionary in the order of its children."""
    try:
        return sorted(mapping)
    except TypeError as error:
        raise ValueError(
            f"Comparator raised exception while sorting pytree dictionary keys: {error}. "
            f"The keys of a dictionary must be comparable with each other; got {list(mapping)}."
        ) from None


def is_tree_node(typ: type) -> bool:
    """Whether objects of exactly this type are nodes of pytrees."""
    builtin = (type(None), tuple, list, dict, collections.OrderedDict, collections.defaultdict)
    return typ in builtin or typ in _entries or is_namedtuple_type(typ)


class NodeType(NamedTuple):
    """How a node of a type is taken apart, to (children, auxiliary data), and made, of (auxiliary data, children)."""

    to_iter: Callable[[Any], tuple[Iterable[Any], Any]]
    from_iter: Callable[[Any, Iterable[Any]], Any]


class NodeTypes:
    """The types that are registered as nodes, to be asked with `in`; named tuples are nodes without that."""

    def __contains__(self, typ: object) -> bool:
        return isinstance(typ, type) and is_tree_node(typ) and not (is_namedtuple_type(typ) and typ not in _entries)

    def __getitem__(self, typ: type) -> NodeType:
        """Raises KeyError where it is not registered."""
        if typ not in self:
            raise KeyError(typ)
        registered = optree.register_pytree_node.get(typ, namespace=NAMESPACE)
        assert registered is not None
        return NodeType(flatten_one_level, registered.unflatten_func)


node_types = NodeTypes()


def _dictionary(node: Any) -> Level:
    keys = list(node) if type(node) is collections.OrderedDict else sorted_keys(node)
    children, entries = [node[key] for key in keys], [DictKey(key) for key in keys]
    if type(node) is collections.defaultdict:
        return Level(children, entries, (node.default_factory, tuple(keys)))
    return Level(children, entries, tuple(keys))


def one_level(node: Any) -> Level | None:
    """A node taken apart once; None for a leaf."""
    kind = type(node)
    if node is None:
        return Level((), (), None)
    if kind in (tuple, list):
        return Level(node, [SequenceKey(i) for i in range(len(node))], None)
    if kind in (dict, collections.OrderedDict, collections.defaultdict):
        return _dictionary(node)
    if (entry := _entries.get(kind)) is not None:
        if entry.flatten_with_keys is not None:
            pairs, aux = entry.flatten_with_keys(node)
            pairs = list(pairs)
            return Level([child for _, child in pairs], [key for key, _ in pairs], aux)
        children, aux = entry.flatten(node)
        children = list(children)
        return Level(children, [FlattenedIndexKey(i) for i in range(len(children))], aux)
    if is_namedtuple_type(kind):
        return Level(list(node), [GetAttrKey(name) for name in kind._fields], kind)
    return None


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children and the auxiliary data of the node `tree`; ValueError for a leaf."""
    level = one_level(tree)
    if level is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return level.children if isinstance(tree, list) else tuple(level.children), level.metadata


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[KeyEntry, Any]], Any]:
    """The (key, child) pairs and the auxiliary data of the node `tree`; ValueError for a leaf."""
    level = one_level(tree)
    if level is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    return tuple(zip(level.keys, level.children)), level.metadata
