"""Custom derivative rules (see also `veery.custom_jvp` and `veery.custom_vjp`)."""

from veery._api.custom_derivatives import (
    CustomVJPPrimal as CustomVJPPrimal,
    SymbolicZero as SymbolicZero,
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
    zero_from_primal as zero_from_primal,
)
from veery._api.linear_call import linear_call as linear_call
from veery._core.absent import attributes as _attributes
from veery._transforms.custom_rules import (
    custom_jvp_call_p as custom_jvp_call_p,
    custom_vjp_call_p as custom_vjp_call_p,
)

__getattr__, __dir__ = _attributes(__name__)
