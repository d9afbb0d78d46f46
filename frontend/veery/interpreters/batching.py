"""Batching rules of primitives."""

from veery._api.rule_tables import axis_primitive_batchers as axis_primitive_batchers
from veery._api.rule_tables import bdim_at_front as bdim_at_front
from veery._api.rule_tables import broadcast as broadcast
from veery._api.rule_tables import defbroadcasting as defbroadcasting
from veery._api.rule_tables import defreducer as defreducer
from veery._api.rule_tables import defvectorized as defvectorized
from veery._api.rule_tables import fancy_primitive_batchers as fancy_primitive_batchers
from veery._api.rule_tables import primitive_batchers as primitive_batchers
from veery._transforms.batching import AxisData as AxisData
from veery._transforms.batching import BatchTrace as BatchTrace
from veery._transforms.batching import VmapTracer as VmapTracer
from veery._transforms.batching import not_mapped as not_mapped
from veery.lax._shape import moveaxis as moveaxis

BatchTracer = VmapTracer
