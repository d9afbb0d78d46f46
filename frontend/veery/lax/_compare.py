"""Comparisons, and choices between arrays: select_n, select, clamp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host
from veery._core.ad import NONDIFFERENTIABLE, Zero, instantiate_zeros, is_undefined_primal, zeros_like_aval
from veery._core.avals import ShapedArray, aval_of, check_operand
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery.lax import _shape
from veery.lax._bitwise import bitwise_and
from veery.lax._declare import ANY, ORDERED, binary, check_dtype, check_same_dtypes
from veery.lax._operands import Array, ArrayLike, adopt_dtype, apply
from veery.lax._reference import quiet

_EQUATABLE = (*ANY, dtypes.extended)
_COMPARABLE = (*ORDERED, np.bool_)


# Comparisons. Their results are bools without derivative; a comparison with NaN is false, but for `ne`.


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y, of numbers, bools or random keys of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.eq(jnp.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """
    return apply(eq_p, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y, of numbers, bools or random keys of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.ne(jnp.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """
    return apply(ne_p, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y, of integers, floats or bools of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.lt(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """
    return apply(lt_p, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y, of integers, floats or bools of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.le(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """
    return apply(le_p, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y, of integers, floats or bools of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.gt(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """
    return apply(gt_p, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y, of integers, floats or bools of one dtype.

    >>> from veery import lax, numpy as jnp
    >>> lax.ge(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """
    return apply(ge_p, x, y)


def _comparison(name: str, accepts: Sequence[type], reference: Any, **facts: Any) -> Primitive:
    rules: dict[str, Any] = dict(jvp=NONDIFFERENTIABLE, reference=quiet(reference), result_dtype=np.bool_)
    return binary(name, accepts, **rules, **facts)


def _total_order(x: np.ndarray) -> np.ndarray:
    """Numbers that compare as the floats do in the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    if not dtypes.issubdtype(x.dtype, np.floating):
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _in_total_order(comparison: Any) -> Any:
    return lambda x, y: comparison(_total_order(x), _total_order(y))


eq_p = _comparison("eq", _EQUATABLE, np.equal, host=host.arithmetic(np.equal, integers=1, floats=1))
ne_p = _comparison("ne", _EQUATABLE, np.not_equal, host=host.arithmetic(np.not_equal, integers=1, floats=1))
lt_p = _comparison("lt", _COMPARABLE, np.less, host=host.arithmetic(np.less, integers=1, floats=1))
le_p = _comparison("le", _COMPARABLE, np.less_equal, host=host.arithmetic(np.less_equal, integers=1, floats=1))
gt_p = _comparison("gt", _COMPARABLE, np.greater, host=host.arithmetic(np.greater, integers=1, floats=1))
ge_p = _comparison("ge", _COMPARABLE, np.greater_equal, host=host.arithmetic(np.greater_equal, integers=1, floats=1))

# The same in the total order of floats, for sorting.
eq_to_p = _comparison("eq_to", _COMPARABLE, _in_total_order(np.equal))
le_to_p = _comparison("le_to", _COMPARABLE, _in_total_order(np.less_equal))
lt_to_p = _comparison("lt_to", _COMPARABLE, _in_total_order(np.less))


# Selection.


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Choose each element from one of several arrays.

    Args:
        which: bool (with at most two cases, False chooses the first) or integers, the indices into cases; of the shape
            of the cases, or of rank 0. Indices beyond the cases choose the nearest.
        *cases: arrays of one shape and dtype.

    Returns:
        An array of the shape and dtype of the cases.

    Raises:
        TypeError: shapes or dtypes do not fit.
        ValueError: there are no cases.

    >>> from veery import lax, numpy as jnp
    >>> lax.select_n(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 2], dtype=int32)
    """
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return _select(which, cases)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Choose each element from on_true where pred holds, else from on_false.

    Args:
        pred: bools, of the shape of the others or of rank 0.
        on_true: array.
        on_false: array of the shape and dtype of on_true.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> from veery import lax, numpy as jnp
    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    return _select(pred, (on_false, on_true))


def _select(which: ArrayLike, cases: Sequence[ArrayLike]) -> Array:
    (selector,) = adopt_dtype("select_n", [which])
    return select_n_p.bind(_as_selector(selector, len(cases)), *adopt_dtype("select_n", cases))


def _as_selector(which: Any, cases: int) -> Any:
    """Integers of any width as int32, in which each beyond the cases still chooses the nearest."""
    dtype = dtypes.dtype_of(which)
    if dtype == np.int32 or not dtypes.issubdtype(dtype, np.integer):
        return which
    from veery.lax._convert import convert_element_type  # which builds on this module

    last = np.asarray(min(cases - 1, dtypes.iinfo(dtype).max), dtype)
    return convert_element_type(clamp(np.zeros((), dtype), which, last), np.int32)


def _select_n_aval(which: ShapedArray, *cases: ShapedArray) -> ShapedArray:
    if which.dtype == np.bool_:
        if len(cases) > 2:
            raise TypeError("select with boolean `which` cannot have > 2 cases.")
    elif which.dtype != np.int32:
        integral = dtypes.issubdtype(which.dtype, np.integer)
        expected = "must be an int32" if integral else "must be boolean or integer type"
        raise TypeError(f"select `which` {expected}, got {which.dtype.name}.")
    check_same_dtypes("select", cases)
    shape = cases[0].shape
    if any(case.shape != shape for case in cases):
        raise TypeError(f"select cases must have the same shapes, got [{', '.join(str(c.shape) for c in cases)}].")
    if which.shape not in ((), shape):
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, "
            f"got `which` shape {which.shape} but case shape {shape}."
        )
    return ShapedArray(shape, cases[0].dtype, all(case.weak_type for case in cases))


def _select_n_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    out = select_n_p.bind(*primals)
    if all(type(t) is Zero for t in tangents[1:]):
        return out, Zero.from_primal_value(out)
    return out, select_n_p.bind(primals[0], *map(instantiate_zeros, tangents[1:]))


def _select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    """The cotangent of a case is ct where that was chosen, else 0."""
    zero = zeros_like_aval(aval_of(ct))  # type: ignore[arg-type]

    def cotangent(position: int) -> Any:
        return select_n_p.bind(which, *(ct if i == position else zero for i in range(len(cases))))

    return [None, *(cotangent(i) if is_undefined_primal(case) else None for i, case in enumerate(cases))]


def _select_n_batch(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    """Batch dimensions go to the front; a `which` of rank 0 stays so if it is not batched, and else is spread out."""
    (which, *cases), (which_dim, *case_dims) = args, dims
    if len({(np.shape(x), d) for x, d in zip(args, dims)}) == 1:
        return select_n_p.bind(*args), which_dim  # type: ignore[return-value]
    size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
    cases = [_shape.bdim_at_front(x, d, size) for x, d in zip(cases, case_dims)]
    if which_dim is None and np.ndim(which) == 0:
        return select_n_p.bind(which, *cases), 0
    return select_n_p.bind(_spread(which, which_dim, size, np.shape(cases[0])), *cases), 0


def _spread(x: Any, dim: int | None, size: int, shape: tuple[int, ...]) -> Any:
    """An operand of the shape of its fellows, or of rank 0 before batching, in their batched shape."""
    front: Any = _shape.bdim_at_front(x, dim, size)
    return front if np.shape(front) == shape else _shape.broadcast_in_dim(front, shape, (0,))


def _select_n_reference(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    out = cases[0]
    for position, case in enumerate(cases[1:], start=1):
        out = np.where(which.astype(np.int32) >= position, case, out)
    return out.astype(cases[0].dtype, copy=False)


def _select_on_host(eqn: JaxprEqn) -> Callable[..., Any]:
    which, *cases = eqn.invars
    if len(cases) != 2 or which.aval.dtype != np.bool_:
        return host.reference(eqn)
    return lambda which, no, yes: np.where(which, yes, no)


select_n_p = Primitive(
    "select_n",
    cost=cost.free,
    host=host.moves(_select_on_host),
    abstract_eval=_select_n_aval,
    jvp=_select_n_jvp,
    transpose=_select_n_transpose,
    batch=_select_n_batch,
    reference=_select_n_reference,
)


# Clamping.


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, or the limit that it passes: minimum(maximum(x, min), max).

    Args:
        min: lower limit, of the shape of x or of rank 0, and of its dtype, which a Python number must have by itself.
        x: array.
        max: upper limit, likewise.

    Raises:
        TypeError: shapes or dtypes do not fit.

    >>> from veery import lax, numpy as jnp
    >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 3.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    for position, operand in enumerate((min, x, max)):
        check_operand("clamp", position, operand)
    return clamp_p.bind(min, x, max)


def _clamp_aval(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> ShapedArray:
    for limit, name in ((low, "min"), (high, "max")):
        if limit.shape not in ((), x.shape):
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), "
                f"got {name}.shape={limit.shape}, operand.shape={x.shape}."
            )
    for position, aval in enumerate((low, x, high)):
        check_dtype("clamp", aval.dtype, ANY, position)
    check_same_dtypes("clamp", (low, x, high))
    return ShapedArray(x.shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _clamp_batch(args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int | None]:
    """Limits of rank 0 stay so if they are not batched, and else are spread out."""
    low, x, high = args
    if len({(np.shape(a), d) for a, d in zip(args, dims)}) == 1:
        return clamp_p.bind(*args), dims[1]
    if all(np.ndim(limit) == 0 for limit in (low, high)):
        return clamp_p.bind(*args), dims[1]
    size = next(np.shape(a)[d] for a, d in zip(args, dims) if d is not None)
    front: Any = _shape.bdim_at_front(x, dims[1], size)
    limits = [
        limit if dim is None and np.ndim(limit) == 0 else _spread(limit, dim, size, np.shape(front))
        for limit, dim in ((low, dims[0]), (high, dims[2]))
    ]
    return clamp_p.bind(limits[0], front, limits[1]), 0


def _where(condition: Any, t: Any, x: Any) -> Any:
    """t where the condition holds, else 0, in the shape of x: t and the condition may be of rank 0."""
    zero = zeros_like_aval(aval_of(x).update(dtype=aval_of(t).dtype))
    spread = lambda a: _shape.broadcast_in_dim(a, np.shape(x), ()) if np.shape(a) != np.shape(x) else a
    return select(spread(condition), spread(t), zero)


def _both(a: Any, b: Any) -> Any:
    return bitwise_and(a, b)


clamp_p = Primitive(
    "clamp",
    host=host.arithmetic(integers=1, floats=1, of_floats=lambda low, x, high: host.minimum(host.maximum(low, x), high)),
    abstract_eval=_clamp_aval,
    # The operand that the result equals has the derivative; where x is at a limit, none has.
    jvp=(
        lambda t, out, low, x, high: _where(_both(gt(low, x), lt(low, high)), t, x),
        lambda t, out, low, x, high: _where(_both(gt(x, low), lt(x, high)), t, x),
        lambda t, out, low, x, high: _where(lt(high, x), t, x),
    ),
    batch=_clamp_batch,
    reference=quiet(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
)
