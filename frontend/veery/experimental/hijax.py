"""Types and operations of the user's, in terms of those that exist."""

from veery._api.hijax import VJPHiPrimitive as VJPHiPrimitive
from veery._core.ad import (
    Zero as Zero,
    instantiate_zeros as instantiate_zeros,
    is_undefined_primal as is_undefined_primal,
)
from veery._core.avals import (
    AbstractValue as AbstractValue,
    ShapedArray as ShapedArray,
    aval_method as aval_method,
    aval_property as aval_property,
)
from veery._core.hitypes import (
    AvalMutableQDD as AvalMutableQDD,
    AvalQDD as AvalQDD,
    HiPspec as HiPspec,
    HiType as HiType,
    MutableHiType as MutableHiType,
    control_flow_allowed_effects as control_flow_allowed_effects,
    register_hitype as register_hitype,
)
from veery._core.refs import AbstractRef as AbstractRef
from veery._transforms.high import HiPrimitive as HiPrimitive
from veery.lax._refs import TransformedRef as TransformedRef
