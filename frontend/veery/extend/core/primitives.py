"""All primitives."""

from veery import lax as _lax
from veery._core.absent import attributes as _attributes
from veery._core.primitive import Primitive as _Primitive
from veery._transforms.calls import InlinedCall as _InlinedCall, jit_p as jit_p
from veery._transforms.custom_rules import (
    custom_jvp_call_p as custom_jvp_call_p,
    custom_lin_p as custom_lin_p,
    custom_vjp_call_p as custom_vjp_call_p,
)
from veery._transforms.remat import checkpoint_p as _checkpoint_p, name_p as name_p
from veery.lax._refs import get_p as get_p, swap_p as swap_p
from veery.lax._rng import (
    random_bits_p as random_bits_p,
    random_fold_in_p as random_fold_in_p,
    random_seed_p as random_seed_p,
    random_split_p as random_split_p,
    threefry2x32_p as threefry2x32_p,
)
from veery.lax._solve import linear_solve_p as linear_solve_p

_named = {**vars(_lax), **vars(_lax.linalg)}
globals().update({name: value for name, value in _named.items() if isinstance(value, _Primitive)})

remat_p = _checkpoint_p

# Calls that are neither compiled nor checkpointed leave no equation behind: these evaluate what they are given.
call_p, closed_call_p = _InlinedCall("call"), _InlinedCall("closed_call")

__getattr__, __dir__ = _attributes(__name__)
