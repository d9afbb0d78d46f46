"""Versioned modules (VHLO): what `products`, `updates` and others change, since IREE converts them before.

The bindings have neither the passes between VHLO and StableHLO nor accessors: types and attributes are read and made as
text. The steps of a conversion are kept apart by `x & x`, which IREE drops later.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from veery_lowering.barriers import bar_operand
from veery_lowering.crossings import part_crossed_reads
from veery_lowering.dialects import base_name
from veery_lowering.mlir import ir, operations
from veery_lowering.paddings import separate_paddings
from veery_lowering.registry import Value
from veery_lowering.strides import compute_strided
from veery_lowering.updates import endangered_writes

_TENSOR = re.compile(r"!vhlo\.tensor_v1<((?:[\d?]+x)*)!vhlo\.([a-z]+)(\d*)_v\d>")
_PRODUCTS = re.compile(r"vhlo\.(dot|dot_general|convolution)_v\d+")
_REDUCTION = re.compile(r"vhlo\.reduce_v\d+")
_FOLDS = frozenset(("add", "multiply", "maximum", "minimum"))
_NUMBERS = ("bool", "i", "ui", "f", "bf")


@dataclass(frozen=True)
class Tensor:
    """A tensor type: its sizes as text ("3x?x"), and its elements' kind and width."""

    sizes: str
    kind: str
    width: int

    def of(self, kind: str, width: int) -> Tensor:
        return Tensor(self.sizes, kind, width)

    @property
    def type(self) -> ir.Type:
        width = "" if self.kind == "bool" else self.width
        return ir.Type.parse(f"!vhlo.tensor_v1<{self.sizes}!vhlo.{self.kind}{width}_v1>")


def prepare_versioned(module: ir.Module) -> None:
    """Change the products, conversions, updates and crossed reads of a versioned module in place."""
    for op in operations(module.operation):
        if op.name == "vhlo.convert_v1":
            rewrite = _convert
        elif _PRODUCTS.fullmatch(op.name):
            rewrite = _widen_operands
        elif _REDUCTION.fullmatch(op.name) and _sums_broadcast_product(op):
            rewrite = _hide_product
        elif op.name.startswith("vhlo.reverse_v"):
            rewrite = _reverse_signed
        elif op.name.startswith("vhlo.reduce_window_v") and _reads_single_elements(op):
            rewrite = _bar_operands
        elif op.name.startswith("vhlo.reduce_window_v") and _folds(op):
            rewrite = _fold_signed
        else:
            continue
        with ir.InsertionPoint(op), op.location:
            rewrite(op)
    shared, crossed = endangered_writes(module.operation)
    limits = itertools.count(-2, -1)
    for op, number in shared:
        _copy_operand(op, number, next(limits))
    for op, number in crossed:
        _copy_operand(op, number, next(limits))
        bar_operand(op, number)
        _copy_operand(op, number, next(limits))
    part_crossed_reads(module.operation)
    separate_paddings(module.operation)
    compute_strided(module.operation)


def _copy_operand(op: Any, number: int, limit: int) -> None:
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = _copy(op.operands[number], limit)


def _convert(op: Any) -> None:
    old, new = _tensor(op.operands[0]), _tensor(op.results[0])
    if old and new and _loses_sign(old, new):
        _replace(op, _in_steps(op.operands[0], new))


def _widen_operands(op: Any) -> None:
    given, out = [t for t in map(_tensor, op.operands) if t], _tensor(op.results[0])
    if out is None or len(given) < 2:
        return
    if any("0" in t.sizes.split("x") for t in given):
        return _replace(op, _zeros(out))
    wide = out.of("i", 32) if out.kind == "bool" else out
    if not any(_loses_sign(t, wide) for t in given) and not _loses_type(op, given[1], out):
        return
    for i, (x, t) in enumerate(zip(op.operands, given)):
        widened = t.of(wide.kind, wide.width)
        op.operands[i] = _in_steps(x, widened) if _loses_sign(t, widened) else _kept(_converted(x, widened))
    if out.kind == "bool":
        attributes = {name: op.attributes[name] for name in op.attributes}
        count = ir.Operation.create(op.name, [wide.type], list(op.operands), attributes).results[0]
        _replace(op, _converted(count, out))


def _sums_broadcast_product(op: Any) -> bool:
    """As in products.py, for all broadcasts of factors: along which axes is not looked at."""
    if len(op.results) != 1 or not operations(op)[0].name.startswith("vhlo.add_v"):
        return False
    factors = _operands_of(op.operands[0], "vhlo.multiply_v")
    if not factors or _tensor(op.operands[0]) is None:
        return False
    moved = "vhlo.broadcast_in_dim_v", "vhlo.reshape_v", "vhlo.transpose_v"
    return any(_operands_of(x, name) for x in factors for name in moved)


def _operands_of(x: Value, name: str) -> list[Value]:
    """The operands of what made a value, if that is an operation of this name."""
    made = isinstance(x.owner, ir.OpView | ir.Operation) and x.owner.name.startswith(name)
    return list(x.owner.operands) if made else []


def _reads_single_elements(op: Any) -> bool:
    """Whether its windows are of one element: IREE does not compute those that they step over (rules/window.py)."""
    window = re.search(r"dense<(.*?)>", str(op.attributes["window_dimensions"]))
    return window is not None and set(re.findall(r"\d+", window[1])) == {"1"}


def _bar_operands(op: Any) -> None:
    for i in range(len(op.operands)):
        bar_operand(op, i)


def _reverse_signed(op: Any) -> None:
    """Reverse unsigned integers as signed ones: IREE compiles no reverse of those."""
    given = _tensor(op.operands[0])
    if given is not None and given.kind == "ui":
        attributes = {name: op.attributes[name] for name in op.attributes}
        x = _converted(op.operands[0], _signed(given))
        _replace(op, _converted(ir.Operation.create(op.name, [x.type], [x], attributes).results[0], given))


def _fold_signed(op: Any) -> None:
    """Fold windows of unsigned integers as signed ones, in the same order: IREE compiles none of those with padding."""
    given, out = [_tensor(x) for x in op.operands], _tensor(op.results[0])
    if out is None or out.kind != "ui" or None in given:
        return
    fold = operations(op)[0].name
    ordered = base_name(fold) in ("maximum", "minimum")
    lowest = str(-(1 << (out.width - 1)))
    moved = lambda x, t: _made("xor", x.type, x, _splat(_signed(t), lowest)) if ordered else x
    operands = [moved(_converted(x, _signed(t)), t) for x, t in zip(op.operands, given) if t]
    attributes = {name: op.attributes[name] for name in op.attributes}
    made = ir.Operation.create(op.name, [_signed(out).type], operands, attributes, regions=1)
    number = Tensor("", "i", out.width).type
    block = made.regions[0].blocks.append(number, number)
    with ir.InsertionPoint(block):
        folded = ir.Operation.create(fold, [number], list(block.arguments)).results
        ir.Operation.create("vhlo.return_v1", [], list(folded))
    _replace(op, _converted(moved(made.results[0], out), out))


def _signed(tensor: Tensor) -> Tensor:
    return tensor.of("i", tensor.width)


def _folds(op: Any) -> bool:
    """Whether windows of one array are folded by a single operation that signed integers have too."""
    names = [base_name(each.name) for each in operations(op)[:2]]
    return len(op.operands) == 2 and names[0] in _FOLDS and names[1] == "return"


def _hide_product(op: Any) -> None:
    product = op.operands[0].owner
    a, b = product.operands
    negated = lambda x: ir.Operation.create("vhlo.negate_v1", [x.type], [x]).results[0]
    op.operands[0] = negated(ir.Operation.create(product.name, [a.type], [a, negated(b)]).results[0])


def _tensor(x: Value) -> Tensor | None:
    """The type of a value; None for what is no tensor of real numbers."""
    match = _TENSOR.fullmatch(str(x.type))
    if match is None or match[2] not in _NUMBERS:
        return None
    return Tensor(match[1], match[2], int(match[3] or 1))


def _loses_sign(old: Tensor, new: Tensor) -> bool:
    """As `products._loses_sign`."""
    unsigned = ("bool", "ui")
    return new.width > old.width and (old.kind in unsigned or (old.kind in ("f", "bf") and new.kind in unsigned))


def _loses_type(op: Any, kernel: Tensor, out: Tensor) -> bool:
    """As `products._loses_type`."""
    if not op.name.startswith("vhlo.convolution_v") or (kernel.kind, kernel.width) == (out.kind, out.width):
        return False
    count = re.search(r"<(\d+) :", str(op.attributes["feature_group_count"]))
    return count is not None and int(count[1]) > 1


def _in_steps(x: Value, new: Tensor) -> Value:
    if new.kind not in ("f", "bf"):
        return _kept(_converted(x, new))
    return _converted(_kept(_converted(x, new.of("i", new.width))), new)


def _converted(x: Value, new: Tensor) -> Value:
    return x if x.type == new.type else ir.Operation.create("vhlo.convert_v1", [new.type], [x]).results[0]


def _kept(x: Value) -> Value:
    tensor = _tensor(x)
    if tensor is None or tensor.kind not in ("f", "bf"):
        return _made("and", x.type, x, x)
    bits = _made("bitcast_convert", _signed(tensor).type, x)
    return _made("bitcast_convert", x.type, _made("and", bits.type, bits, bits))


def _made(name: str, kind: ir.Type, *operands: Value) -> Value:
    return ir.Operation.create(f"vhlo.{name}_v1", [kind], list(operands)).results[0]


def _copy(x: Value, limit: int) -> Value:
    """As `aliasing.masked_copy`, of arrays of numbers of known sizes and more than one element."""
    tensor = _tensor(x)
    sizes = tensor.sizes.split("x")[:-1] if tensor else []
    if tensor is None or "?" in sizes or not set(sizes) - {"1"}:
        return x
    longest = max(range(len(sizes)), key=lambda axis: int(sizes[axis]))
    index, mask = tensor.of("i", 32), tensor.of("bool", 1)
    along = {"iota_dimension": ir.Attribute.parse(f"#vhlo.integer_v1<{longest} : i64>")}
    place = ir.Operation.create("vhlo.iota_v1", [index.type], [], along).results[0]
    how = {
        "comparison_direction": ir.Attribute.parse("#vhlo<comparison_direction_v1 GT>"),
        "compare_type": ir.Attribute.parse("#vhlo<comparison_type_v1 SIGNED>"),
    }
    inside = ir.Operation.create("vhlo.compare_v1", [mask.type], [place, _splat(index, str(limit))], how).results[0]
    return ir.Operation.create("vhlo.select_v1", [x.type], [inside, x, _zeros(tensor)]).results[0]


def _zeros(out: Tensor) -> Value:
    return _splat(out, {"bool": "false", "f": "0.0", "bf": "0.0"}.get(out.kind, "0"))


def _splat(out: Tensor, number: str) -> Value:
    element = "i1" if out.kind == "bool" else f"{out.kind}{out.width}"
    value = ir.Attribute.parse(f"#vhlo.tensor_v1<dense<{number}> : tensor<{out.sizes}{element}>>")
    return ir.Operation.create("vhlo.constant_v1", [out.type], [], {"value": value}).results[0]


def _replace(op: Any, value: Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()
