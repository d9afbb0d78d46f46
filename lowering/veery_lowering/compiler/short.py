"""The short pipeline: IREE's own passes from its dispatches on, without most of what it does between them.

After each step of its standard pipeline IREE cleans up all functions several times, and collects the patterns of all
dialects each time: 150 times for `x + 1`, 75 of its 200 ms. With each program it compiles the C library and its
microkernels (60 ms), of which the linker keeps nothing, and it starts a linker (9 ms). Here its passes up to "flow",
which decide what is computed together, are run as they are; the passes behind them as text pipelines with the
clean-ups that they rely on; the object file is linked here. The code of dispatches is the same byte for byte, but for
products, whose loops along k are unrolled less.

Measured on two cores, CPU time of a compilation, standard and short: `x + 1` 265 and 106 ms, a product of 64x64 320
and 121 ms, a softmax 414 and 190 ms.

The verifier runs after steps instead of after each pass: what is invalid is refused before it becomes code.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from veery_lowering.compiler import library, linking, steps, tiles
from veery_lowering.compiler.ahead import Kernels, Translated
from veery_lowering.compiler.dispatches import RunPasses
from veery_lowering.compiler.emptied import STREAMS, drop_code, emptied, executables
from veery_lowering.compiler.parts import Parts, entries
from veery_lowering.compiler.places import pass_places, show_places
from veery_lowering.compiler.scalars import read_scalars
from veery_lowering.compiler.translating import RunOn, are_plain, translate, translate_plain
from veery_lowering.mlir import bytecode, inside, ir
from veery_lowering.passes.stream.arguments import write_donated
from veery_lowering.passes.stream.awaits import wait_for_all
from veery_lowering.passes.stream.captures import make_in_each_block
from veery_lowering.passes.stream.carries import carry_in_place
from veery_lowering.passes.stream.in_place import place_results
from veery_lowering.store.cache import DiskCache
from veery_lowering.targets.fusion import DATA_TILING

_CLEAN = "canonicalize,cse"
# Of modules that have globals, which large constants become.
_CLEAN_GLOBALS = f"{_CLEAN},iree-util-simplify-global-accesses,iree-util-apply-patterns"
_FOLD_GLOBALS = "iree-util-fold-globals,iree-util-fuse-globals,iree-util-ipo"
_STREAM = "iree-stream-"
_HAL = "iree-hal-"
_VM = "iree-vm-"
# As early.DIALECTS, of the passes from CONFIGURE on, but for those of IREE's list (to_llvm.py). Several threads run
# some of these, and while a dialect is loaded there may be no other.
DIALECTS = (
    *("affine", "amdgpu", "arith", "arm_neon", "arm_sve", "bufferization", "cf", "complex", "func", "gpu", "hal"),
    *("io_parameters", "iree_codegen", "iree_cpu", "iree_encoding", "iree_gpu", "iree_linalg_ext", "iree_tensor_ext"),
    *(
        "iree_vector_ext",
        "linalg",
        "llvm",
        "math",
        "memref",
        "quant",
        "rocdl",
        "scf",
        "smt",
        "stream",
        "tensor",
        "tosa",
    ),
    *("ub", "util", "vector", "vm"),
)
# There is one device, which is the first: nothing to search for when a program is loaded.
_DEVICE = """
util.global private @{name} : !hal.device
util.initializer {{
  %c0 = arith.constant 0 : index
  %device = hal.devices.get %c0 : !hal.device
  util.global.store %device, @{name} : !hal.device
  util.return
}}"""
_BINARY = """
hal.executable private @{name} {{
  hal.executable.binary public @{variant} <format = "embedded-elf-x86_64", data = {data}>
}}"""
_VARIANT = "hal.executable.variant"
_PLACE = b"a place for machine code"  # in code of calls that is made meanwhile

T = TypeVar("T")
MakeCode = Callable[[bytes, Path, str], Mapping[str, linking.Part] | None]


class Unfit(Exception):
    """A module that the short pipeline does not compile."""


class Refused(Exception):
    """A module of which no pipeline makes code: the passes that translate dispatches are the standard one's."""


class _CleanUps:
    """The clean-ups of a module: of its functions, and where it has globals, of these and their initializers."""

    def __init__(self, has_globals: bool):
        self._anchors = ("util.func", "util.initializer") if has_globals else ("util.func",)
        self.all = f"{self.of(_CLEAN_GLOBALS)},{_FOLD_GLOBALS}" if has_globals else self.of(_CLEAN)

    def of(self, passes: str) -> str:
        """Passes of each function."""
        return ",".join(f"{anchor}({passes})" for anchor in self._anchors)


def _resources(clean: _CleanUps) -> list[str]:
    """From dispatches to what they read and write."""
    s, both = _STREAM, clean.of
    return [
        f"{s}clone-to-consumers,{s}conversion,iree-util-combine-initializers,{clean.all}",
        f"{s}specialize-encodings,{both(f'{s}encode-host-tensors')}",
        f"stream.executable({s}encode-device-tensors),{s}materialize-encodings",
        both(f"{s}layout-slices,{_CLEAN}"),
    ]


def _usage(clean: _CleanUps) -> list[str]:
    """What is copied, and which kind of memory each value has."""
    s, both = _STREAM, clean.of
    return [
        f"{both(f'{s}materialize-copy-on-write,canonicalize')},{s}elide-async-copies",
        f"{both(f'canonicalize,{s}emplace-allocations')},{s}refine-usage,{both('canonicalize')},{s}elide-async-copies",
        f"{clean.all},{s}verify-async-access-ranges,{s}place-transfer-executions",
    ]


def _schedule(clean: _CleanUps) -> list[str]:
    """To commands: what is submitted together, which memory each value has."""
    s, both = _STREAM, clean.of
    return [
        f"{both(f'{s}schedule-execution,{s}schedule-concurrency')},{s}sync-initializers,{s}propagate-timepoints",
        # Behind it equal fills are not merged: one may be within what runs at the same time, the other outside.
        f"{clean.all},{s}materialize-builtins,{both('canonicalize')}",
        f"{s}verify-lowering-to-async,{s}schedule-allocation",
    ]


def _commands(clean: _CleanUps) -> list[str]:
    """What is allocated and freed, and what waits for what."""
    s, both = _STREAM, clean.of
    return [
        both(f"{s}pack-constants,{s}layout-slices,canonicalize"),
        f"iree-util-propagate-subranges,{clean.all}",
        f"{s}automatic-reference-counting,{s}verify-lowering-to-cmd",
        f"{both(f'{s}reuse-allocations,convert-scf-to-cf')},{clean.all},{s}elide-timepoints,{both(_CLEAN)}",
    ]


# Which memory dispatches read and write.
_BINDINGS = [
    f"{_STREAM}fuse-dispatch-bindings,{_STREAM}annotate-dispatch-arguments,{_STREAM}annotate-dispatch-assumptions"
]


def _operands(clean: _CleanUps) -> list[str]:
    """What dispatches are passed, without what all calls agree on."""
    return [f"{_STREAM}pack-dispatch-operands,{clean.of(_CLEAN)},{_STREAM}fold-uniform-operands"]


_INTERFACES = [f"{_HAL}materialize-interfaces,{_HAL}prune-executables"]
# What data tiling decides on, which programs without it have nothing of.
_TILED = ",iree-codegen-materialize-device-encoding,iree-codegen-cpu-propagate-data-layout"
# IREE's configuration pipeline, but for what looks for tuning by its users: it loads the dialects of all GPUs.
_CONFIGURE = [
    "hal.executable(hal.executable.variant(iree-codegen-configuration-preprocessing-pipeline,builtin.module("
    "func.func(iree-codegen-type-propagation,iree-codegen-bubble-up-ordinal-ops"
    ",iree-codegen-bufferize-copy-only-dispatches,iree-codegen-decompose-softmax{use-fusion=true}"
    ",iree-linalg-ext-convert-attention-to-online-attention"
    f"{_TILED},iree-codegen-rematerialize-parallel-ops,iree-codegen-insert-batch-dim-for-batchless-conv"
    ",iree-llvmcpu-expand-f16-op-to-f32,iree-convert-accgemm-to-gemm"
    ",iree-codegen-erase-hal-descriptor-type-from-memref,iree-codegen-bufferize-dispatch-tensor-load-store"
    ",iree-codegen-combine-result-layout-transformation{scope=dispatch-reshape})"
    ",iree-llvmcpu-select-lowering-strategy)))",
]


def _configure(flags: Sequence[str]) -> list[str]:
    """What chooses tiles."""
    return _CONFIGURE if DATA_TILING in flags else [passes.replace(_TILED, "") for passes in _CONFIGURE]


# Makes one executable of all.
_LINK = [
    "iree-llvmcpu-link-executables{target=llvm-cpu}",
    "hal.executable(hal.executable.variant(iree-llvmcpu-assign-constant-ordinals,iree-llvmcpu-assign-import-ordinals))",
]


def _hal(clean: _CleanUps) -> list[str]:
    """From commands to calls of the runtime."""
    h = _HAL
    return [
        f"{h}conversion,{h}outline-memoize-regions,{clean.all}",
        f"{h}resolve-export-ordinals,{h}materialize-resource-caches,{h}resolve-topology-queries",
        f"{h}memoize-device-selection,{h}memoize-device-queries,{clean.all}",
        clean.of(f"{h}elide-redundant-commands"),
    ]


_EXTENSIONS = "f32-extension=true f64-extension=true index-bits=64"
_CONVERSION = f"{{{_EXTENSIONS} optimize-for-stack-size=false truncate-unsupported-floats=true}}"
_CODE = [
    "iree-util-combine-initializers,convert-scf-to-cf,iree-affine-expand-index-ops,iree-lower-affine",
    f"iree-util-propagate-subranges,{_VM}conversion{_CONVERSION}",
    f"vm.module({_VM}reify-rodata-tables,{_VM}hoist-inlined-rodata,{_VM}deduplicate-rodata,{_CLEAN}",
    f"{_VM}drop-unused-calls,{_VM}resolve-rodata-loads,{_VM}global-initialization)",
    f"vm.module({_CLEAN},symbol-dce,{_VM}drop-empty-module-initializers,{_VM}annotate-functions",
    f"{_VM}convert-to-yieldable-calls,{_VM}drop-optimization-barriers,{_VM}materialize-ref-discards)",
]


def plan_memory(module: ir.Module, run: RunPasses, look: Any) -> list[int]:
    """Bring a module from IREE's "flow" phase to the end of "stream", where it is known which memory each value has.

    Args:
        module: as "flow" makes it, and valid; valid when this returns.
        run: runs passes on the module, without verifying after each.
        look: None, or a function that refuses what was made of the module.

    Returns:
        The numbers of the arguments that are overwritten.

    Raises:
        Unfit: a pass failed.
        ir.MLIRError: what was made is invalid.
        Rejected: `look` refuses the module.
    """
    clean = _clean_ups(module)
    steps.begin("planning memory")
    _run(run, "resources", _resources(clean))
    carry_in_place(module)
    with emptied(module, STREAMS):
        _run(run, "usage", _usage(clean))
    make_in_each_block(module)
    write_donated(module)
    with emptied(module, STREAMS):
        _run(run, "schedule", _schedule(clean))
        wait_for_all(module)
        _run(run, "commands", _commands(clean))
    overwritten = place_results(module)
    _run(run, "bindings", _BINDINGS)
    pass_places(module)
    _run(run, "operands", _operands(clean))
    show_places(module)
    _run(run, "operands", [f"{clean.all},symbol-dce"])
    module.operation.verify()
    if look is not None:
        look(module)
    return overwritten


def translate_kernels(
    module: ir.Module, run: RunPasses, device: str, flags: Sequence[str], run_on: RunOn, several: bool
) -> Translated:
    """Bring kernels, which are all that a module has, to LLVM's dialect.

    Args:
        module: is changed.
        run: runs passes on it, without verifying after each.
        device: what they are compiled for, as an attribute.
        flags, run_on, several: as of `compile_dispatches`.

    Raises:
        Unfit, Refused, ir.MLIRError: as `compile_dispatches` does.
    """
    parsed = ir.Module.parse(f"util.global private @device = {device}")
    (target,) = parsed.body.operations
    module.body.append(target.operation.detach_from_parent())
    file = _keep_objects(module)
    _run(run, "interfaces", _INTERFACES)
    if are_plain(module):
        translated = translate_plain(module, run_on, several)
    else:
        _choose_tiles(module, run, flags)
        translated = translate(module, run_on, several)
    if not translated:
        raise Refused
    module.operation.verify()
    found = entries(module)
    _run(run, "linking", _LINK)
    return Translated(_alone(module), file, found)


def compile_dispatches(
    module: ir.Module,
    run: RunPasses,
    make_code: MakeCode,
    flags: Sequence[str],
    cache: DiskCache | None,
    kernels: Kernels,
    run_on: RunOn,
    threads: bool,
    several: bool,
) -> str:
    """Compile a module, of which `plan_memory` was made, to code of IREE's virtual machine.

    Args:
        module: VM code when this returns.
        run: runs passes on the module, without verifying after each.
        make_code: makes machine code of a module with an executable, as bytecode, as `machine_code` does, given the
            file that IREE writes and what tells its functions from others.
        flags: of the session.
        cache: a folder of dispatches that earlier programs had; None to compile all.
        kernels: those whose code is not in the module.
        run_on: runs passes on an operation in the module.
        threads: whether machine code is made by another thread, while calls are compiled.
        several: whether several threads may translate dispatches, each some of them.

    Returns:
        How many dispatches there are, and how many of them were known, in words.

    Raises:
        Unfit: a pass failed.
        Refused: one failed that translates dispatches; the invocation's diagnostics say why.
        ir.MLIRError: what a step made is invalid.
        linking.Unsupported: code calls a function of the C library.
    """
    clean = _clean_ups(module)
    file = _keep_objects(module)
    steps.begin("choosing tiles")
    _run(run, "interfaces", _INTERFACES)
    parts = Parts(cache, flags, str(file))
    parts.take_kernels(module, kernels)
    _choose_tiles(module, run, flags)
    parts.take(module)
    steps.begin(f"translating dispatches ({parts.account})")
    if not translate(module, run_on, several):
        raise Refused
    parts.put_back(module)
    module.operation.verify()
    steps.begin("scheduling commands")
    _run(run, "linking", _LINK)
    exports, alone = _exports(module), _alone(module) if parts.are_new else None
    drop_code(module)

    def made() -> Mapping[str, linking.Part]:
        found = make_code(alone, file, "dispatches") if alone is not None else {}
        if found is None:
            raise Unfit("executable-targets")
        parts.keep(found)
        return found

    with meanwhile(made, threads) as functions:
        _run(run, "hal", _hal(clean))
        module.operation.verify()
        _replace_executable(module)
        steps.begin("code of calls")
        _run(run, "vm", _CODE)
        steps.begin("machine code")
        found = {**functions(), **parts.functions()}
        if exports:
            _insert(module, linking.link(library.query([(each, found[each.name]) for each in exports])))
    module.operation.verify()
    return parts.account


@contextmanager
def meanwhile(function: Callable[[], T], threads: bool) -> Iterator[Callable[[], T]]:
    """A context in which another thread calls a function, if there may be one, and what waits for its result."""
    if not threads:
        yield functools.cache(function)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(function).result


def _clean_ups(module: ir.Module) -> _CleanUps:
    names = [op.name for op in module.body.operations]
    return _CleanUps(has_globals=names.count("util.global") > 1)  # one is the device


def _run(run: RunPasses, step: str, pipelines: Sequence[str]) -> None:
    if not run(",".join(pipelines)):
        raise Unfit(step)


def _device(op: Any) -> str | None:
    """What a global says of the device, if it is the device."""
    if op.name != "util.global" or "initial_value" not in op.attributes:
        return None
    text = str(op.attributes["initial_value"])
    return text if text.startswith("#hal.device.target<") else None


def _choose_tiles(module: ir.Module, run: RunPasses, flags: Sequence[str]) -> None:
    _run(run, "configure", _configure(flags))
    tiles.choose_tiles(module)
    tiles.unroll_less(module)
    read_scalars(module)


def _keep_objects(module: ir.Module) -> Path:
    """Have IREE's backend leave its object file, without the C library and microkernels; returns where."""
    # Not in a folder of its own, since that takes 0.4 to 3 ms to remove.
    file = Path(tempfile.gettempdir(), f"veery-object-{os.urandom(16).hex()}.o")
    for op in module.body.operations:
        text = _device(op)
        if text is not None:
            end = text.rindex("}>]>")
            options = f'link_embedded = false, link_static = true, static_library_output = "{file}", ukernels = "none"'
            op.attributes["initial_value"] = ir.Attribute.parse(f"{text[:end]}, {options}{text[end:]}")
    return file


def _exports(module: ir.Module) -> list[library.Export]:
    """How the dispatches of a module are called, which has one executable or none."""
    variants = [variant for executable in executables(module) for variant in inside(executable)]
    found = [op for variant in variants if variant.name == _VARIANT for op in inside(variant)]
    return [library.export(op) for op in found if op.name == "hal.executable.export"]


def _alone(module: ir.Module) -> bytes:
    """The only executable of a module as bytecode of a module of its own."""
    (executable,) = executables(module)
    alone = ir.Module.create()
    alone.body.append(executable.clone())
    (copy,) = alone.body.operations
    copy.attributes["sym_visibility"] = ir.StringAttr.get("public")  # otherwise it is pruned
    return bytecode(alone)


def _replace_executable(module: ir.Module) -> None:
    """Put a place for machine code where LLVM's dialect is, and the device that is there where it is described."""
    device = next(op for op in module.body.operations if _device(op) is not None)
    name = device.attributes["sym_name"].value
    del device.attributes["initial_value"]
    text = _DEVICE.format(name=name)
    for executable in executables(module):
        variants = [op for op in inside(executable) if op.name == _VARIANT]
        names = {"name": executable.attributes["sym_name"].value, "variant": variants[0].attributes["sym_name"].value}
        text += _BINARY.format(**names, data=_data(_PLACE))
        executable.detach_from_parent()
    parsed = ir.Module.parse(text)
    _, initializer, *binaries = [op.operation for op in parsed.body.operations]
    for op in (initializer, *binaries):
        op.detach_from_parent()
        module.body.append(op)
    initializer.move_after(device.operation)


def _insert(module: ir.Module, code: bytes) -> None:
    """Put machine code in its place in the code of calls."""
    place = ir.Attribute.parse(_data(_PLACE))
    (calls,) = (op.operation for op in module.body.operations if op.operation.name == "vm.module")
    (data,) = (op for op in inside(calls) if op.name == "vm.rodata" and op.attributes["value"] == place)
    data.attributes["value"] = ir.Attribute.parse(_data(code))


def _data(code: bytes) -> str:
    return f'dense<"0x{code.hex().upper()}"> : vector<{len(code)}xi8>'
