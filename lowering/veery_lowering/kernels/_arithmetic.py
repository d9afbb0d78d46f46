"""Elementwise operations of StableHLO in the arith and math dialects, on scalars or vectors, as MLIR text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


class Unfit(Exception):
    """The loop cannot be written as a kernel."""


@dataclass
class Lines:
    """Text that grows: `head` has what holds everywhere, `prologue` what reads numbers, `lines` the rest."""

    head: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    names: int = 0
    _made: dict[str, str] = field(default_factory=dict)
    _integers: dict[str, int] = field(default_factory=dict)

    def new(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def add(self, text: str) -> str:
        """Write an operation; returns its result."""
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, value: object, dtype: np.dtype, shape: str) -> str:
        """A constant; `shape` is "" for a scalar, else as in "8x"."""
        text = literal(value, dtype)
        typed = "" if text in ("true", "false") and not shape else f" : {spelled(dtype, shape)}"
        name = self._once(f"arith.constant {f'dense<{text}>' if shape else text}{typed}")
        if dtype.kind in "iu":
            self._integers[name] = int(np.asarray(value, dtype))
        return name

    def index(self, number: int) -> str:
        return self._once(f"arith.constant {number} : index")

    def known(self, name: str) -> int | None:
        """The value of a name that stands for an integer constant."""
        return self._integers.get(name)

    def _once(self, text: str) -> str:
        if text not in self._made:
            self._made[text] = self.new()
            self.head.append(f"{self._made[text]} = {text}")
        return self._made[text]


def spelled(dtype: np.dtype, shape: str = "") -> str:
    """The type of a scalar ("") or of a vector ("8x"); integers have no sign."""
    kind = {"f": f"f{8 * dtype.itemsize}", "b": "i1", "V": "bf16"}.get(dtype.kind, f"i{8 * dtype.itemsize}")
    return f"vector<{shape}{kind}>" if shape else kind


def literal(value: object, dtype: np.dtype) -> str:
    """A value as MLIR writes it: floats by their bits."""
    array = np.asarray(value, dtype)
    if dtype.kind == "b":
        return "true" if array else "false"
    if dtype.kind in "fV":
        return f"0x{int(array.view(f'u{dtype.itemsize}')):0{2 * dtype.itemsize}X}"
    return str(int(array.view(f"i{dtype.itemsize}")))


def supported(dtype: np.dtype) -> bool:
    return dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize in (4, 8))


def movable(dtype: np.dtype) -> bool:
    """Whether a kernel can hold it where nothing is computed of it."""
    return supported(dtype) or dtype.name in ("float16", "bfloat16")


def _table(text: str) -> dict[str, dict[str, str]]:
    """Rows of "name f=operation iu=operation" by name and kind of dtype."""
    found: dict[str, dict[str, str]] = {}
    for row in text.strip().splitlines():
        name, *choices = row.split()
        found[name] = {kind: op for choice in choices for kinds, _, op in [choice.partition("=")] for kind in kinds}
    return found


_PLAIN = _table(
    """
    add f=arith.addf iu=arith.addi b=arith.ori
    subtract f=arith.subf iu=arith.subi
    multiply f=arith.mulf iu=arith.muli b=arith.andi
    divide f=arith.divf
    maximum f=arith.maximumf i=arith.maxsi u=arith.maxui b=arith.ori
    minimum f=arith.minimumf i=arith.minsi u=arith.minui b=arith.andi
    and iub=arith.andi
    or iub=arith.ori
    xor iub=arith.xori
    power f=math.powf
    atan2 f=math.atan2
    abs f=math.absf i=math.absi
    negate f=arith.negf
    sqrt f=math.sqrt
    rsqrt f=math.rsqrt
    cbrt f=math.cbrt
    exponential f=math.exp
    exponential_minus_one f=math.expm1
    log f=math.log
    log_plus_one f=math.log1p
    tanh f=math.tanh
    sine f=math.sin
    cosine f=math.cos
    floor f=math.floor
    ceil f=math.ceil
    round_nearest_even f=math.roundeven
    popcnt iu=math.ctpop
    count_leading_zeros iu=math.ctlz
    """
)
_COMPARE = {
    "f": dict(EQ="oeq", NE="une", LT="olt", LE="ole", GT="ogt", GE="oge"),
    "i": dict(EQ="eq", NE="ne", LT="slt", LE="sle", GT="sgt", GE="sge"),
    "u": dict(EQ="eq", NE="ne", LT="ult", LE="ule", GT="ugt", GE="uge"),
}
_COMPARE["b"] = _COMPARE["u"]
_DIVISIONS = {
    ("divide", "i"): "arith.divsi", ("divide", "u"): "arith.divui",
    ("remainder", "i"): "arith.remsi", ("remainder", "u"): "arith.remui",
}  # fmt: skip
# How the lanes of a vector become one value.
REDUCTIONS = _table(
    """
    add f=add iu=add b=or
    multiply f=mul iu=mul b=and
    maximum f=maximumf i=maxsi u=maxui b=or
    minimum f=minimumf i=minsi u=minui b=and
    and iub=and
    or iub=or
    xor iub=xor
    """
)


def elementwise(
    lines: Lines, name: str, detail: str, operands: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str
) -> str:
    """Write an operation; returns its result.

    Args:
        name: as in StableHLO, without the dialect.
        detail: of a comparison, which.
        operands: of dtype `dtype` but for the predicate of a select; of the result's shape.
        dtype, out: of the operands (the last of them) and of the result.
        shape: "" of scalars, "8x" of vectors.

    Raises:
        Unfit: there is no such operation.
    """
    type_ = spelled(dtype, shape)
    operation = _PLAIN.get(name, {}).get(dtype.kind)
    if operation is not None:
        return lines.add(f"{operation} {', '.join(operands)} : {type_}")
    if name in _SPECIAL:
        register: str = _SPECIAL[name](lines, detail, operands, dtype, out, shape)
        return register
    if (name, dtype.kind) in _DIVISIONS:
        return _divided(lines, name, operands, dtype, shape)
    raise Unfit(name)


def _divided(lines: Lines, name: str, operands: Sequence[str], dtype: np.dtype, shape: str) -> str:
    """Of integers. The CPU traps at divisors of 0, and at -1 where the quotient does not fit."""
    x, by = operands
    operation, type_ = _DIVISIONS[name, dtype.kind], spelled(dtype, shape)
    if lines.known(by) not in (None, 0, -1):
        return lines.add(f"{operation} {x}, {by} : {type_}")
    zero, one = (lines.constant(n, dtype, shape) for n in (0, 1))
    cases = [(zero, x if name == "remainder" else _not(lines, "", [zero], dtype, dtype, shape))]
    if dtype.kind == "i":
        by_minus_one = zero if name == "remainder" else _negate(lines, "", [x], dtype, dtype, shape)
        cases.append((lines.constant(-1, dtype, shape), by_minus_one))
    divisor, chosen = by, []
    for value, result in cases:
        found = lines.add(f"arith.cmpi eq, {by}, {value} : {type_}")
        divisor = _select(lines, "", [found, one, divisor], dtype, dtype, shape)
        chosen.append((found, result))
    quotient = lines.add(f"{operation} {x}, {divisor} : {type_}")
    for found, result in chosen:
        quotient = _select(lines, "", [found, result, quotient], dtype, dtype, shape)
    return quotient


def _compare(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    operation = "cmpf" if dtype.kind == "f" else "cmpi"
    return lines.add(f"arith.{operation} {_COMPARE[dtype.kind][detail]}, {', '.join(xs)} : {spelled(dtype, shape)}")


def _select(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    types = f"{spelled(np.dtype(bool), shape)}, " if shape else ""
    return lines.add(f"arith.select {', '.join(xs)} : {types}{spelled(dtype, shape)}")


def _clamp(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    low, x, high = xs
    x = elementwise(lines, "maximum", "", [low, x], dtype, dtype, shape)
    return elementwise(lines, "minimum", "", [x, high], dtype, dtype, shape)


def _negate(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    zero = lines.constant(0, dtype, shape)
    return lines.add(f"arith.subi {zero}, {xs[0]} : {spelled(dtype, shape)}")


def _not(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    ones = lines.constant(np.bitwise_not(np.zeros((), dtype)), dtype, shape)
    return lines.add(f"arith.xori {xs[0]}, {ones} : {spelled(dtype, shape)}")


def _is_finite(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    size = lines.add(f"math.absf {xs[0]} : {spelled(dtype, shape)}")
    return _compare(lines, "LT", [size, lines.constant(np.inf, dtype, shape)], dtype, out, shape)


def _sign(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    type_ = spelled(dtype, shape)
    if dtype.kind == "u":
        return elementwise(lines, "minimum", "", [xs[0], lines.constant(1, dtype, shape)], dtype, dtype, shape)
    one = lines.constant(1, dtype, shape)
    if dtype.kind == "i":
        return _clamp(lines, "", [lines.constant(-1, dtype, shape), xs[0], one], dtype, out, shape)
    signed = lines.add(f"math.copysign {one}, {xs[0]} : {type_}")
    itself = lines.add(f"arith.cmpf ueq, {xs[0]}, {lines.constant(0, dtype, shape)} : {type_}")  # zeros and NaN
    return _select(lines, "", [itself, xs[0], signed], dtype, out, shape)


def _shift(operation: str, keeps_sign: bool = False):  # type: ignore[no-untyped-def]
    def write(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
        x, by = xs
        type_, bits = spelled(dtype, shape), 8 * dtype.itemsize
        most = lines.constant(bits - 1, dtype, shape)
        if keeps_sign:
            by = lines.add(f"arith.minui {by}, {most} : {type_}")
            return lines.add(f"{operation} {x}, {by} : {type_}")
        inside = lines.add(f"arith.cmpi ule, {by}, {most} : {type_}")
        shifted = lines.add(f"{operation} {x}, {by} : {type_}")
        return _select(lines, "", [inside, shifted, lines.constant(0, dtype, shape)], dtype, out, shape)

    return write


def _convert(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    (x,) = xs
    if dtype == out or (dtype.kind in "iu" and out.kind in "iu" and dtype.itemsize == out.itemsize):
        return x
    if out.kind == "b":
        return _compare(lines, "NE", [x, lines.constant(0, dtype, shape)], dtype, out, shape)
    kinds = ("f" if dtype.kind == "f" else "s" if dtype.kind == "i" else "u") + ("f" if out.kind == "f" else out.kind)
    wider = out.itemsize > dtype.itemsize or dtype.kind == "b"
    operation = {
        "ff": "extf" if wider else "truncf", "sf": "sitofp", "uf": "uitofp", "fi": "fptosi", "fu": "fptoui",
        "si": "extsi" if wider else "trunci", "ui": "extui" if wider else "trunci",
        "su": "extsi" if wider else "trunci", "uu": "extui" if wider else "trunci",
    }[kinds]  # fmt: skip
    return lines.add(f"arith.{operation} {x} : {spelled(dtype, shape)} to {spelled(out, shape)}")


def _bitcast(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    if dtype.itemsize != out.itemsize or "b" in (dtype.kind, out.kind):
        raise Unfit("bitcast_convert")
    if spelled(dtype) == spelled(out):
        return xs[0]
    return lines.add(f"arith.bitcast {xs[0]} : {spelled(dtype, shape)} to {spelled(out, shape)}")


_SPECIAL = {
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "negate": _negate,
    "not": _not,
    "is_finite": _is_finite,
    "sign": _sign,
    "shift_left": _shift("arith.shli"),
    "shift_right_logical": _shift("arith.shrui"),
    "shift_right_arithmetic": _shift("arith.shrsi", keeps_sign=True),
    "convert": _convert,
    "bitcast_convert": _bitcast,
}
ELEMENTWISE = frozenset(_PLAIN) | frozenset(_SPECIAL) | {name for name, _ in _DIVISIONS}
