"""Find shaders whose invocations race.

Problem: what the invocations of a workgroup write to shared memory, others may read only after a barrier. IREE 3.13
leaves the barrier out where it computes a value in the dispatch that uses it and divides the two differently among the
invocations. Example: `w @ mask.astype(float32)` and `(mask * w).sum(0)` differed from call to call. Fix: the SPIR-V
code of each program is searched for such reads; a program that has one is compiled with each value computed for itself,
or refused. Test: tests/lowering/test_races.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

_MAGIC = (0x07230203).to_bytes(4, "little")
_HEADER = 5  # words before the first instruction
# What the words mean, by SPIR-V's specification: a storage class, an execution mode, a decoration, a built-in value,
_WORKGROUP, _LOCAL_SIZE, _BUILT_IN, _WORKGROUP_ID, _LOCAL_INVOCATION = 4, 17, 11, 26, 27
# and instructions.
_EXECUTION_MODE, _DECORATE, _VARIABLE, _LOAD, _STORE, _EXTRACT = 16, 71, 59, 61, 62, 81
_BARRIER, _PHI, _LABEL, _BRANCH = 224, 245, 248, 249
_POINTERS = frozenset((65, 66))  # OpAccessChain, OpInBoundsAccessChain
_ONE_TO_ONE = frozenset((128, 132, 196, 197))  # OpIAdd, OpIMul, OpShiftLeftLogical, OpBitwiseOr


def has_race(program: bytes) -> bool:
    """Whether a shader in a program writes and reads shared memory without a barrier between.

    An invocation may do so in places that are its own: it reads by the pointer by which it has written, which depends
    on all of the invocation's position. Loops that begin at the workgroup's number make one trip: there are as many
    workgroups as trips.

    Args:
        program: the bytes of a compiled program.

    Returns:
        Whether there is such a shader.

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
    axes: dict[int, frozenset[int]] = {}  # of the invocation's position, on which a value depends
    needed: frozenset[int] = frozenset()
    written: dict[int, set[int]] = defaultdict(set)  # a variable, and the pointers
    read: dict[int, set[int]] = defaultdict(set)
    workgroups: set[int] = set()  # as the positions, of the workgroup's number; and its parts
    labels: dict[int, int] = {}
    label = 0
    repeated: set[int] = set()
    positions: set[int] = set()  # the variable of the invocation's position, and what is loaded from it
    at = _HEADER
    while at < len(code):
        size, operation = code[at] >> 16, code[at] & 0xFFFF
        operands = code[at + 1 : at + size]
        touched = None
        if operation == _EXECUTION_MODE and operands[1] == _LOCAL_SIZE:
            needed = frozenset(i for i, n in enumerate(operands[2:]) if n > 1)
        elif operation == _DECORATE and operands[1:] == [_BUILT_IN, _LOCAL_INVOCATION]:
            positions.add(operands[0])
        elif operation == _DECORATE and operands[1:] == [_BUILT_IN, _WORKGROUP_ID]:
            workgroups.add(operands[0])
        elif operation == _VARIABLE and operands[2] == _WORKGROUP:
            shared[operands[1]] = operands[1]
        elif operation in _POINTERS and operands[2] in shared:
            shared[operands[1]] = shared[operands[2]]
            axes[operands[1]] = _joined(axes, operands[2:])
        elif operation in _ONE_TO_ONE:
            axes[operands[1]] = _joined(axes, operands[2:])
        elif operation == _EXTRACT and operands[2] in positions:
            axes[operands[1]] = frozenset(operands[3:])
        elif operation in (_EXTRACT, _LOAD) and operands[2] in workgroups:
            workgroups.add(operands[1])
        elif operation == _PHI and not workgroups.isdisjoint(operands[2::2]):
            labels.pop(label, None)
        elif operation == _BARRIER:
            written.clear()
            read.clear()
        elif operation == _LOAD and operands[2] in positions:
            positions.add(operands[1])
        elif operation == _LOAD and operands[2] in shared:
            touched = shared[operands[2]]
            read[touched].add(operands[2])
        elif operation == _STORE and operands[0] in shared:
            touched = shared[operands[0]]
            written[touched].add(operands[0])
        elif operation == _LABEL:
            label = operands[0]
            labels[label] = at
        elif operation == _BRANCH and operands[0] in labels and at not in repeated:
            repeated.add(at)
            at = labels[operands[0]]  # once more around the loop
            continue
        if touched is not None and written[touched] and read[touched]:
            own = all(axes.get(pointer, frozenset()) >= needed for pointer in written[touched])
            if not (own and read[touched] <= written[touched]):
                return True
        at += size
    return False


def _joined(axes: dict[int, frozenset[int]], values: list[int]) -> frozenset[int]:
    return frozenset().union(*(axes.get(value, frozenset()) for value in values))
