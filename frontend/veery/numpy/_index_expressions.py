"""Index expressions: what stands between the brackets of `x[...]`, checked and written out one entry a dimension."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes, slices
from veery._core.array import ArrayImpl
from veery._core.config import config
from veery._core.dimensions import as_dimension, is_symbolic, max_dim, min_dim
from veery._core.errors import InconclusiveDimensionOperation, NonConcreteBooleanIndexError
from veery._core.trace import Tracer
from veery.numpy._creation import array


class Slice(NamedTuple):
    """Elements start, start + step, ... of a dimension: `size` of them, all inside; step may be negative."""

    start: int
    size: int
    step: int

    def is_full(self, n: int) -> bool:
        return self == (0, n, 1)


class Index(NamedTuple):
    """An index expression for an array of known shape.

    Attributes:
        newaxes: where dimensions of size 1 are inserted, as positions in `shape`.
        shape: the array's shape with them.
        entries: for each dimension of `shape` a Slice, an int counted from either end, or an integer array.
        apart: whether `...` stands between arrays or ints, which are no neighbours then even if it is no dimension.
    """

    newaxes: tuple[int, ...]
    shape: tuple[int, ...]
    entries: tuple[Any, ...]
    apart: bool

    @property
    def is_basic(self) -> bool:
        """Whether there are only slices and scalars (which may be traced)."""
        return all(isinstance(e, (Slice, int)) or np.ndim(e) == 0 for e in self.entries)

    @property
    def is_static(self) -> bool:
        """Whether there are only slices and Python ints."""
        return all(isinstance(e, (Slice, int)) for e in self.entries)


def parse(shape: tuple[int, ...], idx: Any) -> Index:
    """An index expression written out for an array of this shape.

    Raises:
        TypeError: something in it is no index.
        IndexError: there are too many entries, or a mask has the wrong shape.
    """
    elements = [_element(e) for e in _as_tuple(idx)]
    entries = _expand_ellipsis(elements, len(shape))
    newaxes: list[int] = []
    full_shape: list[int] = []
    result: list[Any] = []
    axis = 0
    for position, e in enumerate(entries):
        if e is None:
            newaxes.append(len(result))
            full_shape.append(1)
            result.append(Slice(0, 1, 1))
        elif _is_bool(e) and np.ndim(e) == 0:
            newaxes.append(len(result))
            full_shape.append(1)
            result.append(np.zeros(int(concrete_mask(e)), np.int32))
        elif _is_bool(e):
            sizes = shape[axis : axis + np.ndim(e)]
            result += _positions(e, sizes, position)
            full_shape += sizes
            axis += np.ndim(e)
        else:
            n = shape[axis]
            result.append(_slice(e, n, position) if isinstance(e, slice) else e)
            full_shape.append(n)
            axis += 1
    return Index(tuple(newaxes), tuple(full_shape), _checked_bounds(result, full_shape), parted(elements))


def as_entries(idx: Any, ndim: int) -> list[Any]:
    """The elements of an index expression, with full slices for the dimensions that it does not name.

    Raises:
        TypeError: something in it is no index.
        IndexError: there are too many.
    """
    return _expand_ellipsis([_element(e) for e in _as_tuple(idx)], ndim)


def _as_tuple(idx: Any) -> tuple[Any, ...]:
    if isinstance(idx, tuple):
        return idx
    if isinstance(idx, (list, range)) and not isinstance(idx, (str, bytes)):
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use `arr[array(seq)]` instead of "
            "`arr[seq]`. See https://github.com/jax-ml/jax/issues/4564 for more information."
        )
    return (idx,)


def _element(e: Any) -> Any:
    """One element: None, Ellipsis, a slice, an int, or an array of integers or bools."""
    if e is None or e is Ellipsis or isinstance(e, (slice, bool, slices.Slice)):
        return e
    if isinstance(e, (str, bytes)):
        raise TypeError(f"JAX does not support string indexing; got idx={e!r}")
    if hasattr(e, "__jax_array__") and not isinstance(e, (ArrayImpl, Tracer)):
        e = e.__jax_array__()
    if isinstance(e, (list, tuple, range)):
        e = array(e) if any(isinstance(x, Tracer) for x in _flat(e)) else np.asarray(_concrete(e))
        e = e.astype(np.int32) if not e.size and e.dtype.kind == "f" else e
    if isinstance(e, int):
        return e
    if not isinstance(e, (ArrayImpl, Tracer, np.ndarray, np.generic)):
        return _indexable(e)
    if dtypes.issubdtype(e.dtype, np.bool_):
        return e
    if not dtypes.issubdtype(e.dtype, np.integer):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {e.dtype}")
    return int(e) if isinstance(e, np.generic) or (isinstance(e, np.ndarray) and e.ndim == 0) else e


def _indexable(e: Any) -> Any:
    if isinstance(e, (float, complex)):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {np.asarray(e).dtype}")
    try:
        return operator.index(e)
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid "
            f"indices. Got {e}"
        ) from None


def _flat(values: Any) -> Any:
    for x in values:
        if isinstance(x, (list, tuple)):
            yield from _flat(x)
        else:
            yield x


def _concrete(values: Any) -> list[Any]:
    return [_concrete(x) if isinstance(x, (list, tuple)) else np.asarray(x) for x in values]


def _is_bool(e: Any) -> bool:
    return isinstance(e, (bool, np.bool_)) or (hasattr(e, "dtype") and dtypes.issubdtype(e.dtype, np.bool_))


def _expand_ellipsis(entries: list[Any], ndim: int) -> list[Any]:
    """The entries with `...`, or what is missing at the end, written as full slices."""
    ellipses = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(consumed(e) for e in entries)
    if used > ndim:
        raise IndexError(f"Too many indices: array is {ndim}-dimensional, but {used} were indexed")
    at = ellipses[0] if ellipses else len(entries)
    return [*entries[:at], *[slice(None)] * (ndim - used), *entries[at + bool(ellipses) :]]


def parted(elements: Sequence[Any]) -> bool:
    """Whether `...` stands between arrays or ints."""
    at = next((i for i, e in enumerate(elements) if e is Ellipsis), 0)
    picks = lambda e: e is not None and not isinstance(e, (slice, slices.Slice))
    return any(map(picks, elements[:at])) and any(map(picks, elements[at + 1 :]))


def consumed(e: Any) -> int:
    """The number of dimensions that an element indexes."""
    if e is None or e is Ellipsis:
        return 0
    return np.ndim(e) if _is_bool(e) else 1


def _positions(mask: Any, sizes: Sequence[int], position: int) -> list[Any]:
    """A mask as the positions where it is true: an integer array for each dimension.

    Raises:
        NonConcreteBooleanIndexError: the mask is traced.
        IndexError: it has another shape than the dimensions that it indexes.
    """
    if not np.size(mask):  # whatever its shape, as in JAX
        return [np.zeros(0, np.int32)] * np.ndim(mask)
    if tuple(np.shape(mask)) != tuple(sizes):
        raise IndexError(
            f"boolean index did not match shape of indexed array in index {position}: got {np.shape(mask)}, "
            f"expected {list(sizes)}"
        )
    return list(np.nonzero(concrete_mask(mask)))


def concrete_mask(mask: Any) -> np.ndarray:
    """The values of a mask; NonConcreteBooleanIndexError where it is traced."""
    if isinstance(mask, Tracer):
        value = mask.concrete_value()
        if value is None:
            raise NonConcreteBooleanIndexError(mask)
        return np.asarray(value)
    return mask.to_numpy() if isinstance(mask, ArrayImpl) else np.asarray(mask)


def _slice(s: slice, n: int, position: int) -> Slice:
    if any(isinstance(v, Tracer) and v.concrete_value() is None for v in (s.start, s.stop, s.step)):
        raise IndexError(
            f"Slice entries must be static integers. Got slice({s.start}, {s.stop}, {s.step}) at position {position}"
        )
    bounds = [v if v is None else as_dimension(v) for v in (s.start, s.stop, s.step)]
    if is_symbolic((n, *bounds)):
        start, stop, step = bounds
        return _symbolic_slice(start, stop, step, n)
    taken = range(n)[slice(*bounds)]
    return Slice(taken.start, len(taken), taken.step) if len(taken) else Slice(0, 0, 1)


def _symbolic_slice(start: Any, stop: Any, step: int | None, n: Any) -> Slice:
    """A slice of a dimension whose size, or whose bounds, are known at run time."""
    step = 1 if step is None else step
    if step < 0:
        if start is not None or stop is not None:
            raise InconclusiveDimensionOperation(
                f"a slice with bounds and a negative step, [{start}:{stop}:{step}], of the symbolic dimension {n} is "
                "not supported: slice first, then reverse with [::-1]"
            )
        return Slice(n - 1, -(-n // -step), step)
    first, last = (_inside(v, n) for v in (0 if start is None else start, n if stop is None else stop))
    return Slice(first, max_dim(-((first - last) // step), 0), step)


def _inside(v: Any, n: Any) -> Any:
    """A bound of a slice counted from the start, moved into [0, n]."""
    return min_dim(v, n) if v >= 0 else max_dim(v + n, 0)


def _checked_bounds(entries: list[Any], shape: Sequence[int]) -> tuple[Any, ...]:
    """Raise IndexError for ints that no element can stand for, or (if so set) that are out of bounds."""
    for axis, (e, n) in enumerate(zip(entries, shape)):
        is_int = isinstance(e, int)
        if isinstance(n, int) and n == 0 and (is_int or getattr(e, "ndim", None) == 0):
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
        if is_int and isinstance(n, int) and not -n <= e < n:
            if config.jax_check_static_indices:
                raise IndexError(f"index {e} out of bounds for axis {axis} with size {n}")
    return tuple(entries)
