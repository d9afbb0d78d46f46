from veery._core.avals import ShapedArray as ShapedArray
from veery._core.trace import Trace as Trace, Tracer as Tracer, trace_state_clean as trace_state_clean
from veery.core import AbstractValue as AbstractValue, jaxpr_as_fun as jaxpr_as_fun
from veery.extend.core import (
    ClosedJaxpr as ClosedJaxpr,
    Jaxpr as Jaxpr,
    JaxprEqn as JaxprEqn,
    Literal as Literal,
    TraceTag as TraceTag,
    Var as Var,
    set_current_trace as set_current_trace,
    take_current_trace as take_current_trace,
)
