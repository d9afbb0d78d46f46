"""Routines of LAPACK as dispatches, which call them by their addresses (see veery_lowering.addresses).

A call of the host takes 15 us and more, and makes a program wait where it is submitted: the Cholesky factor of a matrix
of 60x60 and its sum take 32 us in dispatches, 66 with a call of the host.

What a kernel does is a list of steps, each for one matrix of a stack: a routine with its arguments; "if", a question,
and steps for both answers; or a change of all integers of a buffer, which may become their "places". Questions are
whether the last routine "failed", and whether a norm is "finite" or "nan". Of arguments, integers are of 32 bits,
floats, and lists of two for complex numbers, of the routine's dtype, single letters letters; "%2+7" is the eighth
element in the third of the buffers that are read, written, and for work, in this order; "info" is where routines say
whether they failed. A workgroup takes one matrix after the other, with the same memory for work.

LAPACK has the columns of a matrix in sequence, so that rules transpose before and behind. What they transpose is
"turned" in the kernel, to and from memory for work, if it is not large; it is no dispatch then.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.addresses import BEFORE, CALLING, GET_THREADS, LOCK, MUTEX, SET_THREADS, UNLOCK, place_of
from veery_lowering.kernels._arithmetic import Lines
from veery_lowering.kernels._executable import Executable
from veery_lowering.kernels._forms import Buffer
from veery_lowering.kernels._reading import integers
from veery_lowering.mlir import ir, maker

CALL = "veery.lapack"
INFO = "info"
_TURNED = "turned"  # a matrix of rows and columns, from a buffer to another one
_TOGETHER = 16  # columns of it
# Elements of such a matrix: of 200x200 IREE's dispatch, on several threads, takes 14 us less, of 100x100 7 us more.
_MOST_TURNED = 1 << 14
_MOST_WORKGROUPS = 16
_WORD, _POINTER = 4, 8  # bytes
_DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
_MOST_WORDS = 256

Step = list[Any]


def is_routine(op: Any) -> bool:
    """Whether an operation is a call of routines."""
    return hlo.called_by(op) == CALL


def drop_turns(op: Any) -> None:
    """Have what is transposed there and back, before and behind a call, be read as it was: factors of a solution."""
    behind = [made for x in op.results for once in _made_of(x) for made in _made_of(once)]
    for twice in dict.fromkeys([*op.operands, *behind]):
        if _turns(twice) and _turns(once := twice.owner.operands[0]):
            twice.replace_all_uses_with(once.owner.operands[0])
            twice.owner.erase()
            if not any(True for _ in once.uses):
                once.owner.erase()


def _made_of(x: Any) -> list[Any]:
    """What is made of a value."""
    return [made for use in x.uses for made in use.owner.results]


class RoutineKernel:
    """What a call of routines becomes, as an executable.

    Args:
        op: the call, as `emit.routines` makes it.
    """

    form = "by LAPACK"

    def __init__(self, op: Any) -> None:
        self._op = op
        config = ir.DictAttr(op.attributes["backend_config"])
        way = "steps" if list(op.results[0].uses) else "without_first"
        steps, scratch = (json.loads(ir.StringAttr(config[name]).value) for name in (way, "scratch"))
        count, alone = (ir.IntegerAttr(config[name]).value for name in ("count", "alone"))
        groups = min(count, _MOST_WORKGROUPS)
        read = [_before_turn(x) if _may_turn(x, count) else x for x in op.operands]
        left = [_behind_turn(x) if _may_turn(x, count) else x for x in op.results]
        inputs = {x: _buffer(f"%in{k}", x) for k, x in enumerate(dict.fromkeys(read))}
        self._results = {_buffer(f"%out{k}", x): x for k, x in enumerate(left)}
        work = [_memory(f"%work{k}", np.dtype(dtype), groups * size) for k, (size, dtype) in enumerate(scratch)]
        outside = [*(inputs[x] for x in read), *self._results]
        parts = [*((buffer, count) for buffer in outside), *((buffer, groups) for buffer in work)]
        before, behind = [], []
        for k, (own, other) in enumerate(zip([*op.operands, *op.results], [*read, *left])):
            if own == other:
                continue
            work.append(turned := _memory(f"%work{len(work)}", hlo.dtype_of(own), groups * _size(own) // count))
            parts[k] = turned, groups
            there, here = f"%{len(parts)}", f"%{k}"
            parts.append((outside[k], count))
            if k < len(read):
                before.append([_TURNED, *hlo.shape_of(other)[-2:], there, here])
            else:
                behind.append([_TURNED, *hlo.shape_of(own)[-2:], here, there])
        self._out = Lines()
        writer = _Writer(self._out, parts)
        body = writer.each_matrix(count, groups, lambda: writer.steps([*before, *steps, *behind]))
        writer.finish(body, bool(alone))
        self.executable = Executable(self._out, inputs, list(self._results), groups, scratch=work, takes_table=True)

    def replace(self, module: Any, name: str) -> None:
        """Put a call of the kernel in the place of the operation, and of what transposes before and behind it."""
        operands, results = list(self._op.operands), list(self._op.results)
        self.executable.call(module, name, self._op, self._results)
        for result in results:
            for use in list(result.uses):
                use.owner.operation.erase()
        self._op.erase()
        for x in dict.fromkeys(operands):
            if _turns(x) and not any(True for _ in x.uses):
                x.owner.erase()


def _turns(x: Any) -> bool:
    """Whether a value is a stack of matrices that were transposed."""
    if maker(x) != "stablehlo.transpose":
        return False
    order = list(integers(x.owner.attributes["permutation"]))
    return len(order) > 1 and [*order[:-2], order[-1], order[-2]] == list(range(len(order)))


def _may_turn(x: Any, count: int) -> bool:
    """Whether a value is a stack of so many matrices, which are not large; a stack of pivots is none of matrices."""
    return math.prod(hlo.shape_of(x)[:-2]) == count and _size(x) <= _MOST_TURNED * count


def _before_turn(x: Any) -> Any:
    """What the operand of a call is the transposed of; else the operand."""
    return x.owner.operands[0] if _turns(x) else x


def _behind_turn(x: Any) -> Any:
    """The transposed of a result that nothing else is made of; else the result."""
    users = [use.owner for use in x.uses]
    if len(users) != 1 or len(users[0].results) != 1 or not _turns(turned := users[0].results[0]):
        return x
    return turned


def _size(x: Any) -> int:
    return math.prod(hlo.shape_of(x))


def _buffer(name: str, value: Any) -> Buffer:
    return _memory(name, hlo.dtype_of(value), _size(value))


def _memory(name: str, dtype: np.dtype, size: int) -> Buffer:
    if dtype.kind == "c":
        return Buffer(name, np.dtype(dtype.type().real.dtype), 2 * size, is_paired=True)
    return Buffer(name, dtype, size)


class _Writer:
    """Writes steps for one matrix of each buffer.

    Args:
        out: where the lines go.
        parts: the buffers, and how many matrices each has.
    """

    def __init__(self, out: Lines, parts: Sequence[tuple[Buffer, int]]) -> None:
        self._out, self._parts = out, parts
        self._words: list[int] = [0] * 4  # the first one is what routines tell of their success
        self._known: dict[tuple[int, ...], int] = {}
        self._starts: list[str] = []  # of the matrix in each buffer: the number of its first element,
        self._addresses: list[str] = []  # and where that is

    # -- the whole ---------------------------------------------------------------------------------------------------

    def each_matrix(self, count: int, groups: int, write: Callable[[], None]) -> list[str]:
        """What is done for each matrix of a workgroup."""
        out = self._out
        group = out.add("hal.interface.workgroup.id[0] : index")
        if count == groups:
            self._place(group, group)
            write()
        else:
            matrix = out.new()
            out.lines.append(f"scf.for {matrix} = {group} to {out.index(count)} step {out.index(groups)} {{")
            self._place(matrix, group)
            write()
            out.lines.append("}")
        lines, out.lines = out.lines, []
        return lines

    def finish(self, body: list[str], alone: bool) -> None:
        """Write what comes first and last around a body: numbers in memory, and that the library takes one thread."""
        out = self._out
        out.lines = []
        properties = "<{alignment = 16 : i64, operandSegmentSizes = array<i32: 0, 0>}>"
        out.lines.append(f'%words = "memref.alloca"() {properties} : () -> {_WORDS}')
        assert len(self._words) <= _MOST_WORDS
        for place, word in enumerate(self._words):
            out.lines.append(f"memref.store {self._integer(word, 'i32')}, %words[{out.index(place)}] : {_WORDS}")
        out.lines += [
            f"%words_at = memref.extract_aligned_pointer_as_index %words : {_WORDS} -> index",
            "%words_address = arith.index_cast %words_at : index to i64",
            "%low = hal.interface.constant.load layout(#layout) ordinal(0) : i32",
            "%high = hal.interface.constant.load layout(#layout) ordinal(1) : i32",
            "%low_part = arith.extui %low : i32 to i64",
            "%high_part = arith.extui %high : i32 to i64",
            f"%high_moved = arith.shli %high_part, {self._integer(32, 'i64')} : i64",
            "%table = arith.ori %low_part, %high_moved : i64",
        ]
        if alone:
            self._take_one_thread()
        out.lines += body
        if alone:
            self._take_as_many_as_before()

    def _take_one_thread(self) -> None:
        """Have the library do so, unless another kernel has already."""
        with self._locked():
            out, zero, one = self._out, self._integer(0, "i64"), self._integer(1, "i64")
            calling = self._load(CALLING)
            self._store(out.add(f"arith.addi {calling}, {one} : i64"), CALLING)
            with self._where(f"arith.cmpi eq, {calling}, {zero} : i64"):
                now = out.add(f"llvm.call {self._function(GET_THREADS)}() : !llvm.ptr, () -> i32")
                with self._where(f"arith.cmpi sgt, {now}, {self._integer(1, 'i32')} : i32"):
                    self._store(out.add(f"arith.extsi {now} : i32 to i64"), BEFORE)
                    self._set_threads(self._integer(1, "i32"))

    def _take_as_many_as_before(self) -> None:
        """Have the library do so, unless another kernel is still running."""
        with self._locked():
            out, zero, one = self._out, self._integer(0, "i64"), self._integer(1, "i64")
            calling, before = self._load(CALLING), self._load(BEFORE)
            self._store(out.add(f"arith.subi {calling}, {one} : i64"), CALLING)
            is_last = out.add(f"arith.cmpi eq, {calling}, {one} : i64")
            had_many = out.add(f"arith.cmpi sgt, {before}, {zero} : i64")
            with self._where(f"arith.andi {is_last}, {had_many} : i1"):
                self._set_threads(out.add(f"arith.trunci {before} : i64 to i32"))
                self._store(zero, BEFORE)

    def _set_threads(self, number: str) -> None:
        self._out.lines.append(f"llvm.call {self._function(SET_THREADS)}({number}) : !llvm.ptr, (i32) -> ()")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        mutex = self._entry(MUTEX)
        self._out.add(f"llvm.call {self._function(LOCK)}({mutex}) : !llvm.ptr, (!llvm.ptr) -> i32")
        yield
        self._out.add(f"llvm.call {self._function(UNLOCK)}({mutex}) : !llvm.ptr, (!llvm.ptr) -> i32")

    @contextmanager
    def _where(self, question: str) -> Iterator[None]:
        self._out.lines.append(f"scf.if {self._out.add(question)} {{")
        yield
        self._out.lines.append("}")

    # -- steps -------------------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step]) -> None:
        for kind, *rest in steps:
            if kind == "if":
                self._if(*rest)
            elif kind == "places":
                self._each_integer(lambda place, _: self._out.add(f"arith.index_cast {place} : index to i32"), *rest)
            elif kind in _OF_INTEGERS:
                self._change(_OF_INTEGERS[kind], *rest)
            elif kind == _TURNED:
                self._turn(*rest)
            else:
                self._call(kind, rest)

    def _if(self, question: Step, yes: Sequence[Step], no: Sequence[Step]) -> None:
        answer = self._has_failed() if question == ["failed"] else self._is(*question)
        self._out.lines.append(f"scf.if {answer} {{")
        self.steps(yes)
        self._out.lines.append("} else {")
        self.steps(no)
        self._out.lines.append("}")

    def _has_failed(self) -> str:
        out = self._out
        info = out.add(f"memref.load %words[{out.index(0)}] : {_WORDS}")
        return out.add(f"arith.cmpi ne, {info}, {self._integer(0, 'i32')} : i32")

    def _is(self, kind: str, norm: Step) -> str:
        """Whether a norm is finite: it less itself is zero; or NaN, which differs from itself."""
        name, *arguments = norm
        out, type = self._out, place_of(name).gives
        found = self._call(name, arguments)
        if kind == "nan":
            return out.add(f"arith.cmpf une, {found}, {found} : {type}")
        rest = out.add(f"arith.subf {found}, {found} : {type}")
        return out.add(f"arith.cmpf oeq, {rest}, {self._zero(type)} : {type}")

    def _change(self, operation: str, number: int, size: int, buffer: str) -> None:
        operand = self._integer(number, "i32")
        self._each_integer(lambda _, old: self._out.add(f"{operation} {old}, {operand} : i32"), size, buffer)

    def _each_integer(self, new: Callable[[str, str], str], size: int, buffer: str) -> None:
        """Replace all integers of a part of a buffer by others, of their places and of what they are."""
        out, (memory, count) = self._out, self._parts[int(buffer[1:])]
        each, start = out.new(), self._starts[int(buffer[1:])]
        assert memory.size == count * size
        out.lines.append(f"scf.for {each} = {out.index(0)} to {out.index(size)} step {out.index(1)} {{")
        place = out.add(f"arith.addi {start}, {each} : index")
        old = out.add(f"memref.load {memory.name}[{place}] : {memory.type}")
        out.lines += [f"memref.store {new(each, old)}, {memory.name}[{place}] : {memory.type}", "}"]

    def _turn(self, rows: int, columns: int, source: str, target: str) -> None:
        """Write a matrix of rows and columns as its columns, some of them at a time."""
        out = self._out
        (given, _), (made, _) = (self._parts[int(name[1:])] for name in (source, target))
        first, row, column = out.new(), out.new(), out.new()
        out.lines.append(f"scf.for {first} = {out.index(0)} to {out.index(columns)} step {out.index(_TOGETHER)} {{")
        behind = out.add(f"arith.addi {first}, {out.index(_TOGETHER)} : index")
        end = out.add(f"arith.minsi {behind}, {out.index(columns)} : index")
        out.lines.append(f"scf.for {row} = {out.index(0)} to {out.index(rows)} step {out.index(1)} {{")
        out.lines.append(f"scf.for {column} = {first} to {end} step {out.index(1)} {{")
        at = self._cell(source, row, column, columns)
        to = self._cell(target, column, row, rows)
        for part in range(1 + given.is_paired):
            source, target = (out.add(f"arith.addi {place}, {out.index(part)} : index") for place in (at, to))
            element = out.add(f"memref.load {given.name}[{source}] : {given.type}")
            out.lines.append(f"memref.store {element}, {made.name}[{target}] : {made.type}")
        out.lines += ["}"] * 3

    def _cell(self, name: str, row: str, column: str, columns: int) -> str:
        """The number of the first element of a cell of the matrix in a buffer, whose rows are of so many cells."""
        out, number = self._out, int(name[1:])
        buffer, _ = self._parts[number]
        begin = out.add(f"arith.muli {row}, {out.index(columns)} : index")
        cell = out.add(f"arith.addi {begin}, {column} : index")
        if buffer.is_paired:
            cell = out.add(f"arith.muli {cell}, {out.index(2)} : index")
        return out.add(f"arith.addi {self._starts[number]}, {cell} : index")

    def _call(self, name: str, arguments: Sequence[Any]) -> str:
        place = place_of(name)
        given = [self._argument(x, name[0]) for x in arguments]
        types = ", ".join(["!llvm.ptr"] * len(given))
        text = f"llvm.call {self._function(place.number)}({', '.join(given)}) : !llvm.ptr, ({types}) -> "
        if place.gives:
            return self._out.add(f"{text}{place.gives}")
        self._out.lines.append(f"{text}()")
        return ""

    def _argument(self, x: Any, letter: str) -> str:
        if isinstance(x, (list, float)):
            number = complex(*x) if isinstance(x, list) else x
            words = np.array([number], _DTYPES[letter]).view(np.int32).tolist()
        elif isinstance(x, int):
            words = [x]
        elif x == INFO:
            return self._word(0)
        elif x.startswith("%"):
            return self._element(*x[1:].split("+"))
        else:
            words = [ord(x)]
        return self._word(self._placed(tuple(words)))

    # -- memory ------------------------------------------------------------------------------------------------------

    def _place(self, matrix: str, group: str) -> None:
        """Compute where the parts of buffers begin."""
        out = self._out
        for buffer, count in self._parts:
            index = group if buffer.name.startswith("%work") else matrix
            start = out.add(f"arith.muli {index}, {out.index(buffer.size // count)} : index")
            begin = out.add(f"memref.extract_aligned_pointer_as_index {buffer.name} : {buffer.type} -> index")
            nbytes = out.add(f"arith.muli {start}, {out.index(buffer.dtype.itemsize)} : index")
            address = out.add(f"arith.addi {begin}, {nbytes} : index")
            self._starts.append(start)
            self._addresses.append(out.add(f"arith.index_cast {address} : index to i64"))

    def _element(self, number: str, offset: str = "0") -> str:
        """A pointer to an element of the matrix in a buffer."""
        begin = self._addresses[int(number)]
        buffer, _ = self._parts[int(number)]
        nbytes = int(offset) * buffer.dtype.itemsize * (1 + buffer.is_paired)
        if not nbytes:
            return self._pointer(begin)
        return self._pointer(self._out.add(f"arith.addi {begin}, {self._integer(nbytes, 'i64')} : i64"))

    def _placed(self, words: tuple[int, ...]) -> int:
        """Where a number is, at a multiple of its size."""
        if words not in self._known:
            self._words += [0] * (-len(self._words) % len(words))
            self._known[words] = len(self._words)
            self._words += words
        return self._known[words]

    def _word(self, place: int) -> str:
        address = self._out.add(f"arith.addi %words_address, {self._integer(_WORD * place, 'i64')} : i64")
        return self._pointer(address)

    def _entry(self, index: int) -> str:
        """The place of a number of the table."""
        return self._pointer(self._out.add(f"arith.addi %table, {self._integer(_POINTER * index, 'i64')} : i64"))

    def _function(self, index: int) -> str:
        return self._pointer(self._load(index))

    def _load(self, index: int) -> str:
        return self._out.add(f"llvm.load {self._entry(index)} : !llvm.ptr -> i64")

    def _store(self, value: str, index: int) -> None:
        self._out.lines.append(f"llvm.store {value}, {self._entry(index)} : i64, !llvm.ptr")

    def _pointer(self, address: str) -> str:
        return self._out.add(f"llvm.inttoptr {address} : i64 to !llvm.ptr")

    def _integer(self, value: int, kind: str) -> str:
        return self._out.constant(value, _KINDS[kind], "")

    def _zero(self, kind: str) -> str:
        return self._out.constant(0.0, _KINDS[kind], "")


_KINDS: dict[str, np.dtype] = {
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
# Steps that change integers.
_OF_INTEGERS = {"at least": "arith.maxsi", "add": "arith.addi"}
_WORDS = f"memref<{_MOST_WORDS}xi32>"
