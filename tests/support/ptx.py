"""CUDA's assembler (PTX), run by NumPy: what a kernel computes, on machines without a GPU.

Threads of a workgroup go on together where they are at one place, and wait for each other at barriers. Memory is
buffers; an access outside of them, or of what was not written, is an error. Tensor cores are not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

_DTYPES = (
    {
        f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}")
        for kind, letter, sizes in (("u", "u", (8, 16, 32, 64)), ("s", "i", (8, 16, 32, 64)), ("f", "f", (16, 32, 64)))
        for bits in sizes
    }
    | {f"b{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
    | {"bf16": np.dtype(ml_dtypes.bfloat16)}
)


def _quotient(x: Array, y: Array) -> Array:
    """Towards zero."""
    return (x - np.fmod(x, y)) // np.where(y == 0, 1, y)


def _listed(operand: str) -> list[str]:
    return [each.strip() for each in operand.strip("{}").split(",")]


def _lanes(how: str, by: Array) -> Array:
    """Which thread each one of a warp of 32 reads from: itself, where that is in no warp of its own."""
    lane, by = np.arange(len(by)), by.astype(np.int64)
    found = {"bfly": lane ^ by, "idx": lane // 32 * 32 + by, "down": lane + by, "up": lane - by}[how]
    inside = (found // 32 == lane // 32) & (found >= 0) & (found < len(by))
    return np.where(inside, found, lane)


def _compared(how: list[str], x: Array, y: Array, also: Array | None) -> Array:
    kind = how[0]
    unordered = np.isnan(x) | np.isnan(y) if x.dtype.kind in "fV" else np.zeros(len(x), bool)
    if kind in ("num", "nan"):
        found = unordered ^ (kind == "num")
    elif len(kind) == 3:  # true where one is NaN
        found = _COMPARE[kind[:2]](x, y) | unordered
    else:
        found = _COMPARE[kind](x, y) & ~unordered
    return found if also is None else _INTEGERS[how[1]](found, also)


def _product(is_wide: bool, x: Array, y: Array) -> Array:
    """Twice as wide as its factors, or the upper half of that."""
    bits = 8 * x.dtype.itemsize
    wide = np.dtype(f"{x.dtype.kind}{bits // 4}" if bits < 64 else object)
    product = x.astype(wide) * y.astype(wide)
    return product if is_wide else (product >> bits).astype(x.dtype)


def _converted(how: list[str], x: Array) -> Array:
    """As another dtype: floats may be rounded, and become the nearest integer that there is."""
    wanted = _DTYPES[how[-2]]
    if x.dtype.kind in "fV" and how[0].endswith("i"):
        x = {"n": np.rint, "z": np.trunc, "m": np.floor, "p": np.ceil}[how[0][1]](x)
    if x.dtype.kind in "fV" and wanted.kind in "iu":
        info = np.iinfo(wanted)
        x = np.clip(np.nan_to_num(x, nan=0.0), float(info.min), float(info.max))
    return x.astype(wanted)


def _leading_zeros(x: Array) -> Array:
    return 8 * x.dtype.itemsize - np.array([int(each).bit_length() for each in x])


def _ones(x: Array) -> Array:
    return np.unpackbits(x.view(np.uint8).reshape(len(x), -1), axis=1).sum(1)


def _funnel(to_left: bool, low: Array, high: Array, by: Array) -> Array:
    """Two words, one after the other, are shifted, of which one is left."""
    both, steps = high.astype(np.uint64) << np.uint64(32) | low, (by & np.uint32(31)).astype(np.uint64)
    return ((both << steps) >> np.uint64(32) if to_left else both >> steps).astype(np.uint32)


def _extracted(x: Array, first: Array, count: Array) -> Array:
    """So many bits from a position on."""
    (start,), (width,) = {*first.tolist()}, {*count.tolist()}
    left = 8 * x.dtype.itemsize - width
    return (x << (left - start)) >> left


def _inserted(x: Array, y: Array, first: Array, count: Array) -> Array:
    """So many bits of one number in their place in another."""
    (start,), (width,) = {*first.tolist()}, {*count.tolist()}
    mask = x.dtype.type(((1 << width) - 1) << start)
    return (x << x.dtype.type(start)) & mask | y & ~mask


def _permuted(x: Array, y: Array, which: Array) -> Array:
    """Each byte is one of the eight of two words, or all bits are its first."""
    words, digits = np.stack([x, y], 1).view(np.uint8), which[:, None] >> np.arange(0, 16, 4, dtype=np.uint32) & 15
    chosen = np.take_along_axis(words, (digits & 7).astype(np.int64), 1)
    made = np.where(digits > 7, np.where(chosen > 127, 255, 0).astype(np.uint8), chosen)
    return np.ascontiguousarray(made).view(x.dtype)[:, 0]


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
# With the number of operands that are of the instruction's dtype.
_OF_BITS: dict[str, tuple[Callable[..., Array], int]] = {
    "bfe": (_extracted, 1),
    "bfi": (_inserted, 2),
    "prmt": (_permuted, 2),
}
_COUNTS: dict[str, Callable[[Any], Any]] = {"clz": _leading_zeros, "popc": _ones}
_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "div": _quotient,
    "rem": np.fmod, "mad": lambda x, y, z: x * y + z, "not": np.invert, "neg": np.negative, "abs": np.abs,
    "mov": lambda x: x, "cvta": lambda x: x,
}  # fmt: skip
_FLOATS: dict[tuple[str, bool], Callable[..., Any]] = {
    (name, nan): function
    for nan in (False, True)
    for name, function in {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "fma": lambda x, y, z: x * y + z,
        "div": np.divide,
        "rcp": lambda x: 1 / x,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "ex2": np.exp2,
        "lg2": np.log2,
        "neg": np.negative,
        "abs": np.abs,
        "copysign": lambda sign, x: np.copysign(x, sign),
        "min": np.minimum if nan else np.fmin,
        "max": np.maximum if nan else np.fmax,
    }.items()
}
_SHARED = 1 << 40  # where the memory that a workgroup shares begins; buffers begin at multiples of it behind
_SHARED_BYTES = 1 << 16


class Kernel:
    """An entry of a program.

    Args:
        text: from the name of the entry to its end.
        program: where its constants are.
    """

    def __init__(self, text: str, program: str = "") -> None:
        self.constants = {
            name: np.array([*values.split(","), *"0" * (int(size) - values.count(",") - 1)], np.uint8)
            for name, size, values in re.findall(r"\.b8 (\w+)\[(\d+)\] = \{([^}]*)\};", program)
        }
        size = re.search(r"\.maxntid (\d+), (\d+), (\d+)", text)
        assert size is not None
        self.size = tuple(map(int, size.groups()))
        body = text[text.index("{") + 1 : text.index("\n}")]
        local = re.search(r"\.local .*\.b8\s+(\w+)\[(\d+)\]", body)
        self.local = (local[1], int(local[2])) if local else ("", 0)  # what each thread has for itself
        self.parameters = re.findall(r"\.param [^\n]*?(\w+)[,\n]", text[: text.index("{")] + "\n")
        self.labels: dict[str, int] = {}
        self.steps: list[tuple[str, list[str], str]] = []  # a name, operands, and a predicate
        for line in re.sub(r"//[^\n]*", "", body).splitlines():
            line = re.sub(r"\{ \.reg \.b32 tmp; (.*)\btmp\b(.*;) \}", r"\1_\2", line.strip())
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.steps)
            elif line and not line.startswith("."):
                match = re.fullmatch(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*(.*);", line)
                assert match is not None, line
                operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", match[3])
                self.steps.append((match[2], operands, match[1] or ""))

    def run(
        self, grid: tuple[int, ...], buffers: Sequence[Array], constants: Sequence[int] = ()
    ) -> dict[tuple[str, int], Array]:
        """Run workgroups.

        Args:
            grid: how many there are along each axis.
            buffers: the first parameters of the kernel, in their order, which are changed.
            constants: the other parameters.

        Returns:
            Of each buffer the bytes that are read, ("ld", its number), and written ("st").
        """
        touched = {(op, i): np.zeros(x.nbytes, bool) for op in ("ld", "st") for i, x in enumerate(buffers)}
        with np.errstate(all="ignore"):
            for group in np.ndindex(*reversed(grid)):
                _Workgroup(self, group[::-1], buffers, constants, touched).run()
        return touched


class _Workgroup:
    def __init__(
        self,
        kernel: Kernel,
        group: tuple[int, ...],
        buffers: Sequence[Array],
        constants: Sequence[int],
        touched: dict[tuple[str, int], Array],
    ) -> None:
        self.given, self.touched = constants, touched
        self.kernel = kernel
        self.count = int(np.prod(kernel.size))
        self.group = group
        self.memory = [np.zeros(_SHARED_BYTES, np.uint8), *(b.reshape(-1).view(np.uint8) for b in buffers)]
        self.buffers = len(buffers)
        self.memory += [*kernel.constants.values(), np.zeros(self.count * kernel.local[1], np.uint8)]
        # Of each shared byte between which barriers it was last written and read, and by whom; -1: by nobody, by many.
        self.period = 0
        self.last = {op: (np.full(_SHARED_BYTES, -1), np.full(_SHARED_BYTES, -1)) for op in ("ld", "st")}
        self.registers: dict[str, Array] = {}
        self.at = np.zeros(self.count, np.int64)
        self.waiting = np.zeros(self.count, bool)  # at a barrier

    def run(self) -> None:
        end = len(self.kernel.steps)
        while (self.at < end).any():
            going = (self.at < end) & ~self.waiting
            if not going.any():
                assert len({*self.at[self.waiting]}) == 1, "threads wait at different barriers"
                self.waiting[:] = False
                self.period += 1
                continue
            at = int(self.at[going].min())
            now = going & (self.at == at)
            self.at[now] += 1
            name, operands, predicate = self.kernel.steps[at]
            if predicate:
                now = now & (self.registers[predicate.strip("!")].astype(bool) ^ predicate.startswith("!"))
            self.step(name.split("."), operands, now)

    def step(self, name: list[str], operands: list[str], now: Any) -> None:
        """One instruction, for the threads that are at it."""
        op, *rest = name
        dtype = _DTYPES.get(rest[-1] if rest else "", np.dtype(bool))
        if op == "bra":
            self.at[now] = self.kernel.labels[operands[0]]
        elif op == "ret":
            self.at[now] = len(self.kernel.steps)
        elif op == "bar":
            self.waiting |= now
        elif op in ("ld", "st"):
            self.access(op, rest, operands, now, dtype)
        elif op == "mov" and operands[0].startswith("{"):
            parts = _listed(operands[0])
            pieces = self.read(operands[1], dtype).view(f"u{dtype.itemsize // len(parts)}").reshape(self.count, -1)
            for part, piece in zip(parts, pieces.T, strict=True):
                if part != "_":
                    self.write(part, piece.copy(), now)
        else:
            self.write(operands[0].split("|")[0], self.computed(op, rest, operands[1:], now, dtype), now)

    def computed(self, op: str, rest: list[str], operands: list[str], now: Any, dtype: np.dtype[Any]) -> Any:
        """What an instruction makes of its operands."""
        if op == "mov" and operands[0].startswith("{"):
            parts = _listed(operands[0])
            narrow = np.dtype(f"u{dtype.itemsize // len(parts)}")
            return np.stack([self.read(part, narrow) for part in parts], 1).view(dtype)[:, 0]
        if op == "selp":
            x, y = (self.read(each, dtype) for each in operands[:2])
            return np.where(self.read(operands[2], np.dtype(bool)), x, y)
        if op == "shfl":
            assert now.all(), "some threads of a warp are elsewhere"
            return self.read(operands[0], dtype)[_lanes(rest[1], self.read(operands[1], np.dtype("u4")))]
        if op == "setp":
            also = self.read(operands[2], np.dtype(bool)) if len(operands) == 3 else None
            return _compared(rest, *(self.read(each, dtype) for each in operands[:2]), also)
        if op in ("mul", "mad") and rest[0] in ("wide", "hi"):
            product = _product(rest[0] == "wide", *(self.read(each, dtype) for each in operands[:2]))
            return product if op == "mul" else product + self.read(operands[2], product.dtype)
        if op == "cvt":
            return _converted(rest, self.read(operands[0], dtype))
        if op in _OF_BITS:  # whose last operands are words, whatever the others are
            function, count = _OF_BITS[op]
            words = [self.read(each, np.dtype("u4")) for each in operands[count:]]
            return function(*(self.read(each, dtype) for each in operands[:count]), *words)
        given = [self.read(each, dtype) for each in operands]
        if dtype.kind in "fV" and (op, "NaN" in rest) in _FLOATS:
            return _FLOATS[op, "NaN" in rest](*given).astype(dtype)
        if op == "shf":
            return _funnel(rest[0] == "l", *given)
        if op in _COUNTS:
            return _COUNTS[op](*given).astype(np.uint32)
        if op in _INTEGERS:
            return _INTEGERS[op](*given).astype(dtype)
        raise NotImplementedError(".".join([op, *rest]))

    def read(self, operand: str, dtype: np.dtype[Any]) -> Array:
        """The values of an operand, of each thread."""
        if operand in self.registers:
            found = self.registers[operand]
            return found.astype(bool) if dtype.kind == "b" else found.astype(f"u{dtype.itemsize}").view(dtype)
        if operand.startswith("%tid"):
            x, y, _ = self.kernel.size
            threads = np.arange(self.count)
            value = {"x": threads % x, "y": threads // x % y, "z": threads // (x * y)}[operand[-1]]
            return value.astype(dtype)
        if operand.startswith("%ctaid"):
            return np.full(self.count, dict(zip("xyz", self.group)).get(operand[-1], 0), dtype)
        if operand and operand == self.kernel.local[0]:
            place = np.full(self.count, len(self.memory) * _SHARED, np.int64)
            return (place + np.arange(self.count) * self.kernel.local[1]).astype(dtype)
        if operand in self.kernel.constants:
            place = self.buffers + 2 + list(self.kernel.constants).index(operand)
            return np.full(self.count, place * _SHARED, dtype)
        if operand.startswith("__dynamic_shared_memory__"):
            return np.full(self.count, _SHARED, dtype)
        if re.fullmatch(r"0[fd][0-9A-Fa-f]+", operand):
            bits = np.asarray(int(operand[2:], 16), f"u{dtype.itemsize}")
            return np.full(self.count, bits).view(dtype)
        if operand.startswith("%"):  # what nothing has been written to yet, and does not matter
            return np.zeros(self.count, dtype)
        value = np.asarray(int(operand.rstrip("U"), 0) % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}")
        return np.full(self.count, value).view(dtype)

    def write(self, register: str, values: Array, now: Any) -> None:
        assert register.startswith("%"), register
        if values.dtype.kind == "i":
            raw = values.astype(np.int64).view(np.uint64)
        else:
            raw = values.astype(np.uint8) if values.dtype == bool else values.view(f"u{values.dtype.itemsize}")
        old = self.registers.get(register)
        self.registers[register] = np.where(now, raw.astype(np.uint64), 0 if old is None else old)

    def access(self, op: str, rest: list[str], operands: list[str], now: Any, dtype: np.dtype[Any]) -> None:
        """Loads and stores of one, two or four elements."""
        place, values = (operands[1], operands[0]) if op == "ld" else (operands[0], operands[1])
        base, offset = re.fullmatch(r"\[([^+\]]+)(?:\+(-?\d+))?\]", place).groups()  # type: ignore[union-attr]
        if rest[0] == "param":
            number = self.kernel.parameters.index(base)
            inside = number < self.buffers
            value = (number + 2) * _SHARED if inside else self.given[number - self.buffers] % (1 << 64)
            self.write(values, np.full(self.count, value, np.uint64).astype(dtype), now)
            return
        addresses = self.read(base, np.dtype("u8")).astype(np.int64) + int(offset or 0)
        for i, value in enumerate(values.strip("{}").replace(" ", "").split(",")):
            places = addresses + i * dtype.itemsize
            data = self.read(value, dtype).copy() if op == "st" else np.zeros(self.count, dtype)
            for which in np.unique(places[now] // _SHARED - 1).tolist():
                chosen = now & (places // _SHARED - 1 == which)
                assert 0 <= which < len(self.memory), f"{op} {place} is nowhere"
                memory, inside = self.memory[which], places[chosen] % _SHARED
                assert (inside + dtype.itemsize <= memory.size).all(), f"{op} {place} is outside of the buffer"
                index = inside[:, None] + np.arange(dtype.itemsize)
                self.note(op, which, index, np.flatnonzero(chosen)[:, None])
                if op == "st":
                    memory[index] = data[chosen].view(np.uint8).reshape(len(inside), -1)
                else:
                    data[chosen] = memory[index].reshape(-1).view(dtype)
            if op == "ld":
                self.write(value, data, now)

    def note(self, op: str, which: int, index: Array, threads: Array) -> None:
        """Note accesses to bytes of a memory."""
        if which == 0:
            self.share(op, index, threads)
        elif which <= self.buffers:
            self.touched[op, which - 1][index] = True
        else:
            assert op == "ld" or which == len(self.memory) - 1, "constants are not written"

    def share(self, op: str, index: Array, threads: Array) -> None:
        """Note accesses to shared bytes, and see that no others come between which no barrier parts from them."""
        for other in ("st",) if op == "ld" else ("ld", "st"):
            when, who = (kept[index] for kept in self.last[other])
            assert op == "st" or (when >= 0).all(), "what is read was not written"
            assert ((when < self.period) | (who == threads)).all(), (
                f"{other} and {op} of a byte without a barrier between"
            )
        when, who = self.last[op]
        again = (when[index] == self.period) & (who[index] != threads)
        who[index] = np.where(again, -1, threads)
        when[index] = self.period
        if op == "ld":  # several threads may read one byte in one instruction
            flat, counts = np.unique(index, return_counts=True)
            who[flat[counts > 1]] = -1
