"""IREE's phases up to "flow", which decide what is computed together, as its own pipelines.

They are those that its phases have, but for that which assigns the device, in managers that a session keeps
(managers.py): 14 instead of 23 ms for `x + 1`; without the passes that have nothing to do there, 7 instead of 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veery_lowering.compiler import dispatches
from veery_lowering.compiler.dispatches import RunPasses
from veery_lowering.mlir import base_name, ir, operations
from veery_lowering.passes.flow.sources import part_sources
from veery_lowering.targets.target import SYNCHRONOUS

# Dialects that passes load which are run later, and with which the patterns of earlier ones would be collected anew.
DIALECTS = ("iree_encoding", "iree_tensor_ext", "stream", "vector")
# The common input pipeline has a default that demotes float64: its other passes stand alone.
_INPUT = (
    "iree-stablehlo-input-transformation-pipeline,iree-import-public,iree-import-ml-program,iree-sanitize-module-names"
)
_ABI = "iree-abi-transformation-pipeline{{invocation-model={model}}}"
_TARGETS = "iree-hal-materialize-target-devices"
# As the options say that all programs are compiled with (targets/target.py).
_HOIST = "iree-util-hoist-into-globals{max-size-increase-threshold=1048576}"
_OPTIMIZE = (
    "iree-global-optimization-transformation-pipeline"
    "{strip-assertions=true const-expr-hoisting=true const-expr-max-size-increase-threshold=1048576"
    " generalize-matmul=false aggressive-transpose-propagation=false outer-dim-concat=false}"
)
_FLOW = "iree-flow-transformation-pipeline"

# The same passes, without those of what plain modules have none of: CHLO, tuples, symbolic shapes, quantised
# operations, globals, functions, branches. The inliner makes a canonicalizer for each function that it looks at, of
# kernels too; of others it is followed by one anyway. It comes first, since then there is one function left: of a
# network with 16 kernels 3 ms instead of 8.
_INLINE = "inline{default-pipeline=}"
_KERNELS = "hal.executable.source(builtin.module(func.func(canonicalize)))"
_CANONICAL = "canonicalize,iree-stablehlo-canonicalize"
_INPUT_PLAIN = ",".join([
    f"{_INLINE},func.func({_CANONICAL},cse,iree-stablehlo-legalize-custom-calls,iree-stablehlo-legalize-control-flow)",
    "iree-stablehlo-to-stablehlo-preprocessing{order-conv-features=true}",
    f"func.func(iree-stablehlo-canonicalize,{_CANONICAL}),{_KERNELS}",
    f"func.func({_CANONICAL},cse,iree-stablehlo-to-linalg-ext)",
    f"iree-stablehlo-to-iree-input,reconcile-unrealized-casts,func.func({_CANONICAL})",
    "iree-stablehlo-verify-compiler-input-legality",
    "iree-import-public,iree-import-ml-program,iree-sanitize-module-names",
])  # fmt: skip
_ABI_PLAIN = ",".join(
    [
        "iree-abi-convert-streamable-ops,iree-abi-wrap-entry-points{{invocation-model={model}}}",
        f"{_INLINE.replace('{', '{{').replace('}', '}}')},util.func(canonicalize,cse),symbol-dce",
    ]
)
_PLAIN = ("flow.dispatch", "flow.tensor.clone", "func.call", "func.func", "func.return")
_SETTLED = frozenset((*_PLAIN, "stablehlo.constant", "stablehlo.reshape"))
_NOT_PLAIN = (
    *("composite", "create_token", "get_tuple_element", "tuple", "uniform_dequantize", "uniform_quantize"),
    *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad", "dynamic_reshape"),
)
_CLEAN = "iree-flow-canonicalize,cse"
_G, _D, _F = "iree-global-opt-", "iree-dispatch-creation-", "iree-flow-"
_INTEGERS = "iree-util-optimize-int-arithmetic"
_WITH_INTEGERS = ",".join([
    f"util.func({_G}warn-on-uninitialized-values,iree-util-strip-debug-ops,{_INTEGERS},iree-flow-canonicalize"
    f",{_G}remove-zero-extent-tensors,{_G}detach-elementwise-from-named-ops,simplify-depthwise-conv)",
    f"{_G}erase-unused-linalg-operands,{_G}expand-tensor-shapes",
    f"util.func(convert-elementwise-to-linalg,{_G}raise-special-ops,{_G}decompose-concat"
    f",{_G}generalize-linalg-named-ops,{_D}insert-tensor-barriers)",
    f"{_D}fold-unit-extent-dims",
    f"util.func({_D}fold-reshapes-into-tensor-barriers,{_CLEAN}"
    f",{_G}convert-batch-matmul-to-matmul,{_G}propagate-linalg-transpose,{_CLEAN})",
    f"{_G}convert-strided-contraction-to-contraction",
    f"util.func({_G}generalize-linalg-named-ops,{_G}loop-invariant-code-motion,{_CLEAN},{_INTEGERS},{_CLEAN})",
    _HOIST,
    f"util.func({_CLEAN},{_G}raise-special-ops)",
])  # fmt: skip
# Where all sizes are known there is nothing for what simplifies their arithmetic, 2.5 ms of a hundred operations: it
# changed none of 161 programs.
_OPTIMIZE_PLAIN = _WITH_INTEGERS.replace(f",{_INTEGERS},{_CLEAN}", "").replace(f",{_INTEGERS}", "")
_OUTLINE = ",".join([
    "iree-verify-input-legality,iree-util-verify-initialization-order,iree-util-attribute-call-graph",
    f"util.func({_F}initialize-empty-tensors,{_F}capture-dynamic-dims,{_CLEAN})",
    f"{_F}outline-dispatch-externs,{_F}outline-dispatch-regions,{_F}annotate-dispatches",
    f"flow.executable(iree-util-strip-debug-ops),util.func({_F}canonicalize),{_F}deduplicate-executables",
    f"util.func({_F}inject-tensor-tracing,{_F}cleanup-tensor-shapes),{_F}outline-constants",
])  # fmt: skip
_CLEAN_WITH_INTEGERS = f"util.func({_INTEGERS},{_CLEAN}),symbol-dce"
_CLEAN_PLAIN = f"util.func({_CLEAN}),symbol-dce"


def form_dispatches(module: ir.Module, run: RunPasses, device: str, flags: Sequence[str]) -> bool:
    """Bring a module of StableHLO to IREE's "flow" phase.

    Args:
        module: is changed.
        run: runs passes on it.
        device: what it is compiled for, as an attribute.
        flags: of the compilation, such as the short pipeline takes.

    Returns:
        Whether the passes succeeded; else the invocation's diagnostics say why not.

    Raises:
        Rejected: see `dispatches.refuse_sums_of_nothing`.
    """
    model = "sync" if SYNCHRONOUS in flags else "coarse-fences"
    module.operation.attributes["hal.device.targets"] = ir.Attribute.parse(f"[{device}]")
    first, abi = (_INPUT_PLAIN, _ABI_PLAIN) if _is_plain_input(module) else (_INPUT, _ABI)
    simple = _OPTIMIZE_PLAIN, _CLEAN_PLAIN
    optimize, clean = simple if _has_sizes(module) else (_WITH_INTEGERS, _CLEAN_WITH_INTEGERS)
    if not run(f"{first},{abi.format(model=model)},{_TARGETS}"):
        return False
    if not run(optimize if _is_plain(module) else _OPTIMIZE):
        return False
    if not dispatches.create_dispatches(module, run, flags):
        return False
    dispatches.refuse_sums_of_nothing(module)
    if _is_plain(module):
        outlined = run(_OUTLINE) and run(clean if _is_plain(module) else _FLOW)
    else:
        outlined = run(_FLOW)
    if outlined:
        part_sources(module)
    return outlined


def is_settled(module: ir.Module) -> bool:
    """Whether a module of StableHLO calls kernels of ours and computes nothing beside: there is nothing to simplify."""
    return all(name in _SETTLED for name in _names(module))


def _names(module: ir.Module) -> Iterator[str]:
    """The names of the operations of a module, but for those of kernels."""
    functions = [op.operation for op in module.body.operations if op.operation.name != "hal.executable.source"]
    return (op.name for function in functions for op in operations(function))


def _has_sizes(module: ir.Module) -> bool:
    """Whether all sizes of what functions of StableHLO take and give are known."""
    types = [str(op.attributes["function_type"]) for op in module.body.operations if op.operation.name == "func.func"]
    return not any("?" in text for text in types)


def _is_plain(module: ir.Module) -> bool:
    """Whether a module has one function and no global but the device."""
    names = [op.operation.name for op in module.body.operations]
    return names.count("util.func") == 1 and names.count("util.global") == 1 and "util.initializer" not in names


def _is_plain_input(module: ir.Module) -> bool:
    """Whether functions of StableHLO's operations on arrays, and of calls of our kernels, are all that a module has."""
    return all(
        name in _PLAIN or (name.startswith("stablehlo.") and base_name(name) not in _NOT_PLAIN)
        for name in _names(module)
    )
