"""`ufunc`: elementwise functions with the methods reduce, accumulate, outer, at and reduceat."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from veery import lax
from veery._api.arguments import wraps
from veery._core import dtypes
from veery._core.avals import aval_of
from veery.numpy import _creation
from veery.numpy._elementwise import elementwise, run
from veery.numpy._promotion import (
    Array,
    ArrayLike,
    as_positions,
    broadcast_to,
    ensure_arraylike,
    promote_dtypes,
    to_dtype,
)
from veery.numpy._vectorize import vectorize


class ufunc:
    """A function of scalars that is applied elementwise to arrays, with NumPy's methods.

    Args:
        func: takes `nin` scalars.
        nin: number of inputs.
        nout: number of outputs.
        name: for the representation; by default the function's.
        nargs: accepted for compatibility.
        identity: the value that leaves the other operand as it is; None if there is none.
        call: the function on arrays; by default func is mapped over them.
        reduce: a faster form of that method, as are the next three.
        accumulate: see above.
        at: see above.
        reduceat: see above.

    >>> add = ufunc(lambda x, y: x + y, 2, 1, name="add", identity=0)
    >>> add.reduce(np.arange(4))
    Array(6, dtype=int32)
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ):
        wraps(func)(self)
        self.__name__ = name or func.__name__
        self.__doc__ = func.__doc__ or f"The ufunc {self.__name__}."
        self._func = func
        self._call = call or self._mapped
        self._own = {"reduce": reduce, "accumulate": accumulate, "at": at, "reduceat": reduceat}
        self._numbers = nin, nout, nargs or nin, identity
        self._key = self.__name__, func, call, *self._numbers, *self._own.values()

    nin = property(lambda self: self._numbers[0], doc="Number of inputs.")
    nout = property(lambda self: self._numbers[1], doc="Number of outputs.")
    nargs = property(lambda self: self._numbers[2], doc="As given, by default that of inputs.")
    identity = property(lambda self: self._numbers[3], doc="The value that leaves the other operand as it is, or None.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        if out is not None:
            raise NotImplementedError(f"out argument of {self}")
        if where is not None:
            raise NotImplementedError(f"where argument of {self}")
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__}() takes {self.nin} positional arguments but {len(args)} were given")
        return self._call(*args)

    def _mapped(self, *args: ArrayLike) -> Any:
        return vectorize(self._func)(*args)

    def _check_binary(self, method: str) -> None:
        if self.nin != 2:
            raise ValueError(f"{method} only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError(f"{method} only supported for functions returning a single value")

    def reduce(
        self,
        a: ArrayLike,
        axis: int | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The elements along an axis combined by the function.

        Args:
            a: the array.
            axis: which dimension to remove; None for all.
            dtype: to compute in.
            out: must be None.
            keepdims: whether the dimension stays, with size 1.
            initial: what to begin with.
            where: mask of elements that take part.

        Raises:
            ValueError: the function is not binary, or there is nothing to begin with.
        """
        self._check_binary("reduce")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.reduce()")
        if initial is not None:
            initial = ensure_arraylike(f"{self.__name__}.reduce", initial)
        if where is not None:
            where = ensure_arraylike(f"{self.__name__}.reduce", where)
            if self.identity is None and initial is None:
                raise ValueError(
                    f"reduction operation {self.__name__} does not have an identity, "
                    "so to use a where mask one has to specify 'initial'."
                )
        own = self._own["reduce"]
        if own is not None:
            return own(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)
        a = ensure_arraylike(f"{self.__name__}.reduce", a)
        ndim = np.ndim(a)
        axes = tuple(range(ndim)) if axis is None else tuple(int(i) % max(ndim, 1) for i in np.atleast_1d(axis))
        given = {name: x for name, x in (("initial", initial), ("where", where)) if x is not None}
        static = {"names": tuple(given), "axes": axes, "dtype": dtype, "keepdims": bool(keepdims)}
        return run(self._reduce_by_scan, a, *given.values(), **static)

    def _reduce_by_scan(
        self, a: ArrayLike, *arrays: Any, names: tuple[str, ...], axes: tuple[int, ...], dtype: Any, keepdims: bool
    ) -> Array:
        given = dict(zip(names, arrays))
        initial, where = given.get("initial"), given.get("where")
        ndim = np.ndim(a)
        x = to_dtype(a, dtypes.check_and_canonicalize_user_dtype(dtype) if dtype else aval_of(a).dtype)
        kept = tuple(i for i in range(ndim) if i not in axes)
        shape = tuple(np.shape(a)[i] for i in kept)
        columns = lax.reshape(lax.transpose(x, (*axes, *kept)), (math.prod(np.shape(a)[i] for i in axes), *shape))
        mask = None
        if where is not None:
            mask = lax.reshape(lax.transpose(broadcast_to(where, np.shape(a)), (*axes, *kept)), columns.shape)
        first = initial if initial is not None else self.identity
        if first is None:
            if not columns.shape[0]:
                raise ValueError(f"zero-size array to reduction operation {self.__name__} which has no identity")
            start, columns = columns[0], columns[1:]
        else:
            start = lax.full(shape, to_dtype(first, columns.dtype), columns.dtype)
        result = self._fold(start, columns, mask)
        return lax.expand_dims(result, sorted(axes)) if keepdims else result

    def _fold(self, start: Array, columns: Array, mask: Array | None) -> Array:
        def step(carry: Array, x: Any) -> tuple[Array, None]:
            value, keep = x if mask is not None else (x, None)
            out = to_dtype(self._call(carry, value), carry.dtype)
            return (out if keep is None else lax.select(keep, out, carry)), None

        return lax.scan(step, start, columns if mask is None else (columns, mask))[0]

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """The running results of `reduce` along an axis."""
        self._check_binary("accumulate")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.accumulate()")
        own = self._own["accumulate"]
        if own is not None:
            return own(a, axis=axis, dtype=dtype)
        a = ensure_arraylike(f"{self.__name__}.accumulate", a)
        if np.ndim(a) == 0:
            raise ValueError("cannot accumulate on a scalar.")
        return run(self._accumulate_by_scan, a, axis=axis, dtype=dtype)

    def _accumulate_by_scan(self, a: ArrayLike, *, axis: int, dtype: Any) -> Array:
        x = to_dtype(a, dtypes.check_and_canonicalize_user_dtype(dtype) if dtype else aval_of(a).dtype)
        columns = lax.transpose(x, _axis_first(np.ndim(a), axis))
        if not columns.shape[0]:
            return x

        def step(carry: Array, value: Array) -> tuple[Array, Array]:
            out = to_dtype(self._call(carry, value), carry.dtype)
            return out, out

        first = columns[0]
        _, rest = lax.scan(step, first, columns[1:])
        result = lax.concatenate([lax.expand_dims(first, (0,)), rest], 0)
        return lax.transpose(result, _axis_back(np.ndim(a), axis))

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
        """The array with the function applied at indices, once for each occurrence.

        Args:
            a: the array.
            indices: as for indexing.
            b: the second operand of binary functions.
            inplace: must be False: arrays are immutable.

        Raises:
            NotImplementedError: inplace is not False.
        """
        if inplace:
            raise NotImplementedError("jnp ufunc.at requires inplace=False")
        own = self._own["at"]
        if own is not None:
            return own(a, indices) if b is None else own(a, indices, b)

        a = _creation.asarray(a)
        if b is None:
            return a.at[indices].apply(self._call)
        return self._at_by_scan(a, indices, _creation.asarray(b))

    def _at_by_scan(self, a: Array, indices: Any, b: Array) -> Array:
        positions = lax.reshape(lax.iota(_index_dtype(), a.size), a.shape)[indices]
        values = lax.broadcast_in_dim(b, positions.shape, tuple(range(positions.ndim - b.ndim, positions.ndim)))

        def step(flat: Array, x: tuple[Array, Array]) -> tuple[Array, None]:
            i, value = x
            return flat.at[i].set(to_dtype(self._call(flat[i], value), flat.dtype)), None

        flat = lax.scan(step, lax.reshape(a, (a.size,)), (positions.ravel(), values.ravel()))[0]
        return lax.reshape(flat, a.shape)

    def reduceat(self, a: ArrayLike, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """`reduce` over the slices that begin at consecutive indices.

        An index that is not below the next one gives the element there.
        """
        self._check_binary("reduceat")
        if out is not None:
            raise NotImplementedError(f"out argument of {self.__name__}.reduceat()")
        own = self._own["reduceat"]
        if own is not None:
            return own(a, indices, axis=axis, dtype=dtype)

        a, indices = ensure_arraylike(f"{self.__name__}.reduceat", a, indices)
        x, starts = _creation.asarray(a, dtype), _creation.asarray(indices)
        if starts.ndim != 1:
            raise ValueError(f"reduceat: indices must be one-dimensional, got shape {starts.shape}")
        return run(self._reduceat_by_scan, x, starts, axis=axis)

    def _reduceat_by_scan(self, x: Array, starts: Array, *, axis: int) -> Array:
        moved, starts = lax.transpose(x, _axis_first(x.ndim, axis)), as_positions(starts)
        stops = lax.concatenate([starts[1:], _creation.array([moved.shape[0]], starts.dtype)], 0)
        begin = moved[starts]

        def step(carry: Array, i: Array) -> tuple[Array, None]:
            inside = (starts < i) & (i < stops)
            out = to_dtype(self._call(carry, moved[i][None]), carry.dtype)
            mask = lax.broadcast_in_dim(inside, carry.shape, (0,))
            return lax.select(mask, out, carry), None

        result = lax.scan(step, begin, lax.iota(starts.dtype, moved.shape[0]))[0]
        return lax.transpose(result, _axis_back(x.ndim, axis))

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """The function applied to all pairs of elements of A and B.

        >>> ufunc(lambda x, y: x * y, 2, 1).outer(np.arange(2), np.arange(3))
        Array([[0, 0, 0],
               [0, 1, 2]], dtype=int32)
        """
        if self.nin != 2:
            raise ValueError("outer only supported for binary ufuncs")
        if self.nout != 1:
            raise ValueError("outer only supported for functions returning a single value")
        A, B = ensure_arraylike(f"{self.__name__}.outer", A, B)
        A, B = promote_dtypes(A, B)
        left = lax.reshape(A, np.shape(A) + (1,) * np.ndim(B))
        return self._call(left, lax.reshape(B, (1,) * np.ndim(A) + np.shape(B)))


def _index_dtype() -> np.dtype:
    return np.dtype(dtypes.canonicalize_dtype(np.int64))


def _axis_first(ndim: int, axis: int) -> tuple[int, ...]:
    axis = range(ndim)[axis]
    return (axis, *(i for i in range(ndim) if i != axis))


def _axis_back(ndim: int, axis: int) -> tuple[int, ...]:
    """The permutation that undoes _axis_first."""
    order = _axis_first(ndim, axis)
    return tuple(order.index(i) for i in range(ndim))


def binary_ufunc(**methods: Any) -> Callable[[Callable[..., Any]], ufunc]:
    """A decorator that makes a function of two arrays a ufunc (see `ufunc` for the arguments)."""
    return lambda fun: ufunc(fun, 2, 1, call=elementwise(fun), **methods)


def unary_ufunc(fun: Callable[..., Any]) -> ufunc:
    """A decorator that makes a function of one array a ufunc."""
    return ufunc(fun, 1, 1, call=elementwise(fun))


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc of a function of scalars.

    Args:
        func: takes `nin` scalars and returns `nout`.
        nin: number of inputs.
        nout: number of outputs.
        identity: the value that leaves the other operand of func as it is.

    >>> frompyfunc(lambda x, y: x + 2 * y, 2, 1)(np.arange(3), 1)
    Array([2, 3, 4], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)
