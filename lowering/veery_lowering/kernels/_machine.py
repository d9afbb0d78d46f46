"""What kernels are written for: the CPU, or an invocation of a shader."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Machine:
    """What nests are written for.

    Attributes:
        has_vectors: whether several elements are taken at once.
        stack: bytes of it that a kernel may take; the rest is memory that the dispatch is given.
        group: the invocations of a workgroup; 0 on the CPU.
        most_elements, most_terms: of a nest, and of a sum; above these it is so much work that dispatches of IREE's are
            worth what they cost.
        most_work: elements of a nest that is larger, times what each is computed from.
        most_steps: of a trip; likewise.
        most_lines: of a kernel's text.
        register: bytes of a vector register.
    """

    has_vectors: bool
    stack: int
    group: int
    most_elements: int
    most_work: int
    most_terms: int
    most_steps: float
    most_lines: int
    register: int = 32


# A dispatch costs 2 us, and uses all cores: 20 products of 256x256 take 23 ms here, 10 ms as dispatches, 50 of 128x128
# 2.7 and 3.5 ms. 250 trips of `minimum(d, d[:, k, None] + d[k])` on 250x250 take 3.4 ms here and 19 as dispatches, 100
# trips of a stencil of five points 3.7 and 2.3. IREE allows 32 kB of stack. Each 1000 lines of text take 80 ms to
# compile, from 30,000 on 150; the dispatches of the same loop take longer. 200 steps of four chains of NUTS are 13,000
# lines, compiled in 2 s and run in 6 ms; as dispatches 14 s and 3 s.
CPU = Machine(True, 16 << 10, 0, 1 << 15, 3 << 18, 1 << 21, math.inf, 50_000)
# One invocation of a shader. A step takes llvmpipe 4 ns and a GPU 5 to 20, a trip that is several dispatches, and a
# condition that the host reads, 60 to 200 us: 100 trips of `tanh(h @ w)`, h of 16, take 0.5 ms for 20.
INVOCATION = Machine(False, 0, 1, 1 << 10, 0, 1 << 12, 1 << 13, 6000)


def cpu(register: int) -> Machine:
    """A CPU whose vector registers have so many bytes."""
    return replace(CPU, register=register)
