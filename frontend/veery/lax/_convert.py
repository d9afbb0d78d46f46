"""Conversions between dtypes: by value, by bits, and to fewer bits of precision."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import cost, dtypes, host, source
from veery._core.ad import NONDIFFERENTIABLE, Zero
from veery._core.array import is_array
from veery._core.avals import ShapedArray, aval_of, check_operand
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery._core.shapes import concrete_int
from veery.lax import _fill, _shape
from veery.lax._declare import FLOAT, check_dtype
from veery.lax._operands import Array, ArrayLike, apply
from veery.lax._reference import silently, widen


def dtype(x: Any) -> Any:
    """The dtype of a value, or the one that a type or a name stands for, in 32 bits unless x64 is on.

    Raises:
        ValueError: x is None.
        TypeError: x has no dtype.

    >>> dtype(1.0), dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    if x is None:
        raise ValueError(f"Invalid argument to dtype: {x}.")
    if isinstance(x, (type, str, np.dtype, dtypes.ExtendedDType)):
        return dtypes.check_and_canonicalize_user_dtype(x, "dtype")
    return dtypes.dtype_of(x)


# convert_element_type


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The array with its elements converted to another dtype.

    Floats become integers by truncation; those out of range become the nearest limit, and NaN becomes 0. Integers wrap
    around. Complex numbers lose their imaginary part, with a warning. Anything but zero becomes True.

    Args:
        operand: array or scalar.
        new_dtype: a dtype, or one of Python's bool, int, float, complex.

    Returns:
        An array of that dtype, not weakly typed; the operand itself if it is one.

    Raises:
        ValueError: new_dtype is None, or one of the dtypes is that of random keys.
        TypeError: new_dtype is no dtype, or operand no array.
        OverflowError: operand is a Python int that 64 bits do not hold, and new_dtype of integers.

    >>> from veery import lax, numpy as jnp
    >>> lax.convert_element_type(jnp.array([1.7, -1.7]), int)
    Array([ 1, -1], dtype=int32)
    """
    if new_dtype is None:
        raise ValueError("Invalid argument to dtype: None.")
    new_dtype = dtypes.check_and_canonicalize_user_dtype(new_dtype, "convert_element_type")
    if type(operand) is int and not -(2**31) <= operand < 2**31:
        if -(2**63) <= operand < 2**64:
            operand = np.asarray(operand).astype(new_dtype)  # which wraps around
        elif dtypes.issubdtype(new_dtype, np.integer):
            raise OverflowError(f"Python int too large to convert to {new_dtype}: {operand}")
        else:
            with np.errstate(over="ignore"):
                operand = np.asarray(float(operand)).astype(new_dtype)
    return convert(operand, new_dtype, weak_type=False)


def convert(operand: ArrayLike, new_dtype: Any = None, weak_type: bool = False) -> Array:
    """convert_element_type that can make weakly typed results.

    Args:
        operand: array or scalar.
        new_dtype: a canonical dtype; None keeps the operand's.
        weak_type: whether the result is weakly typed.
    """
    if hasattr(operand, "__jax_array__"):
        operand = operand.__jax_array__()
    aval = check_operand("convert_element_type", 0, operand)
    assert isinstance(aval, ShapedArray)
    new_dtype = aval.dtype if new_dtype is None else new_dtype
    if aval.dtype == new_dtype and aval.weak_type == weak_type and is_array(operand):
        return operand
    _check_conversion(aval.dtype, new_dtype)
    if aval.dtype == dtypes.float0:
        return _fill.full(aval.shape, 0, new_dtype)
    return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=bool(weak_type))


def _check_conversion(old: Any, new: Any) -> None:
    if old != new and (isinstance(old, dtypes.ExtendedDType) or isinstance(new, dtypes.ExtendedDType)):
        message = f"Cannot convert_element_type from {_name(old)} to {_name(new)}"
        if not isinstance(old, dtypes.KeyDType) and not isinstance(new, dtypes.KeyDType):
            message += ": dtypes of the user's own are not there. `veery.experimental.hijax` has types of one's own."
        raise ValueError(message)
    if dtypes.issubdtype(old, np.complexfloating) and not any(
        dtypes.issubdtype(new, kind) for kind in (np.complexfloating, np.bool_)
    ):
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=source.user_stacklevel(),
        )


def _name(dtype: Any) -> str:
    return "float0" if dtype == dtypes.float0 else dtype.name


def _convert_aval(x: ShapedArray, *, new_dtype: Any, weak_type: bool) -> ShapedArray:
    return ShapedArray(x.shape, new_dtype, weak_type)


def _convert_jvp(t: Any, out: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    """A conversion between inexact dtypes is linear; to or from others there is no derivative."""
    tangent_aval = aval_of(out).to_tangent_aval()
    if tangent_aval.dtype == dtypes.float0 or aval_of(t).dtype == dtypes.float0:
        return Zero(tangent_aval)
    return convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=weak_type)


def _convert_transpose(ct: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> list[Any]:
    return [convert_element_type_p.bind(ct, new_dtype=x.aval.dtype, weak_type=x.aval.weak_type)]


def _to_integer(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Truncation, within the limits of the dtype; NaN becomes 0."""
    limits = dtypes.iinfo(dtype)
    whole = np.trunc(widen(x))
    below, above = whole <= float(limits.min), whole >= float(limits.max)
    inside = np.where(below | above | np.isnan(whole), 0, whole)
    wide = inside.astype(np.uint64 if limits.min == 0 else np.int64).astype(dtype)
    lowest, highest = np.asarray(limits.min).astype(dtype), np.asarray(limits.max).astype(dtype)
    return np.where(below, lowest, np.where(above, highest, wide)).astype(dtype)


def convert_reference(x: np.ndarray, *, new_dtype: Any, weak_type: bool) -> np.ndarray:
    if dtypes.float0 in (x.dtype, new_dtype):
        return np.zeros(x.shape, new_dtype)
    if isinstance(new_dtype, dtypes.ExtendedDType):
        return x
    dtype = np.dtype(new_dtype)
    if dtype == np.bool_:
        return np.asarray(x != 0)
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtypes.issubdtype(dtype, np.integer) and dtypes.issubdtype(x.dtype, np.floating):
        return np.asarray(silently(_to_integer, x, dtype))
    return np.asarray(silently(x.astype, dtype))


def _conversion_on_host(eqn: JaxprEqn, known: host.Known) -> host.Step | None:
    old, new = host.dtype_of(eqn.invars[0].aval), host.dtype_of(eqn.outvars[0].aval)
    if old == new:
        return host.Step(lambda x: x)
    if old in host.INTEGRAL and new in host.INTEGRAL | host.NATIVE:
        return host.Step(host.reference(eqn) if new == np.bool_ else lambda x: x.astype(new))
    if old in host.NATIVE and new in host.INTEGRAL | host.NATIVE:
        function = host.reference(eqn)
        if new in host.NATIVE:
            return host.Step(function, host.Mode.FLUSHED, 8, rounds=True)
        most = float(np.iinfo(new).max // 2) if new.kind == "i" else 0.0
        inside = lambda x: most and (np.abs(x) < most).all()  # far from the limits: in a tenth of the time
        return host.Step(lambda x: x.astype(new) if inside(x) else function(x), host.Mode.FLUSHED, 8)
    return None


convert_element_type_p: Primitive = Primitive(
    "convert_element_type",
    cost=cost.free,
    host=_conversion_on_host,
    abstract_eval=_convert_aval,
    jvp=(_convert_jvp,),
    transpose=_convert_transpose,
    batch=lambda args, dims, **params: (convert_element_type_p.bind(*args, **params), dims[0]),
    reference=convert_reference,
)


# bitcast_convert_type


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The bits of an array as elements of another dtype.

    Args:
        operand: array of shape (..., n) where the new dtype is n times as wide, else of any shape.
        new_dtype: dtype; where it is n times narrower, the result has a last dimension of size n.

    Raises:
        ValueError: the last dimension does not fit the ratio of the widths.
        TypeError: one dtype is bool or complex, and the other differs.

    >>> from veery import lax, numpy as jnp
    >>> lax.bitcast_convert_type(jnp.array([1.0, -2.0]), jnp.int32)
    Array([ 1065353216, -1073741824], dtype=int32)
    """
    new_dtype = dtypes.check_and_canonicalize_user_dtype(new_dtype, "bitcast_convert_type")
    return apply(bitcast_convert_type_p, operand, new_dtype=new_dtype)


def _bitcast_aval(x: ShapedArray, *, new_dtype: Any) -> ShapedArray:
    if x.dtype != new_dtype and any(_has_no_bits(dtype) for dtype in (x.dtype, new_dtype)):
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand and destination "
            f"types match. Got operand dtype={_name(x.dtype)}, {new_dtype=}. Consider using the arr.view() method "
            "instead."
        )
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    if old == new:
        shape = x.shape
    elif old > new:
        shape = (*x.shape, old // new)
    else:
        last = x.shape[-1] if x.shape else 1
        if not x.shape or last * old != new:
            raise ValueError(
                f"Attempting to convert array of shape {x.shape} from {_name(x.dtype)} of size {old} bits to "
                f"{_name(new_dtype)} of size {new}, bits but {last} * {old} != {new}"
            )
        shape = x.shape[:-1]
    return ShapedArray(shape, new_dtype)


def _has_no_bits(dtype: Any) -> bool:
    return any(dtypes.issubdtype(dtype, kind) for kind in (np.bool_, np.complexfloating))


def _bitcast_batch(args: Sequence[Any], dims: Sequence[int], *, new_dtype: Any) -> tuple[Any, int]:
    x = _shape.moveaxis(args[0], dims[0], 0)  # away from the last dimension, which may come or go
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), 0


def _to_bits(x: np.ndarray) -> np.ndarray:
    """A last dimension of the bits of each element, the lowest first."""
    width = dtypes.itemsize_bits(x.dtype)
    data = np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
    return np.unpackbits(data, axis=-1, bitorder="little")[..., :width]


def _from_bits(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """The inverse of _to_bits. Elements narrower than a byte lie in one, sign-extended."""
    missing = dtype.itemsize * 8 - bits.shape[-1]
    if missing:
        is_signed = dtypes.issubdtype(dtype, np.signedinteger)
        fill = np.repeat(bits[..., -1:] if is_signed else np.zeros_like(bits[..., -1:]), missing, axis=-1)
        bits = np.concatenate([bits, fill], axis=-1)
    return np.packbits(bits, axis=-1, bitorder="little").view(dtype)[..., 0]


def _bitcast_reference(x: np.ndarray, *, new_dtype: Any) -> np.ndarray:
    if x.dtype == new_dtype:
        return x
    out = _bitcast_aval(ShapedArray(x.shape, x.dtype), new_dtype=new_dtype)
    return _from_bits(_to_bits(x).reshape(*out.shape, dtypes.itemsize_bits(new_dtype)), np.dtype(new_dtype))


bitcast_convert_type_p: Primitive = Primitive(
    "bitcast_convert_type",
    cost=cost.free,
    host=host.moves(),
    abstract_eval=_bitcast_aval,
    jvp=NONDIFFERENTIABLE,
    batch=_bitcast_batch,
    reference=_bitcast_reference,
)


# reduce_precision


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to those that a format with fewer bits holds; their dtype stays.

    Args:
        operand: floats.
        exponent_bits: at least 1; what is too large becomes infinite, what is too small zero.
        mantissa_bits: at least 0, not counting the leading one.

    Raises:
        ValueError: there are too few bits.

    >>> from veery import lax, numpy as jnp
    >>> lax.reduce_precision(jnp.array([1.2345678]), 8, 3)
    Array([1.25], dtype=float32)
    """
    exponent_bits, mantissa_bits = (
        concrete_int(bits, f"{name} argument of lax.reduce_precision")
        for bits, name in ((exponent_bits, "exponent_bits"), (mantissa_bits, "mantissa_bits"))
    )
    return apply(reduce_precision_p, operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


def _reduce_precision_aval(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    check_dtype("reduce_precision", x.dtype, FLOAT)
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}")
    return x


def _reduce_precision_linear(t: Any, *_: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    return reduce_precision_p.bind(t, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


def _reduce_precision_reference(x: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Rounded to even in the last bit kept; numbers below the smallest normal one become zeros."""
    wide = widen(x)
    rounded = _round_mantissa(wide, mantissa_bits) if mantissa_bits < 52 else wide
    bias = 2 ** (exponent_bits - 1) - 1
    with np.errstate(all="ignore"):
        overflows = np.abs(rounded) >= np.ldexp(1.0, bias + 1)
        underflows = np.abs(rounded) < np.ldexp(1.0, 1 - bias)
        rounded = np.where(overflows, np.copysign(np.inf, wide), np.where(underflows, np.copysign(0.0, wide), rounded))
        return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


def _round_mantissa(x: np.ndarray, mantissa_bits: int) -> np.ndarray:
    """float64 with fewer bits of mantissa, the others zero; rounding up may carry into the exponent."""
    dropped = np.int64(52 - mantissa_bits)
    bits = x.view(np.int64)
    half_but_one = (np.int64(1) << (dropped - 1)) - 1
    return ((bits + half_but_one + ((bits >> dropped) & 1)) >> dropped << dropped).view(np.float64)


reduce_precision_p: Primitive = Primitive(
    "reduce_precision",
    abstract_eval=_reduce_precision_aval,
    jvp=(_reduce_precision_linear,),
    transpose=lambda ct, x, **params: [_reduce_precision_linear(ct, **params)],
    batch=lambda args, dims, **params: (reduce_precision_p.bind(*args, **params), dims[0]),
    reference=_reduce_precision_reference,
)
