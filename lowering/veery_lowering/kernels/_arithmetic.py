"""Elementwise operations of StableHLO in the arith and math dialects, on scalars or vectors, as MLIR text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np


class Unfit(Exception):
    """The loop cannot be written as a kernel."""


@dataclass
class Lines:
    """Text that grows: `head` has what holds everywhere, `prologue` what is done once, before the rest, `lines`.

    Attributes:
        exact: names of float32 that bfloat16 has.
        rounds: the most that the loops that are written make, in all.
        steps: the most lines that these execute.
        last: both, of what was repeated last.
        times: how often what is written next is repeated.
    """

    head: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exact: set[str] = field(default_factory=set)
    names: int = 0
    rounds: float = 0
    steps: float = 0
    last: tuple[float, float] = (0, 0)
    times: float = 1
    _counted: int = 0
    _made: dict[str, str] = field(default_factory=dict)
    _integers: dict[str, int] = field(default_factory=dict)
    _scalars: dict[str, tuple[object, np.dtype]] = field(default_factory=dict)

    def new(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def add(self, text: str) -> str:
        """Write an operation; returns its result."""
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    @contextmanager
    def repeated(self, times: float) -> Iterator[None]:
        """What is written within is repeated so many times."""
        self._count()
        before, rounds, steps = self.times, self.rounds, self.steps
        self.times *= times
        self.rounds += self.times
        yield
        self._count()
        self.times = before
        self.last = (self.rounds - rounds, self.steps - steps)

    @contextmanager
    def first(self) -> Iterator[None]:
        """What is written within is done once, before all else."""
        self._count()
        lines, times = self.lines, self.times
        self.lines, self.times, self._counted = self.prologue, 1, len(self.prologue)
        yield
        self._count()
        self.lines, self.times, self._counted = lines, times, len(lines)

    def _count(self) -> None:
        """Count the lines that were written since this was called before."""
        self.steps += (len(self.lines) - self._counted) * self.times
        self._counted = len(self.lines)

    def constant(self, value: object, dtype: np.dtype, shape: str) -> str:
        """A constant; `shape` is "" for a scalar, else as in "8x"."""
        text = literal(value, dtype)
        typed = "" if text in ("true", "false") and not shape else f" : {spelled(dtype, shape)}"
        name = self._once(f"arith.constant {f'dense<{text}>' if shape else text}{typed}")
        if dtype.kind in "iu":
            self._integers[name] = int(np.asarray(value, dtype))
        if not shape:
            self._scalars[name] = value, dtype
        return name

    def spread(self, name: str, dtype: np.dtype, shape: str) -> str:
        """A scalar in all lanes of a vector: of a constant this is one, too."""
        if name in self._scalars:
            return self.constant(*self._scalars[name], shape)
        return self.add(f"vector.broadcast {name} : {spelled(dtype)} to {spelled(dtype, shape)}")

    def constants(self, values: np.ndarray) -> str:
        """A constant vector (a scalar where there is one value)."""
        if values.size == 1:
            return self.constant(values[0], values.dtype, "")
        listed = ", ".join(literal(value, values.dtype) for value in values)
        return self._once(f"arith.constant dense<[{listed}]> : {spelled(values.dtype, f'{values.size}x')}")

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


@functools.cache  # 30 000 times in 50 programs
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


def is_half(dtype: np.dtype) -> bool:
    """Whether it is of half precision, of which float32 is computed, and rounded."""
    return dtype.itemsize == 2 and dtype.kind in "fV"  # its name takes 3 us


def supported(dtype: np.dtype) -> bool:
    """Whether a kernel can hold it."""
    return dtype.kind in "iub" or (dtype.kind == "f" and dtype.itemsize in (4, 8)) or is_half(dtype)


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
    remainder f=arith.remf
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
    round_nearest_afz f=math.round
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
_SINGLE = np.dtype(np.float32)
# Bits of the exponent and of the mantissa.
_FORMATS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}
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
        detail: of a comparison, which; of `reduce_precision`, the bits of the exponent and of the mantissa.
        operands: of dtype `dtype` but for the predicate of a select; of the result's shape.
        dtype, out: of the operands (the last of them) and of the result.
        shape: "" of scalars, "8x" of vectors.

    Raises:
        Unfit: there is no such operation.
    """
    if is_half(dtype) and name not in _OF_HALVES:
        wide = [_convert(lines, "", [x], dtype, _SINGLE, shape) for x in operands]
        made = elementwise(lines, name, detail, wide, _SINGLE, _SINGLE if out == dtype else out, shape)
        return _convert(lines, "", [made], _SINGLE, out, shape) if out == dtype else made
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
        known = lines.known(by)
        if known is not None and 0 <= known < bits:
            return lines.add(f"{operation} {x}, {by} : {type_}")
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
    if is_half(dtype):
        return _convert(lines, "", [_widened(lines, x, dtype, shape)], _SINGLE, out, shape)
    if is_half(out):
        if dtype == np.float64:
            raise Unfit("float64 to half precision")  # by way of float32 it would be rounded twice
        return _narrowed(lines, _convert(lines, "", [x], dtype, _SINGLE, shape), out, shape)
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


def _widened(lines: Lines, x: str, dtype: np.dtype, shape: str) -> str:
    """Half precision as float32."""
    single = spelled(_SINGLE, shape)
    if dtype == np.float16:
        return lines.add(f"arith.extf {x} : {spelled(dtype, shape)} to {single}")
    half, word = (spelled(np.dtype(kind), shape) for kind in (np.int16, np.int32))
    bits = lines.add(f"arith.bitcast {x} : {spelled(dtype, shape)} to {half}")
    bits = lines.add(f"arith.extui {bits} : {half} to {word}")
    bits = lines.add(f"arith.shli {bits}, {lines.constant(16, np.dtype(np.int32), shape)} : {word}")
    return lines.add(f"arith.bitcast {bits} : {word} to {single}")


def _narrowed(lines: Lines, x: str, out: np.dtype, shape: str) -> str:
    """float32 as the nearest number of half precision.

    To bfloat16 by bits: some processors have no instruction for it, and that of x86 makes zeros of subnormal numbers.
    """
    single = spelled(_SINGLE, shape)
    if out == np.float16:
        return lines.add(f"arith.truncf {x} : {single} to {spelled(out, shape)}")
    half, word = (spelled(np.dtype(kind), shape) for kind in (np.int16, np.int32))
    if x not in lines.exact:
        x = _reduce_precision(lines, "8,7", [x], _SINGLE, _SINGLE, shape)
    bits = lines.add(f"arith.bitcast {x} : {single} to {word}")
    bits = lines.add(f"arith.shrui {bits}, {lines.constant(16, np.dtype(np.int32), shape)} : {word}")
    bits = lines.add(f"arith.trunci {bits} : {word} to {half}")
    return lines.add(f"arith.bitcast {bits} : {half} to {spelled(out, shape)}")


def _reduce_precision(lines: Lines, detail: str, xs: Sequence[str], dtype: np.dtype, out: np.dtype, shape: str) -> str:
    """The nearest of the numbers that have fewer bits; those that are too small become zeros, NaN stays."""
    exponent, mantissa = map(int, detail.split(","))
    own_exponent, own_mantissa = _FORMATS[dtype.name]
    (x,), words = xs, np.dtype(f"int{8 * dtype.itemsize}")
    type_ = spelled(words, shape)
    number: Callable[[int], str] = lambda n: lines.constant(np.array(n, f"u{dtype.itemsize}").view(words), words, shape)
    write: Callable[..., str] = lambda operation, *of: lines.add(f"arith.{operation} {', '.join(of)} : {type_}")
    given = bits = lines.add(f"arith.bitcast {x} : {spelled(dtype, shape)} to {type_}")
    sign_bit, infinity = 1 << (8 * dtype.itemsize - 1), ((1 << own_exponent) - 1) << own_mantissa
    if mantissa < own_mantissa:
        dropped = own_mantissa - mantissa
        odd = write("andi", write("shrui", bits, number(dropped)), number(1))
        bits = write("addi", bits, write("addi", odd, number((1 << (dropped - 1)) - 1)))
        bits = write("andi", bits, number((sign_bit << 1) - (1 << dropped)))
    if exponent < own_exponent:
        bias, reach = (1 << (own_exponent - 1)) - 1, (1 << (exponent - 1)) - 1
        sign, size = write("andi", given, number(sign_bit)), write("andi", bits, number(sign_bit - 1))
        most = number(((bias + reach + 1) << own_mantissa) - 1)
        least = number((bias - reach + 1) << own_mantissa)
        for test, limit, instead in (("ugt", most, write("ori", sign, number(infinity))), ("ult", least, sign)):
            beyond = write(f"cmpi {test},", size, limit)
            bits = _select(lines, "", [beyond, instead, bits], words, words, shape)
    nan = lines.add(f"arith.cmpf uno, {x}, {x} : {spelled(dtype, shape)}")
    quiet = write("ori", given, number(1 << (own_mantissa - 1)))  # a NaN also where bits are cut off
    bits = _select(lines, "", [nan, quiet, bits], words, words, shape)
    rounded = lines.add(f"arith.bitcast {bits} : {type_} to {spelled(dtype, shape)}")
    if dtype == _SINGLE and (exponent, mantissa) == _FORMATS["bfloat16"]:
        lines.exact.add(rounded)
    return rounded


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
    "reduce_precision": _reduce_precision,
}
# What is done with numbers of half precision as they are.
_OF_HALVES = frozenset("select convert bitcast_convert reduce_precision".split())
ELEMENTWISE = frozenset(_PLAIN) | frozenset(_SPECIAL) | {name for name, _ in _DIVISIONS}


def is_rounded(dtype: np.dtype, kind: str | None) -> bool:
    """Whether the order in which numbers are reduced changes the last digits."""
    return dtype.kind == "f" and kind in ("add", "mul")


def _least(dtype: np.dtype) -> object:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _most(dtype: np.dtype) -> object:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


# What changes nothing in a reduction; -0.0 as a sum of no more than -0.0 keeps its sign.
NEUTRAL: dict[str, Callable[[np.dtype], object]] = {
    "add": lambda dtype: -0.0 if dtype.kind == "f" else 0,
    "mul": lambda dtype: 1,
    "maximumf": _least, "maxsi": _least, "maxui": _least,
    "minimumf": _most, "minsi": _most, "minui": _most,
    "and": lambda dtype: True if dtype.kind == "b" else np.bitwise_not(np.zeros((), dtype)),
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
}  # fmt: skip
