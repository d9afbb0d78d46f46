"""The devices of this process: which there are, and what is done for all of them."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veery_runtime import completion, cuda, effects, hostcall, iree, vulkan, workers
from veery_runtime.cpu_device import CpuDevice
from veery_runtime.device import Device
from veery_runtime.errors import DeviceUnavailableError
from veery_runtime.flight import Flight
from veery_runtime.gpu_device import GpuDevice

_lock = threading.Lock()
_devices: list[Device] | None = None
_absent: dict[str, str] = {}
_cpu_count: int | None = None

# What the host reads of a GPU, and writes for it, is kept for the next such; CUDA takes a millisecond to make it.
_ALLOCATORS: dict[str, list[str]] = {"vulkan": [], "cuda": ["caching:host_cached=*;256mib;64,host_visible=*;256mib;64"]}
_OF_IREE = ("cpu", "vulkan", "cuda")
_LOOKED_FOR = {
    "vulkan": "looked for the Vulkan loader (libvulkan.so.1 or vulkan-1.dll) and devices of its installed drivers",
    "cuda": "looked for NVIDIA's driver library (libcuda.so.1 or nvcuda.dll) and its devices",
}


def configure(
    *,
    num_cpu_devices: int | None = None,
    records: Callable[[], Path] | None = None,
    asynchronous: Callable[[], bool] | None = None,
    lost: Callable[[], None] | None = None,
    unpickle: Callable[[str, int], Device] | None = None,
    routines: Callable[[], int] | None = None,
) -> None:
    """Sets the number of virtual CPU devices, what is asked for when a plugin is loaded, and who hears of losses.

    Args:
      num_cpu_devices: more can be asked for at any time, of a plugin for CPUs until it is loaded; fewer only before the
        first use. The environment variable VEERY_NUM_CPU_DEVICES gives the number where this was not called, or what
        programs for JAX set, XLA_FLAGS=--xla_force_host_platform_device_count=8 (default 1).
      records: says the folder for what is remembered of plugins when it is needed; without it nothing is.
      asynchronous: says whether calls of plugins for CPUs return before they are done, where the plugin can do both.
      lost: is called when a driver has given a device up, and its buffers have failed.
      unpickle: finds a device by its platform and number where a pickle is read, in a process that may not have
        called this yet (default `device_of`).
      routines: says where the table of addresses is by which programs call LAPACK (see veery_lowering.addresses).
    """
    global _cpu_count, _records, _asynchronous
    _records, _asynchronous = records or _records, asynchronous or _asynchronous
    GpuDevice.lost = lost or GpuDevice.lost
    Device.unpickle = unpickle or Device.unpickle
    hostcall.table_of_routines = routines or hostcall.table_of_routines
    if num_cpu_devices is None:
        return
    if num_cpu_devices < 1:
        raise ValueError(f"configure: num_cpu_devices must be at least 1, got {num_cpu_devices}")
    with _lock:
        if _devices is not None:
            cpus = [d for d in _devices if d.platform == "cpu"]
            if num_cpu_devices < len(cpus):
                raise RuntimeError(
                    f"configure: {len(cpus)} CPU devices are in use already; ask for {num_cpu_devices} earlier"
                )
            at = len(cpus)
            _devices[at:at] = [CpuDevice(i) for i in range(at, num_cpu_devices)]
        _cpu_count = num_cpu_devices


def _requested_cpus() -> int:
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    text = os.environ.get("VEERY_NUM_CPU_DEVICES", flag[1] if flag else "1")
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"VEERY_NUM_CPU_DEVICES must be a positive integer, got {text!r}")
    return count


def _number_of_cpus() -> int:
    return _cpu_count or _requested_cpus()


def _open_gpus(platform: str) -> list[Device]:
    """The devices behind one GPU driver; without any, the reason goes into `_absent`."""
    try:
        targets = {f"GPU-{p.uuid}": p.target for p in vulkan.query()} if platform == "vulkan" else {}
        driver = iree.get_driver(platform)
        found = driver.query_available_devices()
        if not found:
            _absent[platform] = f"{_LOOKED_FOR[platform]}: the driver is there but reports no device"
        opened: list[Device] = []
        for i, info in enumerate(found):
            # Without its properties a device is not usable: code for another one computes wrongly, without an error.
            target = targets[str(info["path"])] if platform == "vulkan" else platform
            open = functools.partial(driver.create_device, info["device_id"], allocators=_ALLOCATORS[platform])
            enter = cuda.Context(i).enter if platform == "cuda" else lambda: None
            opened.append(GpuDevice(i, platform, str(info.get("name", platform)), open, target, enter))
        return opened
    except Exception as error:  # whatever a driver does wrong must not take the CPU away
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = lines[0].split("; ", 1)[-1] if lines else type(error).__name__
        _absent[platform] = f"{_LOOKED_FOR[platform]}: {cause}"
        return []


def in_use() -> bool:
    """Whether devices have been asked for, so that their number is settled."""
    return _devices is not None


def _all() -> list[Device]:
    global _devices
    if _devices is None:
        with _lock:
            if _devices is None:
                cpus: list[Device] = [CpuDevice(i) for i in range(_number_of_cpus())]
                _devices = cpus
    return _devices


_gpus: dict[str, list[Device]] = {}


def _platform(name: str) -> list[Device]:
    if name == "cpu":
        return [d for d in _all() if d.platform == "cpu"]
    with _lock:
        if name not in _gpus:
            _gpus[name] = _open_gpus(name)
        return _gpus[name]


def devices(platform: str | None = None) -> list[Device]:
    """The devices of this machine.

    Args:
      platform: "cpu", "vulkan" or "cuda" ("gpu" is whichever of the two is there), or one of PJRT plugins: "xla",
        "tpu", ... None lists the CPU devices first and then every GPU, but loads no plugin.

    Raises:
      RuntimeError: the platform is unknown or absent; the message says what was looked for.

    >>> import veery_runtime
    >>> veery_runtime.devices("cpu")
    [CpuDevice(id=0)]
    """
    if platform is None:
        return [*_platform("cpu"), *_platform("cuda"), *_platform("vulkan")]
    if platform == "gpu":
        found = _platform("cuda") or _platform("vulkan")
        return found or _missing("gpu", "; ".join(f"{name}: {cause}" for name, cause in _absent.items()))
    if platform not in _OF_IREE:
        found = plugins()
        if found.is_platform(platform):
            return [*found.devices(platform)]
        here = ["cpu", *(name for name, opened in _gpus.items() if opened)]  # no driver is loaded to say so
        known = ", ".join([*_OF_IREE, *found.platforms()])
        raise DeviceUnavailableError(
            f"Unknown backend {platform}. Available backends are {here}. veery knows {known}, and those of PJRT "
            f"plugins, which {found.VARIABLE}={platform}=/path/of/the/plugin.so names."
        )
    return _platform(platform) or _missing(platform, _absent.get(platform, "no device"))


def is_platform(name: str) -> bool:
    """Whether devices may be of that platform; none need be here."""
    return name in ("gpu", *_OF_IREE) or bool(plugins().is_platform(name))


def device_of(platform: str, id: int) -> Device:
    """The device of that number.

    Raises:
      RuntimeError: there is none.
    """
    for device in devices(platform):
        if device.id == id:
            return device
    raise DeviceUnavailableError(f"There is no device {id} of the platform {platform!r} in this process")


Device.unpickle = device_of


def _options_of_plugins() -> dict[str, int]:
    """Plugins are asynchronous unless they are told, and not all of them take that option."""
    options: dict[str, int] = {"cpu_device_count": _number_of_cpus()}
    return options if _asynchronous() else {**options, "asynchronous": False}


def plugins() -> Any:
    """What knows of PJRT plugins (see veery_runtime.pjrt.plugins)."""
    global _plugins
    if _plugins is None:
        from veery_runtime.pjrt import plugins

        plugins.configure(trials=_records, options=_options_of_plugins)
        _plugins = plugins
    return _plugins


def beside(program: Any, device: Device) -> Any:
    """A program that a PJRT plugin loaded, for buffers of the CPU device; see veery_runtime.pjrt.beside."""
    from veery_runtime.pjrt.beside import BesideExecutable

    return BesideExecutable(program, device)


def several(*program: Any) -> Any:
    """A program on several devices of a plugin; see veery_runtime.pjrt.several.SeveralExecutable."""
    from veery_runtime.pjrt.several import SeveralExecutable

    return SeveralExecutable(*program)


def better(*forms: Any) -> Any:
    """The better of two programs; see veery_runtime.pjrt.better.BetterExecutable, which takes these arguments."""
    from veery_runtime.pjrt.better import BetterExecutable

    return BetterExecutable(*forms)


_plugins: Any = None
_records: Callable[[], Path] | None = None
_asynchronous: Callable[[], bool] = lambda: True


def _missing(platform: str, cause: str) -> list[Device]:
    raise DeviceUnavailableError(f"Unknown backend: no {platform} device on this machine: {cause}")


def absent() -> dict[str, str]:
    """The platforms that are not available here, each with the cause."""
    for name in ("cuda", "vulkan"):
        _platform(name)
    return dict(_absent)


def _opened() -> list[Device]:
    others = _plugins.opened() if _plugins is not None else ()
    return [*(_devices or ()), *(device for found in _gpus.values() for device in found), *others]


def synchronize() -> None:
    """Blocks until all work on all devices is done, Python functions too; raises the first failure nobody has seen.

    Within a function that a program calls it does nothing: the program itself is such work.
    """
    if workers.nested():
        return
    workers.drain()
    for device in _opened():
        device.synchronize()


def _finish() -> None:
    """At exit: native code that comes back into Python after finalisation aborts the process, so nothing is left."""
    for device in _opened():
        try:
            device.synchronize()
        except Exception:
            logging.getLogger("veery").exception("work with effects failed and its error was never read")
    workers.drain()
    if _plugins is not None:
        _plugins.finish()


def _after_fork() -> None:
    """In the child: locks that other threads of the parent may have held are replaced; threads are made when needed."""
    global _lock
    _lock = threading.Lock()
    completion.count_fork()
    for device in _opened():
        device.ledger.lock = threading.RLock()
        device._lock = threading.Lock()
        device.in_flight = Flight()
    effects.forget()


atexit.register(_finish)
os.register_at_fork(after_in_child=_after_fork)
