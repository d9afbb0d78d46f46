"""Derivative rules of primitives."""

from veery._api.rule_tables import defbilinear as defbilinear
from veery._api.rule_tables import defjvp as defjvp
from veery._api.rule_tables import defjvp2 as defjvp2
from veery._api.rule_tables import deflinear as deflinear
from veery._api.rule_tables import deflinear2 as deflinear2
from veery._api.rule_tables import primitive_jvps as primitive_jvps
from veery._api.rule_tables import primitive_transposes as primitive_transposes
from veery._core.ad import UndefinedPrimal as UndefinedPrimal
from veery._core.ad import Zero as Zero
from veery._core.ad import add_tangents as add_tangents
from veery._core.ad import instantiate_zeros as instantiate_zeros
from veery._core.ad import is_undefined_primal as is_undefined_primal
from veery._core.ad import zeros_like_aval as zeros_like_aval
from veery._transforms.jvp import JVPTrace as JVPTrace
from veery._transforms.jvp import JVPTracer as JVPTracer
from veery._transforms.jvp import jvp as jvp
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
