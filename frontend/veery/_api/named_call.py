"""`named_call`: functions whose operations bear a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veery._api.arguments import function_name, wraps
from veery._core.source import named_scope


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """A function whose operations bear a name in the compiler's locations and in profiles.

    Args:
        fun: the function.
        name: the name; by default that of the function.

    >>> import veery
    >>> float(veery.named_call(lambda x: x + 1, name="increment")(1.0))
    2.0
    """
    label = name or function_name(fun)

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named
