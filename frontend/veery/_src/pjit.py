from veery.extend.core.primitives import jit_p as jit_p
from veery.sharding import auto_axes as auto_axes
