"""What Vulkan devices compute in another way than CPUs: float32 functions without float64, which not all have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from veery_lowering import stablehlo as hlo
from veery_lowering.emit.numerics import incomplete, power, real, single, trigonometry
from veery_lowering.emit.numerics._expr import Expr
from veery_lowering.emit.numerics._outline import outlined
from veery_lowering.emit.registry import lookup
from veery_lowering.emit.rules.convert import convert_dtype
from veery_lowering.emit.rules.elementwise import elementwise, in_float32
from veery_lowering.stablehlo import Value

_WIDE = (np.dtype(np.float64), np.dtype(np.complex64), np.dtype(np.complex128))


def _is_narrow_float(x: Value) -> bool:
    dtype = hlo.dtype_of(x)
    return dtype not in _WIDE and dtype.kind in "fV"


def _without_float64(name: str, formula: Callable[..., Expr]) -> None:
    """Lower a primitive on float32 and narrower floats to a formula; other dtypes as everywhere."""

    def narrow(*operands: Value) -> Value:
        return in_float32(lambda *xs: formula(*map(Expr, xs)).value, *operands)

    @elementwise(name, target="vulkan")
    def lower(ctx: Any, *operands: Value, **params: Any) -> Value:
        if not _is_narrow_float(operands[0]):
            general = lookup(name, "any")
            assert general is not None
            return general(ctx, *operands, **params)
        same = [convert_dtype(x, hlo.dtype_of(operands[0])) for x in operands]
        return outlined(name, narrow, same)


for _name, _formula in (
    ("sin", trigonometry.sin),
    ("cos", trigonometry.cos),
    ("tan", trigonometry.tan),
    ("sample_tan", trigonometry.tan),
):
    _without_float64(_name, functools.partial(_formula, reduce=single.reduce_by_half_pi))
_without_float64("sample_rsqrt", real.rsqrt)
_without_float64("rem", single.remainder)
for _name in ("pow", "sample_pow"):
    _without_float64(_name, functools.partial(power.power, magnitude=single.magnitude_of_power))
for _name in ("igamma", "igammac", "igamma_grad_a"):
    _without_float64(_name, functools.partial(getattr(incomplete, _name), density=incomplete.density))
_without_float64(
    "regularized_incomplete_beta",
    functools.partial(incomplete.regularized_incomplete_beta, density=incomplete.beta_density),
)
