"""Structures of pytrees as plain data and back: for files, and with registered types for exported functions."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from veery import _dispatch
from veery._core import tree
from veery._core.tree_registry import is_namedtuple_type, one_level, unflatten_function

T = TypeVar("T")


class _Registration(NamedTuple):
    name: str
    nodetype: type
    serialize_auxdata: Callable[[Any], bytes]
    deserialize_auxdata: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Registration] = {}
_by_name: dict[str, _Registration] = {}
_ADVICE = "Use `export.register_pytree_node_serialization` or `export.register_namedtuple_serialization`."


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Let exported functions take and return nodes of a type after they were serialised.

    Args:
        nodetype: a type that `tree_util.register_pytree_node` made a node.
        serialized_name: stands for the type in the serialised function, and finds it when that is read.
        serialize_auxdata: makes bytes of a node's auxiliary data.
        deserialize_auxdata: makes auxiliary data of bytes.
        from_children: makes a node of (auxiliary data, children), by default as the type was registered to.

    Returns:
        The type, so that this may decorate it.

    Raises:
        ValueError: the type or the name is registered already, or the type is no node.

    >>> import veery
    >>> from veery import export
    >>> class Scaled:
    ...     def __init__(self, x, unit):
    ...         self.x, self.unit = x, unit
    >>> veery.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(xs[0], unit))
    >>> _ = export.register_pytree_node_serialization(
    ...     Scaled, serialized_name="example.Scaled", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode)
    >>> halve = export.export(veery.jit(lambda s: Scaled(s.x / 2, s.unit)))(Scaled(1.0, "m"))
    >>> export.deserialize(halve.serialize()).call(Scaled(3.0, "m")).x
    Array(1.5, dtype=float32)
    """
    build = from_children or unflatten_function(nodetype)
    if build is None:
        raise ValueError(
            f"If `from_children` is not present, you must call first `tree_util.register_pytree_node` for `{nodetype}`"
        )
    return _register(_Registration(serialized_name, nodetype, serialize_auxdata, deserialize_auxdata, build))


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Let exported functions that take or return a named tuple be serialised.

    Args:
        nodetype: the named tuple's type; its fields must be the same when the function is read.
        serialized_name: stands for the type in the serialised function, and finds it when that is read.

    Returns:
        The type, so that this may decorate it.

    Raises:
        ValueError: it is no named tuple, or the type or the name is registered already.

    >>> import collections, veery
    >>> from veery import export
    >>> Point = export.register_namedtuple_serialization(
    ...     collections.namedtuple("Point", "x y"), serialized_name="example.Point")
    >>> swap = export.export(veery.jit(lambda p: Point(p.y, p.x)))(Point(1.0, 2.0))
    >>> export.deserialize(swap.serialize()).call(Point(3.0, 4.0))
    Point(x=Array(4., dtype=float32), y=Array(3., dtype=float32))
    """
    if not is_namedtuple_type(nodetype):
        raise ValueError(
            "Use `export.register_pytree_node_serialization` for types other than `collections.namedtuple`."
        )
    fields: Any = nodetype._fields  # type: ignore[attr-defined]

    def build(names: tuple[str, ...], children: Sequence[Any]) -> Any:
        if names != fields:
            raise ValueError(
                f"the named tuple {serialized_name!r} was serialized with the fields {names}, "
                f"{nodetype.__name__} has {fields}"
            )
        return nodetype(*children)

    encode, decode = (lambda _: ",".join(fields).encode()), (lambda data: tuple(filter(None, data.decode().split(","))))
    return _register(_Registration(serialized_name, nodetype, encode, decode, build))


def _register(new: _Registration) -> Any:
    if new.nodetype in _by_type:
        raise ValueError(
            f"Duplicate serialization registration for type `{new.nodetype}`. Previous registration was with "
            f"serialized_name `{_by_type[new.nodetype].name}`."
        )
    if new.name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name `{new.name}`. Previous registration was for "
            f"type `{_by_name[new.name].nodetype}`."
        )
    _by_type[new.nodetype] = _by_name[new.name] = new
    return new.nodetype


def describe(treedef: Any) -> Any:
    """A tree's structure as JSON: dictionaries, lists, tuples, named tuples and None, with the leaves' numbers.

    Raises:
        ValueError: the tree holds a container of another type.

    >>> from veery import tree
    >>> describe(tree.structure({"w": 1.0, "b": [2.0]}))
    {'dict': [['b', {'list': [0]}], ['w', 1]]}
    """
    return _describe(_numbered(treedef), _refused_in_files)


def describe_with_types(treedef: Any) -> Any:
    """A tree's structure as JSON, with containers of types that are registered for serialisation.

    Raises:
        ValueError: the tree holds a container of another type.
    """
    return _describe(_numbered(treedef), _registered)


def _numbered(treedef: Any) -> Any:
    return tree.tree_unflatten(treedef, list(range(treedef.num_leaves)))


def _describe(node: Any, other: Callable[[Any], Any]) -> Any:
    """The structure of a node; `other` describes what is no built-in container."""
    kind = type(node)
    if node is None or kind is int:
        return node
    if isinstance(node, dict):
        for key in node:
            if not isinstance(key, (str, int, float, bool)):
                raise ValueError(f"an artifact cannot describe the dictionary key {key!r}; use strings")
        items = sorted(node.items(), key=lambda item: str(item[0]))
        return {"dict": [[key, _describe(value, other)] for key, value in items]}
    if kind in (tuple, list):
        return {kind.__name__: [_describe(child, other) for child in node]}
    if is_namedtuple_type(kind) and other is _refused_in_files:
        fields = [[name, _describe(getattr(node, name), other)] for name in kind._fields]
        return {"namedtuple": kind.__name__, "fields": fields}
    return other(node)


def _refused_in_files(node: Any) -> Any:
    raise ValueError(
        f"an artifact cannot describe the container {type(node).__qualname__}; pass and return dicts, lists, tuples or "
        "named tuples instead"
    )


def _registered(node: Any) -> Any:
    entry = _by_type.get(type(node))
    level = one_level(node)
    if entry is None or level is None:
        raise ValueError(f"Cannot serialize PyTreeDef containing an unregistered type `{type(node)}`. {_ADVICE}")
    data = entry.serialize_auxdata(level.metadata)
    if not isinstance(data, bytes):
        raise ValueError(
            f"The custom serialization function for `{entry.nodetype}` must return a `bytes` object. It returned a "
            f"{type(data)}."
        )
    children = [_describe(child, _registered) for child in level.children]
    return {"registered": entry.name, "data": base64.b64encode(data).decode(), "children": children}


def tree_of(description: Any) -> Any:
    """The tree of a structure that was described; named tuples in files are types of their own.

    Raises:
        ValueError: a container's type is not registered.
    """
    return tree.tree_structure(_built(description))


def _built(node: Any) -> Any:
    """Containers of a structure around zeros."""
    if node is None or isinstance(node, int):
        return None if node is None else 0
    if "dict" in node:
        return {key: _built(value) for key, value in node["dict"]}
    if "namedtuple" in node:
        make = _dispatch.runtime().structure.named_tuple(node["namedtuple"], tuple(name for name, _ in node["fields"]))
        return make(*[_built(child) for _, child in node["fields"]])
    if "registered" in node:
        entry = _by_name.get(node["registered"])
        if entry is None:
            raise ValueError(
                f"Cannot deserialize a PyTreeDef containing an unregistered type `{node['registered']}`. {_ADVICE}"
            )
        children = [_built(child) for child in node["children"]]
        return entry.from_children(entry.deserialize_auxdata(base64.b64decode(node["data"])), children)
    return [_built(child) for child in node["list"]] if "list" in node else tuple(map(_built, node["tuple"]))
