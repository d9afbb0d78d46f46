"""Functions, made for one structure of arguments, that take the leaves out of them.

optree needs 0.3 us for each leaf to find out a structure. A call most often has the structure of the call before: code
that takes this structure for granted, and says when it is wrong, needs 0.1 us for each leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from veery._core.tree_registry import is_namedtuple_type

# (args, kwargs) -> leaves, static values with their types
Unpack = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[Any], tuple[Any, ...]]]

STATIC = object()

# What an unpacking function raises for arguments of another structure.
MISMATCH = (KeyError, TypeError, ValueError)

# Python takes 20 us to compile the code for a leaf.
_MOST_LEAVES = 4096


def unpacker(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Unpack | None:
    """A function from arguments of one structure to their leaves.

    Args:
        args: for each positional argument its structure (a PyTreeDef), or STATIC.
        kwargs: the same for each keyword argument, in the order of their leaves.

    Returns:
        A function of `args` and `kwargs`, which gives the leaves and a tuple with the type and the value of each static
        argument, and raises one of MISMATCH where the structure is another one. A container in the place of a leaf is
        not noticed: it is given as the leaf. None for structures with nodes of types that a user has registered.
    """
    writer = _Writer()
    try:
        writer.argument_list("args", args, kwargs)
    except _NoCode:
        return None
    lines = [*writer.lines, f"return [{', '.join(writer.leaves)}], ({''.join(f'{s}, ' for s in writer.static)})"]
    code = "\n    ".join(["def unpack(args, kwargs):", *lines])
    exec(code, writer.names)
    return writer.names["unpack"]


class _NoCode(Exception):
    """A structure that is left to optree."""


class _Writer:
    """The body of an unpacking function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.static: list[str] = []
        self.names: dict[str, Any] = {}
        self.variables = 0

    def argument_list(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.check(f"len(kwargs) != {len(kwargs)}")
        found = [self.variable() for _ in args]
        self.lines.append(f"({''.join(f'{each}, ' for each in found)}) = {name}")
        for key in kwargs:
            found.append(self.variable())
            self.lines.append(f"{found[-1]} = kwargs[{key!r}]")
        for variable, treedef in zip(found, [*args, *kwargs.values()]):
            if treedef is STATIC:
                self.static += [f"type({variable})", variable]
            else:
                self.node(variable, treedef)

    def node(self, variable: str, treedef: Any) -> None:
        data = treedef.node_data()
        if data is None:
            self.leaves.append(variable)
            if len(self.leaves) > _MOST_LEAVES:
                raise _NoCode
            return
        kind, keys = data
        children = treedef.children()
        found = [self.variable() for _ in children]
        if kind is type(None):
            self.check(f"{variable} is not None")
        elif kind in (tuple, list) or is_namedtuple_type(kind):
            self.check(f"type({variable}) is not {self.constant(kind)}")
            self.lines.append(f"({''.join(f'{each}, ' for each in found)}) = {variable}")
        elif kind is dict:
            self.check(f"type({variable}) is not dict or len({variable}) != {len(keys)}")
            self.lines += [f"{each} = {variable}[{self.constant(key)}]" for each, key in zip(found, keys)]
        else:
            raise _NoCode
        for each, child in zip(found, children):
            self.node(each, child)

    def check(self, condition: str) -> None:
        self.lines.append(f"if {condition}: raise KeyError")

    def variable(self) -> str:
        self.variables += 1
        return f"v{self.variables}"

    def constant(self, value: Any) -> str:
        if type(value) in (str, int):
            return repr(value)
        if isinstance(value, type) and value in (tuple, list):
            return value.__name__
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name
