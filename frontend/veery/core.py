"""The names of the tracing core that programs use."""

from veery._core.avals import AbstractToken as AbstractToken
from veery._core.avals import AbstractValue as AbstractValue
from veery._core.avals import ShapedArray as ShapedArray
from veery._core.avals import abstract_token as abstract_token
from veery._core.avals import aval_of as aval_of
from veery._core.errors import ConcretizationTypeError as ConcretizationTypeError
from veery._core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from veery._core.errors import JaxprTypeError as JaxprTypeError
from veery._core.errors import UnexpectedTracerError as UnexpectedTracerError
from veery._core.jaxpr import Atom as Atom
from veery._core.jaxpr import ClosedJaxpr as ClosedJaxpr
from veery._core.jaxpr import DebugInfo as DebugInfo
from veery._core.jaxpr import DropVar as DropVar
from veery._core.jaxpr import Effect as Effect
from veery._core.jaxpr import Jaxpr as Jaxpr
from veery._core.jaxpr import JaxprEqn as JaxprEqn
from veery._core.jaxpr import Literal as Literal
from veery._core.jaxpr import NamedAxisEffect as NamedAxisEffect
from veery._core.jaxpr import Var as Var
from veery._core.jaxpr import check_jaxpr as check_jaxpr
from veery._core.jaxpr import eval_jaxpr as eval_jaxpr
from veery._core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from veery._core.jaxpr import no_effects as no_effects
from veery._core.jaxpr import subjaxprs as subjaxprs
from veery._core.primitive import Primitive as Primitive
from veery._core.trace import Trace as Trace
from veery._core.trace import Tracer as Tracer
from veery._core.trace import ensure_compile_time_eval as ensure_compile_time_eval
from veery._core.trace import trace_state_clean as trace_state_clean

Value = object
get_aval = aval_of
jaxprs_in_params = subjaxprs
eval_context = ensure_compile_time_eval
max_dim, min_dim = max, min
