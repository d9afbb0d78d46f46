"""What a buffer holds of a plugin: one of its buffers, which may still be being computed."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from veery_runtime.errors import translate

if TYPE_CHECKING:
    from veery_runtime.pjrt.api import PjrtError
    from veery_runtime.pjrt.client import Client

# A struct of one field, for functions that write nothing into it: 0.1 us, where ctypes takes 0.9.
_one_field = struct.Struct(f"<QQQ{8 * 8}x")

# Work that is expected to take longer than this many operations is waited for in slices, so that Ctrl-C is noticed; the
# wait for shorter work is the plugin's own, which takes 20 us less.
LONG_WORK = 100_000_000


def one_field(address: int, pack: Callable[..., bytes] = _one_field.pack, size: int = _one_field.size) -> bytes:
    """The struct of a function that takes one pointer. At exit the module has lost its names."""
    return pack(size, 0, address)


class Origin:
    """What all buffers have in common that one kind of work makes.

    Attributes:
        client: whose they are.
        name: of the work, for messages.
        wait_for: blocks until the contents of a buffer are there, and returns what their work failed with.
    """

    __slots__ = ("client", "name", "wait_for")

    def __init__(self, client: Client, name: str, is_long: bool = False) -> None:
        """A kind of work.

        Args:
            client: whose buffers it makes.
            name: for messages.
            is_long: whether it may take long.
        """
        self.client = client
        self.name = name
        self.wait_for: Callable[[Any], PjrtError | None] = self._wait_long if is_long else client.wait_for

    def _wait_long(self, buffer: Any) -> PjrtError | None:
        self.client.wait_interruptibly(buffer._ref, self.name)
        return self.client.wait_for(buffer)


class Work:
    """What makes some buffers, which are there together.

    Attributes:
        origin: the kind of work.
        is_done: whether it is known to have succeeded.
    """

    __slots__ = ("origin", "is_done", "_tells")

    def __init__(self, origin: Origin, tells: bool = True) -> None:
        """Work that has begun.

        Args:
            origin: the kind of work.
            tells: False where this stands for many calls of one result each, of which none tells of another.
        """
        self.origin = origin
        self.is_done = False
        self._tells = tells

    def wait(self, buffer: Any) -> None:
        """Blocks until it is finished; raises what it failed with.

        Args:
            buffer: one of its buffers, which has the address of the plugin's as its `_ref`.
        """
        error = self.origin.wait_for(buffer)
        if error is not None:
            raise translate(self.origin.name, error)
        self.is_done = self._tells


class Handle(int):
    """The address of a plugin's buffer, which is freed when nobody has it. It is also the state of the work behind it.

    Attributes:
        work: what makes it.
    """

    # No slots: integers have none.
    work: Work
    reported = False
    _event = 0

    def __new__(cls, address: int, work: Work, new: Callable[..., Any] = int.__new__) -> Handle:
        self: Handle = new(cls, address)
        self.work = work
        return self

    def __del__(self) -> None:
        client = self.work.origin.client
        if self._event:
            client.destroy_event(self._event)
        client.destroy_buffer(self)

    @property
    def _ref(self) -> Handle:
        return self

    @property
    def client(self) -> Client:
        """Whose it is."""
        return self.work.origin.client

    @property
    def name(self) -> str:
        """Of the work that makes it, for messages."""
        return self.work.origin.name

    def done(self) -> bool:
        """True when finished, successfully or not; never blocks."""
        return self.work.is_done or self.client.is_ready(self._ready())

    def failed(self) -> bool:
        """True when the work is known to have failed."""
        if self.work.is_done:
            return False
        event = self._ready()
        return self.client.is_ready(event) and self.client.error_of(event) is not None

    def wait(self) -> None:
        """Blocks until finished; raises what the work failed with."""
        if self.work.is_done:
            return
        try:
            self.work.wait(self)
        except Exception:
            self.reported = True
            raise

    def _ready(self) -> int:
        event = self._event
        if not event:
            event = self._event = self.client.ready_event(self)
        return event


class Shared(Handle):
    """The address of a plugin's buffer that has memory of NumPy's, which the plugin gives back on a thread of its own.

    Attributes:
        number: of what the client keeps until then.
    """

    number: int

    def __del__(self) -> None:
        self.client.lent.discard(self.number)
        super().__del__()  # `Handle` is gone when the interpreter ends


class View:
    """What reads the contents of a buffer on the host, which stay as they are until it goes.

    Attributes:
        address: of the contents.
    """

    __slots__ = ("_end", "_handle", "address")

    def __init__(self, client: Client, handle: Handle) -> None:
        self._end: Callable[[int], None] | None = None
        self.address = client.begin_view(handle)
        self._end, self._handle = client.end_view, handle

    def __del__(self) -> None:
        if self._end is not None:
            self._end(self._handle)


def text_buffer(content: bytes) -> tuple[Any, int]:
    """Bytes that a plugin reads: what keeps them alive, and their address."""
    held = ctypes.create_string_buffer(content, max(len(content), 1))
    return held, ctypes.addressof(held)
