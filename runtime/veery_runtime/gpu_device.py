"""GPUs as devices: IREE's drivers whose memory the host does not see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from veery_runtime import completion, iree
from veery_runtime.buffer import Spec
from veery_runtime.device import Device
from veery_runtime.errors import ForkedProcessError, tells_of_loss

# The host reads slowly what its cache does not keep, as CUDA's memory for it is unless it is asked for.
_STAGING = int(iree.MemoryType.HOST_LOCAL) | int(iree.MemoryType.DEVICE_VISIBLE)
_CACHED = {"cuda": int(iree.MemoryType.HOST_CACHED)}


class GpuDevice(Device):
    """A device behind IREE's vulkan or cuda driver. Its memory is reached through staging copies.

    A driver may give a device up. Then the buffers on it fail, and it is opened anew for what comes.
    """

    host_visible = False
    lost: ClassVar[Callable[[], None] | None] = None  # what to call after a loss

    def __init__(
        self,
        id: int,
        platform: str,
        kind: str,
        open: Callable[[], iree.HalDevice],
        target: str,
        enter: Callable[[], None],
    ) -> None:
        """`enter` is called by each thread that reaches for the device."""
        self.platform = platform
        self._enter = enter
        self.target = target
        super().__init__(id, kind)
        self._open = open
        self._hal: iree.HalDevice | None = iree.immortal(open())
        self.dlpack_device = ({"cuda": 2, "vulkan": 7}[platform], id)

    @property
    def hal(self) -> iree.HalDevice:
        if self._generation != completion.generation:
            raise ForkedProcessError(f"{self!r}: a forked child cannot use the parent's device")
        self._enter()
        hal = self._hal
        if hal is None:
            with self._lock:
                hal = self._hal
                if hal is None:
                    hal = self._hal = iree.immortal(self._open())
        return hal

    def on_loss(self, hal: iree.HalDevice) -> Callable[[BaseException], None] | None:
        return functools.partial(self._lose, hal)

    def _lose(self, hal: iree.HalDevice, error: BaseException) -> None:
        with self._lock:
            if self._hal is not hal:  # known already
                return
            self._hal, self.loss = None, error
            # No buffer of the lost device may reach a program on the new one: drivers die of foreign handles.
            for buffer in self.live_buffers():
                buffer._ref, buffer._pending = None, completion.Failed(error)
        if GpuDevice.lost is not None:
            GpuDevice.lost()

    def upload(self, array: np.ndarray[Any, Any], spec: Spec) -> Any:
        hal = self.hal
        try:
            return super().upload(array, spec)
        except Exception as error:
            if not tells_of_loss(error):
                raise
            cause = self.failure(f"copy to {self!r}", error, hal)
        raise cause

    def read_view(self, view: iree.HalBufferView, spec: Spec) -> np.ndarray[Any, Any]:
        hal = self.hal
        staging = hal.allocator.allocate_buffer(
            memory_type=_STAGING | _CACHED.get(self.platform, 0),
            allowed_usage=int(iree.BufferUsage.TRANSFER_TARGET) | int(iree.BufferUsage.MAPPING_SCOPED),
            allocation_size=spec.nbytes,
        )
        semaphore = hal.create_semaphore(0)
        done = iree.HalFence.create_at(semaphore, 1)
        hal.queue_copy(view.get_buffer(), staging, iree.HalFence(0), done)
        completion.Completion(f"copy from {self!r}", semaphore, done, self.on_loss(hal)).wait()
        host = np.frombuffer(staging.map(), np.uint8)[: spec.nbytes].copy().view(spec.dtype).reshape(spec.shape)
        host.flags.writeable = False
        return host
