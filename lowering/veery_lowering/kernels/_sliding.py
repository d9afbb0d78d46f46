"""Operations of kernels on windows that slide over an array: reductions, convolutions.

Each place in a window is a place of the nest: the padded array is read as a view of it that overlaps itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._body import Body, checked, writes
from veery_lowering.kernels._forms import Form, Uniform, View, changed
from veery_lowering.kernels._moves import padded
from veery_lowering.kernels._reading import integers, static_shape
from veery_lowering.kernels._sums import add_products, converted, folded
from veery_lowering.mlir import ir


class _Window(NamedTuple):
    """One entry an axis: how far windows are apart, padding, and how far elements are apart in array and window."""

    steps: list[int]
    low: list[int]
    high: list[int]
    spread: list[int]
    apart: list[int]

    def of_images(self) -> _Window:
        """With an axis before and one behind them along which nothing slides."""
        ends = _Window([1], [0], [0], [1], [1])
        return _Window(*([*end, *each, *end] for end, each in zip(ends, self)))

    def padded(self, body: Body, x: Form, around: Form, given: Sequence[int]) -> Form:
        """What the windows slide over."""
        if any(self.low) or any(self.high) or any(k > 1 for k in self.spread):
            return padded(body, x, around, given, self.low, self.high, [k - 1 for k in self.spread])
        return x


def _window(op: Any, rank: int, spread: str, apart: str) -> _Window:
    """The window of an operation, and the names of the attributes that say how far elements are apart."""
    ones = [1] * rank
    read: Callable[[str], list[int]] = lambda name: integers(op.attributes[name]) if name in op.attributes else ones
    low = high = [0] * rank
    if "padding" in op.attributes:
        low, high = np.asarray(ir.DenseIntElementsAttr(op.attributes["padding"])).reshape(rank, 2).T.tolist()
    return _Window(read("window_strides"), low, high, read(spread), read(apart))


def window_of(op: Any) -> _Window:
    """The window of a convolution, an entry for each axis of space."""
    return _window(op, len(static_shape(op.results[0])) - 2, "lhs_dilation", "rhs_dilation")


@writes("reduce_window")
def _reduce_window(body: Body, op: Any) -> Form:
    if len(op.operands) != 2:
        raise Unfit("windows of several arrays")
    given, shape = static_shape(op.operands[0]), static_shape(op.results[0])
    widths = integers(op.attributes["window_dimensions"])
    window = _window(op, len(given), "base_dilations", "window_dilations")
    values, around = map(body.memory, op.operands)
    x = window.padded(body, values, around, given)

    def slid(view: View) -> View:
        strides = [s * k for ks in (window.steps, window.apart) for s, k in zip(view.strides, ks)]
        return _seen(view, (*shape, *widths), strides)

    return folded(body, op, changed(x, slid), (*shape, *widths), range(len(shape), 2 * len(shape)), shape)


@writes("convolution")
def _convolution(body: Body, op: Any) -> Form:
    """Of images with features last: a nest over batch, space, groups, features, the window, input features."""
    shape, dtype = checked(op.results[0])
    (given, _), (kernel, _) = map(checked, op.operands)
    rank = len(shape) - 2
    space = "".join(f"{i}, " for i in range(rank))
    layout = f"[b, {space}f]x[{space}i, o]->[b, {space}f]"
    turned = "window_reversal" in op.attributes and "true" in str(op.attributes["window_reversal"])
    if turned or layout not in str(op.attributes["dimension_numbers"]):
        raise Unfit("a convolution of another layout")
    groups, of_batch = (ir.IntegerAttr(op.attributes[f"{name}_group_count"]).value for name in ("feature", "batch"))
    groups, inputs = groups * of_batch, kernel[-2]
    sizes = [*shape[:-1], groups, shape[-1] // groups, *kernel[:-1]]
    image, weights = (converted(body, x, dtype) for x in op.operands)
    window = window_of(op).of_images()
    x = window.padded(body, image, Uniform(body.out.constant(0, dtype, ""), dtype), given)

    def pixels(view: View) -> View:
        batch, *space, feature = view.strides
        group = shape[0] * batch if of_batch > 1 else inputs * feature
        moves = [s * k for s, k in zip(space, window.steps[1:])], [s * k for s, k in zip(space, window.apart[1:])]
        return _seen(view, sizes, [batch, *moves[0], group, 0, *moves[1], feature])

    def filters(view: View) -> View:
        *space, feature, out = view.strides
        return _seen(view, sizes, [0] * (rank + 1) + [sizes[rank + 2] * out, out, *space, feature])

    target = body.place(shape, dtype, op.results[0])
    *others, out = target.strides
    places = _seen(target, sizes, [*others, sizes[rank + 2] * out, out] + [0] * (rank + 1))
    add_products(body, places, sizes, [changed(x, pixels), changed(weights, filters)])
    return target


def _seen(view: View, shape: Sequence[int], strides: Sequence[int]) -> View:
    """The memory of a view by other strides."""
    return View(view.buffer, tuple(shape), tuple(strides), view.offset)
