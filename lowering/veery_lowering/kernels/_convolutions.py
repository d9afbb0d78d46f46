"""Convolutions as products of matrices, of what lies in windows and of filters.

A place of the result has the terms that are in its window: the image is read as a view that overlaps itself, so that
nothing is copied but what is around it, and between its elements. IREE has five dispatches: one for what is around,
others to put features last and back. 4x16x32x32 and 32 filters of 3x3 take 1020 us with AVX2 by them, and 377 so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import Unfit
from veery_lowering.kernels._forms import View
from veery_lowering.kernels._panels import Axis, widest
from veery_lowering.kernels._reading import integers
from veery_lowering.kernels._sliding import window_of
from veery_lowering.mlir import ir, maker

_LAYOUT = re.compile(r"\[(.*?)\]x\[(.*?)\]->\[(.*?)\]")
_TRANSPOSE, _BARRIER = "stablehlo.transpose", "stablehlo.optimization_barrier"
# What a multiplication takes in a vector, and what reading or writing an element does: in one, or apart from others.
_MULTIPLIED, _TOGETHER, _APART = 1 / 16, 1 / 8, 1
_COLUMNS = 16


class Factors(NamedTuple):
    """The matrices of a product, and its axes.

    Attributes:
        x, y: one with the rows of the result, and one with its columns.
        outer: axes along which there is a product of matrices each.
        rows, columns: of the result.
        terms: the axes that are summed.
    """

    x: View
    y: View
    outer: list[Axis]
    rows: list[Axis]
    columns: list[Axis]
    terms: list[Axis]


def convolved(op: Any, image: View, filters: View) -> Factors:
    """A convolution without padding as a product.

    Raises:
        Unfit: it is none of one product.
    """
    if any(ir.IntegerAttr(op.attributes[f"{name}_group_count"]).value != 1 for name in ("feature", "batch")):
        raise Unfit("a convolution of groups")
    if image.dtype != filters.dtype:
        raise Unfit("a convolution of two dtypes")
    if "window_reversal" in op.attributes and "true" in str(op.attributes["window_reversal"]):
        raise Unfit("a convolution with filters turned round")
    of_image, of_filters, of_result = _layouts(op)
    space = range(len(of_image) - 2)
    window, shape = window_of(op), hlo.shape_of(op.results[0])

    def place(name: str, step: int) -> Axis:
        at = of_result[name]
        return Axis(shape[at], image.strides[of_image[name]] * step, 0, at)

    feature = of_result["f"]
    places = [place("b", 1), *(place(str(i), window.steps[i]) for i in space)]
    kinds = [Axis(shape[feature], 0, filters.strides[of_filters["o"]], feature)]
    terms = [Axis(filters.shape[of_filters["i"]], image.strides[of_image["f"]], filters.strides[of_filters["i"]])]
    for i in space:
        ours, theirs = of_image[str(i)], of_filters[str(i)]
        terms.append(Axis(filters.shape[theirs], image.strides[ours] * window.apart[i], filters.strides[theirs]))
    last = max(i for i, n in enumerate(shape) if n > 1 or i == 0)
    count = math.prod(axis.size for axis in terms)

    def costs(column: Axis, copied: float) -> float:
        """What a multiplication takes with such columns, with what is copied for it and written."""
        written = _TOGETHER if column.place == last else 2 * _APART
        return _MULTIPLIED * max(1, _COLUMNS / column.size) + copied + written / count

    by_features = Factors(image, filters, [], places, kinds, terms)
    places, kinds, terms = ([Axis(a.size, a.y, a.x, a.place) for a in axes] for axes in (places, kinds, terms))
    by_places = Factors(filters, image, [], kinds, places, terms)
    column = widest(places)
    copied = (_TOGETHER if column.y == 1 else _APART) / kinds[0].size
    return by_places if costs(column, copied) < costs(kinds[0], 0) else by_features


def _layouts(op: Any) -> list[dict[str, int]]:
    """Where the axes of image, filters and result are, by their letters, and by numbers those of space."""
    found = _LAYOUT.search(str(op.attributes["dimension_numbers"]))
    assert found is not None
    return [{name: at for at, name in enumerate(text.split(", "))} for text in found.groups()]


@contextmanager
def direct(op: Any) -> Iterator[Any]:
    """A context with a convolution that reads and gives axes in the order of what its own is transposed from and to.

    It takes that one's place; where the context ends by an exception the other one is back.
    """
    (image, before), (filters, also_before) = map(_untransposed, op.operands)
    result, after = _transposed(op.results[0])
    orders = [before, also_before, [after.index(at) for at in range(len(after))]]
    texts = []
    for layout, order in zip(_layouts(op), orders):
        names = {order[at]: name for name, at in layout.items()}
        texts.append(f"[{', '.join(names[at] for at in range(len(names)))}]")
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["dimension_numbers"] = ir.Attribute.parse(f"#stablehlo.conv<{texts[0]}x{texts[1]}->{texts[2]}>")
    with ir.InsertionPoint(op), op.location:
        made = ir.Operation.create(op.name, [result.type], [image, filters], attributes)
    result.replace_all_uses_with(made.results[0])
    try:
        with _padded(made):
            yield made
    except Exception:
        made.results[0].replace_all_uses_with(result)
        made.erase()
        raise
    chains = [list(_moving(value)) for value in (result, *op.operands)]
    for each in dict.fromkeys([*chains[0], op, *chains[1], *chains[2]]):
        if not any(True for x in each.results for _ in x.uses):
            each.erase()


def _moving(value: Any) -> Iterator[Any]:
    """The transposes and barriers that a value comes from, the last one first."""
    while maker(value) in (_TRANSPOSE, _BARRIER) and len(value.owner.operands) == 1:
        yield value.owner.operation
        value = value.owner.operands[0]


def _untransposed(value: Any) -> tuple[Any, list[int]]:
    """What a value is transposed from, behind barriers, and which of its axes each axis is."""
    order = list(range(len(hlo.shape_of(value))))
    for op in _moving(value):
        if op.name == _TRANSPOSE:
            order = [integers(op.attributes["permutation"])[at] for at in order]
        value = op.operands[0]
    return value, order


def _transposed(value: Any) -> tuple[Any, list[int]]:
    """What a value is transposed to, behind barriers, if nothing else uses it, and which of its axes each axis is."""
    found, order = value, list(range(len(hlo.shape_of(value))))
    while len(uses := list(value.uses)) == 1:
        user = uses[0].owner.operation
        if user.name not in (_TRANSPOSE, _BARRIER) or len(user.operands) != 1:
            break
        value = user.results[0]
        if user.name == _TRANSPOSE:
            found, order = value, [order[at] for at in integers(user.attributes["permutation"])]
    return found, order


@contextmanager
def _padded(op: Any) -> Iterator[None]:
    """A context in which what is around a convolution's image, and between its elements, is written out."""
    window, (image, _) = window_of(op), op.operands
    if not (any(window.low) or any(window.high) or any(k != 1 for k in window.spread)):
        yield
        return
    of_image, _, _ = _layouts(op)
    low, high, between = ([0] * len(of_image) for _ in range(3))
    for i, (below, above, apart) in enumerate(zip(window.low, window.high, window.spread)):
        at = of_image[str(i)]
        low[at], high[at], between[at] = below, above, apart - 1
    with ir.InsertionPoint(op), op.location:
        zero = hlo.full(0, (), hlo.dtype_of(image))
        made = hlo.pad(image, zero, low, high, between)
    op.operands[0] = made
    for name in ("padding", "lhs_dilation"):
        if name in op.attributes:
            del op.attributes[name]
    try:
        yield
    except Exception:
        op.operands[0] = image
        for x in (made, zero) if made != image else (zero,):
            x.owner.erase()
        raise
