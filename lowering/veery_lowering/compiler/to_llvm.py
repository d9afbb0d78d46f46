"""From vectors to LLVM's dialect: the passes of IREE's own list, as text.

That list begins with the passes that choose passes, which have been run (translating.py), and which load the dialects
of all GPUs. The passes behind them look through the patterns of all that are loaded, of this program and of all that
follow. Without them what is done with the dispatch of `x + 1` takes 7 instead of 10 ms.

One of its passes has no name in texts, MLIR's expansion of arithmetic that LLVM does not have. What it makes of
divisions that round down, by which positions in arrays are computed, is made here. Dispatches that have other such
operations are left to IREE's list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery_lowering.mlir import ir, operations

_C, _L = "iree-codegen-", "iree-llvmcpu-"
_CLEAN = "canonicalize,cse"
_FEW_BITS = " ".join(
    f"include-{name}=false" for name in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu")
)
# What is for operations of these dialects: 0.6 ms where there are none, as in most dispatches once they are vectors.
_LINALG = f"iree-linalg-ext-to-loops,{_C}memrefcopy-to-linalg,convert-linalg-to-loops"
_LINALGS = ("linalg.", "iree_linalg_ext.", "memref.copy")
_TO_LOOPS = (
    f"{_LINALG},iree-convert-bf16-arith-to-f32"
    f",{_C}convert-unsupported-float-to-int-buffers{{include-bf16=true {_FEW_BITS}}},{_CLEAN}"
)
_TO_BLOCKS = (
    f"{_C}fold-tensor-extract-op,convert-complex-to-standard,{_C}math-transform"
    f",{_C}hoist-statically-bound-allocations,{_C}vector-transfer-lowering{{enable-scalable-lowerings=true}}"
    f",fold-memref-alias-ops,{_C}expand-strided-metadata,{_C}cleanup-buffer-alloc-view"
    f",{_L}assign-workgroup-local-memory,{_L}check-ir-before-llvm-conversion,convert-scf-to-cf,{_CLEAN}"
    ",fold-memref-alias-ops,iree-affine-expand-index-ops"
)
_BEFORE = (
    f"func.func({_C}verify-workgroup-distribution),{_C}reconcile-translation-info{{distribute-along=x}}"
    f",{_C}resolve-workgroup-count-hints,iree-lower-affine,iree-util-drop-compiler-hints"
    f",func.func({_C}erase-hal-descriptor-type-from-memref),{_C}lower-ukernel-ops-to-calls"
    f",func.func({_TO_LOOPS}),{_C}iree-bufferize-constants,func.func({_TO_BLOCKS})"
)
# What is for elements of less than a byte in memory: 1.1 ms.
_NARROW = f"{_C}emulate-narrow-type"
_BYTE = 8
_AFTER = (
    f"func.func(iree-convert-unsupported-float-arith,{_NARROW},{_CLEAN})"
    ",iree-convert-to-llvm{reassociateFpReductions=true},reconcile-unrealized-casts"
    f",{_L}synchronize-symbol-visibility,{_CLEAN},llvm.func({_C}add-fast-math-flags)"
)
_FIRST = f"hal.executable.variant(builtin.module({_BEFORE}))"
_LAST = f"hal.executable.variant(builtin.module({_AFTER}),{_C}propagate-dispatch-config)"
IREES_LIST = (
    f"hal.executable.variant(builtin.module({_C}llvmcpu-lowering-pipeline{{opt-level=O3}})"
    f",{_C}translation-postprocessing-pipeline)"
)
# What kernels of ours need of these: they are written over memory, and say themselves between how many workgroups they
# are divided. Of the kernels of 108 programs they make the same code; those of a program take 13 instead of 29 ms, with
# what chooses tiles.
_FIRST_OF_KERNELS = (
    "hal.executable.variant(builtin.module(func.func(iree-convert-bf16-arith-to-f32"
    f",{_C}convert-unsupported-float-to-int-buffers{{include-bf16=true {_FEW_BITS}}},{_C}math-transform"
    f",{_C}vector-transfer-lowering{{enable-scalable-lowerings=true}},convert-scf-to-cf,{_CLEAN})))"
)
_LAST_OF_KERNELS = f"hal.executable.variant(builtin.module({_AFTER.replace(f'{_NARROW},', '')}))"
_OF_KERNELS = ("arith.", "builtin.", "func.", "hal.", "llvm.", "math.", "scf.", "vector.")
_MEMORY = frozenset(
    f"memref.{name}" for name in ("alloca", "extract_aligned_pointer_as_index", "load", "store", "view")
)
# Operations of arithmetic that are LLVM's, too.
_KNOWN = frozenset(
    f"arith.{name}"
    for name in (
        "addf addi addui_extended andi bitcast cmpf cmpi constant divf divsi divui extsi extui fptosi fptoui index_cast"
        " index_castui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui mulf muli mulsi_extended"
        " mului_extended negf ori remf remsi remui select shli shrsi shrui sitofp subf subi trunci uitofp xori"
    ).split()
)
_FLOOR = "arith.floordivsi"
_UNEQUAL, _LESS = 1, 2  # predicates of integers
_CONVERSIONS = frozenset(("arith.extf", "arith.truncf"))
_FLOATS = (ir.F16Type, ir.F32Type, ir.F64Type)
_WHOLE = (*_FLOATS, ir.BF16Type, ir.ComplexType)

Run = Callable[[str], bool]


def to_llvm(executable: Any, run: Run) -> bool | None:
    """Bring an executable, whose functions have vectors and loops, to LLVM's dialect.

    Args:
        run: runs passes on the executable.

    Returns:
        Whether that went well; None where IREE's list has to do the rest.
    """
    has_linalg = any(op.name.startswith(_LINALGS) for op in operations(executable))
    if not run(_FIRST if has_linalg else _FIRST.replace(f"{_LINALG},", "")):
        return False
    inside = operations(executable)
    arithmetic, is_narrow = [op for op in inside if op.name.startswith("arith.")], any(map(_is_narrow, inside))
    if not all(map(_is_known, arithmetic)):
        return None
    for op in arithmetic:
        if op.name == _FLOOR:
            _divide(op)
    return run(_LAST if is_narrow else _LAST.replace(f"{_NARROW},", ""))


def kernel_to_llvm(executable: Any, run: Run) -> bool:
    """Bring an executable of a kernel of ours, which is plain, to LLVM's dialect; whether that went well.

    Args:
        run: runs passes on the executable.
    """
    (variant,) = (op for op in executable.regions[0].blocks[0] if op.operation.name == "hal.executable.variant")
    with executable.context:
        size = ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IndexType.get(), 1)] * 3)
    for op in variant.regions[0].blocks[0]:
        if op.operation.name == "hal.executable.export":
            op.attributes["workgroup_size"] = size
    return run(_FIRST_OF_KERNELS) and run(_LAST_OF_KERNELS)


def is_plain(executable: Any) -> bool:
    """Whether an executable of a kernel of ours has nothing but what `kernel_to_llvm` knows."""
    inside = operations(executable)
    names = {op.name for op in inside}
    arithmetic = [op for op in inside if op.name.startswith("arith.")]
    return (
        all(name in _MEMORY or name.startswith(_OF_KERNELS) for name in names)
        and _FLOOR not in names
        and all(map(_is_known, arithmetic))
        and not any(map(_is_narrow, inside))
    )


def _is_narrow(op: Any) -> bool:
    """Whether an operation gives memory whose elements have less than a byte, or may have."""
    elements = [x.type.element_type for x in op.results if isinstance(x.type, ir.MemRefType)]
    return not all(
        isinstance(element, _WHOLE) or (isinstance(element, ir.IntegerType) and element.width >= _BYTE)
        for element in elements
    )


def _is_known(op: Any) -> bool:
    if op.name in _CONVERSIONS:
        return all(isinstance(_element_type(x), _FLOATS) for x in (op.operands[0], op.results[0]))
    return op.name in _KNOWN or op.name == _FLOOR


def _element_type(value: Any) -> Any:
    return value.type.element_type if isinstance(value.type, ir.VectorType) else value.type


def _divide(op: Any) -> None:
    """Round a division down: one less than what is rounded to zero, where signs differ and something remains."""
    x, y = op.operands
    type_ = op.results[0].type

    def made(name: str, of: ir.Type, *operands: Any, **attributes: Any) -> Any:
        return ir.Operation.create(f"arith.{name}", [of], operands, attributes).results[0]

    def constant(value: int) -> Any:
        number = ir.IntegerAttr.get(_element_type(x), value)
        whole = isinstance(type_, ir.VectorType)
        return made("constant", type_, value=ir.DenseElementsAttr.get_splat(type_, number) if whole else number)

    with op.context, ir.InsertionPoint(op), op.location:
        bit = ir.IntegerType.get_signless(1)
        bits = ir.VectorType.get(type_.shape, bit) if isinstance(type_, ir.VectorType) else bit

        def compared(predicate: int, x: Any, y: Any) -> Any:
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
            return made("cmpi", bits, x, y, predicate=number)

        quotient = made("divsi", type_, x, y)
        remains = compared(_UNEQUAL, x, made("muli", type_, quotient, y))
        zero = constant(0)
        differ = compared(_UNEQUAL, compared(_LESS, x, zero), compared(_LESS, y, zero))
        rounds = made("andi", bits, remains, differ)
        less = made("addi", type_, quotient, constant(-1))
        op.results[0].replace_all_uses_with(made("select", type_, rounds, less, quotient))
    op.operation.erase()
