"""Programs on disk: compiled functions with their signatures, constants and a checksum over everything.

    0           program (.vmfb) of the first function and target, so that IREE's own tools run the file as it is
    ...         further programs and constants, each at a multiple of 64 bytes
    index       JSON: the functions, their signatures, where their programs and constants lie
    end - 64    magic (8 bytes), format version (uint32), zero (uint32), offset and length of the index (uint64 each),
                SHA-256 of all that precedes it

IREE's loader crashes on, or computes wrong numbers from, one damaged program in four. So nothing reaches it before the
checksum is verified, nor before format, IREE version and CPU have been compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veery_runtime import cpu, iree, structure, weights
from veery_runtime.dimensions import Symbols, symbols_from_json
from veery_runtime.errors import ArtifactError, CorruptArtifactError, IncompatibleArtifactError

MAGIC = b"\x89VEERY\r\n"
FORMAT_VERSION = 3
_TAIL = struct.Struct("<8sIIQQ32s")
_DIGEST = 32
_ALIGNMENT = 64

Signature = tuple[tuple[tuple[Any, ...], str], ...]
Data = bytes | mmap.mmap


@dataclass(frozen=True)
class Code:
    """A function compiled for one target; `veery_runtime.load` takes it like a freshly compiled program.

    Attributes:
      inputs, outputs: (shape, dtype name) of all arguments and results. The leading arguments are `constants`, which
        loading binds, so that a caller passes the rest.
      symbols: the dimension variables in these shapes.
      machine, cpu_features: what the code was made for, for programs for the CPU.
    """

    name: str
    vmfb: bytes = field(repr=False)
    target: str
    backend: str
    inputs: Signature
    outputs: Signature
    donated: tuple[bool, ...]
    symbols: Symbols
    work: int | str
    blocking: bool
    entry: str
    machine: str
    cpu_features: tuple[str, ...]
    constants: tuple[Any, ...] = field(default=(), repr=False)
    metadata: dict[str, str] = field(default_factory=dict)
    host_calls: tuple[Any, ...] = ()
    calls_routines: bool = False


@dataclass(frozen=True)
class Entry:
    """One function of an artifact.

    Attributes:
      programs: the function compiled for each target, in the order of preference. To be saved: the compiler's Programs.
      constants: arrays for the programs' leading arguments.
      in_tree: structure of (args, kwargs), see `structure`; out_tree: of the result.
      parameters: names of the positional arguments.
      names: a name for each flat argument, such as "params['w']".
    """

    name: str
    programs: tuple[Any, ...]
    in_tree: Any
    out_tree: Any
    parameters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    constants: tuple[Any, ...] = field(default=(), repr=False)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> Signature:
        """(shape, dtype name) of the arguments that a caller passes."""
        return tuple(self.programs[0].inputs[len(self.constants) :])

    @property
    def outputs(self) -> Signature:
        """(shape, dtype name) of the results."""
        return tuple(self.programs[0].outputs)


@dataclass(frozen=True)
class Artifact:
    """What a file holds: functions by name, and the versions that made it."""

    entries: dict[str, Entry]
    iree_version: str
    metadata: dict[str, str]
    nbytes: int
    checksum: str


# Writing.


class _Blobs:
    """The sections of a file; equal ones are kept once."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._known: dict[bytes, list[int]] = {}

    def add(self, data: Any) -> list[int]:
        """Appends a section; returns its offset and length."""
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        digest = hashlib.sha256(view).digest()
        if digest not in self._known:
            self._known[digest] = [self.size, view.nbytes]
            padding = bytes(-view.nbytes % _ALIGNMENT)
            self.parts += [bytes(view), padding]
            self.size += view.nbytes + len(padding)
        return self._known[digest]


def to_bytes(
    entries: Sequence[Entry], *, metadata: Mapping[str, str] | None = None, apart: Mapping[int, Any] | None = None
) -> bytes:
    """Packs compiled functions.

    Args:
      entries: the functions; names must differ.
      metadata: text for the reader.
      apart: for constants that lie in another file, by id, their place there.

    Raises:
      ArtifactError: a program calls Python functions, which a file cannot hold, or constants do not fit.
    """
    if not entries or len({e.name for e in entries}) != len(entries):
        raise ArtifactError(f"save: the functions must have different names, got {[e.name for e in entries]}")
    blobs = _Blobs()
    index = {
        "iree": entries[0].programs[0].metadata.get("iree", iree.VERSION),
        "metadata": dict(metadata or {}),
        "entries": [_describe(entry, blobs, apart or {}) for entry in entries],
    }
    text = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
    body = b"".join([*blobs.parts, text])
    tail = _TAIL.pack(MAGIC, FORMAT_VERSION, 0, blobs.size, len(text), bytes(_DIGEST))[:-_DIGEST]
    digest = hashlib.sha256(body)
    digest.update(tail)
    return body + tail + digest.digest()


def _describe(entry: Entry, blobs: _Blobs, apart: Mapping[int, Any]) -> dict[str, Any]:
    _check(entry)
    programs = [_describe_program(program, blobs) for program in entry.programs]
    return {
        "name": entry.name,
        "in_tree": entry.in_tree,
        "out_tree": entry.out_tree,
        "parameters": entry.parameters,
        "names": entry.names,
        "inputs": entry.programs[0].inputs,
        "outputs": entry.programs[0].outputs,
        "donated": entry.programs[0].donated,
        "symbols": entry.programs[0].symbols,
        "programs": programs,
        "constants": [apart[id(c)] if id(c) in apart else _describe_constant(c, blobs) for c in entry.constants],
        "metadata": entry.metadata,
    }


def _describe_program(program: Any, blobs: _Blobs) -> dict[str, Any]:
    machine, features = _made_for(program)
    return {
        "entry": program.entry,
        "target": program.target,
        "backend": program.backend,
        "work": program.work,
        "blocking": program.blocking,
        "machine": machine,
        "cpu_features": features,
        "at": blobs.add(program.vmfb),
        "metadata": {key: text for key, text in program.metadata.items() if key != "source"},
    }


def _describe_constant(array: np.ndarray[Any, Any], blobs: _Blobs) -> dict[str, Any]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return {"shape": array.shape, "dtype": array.dtype.name, "at": blobs.add(flat)}


def _check(entry: Entry) -> None:
    program = entry.programs[0]
    for other in entry.programs:
        if other.host_calls:
            names = ", ".join(getattr(call.function, "__qualname__", call.symbol) for call in other.host_calls)
            raise ArtifactError(f"save: {entry.name} calls Python functions ({names}), which no artifact can contain")
        if other.calls_routines:
            raise ArtifactError(f"save: {entry.name} calls LAPACK by addresses, which only this process knows")
        if (other.inputs, other.outputs) != (program.inputs, program.outputs):
            raise ArtifactError(f"save: {entry.name} has another signature on {other.target} than on {program.target}")
    if len(entry.constants) > len(program.inputs):
        raise ArtifactError(
            f"save: {len(entry.constants)} constants for {entry.name}, which takes {len(program.inputs)} arguments"
        )
    for i, (array, (shape, dtype)) in enumerate(zip(entry.constants, program.inputs)):
        if array.shape != tuple(shape) or array.dtype.name != dtype:
            raise ArtifactError(
                f"save: constant {i} of {entry.name} must be {dtype}{list(shape)}, "
                f"got {array.dtype.name}{list(array.shape)}"
            )


def _made_for(program: Any) -> tuple[str, list[str]]:
    """Architecture and relevant features of the CPU that the program was compiled for."""
    if program.backend != "cpu":
        return "", []
    words = program.metadata.get("cpu_features", "").split()  # "linux x86_64 avx2 fma ..."
    if len(words) >= 2:
        return words[1], cpu.relevant(words[2:], words[1])
    return cpu.architecture(), list(cpu.features())


def save_artifact(
    path: str | os.PathLike[str],
    entries: Sequence[Entry],
    *,
    metadata: Mapping[str, str] | None = None,
    weights_path: str | os.PathLike[str] | None = None,
) -> None:
    """Writes compiled functions to `path`, all of it or nothing.

    Args:
      path: the file.
      entries: the functions.
      metadata: text for the reader.
      weights_path: a `.safetensors` or `.irpa` file for constants of 1 KiB and more, which is mapped into memory when
        the artifact is loaded. The artifact finds it beside itself by its name.
    """
    apart: dict[int, Any] = {}
    if weights_path is not None:
        found = {id(c): c for e in entries for c in e.constants if c.nbytes >= 1024}
        named = {f"constant_{i}": c for i, c in enumerate(found.values())}
        weights.write(weights_path, named)
        for name, array in named.items():
            place = {"file": Path(weights_path).name, "key": name}
            apart[id(array)] = {"shape": array.shape, "dtype": array.dtype.name, **place}
    write_atomically(path, to_bytes(entries, metadata=metadata, apart=apart))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that readers see the old or the new contents and nothing between."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp's 0600 would keep others from reading it
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# Reading.


def load_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Reads and verifies the artifact at `path`. Constants stay in the mapped file.

    Raises:
      OSError: the file cannot be read.
      CorruptArtifactError: it is damaged, or not an artifact.
      IncompatibleArtifactError: it is intact and made for another format version or IREE version.
    """
    where = os.fspath(path)
    with open(path, "rb") as file:
        empty = os.fstat(file.fileno()).st_size == 0
        data: Data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return from_bytes(data, where=where, folder=Path(path).parent)


def from_bytes(data: Data, *, where: str = "artifact", folder: Path | None = None) -> Artifact:
    """Unpacks and verifies what `to_bytes` made.

    Args:
      data: the whole file.
      where: how to call it in messages.
      folder: where constants in files of their own are looked for.

    Raises:
      CorruptArtifactError, IncompatibleArtifactError: see `load_artifact`.
    """
    start, length, checksum = _verify(data, where)
    index = json.loads(data[start : start + length])
    if _release(index["iree"]) != _release(iree.VERSION):
        raise IncompatibleArtifactError(
            f"{where} was compiled with IREE {index['iree']}, this process runs IREE {iree.VERSION}. "
            "Save it again with that version, or install the other runtime"
        )
    reader = _Reader(data, where, folder or Path())
    entries = {e["name"]: reader.entry(e) for e in index["entries"]}
    return Artifact(entries, index["iree"], index["metadata"], len(data), checksum.hex())


def _verify(data: Data, where: str) -> tuple[int, int, bytes]:
    """Checks length, magic, checksum and format version; returns offset and length of the index and the checksum."""
    if not len(data):
        raise CorruptArtifactError(f"{where} is empty")
    if len(data) < _TAIL.size or data[-_TAIL.size :][:8] != MAGIC:
        raise CorruptArtifactError(
            f"{where} is not a veery artifact, or it is truncated: its last {_TAIL.size} bytes do not say what it holds"
        )
    _, version, _, start, length, checksum = _TAIL.unpack(data[-_TAIL.size :])
    with memoryview(data) as view, view[:-_DIGEST] as body:
        intact = hashlib.sha256(body).digest() == checksum
    if not intact:
        raise CorruptArtifactError(f"{where} is damaged: its SHA-256 does not match its contents. Save or copy it anew")
    if version != FORMAT_VERSION:
        raise IncompatibleArtifactError(
            f"{where} has format version {version}; this veery reads version {FORMAT_VERSION}. "
            "Save it again with this veery"
        )
    return start, length, checksum


@dataclass(frozen=True)
class _Reader:
    data: Data
    where: str
    folder: Path

    def entry(self, d: dict[str, Any]) -> Entry:
        inputs, outputs = _signature(d["inputs"]), _signature(d["outputs"])
        programs = tuple(
            Code(
                name=d["name"],
                vmfb=bytes(self.data[p["at"][0] : sum(p["at"])]),
                target=p["target"],
                backend=p["backend"],
                inputs=inputs,
                outputs=outputs,
                donated=tuple(d["donated"]),
                symbols=symbols_from_json(d["symbols"]),
                work=p["work"],
                blocking=p["blocking"],
                entry=p["entry"],
                machine=p["machine"],
                cpu_features=tuple(p["cpu_features"]),
                metadata=p["metadata"],
            )
            for p in d["programs"]
        )
        constants = tuple(self.constant(c) for c in d["constants"])
        trees = structure.from_json(d["in_tree"]), structure.from_json(d["out_tree"])
        return Entry(d["name"], programs, *trees, tuple(d["parameters"]), tuple(d["names"]), constants, d["metadata"])

    def constant(self, d: dict[str, Any]) -> np.ndarray[Any, Any]:
        shape, dtype = tuple(d["shape"]), iree.dtype_from_name(d["dtype"])
        if "file" not in d:
            return place(self.data, d["at"][0], shape, dtype)
        path = self.folder / d["file"]
        try:
            array = weights.read(path)[d["key"]]
        except FileNotFoundError:
            raise ArtifactError(f"{self.where} keeps its weights in {path}, which is not there") from None
        except KeyError:
            raise ArtifactError(f"{self.where} needs the array {d['key']!r}, which {path} does not hold") from None
        if array.shape != shape or array.dtype != dtype:
            raise ArtifactError(
                f"{self.where} needs {d['key']!r} as {dtype.name}{list(shape)}, {path} holds "
                f"{array.dtype.name}{list(array.shape)}"
            )
        return array


def place(data: Data, at: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array at an offset of a file, without copying."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    flat = np.frombuffer(data, np.uint8, nbytes, at) if nbytes else np.empty(0, np.uint8)
    return flat.view(dtype).reshape(shape)


def _signature(data: list[Any]) -> Signature:
    return tuple((tuple(shape), dtype) for shape, dtype in data)


def _release(version: str) -> tuple[str, ...]:
    return tuple(version.split("rc")[0].split("+")[0].split(".")[:2])


def refusal(code: Code) -> str | None:
    """Why this CPU cannot run a program, None when it can (or when it is for another device)."""
    if code.backend != "cpu":
        return None
    if code.machine != cpu.architecture():
        return f"it was compiled for {code.machine}, this CPU is {cpu.architecture()}"
    missing = sorted(set(code.cpu_features) - set(cpu.features())) if cpu.features() else []
    if missing:
        return f"it was compiled for a CPU with {', '.join(missing)}, which this CPU lacks"
    return None


def read_program(data: bytes) -> tuple[Code, tuple[Any, ...]]:
    """The one program of an artifact with one function, and the constants that it takes first.

    Raises:
      CorruptArtifactError, IncompatibleArtifactError: see `load_artifact`; also where this CPU cannot run it.
    """
    entry = from_bytes(data, where="the serialized function").entries["main"]
    program = entry.programs[0]
    why = refusal(program)
    if why is not None:
        raise IncompatibleArtifactError(f"the serialized function {program.name} cannot run here: {why}")
    return program, entry.constants
