"""Executables without their code: that it comes back to where it was, and what is not looked into."""

from __future__ import annotations

import pytest

from veery_lowering.compiler.emptied import SOURCES, STREAMS, drop_code, emptied
from veery_lowering.mlir import context, ir, operations

SOURCE = """
hal.executable.source private @{name} {{
  hal.executable.export public @{name}_run ordinal(0) layout(#hal.pipeline.layout<bindings = []>)
  builtin.module {{
    func.func @{name}_run() {{ %0 = arith.constant {number} : index
      return }}
  }}
}}"""
STREAM = """
stream.executable private @{name} {{
  stream.executable.export public @run
  builtin.module {{
    func.func @run() {{ %0 = arith.constant {number} : index
      return }}
  }}
}}"""
EXECUTABLE = """
hal.executable private @made {
  hal.executable.variant public @here target(<"llvm-cpu", "embedded-elf-x86_64">) {
    hal.executable.export public @run ordinal(0) layout(#hal.pipeline.layout<bindings = []>)
    builtin.module { llvm.func @run() }
  }
}"""
TEXT = (
    SOURCE.format(name="first", number=1)
    + STREAM.format(name="second", number=2)
    + "util.func public @main() { util.return }"
    + SOURCE.format(name="third", number=3)
)


@pytest.mark.parametrize(("kinds", "numbers"), [(SOURCES, "2"), (STREAMS, "13"), (SOURCES + STREAMS, "")])
def test_code_comes_back(kinds: tuple[str, ...], numbers: str) -> None:
    with context():
        module = ir.Module.parse(TEXT)
        before = str(module)
        with emptied(module, kinds):
            left = str(module)
        assert str(module) == before
        assert [n for n in "123" if f"arith.constant {n} :" in left] == list(numbers)
        assert left.count("executable.export") == 3 and left.count("builtin.module") == 3
        module.operation.verify()


def test_what_is_gone_behind_it_does_not_matter() -> None:
    """A kernel that passes find to be unused, and one that they make."""
    with context():
        module = ir.Module.parse(TEXT)
        with emptied(module, SOURCES):
            module.body.operations[0].operation.erase()
            added = ir.Module.parse(SOURCE.format(name="fourth", number=4))
            module.body.append(added.body.operations[0].operation.detach_from_parent())
        text = str(module)
        assert [n for n in "1234" if f"arith.constant {n} :" in text] == ["2", "3", "4"]


def test_interfaces_are_left_of_what_has_become_code() -> None:
    with context():
        module = ir.Module.parse(EXECUTABLE)
        drop_code(module)
        module.operation.verify()
        text = str(module)
    assert "llvm.func" not in text and "hal.executable.export" in text and "builtin.module" in text


def test_kernels_are_not_looked_into() -> None:
    """By passes over a module; over a kernel they are."""
    with context():
        module = ir.Module.parse(TEXT)
        names = [op.name for op in operations(module)]
        assert names.count("hal.executable.source") == 2 and names.count("arith.constant") == 1  # the other one's
        assert "arith.constant" in [op.name for op in operations(module.body.operations[0])]
        assert names == [op.name for op in operations(module.operation)]
