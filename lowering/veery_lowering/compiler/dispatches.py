"""Dispatch creation, IREE's phase that decides what is computed together, with one of its faults set right.

A dispatch may return a value twice: `x * y` and `y * x`, which are two operations of StableHLO, are one when both have
become scalar code of one dispatch. IREE 3.13 (`DispatchRegionOp`'s canonicalization) then replaces the second by the
first result of that dispatch, whatever that is: second derivatives were wrong in the first digit
(tests/lowering/test_dispatches.py). So the phase is run as its own passes, in the same order, and before the one that
does so each value is returned once.

As text pipelines the passes take less time than as a phase, too: 6 of 7.5 ms for `x + 1`, 57 of 74 for a network.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from veery_lowering.compiler import positions
from veery_lowering.compiler.elements import compute_elements
from veery_lowering.errors import Rejected
from veery_lowering.mlir import ir, maker, operations, sizes
from veery_lowering.spelling import dtype_name
from veery_lowering.targets.cuda import CUDA
from veery_lowering.targets.fusion import DATA_TILING, NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION
from veery_lowering.targets.target import COMMON_FLAGS, Product
from veery_lowering.targets.tiling import gains_from_tiling

RunPasses = Callable[[str], bool]  # a text pipeline, on the module that is compiled; whether it went well

PHASE = "dispatch-creation"
EARLIER = ("input", "abi", "preprocessing", "global-optimization")

# What options of these kinds change, the passes below do not know, but for those that are known.
_KINDS = ("--iree-dispatch-creation-", "--iree-opt-", "--iree-flow-", "--iree-util-", "--iree-codegen-linalg-")
TOLD = frozenset((NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION, DATA_TILING))
_KNOWN = TOLD.union(COMMON_FLAGS)

_D = "iree-dispatch-creation-"
_CLEAN = "iree-flow-canonicalize,cse"
_FUSE = f"{_D}elementwise-op-fusion"
_MULTI_USE = f"{_D}fuse-multi-use-elementwise-producer"
_HOIST = "iree-util-hoist-into-globals{max-size-increase-threshold=1048576}"
_PAD = f"{_D}tensor-pad-to-tensor-insert-slice{{skip-one-linalg-use-case=false}}"
_CLEAN_MORE = f"{_CLEAN},iree-util-simplify-global-accesses,iree-util-apply-patterns"
_CLEAN_GLOBALS = (
    "iree-util-fixed-point-iterator{max-iterations=10 pipeline=builtin.module("
    f"util.func({_CLEAN_MORE}),util.initializer({_CLEAN_MORE}),"
    "iree-util-fold-globals,iree-util-fuse-globals,iree-util-ipo)}"
)
_PREPARE = [
    f"{_D}fusion-preprocessing,{_CLEAN}",
    "iree-linalg-ext-decompose-aggregated-ops"
    "{filter-ops=iree_linalg_ext.quantize_affine,iree_linalg_ext.dequantize_affine}",
    f"{_FUSE},{_CLEAN}",
    f"{_D}fold-reshapes-into-tensor-barriers,{_D}bubble-up-expand-shapes,{_CLEAN}",
    f"{_FUSE},{_CLEAN},{_D}sink-reshapes,{_CLEAN}",
]
_SPLIT = [
    f"{_CLEAN},{_D}split-reduction-ops,{_D}form-split-reduction-dispatches",
    f"{_D}transpose-generic-ops,{_D}propagate-encodings",
]
_BARRIER = "iree_tensor_ext.compute_barrier.start"
_HINT = "iree.opt.data_tiling"  # of a product that reads tiled copies
_FIND_PRODUCTS = f"iree-flow-canonicalize{{cse-constants=false}},{_D}annotate-data-tiling-hints"
_COLLAPSE = f"{_D}collapse-dimensions{{max-iterations=10}},{_D}hoist-uniform-scalar-compute"
_FUSE_ENCODINGS = f"{_D}fuse-encoding-ops-into-dispatch-regions-pass,{_D}convert-encoding-to-flow"
_MAKE_WORKGROUPS = [
    f"{_D}remove-tensor-barriers,{_D}convert-dispatch-regions-to-workgroups,{_D}convert-tensor-to-flow",
    f"cse,iree-flow-canonicalize,{_D}materialize-default-workgroup-count-region",
    f"{_D}bitcast-unsupported-element-types,cse,iree-flow-canonicalize",
]


def knows(flags: Sequence[str]) -> bool:
    """Whether the phase is with these options of the compiler what `create_dispatches` does."""
    return all(flag in _KNOWN for flag in flags if flag.startswith(_KINDS))


def made_safe(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Options with which the compiler's own dispatch creation seldom meets its fault, where `knows` does not know them.

    What most often makes a dispatch return a value twice, that a result with several uses is fused with one of them,
    is turned off unless it is asked for.
    """
    asked = NO_MULTI_USE_FUSION.partition("=")[0]
    return flags if knows(flags) or any(flag.startswith(asked) for flag in flags) else (*flags, NO_MULTI_USE_FUSION)


def create_dispatches(module: ir.Module, run_passes: RunPasses, flags: Sequence[str]) -> bool:
    """Run dispatch creation.

    Args:
        module: what an invocation has after the last of the `EARLIER` phases.
        run_passes: runs passes on it.
        flags: of the compilation, which `knows` knows.

    Returns:
        Whether the passes succeeded; else the invocation's diagnostics say why not.
    """
    run = functools.partial(_run, module, run_passes)
    multi_use = [_MULTI_USE] if NO_MULTI_USE_FUSION not in flags else []
    first = [_PAD, _CLEAN_GLOBALS] if _has_globals(module) else [_PAD]
    if not run([*_PREPARE, *multi_use, *_SPLIT], first, [_HOIST]) or not run(_form_regions(flags)):
        return False
    with positions.apart(module):
        if not run([_COLLAPSE]):
            return False
    if DATA_TILING in flags:
        if not run([_FIND_PRODUCTS]):
            return False
        if _choose_tiled(module) and not run([f"{_D}set-encoding"], last=[f"{_D}hoist-encoding-ops"]):
            return False
    for region in _regions(module.operation):
        _return_values_once(region)
        compute_elements(region)
    _copy_products_apart(module)
    return run([_FUSE_ENCODINGS], last=[_HOIST]) and run(_MAKE_WORKGROUPS)


def refuse_sums_of_nothing(module: ir.Module) -> None:
    """Raise Rejected where a reduction reads nothing along an axis that it reduces.

    That is so where what is reduced turns out to be a constant, as in `(x == x).sum()` of integers or `((x & 0) + 3)`.
    IREE 3.13 leaves out what is not read, and with it forgets how many elements there are: the sum is that of one.
    """
    for op in operations(module.operation):
        if op.name == "linalg.generic" and "reduction" in str(op.attributes["iterator_types"]):
            reduced = {i for i, kind in enumerate(op.attributes["iterator_types"]) if "reduction" in str(kind)}
            if not reduced <= _axes_of_what_is_read(op):
                raise Rejected("a dispatch reduces a constant, of which IREE forgets how many elements it has")


def _axes_of_what_is_read(op: Any) -> set[int]:
    """The loops of a generic operation over which its operands, other than constants, have elements that it reads."""
    arguments = op.regions[0].blocks[0].arguments
    count = op.attributes["operandSegmentSizes"][0]
    axes: set[int] = set()
    for x, argument, places in zip(list(op.operands)[:count], arguments, op.attributes["indexing_maps"]):
        if list(argument.uses) and not _is_filled(x):
            axes |= {int(axis) for axis in re.findall(r"d(\d+)", str(places).partition("->")[2])}
    return axes


def _is_filled(x: Any) -> bool:
    maker = x.owner
    if not isinstance(maker, ir.OpView | ir.Operation):
        return False
    if maker.name == "linalg.generic":
        return not maker.attributes["operandSegmentSizes"][0] and not any(
            op.name == "linalg.index" for op in operations(maker)
        )
    return bool(maker.name == "linalg.fill")


def _choose_tiled(module: ir.Module) -> bool:
    """Take the hint from products that are faster as they are; return whether there are others."""
    hinted = [op for op in operations(module.operation) if _HINT in op.attributes]
    for op in hinted:
        # Of products with vectors, the maps are known by their names.
        if "indexing_maps" not in op.attributes or not gains_from_tiling(*_product(op)):
            del op.attributes[_HINT]
    return any(_HINT in op.attributes for op in hinted)


def _product(op: Any) -> tuple[Product, bool]:
    """The sizes of a product, and whether the columns of its second operand lie along what is summed."""
    a, b, out = ([expr.position for expr in m.value.results] for m in op.attributes["indexing_maps"])
    length = {axis: n or 0 for axes, x in zip((a, b), op.operands) for axis, n in zip(axes, sizes(x))}
    batch, m, n, k = (
        math.prod(length[axis] for axis in length if (axis in a, axis in b, axis in out) == where)
        for where in ((True, True, True), (True, False, True), (False, True, True), (True, True, False))
    )
    return Product(batch, m, n, k, dtype_name(op.operands[0].type)), b[-1] not in out


def _form_regions(flags: Sequence[str]) -> list[str]:
    """Passes after which each operation is in a region that becomes a dispatch."""
    # Of what is read several times a GPU's workgroups would read what others have not written: there only what is
    # elementwise is fused, by another pass.
    multi_use = str(NO_MULTI_USE_FUSION not in flags and CUDA not in flags).lower()
    aggressive = str(NO_AGGRESSIVE_FUSION not in flags).lower()
    options = "fuse-broadcast-ops=true fuse-multi-reduction=false fuse-truncate-ops=true intra-dispatch=true"
    return [
        f"{_CLEAN},{_D}form-scalar-dispatches",
        f"{_D}form-dispatch-regions{{aggressive-fusion={aggressive} fuse-multi-use-producers={multi_use}}}",
        f"{_FUSE}{{{options}}},{_MULTI_USE}{{intra-dispatch=true num-iterations=32}}",
        f"{_D}clone-producers-into-dispatch-regions{{aggressive={aggressive}}}",
    ]


def _run(
    module: ir.Module,
    run_passes: RunPasses,
    of_functions: Sequence[str],
    first: Sequence[str] = (),
    last: Sequence[str] = (),
) -> bool:
    """Run passes of the functions of a module, and others of the module before and after them."""
    # Each clean-up has to collect its patterns, which takes 0.7 ms, also where there is nothing that it is for.
    anchors = ("util.func", "util.initializer") if _has_globals(module) else ("util.func",)
    nested = [f"{anchor}({','.join(of_functions)})" for anchor in anchors]
    return run_passes(",".join([*first, *nested, *last]))


def _has_globals(module: ir.Module) -> bool:
    """Whether there is a global beside the device, so that there may be initializers."""
    return [op.operation.name for op in module.body.operations].count("util.global") > 1


def _regions(op: Any) -> Iterator[Any]:
    """The dispatch regions of a module, also within its control flow."""
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                if inner.operation.name == "flow.dispatch.region":
                    yield inner.operation
                elif not inner.operation.name.startswith("linalg."):
                    yield from _regions(inner.operation)


def _copy_products_apart(module: ir.Module) -> None:
    """Have what products give copied into tiles by dispatches of their own.

    For a product that writes the tiles which another one reads, IREE takes vectors of 16x256 numbers, and may refuse
    them: "operations with large vector sizes". A network of 64x64x128x128x10 was compiled three times.
    """
    for op in operations(module.operation):
        if op.name == "iree_encoding.set_encoding" and _is_product(op.operands[0]):
            with op.location, ir.InsertionPoint(op):
                barrier = ir.Operation.create(_BARRIER, results=[op.operands[0].type], operands=[op.operands[0]])
            op.operands[0] = barrier.result


def _is_product(x: Any) -> bool:
    return maker(x) == "flow.dispatch.region" and any("matmul" in op.name for op in operations(x.owner.operation))


def _return_values_once(region: Any) -> None:
    """Let results of a region that are the same value be one result."""
    returned = list(region.regions[0].blocks[0].operations)[-1].operands
    first: dict[Any, Any] = {}
    for value, result in zip(returned, region.results, strict=True):
        other = first.setdefault(value, result)
        if other is not result:
            result.replace_all_uses_with(other)
