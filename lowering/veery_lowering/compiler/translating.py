"""What IREE makes of a dispatch whose tiles are chosen: code in LLVM's dialect, by its own passes as text pipelines.

IREE makes a list of passes for each function while it runs, which collect the patterns of all operations each time. As
text the same passes are kept with the session (managers.py), a list for each kind of tiles: 80 instead of 95 ms for the
three dispatches of a network, 9.5 instead of 12 for `x + 1`. What comes after them are IREE's own lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from veery_lowering.compiler import tiles
from veery_lowering.compiler.to_llvm import IREES_LIST, is_plain, kernel_to_llvm, to_llvm
from veery_lowering.mlir import ir, operations
from veery_lowering.store.machine import processors

RunOn = Callable[[Any, str, int], bool]  # passes of an executable, by the thread of a number; whether they went well

_C, _L = "iree-codegen-", "iree-llvmcpu-"
_KIND = re.compile(r"pipeline = #iree_cpu\.pipeline<(\w+)>")
_PEEL, _DECOMPOSE = "enable_loop_peeling", "enable_decomposition"
_PADS = f"{_C}fuse-tensor-pad-with-consumer,{_C}concretize-pad-result-shape"
_PAD = "tensor.pad"  # which those passes are for: the patterns that they collect are a hundredth of a compilation
_FUSE = f"{_L}tile-and-fuse-producer-consumer"
_COMMON = f"{_FUSE}{{tiling-level=vector_common_parallel}}"
_REDUCTION = f"{_FUSE}{{only-fuse-producer-input-operands=true tiling-level=vector_reduction}}"
_INNER = f"{_FUSE}{{anchor-on-root-op=false tiling-level=vector_inner_parallel}}"
_TILE = f"{_L}tile{{tiling-level=vector_common_parallel}}"
_CLEAN = "canonicalize,cse"
_DISTRIBUTE = (
    f"{_C}tile-and-distribute-to-workgroups-using-forall-op,{_C}bufferize-dispatch-tensor-load-store"
    f",{_C}combine-result-layout-transformation,{_C}config-tracking-canonicalize,cse,{_PADS}"
    f",{_C}propagate-dispatch-size-bounds"
)
_VECTORIZE = f"{_C}generic-vectorization{{enable-vector-masking=true use-configured-vector-sizes=false}}"
_SLICES = f"{_C}optimize-tensor-insert-extract-slices"
_VECTORS = f"{_VECTORIZE},{_SLICES},{_CLEAN},{_L}verify-vector-size-legality"
_BUFFERS = f"{_C}llvmcpu-bufferization-pipeline"
_ONE_TRIP = f"{_C}remove-single-iteration-loop"
_BOUNDS = f"{_C}propagate-dispatch-size-bounds,{_ONE_TRIP}"
_UKERNELS = f"{_C}cpu-prepare-ukernels,{_C}cpu-lower-to-ukernels"
# What of the levels that an operation's tiles may have is done, in this order.
_LEVELS = {
    "cache_parallel": f"{_FUSE}{{tiling-level=cache_parallel}}",
    "cache_reduction": f"{_FUSE}{{only-fuse-producer-input-operands=true tiling-level=cache_reduction}}",
    "vector_common_parallel": _COMMON,
    "vector_reduction": (
        f"{_L}split-reduction{{enable-fp-reduction-reordering=true}},{_REDUCTION}"
        f",{_L}tile{{skip-root-op=true tiling-level=vector_reduction}}"
    ),
}
_DONE = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline>"


def translate(module: ir.Module, run: RunOn, threads: bool) -> bool:
    """Translate the executables of a module, by several threads if asked; whether that went well."""
    done = ir.Attribute.parse(_DONE)
    left: list[Any] = []
    went_well = _each(_executables(module), lambda op, thread: _translate(op, run, thread, done, left), threads)
    # IREE's list may load dialects, for which no other thread may be at work.
    return went_well and all(run(executable, IREES_LIST, 0) for executable in left)


def are_plain(module: ir.Module) -> bool:
    """Whether the executables of a module, kernels of ours, may be translated by `translate_plain`."""
    return all(map(is_plain, _executables(module)))


def translate_plain(module: ir.Module, run: RunOn, threads: bool) -> bool:
    """Translate the executables of a module, which are plain kernels of ours, for which no tiles are chosen."""
    translated = lambda op, thread: kernel_to_llvm(op, lambda passes: run(op, passes, thread))
    return _each(_executables(module), translated, threads)


def _executables(module: ir.Module) -> list[Any]:
    return [op.operation for op in module.body.operations if op.operation.name == "hal.executable"]


def _each(executables: Sequence[Any], translated: Callable[[Any, int], bool], threads: bool) -> bool:
    """Translate executables, by several threads if asked; whether that went well."""
    waiting, count = iter(executables), min(processors(), len(executables)) if threads else 1
    work: Callable[[int], bool] = lambda thread: all(translated(op, thread) for op in waiting)
    if count < 2:
        return work(0)
    with ThreadPoolExecutor(count) as pool:
        return all(pool.map(work, range(count)))


def _translate(executable: Any, run: RunOn, thread: int, done: ir.Attribute, left: list[Any]) -> bool:
    """Translate an executable, or add it to those that are left to IREE's list.

    Where its function's passes were run as text, `done` tells IREE that none are left.
    """
    inside = operations(executable)
    functions = [op for op in inside if op.name == "func.func"]
    variants = [op for op in inside if op.name == "hal.executable.variant"]
    passes = None
    if len(functions) == len(variants) == 1:
        passes = passes_of(functions[0], "+avx2" in str(variants[0].attributes["target"]))
    if passes is not None:
        if not run(executable, f"hal.executable.variant(builtin.module(func.func({passes})))", thread):
            return False
        functions[0].attributes[tiles.TRANSLATION] = done
        done_here = to_llvm(executable, lambda passes: run(executable, passes, thread))
        if done_here is not None:
            return done_here
    left.append(executable)
    return True


def passes_of(function: Any, avx2: bool) -> str | None:
    """The passes of a function, whose tiles are chosen; None where IREE shall tell them."""
    if tiles.TRANSLATION not in function.attributes:
        return None
    text = str(function.attributes[tiles.TRANSLATION])
    kind = _KIND.search(text)
    make = _KINDS.get(kind[1]) if kind else None
    inside = operations(function)
    roots = [tiles.levels_of(op) for op in inside]
    roots = [levels for levels in roots if "distribution" in levels]
    if make is None or (make is _double_tiling and len(roots) != 1):
        return None
    levels = list(roots[0]) if roots else []
    passes = ",".join([_DISTRIBUTE, *make(levels, _PEEL in text, _DECOMPOSE in text, str(avx2).lower())])
    return passes if any(op.name == _PAD for op in inside) else passes.replace(f",{_PADS}", "")


def _lower_vectors(avx2: str, transfers: str = "linalg-copy") -> str:
    return (
        f"{_C}drop-vector-unit-dims,{_C}hoist-inner-tiled-acc-reshapes"
        f",{_L}virtual-vector-lowering{{split-transfers={transfers}}},canonicalize"
        f",{_C}vector-transfer-lowering{{enable-scalable-lowerings=true}}"
        f",{_L}vector-transpose-lowering{{lower-vector-transpose-to-avx2={avx2}}},canonicalize"
        f",{_L}vector-shape-cast-lowering"
    )


def _double_tiling(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    for level, passes in _LEVELS.items():
        if level in levels:
            yield f"{passes},{_PADS}"
    yield f"{_INNER},{_PADS},{_C}forall-to-for"
    if peels:
        yield f"{_L}peel"
    yield f"{_C}vectorize-tensor-pad"
    if decomposes:
        yield f"{_C}decompose-pack-unpack-ops,{_C}config-tracking-canonicalize,cse"
    yield f"{_L}tile-to-vector-size,{_VECTORS},{_BUFFERS},{_BOUNDS},{_lower_vectors(avx2)}"


def _buffer_operations(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    yield f"{_TILE},{_L}peel,{_VECTORS},{_ONE_TRIP},{_lower_vectors(avx2)}"


def _convolution(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    yield f"{_COMMON},{_PADS},{_REDUCTION},{_C}decompose-convolution-to-lower-dim-ops,{_PADS},{_C}forall-to-for"
    if peels:
        yield f"{_L}peel"
    yield f"{_C}vectorize-tensor-pad,{_VECTORS},{_C}optimize-vector-transfer{{flatten=true}},{_BUFFERS},{_BOUNDS}"
    yield _lower_vectors(avx2, "shuffle")


def _tiled_product(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    yield f"{_COMMON},{_UKERNELS},{_C}lower-bitcode-ukernels,{_REDUCTION},{_INNER},{_C}forall-to-for"
    yield f"{_L}tile-to-vector-size,{_VECTORS},{_CLEAN},{_BUFFERS}"
    yield f"{_L}mmt4d-vector-lowering{{vector-contract-custom-kernels=false}},{_lower_vectors(avx2)}"


def _tiling(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    yield f"{_UKERNELS},{_TILE}"
    if decomposes:
        yield f"{_C}decompose-pack-unpack-ops"
    yield f"{_VECTORS},{_BUFFERS},{_lower_vectors(avx2)}"


def _default(levels: Sequence[str], peels: bool, decomposes: bool, avx2: str) -> Iterator[str]:
    yield f"{_FUSE}{{anchor-on-root-op=false tiling-level=vector_common_parallel}},{_BUFFERS}"


_KINDS = {
    "Default": _default,
    "DoubleTilingExpert": _double_tiling,
    "BufferOpsTileAndVectorize": _buffer_operations,
    "ConvTileAndDecomposeExpert": _convolution,
    "Mmt4dTilingExpert": _tiled_product,
    "DataTiling": _tiling,
}
