"""Constructors for the primitives that come in families: unary, binary, naryary and reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes
from veery._core.ad import Zero
from veery._core.avals import ShapedArray
from veery._core.primitive import JvpRule, Primitive, Rule
from veery._transforms.explicit import elementwise
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


def broadcast_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape of an elementwise result: operands are of one rank or of rank 0, their dimensions equal or 1.

    Raises:
        TypeError: the shapes do not meet.
    """
    shape = avals[0].shape
    if all(aval.shape == shape for aval in avals):
        return shape
    ranked = [aval.shape for aval in avals if aval.shape]
    if len({len(shape) for shape in ranked}) > 1:
        ranks = ", ".join(str(rank) for rank in sorted({len(shape) for shape in ranked}))
        raise TypeError(f"{name}: arrays must have the same number of dimensions, got {{{ranks}}}")
    result = []
    for sizes in zip(*ranked, strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            listed = ", ".join(str(shape) for shape in ranked)
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {listed}.")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def elementwise_aval(
    name: str, avals: Sequence[ShapedArray], accepts: Sequence[type], result_dtype: Any | Callable[[Any], Any] | None
) -> ShapedArray:
    """The aval of an elementwise operation on operands of one dtype, whose shapes broadcast."""
    for position, aval in enumerate(avals):
        check_dtype(name, aval.dtype, accepts, None if len(avals) == 1 else position)
    check_same_dtypes(name, avals)
    shape = broadcast_shape(name, avals)
    dtype = avals[0].dtype
    if callable(result_dtype) and not isinstance(result_dtype, (type, np.dtype)):
        dtype = result_dtype(dtype)
    elif result_dtype is not None:
        dtype = np.dtype(result_dtype)
    return ShapedArray(shape, dtype, all(aval.weak_type for aval in avals))


def nary(
    name: str,
    arity: int,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
    **facts: Any,
) -> Primitive:
    """An elementwise primitive of operands of one dtype, whose shapes broadcast (see `broadcast_shape`).

    Rules need not heed the broadcasting: what a jvp rule gives is spread to the shape of the result, and what a
    transpose rule gives is summed to the shape of the operand.

    Args:
        name: of the primitive and of the public function.
        arity: number of operands.
        accepts: the kinds of dtypes it takes, e.g. INEXACT.
        jvp: as for Primitive.
        reference: NumPy function.
        transpose: as for Primitive, where it is linear.
        result_dtype: a dtype, or a function of the operands' dtype; None for the same.
        facts: other fields of the primitive: cost, checks, host.
    """

    def abstract_eval(*avals: ShapedArray, **params: Any) -> ShapedArray:
        if len(avals) != arity:
            raise TypeError(f"{name} takes {arity} arguments, got {len(avals)}")
        return elementwise_aval(name, avals, accepts, result_dtype)

    if arity > 1:
        jvp = tuple(map(_spread, jvp)) if isinstance(jvp, tuple) else jvp
        transpose = transpose and _collect(transpose)
    divides = functools.partial(elementwise, name)
    rules: dict[str, Any] = dict(jvp=jvp, transpose=transpose, reference=reference, divides=divides)
    primitive = Primitive(name, abstract_eval=abstract_eval, **rules, **facts)
    primitive.batch = lambda args, dims, **params: batch_elementwise(primitive, args, dims, params)
    return primitive


def _spread(rule: Rule) -> Rule:
    """The jvp rule of an operand, with its result in the shape of the primitive's."""
    return lambda t, out, *operands, **params: spread(rule(t, out, *operands, **params), np.shape(out))


def _collect(rule: Rule) -> Rule:
    """The transpose rule, with its results summed to the shapes of the operands."""

    def transpose(ct: Any, *operands: Any, **params: Any) -> list[Any]:
        cts = rule(ct, *operands, **params)
        return [x if x is None or type(x) is Zero else collect(x, np.shape(y.aval)) for x, y in zip(cts, operands)]

    return transpose


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """x broadcast to a shape; it is of rank 0, or of that rank with dimensions equal or 1."""
    old = np.shape(x)
    return x if old == shape else _shape.broadcast_in_dim(x, shape, tuple(range(len(old))))


def collect(ct: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of `spread`: ct summed over the dimensions that a shape has not, or has as 1."""
    old = np.shape(ct)
    if old == shape:
        return ct
    from veery.lax._reduce import reduce_sum

    axes = tuple(i for i, size in enumerate(old) if not shape or shape[i] != size)
    total = reduce_sum(ct, axes)
    return total if not shape else _shape.expand_dims(total, axes)


def unary(
    name: str,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
    **facts: Any,
) -> Primitive:
    """An elementwise primitive of one operand; `jvp` may be the one rule `(t, out, x, **params) -> tangent`."""
    per_operand: JvpRule = (jvp,) if callable(jvp) else jvp
    rules: dict[str, Any] = dict(jvp=per_operand, reference=reference, transpose=transpose, result_dtype=result_dtype)
    return nary(name, 1, accepts, **rules, **facts)


def binary(
    name: str,
    accepts: Sequence[type],
    *,
    jvp: JvpRule,
    reference: Rule | None,
    transpose: Rule | None = None,
    result_dtype: Any | Callable[[Any], Any] | None = None,
    **facts: Any,
) -> Primitive:
    """An elementwise primitive of two operands; `jvp` is a pair of rules or one of the forms of Primitive."""
    rules: dict[str, Any] = dict(jvp=jvp, reference=reference, transpose=transpose, result_dtype=result_dtype)
    return nary(name, 2, accepts, **rules, **facts)


def batch_elementwise(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, Any]:
    """Batching of an elementwise primitive: align the batch dimensions and apply it once.

    Where the batched operands share shape and batch dimension and the others are of rank 0, they go in as they are.
    Otherwise batch dimensions move to the front, and unbatched operands get one of size 1.
    """
    batched = {(np.shape(x), d) for x, d in zip(args, dims) if d is not None}
    if len(batched) == 1 and all(d is not None or not np.shape(x) for x, d in zip(args, dims)):
        ((_, out_dim),) = batched
        return _results(primitive, primitive.bind(*args, **params), out_dim)
    rank = max(np.ndim(x) - (d is not None) for x, d in zip(args, dims))
    args = [x if d is None and not np.shape(x) else _batch_in_front(x, d, rank) for x, d in zip(args, dims)]
    return _results(primitive, primitive.bind(*args, **params), 0)


def _batch_in_front(x: Any, dim: int | None, rank: int) -> Any:
    """The operand with its batch dimension in front, its elements of a rank: theirs, unless that is 0."""
    front: Any = _shape.bdim_or_one(x, dim)
    return _shape.expand_dims(front, tuple(range(np.ndim(front), rank + 1)))


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
    **facts: Any,
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
        name, abstract_eval=abstract_eval, jvp=jvp, transpose=transpose, batch=batch, reference=reference, **facts
    )
    return primitive
