"""The arrays that are alive, as a profile of memory in pprof's format.

A profile is a message of protocol buffers, https://github.com/google/pprof/blob/main/proto/profile.proto, whose few
fields are written here by hand.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from typing import Any


def profile(buffers: Iterable[Any]) -> bytes:
    """Buffers by shape, dtype and device, with their number and bytes: a compressed pprof profile."""
    found: Counter[tuple[str, str]] = Counter()
    sizes: dict[tuple[str, str], int] = {}
    for buffer in buffers:
        key = f"{buffer.dtype.name}[{','.join(map(str, buffer.shape))}]", str(buffer.device)
        found[key] += 1
        sizes[key] = buffer.nbytes
    strings = _Strings()
    message = b"".join(
        _field(1, _number(1, strings[kind]) + _number(2, strings[unit]))
        for kind, unit in (("allocations", "count"), ("space", "bytes"))
    )
    for place, ((what, device), count) in enumerate(sorted(found.items()), 1):
        values = _packed([count, count * sizes[what, device]])
        labels = [("kind", "buffer"), ("device", device)]
        label = b"".join(_field(3, _number(1, strings[k]) + _number(2, strings[v])) for k, v in labels)
        message += _field(2, _field(1, _packed([place])) + _field(2, values) + label)
        message += _field(4, _number(1, place) + _field(4, _number(1, place)))  # a location, of one line of
        message += _field(5, _number(1, place) + _number(2, strings[what]))  # this function
    message += b"".join(_field(6, text.encode()) for text in strings.texts)
    return gzip.compress(message)


class _Strings:
    """The table of texts, by which other fields name them; the first is empty."""

    def __init__(self) -> None:
        self.texts = {"": 0}

    def __getitem__(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


def _packed(values: Iterable[int]) -> bytes:
    return b"".join(map(_varint, values))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
