"""Operations that the core needs of the layers above it; those layers fill them in when they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

zeros: Callable[[Any], Any]  # aval -> array of zeros (filled in by veery.lax)
add: Callable[[Any, Any], Any]  # tangent addition (filled in by veery.lax)
copy: Callable[[Any], Any]  # identity that is recorded as an operation (filled in by veery.lax)
dimension_value: Callable[[Any], Any]  # a symbolic dimension as a traced integer (filled in by veery.lax)
run_primitive: Callable[..., Any]  # eager evaluation of a primitive (filled in by veery._dispatch)
stage: Callable[..., Any]  # (function of flat arguments, avals) -> jaxpr (filled in by veery._transforms.staging)
array_from_numpy: Callable[[Any, Any], Any]  # (ndarray, aval) -> concrete array (filled in by veery._dispatch)
execute: Callable[..., list[Any]]  # run a jaxpr without consts on concrete values (filled in by veery._dispatch)
execute_on_devices: Callable[..., list[Any]]  # run pmap's program (filled in by veery._dispatch)
spmd: Callable[[], Any]  # the runtime's exchanges between devices (filled in by veery._dispatch)
default_platform: Callable[[], str]  # name of the platform of the default device (filled in by veery._dispatch)
as_array: Callable[[Any], Any]  # a value as a concrete array (filled in by veery._dispatch)
host_array: Callable[[Any], Any]  # ndarray -> concrete array on the CPU (filled in by veery._dispatch)
on_host: Callable[[], Any]  # context in which new arrays go to the CPU (filled in by veery._dispatch)
effects_happened: Callable[[], None]  # wait for the effects of calls so far (filled in by veery._dispatch)
