"""What is read of operations of StableHLO and VHLO alike."""

from __future__ import annotations

import pytest

from veery_lowering.dialects import base_name, integers
from veery_lowering.mlir import context, ir

NUMBERS = {
    "array<i64: 1, -2>": [1, -2],
    "dense<3> : tensor<i32>": [3],
    "#vhlo.tensor_v1<dense<0> : tensor<2xi64>>": [0, 0],
    "#vhlo.tensor_v1<dense<[4, 5]> : tensor<2xi64>>": [4, 5],
    "#vhlo.tensor_v1<dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>>": [0, 1, 2, 3],
    "#vhlo.tensor_v1<dense<7> : tensor<2x2xi64>>": [7] * 4,
    "#vhlo.tensor_v1<dense<> : tensor<0xi64>>": [],
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_of_attributes(text: str) -> None:
    with context():
        assert integers(ir.Attribute.parse(text)) == NUMBERS[text]


def test_names_without_dialect_and_version() -> None:
    names = ["stablehlo.slice", "vhlo.dynamic_update_slice_v1", "flow.tensor.clone", "func.call", ""]
    assert list(map(base_name, names)) == ["slice", "dynamic_update_slice", "flow.tensor.clone", "func.call", ""]
