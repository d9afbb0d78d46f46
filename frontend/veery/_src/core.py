from veery._core.avals import ShapedArray as ShapedArray
from veery._core.trace import trace_state_clean as trace_state_clean
