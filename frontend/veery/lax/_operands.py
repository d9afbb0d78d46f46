"""The operands of elementwise functions: Python scalars among arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, check_operand
from veery._core.primitive import Primitive
from veery._core.source import is_internal
from veery._core.trace import Tracer
from veery.lax import _shape

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer

_WIDTH: dict[type, int] = {int: 1, float: 2, complex: 3}  # of the kinds of numbers: each holds those before it


def apply(primitive: Primitive, *operands: ArrayLike, **params: Any) -> Array:
    """Bind an elementwise primitive to operands, Python scalars among them in the dtype of the arrays beside them.

    It is called by the public functions themselves.

    Raises:
        TypeError: an operand is no array, or the primitive refuses the shapes or dtypes.
    """
    return primitive.bind(*adopt_dtype(primitive.name, operands), **params)


def adopt_dtype(name: str, operands: Sequence[ArrayLike]) -> list[Any]:
    """The operands, Python scalars among them in the dtype of the first that is an array.

    This is for veery's own rules, where 2 may stand beside any dtype. A user's scalars have the dtypes of their kinds,
    as in JAX, and the primitive refuses what differs. Whose they are tells the frame that called the public function,
    which is the caller's caller.

    Args:
        name: of the public function.
        operands: array-likes.

    Raises:
        TypeError: an operand is no array.
    """
    if all(isinstance(x, (ArrayImpl, Tracer)) for x in operands):
        return list(operands)
    xs = [x.__jax_array__() if hasattr(x, "__jax_array__") else x for x in operands]
    for position, x in enumerate(xs):
        check_operand(name, position, x)
    scalars = [dtypes.is_python_scalar(x) for x in xs]
    like = next((x for x, is_scalar in zip(xs, scalars) if not is_scalar), None)
    dtype = dtypes.dtype_of(xs[0] if like is None else like)
    if any(is_scalar and dtypes.dtype_of(x) != dtype for x, is_scalar in zip(xs, scalars)):
        if not is_internal(sys._getframe(3).f_code):
            return xs
    if like is None:  # the widest kind among them, as Python itself would have it: derivative rules meet them
        kinds = [dtypes.scalar_type_of(x) for x in xs]
        if bool in kinds:
            return xs
        widest = max(kinds, key=_WIDTH.__getitem__)
        return [widest(x) for x in xs]
    aval = aval_of(like)
    return [scalar_like(x, aval) if is_scalar else x for x, is_scalar in zip(xs, scalars)]


def scalar_like(value: complex, aval: Any) -> Any:
    """A Python scalar in the dtype of an array, weakly typed if that is.

    It is returned unchanged where the dtype has no such values (2.5 beside integers, 1 beside bool).
    """
    if isinstance(aval.dtype, dtypes.ExtendedDType) or aval.dtype == dtypes.float0:
        return value
    scalar_type = dtypes.scalar_type_of(aval.dtype)
    if isinstance(value, bool) or scalar_type is bool:
        return value
    if _WIDTH[dtypes.scalar_type_of(value)] > _WIDTH[scalar_type]:
        return value
    if aval.weak_type and dtypes.dtype_of(scalar_type(0)) == aval.dtype:
        return scalar_type(value)
    with np.errstate(over="ignore"):
        return np.asarray(value, aval.dtype)[()]


def full_like(x: Any, value: complex) -> Any:
    """An array of the shape and dtype of x, filled with a Python scalar. Used in rules."""
    aval = aval_of(x)
    assert isinstance(aval, ShapedArray)
    scalar = scalar_like(value, aval)
    return _shape.broadcast_in_dim(scalar, aval.shape, ()) if aval.shape else scalar
