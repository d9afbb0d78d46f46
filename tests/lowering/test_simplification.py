"""What is done to modules before the compiler gets them, by pass managers that are kept."""

from __future__ import annotations

from typing import Any

from veery_lowering.mlir import PassManager, context, ir, pass_manager
from veery_lowering.passes import simplification
from veery_lowering.passes.simplification import inlined

PLAIN = """
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %i = stablehlo.constant dense<2> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sum = stablehlo.add %i, %zero : tensor<i32>
  %f = stablehlo.convert %sum : (tensor<i32>) -> tensor<f32>
  %y = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<3xf32>
  %unused = stablehlo.add %x, %y : tensor<3xf32>
  %z = stablehlo.multiply %x, %y : tensor<3xf32>
  return %z : tensor<3xf32>
}"""
CALLED = """
func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.add %x, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = func.call @double(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}"""


def after_calls(text: str) -> str:
    """A module once its calls are gone, before it is simplified further."""
    found: list[str] = []
    with context():
        inlined(ir.Module.parse(text), lambda module: None, lambda module: found.append(str(module)))
    return found[0]


def test_a_module_without_calls_is_what_the_inliner_makes_of_it() -> None:
    with context():
        module = ir.Module.parse(PLAIN)
        PassManager.parse("builtin.module(inline)").run(module.operation)
        assert after_calls(PLAIN) == str(module) != str(ir.Module.parse(PLAIN))


def test_calls_are_inlined_and_what_was_called_is_gone() -> None:
    assert "call" not in (text := after_calls(CALLED)) and "double" not in text and "stablehlo.add" in text


def test_the_inliner_runs_where_something_may_be_called(monkeypatch: Any) -> None:
    run: list[str] = []
    made = simplification.pass_manager
    monkeypatch.setattr(simplification, "pass_manager", lambda c, passes: run.append(passes) or made(c, passes))
    for text in (PLAIN, CALLED):
        after_calls(text)
    assert ["inline" in passes for passes in run] == [False, False, True, False]


def test_a_thread_keeps_the_managers_of_a_context() -> None:
    passes = "builtin.module(func.func(canonicalize))"
    with context() as ours:
        kept = pass_manager(ours, passes)
        assert pass_manager(ours, passes) is kept
    other = ir.Context()
    assert pass_manager(other, passes) is not kept
    assert pass_manager(other, passes) is pass_manager(other, passes)
