"""What several threads ask for at the same time is made once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")
_lock = threading.Lock()
_running: dict[str, Future[Any]] = {}


def once(key: str, make: Callable[[], T]) -> T:
    """What `make` returns, or what another thread is making under the same key.

    An exception goes to all who wait; but where a thread is stopped (Ctrl-C), the next of them makes it.
    """
    while True:
        with _lock:
            theirs = _running.get(key)
            if theirs is None:
                mine = _running[key] = Future[T]()
        if theirs is None:
            return _made(key, make, mine)
        try:
            found: T = theirs.result()
            return found
        except CancelledError:
            continue


def _made(key: str, make: Callable[[], T], mine: Future[T]) -> T:
    try:
        result = make()
    except Exception as error:
        _leave(key)
        mine.set_exception(error)
        raise
    except BaseException:
        _leave(key)
        mine.cancel()
        raise
    _leave(key)
    mine.set_result(result)
    return result


def _leave(key: str) -> None:
    with _lock:
        del _running[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _running.clear()  # those threads are not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
