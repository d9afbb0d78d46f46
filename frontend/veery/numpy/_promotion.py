"""What the operands of NumPy functions undergo first: checks, conversion to one dtype, alignment of ranks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery import lax
from veery._core import dtypes, source
from veery._core.array import ArrayImpl
from veery._core.avals import ShapedArray, aval_of, maybe_aval_of
from veery._core.config import config
from veery._core.dimensions import is_symbolic_dim
from veery._core.shapes import canonicalize_shape
from veery._core.trace import Tracer
from veery.lax._convert import convert_element_type_p

ArrayLike = Any  # an Array, a tracer, a NumPy array or scalar, a Python scalar
Array = Any  # an Array or a tracer


def is_arraylike(x: Any) -> bool:
    """Whether x is an array, a tracer, a NumPy array or scalar, a Python scalar, or has `__jax_array__`."""
    if isinstance(x, (ArrayImpl, Tracer)) and getattr(x, "is_array", True):
        return True
    aval = maybe_aval_of_safe(x)
    return isinstance(aval, ShapedArray) or (aval is not None and hasattr(x, "__jax_array__"))


def maybe_aval_of_safe(x: Any) -> Any:
    """The aval of an array-like, None for anything else, arrays of strings or objects included."""
    try:
        return maybe_aval_of(x)
    except TypeError:
        return None


def unwrap(x: Any) -> Any:
    """The array behind an object with `__jax_array__`; anything else unchanged."""
    if hasattr(x, "__jax_array__") and not (isinstance(x, (ArrayImpl, Tracer)) and getattr(x, "is_array", True)):
        return x.__jax_array__()
    return x


def check_arraylike(name: str, *args: Any, emit_warning: bool = False, start: int = 0) -> None:
    """Raise TypeError unless all arguments are array-like.

    Args:
        name: of the public function, for the message.
        *args: its arguments.
        emit_warning: accepted for compatibility.
        start: position of the first of the arguments.

    Raises:
        TypeError: an argument is a list, None, a string...
    """
    for position, x in enumerate(args, start):
        if not is_arraylike(x):
            raise TypeError(f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}.")


def check_no_out(name: str, out: Any) -> None:
    """Raise NotImplementedError unless `out` is None: arrays are immutable."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


def ensure_arraylikes(name: str, *args: Any, start: int = 0) -> tuple[Any, ...]:
    """The arguments, checked as by `check_arraylike`, those with `__jax_array__` converted."""
    check_arraylike(name, *args, start=start)
    return tuple(map(unwrap, args))


def ensure_arraylike(name: str, *args: Any, start: int = 0) -> Any:
    """Like `ensure_arraylikes`; of one argument the argument alone."""
    converted = ensure_arraylikes(name, *args, start=start)
    return converted[0] if len(converted) == 1 else converted


def ensure_arraylike_or_none(name: str, *args: Any) -> Any:
    """Like `ensure_arraylike`, but None is left as it is."""
    converted = tuple(None if x is None else ensure_arraylike(name, x, start=i) for i, x in enumerate(args))
    return converted[0] if len(converted) == 1 else converted


# Dtypes.


def to_dtype(x: ArrayLike, dtype: Any, weak: bool = False) -> Any:
    """x in a dtype; constants of Python and NumPy are converted at once, arrays by an operation.

    Args:
        x: an array-like.
        dtype: a dtype object.
        weak: whether the result is to be weakly typed.
    """
    if dtypes.is_python_scalar(x):
        return _scalar_to_dtype(x, dtype, weak)
    if isinstance(x, (np.ndarray, np.generic)):
        if not weak:
            return constant(x, dtype)
    x = unwrap(x)
    aval = aval_of(x)
    assert isinstance(aval, ShapedArray)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)


def as_positions(x: ArrayLike) -> Any:
    """Integers as they are compared with sizes, which may not fit in a dtype of fewer than 32 bits: these as int32."""
    return to_dtype(x, np.dtype(np.int32)) if dtypes.itemsize_bits(dtypes.dtype_of(x)) < 32 else x


def size_as(n: Any, dtype: np.dtype) -> Any:
    """A size as a scalar of a dtype; that of a symbolic dimension is traced."""
    return to_dtype(n.__jax_array__(), dtype) if is_symbolic_dim(n) else dtype.type(n)


def _scalar_to_dtype(x: complex, dtype: Any, weak: bool) -> Any:
    check_python_int(x)
    scalar_type = dtypes.scalar_type_of(dtype)
    if weak and dtypes.dtype_of(scalar_type(0)) == dtype:
        return scalar_type(x)  # type: ignore[arg-type]
    value = constant(x, dtype)
    return convert_element_type_p.bind(value, new_dtype=dtype, weak_type=True) if weak else value


def check_python_int(x: Any) -> None:
    """Raise OverflowError for a Python int that the default integer dtype does not hold."""
    if isinstance(x, int) and not isinstance(x, bool):
        dtype = dtypes.default_int_dtype()
        limits = np.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            raise OverflowError(f"Python int {x} too large to convert to {dtype.name}")


def constant(x: Any, dtype: Any) -> Any:
    """A NumPy array or scalar, or a Python scalar, in a dtype: integers wrap around, imaginary parts are dropped."""
    value = np.asarray(x)
    if value.dtype != dtype:
        with np.errstate(all="ignore"):
            if np.iscomplexobj(value) and dtype != np.bool_ and not dtypes.issubdtype(dtype, np.complexfloating):
                value = value.real
            value = value.astype(dtype)
    return value[()] if value.ndim == 0 else value


def promote_dtypes(*args: ArrayLike) -> list[Any]:
    """The arguments converted to the dtype in which they meet.

    >>> x, y = promote_dtypes(np.int8(1), 2)
    >>> x.dtype, y.dtype
    (dtype('int8'), dtype('int8'))
    """
    if len(args) < 2:
        return [strong(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in args]
    dtype, weak = dtypes.lattice_result_type(*args)
    return [to_dtype(x, dtype, weak) for x in args]


def promote_factors(*args: ArrayLike) -> list[Any]:
    """The same for what is contracted: factors keep a weak type, so that what comes back to them is not weak."""
    dtype, weak = dtypes.lattice_result_type(*args)
    return [to_dtype(x, dtype, weak or aval_of(x).weak_type) for x in args]  # type: ignore[attr-defined]


def strong(x: Any) -> Any:
    """A NumPy array in its canonical dtype."""
    return constant(x, dtypes.dtype_of(x))


def promote_dtypes_inexact(*args: ArrayLike) -> list[Any]:
    """Like promote_dtypes, integers and bools becoming floats."""
    dtype, weak = dtypes.lattice_result_type(*args)
    inexact = dtypes.to_inexact_dtype(dtype)
    return [to_dtype(x, inexact, weak) for x in args]


def promote_dtypes_numeric(*args: ArrayLike) -> list[Any]:
    """Like promote_dtypes, bools becoming integers."""
    dtype, weak = dtypes.lattice_result_type(*args)
    return [to_dtype(x, dtypes.to_numeric_dtype(dtype), weak) for x in args]


def promote_dtypes_complex(*args: ArrayLike) -> list[Any]:
    """Like promote_dtypes, everything becoming complex."""
    dtype, weak = dtypes.lattice_result_type(*args)
    return [to_dtype(x, dtypes.to_complex_dtype(dtype), weak) for x in args]


# Shapes.


def promote_shapes(name: str, *args: ArrayLike) -> list[Any]:
    """The arguments, of rank 0 or all of the same rank, by new leading dimensions of size 1.

    Args:
        name: of the public function, for messages.
        *args: array-likes.

    Raises:
        ValueError: the shapes do not broadcast, or differ in rank while jax_numpy_rank_promotion is "raise".
    """
    shapes = [np.shape(x) for x in args]
    if not check_rank_promotion(name, *args):
        return list(args)
    rank = len(lax.broadcast_shapes(*shapes))
    return [lax.broadcast_to_rank(x, rank) if shape else x for x, shape in zip(args, shapes)]


def strong_array(x: Array) -> Array:
    """An array without a weak type; a number keeps it. So are JAX's results of functions with constants in them."""
    return to_dtype(x, dtypes.dtype_of(x)) if np.ndim(x) else x


def check_rank_promotion(name: str, *args: ArrayLike) -> bool:
    """Whether arguments that are not of rank 0 differ in rank.

    Raises:
        ValueError: they do, while jax_numpy_rank_promotion is "raise".
    """
    return check_ranks(name, *map(np.shape, args))


def check_ranks(name: str, *shapes: tuple[int, ...]) -> bool:
    """The same of arguments of these shapes."""
    differ = len({len(shape) for shape in shapes if shape}) > 1
    if differ and config.jax_numpy_rank_promotion != "allow":
        _rank_promotion(name, shapes)
    return differ


def _rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    listed = " ".join(map(str, shapes))
    if config.jax_numpy_rank_promotion == "warn":
        warnings.warn(
            f"Following NumPy automatic rank promotion for {name} on shapes {listed}. Set the "
            "jax_numpy_rank_promotion config option to 'allow' to disable this warning; for more information, see "
            "https://docs.jax.dev/en/latest/rank_promotion_warning.html.",
            stacklevel=source.user_stacklevel(),
        )
    else:
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {listed} and with the config option "
            "jax_numpy_rank_promotion='raise'. For more information, see "
            "https://docs.jax.dev/en/latest/rank_promotion_warning.html."
        )


# Both.


def promote_args(name: str, *args: ArrayLike) -> list[Any]:
    """The arguments of an elementwise function, checked, in one dtype and with aligned ranks.

    Raises:
        TypeError: an argument is no array.
        ValueError: the shapes do not broadcast.
        TypePromotionError: the dtypes have no implicit promotion.
    """
    check_arraylike(name, *args)
    xs = [unwrap(x) for x in args]
    avals = [aval_of(x) for x in xs]
    if any(isinstance(aval.dtype, dtypes.ExtendedDType) for aval in avals) and len({aval.dtype for aval in avals}) > 1:  # type: ignore[attr-defined]
        raise TypeError(f"{name} does not accept dtypes {', '.join(str(aval.dtype) for aval in avals)}.")  # type: ignore[attr-defined]
    return promote_shapes(name, *promote_dtypes(*xs))


def promote_args_inexact(name: str, *args: ArrayLike) -> list[Any]:
    """Like promote_args, integers and bools becoming floats."""
    check_arraylike(name, *args)
    return promote_shapes(name, *promote_dtypes_inexact(*map(unwrap, args)))


def promote_args_numeric(name: str, *args: ArrayLike) -> list[Any]:
    """Like promote_args, bools becoming integers."""
    check_arraylike(name, *args)
    return promote_shapes(name, *promote_dtypes_numeric(*map(unwrap, args)))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arguments as arrays of the shape in which they broadcast."""
    shape = lax.broadcast_shapes(*(np.shape(x) for x in args))
    return [broadcast_to(x, shape) for x in args]


def broadcast_to(x: ArrayLike, shape: Any) -> Array:
    """x broadcast to a shape as NumPy does.

    Raises:
        ValueError: it does not broadcast to that shape.
    """
    shape = canonicalize_shape(shape)
    old = np.shape(x)
    if old == shape and isinstance(x, (ArrayImpl, Tracer)):
        return x
    lead = len(shape) - len(old)
    if lead < 0:
        raise ValueError(f"Cannot broadcast to shape with fewer dimensions: arr_shape={old} shape={shape}")
    if any(a not in (1, b) for a, b in zip(old, shape[lead:])):
        aval = aval_of(x)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={aval.str_short(short_dtypes=False)} and "  # type: ignore[attr-defined]
            f"requested type={aval.update(shape=shape).str_short(short_dtypes=False)}"  # type: ignore[attr-defined]
        )
    return lax.broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))
