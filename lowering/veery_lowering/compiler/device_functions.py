"""Functions that IREE's backend puts into each program, whether it needs them or not: they are compiled once.

LLVM may call functions that nobody wrote: copies of memory, conversions of half precision. IREE links its own ones
("libdevice") into each program, where LLVM optimises and compiles all of them, 20 of the 75 ms that `x + 1` takes; the
linker leaves most of them out again. So the code of the first program's is kept, on disk, too, and then LLVM is told
not to optimise functions of these names. The linker takes what a program needs of them from what was kept: its code is
the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from veery_lowering.compiler import linking
from veery_lowering.mlir import COMPILER_VERSION, ctypes_dl
from veery_lowering.store.cache import DiskCache

NAMES = (
    *("__extendhfdf2", "__extendhfsf2", "__gnu_f2h_ieee", "__gnu_h2f_ieee", "__truncdfhf2", "__truncsfhf2"),
    *("fma", "iree_f2h_ieee", "iree_h2f_ieee", "memcpy", "memmove", "memset"),
)
# The last of the names of objects, so that the linker, which sorts, puts them last, as they are in each object.
_OBJECT = "the functions of the device"
# Its phases look for executables to link, of which the short pipeline hands over one that has all dispatches.
_LINKING = "--iree-hal-link-executables=false"
# IREE's analyses number a module's operations as if to print them, for which MLIR verifies all of it each time: a
# fortieth of a compilation.
_PRINTING = "--mlir-print-assume-verified"

_kept: dict[str, linking.Part] = {}
_code: bytes | None = None  # an object file that has what is kept, which is not on disk yet
_left_out = False


def keep(code: bytes) -> None:
    """Keep the functions of a program's object file, unless there are some or LLVM was told not to optimise them."""
    global _code
    if _kept or _left_out:
        return
    object_ = linking.Object(code, _OBJECT)
    try:
        found = {name: object_.function(name) for name in NAMES}
    except linking.Unsupported:  # they are another compiler's
        return
    _kept.update(found)
    _code = code


def write(cache: DiskCache, device: str) -> None:
    """Put what is kept on disk, for the device that it was compiled for, unless it is there."""
    global _code
    if _code is not None and cache.get_part(_key(device)) is None:
        cache.put_part(_key(device), (_code, {}))
    _code = None


def read(cache: DiskCache, device: str) -> None:
    """Keep what is on disk for a device, unless there is something."""
    global _code
    found = None if _kept else cache.get_part(_key(device))
    if found is not None:
        keep(found[0])
        _code = None


def _key(device: str) -> str:
    return hashlib.sha256("\0".join((_OBJECT, COMPILER_VERSION, device)).encode()).hexdigest()


def are_kept() -> bool:
    """Whether there is code of the functions."""
    return bool(_kept)


def are_left_out() -> bool:
    """Whether LLVM was told not to optimise the functions: then no session may be made any more."""
    return _left_out


def instead() -> Mapping[str, linking.Part]:
    """What the linker takes instead of the functions that an object file has."""
    return _kept if _left_out else {}


def leave_out() -> None:
    """Have LLVM not optimise the functions from now on, MLIR not verify what is not printed, and IREE not link.

    Options of LLVM are those of the process. In one that has some, IREE's sessions begin with other options than
    elsewhere: no session may be made afterwards. Only the short pipeline links what it compiles.
    """
    global _left_out
    if _left_out:
        return
    _left_out = True
    attributes = [f"--force-attribute={name}:{how}" for name in NAMES for how in ("optnone", "noinline")]
    ctypes_dl._initializeGlobalCL("veery", *attributes, _PRINTING, _LINKING)
