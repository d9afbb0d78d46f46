"""Races of shaders, which are looked for in the code of each program.

What the invocations of a workgroup write to the memory that they share, others may read after a barrier. IREE 3.13
leaves that out where it computes a value in the dispatch that uses it, each invocation a part, and divides the work of
the two differently: `w @ mask.astype(float32)` and `(mask * w).sum(0)` differed from call to call.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_MAGIC = (0x07230203).to_bytes(4, "little")
_HEADER = 5  # words before the first instruction
_WORKGROUP = 4  # a storage class
_LOAD, _STORE, _VARIABLE, _BARRIER = 61, 62, 59, 224
_POINTERS = frozenset((65, 66, 70, 83))  # AccessChain, InBoundsAccessChain, InBoundsPtrAccessChain, CopyObject
_LABEL, _BRANCH = 248, 249


def has_race(program: bytes) -> bool:
    """Whether a shader in a program accesses shared memory twice, once to write it, without a barrier between.

    Args:
        program: the bytes of a compiled program.

    Returns:
        Whether there is such a shader; of two accesses to different elements of one array too.

    Example:
        >>> has_race(b"no shaders")
        False
    """
    return any(map(_is_racy, _shaders(program)))


def _shaders(program: bytes) -> Iterator[np.ndarray]:
    """The words of the SPIR-V modules in a program, before each of which is their number."""
    at = program.find(_MAGIC)
    while at >= 0:
        count = int.from_bytes(program[max(at - 4, 0) : at], "little")
        if _HEADER < count <= (len(program) - at) // 4:
            yield np.frombuffer(program, "<u4", count, at)
        at = program.find(_MAGIC, at + 4)


def _is_racy(words: np.ndarray) -> bool:
    if not np.any((words[:-3] & 0xFFFF == _VARIABLE) & (words[3:] == _WORKGROUP)):
        return False
    code = words.tolist()
    shared: dict[int, int] = {}  # a pointer, and the variable that it is to
    written: set[int] = set()
    read: set[int] = set()
    labels: dict[int, int] = {}
    repeated: set[int] = set()
    at = _HEADER
    while at < len(code):
        size, operation = code[at] >> 16, code[at] & 0xFFFF
        if operation == _VARIABLE and code[at + 3] == _WORKGROUP:
            shared[code[at + 2]] = code[at + 2]
        elif operation in _POINTERS and code[at + 3] in shared:
            shared[code[at + 2]] = shared[code[at + 3]]
        elif operation == _BARRIER:
            written.clear()
            read.clear()
        elif operation == _LOAD and code[at + 3] in shared:
            read.add(shared[code[at + 3]])
        elif operation == _STORE and code[at + 1] in shared:
            written.add(shared[code[at + 1]])
        elif operation == _LABEL:
            labels[code[at + 1]] = at
        elif operation == _BRANCH and code[at + 1] in labels and at not in repeated:
            repeated.add(at)
            at = labels[code[at + 1]]  # once more around the loop
            continue
        if written & read:
            return True
        at += size
    return False
