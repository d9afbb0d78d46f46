"""The names of the tracing core that programs use."""

import importlib
import warnings
from typing import Any

from veery._core import source as _source
from veery._core.absent import attributes as _attributes
from veery._core.avals import (
    AbstractToken as AbstractToken,
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    abstract_token as abstract_token,
    aval_of as aval_of,
    aval_rules as _aval_rules,
)
from veery._core.errors import (
    ConcretizationTypeError as ConcretizationTypeError,
    InconclusiveDimensionOperation as InconclusiveDimensionOperation,
    JaxprTypeError as JaxprTypeError,
    UnexpectedTracerError as UnexpectedTracerError,
)
from veery._core.jaxpr import (
    Atom as Atom,
    ClosedJaxpr as ClosedJaxpr,
    DebugInfo as DebugInfo,
    DropVar as DropVar,
    Effect as Effect,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    NamedAxisEffect as NamedAxisEffect,
    Var as Var,
    check_jaxpr as check_jaxpr,
    eval_jaxpr as eval_jaxpr,
    jaxpr_as_fun as jaxpr_as_fun,
    no_effects as no_effects,
    subjaxprs as subjaxprs,
)
from veery._core.primitive import Primitive as Primitive
from veery._core.trace import (
    Trace as Trace,
    Tracer as Tracer,
    ensure_compile_time_eval as ensure_compile_time_eval,
    trace_state_clean as trace_state_clean,
)

Value = object
Effects = frozenset[Effect]
get_aval = aval_of
pytype_aval_mappings = _aval_rules
jaxprs_in_params = subjaxprs
eval_context = ensure_compile_time_eval
max_dim, min_dim = max, min

# Deprecated in JAX 0.10, which still has them.
_MOVED = frozenset(
    """
    concrete_or_error find_top_trace gensym get_opaque_trace_state new_jaxpr_eqn nonempty_axis_env_DO_NOT_USE
    primal_dtype_to_tangent_dtype unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
    unsafe_get_axis_names_DO_NOT_USE valid_jaxtype
    """.split()
)
_absent, _names = _attributes(__name__)


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        return _absent(name)
    message = f"{__name__}.{name} is deprecated: use {__name__.replace('core', 'extend.core')}.{name}."
    warnings.warn(message, DeprecationWarning, stacklevel=_source.user_stacklevel())
    return getattr(importlib.import_module("veery.extend.core"), name)


def __dir__() -> list[str]:
    return sorted({*_names(), *_MOVED})
