"""Operations of modules from elsewhere, by the rules of the primitives that compute the same.

IREE does not compute all that StableHLO says of an operation: powers of negative numbers, lookups out of bounds, sorts
of equal keys, windows of unsigned integers... (docs/correctness.md). The rules know; what a module from elsewhere has
goes through them like our own equations. What is in the bodies of reductions and their like stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.rules.elementwise import add, multiply
from veery_lowering.emit.rules.reduce import highest, lowest
from veery_lowering.emit.rules.sort import ordered
from veery_lowering.emit.rules.window import MOST_OFFSETS, place_by_place
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.passes.stablehlo.crossings import is_elementwise
from veery_lowering.stablehlo import Value


@dataclass(frozen=True)
class Array:
    """What a rule is told of a value."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, x: Value) -> Array:
        return cls(hlo.shape_of(x), hlo.dtype_of(x))

    def update(self, *, dtype: np.dtype) -> Array:
        """The same shape in another dtype."""
        return Array(self.shape, dtype)


class Equation(NamedTuple):
    """A primitive, its operands and its parameters."""

    primitive: str
    operands: Sequence[Value]
    params: dict[str, Any]


Reader = Callable[[Any], Equation | None]

_SAME = (
    "abs add and atan2 cbrt ceil clamp complex floor imag is_finite log logistic not or real rsqrt shift_left"
    " shift_right_arithmetic shift_right_logical sign sqrt tan tanh xor"
).split()
_RENAMED = {
    "cosine": "cos", "count_leading_zeros": "clz", "divide": "div", "exponential": "exp",
    "exponential_minus_one": "expm1", "log_plus_one": "log1p", "maximum": "max", "minimum": "min", "multiply": "mul",
    "negate": "neg", "popcnt": "population_count", "power": "pow", "remainder": "rem", "sine": "sin", "subtract": "sub",
}  # fmt: skip
_CHLO = (
    "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma polygamma sinh tan zeta"
).split()
_ELEMENTWISE = {
    **{f"stablehlo.{name}": name for name in _SAME},
    **{f"stablehlo.{name}": primitive for name, primitive in _RENAMED.items()},
    **{f"chlo.{name}": name for name in _CHLO},
    "chlo.next_after": "nextafter",
}
_READERS: dict[str, Reader] = {}
_CONTROL = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))


def translate(function: Any, emit: Callable[..., list[Value]]) -> None:
    """Replace operations of a function by what rules make of them, in place.

    Args:
        function: one of known sizes; where they are not, operations stay.
        emit: emits a primitive, given its name, operands, what they and the results are, and parameters.
    """
    for op in operations(function):
        _settle_bools(op)
    for op in list(_program(function)):
        values = [*op.operands, *op.results]
        if not values or not all(isinstance(x.type, ir.RankedTensorType) and x.type.has_static_shape for x in values):
            continue
        with ir.InsertionPoint(op), op.location:
            results = _results(op, emit)
        if results is not None:
            for old, new in zip(op.results, results, strict=True):
                old.replace_all_uses_with(new)
            op.erase()


def _results(op: Any, emit: Callable[..., list[Value]]) -> Sequence[Value] | None:
    if op.name in _ELEMENTWISE:
        equation: Equation | None = Equation(_ELEMENTWISE[op.name], op.operands, {})
    else:
        equation = _READERS[op.name](op) if op.name in _READERS else None
    if equation is None:
        return _OTHERS[op.name](op) if op.name in _OTHERS else None
    arrays = (tuple(map(Array.of, xs)) for xs in (equation.operands, op.results))
    return emit(equation.primitive, list(equation.operands), *arrays, equation.params)


def _program(op: Any) -> Iterator[Any]:
    """The operations of a function, and of its loops and branches, but not of what they are applied with."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                if view.operation.name in _CONTROL:
                    yield from _program(view.operation)


def _settle_bools(op: Any) -> None:
    """IREE adds bools as numbers of one bit."""
    settled = {"stablehlo.add": add, "stablehlo.multiply": multiply}.get(op.name)
    if settled and hlo.dtype_of(op.results[0]) == np.bool_:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(settled(*op.operands))
        op.erase()


def _reader(name: str) -> Callable[[Reader], Reader]:
    def register(function: Reader) -> Reader:
        _READERS[f"stablehlo.{name}"] = function
        return function

    return register


def _numbers(op: Any, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
    return tuple(op.attributes[name]) if name in op.attributes else tuple(default)


def _table(op: Any, name: str, rows: int) -> list[tuple[int, int]]:
    """Pairs of numbers, as paddings have them."""
    if name not in op.attributes:
        return [(0, 0)] * rows
    found = np.asarray(ir.DenseIntElementsAttr(op.attributes[name])).reshape(rows, 2)
    return [(int(a), int(b)) for a, b in found]


def _fields(attribute: Any, *lists: str) -> SimpleNamespace:
    """The lists of an attribute that says which axis is which."""
    found = dict(re.findall(r"(\w+) = (\[[^]]*\]|\d+)", str(attribute)))
    read: Callable[[str], tuple[int, ...]] = lambda text: tuple(map(int, re.findall(r"\d+", text)))
    fields = {name: read(found.get(name, "")) for name in lists}
    return SimpleNamespace(**fields, index_vector_dim=int(found.get("index_vector_dim", 0)))


@_reader("convert")
def _convert(op: Any) -> Equation:
    return Equation("convert_element_type", op.operands, {"new_dtype": hlo.dtype_of(op.results[0])})


@_reader("reduce_precision")
def _reduce_precision(op: Any) -> Equation:
    bits = {name: ir.IntegerAttr(op.attributes[name]).value for name in ("exponent_bits", "mantissa_bits")}
    return Equation("reduce_precision", op.operands, bits)


@_reader("round_nearest_even")
def _round_to_even(op: Any) -> Equation:
    return Equation("round", op.operands, {"rounding_method": 1})


@_reader("round_nearest_afz")
def _round_away(op: Any) -> Equation:
    return Equation("round", op.operands, {"rounding_method": 0})


@_reader("reverse")
def _reverse(op: Any) -> Equation:
    return Equation("rev", op.operands, {"dimensions": _numbers(op, "dimensions")})


@_reader("pad")
def _pad(op: Any) -> Equation:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    return Equation("pad", op.operands, {"padding_config": list(zip(*(_numbers(op, name) for name in names)))})


@_reader("dynamic_slice")
def _dynamic_slice(op: Any) -> Equation:
    return Equation("dynamic_slice", op.operands, {"slice_sizes": _numbers(op, "slice_sizes")})


@_reader("dynamic_update_slice")
def _dynamic_update_slice(op: Any) -> Equation:
    return Equation("dynamic_update_slice", op.operands, {})


@_reader("gather")
def _gather(op: Any) -> Equation:
    lists = "offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims".split()
    numbers = _fields(op.attributes["dimension_numbers"], *lists)
    x, indices = op.operands
    indices, numbers.start_indices_batching_dims = _last(indices, numbers, numbers.start_indices_batching_dims)
    sizes = _numbers(op, "slice_sizes")
    return Equation("gather", (x, indices), {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": "clip"})


def _last(indices: Value, numbers: Any, batching: Sequence[int]) -> tuple[Value, tuple[int, ...]]:
    """Indices with the axis of their components last, and their batch axes then."""
    axis, shape = numbers.index_vector_dim, hlo.shape_of(indices)
    if axis == len(shape):
        return hlo.reshape(indices, (*shape, 1)), tuple(batching)
    others = [i for i in range(len(shape)) if i != axis]
    return hlo.transpose(indices, [*others, axis]), tuple(others.index(i) for i in batching)


@_reader("scatter")
def _scatter(op: Any) -> Equation | None:
    folds = {"stablehlo.multiply": "mul", **{f"stablehlo.{name}": name[:3] for name in ("add", "minimum", "maximum")}}
    block = op.regions[0].blocks[0]
    if len(op.operands) != 3:
        return None
    if list(block.operations[0].operation.operands) == [block.arguments[1]]:
        primitive = "scatter"
    elif (fold := _fold(op)) in folds:
        primitive = f"scatter_{folds[fold]}"
    else:
        return None
    lists = (
        "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims"
        " scatter_indices_batching_dims"
    ).split()
    numbers = _fields(op.attributes["scatter_dimension_numbers"], *lists)
    x, indices, updates = op.operands
    numbers.operand_batching_dims = numbers.input_batching_dims
    indices, numbers.scatter_indices_batching_dims = _last(indices, numbers, numbers.scatter_indices_batching_dims)
    unique = "unique_indices" in op.attributes and ir.BoolAttr(op.attributes["unique_indices"]).value
    params = {"dimension_numbers": numbers, "mode": "fill_or_drop", "unique_indices": unique}
    return Equation(primitive, (x, indices, updates), params)


def _fold(op: Any, region: int = 0) -> str:
    """The operation that a body applies to its two arguments; empty if it does something else."""
    block = op.regions[region].blocks[0]
    found = [view.operation for view in block.operations]
    if len(found) != 2 or len(block.arguments) != 2 or list(found[1].operands) != list(found[0].results):
        return ""
    return found[0].name if list(found[0].operands) == list(block.arguments) else ""


@_reader("reduce_window")
def _reduce_window(op: Any) -> Equation | None:
    if len(op.operands) != 2 or (fold := _fold(op)) not in _FOLDS:
        return None
    name, neutral = _FOLDS[fold]
    x, start = op.operands
    if not _is(start, neutral(hlo.dtype_of(x))):
        return None
    params = _window(op)
    along = [i for i, width in enumerate(params["window_dimensions"]) if width > 1]
    if len(along) == 1:
        (axis,) = along
        n = hlo.shape_of(x)[axis]
        ends = (n - 1, 0), (0, n - 1)
        others = [each for name, each in params.items() if name not in ("window_dimensions", "padding")]
        if params["window_dimensions"][axis] == n and params["padding"][axis] in ends and {*sum(others, ())} == {1}:
            if sum(map(sum, params["padding"])) == n - 1:
                return Equation(f"cum{name}", [x], {"axis": axis, "reverse": params["padding"][axis] == ends[1]})
    return Equation(f"reduce_window_{name}", [x], params) if name != "prod" else None


_FOLDS: dict[str, tuple[str, Callable[[np.dtype], Any]]] = {
    "stablehlo.add": ("sum", lambda dtype: 0),
    "stablehlo.multiply": ("prod", lambda dtype: 1),
    "stablehlo.maximum": ("max", lowest),
    "stablehlo.minimum": ("min", highest),
}


def _window(op: Any) -> dict[str, Any]:
    """The parameters of windows."""
    widths = _numbers(op, "window_dimensions")
    ones = [1] * len(widths)
    return {
        "window_dimensions": widths,
        "window_strides": _numbers(op, "window_strides", ones),
        "padding": _table(op, "padding", len(widths)),
        "base_dilation": _numbers(op, "base_dilations", ones),
        "window_dilation": _numbers(op, "window_dilations", ones),
    }


def _fold_windows(op: Any) -> list[Value] | None:
    """Windows that are folded by any body, or from any number: an elementwise step for each place in them."""
    params = _window(op)
    if math.prod(params["window_dimensions"]) > MOST_OFFSETS or not _is_elementwise(op.regions[0].blocks[0]):
        return None
    count = len(op.operands) // 2
    xs, starts = list(op.operands)[:count], list(op.operands)[count:]
    combine: Callable[[Any, Any], list[Any]] = lambda left, right: _applied(op.regions[0].blocks[0], [*left, *right])
    if any(map(any, params["padding"])) or any(d != 1 for d in params["base_dilation"]):
        # The specification has padding combined, XLA leaves it out: where the two differ, XLA's users are asked.
        xs.append(hlo.full(True, hlo.shape_of(xs[0]), np.bool_))
        starts.append(hlo.constant(np.False_))
        whole = combine
        combine = lambda left, right: [
            *(hlo.select(right[-1], new, old) for new, old in zip(whole(left[:-1], right[:-1]), left)), left[-1],
        ]  # fmt: skip
    return place_by_place(xs, starts, hlo.shape_of(op.results[0]), combine, *params.values())[:count]


def _is(x: Value, number: Any) -> bool:
    """Whether all elements of a value are known to be a number."""
    while maker(x) in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"):
        x = x.owner.operands[0]
    element = hlo.splat_attribute(x)
    return element is not None and bool(element.value == number)


@_reader("select_and_scatter")
def _select_and_scatter(op: Any) -> Equation | None:
    x, source, start = op.operands
    if _fold(op, 0) != "stablehlo.compare" or _fold(op, 1) != "stablehlo.add" or not _is(start, 0):
        return None
    direction = hlo.direction_of(op.regions[0].blocks[0].operations[0].operation)
    if direction not in ("GE", "GT", "LE", "LT"):
        return None
    widths = _numbers(op, "window_dimensions")
    params = {
        "select_prim": direction.lower(),
        "window_dimensions": widths,
        "window_strides": _numbers(op, "window_strides", [1] * len(widths)),
        "padding": _table(op, "padding", len(widths)),
    }
    return Equation("select_and_scatter_add", (source, x), params)


@_reader("convolution")
def _convolution(op: Any) -> Equation:
    spec = re.findall(r"\[([^]]*)\]", str(op.attributes["dimension_numbers"]))
    orders = [[name.strip() for name in each.split(",")] for each in spec]
    count = len(orders[0]) - 2
    axes: Callable[[Any, str, str], list[int]] = lambda order, first, second: [
        order.index(n) for n in (first, second, *map(str, range(count)))
    ]
    lhs_spec, rhs_spec, out_spec = axes(orders[0], "b", "f"), axes(orders[1], "o", "i"), axes(orders[2], "b", "f")
    lhs, rhs = op.operands
    turned = [rhs_spec[2 + i] for i, turn in enumerate(_numbers(op, "window_reversal")) if turn]
    params = {
        "window_strides": _numbers(op, "window_strides", [1] * count),
        "padding": _table(op, "padding", count),
        "lhs_dilation": _numbers(op, "lhs_dilation", [1] * count),
        "rhs_dilation": _numbers(op, "rhs_dilation", [1] * count),
        "dimension_numbers": SimpleNamespace(lhs_spec=lhs_spec, rhs_spec=rhs_spec, out_spec=out_spec),
        **{name: ir.IntegerAttr(op.attributes[name]).value for name in ("feature_group_count", "batch_group_count")},
    }
    return Equation("conv_general_dilated", (lhs, hlo.reverse(rhs, turned) if turned else rhs), params)


@_reader("composite")
def _composite(op: Any) -> Equation | None:
    """Operations of CHLO, which portable artifacts have so, with what they are composed of."""
    name = ir.StringAttr(op.attributes["name"]).value
    if name == "chlo.top_k":
        k = ir.IntegerAttr(ir.DictAttr(op.attributes["composite_attributes"])["k"]).value
        return Equation("top_k", op.operands, {"k": k, "axis": -1})
    return Equation(_ELEMENTWISE[name], op.operands, {}) if name in _ELEMENTWISE else None


@_reader("sort")
def _sort(op: Any) -> Equation | None:
    """A sort by the first operand, as JAX has it: NumPy sorts 10^4 in 0.3 ms, the network of `_sorted` in 9."""
    body = op.regions[0].blocks[0]
    compare = list(body.operations)[-1].operation.operands[0].owner.operation
    if compare.name != "stablehlo.compare" or hlo.direction_of(compare) != "LT":
        return None
    (a, from_a), (b, from_b) = map(_key, compare.operands)
    total = "TOTALORDER" in str(compare.attributes["compare_type"]) if "compare_type" in compare.attributes else False
    if [a, b] != list(body.arguments)[:2] or from_a != from_b or (total and from_a != {"EQ", "NE"}):
        return None
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    return Equation("sort", op.operands, {"dimension": axis, "num_keys": 1})


def _key(x: Value) -> tuple[Value, set[str]]:
    """What a value is, but that zeros are equal ("EQ") or what is no number is ("NE"), and which of these."""
    found: set[str] = set()
    while maker(x) == "stablehlo.select":
        test, constant, other = x.owner.operands
        if maker(test) != "stablehlo.compare" or maker(constant) != "stablehlo.constant":
            break
        y, against = test.owner.operands
        direction = hlo.direction_of(test.owner.operation)
        if direction not in ("EQ", "NE") or against != (constant if direction == "EQ" else y):
            break
        found.add(direction)
        x = other
    return x, found


def _sorted(op: Any) -> list[Value] | None:
    """Sort by the comparison of a body; equal elements stay in order."""
    body = op.regions[0].blocks[0]
    if not _is_elementwise(body):
        return None
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    return ordered(list(op.operands), hlo.shape_of(op.operands[0]), axis, _Comparison(body))


@dataclass(frozen=True)
class _Comparison:
    """The order of a sort that a body gives."""

    body: Any

    def precedes(self, left: Sequence[Value], right: Sequence[Value]) -> Value:
        """Whether each left element comes before the right one; the last columns are the positions."""
        pairs = [list(zip(left[:-1], right[:-1])), list(zip(right[:-1], left[:-1]))]
        (before,), (after,) = (_applied(self.body, [x for pair in each for x in pair]) for each in pairs)
        return hlo.or_(before, hlo.and_(hlo.not_(after), hlo.compare(left[-1], right[-1], "LT")))


def _is_elementwise(body: Any) -> bool:
    """Whether a body on numbers can be applied to arrays."""
    found = [view.operation for view in body.operations]
    return all(op.name == "stablehlo.constant" or is_elementwise(op) for op in found[:-1])


def _applied(body: Any, arrays: Sequence[Value]) -> list[Value]:
    """What a body on numbers makes of arrays."""
    shape = hlo.shape_of(arrays[0])
    values: dict[Any, Value] = dict(zip(body.arguments, arrays))
    whole: Callable[[Any], Any] = lambda x: values[x] if x in values else hlo.broadcast_in_dim(x, shape, ())
    for view in body.operations:
        op = view.operation
        operands = [whole(x) for x in op.operands]
        if op.name == "stablehlo.return":
            return operands
        attributes = {name: op.attributes[name] for name in op.attributes}
        if op.name == "stablehlo.constant":
            scalar = ir.Operation.create(op.name, [op.results[0].type], [], attributes).results[0]
            values[op.results[0]] = hlo.broadcast_in_dim(scalar, shape, ())
        else:
            kind = ir.RankedTensorType.get(shape, op.results[0].type.element_type)
            values[op.results[0]] = ir.Operation.create(op.name, [kind], operands, attributes).results[0]
    raise AssertionError("a body ends with what it returns")


def _complex_constant(op: Any) -> list[Value] | None:
    """A constant of complex numbers, of which IREE does not compile all; the bindings read no more than their text."""
    dtype, shape = hlo.dtype_of(op.results[0]), hlo.shape_of(op.results[0])
    if dtype.kind != "c":
        return None
    text = str(op).partition("dense<")[2].rpartition("> : tensor")[0]
    if text.startswith('"0x'):
        numbers = np.frombuffer(bytes.fromhex(text.strip('"')[2:]), dtype)
    else:
        bits = np.dtype(f"uint{4 * dtype.itemsize}")
        part: Callable[[str], Any] = lambda s: (
            bits.type(int(s, 16)).view(dtype.type(0).real.dtype) if s.startswith("0x") else float(s)
        )
        pairs = re.findall(r"\(([^,()]+), ?([^,()]+)\)", text)
        numbers = np.array([part(a) for pair in pairs for a in pair], dtype.type(0).real.dtype).view(dtype)
    return [hlo.constant(np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape))]


_OTHERS = {
    "stablehlo.sort": _sorted, "stablehlo.reduce_window": _fold_windows, "stablehlo.constant": _complex_constant,
}  # fmt: skip
