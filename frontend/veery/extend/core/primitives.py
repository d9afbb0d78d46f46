"""All primitives."""

from veery import lax as _lax
from veery._core.primitive import Primitive as _Primitive
from veery._transforms.calls import jit_p as jit_p
from veery._transforms.custom_rules import (
    custom_jvp_call_p as custom_jvp_call_p,
    custom_lin_p as custom_lin_p,
    custom_vjp_call_p as custom_vjp_call_p,
)
from veery._transforms.remat import name_p as name_p
from veery.lax._solve import linear_solve_p as linear_solve_p

globals().update({name: value for name, value in vars(_lax).items() if isinstance(value, _Primitive)})
