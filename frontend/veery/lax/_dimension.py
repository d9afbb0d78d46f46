"""Symbolic dimensions as values: `x.sum() / x.shape[0]` where the shape is not known yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from veery._core import dtypes
from veery._core.ad import NONDIFFERENTIABLE
from veery._core.avals import ShapedArray, aval_of
from veery._core.dimensions import DimExpr
from veery._core.primitive import Primitive
from veery.lax import _convert, _shape
from veery.lax._operands import Array


def dimension_value(dimension: DimExpr) -> Array:
    """The dimension as an integer, weakly typed like a Python int."""
    return dim_as_value_p.bind(dim=dimension)


def shape_as_value(shape: Sequence[Any]) -> Array:
    """A shape as an array of integers; its dimensions may be symbolic.

    >>> from veery import lax
    >>> lax.shape_as_value((2, 3)).tolist()
    [2, 3]
    """
    dtype = dtypes.canonicalize_dtype(np.int64)
    if not shape:
        return _shape.full((0,), 0, dtype)
    sizes = [dimension_value(n) if isinstance(n, DimExpr) else np.asarray(n, dtype) for n in shape]
    return _shape.concatenate([_shape.reshape(_convert.convert_element_type(n, dtype), (1,)) for n in sizes], 0)


def _dim_as_value_abstract_eval(*, dim: Any) -> ShapedArray:
    return aval_of(dim)


def _no_value(*, dim: Any) -> NoReturn:
    raise NotImplementedError(
        f"The symbolic dimension '{dim}' has a value only in functions that are traced for symbolic shapes, by "
        "export, aot.compile or jit(dynamic_shapes=...)"
    )


dim_as_value_p: Primitive = Primitive(
    "dim_as_value",
    abstract_eval=_dim_as_value_abstract_eval,
    jvp=NONDIFFERENTIABLE,
    batch=lambda args, dims, *, dim: (dim_as_value_p.bind(dim=dim), None),
    impl=_no_value,
)
