"""Pass managers that a session keeps: each is made once, and runs as the compiler's own would."""

from __future__ import annotations

import pytest

from veery_lowering.compiler import managers, sessions
from veery_lowering.compiler.managers import Managers
from veery_lowering.mlir import Session, ir

CONSTANTS = """
util.func public @main() -> i32 {
  %x = arith.constant 1 : i32
  %y = arith.addi %x, %x : i32
  util.return %y : i32
}"""
LEFT = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.add %x, %x : tensor<f32>
  return %y : tensor<f32>
}"""


def test_managers_are_made_once_and_serve_all_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(managers.PassManager):
        @staticmethod
        def parse(pipeline: str, context: ir.Context) -> ir.PassManager:
            made.append(pipeline)
            return parse(pipeline, context)

    parse = managers.PassManager.parse
    monkeypatch.setattr(managers, "PassManager", Counted)
    session = Session()
    ours = Managers(session.context)
    with session.context, ir.Location.unknown():
        for _ in range(3):
            module = ir.Module.parse(CONSTANTS)
            assert ours.run(module, "util.func(canonicalize)", verifies=True)
            assert "arith.constant 2" in str(module) and "addi" not in str(module)
    assert made == ["builtin.module(util.func(canonicalize))"]


def test_what_fails_says_why() -> None:
    """To who listens to the compilation, and the manager can be used afterwards."""
    session, said = Session(), []
    ours = Managers(session.context)
    with session.context, ir.Location.unknown(), sessions._invocation(session, said) as invocation:
        for text, done in ((LEFT, False), (CONSTANTS, True), (LEFT, False)):
            module = ir.Module.parse(text)
            invocation.import_module(module.operation)
            assert ours.run(module, "iree-stablehlo-verify-compiler-input-legality", verifies=False) == done
    assert len(said) >= 2 and all(diagnostic.severity == "error" for diagnostic in said)
