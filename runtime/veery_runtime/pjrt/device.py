"""Devices behind PJRT plugins."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from veery_runtime.buffer import Spec
from veery_runtime.device import Device, writable_alias
from veery_runtime.errors import execution_error, translate
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.api import PjrtError
from veery_runtime.pjrt.client import Client
from veery_runtime.pjrt.executable import PjrtExecutable
from veery_runtime.pjrt.handle import Handle, View


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


class PjrtDevice(Device):
    """A device of a plugin.

    Attributes:
        target: "xla:" and what XLA calls the hardware.
        client: the plugin's client; address: the device there.
    """

    client: Client

    # Integers and floats of less than a byte have no arrays of their own.
    element_types = {
        _dtype(name): number
        for name, number in abi.ELEMENT_TYPES.items()
        if name not in ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
    }

    def __init__(self, id: int, platform: str, client: Client, address: int) -> None:
        self.platform = platform
        self.target = f"xla:{client.platform_name}"
        description = client.api.call("Device_GetDescription", abi.DeviceGetDescription(device=address)).description
        kind = client.api.text("DeviceDescription_Kind", abi.DescriptionText(description=description))
        super().__init__(id, kind)
        self.client = client
        self.address = address
        self.plugin_id = client.api.call("DeviceDescription_Id", abi.DescriptionId(description=description)).id
        self.host_visible = client.host_visible
        self.dlpack_device = (1, 0) if self.host_visible else (2, id)

    @property
    def hal(self) -> Any:
        raise TypeError(f"{self!r} is a device of a PJRT plugin, which IREE's programs cannot run on")

    def upload(self, array: np.ndarray[Any, Any], spec: Spec) -> Handle:
        return self._put(array, spec, shared=False)

    def share(self, array: np.ndarray[Any, Any], spec: Spec) -> Handle:
        return self._put(array, spec, shared=True)

    def _put(self, array: np.ndarray[Any, Any], spec: Spec, *, shared: bool) -> Handle:
        try:
            return self.client.upload(np.asarray(array), int(spec.element_type or 0), self.address, shared=shared)
        except PjrtError as error:
            cause = translate(f"copy to {self!r}", error)
        raise cause

    def read(self, ref: Handle, spec: Spec) -> np.ndarray[Any, Any]:
        if self.host_visible:
            view = View(self.client, ref)
            held: Any = (ctypes.c_char * spec.nbytes).from_address(view.address)
            held.owner = view
            host: np.ndarray[Any, Any] = np.ndarray(spec.shape, spec.dtype, held)
        else:
            host = np.empty(spec.shape, spec.dtype)
            try:
                self.client.download(ref, host)
            except PjrtError as error:
                raise execution_error(f"copy from {self!r}: {error}") from None
        host.setflags(write=False)
        return host

    def give_up(self, ref: Handle | int) -> Handle | int:
        # The plugin's buffer itself stays with the deleted one, which calls in other threads have that use it.
        self.client.delete_buffer(ref)
        return ref

    def reshape(self, ref: Handle, spec: Spec) -> Handle:
        contents = self.read(ref, spec)
        return self.share(contents, spec) if self.host_visible else self.upload(contents, spec)

    def export(self, ref: Handle, spec: Spec) -> Any:
        if not self.host_visible:
            raise BufferError(f"the memory of {self!r} cannot be shared; copy it with numpy.asarray")
        return writable_alias(self.read(ref, spec)).__dlpack__()

    def load(self, program: Any, compiled: bytes | None) -> PjrtExecutable:
        return PjrtExecutable(program, self, compiled)

    def memory_stats(self) -> dict[str, int]:
        """Bytes in use by the plugin's account, or by veery's own where the plugin keeps none."""
        try:
            found = self.client.api.call("Device_MemoryStats", abi.DeviceMemoryStats(device=self.address))
        except PjrtError:
            return super().memory_stats()
        stats = {"bytes_in_use": found.bytes_in_use}
        for name, told in (
            ("peak_bytes_in_use", "has_peak"),
            ("num_allocs", "has_num_allocs"),
            ("largest_alloc_size", "has_largest"),
            ("bytes_limit", "has_limit"),
            ("bytes_reserved", "has_reserved"),
            ("largest_free_block_bytes", "has_largest_free"),
        ):
            if getattr(found, told):
                stats[name] = getattr(found, name)
        return stats
