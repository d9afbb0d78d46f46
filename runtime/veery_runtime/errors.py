"""Errors of the runtime, and the register that carries Python exceptions through IREE's fences."""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from types import TracebackType


class ExecutionError(RuntimeError):
    """A compiled program failed on its device."""


class DeviceLostError(ExecutionError):
    """A device gave up: its driver reset it or it was unplugged. What it held is gone; other devices go on."""


class DeletedBufferError(RuntimeError):
    """A buffer was used after it had been deleted or donated."""


class DeviceUnavailableError(RuntimeError):
    """A platform or device was asked for that this machine does not offer."""


class ForkedProcessError(RuntimeError):
    """Work that was in flight when the process forked cannot finish in the child."""


class ArtifactError(ValueError):
    """A file is not an artifact that this process can run."""


class CorruptArtifactError(ArtifactError):
    """A file is damaged: truncated, changed or not an artifact at all."""


class IncompatibleArtifactError(ArtifactError):
    """An intact artifact was made for another CPU, IREE version or format version."""


# What drivers say of a device that does not answer any more.
_LOST = re.compile(
    r"DEVICE_LOST|DATA_LOSS|CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED|ECC_UNCORRECTABLE|CONTEXT_IS_DESTROYED)"
)

# IREE carries a failure along fences as text. A marker in that text leads back to the Python exception object, so
# that a reader far downstream gets the original type and traceback. Bounded: exceptions keep frames alive.
_MARKER = re.compile(r"\[host exception (\d+)\]")
_KEPT_EXCEPTIONS = 64
_exceptions: OrderedDict[int, tuple[BaseException, TracebackType | None]] = OrderedDict()
_numbers = itertools.count(1)


def remember(error: BaseException) -> str:
    """Registers `error` and returns the text with which to fail a fence."""
    number = next(_numbers)
    _exceptions[number] = error, error.__traceback__
    while len(_exceptions) > _KEPT_EXCEPTIONS:
        _exceptions.popitem(last=False)
    return f"[host exception {number}] {type(error).__name__}: {error}"


def recall(error: BaseException) -> BaseException | None:
    """The registered exception that `error`, raised by IREE, stems from, with the traceback it was caught with."""
    marker = _MARKER.search(str(error))
    original, traceback = _exceptions.get(int(marker.group(1)), (None, None)) if marker else (None, None)
    return original and original.with_traceback(traceback)


# The class that is raised for each class of errors of programs.
_raised: dict[type[ExecutionError], type[ExecutionError]] = {}


def raise_also_as(base: type[RuntimeError]) -> None:
    """Makes errors of programs from now on instances of a further class, the one that a caller's users know."""
    for kind in (ExecutionError, DeviceLostError):
        _raised[kind] = type(kind.__name__, (kind, base), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _error(kind: type[ExecutionError], message: str) -> ExecutionError:
    return _raised.get(kind, kind)(message)


def execution_error(message: str) -> ExecutionError:
    """What to raise where a program cannot run."""
    return _error(ExecutionError, message)


def tells_of_loss(error: BaseException) -> bool:
    """Whether a driver's error says that the device is lost."""
    return isinstance(error, DeviceLostError) or _LOST.search(str(error)) is not None


def translate(name: str, error: BaseException) -> BaseException:
    """The exception to raise where the result of the failed program `name` is read."""
    original = recall(error)
    if original is not None:
        return original
    if isinstance(error, ExecutionError):
        return error
    text = str(error)
    if _LOST.search(text):
        return _error(
            DeviceLostError,
            f"{name}: the device was lost while this program was running or waiting for it. Its arrays are gone; it is "
            f"opened anew for new ones, and other devices, such as the CPU, are not concerned ({text})",
        )
    if "RESOURCE_EXHAUSTED" in text:
        return _error(ExecutionError, f"{name}: out of memory on the device ({text})")
    return _error(ExecutionError, f"{name}: the program failed on its device: {text}")
