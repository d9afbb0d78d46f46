"""Sessions of IREE's compiler in this process."""

from __future__ import annotations

import ctypes
import difflib
import functools
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veery_lowering.compiler import cuda_tiles, device_functions, dispatches, early, linking, short, steps, tiles
from veery_lowering.compiler.ahead import Kernels, Translated
from veery_lowering.compiler.dispatches import RunPasses
from veery_lowering.compiler.emptied import write_out
from veery_lowering.compiler.machine_code import CODE_DIALECTS, machine_code
from veery_lowering.compiler.managers import Managers
from veery_lowering.compiler.scalars import read_scalars
from veery_lowering.compiler.schedule import write_commands
from veery_lowering.errors import CacheWarning
from veery_lowering.mlir import Invocation, Output, Session, bytecode, ctypes_dl, ir
from veery_lowering.passes.flow import sources
from veery_lowering.passes.spirv import nan
from veery_lowering.passes.stream.in_place import place_results
from veery_lowering.passes.vm.allocation import allocate_memory
from veery_lowering.store.cache import DiskCache
from veery_lowering.targets.target import SYNCHRONOUS

_COMPILES_PER_SESSION = 64
_SESSIONS = 16  # that are prepared


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler: severity "note", "warning", "error" or "remark", with its location in the text.

    Of the severity `UNFIT`: why the short pipeline did not compile what the standard one may; of `DISPATCHES`: how many
    it compiled; of `OVERWRITTEN`: the numbers of the arguments in whose places that has put results.
    """

    severity: str
    message: str


UNFIT, DISPATCHES, OVERWRITTEN = "unfit", "dispatches", "overwritten"
_EXECUTABLES = ("stream.executable", "hal.executable", "hal.executable.source")  # IREE's, and kernels of ours
# A phase of the compiler, and a function that raises Rejected if a program cannot be made of the module after it.
Check = tuple[str, Callable[[ir.Module], None]]

_SEVERITIES = ("note", "warning", "error", "remark")
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
# The binding's own diagnostic handlers call into Python without the interpreter lock; a ctypes callback takes it.
_enable_callback = ctypes_dl._dylib.ireeCompilerInvocationEnableCallbackDiagnostics
_enable_callback.argtypes = [ctypes.c_void_p, ctypes.c_int, _Callback, ctypes.c_void_p]
_enable_callback.restype = None
_set_first_phase = ctypes_dl._dylib.ireeCompilerInvocationSetCompileFromPhase
_set_last_phase = ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase
_set_verifier = ctypes_dl._dylib.ireeCompilerInvocationSetVerifyIR
_set_verifier.argtypes = [ctypes.c_void_p, ctypes.c_bool]
_set_verifier.restype = None
for _function in (_set_first_phase, _set_last_phase):
    _function.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    _function.restype = None


@dataclass
class _Ready:
    """A session, the pass managers of its context, and how many compilations it had.

    `backend` and `coder` are others with the same options, in which the short pipeline makes code of what it has
    planned here, and `device` what that is made for. IREE's passes that make code load the dialects of vectors and
    buffers, 35 in all, and passes that rewrite look through the operations of all that are loaded: those before have
    26. The coder, which has those of all targets, has LLVM make machine code while the backend compiles calls.
    """

    session: Session
    managers: Managers
    uses: int = 0
    backend: _Ready | None = None
    coder: _Ready | None = None
    device: str = ""

    def close(self) -> None:
        del self.managers  # before their context goes
        self.session.close()
        for other in (self.backend, self.coder):
            if other is not None:
                other.close()


_idle: dict[tuple[str, ...], list[_Ready]] = {}
_lock = threading.Lock()
_started = False
_alone = False  # whether there will be one session
_forked = False  # in a child of a process that had compiled


def _after_fork() -> None:
    global _lock, _forked
    _lock = threading.Lock()
    _forked = _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def has_lost_threads() -> bool:
    """Whether the compiler's threads did not come along when this process was forked: it would wait for ever."""
    return _forked


def run_pipeline(
    module: bytes,
    flags: tuple[str, ...],
    phase: str | None = None,
    changes: tuple[Callable[[ir.Module], Any], ...] = (),
    prelude: str = "",
    check: Check | None = None,
    locations: bool = False,
    shortly: bool = False,
    parts: str | None = None,
    shaders: Callable[[ir.Module], Any] | None = None,
    threads: bool = True,
) -> tuple[bytes | None, list[Diagnostic]]:
    """Compile a module with a session for the given flags.

    The compiler runs without the interpreter lock, so that several threads compile at the same time, each with a
    session of its own. The session's context is shared with Python: checks and changes see the module itself.

    Args:
        module: MLIR bytecode or text.
        flags: of IREE's compiler.
        phase: where compilation stops ("flow", "stream", "hal", ...); None to compile to the end.
        changes: functions that change the VM module before it is encoded.
        prelude: a pipeline of passes that are run before all others.
        check: a phase, and a function that looks at the module after it.
        locations: whether IR has the user's files and lines.
        shortly: whether the short pipeline compiles it (short.py), to the end and for the CPU.
        parts: the folder on disk from which it takes, and to which it adds, dispatches of programs.
        shaders: a function that changes shaders before they are encoded.
        threads: whether the compiler may have threads of its own.

    Returns:
        The program, or the IR after `phase` as text, or None where the compiler failed; and what the compiler said.

    Raises:
        Rejected: the check or a change refuses the module.
    """
    flags = dispatches.made_safe(flags)
    kind = of_session(flags)
    ready = _take_session(kind)
    session = ready.session
    diagnostics: list[Diagnostic] = []
    if shortly and ready.backend is None:
        ready.managers.load(early.DIALECTS)
        ready.backend, ready.coder = _new(kind), _new(kind)
        ready.device = _device(ready.coder.session, diagnostics)
        ready.backend.managers.load(short.DIALECTS)
        ready.coder.managers.load(CODE_DIALECTS)
    session.context.enable_multithreading(threads and not shortly)
    try:
        steps.begin("forming dispatches" if shortly else "IREE's standard pipeline")
        with session.context, ir.Location.unknown(), _invocation(session, diagnostics) as invocation:
            try:
                parsed = ir.Module.parse(module)
            except (ir.MLIRError, ValueError) as error:
                return None, [Diagnostic("error", str(error))]
            invocation.import_module(parsed.operation)
            if shortly:
                _set_verifier(invocation._inv_p, False)
            run = functools.partial(ready.managers.run, parsed, verifies=not shortly)
            if shortly:
                cache = DiskCache(Path(parts), sweeps=False) if parts else None
                with warnings.catch_warnings():  # who keeps the program says what is wrong with the folder
                    warnings.simplefilter("ignore", CacheWarning)
                    if cache is not None:
                        device_functions.read(cache, ready.device)
                    _leave_out()
                    program = _shortly(ready, parsed, run, prelude, changes, check, diagnostics, flags, cache, threads)
                    if cache is not None and program is not None:
                        device_functions.write(cache, ready.device)
                    return program, diagnostics
            if prelude and not run(prelude):
                return None, diagnostics
            try:
                write_out(parsed)
            except ir.MLIRError as error:
                return None, [Diagnostic("error", str(error)), *diagnostics]
            reached = None
            if check is not None:
                reached, look = check
                if not _advance(invocation, parsed, run, flags, None, reached):
                    return None, diagnostics
                look(parsed)
            if phase is None or phase in tiles.LATER:
                if not _advance(invocation, parsed, run, flags, reached, tiles.PHASE):
                    return None, diagnostics
                tiles.choose_tiles(parsed)
                read_scalars(parsed)
                cuda_tiles.choose_tiles(parsed)
                reached = tiles.PHASE
            if shaders is not None and phase in (None, "hal", "vm"):
                if not _advance(invocation, parsed, run, flags, reached, nan.PHASE):
                    return None, diagnostics
                shaders(parsed)
                reached = nan.PHASE
            if not _advance(invocation, parsed, run, flags, reached, phase):
                return None, diagnostics
            if phase is not None:
                return _text(invocation, parsed, locations), diagnostics
            for change in changes:
                change(parsed)
            return _written(invocation.output_vm_bytecode), diagnostics
    finally:
        _return_session(kind, ready)


@contextmanager
def _invocation(session: Session, diagnostics: list[Diagnostic]) -> Iterator[Invocation]:
    """An invocation of the compiler that notes what it says."""

    def report(severity: int, text: int, size: int, _: int) -> None:
        diagnostics.append(Diagnostic(_SEVERITIES[severity], ctypes.string_at(text, size).decode(errors="replace")))

    callback = _Callback(report)
    invocation = session.invocation()
    try:
        _enable_callback(invocation._inv_p, 0, callback, None)
        yield invocation
    finally:
        invocation.close()


def _shortly(
    ready: _Ready,
    module: ir.Module,
    run: RunPasses,
    prelude: str,
    changes: tuple[Callable[[ir.Module], Any], ...],
    check: Check | None,
    diagnostics: list[Diagnostic],
    flags: tuple[str, ...],
    cache: DiskCache | None,
    threads: bool,
) -> bytes | None:
    """What the short pipeline makes of a module; None where it fails, and then the diagnostics say why."""
    backend, coder = ready.backend, ready.coder
    assert backend is not None and coder is not None
    kernels = Kernels(module, cache, flags, ready.device)
    run_on = backend.managers.run_on
    make_code = functools.partial(
        machine_code,
        threads=threads,
        context=coder.session.context,
        new_invocation=functools.partial(_unverified, coder.session, diagnostics),
        execute=_execute,
    )
    # It is dispatches that threads translate: 8 ms of that of one, and a fifth of that of a network.
    at_once = threads and kernels.count > 1
    backend.session.context.enable_multithreading(at_once)
    coder.session.context.enable_multithreading(threads)

    def translated() -> Translated:
        with _read(backend, kernels.code, diagnostics) as (alone, run, _):
            write_out(alone)
            return short.translate_kernels(alone, run, ready.device, flags, run_on, at_once)

    def functions() -> Mapping[str, linking.Part]:
        found = wait()
        made = make_code(found.code, found.file, "kernels")
        if made is None:
            raise short.Unfit("machine code of kernels")
        kernels.keep(found, made)
        return made

    ahead = threads and kernels.count > 0
    try:
        with short.meanwhile(translated, ahead) as wait, short.meanwhile(functions, ahead) as made:
            kernels.are_made_by(wait, made)
            planned = _planned(ready, module, run, prelude, check and check[1], diagnostics, flags)
            if planned is None:
                return None
            plan, overwritten = planned
            steps.begin("waiting for kernels")
            kernels.wait()
            several = threads and sum(op.operation.name in _EXECUTABLES for op in plan.body.operations) > 1
            backend.session.context.enable_multithreading(several)
            with _read(backend, bytecode(plan), diagnostics) as (calls, run, invocation):
                account = short.compile_dispatches(
                    calls, run, make_code, flags, cache, kernels, run_on, threads, several
                )
                diagnostics.append(Diagnostic(DISPATCHES, account))
                diagnostics.append(Diagnostic(OVERWRITTEN, " ".join(map(str, overwritten))))
                for change in changes:
                    change(calls)
                return _written(invocation.output_vm_bytecode)
    except short.Refused:
        return None
    except (short.Unfit, linking.Unsupported, ir.MLIRError) as error:
        diagnostics.append(Diagnostic(UNFIT, str(error)))
        return None


def _planned(
    ready: _Ready,
    module: ir.Module,
    run: RunPasses,
    prelude: str,
    look: Any,
    diagnostics: list[Diagnostic],
    flags: tuple[str, ...],
) -> tuple[ir.Module, list[int]] | None:
    """A module at the end of "stream", and the numbers of the arguments that are overwritten; None where that fails."""
    written = write_commands(module, ready.device) if look is None and SYNCHRONOUS not in flags else None
    if written is not None:
        steps.begin("planning memory")
        overwritten = place_results(written)
        written.operation.verify()
        return written, overwritten
    if prelude and not early.is_settled(module) and not run(prelude):
        return None
    if not early.form_dispatches(module, run, ready.device, flags):
        return None
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        diagnostics.extend(Diagnostic("error", _place(d.location) + d.message) for d in error.error_diagnostics)
        return None
    return module, short.plan_memory(module, run, look)


@contextmanager
def _read(
    ready: _Ready, code: bytes, diagnostics: list[Diagnostic]
) -> Iterator[tuple[ir.Module, RunPasses, Invocation]]:
    """A module in a session, what runs passes on it, and the invocation in which they run."""
    with ready.session.context, ir.Location.unknown(), _unverified(ready.session, diagnostics) as invocation:
        module = ir.Module.parse(code)
        invocation.import_module(module.operation)
        yield module, functools.partial(ready.managers.run, module, verifies=False), invocation


@contextmanager
def _unverified(session: Session, diagnostics: list[Diagnostic]) -> Iterator[Invocation]:
    """An invocation whose passes do not verify."""
    with _invocation(session, diagnostics) as invocation:
        _set_verifier(invocation._inv_p, False)
        yield invocation


def _device(session: Session, diagnostics: list[Diagnostic]) -> str:
    """The device that a session compiles for, as an attribute."""
    with session.context, ir.Location.unknown(), _invocation(session, diagnostics) as invocation:
        module = ir.Module.create()
        invocation.import_module(module.operation)
        _execute(invocation, "abi", "preprocessing")
        (device,) = module.body.operations
        return str(device.attributes["initial_value"])


def _place(location: ir.Location) -> str:
    """Where something is, as the compiler's own messages begin."""
    place = re.search(r'"([^"]+)":(\d+:\d+)', str(location))
    return f"{place[1]}:{place[2]}: " if place else ""


def _advance(
    invocation: Invocation,
    module: ir.Module,
    run: RunPasses,
    flags: tuple[str, ...],
    start: str | None,
    end: str | None,
) -> bool:
    """Run IREE's phases after `start` up to `end`, that of dispatch creation as passes of its own where it can be."""
    if start is None and end not in dispatches.EARLIER:
        if dispatches.knows(flags):
            created = _execute(invocation, None, dispatches.EARLIER[-1])
            created = created and dispatches.create_dispatches(module, run, flags)
        else:
            created = _execute(invocation, None, dispatches.PHASE)
        if not created:
            return False
        dispatches.refuse_sums_of_nothing(module)
        if end == dispatches.PHASE:
            return True
        if not _execute(invocation, dispatches.PHASE, sources.PHASE):
            return False
        sources.part_sources(module)
        if end == sources.PHASE:
            return True
        start = sources.PHASE
    return _execute(invocation, start, end)


def _execute(invocation: Invocation, start: str | None, end: str | None) -> bool:
    """Run IREE's phases after `start` up to `end`: all from the first on, or to the last, where they are None."""
    _set_first_phase(invocation._inv_p, (start or "start").encode())
    _set_last_phase(invocation._inv_p, (end or "end").encode())
    return bool(invocation.execute())


def _written(write: Callable[[Output], None]) -> bytes:
    with Output.open_membuffer() as output:
        write(output)
        return bytes(output.map_memory())


def _text(invocation: Invocation, module: ir.Module, locations: bool) -> bytes:
    # The compiler's own option for this, --mlir-print-debuginfo, is for a whole process, and in a process with such
    # options the optimization level turns on none of the passes that belong to it: that would be another program.
    if locations:
        located: bytes = module.operation.get_asm(binary=True, enable_debug_info=True)
        return located
    return _written(invocation.output_ir)


# A kernel, which has LLVM get ready too, and the same with `x + 1` beside it.
_KERNEL = """
#layout = #hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer, Indirect>], flags = Indirect>
hal.executable.source private @kernel attributes {veery.written_as = ""} {
  hal.executable.export public @run ordinal(0) layout(#layout)
      count(%device: !hal.device) -> (index, index, index) {
    %one = arith.constant 1 : index
    hal.return %one, %one, %one : index, index, index
  }
  builtin.module {
    func.func @run() {
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %8 = arith.constant 8 : index
      %vector = arith.constant dense<1.0> : vector<4xf32>
      %y = hal.interface.binding.subspan layout(#layout) binding(0) offset(%0) : memref<8xf32>
      scf.for %i = %0 to %8 step %8 {
        vector.store %vector, %y[%i] : memref<8xf32>, vector<4xf32>
      }
      return
    }
  }
}
func.func private @called() -> tensor<8xf32> {
  %x = flow.dispatch @kernel::@run() : () -> tensor<8xf32>
  return %x : tensor<8xf32>
}
"""
_ALONE = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = call @called() : () -> tensor<8xf32>
  return %y : tensor<8xf32>
}"""
_BESIDE = """
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<8xf32>
  %y = stablehlo.add %x, %one : tensor<8xf32>
  %z = call @called() : () -> tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}"""
_SMALLEST = "func.func @main() { return }"


def prepare(flags: tuple[str, ...], shortly: bool) -> list[tuple[str, ...]]:
    """Have a session ready for flags that are known to work, and start no threads for that.

    With the short pipeline programs are compiled, so that no fork has to do what the first does: 136 to 98 ms for
    `x + 1`. With the others, for which that takes longer than it brings, one that does nothing is.

    Returns the flags whose sessions are closed instead, since there are many.
    """
    # The change is one of large programs: to load the classes of the dialect that it looks at takes 20 ms.
    for module in (_KERNEL + _BESIDE, _KERNEL + _ALONE) if shortly else (_SMALLEST,):
        run_pipeline(module.encode(), flags, changes=(allocate_memory,), shortly=shortly, threads=False)
    closed = list(_idle)[:-_SESSIONS]
    for old in closed:
        for ready in _idle.pop(old):
            ready.close()
    return closed


def hasten() -> None:
    """Have the short pipeline leave out what is known of all programs, as soon as that is known.

    It may be called in a process that has one session, which makes code: see `device_functions.leave_out`.
    """
    global _alone
    _alone = True


def _leave_out() -> None:
    if _alone and device_functions.are_kept():
        device_functions.leave_out()


def of_session(flags: tuple[str, ...]) -> tuple[str, ...]:
    """The options of the session that compiles with options.

    They have none of those that dispatch creation is told apart, so that there are fewer sessions to get ready.
    """
    flags = dispatches.made_safe(flags)
    return tuple(flag for flag in flags if flag not in dispatches.TOLD) if dispatches.knows(flags) else flags


def _take_session(flags: tuple[str, ...]) -> _Ready:
    global _started
    with _lock:
        _started = True
        pool = _idle.get(flags)
        if pool:
            return pool.pop()
    return _new(flags)


def _new(flags: tuple[str, ...]) -> _Ready:
    session = Session()
    try:
        session.set_flags(*flags)
    except ValueError as error:
        raise ValueError(_about_flags(str(error), session.get_flags(non_default_only=False))) from None
    return _Ready(session, Managers(session.context))


def _about_flags(message: str, known: list[str]) -> str:
    """What is wrong with flags, in words."""
    unknown = re.search(r"option not found: (\S+)", message)
    if unknown is None:
        refused = message.rpartition("option parse error for:")[2].strip()
        return f"IREE's compiler refuses {refused!r}; it has printed which values it takes"
    names = [flag.removeprefix("--").partition("=")[0] for flag in known]
    close = difflib.get_close_matches(unknown[1], names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else f"; it has {', '.join(sorted(names))}"
    return f"No such compile option: IREE's compiler has no {unknown[1]!r}{hint}"


def _return_session(flags: tuple[str, ...], ready: _Ready) -> None:
    ready.uses += 1
    if ready.uses >= _COMPILES_PER_SESSION and not device_functions.are_left_out():
        ready.close()
        return
    with _lock:
        _idle.setdefault(flags, []).append(ready)
