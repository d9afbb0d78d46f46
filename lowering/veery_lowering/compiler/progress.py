"""A line in the terminal while a compilation takes long: what is compiled, what it is at, and since when."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from veery_lowering.compiler import steps

_PATIENCE = 1.0  # seconds after which the line appears
_PERIOD = 0.2  # seconds between its changes
_CLEAR = "\r\x1b[K"
_line = threading.Lock()  # there is one: the first of several compilations has it


@contextmanager
def shown(name: str, target: str) -> Iterator[None]:
    """A context in which the steps of a compilation are shown, if standard error is a terminal."""
    if not (sys.stderr is not None and sys.stderr.isatty() and _line.acquire(blocking=False)):
        yield
        return
    start, done, step = time.monotonic(), threading.Event(), ""

    def change(text: str) -> None:
        nonlocal step
        step = text

    def show() -> None:
        if done.wait(_PATIENCE):
            return
        while not done.wait(_PERIOD):
            what = f"veery: compiling {name} for {target}: {step}, {time.monotonic() - start:.0f} s"
            sys.stderr.write(_CLEAR + what)
            sys.stderr.flush()
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()

    thread = threading.Thread(target=show, name="veery progress", daemon=True)
    thread.start()
    try:
        with steps.heard_by(change):
            yield
    finally:
        done.set()
        thread.join()
        _line.release()
