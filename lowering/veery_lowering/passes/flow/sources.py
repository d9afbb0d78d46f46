"""Have what is made of nothing made anew for each that may overwrite it.

Problem: a value that two dispatches overwrite is copied for them. What a dispatch makes without reading memory IREE
3.13 makes anew instead of copying it, and then finds that one dispatch does the same as the other and leaves it out:
both write to one place, and nobody to that which the second result is read from. Example: sums of two windows of five
elements, which begin with the same zeros, on CUDA. Fix: what is made for the second is made by an executable of
another name, and so another dispatch.

Problem: memory is filled with elements of 64 bits by a dispatch, which IREE finds to be the same as another one then,
too, from outside of what runs at the same time: "used resource not listed in explicit captures", or, without its
verifier, a value that nobody wrote. Example: two updates of `jnp.full((8, 8), 3.0)` in float64. Fix: each reader has
elements of its own.

Test: tests/lowering/test_sources.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from veery_lowering.mlir import ir, operations

PHASE = "flow"  # of IREE's, after which this is done

_DISPATCH, _RESHAPE, _SPLAT = "flow.dispatch", "flow.tensor.reshape", "flow.tensor.splat"
_EXECUTABLES = ("flow.executable", "hal.executable.source")
_READERS = ("util.return", "hal.tensor.export", "flow.tensor.load", "flow.tensor.slice")


def part_sources(module: ir.Module) -> None:
    """Change a module in place that has dispatches, which are not scheduled yet."""
    for source in list(_sources(module.operation)):
        if source.name == _SPLAT:
            _fill_for_each(source)
            continue
        for result in source.results:
            paths = list(_paths(result))
            writers = [path for path in paths if not _only_reads(path[-1])]
            # The first may have the value itself if nothing else reads it.
            alone = len(writers) == len(paths)
            for path in writers[alone:]:
                _make_anew(module, source, result.result_number, path)


def _sources(op: Any) -> Iterator[Any]:
    """The dispatches within an operation that read no memory, and the splats that become such dispatches."""
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                found = inner.operation
                if found.name == _DISPATCH:
                    if not any(isinstance(x.type, ir.RankedTensorType) for x in found.operands):
                        yield found
                elif found.name == _SPLAT:
                    if _bits(found.operands[0].type) > _FILLED:
                        yield found
                elif found.name not in _EXECUTABLES:
                    yield from _sources(found)


_FILLED = 32  # bits of the widest element that memory is filled with by no dispatch


def _bits(type_: Any) -> int:
    if isinstance(type_, ir.ComplexType):
        return 2 * _bits(type_.element_type)
    return int(type_.width) if isinstance(type_, (ir.IntegerType, ir.FloatType)) else 0


def _fill_for_each(splat: Any) -> None:
    """Give each use of a splat but the first one of its own, of an element that is not known to be the same."""
    for use in list(splat.results[0].uses)[1:]:
        with ir.InsertionPoint.after(splat), splat.location:
            element = splat.operands[0]
            hidden = ir.Operation.create("util.optimization_barrier", [element.type], [element])
        with ir.InsertionPoint.after(hidden):
            again = splat.clone()
        again.operands[0] = hidden.results[0]
        use.owner.operation.operands[use.operand_number] = again.results[0]


def _paths(value: Any) -> Iterator[list[Any]]:
    """The uses of a value: of each the reshapes on the way to it, as uses, and itself."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == _RESHAPE:
            yield from ([use, *path] for path in _paths(op.results[0]))
        else:
            yield [use]


def _only_reads(use: Any) -> bool:
    op = use.owner.operation
    if op.name != _DISPATCH:
        return op.name in _READERS
    workload, *_ = op.attributes["operandSegmentSizes"]
    tied = op.attributes["tied_operands"] if "tied_operands" in op.attributes else ()
    return use.operand_number - workload not in [int(i.value) for i in tied]


def _make_anew(module: Any, source: Any, number: int, path: list[Any]) -> None:
    """Put a result of another executable at the end of a path."""
    executable, export = source.attributes["entry_points"][0].value
    named = (op.operation for op in module.body.operations if "sym_name" in op.attributes)
    symbols = {op.attributes["sym_name"].value: op for op in named}
    copy = next(i for i in itertools.count() if f"{executable}_again_{i}" not in symbols)
    names = {old: f"{old}_again_{copy}" for old in (executable, export)}
    with ir.InsertionPoint(symbols[executable]):
        _rename(symbols[executable].clone(), names)
    with ir.InsertionPoint.after(source):
        made = source.clone()
        made.attributes["entry_points"] = ir.ArrayAttr.get([ir.SymbolRefAttr.get([*names.values()])])
    value, place = made.results[number], made
    for use in path[:-1]:
        with ir.InsertionPoint.after(place):
            place = use.owner.operation.clone()
        place.operands[0] = value
        value = place.results[0]
    path[-1].owner.operation.operands[path[-1].operand_number] = value


def _rename(executable: Any, names: dict[str, str]) -> None:
    """Give an executable, what it exports and the function that is meant other names."""
    for op in operations(executable):
        for attribute in ("sym_name", "function_ref"):
            if attribute in op.attributes and op.attributes[attribute].value in names:
                made = ir.StringAttr.get if attribute == "sym_name" else ir.FlatSymbolRefAttr.get
                op.attributes[attribute] = made(names[op.attributes[attribute].value])
