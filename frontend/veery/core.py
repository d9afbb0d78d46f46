"""The names of the tracing core that programs use."""

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
get_aval = aval_of
pytype_aval_mappings = _aval_rules
jaxprs_in_params = subjaxprs
eval_context = ensure_compile_time_eval
max_dim, min_dim = max, min

__getattr__, __dir__ = _attributes(__name__)
