"""Loops, products, rows, and what moves elements, as kernels of our own, for the CPU; loops for GPUs, too.

IREE runs each trip of a loop as a dispatch or several: 2 us a trip and more, whatever is computed. A loop over arrays
that are not large is one dispatch here, in one of two forms, tried in this order:

- in registers (`_registers`): trips that are elementwise on arrays of one size. All trips are made on a vector before
  the next one, so that 1000 trips of `x * 0.99 + 0.1` on 1000 floats take 39 us, in buffers 88 us. Workgroups have
  vectors of their own: 50 trips of a Mandelbrot set of 200x300 take 0.17 ms, as dispatches of IREE's 2.4.
- in buffers (`_buffered`): a trip is several loop nests, for products of matrices, reductions, slices, updates,
  branches, loops. 100 trips of `tanh(w @ h)`, 32x32, take 30 us, as dispatches of IREE's 0.52 ms.

Kernels for GPUs are written in like forms (`_invocations`); there a trip of a loop costs 60 to 200 us.

What the loop writes in part is copied before, so that no argument is ever changed.

Joins and lookups (`_joins`), scatters (`_scatters`), products and convolutions (`_products`) are one dispatch each with
what is elementwise around them; so is what is computed of rows (`_rows`), of columns (`_columns`), or element by
element (`_elements`).
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from veery_lowering.kernels._arithmetic import ELEMENTWISE as ELEMENTWISE, Unfit
from veery_lowering.kernels._body import MOST_IN_A_ROW as MOST_IN_A_ROW, checked
from veery_lowering.kernels._buffered import BufferedKernel
from veery_lowering.kernels._columns import ColumnKernel
from veery_lowering.kernels._complex import LoopOfParts, holds_complex
from veery_lowering.kernels._convolutions import direct
from veery_lowering.kernels._decisions import Decision as Decision, decided, decisions as decisions, locations
from veery_lowering.kernels._elements import MOST_TOGETHER as MOST_TOGETHER, ElementKernel, is_end
from veery_lowering.kernels._followers import FusedKernel
from veery_lowering.kernels._invocations import InvocationKernel, ShaderKernel, for_one_invocation
from veery_lowering.kernels._joins import ROOTS, JoinKernel, TooLittle, is_crossed, is_halved, roots_of
from veery_lowering.kernels._machine import CPU, Machine, cpu
from veery_lowering.kernels._pieces import (
    BRANCHING,
    PieceKernel,
    Pieces,
    Unwritten,
    halves,
    is_pure as is_pure,
    part_numbers,
)
from veery_lowering.kernels._placing import FEWEST_BINDINGS, MOST_BINDINGS, keep_bytes as keep_bytes
from veery_lowering.kernels._products import ProductKernel, converted_operands
from veery_lowering.kernels._reading import is_added as is_added
from veery_lowering.kernels._registers import RegisterKernel, lanes_of
from veery_lowering.kernels._routines import (
    CALL as CALL,
    INFO as INFO,
    RoutineKernel,
    Step as Step,
    drop_turns,
    is_routine,
)
from veery_lowering.kernels._rows import RowKernel
from veery_lowering.kernels._scatters import ScatterKernel
from veery_lowering.kernels._totals import TotalKernel
from veery_lowering.kernels._transforms import call_library, is_transform, mark_transform as mark_transform
from veery_lowering.mlir import LEAST_REUSED, base_name, ir, operations

_logger = logging.getLogger(__name__)


Forms = Callable[[Any], Iterator[Callable[[], RegisterKernel | BufferedKernel | ShaderKernel]]]

_REGISTER = CPU.register  # bytes of a vector register of a CPU of which nothing else is known


def fuse_loops(module: Any, backend: str = "cpu", register: int = _REGISTER) -> int:
    """Make kernels of the loops of a module operation, in place, the outer ones where possible; returns how many.

    Args:
        module: a module operation.
        backend: "cpu", "vulkan" or "cuda".
        register: bytes of a vector register of the processor.
    """
    forms = functools.partial(_on_the_cpu, machine=cpu(register)) if backend == "cpu" else _ON_GPUS[backend]
    return sum(_fuse(block, module, forms) for region in module.regions for block in region.blocks)


def _fuse(block: Any, module: Any, forms: Forms) -> int:
    count = 0
    for op in list(block.operations):
        if op.name == "stablehlo.while" and _make_kernel(op.operation, module, forms):
            count += 1
        else:
            count += sum(_fuse(inner, module, forms) for region in op.regions for inner in region.blocks)
    return count


def call_routines(module: Any) -> int:
    """Make kernels of calls of LAPACK's routines, in place; returns how many.

    Args:
        module: a module operation.
    """
    known: dict[str, str] = {}
    calls = _read([op.operation for op in operations(module) if is_routine(op)])
    for op in calls:
        drop_turns(op)
    for op in calls:
        kernel, places = RoutineKernel(op), locations([op])
        name = known.setdefault(kernel.executable.written_as, _unused(module, "veery_routines"))
        kernel.replace(module, name)
        decided(Decision("routines", places, name, kernel.form, kernel.executable.workgroups))
    return len(calls)


def _read(ops: Sequence[Any]) -> list[Any]:
    """The operations of whose results something is made; others, as branches have them that are computed both, go."""
    kept = []
    for op in reversed(ops):
        if any(True for x in op.results for _ in x.uses):
            kept.append(op)
        else:
            op.erase()
    return kept[::-1]


def fuse_pieces(module: Any, register: int = _REGISTER) -> int:
    """Make kernels of operations that would be several small dispatches, in place; returns how many.

    Args:
        module, register: as of `fuse_loops`.
    """
    functions = [op for op in module.regions[0].blocks[0] if op.operation.name == "func.func"]
    known: dict[str, str] = {}
    return sum(
        _fuse_pieces(block, module, known, cpu(register)) for function in functions for block in _blocks(function)
    )


def _blocks(op: Any) -> list[Any]:
    return [block for region in op.regions for block in region.blocks]


def _fuse_pieces(block: Any, module: Any, known: dict[str, str], machine: Machine) -> int:
    """Make kernels in a block; `known` has the names of those that are written, by what they are written as."""
    around = [op for op in block.operations if base_name(op.name) in BRANCHING]
    count = sum(_fuse_pieces(inner, module, known, machine) for op in around for inner in _blocks(op))
    part_numbers(block)
    kernels = [*_piece_kernels(block, machine), *_transform_kernels(block, machine)]
    places = {op.operation: place for place, op in enumerate(block.operations)} if kernels else {}
    kernels.sort(key=lambda kernel: places[kernel.operations[0].operation])
    # The last one first: what it reads of another's results is there until that is replaced.
    for kernel in reversed(kernels):
        made = locations(kernel.operations)
        name = known.get(kernel.executable.written_as) or _unused(module, "veery_piece")
        known[kernel.executable.written_as] = name
        kernel.replace(module, name)
        decided(Decision("piece", made, name, kernel.form, kernel.executable.workgroups))
    return count + len(kernels)


def _transform_kernels(block: Any, machine: Machine) -> list[PieceKernel]:
    """Kernels of the Fourier transforms of a block: each alone, so that equal ones are the same; others are called."""
    kernels = []
    for op in _read([op.operation for op in block.operations if is_transform(op)]):
        try:
            kernels.append(PieceKernel([op], machine))
        except (Unfit, Unwritten) as unfit:
            decided(Decision("transform", [op.location], reasons=[str(unfit)]))
            call_library(op)
    return kernels


def _piece_kernels(block: Any, machine: Machine) -> list[PieceKernel]:
    """Kernels of the pieces of a block; none where one of them is not written for a reason that is not known."""
    found = Pieces(block)
    for _ in range(_MOST_TRIES):
        try:
            kernels = _kernels_of(found, machine)
            if kernels is not None:
                return kernels
        except Unwritten as unwritten:
            decided(Decision("piece", [unwritten.op.location], reasons=[str(unwritten)]))
            found.without(unwritten.op)
        except Exception:
            # The program is right without the kernel, only slower.
            _logger.warning("the kernel of a piece could not be written; IREE makes dispatches", exc_info=True)
            break
    return []


_MOST_TRIES = 20


def _kernels_of(found: Pieces, machine: Machine) -> list[PieceKernel] | None:
    """Kernels of pieces, of two halves where one is too much text; None if there are several pieces now, not one."""
    kernels, waiting = [], found.in_order()[::-1]
    while waiting:
        operations = waiting.pop()
        try:
            kernels.append(PieceKernel(operations, machine))
        except Unfit as unfit:
            decided(Decision("piece", locations(operations), reasons=[str(unfit)]))
            if found.divide():
                return None
            waiting += halves(operations)[::-1]
    return kernels


def fuse_moves(module: Any, register: int = _REGISTER) -> int:
    """Make kernels of what joins arrays, looks elements up or scatters them, in place; returns how many.

    Args:
        module, register: as of `fuse_loops`.
    """
    known: dict[str, str] = {}
    machine = cpu(register)
    return sum(_fuse_moves(block, module, known, machine) for region in module.regions for block in region.blocks)


def _fuse_moves(block: Any, module: Any, known: dict[str, str], machine: Machine) -> int:
    """Make kernels in a block; `known` has the names of those that are written, by what they are written as."""
    operations = [op for op in block.operations if op.operation.name != "hal.executable.source"]
    inner = [each for op in operations for region in op.regions for each in region.blocks]
    count = sum(_fuse_moves(each, module, known, machine) for each in inner)
    moves = (*ROOTS, "stablehlo.scatter")
    rest = [op.results[0] for op in operations if op.name in moves or is_crossed(op) or is_halved(op)]
    places = {x: number for number, op in enumerate(operations) for x in op.results} if rest else {}
    refused: dict[Any, str] = {}  # as long as the block stays as it is
    while rest:
        op = rest.pop().owner.operation
        reasons: list[str] = []
        kind = _KINDS.get(base_name(op.name), "complex")
        kernel = _kernel(op, places, machine, refused, reasons)
        if kernel is None:
            decided(Decision(kind, [op.location], reasons=reasons))
            continue
        name = known.get(kernel.executable.written_as) or _unused(module, "veery_move")
        known[kernel.executable.written_as] = name
        made = locations([op, *(value.owner for value in kernel.inside)])
        kernel.replace(module, name)
        decided(Decision(kind, made, name, kernel.form, kernel.executable.workgroups))
        rest = [x for x in rest if x not in kernel.inside]
        refused.clear()
        count += 1
    return count


def fuse_products(module: Any, register: int = _REGISTER, donated: Sequence[bool] = ()) -> int:
    """Make kernels of products of matrices, and of convolutions, with what follows, in place; returns how many.

    Args:
        module, register: as of `fuse_loops`.
        donated: for each argument of `main`, whether a result may take its place.
    """
    given = _given_away(module, donated)

    def make(op: Any) -> ProductKernel:
        prepared = direct if op.name == _CONVOLUTION else converted_operands
        with prepared(op) as product:
            return ProductKernel(product, cpu(register), given)

    return _replaced(module, lambda op: op.name in _PRODUCTS, make, "product")


_CONVOLUTION = "stablehlo.convolution"
_PRODUCTS = ("stablehlo.dot_general", _CONVOLUTION)


def fuse_rows(module: Any, register: int = _REGISTER, donated: Sequence[bool] = ()) -> int:
    """Make kernels of what is computed of rows with reductions of them, in place; returns how many.

    Args:
        module, register, donated: as of `fuse_products`.
    """
    make = functools.partial(RowKernel, machine=cpu(register), donated=_given_away(module, donated))
    return _replaced(module, lambda op: op.name == "stablehlo.reduce", make, "rows")


def fuse_columns(module: Any, register: int = _REGISTER, donated: Sequence[bool] = ()) -> int:
    """Make kernels of what is computed of columns with reductions of them, in place; returns how many.

    Args:
        module, register, donated: as of `fuse_products`.
    """
    make = functools.partial(ColumnKernel, machine=cpu(register), donated=_given_away(module, donated))
    return _replaced(module, lambda op: op.name == "stablehlo.reduce", make, "columns")


def fuse_totals(module: Any, register: int = _REGISTER) -> int:
    """Make kernels of what is computed with reductions of whole arrays, in place; returns how many.

    Args:
        module, register: as of `fuse_loops`.
    """
    make = functools.partial(TotalKernel, machine=cpu(register), donated=())
    return _replaced(module, lambda op: op.name == "stablehlo.reduce", make, "total")


def fuse_elements(module: Any, register: int = _REGISTER, donated: Sequence[bool] = ()) -> int:
    """Make kernels of what is computed element by element of what lies in memory, in place; returns how many.

    Args:
        module, register, donated: as of `fuse_products`.
    """
    make = functools.partial(ElementKernel, machine=cpu(register), donated=_given_away(module, donated))
    return _replaced(module, is_end, make, "elements")


def _given_away(module: Any, donated: Sequence[bool]) -> frozenset[Any]:
    """The arguments of `main` whose place results may take."""
    named = [op for op in module.regions[0].blocks[0] if "sym_name" in op.attributes]
    functions = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in named}
    arguments = functions["main"].regions[0].blocks[0].arguments if any(donated) else []
    return frozenset(x for x, is_given in zip(arguments, donated) if is_given and _nbytes(x) >= LEAST_REUSED)


def _nbytes(value: Any) -> int:
    """The bytes of an array such as kernels hold; 0 of others."""
    try:
        shape, dtype = checked(value)
    except Unfit:
        return 0
    return math.prod(shape) * dtype.itemsize


def _replaced(module: Any, roots: Callable[[Any], bool], make: Callable[[Any], FusedKernel], kind: str) -> int:
    """Make kernels of some operations, with those around them, in place; returns how many."""
    known: dict[str, str] = {}
    waiting = [op.operation for op in operations(module) if roots(op)]
    count = 0
    while waiting:
        op = waiting.pop(0)
        try:
            kernel = make(op)
            called = known.get(kernel.executable.written_as) or _unused(module, f"veery_{kind}")
            known[kernel.executable.written_as] = called
            made = locations(value.owner for value in kernel.inside)
            gone = {value.owner.operation for value in kernel.inside}
            rest = [op for op in waiting if op not in gone]
            kernel.replace(module, called)
        except Unfit as unfit:
            decided(Decision(kind, [op.location], reasons=[str(unfit)]))
            continue
        except Exception as error:
            # The program is right without the kernel, only slower.
            _logger.warning("a kernel of %s could not be written; IREE makes dispatches", kind, exc_info=True)
            decided(Decision(kind, [op.location], reasons=[repr(error)]))
            continue
        waiting = rest
        decided(Decision(kind, made, called, kernel.form, kernel.executable.workgroups))
        count += 1
    return count


_KINDS = {
    **dict.fromkeys(("concatenate", "pad"), "join"), **dict.fromkeys(("reverse", "slice"), "view"),
    "gather": "lookup", "scatter": "scatter",
}  # fmt: skip


def _kernel(
    op: Any, places: Mapping[Any, int], machine: Machine, refused: dict[Any, str], reasons: list[str]
) -> JoinKernel | ScatterKernel | None:
    """A kernel of a move with what follows, or else without that; None, and reasons, if there is no such.

    `refused` are the operations of which no kernel is made, with the reasons: several moves may have one in common.
    """
    if op in refused:
        reasons.append(refused[op])
        return None
    make = ScatterKernel if op.name == "stablehlo.scatter" else JoinKernel
    for root in [op] if make is ScatterKernel else roots_of(op, places):
        if root not in refused:
            try:
                kernel = make(root, places, machine)
            except TooLittle as unfit:
                refused.update(dict.fromkeys((value.owner.operation for value in unfit.inside), str(unfit)))
            except Unfit as unfit:
                refused[root] = str(unfit)
            except Exception as error:
                # The program is right without the kernel, only slower.
                _logger.warning("the kernel of a move could not be written; IREE makes dispatches", exc_info=True)
                refused[root] = repr(error)
            else:
                return kernel
        reasons.append(refused[root])
    return None


def _unused(module: Any, start: str) -> str:
    """A name that no function of a module has."""
    named = [op for op in module.regions[0].blocks[0].operations if "sym_name" in op.attributes]
    names = {str(f.attributes["sym_name"]) for f in named}
    return next(n for n in (f"{start}_{i}" for i in itertools.count()) if f'"{n}"' not in names)


def _make_kernel(loop: Any, module: Any, forms: Forms) -> bool:
    if holds_complex(loop):
        return _make_kernel_of_parts(loop, module, forms)
    name, places = _unused(module, "veery_loop"), locations([loop])
    reasons = []
    for make in forms(loop):
        try:
            kernel = make()
            kernel.replace(module, name)
        except Unfit as unfit:
            reasons.append(str(unfit))
        except Exception as error:
            # The program is right without the kernel, only slower.
            _logger.warning("the kernel of a loop could not be written; IREE runs its trips", exc_info=True)
            reasons.append(repr(error))
        else:
            decided(Decision("loop", places, name, kernel.form, kernel.executable.workgroups, reasons))
            return True
    decided(Decision("loop", places, reasons=reasons))
    return False


def _make_kernel_of_parts(loop: Any, module: Any, forms: Forms) -> bool:
    try:
        parts = LoopOfParts(loop)
    except Unfit as unfit:
        decided(Decision("loop", locations([loop]), reasons=[str(unfit)]))
        return False
    except Exception:
        # The program is right without the kernel, only slower.
        _logger.warning("a loop could not be written in parts; IREE runs its trips", exc_info=True)
        return False
    made = _make_kernel(parts.loop, module, forms)
    if made:
        loop.erase()
    else:
        parts.undo()
    return made


def _on_the_cpu(loop: Any, machine: Machine) -> Iterator[Callable[[], RegisterKernel | BufferedKernel]]:
    if lanes := lanes_of(loop):
        yield lambda: RegisterKernel(loop, lanes)
    yield lambda: BufferedKernel(loop, machine)


def _in_shaders(loop: Any, most_bindings: int) -> Iterator[Callable[[], ShaderKernel]]:
    if lanes := lanes_of(loop):
        yield lambda: ShaderKernel(loop, lambda loop: InvocationKernel(loop, lanes), most_bindings)
    yield lambda: ShaderKernel(loop, for_one_invocation, most_bindings)


_ON_GPUS: dict[str, Forms] = {
    "vulkan": functools.partial(_in_shaders, most_bindings=MOST_BINDINGS),
    "cuda": functools.partial(_in_shaders, most_bindings=FEWEST_BINDINGS),
}
