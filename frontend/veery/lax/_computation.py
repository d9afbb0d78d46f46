"""The functions of scalars that reductions and windows are given: staged, recognised, vectorised, evaluated."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, tree
from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr
from veery._core.primitive import Primitive
from veery._core.trace import Trace, Tracer, current_trace, set_current_trace
from veery._transforms.batching import AxisData, batch, move_batch
from veery._transforms.staging import stage
from veery.lax import _shape, _slicing


def stage_computation(
    name: str, computation: Callable[..., Any], init_avals: Sequence[ShapedArray], unflatten: Callable | None = None
) -> ClosedJaxpr:
    """The jaxpr of a function that combines two (lists of) scalars.

    Args:
        name: of the operation it is for.
        computation: `(x, y) -> z`; with `unflatten`, x, y and z are trees of arrays.
        init_avals: types of the leaves of x, y and z.
        unflatten: from leaves to a tree.

    Raises:
        ValueError: the function does not return arrays, or trees of another structure.
        NotImplementedError: it closes over traced values.
    """
    count = len(init_avals)
    make = unflatten or (lambda leaves: leaves[0])

    def flat(*scalars: Any) -> list[Any]:
        out = computation(make(list(scalars[:count])), make(list(scalars[count:])))
        leaves, structure = tree.tree_flatten(out)
        for leaf in leaves:
            if not isinstance(leaf, (Tracer, np.ndarray, np.generic, int, float, builtins.complex)) and not hasattr(
                leaf, "aval"
            ):
                raise ValueError(
                    f"Invalid return type from reduction function: {type(leaf)}\nReduction functions should only "
                    f"return an array.\nFull return value: {out}"
                )
        expected = tree.tree_structure(make([0] * count))
        if structure != expected:
            raise ValueError(
                f"{name} output must have the same tree structure as the operands {expected} vs. {structure}"
            )
        return leaves

    scalars = [aval.update(shape=()) for aval in init_avals]
    closed = stage(flat, [*scalars, *scalars])
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(f"{name}: the computation can't close over traced values; pass constants instead.")
    return closed


def monoid(closed: ClosedJaxpr, operands: Sequence[Any], inits: Sequence[Any]) -> str | None:
    """The name of the primitive that the jaxpr of two scalars consists of, if it makes a monoid with some scalar.

    Args:
        closed: the jaxpr.
        operands: what is reduced.
        inits: the initial values; only neutral ones may be of another dtype than the operands.
    """
    name = _sole_operation(closed) if len(inits) == 1 else None
    of, start = aval_of(operands[0]).dtype, aval_of(inits[0]).dtype
    if name not in identities(of) or name not in identities(start) or np.shape(inits[0]) != ():
        return None
    return name if of == start or _is_neutral(name, inits[0]) else None


def joined(name: str, closed: ClosedJaxpr, init: Any, reduced: Any) -> Any:
    """What a monoid has reduced, together with an initial value that need not be neutral."""
    if _is_neutral(name, init):
        return reduced
    return vectorized(closed)(_shape.broadcast_in_dim(init, np.shape(reduced), ()), reduced)[0]


def _sole_operation(closed: ClosedJaxpr) -> str | None:
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.outvars) != 1:
        return None
    eqn = jaxpr.eqns[0]
    if list(eqn.outvars) != list(jaxpr.outvars) or list(eqn.invars) != list(jaxpr.invars):
        return None
    return _sole_operation(eqn.params["jaxpr"]) if eqn.primitive.name == "jit" else eqn.primitive.name


def identities(dtype: Any) -> dict[str, np.ndarray]:
    """For the name of each operation that makes a monoid of the dtype, its neutral element."""
    is_bool = dtype == np.bool_
    integral = is_bool or dtypes.issubdtype(dtype, np.integer)
    found: dict[str, Any] = {}
    if not is_bool:
        found |= {"add": 0, "mul": 1}
    if integral:
        found |= {"or": 0, "and": True if is_bool else -1, "xor": 0}
    if not dtypes.issubdtype(dtype, np.complexfloating):
        found |= {"max": lowest(dtype), "min": highest(dtype)}
    return {name: np.asarray(value).astype(dtype) for name, value in found.items()}


def lowest(dtype: Any) -> Any:
    """The neutral element of max: -inf, or the smallest integer, or False."""
    return _extreme(dtype, -1)


def highest(dtype: Any) -> Any:
    """The neutral element of min."""
    return _extreme(dtype, 1)


def _extreme(dtype: Any, sign: int) -> Any:
    if dtype == np.bool_:
        return np.bool_(sign > 0)
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        return np.asarray(info.max if sign > 0 else info.min).astype(dtype)
    if dtypes.issubdtype(dtype, np.complexfloating):
        return np.asarray(builtins.complex(sign * math.inf, sign * math.inf)).astype(dtype)
    if dtypes.supports_inf(dtype):
        return np.asarray(sign * math.inf).astype(dtype)
    limits = dtypes.finfo(dtype)
    return np.asarray(limits.max if sign > 0 else limits.min).astype(dtype)


def _is_neutral(name: str, x: Any) -> bool:
    """Whether a scalar is known to be the neutral element of an operation in its dtype."""
    return not isinstance(x, Tracer) and bool(np.equal(np.asarray(x), identities(aval_of(x).dtype)[name]))


def vectorized(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of scalars as one of arrays of one shape."""

    def apply(*xs: Any) -> list[Any]:
        shape = np.shape(xs[0])
        size = math.prod(shape)
        flat = [_shape.reshape(x, (size,)) for x in xs]
        axis = AxisData(None, size)
        outs, dims = batch(lambda *ys: eval_jaxpr(closed.jaxpr, closed.consts, *ys), axis, flat, [0] * len(flat))
        return [_shape.reshape(move_batch(y, d, 0, size), shape) for y, d in zip(outs, dims)]

    return apply


def fold(combine: Callable[..., list[Any]], xs: Sequence[Any]) -> list[Any]:
    """Combine all the elements of arrays along axis 0, which is not empty, in log2(n) steps.

    Neighbours are combined, so that `combine(*lefts, *rights)` need be associative only.
    """
    xs = list(xs)
    while (n := np.shape(xs[0])[0]) > 1:
        even, odd = [[_slicing.slice_in_dim(x, start, n - n % 2, 2) for x in xs] for start in (0, 1)]
        pairs = combine(*even, *odd)
        if n % 2:
            last = [_slicing.slice_in_dim(x, n - 1, n) for x in xs]
            pairs = [_shape.concatenate([p, x], 0) for p, x in zip(pairs, last)]
        xs = pairs
    return [_shape.squeeze(x, (0,)) for x in xs]


class _ReferenceTrace(Trace):
    """Evaluates operations by their NumPy references."""

    __slots__ = ()

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.reference is None:
            return primitive.run(*args, **params)
        dtypes_in = [aval_of(x).dtype for x in args]
        return primitive.reference(*(np.asarray(x, dtype) for x, dtype in zip(args, dtypes_in)), **params)


def evaluate_reference(closed: ClosedJaxpr, *args: np.ndarray) -> list[np.ndarray]:
    """Apply a jaxpr in NumPy."""
    with set_current_trace(_ReferenceTrace(current_trace())):
        return [np.asarray(x) for x in eval_jaxpr(closed.jaxpr, closed.consts, *args)]
