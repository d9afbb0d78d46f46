"""Settings: one object, thread-local overrides, values from the environment.

`config.<name>` is an ordinary attribute read of a `threading.local`, because settings are read on every call of a
jitted function. A write therefore costs more than a read: `update` visits the dictionary of each live thread, and an
override (`with enable_x64(True): ...`) changes the dictionary of its own thread only.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core import compiler_options

Check = Callable[[Any], Any]


def _boolean(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError(f"new bool config value must be True or False, got {value!r} of type {type(value)}.")


def _integer(value: Any) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"new int config value must be of type int, got {value} of type {type(value)}.")


def _number(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"new float config value must be of type float, got {value} of type {type(value)}.")


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        result: str | None = os.fspath(value)
        return result
    raise ValueError(f"new string config value must be None or of type str, got {value} of type {type(value)}.")


def _platforms(value: Any) -> str:
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",")]
        if all(names) or names == [""]:
            return ",".join(names)
    raise ValueError(f'expected platforms such as "xla" or "xla,vulkan", or "" for none, got {value!r}.')


def _one_of(*choices: str, optional: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if (value is None and optional) or (isinstance(value, str) and value in choices):
            return value
        allowed = f"None or in {list(choices)}" if optional else f"in {list(choices)}"
        raise ValueError(f"new enum value must be {allowed}, got {value} of type {type(value)}.")

    return check


_is_platform: Callable[[str], bool] = lambda name: True


def check_platforms_by(is_platform: Callable[[str], bool]) -> None:
    """Ask a function whether a platform is known, where a default device is named by one."""
    global _is_platform
    _is_platform = is_platform


def _device(value: Any) -> Any:
    if value is None or hasattr(value, "platform") or isinstance(value, str) and _is_platform(value):
        return value
    raise ValueError(
        "veery.default_device must be passed either a Device object (e.g. `veery.devices('cpu')[0]`) "
        f"or a platform name string like 'cpu' or 'gpu', got: {value!r}"
    )


_GUARD = _one_of("allow", "log", "disallow", "log_explicit", "disallow_explicit", optional=True)
_MATMUL_PRECISION = _one_of(
    *("default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
    *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM"),
    *("F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"),
    *("BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64"),
    optional=True,
)


@dataclass(frozen=True)
class Option:
    """One setting.

    Attributes:
        default: its value when neither the program nor the environment gives one.
        check: returns the value to store, or raises ValueError.
        traced: whether functions must be traced anew when it changes.
        doc: what it does, for `help(config)`.
    """

    default: Any
    check: Check
    traced: bool
    doc: str


OPTIONS: dict[str, Option] = {
    # What a traced function computes.
    "jax_enable_x64": Option(False, _boolean, True, "64-bit dtypes; without it they become 32-bit."),
    "jax_explicit_x64_dtypes": Option(
        "warn", _one_of("warn", "error", "allow"), True, "What an explicit 64-bit dtype does when x64 is off."
    ),
    "jax_numpy_dtype_promotion": Option(
        "standard", _one_of("standard", "strict"), True, "Implicit promotion between dtypes."
    ),
    "jax_numpy_rank_promotion": Option(
        "allow", _one_of("allow", "warn", "raise"), True, "Implicit broadcasting of arrays of different ranks."
    ),
    "jax_default_matmul_precision": Option(None, _MATMUL_PRECISION, True, "Precision of products without their own."),
    "jax_default_device": Option(None, _device, True, "Where arrays go that are not placed explicitly."),
    "jax_default_prng_impl": Option(
        "threefry2x32", _one_of("threefry2x32", "rbg", "unsafe_rbg"), True, "Generator of new random keys."
    ),
    "jax_threefry_partitionable": Option(True, _boolean, True, "Which bits threefry gives for a shape."),
    "jax_enable_custom_prng": Option(False, _boolean, True, "PRNGKey gives typed keys."),
    "jax_legacy_prng_key": Option("allow", _one_of("allow", "warn", "error"), True, "What a raw uint32 key does."),
    "jax_random_seed_offset": Option(0, _integer, True, "Added to every seed."),
    "jax_high_dynamic_range_gumbel": Option(False, _boolean, True, "Gumbel samples with full tails."),
    "jax_softmax_custom_jvp": Option(False, _boolean, True, "Softmax with its own derivative rule."),
    "jax_debug_key_reuse": Option(False, _boolean, True, "A random key that is used twice raises KeyReuseError."),
    "jax_debug_nans": Option(False, _boolean, True, "A result that holds a NaN raises FloatingPointError."),
    "jax_debug_infs": Option(False, _boolean, True, "A result that holds an infinity raises FloatingPointError."),
    "jax_enable_checks": Option(False, _boolean, True, "Check every jaxpr after each transformation."),
    # How functions are called.
    "jax_disable_jit": Option(False, _boolean, True, "jit runs its function as plain Python."),
    "jax_check_tracer_leaks": Option(False, _boolean, True, "A tracer that outlives its trace raises."),
    "jax_check_static_indices": Option(False, _boolean, True, "Static indices out of bounds raise."),
    "jax_log_compiles": Option(False, _boolean, False, "Log each trace and compilation."),
    "jax_explain_cache_misses": Option(False, _boolean, False, "Log why a function was traced again."),
    "jax_no_tracing": Option(False, _boolean, False, "Tracing a function anew raises."),
    "jax_no_execution": Option(False, _boolean, True, "Running a program raises."),
    "jax_thread_guard": Option(False, _boolean, False, "Accepted: it is about operations of several processes."),
    "jax_transfer_guard": Option(None, _GUARD, False, "Transfers in every direction."),
    "jax_transfer_guard_host_to_device": Option(None, _GUARD, False, "Transfers from host to device."),
    "jax_transfer_guard_device_to_device": Option(None, _GUARD, False, "Transfers between devices."),
    "jax_transfer_guard_device_to_host": Option(None, _GUARD, False, "Transfers from device to host."),
    # Devices, compilation, its cache.
    "jax_platforms": Option(None, _text, False, "Platforms to use beside the CPU, by commas, the default first."),
    "jax_platform_name": Option("", _text, False, "The default platform."),
    "jax_num_cpu_devices": Option(-1, _integer, False, "Number of CPU devices; -1: one."),
    "veery_compiler_options": Option(
        (), compiler_options.pairs, True, "Options of every compilation: 'optimize_for=size iree-opt-level=O2'."
    ),
    "jax_cpu_enable_async_dispatch": Option(
        True, _boolean, False, "Calls by XLA on the CPU return before they are done; read by newer plugins."
    ),
    "jax_enable_compilation_cache": Option(True, _boolean, False, "Keep compiled programs on disk."),
    "jax_compilation_cache_dir": Option(
        None, _text, False, "Where they are kept; None: VEERY_CACHE_DIR, else the user's cache folder."
    ),
    "jax_compilation_cache_max_size": Option(
        -1, _integer, False, "Bytes to keep at most; -1: VEERY_CACHE_MAX_BYTES, else 1 GiB."
    ),
    "jax_persistent_cache_min_compile_time_secs": Option(
        0.0, _number, False, "Programs compiled in less time are not kept (JAX's default is 1)."
    ),
    "jax_persistent_cache_min_entry_size_bytes": Option(0, _integer, False, "Smaller programs are not kept."),
    "jax_raise_persistent_cache_errors": Option(False, _boolean, False, "A fault of the cache raises, not warns."),
    "veery_host_evaluation": Option(
        True,
        _boolean,
        True,
        "Small eager programs, and those that are calls of libraries, are evaluated by NumPy instead of compiled.",
    ),
    "veery_compiler_isolation": Option(
        "always",
        _one_of("always", "never"),
        False,
        "Compile in another process, which alone ends if the compiler crashes; never: for debugging the compiler.",
    ),
    "veery_compiler_timeout": Option(
        1800.0, _number, False, "Seconds after which a compilation is given up; 0: it may take as long as it takes."
    ),
    "veery_verify": Option(
        "off",
        _one_of("off", "first", "always"),
        True,
        "Compare results with a float64 evaluation in NumPy (see veery.debug.verify): of each program's first call, or "
        "of all calls.",
    ),
    "veery_verify_beside": Option(
        "",
        _platforms,
        True,
        "Platforms on whose devices programs that are verified run too, and are compared: xla, or xla,vulkan.",
    ),
    # What the user sees.
    "jax_traceback_filtering": Option(
        "auto",
        _one_of("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"),
        False,
        "Hide veery's own frames from tracebacks.",
    ),
    "jax_tracer_error_num_traceback_frames": Option(5, _integer, False, "Frames shown for a tracer's origin."),
    "jax_pprint_use_color": Option(True, _boolean, False, "Colour in printed jaxprs where the terminal has it."),
    "jax_logging_level": Option("NOTSET", _text, False, "Level of veery's logger."),
    "jax_debug_log_modules": Option("", _text, False, "Modules whose debug log is shown."),
    "jax_dump_ir_to": Option("", _text, False, "Folder that receives each lowered module."),
}

# What concerns XLA's compiler, its cache, or several processes: programs set it, and it changes no result.
_CHECKS: dict[type, Check] = {bool: _boolean, int: _integer, float: _number, str: _text, type(None): _text}
_OF_XLA: dict[str, Any] = {
    "jax_bcoo_cusparse_lowering": False,
    "jax_captured_constants_report_frames": 0,
    "jax_captured_constants_warn_bytes": 2_000_000_000,
    "jax_compilation_cache_include_metadata_in_key": False,
    "jax_compiler_detailed_logging_min_ops": 10,
    "jax_compiler_enable_remat_pass": True,
    "jax_cpu_collectives_implementation": "gloo",
    "jax_cpu_get_global_topology_timeout_minutes": 5,
    "jax_cpu_get_local_topology_timeout_minutes": 2,
    "jax_distributed_debug": False,
    "jax_enable_pgle": False,
    "jax_enable_preemption_service": True,
    "jax_enable_recoverability": False,
    "jax_exec_time_optimization_effort": 0.0,
    "jax_hlo_source_file_canonicalization_regex": None,
    "jax_include_debug_info_in_dumps": True,
    "jax_include_full_tracebacks_in_locations": True,
    "jax_memory_fitting_effort": 0.0,
    "jax_memory_fitting_level": "O2",
    "jax_optimization_level": "UNKNOWN",
    "jax_persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "jax_pgle_aggregation_percentile": 90,
    "jax_pgle_profiling_runs": 3,
    "jax_remove_custom_partitioning_ptr_from_cache_key": False,
    "jax_share_binary_between_hosts": False,
    "jax_share_binary_between_hosts_timeout_ms": 1_200_000,
    "jax_threefry_gpu_kernel_lowering": False,
    "jax_traceback_in_locations_limit": 100,
    "jax_use_direct_linearize": True,
    "jax_use_magma": "auto",
    "jax_use_shardy_partitioner": True,
    "jax_xla_profile_version": 0,
}
OPTIONS |= {
    name: Option(default, _CHECKS[type(default)], False, "Accepted, without an effect: it is about XLA.")
    for name, default in _OF_XLA.items()
}

_TRACED = tuple(name for name, option in OPTIONS.items() if option.traced)
_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0", "")


def _parse(variable: str, text: str, option: Option) -> Any:
    """The value that the environment variable `variable` holds for `option`."""
    try:
        if option.check is _boolean:
            if text.lower() not in _TRUE + _FALSE:
                raise ValueError(f"invalid truth value {text!r} for environment {variable!r}")
            return option.check(text.lower() in _TRUE)
        if option.check is _integer:
            return int(text)
        if option.check is _number:
            return float(text)
        return option.check(text)
    except ValueError as error:
        raise ValueError(f"environment variable {variable}={text!r}: {error}") from None


def _from_environment(name: str, option: Option) -> Any:
    """The default of an option: VEERY_ENABLE_X64, else JAX_ENABLE_X64, else the declared one."""
    suffix = name.removeprefix("jax_").removeprefix("veery_").upper()
    for variable in (f"VEERY_{suffix}", f"JAX_{suffix}"):
        if variable in os.environ:
            return _parse(variable, os.environ[variable], option)
    return option.default


_lock = threading.RLock()
_global_values: dict[str, Any] = {name: _from_environment(name, option) for name, option in OPTIONS.items()}


class _ThreadSettings:
    """The settings as one thread sees them: `values` is the thread's attribute dictionary of `config`."""

    def __init__(self, values: dict[str, Any]):
        self.values = values
        self.overridden: set[str] = set()
        values["_mesh"] = None
        values["checks_indices"] = False
        values.update(_global_values)
        self._refresh()

    def write(self, name: str, value: Any) -> None:
        self.values[name] = value
        if OPTIONS[name].traced:
            self._refresh()

    def _refresh(self) -> None:
        self.values["x64_enabled"] = self.values["jax_enable_x64"]
        others = (self.values["_mesh"], self.values["checks_indices"])
        self.values["_trace_key"] = (*[self.values[name] for name in _TRACED], *others)


_threads: weakref.WeakSet[_ThreadSettings] = weakref.WeakSet()


def _option(name: str) -> Option:
    try:
        return OPTIONS[name]
    except (KeyError, TypeError):
        close = difflib.get_close_matches(str(name), OPTIONS, n=3, cutoff=0.6)
        hint = f". Did you mean {' or '.join(close)}?" if close else ""
        raise AttributeError(f"Unrecognized config option: {name}{hint}") from None


class Config(threading.local):
    """All settings, by their JAX names (those that JAX does not have begin with `veery_`), as attributes.

    Read `config.jax_enable_x64`; write `config.update("jax_enable_x64", True)`. Each setting can also be given in the
    environment before the import: `VEERY_ENABLE_X64=1` or, as in JAX, `JAX_ENABLE_X64=1`.

    >>> config.update("jax_numpy_rank_promotion", "allow")
    >>> config.jax_numpy_rank_promotion
    'allow'
    """

    x64_enabled: bool
    _thread: _ThreadSettings
    _trace_key: tuple[Any, ...]
    _mesh: Any  # see veery._core.mesh
    checks_indices: bool  # whether `checkify` wants to know of indices out of bounds

    def __init__(self) -> None:
        # Called by threading.local in each thread at its first use.
        with _lock:
            values = self.__dict__
            values["_thread"] = thread = _ThreadSettings(values)
            _threads.add(thread)

    def update(self, name: str, value: Any) -> None:
        """Sets an option for all threads.

        Args:
            name: the option's name, e.g. "jax_enable_x64".
            value: its new value.

        Raises:
            AttributeError: there is no such option.
            ValueError: the option does not take this value.
        """
        value = _option(name).check(value)
        with _lock:
            for each in (name, *_GROUPS.get(name, ())):
                _global_values[each] = value
                for thread in list(_threads):
                    if each not in thread.overridden:
                        thread.write(each, value)

    def read(self, name: str) -> Any:
        """The value of the option `name` in this thread; AttributeError when there is no such option."""
        _option(name)
        return getattr(self, name)

    def set_mesh(self, value: Any) -> None:
        """Makes this the mesh context of this thread, under which functions are traced anew."""
        self.__dict__["_mesh"] = value
        self._thread._refresh()

    @contextlib.contextmanager
    def checking_indices(self, checks: bool) -> Iterator[None]:
        """A block in which functions are traced with checks of their indices, if asked for."""
        before = self.checks_indices
        self.__dict__["checks_indices"] = before or checks
        self._thread._refresh()
        try:
            yield
        finally:
            self.__dict__["checks_indices"] = before
            self._thread._refresh()

    def parse_flags_with_absl(self) -> None:
        """Take settings from the command line: arguments such as `--jax_enable_x64=1`, before the first `--`.

        Raises:
            AttributeError: there is no such option.
            ValueError: an option does not take its value.
        """
        for argument in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            if argument.startswith("--jax_"):
                name, given, value = argument[2:].partition("=")
                self.update(name, _parse(argument, value if given else "true", _option(name)))

    def trace_key(self) -> tuple[Any, ...]:
        """A hashable value that changes whenever a setting that functions are traced under changes."""
        return self._trace_key

    @property
    def values(self) -> dict[str, Any]:
        """All options and their values in this thread."""
        return {name: getattr(self, name) for name in OPTIONS}

    def __getattr__(self, name: str) -> Any:
        _option(name)
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        _option(name)
        raise AttributeError(f"config.{name} cannot be assigned; use config.update({name!r}, {value!r})")


config = Config()


_TRANSFERS = "host_to_device", "device_to_device", "device_to_host"
# Options that give their value to others.
_GROUPS = {"jax_transfer_guard": tuple(f"jax_transfer_guard_{direction}" for direction in _TRANSFERS)}


class _Override(contextlib.ContextDecorator):
    """Gives an option another value in this thread while the block runs."""

    def __init__(self, name: str, value: Any):
        self._names = (name, *_GROUPS.get(name, ()))
        self._value = OPTIONS[name].check(value)
        # A stack, and of this thread: one object may be entered again inside itself or by several threads.
        self._saved = threading.local()

    def __enter__(self) -> None:
        thread = config._thread
        saved = self._saved.__dict__.setdefault("stack", [])
        with _lock:
            saved.append([(name in thread.overridden, thread.values[name]) for name in self._names])
            for name in self._names:
                thread.overridden.add(name)
                thread.write(name, self._value)

    def __exit__(self, *exception: object) -> None:
        thread = config._thread
        saved = self._saved.stack.pop()
        with _lock:
            for name, (was_overridden, value) in zip(self._names, saved):
                if not was_overridden:
                    thread.overridden.discard(name)
                    value = _global_values[name]
                thread.write(name, value)


_REQUIRED = object()


class State:
    """A setting as a function: `with state(value): ...` gives it another value in this thread.

    `state.value` is its value now.
    """

    def __init__(self, name: str, default: Any = _REQUIRED):
        self._name = name
        self._default = default
        self.__name__ = name.removeprefix("jax_")
        self.__doc__ = OPTIONS[name].doc

    @property
    def value(self) -> Any:
        return getattr(config, self._name)

    def __call__(self, new_val: Any = _REQUIRED) -> _Override:
        if new_val is _REQUIRED:
            new_val = self._default
        if new_val is _REQUIRED:
            raise TypeError(
                f"Context manager for {self.__name__} config option requires an argument representing "
                "the new value for the config option."
            )
        return _Override(self._name, new_val)

    def __repr__(self) -> str:
        return f"<config state {self.__name__} = {self.value!r}>"


def disable_jit(disable: bool = True) -> _Override:
    """Run functions under `jit` as they are: `with disable_jit(): ...`."""
    return _Override("jax_disable_jit", disable)


_flag = functools.partial(State, default=True)

enable_x64 = _flag("jax_enable_x64")
debug_nans = _flag("jax_debug_nans")
debug_infs = _flag("jax_debug_infs")
debug_key_reuse = _flag("jax_debug_key_reuse")
log_compiles = _flag("jax_log_compiles")
explain_cache_misses = _flag("jax_explain_cache_misses")
check_tracer_leaks = checking_leaks = _flag("jax_check_tracer_leaks")
no_tracing = _flag("jax_no_tracing")
no_execution = _flag("jax_no_execution")
thread_guard = _flag("jax_thread_guard")
enable_custom_prng = _flag("jax_enable_custom_prng")
enable_checks = _flag("jax_enable_checks")
softmax_custom_jvp = _flag("jax_softmax_custom_jvp")
threefry_partitionable = _flag("jax_threefry_partitionable")
explicit_x64_dtypes = State("jax_explicit_x64_dtypes")
numpy_dtype_promotion = State("jax_numpy_dtype_promotion")
numpy_rank_promotion = State("jax_numpy_rank_promotion")
default_matmul_precision = State("jax_default_matmul_precision")
default_device = State("jax_default_device")
default_prng_impl = State("jax_default_prng_impl")
legacy_prng_key = State("jax_legacy_prng_key")
verify = State("veery_verify")
verify_beside = State("veery_verify_beside")
transfer_guard = State("jax_transfer_guard")
transfer_guard_host_to_device = State("jax_transfer_guard_host_to_device")
transfer_guard_device_to_device = State("jax_transfer_guard_device_to_device")
transfer_guard_device_to_host = State("jax_transfer_guard_device_to_host")
