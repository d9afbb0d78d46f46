"""Keep constants from what IREE does with them.

Problem: IREE 3.13 folds constants into what reads them, and forgets something about them. Example: the sum of
`jnp.ones((5, 7)) / 2` was 2.5, the sum of as many elements as a vector has. Fix: barriers before or behind constants;
each function below says where. Test: tests/lowering/test_fusion.py and tests/lowering/test_iree_faults.py.
"""

from __future__ import annotations

from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir, maker, operations
from veery_lowering.passes.stablehlo.barriers import bar_operand, behind_barrier
from veery_lowering.passes.stablehlo.crossings import is_elementwise

_SPREADING = frozenset(f"stablehlo.{name}" for name in "broadcast_in_dim reshape transpose slice complex".split())


def drop_unused_constants(module: ir.Module) -> None:
    """Remove literals that a rule folded into something else, in place."""
    for op in operations(module.operation):
        if op.name == "stablehlo.constant" and next(iter(op.results[0].uses), None) is None:
            op.erase()


def leave_unreversed(module: Any) -> None:
    """Take a constant of equal elements for its reverse, in place.

    IREE does not see that they are the same, and fails where slices of the reverse are padded.
    """
    for op in operations(module):
        if op.name == "stablehlo.reverse" and hlo.splat_attribute(op.operands[0]) is not None:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def hide_complex_updates(module: Any) -> None:
    """Put barriers before complex constants into which others are written, in place.

    IREE folds the two, and makes a constant that is none: "'arith.constant' op attribute 'value' failed to satisfy
    constraint: TypedAttr instance".
    """
    for op in operations(module):
        if op.name == "stablehlo.dynamic_update_slice" and hlo.dtype_of(op.operands[0]).kind == "c":
            if _spreads_constant(op.operands[0]):
                bar_operand(op, 0)


def part_complex_numbers(module: Any) -> None:
    """Put barriers before parts of complex numbers that are constants, of all but one, in place.

    IREE computes them when the program is loaded, in one dispatch, in the memory of the last: sums began with the 1 of
    products.
    """
    made: dict[Any, list[Any]] = {}
    for op in operations(module):
        if (
            op.name == "stablehlo.complex"
            and not hlo.shape_of(op.results[0])
            and all(map(hlo.is_constant, op.operands))
        ):
            made.setdefault(hlo.dtype_of(op.results[0]), []).append(op)
    for _, *others in made.values():
        for op in others:
            bar_operand(op, 0)


def keep_halves(module: Any) -> None:
    """Put barriers before half-precision elements that paddings and reductions start from, in place.

    IREE reads them on the host. What constants give it keeps from the time when the program is loaded, in a global, and
    there are no globals of half precision: "failed to legalize operation 'util.initializer'".
    """
    for op in operations(module):
        if op.name in ("stablehlo.pad", "stablehlo.reduce"):
            for number in range(len(op.operands) // 2, len(op.operands)):
                element = op.operands[number]
                if hlo.dtype_of(element).name in ("bfloat16", "float16") and not hlo.is_constant(element):
                    bar_operand(op, number)


def compute_constants(module: Any) -> None:
    """Put barriers behind elementwise results of constants alone, and before constants that windows read, in place.

    IREE makes a loop without operands of those; fused into a sum it has forgotten how long it was: the sum of
    `jnp.ones((5, 7)) / 2` was 2.5, and sums of any window of ones were 1, as those that average pooling divides by.
    """
    computed: dict[Any, Any] = {}
    for op in operations(module):
        if len(op.results) == 1 and op.operands and all(x in computed or _is_read_once(x) for x in op.operands):
            if _keeps_places(op):
                computed[op.results[0]] = op
    for op in operations(module):
        if op.name == "stablehlo.reduce_window":
            for i in range(len(op.operands) // 2):
                if _is_read_once(op.operands[i]):
                    bar_operand(op, i)
    for x, op in computed.items():
        if hlo.shape_of(x) and not all(_keeps_places(use.owner.operation) for use in x.uses):
            behind_barrier(op)


def compute_sliced_constants(module: Any) -> None:
    """Put barriers behind slices of constants, in place.

    In IREE's code for CUDA they are zeros where a reduction reads them: the eigenvalues of 5x5 matrices were 0, which
    are summed from the first rows of a 6x6 matrix and of a mask that is a constant.
    """
    for op in operations(module):
        if op.name == "stablehlo.slice" and _spreads_constant(op.operands[0]):
            behind_barrier(op)


def _keeps_places(op: Any) -> bool:
    return op.name == "stablehlo.broadcast_in_dim" or is_elementwise(op)


def _is_read_once(value: Any) -> bool:
    """Whether IREE may take a constant for its only element, so that its size is lost."""
    return hlo.splat_attribute(value) is not None or (hlo.is_constant(value) and hlo.dtype_of(value).kind == "c")


def _spreads_constant(value: Any) -> bool:
    """Whether a value is a constant, in another shape perhaps."""
    while maker(value) in _SPREADING:
        value = value.owner.operands[0]
    return hlo.is_constant(value)
