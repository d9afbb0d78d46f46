"""Arrays as text and files."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from veery._core import dtypes
from veery._core.array import ArrayImpl
from veery.numpy._creation import asarray
from veery.numpy._promotion import ArrayLike

get_printoptions = np.get_printoptions
printoptions = np.printoptions
set_printoptions = np.set_printoptions
save = np.save
savez = np.savez
iterable = np.iterable


def array_repr(
    arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The text that stands for an array in code.

    Args:
        arr: array.
        max_line_width: in characters.
        precision: number of digits.
        suppress_small: whether tiny numbers are shown as 0.

    >>> array_repr(asarray([1, 2]))
    'Array([1, 2], dtype=int32)'
    """
    if not isinstance(arr, ArrayImpl):
        return repr(arr)
    options = {"linewidth": max_line_width, "precision": precision, "suppress": suppress_small}
    with np.printoptions(**{k: v for k, v in options.items() if v is not None}):  # type: ignore[arg-type]
        return repr(arr)


def array_str(
    a: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The elements of an array as text (see `array_repr`).

    >>> array_str(asarray([1, 2]))
    '[1 2]'
    """
    if not isinstance(a, ArrayImpl):
        return str(a)
    return np.array_str(a.to_numpy(), max_line_width, precision, suppress_small)


def load(file: IO[bytes] | str | os.PathLike[Any], *args: Any, **kwargs: Any) -> Any:
    """The array in a file written by `save`, or the archive of arrays written by `savez`.

    Two bytes without a type, as which NumPy saves bfloat16, are taken for that. Arrays of float8 come back as bytes:
    view them in their dtype.
    """
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray) and out.dtype == np.dtype("V2"):
        return asarray(out.view(dtypes.bfloat16))
    return asarray(out) if isinstance(out, np.ndarray) and out.dtype.kind != "V" else out
