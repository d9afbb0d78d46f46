"""What a PJRT plugin has compiled, on disk: loading it takes a twentieth of compiling it."""

from __future__ import annotations

import hashlib

from veery_lowering.program import Program
from veery_lowering.store.cache import disk_cache
from veery_lowering.store.machine import cpu_features


def recall(program: Program, compiler: str) -> bytes | None:
    """What a plugin made of a program, if it is on disk.

    Args:
        program: for XLA.
        compiler: tells plugins apart that do not load each other's executables.
    """
    entry = disk_cache().get_part(_key(program, compiler))
    return None if entry is None else entry[0]


def remember(program: Program, compiler: str, executable: bytes) -> None:
    """Keep what a plugin made of a program."""
    disk_cache().put_part(_key(program, compiler), (executable, {"target": program.target}))


def _key(program: Program, compiler: str) -> str:
    return hashlib.sha256("\0".join((program.key, compiler, cpu_features())).encode()).hexdigest()
