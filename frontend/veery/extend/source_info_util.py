"""Where in the user's program operations are made, and the names of the scopes around them."""

from veery._core.absent import attributes as _attributes
from veery._core.source import (
    SourceInfo as SourceInfo,
    current as current,
    current_name_stack as current_name_stack,
    extend_name_stack as extend_name_stack,
    fresh,
    pass_over as _pass_over,
)

reset_name_stack = fresh


def register_exclusion(path: str) -> None:
    """Take files whose names begin with `path` for those of a library: operations belong to whoever calls it."""
    _pass_over(path)


def new_source_info() -> SourceInfo:
    """No place."""
    return SourceInfo(None, 0)


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The file, line and function of a place, as text."""
    return str(source_info)


__getattr__, __dir__ = _attributes(__name__)
