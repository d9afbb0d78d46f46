"""Elementwise operations on complex numbers as operations on their real and imaginary parts.

IREE 3.13 computes complex numbers one by one. Kernels read and write them as pairs of real ones, which are shuffled in
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._forms import Form, Lazy
from veery_lowering.mlir import base_name

Halves = tuple[Form, ...]  # a complex value's two, or a real one


def is_complex(value: Any) -> bool:
    """Whether a value has complex elements."""
    return hlo.dtype_of(value).kind == "c"


def real_of(dtype: np.dtype) -> np.dtype[Any]:
    """The dtype of a half of a complex number; of a real one its own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def in_halves(op: Any, operands: Sequence[Halves]) -> Halves:
    """The halves of an operation's result, which may be real.

    Raises:
        Unfit: it is an order of complex numbers.
    """
    return _HALVES[base_name(op.name)](op, *operands)


def work_in_halves(name: str) -> int:
    """How many real operations an operation is, for each element."""
    return {"multiply": 6, "real": 0, "imag": 0}.get(name, 2)


def _each(op: Any, *operands: Halves) -> Halves:
    """The same operation on both; what is real, a condition, goes with both."""
    name, count = base_name(op.name), max(map(len, operands))
    pairs = [x if len(x) == count else x * count for x in operands]
    return tuple(Lazy(name, "", forms, forms[-1].dtype) for forms in zip(*pairs))


def _multiply(op: Any, x: Halves, y: Halves) -> Halves:
    make: Callable[[str, Form, Form], Form] = lambda name, a, b: Lazy(name, "", (a, b), a.dtype)
    products = [[make("multiply", a, b) for b in y] for a in x]
    return make("subtract", products[0][0], products[1][1]), make("add", products[0][1], products[1][0])


def _compare(op: Any, x: Halves, y: Halves) -> Halves:
    direction, truth = hlo.direction_of(op), np.dtype(bool)
    if direction not in ("EQ", "NE"):
        raise Unfit("an order of complex numbers")
    tests = tuple(Lazy("compare", direction, (a, b), truth) for a, b in zip(x, y))
    return (Lazy("and" if direction == "EQ" else "or", "", tests, truth),)


_HALVES: dict[str, Callable[..., Halves]] = {
    **dict.fromkeys(("add", "subtract", "negate", "select"), _each),
    "multiply": _multiply,
    "compare": _compare,
    "complex": lambda op, x, y: (*x, *y),
    "real": lambda op, x: x[:1],
    "imag": lambda op, x: x[1:],
}
IN_HALVES = frozenset(_HALVES)
