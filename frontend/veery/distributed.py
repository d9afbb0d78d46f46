"""Several processes that compute together: so far one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veery import _dispatch
from veery._core.absent import attributes as _attributes

_initialized = False


@dataclass(frozen=True)
class _State:
    """What is known of the processes, for libraries that read it in `jax._src.distributed`: no service joins them."""

    process_id: int = 0
    num_processes: int = 1
    client: None = None
    service: None = None
    coordinator_address: str | None = None


_state = _State()


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Join the other processes of a program. There can be one: nothing is connected.

    Args:
        coordinator_address: accepted for compatibility.
        num_processes: 1, or None.
        process_id: 0, or None.
        local_device_ids: accepted for compatibility, as are the rest.

    Raises:
        RuntimeError: it was called before, or after the first use of a device.
        NotImplementedError: there are to be several processes.
        ValueError: process_id is not among them.
    """
    global _initialized
    if _initialized:
        raise RuntimeError("distributed.initialize should only be called once.")
    if num_processes not in (None, 1):
        raise NotImplementedError(
            f"distributed.initialize: programs run in one process, got num_processes={num_processes}. One process "
            "shows several CPU devices with config.update('jax_num_cpu_devices', n)."
        )
    if process_id not in (None, 0):
        raise ValueError(f"distributed.initialize: process_id is 0 where there is one process, got {process_id}")
    if _dispatch.first_device.cache_info().currsize:
        raise RuntimeError(
            "jax.distributed.initialize() must be called before any JAX calls that might initialise the XLA backend. "
            "This includes any computation, but also calls to jax.devices, jax.device_put, and others."
        )
    _initialized = True


def is_initialized() -> bool:
    """Whether `initialize` was called.

    >>> is_initialized()
    False
    """
    return _initialized


def shutdown() -> None:
    """Leave the other processes; nothing to do if `initialize` was not called."""
    global _initialized
    _initialized = False


__getattr__, __dir__ = _attributes(__name__)
