"""The layouts, paddings and shapes of convolutions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core.avals import Shape, ShapedArray

Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(NamedTuple):
    """Which dimension of a convolution's arrays is what.

    Attributes:
        lhs_spec: the dimensions of the input that are batch, feature, and space.
        rhs_spec: the dimensions of the kernel that are output feature, input feature, and space.
        out_spec: the dimensions of the result that are batch, feature, and space.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def conv_dimension_numbers(lhs_shape: Shape, rhs_shape: Shape, dimension_numbers: Any) -> ConvDimensionNumbers:
    """Dimension numbers from a layout.

    Args:
        lhs_shape: shape of the input.
        rhs_shape: shape of the kernel.
        dimension_numbers: ConvDimensionNumbers; or strings such as ("NHWC", "HWIO", "NHWC"); or None for
            ("NC...", "OI...", "NC...").

    Raises:
        TypeError: the layout does not fit the shapes.

    >>> conv_dimension_numbers((1, 5, 5, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape):
        raise TypeError(f"convolution requires lhs and rhs ndim to be equal, got {ndim} and {len(rhs_shape)}.")
    if dimension_numbers is None:
        every = tuple(range(ndim))
        return ConvDimensionNumbers(every, every, every)
    if not isinstance(dimension_numbers, (tuple, list)):
        raise TypeError(f"convolution dimension_numbers must be tuple/list or None, got {type(dimension_numbers)}.")
    if len(dimension_numbers) != 3:
        raise TypeError(f"convolution dimension_numbers list/tuple must be length 3, got {len(dimension_numbers)}.")
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        kinds = tuple(map(type, dimension_numbers))
        raise TypeError(f"convolution dimension_numbers elements must be strings, got {kinds}.")
    for i, spec in enumerate(dimension_numbers):
        if len(spec) != ndim:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and rhs, got {len(spec)} "
                f"for lhs and rhs shapes {lhs_shape} and {rhs_shape}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """For each of three layout strings, the positions of its dimensions in the order of ConvDimensionNumbers.

    Spatial dimensions are in the order of the kernel's.
    """
    roles = (("N", "C"), ("O", "I"), ("N", "C"))
    for i, (spec, (a, b)) in enumerate(zip(dimension_numbers, roles)):
        if not spec.count(a) == spec.count(b) == 1:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{a}' and '{b}' exactly once, got "
                f"{spec}."
            )
        if len(spec) != len(set(spec)):
            raise TypeError(f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}.")
    space = [c for c in dimension_numbers[1] if c not in "OI"]
    if any(set(spec) - set(role) != set(space) for spec, role in zip(dimension_numbers, roles)):
        raise TypeError(
            f"convolution dimension_numbers elements must each have the same set of spatial characters, got "
            f"{dimension_numbers}."
        )
    lhs, rhs, out = (tuple(map(spec.index, (*role, *space))) for spec, role in zip(dimension_numbers, roles))
    return lhs, rhs, out


def dilated(sizes: Sequence[int], dilation: Sequence[int] | None) -> Shape:
    """Sizes after dilation - 1 holes are put between neighbours."""
    if dilation is None:
        return tuple(sizes)
    return tuple(n and (n - 1) * d + 1 for n, d in zip(sizes, dilation))


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The (low, high) padding of each dimension that a word stands for.

    Args:
        in_shape: sizes of the input.
        window_shape: sizes of the window.
        window_strides: its steps.
        padding: "VALID" (none), "SAME" or "SAME_LOWER" (so that the result has the size of the input divided by the
            stride, rounded up; an odd element goes to the high or the low side).

    Raises:
        RuntimeError: the word is unknown.
    """
    if not isinstance(padding, str):
        raise TypeError(f"Unknown padding type: {padding}.")
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got {padding}.")
    pads = []
    for n, window, stride in zip(in_shape, window_shape, window_strides):
        total = max((-(-n // stride) - 1) * stride + window - n, 0)
        small, large = total // 2, total - total // 2
        pads.append((int(small), int(large)) if kind == "SAME" else (int(large), int(small)))
    return pads


def steps(size: int, window: int, stride: int) -> int:
    """The number of places of a window in a dimension."""
    return max(0, (size - window) // stride + 1) if size >= window else 0


def explicit_pads(padding: Any) -> Pads:
    """Pairs of ints.

    Raises:
        ValueError: the padding is not a sequence of pairs.
    """
    try:
        return tuple((operator.index(lo), operator.index(hi)) for lo, hi in padding)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"padding argument to conv_general_dilated should be a string or a sequence of (low, high) pairs, got "
            f"{padding}"
        ) from error


def conv_shape_tuple(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int], pads: Any, batch_group_count: int = 1
) -> Shape:
    """The shape of a convolution of (N, C, space) with (O, I, space): (N, O, space)."""
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got {len(pads)}."
        )
    padded = [n + lo + hi for n, (lo, hi) in zip(lhs_shape[2:], pads)]
    if any(n < 0 for n in padded):
        raise ValueError(
            f"Negative padding is larger than the size of the corresponding dimension: got padding={pads} for "
            f"lhs_shape[2:]={tuple(lhs_shape[2:])}"
        )
    space = tuple(steps(n, k, s) for n, k, s in zip(padded, rhs_shape[2:], strides))
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *space)


def _out_of(canonical: Shape, out_spec: Sequence[int]) -> Shape:
    return tuple(canonical[i] for i in np.argsort(out_spec))


def conv_general_shape_tuple(
    lhs_shape: Shape, rhs_shape: Shape, window_strides: Sequence[int], padding: Any, dimension_numbers: Sequence[str]
) -> Shape:
    """The shape of a convolution whose layouts are given as strings."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple([lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs], window_strides, padding)
    return _out_of(shape, out)


def conv_transpose_padding(size: int, stride: int, padding: Any) -> tuple[int, int]:
    """The padding of a transposed convolution that undoes the shape of one with `padding`.

    Args:
        size: of the kernel, dilated.
        stride: of the convolution.
        padding: "SAME", "VALID" or a (low, high) pair.
    """
    if padding == "SAME":
        total = size + stride - 2
        low = size - 1 if stride > size - 1 else math.ceil(total / 2)
        return low, total - low
    if padding == "VALID":
        return size - 1, stride - 1 + max(size - stride, 0)
    if isinstance(padding, tuple):
        return size - padding[0] - 1, size - padding[1] - 1
    raise ValueError(f"Invalid padding mode: {padding}")


def conv_transpose_shape_tuple(
    lhs_shape: Shape, rhs_shape: Shape, window_strides: Sequence[int], padding: Any, dimension_numbers: Sequence[str]
) -> Shape:
    """The shape of a transposed convolution whose layouts are given as strings."""
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    lhs_sizes, kernel = [lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs]
    if isinstance(padding, str):
        padding = [conv_transpose_padding(k, s, padding) for k, s in zip(kernel[2:], window_strides)]
    space = tuple(
        (n - 1) * s + 1 + lo + hi - k + 1
        for n, k, s, (lo, hi) in zip(lhs_sizes[2:], kernel[2:], window_strides, padding)
    )
    return _out_of((lhs_sizes[0], kernel[0], *space), out)


def check_conv(
    lhs: ShapedArray, rhs: ShapedArray, numbers: ConvDimensionNumbers, feature_groups: int, batch_groups: int
) -> None:
    """Raise ValueError unless the features and batches of the operands fit each other and the groups."""
    name = "conv_general_dilated"
    if lhs.ndim != rhs.ndim:
        raise ValueError(
            f"{name} lhs and rhs must have the same number of dimensions, but got {lhs.shape} and {rhs.shape}."
        )
    for kind, count in (("feature", feature_groups), ("batch", batch_groups)):
        if count <= 0:
            raise ValueError(f"{name} {kind}_group_count must be a positive integer, got {count}.")
    features, batch = lhs.shape[numbers.lhs_spec[1]], lhs.shape[numbers.lhs_spec[0]]
    outs, ins = rhs.shape[numbers.rhs_spec[0]], rhs.shape[numbers.rhs_spec[1]]
    if features % feature_groups:
        raise ValueError(
            f"{name} feature_group_count must divide lhs feature dimension size, but {feature_groups} does not divide "
            f"{features}."
        )
    if features // feature_groups != ins:
        raise ValueError(
            f"{name} lhs feature dimension size divided by feature_group_count must equal the rhs input feature "
            f"dimension size, but {features} // {feature_groups} != {ins}."
        )
    if batch % batch_groups:
        raise ValueError(
            f"{name} batch_group_count must divide lhs batch dimension size, but {batch_groups} does not divide "
            f"{batch}."
        )
    for kind, count in (("feature", feature_groups), ("batch", batch_groups)):
        if outs % count:
            raise ValueError(
                f"{name} rhs output feature dimension size must be a multiple of {kind}_group_count, but {outs} is not "
                f"a multiple of {count}."
            )
    if batch_groups > 1 and feature_groups > 1:
        raise ValueError(
            f"At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_groups} and feature_group_count={feature_groups}"
        )
