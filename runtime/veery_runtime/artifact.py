"""Programs on disk: a compiled program with its signature, its constants and a checksum over everything.

    0   magic            8 bytes
    8   SHA-256          32 bytes, of all that follows
    40  format version   uint32
    44  header length    uint32
    48  program length   uint64
    56  constants length uint64
    64  header (JSON), program (.vmfb) and constants, each padded to a multiple of 64 bytes

IREE's loader crashes on, or computes wrong numbers from, one damaged program in four. So nothing reaches it before the
checksum is verified, nor before format, IREE version and CPU have been compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from veery_runtime import cpu, iree
from veery_runtime.errors import ArtifactError, CorruptArtifactError, IncompatibleArtifactError

MAGIC = b"\x89VEERY\r\n"
FORMAT_VERSION = 1
_LENGTHS = struct.Struct("<IIQQ")
_BODY = 64

Signature = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(frozen=True)
class Artifact:
    """A program read from disk; `veery_runtime.load` takes it like a freshly compiled one.

    Attributes:
      inputs, outputs: (shape, dtype name) of all arguments and results. The leading arguments are `constants`, which
        loading binds, so that a caller passes the rest.
      in_tree, out_tree: how the caller's containers are flattened, as text that this package does not interpret.
      iree_version: of the compiler.
      machine, cpu_features: what the code was made for, for programs for the CPU.
    """

    name: str
    vmfb: bytes = field(repr=False)
    target: str
    backend: str
    inputs: Signature
    outputs: Signature
    donated: tuple[bool, ...]
    work: int
    blocking: bool
    entry: str
    iree_version: str
    machine: str
    cpu_features: tuple[str, ...]
    in_tree: str = ""
    out_tree: str = ""
    constants: tuple[np.ndarray[Any, Any], ...] = field(default=(), repr=False)
    metadata: dict[str, str] = field(default_factory=dict)
    host_calls: tuple[Any, ...] = ()


def to_bytes(
    program: Any,
    *,
    constants: Sequence[np.ndarray[Any, Any]] = (),
    in_tree: str = "",
    out_tree: str = "",
    metadata: dict[str, str] | None = None,
) -> bytes:
    """Packs a program.

    Args:
      program: the compiler's Program.
      constants: arrays of any shape for the program's leading arguments.
      in_tree, out_tree: text for the reader, see `Artifact`.
      metadata: more text for the reader, beside the program's own metadata.

    Raises:
      ArtifactError: the program calls Python functions, which a file cannot hold.
    """
    if program.host_calls:
        names = ", ".join(getattr(call.function, "__qualname__", call.symbol) for call in program.host_calls)
        raise ArtifactError(f"save: {program.name} calls Python functions ({names}), which an artifact cannot contain")
    arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in constants]
    _check_constants(program.name, arrays, program.inputs)
    machine, features = _made_for(program)
    header = {
        "name": program.name,
        "entry": program.entry,
        "target": program.target,
        "backend": program.backend,
        "inputs": program.inputs,
        "outputs": program.outputs,
        "donated": program.donated,
        "work": program.work,
        "blocking": program.blocking,
        "iree": program.metadata.get("iree", iree.VERSION),
        "machine": machine,
        "cpu_features": features,
        "in_tree": in_tree,
        "out_tree": out_tree,
        "constants": [[array.shape, array.dtype.name] for array in arrays],
        "metadata": {**program.metadata, **(metadata or {})},
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    section = b"".join(_padded(array.reshape(-1).view(np.uint8).tobytes()) for array in arrays)
    tail = _LENGTHS.pack(FORMAT_VERSION, len(text), len(program.vmfb), len(section))
    tail += _padded(text) + _padded(bytes(program.vmfb)) + section
    return MAGIC + hashlib.sha256(tail).digest() + tail


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 64)


def _check_constants(name: str, arrays: Sequence[np.ndarray[Any, Any]], inputs: Signature) -> None:
    if len(arrays) > len(inputs):
        raise ArtifactError(f"save: {len(arrays)} constants for {name}, which takes {len(inputs)} arguments")
    for index, (array, (shape, dtype)) in enumerate(zip(arrays, inputs)):
        if array.shape != tuple(shape) or array.dtype.name != dtype:
            raise ArtifactError(
                f"save: constant {index} of {name} must be {dtype}{list(shape)}, "
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


def from_bytes(data: bytes, *, where: str = "artifact") -> Artifact:
    """Unpacks and verifies what `to_bytes` made.

    Args:
      data: the whole file.
      where: how to call it in messages.

    Raises:
      CorruptArtifactError: the data are damaged, or not an artifact.
      IncompatibleArtifactError: they are intact and made for another format version, IREE version or CPU.
    """
    lengths = _verify(data, where)
    header_length, program_length, constants_length = lengths
    program_at = _BODY + header_length + -header_length % 64
    constants_at = program_at + program_length + -program_length % 64
    header = json.loads(data[_BODY : _BODY + header_length])
    inputs, outputs = _signature(header["inputs"]), _signature(header["outputs"])
    artifact = Artifact(
        name=header["name"],
        vmfb=data[program_at : program_at + program_length],
        target=header["target"],
        backend=header["backend"],
        inputs=inputs,
        outputs=outputs,
        donated=tuple(header["donated"]),
        work=header["work"],
        blocking=header["blocking"],
        entry=header["entry"],
        iree_version=header["iree"],
        machine=header["machine"],
        cpu_features=tuple(header["cpu_features"]),
        in_tree=header["in_tree"],
        out_tree=header["out_tree"],
        constants=_constants(data, constants_at, _signature(header["constants"])),
        metadata=header["metadata"],
    )
    _check_host(artifact, where)
    return artifact


def _verify(data: bytes, where: str) -> tuple[int, int, int]:
    """Checks magic, length, checksum and format version; returns the three sections' lengths."""
    if not data.startswith(MAGIC):
        what = "is empty" if not data else "is damaged at its start or not a veery artifact"
        raise CorruptArtifactError(f"{where} {what}")
    if len(data) < _BODY:
        raise CorruptArtifactError(f"{where} is truncated: {len(data)} bytes do not even hold the fixed fields")
    version, header, program, constants = _LENGTHS.unpack_from(data, 40)
    if hashlib.sha256(memoryview(data)[40:]).digest() == data[8:40]:
        if version != FORMAT_VERSION:
            raise IncompatibleArtifactError(
                f"{where} has format version {version}; this veery reads version {FORMAT_VERSION}. "
                "Save it again with this veery"
            )
        return header, program, constants
    expected = _BODY + header + -header % 64 + program + -program % 64 + constants
    if version == FORMAT_VERSION and len(data) < expected:
        raise CorruptArtifactError(f"{where} is truncated: {len(data)} of {expected} bytes are there")
    raise CorruptArtifactError(f"{where} is damaged: its SHA-256 does not match its contents. Copy or save it again")


def _signature(data: list[Any]) -> Signature:
    return tuple((tuple(shape), dtype) for shape, dtype in data)


def _constants(data: bytes, at: int, signature: Signature) -> tuple[np.ndarray[Any, Any], ...]:
    arrays = []
    for shape, name in signature:
        dtype = iree.dtype_from_name(name)
        count = int(np.prod(shape, dtype=np.int64))
        nbytes = count * dtype.itemsize
        flat = np.frombuffer(data, np.uint8, nbytes, at) if nbytes else np.empty(0, np.uint8)
        arrays.append(flat.view(dtype).reshape(shape))
        at += nbytes + -nbytes % 64
    return tuple(arrays)


def _release(version: str) -> tuple[str, ...]:
    return tuple(version.split("rc")[0].split("+")[0].split(".")[:2])


def _check_host(artifact: Artifact, where: str) -> None:
    """Refuses what this process could load but not run."""
    if _release(artifact.iree_version) != _release(iree.VERSION):
        raise IncompatibleArtifactError(
            f"{where} was compiled with IREE {artifact.iree_version}, this process runs IREE {iree.VERSION}. "
            "Save it again with that version, or install the other runtime"
        )
    if artifact.backend != "cpu":
        return
    if artifact.machine != cpu.architecture():
        raise IncompatibleArtifactError(
            f"{where} was compiled for {artifact.machine}, this CPU is {cpu.architecture()}"
        )
    missing = sorted(set(artifact.cpu_features) - set(cpu.features())) if cpu.features() else []
    if missing:
        raise IncompatibleArtifactError(
            f"{where} was compiled for a CPU with {', '.join(missing)}, which this CPU lacks. Save it on this machine, "
            "or for a generic CPU"
        )


def save_artifact(path: str | os.PathLike[str], program: Any, **options: Any) -> None:
    """Writes a program to `path`, all of it or nothing; the options are those of `to_bytes`."""
    target = Path(path)
    data = to_bytes(program, **options)
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


def load_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Reads and verifies the artifact at `path`.

    Raises:
      OSError: the file cannot be read.
      CorruptArtifactError, IncompatibleArtifactError: see `from_bytes`.
    """
    return from_bytes(Path(path).read_bytes(), where=os.fspath(path))
