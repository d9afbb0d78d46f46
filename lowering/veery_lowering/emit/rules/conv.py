"""Convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.registry import Context, Value, rule
from veery_lowering.emit.rules.window import up_to_the_window
from veery_lowering.errors import LoweringError
from veery_lowering.types import is_static

Spec = Sequence[int]

# How many parts are copied for a product in a convolution's place, and how many elements, 64 MB of float32.
_MOST_PARTS = 32
_MOST_COPIED = 1 << 24
# Features of the lines times those of the result: of fewer the parts are columns of few elements.
_LEAST_FEATURES = 8


@rule("conv_general_dilated", any_shape=True)
def _conv_general_dilated(ctx: Context, lhs: Value, rhs: Value, **params: Any) -> Value:
    """A complex convolution, which crashes the compiler of IREE 3.13, is four real ones."""
    out = ctx.avals_out[0]
    dtype = np.dtype(out.dtype)
    if dtype.kind != "c":
        return _real(ctx, lhs, rhs, tuple(out.shape), dtype, **params)
    part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    convolve: Callable[[Any, Any], Any] = lambda a, b: _real(ctx, a, b, tuple(out.shape), part, **params)
    (a, b), (c, d) = ((hlo.real(x), hlo.imag(x)) for x in (lhs, rhs))
    re = hlo.subtract(convolve(a, c), convolve(b, d))
    return hlo.complex(re, hlo.add(convolve(a, d), convolve(b, c)))


def _real(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    out_shape: tuple[int, ...],
    dtype: np.dtype,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    **_: Any,
) -> Value:
    """Convolve with features last, whatever the layout: transposed in and out where it differs.

    A direct NCHW convolution of 4x48x48x48 with 64 kernels of 3x3 takes 472 ms, and as long when transposed to NHWC
    and back, since IREE folds the transposes into it; with barriers between them and the convolution 1.4 ms.
    """
    if 0 in out_shape or 0 in hlo.shape_of(lhs) or 0 in hlo.shape_of(rhs):
        return hlo.full(0, out_shape, dtype)
    orders = _orders(dimension_numbers)
    lhs, rhs = _moved(lhs, orders[0]), _moved(rhs, orders[1])
    shape = [out_shape[axis] for axis in orders[2]]
    if ctx.target == "vulkan" and batch_group_count > 1:
        lhs, feature_group_count, batch_group_count = _batches_as_features(lhs, batch_group_count), batch_group_count, 1
    spatial = len(window_strides)
    for size in (*hlo.shape_of(lhs)[1:-1], *hlo.shape_of(rhs)[:-2]):
        if not is_static(size):  # IREE converts such convolutions to nothing
            raise LoweringError(
                "conv_general_dilated: the sizes of images and kernels must be known; the batch and features may be "
                "symbolic. Compile it for one size, or scan over pieces of one size"
            )
    dilations = zip(lhs_dilation or [1] * spatial, rhs_dilation or [1] * spatial)
    sizes = zip(hlo.shape_of(lhs)[1:], hlo.shape_of(rhs), shape[1:])
    window: dict[str, Any] = {
        "window_strides": window_strides,
        "padding": [up_to_the_window(*each) for each in zip(padding, sizes, dilations)],
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dtype": np.float32 if dtype.kind in "fV" and dtype.itemsize < 4 else dtype,
        "dimension_numbers": _layout(spatial),
    }
    groups = feature_group_count * batch_group_count
    product = _as_product(lhs, rhs, shape, window) if ctx.target == "cpu" and groups == 1 else None
    if product is not None:
        result = product
    elif ctx.target == "vulkan" and feature_group_count > 1 and hlo.shape_of(rhs)[-2] > 1:
        result = _group_by_group(lhs, rhs, shape, feature_group_count, window)
    else:
        result = hlo.convolution(
            lhs,
            rhs,
            shape=shape,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            **window,
        )
    result = hlo.convert(result, dtype) if hlo.dtype_of(result) != dtype else result
    back = [int(i) for i in np.argsort(orders[2])]
    if back != sorted(back):
        (result,) = hlo.optimization_barrier([result])
    return hlo.transpose(result, back)


def _orders(numbers: Any) -> tuple[list[int], list[int], list[int]]:
    """Permutations that bring operands and result to batch, space, features and space, input, output features."""
    lhs, rhs, out = (list(spec) for spec in (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec))
    return [lhs[0], *lhs[2:], lhs[1]], [*rhs[2:], rhs[1], rhs[0]], [out[0], *out[2:], out[1]]


def _moved(x: Value, order: list[int]) -> Value:
    if order == sorted(order):
        return x
    return hlo.optimization_barrier([hlo.transpose(x, order)])[0]


def _layout(spatial: int) -> str:
    space = "".join(f"{i}, " for i in range(spatial))
    return f"[b, {space}f]x[{space}i, o]->[b, {space}f]"


def _as_product(lhs: Value, rhs: Value, shape: Sequence[int], window: dict[str, Any]) -> Value | None:
    """A convolution of lines as a product with what is below the window at each place; None if there is too much of it.

    IREE 3.13 has no tiles for convolutions along one axis. ms, on two cores, of float32, by them and so: 8x1000 with 16
    features to 32, width 5, 0.66 and 0.29; with 128 to 128 36 and 4.0; 16x200 with 512 to 512, width 3, 552 and 18.
    """
    dtype = np.dtype(window["dtype"])
    if len(shape) != 3 or hlo.dtype_of(lhs) != dtype or not all(map(is_static, (*hlo.shape_of(lhs), *shape))):
        return None
    (stride,), ((low, high),) = window["window_strides"], window["padding"]
    (between,), (apart,) = window["lhs_dilation"] or (1,), window["rhs_dilation"] or (1,)
    (width, features, out), (batch, places, _) = hlo.shape_of(rhs), shape
    if (
        features * out < _LEAST_FEATURES
        or min(width, places) > _MOST_PARTS
        or batch * places * width * features > _MOST_COPIED
    ):
        return None
    zero = hlo.constant(np.zeros((), dtype))
    x = hlo.pad(lhs, zero, (0, low, 0), (0, high, 0), (0, between - 1, 0))

    def part(start: int, count: int, step: int) -> Value:
        return hlo.slice(x, (0, start, 0), (batch, start + (count - 1) * step + 1, features), (1, step, 1))

    if width <= places:
        columns = hlo.concatenate([part(k * apart, places, stride) for k in range(width)], 2)
    else:
        rows = [part(i * stride, width, apart) for i in range(places)]
        columns = hlo.concatenate([hlo.reshape(row, (batch, 1, width * features)) for row in rows], 1)
    rows = hlo.reshape(columns, (batch * places, width * features))
    product = hlo.dot_general(rows, hlo.reshape(rhs, (width * features, out)), contracting=((1,), (0,)), dtype=dtype)
    return hlo.reshape(product, shape)


def _batches_as_features(x: Value, groups: int) -> Value:
    """Groups of images as groups of features, which is the same: IREE's shaders leave zeros where a group has one."""
    batch, *space, features = hlo.shape_of(x)
    rank = 2 + len(space)
    apart = hlo.reshape(x, (groups, batch // groups, *space, features))
    order = (*range(1, rank), 0, rank)
    return hlo.reshape(hlo.transpose(apart, order), (batch // groups, *space, groups * features))


def _group_by_group(lhs: Value, rhs: Value, shape: Sequence[int], groups: int, window: dict[str, Any]) -> Value:
    """One convolution a group: grouped ones come back as zeros from the SPIR-V backend of IREE 3.13."""
    last = len(shape) - 1
    pieces = zip(_parts(lhs, last, groups), _parts(rhs, last, groups))
    part_shape = [*shape[:-1], shape[-1] // groups]
    return hlo.concatenate([hlo.convolution(a, b, shape=part_shape, **window) for a, b in pieces], last)


def _parts(x: Value, axis: int, count: int) -> list[Value]:
    shape = hlo.shape_of(x)
    size = shape[axis] // count
    parts = []
    for i in range(count):
        starts = [i * size if k == axis else 0 for k in range(len(shape))]
        limits = [(i + 1) * size if k == axis else n for k, n in enumerate(shape)]
        parts.append(hlo.slice(x, starts, limits))
    return parts
