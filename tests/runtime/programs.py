"""Small StableHLO programs, compiled once per session for the runtime's tests."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from iree.compiler.api import Output, Session, Source

from veery_runtime.dimensions import Symbols

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
    calls_routines: bool = False
    symbols: Symbols = Symbols()
    work: int = 0
    blocking: bool = False
    metadata: dict[str, str] = field(default_factory=dict)


SYNCHRONOUS = "--iree-execution-model=async-internal"


@functools.cache
def _session(*flags: str) -> Session:
    session = Session()
    session.set_flags(*FLAGS, *flags)
    return session


@functools.cache
def compile_text(text: str, *flags: str) -> bytes:
    """The vmfb of a StableHLO module."""
    invocation = _session(*flags).invocation()
    source = Source.wrap_buffer(_session(*flags), text.encode() + b"\0")
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


def with_table() -> Program:
    """x + sin(0..8191), which its initializer computes."""
    text = """func.func @main(%x: tensor<8192xf32>) -> tensor<8192xf32> {
      %i = stablehlo.iota dim = 0 : tensor<8192xf32>
      %s = stablehlo.sine %i : tensor<8192xf32>
      %r = stablehlo.reverse %s, dims = [0] : tensor<8192xf32>
      %t = stablehlo.add %s, %r : tensor<8192xf32>
      %0 = stablehlo.concatenate %x, %t, dim = 0 : (tensor<8192xf32>, tensor<8192xf32>) -> tensor<16384xf32>
      %1 = stablehlo.slice %0 [8192:16384] : (tensor<16384xf32>) -> tensor<8192xf32>
      return %1 : tensor<8192xf32> }"""
    row = ((8192,), "float32")
    return Program("with_table", compile_text(text), (row,), (row,))


def identity() -> Program:
    """Returns its argument (as it happens, the same memory)."""
    text = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }"
    return Program("identity", compile_text(text), (((8,), "float32"),), (((8,), "float32"),), donated=(False,))


def add_in_place(*shape: int, **options: Any) -> Program:
    """x + 1 on float32[shape] (by default 8), writing into its donated argument."""
    row = (shape or (8,), "float32")
    tensor = f"tensor<{'x'.join(map(str, row[0]))}xf32>"
    text = f"""func.func @main(%x: {tensor} {{iree.abi.output = 0 : index}}) -> {tensor} {{
      %c = stablehlo.constant dense<1.0> : {tensor}
      %0 = stablehlo.add %x, %c : {tensor}
      return %0 : {tensor} }}"""
    return Program("add_in_place", compile_text(text), (row,), (row,), **{"donated": (True,), **options})


def countdown(**options: Any) -> Program:
    """Adds 1 to an int32 until it reaches a limit: a loop whose condition is computed on the device."""
    text = """func.func @main(%x: tensor<i32>, %limit: tensor<i32>) -> tensor<i32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32>
        cond {
          %p = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %n = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %n : tensor<i32>
        }
      return %r : tensor<i32> }"""
    scalar = ((), "int32")
    return Program("countdown", compile_text(text), (scalar, scalar), (scalar,), **{"blocking": True, **options})


def host(function: Any, *, pure: bool = False, **options: Any) -> Program:
    """function(x) + 1 on float32[8], where the function is Python's."""
    attributes = "attributes {nosideeffects}" if pure else ""
    text = f"""func.func private @host.cb0(%x: tensor<8xf32>) -> tensor<8xf32> {attributes}
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %0 = func.call @host.cb0(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %1 = stablehlo.add %0, %c : tensor<8xf32>
      return %1 : tensor<8xf32> }}"""
    row = (((8,), "float32"),)
    calls = (HostCall("cb0", function, row, row, pure),)
    return Program("with_host_call", compile_text(text, SYNCHRONOUS), row, row, host_calls=calls, **options)


def evaluated(function: Any, **options: Any) -> Program:
    """A program without code, on float32[8], which a function of lists of arrays evaluates."""

    class Function:
        constants: tuple[Any, ...] = ()

        def __call__(self, arrays: Any) -> Any:
            return function(arrays)

    row = (((8,), "float32"),)
    return Program("evaluated", b"", row, row, host_calls=(HostCall("main", Function(), row, row, True),), **options)


def host_twice(first: Any, second: Any, **options: Any) -> Program:
    """first(x) + second(first(x) + 1) on float32[8], of Python functions that are pure."""
    text = """func.func private @host.cb0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {nosideeffects}
    func.func private @host.cb1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {nosideeffects}
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = func.call @host.cb0(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %1 = stablehlo.add %0, %c : tensor<8xf32>
      %2 = func.call @host.cb1(%1) : (tensor<8xf32>) -> tensor<8xf32>
      %3 = stablehlo.add %0, %2 : tensor<8xf32>
      return %3 : tensor<8xf32> }"""
    row = (((8,), "float32"),)
    calls = tuple(HostCall(f"cb{i}", function, row, row, True) for i, function in enumerate((first, second)))
    return Program("twice", compile_text(text, SYNCHRONOUS), row, row, host_calls=calls, **options)


def host_effect(function: Any, **options: Any) -> Program:
    """Hands x to a Python function that returns nothing."""
    text = """func.func private @host.cb0(%x: tensor<8xf32>)
    func.func @main(%x: tensor<8xf32>) {
      func.call @host.cb0(%x) : (tensor<8xf32>) -> ()
      return }"""
    row = (((8,), "float32"),)
    calls = (HostCall("cb0", function, row, (), False),)
    return Program("effect", compile_text(text, SYNCHRONOUS), row, (), host_calls=calls, **options)


def host_pair(function: Any, **options: Any) -> Program:
    """Two results from one Python function."""
    text = """func.func private @host.cb0(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<0xi32>)
    func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<0xi32>) {
      %0:2 = func.call @host.cb0(%x) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<0xi32>)
      return %0#0, %0#1 : tensor<8xf32>, tensor<0xi32> }"""
    row, results = (((8,), "float32"),), (((8,), "float32"), ((0,), "int32"))
    calls = (HostCall("cb0", function, row, results, True),)
    return Program("pair", compile_text(text, SYNCHRONOUS), row, results, host_calls=calls, **options)


def same_twice() -> Program:
    """Returns x + 1 twice."""
    text = """func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %0 = stablehlo.add %x, %c : tensor<8xf32>
      return %0, %0 : tensor<8xf32>, tensor<8xf32> }"""
    row = ((8,), "float32")
    return Program("same_twice", compile_text(text), (row,), (row, row))


def copy_of(element: str, dtype: str) -> Program:
    """Sends values of one dtype through a program that moves them."""
    text = f"""func.func @main(%x: tensor<3x2x{element}>) -> tensor<2x3x{element}> {{
      %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x2x{element}>) -> tensor<2x3x{element}>
      return %0 : tensor<2x3x{element}> }}"""
    return Program(f"copy_{dtype}", compile_text(text), (((3, 2), dtype),), (((2, 3), dtype),))


def huge() -> Program:
    """Asks for 4 TiB."""
    text = """func.func @main(%x: tensor<f32>) -> tensor<1099511627776xf32> {
      %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32>
      return %0 : tensor<1099511627776xf32> }"""
    return Program("huge", compile_text(text), (((), "float32"),), (((1 << 40,), "float32"),))


def add_arrays() -> Program:
    """w + x on float32[8]."""
    text = """func.func @main(%w: tensor<8xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = stablehlo.add %w, %x : tensor<8xf32>
      return %0 : tensor<8xf32> }"""
    row = ((8,), "float32")
    return Program("add_arrays", compile_text(text), (row, row), (row,), donated=(False, False))


def sum_of(n: int) -> Program:
    """The sum of n arguments of float32[8], fused into one dispatch."""
    arguments = ", ".join(f"%a{i}: tensor<8xf32>" for i in range(n))
    lines = [f"%s{i} = stablehlo.add {f'%s{i - 1}' if i > 1 else '%a0'}, %a{i} : tensor<8xf32>" for i in range(1, n)]
    text = f"func.func @main({arguments}) -> tensor<8xf32> {{ {chr(10).join(lines)} return %s{n - 1} : tensor<8xf32> }}"
    row = ((8,), "float32")
    return Program(f"sum_of_{n}", compile_text(text), (row,) * n, (row,))
