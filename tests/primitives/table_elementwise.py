"""One row of samples for each elementwise primitive.

A row says which dtypes the primitive takes and where it is smooth; the tests draw operands from it. `samples` gives
operands for the comparison of compiled code with the reference, awkward values among them; `smooth` gives operands at
which derivatives can be compared with numerical differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from veery import lax
from veery._core.primitive import Primitive
from veery.lax import _samples

FLOATS = ("bfloat16", "float16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
BOOL = ("bool",)
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*INTEGERS, *FLOATS, *COMPLEXES)
ALL = (*BOOL, *NUMBERS)

Operands = tuple[np.ndarray, ...]
Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Row:
    """Samples of one primitive.

    Attributes:
        primitive: the primitive.
        dtypes: names of the dtypes of its operands.
        domains: for each operand an interval in which it is smooth.
        params: the parameters to try.
        differentiable: in which operands it has a derivative that is not zero; empty for none.
        second_order: whether its derivative has a derivative.
        awkward: whether compiled code is also compared at zeros, infinities, NaN and the limits of integers.
        ulps: the error that compiled code may have in units in the last place, where it is more than 4.
        operands: makes the operands for a dtype, for primitives whose operands differ in dtype or shape.
        compiled: the dtypes for which it is also compiled; None for all.
        keep: of awkward operands, those on which compiled code has to agree; the row says why not on others.
    """

    primitive: Primitive
    dtypes: tuple[str, ...]
    domains: tuple[Interval, ...] = ((-3.0, 3.0),)
    params: tuple[dict[str, Any], ...] = ({},)
    differentiable: tuple[int, ...] = ()
    second_order: bool = True
    awkward: bool = True
    ulps: float = 4.0
    compiled: tuple[str, ...] | None = None
    operands: Callable[[np.dtype], Operands] | None = None
    keep: Callable[..., np.ndarray] | None = None

    @property
    def name(self) -> str:
        return self.primitive.name

    def ulps_in(self, dtype: str) -> float:
        """The tolerance for a dtype: 16-bit floats are computed in 32 bits and rounded once."""
        return min(self.ulps, 4.0) if dtype in ("float16", "bfloat16") else self.ulps


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


def is_float(dtype: np.dtype) -> bool:
    return dtype.name in FLOATS


def spread(interval: Interval, dtype: np.dtype, count: int, phase: float) -> np.ndarray:
    """`count` values across an interval, irregular so that no two operands tie; complex ones spiral about it."""
    low, high = interval
    fractions = (np.arange(count) * 0.618034 + phase) % 1.0
    values = low + (high - low) * fractions
    if dtype.kind == "c":
        return (values + 1j * (0.4 + np.cos(7 * fractions + phase))).astype(dtype)
    if dtype.kind == "b":
        return fractions > 0.5
    if dtype.kind == "u":
        values = np.abs(values)
    return values.astype(dtype)


def smooth(row: Row, dtype: np.dtype, count: int = 7) -> Operands:
    """Operands at which the primitive is smooth."""
    if row.operands is not None:
        return row.operands(dtype)
    return tuple(spread(domain, dtype, count, 0.1 + 0.37 * i) for i, domain in enumerate(row.domains))


_AWKWARD_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, np.inf, -np.inf, np.nan)


def _awkward(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if is_float(dtype):
        return np.array([*_AWKWARD_FLOATS, 30.0, 1e-3]).astype(dtype)
    limits = np.iinfo(dtype)
    values = {limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, 7, 31} | (
        {-1, -2, -7} if dtype.kind == "i" else set()
    )
    return np.array(sorted(values), dtype)


def samples(row: Row, dtype: np.dtype) -> Operands:
    """Operands for the comparison of values: smooth ones, and all combinations of awkward ones."""
    regular = smooth(row, dtype)
    if not row.awkward or row.operands is not None or dtype.kind == "c":
        return regular
    grid = np.array(list(itertools.product(_awkward(dtype), repeat=len(regular))), dtype).reshape(-1, len(regular))
    operands = tuple(np.concatenate([a, grid[:, i]]) for i, a in enumerate(regular))
    if row.keep is None:
        return operands
    with np.errstate(all="ignore"):
        kept = np.broadcast_to(row.keep(*operands), operands[0].shape)
    return tuple(a[kept] for a in operands)


# Rows.

_POSITIVE = (0.2, 3.0)
_UNIT = (-0.9, 0.9)


def _unary(primitive: Primitive, dtypes: Sequence[str], domain: Interval = (-3.0, 3.0), **more: Any) -> Row:
    more.setdefault("differentiable", (0,))
    return Row(primitive, tuple(dtypes), (domain,), **more)


def _flat(primitive: Primitive, dtypes: Sequence[str], arity: int = 1, **more: Any) -> Row:
    """A row of a primitive without derivative."""
    more.setdefault("domains", ((-5.3, 5.3),) * arity)
    return Row(primitive, tuple(dtypes), **more)


def _binary(
    primitive: Primitive, dtypes: Sequence[str], domains: tuple[Interval, ...] = ((-3.0, 3.0),) * 2, **more: Any
) -> Row:
    more.setdefault("differentiable", (0, 1))
    return Row(primitive, tuple(dtypes), domains, **more)


_FLOATS_AND_COMPLEX = (*FLOATS, *COMPLEXES)

ARITHMETIC = (
    _unary(lax.neg_p, NUMBERS),
    _flat(lax.sign_p, NUMBERS),
    _unary(lax.abs_p, (*SIGNED, *FLOATS, *COMPLEXES)),
    _flat(lax.floor_p, FLOATS),
    _flat(lax.ceil_p, FLOATS),
    _flat(lax.round_p, FLOATS, params=tuple({"rounding_method": m} for m in lax.RoundingMethod)),
    _flat(lax.is_finite_p, FLOATS),
    _unary(lax.square_p, NUMBERS),
    _unary(lax.integer_pow_p, NUMBERS, params=tuple({"y": y} for y in (0, 1, 2, 3, 7))),
    _unary(lax.integer_pow_p, _FLOATS_AND_COMPLEX, _POSITIVE, params=tuple({"y": y} for y in (-1, -2, -3))),
    _binary(lax.add_p, NUMBERS),
    _binary(lax.sub_p, NUMBERS),
    _binary(lax.mul_p, NUMBERS),
    _binary(lax.div_p, NUMBERS, ((-3.0, 3.0), _POSITIVE)),
    _binary(lax.rem_p, (*INTEGERS, *FLOATS), ((-3.0, 3.0), _POSITIVE)),
    _binary(lax.max_p, (*BOOL, *INTEGERS, *FLOATS)),
    _binary(lax.min_p, (*BOOL, *INTEGERS, *FLOATS)),
    _binary(lax.pow_p, FLOATS, (_POSITIVE, (-3.0, 3.0))),
    _binary(lax.pow_p, COMPLEXES, (_POSITIVE, (-3.0, 3.0))),
    _flat(lax.nextafter_p, ("float16", "float32", "float64", "bfloat16"), 2),
    _flat(lax.mulhi_p, INTEGERS, 2),
    _unary(lax.real_p, COMPLEXES),
    _unary(lax.imag_p, COMPLEXES),
    _binary(lax.complex_p, ("float32", "float64")),
)

TRANSCENDENTAL = (
    _unary(lax.exp_p, _FLOATS_AND_COMPLEX),
    _unary(lax.exp2_p, _FLOATS_AND_COMPLEX),
    _unary(lax.log_p, _FLOATS_AND_COMPLEX, _POSITIVE),
    _unary(lax.log1p_p, _FLOATS_AND_COMPLEX, (-0.6, 3.0)),
    _unary(lax.expm1_p, _FLOATS_AND_COMPLEX),
    _unary(lax.logistic_p, _FLOATS_AND_COMPLEX),
    _unary(lax.sin_p, _FLOATS_AND_COMPLEX),
    _unary(lax.cos_p, _FLOATS_AND_COMPLEX),
    _unary(lax.tan_p, _FLOATS_AND_COMPLEX, (-1.2, 1.2)),
    _unary(lax.asin_p, _FLOATS_AND_COMPLEX, _UNIT),
    _unary(lax.acos_p, _FLOATS_AND_COMPLEX, _UNIT),
    _unary(lax.atan_p, _FLOATS_AND_COMPLEX),
    _binary(lax.atan2_p, _FLOATS_AND_COMPLEX, (_POSITIVE, (-3.0, 3.0))),
    _unary(lax.sinh_p, _FLOATS_AND_COMPLEX),
    _unary(lax.cosh_p, _FLOATS_AND_COMPLEX),
    _unary(lax.tanh_p, _FLOATS_AND_COMPLEX),
    _unary(lax.asinh_p, _FLOATS_AND_COMPLEX),
    _unary(lax.acosh_p, FLOATS, (1.2, 5.0)),
    _unary(lax.acosh_p, COMPLEXES, (-3.0, 3.0)),
    _unary(lax.atanh_p, _FLOATS_AND_COMPLEX, _UNIT),
    _unary(lax.sqrt_p, _FLOATS_AND_COMPLEX, _POSITIVE),
    _unary(lax.rsqrt_p, _FLOATS_AND_COMPLEX, _POSITIVE),
    _unary(lax.cbrt_p, FLOATS, _POSITIVE),
)

BITWISE = (
    _flat(lax.not_p, (*BOOL, *INTEGERS)),
    _flat(lax.and_p, (*BOOL, *INTEGERS), 2),
    _flat(lax.or_p, (*BOOL, *INTEGERS), 2),
    _flat(lax.xor_p, (*BOOL, *INTEGERS), 2),
    _flat(lax.population_count_p, INTEGERS),
    _flat(lax.clz_p, INTEGERS),
    _flat(lax.shift_left_p, INTEGERS, 2),
    _flat(lax.shift_right_logical_p, INTEGERS, 2),
    _flat(lax.shift_right_arithmetic_p, INTEGERS, 2),
)


def _selection(case_count: int, which_shape: tuple[int, ...] = (7,)) -> Callable[[np.dtype], Operands]:
    def operands(dtype: np.dtype) -> Operands:
        indices = (np.arange(7) % case_count).astype(np.int32 if case_count > 2 else np.bool_)
        which = indices if which_shape else indices[1].reshape(())
        return (which, *(spread((-3.0, 3.0), dtype, 7, 0.1 + 0.37 * i) for i in range(case_count)))

    return operands


def _clamping(rank_0: bool) -> Callable[[np.dtype], Operands]:
    """x below, between and above the limits; limits of x's shape or of rank 0."""

    def operands(dtype: np.dtype) -> Operands:
        low, high = (np.array([1, 3]) if dtype.kind == "u" else np.array([-1, 1])).astype(dtype)
        x = spread((-3.0, 5.0), dtype, 7, 0.1)
        if rank_0:
            return np.asarray(low), x, np.asarray(high)
        limits = np.linspace(0.0, 0.4, 7)
        return (low - limits).astype(dtype), x, (high + limits).astype(dtype)

    return operands


COMPARISON = (
    *(_flat(p, ALL, 2) for p in (lax.eq_p, lax.ne_p)),
    *(_flat(p, (*BOOL, *INTEGERS, *FLOATS), 2) for p in (lax.lt_p, lax.le_p, lax.gt_p, lax.ge_p)),
    *(_flat(p, (*INTEGERS, *FLOATS), 2) for p in (lax.eq_to_p, lax.le_to_p, lax.lt_to_p)),
    Row(lax.select_n_p, ALL, operands=_selection(2), differentiable=(1, 2)),
    Row(lax.select_n_p, ("float32", "float64"), operands=_selection(2, ()), differentiable=(1, 2)),
    Row(lax.select_n_p, ("int32", "float32", "float64"), operands=_selection(4), differentiable=(1, 2, 3, 4)),
    Row(lax.clamp_p, (*INTEGERS, *FLOATS), operands=_clamping(False), differentiable=(0, 1, 2)),
    Row(lax.clamp_p, ("int32", "float32", "float64"), operands=_clamping(True), differentiable=(0, 1, 2)),
)


def _conversions(names: Sequence[str]) -> tuple[dict[str, Any], ...]:
    return tuple({"new_dtype": dtype_of(name), "weak_type": False} for name in names)


def _bitcasts(source: str, targets: Sequence[str]) -> Row:
    """From elements to as many, to narrower and to wider ones (the last dimension has the size that takes)."""
    operands = lambda dtype: (spread((-90.0, 90.0), dtype, 8, 0.1).reshape(-1, 2),)
    return Row(lax.bitcast_convert_type_p, (source,), operands=operands,
               params=tuple({"new_dtype": dtype_of(t)} for t in targets))  # fmt: skip


CONVERSION = (
    Row(lax.convert_element_type_p, (*BOOL, *INTEGERS, *FLOATS), params=_conversions(ALL)),
    Row(lax.convert_element_type_p, COMPLEXES, params=_conversions(("bool", *COMPLEXES, *FLOATS)), awkward=False),
    Row(lax.convert_element_type_p, ("float64",), params=_conversions(("float64", "complex128")), differentiable=(0,)),
    Row(
        lax.convert_element_type_p, ("complex128",), params=_conversions(("float64", "complex128")), differentiable=(0,)
    ),
    _bitcasts("float32", ("int32", "uint32", "float32", "uint8", "bfloat16", "uint16", "float64", "uint64")),
    _bitcasts("float16", ("int16", "bfloat16", "uint8", "float32")),
    _bitcasts("int8", ("uint8", "int16", "float16")),
    _bitcasts("float64", ("int64", "uint32", "uint8")),
    _bitcasts("uint32", ("float32", "int64", "float64", "float16")),
    *(Row(lax.bitcast_convert_type_p, (n,), params=({"new_dtype": dtype_of(n)},)) for n in (*BOOL, *COMPLEXES)),
    Row(
        lax.reduce_precision_p, FLOATS, differentiable=(0,),
        params=tuple({"exponent_bits": e, "mantissa_bits": m} for e, m in ((8, 7), (5, 10), (4, 3), (8, 0))),
    ),
)  # fmt: skip

# Series and continued fractions are slow to compile, several share code, and 16-bit floats are computed in 32 bits.
_BOTH: dict[str, Any] = {"compiled": ("float32", "float64")}
_SINGLE: dict[str, Any] = {"compiled": ("float32",)}
_DOUBLE: dict[str, Any] = {"compiled": ("float64",)}

SPECIAL = (
    _unary(lax.erf_p, FLOATS),
    _unary(lax.erfc_p, FLOATS, ulps=8),
    _unary(lax.erf_inv_p, FLOATS, _UNIT),
    _unary(lax.lgamma_p, FLOATS, (0.3, 6.0)),
    _unary(lax.digamma_p, FLOATS, (0.3, 6.0), ulps=8),
    Row(
        lax.polygamma_p, FLOATS, differentiable=(1,), ulps=40, **_BOTH,
        operands=lambda dtype: ((np.arange(7) % 4).astype(dtype), spread((0.3, 6.0), dtype, 7, 0.2)),
    ),
    _binary(lax.zeta_p, FLOATS, ((1.5, 6.0), (0.3, 4.0)), differentiable=(1,), ulps=40, **_BOTH),
    _binary(lax.igamma_p, FLOATS, ((0.3, 6.0), (0.3, 6.0)), second_order=False, ulps=2000),
    _binary(lax.igammac_p, FLOATS, ((0.3, 6.0), (0.3, 6.0)), second_order=False, ulps=2000, **_DOUBLE),
    _binary(
        lax.igamma_grad_a_p, FLOATS, ((0.3, 6.0), (0.3, 6.0)), differentiable=(1,), ulps=2000, **_SINGLE,
        keep=lambda a, x: a > 0,  # there is no derivative at the border
    ),
    _binary(
        lax.random_gamma_grad_p, FLOATS, ((0.3, 6.0), (0.3, 6.0)), differentiable=(), ulps=2000, **_DOUBLE,
        keep=lambda a, x: np.isfinite(a),  # the limit is 1 or undefined, as x grows with a or does not
    ),
    Row(
        lax.regularized_incomplete_beta_p, FLOATS, ((0.5, 4.0), (0.5, 4.0), (0.1, 0.9)), differentiable=(2,), ulps=200,
        **_BOTH,
    ),
    _unary(lax.bessel_i0e_p, FLOATS),
    _unary(lax.bessel_i1e_p, FLOATS),
    _unary(_samples.sample_exp_p, FLOATS),
    _unary(_samples.sample_log_p, FLOATS, _POSITIVE),
    _unary(_samples.sample_log1p_p, FLOATS, (-0.6, 3.0)),
    _binary(_samples.sample_pow_p, FLOATS, (_POSITIVE, (-3.0, 3.0))),
    _unary(_samples.sample_tan_p, FLOATS, _UNIT),
    _unary(_samples.sample_rsqrt_p, FLOATS, _POSITIVE),
)  # fmt: skip

CONJUGATION = tuple(
    _unary(lax.conj_p, (name,), params=({"input_dtype": dtype_of(name)},))
    for name in ("float32", "float64", "complex64", "complex128")
)

ROWS = (*ARITHMETIC, *TRANSCENDENTAL, *BITWISE, *COMPARISON, *CONVERSION, *SPECIAL, *CONJUGATION)
