"""Grids of coordinates, and the objects that build arrays from index expressions: r_, c_, s_, mgrid, ogrid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.config import numpy_dtype_promotion
from veery._core.shapes import canonicalize_shape, check_concrete
from veery.numpy._arithmetic import is_kind
from veery.numpy._creation import array, asarray
from veery.numpy._joining import concatenate
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylikes
from veery.numpy._ranges import arange, linspace

s_ = np.s_
index_exp = np.index_exp


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid, an array for each axis.

    Args:
        *xi: the coordinates along each axis, of rank 1.
        copy: must be True.
        sparse: whether the arrays have their own dimension only, the others of size 1.
        indexing: "xy": the first axis is the second dimension, as in pictures; "ij": as in matrices.

    >>> meshgrid(np.array([1, 2]), np.array([3, 4]))[0]
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    xi = ensure_arraylikes("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    axes = [asarray(x) for x in xi]
    if any(x.ndim != 1 for x in axes):
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {[x.shape for x in axes]}")
    order = list(range(len(axes)))
    if indexing == "xy" and len(axes) >= 2:
        order[:2] = [1, 0]
    shape = [0] * len(axes)
    for x, dimension in zip(axes, order):
        shape[dimension] = x.shape[0]
    return _grids(axes, tuple(order), tuple(shape), bool(sparse))


@jit(static_argnums=(1, 2, 3))
def _grids(axes: list[Array], order: tuple[int, ...], shape: tuple[int, ...], sparse: bool) -> list[Array]:
    """The coordinates along each axis, which is that dimension of the grid."""
    own = lambda dimension: [n if i == dimension else 1 for i, n in enumerate(shape)]
    return [lax.broadcast_in_dim(x, own(d) if sparse else shape, (d,)) for x, d in zip(axes, order)]


_grids._name = "meshgrid"


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The positions of all elements of an array of this shape.

    Args:
        dimensions: the shape.
        dtype: of the result; the default integer by default.
        sparse: whether to return a tuple of arrays that broadcast, instead of one array.

    >>> indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    shape = canonicalize_shape(dimensions)
    dtype = dtypes.check_and_canonicalize_user_dtype(int if dtype is None else dtype, "indices")
    return _indices(shape=shape, dtype=dtype, sparse=bool(sparse))


@jit(static_argnames=("shape", "dtype", "sparse"))
def _indices(shape: tuple[int, ...], dtype: Any, sparse: bool) -> Any:
    out = []
    for i, n in enumerate(shape):
        own = [n if i == j else 1 for j in range(len(shape))]
        out.append(lax.broadcast_in_dim(arange(n, dtype=dtype), own if sparse else shape, (i,)))
    if sparse:
        return tuple(out)
    return lax.concatenate([lax.expand_dims(x, (0,)) for x in out], 0) if out else array([], dtype)


_indices._name = "indices"


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that together select the product of the given positions.

    >>> x = array([[1, 2], [3, 4]])
    >>> x[ix_(np.array([1]), np.array([0, 1]))]
    Array([[3, 4]], dtype=int32)
    """
    args = ensure_arraylikes("ix_", *args)
    out = []
    for x in args:
        a = asarray(x)
        if a.ndim != 1:
            raise ValueError(f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}")
        if a.dtype == np.bool_:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        if not a.size:
            a = a.astype(int)
        out.append(a)
    rank = len(out)
    return tuple(_grids(out, tuple(range(rank)), tuple(a.shape[0] for a in out), True))


def _grid_axis(s: slice, name: str) -> Array:
    """The numbers of a slice: steps, or (with an imaginary step) that many including the end."""
    for part in ("start", "stop", "step"):
        check_concrete(getattr(s, part), f"It arose in the slice {part} of jnp.{name}")
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex) or is_kind(step, np.complexfloating):
        return linspace(start, s.stop, int(abs(complex(step))))
    return arange(start, s.stop, step)


@jit(static_argnums=(1, 2))
def _grid_of(axes: list[Array], dtype: Any, sparse: bool) -> Any:
    grids = meshgrid(*(x.astype(dtype) for x in axes), indexing="ij", sparse=sparse)
    return grids if sparse else lax.concatenate([lax.expand_dims(g, (0,)) for g in grids], 0)


class _Grid:
    """Base of mgrid and ogrid."""

    def __init__(self, name: str, sparse: bool):
        self._name = name
        self._sparse = sparse

    def __repr__(self) -> str:
        return f"veery.numpy.{self._name}"

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _grid_axis(key, self._name)
        if not key:
            return array([], int)
        axes = [_grid_axis(k, self._name) for k in key]
        with numpy_dtype_promotion("standard"):  # the user gave a slice for each, no operands to be promoted
            dtype = dtypes.result_type(*axes)
        return _grid_of(axes, dtype, self._sparse)


mgrid = _Grid("mgrid", sparse=False)
mgrid.__doc__ = """Full grids: `mgrid[0:2, 0:1:3j]` stacks the coordinates of all points, three along the second."""
ogrid = _Grid("ogrid", sparse=True)
ogrid.__doc__ = """Open grids: as mgrid, a list of arrays that broadcast."""


def _directive(text: str) -> list[int]:
    """The axis, the least rank and the place of what has less, as far as a directive such as "0,2" gives them."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"could not understand directive {text!r}") from None


class _Concatenator:
    """Base of r_ and c_."""

    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int):
        self._name = name
        self._axis = axis
        self._ndmin = ndmin
        self._trans1d = trans1d

    def __repr__(self) -> str:
        return f"veery.numpy.{self._name}"

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Array:
        keys = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self._axis, self._ndmin, self._trans1d
        directive = keys.pop(0) if keys and isinstance(keys[0], str) else ""
        if directive and directive not in ("r", "c"):
            numbers = _directive(directive)
            axis, ndmin, trans1d, *_ = numbers + [axis, ndmin, trans1d][len(numbers) :]
        parts = [self._part(k, ndmin, trans1d) for k in keys]
        out = concatenate(parts, axis=axis)
        if directive in ("r", "c") and out.ndim == 1:  # a matrix of one row, or of one column
            return lax.expand_dims(out, (0 if directive == "r" else 1,))
        return out

    def _part(self, key: Any, ndmin: int, trans1d: int) -> Array:
        x = _grid_axis(key, self._name) if isinstance(key, slice) else asarray(key)
        old = x.ndim
        if old == 0 and ndmin <= 1:
            return lax.reshape(x, (1,))
        if old < ndmin:
            shape = (*(1,) * (ndmin - old), *x.shape)
            order = range(ndmin) if trans1d == -1 else _moved(ndmin, old, trans1d)
            x = lax.reshape(x, tuple(shape[i] for i in order))  # the new dimensions are of size 1
        return x


def _moved(ndmin: int, old: int, trans1d: int) -> tuple[int, ...]:
    """Where the dimensions of an upgraded array go: they begin at `trans1d`."""
    new, own = list(range(ndmin - old)), list(range(ndmin - old, ndmin))
    first = trans1d if trans1d >= 0 else ndmin + trans1d - old + 1
    return (*new[:first], *own, *new[first:])


r_ = _Concatenator("r_", axis=0, ndmin=1, trans1d=-1)
r_.__doc__ = """Concatenation along the first axis: `r_[1, 2, x, 0:3]`; slices are ranges."""
c_ = _Concatenator("c_", axis=-1, ndmin=2, trans1d=0)
c_.__doc__ = """Concatenation along the last axis, arrays of rank 1 as columns: `c_[x, y]`."""
