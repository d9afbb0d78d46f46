"""What a profile is made of: events with their times, and who recorded them (see `veery.profiler`)."""

from __future__ import annotations

import itertools
import os
import queue
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple

from veery._core import source

now = time.perf_counter_ns

HOST = "/host:CPU"
# A trace that is left running must not take all memory; viewers cannot open larger ones either.
MOST_EVENTS = 1_000_000


class Track(NamedTuple):
    """A row of the picture: a thread of this process, or a queue of a device."""

    process: str
    thread: str


class Event(NamedTuple):
    """Something that took from `begin` to `end` (nanoseconds of `now`); `flow` joins a call with what it started."""

    name: str
    category: str
    track: Track
    begin: int
    end: int
    args: dict[str, Any]
    flow: int | None = None


class Recorder:
    """The events of a trace, from any thread."""

    def __init__(self, functions: bool = False):
        self.begin = now()
        self.events: list[Event] = []
        self.dropped = 0
        self._functions = functions
        self._flows = itertools.count(1)
        self._unfinished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._last_end: dict[Track, int] = {}
        self._watcher = threading.Thread(target=self._watch, name="veery profiler", daemon=True)
        self._profile_before: Any = None

    def start(self) -> None:
        self._watcher.start()
        if self._functions:
            self._profile_before = sys.getprofile()
            profile = _FunctionCalls(self).hear
            threading.setprofile(profile)
            sys.setprofile(profile)

    def stop(self) -> None:
        """Take the events of calls in flight, which are waited for, and no more."""
        if self._functions:
            sys.setprofile(self._profile_before)
            threading.setprofile(self._profile_before)
        self._unfinished.put(None)
        self._watcher.join()

    def add(self, event: Event) -> None:
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)
        else:
            self.dropped += 1

    def submitted(
        self, name: str, begin: int, executable: Any, pending: Sequence[Any], wait: Callable[[Any], None]
    ) -> None:
        """Record a call of a program by this thread, which began at `begin` and has been submitted.

        Args:
            name: of the program.
            begin: when the call began.
            executable: the program.
            pending: what is to be waited for until the results are there.
            wait: waits for one of these.
        """
        end = now()
        flow = next(self._flows)
        args = {"program": name, "queue": executable.queue, "source": str(source.current())}
        self.add(Event(f"submit {name}", "submission", thread_track(), begin, end, args, flow))
        track = Track(f"/device:{executable.device}", executable.queue)
        if pending:
            self._unfinished.put((name, track, begin, args, flow, pending, wait))
        else:
            self.add(Event(name, "program", track, begin, end, args, flow))

    def _watch(self) -> None:
        """Take the time at which calls finish, in the order in which they were submitted."""
        while (item := self._unfinished.get()) is not None:
            name, track, begin, args, flow, pending, wait = item
            for each in pending:
                wait(each)
            # A queue runs one call after the other.
            begin = max(begin, self._last_end.get(track, 0))
            self._last_end[track] = end = max(begin, now())
            self.add(Event(name, "program", track, begin, end, args, flow))


_LIBRARY = os.path.abspath(sysconfig.get_path("stdlib")) + os.sep
_PACKAGES = tuple(
    f"{os.sep}{name}{os.sep}"
    for name in ("numpy", "scipy", "optree", "ml_dtypes", "iree", "platformdirs", "_distutils_hack")
)


class _Shown(dict[str, bool]):
    """Whether a trace shows the functions of a file: not those of veery, of Python, and of what veery uses."""

    def __missing__(self, filename: str) -> bool:
        path = os.path.abspath(filename)
        is_library = path.startswith(_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in path
        hidden = filename.startswith("<") or is_library or any(part in path for part in _PACKAGES)
        shown = self[filename] = not hidden
        return shown


_shown = _Shown()


class _FunctionCalls:
    """Calls of the user's Python functions, as the interpreter tells of them."""

    def __init__(self, recorder: Recorder):
        self._recorder = recorder
        self._local = threading.local()

    def hear(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or source.is_internal(code) or not _shown[code.co_filename]:
            return
        calls: list[tuple[FrameType, int]] = self._local.__dict__.setdefault("calls", [])
        if event == "call":
            calls.append((frame, now()))
        elif calls and calls[-1][0] is frame:
            _, begin = calls.pop()
            name = f"${os.path.basename(code.co_filename)}:{code.co_firstlineno} {code.co_name}"
            self._recorder.add(Event(name, "python", thread_track(), begin, now(), {}))


# The recorder of the trace that is being made, if one is.
active: Recorder | None = None


def activate(recorder: Recorder | None) -> None:
    """Let what happens be recorded by this recorder; None: by none."""
    global active
    active = recorder


def thread_track() -> Track:
    """The row of this thread."""
    thread = threading.current_thread()
    return Track(HOST, f"{thread.name} ({thread.native_id})")


class Span:
    """A context that is recorded as an event with the user's line, while a trace is being made."""

    # No generator: the frames of contextlib would be taken for the user's.
    def __init__(self, name: str, category: str, **args: Any):
        self._name = name
        self._category = category
        self._args = args
        self._begin: int | None = None

    def __enter__(self) -> Span:
        if active is not None:
            self._args["source"] = str(source.current())
            self._begin = now()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._begin is not None and (recorder := active) is not None:
            recorder.add(Event(self._name, self._category, thread_track(), self._begin, now(), self._args))


class Steps:
    """The steps of something, each of which begins where the one before ends."""

    def __init__(self) -> None:
        self._begun: tuple[str, int] | None = None

    def begin(self, name: str | None) -> None:
        """A step begins; None: the last one ends."""
        recorder, before = active, self._begun
        self._begun = None if recorder is None or name is None else (name, now())
        if recorder is not None and before is not None:
            recorder.add(Event(before[0], "compilation", thread_track(), before[1], now(), {}))
