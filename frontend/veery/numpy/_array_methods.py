"""Methods and properties of arrays: attached to concrete arrays and to tracers alike.

Each is the function of veery.numpy of the same name with the array as its first argument, unless written out here.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from veery import lax
from veery._core import array as _arrays, dtypes
from veery._core.array import ArrayImpl
from veery._core.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from veery._core.shapes import as_axes
from veery._core.trace import Tracer
from veery.lax._placement import laid_out
from veery.numpy import _arithmetic, _array_api, _creation, _operators, _selection, _shaping
from veery.numpy._at import IndexUpdateHelper
from veery.numpy._indexing import take_index, take_int
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike

_SAME_AS_FUNCTION = (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "conj", "conjugate", "cumprod", "cumsum"),
    *("diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "round", "searchsorted"),
    *("sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
)


def getitem(self: Array, idx: Any) -> Array:
    """The elements at an index: integers, slices, `...`, None, integer arrays and (untraced) masks, as in NumPy.

    Out of bounds the nearest element is read.
    """
    return take_int(self, idx) if type(idx) is int else take_index(self, idx)


def setitem(self: Array, idx: Any, value: Any) -> None:
    raise TypeError(
        "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use "
        "x = x.at[idx].set(y) or another .at[] method: "
        "https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html"
    )


def contains(self: Array, value: Any) -> bool:
    """`value in x`: whether an array of rank 1 has an element of this value.

    Raises:
        TypeError: value is None or a text, or nothing that could be an element.
        ValueError: the array is not of rank 1, or value is no scalar.
    """
    if value is None or isinstance(value, str):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(value)}.")
    value = ensure_arraylike("Array.__contains__", value)
    if self.ndim != 1:
        raise ValueError(f"Array.__contains__: search array must be one-dimensional, got arr.shape={self.shape}.")
    if np.ndim(value):
        raise ValueError(f"Array.__contains__: query value must be a scalar, got query.shape={np.shape(value)}")
    return builtins.bool((self == value).any())


def at(self: Array) -> IndexUpdateHelper:
    """`x.at[idx]` names places to update: `x.at[idx].set(y)` gives a new array (see IndexUpdateHelper)."""
    return IndexUpdateHelper(self)


def real(self: Array) -> Array:
    """The real part."""
    return _arithmetic.real(self)


def imag(self: Array) -> Array:
    """The imaginary part."""
    return _arithmetic.imag(self)


def transposed(self: Array) -> Array:
    """The array with its dimensions in reverse order."""
    return lax.transpose(self, tuple(range(self.ndim))[::-1]) if self.ndim > 1 else self


def matrix_transposed(self: Array) -> Array:
    """The array with its last two dimensions exchanged."""
    if self.ndim < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={self.ndim}")
    return lax.transpose(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))


def flat(self: Array) -> Any:
    raise NotImplementedError("JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead.")


def reshape(self: Array, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
    """The array in another shape, given as one argument or several (see veery.numpy.reshape)."""
    if out_sharding is not None:
        return laid_out(lambda: reshape(self, *args, order=order), out_sharding, "reshape")
    return _shaping.reshape(self, args[0] if len(args) == 1 else args, order)


def transpose(self: Array, *args: Any) -> Array:
    """The array with its dimensions in another order: reversed, or as given by one argument or several."""
    if not args:
        return transposed(self)
    (axes,) = args if len(args) == 1 else (args,)
    return _shaping.transpose(self, None if axes is None else as_axes(axes))


def flatten(self: Array, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The array in one dimension."""
    if out_sharding is not None:
        return laid_out(lambda: flatten(self, order), out_sharding, "flatten")
    return _shaping.ravel(self, order)


def astype(self: Array, dtype: Any, copy: bool = False, device: Any = None) -> Array:
    """The array in another dtype (see veery.numpy.astype)."""
    return _creation.astype(self, dtype, copy=copy, device=device)


def copy(self: Array) -> Array:
    """A copy of the array."""
    return _creation.copy(self)


def clip(self: Array, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """The array with what lies below `min` raised to it and what lies above `max` lowered to it."""
    return _arithmetic.clip(self, min, max)


def compress(
    self: Array,
    condition: ArrayLike,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The slices along an axis where a condition holds (see veery.numpy.compress)."""
    return _selection.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)


def view(self: Array, dtype: Any = None, type: None = None) -> Array:
    """The bits of the array as another dtype; the last dimension grows or shrinks with the elements' size.

    Raises:
        NotImplementedError: type is given.
        ValueError: the last dimension does not divide.
        TypeError: dtype is bool while the elements are wider, or one of them is a key.
    """
    if type is not None:
        raise NotImplementedError("`type` argument of array.view() is not supported.")
    if dtype is None:
        return self
    dtype = dtypes.check_and_canonicalize_user_dtype(dtype, "view")
    if self.dtype == dtype:
        return self
    if np.dtype(bool) in (self.dtype, dtype):
        return _view_of_bool(self, dtype)
    if dtypes.issubdtype(self.dtype, np.complexfloating) or dtypes.issubdtype(dtype, np.complexfloating):
        return _view_of_complex(self, dtype)
    return _view_of_bits(self, dtype)


def _view_of_bits(x: Array, dtype: Any) -> Array:
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(dtype)
    if old == new:
        return lax.bitcast_convert_type(x, dtype)
    if x.ndim == 0:
        raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
    if old > new:
        out = lax.bitcast_convert_type(x, dtype)
        return lax.reshape(out, (*x.shape[:-1], x.shape[-1] * (old // new)))
    if (x.shape[-1] * old) % new:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis "
            "of the array."
        )
    ratio = new // old
    return lax.bitcast_convert_type(lax.reshape(x, (*x.shape[:-1], x.shape[-1] // ratio, ratio)), dtype)


def _view_of_bool(x: Array, dtype: Any) -> Array:
    if dtype == np.bool_:
        return lax.ne(view(x, np.uint8), np.uint8(0))
    return view(lax.convert_element_type(x, np.uint8), dtype)


def _view_of_complex(x: Array, dtype: Any) -> Array:
    """Complex numbers are pairs of floats in memory."""
    if x.ndim == 0 and x.dtype.itemsize == dtype.itemsize:
        return lax.reshape(_view_of_complex(lax.reshape(x, (1,)), dtype), ())
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        parts = lax.concatenate([lax.expand_dims(part, (x.ndim,)) for part in (lax.real(x), lax.imag(x))], x.ndim)
        if x.ndim == 0:
            raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
        return view(lax.reshape(parts, (*x.shape[:-1], x.shape[-1] * 2)), dtype)
    real_dtype = np.dtype("float32" if dtype == np.complex64 else "float64")
    floats = _view_of_bits(x, real_dtype) if x.dtype != real_dtype else x
    if x.ndim == 0 or floats.shape[-1] % 2:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis "
            "of the array."
        )
    pairs = lax.reshape(floats, (*floats.shape[:-1], floats.shape[-1] // 2, 2))
    part = lambda i: lax.squeeze(lax.slice_in_dim(pairs, i, i + 1, axis=pairs.ndim - 1), (pairs.ndim - 1,))
    return lax.complex(part(0), part(1))


def byteswap(self: Array) -> Array:
    """The array with the bytes of each element in reverse order."""
    size = self.dtype.itemsize
    if size == 1:
        return self
    if dtypes.issubdtype(self.dtype, np.complexfloating):
        return lax.complex(byteswap(lax.real(self)), byteswap(lax.imag(self)))
    octets = lax.bitcast_convert_type(self, np.uint8)
    return lax.bitcast_convert_type(lax.rev(octets, (octets.ndim - 1,)), self.dtype)


def to_device(self: Array, device: Any, *, stream: Any = None) -> Array:
    """The array on a device."""
    return _creation.place(self, device)


def array_namespace(self: Array, *, api_version: str | None = None) -> Any:
    """The module with the functions of the array API standard."""
    from veery import numpy as jnp  # which attaches these methods

    _array_api.check_version(api_version)
    return jnp


def nbytes(self: Array) -> int:
    """The size of the elements in bytes."""
    return self.size * self.dtype.itemsize


def itemsize(self: Array) -> int:
    """The size of an element in bytes."""
    return self.dtype.itemsize


# Tracers: what Python asks of a value.


def _known(tracer: Tracer) -> Any | None:
    value = tracer.concrete_value()
    return value if value is None or isinstance(value, ArrayImpl) else _creation.asarray(value)


# Integers and truth values decide what a function does, and have no derivatives. Other values would be constants to
# these, where the user means them to be differentiated: they are refused also where they are known.


def _to_python(kind: type) -> Callable[[Tracer], Any]:
    def convert(self: Tracer) -> Any:
        if self.ndim != 0:
            raise TypeError(f"Only scalar arrays can be converted to Python scalars; got arr.ndim={self.ndim}")
        value = _known(self) if kind is int else None
        if value is None:
            raise ConcretizationTypeError(
                self,
                f"The problem arose with the `{kind.__name__}` function. If trying to convert the data type of a "
                f"value, try using `x.astype({kind.__name__})` or `jnp.array(x, {kind.__name__})` instead.",
            )
        return kind(value)

    return convert


def tracer_bool(self: Tracer) -> bool:
    value = _known(self)
    if value is not None:
        return builtins.bool(value)
    if self.size != 1:
        if self.size == 0:
            raise ValueError(
                "The truth value of an empty array is ambiguous. Use `array.size > 0` to check that an array is not "
                "empty."
            )
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()")
    shared = self.shared_value()
    if shared is None:
        raise TracerBoolConversionError(self)
    return builtins.bool(shared)


def tracer_index(self: Tracer) -> int:
    if self.ndim != 0 or not dtypes.issubdtype(self.dtype, np.integer):
        raise TypeError("Only integer scalar arrays can be converted to a scalar index.")
    value = _known(self)
    if value is None:
        raise TracerIntegerConversionError(self)
    return int(value)


def tracer_array(self: Tracer, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    raise TracerArrayConversionError(self)


def tracer_reduce(self: Tracer, *_protocol: Any) -> Any:
    raise ConcretizationTypeError(self, "It was pickled: only its type is known, not its values.")


def tracer_len(self: Tracer) -> int:
    if not self.shape:
        raise TypeError("len() of unsized object")
    return self.shape[0]


def tracer_iter(self: Tracer) -> Iterator[Any]:
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return iter([self[i] for i in range(self.shape[0])])  # type: ignore[index]


def tracer_format(self: Tracer, spec: str) -> str:
    value = _known(self)
    if value is not None and spec:
        return format(value, spec)
    if spec:
        raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
    return repr(self)


def _asks_value(name: str, *, known: bool = False) -> Callable[..., Any]:
    def method(self: Tracer, *args: Any) -> Any:
        value = _known(self) if known else None
        if value is None:
            raise ConcretizationTypeError(
                self,
                f"The {name}() method was called on traced array with shape {self.aval.str_short(short_dtypes=False)}.",
            )
        return getattr(value, name)(*args)

    method.__name__ = name
    return method


_TRACER_METHODS: dict[str, Any] = {
    "__bool__": tracer_bool,
    "__float__": _to_python(float),
    "__int__": _to_python(int),
    "__complex__": _to_python(complex),
    "__index__": tracer_index,
    "__array__": tracer_array,
    "__reduce_ex__": tracer_reduce,
    "__len__": tracer_len,
    "__iter__": tracer_iter,
    "__reversed__": lambda self: iter(list(self)[::-1]),
    "__format__": tracer_format,
    "item": _asks_value("item", known=True),
    "tolist": _asks_value("tolist"),
    "tobytes": _asks_value("tobytes"),
    "nbytes": property(nbytes),
    "itemsize": property(itemsize),
    "copy_to_host_async": lambda self: None,
    "devices": _asks_value("devices", known=True),
}

_COMMON: dict[str, Any] = {
    "__getitem__": getitem,
    "__setitem__": setitem,
    "__contains__": contains,
    "__copy__": copy,
    "__deepcopy__": lambda self, memo: copy(self),
    "__array_namespace__": array_namespace,
    "at": property(at),
    "T": property(transposed),
    "mT": property(matrix_transposed),
    "real": property(real),
    "imag": property(imag),
    "flat": property(flat),
    "reshape": reshape,
    "transpose": transpose,
    "flatten": flatten,
    "astype": astype,
    "copy": copy,
    "clip": clip,
    "compress": compress,
    "view": view,
    "byteswap": byteswap,
    "to_device": to_device,
}


def _method(name: str, function: Any) -> Any:
    """A function of veery.numpy as a method."""

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Array.{name}"
    method.__doc__ = function.__doc__
    method.__signature__ = _signature_of_method(function)  # type: ignore[attr-defined]
    return method


def _signature_of_method(function: Any) -> inspect.Signature:
    """The function's signature with its array under the name `self`."""
    signature = inspect.signature(function)
    array, *rest = signature.parameters.values()
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=array.annotation)
    return signature.replace(parameters=[own, *rest])


def attach(functions: dict[str, Any]) -> None:
    """Give arrays, concrete ones and tracers, their methods.

    Args:
        functions: the public functions of veery.numpy by name.
    """
    methods = _COMMON | _operators.operators()
    methods |= {name: _method(name, functions[name]) for name in _SAME_AS_FUNCTION if name in functions}
    for cls in (_arrays.Array, Tracer):
        for name, method in methods.items():
            setattr(cls, name, method)
    for name, method in _TRACER_METHODS.items():
        setattr(Tracer, name, method)
