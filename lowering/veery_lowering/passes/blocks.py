"""Which part of a product a workgroup of CUDA multiplies, and which each of its threads.

Blocks divide what is multiplied without a rest: where there is one, IREE 3.13 computes and writes past the ends (a
thread has at least one row, also where there is none). They are the largest of which there are enough for all
multiprocessors. Of 64x64 on an H200 twice 128x128 took 1.2 of the time, four times 32x32 1.4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_WORKGROUPS = 128  # fewer leave multiprocessors without work
_ROWS = range(64, 7, -4)
_COLUMNS = range(64, 15, -4)
_TERMS = (16, 24, 20, 8)  # that are read at a time, the best first
_COLUMNS_OF_A_THREAD = 4


class Block(NamedTuple):
    """Rows and columns of a workgroup and of a thread, and the terms of their sums that are read at a time."""

    rows: int
    columns: int
    rows_of_a_thread: int
    columns_of_a_thread: int
    terms: int

    @property
    def threads(self) -> int:
        """How many a workgroup has."""
        return self.rows // self.rows_of_a_thread * (self.columns // self.columns_of_a_thread)


def block_of(batch: int, m: int, n: int, k: int) -> Block | None:
    """The block for as many products of m times k and k times n elements; None where none divides them."""
    terms = next((each for each in _TERMS if k % each == 0), 0)
    rows, columns = ([size for size in sizes if n % size == 0] for sizes, n in ((_ROWS, m), (_COLUMNS, n)))
    if not terms or not rows or not columns:
        return None
    shapes = sorted(((r, c) for r in rows for c in columns), key=lambda shape: (-math.prod(shape), -min(shape)))
    enough = (shape for shape in shapes if batch * m * n // math.prod(shape) >= _WORKGROUPS)
    r, c = next(enough, shapes[-1])
    return Block(r, c, r // (8 if r % 8 == 0 else 4), _COLUMNS_OF_A_THREAD, terms)
