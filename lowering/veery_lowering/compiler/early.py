"""IREE's phases up to "flow", which decide what is computed together, as its own pipelines.

They are those that its phases have, but for that which assigns the device, in managers that a session keeps
(managers.py): 14 instead of 23 ms for `x + 1`.
"""

from __future__ import annotations

from collections.abc import Sequence

from veery_lowering.compiler import dispatches
from veery_lowering.compiler.dispatches import RunPasses
from veery_lowering.mlir import ir
from veery_lowering.targets.target import SYNCHRONOUS

# Dialects that passes load which are run later, and with which the patterns of earlier ones would be collected anew.
DIALECTS = ("iree_encoding", "stream", "vector")
# The common input pipeline has a default that demotes float64: its other passes stand alone.
_INPUT = (
    "iree-stablehlo-input-transformation-pipeline,iree-import-public,iree-import-ml-program,iree-sanitize-module-names"
)
_ABI = "iree-abi-transformation-pipeline{{invocation-model={model}}}"
# As the options say that all programs are compiled with (targets/target.py).
_OPTIMIZE = (
    "iree-hal-materialize-target-devices,iree-global-optimization-transformation-pipeline"
    "{strip-assertions=true const-expr-hoisting=true const-expr-max-size-increase-threshold=1048576"
    " generalize-matmul=false aggressive-transpose-propagation=false outer-dim-concat=false}"
)
_FLOW = "iree-flow-transformation-pipeline"


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
    if not run(f"{_INPUT},{_ABI.format(model=model)},{_OPTIMIZE}"):
        return False
    if not dispatches.create_dispatches(module, run, flags):
        return False
    dispatches.refuse_sums_of_nothing(module)
    return run(_FLOW)
