"""What runs in the process that has the compiler loaded; isolation.py is its other side.

It has one thread, so that its forks are sound, and holds nothing of its parent open but their socket. A child that is
done waits for another compilation with the same options: `x + 1` takes 45 ms there, and 62 in a new one. All wait for a
second; the last one, if it is of small programs and so has 20 MB of its own, for a minute, so that who thinks between
two programs has it, too.
For options that are known to work the helper keeps a session that has done once what each new one does, which its forks
inherit.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from veery_lowering.compiler import steps

STALLED = "stalled"  # said instead of a status
_LENGTH = 8
_LARGEST_FLAGS = 1 << 16
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_PAUSE = 0.1  # seconds without a request after which there is time to prepare a session
_STAYS = 1.0  # seconds that a child waits for another compilation
_LAST_STAYS = 60.0  # the same of the last one, if it is light
# Bytes that a child may take more than when it began: a context keeps what was ever in it. 80 MB of those, of which it
# reads most in a file, are the compiler's.
_GROWTH = 1 << 29
_LIGHT = 1 << 28
_MAY_STAY, _MAY_WAIT = b"+", b"-"  # what a child says that is done: whether it is light

Kind = tuple[tuple[str, ...], bool]  # of compilations: flags, and whether by the short pipeline


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message that `receive` reads, a pickled object."""
    connection.sendall(len(message).to_bytes(_LENGTH, "little"))
    connection.sendall(message)


def receive(connection: socket.socket, left: Callable[[], float | None] = lambda: None) -> Any:
    """The object that a message has; `left` says how many seconds it may take from now.

    Raises:
        EOFError, ConnectionError: the other side is gone.
        TimeoutError: it takes too long.
    """
    size = int.from_bytes(_read(connection, _LENGTH, left), "little")
    return pickle.loads(_read(connection, size, left))


def _read(connection: socket.socket, size: int, left: Callable[[], float | None]) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        connection.settimeout(left())
        count = connection.recv_into(view[done:])
        if not count:
            raise EOFError
        done += count
    return data


def main(descriptor: int | None, forks: bool, patience: float) -> None:
    """Compile until the other side is gone.

    Args:
        descriptor: of the socket; None if standard input says which it is.
        forks: whether each compilation is to have a process of its own.
        patience: after how many seconds one is ended that has stopped computing.
    """
    control = socket.socket(fileno=descriptor) if descriptor is not None else _shared()
    control.set_inheritable(False)
    # What requests name is loaded before forks.
    from veery_lowering.compiler import sessions  # noqa: F401
    from veery_lowering.emit import versioned  # noqa: F401
    from veery_lowering.passes import changes  # noqa: F401
    from veery_lowering.passes.stream import overwriting  # noqa: F401
    from veery_lowering.passes.vm import allocation, branches, dispatches, queues  # noqa: F401

    gc.collect()
    gc.freeze()
    if forks:
        _Server(control, patience).run()
    else:
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                _answer(control)


def _shared() -> socket.socket:
    if sys.platform != "win32":
        raise AssertionError
    return socket.fromshare(sys.stdin.buffer.read())


def _answer(
    connection: socket.socket, temporary: str | None = None, ward: socket.socket | None = None, begun: int = 0
) -> bool:
    """Do what is asked for; whether this process can do more. Standard error is a file, which tells what was printed.

    Of a forked process `temporary` is its own folder for temporary files, and `begun` how many bytes it took when it
    began. On `ward` it says that it can do more: before it answers, so that it is known when the next request comes.
    """
    folder, environment, function, arguments, memory = receive(connection)
    if temporary is not None:
        environment["TMPDIR"] = tempfile.tempdir = temporary
        if memory is not None:
            _bound_memory(memory)
    if folder is not None:
        with contextlib.suppress(OSError):
            os.chdir(folder)
    if environment != os.environ:
        os.environ.clear()
        os.environ.update(environment)
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    result = problem = None
    try:
        with steps.heard_by(lambda text: send(connection, pickle.dumps(steps.Step(text)))):
            result = function(*arguments)
    except Exception as error:
        problem = _sendable(error)
    reply = pickle.dumps((result, problem, _text(2)), pickle.HIGHEST_PROTOCOL)
    more = False
    if ward is not None and problem is None and memory is None:
        grown = _most_memory() - begun
        more = grown < _GROWTH
        if more:
            ward.send(_MAY_STAY if grown < _LIGHT else _MAY_WAIT)
    send(connection, reply)
    return more


def _sendable(error: Exception) -> Exception:
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
        return copy
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _text(file: int) -> str:
    size = os.lseek(file, 0, os.SEEK_END)
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, size).decode(errors="replace")


@dataclass
class _Child:
    """A process that compiles, or waits for that.

    Attributes:
        process: its number.
        ward: a socket between the two, on which it says that it is done, and gets what it shall do next.
        state: where is said how a compilation ended; None while it waits.
        since: when it was done.
        is_light: whether it took little memory.
    """

    process: int
    ward: socket.socket
    state: socket.socket | None
    log: IO[bytes]
    folder: tempfile.TemporaryDirectory[str]  # for its temporary files: killed, it leaves them
    kind: Kind
    since: float = 0.0
    is_light: bool = False


class _Server:
    """Has children compile."""

    def __init__(self, control: socket.socket, patience: float):
        self._control = control
        self._patience = patience
        self._active: dict[int, tuple[float, int | None]] = {}  # by process: since when, and its processor time
        self._stalled: set[int] = set()
        self._children: list[_Child] = []
        self._files: dict[int, _Child] = {}  # children by the descriptors of their sockets
        self._ready: set[Kind] = set()
        self._proven: Counter[Kind] = Counter()  # compilations that went well, of kinds that have no session yet
        self._ended, self._wake = os.pipe()
        self._poll = select.poll()
        self._prctl = _prctl()
        self._process = os.getpid()

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for file in (self._ended, self._control):
            self._poll.register(file, select.POLLIN)
        while True:
            waiting = [child for child in self._children if child.state is None]
            computing = len(waiting) < len(self._children)
            times = [self._stays_until(child) - time.monotonic() for child in waiting]
            if computing:
                times.append(self._patience / 4)
            elif self._proven:
                times.append(_STAYS if waiting else _PAUSE)
            events = self._poll.poll(1000 * max(0.0, min(times)) if times else None)
            if not events and self._proven and not computing:
                self._prepare(self._proven.most_common(1)[0][0])
            self._end_stalled()
            for descriptor, _ in events:
                if descriptor == self._ended:
                    os.read(self._ended, 1 << 12)
                    self._reap()
                elif descriptor in self._files:
                    self._hear(self._files[descriptor], descriptor)
                elif descriptor == self._control.fileno() and not self._begin():
                    for child in self._children:
                        _kill(child.process)
                    return
            for child in waiting:
                if child.state is None and time.monotonic() >= self._stays_until(child):
                    self._forget(child.ward)  # it ends

    def _stays_until(self, child: _Child) -> float:
        """How long a child waits that is done."""
        is_last = not any(c.since > child.since for c in self._children if c.state is None and c.kind == child.kind)
        return child.since + (_LAST_STAYS if child.is_light and is_last else _STAYS)

    def _begin(self) -> bool:
        """Begin a compilation, in a child that waits for one or a new one; false if there will be no more."""
        try:
            message, files, _, _ = socket.recv_fds(self._control, _LARGEST_FLAGS, 2)
        except ConnectionError:
            return False
        if not message:
            return False
        connection, state = (socket.socket(fileno=file) for file in files)
        kind: Kind = pickle.loads(message)
        with connection:
            for file in (connection, state):
                file.set_inheritable(False)
            state.setblocking(False)
            child = self._give(connection, state, kind) or self._fork(connection, state, kind)
            if child is not None:
                self._watch(state, child)
        return True

    def _give(self, connection: socket.socket, state: socket.socket, kind: Kind) -> _Child | None:
        """A child that waited, and compiles now; None if there is none."""
        for child in self._children:
            if child.state is not None:  # which may be done by now
                self._hear(child, child.ward.fileno())
            if child.state is None and child.kind == kind and child.ward.fileno() >= 0:
                with contextlib.suppress(OSError):
                    socket.send_fds(child.ward, [b"+"], [connection.fileno()])
                    child.state = state
                    return child
        return None

    def _watch(self, file: socket.socket, child: _Child) -> None:
        self._files[file.fileno()] = child
        self._poll.register(file, select.POLLIN)

    def _forget(self, file: socket.socket) -> None:
        """Close a socket."""
        if file.fileno() >= 0:
            if self._files.pop(file.fileno(), None) is not None:
                self._poll.unregister(file)
            file.close()

    def _fork(self, connection: socket.socket, state: socket.socket, kind: Kind) -> _Child | None:
        """A new child that compiles; None where there can be none."""
        ward, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        ward.setblocking(False)
        with theirs:
            try:
                log = tempfile.TemporaryFile()
                folder = tempfile.TemporaryDirectory(prefix="veery-compile-", ignore_cleanup_errors=True)
                process = os.fork()
            except OSError as error:
                ward.close()
                _tell(state, None, f"OSError: {error}")
                return None
            if process == 0:
                ward.close()
                self._become_child(connection, state, theirs, log, folder.name, kind)
        with contextlib.suppress(OSError):  # whichever of the two is first
            os.setpgid(process, process)
        child = _Child(process, ward, state, log, folder, kind)
        self._children.append(child)
        self._watch(ward, child)
        return child

    def _become_child(
        self,
        connection: socket.socket,
        state: socket.socket,
        ward: socket.socket,
        log: IO[bytes],
        folder: str,
        kind: Kind,
    ) -> None:
        from veery_lowering.compiler import sessions

        status = 1
        try:
            os.setpgid(0, 0)
            self._prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != self._process:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for file in (state, self._control, *(file for c in self._children for file in (c.state, c.ward) if file)):
                file.close()
            for output in (1, 2):
                os.dup2(log.fileno(), output)
            _go_first()
            if kind[1]:
                sessions.hasten()
            begun = _most_memory()
            while _answer(connection, folder, ward, begun):
                connection.close()
                message, files, _, _ = socket.recv_fds(ward, 1, 1)
                if not message:
                    status = 0
                    break
                connection = socket.socket(fileno=files[0])
                connection.set_inheritable(False)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)

    def _hear(self, child: _Child, descriptor: int) -> None:
        """The other side has its answer, or gave up; or a child is done, or has ended."""
        if descriptor == child.ward.fileno():
            if descriptor < 0:
                return
            try:
                said = child.ward.recv(1)
            except BlockingIOError:
                return
            except ConnectionError:
                said = b""
            if not said:  # it is reaped
                self._forget(child.ward)
                return
            if child.state is not None:
                self._forget(child.state)
            child.state, child.since, child.is_light = None, time.monotonic(), said == _MAY_STAY
            self._active.pop(child.process, None)
            if child.kind[0] and child.kind not in self._ready:
                self._proven[child.kind] += 1
            if not child.kind[0]:
                self._forget(child.ward)
            return
        assert child.state is not None
        try:
            answered = child.state.recv(1) == b"+"
        except BlockingIOError:  # that was about another child
            return
        except ConnectionError:
            answered = False
        if not answered:
            _kill(child.process)
        self._files.pop(descriptor)
        self._poll.unregister(descriptor)

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            for child in [child for child in self._children if child.process == process]:
                self._children.remove(child)
                self._forget(child.ward)
                if child.state is not None:
                    if self._files.pop(child.state.fileno(), None) is not None:
                        self._poll.unregister(child.state)
                    stalled = process in self._stalled
                    _tell(
                        child.state,
                        STALLED if stalled else os.waitstatus_to_exitcode(status),
                        _text(child.log.fileno()),
                    )
                child.log.close()
                child.folder.cleanup()
                self._stalled.discard(process)
                self._active.pop(process, None)

    def _end_stalled(self) -> None:
        """End the children of which no thread computes any more: they wait for each other."""
        now = time.monotonic()
        for process in [child.process for child in self._children if child.state is not None]:
            spent = _processor_time(process)
            since, before = self._active.get(process, (now, None))
            if spent is None or spent != before:
                self._active[process] = now, spent
            elif now - since >= self._patience:
                self._stalled.add(process)
                _kill(process)

    def _prepare(self, kind: Kind) -> None:
        from veery_lowering.compiler import sessions

        self._proven.pop(kind, None)
        self._ready.add(kind)
        closed = sessions.prepare(*kind)
        self._ready = {kind for kind in self._ready if kind[0] not in closed}
        gc.collect()
        gc.freeze()


def _processor_time(process: int) -> int | None:
    """What a process and those it began have computed, in ticks; None while they do so, and where that is not known."""
    total = 0
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/stat") as file:
                state, *numbers = file.read().rpartition(")")[2].split()
            if state in "RD":
                return None
            total += int(numbers[10]) + int(numbers[11])  # in user and in kernel mode
            with open(f"/proc/{process}/task/{thread}/children") as file:  # the linker
                spent = [_processor_time(int(child)) for child in file.read().split()]
            if None in spent:
                return None
            total += sum(filter(None, spent))
    except OSError:
        return None
    return total


def _tell(state: socket.socket, status: int | str | None, text: str) -> None:
    with state, contextlib.suppress(OSError):
        send(state, pickle.dumps((status, text[-(1 << 14) :])))


def _kill(process: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process, signal.SIGKILL)


def _go_first() -> None:
    """Where memory runs out, the system shall end this process; it shall leave no image of its memory."""
    import resource

    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _most_memory() -> int:
    """The most bytes that this process has had so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _bound_memory(more: int) -> None:
    """Have this process get no more than so many bytes beside those that it has."""
    import resource

    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm") as file:
        pages = int(file.read().split()[5])  # of data
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + more, hard))


def _prctl() -> Callable[..., Any]:
    import ctypes

    return getattr(ctypes.CDLL(None), "prctl", lambda *_: None)
