"""Where PJRT plugins are found, and the devices behind them. Nothing is loaded until a platform is asked for."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from veery_runtime.errors import DeviceUnavailableError
from veery_runtime.pjrt import abi
from veery_runtime.pjrt.api import Api, PjrtError
from veery_runtime.pjrt.client import Client
from veery_runtime.pjrt.device import PjrtDevice

VARIABLE = "VEERY_PJRT_PLUGIN"
# Packages say by an entry point which module has the library; the names that they use, and ours.
_GROUPS = ("xla_plugins", "jax_plugins")
_PLATFORMS = {
    "xla_cpu_pjrt": "xla",
    "xla_cuda12": "xla-cuda",
    "xla_cuda12_pjrt": "xla-cuda",
    "xla_cuda13": "xla-cuda",
    "xla_cuda13_pjrt": "xla-cuda",
    "xla_rocm7": "xla-rocm",
    "xla_rocm7_pjrt": "xla-rocm",
    "libtpu": "tpu",
}
# Platforms that have an extra of veery's, which brings a plugin: how to get it.
_EXTRAS = {
    "xla": "pip install 'veery[xla]'",
    "xla-cuda": "pip install 'veery[xla-cuda12]' or 'veery[xla-cuda13]'",
    "xla-rocm": "pip install 'veery[xla-rocm7]'",
    "tpu": "pip install 'veery[xla-tpu]'",
}
_TRIED = (("Plugin_Initialize", abi.PluginInitialize), ("Client_Create", abi.ClientCreate))
_LIBRARIES = ("*pjrt*.so", "*plugin*.so", "libtpu.so", "*pjrt*.dylib", "*plugin*.dylib")
_TRIAL_SECONDS = 120
_BUS = Path("/sys/bus/pci/devices")
_GOOGLE = "0x1ae0"
_NETWORK_OR_STORAGE = ("0x01", "0x02")  # the classes of what else Google's machines have on their bus
# Starts a plugin's client, with nothing but ctypes, so that it takes 50 ms.
_TRIAL = f"""
import ctypes, sys
get = ctypes.CDLL(sys.argv[1]).GetPjrtApi
get.restype = ctypes.c_void_p
pointers = (ctypes.c_void_p * {len(abi.FUNCTIONS)}).from_address(get() + {ctypes.sizeof(abi.Table)})
for index, size in {[(abi.FUNCTIONS.index(name), ctypes.sizeof(kind)) for name, kind in _TRIED]}:
    struct = (ctypes.c_size_t * (size // 8))(size)
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(pointers[index])(ctypes.addressof(struct))
"""


@dataclass(frozen=True)
class Plugin:
    """A plugin that was found.

    Attributes:
        platform: the name of its devices.
        path: its shared library.
        origin: who names it: a package with its version, or the environment variable.
    """

    platform: str
    path: str
    origin: str


@dataclass(frozen=True)
class Account:
    """What there is to say of a platform.

    Attributes:
        plugin: where it comes from.
        devices: how many it has; 0 where it is not loaded.
        version: of PJRT's interface, and what the plugin says of itself; empty where it is not loaded.
        problem: why it is not loaded; empty where it is.
    """

    plugin: Plugin
    devices: int = 0
    version: str = ""
    problem: str = ""


_lock = threading.RLock()
_opened: dict[str, list[PjrtDevice]] = {}
_problems: dict[str, str] = {}
_trials: Callable[[], Path] | None = None
_options: Callable[[], Mapping[str, int]] | None = None


def configure(*, trials: Callable[[], Path] | None, options: Callable[[], Mapping[str, int]]) -> None:
    """What is asked for when a plugin is loaded.

    Args:
        trials: where it is kept which plugins could be loaded, so that each is tried once on a machine; None: nowhere.
        options: what plugins for CPUs are started with, such as {"cpu_device_count": 1}.
    """
    global _trials, _options
    _trials, _options = trials, options


def found() -> list[Plugin]:
    """The plugins of this environment, those that the environment variable names first.

    Raises:
        ValueError: the variable is not of the form name=path[,name=path...].
    """
    return [*_named_by_variable(), *_installed()]


def platforms() -> list[str]:
    """The platforms for which there are plugins."""
    return list(dict.fromkeys(plugin.platform for plugin in found()))


def is_platform(name: str) -> bool:
    """Whether a platform is one of plugins, there or not."""
    return name in _EXTRAS or name in platforms()


def devices(platform: str) -> list[PjrtDevice]:
    """The devices of a platform, whose plugin is loaded the first time.

    Raises:
        DeviceUnavailableError: there is no plugin, there are two, or it cannot be loaded.
    """
    with _lock:
        if platform not in _opened:
            if platform in _problems:
                raise DeviceUnavailableError(_problems[platform])
            try:
                _opened[platform] = _open(_chosen(platform))
            except DeviceUnavailableError as error:
                _problems[platform] = str(error)
                raise
        return _opened[platform]


def opened() -> list[PjrtDevice]:
    """The devices of plugins that were loaded."""
    return [device for each in _opened.values() for device in each]


def finish() -> None:
    """At exit: waits until no plugin will call Python any more."""
    for client in {device.client for device in opened()}:
        client.finish()


def accounts() -> list[Account]:
    """What there is to say of each plugin; those that were not loaded are loaded."""
    told = []
    for plugin in found():
        try:
            there = devices(plugin.platform)
        except DeviceUnavailableError as error:
            told.append(Account(plugin, problem=str(error)))
            continue
        used = there[0].client.api.path == plugin.path if there else False
        problem = "" if used else f"another plugin is used for {plugin.platform}"
        told.append(Account(plugin, len(there) if used else 0, version_of(there[0].client) if used else "", problem))
    return told


def version_of(client: Client) -> str:
    """The versions of a loaded plugin, for people."""
    api = client.api
    told = [f"PJRT {api.version[0]}.{api.version[1]}", f"{client.platform_name} {client.platform_version}".strip()]
    stablehlo = api.attributes.get("stablehlo_current_version")
    if stablehlo:
        told.append(f"StableHLO {'.'.join(map(str, stablehlo))}")
    return ", ".join(told)


def _chosen(platform: str) -> Plugin:
    fitting = {plugin.path: plugin for plugin in found() if plugin.platform == platform}
    named = [plugin for plugin in fitting.values() if plugin.origin == VARIABLE]
    candidates = named or list(fitting.values())
    if not candidates:
        extra = _EXTRAS.get(platform)
        hint = f"{extra}, or " if extra else ""
        raise DeviceUnavailableError(
            f"Unknown backend: no {platform} device on this machine: there is no PJRT plugin for it. {hint}name one by "
            f"{VARIABLE}={platform}=/path/of/the/plugin.so"
        )
    if len(candidates) > 1:
        listed = "; ".join(f"{plugin.path} ({plugin.origin})" for plugin in candidates)
        raise DeviceUnavailableError(
            f"No {platform} device was opened: there are {len(candidates)} plugins for it: {listed}. Uninstall all but "
            f"one, or choose by {VARIABLE}={platform}=/path/of/the/plugin.so"
        )
    return candidates[0]


def _named_by_variable() -> list[Plugin]:
    plugins = []
    for part in filter(None, os.environ.get(VARIABLE, "").split(",")):
        name, equals, path = part.partition("=")
        if not (equals and name.strip() and path.strip()):
            raise ValueError(f"{VARIABLE} must be name=path[,name=path...], got {part!r}")
        plugins.append(Plugin(name.strip(), path.strip(), VARIABLE))
    return plugins


def _installed() -> list[Plugin]:
    plugins = []
    for group in _GROUPS:
        for point in importlib.metadata.entry_points(group=group):
            platform = _PLATFORMS.get(point.name, point.name)
            package = point.dist
            origin = f"{package.name} {package.version}" if package else point.value
            plugins += [Plugin(platform, path, origin) for path in _libraries(point.value.partition(":")[0])]
    if not any(plugin.platform == "tpu" for plugin in plugins):
        plugins += [Plugin("tpu", path, "libtpu") for path in _libraries("libtpu")]
    return plugins


def _libraries(module: str) -> list[str]:
    """The shared library in the folder of a module, which is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return []
    folders = list(spec.submodule_search_locations or ()) if spec else []
    matches = [path for folder in folders for pattern in _LIBRARIES for path in sorted(Path(folder).glob(pattern))]
    return [str(matches[0])] if matches else []


def _open(plugin: Plugin) -> list[PjrtDevice]:
    if plugin.platform == "tpu" and plugin.origin != VARIABLE and not _has_tpu():
        raise DeviceUnavailableError(
            f"No tpu device: this machine has none of Google's accelerators on its bus, without which {plugin.path} "
            f"({plugin.origin}) waits for minutes. To try it anyway, set {VARIABLE}=tpu={plugin.path}"
        )
    _try_in_a_child(plugin)
    may_be_for_cpus = plugin.platform == "xla" or plugin.platform not in _EXTRAS
    try:
        client = Client(Api(plugin.path), _options() if _options and may_be_for_cpus else None)
    except PjrtError as error:
        raise DeviceUnavailableError(f"No {plugin.platform} device: {plugin.path} cannot be started: {error}") from None
    return [PjrtDevice(i, plugin.platform, client, address) for i, address in enumerate(client.addresses)]


def _has_tpu() -> bool:
    if not _BUS.is_dir():
        return True  # nobody knows
    for device in _BUS.iterdir():
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _GOOGLE and not kind.startswith(_NETWORK_OR_STORAGE):
            return True
    return False


def _try_in_a_child(plugin: Plugin) -> None:
    """Load a plugin in another process first: one that crashes there must not take this one along."""
    if not os.path.exists(plugin.path):
        raise DeviceUnavailableError(f"No {plugin.platform} device: {plugin.path} ({plugin.origin}) does not exist")
    stat = os.stat(plugin.path)
    record = [plugin.path, stat.st_size, stat.st_mtime_ns]
    if record in _known_trials():
        return
    command = [sys.executable, "-I", "-S", "-c", _TRIAL, plugin.path]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_TRIAL_SECONDS)
    except subprocess.TimeoutExpired:
        raise DeviceUnavailableError(
            f"No {plugin.platform} device: {plugin.path} did not start within {_TRIAL_SECONDS} s"
        ) from None
    if tried.returncode < 0:  # what else can be wrong is told when it is loaded
        said = [line for line in tried.stderr.splitlines() if line.strip()]
        reason = f"; its last words: {said[-1]}" if said else ""
        raise DeviceUnavailableError(
            f"No {plugin.platform} device: {plugin.path} ({plugin.origin}) dies with signal {-tried.returncode} when "
            f"it is started{reason}"
        )
    _keep_trial(record)


def _known_trials() -> list[list[object]]:
    try:
        known = json.loads((_trials() / "plugins.json").read_text()) if _trials else []
    except (OSError, ValueError):
        return []
    return known if isinstance(known, list) else []


def _keep_trial(record: list[object]) -> None:
    if _trials is None:
        return
    kept = [each for each in _known_trials() if isinstance(each, list) and each[:1] != record[:1]]
    folder = _trials()
    temporary = folder / f"plugins.json.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps([*kept, record]))
        temporary.replace(folder / "plugins.json")
    except OSError:  # it is tried again next time
        temporary.unlink(missing_ok=True)
