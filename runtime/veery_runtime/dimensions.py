"""Shapes with dimension variables: what their values are for the arrays of a call, and which arrays fit.

A size is an int or a text such as "2*b" or "floordiv(b, 2) + 1".
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Shape = tuple[Any, ...]

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Eq: operator.eq, ast.GtE: operator.ge,
    ast.LtE: operator.le,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min,
}  # fmt: skip


class Symbols(NamedTuple):
    """The dimension variables of a program.

    Attributes:
      sources: (name, argument, axis, factor, offset) of each: it is (size of the argument's axis - offset) / factor.
      constraints: what holds of them, as text.
    """

    sources: tuple[tuple[str, int, int, int, Any], ...] = ()
    constraints: tuple[str, ...] = ()


def symbols_from_json(data: Any) -> Symbols:
    """Symbols from the lists that JSON makes of them."""
    sources, constraints = data
    return Symbols(tuple(tuple(source) for source in sources), tuple(constraints))


def evaluate(size: int | str, values: Mapping[str, int]) -> int:
    """The value of a size, or of a constraint, for values of the variables."""
    return size if isinstance(size, int) else _evaluate(_parsed(size), values)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> Any:
    return ast.parse(text.replace("^", "**"), mode="eval").body


def _evaluate(node: Any, values: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_evaluate(node.operand, values)
    if isinstance(node, ast.BinOp):
        result: int = _OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
        return result
    if isinstance(node, ast.Compare):
        holds: bool = _OPERATORS[type(node.ops[0])](
            _evaluate(node.left, values), _evaluate(node.comparators[0], values)
        )
        return holds
    return _FUNCTIONS[node.func.id](*(_evaluate(argument, values) for argument in node.args))


def may_fit(shape: Sequence[int], expected: Shape) -> bool:
    """Whether a shape has the rank and the ints of an expected one."""
    return len(shape) == len(expected) and all(isinstance(n, str) or m == n for m, n in zip(shape, expected))


def solve(
    symbols: Symbols, expected: Sequence[Shape], shapes: Sequence[Sequence[int]], names: Sequence[str]
) -> dict[str, int]:
    """The values of the variables for arguments of these shapes.

    Args:
      symbols: the variables.
      expected: the arguments' shapes as the program has them.
      shapes: those of a call; they `may_fit`.
      names: of the arguments, for messages.

    Raises:
      ValueError: no values make the shapes what is expected, or a constraint does not hold.
    """
    values: dict[str, int] = {}
    for variable, argument, axis, factor, offset in symbols.sources:
        size = shapes[argument][axis]
        value, rest = divmod(size - evaluate(offset, values), factor)
        if rest or value < 1:
            raise ValueError(
                f"dimension {axis} of {names[argument]} is {size}, which is {expected[argument][axis]!r} for no "
                f"integer {variable} >= 1"
            )
        values[variable] = value
    found = ", ".join(f"{name} = {value}" for name, value in values.items())
    for name, wanted, given in zip(names, expected, shapes):
        for axis, (dimension, size) in enumerate(zip(wanted, given)):
            if evaluate(dimension, values) != size:
                raise ValueError(
                    f"dimension {axis} of {name} must be {dimension!r} = {evaluate(dimension, values)} with {found}, "
                    f"got {size}"
                )
    for text in symbols.constraints:
        if not evaluate(text, values):
            raise ValueError(f"the shapes of the arguments must fulfil {text}, got {found}")
    return values
