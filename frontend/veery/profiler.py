"""Profiles: what the host and the devices did when, and which arrays hold memory.

A trace is a file that https://ui.perfetto.dev opens. It shows, for each thread of the host, calls of jitted functions,
traces and compilations with their steps, submissions of programs, annotations, and calls of Python functions outside of
veery; for each device its queues, with the time of each program. Events carry the line of the user's code.

Where a queue is asynchronous, a program's time ends when its results are there, and begins when it was submitted or
when the program before it ended. `veery profile` on the command line times the dispatches within one program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veery._api import chrome_trace, jit, memory_profile, placement
from veery._core import recording, source
from veery._core.absent import attributes as _attributes
from veery._core.recording import Event


@dataclass
class ProfileOptions:
    """What a trace records.

    Attributes:
        host_tracer_level: 0 leaves out what the host does; higher levels are one.
        device_tracer_level: 0 leaves out what devices do.
        python_tracer_level: 0 leaves out calls of Python functions, which costs them 1 us each.
        duration_ms, start_timestamp_ns, enable_hlo_proto, include_dataset_ops, raise_error_on_start_failure,
        repository_path, session_id, advanced_configuration: accepted for compatibility.
    """

    host_tracer_level: int = 2
    device_tracer_level: int = 1
    python_tracer_level: int = 1
    duration_ms: int = 0
    start_timestamp_ns: int = 0
    enable_hlo_proto: bool = True
    include_dataset_ops: bool = True
    raise_error_on_start_failure: bool = False
    repository_path: str = ""
    session_id: str = ""
    advanced_configuration: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Running:
    """The trace that is being made, and what becomes of it."""

    recorder: recording.Recorder
    folder: Path
    perfetto_file: bool
    perfetto_link: bool
    options: ProfileOptions


_running: _Running | None = None


def start_trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Begin to record what happens in this process, in all threads.

    Args:
        log_dir: the folder in which `stop_trace` writes `plugins/profile/<time>/<host>.trace.json.gz`.
        create_perfetto_link: whether `stop_trace` opens the trace in a browser, and waits until it has been read.
        create_perfetto_trace: whether it also writes it as `perfetto_trace.json.gz`.
        profiler_options: what is recorded.

    Raises:
        RuntimeError: a trace is being made already.
    """
    global _running
    if _running is not None:
        raise RuntimeError("Profile has already been started. Only one profile may be run at a time.")
    options = profiler_options or ProfileOptions()
    recorder = recording.Recorder(functions=options.python_tracer_level > 0)
    _running = _Running(recorder, Path(log_dir), create_perfetto_trace, create_perfetto_link, options)
    recorder.start()
    recording.activate(recorder)
    jit.record_calls(True)


def stop_trace() -> None:
    """End the trace that `start_trace` began, when the calls in flight have finished, and write its file.

    Raises:
        RuntimeError: no trace is being made.
        OSError: the file cannot be written.
    """
    global _running
    running, _running = _running, None
    if running is None:
        raise RuntimeError("No profile started")
    jit.record_calls(False)
    recording.activate(None)
    recorder = running.recorder
    recorder.stop()
    levels = {True: running.options.host_tracer_level, False: running.options.device_tracer_level}
    recorder.events = [e for e in recorder.events if levels[e.track.process == recording.HOST]]

    folder = running.folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    folder.mkdir(parents=True, exist_ok=True)
    chrome_trace.write(recorder, folder / f"{socket.gethostname()}.trace.json.gz")
    if running.perfetto_file or running.perfetto_link:
        chrome_trace.write(recorder, folder / "perfetto_trace.json.gz")
    if running.perfetto_link:
        chrome_trace.show(folder / "perfetto_trace.json.gz")


@contextlib.contextmanager
def trace(
    log_dir: os.PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """A context that is traced; see `start_trace`.

    >>> import veery, veery.numpy as jnp
    >>> from pathlib import Path
    >>> with veery.profiler.trace("profile", create_perfetto_trace=True):
    ...     with veery.profiler.TraceAnnotation("warm-up"):
    ...         _ = veery.jit(jnp.sin)(jnp.ones(3)).block_until_ready()
    >>> len(list(Path("profile").glob("plugins/profile/*/perfetto_trace.json.gz")))
    1
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation:
    """A context that traces show under a name, with further values.

    >>> import veery
    >>> with veery.profiler.TraceAnnotation("loading", files=3):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any):
        self._name = name
        self._values = kwargs
        self._begun: list[int] = []

    def __enter__(self) -> TraceAnnotation:
        self._begun.append(recording.now())
        return self

    def __exit__(self, *exception: object) -> None:
        begin = self._begun.pop()
        recorder = recording.active
        if recorder is not None:
            values = {**self._values, "source": str(source.current())}
            recorder.add(Event(self._name, "annotation", recording.thread_track(), begin, recording.now(), values))

    def set_metadata(self, **kwargs: Any) -> None:
        """Add values to those that are shown."""
        self._values.update(kwargs)

    @staticmethod
    def is_enabled() -> bool:
        """Whether a trace is being made."""
        return recording.active is not None


class StepTraceAnnotation(TraceAnnotation):
    """A step of training in a trace: `StepTraceAnnotation("train", step_num=i)`; see `TraceAnnotation`."""

    def __init__(self, name: str, **kwargs: Any):
        super().__init__(name, **kwargs, _r=1)


def annotate_function(func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any) -> Callable[..., Any]:
    """A function whose calls traces show.

    Args:
        func: the function.
        name: what its calls are called; by default its own name.
        **decorator_kwargs: values that are shown with each.

    >>> import veery
    >>> @veery.profiler.annotate_function
    ... def load(n):
    ...     return n + 1
    >>> load(1)
    2
    """
    shown = name or str(getattr(func, "__qualname__", type(func).__name__))

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def device_memory_profile(backend: str | None = None) -> bytes:
    """The arrays that are alive on the devices of a platform, by shape and dtype, for `pprof`.

    Args:
        backend: the platform; by default the default one.

    Returns:
        A compressed profile in pprof's format, with the number of the arrays and their bytes.

    >>> import veery
    >>> veery.profiler.device_memory_profile()[:2].hex()  # compressed by gzip
    '1f8b'
    """
    return memory_profile.profile(b for device in placement.devices(backend) for b in device.live_buffers())


def save_device_memory_profile(filename: str | os.PathLike[str], backend: str | None = None) -> None:
    """Write `device_memory_profile` to a file: `go tool pprof -web memory.prof` shows it.

    Raises:
        OSError: the file cannot be written.
    """
    Path(filename).write_bytes(device_memory_profile(backend))


def start_server(port: int, requires_backend: bool = True) -> Any:
    """Refused: there is no server that other processes ask for traces.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "jax.profiler.start_server: veery has no server for TensorBoard's remote captures. Record in the process with "
        "jax.profiler.trace(log_dir)."
    )


def stop_server() -> None:
    """Refused: there is no server, see `start_server`.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("No active profiler server.")


__getattr__, __dir__ = _attributes(__name__)
