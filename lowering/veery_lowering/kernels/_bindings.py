"""What a kernel is given: memory, which small buffers share where there are more of them than a dispatch may have.

A solver of differential equations with adaptive steps carries 46 arrays and numbers through its loop. As a kernel it
takes them joined by dtype; what they are joined for costs microseconds, once for all trips.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from veery_lowering import stablehlo as hlo
from veery_lowering.kernels._arithmetic import spelled
from veery_lowering.kernels._forms import Buffer, stored

_SMALL = 1 << 12  # elements of a buffer that may share memory: more are not copied
_ALIGNMENT = 64  # bytes


@dataclass(frozen=True, eq=False)
class Binding:
    """Memory that a dispatch is given, and the buffers in it, one after the other.

    Attributes:
        element: what it consists of, as MLIR spells it.
        buffers: of such elements; of bytes they may be any.
    """

    element: str
    buffers: tuple[Buffer, ...]

    @property
    def single(self) -> Buffer | None:
        """The buffer that has it for itself."""
        only = self.buffers[0]
        return only if len(self.buffers) == 1 and spelled(stored(only.dtype)) == self.element else None

    @property
    def nbytes(self) -> int:
        """Its size."""
        return sum(map(_padded, self.buffers))

    @property
    def tensor(self) -> str:
        """Its type outside of the kernel."""
        if self.single is not None:
            element = f"complex<{self.element}>" if self.single.is_paired else self.element
            return f"tensor<{self.single.length}x{element}>"
        itemsize = 1 if self.element == "i8" else stored(self.buffers[0].dtype).itemsize
        return f"tensor<{self.nbytes // itemsize}x{self.element}>"

    def starts(self) -> Iterator[tuple[Buffer, int]]:
        """The buffers, and the bytes before each."""
        ends = itertools.accumulate(map(_padded, self.buffers), initial=0)
        return zip(self.buffers, ends)

    def joined(self, values: Mapping[Buffer, Any]) -> Any:
        """The values of its buffers as one."""
        if self.single is not None:
            return values[self.single]
        zero = hlo.full(0, (), hlo.dtype_of(values[self.buffers[0]]))
        widths = [_padded(buffer) // stored(buffer.dtype).itemsize - buffer.size for buffer in self.buffers]
        padded = [
            hlo.pad(values[b], zero, [0], [width]) if width else values[b] for b, width in zip(self.buffers, widths)
        ]
        return hlo.concatenate(padded, 0)

    def parts(self, value: Any) -> Iterator[tuple[Buffer, Any]]:
        """Its buffers with what they hold of its value."""
        if self.single is not None:
            yield self.single, value
            return
        for buffer, start in self.starts():
            begin = start // stored(buffer.dtype).itemsize
            yield buffer, hlo.slice(value, [begin], [begin + buffer.size])


def bindings(buffers: Iterable[Buffer], shared: bool = False) -> list[Binding]:
    """A binding for each buffer; with `shared`, one for all small ones of a kind of elements."""
    groups: defaultdict[Any, list[Buffer]] = defaultdict(list)
    for buffer in buffers:
        element = spelled(stored(buffer.dtype))
        groups[element if shared and buffer.size <= _SMALL and not buffer.is_paired else buffer].append(buffer)
    return [Binding(spelled(stored(group[0].dtype)), tuple(group)) for group in groups.values()]


def _padded(buffer: Buffer) -> int:
    """Bytes of a buffer, and up to where the next one may begin."""
    size = buffer.size * stored(buffer.dtype).itemsize
    return size + -size % _ALIGNMENT
