"""Small StableHLO programs, compiled once per session for the runtime's tests."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from iree.compiler.api import Output, Session, Source

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-type=stablehlo",
    "--iree-input-demote-f64-to-f32=false",
    "--iree-execution-model=async-external",
)


@dataclass(frozen=True)
class HostCall:
    symbol: str
    function: Any
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    pure: bool = False


@dataclass(frozen=True)
class Program:
    name: str
    vmfb: bytes
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    entry: str = "main"
    target: str = "cpu"
    backend: str = "cpu"
    donated: tuple[bool, ...] = ()
    host_calls: tuple[HostCall, ...] = ()
    work: int = 0
    blocking: bool = False
    metadata: dict[str, str] = field(default_factory=dict)


@functools.cache
def _session() -> Session:
    session = Session()
    session.set_flags(*FLAGS)
    return session


@functools.cache
def compile_text(text: str) -> bytes:
    """The vmfb of a StableHLO module."""
    invocation = _session().invocation()
    source = Source.wrap_buffer(_session(), text.encode() + b"\0")
    if not (invocation.parse_source(source) and invocation.execute()):
        raise ValueError("the test's module does not compile")
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    data = bytes(output.map_memory())
    output.close()
    invocation.close()
    return data


def add_one(**options: Any) -> Program:
    """x + 1 on float32[8]."""
    text = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %0 = stablehlo.add %x, %c : tensor<8xf32>
      return %0 : tensor<8xf32> }"""
    return Program("add_one", compile_text(text), (((8,), "float32"),), (((8,), "float32"),), **options)


def matmul(n: int = 512, **options: Any) -> Program:
    """x @ y on float32[n,n], large enough for the worker threads."""
    text = f"""func.func @main(%x: tensor<{n}x{n}xf32>, %y: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<{n}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
      return %0 : tensor<{n}x{n}xf32> }}"""
    square = ((n, n), "float32")
    return Program("matmul", compile_text(text), (square, square), (square,), **{"work": 2 * n**3, **options})
