"""Groups of operations for XLA's scheduler: IREE orders what it runs by itself, so that they have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery._core.absent import attributes as _attributes


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of functions that are to be one group.

    >>> scheduling_group("first")(abs)(-1)
    1
    """
    return xla_metadata_call(scheduling_group=name)


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: str) -> Any:
    """The function, whose operations are to carry metadata for XLA.

    Args:
        f: the function; None to decorate one.
        meta: texts.

    Raises:
        NotImplementedError: metadata other than texts.
    """
    for value in meta.values():
        if not isinstance(value, str):
            raise NotImplementedError(f"xla_metadata_call: metadata are texts, got {value!r} of {type(value)}")
    return (lambda g: g) if f is None else f


__getattr__, __dir__ = _attributes(__name__)
