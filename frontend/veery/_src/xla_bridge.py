from typing import Any

from veery import _dispatch
from veery.extend.backend import backends as _found, get_backend as get_backend


def __getattr__(name: str) -> Any:
    if name == "_backends":  # those in use: none before the first device is asked for
        return _found() if _dispatch.runtime().discovery.in_use() else {}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
