"""CUDA's assembler (PTX), run by NumPy: what a kernel computes, on machines without a GPU.

Threads of a workgroup go on together where they are at one place, and wait for each other at barriers. Memory is
buffers; an access outside of them, or of what was not written, is an error. Only what products need is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_DTYPES = {
    f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}")
    for kind, letter, sizes in (("u", "u", (8, 16, 32, 64)), ("s", "i", (8, 16, 32, 64)), ("f", "f", (32, 64)))
    for bits in sizes
} | {f"b{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift, "div": np.floor_divide,
    "rem": np.remainder,
}  # fmt: skip
_SHARED = 1 << 40  # where the memory that a workgroup shares begins; buffers begin at multiples of it behind
_SHARED_BYTES = 1 << 16


class Kernel:
    """An entry of a program.

    Args:
        text: from the name of the entry to its end.
    """

    def __init__(self, text: str) -> None:
        size = re.search(r"\.maxntid (\d+), (\d+), (\d+)", text)
        assert size is not None
        self.size = tuple(map(int, size.groups()))
        body = text[text.index("{") + 1 : text.index("\n}")]
        self.parameters = re.findall(r"\.param [^\n]*?(\w+)[,\n]", text[: text.index("{")] + "\n")
        self.labels: dict[str, int] = {}
        self.steps: list[tuple[str, list[str], str]] = []  # a name, operands, and a predicate
        for line in re.sub(r"//[^\n]*", "", body).splitlines():
            line = line.strip()
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.steps)
            elif line and not line.startswith("."):
                match = re.fullmatch(r"(?:@(!?%\w+)\s+)?([\w.]+)\s*(.*);", line)
                assert match is not None, line
                operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", match[3])
                self.steps.append((match[2], operands, match[1] or ""))

    def run(self, grid: int, buffers: Sequence[np.ndarray[Any, Any]]) -> None:
        """Run as many workgroups on buffers, which are the kernel's parameters in their order and are changed."""
        with np.errstate(all="ignore"):
            for group in range(grid):
                _Workgroup(self, group, buffers).run()


class _Workgroup:
    def __init__(self, kernel: Kernel, group: int, buffers: Sequence[np.ndarray[Any, Any]]) -> None:
        self.kernel = kernel
        self.count = int(np.prod(kernel.size))
        self.group = group
        self.memory = [np.zeros(_SHARED_BYTES, np.uint8), *(b.reshape(-1).view(np.uint8) for b in buffers)]
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
        if op == "bra":
            self.at[now] = self.kernel.labels[operands[0]]
        elif op == "ret":
            self.at[now] = len(self.kernel.steps)
        elif op == "bar":
            self.waiting |= now
        elif op in ("ld", "st"):
            self.access(op, rest, operands, now, dtype)
        elif op == "setp":
            x, y = (self.read(each, dtype) for each in operands[1:])
            self.write(operands[0], _COMPARE[rest[0]](x, y), now)
        elif op == "not":
            self.write(operands[0], ~self.read(operands[1], dtype), now)
        elif op == "selp":
            x, y = (self.read(each, dtype) for each in operands[1:3])
            self.write(operands[0], np.where(self.read(operands[3], np.dtype(bool)), x, y), now)
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
        elif op == "prmt":  # each byte is one of the eight of two words
            words = np.stack([self.read(each, dtype) for each in operands[1:3]], 1).view(np.uint8)
            (which,) = {*self.read(operands[3], dtype).tolist()}
            digits = [which >> 4 * i & 15 for i in range(4)]
            assert all(digit < 8 for digit in digits)
            self.write(operands[0], np.ascontiguousarray(words[:, digits]).view(dtype)[:, 0], now)
        elif op == "mov":
            self.write(operands[0], self.read(operands[1], dtype), now)
        elif op == "cvt":
            self.write(operands[0], self.read(operands[1], dtype).astype(_DTYPES[rest[-2]]), now)
        elif op in ("mul", "mad") and rest[0] in ("wide", "hi"):
            wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
            x, y = (self.read(each, dtype).astype(wide) for each in operands[1:3])
            product = x * y if rest[0] == "wide" else ((x * y) >> (8 * dtype.itemsize)).astype(dtype)
            self.write(operands[0], product + (self.read(operands[3], product.dtype) if op == "mad" else 0), now)
        elif op in ("mad", "fma"):
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
            return np.full(self.count, self.group * operand.endswith("x"), dtype)
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
        raw = values.astype(np.uint8) if values.dtype == bool else values.view(f"u{values.dtype.itemsize}")
        old = self.registers.get(register)
        self.registers[register] = np.where(now, raw.astype(np.uint64), 0 if old is None else old)

    def access(self, op: str, rest: list[str], operands: list[str], now: Any, dtype: np.dtype[Any]) -> None:
        """Loads and stores of one, two or four elements."""
        place, values = (operands[1], operands[0]) if op == "ld" else (operands[0], operands[1])
        base, offset = re.fullmatch(r"\[([^+\]]+)(?:\+(-?\d+))?\]", place).groups()  # type: ignore[union-attr]
        if rest[0] == "param":
            number = self.kernel.parameters.index(base) + 1
            return self.write(values, np.full(self.count, (number + 1) * _SHARED, np.uint64), now)
        addresses = self.read(base, np.dtype("u8")).astype(np.int64) + int(offset or 0)
        for i, value in enumerate(values.strip("{}").replace(" ", "").split(",")):
            at = addresses[now] + i * dtype.itemsize
            which, inside = at // _SHARED - 1, at % _SHARED
            assert (which == which[:1]).all() and (which >= 0).all()
            if not at.size:
                continue
            memory = self.memory[int(which[0])]
            assert (inside + dtype.itemsize <= memory.size).all(), f"{op} {place} is outside of the buffer"
            index = inside[:, None] + np.arange(dtype.itemsize)
            if which[0] == 0:
                self.share(op, index, np.flatnonzero(now)[:, None])
            if op == "st":
                memory[index] = self.read(value, dtype)[now].view(np.uint8).reshape(len(at), -1)
            else:
                loaded = np.zeros(self.count, dtype)
                loaded[now] = memory[index].reshape(-1).view(dtype)
                self.write(value, loaded, now)
        return None

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
