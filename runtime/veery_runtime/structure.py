"""Nested containers as plain data, so that programs take and return them where no pytree library is installed.

A structure is JSON: a number is the leaf with that index, null is None, and containers are
`{"tuple": [...]}`, `{"list": [...]}`, `{"dict": [[key, ...], ...]}` and
`{"namedtuple": name, "fields": [[field, ...], ...]}`.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

Structure = Any


def from_json(data: Any) -> Structure:
    """Checks what came from a file; raises ValueError when it is no structure."""
    children(data)
    return data


def children(node: Structure) -> list[tuple[str, Structure]]:
    """The parts of a container, each with its path such as "[0]" or "['w']"."""
    if node is None or isinstance(node, int):
        return []
    if "tuple" in node or "list" in node:
        return [(f"[{i}]", part) for i, part in enumerate(node.get("tuple", node.get("list")))]
    if "dict" in node:
        return [(f"[{key!r}]", part) for key, part in node["dict"]]
    if "namedtuple" in node:
        return [(f".{name}", part) for name, part in node["fields"]]
    raise ValueError(f"not a structure of containers: {node!r}")


def collect(node: Structure, value: Any, leaves: list[Any]) -> None:
    """Puts the leaves of `value` into `leaves`; any exception means that `flatten` tells what is wrong with it."""
    if isinstance(node, int):
        leaves[node] = value
    elif node is None:
        if value is not None:
            raise TypeError
    elif "dict" in node:
        if len(value) != len(node["dict"]):
            raise TypeError
        for key, child in node["dict"]:
            collect(child, value[key], leaves)
    else:
        parts = _parts(node)
        if not isinstance(value, (tuple, list)) or len(value) != len(parts):
            raise TypeError
        for child, part in zip(parts, value):
            collect(child, part, leaves)


def _parts(node: Structure) -> list[Structure]:
    if "namedtuple" in node:
        return [child for _, child in node["fields"]]
    result: list[Any] = node["tuple"] if "tuple" in node else node["list"]
    return result


def flatten(node: Structure, value: Any, path: str, leaves: list[Any]) -> None:
    """Puts the leaves of `value` into `leaves`; TypeError names the first place where it has another form."""
    if isinstance(node, int):
        leaves[node] = value
        return
    if node is None:
        if value is not None:
            raise TypeError(f"{path} must be None, got {_kind(value)}")
        return
    parts = _dict_parts(node, value, path) if "dict" in node else _sequence_parts(node, value, path)
    for (suffix, child), part in zip(children(node), parts):
        flatten(child, part, path + suffix, leaves)


def _dict_parts(node: Structure, value: Any, path: str) -> list[Any]:
    keys = [key for key, _ in node["dict"]]
    if not isinstance(value, dict):
        raise TypeError(f"{path} must be a dict with the keys {_listed(keys)}, got {_kind(value)}")
    missing = [key for key in keys if key not in value]
    extra = [key for key in value if key not in keys]
    if missing or extra:
        said = [f"{name} {_listed(ks)}" for name, ks in (("without", missing), ("with the unknown", extra)) if ks]
        raise TypeError(f"{path} must be a dict with the keys {_listed(keys)}, got one {' and '.join(said)}")
    return [value[key] for key in keys]


def _sequence_parts(node: Structure, value: Any, path: str) -> Sequence[Any]:
    count = len(children(node))
    # A list for a tuple and the other way round: data often come from JSON.
    if not isinstance(value, (tuple, list)):
        kind = node.get("namedtuple") or ("tuple" if "tuple" in node else "list")
        raise TypeError(f"{path} must be a {kind} of {count}, got {_kind(value)}")
    if len(value) != count:
        raise TypeError(f"{path} must have {count} elements, got {len(value)}")
    return value


def unflatten(node: Structure, leaves: Sequence[Any]) -> Any:
    """The containers of a structure around these leaves."""
    return builder(node)(leaves)


def builder(node: Structure) -> Callable[[Sequence[Any]], Any]:
    """A function that puts leaves into the containers of a structure."""
    if node is None:
        return lambda leaves: None
    if isinstance(node, int):
        return lambda leaves: leaves[node]
    parts = [builder(child) for _, child in children(node)]
    if "dict" in node:
        keys = [key for key, _ in node["dict"]]
        return lambda leaves: {key: part(leaves) for key, part in zip(keys, parts)}
    if "namedtuple" in node:
        make = named_tuple(node["namedtuple"], tuple(name for name, _ in node["fields"]))
        return lambda leaves: make(*[part(leaves) for part in parts])
    if "list" in node:
        return lambda leaves: [part(leaves) for part in parts]
    return lambda leaves: tuple([part(leaves) for part in parts])


@functools.cache
def named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """A named tuple type that stands for the one that the function used."""
    return collections.namedtuple(name, fields)


def render(node: Structure, leaf: Callable[[int], str]) -> str:
    """A structure as text like `{w: f32[784,10], b: f32[10]}`."""
    if node is None or isinstance(node, int):
        return "None" if node is None else leaf(node)
    parts = [render(child, leaf) for _, child in children(node)]
    if "tuple" in node:
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if "list" in node:
        return f"[{', '.join(parts)}]"
    keys = [key for key, _ in node.get("dict", node.get("fields"))]
    inside = ", ".join(f"{key}: {part}" for key, part in zip(keys, parts))
    return f"{node['namedtuple']}({inside})" if "namedtuple" in node else f"{{{inside}}}"


def name_leaves(node: Structure, path: str, names: list[str]) -> None:
    """Puts the path of each leaf into `names`."""
    if isinstance(node, int):
        names[node] = path
    for suffix, child in children(node):
        name_leaves(child, path + suffix, names)


def _listed(keys: Sequence[Any]) -> str:
    return ", ".join(map(repr, keys)) or "(none)"


def _kind(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return f"an array {dtype}{list(shape)}" if shape is not None and dtype is not None else type(value).__name__
