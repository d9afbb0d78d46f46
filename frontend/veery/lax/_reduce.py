"""Reductions over axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host, tree
from veery._core.ad import LINEAR, NONDIFFERENTIABLE
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.jaxpr import ClosedJaxpr
from veery._core.primitive import Primitive
from veery._transforms.jvp import jvp
from veery.lax import _arithmetic, _compare, _computation, _convert, _shape, _slicing
from veery.lax._declare import ANY, INTEGRAL, check_dtype, reduction
from veery.lax._placement import laid_out, lays_out
from veery.lax._reference import silently, widen

ArrayLike = Any


def _axes(axes: Sequence[int]) -> Shape:
    return tuple(operator.index(a) for a in axes)


# ---------------------------------------------------------------------------------------------------------------------
# sums and products


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Sum over axes.

    Args:
        operand: array of numbers.
        axes: distinct axes, not negative.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        An array of the same dtype without those axes.

    Raises:
        ValueError: an axis is repeated or out of bounds.
        TypeError: the dtype is bool.

    >>> from veery import lax
    >>> lax.reduce_sum(lax.iota("int32", 4), (0,)).item()
    6
    """
    if out_sharding is not None:
        return laid_out(lambda: reduce_sum(operand, axes), out_sharding, "reduce_sum")
    return reduce_sum_p.bind(operand, axes=_axes(axes))


def _accumulate(function: np.ufunc, x: np.ndarray, axes: Shape) -> np.ndarray:
    """The reduction of floats in double precision, rounded once."""
    axes, dtype = tuple(axes), x.dtype
    if dtype.kind in "biu":
        return np.asarray(function.reduce(x, axis=axes, dtype=dtype))
    wide = widen(x) if dtype.kind in "fc" or dtypes.issubdtype(dtype, np.inexact) else x
    return np.asarray(silently(_reduce, function, wide, axes, dtype))


def _reduce(function: Any, x: np.ndarray, axes: Shape, dtype: Any) -> Any:
    return function.reduce(x, axis=axes, dtype=x.dtype).astype(dtype)


def _insert_axes(x: Any, axes: Shape, shape: Shape) -> Any:
    """The result of a reduction broadcast to the operand's shape."""
    return _shape.broadcast_in_dim(x, shape, tuple(i for i in range(len(shape)) if i not in axes))


def _reduced(function: Callable[..., Any], start: float) -> Callable[..., np.ndarray]:
    """The largest or smallest of floats. A zero is the larger or smaller one, if there are both."""

    def reduced(x: np.ndarray, *, axes: Sequence[int]) -> np.ndarray:
        out = np.asarray(function(x, axis=axes, initial=x.dtype.type(start)))
        if out.all():
            return out
        negative = np.signbit(x) if start > 0 else ~np.signbit(x)
        preferred = np.logical_or.reduce((x == 0) & negative, axis=tuple(axes))
        return np.where(out == 0, np.where(preferred == (start > 0), x.dtype.type(-0.0), x.dtype.type(0.0)), out)

    return reduced


largest, smallest = _reduced(np.max, -np.inf), _reduced(np.min, np.inf)


reduce_sum_p = reduction(
    "reduce_sum",
    (np.number,),
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1),
    jvp=LINEAR,
    transpose=lambda ct, x, *, axes: [_insert_axes(ct, axes, x.aval.shape)],
    reference=lambda x, *, axes: _accumulate(np.add, x, axes),
)


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Product over axes; see reduce_sum."""
    return reduce_prod_p.bind(operand, axes=_axes(axes))


def _axes_to_front(x: Any, axes: Shape) -> Any:
    """The array with the reduced axes flattened into one in front."""
    shape = np.shape(x)
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    x = _shape.transpose(x, (*axes, *kept))
    return _shape.reshape(x, (math.prod(shape[a] for a in axes), *(shape[i] for i in kept)))


def _reduce_prod_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: Shape) -> tuple[Any, Any]:
    """Products of halves, with (ab)' = a'b + ab': right wherever factors are zero, and so are its derivatives."""
    (x,), (t,) = primals, tangents
    x, t = _axes_to_front(x, axes), _axes_to_front(t, axes)
    if np.shape(x)[0] == 0:
        return reduce_prod_p.bind(primals[0], axes=axes), reduce_sum_p.bind(tangents[0], axes=axes)
    while (n := np.shape(x)[0]) > 1:
        half = n // 2
        (a, b), (ta, tb) = ([_slicing.slice_in_dim(y, i, i + half) for i in (0, half)] for y in (x, t))
        product = _arithmetic.mul(a, b)
        tangent = _arithmetic.add(_arithmetic.mul(ta, b), _arithmetic.mul(tb, a))
        if n % 2:
            product = _shape.concatenate([product, _slicing.slice_in_dim(x, n - 1, n)], 0)
            tangent = _shape.concatenate([tangent, _slicing.slice_in_dim(t, n - 1, n)], 0)
        x, t = product, tangent
    return _shape.squeeze(x, (0,)), _shape.squeeze(t, (0,))


reduce_prod_p = reduction(
    "reduce_prod",
    (np.number,),
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1),
    jvp=_reduce_prod_jvp,
    reference=lambda x, *, axes: _accumulate(np.multiply, x, axes),
)


# ---------------------------------------------------------------------------------------------------------------------
# extrema


def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Maximum over axes; NaN where there is one. Over nothing it is -inf, or the least integer; see reduce_sum."""
    return reduce_max_p.bind(operand, axes=_axes(axes))


def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Minimum over axes; NaN where there is one. Over nothing it is inf, or the largest integer; see reduce_sum."""
    return reduce_min_p.bind(operand, axes=_axes(axes))


def _reduce_extreme_jvp(t: Any, out: Any, x: Any, *, axes: Shape) -> Any:
    """The mean of the tangents of the elements that are equal to the extreme."""
    chosen = _compare.eq(x, _insert_axes(out, axes, np.shape(x)))
    chosen = _convert.convert_element_type(chosen, aval_of(t).dtype)
    count = reduce_sum(chosen, axes)
    return _arithmetic.div(reduce_sum(_arithmetic.mul(t, chosen), axes), count)


reduce_max_p = reduction(
    "reduce_max",
    ANY,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1, floats=1, of_floats=largest),
    jvp=(_reduce_extreme_jvp,),
    reference=lambda x, *, axes: np.asarray(np.max(x, axis=axes, initial=_computation.lowest(x.dtype))).astype(x.dtype),
)
reduce_min_p = reduction(
    "reduce_min",
    ANY,
    checks=("nan",),
    cost=cost.per_operand,
    host=host.arithmetic(integers=1, floats=1, of_floats=smallest),
    jvp=(_reduce_extreme_jvp,),
    reference=lambda x, *, axes: np.asarray(np.min(x, axis=axes, initial=_computation.highest(x.dtype))).astype(
        x.dtype
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# logic


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise and over axes, of bools or integers; see reduce_sum."""
    return reduce_and_p.bind(operand, axes=_axes(axes))


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise or over axes, of bools or integers; see reduce_sum."""
    return reduce_or_p.bind(operand, axes=_axes(axes))


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise exclusive or over axes, of bools or integers; see reduce_sum."""
    return reduce_xor_p.bind(operand, axes=_axes(axes))


def _logical(name: str, function: np.ufunc, **facts: Any) -> Primitive:
    reference = lambda x, *, axes: np.asarray(function.reduce(x, axis=axes)).astype(x.dtype)
    primitive = reduction(name, INTEGRAL, jvp=NONDIFFERENTIABLE, reference=reference, **facts)
    checked = primitive.abstract_eval

    def abstract_eval(x: ShapedArray, *, axes: Shape) -> ShapedArray:
        if x.dtype != np.bool_ and not dtypes.issubdtype(x.dtype, np.integer):
            raise TypeError(f"logical reduction requires operand dtype bool or int, got {x.dtype.name}.")
        return checked(x, axes=axes).update(weak_type=False)  # type: ignore[misc]

    primitive.abstract_eval = abstract_eval
    return primitive


reduce_and_p = _logical("reduce_and", np.bitwise_and, cost=cost.per_operand, host=host.arithmetic(integers=1))
reduce_or_p = _logical("reduce_or", np.bitwise_or, cost=cost.per_operand, host=host.arithmetic(integers=1))
reduce_xor_p = _logical("reduce_xor", np.bitwise_xor, cost=cost.per_operand, host=host.arithmetic(integers=1))


# ---------------------------------------------------------------------------------------------------------------------
# positions of extrema


def argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """The first index of the maximum along an axis, or of the first NaN.

    Args:
        operand: array of any dtype.
        axis: not negative.
        index_dtype: integer dtype of the result.

    Raises:
        ValueError: the axis is out of bounds, empty, or longer than `index_dtype` counts.
    """
    index_dtype = dtypes.check_and_canonicalize_user_dtype(index_dtype, "argmax")
    return argmax_p.bind(operand, axes=_axes((axis,)), index_dtype=index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """The first index of the minimum along an axis, or of the first NaN; see argmax."""
    index_dtype = dtypes.check_and_canonicalize_user_dtype(index_dtype, "argmin")
    return argmin_p.bind(operand, axes=_axes((axis,)), index_dtype=index_dtype)


def _arg_extreme_abstract_eval(x: ShapedArray, *, axes: Shape, index_dtype: Any) -> ShapedArray:
    check_dtype("argmin and argmax", x.dtype, ANY)
    (axis,) = axes
    if not 0 <= axis < x.ndim:
        raise ValueError(f"Invalid axis {axis} for operand shape {x.shape}")
    if x.shape[axis] < 1:
        raise ValueError(f"argmin and argmax require non-empty reduced dimension. operand.shape={x.shape} axis={axis}")
    if not dtypes.issubdtype(index_dtype, np.integer):
        raise TypeError(f"index_dtype must be an integer type, but got {index_dtype.name}")
    if isinstance(count := x.shape[axis], int) and count - 1 > (last := dtypes.iinfo(index_dtype).max):
        way_out = "enable_x64" if index_dtype == np.int32 else "another index_dtype"
        raise ValueError(
            f"argmin and argmax along {count} elements: {index_dtype.name} counts to {last} only. Use {way_out}."
        )
    return ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], index_dtype)


def _arg_extreme(name: str, function: Callable[..., Any], **facts: Any) -> Primitive:
    reference = lambda x, *, axes, index_dtype: np.asarray(function(x, axis=axes[0])).astype(index_dtype)
    primitive = reduction(name, ANY, jvp=NONDIFFERENTIABLE, reference=reference, **facts)
    primitive.abstract_eval = _arg_extreme_abstract_eval
    return primitive


argmax_p = _arg_extreme("argmax", np.argmax, cost=cost.per_operand, host=host.arithmetic(integers=1, floats=1))
argmin_p = _arg_extreme("argmin", np.argmin, cost=cost.per_operand, host=host.arithmetic(integers=1, floats=1))


# ---------------------------------------------------------------------------------------------------------------------
# reduction by any function


@lays_out
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Reduce one or several arrays over dimensions with an associative function.

    Args:
        operands: an array, or a tree of arrays of one shape.
        init_values: a tree of the same structure: the neutral elements of `computation`.
        computation: `(x, y) -> z` on trees of scalars; associative and commutative.
        dimensions: the dimensions to remove.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        A tree of the same structure.

    Raises:
        ValueError: the trees differ, or an initial value is not a scalar.
        TypeError: the dtypes of operands and initial values differ.

    >>> from veery import lax
    >>> lax.reduce(lax.iota("int32", 4), 0, lax.add, (0,)).item()
    6
    """
    flat_operands, structure = tree.tree_flatten(operands)
    flat_inits, init_structure = tree.tree_flatten(init_values)
    if structure != init_structure:
        raise ValueError(f"Operands must have the same tree structure as init_values: {structure} vs. {init_structure}")
    init_avals: list[Any] = [aval_of(x) for x in flat_inits]
    jaxpr = _computation.stage_computation("reduce", computation, init_avals, structure.unflatten)
    axes = _axes(dimensions)
    monoid = _computation.monoid(jaxpr, flat_operands, flat_inits)
    if monoid in _REDUCERS:
        out = _reduce_monoid(_REDUCERS[monoid], flat_operands[0], flat_inits[0], axes)
        outs = [_computation.joined(monoid, jaxpr, flat_inits[0], out)]
    else:
        outs = reduce_p.bind(*flat_operands, *flat_inits, jaxpr=jaxpr, dimensions=axes)
    return structure.unflatten(outs)


def _reduce_monoid(reducer: Primitive, x: Any, init: Any, axes: Shape) -> Any:
    """The reduction by a known primitive; the result is weakly typed only if the initial value is too."""
    out = reducer.bind(x, axes=axes)
    aval: Any = aval_of(out)
    if not aval.weak_type or dtypes.is_weakly_typed(init):
        return out
    return _convert.convert_element_type_p.bind(out, new_dtype=aval.dtype, weak_type=False)


_REDUCERS = {
    "add": reduce_sum_p,
    "mul": reduce_prod_p,
    "max": reduce_max_p,
    "min": reduce_min_p,
    "and": reduce_and_p,
    "or": reduce_or_p,
    "xor": reduce_xor_p,
}


def _reduce_abstract_eval(*avals: ShapedArray, jaxpr: ClosedJaxpr, dimensions: Shape) -> list[ShapedArray]:
    count = len(avals) // 2
    operands, inits = avals[:count], avals[count:]
    if any(a.shape != () for a in inits):
        raise ValueError(f"reduce found non-scalar initial value: {[a.shape for a in inits]}")
    if [a.dtype for a in operands] != [a.dtype for a in inits]:
        raise TypeError(
            f"reduce operand dtypes should match corresponding initial value dtypes, got operands={list(operands)} "
            f"and initial_values={list(inits)}"
        )
    if len({a.shape for a in operands}) != 1:
        raise TypeError(f"reduce operands must have the same shapes, got {[a.shape for a in operands]}")
    if len(set(dimensions)) != len(dimensions) or not all(0 <= d < operands[0].ndim for d in dimensions):
        raise ValueError(f"reduce dimensions {dimensions} are repeated or out of bounds for {operands[0]}.")
    if [a.dtype for a in jaxpr.out_avals] != [a.dtype for a in inits] or any(a.shape for a in jaxpr.out_avals):
        raise TypeError(
            f"reduce computation must return scalars of the types of the initial values {list(inits)}, got "
            f"{list(jaxpr.out_avals)}"
        )
    return [
        ShapedArray([d for i, d in enumerate(x.shape) if i not in dimensions], x.dtype, x.weak_type and init.weak_type)
        for x, init in zip(operands, inits)
    ]


def _fold_axes(args: Sequence[Any], jaxpr: ClosedJaxpr, dimensions: Shape) -> list[Any]:
    """The reduction spelled out in operations that have derivatives; initial values broadcast to the result."""
    count = len(args) // 2
    xs = [_axes_to_front(x, dimensions) for x in args[:count]]
    size, *shape = np.shape(xs[0])
    inits = [
        init if np.shape(init) == tuple(shape) else _shape.broadcast_in_dim(init, shape, ()) for init in args[count:]
    ]
    if size == 0:
        return inits
    combine = _computation.vectorized(jaxpr)
    return combine(*inits, *_computation.fold(combine, xs))


def _reduce_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, dimensions: Shape
) -> tuple[Any, Any]:
    return jvp(lambda *args: _fold_axes(args, jaxpr, dimensions), primals, tangents)


def _reduce_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, dimensions: Shape
) -> tuple[Any, list[int]]:
    count = len(args) // 2
    size = _shape.batch_size(args, dims)
    xs = [_shape.bdim_at_front(x, d, size) for x, d in zip(args[:count], dims[:count])]
    inits, axes = list(args[count:]), tuple(d + 1 for d in dimensions)
    if all(d is None for d in dims[count:]):
        return reduce_p.bind(*xs, *inits, jaxpr=jaxpr, dimensions=axes), [0] * count
    # the operation takes one initial value for all: batches of them are combined with what is reduced without
    shape = [d for i, d in enumerate(np.shape(xs[0])) if i not in axes]
    inits = [_shape.broadcast_in_dim(init, shape, () if d is None else (0,)) for init, d in zip(inits, dims[count:])]
    return _fold_axes([*xs, *inits], jaxpr, axes), [0] * count


def _reduce_reference(*args: np.ndarray, jaxpr: ClosedJaxpr, dimensions: Shape) -> list[np.ndarray]:
    count = len(args) // 2
    xs, inits = args[:count], args[count:]
    kept = [i for i in range(xs[0].ndim) if i not in dimensions]
    shape = [xs[0].shape[i] for i in kept]
    terms = math.prod(xs[0].shape[i] for i in dimensions)
    flat = [np.transpose(x, (*dimensions, *kept)).reshape(terms, *shape) for x in xs]
    outs = [np.empty(shape, x.dtype) for x in xs]
    for index in np.ndindex(*shape):
        carry = [np.asarray(init) for init in inits]
        for i in range(flat[0].shape[0]):
            carry = _computation.evaluate_reference(jaxpr, *carry, *(x[(i, *index)] for x in flat))
        for out, value in zip(outs, carry):
            out[index] = value
    return outs


reduce_p = Primitive(
    "reduce",
    cost=cost.per_operand,
    abstract_eval=_reduce_abstract_eval,
    jvp=_reduce_jvp,
    batch=_reduce_batch,
    reference=_reduce_reference,
    multiple_results=True,
)
