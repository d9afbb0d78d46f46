"""The table of a library: what IREE's backend has LLVM make of the same dispatches."""

from __future__ import annotations

import ctypes
import platform
from ctypes import POINTER, c_char_p, c_int, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest
from lowering.test_short import FLAGS
from support import objects

from veery_lowering.compiler import isolation, library, linking
from veery_lowering.mlir import context, ir

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="there it is that machine's alone"
)

MODULE = b"""func.func @main(%x: tensor<64x64xf32>, %n: tensor<i32>) -> (tensor<64x1xf32>, tensor<64xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dynamic_slice %x, %n, %n, sizes = [64, 1]
    : (tensor<64x64xf32>, tensor<i32>, tensor<i32>) -> tensor<64x1xf32>
  %1 = stablehlo.exponential %0 : tensor<64x1xf32>
  %2 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %1, %2 : tensor<64x1xf32>, tensor<64xf32>
}"""


class Attributes(ctypes.Structure):
    _fields_ = [
        ("flags", c_uint64), ("local_memory_pages", c_uint16), ("constants", c_uint8), ("bindings", c_uint8),
        ("x", c_uint32), ("y", c_uint32), ("z", c_uint16), ("parameters", c_uint16), ("reserved", c_uint64 * 5),
    ]  # fmt: skip


class Header(ctypes.Structure):
    _fields_ = [("version", c_uint32), ("name", c_char_p), ("features", c_uint32), ("sanitizer", c_uint32)]


class Library(ctypes.Structure):
    _fields_ = [
        ("header", POINTER(Header)), ("imports", c_uint32), ("import_names", c_void_p), ("count", c_uint32),
        ("functions", POINTER(c_void_p)), ("attributes", POINTER(Attributes)), ("parameters", c_void_p),
        ("occupancy", c_void_p), ("names", POINTER(c_char_p)), ("tags", c_void_p), ("parameter_names", c_void_p),
        ("source_locations", c_void_p), ("stage_locations", c_void_p), ("constants", c_uint32), ("sources", c_uint32),
        ("source_files", c_void_p),
    ]  # fmt: skip


def told(code: bytes, path: Path, version: int = 6) -> dict[str, Any] | None:
    """What a library says of itself, and the first bytes of its functions."""
    path.write_bytes(code)
    query = ctypes.CDLL(str(path))[linking.EXPORT]
    query.restype, query.argtypes = POINTER(Library), [c_int, c_void_p]
    found = query(version, None)
    if not found:
        return None
    it, header = found.contents, found.contents.header.contents
    return {
        "header": (header.version, header.features, header.sanitizer),
        "others": (it.imports, it.parameters, it.occupancy, it.tags, it.parameter_names, it.constants, it.sources),
        "names": [it.names[k] for k in range(it.count)],
        "attributes": [bytes(it.attributes[k]) for k in range(it.count)],
        "code": [ctypes.string_at(it.functions[k], 16) for k in range(it.count)],
    }


def test_it_tells_what_irees_own_does(tmp_path: Path) -> None:
    """Of the same dispatches: their names, what they are given, and where they are."""
    code, entry, made = isolation.call(objects.linked, MODULE, FLAGS)
    theirs = isolation.call(told, linking.link(linking.Object(code).function(entry)), tmp_path / "theirs")
    ours = isolation.call(told, made, tmp_path / "ours")
    assert ours == theirs
    assert len(ours["names"]) == 2 and all(any(each) for each in ours["attributes"] + ours["code"])


def test_another_version_is_none(tmp_path: Path) -> None:
    _, _, made = isolation.call(objects.linked, MODULE, FLAGS)
    assert isolation.call(told, made, tmp_path / "ours") and not isolation.call(told, made, tmp_path / "other", 5)


@pytest.mark.parametrize(
    ("layout", "rest", "expected"),
    [
        ("bindings = []", "", (0, 0, 0, (0, 0, 0))),
        (
            'constants = 3, bindings = [#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">,'
            " #hal.pipeline.binding<storage_buffer>]",
            "",
            (3, 2, 0, (0, 0, 0)),
        ),
        (
            "constants = 1, bindings = []",
            " <workgroup_local_memory = 5000, workgroup_size = [4 : index, 2 : index, 1 : index]>",
            (1, 0, 5000, (4, 2, 1)),
        ),
    ],
)
def test_exports(layout: str, rest: str, expected: tuple[Any, ...]) -> None:
    text = f"""hal.executable.source private @e {{
      hal.executable.export public @run ordinal(0) layout(#hal.pipeline.layout<{layout}>){rest}
    }}"""
    with context():
        module = ir.Module.parse(text)
        (export, *_) = module.body.operations[0].operation.regions[0].blocks[0].operations
        assert library.export(export.operation) == ("run", *expected)


def test_memory_is_counted_in_pages(tmp_path: Path) -> None:
    code, entry, _ = isolation.call(objects.linked, MODULE, FLAGS)
    part = linking.Object(code).function(entry)
    made = linking.link(library.query([(library.Export("f", 1, 2, 4097, (3, 2, 1)), part)]))
    (found,) = isolation.call(told, made, tmp_path / "made")["attributes"]
    attributes = Attributes.from_buffer_copy(found)
    assert (attributes.local_memory_pages, attributes.constants, attributes.bindings) == (2, 1, 2)
    assert (attributes.x, attributes.y, attributes.z) == (3, 2, 1)
