from collections.abc import Callable
from typing import Any


def backend_compile_and_load(backend: Any, compile: Callable[[], Any]) -> Any:
    """What each compilation passes through (see `veery._dispatch`)."""
    return compile()
