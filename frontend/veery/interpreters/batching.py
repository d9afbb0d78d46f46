"""Batching rules of primitives."""

from veery._api.rule_tables import (
    axis_primitive_batchers as axis_primitive_batchers,
    bdim_at_front as bdim_at_front,
    broadcast as broadcast,
    defbroadcasting as defbroadcasting,
    defreducer as defreducer,
    defvectorized as defvectorized,
    fancy_primitive_batchers as fancy_primitive_batchers,
    primitive_batchers as primitive_batchers,
)
from veery._core.absent import attributes as _attributes
from veery._transforms.batching import (
    AxisData as AxisData,
    BatchTrace as BatchTrace,
    VmapTracer as VmapTracer,
    not_mapped as not_mapped,
)
from veery._transforms.vmappables import (
    is_vmappable as is_vmappable,
    register_vmappable as register_vmappable,
    unregister_vmappable as unregister_vmappable,
)
from veery.lax._shape import moveaxis as moveaxis

BatchTracer = VmapTracer

__getattr__, __dir__ = _attributes(__name__)
