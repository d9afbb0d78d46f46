"""Element types: the dtypes, their classes, canonicalisation, promotion with weak types.

A dtype is a `numpy.dtype` (of NumPy or of ml_dtypes) or an `ExtendedDType`. The values of Python's int, float and
complex are weakly typed: they take the dtype of what they meet.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from veery._core import promotion, source
from veery._core.config import config

bfloat16 = ml_dtypes.bfloat16
float4_e2m1fn = ml_dtypes.float4_e2m1fn
float6_e2m3fn = ml_dtypes.float6_e2m3fn
float6_e3m2fn = ml_dtypes.float6_e3m2fn
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz = ml_dtypes.float8_e4m3fnuz
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e5m2fnuz = ml_dtypes.float8_e5m2fnuz
int2, int4 = ml_dtypes.int2, ml_dtypes.int4
uint2, uint4 = ml_dtypes.uint2, ml_dtypes.uint4

# The dtype of tangents of integers: they carry no information.
float0: np.dtype = np.dtype([("float0", np.void, 0)])

DType = Any  # np.dtype | ExtendedDType


def _ml_dtypes(*names: str) -> list[np.dtype]:
    """The dtypes of these names that the installed ml_dtypes has (1-bit integers are recent)."""
    return [np.dtype(getattr(ml_dtypes, name)) for name in names if hasattr(ml_dtypes, name)]


_bool = np.dtype("bool")
_unsigned: list[np.dtype] = [
    *_ml_dtypes(*promotion.SMALL_UNSIGNED),
    *map(np.dtype, ("uint8", "uint16", "uint32", "uint64")),
]
_signed: list[np.dtype] = [*_ml_dtypes(*promotion.SMALL_SIGNED), *map(np.dtype, ("int8", "int16", "int32", "int64"))]
_custom_floats = _ml_dtypes(*promotion.SMALL_FLOATS, "bfloat16")
_floats: list[np.dtype] = [*_custom_floats, *map(np.dtype, ("float16", "float32", "float64"))]
_complexes: list[np.dtype] = [np.dtype("complex64"), np.dtype("complex128")]

ALL_DTYPES: tuple[np.dtype, ...] = (_bool, *_unsigned, *_signed, *_floats, *_complexes)
_dtype_set = frozenset(ALL_DTYPES)
_by_name = {dtype.name: dtype for dtype in ALL_DTYPES}
_custom_dtypes = {dtype for dtype in ALL_DTYPES if dtype.type.__module__.startswith("ml_dtypes")}

_TO_32_BIT = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("complex64"),
}
_TO_64_BIT = {narrow: wide for wide, narrow in _TO_32_BIT.items()}


class TypePromotionError(ValueError):
    """Dtypes met that have no implicit promotion."""


# Extended dtypes: elements with a meaning of their own on top of a physical dtype.


class extended(np.generic):
    """The class of all extended dtypes, for `issubdtype`."""


class prng_key(extended):
    """The class of dtypes of random keys: `issubdtype(key.dtype, prng_key)`."""


TypePromotionError.__module__ = extended.__module__ = prng_key.__module__ = "veery.dtypes"


class ExtendedDType:
    """A dtype beyond NumPy's. Subclasses set `type`, `name`, `physical`."""

    type: type
    name: str
    physical: np.dtype

    @property
    def itemsize(self) -> int:
        return self.physical.itemsize

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class KeyDType(ExtendedDType):
    """The dtype of random keys, e.g. `key<fry>`; equal to itself alone. Made by `key_dtype`.

    Attributes:
        impl: the generator's name, "threefry2x32", "rbg" or "unsafe_rbg".
        tag: what jaxprs call it.
        words: how many words of 32 bits a key has, as users see it. Those of rbg have the same two twice.
        physical: the dtype of its elements in memory: both words of a key in one uint64.
    """

    type = prng_key

    def __init__(self, impl: str, tag: str, physical: np.dtype):
        self.impl = impl
        self.tag = tag
        self.words = 2 if impl == "threefry2x32" else 4
        self.name = f"key<{tag}>"
        self.physical = physical

    def __reduce__(self) -> tuple[Any, ...]:
        return key_dtype, (self.impl,)


KEY_TAGS = {"threefry2x32": "fry", "rbg": "rbg", "unsafe_rbg": "urbg"}
_KEY_DTYPES = {impl: KeyDType(impl, tag, np.dtype("uint64")) for impl, tag in KEY_TAGS.items()}
_KEY_DTYPES |= {KEY_TAGS[impl]: dtype for impl, dtype in _KEY_DTYPES.items()}


def key_dtype(impl: str = "threefry2x32") -> KeyDType:
    """The one dtype object of keys of the generator `impl` (its name or tag); ValueError for an unknown one."""
    try:
        return _KEY_DTYPES[impl]
    except KeyError:
        raise ValueError(f"unrecognized PRNG implementation {impl!r}. Available: {list(KEY_TAGS)}") from None


# What devices hold of dtypes that they have no elements of: integers of less than a byte as numbers of 8 bits, floats
# by their bits.

_AS_NUMBERS = {np.dtype(x): np.dtype(f"{kind}int8") for kind, x in (("", int2), ("", int4), ("u", uint2), ("u", uint4))}
_AS_BITS = {np.dtype(x) for x in (float4_e2m1fn, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz)}


def stored(dtype: Any) -> np.dtype:
    """The dtype that the elements of arrays have in the memory of devices.

    >>> stored(np.dtype(int4)), stored(np.dtype("float32"))
    (dtype('int8'), dtype('float32'))
    """
    physical: np.dtype = getattr(dtype, "physical", dtype)
    return np.dtype("uint8") if physical in _AS_BITS else _AS_NUMBERS.get(physical, physical)


def to_stored(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Values of a dtype (or some that convert to it) as devices hold them."""
    physical: np.dtype = getattr(dtype, "physical", dtype)
    value = value if value.dtype == physical else value.astype(physical)
    if physical in _AS_BITS:
        return value.view(np.uint8)
    return value.astype(_AS_NUMBERS[physical]) if physical in _AS_NUMBERS else value


def from_stored(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Values that a device holds as those of their dtype."""
    if dtype in _AS_BITS:
        return value.view(dtype)
    return value.astype(dtype) if dtype in _AS_NUMBERS else value


# Weak types, and the dtypes of values.

_PYTHON_SCALARS: dict[type, str] = {bool: "bool", int: "i*", float: "f*", complex: "c*"}
_WEAK_DTYPES = {"bool": "bool", "i*": "int64", "f*": "float64", "c*": "complex128"}
_KIND_OF = (
    {_bool: "bool"} | dict.fromkeys(_unsigned + _signed, "i*") | dict.fromkeys(_floats, "f*")
    | dict.fromkeys(_complexes, "c*")
)  # fmt: skip
_SCALAR_TYPE_OF = {node: scalar for scalar, node in _PYTHON_SCALARS.items()}


def _is_extended(dtype: Any) -> bool:
    return isinstance(dtype, ExtendedDType)


def as_dtype(dtype: Any) -> DType:
    """`dtype` (a name, a scalar type, a dtype) as a dtype object, as wide as it says; None is float64, as in NumPy."""
    return dtype if isinstance(dtype, (np.dtype, ExtendedDType)) else np.dtype(dtype)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that an array of `dtype` has under the present `jax_enable_x64`, in native byte order.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    if _is_extended(dtype):
        if not allow_extended_dtype:
            raise ValueError(f"canonicalize_dtype called on extended dtype {dtype} with allow_extended_dtype=False")
        return dtype
    if not isinstance(dtype, np.dtype):
        dtype = np.dtype(dtype)
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    return dtype if config.jax_enable_x64 else _TO_32_BIT.get(dtype, dtype)


def default_int_dtype() -> np.dtype:
    result: np.dtype = canonicalize_dtype(np.int64)
    return result


def default_uint_dtype() -> np.dtype:
    result: np.dtype = canonicalize_dtype(np.uint64)
    return result


def default_float_dtype() -> np.dtype:
    result: np.dtype = canonicalize_dtype(np.float64)
    return result


def default_complex_dtype() -> np.dtype:
    result: np.dtype = canonicalize_dtype(np.complex128)
    return result


def is_python_scalar(x: Any) -> bool:
    """Whether `x` is a bool, int, float or complex of Python; NumPy's scalars that subclass them are not."""
    return type(x) in _PYTHON_SCALARS or (isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic))


def _scalar_node(scalar_type: type) -> str:
    """The weak node of a Python scalar type or of a subclass of one (an IntEnum)."""
    for base in scalar_type.__mro__:
        if base in _PYTHON_SCALARS:
            return _PYTHON_SCALARS[base]
    raise TypeError(f"{scalar_type} is not a type of Python scalars")


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` takes the dtype of what it meets: a number of Python, or an array made from such alone.

    >>> is_weakly_typed(1.0), is_weakly_typed(np.float32(1.0)), is_weakly_typed(True)
    (True, False, False)
    """
    if is_python_scalar(x):
        return not isinstance(x, bool)
    return bool(getattr(getattr(x, "aval", None), "weak_type", False))


def check_valid_dtype(dtype: DType) -> None:
    """Raises TypeError unless arrays may have this dtype."""
    if dtype not in _dtype_set and not _is_extended(dtype) and dtype != float0:
        raise TypeError(
            f"Dtype {dtype} is not a valid array type. Only arrays of numeric types, booleans and keys are supported."
        )


def dtype_of(x: Any) -> DType:
    """The canonical dtype of a value: an array, a tracer, a NumPy array or scalar, a Python scalar.

    Raises:
        TypeError: `x` is none of these, or its elements are not numbers.
    """
    if is_python_scalar(x):
        return canonicalize_dtype(_WEAK_DTYPES[_scalar_node(type(x))])
    dtype = getattr(x, "dtype", None)
    if _is_extended(dtype):
        return dtype
    if not isinstance(dtype, np.dtype) or isinstance(x, type):
        raise TypeError(f"Cannot determine dtype of {x}")
    canonical = canonicalize_dtype(dtype)
    if canonical not in _dtype_set and canonical != float0:
        raise TypeError(
            f"Value '{x}' with dtype {dtype} is not a valid array type. Only arrays of numeric types are supported."
        )
    return canonical


_WEAK_OPERANDS = {
    scalar: (np.dtype(_WEAK_DTYPES[node]), scalar is not bool) for scalar, node in _PYTHON_SCALARS.items()
}


def _operand(x: Any) -> tuple[DType, bool]:
    """(dtype, whether weak) of an operand of a promotion: a value, or something that names a dtype."""
    weak = _WEAK_OPERANDS.get(type(x))
    if weak is not None:
        return weak
    aval = getattr(x, "aval", x)
    if hasattr(aval, "weak_type"):
        return aval.dtype, aval.weak_type
    if x is None:
        return default_float_dtype(), False
    if isinstance(x, type) and x in _WEAK_OPERANDS:
        return _WEAK_OPERANDS[x]
    named = getattr(x, "dtype", None) if isinstance(x, type) else None
    if isinstance(named, np.dtype):  # of `jnp.float64`, of which JAX does not warn here either
        return canonicalize_dtype(named), False
    if isinstance(x, (np.dtype, str, type, ExtendedDType)):
        return check_and_canonicalize_user_dtype(x, "dtype"), False
    dtype = dtype_of(x)
    return dtype, is_weakly_typed(x)


# Promotion.


def _node(dtype: DType, weak: bool) -> str:
    if dtype == float0:
        raise TypeError(
            "float0 arrays, which are the derivatives of integers, do not support any operations by design. Use "
            "np.zeros_like(arr, dtype=np.float32) to make one an array of zeros."
        )
    if dtype not in _dtype_set:
        raise ValueError(f"{dtype=} is not a valid dtype for JAX type promotion.")
    result: str = _KIND_OF[dtype] if weak else dtype.name
    return result


def _display(node: str) -> str:
    return str(_SCALAR_TYPE_OF[node]) if node in promotion.WEAK else node


def _promotion_error(nodes: list[str], strict: bool) -> TypePromotionError:
    names = tuple(_display(node) for node in nodes)
    message = f"Input dtypes {names} have no available implicit dtype promotion path"
    if any(node in promotion.SMALL_FLOATS for node in nodes):
        bits = "8-bit" if any(node.startswith("float8") for node in nodes) else "4-bit"
        detail = f"{bits} floats do not support implicit promotion"
        example = "float32"
    elif any(node in promotion.SMALL_SIGNED + promotion.SMALL_UNSIGNED for node in nodes):
        detail = "1-bit, 2-bit and 4-bit integers do not support implicit promotion"
        example = "int32"
    else:
        mode = " when jax_numpy_dtype_promotion=strict" if strict else ""
        return TypePromotionError(
            f"{message}{mode}. Try explicitly casting inputs to the desired output type, "
            "or set jax_numpy_dtype_promotion=standard."
        )
    return TypePromotionError(
        f"{message}. To avoid unintended promotion, {detail}. If you'd like your inputs to be promoted to another "
        f"type, you can do so explicitly using e.g. x.astype('{example}')"
    )


def _meet(nodes: list[str], x64: bool, strict: bool) -> str:
    nodes = list(dict.fromkeys(nodes))
    result = promotion.least_upper_bound(nodes, x64=x64, strict=strict)
    if result is None:
        raise _promotion_error(nodes, strict)
    return result


@functools.lru_cache(maxsize=4096)
def _lattice(operands: tuple[tuple[DType, bool], ...], x64: bool, mode: str) -> tuple[DType, bool]:
    """The promoted dtype and weakness of operands."""
    if not x64:
        operands = tuple([(_TO_32_BIT.get(dtype, dtype), weak) for dtype, weak in operands])
    all_weak = all(weak for _, weak in operands)
    if len(operands) == 1 or (not all_weak and len({dtype for dtype, _ in operands}) == 1):
        result, weak = operands[0][0], all_weak
    elif all_weak and mode != "strict":
        # Weak operands alone keep their precision: a weak bfloat16 and a weak float32 make a weak float32.
        node, weak = _meet([_node(dtype, False) for dtype, _ in operands], x64, False), True
        result = _by_name[_strong(node)]
    else:
        node = _meet([_node(dtype, weak) for dtype, weak in operands], x64, mode == "strict")
        result, weak = _by_name[_strong(node)], node in promotion.WEAK
    if not x64:
        result = _TO_32_BIT.get(result, result)
    return result, weak and result != _bool


def _strong(node: str) -> str:
    return _WEAK_DTYPES.get(node, node)


def lattice_result_type(*args: Any) -> tuple[DType, bool]:
    """The dtype that the operands promote to, and whether the result is weakly typed.

    Args:
        *args: arrays, tracers, avals, Python scalars or dtypes.

    Raises:
        TypePromotionError: they have no implicit promotion.
    """
    operands = tuple([_operand(x) for x in args])
    return _lattice(operands, config.jax_enable_x64, config.jax_numpy_dtype_promotion)


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that an operation on `args` (arrays, scalars, dtypes) computes in.

    >>> result_type(np.int8(1), 5)
    dtype('int8')
    >>> result_type(np.dtype("int32"), 5.0)
    dtype('float32')
    """
    if not args:
        raise ValueError("at least one array or dtype is required")
    dtype, weak = lattice_result_type(*args)
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype in which two dtypes meet, not truncated to 32 bits. Python's int, float, complex are weak.

    >>> promote_types("int8", "uint8")
    dtype('int16')
    >>> promote_types("bfloat16", "float16")
    dtype('float32')
    """
    nodes = [_PYTHON_SCALARS[x] if isinstance(x, type) and x in _PYTHON_SCALARS else _node(np.dtype(x), False)
             for x in (a, b)]  # fmt: skip
    strict = config.jax_numpy_dtype_promotion == "strict"
    return _by_name[_strong(_meet(nodes, config.jax_enable_x64, strict))]


# Queries.

_ABSTRACT_CLASSES: dict[type, tuple[type, ...]] = {}


def _bases(dtype: np.dtype) -> tuple[type, ...]:
    """The classes of NumPy's hierarchy that a dtype of ml_dtypes counts among."""
    if dtype in _signed:
        return (np.signedinteger, np.integer, np.number, np.generic)
    if dtype in _unsigned:
        return (np.unsignedinteger, np.integer, np.number, np.generic)
    return (np.floating, np.inexact, np.number, np.generic)


for _dtype in _custom_dtypes:
    _ABSTRACT_CLASSES[_dtype.type] = (_dtype.type, *_bases(_dtype))


def _class_of(x: Any) -> type:
    """The scalar class that `x` names: an abstract class of NumPy, or the type of a dtype."""
    if isinstance(x, ExtendedDType):
        return x.type
    if isinstance(x, type) and issubclass(x, np.generic):
        return x
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, ExtendedDType):
        return dtype.type
    return (dtype if isinstance(dtype, np.dtype) else np.dtype(x)).type


@functools.lru_cache(maxsize=4096)
def _is_subclass(a: type, b: type) -> bool:
    return b in _ABSTRACT_CLASSES[a] if a in _ABSTRACT_CLASSES else issubclass(a, b)


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype `a` belongs to the class or dtype `b`: `np.floating`, `np.integer`, `prng_key`, `"float32"`...

    >>> issubdtype(bfloat16, np.floating), issubdtype("int4", np.unsignedinteger)
    (True, False)
    """
    if isinstance(b, ExtendedDType):
        return a is b
    return _is_subclass(_class_of(a), _class_of(b))


_KINDS: dict[str, frozenset[np.dtype]] = {
    "bool": frozenset({_bool}),
    "signed integer": frozenset(_signed),
    "unsigned integer": frozenset(_unsigned),
    "integral": frozenset(_signed + _unsigned),
    "real floating": frozenset(_floats),
    "complex floating": frozenset(_complexes),
    "numeric": frozenset(_signed + _unsigned + _floats + _complexes),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind of the array API ("real floating", "integral"...), a dtype, or one of a tuple.

    >>> isdtype(bfloat16, "real floating"), isdtype("int8", ("bool", "complex floating"))
    (True, False)
    """
    dtype = np.dtype(dtype)
    for option in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(option, str) and option in _KINDS:
            matches = dtype in _KINDS[option]
        elif isinstance(option, (str, np.dtype, ScalarType)) or (isinstance(option, type) and not _is_abstract(option)):
            try:
                matches = dtype == np.dtype(option)
            except TypeError:
                raise ValueError(f"Unrecognized kind={option!r} expected one of {list(_KINDS)}, or a compatible input "
                                 "for jnp.dtype()") from None  # fmt: skip
        else:
            raise TypeError(f"Expected kind to be a dtype, string, or tuple; got kind={option!r}")
        if matches:
            return True
    return False


def _is_abstract(scalar_class: type) -> bool:
    return scalar_class in (
        *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating),
        *(np.complexfloating, np.flexible, np.character),
    )


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """NumPy's `can_cast` for all dtypes: whether a cast from one dtype to another may happen by this rule."""
    return np.can_cast(from_, to, casting=casting)  # type: ignore[arg-type]


def safe_to_cast(from_value: Any, to: Any) -> bool:
    """Whether promoting a value with the dtype `to` gives `to`: nothing is lost by the lattice's measure."""
    from_dtype, weak = _operand(from_value)
    to_dtype, _ = _operand(to)
    return from_dtype == to_dtype or _lattice(
        ((from_dtype, weak), (to_dtype, False)), config.jax_enable_x64, "standard"
    ) == (to_dtype, False)


finfo = ml_dtypes.finfo
iinfo = ml_dtypes.iinfo


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of an element, 4 for int4; bool counts as 8.

    >>> itemsize_bits("int4"), itemsize_bits(bool)
    (4, 8)
    """
    if _is_extended(dtype) or dtype is None or (dtype := np.dtype(dtype)) not in _dtype_set:
        raise ValueError(f"unexpected input: dtype={dtype}")
    if dtype in _custom_dtypes:
        return (iinfo if _KIND_OF[dtype] == "i*" else finfo)(dtype).bits
    result: int = dtype.itemsize * 8
    return result


def supports_inf(dtype: Any) -> bool:
    """Whether a floating dtype has infinities."""
    return bool(np.isinf(np.array(np.inf).astype(dtype).astype(np.float64)))


def scalar_type_of(x: Any) -> type:
    """The Python type (bool, int, float, complex) of a value's or a dtype's elements."""
    dtype = getattr(x, "dtype", None) if not is_python_scalar(x) else dtype_of(x)
    dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(x)
    if dtype not in _KIND_OF:
        raise TypeError(f"Invalid scalar value {x}")
    return _SCALAR_TYPE_OF[_KIND_OF[dtype]]


_SHORT = {"bool": "bool", "bfloat16": "bf16"}


def short_dtype_name(dtype: DType) -> str:
    """The name that jaxprs print: f32, i8, bf16, c64, u4, bool, f8_e4m3fn, key<fry>, float0."""
    if _is_extended(dtype):
        result: str = dtype.name
        return result
    if dtype == float0:
        return "float0"
    name: str = dtype.name
    if name in _SHORT:
        return _SHORT[name]
    for prefix, letter in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        name = letter + name.removeprefix(prefix) if name.startswith(prefix) else name
    return name


# Conversions between kinds.


def _number_dtype(dtype: Any) -> np.dtype:
    if _is_extended(dtype):
        raise TypeError(f"Cannot interpret '{dtype}' as a data type of numbers")
    result: np.dtype = np.dtype(dtype)
    return result


def to_numeric_dtype(dtype: Any) -> np.dtype:
    """The dtype to compute with: bool becomes int32."""
    dtype = _number_dtype(dtype)
    return np.dtype("int32") if dtype == _bool else dtype


_WIDE_INTEGERS = frozenset({np.dtype("int64"), np.dtype("uint64")})


def to_inexact_dtype(dtype: Any) -> np.dtype:
    """The dtype of means and quotients: 64-bit integers become float64, others and bool float32."""
    number: np.dtype = _number_dtype(dtype)
    if _KIND_OF.get(number) in ("f*", "c*"):
        return number
    return np.dtype("float64") if number in _WIDE_INTEGERS else np.dtype("float32")


def to_floating_dtype(dtype: Any) -> np.dtype:
    """The real dtype of norms and angles: that of a complex number's parts, else `to_inexact_dtype`."""
    inexact = to_inexact_dtype(dtype)
    return _REAL_OF.get(inexact, inexact)


_REAL_OF: dict[np.dtype, np.dtype] = {
    np.dtype("complex64"): np.dtype("float32"),
    np.dtype("complex128"): np.dtype("float64"),
}


def to_complex_dtype(dtype: Any) -> np.dtype:
    """The complex dtype that holds values of `dtype`."""
    inexact = to_inexact_dtype(dtype)
    if _KIND_OF[inexact] == "c*":
        return inexact
    return np.dtype("complex128" if inexact == np.float64 else "complex64")


def primal_tangent_dtype(dtype: DType) -> DType:
    """The dtype of the tangents of values of `dtype`: itself for floats and complex numbers, else float0."""
    return dtype if _KIND_OF.get(dtype) in ("f*", "c*") else float0


# Dtypes that a user asks for.


def check_user_dtype_supported(dtype: Any, fun_name: str | None = None) -> None:
    """Raises TypeError for a dtype that arrays cannot have; warns when a 64-bit one will be truncated."""
    check_and_canonicalize_user_dtype(dtype, fun_name)


def check_and_canonicalize_user_dtype(dtype: Any, fun_name: str | None = None) -> DType:
    """The dtype that an array of the dtype asked for will have.

    Args:
        dtype: what the user passed. Python's own types are never too wide: `float` is the default float.
        fun_name: the public function that was called.

    Raises:
        TypeError: arrays cannot have this dtype.
        ValueError: it is a 64-bit one, x64 is off and jax_explicit_x64_dtypes is "error".
    """
    if _is_extended(dtype):
        return dtype
    if isinstance(dtype, type) and dtype in _PYTHON_SCALARS:
        return canonicalize_dtype(dtype)
    if hasattr(dtype, "aval"):
        raise ValueError(
            "Passing an array as a dtype argument is no longer supported; instead of dtype=arr use dtype=arr.dtype."
        )
    requested = np.dtype(dtype)
    place = f" in {fun_name}" if fun_name else ""
    if requested.newbyteorder("=") not in _dtype_set and requested != float0:
        raise TypeError(f"JAX only supports number, bool, and string dtypes, got dtype {dtype}{place}")
    actual = canonicalize_dtype(requested)
    if actual.itemsize < requested.itemsize:
        return _explicit_64_bit(requested, actual, place)
    return actual


def _explicit_64_bit(requested: np.dtype, actual: np.dtype, place: str) -> np.dtype:
    mode = config.jax_explicit_x64_dtypes
    if mode == "allow":
        return requested
    message = f"Explicitly requested dtype {requested}{' requested' + place if place else ''} is not available"
    way_out = "set the jax_enable_x64 configuration option or the JAX_ENABLE_X64 shell environment variable."
    if mode == "error":
        raise ValueError(f"{message}. To enable more dtypes, {way_out}")
    warnings.warn(
        f"{message}, and will be truncated to dtype {actual}. To enable more dtypes, {way_out}",
        stacklevel=source.user_stacklevel(),
    )
    return actual


# Scalar types: `veery.numpy.float32` names a dtype and makes arrays.

_make_scalar: Callable[[Any, np.dtype], Any] | None = None


def set_scalar_maker(maker: Callable[[Any, np.dtype], Any]) -> None:
    """Says how `float32(x)` makes an array: `maker(x, dtype)`. Set once, by the module that makes arrays."""
    global _make_scalar
    _make_scalar = maker


class ScalarType(type):
    """The metaclass of scalar types. They stand for a dtype everywhere, and calling one makes an array of it."""

    dtype: np.dtype

    def __call__(cls, x: Any) -> Any:
        if _make_scalar is None:
            return np.asarray(x, dtype=canonicalize_dtype(cls.dtype))
        return _make_scalar(x, cls.dtype)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, ScalarType):
            return cls is other or cls.dtype == other.dtype
        return other is cls.dtype.type or (isinstance(other, np.dtype) and cls.dtype == other)

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(dtype: np.dtype) -> ScalarType:
    doc = f"Scalar type {dtype.name}: names the dtype, and `{dtype.name}(x)` makes an array of it."
    return ScalarType(dtype.name, (), {"dtype": dtype, "__doc__": doc, "__module__": "veery.numpy"})


scalar_types: dict[str, ScalarType] = {dtype.name: _scalar_type(dtype) for dtype in ALL_DTYPES}
scalar_types |= {
    "bool_": scalar_types["bool"],
    "int_": scalar_types["int64"],
    "uint": scalar_types["uint64"],
    "float_": scalar_types["float64"],
    "complex_": scalar_types["complex128"],
    "single": scalar_types["float32"],
    "double": scalar_types["float64"],
    "csingle": scalar_types["complex64"],
    "cdouble": scalar_types["complex128"],
}
