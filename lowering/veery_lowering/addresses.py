"""The routines of LAPACK and BLAS that kernels call: where their addresses are in a table that each process makes.

The table has numbers of 64 bits: how many calls there are now that keep the library to one thread; how many threads it
had before, 0 if there is no such call or it had one; the functions that tell and set that; those that lock and unlock a
mutex, which whoever reads or changes the number of threads has to hold; that mutex; and then the routines.
"""

from __future__ import annotations

from typing import NamedTuple

CALLING, BEFORE, GET_THREADS, SET_THREADS, LOCK, UNLOCK, MUTEX = range(7)
FIRST = MUTEX + 8  # a mutex of POSIX has 40 to 64 bytes

_OF_ALL = "lacpy laset potrf getrf laswp lapmt trsm trsv geqrf gesdd lange".split()
_OF_REAL, _OF_COMPLEX = "orgqr syevd lansy".split(), "ungqr heevd lanhe".split()

ROUTINES: tuple[str, ...] = tuple(
    f"{letter}{name}" for letter in "sdcz" for name in (*_OF_ALL, *(_OF_REAL if letter in "sd" else _OF_COMPLEX))
)


class Place(NamedTuple):
    """Where a routine's address is.

    Attributes:
        number: of the entry in the table.
        gives: what the routine returns, as MLIR spells it: the norms do, "" of others.
    """

    number: int
    gives: str


def place_of(name: str) -> Place:
    """Where the address of a routine is.

    Raises:
        ValueError: the table does not have it.
    """
    gives = "" if name[1:4] != "lan" else "f32" if name[0] in "sc" else "f64"
    return Place(FIRST + ROUTINES.index(name), gives)
