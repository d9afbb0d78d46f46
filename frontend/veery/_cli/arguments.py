"""Types of arguments as text: `f32[8,784], {w: f32[784,10], b: f32[]}, k=3`."""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from veery._api.shape_structs import ShapeDtypeStruct
from veery._cli.application import fail
from veery._core import dtypes
from veery._core.dimensions import SymbolicScope, parse_shape

_LETTERS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "c": "complex", "s": "int"}
_CONSTANTS = {"None": None, "True": True, "False": False, "true": True, "false": False}


class Arguments(NamedTuple):
    """Positional and keyword arguments; `static` are the positions of those that are no arrays."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    static: tuple[int, ...]


def dtype_of_name(name: str) -> Any:
    """The dtype of "f32", "float32", "bf16", "bool", "f8_e4m3fn", ...; None when there is no such dtype."""
    match = re.fullmatch(r"([a-z]+)(\d+)(_\w+)?", name)
    full = name
    if match and match[1] in _LETTERS:
        full = f"{_LETTERS[match[1]]}{match[2]}{match[3] or ''}"
    if name.startswith("key<"):
        return next((d for d in _key_dtypes() if str(d) == name), None)
    try:
        return np.dtype(getattr(dtypes, full, full)) if full != "float" else None
    except TypeError:
        return None


def _key_dtypes() -> list[Any]:
    from veery import random  # noqa: PLC0415
    from veery._api.inspection import typeof

    return [typeof(random.key(0)).dtype]


@functools.cache
def _grammar() -> Any:
    import lark

    text = importlib.resources.files("veery._cli").joinpath("arguments.lark").read_text()
    return lark.Lark(text, parser="lalr", start="arguments", maybe_placeholders=False)


class _Reader:
    """The values of a syntax tree, by a method for each rule of the grammar.

    Its own walk over the tree, since one of Lark's would wrap the errors that tell the user what is wrong.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.scope = SymbolicScope()

    def fail(self, problem: str, at: int) -> NoReturn:
        fail(f'--args: {problem} at column {at + 1} of "{self.text}"; write types such as f32[8,784] or {{w: f32[3]}}')

    def tree(self) -> Any:
        import lark

        try:
            return _grammar().parse(self.text)
        except lark.UnexpectedCharacters as error:
            at = error.pos_in_stream or 0
            self.fail(f"unexpected {self.text[at]!r}", at)
        except lark.UnexpectedToken as error:
            if error.token.type == "$END":
                self.fail(f"expected {_wanted(error.accepts)}", len(self.text))
            self.fail(f"expected {_wanted(error.accepts)}, got {str(error.token)!r}", error.token.start_pos)

    def read(self, tree: Any) -> Any:
        return getattr(self, f"read_{tree.data}")(*tree.children)

    def read_arguments(self, *arguments: Any) -> Arguments:
        keywords = dict(self.read(tree) for tree in arguments if tree.data == "keyword")
        args = tuple(self.read(tree) for tree in arguments if tree.data != "keyword")
        static = tuple(i for i, x in enumerate(args) if isinstance(x, str))
        return Arguments(args, keywords, static)

    def read_keyword(self, name: Any, value: Any) -> tuple[str, Any]:
        return str(name), self.read(value)

    def read_entry(self, key: Any, value: Any) -> tuple[str, Any]:
        return key.strip("'\""), self.read(value)

    def read_dict(self, *entries: Any) -> dict[str, Any]:
        return dict(self.read(entry) for entry in entries)

    def read_list(self, *items: Any) -> list[Any]:
        return [self.read(item) for item in items]

    def read_tuple(self, *items: Any) -> tuple[Any, ...]:
        return tuple(self.read(item) for item in items)

    def read_string(self, text: Any) -> str:
        return text[1:-1]

    def read_number(self, text: Any) -> Any:
        return float(text) if set(text) & set(".eE") else int(text)

    def read_type(self, name: Any, shape: Any = None) -> Any:
        if name in _CONSTANTS and shape is None:
            return _CONSTANTS[name]
        dtype = dtype_of_name(name)
        if dtype is None:
            self.fail(f"{str(name)!r} is no dtype", name.start_pos)
        return ShapeDtypeStruct(() if shape is None else self.read(shape), dtype)

    def read_shape(self, start: Any, *rest: Any) -> tuple[Any, ...]:
        try:
            shape = parse_shape(self.text[start.end_pos : rest[-1].start_pos], self.scope)
        except ValueError as error:
            self.fail(str(error), start.start_pos)
        if any(isinstance(size, int) and size < 0 for size in shape):
            self.fail(f"a dimension must not be negative, got {list(shape)}", start.start_pos)
        return shape


def _wanted(terminals: set[str]) -> str:
    """What may stand at a place, for people: all that can begin a value is "a type"."""
    if "CIRCUMFLEX" in terminals:
        return "]"
    values = {"NAME", "NUMBER", "STRING", "LBRACE", "LPAR", "OPEN"}
    found = ["a type"] if values <= terminals else ["a key"] if "STRING" in terminals else []
    marks = sorted(_grammar().get_terminal(name).pattern.value for name in terminals - values - {"$END"})
    return " or ".join(found + [repr(mark) for mark in marks])


def parse(text: str) -> Arguments:
    """The arguments that a text describes.

    Args:
        text: types separated by commas: `f32[8,784]`, `bf16[3]`, `i32` (a scalar), `f32[b,784]` (for any size b, see
            `veery.export.symbolic_shape`), containers `{w: f32[3]}`, `[f32[1], f32[2]]`, `(f32, i32)`, Python numbers,
            `None`, keyword arguments `k=f32`, and strings in quotes, which are static arguments.

    >>> parse("f32[8,784], {w: f32[784,10]}").args[1]["w"]
    ShapeDtypeStruct(shape=(784, 10), dtype=float32)
    """
    reader = _Reader(text)
    return reader.read(reader.tree())


def concrete(value: Any, seed: int = 0) -> Any:
    """Random arrays for types, for measurements: normal floats, small integers."""
    from veery._core import tree

    generator = np.random.default_rng(seed)

    def array(x: Any) -> Any:
        if not isinstance(x, ShapeDtypeStruct):
            return x
        if not all(isinstance(size, int) for size in x.shape):
            fail(f"the shape {x.shape} is symbolic; measure a program that is compiled for one shape")
        dtype = np.dtype(x.dtype)
        if dtype.kind == "b" or dtype.kind in "iu":
            return generator.integers(0, 2, x.shape).astype(dtype)
        return np.asarray(generator.standard_normal(x.shape)).astype(dtype)

    return tree.tree_map(array, value)
