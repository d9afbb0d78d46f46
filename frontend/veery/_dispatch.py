"""The one place where the frontend meets the compiler and the runtime: arrays to and from devices, jaxprs to programs.

Both packages are imported on first use, so that tracing alone needs neither.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from veery._core import compiler_options as asked, dtypes, monitoring, provided, recording
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, values_of
from veery._core.config import config, default_device as use_default_device
from veery._core.device import Device, devices_text, forget_arrays
from veery._core.dimensions import Symbols, is_symbolic, symbols_of
from veery._core.errors import JaxRuntimeError
from veery._core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, eval_jaxpr, subjaxprs
from veery._core.memory import MemorySpace
from veery._core.mesh import AbstractMesh
from veery._core.primitive import Primitive
from veery._core.trace import eval_trace, set_current_trace
from veery._core.transfers import guard
from veery._eager import HostExecutable
from veery._eager.libraries import library_program
from veery._eager.small import host_executable
from veery._eager.special_values import check_special as check_special
from veery._transforms import key_reuse
from veery._transforms.dce import dce, side_effects
from veery._transforms.expansion import expanded
from veery._transforms.float0 import holds_float0, inputs_without_float0, outputs_with_float0, without_float0
from veery._transforms.parts import in_parts, on_one_device
from veery._transforms.staging import close_over, stage
from veery.lax._callback import io_callback_p, pure_callback_p
from veery.lax._debug import debug_callback_p, debug_print_p
from veery.lax._ffi import ffi_call_p
from veery.lax._lapack import table as lapack_table

logger = logging.getLogger("veery")


@functools.cache
def runtime() -> Any:
    """The runtime package."""
    import veery_runtime

    Device.register(veery_runtime.Device)
    veery_runtime.buffer_protocol.redirect(ArrayImpl, "_a")
    veery_runtime.configure(
        num_cpu_devices=max(config.jax_num_cpu_devices or 0, 0) or None,
        records=lambda: lowering().disk_cache().directory,
        asynchronous=lambda: config.jax_cpu_enable_async_dispatch,
        lost=forget_arrays,
        unpickle=unpickled_device,
        routines=lambda: lapack_table(lowering().addresses).ctypes.data,
    )
    veery_runtime.errors.raise_also_as(JaxRuntimeError)
    return veery_runtime


def unpickled_device(platform: str, id: int) -> Any:
    """The device of that number, where a pickle is read; RuntimeError if there is none."""
    return runtime().device_of(platform, id)


def lowering() -> Any:
    """The lowering package, its cache as the settings of the moment want it."""
    import veery_lowering

    settings = veery_lowering.CacheSettings(
        directory=config.jax_compilation_cache_dir,
        limit=None if config.jax_compilation_cache_max_size < 0 else config.jax_compilation_cache_max_size,
        min_seconds=config.jax_persistent_cache_min_compile_time_secs,
        min_nbytes=config.jax_persistent_cache_min_entry_size_bytes,
        strict=config.jax_raise_persistent_cache_errors,
    )
    veery_lowering.configure_cache(settings)
    return veery_lowering


# Devices.


@functools.cache
def first_device(platform: str) -> Any:
    """The first device of a platform."""
    return runtime().devices(platform)[0]


def default_device() -> Any:
    """The device of new arrays: that of `default_device(...)`, else the first of the chosen platform."""
    chosen = config.jax_default_device
    if chosen is None:
        platforms = config.jax_platforms or config.jax_platform_name
        return first_device(platforms.split(",")[0] if platforms else "cpu")
    return first_device(chosen) if isinstance(chosen, str) else chosen


def target_of(device: Any) -> str:
    """The compilation target for a device."""
    return getattr(device, "target", device.platform)


def target_by(compiler_options: asked.Pairs, device: Any) -> str:
    """The compilation target for a device by the compiler that is asked for."""
    options = {**dict(config.veery_compiler_options), **dict(compiler_options)}
    return _BESIDE if device.platform == "cpu" and asked.compiler(options) == "xla" else target_of(device)


# Arrays.


def put(value: np.ndarray, aval: ShapedArray, device: Any = None, *, copy: bool = True) -> ArrayImpl:
    """A concrete array from host memory.

    Args:
        value: the values, of the aval's shape (and of its dtype, else they are converted).
        aval: the type of the array.
        device: where it goes; None for the default device (it is then not committed).
        copy: whether the values are copied if they could be shared.
    """
    value = dtypes.to_stored(value, aval.dtype)
    buffer = runtime().put(value, device or default_device(), copy=copy)
    return ArrayImpl(aval, buffer, device is not None)


def as_array(x: Any, device: Any = None, aval: ShapedArray | None = None, *, own: bool = False) -> ArrayImpl:
    """A value that may be an argument of an operation as a concrete array (uncommitted if it was none).

    Constants of a program are its `own`: to bring them to the device is no transfer that the user may forbid.
    """
    if type(x) is ArrayImpl:
        return x
    if aval is None:
        aval = aval_of(x)
    if hasattr(x, "__jax_array__"):
        x = x.__jax_array__()
    if isinstance(x, ArrayImpl):
        return x
    if not own:
        guard("host_to_device", aval, device or "the default device")
    array = put(values_of(x, aval.dtype), aval, device)  # type: ignore[attr-defined]
    array._committed = False
    return array


def move(x: ArrayImpl, device: Any, explicit: bool = False) -> ArrayImpl:
    """The array on another device, committed to it; `explicit` if the user asked for it."""
    if x._buffer.device is device:
        return ArrayImpl(x.aval, x._buffer, True)
    source = x._buffer.device
    if source is not None or x.sharding._device_assignment != (device,):
        guard("device_to_device", x.aval, device, explicit)
    if source is None:
        aval = x.aval.update(divided=None, memory_space=MemorySpace.Device)
        return ArrayImpl(aval, x._buffer.whole_on(device), True)
    # Two compilers on one processor see the same memory; virtual devices stand for several.
    shared = source.platform != device.platform and source.host_visible and device.host_visible
    return ArrayImpl(x.aval, runtime().put(x._buffer.numpy(), device, copy=not shared), True)


def host_array(value: np.ndarray) -> ArrayImpl:
    """NumPy values, which are given away, as an array on the CPU."""
    buffer = runtime().put(dtypes.to_stored(value, value.dtype), first_device("cpu"), copy=False)
    return ArrayImpl(ShapedArray(value.shape, value.dtype), buffer)


def default_hardware() -> str:
    """What the default device is: its platform, but for XLA's, which are "cpu", "cuda", "tpu", ..."""
    device = default_device()
    hardware: str = device.target.removeprefix("xla:") if device.target.startswith("xla:") else device.platform
    return hardware


def exchanges() -> Any:
    """The runtime's exchanges between the programs of a `pmap`."""
    return runtime().spmd


def foreign() -> Any:
    """The runtime's functions of compiled libraries."""
    return runtime().foreign


def on_host() -> contextlib.AbstractContextManager[None]:
    """A context in which new arrays go to the CPU."""
    return contextlib.nullcontext() if default_device().platform == "cpu" else use_default_device("cpu")


def effects_happened() -> None:
    """Wait for the effects of the calls so far."""
    runtime().effects.happened()


def array_from_numpy(value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    return put(value, aval)


# Programs.

_BESIDE = "xla:cpu"  # the target of XLA's programs on the CPU device's arrays


def compile_jaxpr(
    closed: ClosedJaxpr,
    name: str,
    device: Any,
    donated: tuple[bool, ...] = (),
    compiler_options: asked.Pairs = (),
    target: str = "",
) -> Any:
    """Lower, compile and load a jaxpr without consts for a device; the executable takes and returns buffers.

    Args:
        target: what it is compiled for, if not for what the device is.

    Raises:
        TypeError: an argument or result has a dtype that devices have no arrays of.
    """
    log_compilation("Compiling %s for %s with arguments %s.", name, device, closed.in_avals)

    options, symbols = _options(compiler_options), _symbols(closed)
    choices = dict(donated=donated, options=options, symbols=symbols)
    start = time.perf_counter()
    jaxpr = dce(on_one_device(expanded(closed)))
    compile = lambda: lowering().compile(jaxpr, name=name, target=target or target_of(device), **choices)
    private = sys.modules.get("veery._src.compiler")  # where a library may have put a function of its own
    if private is not None:
        compile = functools.partial(private.backend_compile_and_load, device, compile)
    program = _recorded(compile, name, options.cache)
    if program.backend == "xla":
        executable = load(program, device)
        log_compilation("Finished XLA compilation of jit(%s) in %.9f sec", name, time.perf_counter() - start)
        return executable
    log_compilation("Finished IREE compilation of jit(%s) in %.9f sec", name, time.perf_counter() - start)
    log_fallback(program)
    return load(program, device)


class _Steps:
    """The steps of finding or compiling a program, as the lowering tells of them, and the events that they are."""

    def __init__(self, fun_name: str):
        self._names = lowering().steps
        self._fun_name = fun_name
        self._shown = recording.Steps()
        self._lowering: monitoring.timed | None = None
        self.compiled = False

    def hear(self, step: str) -> None:
        self.end()
        if step == self._names.LOWERING:
            self._lowering = monitoring.timed(monitoring.LOWERING, fun_name=self._fun_name).__enter__()
        else:
            self.compiled |= step != self._names.SEARCHING
            self._shown.begin(step)

    def end(self) -> None:
        self._shown.begin(None)
        if self._lowering is not None:
            self._lowering.__exit__()
            self._lowering = None


def _recorded(compile: Callable[[], Any], name: str, cached: bool) -> Any:
    """The program that `compile` finds on disk or compiles, with the events of that (see veery.monitoring)."""
    fun_name = f"jit({name})"
    steps = _Steps(fun_name)
    with monitoring.timed(monitoring.COMPILING, fun_name=fun_name):
        if cached:
            monitoring.record_event(monitoring.CACHE_REQUEST)
        try:
            with lowering().steps.heard_by(steps.hear):
                program = compile()
        finally:
            steps.end()
        if cached:
            monitoring.record_event(monitoring.CACHE_MISS if steps.compiled else monitoring.CACHE_HIT)
    return program


def log_fallback(program: Any) -> None:
    """Log that the flags that are best for a program are not those that it was compiled with."""
    if "fallback" in program.metadata:
        log_compilation("jit(%s) was %s", program.name, program.metadata["fallback"])


def log_compilation(message: str, *args: Any) -> None:
    """Log a step between a function and its program: a warning with `jax_log_compiles`, else for debugging."""
    logger.log(logging.WARNING if config.jax_log_compiles else logging.DEBUG, message, *args)


def lower_jaxpr(
    closed: ClosedJaxpr,
    name: str,
    target: str,
    donated: tuple[bool, ...],
    compiler_options: asked.Pairs = (),
    **choices: Any,
) -> Any:
    """Lower a jaxpr without consts to StableHLO; `choices` are further fields of the lowering's Options."""
    options, symbols = _options(compiler_options, **choices), _symbols(closed)
    fields = dict(name=name, target=target, donated=donated, options=options, symbols=symbols)
    with monitoring.timed(monitoring.LOWERING, fun_name=f"jit({name})"):
        return lowering().lower(dce(on_one_device(expanded(closed))), **fields)


def pass_report(lower: Callable[[], Any]) -> list[Any]:
    """What each pass of the lowering did to the module that `lower` makes, with the passes that were not for it."""
    return list(lowering().pass_report(lower))


def _symbols(closed: ClosedJaxpr) -> Symbols:
    return symbols_of([getattr(aval, "shape", ()) for aval in closed.in_avals])


def _options(compiler_options: asked.Pairs, **choices: Any) -> Any:
    settings = {
        "cache": config.jax_enable_compilation_cache,
        "isolation": config.veery_compiler_isolation,
        "time_limit": config.veery_compiler_timeout or None,
    }
    return lowering().Options(**{**settings, **lowering_options(compiler_options), **choices})


def lowering_options(compiler_options: asked.Pairs) -> dict[str, Any]:
    """Fields of the lowering's Options for these options and the setting `veery_compiler_options`; the former win."""
    options = {**dict(config.veery_compiler_options), **dict(compiler_options)}
    goal = options.get("optimize_for", "speed")
    queue = options.get("queue") or {"latency": "inline", "throughput": "threaded"}.get(goal, "auto")
    flags = asked.flags(tuple(options.items()))
    fields = {"flags": flags, "kernels": options.get("kernels", True), "queue": queue}
    return {**fields, "optimize_for": "size" if goal == "size" else "speed"}


def tuning(closed: ClosedJaxpr, target: str, compiler_options: asked.Pairs) -> asked.Pairs | None:
    """What was measured to be fastest for a program, in this process or another; None if nothing was."""
    found: asked.Pairs | None = lowering().tuning.recall(dce(closed), target, _options(compiler_options))
    return found


def remember_tuning(closed: ClosedJaxpr, target: str, compiler_options: asked.Pairs, fastest: asked.Pairs) -> None:
    """Keep on disk what was measured to be fastest for a program."""
    lowering().tuning.remember(dce(closed), target, _options(compiler_options), fastest)


def tuning_candidates(device: Any) -> tuple[Sequence[asked.Pairs], Sequence[asked.Pairs]]:
    """Options of the compiler, and queues, that are worth a measurement on a device."""
    queues = [(("queue", queue),) for queue in ("inline", "threaded")] if device.inline is not None else []
    return lowering().tuning.candidates(target_of(device)), queues


def entry(name: str, programs: Sequence[Any], **fields: Any) -> Any:
    """A function of an artifact: programs for its targets with its signature (see veery_runtime.Entry)."""
    return runtime().Entry(name, tuple(programs), **fields)


def save_artifact(path: Any, entries: Sequence[Any], *, weights_path: Any = None) -> None:
    """Write functions to an artifact."""
    runtime().save_artifact(path, entries, metadata=_versions(), weights_path=weights_path)


def artifact_bytes(entries: Sequence[Any]) -> bytes:
    """An artifact in memory."""
    return runtime().to_bytes(entries, metadata=_versions())


def read_program(artifact: bytes) -> tuple[Any, Sequence[Any]]:
    """The one program of an artifact in memory, and the constants that it takes first (see veery_runtime)."""
    return runtime().read_program(artifact)


def read_module(source: str | bytes, *, lowered: bool = False) -> Any:
    """A StableHLO module (see veery_lowering.Foreign), from elsewhere unless `lowered`.

    Those that veery wrote have a checksum, so that no other process need read them first.
    """
    isolated = not lowered and config.veery_compiler_isolation != "never"
    return lowering().read_module(source, lowered=lowered, isolated=isolated)


def read_modules(sources: dict[str, bytes]) -> Any:
    """One function as StableHLO modules for several platforms."""
    modules = ((platform, read_module(data, lowered=True)) for platform, data in sources.items())
    return lowering().ForeignByTarget(tuple(modules))


def module_text(source: bytes) -> str:
    """A StableHLO module as text."""
    text: str = read_module(source, lowered=True).text()
    return text


def _versions() -> dict[str, str]:
    from veery.version import VEERY_VERSION

    return {"veery": VEERY_VERSION}


def compile_lowered(lowered: Any, device: Any) -> tuple[Any, Any]:
    """Compile a module and load it on a device (None: nowhere): the program, and what takes and returns buffers."""
    program = _recorded(lowered.compile, lowered.name, lowered.options.cache)
    log_fallback(program)
    if device is None:
        return program, None
    return program, load(program, device)


def load(program: Any, device: Any) -> Any:
    """Load a program on a device; XLA's plugins compile it then, unless what they made of it is on disk."""
    if program.backend == "xla" and device.platform == "cpu":
        return runtime().beside(load(program, first_device("xla")), device)
    if program.backend != "xla" or program.host_calls or not config.jax_enable_compilation_cache:
        return runtime().load(program, device)
    known, compiler = lowering().executables, device.client.identity
    compiled = known.recall(program, compiler)
    executable = runtime().load(program, device, compiled=compiled)
    if compiled is None and (serialized := executable.serialized()) is not None:
        known.remember(program, compiler, serialized)
    return executable


def load_made(program: Any, device: Any, made: bytes | None) -> Any:
    """Load a program that was serialized, with what a plugin made of it then."""
    if program.backend == "xla" and device.platform == "cpu":
        return runtime().beside(load_made(program, first_device("xla"), made), device)
    return runtime().load(program, device, compiled=made)


def device_of(args: Sequence[ArrayImpl], name: str) -> Any:
    """The device on which to compute with these arrays: of several the first.

    Raises:
        ValueError: they are committed to different devices.
    """
    chosen = None
    for x in args:
        if x._committed:
            device = x._buffer.device
            found = (device,) if device is not None else x._buffer.layout._device_assignment
            if chosen is not None and found != chosen:
                raise ValueError(
                    f"Received incompatible devices for jitted computation. Got argument with shape "
                    f"{x.aval.str_short()} and {devices_text(found)}, and another on {devices_text(chosen)}, in "
                    f"{name}. Move one of them with jax.device_put(x, device)."
                )
            chosen = found
    return chosen[0] if chosen is not None else default_device()


def committed_device(leaves: Sequence[Any], name: str) -> Any:
    """The device that values (arrays, or types with a sharding) are bound to; None where they are free."""
    arrays = [x for x in leaves if isinstance(x, ArrayImpl) and x._committed]
    wanted = [_devices_of_type(x) for x in leaves if not isinstance(x, ArrayImpl)]
    found = next((next(iter(devices)) for devices in wanted if len(devices) == 1), None)
    return device_of(arrays, name) if arrays else found


def _devices_of_type(x: Any) -> Any:
    """The devices that a type's sharding names; those of an abstract mesh are none yet."""
    sharding = getattr(x, "sharding", None)
    abstract = isinstance(getattr(sharding, "mesh", None), AbstractMesh)
    return () if abstract else getattr(sharding, "device_set", ())


def on_device(args: Sequence[ArrayImpl], device: Any) -> list[Any]:
    """The buffers of arrays on a device; uncommitted ones are moved there."""
    return [x._buffer if x._buffer.device is device else move(x, device)._buffer for x in args]


@dataclass(frozen=True)
class How:
    """How a jaxpr is to be run.

    Attributes:
        device: where; None for where its arguments are.
        donated: for each argument, whether the program may overwrite it; empty for none.
        compiler_options: what `jit` was told, which wins over the settings.
    """

    device: Any = None
    donated: tuple[bool, ...] = ()
    compiler_options: asked.Pairs = ()


class Run(NamedTuple):
    """A call that was made: its results, by what, where, and on which arrays."""

    outs: list[ArrayImpl]
    executable: Any
    device: Any
    arrays: list[ArrayImpl]


_ANYHOW = How()


def execute(closed: ClosedJaxpr, name: str, args: Sequence[Any], how: How = _ANYHOW) -> list[Any]:
    """The results of a jaxpr without consts on concrete values, which is run as one program."""
    if holds_float0(closed):
        rest = tuple(inputs_without_float0(closed, how.donated)) if how.donated else ()
        program, inputs = without_float0(closed), inputs_without_float0(closed, args)
        return outputs_with_float0(closed, execute(program, name, inputs, replace(how, donated=rest)))
    return run(closed, name, [as_array(x) for x in args], how).outs


def run(closed: ClosedJaxpr, name: str, arrays: list[ArrayImpl], how: How = _ANYHOW) -> Run:
    """Run a jaxpr without consts and without float0: every program of one device is called here first.

    NumPy evaluates what is small, but for functions that a user had compiled. Results are verified
    where `veery_verify` asks for it, and looked through for NaN and infinity where the settings do.

    Raises:
        RuntimeError: no program may run.
        ValueError: the arrays are committed to different devices.
        VerificationError: the results are wrong.
        FloatingPointError: there is a NaN or an infinity among them.
        KeyReuseError: a random key is used twice, where the settings ask for this.
    """
    check_execution(name)
    if config.jax_debug_key_reuse:
        checked: Run = key_reuse.checked(closed, name, arrays, lambda: _run(closed, name, arrays, how))
        return checked
    return _run(closed, name, arrays, how)


def _run(closed: ClosedJaxpr, name: str, arrays: list[ArrayImpl], how: How) -> Run:
    closed = expanded(closed)
    parts = in_parts(closed)
    if parts is not None:
        return _run_in_parts(parts, name, arrays, how)
    types, closed = closed.out_avals, on_one_device(closed)
    if how.device is None and config.veery_verify == "off" and any(x._buffer.device is None for x in arrays):
        divided = provided.distribution.partitioned(closed, types, name, arrays)
        if divided is not None:
            _donate(arrays, how)
            check_special(divided, f"jit({name})", closed, arrays)
            return Run(divided, None, divided, arrays)
    device = how.device or device_of(arrays, name)
    executable = _host_executable(closed, name, device, how) or _executable(closed, name, device, how)
    buffers = on_device(arrays, device)
    if config.veery_verify == "off":
        produced = call(executable, buffers, name)
    else:
        produced = provided.verifier.run_verified(executable, buffers, closed, name, device, how.compiler_options)
    _donate(arrays, how)
    if calls_python(closed):
        raise_known(executable, produced, waits(how.compiler_options))
    committed = how.device is not None or any(x._committed for x in arrays)
    outs = results(types, produced, committed)
    check_special(outs, f"jit({name})", closed, arrays)
    spreads = config._mesh is not None or any(x._buffer.device is None for x in arrays)
    if (how.device is None and spreads) or any(t.memory_space is not MemorySpace.Device for t in types):
        outs = provided.distribution.spread(outs, arrays, name)
    return Run(outs, executable, device, arrays)


def calls_python(closed: ClosedJaxpr) -> bool:
    """Whether a program calls functions of the user's on the host, so that calls may raise their exceptions."""
    if closed.derived.calls_python is None:
        closed.derived.calls_python = _calls_python(expanded(closed))
    return closed.derived.calls_python


_CALLING = (pure_callback_p, io_callback_p, debug_callback_p, debug_print_p, ffi_call_p)


def _calls_python(given: Jaxpr | ClosedJaxpr) -> bool:
    jaxpr = given.jaxpr if isinstance(given, ClosedJaxpr) else given
    called = lambda eqn: eqn.primitive in _CALLING
    return any(called(eqn) or any(map(_calls_python, subjaxprs(eqn.params))) for eqn in jaxpr.eqns)


def waits(options: asked.Pairs) -> bool:
    """Whether calls of a program that calls Python end before they return, as in JAX; "threaded" ones do not."""
    return dict((*config.veery_compiler_options, *options)).get("queue") != "threaded"


def raise_known(executable: Any, buffers: Sequence[Any], waits: bool) -> None:
    """Raise the exception of a call of a program that calls Python, if it has failed by now.

    On the CPU it has ended, unless the program asked for other threads and has no effects: what it prints is there.
    """
    ends = executable.device.platform == "cpu" and (waits or executable.has_effects)
    for buffer in buffers:
        if ends or buffer.is_ready():
            buffer.wait()


def call_raising(executable: Any, waits: bool, buffers: Sequence[Any]) -> Sequence[Any]:
    """Call a program that calls Python."""
    produced: Sequence[Any] = executable.call(buffers)
    raise_known(executable, produced, waits)
    return produced


def call(executable: Any, buffers: Sequence[Any], name: str) -> Sequence[Any]:
    """The buffers of a program's results; the call is recorded where a trace is being made."""
    recorder = recording.active
    if recorder is None:
        produced: Sequence[Any] = executable(buffers)
        return produced
    begin = recording.now()
    produced = executable(buffers)
    pending = {id(state): state for state in (b.state() for b in produced) if state is not None}
    recorder.submitted(name, begin, executable, tuple(pending.values()), runtime().flight.await_quietly)
    return produced


def _run_in_parts(parts: ClosedJaxpr, name: str, arrays: list[ArrayImpl], how: How) -> Run:
    """Run a program with operations on several devices: one program after the other."""
    log_compilation("jit(%s) runs on several devices in %d parts; what is between them, on one.", name, len(parts.eqns))
    with set_current_trace(eval_trace):
        outs = [as_array(x) for x in eval_jaxpr(parts.jaxpr, parts.consts, *arrays)]
    _donate(arrays, how)
    return Run(outs, None, None, arrays)


def _donate(arrays: Sequence[ArrayImpl], how: How) -> None:
    for x, given in zip(arrays, how.donated):
        if given:
            x._buffer.delete()


def _executable(closed: ClosedJaxpr, name: str, device: Any, how: How) -> Any:
    """The compiled program of a jaxpr on a device."""
    key = (device, how.donated, how.compiler_options, config.veery_compiler_options, config.veery_host_evaluation)
    executables = closed.derived.executables
    executable = executables.get(key)
    if executable is None:
        executable = executables[key] = _compiled(closed, name, device, how)
    return executable


def _compiled(closed: ClosedJaxpr, name: str, device: Any, how: How) -> Any:
    """A jaxpr compiled for a device by the compiler that is asked for, or by both, of which the better one stays."""
    options = {**dict(config.veery_compiler_options), **dict(how.compiler_options)}
    compiler = asked.compiler(options) if device.platform == "cpu" else "iree"
    by_libraries = lambda: _by_libraries(closed, name, device, how)
    by_iree = lambda: by_libraries() or compile_jaxpr(closed, name, device, how.donated, how.compiler_options)
    beside = lambda: compile_jaxpr(closed, name, device, how.donated, how.compiler_options, target=_BESIDE)
    by_xla = lambda: beside().otherwise_by(by_iree)
    by_lapack = lambda: _by_libraries(closed, name, device, how, such_as=lowering().host.NOT_OF_XLA)
    if compiler == "auto" and not (side_effects(closed.effects) or _symbols(closed).sources):
        return _better(closed, name, how, by_iree, by_xla)
    return by_lapack() or by_xla() if compiler == "xla" else by_iree()


def _better(closed: ClosedJaxpr, name: str, how: How, by_iree: Callable[[], Any], by_xla: Callable[[], Any]) -> Any:
    """What XLA compiles at once, until IREE's program is there and shown to be faster; what was found out before."""
    tuning, options = lowering().tuning, _options(how.compiler_options)
    known = tuning.recall(dce(closed), _BESIDE, options)
    if known is not None:
        return by_xla() if dict(known)["compiler"] == "xla" else by_iree()
    try:
        first = by_xla()
    except (RuntimeError, ValueError, TypeError) as error:  # there is no plugin, or it refuses the program
        log_compilation("jit(%s) is left to IREE: %s", name, str(error)[:200])
        return by_iree()

    def tell(chosen: str, seconds: dict[str, float]) -> None:
        times = ", ".join(f"{compiler} {1e6 * taken:.1f} us" for compiler, taken in seconds.items())
        log_compilation("jit(%s) takes by %s: %s stays", name, times, chosen)
        tuning.remember(dce(closed), _BESIDE, options, (("compiler", chosen),))

    return runtime().better(first, ("xla", "iree"), by_iree, tell)


def _host_executable(closed: ClosedJaxpr, name: str, device: Any, how: How) -> HostExecutable | None:
    """What evaluates a jaxpr in NumPy (see veery._eager); None if it is to be compiled."""
    if closed.jaxpr.debug_info.compiled or device.platform != "cpu" or not config.veery_host_evaluation:
        return None
    if how.donated or not _leaves_to_numpy((*how.compiler_options, *config.veery_compiler_options)):
        return None
    known = closed.derived.on_host
    if device not in known:
        compile = lambda: _executable(closed, name, device, how)
        queued = lambda program: load(lowering().host.evaluated(program, closed, name, ()), device)
        known[device] = host_executable(closed, lowering().host.CALLS, device, runtime().put, compile, queued)
    found: HostExecutable | None = known[device]
    return found


def _by_libraries(closed: ClosedJaxpr, name: str, device: Any, how: How, such_as: frozenset[str] = frozenset()) -> Any:
    """What evaluates a jaxpr that is calls of libraries, and of little else; None if it is to be compiled.

    Args:
        closed, name, device, how: the program.
        such_as: primitives of which one must be among the calls; empty for any.
    """
    if device.platform != "cpu" or not config.veery_host_evaluation:
        return None
    if not _leaves_to_numpy((*how.compiler_options, *config.veery_compiler_options)):
        return None
    program = library_program(dce(closed), lowering().host.CALLS)
    if program is None or (such_as and such_as.isdisjoint(program.called)):
        return None
    if not such_as and closed.jaxpr.debug_info.compiled and program.is_little(lowering().host.ROUTINES):
        return None
    log_compilation("jit(%s) is evaluated by NumPy and LAPACK for arguments %s.", name, closed.in_avals)
    return load(lowering().host.evaluated(program, closed, name, how.donated), device)


def _leaves_to_numpy(options: asked.Pairs) -> bool:
    """Whether NumPy may evaluate small programs: nothing is asked of their code."""
    return all(name == "compiler" for name, _ in options)


def results(avals: Sequence[ShapedArray], buffers: Sequence[Any], committed: bool = False) -> list[ArrayImpl]:
    """What a program returned as arrays; symbolic shapes have become those of the buffers."""
    return [
        ArrayImpl(aval.update(shape=buffer.shape) if is_symbolic(aval.shape) else aval, buffer, committed)
        for aval, buffer in zip(avals, buffers)
    ]


def check_execution(name: str) -> None:
    """Raise RuntimeError if no program may run."""
    if config.jax_no_execution:
        raise RuntimeError(f"veery tried to execute function jit({name}), but the no_execution config option is set")


# Eager evaluation: a program for each operation, shape and dtype.

_eager_programs: dict[Any, ClosedJaxpr] = {}


def run_primitive(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluate one operation on concrete values."""
    args = [as_array(x) for x in args]
    key: Any = (primitive, tuple(x.aval for x in args), tuple(params.items()))
    try:
        closed = _eager_programs.get(key)
    except TypeError:  # parameters that cannot be hashed: not remembered
        key, closed = None, None
    if closed is None:
        closed = _stage_primitive(primitive, args, params)
        if key is not None:
            _eager_programs[key] = closed
    outs = execute(closed, primitive.name, [*closed_consts(closed), *args])
    return outs if primitive.multiple_results else outs[0]


def closed_consts(closed: ClosedJaxpr) -> list[Any]:
    """The constants that were made leading arguments of a staged operation."""
    return closed.derived.consts


def _stage_primitive(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> ClosedJaxpr:
    def fun(*xs: Any) -> Any:
        out = primitive.bind(*xs, **params)
        return out if primitive.multiple_results else [out]

    with set_current_trace(eval_trace):
        staged = stage(fun, [aval_of(x) for x in args], DebugInfo(primitive.name))
    closed, consts = close_over(staged)
    closed.derived.consts = consts
    return closed


# For rules of the user's own.


def register_lowering(name: str, rule: Any, target: str | None) -> None:
    """Set the lowering rule of the primitive of that name, on one target or on all."""
    from veery_lowering.emit import registry

    registry.replace(name, rule, target=target)


def lowering_module(name: str) -> Any:
    """A module of the compiler, by its name there: "stablehlo" has builders of operations."""
    return importlib.import_module(f"veery_lowering.{name}")


def tensor_type(aval: Any) -> Any:
    """The MLIR type of an aval."""
    from veery_lowering.types import aval_type

    return aval_type(aval)


def clear_caches() -> None:
    """Forget compiled operations (those on disk stay)."""
    _eager_programs.clear()
