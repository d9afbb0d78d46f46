"""Convolutions."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes
from veery._core.ad import MULTILINEAR, is_undefined_primal
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery._core.shapes import canonicalize_shape
from veery.lax import _convert, _fill, _shape
from veery.lax._contract import Precision, PrecisionLike, canonicalize_precision, dot_general, product_dtype
from veery.lax._conv_dims import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    Pads,
    check_conv,
    conv_dimension_numbers,
    conv_shape_tuple,
    conv_transpose_padding,
    dilated,
    explicit_pads,
    padtype_to_pads,
)
from veery.lax._placement import lays_out
from veery.lax._reference import widen

ArrayLike = Any


@lays_out
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convolution (without flipping the kernel) over any number of spatial dimensions.

    Args:
        lhs: input with batch, feature and spatial dimensions.
        rhs: kernel with output feature, input feature and spatial dimensions.
        window_strides: step of the kernel in each spatial dimension.
        padding: "SAME", "SAME_LOWER", "VALID", or (low, high) for each spatial dimension.
        lhs_dilation: spacing of the input's elements, None for ones.
        rhs_dilation: spacing of the kernel's elements, None for ones.
        dimension_numbers: layouts, e.g. ("NHWC", "HWIO", "NHWC"); None for ("NCHW", "OIHW", "NCHW") and its like.
        feature_group_count: number of groups of features that are convolved separately.
        batch_group_count: number of groups of the batch that are convolved with a group of output features each.
        precision: see lax.Precision.
        preferred_element_type: dtype of the sums and the result.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Raises:
        ValueError: shapes, groups, strides or padding do not fit.
        TypeError: the layouts or dtypes do not fit.

    >>> from veery import lax
    >>> x, kernel = lax.full((1, 1, 4), 1.0), lax.full((1, 1, 2), 1.0)
    >>> lax.conv_general_dilated(x, kernel, (1,), "VALID").tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    lhs_shape, rhs_shape = np.shape(lhs), np.shape(rhs)
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ones = (1,) * (len(lhs_shape) - 2)
    if isinstance(padding, str) and lhs_dilation is not None and any(d != 1 for d in lhs_dilation):
        raise ValueError(
            "String padding is not implemented for transposed convolution using this op. Please either exactly specify "
            "the required padding or use conv_transpose."
        )
    lhs_dilation = ones if lhs_dilation is None else canonicalize_shape(lhs_dilation)
    rhs_dilation = ones if rhs_dilation is None else canonicalize_shape(rhs_dilation)
    strides = canonicalize_shape(window_strides)
    if isinstance(padding, str):
        window = dilated([rhs_shape[i] for i in numbers.rhs_spec[2:]], rhs_dilation)
        padding = padtype_to_pads([lhs_shape[i] for i in numbers.lhs_spec[2:]], window, strides, padding)
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(
            preferred_element_type, "conv_general_dilated"
        )
    return conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=explicit_pads(padding),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
    )


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution of (N, C, space) with (O, I, space); see conv_general_dilated."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution of (N, C, space) with (O, I, space), padded and dilated; see conv_general_dilated."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose(
    lhs: Array,
    rhs: Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Transposed ("fractionally strided") convolution.

    Args:
        lhs: input.
        rhs: kernel.
        strides: of the convolution that this transposes.
        padding: "SAME" or "VALID", of that convolution; or pairs, of this one unless use_consistent_padding.
        rhs_dilation: spacing of the kernel's elements.
        dimension_numbers: layouts; None for ("NHWC", "HWIO", "NHWC") and its like.
        transpose_kernel: whether to flip the kernel in space and swap its features, as in the gradient of the
            convolution.
        precision: see lax.Precision.
        preferred_element_type: dtype of the sums and the result.
        use_consistent_padding: whether pairs are the padding of the convolution, as words are.

    Raises:
        ValueError: there is no default layout for so many dimensions.
    """
    ndim = np.ndim(lhs)
    layouts = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC")}
    layouts[5] = ("NHWDC", "HWDIO", "NHWDC")
    if dimension_numbers is None and ndim not in layouts:
        raise ValueError("No 4+ dimensional dimension_number defaults.")
    numbers = conv_dimension_numbers(np.shape(lhs), np.shape(rhs), dimension_numbers or layouts[ndim])
    dilation = (1,) * (ndim - 2) if rhs_dilation is None else canonicalize_shape(rhs_dilation)
    if use_consistent_padding or padding in ("SAME", "VALID"):
        window = dilated([np.shape(rhs)[i] for i in numbers.rhs_spec[2:]], dilation)
        each: Any = [padding] * len(window) if isinstance(padding, str) else padding
        padding = [conv_transpose_padding(k, s, p) for k, s, p in zip(window, strides, each)]
    if transpose_kernel:
        rhs = _swap_features(_shape.rev(rhs, numbers.rhs_spec[2:]), numbers.rhs_spec)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * (ndim - 2),
        padding,
        strides,
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _swap_features(kernel: Any, spec: Shape) -> Any:
    order = list(range(np.ndim(kernel)))
    order[spec[0]], order[spec[1]] = order[spec[1]], order[spec[0]]
    return _shape.transpose(kernel, order)


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: Precision | None = None,
    preferred_element_type: Any = None,
) -> Array:
    """The patches of the input that a kernel sees, flattened (features major) into the feature dimension.

    Args:
        lhs: input.
        filter_shape: sizes of the patches.
        window_strides: their steps.
        padding: as for conv_general_dilated.
        lhs_dilation: spacing of the input's elements.
        rhs_dilation: spacing of the patches' elements.
        dimension_numbers: layouts.
        precision: see lax.Precision.
        preferred_element_type: dtype of the result.
    """
    filter_shape = canonicalize_shape(filter_shape)
    numbers = conv_dimension_numbers(np.shape(lhs), (1, 1, *filter_shape), dimension_numbers)
    features, size = np.shape(lhs)[numbers.lhs_spec[1]], math.prod(filter_shape)
    # a kernel for each element of a patch, with a single one in it
    eye = np.tile(np.eye(size, dtype=aval_of(lhs).dtype), (features, 1)).reshape(features * size, 1, *filter_shape)
    kernel = np.transpose(eye, np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision=None if precision is None else (precision, Precision.DEFAULT),
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """Convolution with a kernel of its own at each place.

    Args:
        lhs: input.
        rhs: kernels, whose spatial dimensions are those of the result and whose input feature dimension runs over
            flattened patches (see conv_general_dilated_patches).
        window_strides: step of the kernel.
        padding: as for conv_general_dilated.
        filter_shape: sizes of the kernels.
        lhs_dilation: spacing of the input's elements.
        rhs_dilation: spacing of the kernel's elements.
        dimension_numbers: layouts.
        precision: see lax.Precision.
    """
    pair = canonicalize_precision(precision)
    if pair is not None and not isinstance(pair, tuple):
        raise ValueError(f"Unsupported precision for conv_general_dilated_local: {precision}")
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        None if pair is None else pair[0],
    )
    shape = (1, 1, *canonicalize_shape(filter_shape))
    _, rhs_spec, out_spec = conv_dimension_numbers(np.shape(lhs), shape, dimension_numbers)
    places = sorted(zip(out_spec[2:], rhs_spec[2:]))
    batch = tuple(a for a, _ in places), tuple(b for _, b in places)
    out = dot_general(patches, rhs, (((out_spec[1],), (rhs_spec[1],)), batch), precision)
    return _shape.moveaxis(out, (-2, -1), (out_spec[0], out_spec[1]))


# ---------------------------------------------------------------------------------------------------------------------
# rules


def _abstract_eval(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    window_strides: Shape,
    padding: Pads,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
) -> ShapedArray:
    check_conv(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
    if lhs.dtype != rhs.dtype:
        raise TypeError(
            f"lax.conv_general_dilated requires arguments to have the same dtypes, got {lhs.dtype.name}, "
            f"{rhs.dtype.name}."
        )
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if len(rhs_spec) - 2 != len(window_strides):
        raise ValueError(
            f"conv_general_dilated window and window_strides must have the same number of dimensions, but got "
            f"{len(rhs_spec) - 2} and {len(window_strides)}"
        )
    n, c, *space = (lhs.shape[i] for i in lhs_spec)
    o, i, *window = (rhs.shape[i] for i in rhs_spec)
    shape = conv_shape_tuple(
        (n, c, *dilated(space, lhs_dilation)),
        (o, i, *dilated(window, rhs_dilation)),
        window_strides,
        padding,
        batch_group_count,
    )
    dtype = product_dtype("lax.conv_general_dilated", lhs.dtype, rhs.dtype, preferred_element_type)
    return ShapedArray([shape[k] for k in np.argsort(out_spec)], dtype, lhs.weak_type and rhs.weak_type)


def _split(x: Any, axis: int, groups: int) -> Any:
    """The axis as two: (groups, the rest)."""
    shape = np.shape(x)
    return _shape.reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))


def _merge(x: Any, source: int, axis: int) -> Any:
    """Axis `source` merged, as the major part, into another; `axis` counts without `source`."""
    x = _shape.moveaxis(x, source, axis)
    return _shape.collapse(x, axis, axis + 2)


def _swapped(spec: Shape) -> Shape:
    """The layout with its first two roles exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _sizes(shape: Shape, spec: Shape) -> list[int]:
    return [shape[i] for i in spec[2:]]


def window_pullback_padding(
    in_sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    out_sizes: Sequence[int],
    padding: Pads,
    in_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Pads:
    """The padding with which the flipped window slides over the (dilated) cotangent, one result for each input.

    Element i of the dilated input, lo + i after padding, is at place k of windows that start at lo + i - k; so k runs
    backwards from the window's end, lo + i - (window - 1), which is the padding before for i = 0.
    """
    pads = []
    wide, full = dilated(in_sizes, in_dilation), dilated(out_sizes, strides)
    for n, k, out, (lo, _) in zip(wide, dilated(window, window_dilation), full, padding):
        before = k - lo - 1
        pads.append((before, n + k - 1 - out - before))
    return tuple(pads)


def _pull_back_to_lhs(ct: Any, lhs: ShapedArray, rhs: Any, params: dict[str, Any]) -> Any:
    """The cotangent convolved with the kernel flipped in space and with its features exchanged.

    Groups of features stay groups: the kernel's output features, grouped, become its input features. Groups of the
    batch become groups of features, whose results are put side by side in the batch.
    """
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups = params["batch_group_count"]
    count = max(groups, params["feature_group_count"])
    padding = window_pullback_padding(
        _sizes(lhs.shape, lhs_spec),
        _sizes(np.shape(rhs), rhs_spec),
        params["window_strides"],
        _sizes(np.shape(ct), out_spec),
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    )
    if count > 1:
        outs = rhs_spec[0]
        rhs = _split(rhs, outs, count)
        rhs = _merge(rhs, outs, rhs_spec[1])
    changed = {
        "window_strides": params["lhs_dilation"],
        "lhs_dilation": params["window_strides"],
        "padding": padding,
        "dimension_numbers": ConvDimensionNumbers(out_spec, _swapped(rhs_spec), lhs_spec),
        "feature_group_count": count,
        "batch_group_count": 1,
    }
    out = conv_general_dilated_p.bind(ct, _shape.rev(rhs, rhs_spec[2:]), **(params | changed))
    if groups == 1:
        return out
    return _merge(_split(out, lhs_spec[1], groups), lhs_spec[1], lhs_spec[0])


def _pull_back_to_rhs(ct: Any, lhs: Any, rhs: ShapedArray, params: dict[str, Any]) -> Any:
    """The input convolved with the cotangent as the kernel, features in the place of batches and the reverse."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    padding = []
    space = dilated(_sizes(np.shape(lhs), lhs_spec), params["lhs_dilation"])
    window = dilated(_sizes(rhs.shape, rhs_spec), params["rhs_dilation"])
    slid = dilated(_sizes(np.shape(ct), out_spec), params["window_strides"])
    for n, k, out, (lo, _) in zip(space, window, slid, params["padding"]):
        # the kernel's k dilated places: n + lo + hi - out + 1 = k
        padding.append((lo, k - 1 + out - n - lo))
    changed = {
        "window_strides": params["rhs_dilation"],
        "rhs_dilation": params["window_strides"],
        "padding": tuple(padding),
        "dimension_numbers": ConvDimensionNumbers(_swapped(lhs_spec), _swapped(out_spec), _swapped(rhs_spec)),
        "feature_group_count": params["batch_group_count"],
        "batch_group_count": params["feature_group_count"],
    }
    return conv_general_dilated_p.bind(lhs, ct, **(params | changed))


def _as(x: Any, dtype: Any) -> Any:
    return x if aval_of(x).dtype == dtype else _convert.convert_element_type(x, dtype)


def _transpose(ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    dtype = aval_of(ct).dtype
    params["preferred_element_type"] = None
    if is_undefined_primal(lhs):
        return [_as(_pull_back_to_lhs(ct, lhs.aval, _as(rhs, dtype), params), lhs.aval.dtype), None]
    return [None, _as(_pull_back_to_rhs(ct, _as(lhs, dtype), rhs.aval, params), rhs.aval.dtype)]


def _batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int]:
    """Batches go where the operation has groups or independent elements already.

    Of both operands: examples are groups (of features, or of the batch if it is grouped). Of the input: they are more
    of the batch. Of the kernel: they are more output features. Where these are grouped, within each group.
    """
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    size = _shape.batch_size(args, dims)
    if not size:  # there are no groups of nothing
        shapes = [np.delete(np.shape(x), [] if d is None else d) for x, d in zip(args, dims)]
        out = _abstract_eval(*(aval_of(x).update(shape=tuple(s)) for x, s in zip(args, shapes)), **params)
        return _fill.full((0, *out.shape), 0, out.dtype), 0
    if lhs_dim is not None and rhs_dim is not None:
        grouped_batch = params["batch_group_count"] > 1
        lhs = _merge(lhs, lhs_dim, lhs_spec[0] if grouped_batch else lhs_spec[1])
        rhs = _merge(rhs, rhs_dim, rhs_spec[0])
        count = "batch_group_count" if grouped_batch else "feature_group_count"
        out = conv_general_dilated_p.bind(lhs, rhs, **(params | {count: size * params[count]}))
        return _split(out, out_spec[1], size), out_spec[1]
    if lhs_dim is not None:
        groups = params["batch_group_count"]
        lhs = _merge_within(lhs, lhs_dim, lhs_spec[0], groups)
        out = conv_general_dilated_p.bind(lhs, rhs, **params)
        return _split(out, out_spec[0], size), out_spec[0]
    assert rhs_dim is not None
    groups = max(params["feature_group_count"], params["batch_group_count"])
    rhs = _merge_within(rhs, rhs_dim, rhs_spec[0], groups)
    out = conv_general_dilated_p.bind(lhs, rhs, **params)
    axis = out_spec[1]
    if groups == 1:
        return _split(out, axis, size), axis
    out = _split(_split(out, axis, groups), axis + 1, size)
    return _shape.collapse(_shape.moveaxis(out, axis + 1, axis), axis + 1, axis + 3), axis


def _merge_within(x: Any, source: int, axis: int, groups: int) -> Any:
    """Axis `source` merged into each of the groups of another; `axis` counts without `source`."""
    if groups == 1:
        return _merge(x, source, axis)
    x = _split(_shape.moveaxis(x, source, 0), axis + 1, groups)
    x = _shape.moveaxis(x, 0, axis + 1)
    return _shape.collapse(x, axis, axis + 3)


def _reference(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    window_strides: Shape,
    padding: Pads,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
) -> np.ndarray:
    """A matrix product for each place in the kernel, in wide floats, group by group."""
    dtype = product_dtype("conv_general_dilated", lhs.dtype, rhs.dtype, preferred_element_type)
    wide = widen if dtypes.issubdtype(dtype, np.inexact) else lambda x: x.astype(dtype)
    x, kernel = wide(np.transpose(lhs, dimension_numbers.lhs_spec)), wide(np.transpose(rhs, dimension_numbers.rhs_spec))
    config = [(0, 0, 0), (0, 0, 0)] + [(lo, hi, d - 1) for (lo, hi), d in zip(padding, lhs_dilation)]
    x = _shape.pad_p.reference(x, np.zeros((), x.dtype), padding_config=config)  # type: ignore[misc]
    groups = max(feature_group_count, batch_group_count)
    xs = np.split(x, groups, 0 if batch_group_count > 1 else 1) if groups > 1 else [x]
    outs = []
    for part, group in zip(xs, np.split(kernel, groups, 0)):
        window = dilated(group.shape[2:], rhs_dilation)
        space = [max(0, (n - k) // s + 1) for n, k, s in zip(part.shape[2:], window, window_strides)]
        out = np.zeros((part.shape[0], group.shape[0], *space), x.dtype)
        for place in itertools.product(*map(range, group.shape[2:])):
            starts = [p * d for p, d in zip(place, rhs_dilation)]
            seen = part
            for axis, (a, n, s) in enumerate(zip(starts, space, window_strides), 2):
                seen = seen.take(range(a, a + n * s, s), axis)
            taps = np.moveaxis(group, (0, 1), (-2, -1))[place]
            out += np.moveaxis(np.tensordot(seen, taps, ([1], [1])), -1, 1)
        outs.append(out)
    return np.transpose(np.concatenate(outs, 1), np.argsort(dimension_numbers.out_spec)).astype(dtype)


def _cost(eqn: JaxprEqn) -> cost.Cost:
    """A product and a sum for each element of the kernel that an element of the result stems from."""
    kernel, features = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"].rhs_spec[0]
    return cost.Cost(flops=2 * math.prod(eqn.outvars[0].aval.shape) * math.prod(kernel) // max(1, kernel[features]))


conv_general_dilated_p = Primitive(
    "conv_general_dilated",
    checks=("nan",),
    cost=_cost,
    abstract_eval=_abstract_eval,
    jvp=MULTILINEAR,
    transpose=_transpose,
    batch=_batch,
    reference=_reference,
)
