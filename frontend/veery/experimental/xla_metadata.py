"""Attributes for XLA's compiler, which programs may set and veery leaves out."""

from __future__ import annotations

import contextlib
from typing import Any


class _Unused(contextlib.nullcontext[None]):
    """A context, or a decorator, without an effect."""

    def __call__(self, fun: Any) -> Any:
        return fun


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Accepted for compatibility: attributes of operations tell XLA how to compile them, and have no effect here.

    Args:
        x: a pytree of arrays, which is returned as it is; without it, a context or a decorator is.
        **kwargs: the attributes.

    >>> with set_xla_metadata(key="value"):
    ...     print(set_xla_metadata(3.0, key="value"))
    3.0
    """
    return _Unused() if x is None else x
