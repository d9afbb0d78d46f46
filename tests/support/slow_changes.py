"""Changes of VM modules that the compiler makes in another process: what a compilation may come to, for tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any


def never_end(module: Any) -> bool:
    """An endless loop."""
    while True:
        time.sleep(0.01)


def be_killed(module: Any) -> bool:
    """What the system does where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    return never_end(module)


def fail(module: Any) -> bool:
    """Raise an exception."""
    raise NotImplementedError


def exhaust_memory(module: Any) -> bool:
    """Ask for more and more memory, of which there is not much."""
    import resource

    from veery_lowering.mlir import ir

    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 24), limit))
    text = "x" * (1 << 16)
    for number in range(1 << 16):
        ir.StringAttr.get(f"{text}{number}", module.context)
    return True


def end_the_second_time(module: Any) -> bool:
    """An endless loop, unless there was one before: in the folder MEETING."""
    begun = Path(os.environ["MEETING"]) / "begun"
    if not begun.exists():
        begun.write_text(str(os.getpid()))
        never_end(module)
    return False


def stand_still(module: Any) -> bool:
    """Wait for nothing."""
    time.sleep(3600)
    return False


def meet(module: Any) -> bool:
    """Wait until as many as NUMBER compile at the same time: in the folder MEETING."""
    folder = Path(os.environ["MEETING"])
    (folder / str(os.getpid())).touch()
    end = time.monotonic() + 120
    while len(list(folder.iterdir())) < int(os.environ["NUMBER"]):
        if time.monotonic() > end:
            raise AssertionError("the others wait")
        time.sleep(0.01)
    return False


def say(module: Any) -> bool:
    """Print, where the compiler prints, the folder in which it runs."""
    os.write(1, f"in {os.getcwd()}\n".encode())
    os.write(2, b"an error\n")
    return False


def take(size: int) -> None:
    """Have some bytes for a moment."""
    len(bytearray(b"x") * size)
