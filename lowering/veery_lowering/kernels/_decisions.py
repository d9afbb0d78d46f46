"""What became of each place for which a kernel may be written, for those who ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Decision:
    """What became of a loop, a piece, a product, rows, a join, a lookup or a scatter.

    Attributes:
        kind: one of these words.
        locations: where its operations come from, the first one's first, as MLIR has it.
        kernel: the name of the kernel that was made of it; "" if IREE makes its dispatches.
        form: of a kernel, which: "in registers", "in buffers", "in invocations", "in one invocation", "in one piece",
            "tile by tile", "row by row", "element by element".
        workgroups: of a kernel, how many run it.
        reasons: why it has no kernel, or not one of the forms tried before.
    """

    kind: str
    locations: Sequence[Any]
    kernel: str = ""
    form: str = ""
    workgroups: int = 0
    reasons: Sequence[str] = ()


_decided: ContextVar[list[Decision] | None] = ContextVar("decided", default=None)


def locations(operations: Iterable[Any]) -> list[Any]:
    """Where operations, and those in them, come from; nothing where nobody asks."""
    if _decided.get() is None:
        return []
    found: dict[Any, None] = {}
    for op in operations:
        found[op.location] = None
        for region in op.regions:
            for block in region.blocks:
                found.update(dict.fromkeys(locations(block.operations)))
    return list(found)


def decided(decision: Decision) -> None:
    """Tell those who ask."""
    found = _decided.get()
    if found is not None:
        found.append(decision)


@contextmanager
def decisions() -> Iterator[list[Decision]]:
    """A context that gathers what is decided in it."""
    found: list[Decision] = []
    token = _decided.set(found)
    try:
        yield found
    finally:
        _decided.reset(token)
