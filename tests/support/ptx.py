"""CUDA's assembler (PTX), run by NumPy: what a kernel computes, on machines without a GPU.

Threads of a workgroup go on together where they are at one place, and wait for each other at barriers. Memory is
buffers; an access outside of them, or of what was not written, is an error. Only what products need is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES = (
    {
        f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}")
        for kind, letter, sizes in (("u", "u", (8, 16, 32, 64)), ("s", "i", (8, 16, 32, 64)), ("f", "f", (16, 32, 64)))
        for bits in sizes
    }
    | {f"b{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
    | {"bf16": np.dtype(ml_dtypes.bfloat16)}
)


def _quotient(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Towards zero."""
    return (x - np.fmod(x, y)) // np.where(y == 0, 1, y)


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "div": _quotient,
    "rem": np.fmod,
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
        "neg": np.negative,
        "abs": np.abs,
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
        self, grid: tuple[int, ...], buffers: Sequence[np.ndarray[Any, Any]], constants: Sequence[int] = ()
    ) -> dict[tuple[str, int], np.ndarray[Any, Any]]:
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
        buffers: Sequence[np.ndarray[Any, Any]],
        constants: Sequence[int],
        touched: dict[tuple[str, int], np.ndarray[Any, Any]],
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
        self.registers: dict[str, np.ndarray[Any, Any]] = {}
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
        if op in ("add", "sub", "mul", "fma", "min", "max", "div", "rcp", "sqrt", "neg", "abs") and dtype.kind in "fV":
            given = [self.read(each, dtype) for each in operands[1:]]
            self.write(operands[0], _FLOATS[op, "NaN" in rest](*given).astype(dtype), now)
        elif op == "bra":
            self.at[now] = self.kernel.labels[operands[0]]
        elif op == "ret":
            self.at[now] = len(self.kernel.steps)
        elif op == "bar":
            self.waiting |= now
        elif op in ("ld", "st"):
            self.access(op, rest, operands, now, dtype)
        elif op == "setp":
            x, y = (self.read(each, dtype) for each in operands[1:3])
            unordered = np.isnan(x) | np.isnan(y) if dtype.kind in "fV" else np.zeros(self.count, bool)
            kind = rest[0]
            if kind in ("num", "nan"):
                found = unordered ^ (kind == "num")
            elif len(kind) == 3:  # true where one is NaN
                found = _COMPARE[kind[:2]](x, y) | unordered
            else:
                found = _COMPARE[kind](x, y) & ~unordered
            if len(operands) == 4:
                found = _BINARY[rest[1]](found, self.read(operands[3], np.dtype(bool)))
            self.write(operands[0], found, now)
        elif op == "bfe":  # so many bits from a position on
            x, start, count = (self.read(each, np.dtype("u4") if i else dtype) for i, each in enumerate(operands[1:]))
            (first,), (width,) = {*start.tolist()}, {*count.tolist()}
            left = 8 * dtype.itemsize - width
            self.write(operands[0], (x << (left - first)) >> left, now)
        elif op == "bfi":  # so many bits of one number in their place in another
            x, y = (self.read(each, dtype) for each in operands[1:3])
            first, width = ({*self.read(each, np.dtype("u4")).tolist()} for each in operands[3:])
            mask = dtype.type(((1 << max(width)) - 1) << max(first))
            self.write(operands[0], (x << dtype.type(max(first))) & mask | y & ~mask, now)
        elif op in ("neg", "abs"):
            self.write(operands[0], (np.negative if op == "neg" else np.abs)(self.read(operands[1], dtype)), now)
        elif op == "clz":
            bits = [int(x).bit_length() for x in self.read(operands[1], dtype)]
            self.write(operands[0], (8 * dtype.itemsize - np.array(bits)).astype(np.uint32), now)
        elif op == "shf":  # of two words, one after the other
            low, high, by = (self.read(each, np.dtype("u4")).astype(np.uint64) for each in operands[1:])
            both = high << np.uint64(32) | low
            by &= np.uint64(31)
            shifted = (both << by) >> np.uint64(32) if rest[0] == "l" else both >> by
            self.write(operands[0], shifted.astype(np.uint32), now)
        elif op == "rsqrt":
            self.write(operands[0], 1 / np.sqrt(self.read(operands[1], dtype)), now)
        elif op == "popc":
            bits = np.unpackbits(self.read(operands[1], dtype).view(np.uint8).reshape(self.count, -1), axis=1)
            self.write(operands[0], bits.sum(1).astype(np.uint32), now)
        elif op == "shfl":  # within warps of 32 threads
            lane, other = np.arange(self.count), self.read(operands[2], np.dtype("u4")).astype(np.int64)
            assert now.all(), "some threads of a warp are elsewhere"
            source = {"bfly": lane ^ other, "idx": lane // 32 * 32 + other, "down": lane + other, "up": lane - other}
            at = source[rest[1]]
            at = np.where((at // 32 == lane // 32) & (at < self.count) & (at >= 0), at, lane)
            self.write(operands[0].split("|")[0], self.read(operands[1], dtype)[at], now)
        elif op == "ex2":
            self.write(operands[0], np.exp2(self.read(operands[1], dtype)), now)
        elif op == "lg2":
            self.write(operands[0], np.log2(self.read(operands[1], dtype)), now)
        elif op == "not":
            self.write(operands[0], ~self.read(operands[1], dtype), now)
        elif op == "selp":
            x, y = (self.read(each, dtype) for each in operands[1:3])
            self.write(operands[0], np.where(self.read(operands[3], np.dtype(bool)), x, y), now)
        elif op == "copysign":
            sign, x = (self.read(each, dtype) for each in operands[1:])
            self.write(operands[0], np.copysign(x, sign), now)
        elif op == "cvta":
            self.write(operands[0], self.read(operands[1], dtype), now)
        elif op == "mov" and operands[0].startswith("{"):
            parts = operands[0].strip("{}").split(",")
            each = self.read(operands[1], dtype).view(f"u{dtype.itemsize // len(parts)}").reshape(self.count, -1)
            for i, part in enumerate(parts):
                if part.strip() != "_":
                    self.write(part.strip(), each[:, i].copy(), now)
        elif op == "mov" and operands[1].startswith("{"):
            parts = operands[1].strip("{}").split(",")
            each = [self.read(part.strip(), np.dtype(f"u{dtype.itemsize // len(parts)}")) for part in parts]
            self.write(operands[0], np.stack(each, 1).view(dtype)[:, 0], now)
        elif op == "prmt":  # each byte is one of the eight of two words, or all bits are its first
            words = np.stack([self.read(each, dtype) for each in operands[1:3]], 1).view(np.uint8)
            (which,) = {*self.read(operands[3], dtype).tolist()}
            digits = [which >> 4 * i & 15 for i in range(4)]
            chosen = words[:, [digit & 7 for digit in digits]]
            signs = np.array([digit > 7 for digit in digits])
            made = np.where(signs, np.where(chosen > 127, 255, 0).astype(np.uint8), chosen)
            self.write(operands[0], np.ascontiguousarray(made).view(dtype)[:, 0], now)
        elif op == "mov":
            self.write(operands[0], self.read(operands[1], dtype), now)
        elif op == "cvt":
            values, wanted = self.read(operands[1], dtype), _DTYPES[rest[-2]]
            if dtype.kind in "fV" and rest[0][-1:] == "i":
                values = {"n": np.rint, "z": np.trunc, "m": np.floor, "p": np.ceil}[rest[0][1]](values)
            if dtype.kind in "fV" and wanted.kind in "iu":
                info = np.iinfo(wanted)
                values = np.clip(np.nan_to_num(values, nan=0.0), float(info.min), float(info.max))
            self.write(operands[0], values.astype(wanted), now)
        elif op in ("mul", "mad") and rest[0] in ("wide", "hi"):
            wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}" if dtype.itemsize < 8 else object)
            x, y = (self.read(each, dtype).astype(wide) for each in operands[1:3])
            product = x * y if rest[0] == "wide" else ((x * y) >> (8 * dtype.itemsize)).astype(dtype)
            self.write(operands[0], product + (self.read(operands[3], product.dtype) if op == "mad" else 0), now)
        elif op == "mad":
            x, y, z = (self.read(each, dtype) for each in operands[1:])
            self.write(operands[0], x * y + z, now)
        elif op in _BINARY:
            x, y = (self.read(each, dtype) for each in operands[1:])
            self.write(operands[0], _BINARY[op](x, y).astype(dtype), now)
        else:
            raise NotImplementedError(".".join(name))

    def read(self, operand: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
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

    def write(self, register: str, values: np.ndarray[Any, Any], now: Any) -> None:
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

    def note(self, op: str, which: int, index: np.ndarray[Any, Any], threads: np.ndarray[Any, Any]) -> None:
        """Note accesses to bytes of a memory."""
        if which == 0:
            self.share(op, index, threads)
        elif which <= self.buffers:
            self.touched[op, which - 1][index] = True
        else:
            assert op == "ld" or which == len(self.memory) - 1, "constants are not written"

    def share(self, op: str, index: np.ndarray[Any, Any], threads: np.ndarray[Any, Any]) -> None:
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
