"""A program in the contexts of IREE, and the queue that it runs on."""

from __future__ import annotations

from typing import Any

from veery_runtime import iree
from veery_runtime.device import Device
from veery_runtime.flight import MAX_SCRATCH_IN_USE
from veery_runtime.hostcall import host_module

# Up to this many operations and bytes the work is shorter than waking a worker thread: inline and threaded, x * 2 + 1
# on 40,000 floats takes 10 and 30 us, a product of 64x64 11 and 54 us, the gradient of a scan of 1,000 steps 32 and 64.
INLINE_WORK = 1_000_000

# Up to this many it may be, which calls that are measured tell.
MEASURED_WORK = 20_000_000

# The same for programs that call Python functions, for which more threads are woken: a step of Newton's method with 20
# equations takes 270 us inline and 380 threaded, the Cholesky factors of 200x200 260 and 360.
INLINE_WORK_OF_CALLS = 5_000_000


# What computes a program's constants, as a string of IREE's format, after its size; and the name that it has here.
_INITIALIZER, _STARTED_HERE = b"\6\0\0\0__init\0", b"\6\0\0\0_start\0"


def load_module(program: Any, hal: iree.HalDevice, device: Device) -> tuple[iree.VmContext, iree.VmFunction]:
    """Makes a VM context for `program` on a queue.

    While a context is made, IREE calls the program's initializer, which waits for threads of the queue, and its binding
    holds the interpreter's lock. A thread that needs the lock, to free an array that was shared with a call, never gets
    it then. So the initializer gets another name, and is called as functions are, for which the lock is released.
    """
    module = iree.VmModule.copy_buffer(iree.INSTANCE, program.vmfb.replace(_INITIALIZER, _STARTED_HERE))
    modules = [iree.create_hal_module(iree.INSTANCE, hal)]
    if program.host_calls or program.calls_routines:
        modules.append(host_module(program.host_calls, device, program.calls_routines))
    context = iree.VmContext(iree.INSTANCE, modules=[*modules, module])
    initializer = module.lookup_function("_start")
    if initializer is not None:
        context.invoke(initializer, iree.VmVariantList(0), iree.VmVariantList(0))
    function = module.lookup_function(program.entry)
    if function is None:
        raise ValueError(f"{program.name}: the program has no function {program.entry!r}, only {module.function_names}")
    return context, function


def scratch_of(function: iree.VmFunction) -> int:
    """The bytes that a call needs beside its results, as the compiler wrote them down."""
    text = function.reflection.get("veery.scratch", "0")
    return MAX_SCRATCH_IN_USE if text == "loop" else int(text)


def choose_queue(program: Any, device: Device) -> str:
    """The queue that the compiler's caller asked for; otherwise the one that suits the program's estimated work."""
    chosen = program.metadata.get("queue")
    # Python functions of a device without host-visible memory run where the program is submitted.
    waits = program.blocking and program.metadata.get("control_flow") != "device"
    if (waits and chosen != "inline") or (program.host_calls and not device.host_visible):
        return "deferred"
    if chosen == "threaded" or device.inline is None:
        return "threaded"
    # A loop that ends when a value says so may be a long one.
    return "inline" if chosen == "inline" or (_is_small(program) and not program.blocking) else "threaded"


def is_timed(program: Any, device: Device) -> bool:
    """Whether how long calls take decides where they are made: of loops that a value ends, as far as that is known."""
    chosen = "queue" in program.metadata or device.inline is None
    return program.blocking and _is_small(program) and not chosen


def is_measured(program: Any, device: Device) -> bool:
    """Whether how long first calls take decides where later ones are made."""
    chosen = "queue" in program.metadata or device.inline is None
    return not (chosen or program.blocking or _is_small(program)) and program.work <= MEASURED_WORK


def has_small_steps(program: Any) -> bool:
    """Whether a program that another thread submits is done soonest by that thread alone.

    Of programs that call Python functions each step counts, since one ends before the next begins: 20 steps of the heat
    equation on 128x128 numbers, by Fourier transforms, take 3.7 ms so, and 6.4 where each wakes threads of the queue.
    """
    steps = program.metadata.get("largest_step")
    return bool((program.work if steps is None else int(steps)) <= INLINE_WORK)


def _is_small(program: Any) -> bool:
    """Whether it is worth no other threads; routines of LAPACK take one for each matrix."""
    calls = program.host_calls or program.calls_routines
    small = bool(program.work <= (INLINE_WORK_OF_CALLS if calls else INLINE_WORK))
    return small and (not program.calls_routines or has_small_steps(program))
