"""IREE's phases, run in the compiler's own process, which imports nothing else of the tests."""

from __future__ import annotations

from typing import Any

from veery_lowering.compiler import dispatches, sessions


def run_ours(*args: Any) -> Any:
    return sessions.run_pipeline(*args)


def run_theirs(*args: Any) -> Any:
    """With the compiler's own dispatch creation, of which nothing is refused; its process is gone after it."""
    dispatches.knows = lambda flags: False
    dispatches.made_safe = lambda flags: flags
    dispatches.refuse_sums_of_nothing = lambda module: None
    return sessions.run_pipeline(*args)


def sessions_that_are_ready() -> list[tuple[str, ...]]:
    """The options of the sessions that a compilation finds ready."""
    return list(sessions._idle)
