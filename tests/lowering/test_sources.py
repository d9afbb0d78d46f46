"""What dispatches make of nothing is made anew for each that overwrites it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import veery
import veery_lowering
from veery import lax, numpy as jnp
from veery_lowering.mlir import context, ir, operations
from veery_lowering.passes.flow.sources import part_sources

MODULE = """
module {
  flow.executable private @made { flow.executable.export public @zeros }
  util.initializer { util.return }
  flow.executable private @code { flow.executable.export public @add }
  util.func public @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5x1xf32>, tensor<5xf32>) {
    %0 = flow.dispatch @made::@zeros() : () -> tensor<5xf32>
    %1 = flow.dispatch @code::@add(%x, %0) : (tensor<5xf32>, tensor<5xf32>) -> %0
    %2 = flow.tensor.reshape %0 : tensor<5xf32> -> tensor<5x1xf32>
    %3 = flow.dispatch @code::@add(%x, %2) : (tensor<5xf32>, tensor<5x1xf32>) -> %2
    %4 = flow.dispatch @code::@add(%x, READ) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    util.return %1, %3, %4 : tensor<5xf32>, tensor<5x1xf32>, tensor<5xf32>
  }
}
"""


@pytest.mark.parametrize(("read", "copies"), [("%x", 1), ("%0", 2)])
def test_each_that_overwrites_has_its_own(read: str, copies: int) -> None:
    with context():
        module = ir.Module.parse(MODULE.replace("READ", read))
        part_sources(module)
        assert module.operation.verify()
        dispatches = [op for op in operations(module.operation) if op.name == "flow.dispatch"]
        made = [op for op in dispatches if "zeros" in str(op.attributes["entry_points"])]
        written = [op.operands[1] for op in dispatches if "tied_operands" in op.attributes and "add" in str(op)]
        names = re.findall(r"flow.executable private @(made\w*)", str(module))
    assert len(made) == 1 + copies == len(names) == len(set(names))
    assert len(set(written)) == len(written)


@pytest.mark.parametrize("kind", ["flow.executable private", "hal.executable.source private"])
def test_two_dispatches_of_one_executable(kind: str) -> None:
    """Each makes anew what is written twice; no two executables have one name."""
    text = MODULE.replace("READ", "%x").replace("flow.executable private @made", f"{kind} @made")
    if kind.startswith("hal"):
        layout = "#hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>]>"
        text = text.replace(
            "flow.executable.export public @zeros", f"hal.executable.export public @zeros layout({layout})"
        )
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "%0 =" in line)
    again = [line.replace("%", "%b").replace("%bx", "%x") for line in lines[start : start + 4]]
    with context():
        module = ir.Module.parse("\n".join([*lines[: start + 4], *again, *lines[start + 4 :]]))
        part_sources(module)
        assert module.operation.verify()
        names = re.findall(r"(?:executable|source) private @(made\w*)", str(module))
    assert len(names) == len(set(names)) == 3


def test_sums_of_two_windows_for_cuda() -> None:
    """Of the zeros that they begin with there are two, and the program is compiled to its end."""
    window = lambda x, n: lax.reduce_window(x, np.float32(0), lax.add, (n,))
    closed = veery.make_jaxpr(lambda x, y: (window(x, 3), window(y, 2)))(np.ones(7, np.float32), np.ones(6, np.float32))
    flow = veery_lowering.lower(closed, target="cuda").intermediate("flow")
    assert len(re.findall(r"flow.dispatch @\w*again", flow)) == 1
    program = veery_lowering.compile(closed, target="cuda", options=veery_lowering.Options(cache=False))
    assert program.vmfb.count(b".visible .entry") == 4


STANDARD = {"iree-vm-bytecode-module-strip-source-map": True}  # an option that the short pipeline is not known to take


@pytest.mark.parametrize("options", [{}, STANDARD], ids=["short", "standard"])
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_fills_of_64_bits_are_each_readers_own(dtype: str, options: dict[str, bool]) -> None:
    """They become dispatches, equal ones of which one is left out."""

    def updated(x: veery.Array) -> tuple[veery.Array, ...]:
        whole = jnp.full((8, x.shape[1]), 3, x.dtype)
        first = whole.at[:2].set(x)
        second = whole.at[3:5].set(jnp.sort(first.real, axis=0)[:2].astype(x.dtype) + x)
        return first, second, first @ second.T

    def of_nothing(x: veery.Array) -> tuple[veery.Array, ...]:
        whole = jnp.pad(x[:0], ((1, 1), (0, 0)), constant_values=2)
        return whole[:, :3].T @ whole[:, 1:4] + whole[:1, :3], whole * x

    x = np.arange(16).reshape(2, 8)
    with veery.enable_x64(True):
        x = x.astype(dtype)
        outs = [np.asarray(out) for f in (updated, of_nothing) for out in veery.jit(f, compiler_options=options)(x)]
    whole = np.full((8, 8), 3, dtype)
    first, second = whole.copy(), whole.copy()
    first[:2] = x
    second[3:5] = np.sort(first.real, axis=0)[:2] + x
    for out, expected in zip(outs, (first, second, first @ second.T, np.full((3, 3), 10), 2 * x), strict=True):
        np.testing.assert_array_equal(out, expected)


def test_each_reader_of_a_wide_splat_has_its_own() -> None:
    text = """
    module { util.func public @main(%x: tensor<2xTYPE>, %i: index) -> (tensor<5xTYPE>, tensor<5xTYPE>) {
      %c = arith.constant VALUE : TYPE
      %0 = flow.tensor.splat %c : tensor<5xTYPE>
      %1 = flow.tensor.update %x, %0[%i] : tensor<2xTYPE> -> %0 as tensor<5xTYPE>
      util.return %0, %1 : tensor<5xTYPE>, tensor<5xTYPE>
    } }"""
    for type_, value, count in (("f64", "3.0", 2), ("i64", "3", 2), ("f32", "3.0", 1), ("i32", "3", 1)):
        with context():
            module = ir.Module.parse(text.replace("TYPE", type_).replace("VALUE", value))
            part_sources(module)
            assert module.operation.verify()
            assert str(module).count("flow.tensor.splat") == count, type_
