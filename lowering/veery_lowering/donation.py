"""Lets results take over the memory of donated arguments.

IREE writes a result into an argument that names it (`iree.abi.output`), and takes the two for different memory all the
while: measured, `x @ x`, a transposed `x` and a sum of `x` beside the result come out wrong. So this is asked for only
where nothing reads the argument but elementwise operations on the way to that one result, which nothing else reads:
they read each element before they write it. A result that is used further would be made elsewhere and copied. (Updates
in place of donated arguments need no asking, see `aliasing`.)
"""

from __future__ import annotations

import math
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.mlir import ir
from veery_lowering.types import is_static

# What is smaller costs no time to allocate.
_SMALLEST = 1 << 16

_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide exponential"
        " exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate not or"
        " popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select shift_left"
        " shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split()
)


def reuse_donated(module: ir.Module, donated: tuple[bool, ...]) -> None:
    """Mark the donated arguments of `main` into which a result may be written.

    Args:
        module: a StableHLO module.
        donated: for each argument, whether it may be overwritten.
    """
    function = next((op.operation for op in module.body.operations if _is_main(op.operation)), None)
    if function is None or not any(donated):
        return
    block = function.regions[0].blocks[0]
    returned = list(block.operations[len(block.operations) - 1].operands)
    taken: dict[int, int] = {}  # argument: result
    for number, given in enumerate(donated):
        argument = block.arguments[number]
        if given and all(map(is_static, hlo.shape_of(argument))) and _nbytes(argument) >= _SMALLEST:
            index = _successor(argument, returned, set(taken.values()))
            if index is not None:
                taken[number] = index
    if not taken:
        return
    kind = ir.IndexType.get()
    attributes = [
        {"iree.abi.output": ir.IntegerAttr.get(kind, taken[i])} if i in taken else {} for i in range(len(donated))
    ]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in attributes])


def _is_main(operation: Any) -> bool:
    return operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main"


def _nbytes(value: ir.Value) -> int:
    return math.prod(hlo.shape_of(value)) * hlo.dtype_of(value).itemsize


def _successor(argument: ir.Value, returned: list[ir.Value], taken: set[int]) -> int | None:
    """The result that the argument ends in, and in nothing else."""
    for index, result in enumerate(returned):
        fits = index not in taken and result.type == argument.type and len(list(result.uses)) == 1
        if fits and not isinstance(result.owner, ir.Block) and _ends_in(argument, result):
            return index
    return None


def _ends_in(argument: ir.Value, result: ir.Value) -> bool:
    """Whether all that is computed from `argument` is `result`, element by element."""
    if result.owner.operation.name not in _ELEMENTWISE:
        return False
    shape = hlo.shape_of(argument)
    seen: set[ir.Value] = set()
    stack = [argument]
    while stack:
        for use in stack.pop().uses:
            op = use.owner.operation
            if op.name not in _ELEMENTWISE or any(hlo.shape_of(x) not in (shape, ()) for x in op.operands):
                return False
            after = op.results[0]
            if after != result and after not in seen:
                seen.add(after)
                stack.append(after)
    return bool(seen) or next(iter(argument.uses), None) is not None
