"""What equations do besides computing results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Effect:
    """A side effect of an equation: it is neither removed nor reordered with its like."""

    def __repr__(self) -> str:
        return type(self).__name__


class IOEffect(Effect):
    """A function that acts on the world, at no particular time."""


class OrderedIOEffect(Effect):
    """A function that acts on the world, in program order."""


class DebugEffect(Effect):
    """A function that shows values: it may be repeated where values are computed again, and dropped with them."""


class OrderedDebugEffect(Effect):
    """A function that shows values, in program order."""


class RefEffect(Effect):
    """The equation makes a reference or writes to one (see veery._core.refs)."""


ref_effect = RefEffect()
io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()


def has_io(effects: Iterable[Any]) -> bool:
    """Whether some effect is a function's that acts on the world."""
    return any(isinstance(effect, (IOEffect, OrderedIOEffect)) for effect in effects)


def has_debug(effects: Iterable[Any]) -> bool:
    """Whether some effect is a function's that shows values."""
    return any(isinstance(effect, (DebugEffect, OrderedDebugEffect)) for effect in effects)
