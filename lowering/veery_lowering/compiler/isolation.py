"""The compiler in processes of their own: what it does there ends no other.

The first compilation starts a helper process (helper.py), which has the compiler loaded and forks for each
compilation. Between the two is a socket, on which the helper gets two more for each compilation: one that it leaves to
the child, for the request and the answer, and one by which it says how the child ended, and learns that nobody waits
for it any more. When the first socket closes the helper ends, and with it all that it began.

Where forks are not safe, on macOS and Windows, each helper compiles itself, one program after the other, and there are
as many as compile at the same time.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veery_lowering.compiler import steps
from veery_lowering.compiler.helper import STALLED, Kind, receive, send
from veery_lowering.errors import CRASHED, STOPPED, CompileError, CompilerCrash, CompilerTimeout

_FORKS = hasattr(os, "fork") and sys.platform != "darwin"
# What the helper imports needs no more of this package than its modules, and so neither NumPy nor its threads, 35 ms of
# 110; MLIR's bindings load it if it is there, for what is not used here. Python's own modules come first: the folder of
# the user's script may have others of the same names.
_PROGRAM = """
import os, sys
if {forks} and os.fork():
    os._exit(0)
import types
sys.path += {path}
sys.modules["veery_lowering"] = types.ModuleType("veery_lowering")
sys.modules["veery_lowering"].__path__ = [{folder}]
sys.modules["numpy"] = None
from veery_lowering import mlir
del sys.modules["numpy"]
from veery_lowering.compiler import helper
helper.main({descriptor}, {forks}, {patience})  # of process {process}
"""
_REASON = re.compile(r"LLVM ERROR.*|.*Assertion .* failed.*|.*std::bad_alloc.*|\w*Error: .*")
_ATTEMPTS = 2  # a helper may be ended by something else, and of the compiler's threads each may wait for another
_PATIENCE = 60.0  # seconds


class Deadline:
    """When a compilation must be done: some seconds from now, or never if that is None."""

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        """The seconds that are left, more than none."""
        return None if self._end is None else max(self._end - time.monotonic(), 1e-3)


class _HelperLost(Exception):
    """The helper ended; what it said."""


class _Stalled(Exception):
    """A compilation stopped computing, and was ended."""


class _Helper:
    """A process that has the compiler loaded."""

    def __init__(self, forks: bool):
        self._forks = forks
        self._log = tempfile.TemporaryFile()
        self._socket, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET if forks else socket.SOCK_STREAM)
        with theirs:
            self._process = self._start(theirs)

    def _start(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        facts = {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "folder": str(Path(__file__).parents[1]),
            "descriptor": None if sys.platform == "win32" else theirs.fileno(),
            "forks": self._forks,
            "patience": _PATIENCE,
            "process": os.getpid(),
        }
        program = _PROGRAM.format(**{name: repr(fact) for name, fact in facts.items()})
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        options: dict[str, Any] = {"stdout": self._log, "stderr": self._log, "env": environment}
        executable = _interpreter()
        try:
            if sys.platform == "win32":
                options |= {"stdin": subprocess.PIPE, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
                process = subprocess.Popen([executable, "-S", "-P", "-c", program], **options)
                with process.stdin:
                    process.stdin.write(theirs.share(process.pid))
                return process
            # In a session of its own, Ctrl-C does not reach it.
            options |= {"stdin": subprocess.DEVNULL, "pass_fds": (theirs.fileno(),), "start_new_session": True}
            return subprocess.Popen([executable, "-S", "-P", "-c", program], **options)
        except OSError as error:
            raise CompileError(
                f"compile: the compiler runs in another process, and {executable!r} does not start: {error}"
            ) from error

    def call(self, request: bytes, kind: Kind, deadline: Deadline) -> Any:
        """What a compilation answers.

        Raises:
            CompilerCrash: it ended without an answer.
            CompilerTimeout: it was stopped.
            _HelperLost: the helper ended.
            _Stalled: it stopped computing.
        """
        try:
            return self._call_child(request, kind, deadline) if self._forks else self._call_itself(request, deadline)
        except TimeoutError:
            raise CompilerTimeout(f"{STOPPED} after {deadline.seconds:g} s (veery_compiler_timeout)") from None

    def _call_child(self, request: bytes, kind: Kind, deadline: Deadline) -> Any:
        self._process.wait()  # it left at once, the helper is its child
        answer, child_end = socket.socketpair()
        state, helper_end = socket.socketpair()
        try:
            with child_end, helper_end:
                try:
                    ends = [child_end.fileno(), helper_end.fileno()]
                    socket.send_fds(self._socket, [pickle.dumps(kind)], ends)
                except OSError:
                    raise _HelperLost(self._said()) from None
            try:
                reply = _exchange(answer, request, deadline)
                with contextlib.suppress(OSError):
                    state.send(b"+")
                return reply
            except (ConnectionError, EOFError):
                pass
            try:
                status, text = receive(state)
            except (ConnectionError, EOFError):
                raise _HelperLost(self._said()) from None
            if status == STALLED:
                raise _Stalled
            raise _crash(status, text)
        finally:
            for end in (answer, state):  # of which a process that was forked meanwhile may have copies
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _call_itself(self, request: bytes, deadline: Deadline) -> Any:
        try:
            return _exchange(self._socket, request, deadline)
        except (ConnectionError, EOFError):
            crash = _crash(self._process.wait(), self._said())
            self.close()
            raise crash from None
        except BaseException:
            self.close()
            raise

    def is_alive(self) -> bool:
        return self._forks or self._process.poll() is None

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def close(self) -> None:
        """Let the helper end, with all that it compiles."""
        self._socket.close()
        self._log.close()
        if not self._forks:
            self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Close what a forked process has of its parent's helper."""
        self._socket.close()
        self._process.returncode = 0  # so that it is not waited for


def _exchange(connection: socket.socket, request: bytes, deadline: Deadline) -> Any:
    connection.settimeout(deadline.left())
    send(connection, request)
    while isinstance(message := receive(connection, deadline.left), steps.Step):
        steps.begin(message.text)
    return message


def _crash(status: int | None, text: str) -> CompilerCrash:
    """What a process died of, as far as it said so."""
    said = _REASON.findall(text)
    if status is None:
        how = "it cannot be forked"
    elif status == -getattr(signal, "SIGKILL", 9):
        how = "SIGKILL: the system was out of memory, or somebody ended it"
    else:
        try:
            how = signal.Signals(-status).name
        except ValueError:
            how = f"exit status {status}"
    return CompilerCrash(f"{CRASHED} ({f'{how}: {said[-1]}' if said else how})")


def _interpreter() -> str:
    """A Python interpreter: this process may be another program that has one in it."""
    if getattr(sys, "frozen", False):
        raise CompileError(_NO_INTERPRETER)
    name = "python.exe" if sys.platform == "win32" else f"bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = [sys.executable, getattr(sys, "_base_executable", None), str(Path(sys.base_exec_prefix) / name)]
    for candidate in candidates:
        if candidate and "python" in Path(candidate).name.lower() and os.access(candidate, os.X_OK):
            return candidate
    raise CompileError(_NO_INTERPRETER)


_NO_INTERPRETER = (
    "compile: the compiler runs in another process, and there is no Python interpreter to start it with; "
    "veery_compiler_isolation='never' has it run in this process"
)

_lock = threading.Lock()
_idle: list[_Helper] = []  # one, where helpers fork


def start() -> None:
    """Have a helper get ready, unless there is one."""
    with _lock:
        if not _idle:
            _idle.append(_Helper(_FORKS))


def run_pipeline(
    module: bytes,
    flags: tuple[str, ...],
    phase: str | None = None,
    changes: tuple[Callable[[Any], Any], ...] = (),
    prelude: str = "",
    check: tuple[str, Callable[[Any], None]] | None = None,
    locations: bool = False,
    shortly: bool = False,
    parts: str | None = None,
    shaders: Callable[[Any], Any] | None = None,
    *,
    deadline: Deadline | None = None,
) -> Any:
    """`sessions.run_pipeline` in another process; several threads may compile at the same time.

    Args:
        module, flags, phase: as there.
        changes, check, shaders: as there; importable functions.
        prelude, locations, shortly, parts: as there.
        deadline: when it must be done.

    Raises:
        CompileError: there is no such process.
        CompilerCrash: it crashed, or was out of memory.
        CompilerTimeout: it was not done in time.
        Exception: what `sessions.run_pipeline` raises.
    """
    from veery_lowering.compiler import sessions

    arguments = module, flags, phase, changes, prelude, check, locations, shortly, parts, shaders
    # A session that writes into a folder of this call's serves no other call, and one made ahead would make the folder
    # again, after it was removed.
    lasting = () if any(flag.startswith("--iree-hal-dump-") for flag in flags) else flags
    return call(sessions.run_pipeline, *arguments, kind=(sessions.of_session(lasting), shortly), deadline=deadline)


def call(
    function: Callable[..., Any],
    *arguments: Any,
    kind: Kind = ((), False),
    deadline: Deadline | None = None,
    memory: int | None = None,
) -> Any:
    """What an importable function of this package returns in another process.

    Args:
        function, arguments: what is called.
        kind: the flags of the session that it uses, and whether the short pipeline does.
        deadline: when it must be done.
        memory: how many bytes it may take, where each call has a process of its own; None for as many as there are.

    Raises:
        CompileError, CompilerCrash, CompilerTimeout: as `run_pipeline` does.
        Exception: what the function raises.
    """
    steps.begin("waiting for the compiler's process")
    request = pickle.dumps((_folder(), dict(os.environ), function, arguments, memory), pickle.HIGHEST_PROTOCOL)
    result, problem, printed = _call(request, kind, deadline or Deadline(None))
    if printed:
        sys.stderr.write(printed)
    if problem is not None:
        raise problem
    return result


def _call(request: bytes, kind: Kind, deadline: Deadline) -> Any:
    said = ""
    for _ in range(_ATTEMPTS):
        helper = _take()
        try:
            reply = helper.call(request, kind, deadline)
        except _HelperLost as lost:
            said = str(lost)
            _drop(helper)
        except _Stalled:
            said = f"It stopped computing for {_PATIENCE:g} s."
        except CompilerCrash:
            _give_back(helper)
            raise
        else:
            _give_back(helper)
            return reply
    raise CompileError(f"compile: the process in which the compiler runs was ended {_ATTEMPTS} times. {said[-500:]}")


def _take() -> _Helper:
    with _lock:
        while _idle and not _idle[-1].is_alive():
            _idle.pop().close()
        if not _idle:
            _idle.append(_Helper(_FORKS))
        return _idle[-1] if _FORKS else _idle.pop()


def _give_back(helper: _Helper) -> None:
    if not _FORKS and helper.is_alive():
        with _lock:
            _idle.append(helper)


def _drop(helper: _Helper) -> None:
    with _lock:
        if helper in _idle:
            _idle.remove(helper)
            helper.close()


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _after_fork() -> None:
    """A forked process has a helper of its own."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
