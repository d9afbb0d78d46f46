"""Where the compiler runs: in this process, or in one of its own that may crash.

In this process it is quicker, but should it crash, the process is gone. So a compilation leaves a marker in the cache's
folder while it lasts, a file that the process keeps locked. The lock goes with the process; a marker that nobody holds
means that a process ended while it compiled that program, which is then compiled in a process of its own. If that works
the marker goes: the process was ended by something else.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from veery_lowering import outside
from veery_lowering.cache import JOURNAL, disk_cache
from veery_lowering.errors import CompilerCrash
from veery_lowering.mlir import run_pipeline
from veery_lowering.program import Options

try:
    import fcntl
except ImportError:  # not on Windows, which has no such locks: no journal there
    fcntl = None  # type: ignore[assignment]

_numbers = itertools.count()
logger = logging.getLogger("veery")


@contextmanager
def compiler(key: str, name: str, options: Options) -> Iterator[Callable[..., Any]]:
    """`mlir.run_pipeline`, to be called here with flags for one program, or a stand-in that calls it elsewhere.

    Args:
        key: of the program, in the cache.
        name: of the program, for people.
        options: whether a stand-in is wanted, and whether there may be a trace on disk.

    The stand-in raises CompilerCrash.
    """
    cache = disk_cache()
    if options.isolation == "always":
        yield _elsewhere
    elif options.isolation == "never" or fcntl is None or not (options.cache and cache.limit):
        yield run_pipeline
    else:
        marker = Marker(cache.directory / JOURNAL, key)
        if not marker.is_abandoned():
            with marker.held():
                yield run_pipeline
            return
        logger.info("A process ended while it compiled %s; this time it is compiled in a process of its own.", name)
        crashes = []

        def attempt(*arguments: Any) -> Any:
            try:
                return _elsewhere(*arguments)
            except CompilerCrash as crash:
                crashes.append(crash)
                raise

        yield attempt
        if not crashes:
            marker.remove()


def _elsewhere(*arguments: Any) -> Any:
    return outside.call("run_pipeline", *arguments)


class Marker:
    """What is in the journal for one program."""

    def __init__(self, folder: Path, key: str):
        self._folder = folder
        self._key = key

    @contextmanager
    def held(self) -> Iterator[None]:
        """Say that this process compiles the program while the block runs, if the folder allows that."""
        path = self._folder / f"{self._key}-{os.getpid()}-{next(_numbers)}"
        handle = _locked(path)
        try:
            yield
        finally:
            if handle is not None:
                _unlink(path)
                os.close(handle)

    def is_abandoned(self) -> bool:
        """Whether a process ended while it compiled the program."""
        return any(map(_is_unlocked, self._paths()))

    def remove(self) -> None:
        """Forget those processes."""
        for path in self._paths():
            if _is_unlocked(path):
                _unlink(path)

    def _paths(self) -> Iterator[Path]:
        return self._folder.glob(f"{self._key}-*")


def _locked(path: Path) -> int | None:
    """Make a file and lock it; None if that cannot be."""
    flags = os.O_RDWR | os.O_CREAT
    try:
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, flags)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the file system has no locks, or somebody is just looking: it will seem abandoned, at worst
        pass
    return handle


def _is_unlocked(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # that compilation has ended meanwhile
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass
