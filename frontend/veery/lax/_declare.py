"""Constructors for the primitives that come in families: unary, binary, naryary and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.avals import ShapedArray
from veery._core.primitive import JvpRule, Primitive, Rule
from veery.lax import _shape

FLOAT = (np.floating,)
INEXACT = (np.floating, np.complexfloating)
COMPLEX = (np.complexfloating,)
INTEGER = (np.integer,)
INTEGRAL = (np.integer, np.bool_)
ORDERED = (np.integer, np.floating)
NUMERIC = (np.integer, np.floating, np.complexfloating)
ANY = (np.bool_, np.integer, np.floating, np.complexfloating)


def check_dtype(name: str, dtype: Any, accepts: Sequence[type], position: int | None = None) -> None:
    """Raise TypeError unless the dtype is of an accepted kind; `position` names one of several operands."""
    if any(dtypes.issubdtype(dtype, kind) for kind in accepts):
        return
    where = "" if position is None else f" at position {position}"
    if dtype == dtypes.float0:
        raise TypeError(
            f"Called {name} with a float0{where or ' array'}. float0s do not support any operations by design, because "
            "they are not compatible with non-trivial vector spaces. No implicit dtype conversion is done. You can use "
            "np.zeros_like(arr, dtype=np.float32) to cast a float0 array to a regular zeros array. \n"
            "If you didn't expect to get a float0 you might have accidentally taken a gradient with respect to an "
            "integer argument."
        )
    kinds = ", ".join(kind.__name__ for kind in accepts)
    raise TypeError(
        f"{name} does not accept dtype {dtype.name}{where}. Accepted dtypes{where} are subtypes of {kinds}."
    )


# The functions of veery.numpy whose names differ from those of the operations, for error messages.
_PROMOTING = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "rem": "remainder", "max": "maximum", "min": "minimum",
    "pow": "float_power", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "select": "where", "shift_left": "left_shift", "shift_right_logical": "right_shift",
    "shift_right_arithmetic": "right_shift", "atan2": "arctan2", "add": "add", "nextafter": "nextafter",
}  # fmt: skip


def check_same_dtypes(name: str, avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless all dtypes are the same."""
    if len({aval.dtype for aval in avals}) > 1:
        names = ", ".join(aval.dtype.name for aval in avals)
        message = f"lax.{name} requires arguments to have the same dtypes, got {names}."
        if name in _PROMOTING:
            tip = f"jnp.{_PROMOTING[name]} is a similar function that does automatic type promotion on inputs"
            message += f" (Tip: {tip})."
        raise TypeError(message)


def check_same_shapes(name: str, avals: Sequence[ShapedArray]) -> None:
    """Raise TypeError unless all shapes are the same."""
    if len({aval.shape for aval in avals}) > 1:
        shapes = ", ".join(str(aval.shape) for aval in avals)
        raise TypeError(f"{name} got incompatible shapes for broadcasting: {shapes}.")


def elementwise_aval(
    name: str, avals: Sequence[ShapedArray], accepts: Sequence[type], result_dtype: Any | Callable[[Any], Any] | None
) -> ShapedArray:
    """The aval of an elementwise operation on operands of one shape and dtype."""
    for position, aval in enumerate(avals):
        check_dtype(name, aval.dtype, accepts, None if len(avals) == 1 else position)
    check_same_dtypes(name, avals)
    check_same_shapes(name, avals)
    dtype = avals[0].dtype
    if callable(result_dtype) and not isinstance(result_dtype, (type, np.dtype)):
        dtype = result_dtype(dtype)
    elif result_dtype is not None:
        dtype = np.dtype(result_dtype)
    weak = all(aval.weak_type for aval in avals) and dtype != np.bool_
    return ShapedArray(avals[0].shape, dtype, weak)


def nary(
    name: str,
    arity: int,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
) -> Primitive:
    """An elementwise primitive of operands with one shape and dtype.

    Args:
        name: of the primitive and of the public function.
        arity: number of operands.
        accepts: the kinds of dtypes it takes, e.g. INEXACT.
        jvp: as for Primitive.
        reference: NumPy function.
        transpose: as for Primitive, where it is linear.
        result_dtype: a dtype, or a function of the operands' dtype; None for the same.
    """

    def abstract_eval(*avals: ShapedArray, **params: Any) -> ShapedArray:
        if len(avals) != arity:
            raise TypeError(f"{name} takes {arity} arguments, got {len(avals)}")
        return elementwise_aval(name, avals, accepts, result_dtype)

    primitive = Primitive(name, abstract_eval=abstract_eval, jvp=jvp, transpose=transpose, reference=reference)
    primitive.batch = lambda args, dims, **params: batch_elementwise(primitive, args, dims, params)
    return primitive


def unary(
    name: str,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
) -> Primitive:
    """An elementwise primitive of one operand; `jvp` may be the one rule `(t, out, x, **params) -> tangent`."""
    per_operand: JvpRule = (jvp,) if callable(jvp) else jvp
    return nary(name, 1, accepts, jvp=per_operand, reference=reference, transpose=transpose, result_dtype=result_dtype)


def binary(
    name: str,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
) -> Primitive:
    """An elementwise primitive of two operands; `jvp` is a pair of rules or one of the forms of Primitive."""
    return nary(name, 2, accepts, jvp=jvp, reference=reference, transpose=transpose, result_dtype=result_dtype)


def batch_elementwise(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, Any]:
    """Batching of an elementwise primitive: align the batch dimensions and apply it once.

    Operands that share shape and batch dimension go in as they are; otherwise batch dimensions move to the front
    and unbatched operands are broadcast there.
    """
    batched = {(np.shape(x), d) for x, d in zip(args, dims) if d is not None}
    if all(d is not None for d in dims) and len(batched) == 1:
        out_dim = dims[0]
        return _results(primitive, primitive.bind(*args, **params), out_dim)
    size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
    args = [_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims)]
    return _results(primitive, primitive.bind(*args, **params), 0)


def _results(primitive: Primitive, out: Any, dim: int | None) -> tuple[Any, Any]:
    return (out, [dim] * len(out)) if primitive.multiple_results else (out, dim)


def reduction(
    name: str,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule,
    transpose: Rule | None = None,
    result_dtype: Any | None = None,
) -> Primitive:
    """A primitive that removes the dimensions `axes` of one operand."""

    def abstract_eval(x: ShapedArray, *, axes: tuple[int, ...], **params: Any) -> ShapedArray:
        check_dtype(name, x.dtype, accepts)
        if len(set(axes)) != len(axes):
            raise ValueError(f"duplicate value in 'axes' of reduction: {axes}")
        if not all(0 <= a < x.ndim for a in axes):
            raise ValueError(f"reduction axes {axes} contains out-of-bounds indices for {x.str_short(False)}.")
        dtype = params.get("index_dtype") or result_dtype or x.dtype
        shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        return ShapedArray(shape, dtype, x.weak_type and dtype == x.dtype)

    def batch(args: Sequence[Any], dims: Sequence[int], *, axes: tuple[int, ...], **params: Any) -> tuple[Any, int]:
        (x,), (dim,) = args, dims
        shifted = tuple(a + (a >= dim) for a in axes)
        return primitive.bind(x, axes=shifted, **params), dim - sum(a < dim for a in shifted)

    primitive = Primitive(
        name, abstract_eval=abstract_eval, jvp=jvp, transpose=transpose, batch=batch, reference=reference
    )
    return primitive
