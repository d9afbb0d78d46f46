"""Looking at values of traced functions while they run, and whether they are right."""

from veery._api.sharding_pictures import (
    inspect_array_sharding as inspect_array_sharding,
    visualize_array_sharding as visualize_array_sharding,
    visualize_sharding as visualize_sharding,
)
from veery._api.verify import verify as verify
from veery._core.absent import attributes as _attributes
from veery._core.effects import DebugEffect as DebugEffect, OrderedDebugEffect as OrderedDebugEffect
from veery._core.errors import VerificationError as VerificationError
from veery.lax._breakpoint import debug_breakpoint as breakpoint
from veery.lax._debug import debug_callback as callback, debug_log as log, debug_print as print

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "VerificationError",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "verify",
    "visualize_array_sharding",
    "visualize_sharding",
]

__getattr__, __dir__ = _attributes(__name__)
