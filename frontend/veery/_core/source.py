"""Where in the user's code something happened: the user's frame, the name stack, filtered tracebacks.

A frame is the user's when its file lies outside the three packages. `current()` runs for each traced operation, so it
only walks frames and keeps (code, instruction offset); file, line and column are worked out when they are asked for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable
from traceback import format_exception_only
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

from veery._core.config import config

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PARENT = os.path.dirname(_PACKAGE)
_ROOT = os.path.dirname(_PARENT)
# The packages side by side (installed) and in their three source roots.
_INTERNAL_FOLDERS = (
    _PACKAGE + os.sep,
    os.path.join(_PARENT, "veery_lowering") + os.sep,
    os.path.join(_PARENT, "veery_runtime") + os.sep,
    os.path.join(_ROOT, "lowering", "veery_lowering") + os.sep,
    os.path.join(_ROOT, "runtime", "veery_runtime") + os.sep,
)


class _InternalFiles(dict[str, bool]):
    """Whether a file belongs to veery, by name; a dictionary, because a hit costs 20 ns."""

    def __missing__(self, filename: str) -> bool:
        internal = self[filename] = os.path.abspath(filename).startswith(_INTERNAL_FOLDERS)
        return internal


_internal_files = _InternalFiles()
_passed_over: list[str] = []


class _FilesPassedOver(dict[str, bool]):
    """Whether places in a file are no user's: those of veery, and of libraries that asked for it."""

    def __missing__(self, filename: str) -> bool:
        over = self[filename] = _internal_files[filename] or filename.startswith(tuple(_passed_over))
        return over


_files_passed_over = _FilesPassedOver()


def pass_over(path: str) -> None:
    """Take files whose names begin with `path` for those of a library: operations belong to whoever calls it."""
    _passed_over.append(path)
    _files_passed_over.clear()


def is_internal(code: CodeType) -> bool:
    """Whether the code belongs to veery itself."""
    return _internal_files[code.co_filename]


def user_frame() -> FrameType | None:
    """The innermost frame of the caller's stack outside veery, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    internal = _files_passed_over
    while frame is not None and internal[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def user_stacklevel() -> int:
    """The `stacklevel` with which `warnings.warn`, called by this function's caller, points at the user's line."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and _files_passed_over[frame.f_code.co_filename]:
        frame = frame.f_back
        level += 1
    return level


class SourceInfo:
    """A place in the user's code.

    Attributes:
        file: the file's name, "<unknown>" when there is no user frame.
        line: its line, 0 when unknown.
        column: the first column of the expression, counted from 1, or 0.
        function: the qualified name of the user's function.
        name_stack: the names of the scopes and transformations around it, as "encoder/jvp(layer)/norm".
    """

    __slots__ = ("_code", "_lasti", "_stack")

    def __init__(self, code: CodeType | None, lasti: int, stack: str = ""):
        self._code = code
        self._lasti = lasti
        self._stack = stack

    @property
    def name_stack(self) -> str:
        return _written(self._stack)

    @property
    def file(self) -> str:
        return self._code.co_filename if self._code is not None else "<unknown>"

    @property
    def line(self) -> int:
        return self._position()[0]

    @property
    def column(self) -> int:
        return self._position()[1]

    @property
    def function(self) -> str:
        return self._code.co_qualname if self._code is not None else "<unknown>"

    @property
    def place(self) -> tuple[Any, ...]:
        """What tells places apart, those of one line too."""
        return self._code, self._lasti

    def _position(self) -> tuple[int, int]:
        if self._code is None:
            return 0, 0
        # One entry for each two bytes of bytecode.
        line, _, column, _ = next(itertools.islice(self._code.co_positions(), self._lasti // 2, None))
        return line or self._code.co_firstlineno, 0 if column is None else column + 1

    def replace(self, stack: str) -> SourceInfo:
        """The same place under another name stack."""
        return SourceInfo(self._code, self._lasti, stack)

    def __reduce__(self) -> tuple[Any, ...]:
        # Code objects cannot be pickled; the place can only be told.
        return _TextSourceInfo, (self.file, self.line, self.column, self.function, self._stack)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})" if self._code is not None else "<unknown>"

    def __repr__(self) -> str:
        return f"SourceInfo({self})"


class _TextSourceInfo(SourceInfo):
    """A SourceInfo from another process."""

    __slots__ = ("_text",)

    def __init__(self, file: str, line: int, column: int, function: str, stack: str):
        super().__init__(None, 0, stack)
        self._text = (file, line, column, function)

    file = property(lambda self: self._text[0])
    place = property(lambda self: self._text)
    function = property(lambda self: self._text[3])

    def _position(self) -> tuple[int, int]:
        return self._text[1:3]

    def replace(self, stack: str) -> SourceInfo:
        return _TextSourceInfo(*self._text, stack)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})" if self.line else "<unknown>"


UNKNOWN = SourceInfo(None, 0)


def current() -> SourceInfo:
    """The user's place now, with the present name stack; within `use`, the place in use."""
    names = _names
    if (place := names.place) is not None:
        return place if place._stack == names.stack else place.replace(names.stack)
    frame: FrameType | None = sys._getframe(1)
    internal = _files_passed_over
    while frame is not None and internal[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return SourceInfo(None, 0, names.stack)
    return SourceInfo(frame.f_code, frame.f_lasti, names.stack)


def of_function(fun: Callable[..., Any]) -> SourceInfo:
    """The place where `fun` is defined, UNKNOWN for one that is not written in Python."""
    while not hasattr(fun, "__code__"):
        inner = getattr(fun, "__wrapped__", None) or getattr(fun, "func", None)
        if inner is None:
            return UNKNOWN
        fun = inner
    return SourceInfo(fun.__code__, 0)


# The name stack: names separated by "/". Those of transformations are marked, and embrace the name that follows.

_TRANSFORM = "\0"


def _written(stack: str) -> str:
    """The stack as people see it: "jvp" around "layer/norm" is "jvp(layer)/norm"."""
    if _TRANSFORM not in stack:
        return stack
    parts: list[str] = []
    for name in reversed(stack.split("/")):
        if name.startswith(_TRANSFORM):
            inner = parts.pop() if parts else ""
            name = f"{name[1:]}({inner})"
        parts.append(name)
    return "/".join(reversed(parts))


class _Names(threading.local):
    stack: str = ""
    place: SourceInfo | None = None
    pinned: SourceInfo | None = None


_names = _Names()


def raw_name_stack() -> str:
    """What `use` takes for the names around this point."""
    return _names.stack


def current_name_stack() -> str:
    """The names of the scopes and transformations around this point, separated by "/"."""
    return _written(_names.stack)


class extend_name_stack(contextlib.ContextDecorator):
    """Pushes a name, e.g. "jit(f)", onto the name stack while the block runs."""

    def __init__(self, name: str):
        self._name = name
        self._outer: list[str] = []

    def __enter__(self) -> None:
        outer = _names.stack
        self._outer.append(outer)
        _names.stack = f"{outer}/{self._name}" if outer else self._name

    def __exit__(self, *exception: object) -> None:
        _names.stack = self._outer.pop()

    def _recreate_cm(self) -> extend_name_stack:
        return type(self)(self._name)


def transformation(name: str) -> extend_name_stack:
    """Names what a transformation makes, e.g. "jvp", while the block runs."""
    return extend_name_stack(_TRANSFORM + name)


class use:
    """Makes `info` the current place while the block runs: operations made from an equation keep its place and names.

    The equation's names go below those around the evaluation, of which `within` (a raw stack) is not repeated. None
    changes nothing.
    """

    __slots__ = ("_info", "_within", "_outer")

    def __init__(self, info: SourceInfo | None, within: str = ""):
        self._info = info
        self._within = within

    def __enter__(self) -> None:
        names, info = _names, self._info
        self._outer = (names.place, names.stack)
        if info is not None:
            names.place = info
            inner = info._stack.removeprefix(self._within + "/") if self._within else info._stack
            if inner:
                names.stack = f"{names.stack}/{inner}" if names.stack else inner

    def __exit__(self, *exception: object) -> None:
        _names.place, _names.stack = self._outer


class fresh:
    """Starts an empty name stack, and no place in use, while the block runs: where the tracing of a jaxpr begins.

    The names of its equations are relative to the jaxpr; those around its evaluation are put before them then.
    """

    __slots__ = ("_outer",)

    def __enter__(self) -> None:
        self._outer = (_names.place, _names.stack)
        _names.place, _names.stack = None, ""

    def __exit__(self, *exception: object) -> None:
        _names.place, _names.stack = self._outer


class named_scope(extend_name_stack):
    """Names the operations of a block, in jaxprs and in the compiled program's locations.

    Args:
        name: the scope's name; scopes nest, separated by "/". Also a decorator.

    Raises:
        TypeError: the name is not a string.

    >>> with named_scope("encoder"):
    ...     current_name_stack()
    'encoder'
    """

    def __init__(self, name: str):
        if not isinstance(name, str):
            raise TypeError(f"named_scope name argument must be a string, got {name!r} of type {type(name)}")
        super().__init__(name)


# Traceback filtering.

_NOTE = (
    "--------------------\n"
    "For simplicity, veery has removed its internal frames from the traceback of the following exception. "
    "Set VEERY_TRACEBACK_FILTERING=off to include these."
)


hidden_paths: list[str] = []  # the beginnings of names of files whose frames are left out too


def hide(path: str) -> None:
    """Leave frames of files whose names begin with `path` out of tracebacks, as those of veery are."""
    hidden_paths.append(path)


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is shown in tracebacks."""
    return not _is_hidden(frame.f_code)


def _is_hidden(code: CodeType) -> bool:
    return is_internal(code) or code.co_filename.startswith(tuple(hidden_paths))


def _user_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without veery's frames; None when no other remains."""
    entries = []
    while traceback is not None:
        if not _is_hidden(traceback.tb_frame.f_code):
            entries.append(traceback)
        traceback = traceback.tb_next
    result = None
    for entry in reversed(entries):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _length(traceback: TracebackType | None) -> int:
    count = 0
    while traceback is not None:
        traceback, count = traceback.tb_next, count + 1
    return count


def _chain(error: BaseException) -> list[BaseException]:
    """The exception, its causes and contexts."""
    chain: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and each not in chain:
            chain.append(each)
            pending += [each.__cause__, each.__context__]
    return chain


class UnfilteredStackTrace(Exception):
    """The cause of an exception that shows the user's frames alone: with all frames, and the cause that it had."""

    shown: TracebackType | None  # what is left of the traceback


def _unfiltered(error: BaseException) -> UnfilteredStackTrace:
    """An exception with all frames of one that is to be filtered, or that was by a boundary further in."""
    whole = error.__cause__
    if isinstance(whole, UnfilteredStackTrace):
        outer, traceback = [], error.__traceback__
        while traceback is not None and traceback is not whole.shown:
            outer.append(traceback)
            traceback = traceback.tb_next
        for entry in reversed(outer):
            whole.__traceback__ = TracebackType(whole.__traceback__, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        return whole
    message = "".join(format_exception_only(error)).strip()
    whole = UnfilteredStackTrace(
        f"{message}\n\nThis stack trace is whole; the one below leaves veery's own frames out."
    )
    whole.__cause__, whole.__context__ = error.__cause__, error.__context__
    whole.__suppress_context__ = error.__suppress_context__
    return whole.with_traceback(error.__traceback__)


def filter_traceback(error: BaseException, note: bool = True) -> None:
    """Takes veery's frames out of the traceback of `error` and of its causes, in place, as the setting says.

    A bare `raise` right after this call adds no frame of its own.
    """
    mode = config.jax_traceback_filtering
    if mode == "off":
        return
    if mode == "tracebackhide":
        _mark_hidden(error.__traceback__)
        return
    whole = _unfiltered(error) if mode == "remove_frames" else None
    removed = 0
    for each in _chain(error):
        if isinstance(each, UnfilteredStackTrace):
            continue
        filtered = _user_traceback(each.__traceback__)
        if filtered is not None:
            removed += _length(each.__traceback__) - _length(filtered)
            each.__traceback__ = filtered
    # The boundary's own frame is always one of those removed.
    if whole is not None:
        if removed > 1 or whole is error.__cause__:
            whole.shown = error.__traceback__
            error.__cause__ = whole
    elif note and removed > 1 and _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)


def _mark_hidden(traceback: TracebackType | None) -> None:
    while traceback is not None:
        if _is_hidden(traceback.tb_frame.f_code):
            traceback.tb_frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next


def api_boundary(fun: F) -> F:
    """Decorates a public function: exceptions leave it with the user's frames alone.

    What is shown follows `jax_traceback_filtering`: "off" (all frames), "tracebackhide" (veery's are marked, for
    IPython and pytest), "quiet_remove_frames" (taken out, with a note; the default), and "remove_frames" (taken out,
    and the cause has all).
    """

    @functools.wraps(fun)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise

    return boundary  # type: ignore[return-value]
