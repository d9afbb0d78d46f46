"""Passes as the compiler's process gets them: it loads those that it is to run, not all that there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Change(NamedTuple):
    """A pass with what it is told, which pickles."""

    function: Callable[..., Any]
    given: tuple[Any, ...]

    def __call__(self, module: Any) -> Any:
        """Change a module in place."""
        return self.function(module, *self.given)
