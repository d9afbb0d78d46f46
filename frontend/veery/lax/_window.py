"""Reductions over sliding windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, tree
from veery._core.ad import LINEAR, Zero, is_undefined_primal
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_shape, check_shapelike
from veery._transforms.batching import AxisData, batch
from veery._transforms.jvp import jvp
from veery._transforms.staging import stage
from veery.lax import _compare, _computation, _shape, _slicing
from veery.lax._compare import ge_p, le_p
from veery.lax._conv import window_pullback_padding
from veery.lax._conv_dims import dilated, explicit_pads, padtype_to_pads, steps
from veery.lax._declare import ORDERED, check_dtype
from veery.lax._reference import widen

ArrayLike = Any


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce the elements that a sliding window sees, at each of its places.

    Args:
        operand: an array, or a tree of arrays of one shape.
        init_value: a tree of scalars of the same structure: what windows start from.
        computation: `(x, y) -> z` on such trees.
        window_dimensions: the window's size in each dimension.
        window_strides: its steps, None for ones.
        padding: "VALID", "SAME", "SAME_LOWER", or (low, high) for each dimension. What a window sees of it is left out.
        base_dilation: spacing of the operand's elements (padding lies between), None for ones.
        window_dilation: spacing of the window's elements, None for ones.

    Returns:
        A tree of the same structure.

    Raises:
        TypeError: sizes do not fit the operand, or dtypes of operands and initial values differ.
        ValueError: the trees differ.

    >>> from veery import lax
    >>> lax.reduce_window(lax.iota("int32", 5), 0, lax.add, (2,)).tolist()
    [1, 3, 5, 7]
    """
    operands, structure = tree.tree_flatten(operand)
    inits, init_structure = tree.tree_flatten(init_value)
    if structure != init_structure:
        raise ValueError(f"Operands must have the same tree structure as init_values: {structure} vs. {init_structure}")
    if not operands:
        raise ValueError("reduce_window must have at least one operand.")
    params = _window_params(
        np.shape(operands[0]), window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    init_avals: list[Any] = [aval_of(x) for x in inits]
    jaxpr = _computation.stage_computation("reduce_window", computation, init_avals, structure.unflatten)
    monoid = _computation.monoid(jaxpr, operands, inits)
    if monoid is not None:
        return structure.unflatten([_reduce_monoid(monoid, operands[0], inits[0], jaxpr, params)])
    count = len(operands)
    if any(map(any, params["padding"])) or any(d != 1 for d in params["base_dilation"]):
        operands, inits, jaxpr = _marked(operands, inits, jaxpr)
    operands, params = _without_crop(operands, inits, params)
    return structure.unflatten(reduce_window_p.bind(*operands, *inits, jaxpr=jaxpr, **params)[:count])


def _reduce_monoid(name: str, x: Any, init: Any, jaxpr: ClosedJaxpr, params: dict[str, Any]) -> Any:
    """The reduction by one operation, whose neutral element is what padding holds."""
    neutral = _computation.identities(aval_of(x).dtype)[name]
    (x,), params = _without_crop([x], [neutral], params)
    if name in _REDUCERS:
        out = _REDUCERS[name].bind(x, **params)
    else:
        (out,) = reduce_window_p.bind(x, neutral, jaxpr=jaxpr, **params)
    return _computation.joined(name, jaxpr, init, out)


def _marked(
    operands: Sequence[Any], inits: Sequence[Any], jaxpr: ClosedJaxpr
) -> tuple[list[Any], list[Any], ClosedJaxpr]:
    """The same reduction of elements and whether they are there, as padding is not, which holds `inits`.

    Those need not be neutral: XLA leaves padding out, where StableHLO's specification would have it combined.
    """
    there = _shape.broadcast_in_dim(np.True_, np.shape(operands[0]), ())
    count = len(operands)

    def combine(*scalars: Any) -> list[Any]:
        left, right = scalars[: count + 1], scalars[count + 1 :]
        combined = eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *left[:count], *right[:count])
        return [*(_compare.select(right[count], new, old) for new, old in zip(combined, left)), left[count]]

    scalars = [*jaxpr.in_avals[:count], ShapedArray((), np.dtype(np.bool_))]
    return [*operands, there], [*inits, np.False_], stage(combine, [*scalars, *scalars])


def _window_params(
    shape: Shape, window: Any, strides: Any, padding: Any, base_dilation: Any, window_dilation: Any
) -> dict[str, Any]:
    window = canonicalize_shape(window)
    ones = (1,) * len(window)
    strides, base_dilation, window_dilation = (
        ones if sizes is None else canonicalize_shape(sizes) for sizes in (strides, base_dilation, window_dilation)
    )
    if isinstance(padding, str):
        sizes = dilated(shape, base_dilation)
        padding = padtype_to_pads(sizes, dilated(window, window_dilation), strides, padding)
    return {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": explicit_pads(padding),
        "base_dilation": base_dilation,
        "window_dilation": window_dilation,
    }


def _without_crop(
    operands: Sequence[Any], inits: Sequence[Any], params: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Negative padding done beforehand, with the dilation, since holes are cropped like elements."""
    padding, dilation = params["padding"], params["base_dilation"]
    if all(pad >= 0 for pads in padding for pad in pads):
        return list(operands), params
    crop = [(min(lo, 0), min(hi, 0), d - 1) for (lo, hi), d in zip(padding, dilation)]
    rest = tuple((max(lo, 0), max(hi, 0)) for lo, hi in padding)
    cropped = [_shape.pad(x, init, crop) for x, init in zip(operands, inits)]
    return cropped, params | {"padding": rest, "base_dilation": (1,) * len(dilation)}


def reduce_window_shape_tuple(
    operand_shape: Shape,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The shape of a reduction over windows."""
    sizes = [n + lo + hi for n, (lo, hi) in zip(dilated(operand_shape, base_dilation), padding)]
    return tuple(map(steps, sizes, dilated(window_dimensions, window_dilation), window_strides))


def _window_shape(x: ShapedArray, window_dimensions: Shape, **params: Any) -> Shape:
    check_shapelike("reduce_window", "window_dimensions", window_dimensions, positive=True)
    if x.ndim != len(window_dimensions):
        raise TypeError(
            f"reduce_window got the wrong number of window_dimensions for operand: got operand shape {x.shape} with "
            f"window_dimensions {window_dimensions}."
        )
    for name in ("window_strides", "base_dilation", "window_dilation"):
        check_shapelike("reduce_window", name, params[name], positive=True)
        if len(params[name]) != x.ndim:
            raise TypeError(
                f"reduce_window got inconsistent {name} and window_dimensions: got {name} {params[name]} and "
                f"window_dimensions {window_dimensions}."
            )
    if len(params["padding"]) != x.ndim:
        raise TypeError(f"reduce_window needs a pair of padding for each dimension, got {params['padding']}.")
    return reduce_window_shape_tuple(x.shape, window_dimensions, **params)


def _insert(params: dict[str, Any], at: int) -> dict[str, Any]:
    """The parameters of windows that do not reach along a new dimension."""
    return {
        name: (*value[:at], (0, 0) if name == "padding" else 1, *value[at:]) if isinstance(value, tuple) else value
        for name, value in params.items()
    }


def _window_elements(x: Any, fill: Any, params: dict[str, Any]) -> list[Any]:
    """For each place within the window, the array of what the windows see there."""
    config = [(lo, hi, d - 1) for (lo, hi), d in zip(params["padding"], params["base_dilation"])]
    padded = _shape.pad(x, fill, config)
    window, dilation, strides = params["window_dimensions"], params["window_dilation"], params["window_strides"]
    counts = [steps(n, k, s) for n, k, s in zip(np.shape(padded), dilated(window, dilation), strides)]
    elements = []
    for place in itertools.product(*map(range, window)):
        starts = [p * d if n else 0 for p, d, n in zip(place, dilation, counts)]
        limits = [a + (n - 1) * s + 1 if n else 0 for a, n, s in zip(starts, counts, strides)]
        elements.append(_slicing.slice(padded, starts, limits, strides))
    return elements


def _patches(x: np.ndarray, fill: Any, params: dict[str, Any]) -> np.ndarray:
    """The same in NumPy: (places in the window, *shape of the result)."""
    config = [(lo, hi, d - 1) for (lo, hi), d in zip(params["padding"], params["base_dilation"])]
    padded = _shape.pad_p.reference(x, np.asarray(fill, x.dtype), padding_config=config)  # type: ignore[misc]
    window, dilation, strides = params["window_dimensions"], params["window_dilation"], params["window_strides"]
    counts = [steps(n, k, s) for n, k, s in zip(padded.shape, dilated(window, dilation), strides)]
    places = list(itertools.product(*map(range, window)))
    out = np.empty((len(places), *counts), x.dtype)
    for i, place in enumerate(places):
        index = tuple(slice(p * d, p * d + n * s, s) for p, d, n, s in zip(place, dilation, counts, strides))
        out[i] = padded[index][tuple(slice(0, n) for n in counts)]
    return out


# ---------------------------------------------------------------------------------------------------------------------
# sums and extrema


def _window_primitive(name: str, accepts: Any, reference: Any, *, jvp: Any, transpose: Any = None) -> Primitive:
    def abstract_eval(x: ShapedArray, **params: Any) -> ShapedArray:
        check_dtype(name, x.dtype, accepts)
        return ShapedArray(_window_shape(x, **params), x.dtype, x.weak_type)

    def batch(args: Sequence[Any], dims: Sequence[int], **params: Any) -> tuple[Any, int]:
        return primitive.bind(args[0], **_insert(params, dims[0])), dims[0]

    primitive = Primitive(
        name, abstract_eval=abstract_eval, jvp=jvp, transpose=transpose, batch=batch, reference=reference
    )
    return primitive


def _sum_transpose(ct: Any, x: Any, **params: Any) -> list[Any]:
    """Each input gets the cotangents of the windows it was in: a sum over windows of the dilated cotangent."""
    shape = x.aval.shape
    strides = params["window_strides"]
    pads = window_pullback_padding(
        shape,
        params["window_dimensions"],
        strides,
        np.shape(ct),
        params["padding"],
        params["base_dilation"],
        params["window_dilation"],
    )
    config = [(lo, hi, s - 1) for (lo, hi), s in zip(pads, strides)]
    padded = _shape.pad(ct, np.zeros((), aval_of(ct).dtype), config)
    changed = {
        "window_strides": params["base_dilation"],
        "base_dilation": (1,) * len(shape),
        "padding": ((0, 0),) * len(shape),
    }
    return [reduce_window_sum_p.bind(padded, **(params | changed))]


def _sum_reference(x: np.ndarray, **params: Any) -> np.ndarray:
    wide = widen(x) if dtypes.issubdtype(x.dtype, np.inexact) else x
    with np.errstate(all="ignore"):
        return np.asarray(np.sum(_patches(wide, 0, params), axis=0, dtype=wide.dtype)).astype(x.dtype)


reduce_window_sum_p = _window_primitive(
    "reduce_window_sum", (np.number,), _sum_reference, jvp=LINEAR, transpose=_sum_transpose
)


def _extreme_jvp(select_prim: Primitive) -> Callable[..., Any]:
    """The tangent of the first element of each window that is extreme."""

    def rule(t: Any, out: Any, x: Any, **params: Any) -> Any:
        if any(d != 1 for d in params["window_dilation"]):
            return _extreme_tangent_spelled_out(select_prim, t, x, params)
        fill = _neutral(select_prim, aval_of(x).dtype)
        if any(d != 1 for d in params["base_dilation"]):
            config = [(0, 0, d - 1) for d in params["base_dilation"]]
            x, t = _shape.pad(x, fill, config), _shape.pad(t, np.zeros((), aval_of(t).dtype), config)
        kept = {k: params[k] for k in ("window_dimensions", "window_strides", "padding")}
        return select_and_gather_add_p.bind(t, x, select_prim=select_prim, **kept)

    return rule


def _extreme_tangent_spelled_out(select_prim: Primitive, t: Any, x: Any, params: dict[str, Any]) -> Any:
    """Element by element of the window, for windows with holes."""
    values = _window_elements(x, _neutral(select_prim, aval_of(x).dtype), params)
    tangents = _window_elements(t, np.zeros((), aval_of(t).dtype), params)
    best, t_best = values[0], tangents[0]
    for value, tangent in zip(values[1:], tangents[1:]):
        stays = select_prim.bind(best, value)
        best, t_best = _compare.select(stays, best, value), _compare.select(stays, t_best, tangent)
    return t_best


def _neutral(select_prim: Primitive, dtype: Any) -> Any:
    return _computation.lowest(dtype) if select_prim is ge_p else _computation.highest(dtype)


def _extreme_reference(function: Any, fill: Callable[[Any], Any]) -> Callable[..., np.ndarray]:
    return lambda x, **params: np.asarray(function(_patches(x, fill(x.dtype), params), axis=0)).astype(x.dtype)


reduce_window_max_p = _window_primitive(
    "reduce_window_max",
    (*ORDERED, np.bool_),
    _extreme_reference(np.max, _computation.lowest),
    jvp=(_extreme_jvp(ge_p),),
)
reduce_window_min_p = _window_primitive(
    "reduce_window_min",
    (*ORDERED, np.bool_),
    _extreme_reference(np.min, _computation.highest),
    jvp=(_extreme_jvp(le_p),),
)

_REDUCERS = {"add": reduce_window_sum_p, "max": reduce_window_max_p, "min": reduce_window_min_p}


# ---------------------------------------------------------------------------------------------------------------------
# any function


def _reduce_window_abstract_eval(*avals: ShapedArray, jaxpr: ClosedJaxpr, **params: Any) -> list[ShapedArray]:
    count = len(avals) // 2
    operands, inits = avals[:count], avals[count:]
    if any(a.shape for a in inits):
        raise TypeError(
            f"reduce_window expected init_values to be scalars but init_values have shapes {[a.shape for a in inits]}."
        )
    if len({a.shape for a in operands}) != 1:
        raise TypeError(f"reduce_window operands must have the same shapes, got {[a.shape for a in operands]}.")
    if [a.dtype for a in operands] != [a.dtype for a in inits]:
        raise TypeError(
            f"reduce_window got operands and init_values of different dtypes: {[a.dtype.name for a in operands]} and "
            f"{[a.dtype.name for a in inits]}."
        )
    if [a.dtype for a in jaxpr.out_avals] != [a.dtype for a in inits] or any(a.shape for a in jaxpr.out_avals):
        raise TypeError(
            f"reduce_window computation must return scalars of the types of init_values {list(inits)}, got "
            f"{list(jaxpr.out_avals)}."
        )
    shape = _window_shape(operands[0], **params)
    return [ShapedArray(shape, x.dtype, x.weak_type and init.weak_type) for x, init in zip(operands, inits)]


def _fold_windows(args: Sequence[Any], jaxpr: ClosedJaxpr, params: dict[str, Any]) -> list[Any]:
    """The reduction spelled out in operations that have derivatives."""
    count = len(args) // 2
    elements = [_window_elements(x, init, params) for x, init in zip(args[:count], args[count:])]
    shape = np.shape(elements[0][0])
    total = [_shape.broadcast_in_dim(init, shape, ()) for init in args[count:]]
    combine = _computation.vectorized(jaxpr)
    for seen in zip(*elements):
        total = combine(*total, *seen)
    return total


def _reduce_window_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[Any, Any]:
    return jvp(lambda *args: _fold_windows(args, jaxpr, params), primals, tangents)


def _reduce_window_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[Any, Any]:
    count = len(args) // 2
    size = _shape.batch_size(args, dims)
    if all(d is None for d in dims[count:]):
        xs = [_shape.bdim_at_front(x, d, size) for x, d in zip(args[:count], dims)]
        return reduce_window_p.bind(*xs, *args[count:], jaxpr=jaxpr, **_insert(params, 0)), [0] * count
    # the operation takes one initial value for all
    return batch(lambda *xs: _fold_windows(xs, jaxpr, params), AxisData(None, size), args, dims)


def _reduce_window_reference(*args: np.ndarray, jaxpr: ClosedJaxpr, **params: Any) -> list[np.ndarray]:
    count = len(args) // 2
    patches = [_patches(x, init, params) for x, init in zip(args[:count], args[count:])]
    outs = [np.empty(p.shape[1:], p.dtype) for p in patches]
    for index in np.ndindex(*outs[0].shape):
        total = [np.asarray(init) for init in args[count:]]
        for place in range(math.prod(params["window_dimensions"])):
            total = _computation.evaluate_reference(jaxpr, *total, *(p[(place, *index)] for p in patches))
        for out, value in zip(outs, total):
            out[index] = value
    return outs


reduce_window_p = Primitive(
    "reduce_window",
    abstract_eval=_reduce_window_abstract_eval,
    jvp=_reduce_window_jvp,
    batch=_reduce_window_batch,
    reference=_reduce_window_reference,
    multiple_results=True,
)


# ---------------------------------------------------------------------------------------------------------------------
# the derivatives of extrema: reading from, and adding to, the element of each window that is selected
#
# select_prim is ge for the maximum and le for the minimum: an element is kept against those after it for which
# select_prim(element, other) holds, so that the first of equals is selected. Padding never is.


def _all_ones(params: dict[str, Any]) -> dict[str, Any]:
    ones = (1,) * len(params["window_dimensions"])
    kept = {k: params[k] for k in ("window_dimensions", "window_strides", "padding")}
    return kept | {"base_dilation": ones, "window_dilation": ones}


def _check_source(name: str, source: ShapedArray, expected: Shape, x: ShapedArray, expectation: str) -> None:
    check_dtype(name, x.dtype, (*ORDERED, np.bool_))
    if source.shape != expected:
        raise TypeError(f"{name} {expectation}, got {source.shape} and {expected}.")


def _gather_add_abstract_eval(t: ShapedArray, x: ShapedArray, *, select_prim: Primitive, **params: Any) -> ShapedArray:
    _check_source("select_and_gather_add", t, x.shape, x, "tangents and operand shapes must match")
    return ShapedArray(_window_shape(x, **_all_ones(params)), t.dtype)


def _scatter_add_abstract_eval(
    source: ShapedArray, x: ShapedArray, *, select_prim: Primitive, **params: Any
) -> ShapedArray:
    shape = _window_shape(x, **_all_ones(params))
    _check_source("select_and_scatter_add", source, shape, x, "source must have the shape of the windows")
    return ShapedArray(x.shape, source.dtype)


def _selected_places(x: np.ndarray, select_prim: Primitive, params: dict[str, Any]) -> np.ndarray:
    """The flat index into x of the element that each window selects, -1 where it sees only padding."""
    params = _all_ones(params)
    places = _patches(np.arange(x.size).reshape(x.shape), -1, params)
    values = _patches(x, np.zeros((), x.dtype), params)
    keeps = np.greater_equal if select_prim is ge_p else np.less_equal
    best, place = values[0], places[0]
    for value, other in zip(values[1:], places[1:]):
        stays = (other < 0) | ((place >= 0) & keeps(best, value))
        best, place = np.where(stays, best, value), np.where(stays, place, other)
    return place


def _gather_add_reference(t: np.ndarray, x: np.ndarray, *, select_prim: Primitive, **params: Any) -> np.ndarray:
    place = _selected_places(x, select_prim, params)
    seen = t.ravel()[place] if t.size else np.zeros(place.shape, t.dtype)
    return np.where(place >= 0, seen, np.zeros((), t.dtype))


def _scatter_add_reference(source: np.ndarray, x: np.ndarray, *, select_prim: Primitive, **params: Any) -> np.ndarray:
    place = _selected_places(x, select_prim, params)
    wide = widen(source) if dtypes.issubdtype(source.dtype, np.inexact) else source
    out = np.zeros(x.size, wide.dtype)
    np.add.at(out, place[place >= 0], wide[place >= 0])
    return out.reshape(x.shape).astype(source.dtype)


def _in_first(primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The jvp of an operation that is linear in its first operand and locally constant in the second."""
    out = primitive.bind(*primals, **params)
    t = tangents[0]
    return out, Zero.from_primal_value(out) if type(t) is Zero else primitive.bind(t, primals[1], **params)


def _select_batch(
    primitive: Primitive, args: Sequence[Any], dims: Sequence[int | None], params: dict[str, Any]
) -> tuple[Any, int]:
    size = _shape.batch_size(args, dims)
    xs = [_shape.bdim_at_front(x, d, size) for x, d in zip(args, dims)]
    return primitive.bind(*xs, **_insert(params, 0)), 0


def _select_transpose(other: Callable[[], Primitive]) -> Callable[..., list[Any]]:
    def rule(ct: Any, source: Any, x: Any, **params: Any) -> list[Any]:
        assert is_undefined_primal(source)
        return [other().bind(ct, x, **params), None]

    return rule


def _select_primitive(name: str, other: Callable[[], Primitive], **rules: Any) -> Primitive:
    primitive = Primitive(name, transpose=_select_transpose(other), **rules)
    primitive.jvp = lambda primals, tangents, **params: _in_first(primitive, primals, tangents, params)
    primitive.batch = lambda args, dims, **params: _select_batch(primitive, args, dims, params)
    return primitive


select_and_gather_add_p: Primitive = _select_primitive(
    "select_and_gather_add",
    lambda: select_and_scatter_add_p,
    abstract_eval=_gather_add_abstract_eval,
    reference=_gather_add_reference,
)
select_and_scatter_add_p: Primitive = _select_primitive(
    "select_and_scatter_add",
    lambda: select_and_gather_add_p,
    abstract_eval=_scatter_add_abstract_eval,
    reference=_scatter_add_reference,
)
