"""Sums and extremes by NumPy, where it is as fast as compiled code, which takes 50 ms to compile.

Measured on two cores with AVX-512, compiled, by these, and JAX 0.10.2, in us of float32:

| | compiled | here | JAX | | compiled | here | JAX |
|---|---|---|---|---|---|---|---|
| sum of 256x100 | 6 | 4 | 63 | sum of 2000x1000 | 486 | 300 | 339 |
| of its columns | 7 | 5 | 40 | of its columns | 426 | 310 | 354 |
| of its rows | 6 | 3 | 59 | of its rows | 389 | 320 | 349 |
| largest of 256x100 | 6 | 2 | 53 | largest of 2000x1000 | 427 | 340 | 354 |
| of its columns | 10 | 8 | 38 | of its columns | 555 | 340 | 347 |

Rows are added up in pieces by `einsum`, which has several registers, and columns in blocks of rows by BLAS, so that no
number is added to more than some hundred others in turn. Many rows are a product with ones, of which OpenBLAS takes two
threads: 75 us for the sum of 2000x1000 where `einsum` takes 150 and JAX 81 to 103, of its rows 72, 138 and 82 to 93.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core.host import INTEGRAL, NATIVE, processors
from veery._core.jaxpr import JaxprEqn
from veery.lax._openblas import OF_NUMPY
from veery.lax._reduce import largest, smallest

Reduce = Callable[..., Any]

_PIECE, _LONGEST = 256, 512  # elements of a row that are added up in turn, by several registers
_BLOCK = 128  # rows
_MOST = 1 << 22  # elements, divided by the processors: of more, compiled code uses several
_FEW = 64  # rows, of which it does not matter how short they are
_SMALL = 1 << 13  # elements whose sums are quicker by NumPy, which adds up blocks of 128 of a row, too
_ROWS, _COLUMNS = 32, 64  # elements of rows whose sums, and of rows with whose columns, little is lost by their number
_LONG_ROWS = 512  # the same of rows whose largest are sought
_SEVERAL = 1 << 18  # elements whose sums several threads are woken for
_EXTREMES = {"reduce_max": (np.maximum, largest), "reduce_min": (np.minimum, smallest)}


def reduction(eqn: JaxprEqn) -> Reduce | None:
    """The reduction of an equation; None where compiled code is faster, and for other types and primitives."""
    (operand,), (result,) = eqn.invars, eqn.outvars
    dtype, shape, axes = operand.aval.dtype, operand.aval.shape, eqn.params["axes"]
    size = math.prod(shape)
    if dtype not in NATIVE | INTEGRAL or not 0 < size <= _MOST // processors():
        return None
    lengths, reduced = _merged(shape, axes)
    last = lengths[-1] if lengths else 1
    is_sum = eqn.primitive.name == "reduce_sum"
    if len(lengths) > 2 or not any(reduced):
        return None
    if len(lengths) == 2 and lengths[0] > _FEW and last < (_COLUMNS if reduced[0] else _ROWS if is_sum else _LONG_ROWS):
        return None
    axis = 0 if reduced[0] else 1
    if not is_sum:
        ufunc, exact = _EXTREMES[eqn.primitive.name]
        function: Reduce = functools.partial(_extreme, ufunc.reduce, axis, exact)
    elif dtype in INTEGRAL:
        function = functools.partial(np.add.reduce, axis=axis, dtype=dtype)
    elif size <= _SMALL and last == lengths[axis]:
        function = functools.partial(np.add.reduce, axis=axis)
    else:
        function = _total if len(lengths) == 1 else _columns if reduced[0] else _rows
    if list(shape) != lengths:
        return lambda x: np.asarray(function(x.reshape(lengths)), dtype).reshape(result.aval.shape)
    return function if len(lengths) > 1 else lambda x: np.asarray(function(x), dtype)


def _merged(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[bool]]:
    """The lengths of neighbouring axes that are reduced, or kept, as one each, and which are reduced."""
    kinds = [(i in axes, n) for i, n in enumerate(shape) if n != 1]
    groups = [(kind, math.prod(n for _, n in group)) for kind, group in itertools.groupby(kinds, lambda each: each[0])]
    return [n for _, n in groups], [kind for kind, _ in groups]


def _total(x: np.ndarray) -> Any:
    whole = x.size // _PIECE * _PIECE
    parts = np.add.reduce(_of_rows(x[:whole].reshape(-1, _PIECE)))  # NumPy adds up pairs of pairs
    return parts + np.add.reduce(x[whole:]) if whole < x.size else parts


def _rows(x: np.ndarray) -> np.ndarray:
    count, length = x.shape
    if length <= _LONGEST:
        return _of_rows(x)
    pieces = _pieces(length)
    if pieces is None and length <= 2 * _LONGEST:
        return _of_rows(x)
    if pieces is not None:  # equal ones, which lie side by side: rows of 1000 in 320 us instead of 510
        return _rows(_of_rows(x.reshape(-1, length // pieces)).reshape(count, pieces))
    whole = length // _PIECE * _PIECE
    return _rows(x[:, :whole]) + _of_rows(x[:, whole:])


def _of_rows(x: np.ndarray) -> np.ndarray:
    """The sums of short rows; of many elements as products with ones, for which BLAS has several threads."""
    if x.size < _SEVERAL:
        return np.einsum("ij->i", x)
    with OF_NUMPY.for_vectors(x.size):
        sums: np.ndarray = np.matmul(x, np.ones(x.shape[1], x.dtype))
    return sums


@functools.cache
def _pieces(length: int) -> int | None:
    """The least number of equal pieces of a row that are short enough, if none of them is too short."""
    return next((n for n in range(-(-length // _LONGEST), length // _ROWS + 1) if length % n == 0), None)


def _columns(x: np.ndarray) -> np.ndarray:
    count, length = x.shape
    if count <= 2 * _BLOCK:
        return _added(x)
    whole = count // _BLOCK * _BLOCK
    blocks = _added(x[:whole].reshape(-1, _BLOCK, length))
    sums: np.ndarray = np.add.reduce(blocks, axis=0) if len(blocks) <= 2 * _BLOCK else _columns(blocks)
    return sums + _added(x[whole:]) if whole < count else sums


def _added(x: np.ndarray) -> np.ndarray:
    """The sum of rows as a product with ones, which BLAS has in a third of the time: 1000x64 in 5 us instead of 24."""
    with OF_NUMPY.for_vectors(x.size if x.ndim == 2 else 0):
        sums: np.ndarray = np.matmul(np.ones(x.shape[-2], x.dtype), x)
    return sums


def _extreme(reduce: Reduce, axis: int, exact: Reduce, x: np.ndarray) -> Any:
    """The largest or smallest; of zeros NumPy gives any, 0.0 or -0.0."""
    found = reduce(x, axis)
    if x.dtype.kind != "f" or (found.all() if found.ndim else found):  # of one 0.1 us instead of 1
        return found
    return exact(x, axes=(axis,))
