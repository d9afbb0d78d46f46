"""optree, which flattens trees in C++, without what it does when the interpreter exits.

It forgets its types of nodes then, tuples and lists among them: to functions of `atexit` that a program registered
before it imported veery, which run later, each tree would be a leaf. The interpreter's end frees the memory all the
same. A program that imported optree itself before has its way.
"""

from __future__ import annotations

import atexit
import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def _without_exit_functions_in_c() -> Iterator[None]:
    register = atexit.register

    def register_python(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return f if isinstance(f, types.BuiltinFunctionType) else register(f, *args, **kwargs)

    atexit.register = register_python  # type: ignore[assignment]
    try:
        yield
    finally:
        atexit.register = register


with _without_exit_functions_in_c():
    import optree

__all__ = ["optree"]
