"""Types of arguments as text: `f32[8,784], {w: f32[784,10], b: f32[]}, k=3`."""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

import numpy as np

from veery._api.shape_structs import ShapeDtypeStruct
from veery._cli.application import fail
from veery._core import dtypes
from veery._core.dimensions import SymbolicScope, parse_shape

_LETTERS = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint", "c": "complex", "s": "int"}
_TOKEN = re.compile(
    r"\s*(?:(?P<string>'[^']*'|\"[^\"]*\")|(?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?![\w]))"
    r"|(?P<word>[A-Za-z_][\w]*(?:<\w+>)?)|(?P<mark>[\[\](){},:=*+^-]))"
)
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


class Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scope = SymbolicScope()
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                self._fail(f"unexpected {text[at:].strip()[0]!r}", at)
            assert match is not None
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()
        self.at = 0

    def _fail(self, problem: str, at: int) -> None:
        fail(f'--args: {problem} at column {at + 1} of "{self.text}"; write types such as f32[8,784] or {{w: f32[3]}}')

    def peek(self, offset: int = 0) -> str:
        index = self.at + offset
        return self.tokens[index][1] if index < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> tuple[str, str, int]:
        if self.at >= len(self.tokens):
            self._fail(f"expected {wanted or 'a type'}", len(self.text))
        token = self.tokens[self.at]
        if wanted is not None and token[1] != wanted:
            self._fail(f"expected {wanted!r}, got {token[1]!r}", token[2])
        self.at += 1
        return token

    def arguments(self) -> Arguments:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while self.at < len(self.tokens):
            if self.peek(1) == "=":
                name = self.take()[1]
                self.take("=")
                kwargs[name] = self.value()
            else:
                args.append(self.value())
            if self.at < len(self.tokens):
                self.take(",")
        static = tuple(i for i, x in enumerate(args) if isinstance(x, str))
        return Arguments(tuple(args), kwargs, static)

    def value(self) -> Any:
        kind, text, at = self.take()
        if text == "{":
            return self._dict()
        if text in ("[", "("):
            items = self._items({"[": "]", "(": ")"}[text])
            return items if text == "[" else tuple(items)
        if kind == "string":
            return text[1:-1]
        if kind == "number":
            return ast.literal_eval(text)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        dtype = dtype_of_name(text) if kind == "word" else None
        if dtype is None:
            self._fail(f"{text!r} is no dtype", at)
        return ShapeDtypeStruct(self._shape(), dtype)

    def _shape(self) -> tuple[Any, ...]:
        if self.peek() != "[":
            return ()
        _, _, start = self.take("[")
        while self.take("]" if self.at >= len(self.tokens) else None)[1] != "]":
            pass
        try:
            shape = parse_shape(self.text[start + 1 : self.tokens[self.at - 1][2]], self.scope)
        except ValueError as error:
            self._fail(str(error), start)
        if any(isinstance(size, int) and size < 0 for size in shape):
            self._fail(f"a dimension must not be negative, got {list(shape)}", start)
        return shape

    def _items(self, end: str) -> list[Any]:
        items = []
        while self.peek() != end:
            items.append(self.value())
            if self.peek() != end:
                self.take(",")
        self.take(end)
        return items

    def _dict(self) -> dict[str, Any]:
        found = {}
        while self.peek() != "}":
            kind, key, at = self.take()
            if kind not in ("word", "string", "number"):
                self._fail(f"expected a key, got {key!r}", at)
            self.take(":")
            found[key.strip("'\"")] = self.value()
            if self.peek() != "}":
                self.take(",")
        self.take("}")
        return found


def parse(text: str) -> Arguments:
    """The arguments that a text describes.

    Args:
        text: types separated by commas: `f32[8,784]`, `bf16[3]`, `i32` (a scalar), `f32[b,784]` (for any size b, see
            `veery.export.symbolic_shape`), containers `{w: f32[3]}`, `[f32[1], f32[2]]`, `(f32, i32)`, Python numbers,
            `None`, keyword arguments `k=f32`, and strings in quotes, which are static arguments.

    >>> parse("f32[8,784], {w: f32[784,10]}").args[1]["w"]
    ShapeDtypeStruct(shape=(784, 10), dtype=float32)
    """
    return Parser(text).arguments()


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
