"""Have shaders keep NaN.

Problem: a shader of SPIR-V says whether NaN, infinities and signs of zeros matter to it, and IREE 3.13 leaves it out,
so that drivers may compute as if there were none. Example: with NVIDIA's `where(x > 1, 1, x)` of NaN was 1, and so the
arctangent of NaN a number. Fix: the execution mode SignedZeroInfNanPreserve. Test: tests/gpu/test_programs.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from veery_lowering.mlir import ir, operations

PHASE = "executable-targets"  # of IREE's standard pipeline, after which there are shaders, which are not encoded yet

_MODE = "SignedZeroInfNanPreserve"
_EXTENSION = "SPV_KHR_float_controls"
# What a shader needs to compute with floats other than those of 32 bits.
_NEEDED = {16: "Float16", 32: "Shader", 64: "Float64"}


def keep_nan(module: ir.Module, floats: Collection[int]) -> None:
    """Ask for it in all shaders, in place, for those floats of so many bits that they compute with."""
    for op in operations(module.operation):
        if op.name == "spirv.module":
            version, capabilities, extensions = _requirements(op)
            used = [bits for bits in floats if _NEEDED[bits] in capabilities]
            needs = f"[{', '.join([*capabilities, _MODE])}], [{', '.join(dict.fromkeys([*extensions, _EXTENSION]))}]"
            op.attributes["vce_triple"] = ir.Attribute.parse(f"#spirv.vce<{version}, {needs}>")
            for entry in operations(op):
                if entry.name == "spirv.EntryPoint":
                    _ask(entry, used)


def _requirements(shaders: Any) -> tuple[str, list[str], list[str]]:
    """The version, the capabilities and the extensions of SPIR-V that shaders need."""
    match = re.fullmatch(r"#spirv\.vce<(.*), \[(.*)\], \[(.*)\]>", str(shaders.attributes["vce_triple"]))
    assert match is not None
    capabilities, extensions = ([name.strip() for name in each.split(",") if name] for each in match.groups()[1:])
    return match[1], capabilities, extensions


def _ask(entry: Any, floats: Collection[int]) -> None:
    with entry.location, ir.InsertionPoint.after(entry):
        for bits in floats:
            attributes = {
                "fn": entry.attributes["fn"],
                "execution_mode": ir.Attribute.parse(f"#spirv.execution_mode<{_MODE}>"),
                "values": ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(32), bits)]),
            }
            ir.Operation.create("spirv.ExecutionMode", attributes=attributes)
