"""Arrays from values: array, asarray, and arrays filled with one value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from veery import _dispatch, lax
from veery._api.placement import put_leaf
from veery._api.platforms import devices
from veery._core import dtypes, source
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, refuse_masked
from veery._core.config import config
from veery._core.partition_spec import PartitionSpec
from veery._core.shapes import canonicalize_shape
from veery._core.sharding import NamedSharding
from veery._core.trace import Tracer, current_trace, eval_trace
from veery._core.transfers import guard
from veery._distributed import spread
from veery._transforms import explicit
from veery.lax._convert import convert_element_type_p
from veery.lax._placement import sharding_like
from veery.numpy._promotion import Array, ArrayLike, broadcast_to, constant, ensure_arraylike, to_dtype, unwrap

_PYTHON_SCALARS = frozenset((bool, int, float, complex))


def from_host(value: np.ndarray, weak_type: bool = False, device: Any = None) -> ArrayImpl:
    """A concrete array that takes over a NumPy array, which nobody else may write to."""
    aval = ShapedArray(value.shape, value.dtype, weak_type)
    made = _dispatch.put(value, aval, device, copy=False)
    return made if device is not None or config._mesh is None else spread([made], (), "array")[0]


def from_host_of(value: np.ndarray, *sources: Any, weak_type: bool = False) -> ArrayImpl:
    """A NumPy array that was computed of arrays (or of others), on the device that the user put these on, if any."""
    whole = [x for x in sources if isinstance(x, ArrayImpl) and x._buffer.device is not None]
    return from_host(value, weak_type, _dispatch.committed_device(whole, "jax.numpy"))


def place(x: Array, device: Any, out_sharding: Any = None) -> Array:
    """The array where it is asked for: on a device, or laid out by a sharding (None: where it is)."""
    where = device if out_sharding is None else out_sharding
    if (
        where is None
        or isinstance(x, np.ndarray)
        or (isinstance(x, Tracer) and not isinstance(where, (NamedSharding, PartitionSpec)))
    ):
        return x
    return put_leaf(x, devices(where)[0] if isinstance(where, str) else where)


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of values.

    Args:
        object: an array, a scalar, nested sequences of these, or anything that NumPy can view as an array.
        dtype: of the result; by default the one in which the values meet. Python numbers give 32-bit arrays unless
            x64 is on, and a lone Python number a weakly typed one.
        *args: copy, order and ndmin by position, which is deprecated.
        copy: whether an array is copied too, so that one of them may be donated; values of NumPy always are.
        order: must be "K" or None.
        ndmin: least rank of the result; dimensions of size 1 are put in front.
        device: where to put the result.
        out_sharding: how to lay it out over devices: a NamedSharding, or a PartitionSpec of the mesh of `set_mesh`.

    Raises:
        TypeError: the values are no numbers.
        ValueError: nested sequences have different lengths, or None is among the values.
        OverflowError: a Python int does not fit the dtype.

    >>> array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if args:
        copy, order, ndmin = _positional(args, (copy, order, ndmin))
    if order is not None and order != "K":
        raise NotImplementedError("Only implemented for order='K'")
    result = _array(object, dtype)
    if copy and result is object:
        result = _copied(result)
    missing = ndmin - result.ndim
    return place(lax.expand_dims(result, tuple(range(missing))) if missing > 0 else result, device, out_sharding)


def _positional(args: tuple[Any, ...], named: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) > len(named):
        raise TypeError(f"array() takes at most 5 positional arguments but {len(args) + 2} were given")
    for name, given, default in zip(("copy", "order", "ndmin"), named, (True, "K", 0)[: len(args)]):
        if given != default:
            raise TypeError(f"array() got multiple values for argument {name!r}")
    warnings.warn(
        "Passing the copy, order, and ndmin arguments to jnp.array positionally is deprecated. Use keyword arguments "
        "instead.",
        DeprecationWarning,
        stacklevel=source.user_stacklevel(),
    )
    return (*args, *named[len(args) :])


def _array(object: Any, dtype: Any) -> Array:
    target = dtypes.check_and_canonicalize_user_dtype(dtype, "array") if dtype is not None else None
    if hasattr(object, "__jax_array__") and not isinstance(object, (ArrayImpl, Tracer)):
        object = object.__jax_array__()
        target = dtypes.dtype_of(object) if target is None else target  # not weak, as in JAX
    if target is None and isinstance(object, ArrayImpl):
        return object
    if isinstance(object, (ArrayImpl, Tracer)):  # tracers may stand for numbers
        return lax._convert.convert(object, target, target is None and dtypes.is_weakly_typed(object))
    if dtypes.is_python_scalar(object):
        return _from_scalar(object, target)
    if isinstance(object, (list, tuple)):
        return _from_sequence(object, target)
    if object is None:
        raise ValueError("None is not a valid value for jnp.array")
    return _from_numpy(_numpy_view(object), object, target)


def _copied(x: Array) -> Array:
    """The array in memory of its own; on the CPU copied by the host, which needs no compiled program."""
    if isinstance(x, np.ndarray):  # of NumPy are arrays of float0
        return x
    if isinstance(x, Tracer) or x._buffer.device is None or x.device.platform != "cpu":
        return lax._shape.copy(x)
    return _dispatch.put(x.to_numpy(), x.aval, x.device if x.committed else None)


def _numpy_view(object: Any) -> np.ndarray:
    """What NumPy makes of an object: of buffers, objects with `__array__`, generators refused; of masked arrays all."""
    if isinstance(object, np.ndarray):
        return object.data if isinstance(object, np.ma.MaskedArray) else object
    if isinstance(object, Iterable) and not hasattr(object, "__len__") and not hasattr(object, "__array__"):
        raise TypeError(f"Unexpected input type for array: {type(object)}")
    return np.asarray(object)


def _from_scalar(value: Any, target: Any) -> Array:
    dtype = dtypes.dtype_of(value) if target is None else target
    _check_complex(type(value), dtype)
    if isinstance(value, int) and not isinstance(value, bool) and dtypes.issubdtype(dtype, np.integer):
        _check_fits(value, value, dtype, target is None)
    return _finish(constant(value, dtype), weak_type=target is None and not isinstance(value, bool))


def _check_complex(kind: type, dtype: Any) -> None:
    if kind is complex and dtype != np.bool_ and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"complex numbers cannot be made an array of {dtype.name}; take their real part first")


def _check_fits(least: int, greatest: int, dtype: Any, default: bool) -> None:
    """Raise OverflowError unless Python ints fit the dtype, in the words of NumPy.

    Those of 2 and 4 bits, which are not NumPy's, take the lowest bits of any int of 64, as in JAX.
    """
    limits = dtypes.iinfo(dtype if dtypes.iinfo(dtype).bits >= 8 else np.dtype("int64"))
    for value in (least, greatest):
        if not limits.min <= value <= limits.max:
            if default:
                raise OverflowError(f"Python int {value} too large to convert to {dtype.name}")
            raise OverflowError(f"Python integer {value} out of bounds for {dtype.name}")


def _finish(value: Any, weak_type: bool = False) -> Array:
    """A NumPy value of its final dtype as an array."""
    value = np.asarray(value)
    if current_trace() is eval_trace or value.size > 1:
        guard("host_to_device", ShapedArray(value.shape, value.dtype, weak_type), "the default device")
        return from_host(value if value.base is None and value.flags.owndata else value.copy(), weak_type)
    return convert_element_type_p.bind(value, new_dtype=value.dtype, weak_type=weak_type)


def number(x: ArrayLike) -> ArrayLike:
    """A Python scalar that a function has of its own, as a default: on the device, it is no transfer of the user's."""
    if dtypes.is_python_scalar(x) and current_trace() is eval_trace:
        return from_host(np.asarray(x, dtypes.dtype_of(x)), weak_type=not isinstance(x, bool))
    return x


def _from_sequence(values: Sequence[Any], target: Any) -> Array:
    types = _leaf_types(values)
    if type(None) in types:
        raise ValueError("None is not a valid value for jnp.array")
    if types <= _PYTHON_SCALARS:
        return _from_python_numbers(values, types, target)
    if any(issubclass(t, Tracer) for t in types) or any(hasattr(t, "__jax_array__") for t in types):
        return _stack(values, target)
    leaves = list(_leaves(values))
    if all(isinstance(x, (np.ndarray, np.generic, ArrayImpl)) or dtypes.is_python_scalar(x) for x in leaves):
        _check_numbers(leaves)
        dtype = dtypes.result_type(*leaves) if target is None else target
        try:
            host = np.array(_on_host(values))
        except ValueError as error:
            if any(isinstance(x, ArrayImpl) for x in leaves):
                raise TypeError(str(error)) from None
            raise
        if any(isinstance(x, ArrayImpl) for x in leaves) and current_trace() is eval_trace:
            return from_host_of(constant(host, dtype), *leaves)
        return _finish(constant(host, dtype))
    return _from_numpy(np.asarray(values), values, target)


def _check_numbers(leaves: Iterable[Any]) -> None:
    for x in leaves:
        if isinstance(x, (np.ndarray, np.generic)):
            _check_number_dtype(x.dtype, x)


def _check_number_dtype(dtype: Any, value: Any) -> None:
    if isinstance(dtype, np.dtype) and dtype.newbyteorder("=") not in dtypes.ALL_DTYPES and dtype != dtypes.float0:
        raise TypeError(
            f"Value '{value}' with dtype {dtype} is not a valid JAX array type. "
            "Only arrays of numeric types are supported by JAX."
        )


def _leaf_types(values: Sequence[Any]) -> set[type]:
    """The types of what is in nested lists and tuples."""
    types = set(map(type, values))
    if list in types or tuple in types or any(issubclass(t, (list, tuple)) for t in types):
        types = {t for t in types if not issubclass(t, (list, tuple))}
        for x in values:
            if isinstance(x, (list, tuple)):
                types |= _leaf_types(x)
    return types


def _leaves(values: Sequence[Any]) -> Iterable[Any]:
    for x in values:
        if isinstance(x, (list, tuple)):
            yield from _leaves(x)
        else:
            yield x


def _on_host(values: Sequence[Any]) -> list[Any]:
    """The nested sequences with arrays replaced by their values."""
    return [
        _on_host(x) if isinstance(x, (list, tuple)) else x.to_numpy() if isinstance(x, ArrayImpl) else x for x in values
    ]


def _from_python_numbers(values: Sequence[Any], types: set[type], target: Any) -> Array:
    widest = next((t for t in (complex, float, int, bool) if t in types), float)
    dtype = dtypes.canonicalize_dtype(widest) if target is None else target
    _check_complex(widest, dtype)
    value = np.array(values)
    if value.dtype == object and dtypes.issubdtype(dtype, np.inexact):
        value = np.array(values, np.float64 if widest is not complex else np.complex128)
    if widest is int and value.dtype.kind == "f" and dtypes.issubdtype(dtype, np.integer) and value.size:
        # some need int64 and others uint64, of which NumPy makes floats
        _check_fits(min(_leaves(values)), max(_leaves(values)), dtype, default=False)
        value = np.array(values, dtype)
    if value.dtype == object:
        raise OverflowError(f"Python int too large to convert to {dtype.name}: {max(_leaves(values), key=abs)}")
    if value.dtype.kind in "iu" and value.size and dtypes.issubdtype(dtype, np.integer):
        _check_fits(int(value.min()), int(value.max()), dtype, default=False)
    return _finish(constant(value, dtype))


def _stack(values: Sequence[Any], target: Any) -> Array:
    """Nested sequences that hold traced values, as operations."""
    if target is None:
        target = dtypes.result_type(*map(unwrap, _leaves(values)))
    parts = [_stack(x, target) if isinstance(x, (list, tuple)) else _array(x, None) for x in values]
    shapes = {np.shape(x) for x in parts}
    if len(shapes) > 1:
        raise TypeError(
            "setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 "
            f"dimensions: its elements have shapes {sorted(shapes)}."
        )
    if not parts:
        return _finish(np.zeros((0,), target))
    return lax.concatenate([lax.expand_dims(to_dtype(x, target), (0,)) for x in parts], 0)


def _from_numpy(value: np.ndarray, object: Any, target: Any) -> Array:
    if value.dtype == np.dtype("O") and isinstance(object, (list, tuple)):
        raise TypeError(f"Unexpected input type for array: {type(next(iter(_leaves(object))))}")
    _check_number_dtype(value.dtype, object)
    if value.dtype == dtypes.float0:
        return value if target in (None, dtypes.float0) else _filled(value.shape, 0, target, False)  # type: ignore[return-value]
    dtype = dtypes.canonicalize_dtype(value.dtype) if target is None else target
    return _finish(np.array(constant(value, dtype)))


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of values; arrays are returned as they are.

    Args:
        a: as for `array`.
        dtype: of the result.
        order: must be "K" or None.
        copy: whether an array is copied too, see `array`; by default it is not.
        device: where to put the result.
        out_sharding: how to lay it out over devices: a NamedSharding, or a PartitionSpec of the mesh of `set_mesh`.

    Raises:
        ValueError: a is a masked array.

    >>> asarray([1.0, 2.0])
    Array([1., 2.], dtype=float32)
    """
    if isinstance(a, np.ndarray):
        refuse_masked(a)
    return array(a, dtype, copy=bool(copy), order=order, device=device)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of an array.

    >>> copy(np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    a = ensure_arraylike("copy", a)
    return lax._shape.copy(a) if isinstance(a, Tracer) else array(a, order=order)


def astype(x: ArrayLike, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """The array in another dtype.

    Args:
        x: an array.
        dtype: the new dtype; None for the default float.
        copy: whether an array that has the dtype is copied, so that one of them may be donated.
        device: where to put the result.

    >>> astype(np.array([0.5, 1.5]), int)
    Array([0, 1], dtype=int32)
    """
    x = ensure_arraylike("astype", x)
    target = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype, "astype")
    x = x if isinstance(x, (ArrayImpl, Tracer)) else array(x)
    if isinstance(target, dtypes.ExtendedDType) or isinstance(x.dtype, dtypes.ExtendedDType):
        return lax.convert_element_type(x, target)
    if dtypes.issubdtype(x.dtype, np.complexfloating) and target == np.bool_:
        return lax.ne(x, to_dtype(0, x.dtype))
    if dtypes.issubdtype(x.dtype, np.complexfloating) and not dtypes.issubdtype(target, np.complexfloating):
        warnings.warn(
            "Casting from complex to real dtypes will soon raise a ValueError. Please first use jnp.real or jnp.imag "
            "to take the real/imaginary component of your input.",
            DeprecationWarning,
            stacklevel=source.user_stacklevel(),
        )
        x = lax.real(x)
    result = lax.convert_element_type(x, target)
    return place(_copied(result) if copy and result is x else result, device)


# Arrays filled with one value.


def _filled(shape: Any, value: complex, dtype: Any, weak_type: bool) -> Array:
    """An array of a number: outside of transformations from host memory, which needs no compiled program."""
    shape = canonicalize_shape(shape)
    if any(d < 0 for d in shape):
        raise TypeError(f"broadcast_in_dim shape must have every element be nonnegative, got {shape}.")
    if dtype == dtypes.float0:
        return np.zeros(shape, dtype)  # type: ignore[return-value]
    if isinstance(dtype, dtypes.KeyDType):
        return lax.full(shape, value, dtype)
    number = constant(value, dtype)
    if current_trace() is eval_trace:
        # By bits: some floats of 8 bits have no zero, and their NaN is what it becomes.
        host = np.full(shape, number, dtype) if any(number.tobytes()) else np.zeros(shape, dtype)
        return from_host(host, weak_type)
    if weak_type:
        number = convert_element_type_p.bind(number, new_dtype=dtype, weak_type=True)
    return lax.broadcast_in_dim(number, shape, ())


def _shape_argument(shape: Any) -> Any:
    """A shape, or a lone size as a tuple of one, so that messages show what a shape is."""
    return shape if isinstance(shape, (tuple, list)) or np.ndim(shape) else (shape,)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros.

    Args:
        shape: an int or a sequence of ints.
        dtype: by default the default float.
        device: where to put it.
        out_sharding: how to lay it out over devices: a NamedSharding, or a PartitionSpec of the mesh of `set_mesh`.

    >>> zeros((2, 3), int)
    Array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    _check_shape_is_one_argument("zeros", shape, dtype)
    dtype = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype, "zeros")
    return place(_filled(_shape_argument(shape), 0, dtype, False), device, out_sharding)


def _check_shape_is_one_argument(name: str, shape: Any, dtype: Any) -> None:
    if isinstance(shape, int) and isinstance(dtype, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type.\n\nDid you accidentally write "
            f"`jax.numpy.{name}({shape}, {dtype})` when you meant `jax.numpy.{name}(({shape}, {dtype}))`, i.e. with a "
            "single tuple argument for the shape?"
        )


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones (see `zeros`).

    >>> ones(2)
    Array([1., 1.], dtype=float32)
    """
    _check_shape_is_one_argument("ones", shape, dtype)
    dtype = dtypes.check_and_canonicalize_user_dtype(float if dtype is None else dtype, "ones")
    return place(_filled(_shape_argument(shape), 1, dtype, False), device, out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose values are not to be relied on: zeros (see `zeros`).

    >>> empty(2).shape
    (2,)
    """
    _check_shape_is_one_argument("empty", shape, dtype)
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(
    shape: Any, fill_value: ArrayLike, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array filled with a value.

    Args:
        shape: an int or a sequence of ints.
        fill_value: a scalar, or an array that broadcasts to the shape.
        dtype: by default that of fill_value.
        device: where to put it.
        out_sharding: how to lay it out over devices: a NamedSharding, or a PartitionSpec of the mesh of `set_mesh`.

    >>> full(3, 7)
    Array([7, 7, 7], dtype=int32, weak_type=True)
    """
    fill_value = ensure_arraylike("full", fill_value)
    weak = dtype is None and dtypes.is_weakly_typed(fill_value)
    target = dtypes.dtype_of(fill_value) if dtype is None else dtypes.check_and_canonicalize_user_dtype(dtype, "full")
    return place(_full(_shape_argument(shape), fill_value, target, weak), device, out_sharding)


def _full(shape: Any, fill_value: ArrayLike, dtype: Any, weak: bool) -> Array:
    shape = canonicalize_shape(shape)
    if isinstance(fill_value, (ArrayImpl, Tracer)) or np.ndim(fill_value) or hasattr(fill_value, "__jax_array__"):
        return broadcast_to(to_dtype(asarray(fill_value), dtype, weak), shape)
    return _filled(shape, fill_value, dtype, weak)


def _like(name: str, a: Any, dtype: Any, shape: Any) -> tuple[Any, Any, bool]:
    """Shape, dtype and weak type of an array like another one (or like anything with a shape and a dtype)."""
    if not (hasattr(a, "shape") and hasattr(a, "dtype")):
        a = ensure_arraylike(name, a)
    if dtype is not None:
        dtype, weak = dtypes.check_and_canonicalize_user_dtype(dtype, name), False
    elif isinstance(getattr(a, "dtype", None), dtypes.ExtendedDType):
        dtype, weak = a.dtype, False
    else:
        dtype, weak = dtypes.canonicalize_dtype(dtypes.dtype_of(a)), dtypes.is_weakly_typed(a)
    return (np.shape(a) if shape is None else canonicalize_shape(shape)), dtype, weak and dtype != np.bool_


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Zeros of the shape and dtype of another array, unless given otherwise.

    >>> zeros_like(np.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _filled_like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Ones of the shape and dtype of another array, unless given otherwise.

    >>> ones_like(np.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    return _filled_like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros of the shape and dtype of another array, unless given otherwise.

    >>> empty_like(np.arange(3)).dtype
    dtype('int32')
    """
    return _filled_like("empty_like", prototype, 0, dtype, shape, device)


def _filled_like(name: str, a: Any, value: int, dtype: Any, shape: Any, device: Any, out_sharding: Any = None) -> Array:
    shape, dtype, weak = _like(name, a, dtype, shape)
    if device is None and out_sharding is None and not weak:
        device = sharding_like(a, shape)
    if isinstance(dtype, dtypes.ExtendedDType):
        return lax.full_like(a, value, shape=shape)
    return place(_divided_like(a, _filled(shape, value, dtype, weak)), device, out_sharding)


def _divided_like(a: Any, made: Array) -> Array:
    """An array that is made in the likeness of a traced one, as its type says."""
    if not isinstance(a, Tracer) or a.aval.divided is None or a.shape != made.shape:
        return made
    return explicit.alike(made, a.aval)


def full_like(
    a: Any,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of the shape and dtype of another one, unless given otherwise, filled with a value.

    >>> full_like(np.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    fill_value = ensure_arraylike("full_like", fill_value, start=1)
    shape, dtype, weak = _like("full_like", a, dtype, shape)
    weak = weak and not np.ndim(fill_value)
    if device is None and out_sharding is None and not weak:
        device = sharding_like(a, shape)
    return place(_divided_like(a, _full(shape, fill_value, dtype, weak)), device, out_sharding)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the numbers in a buffer.

    Args:
        buffer: an object with the buffer interface.
        dtype: of the numbers in it.
        count: how many to read; -1 for all.
        offset: where to begin, in bytes.

    >>> frombuffer(b"abc", dtype="uint8")
    Array([97, 98, 99], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer=buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers in a string.

    >>> fromstring("1 2 3", sep=" ", dtype=int)
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string=string, dtype=np.dtype(dtype), count=count, sep=sep))


def _impure(name: str, what: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Array:
        raise NotImplementedError(
            f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe for use with JIT and other "
            f"JAX transformations. Consider using jnp.asarray(np.{name}(...)) instead, although care should be taken "
            f"if np.{name} is used within a jax transformations because of its potential side-effect of consuming the "
            f"{what} object; for more information see "
            "https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html#pure-functions"
        )

    refuse.__name__ = name
    refuse.__doc__ = f"Not available: it has side effects. Use `asarray(np.{name}(...))`."
    return refuse


fromiter = _impure("fromiter", "iterable")
fromfile = _impure("fromfile", "file")


def _scalar(x: Any, dtype: Any) -> Array:
    """What `float32(x)` makes; of text, the number it denotes."""
    return asarray(np.asarray(x, dtype) if isinstance(x, (str, bytes)) else x, dtype=dtype)


dtypes.set_scalar_maker(_scalar)
