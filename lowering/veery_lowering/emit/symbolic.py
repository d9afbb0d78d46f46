"""Programs for symbolic shapes: the values of the dimension variables, and the operations that take such shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.emit import registry
from veery_lowering.errors import LoweringError
from veery_lowering.mlir import ir
from veery_lowering.program import Symbols
from veery_lowering.types import is_static


def variables(symbols: Symbols, arguments: Sequence[Any]) -> dict[str, hlo.Index]:
    """Emit the computation of the dimension variables from the shapes of the function's arguments."""
    values: dict[str, hlo.Index] = {}
    for name, argument, axis, factor, offset in symbols.sources:
        with hlo.dimension_values(values):
            size = hlo.Index.of(hlo.shape_of(arguments[argument])[axis])
            values[name] = (size - (offset if is_static(offset) else hlo.Index.of(offset))) // factor
    return values


@contextmanager
def clear_errors(what: str, symbols: Symbols) -> Iterator[None]:
    """Raise LoweringError for code that expects static shapes and fails otherwise."""
    try:
        yield
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, ir.MLIRError) as error:
        if not symbols.sources:
            raise
        raise LoweringError(
            f"{what}: no lowering for symbolic shapes as here ({type(error).__name__}). Compile it for one shape, "
            "or do without it in the part that is for all shapes"
        ) from error


def check_symbolic(eqn: Any, where: str) -> None:
    """Raise LoweringError for an operation on symbolic shapes whose lowering is for static ones."""
    if registry.takes_any_shape(eqn.primitive.name) and not _changes_widths(eqn):
        return
    for atom in (*eqn.invars, *eqn.outvars):
        for size in getattr(atom.aval, "shape", ()):
            if not is_static(size):
                raise LoweringError(
                    f"{eqn.primitive.name}: no lowering for the symbolic dimension '{size}' of {atom.aval.str_short()}"
                    f"{where}. Compile it for one shape, or do without it in the part that is for all shapes"
                )


def _changes_widths(eqn: Any) -> bool:
    """Whether an element becomes several, or several one: IREE's compiler ends the process ("could not reify")."""
    if eqn.primitive.name != "bitcast_convert_type":
        return False
    return len({len(atom.aval.shape) for atom in (*eqn.invars, *eqn.outvars)}) > 1
