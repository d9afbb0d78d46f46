"""Shapes and axes: what users may write for them, and the checks of it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core.avals import Shape
from veery._core.dimensions import DimExpr, as_dimension, is_symbolic
from veery._core.errors import ConcretizationTypeError, origin
from veery._core.trace import Tracer


def canonicalize_shape(shape: Any, context: str = "") -> Shape:
    """The shape as a tuple of ints.

    Args:
        shape: an int or a sequence of ints (Python's, NumPy's or concrete arrays).
        context: a sentence added to the error message.

    Raises:
        TypeError: shape is neither, for example because it depends on a traced value.
    """
    try:
        return (operator.index(shape),)
    except TypeError:
        pass
    try:
        return tuple(operator.index(d) for d in shape)
    except TypeError:
        pass
    if isinstance(shape, DimExpr):
        return (shape,)  # type: ignore[return-value]
    try:
        return tuple(as_dimension(d) for d in shape)
    except TypeError:
        pass
    message = f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
    if context:
        message += f" {context}."
    entries = shape if isinstance(shape, (tuple, list)) else (shape,)
    if traced := [d for d in entries if isinstance(d, Tracer)]:
        message += "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions."
        message += f"\n{origin(traced[0])}"
    raise TypeError(message)


def as_axes(axis: Any) -> tuple[Any, ...]:
    """One axis or several (a list, a range, an array of them) as a tuple."""
    try:
        return tuple(axis)
    except TypeError:
        return (axis,)


def canonicalize_axis(axis: Any, ndim: int) -> int:
    """The axis counted from the front.

    Raises:
        AxisError: the axis is outside [-ndim, ndim). It is a ValueError and an IndexError, as JAX has now one, now the
            other.
    """
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    result: int = axis + ndim if axis < 0 else axis
    return result


def check_shapelike(function: str, argument: str, value: Any, positive: bool = False) -> None:
    """Raise TypeError unless the value is a 1D sequence of nonnegative (or positive) integers."""
    if isinstance(value, tuple) and is_symbolic(value):
        value = tuple(int(d >= 0) - 1 if isinstance(d, DimExpr) else d for d in value)
    entries = np.array(value)
    if not entries.size:
        return
    if entries.ndim != 1:
        raise TypeError(f"{function} {argument} must be 1D, got {value}.")
    if not np.issubdtype(entries.dtype, np.integer):
        raise TypeError(f"{function} {argument} must have every element be an integer type, got {value}.")
    if positive and (entries < 1).any():
        raise TypeError(f"{function} {argument} must have every element be strictly positive, got {value}.")
    if (entries < 0).any():
        raise TypeError(f"{function} {argument} must have every element be nonnegative, got {value}.")


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that NumPy broadcasts these shapes to.

    Raises:
        TypeError: a size is negative, or no integer.
        ValueError: the shapes are not compatible.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    if len(shapes) == 1:
        return _not_negative(canonicalize_shape(shapes[0]))
    ndim = max((len(s) for s in shapes), default=0)
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes)):
        wide = {d for d in sizes if d != 1}
        if len(wide) > 1:
            for shape in shapes:
                _not_negative(tuple(shape))
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={[tuple(s) for s in shapes]}")
        result.append(wide.pop() if wide else 1)
    return _not_negative(canonicalize_shape(result))


def _not_negative(shape: Shape) -> Shape:
    if any(isinstance(d, (int, np.integer)) and d < 0 for d in shape):
        raise TypeError(
            "Only non-negative indices are allowed when broadcasting static shapes, but got shape "
            f"{canonicalize_shape(shape)}."
        )
    return shape


def concrete_int(value: Any, name: str) -> int:
    """The value as an int.

    Raises:
        ConcretizationTypeError: it is traced.
        TypeError: it is no integer; the message names `name`.
    """
    try:
        return operator.index(value)
    except TypeError:
        check_concrete(value, name)
        raise TypeError(f"{name} must be a concrete integer, got {value}.") from None


def check_concrete(value: Any, name: str) -> None:
    """Raise ConcretizationTypeError, naming `name`, for a traced value that is not known."""
    if isinstance(value, Tracer) and value.concrete_value() is None:
        raise ConcretizationTypeError(value, name)
