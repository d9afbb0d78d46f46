"""Contractions: products of arrays summed over dimensions."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import cost, dtypes
from veery._core.ad import MULTILINEAR, is_undefined_primal
from veery._core.array import Array
from veery._core.avals import Shape, ShapedArray, aval_of
from veery._core.config import config
from veery._core.jaxpr import JaxprEqn
from veery._core.primitive import Primitive
from veery.lax import _convert, _shape
from veery.lax._placement import lays_out
from veery.lax._reference import widen

ArrayLike = Any
DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
_Numbers = tuple[tuple[Shape, Shape], tuple[Shape, Shape]]


# ---------------------------------------------------------------------------------------------------------------------
# precision: accepted everywhere, and without effect, since IREE computes in the operands' full precision


class Precision(enum.Enum):
    """How exact products of float32 numbers need be. Every target computes at the highest."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _PRECISIONS.get(value)  # type: ignore[call-overload]

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


_PRECISIONS: dict[str | None, Precision] = {
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    None: Precision.DEFAULT,
}


class DotAlgorithm(NamedTuple):
    """A way to compute products: the types that operands are rounded to and sums are kept in."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Named ways to compute products: `LHS_RHS_ACCUMULATOR`."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __str__(self) -> str:
        return self.name


PrecisionLike = (
    None | str | Precision | tuple[str, str] | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset
)


def canonicalize_precision(precision: PrecisionLike) -> Any:
    """The precision as a pair (one for each operand), an algorithm, or None.

    Raises:
        ValueError: it is not a precision.
    """
    if precision is None:
        default = config.jax_default_matmul_precision
        return None if default is None else canonicalize_precision(default)
    if isinstance(precision, (DotAlgorithm, DotAlgorithmPreset)):
        return precision
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return DotAlgorithmPreset[precision]
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    if len(pair) == 2 and all(isinstance(p, Precision) or (isinstance(p, str) and p in _PRECISIONS) for p in pair):
        return tuple(Precision(p) for p in pair)
    raise ValueError(
        f"Precision argument must be one of:\n- None,\n- a string in {list(_PRECISIONS)},\n- a lax.Precision value,\n"
        f"- a tuple of two lax.Precision values or strings,\n- a lax.DotAlgorithmPreset or the name of one of these "
        f"presets, or\n- a lax.DotAlgorithm value;\nbut got {precision}."
    )


# ---------------------------------------------------------------------------------------------------------------------
# dot_general


@lays_out
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Contract dimensions of two arrays, for each index of their batch dimensions.

    Args:
        lhs: array.
        rhs: array.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.
        precision: see Precision.
        preferred_element_type: dtype of the sums and the result; None for that of the operands.
        out_sharding: how the result is divided over Explicit axes of a mesh.

    Returns:
        An array of the batch dimensions, then lhs' other dimensions, then rhs'.

    Raises:
        TypeError: dimensions or dtypes do not fit.

    >>> from veery import lax
    >>> x = lax.full((2, 3), 1.0)
    >>> lax.dot_general(x, x, (((1,), (1,)), ((), ()))).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    numbers = (_ints(lhs_contract), _ints(rhs_contract)), (_ints(lhs_batch), _ints(rhs_batch))
    if preferred_element_type is not None:
        preferred_element_type = dtypes.check_and_canonicalize_user_dtype(preferred_element_type, "dot_general")
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
    )


def _ints(dims: Sequence[int]) -> Shape:
    return tuple(operator.index(d) for d in dims)


@lays_out
def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Products of vectors and matrices, or with dimension_numbers any contraction (see dot_general).

    Raises:
        ValueError: the shapes are not those of a vector or matrix product, and dimension_numbers is None.
    """
    if dimension_numbers is None:
        lhs_shape, rhs_shape = np.shape(lhs), np.shape(rhs)
        small = 1 <= len(lhs_shape) <= 2 and 1 <= len(rhs_shape) <= 2
        if not small or lhs_shape[-1] != rhs_shape[0]:
            raise ValueError(
                f"jax.lax.dot: dimension_numbers must be specified when not performing simple un-batched "
                f"matrix-matrix, matrix-vector, or vector-vector products; got lhs_shape={lhs_shape} "
                f"rhs_shape={rhs_shape}"
            )
        dimension_numbers = (((len(lhs_shape) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Array, rhs: Array, precision: PrecisionLike = None) -> Array:
    """Matrix products for each index of the leading dimensions.

    Raises:
        ValueError: the operands have less than two dimensions, or different numbers of them.
    """
    lhs_ndim, rhs_ndim = np.ndim(lhs), np.ndim(rhs)
    if min(lhs_ndim, rhs_ndim) < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {lhs_ndim}, {rhs_ndim}")
    if lhs_ndim != rhs_ndim:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {lhs_ndim}, {rhs_ndim}")
    batch = tuple(range(lhs_ndim - 2))
    return dot_general(lhs, rhs, (((lhs_ndim - 1,), (lhs_ndim - 2,)), (batch, batch)), precision)


def _kept(ndim: int, contract: Shape, batch: Shape) -> Shape:
    """The dimensions that are neither contracted nor batch dimensions."""
    return tuple(i for i in range(ndim) if i not in contract and i not in batch)


def _check_dimensions(side: str, x: ShapedArray, contract: Shape, batch: Shape) -> None:
    if not all(0 <= d < x.ndim for d in (*contract, *batch)):
        raise TypeError(
            f"dot_general requires {side} dimension numbers to be nonnegative and less than the number of axes of the "
            f"{side} value, got {side}_batch of {batch} and {side}_contracting of {contract} for {side} of rank "
            f"{x.ndim}"
        )
    if len(set(batch)) != len(batch):
        raise TypeError(f"dot_general requires {side} batch dimensions to be distinct, got {side}_batch {batch}.")
    if len(set(contract)) != len(contract):
        raise TypeError(
            f"dot_general requires {side} contracting dimensions to be distinct, got {side}_contracting {contract}."
        )
    if set(contract) & set(batch):
        raise TypeError(
            f"dot_general requires {side} batch dimensions to be disjoint from contracting dimensions, got "
            f"{side}_batch {batch} and {side}_contracting {contract}."
        )


def _dot_general_abstract_eval(
    lhs: ShapedArray, rhs: ShapedArray, *, dimension_numbers: _Numbers, precision: Any, preferred_element_type: Any
) -> ShapedArray:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    _check_dimensions("lhs", lhs, lhs_contract, lhs_batch)
    _check_dimensions("rhs", rhs, rhs_contract, rhs_batch)
    if len(lhs_batch) != len(rhs_batch):
        raise TypeError(
            f"dot_general requires equal numbers of lhs_batch and rhs_batch dimensions, got lhs_batch {lhs_batch} and "
            f"rhs_batch {rhs_batch}."
        )
    shapes = [tuple(x.shape[d] for d in dims) for x, dims in ((lhs, lhs_batch), (rhs, rhs_batch))]
    if shapes[0] != shapes[1]:
        raise TypeError(
            f"dot_general requires lhs batch dimensions and rhs batch dimensions to have the same shape, got "
            f"{shapes[0]} and {shapes[1]}."
        )
    contracted = [tuple(x.shape[d] for d in dims) for x, dims in ((lhs, lhs_contract), (rhs, rhs_contract))]
    if contracted[0] != contracted[1]:
        raise TypeError(
            f"dot_general requires contracting dimensions to have the same shape, got {contracted[0]} and "
            f"{contracted[1]}."
        )
    free = [lhs.shape[d] for d in _kept(lhs.ndim, lhs_contract, lhs_batch)]
    free += [rhs.shape[d] for d in _kept(rhs.ndim, rhs_contract, rhs_batch)]
    is_algorithm = isinstance(precision, (DotAlgorithm, DotAlgorithmPreset))
    dtype = product_dtype("lax.dot_general", lhs.dtype, rhs.dtype, preferred_element_type, is_algorithm)
    return ShapedArray((*shapes[0], *free), dtype, lhs.weak_type and rhs.weak_type)


def product_dtype(name: str, lhs: Any, rhs: Any, preferred: Any, is_algorithm: bool = False) -> np.dtype:
    """The dtype of sums of products: that of the operand with the larger range and precision, or the preferred one.

    Raises:
        TypeError: neither operand's dtype holds the other's values, or the preferred one is narrower.
    """
    left, right = _capacity(lhs), _capacity(rhs)
    if left == right and lhs != rhs:
        raise TypeError(f"{name} argument type error: {lhs}, {rhs}")
    result = lhs if left >= right else rhs
    if preferred is None or preferred == result:
        return result
    is_complex, keeps_complex = (dtypes.issubdtype(x, np.complexfloating) for x in (result, preferred))
    held = dtypes.to_floating_dtype(result) if is_complex and not keeps_complex else result  # the real part
    narrower = _bits(preferred) < _bits(held)
    if not is_algorithm and not dtypes.issubdtype(result, np.floating) and narrower:
        raise TypeError(
            f"`preferred_element_type` must not be narrower than the original type, got preferred_element_type of "
            f"{preferred} for result type of {result}."
        )
    return np.dtype(preferred)


def _bits(dtype: Any) -> int:
    return 1 if dtype == np.bool_ else dtypes.itemsize_bits(dtype)


def _capacity(dtype: Any) -> tuple[bool, int, int, int, bool]:
    """What orders dtypes by the values they hold: complex, exponent, mantissa, bits, sign."""
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    part = dtypes.to_floating_dtype(dtype) if is_complex else dtype
    exponent, mantissa = -1, -1
    if dtypes.issubdtype(part, np.floating):
        exponent, mantissa = dtypes.finfo(part).maxexp, dtypes.finfo(part).nmant
    return is_complex, exponent, mantissa, _bits(part), not dtypes.issubdtype(part, np.unsignedinteger)


def _pull_back(ct: Any, x: ShapedArray, y: Any, numbers: _Numbers, ct_y: Shape, **params: Any) -> Any:
    """The cotangent of operand x: ct contracted with the other operand y over y's own dimensions.

    Args:
        ct: cotangent; batch dimensions first.
        x: aval of the operand.
        y: the other operand.
        numbers: dimension numbers with x's in the first places.
        ct_y: the dimensions of ct that come from y.
        **params: precision and preferred_element_type.
    """
    (x_contract, y_contract), (x_batch, y_batch) = numbers
    y_kept = _kept(np.ndim(y), y_contract, y_batch)
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        params["preferred_element_type"] = None  # one that is real has the real part of the product
    ct_batch = tuple(range(len(x_batch)))
    out = dot_general_p.bind(ct, y, dimension_numbers=((ct_y, y_kept), (ct_batch, y_batch)), **params)
    # out has x's batch dimensions, its kept ones, and its contracted ones in the order of y's
    by_y = [xc for _, xc in sorted(zip(y_contract, x_contract))]
    order = (*x_batch, *_kept(x.ndim, x_contract, x_batch), *by_y)
    out = _shape.transpose(out, _shape.inverse_permutation(order))
    if aval_of(out).dtype == x.dtype:
        return out
    return _convert.convert_element_type_p.bind(out, new_dtype=x.dtype, weak_type=x.weak_type)


def _dot_general_transpose(ct: Any, lhs: Any, rhs: Any, *, dimension_numbers: _Numbers, **params: Any) -> list[Any]:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    split = len(lhs_batch)
    if is_undefined_primal(lhs):
        free = np.ndim(rhs) - len(rhs_contract) - len(rhs_batch)
        ct_rhs = tuple(range(np.ndim(ct) - free, np.ndim(ct)))
        return [_pull_back(ct, lhs.aval, rhs, dimension_numbers, ct_rhs, **params), None]
    free = np.ndim(lhs) - len(lhs_contract) - len(lhs_batch)
    swapped = (rhs_contract, lhs_contract), (rhs_batch, lhs_batch)
    return [None, _pull_back(ct, rhs.aval, lhs, swapped, tuple(range(split, split + free)), **params)]


def _dot_general_batch(
    args: Sequence[Any], dims: Sequence[int | None], *, dimension_numbers: _Numbers, **params: Any
) -> tuple[Any, int]:
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    shift = lambda ds, at: ds if at is None else tuple(d + (d >= at) for d in ds)
    contract = shift(lhs_contract, lhs_dim), shift(rhs_contract, rhs_dim)
    batch = shift(lhs_batch, lhs_dim), shift(rhs_batch, rhs_dim)
    if lhs_dim is not None and rhs_dim is not None:
        batch = (lhs_dim, *batch[0]), (rhs_dim, *batch[1])
        out_dim = 0
    elif lhs_dim is not None:
        # the batch is one more free dimension of lhs
        out_dim = len(lhs_batch) + _kept(np.ndim(lhs), contract[0], batch[0]).index(lhs_dim)
    else:
        assert rhs_dim is not None
        out_dim = np.ndim(lhs) - len(lhs_contract) + _kept(np.ndim(rhs), contract[1], batch[1]).index(rhs_dim)
    return dot_general_p.bind(lhs, rhs, dimension_numbers=(contract, batch), **params), out_dim


def _dot_general_reference(
    lhs: np.ndarray, rhs: np.ndarray, *, dimension_numbers: _Numbers, precision: Any, preferred_element_type: Any
) -> np.ndarray:
    """Matrix products after transposing to (batch, free, contracted) and (batch, contracted, free); wide floats."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    is_algorithm = isinstance(precision, (DotAlgorithm, DotAlgorithmPreset))
    dtype = product_dtype("dot_general", lhs.dtype, rhs.dtype, preferred_element_type, is_algorithm)
    summed = product_dtype("dot_general", lhs.dtype, rhs.dtype, None)
    kind = np.complexfloating if dtypes.issubdtype(summed, np.complexfloating) else np.inexact
    if dtype == np.bool_ or dtypes.issubdtype(dtype, kind) or not dtypes.issubdtype(summed, np.inexact):
        summed = dtype  # which holds the sum
    wide = widen if dtypes.issubdtype(summed, np.inexact) else lambda x: x.astype(summed)
    a, b = wide(lhs), wide(rhs)
    lhs_kept, rhs_kept = _kept(a.ndim, lhs_contract, lhs_batch), _kept(b.ndim, rhs_contract, rhs_batch)
    batch = [a.shape[d] for d in lhs_batch]
    left, right = [a.shape[d] for d in lhs_kept], [b.shape[d] for d in rhs_kept]
    depth = math.prod(a.shape[d] for d in lhs_contract)
    a = np.transpose(a, (*lhs_batch, *lhs_kept, *lhs_contract)).reshape(*batch, math.prod(left), depth)
    b = np.transpose(b, (*rhs_batch, *rhs_contract, *rhs_kept)).reshape(*batch, depth, math.prod(right))
    with np.errstate(all="ignore"):
        if dtypes.issubdtype(summed, np.complexfloating) and not (np.isfinite(a).all() and np.isfinite(b).all()):
            product = (a[..., None] * b[..., None, :, :]).sum(-2)  # BLAS makes NaN of one infinite term
        else:
            product = np.matmul(a, b)
        product = product.reshape((*batch, *left, *right))
    return _convert.convert_reference(product, new_dtype=dtype, weak_type=False)


def _cost(eqn: JaxprEqn) -> cost.Cost:
    """A product and a sum for each term of each element."""
    (contracting, _), _ = eqn.params["dimension_numbers"]
    terms = math.prod(eqn.invars[0].aval.shape[i] for i in contracting)
    return cost.Cost(flops=2 * math.prod(eqn.outvars[0].aval.shape) * terms)


dot_general_p = Primitive(
    "dot_general",
    checks=("nan",),
    cost=_cost,
    abstract_eval=_dot_general_abstract_eval,
    jvp=MULTILINEAR,
    transpose=_dot_general_transpose,
    batch=_dot_general_batch,
    reference=_dot_general_reference,
)
