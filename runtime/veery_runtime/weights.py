"""Arrays in files of their own: `.safetensors`, and IREE's parameter archives `.irpa`. Read without copying."""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from veery_runtime import iree
from veery_runtime.errors import ArtifactError, CorruptArtifactError

_SAFETENSORS = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
}  # fmt: skip
_NAMES = {code: name for name, code in _SAFETENSORS.items()}


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a `.safetensors` or `.irpa` file by name, read-only, in the mapped file.

    Raises:
      OSError: the file cannot be read.
      ArtifactError: it is of another kind, damaged, or holds a dtype that devices do not know.

    >>> import numpy
    >>> from veery_runtime import weights
    >>> weights.write("w.safetensors", {"w": numpy.ones((2, 3), numpy.float32)})
    >>> weights.read("w.safetensors")["w"].shape
    (2, 3)
    """
    suffix = Path(path).suffix
    if suffix == ".irpa":
        return _read_irpa(path)
    if suffix == ".safetensors":
        return _read_safetensors(path)
    raise ArtifactError(f"weights: {path} must end in .safetensors or .irpa")


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes arrays to a `.safetensors` or `.irpa` file.

    Raises:
      OSError: the file cannot be written.
      ArtifactError: another suffix, or a dtype that the format does not have.
    """
    suffix = Path(path).suffix
    if suffix == ".irpa":
        iree.write_parameters(os.fspath(path), {name: np.ascontiguousarray(a) for name, a in arrays.items()})
    elif suffix == ".safetensors":
        _write_safetensors(path, arrays)
    else:
        raise ArtifactError(f"weights: {path} must end in .safetensors or .irpa")


def _write_safetensors(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    header: dict[str, Any] = {}
    parts = []
    at = 0
    for name, array in arrays.items():
        code = _SAFETENSORS.get(array.dtype.name)
        if code is None:
            raise ArtifactError(f"weights: safetensors has no dtype {array.dtype.name} (of {name})")
        end = at + array.nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [at, end]}
        parts.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes())
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    Path(path).write_bytes(b"".join([struct.pack("<Q", len(text)), text, *parts]))


def _read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise CorruptArtifactError(f"{path} is no safetensors file: {size} bytes")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (length,) = struct.unpack("<Q", data[:8])
    try:
        header = json.loads(data[8 : 8 + length]) if 8 + length <= size else None
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise CorruptArtifactError(f"{path} is damaged: its header is no JSON object")
    found = {}
    for name, d in header.items():
        if name == "__metadata__":
            continue
        if d["dtype"] not in _NAMES:
            raise ArtifactError(f"{path}: {name} has dtype {d['dtype']}, which devices do not know")
        dtype = iree.dtype_from_name(_NAMES[d["dtype"]])
        begin, end = d["data_offsets"]
        nbytes = int(np.prod(d["shape"], dtype=np.int64)) * dtype.itemsize
        if end - begin != nbytes or 8 + length + end > size:
            raise CorruptArtifactError(f"{path} is damaged or truncated: {name} does not lie within it")
        flat = np.frombuffer(data, np.uint8, nbytes, 8 + length + begin)
        found[name] = flat.view(dtype).reshape(d["shape"])
    return found


def _read_irpa(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    if not Path(path).is_file():
        raise FileNotFoundError(2, "No such file", os.fspath(path))
    found = {}
    for name, view, metadata in iree.read_parameters(os.fspath(path)):
        text = metadata.partition(b":")[2]
        description: dict[str, Any] = json.loads(text) if text else {"dtype": "uint8", "shape": [len(view)]}
        dtype = iree.dtype_from_name(description["dtype"])
        found[name] = np.frombuffer(view, np.uint8).view(dtype).reshape(description["shape"])
    return found
