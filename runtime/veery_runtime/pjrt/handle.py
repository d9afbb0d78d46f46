"""What a buffer holds of a plugin: one of its buffers, which may still be being computed."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from veery_runtime import completion
from veery_runtime.errors import translate

if TYPE_CHECKING:
    from veery_runtime.pjrt.client import Client

# A struct of one field, for functions that write nothing into it: 0.1 us, where ctypes takes 0.9.
_one_field = struct.Struct(f"<QQQ{8 * 8}x")
_SIZE = _one_field.size

# Work that is expected to take longer than this many operations is waited for in slices, so that Ctrl-C is noticed; the
# wait for shorter work is the plugin's own, which takes 20 us less.
LONG_WORK = 100_000_000


def one_field(address: int) -> bytes:
    """The struct of a function that takes one pointer."""
    return _one_field.pack(_SIZE, 0, address)


class Origin:
    """What all buffers have in common that one kind of work makes.

    Attributes:
        client: whose they are.
        name: of the work, for messages.
        is_long: whether it may take long.
    """

    __slots__ = ("client", "name", "is_long", "destroy_buffer")

    def __init__(self, client: Client, name: str, is_long: bool = False) -> None:
        self.client = client
        self.name = name
        self.is_long = is_long
        self.destroy_buffer = client.destroy_buffer


class Handle:
    """A buffer of a plugin, freed when nobody has it. It is also the state of the work that computes it.

    Attributes:
        address: of the plugin's buffer.
        origin: who makes it.
    """

    __slots__ = ("address", "origin", "reported", "_done", "_event", "__weakref__")

    def __init__(self, address: int, origin: Origin, done: list[bool]) -> None:
        self.address = address
        self.origin = origin
        self.reported = False
        self._done = done  # [whether it is there], shared by the results of a call, which are there together
        self._event = 0

    def __del__(self, packed: Callable[..., bytes] = _one_field.pack, size: int = _SIZE) -> None:
        # at exit the module has lost its names
        origin = self.origin
        if self._event:
            origin.client.destroy_event(packed(size, 0, self._event))
        origin.destroy_buffer(packed(size, 0, self.address))

    @property
    def client(self) -> Client:
        """Whose it is."""
        return self.origin.client

    @property
    def name(self) -> str:
        """Of the work that makes it, for messages."""
        return self.origin.name

    def done(self) -> bool:
        """True when finished, successfully or not; never blocks."""
        return self._done[0] or self.client.is_ready(self._ready())

    def failed(self) -> bool:
        """True when the work is known to have failed."""
        if self._done[0]:
            return False
        event = self._ready()
        return self.client.is_ready(event) and self.client.error_of(event) is not None

    def wait(self) -> None:
        """Blocks until finished; raises what the work failed with."""
        if self._done[0]:
            return
        origin = self.origin
        client = origin.client
        if origin.is_long:
            event = self._ready()
            if not client.is_ready(event):
                self._wait_interruptibly(event)
        error = client.wait_for(self.address)
        if error is not None:
            self.reported = True
            raise translate(origin.name, error)
        self._done[0] = True

    def _ready(self) -> int:
        event = self._event
        if not event:
            event = self._event = self.client.ready_event(self.address)
        return event

    def _wait_interruptibly(self, event: int) -> None:
        done = threading.Event()
        self.client.when_ready(event, done.set)
        while not done.wait(completion.SLICE_SECONDS):
            self.client.check_process(self.name)


def text_buffer(content: bytes) -> tuple[Any, int]:
    """Bytes that a plugin reads: what keeps them alive, and their address."""
    held = ctypes.create_string_buffer(content, max(len(content), 1))
    return held, ctypes.addressof(held)
