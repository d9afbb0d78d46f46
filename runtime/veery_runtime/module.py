"""Artifacts as Python functions: pytrees of NumPy arrays in and out, checked."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from veery_runtime import dynamic, executable, iree, structure
from veery_runtime.artifact import Artifact, Code, Entry, from_bytes, load_artifact, refusal
from veery_runtime.buffer import Buffer, put
from veery_runtime.device import Device
from veery_runtime.dimensions import may_fit
from veery_runtime.discovery import devices
from veery_runtime.errors import DeviceUnavailableError, IncompatibleArtifactError

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def short_type(shape: tuple[int, ...], dtype: str) -> str:
    """A type as text: "f32[8,784]"."""
    letters = dtype.rstrip("0123456789")
    name = _SHORT[letters] + dtype[len(letters) :] if letters in _SHORT else dtype
    return f"{name}[{','.join(map(str, shape))}]"


class Module:
    """The functions of an artifact, made by `load`. `module.step`, `module["step"]`; with one function, `module(...)`.

    Attributes:
      artifact: what the file says about itself.
    """

    def __init__(self, artifact: Artifact, where: str, device: Device | str | None) -> None:
        self.artifact = artifact
        self._where = where
        self._buffers: dict[tuple[Any, ...], Buffer] = {}
        self._functions = {name: Function(e, self, device) for name, e in artifact.entries.items()}

    def __getitem__(self, name: str) -> Function:
        try:
            return self._functions[name]
        except KeyError:
            raise KeyError(f"{self._where} has no function {name!r}; it has {', '.join(self._functions)}") from None

    def __getattr__(self, name: str) -> Function:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            where = self.__dict__.get("_where")
            raise AttributeError(f"{where} has no function {name!r}; it has {', '.join(functions)}")
        result: Function = functions[name]
        return result

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"Module({self._where!r}: {', '.join(map(repr, self))})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only function of the module."""
        if len(self) != 1:
            raise TypeError(f"{self._where} has {len(self)} functions ({', '.join(self._functions)}); call one of them")
        return next(iter(self))(*args, **kwargs)

    def _constant(self, array: np.ndarray[Any, Any], device: Device) -> Buffer:
        """A constant on a device, shared by the functions; memory that is mapped from the file is not copied."""
        key = (array.__array_interface__["data"][0], array.shape, array.dtype, id(device))
        if key not in self._buffers or not array.nbytes:
            self._buffers[key] = put(array, device, copy=False)
        return self._buffers[key]


class Function:
    """A compiled function of an artifact.

    Calling it takes and returns pytrees of NumPy arrays. Arrays must have the exact dtypes and shapes, in which
    symbolic dimensions are any sizes that fit together; Python numbers and lists are converted. Results are read-only.

    Attributes:
      name: its name in the artifact.
      inputs, outputs: (shape, dtype name) of the flat arguments and results.
      targets: what it was compiled for.
    """

    def __init__(self, entry: Entry, module: Module, device: Device | str | None) -> None:
        self.name = entry.name
        self.inputs = entry.inputs
        self.outputs = entry.outputs
        self.targets = tuple(program.target for program in entry.programs)
        self._entry = entry
        self._module = module
        self._wanted = device
        self._lock = threading.Lock()
        self._executable: executable.Executable | dynamic.DynamicExecutable | None = None
        self._dtypes = tuple(iree.dtype_from_name(name) for _, name in self.inputs)
        self._build = structure.builder(entry.out_tree)
        positional, keywords = entry.in_tree["tuple"]
        self._positional: list[Any] = positional["tuple"]
        self._keywords: list[Any] = keywords["dict"]

    def __repr__(self) -> str:
        return f"{self.name}{self.signature}"

    @property
    def signature(self) -> str:
        """The types of arguments and results: `(params: {b: f32[10], w: f32[784,10]}, x: f32[8,784]) -> f32[8,10]`."""
        typed: Callable[[Any], Callable[[int], str]] = lambda types: lambda i: short_type(*types[i])
        named = [*zip(self._names(), self._positional), *self._keywords]
        parts = [f"{name}: {structure.render(child, typed(self.inputs))}" for name, child in named]
        return f"({', '.join(parts)}) -> {structure.render(self._entry.out_tree, typed(self.outputs))}"

    @property
    def device(self) -> Device:
        """Where it runs. Chosen on first use."""
        return self._loaded().device

    @property
    def target(self) -> str:
        """The target of the program that was chosen."""
        result: str = self._loaded()._program.target
        return result

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function and waits for its results.

        Args:
          *args, **kwargs: pytrees (dicts, lists, tuples, None) of arrays, numbers, or buffers from `launch`.

        Returns:
          The pytree of results, as NumPy arrays.

        Raises:
          TypeError: the arguments differ in structure or type from those that the function was compiled for.
          ValueError: the sizes of symbolic dimensions do not fit together.
          DeviceUnavailableError, IncompatibleArtifactError: no program of the artifact can run here.
          ExecutionError: the program failed.
        """
        return self._build([buffer.numpy() for buffer in self._launch(args, kwargs)])

    def call_flat(self, leaves: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Runs the function on its flat arguments; returns its flat results. For tools; see `__call__`."""
        loaded = self._loaded()
        buffers = loaded.call([self._buffer(i, leaf, loaded.device) for i, leaf in enumerate(leaves)])
        return [buffer.numpy() for buffer in buffers]

    @property
    def result_names(self) -> list[str]:
        """A name for each flat result: "result", "result['y']", ..."""
        names: list[str] = [""] * len(self.outputs)
        structure.name_leaves(self._entry.out_tree, "result", names)
        return names

    def launch(self, *args: Any, **kwargs: Any) -> Any:
        """Starts the function and returns at once.

        Arguments and errors are those of a call. Results are a pytree of `Buffer`s, which stay on the device: pass them
        to further calls, ask `buffer.is_ready()`, or read them with `buffer.numpy()`, which waits and raises the errors
        of the computation.
        """
        return self._build(self._launch(args, kwargs))

    def _launch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Buffer]:
        loaded = self._executable or self._loaded()
        leaves = self._flatten(args, kwargs)
        device = loaded.device
        return loaded.call([self._buffer(i, leaf, device) for i, leaf in enumerate(leaves)])

    # Arguments.

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if kwargs or self._keywords or len(args) != len(self._positional):
            args, kwargs = self._bound(args, kwargs)
        leaves: list[Any] = [None] * len(self.inputs)
        values = [*args, *[kwargs[key] for key, _ in self._keywords]]
        nodes = [*self._positional, *[child for _, child in self._keywords]]
        try:
            for node, value in zip(nodes, values):
                structure.collect(node, value, leaves)
        except Exception:
            names = [*self._names(), *[key for key, _ in self._keywords]]
            for name, node, value in zip(names, nodes, values):
                structure.flatten(node, value, f"{self.name}: argument {name}", leaves)
        return leaves

    def _names(self) -> list[str]:
        """The names of the positional arguments."""
        known = self._entry.parameters
        return [known[i] if i < len(known) else f"args[{i}]" for i in range(len(self._positional))]

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments given by name put into their positions."""
        rest = dict(kwargs)
        later = self._names()[len(args) :]
        given = [*args, *[rest.pop(name) for name in later if name in rest]]
        keys = {key for key, _ in self._keywords}
        if len(given) != len(self._positional) or rest.keys() != keys:
            missing = [name for name in [*later, *keys] if name not in kwargs]
            unknown = [name for name in rest if name not in keys]
            problem = f"misses {', '.join(missing)}" if missing else "has no argument " + ", ".join(unknown)
            if not missing and not unknown:
                problem = f"takes {len(self._positional)} positional arguments, got {len(args)}"
            raise TypeError(f"{self.name}: the call {problem}. Its signature is {self.signature}")
        return tuple(given), rest

    def _buffer(self, index: int, value: Any, device: Device) -> Buffer:
        shape, name = self.inputs[index]
        dtype = self._dtypes[index]
        if isinstance(value, Buffer):
            if value.device is not device:
                value = value.numpy()
            elif (value.shape == shape or may_fit(value.shape, shape)) and value.dtype == dtype:
                return value
        if not isinstance(value, (np.ndarray, np.generic, Buffer)):
            value = self._converted(index, value)
        if (value.shape != shape and not may_fit(value.shape, shape)) or value.dtype != dtype:
            raise self._mismatch(index, short_type(value.shape, str(value.dtype)), value)
        return put(np.asarray(value), device)

    def _converted(self, index: int, value: Any) -> np.ndarray[Any, Any]:
        """Python numbers, nested lists and foreign arrays as an array; numbers take the dtype that is expected."""
        dtype = self._dtypes[index]
        try:
            array = np.asarray(value)
        except ValueError:  # ragged lists
            raise self._mismatch(index, f"a {type(value).__name__} of unequal rows") from None
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return array
        if array.dtype.kind not in "biufc" or (array.size and not _holds(dtype, array)):
            raise self._mismatch(index, f"{type(value).__name__} {value!r}"[:60])
        return array.astype(dtype)

    def _mismatch(self, index: int, got: str, value: Any = None) -> TypeError:
        shape, dtype = self.inputs[index]
        names = self._entry.names
        name = names[index] if index < len(names) else f"{index}"
        hint = ""
        if value is not None and may_fit(value.shape, shape):
            hint = f'; convert it with .astype("{dtype}")'
        elif value is not None and value.dtype == self._dtypes[index] and len(value.shape) == len(shape):
            hint = "; the function was compiled for one shape, so pad or compile it for this one"
        return TypeError(f"{self.name}: argument {name} must be {short_type(shape, dtype)}, got {got}{hint}")

    # The program.

    def _loaded(self) -> executable.Executable | dynamic.DynamicExecutable:
        with self._lock:
            if self._executable is None:
                code, device = choose(self._entry.programs, self._wanted, f"{self._module._where}, {self.name}")
                constants = tuple(self._module._constant(c, device) for c in self._entry.constants)
                program = dataclasses.replace(code, constants=constants)
                self._executable = dynamic.load(program, device, names=self._entry.names)
            return self._executable


def _holds(dtype: np.dtype[Any], array: np.ndarray[Any, Any]) -> bool:
    """Whether Python numbers can become `dtype` without losing their fraction, imaginary part or size."""
    if array.dtype.kind == "b" or dtype.kind == "c":
        return True
    if dtype.kind in "biu":
        if array.dtype.kind not in "iu" or dtype.kind == "b":
            return False
        info = np.iinfo(dtype)
        return bool(info.min <= array.min() and array.max() <= info.max)
    result: bool = array.dtype.kind != "c"
    return result


def choose(programs: tuple[Code, ...], wanted: Device | str | None, where: str) -> tuple[Code, Device]:
    """The program to run and its device.

    Platforms come in the order of the file, those without a device are passed over; among several programs for the CPU
    the one that uses most of its features is taken.

    Args:
      programs: one for each target.
      wanted: a device, a platform, a target such as "cpu:generic", or None.
      where: for messages.

    Raises:
      DeviceUnavailableError: the platform that the programs need is not there.
      IncompatibleArtifactError: the CPU is another one.
    """
    platform = wanted.platform if isinstance(wanted, Device) else wanted
    fitting = [p for p in programs if platform in (None, p.backend, p.target)]
    if not fitting:
        targets = ", ".join(p.target for p in programs)
        raise DeviceUnavailableError(f"{where}: not compiled for {platform}, only for {targets}")
    reasons = {}
    for backend in dict.fromkeys(p.backend for p in fitting):
        candidates = [p for p in fitting if p.backend == backend]
        refused = {p.target: refusal(p) for p in candidates}
        reasons.update({target: reason for target, reason in refused.items() if reason})
        usable = [p for p in candidates if refused[p.target] is None]
        if not usable:
            continue
        try:
            device = wanted if isinstance(wanted, Device) else devices(backend)[0]
        except DeviceUnavailableError as error:
            reasons.update({p.target: str(error) for p in usable})
            continue
        return max(usable, key=lambda p: len(p.cpu_features)), device
    text = "; ".join(f"{target}: {reason}" for target, reason in reasons.items())
    kind = IncompatibleArtifactError if all(p.backend == "cpu" for p in fitting) else DeviceUnavailableError
    raise kind(f"{where}: cannot run here. {text}")


@overload
def load(program: str | os.PathLike[str] | bytes, device: Device | str | None = None) -> Module: ...
@overload
def load(
    program: Any, device: Device | None = None, *, queue: str | None = None, compiled: bytes | None = None
) -> executable.Executable: ...
def load(program: Any, device: Any = None, *, queue: str | None = None, compiled: bytes | None = None) -> Any:
    """Loads an artifact from a file, or a program that was just compiled.

    Args:
      program: the path of an artifact or its bytes; or an object with the attributes of the compiler's Program.
      device: where to run: a device, a platform ("cpu", "vulkan", "cuda") or one of the artifact's targets. By default
        the first of the artifact's targets that can run here.
      queue: for compiled programs only: "inline", "threaded" or "deferred" overrules the choice by the program's work.
      compiled: for a device of a PJRT plugin, what it made of the program before.

    Returns:
      A `Module` for an artifact: its functions take and return pytrees of NumPy arrays. For a compiled program an
      `Executable`, which takes and returns buffers.

    Raises:
      OSError: the file cannot be read.
      CorruptArtifactError: the file is damaged, or not an artifact.
      IncompatibleArtifactError: it was made for another IREE version.
      DeviceUnavailableError: there is no device for the program, or IREE refuses it.

    >>> import veery_runtime
    >>> model = veery_runtime.load("digits.vmfb")           # doctest: +SKIP
    >>> model                                               # doctest: +SKIP
    Module('digits.vmfb': predict(x: f32[8,784]) -> f32[8,10])
    >>> probabilities = model(images)                       # doctest: +SKIP
    """
    if isinstance(program, (str, os.PathLike)):
        return Module(load_artifact(program), Path(program).name, device)
    if isinstance(program, (bytes, bytearray)):
        return Module(from_bytes(bytes(program)), "artifact", device)
    return dynamic.load(program, device, queue=queue, compiled=compiled)
