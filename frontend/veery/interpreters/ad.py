"""Derivative rules of primitives."""

from veery._api.rule_tables import (
    defbilinear as defbilinear,
    defjvp as defjvp,
    defjvp2 as defjvp2,
    deflinear as deflinear,
    deflinear2 as deflinear2,
    primitive_jvps as primitive_jvps,
    primitive_transposes as primitive_transposes,
)
from veery._core.absent import attributes as _attributes
from veery._core.ad import (
    UndefinedPrimal as UndefinedPrimal,
    Zero as Zero,
    add_tangents as add_tangents,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
    zeros_like_aval as zeros_like_aval,
)
from veery._transforms.jvp import JVPTrace as JVPTrace, JVPTracer as JVPTracer, jvp as jvp
from veery._transforms.linearize import linearize as linearize
from veery._transforms.transpose import backward_pass as backward_pass

add_jaxvals = add_tangents


def get_primitive_transpose(primitive):  # type: ignore[no-untyped-def]
    """The transpose rule of a primitive.

    Raises:
        NotImplementedError: it has none.
    """
    if primitive.transpose is None:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{primitive}' not implemented"
        )
    return primitive.transpose


__getattr__, __dir__ = _attributes(__name__)
