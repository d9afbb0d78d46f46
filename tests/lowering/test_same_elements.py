"""Which dispatches may write where they read: those that make each element of the same element."""

from __future__ import annotations

import pytest

from veery_lowering.mlir import context, ir
from veery_lowering.passes.stream.same_elements import is_elementwise

TENSOR = "tensor<4x4xf32>"
READ, WRITTEN = (f"!iree_tensor_ext.dispatch.tensor<{how}only:{TENSOR}>" for how in ("read", "write"))
WHOLE = "offsets = [0, 0], sizes = [4, 4], strides = [1, 1]"
PARALLEL = '"parallel", "parallel"'
ROW, COLUMN = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"


def kernel(maps: tuple[str, ...], kinds: str = PARALLEL, after: str = "", result: str = "%z") -> str:
    """A dispatch that reads bindings 0 and 1 and writes binding 2."""
    return f"""
func.func @kernel(%0: !stream.binding, %1: !stream.binding, %2: !stream.binding) {{
  %c0 = arith.constant 0 : index
  %a = stream.binding.subspan %0[%c0] : !stream.binding -> {READ}
  %b = stream.binding.subspan %1[%c0] : !stream.binding -> {READ}
  %c = stream.binding.subspan %2[%c0] : !stream.binding -> {WRITTEN}
  %x = iree_tensor_ext.dispatch.tensor.load %a, {WHOLE} : {READ} -> {TENSOR}
  %y = iree_tensor_ext.dispatch.tensor.load %b, {WHOLE} : {READ} -> {TENSOR}
  %new = tensor.empty() : {TENSOR}
  %z = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
      ins(%x, %y : {TENSOR}, {TENSOR}) outs(%new : {TENSOR}) {{
    ^bb0(%p: f32, %q: f32, %r: f32):
      %sum = arith.addf %p, %q : f32
      linalg.yield %sum : f32
  }} -> {TENSOR}
  {after}
  iree_tensor_ext.dispatch.tensor.store {result}, %c, {WHOLE} : {TENSOR} -> {WRITTEN}
  return
}}
"""


TWICE = f"""%twice = linalg.generic {{indexing_maps = [{ROW}, {COLUMN}, {ROW}], iterator_types = [{PARALLEL}]}}
      ins(%z, %x : {TENSOR}, {TENSOR}) outs(%new : {TENSOR}) {{
    ^bb0(%p: f32, %q: f32, %r: f32):
      %sum = arith.mulf %p, %q : f32
      linalg.yield %sum : f32
  }} -> {TENSOR}"""


@pytest.mark.parametrize(
    "text, read, expected",
    [
        (kernel((ROW, ROW, ROW)), 0, True),
        (kernel((ROW, COLUMN, ROW)), 0, True),
        (kernel((ROW, COLUMN, ROW)), 1, False),  # read across
        (kernel((COLUMN, COLUMN, COLUMN)), 1, True),
        (kernel((ROW, ROW, ROW), '"parallel", "reduction"'), 0, False),
        (kernel((ROW, ROW, ROW), after=TWICE, result="%twice"), 0, False),  # read again by what is written
        (kernel((ROW, ROW, ROW), after=TWICE, result="%twice"), 1, False),  # by what is written of it
        (kernel((ROW, ROW, ROW), result="%x"), 1, False),  # a copy of something else
    ],
)
def test_what_may_be_the_same_memory(text: str, read: int, expected: bool) -> None:
    with context():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        assert is_elementwise(function.operation, [read], [2]) == expected
