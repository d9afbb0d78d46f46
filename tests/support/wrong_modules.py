"""Modules that IREE 3.13 compiles to wrong numbers, as small as they get: for tests/lowering/test_iree_faults.py."""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np

_ELEMENTS = {"bool": "i1", "bfloat16": "bf16", "complex64": "complex<f32>", "float8_e4m3fn": "f8E4M3FN"}
_KINDS = {"uint": "ui", "int": "i", "float": "f"}


def tensor(x: np.ndarray) -> str:
    name = x.dtype.name
    element = _ELEMENTS.get(name) or re.sub("^[a-z]+", lambda m: _KINDS[m[0]], name)
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}{element}>"


@dataclass(frozen=True)
class Wrong:
    """A function of `%0`, `%1`... that computes `%r`, and what that should be."""

    guard: str
    body: str
    arguments: tuple[np.ndarray, ...]
    right: np.ndarray

    def text(self, name: str) -> str:
        types = ", ".join(f"%{i}: {tensor(x)}" for i, x in enumerate(self.arguments))
        result = tensor(self.right)
        return f"func.func @{name}({types}) -> {result} {{\n{self.body}\nreturn %r : {result}\n}}"


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def c64(*values: complex) -> np.ndarray:
    return np.array(values, np.complex64)


def unary(op: str, x: np.ndarray, right: np.ndarray, guard: str) -> Wrong:
    if op.startswith("chlo"):
        return Wrong(guard, f"%r = {op} %0 : {tensor(x)} -> {tensor(right)}", (x,), right)
    return Wrong(guard, f'%r = "{op}"(%0) : ({tensor(x)}) -> {tensor(right)}', (x,), right)


def binary(op: str, x: np.ndarray, y: np.ndarray, right: np.ndarray, guard: str) -> Wrong:
    return Wrong(guard, f"%r = {op} %0, %1 : {tensor(x)}", (x, y), right)


_KEYS = (np.arange(65) % 3).astype(np.float32)

WRONG = {
    "power of a negative base": binary("stablehlo.power", f32(-2), f32(3), f32(-8), "numerics/power.py"),
    "power with a large exponent": binary(
        "stablehlo.power", *np.array([[3], [68]], np.int64), np.array([3**68 % 2**64], np.uint64).view(np.int64),
        "numerics/integer.py",
    ),
    "sine of a large number": unary("stablehlo.sine", f32(1e10), f32(-0.48750602), "numerics/trigonometry.py"),
    "sine of -0": unary("stablehlo.sine", f32(-0.0), f32(-0.0), "numerics/trigonometry.py"),
    "log1p of -0": unary("stablehlo.log_plus_one", np.array([-0.0]), np.array([-0.0]), "numerics/real.py"),
    "expm1 of -0": unary("stablehlo.exponential_minus_one", np.array([-0.0]), np.array([-0.0]), "numerics/real.py"),
    "cbrt of infinity": unary("stablehlo.cbrt", f32(np.inf), f32(np.inf), "numerics/real.py"),
    "atan2 of zeros": binary("stablehlo.atan2", f32(0), f32(0), f32(0), "numerics/real.py"),
    "digamma at its pole": unary("chlo.digamma", f32(0), f32(np.nan), "numerics/gamma.py"),
    "log of a complex zero": unary("stablehlo.log", c64(0), c64(complex(-np.inf, 0)), "numerics/complex.py"),
    "atan at its branch point": unary("chlo.atan", c64(1j), c64(complex(0, np.inf)), "numerics/complex.py"),
    "maximum of complex numbers": binary("stablehlo.maximum", c64(1 + 1j), c64(1 + 2j), c64(1 + 2j), "rules/reduce.py"),
    "complex number as bool": unary("stablehlo.convert", c64(3j), np.array([True]), "rules/convert.py"),
    "integer of a large float": unary("stablehlo.convert", f32(300), np.array([127], np.int8), "rules/convert.py"),
    "integer of NaN": unary("stablehlo.convert", f32(np.nan), np.array([0], np.int32), "rules/convert.py"),
    "what is rounded up to the smallest normal float8": unary(
        "stablehlo.convert", f32(0.015), np.array([0.015625], ml_dtypes.float8_e4m3fn), "rules/convert.py"
    ),
    "finite floats of 8 bits": unary(
        "stablehlo.is_finite", np.array([1, 2], ml_dtypes.float8_e4m3fn), np.array([True, True]), "float8.py"
    ),
    "a part of floats of 4 bits behind others": Wrong(
        "types.py",
        """%a = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xf4E2M1FN>
        %b = stablehlo.optimization_barrier %a : tensor<4xf4E2M1FN>
        %s = stablehlo.slice %b [1:3] : (tensor<4xf4E2M1FN>) -> tensor<2xf4E2M1FN>
        %c = stablehlo.concatenate %b, %s, dim = 0 : (tensor<4xf4E2M1FN>, tensor<2xf4E2M1FN>) -> tensor<6xf4E2M1FN>
        %d = stablehlo.optimization_barrier %c : tensor<6xf4E2M1FN>
        %r = stablehlo.convert %d : (tensor<6xf4E2M1FN>) -> tensor<6xf32>""",
        (f32(0.5, 1, -2, 6),),
        f32(0.5, 1, -2, 6, 1, -2),
    ),
    "the other NaN of float8": unary(
        "stablehlo.convert", np.array([0xFF], np.uint8).view(ml_dtypes.float8_e4m3fn), f32(np.nan), "rules/convert.py"
    ),
    "sum of bools": binary("stablehlo.add", *np.array([[True], [True]]), np.array([True]), "rules/reduce.py"),
    "what a branch hands on is written": Wrong(
        "sharing.py",
        """%z = stablehlo.add %0, %0 : tensor<3xf32>
        %q = stablehlo.constant dense<true> : tensor<i1>
        %p = stablehlo.reduce(%1 init: %q) applies stablehlo.and across dimensions = [0]
          : (tensor<1xi1>, tensor<i1>) -> tensor<i1>
        %y = "stablehlo.if"(%p) ({
          stablehlo.return %z : tensor<3xf32>
        }, {
          %n = stablehlo.negate %0 : tensor<3xf32>
          stablehlo.return %n : tensor<3xf32>
        }) : (tensor<i1>) -> tensor<3xf32>
        %i = stablehlo.constant dense<1> : tensor<i32>
        %v = stablehlo.slice %0 [2:3] : (tensor<3xf32>) -> tensor<1xf32>
        %w = stablehlo.dynamic_update_slice %y, %v, %i : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
        %b = stablehlo.optimization_barrier %w : tensor<3xf32>
        %s = stablehlo.add %b, %b : tensor<3xf32>
        %r = stablehlo.subtract %s, %z : tensor<3xf32>""",
        (f32(1, 2, 3), np.array([True])),
        f32(2, 2, 6),
    ),
    "bytes in a product": Wrong(
        "products.py",
        """%f = stablehlo.convert %0 : (tensor<3xui8>) -> tensor<3xf32>
        %r = stablehlo.dot_general %f, %1, contracting_dims = [0] x [0]
          : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>""",
        (np.array([200, 1, 0], np.uint8), f32(1, 2, 3)),
        np.float32(202).reshape(()),
    ),
    "bytes in a product, by way of int16": Wrong(
        "products.py",
        """%h = stablehlo.convert %0 : (tensor<3xui8>) -> tensor<3xi16>
        %f = stablehlo.convert %h : (tensor<3xi16>) -> tensor<3xi32>
        %r = stablehlo.dot_general %f, %1, contracting_dims = [0] x [0]
          : (tensor<3xi32>, tensor<3xi32>) -> tensor<i32>""",
        (np.array([200, 1, 0], np.uint8), np.array([1, 2, 3], np.int32)),
        np.int32(202).reshape(()),
    ),
    "a wider sum of bytes": Wrong(
        "products.py",
        """%r = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0]
          : (tensor<2xui8>, tensor<2xui8>) -> tensor<i32>""",
        (np.array([200, 1], np.uint8),),
        np.int32(40001).reshape(()),
    ),
    "bytes in a convolution": Wrong(
        "products.py",
        """%f = stablehlo.convert %0 : (tensor<1x4x1xui8>) -> tensor<1x4x1xf32>
        %g = stablehlo.convert %1 : (tensor<3x1x1xui8>) -> tensor<3x1x1xf32>
        %r = stablehlo.convolution(%f, %g) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x4x1xf32>, tensor<3x1x1xf32>) -> tensor<1x2x1xf32>""",
        (np.array([200, 1, 0, 130], np.uint8).reshape(1, 4, 1), np.array([1, 2, 3], np.uint8).reshape(3, 1, 1)),
        f32(202, 391).reshape(1, 2, 1),
    ),
    "a mask of what is not a number": Wrong(
        "products.py",
        """%f = stablehlo.convert %0 : (tensor<2xi1>) -> tensor<2xf32>
        %r = stablehlo.multiply %f, %1 : tensor<2xf32>""",
        (np.array([True, False]), f32(1, np.nan)),
        f32(1, np.nan),
    ),
    "a slice from before the start": Wrong(
        "rules/slicing.py",
        "%r = stablehlo.dynamic_slice %0, %1, sizes = [1] : (tensor<8xf32>, tensor<i8>) -> tensor<1xf32>",
        (np.arange(8, dtype=np.float32), np.array(-1, np.int8)),
        f32(0),
    ),
    "sort, said to be stable": Wrong(
        "rules/sort.py",
        """%i = stablehlo.iota dim = 0 : tensor<65xf32>
        %s:2 = "stablehlo.sort"(%0, %i) ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
            %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %less : tensor<i1>
        }) {dimension = 0 : i64, is_stable = true}
          : (tensor<65xf32>, tensor<65xf32>) -> (tensor<65xf32>, tensor<65xf32>)
        %r = stablehlo.add %s#1, %s#1 : tensor<65xf32>""",
        (_KEYS,),
        2 * np.argsort(_KEYS, kind="stable").astype(np.float32),
    ),
    "a value behind a barrier, updated": Wrong(
        "aliasing.py",
        """%one = stablehlo.constant dense<1.0> : tensor<8xf32>
        %start = stablehlo.constant dense<0> : tensor<i32>
        %y = stablehlo.add %0, %one : tensor<8xf32>
        %same = stablehlo.optimization_barrier %y : tensor<8xf32>
        %z = stablehlo.dynamic_update_slice %same, %1, %start
          : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
        %r = stablehlo.concatenate %z, %y, dim = 0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>""",
        (np.arange(8, dtype=np.float32), f32(-1)),
        np.concatenate([f32(-1), np.arange(2, 9), np.arange(1, 9)]).astype(np.float32),
    ),
    "paddings that do nothing": Wrong(
        "stablehlo/_shape.py",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %x = stablehlo.add %0, %0 : tensor<1xf32>
        %y = stablehlo.multiply %0, %0 : tensor<1xf32>
        %a = stablehlo.pad %x, %zero, low = [0], high = [0], interior = [1]
          : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        %b = stablehlo.pad %y, %zero, low = [0], high = [0], interior = [1]
          : (tensor<1xf32>, tensor<f32>) -> tensor<1xf32>
        %r = stablehlo.add %a, %b : tensor<1xf32>""",
        (f32(3),),
        f32(15),
    ),
    "the sum of a quotient of constants": Wrong(
        "constants.py",
        """%one = stablehlo.constant dense<1.0> : tensor<5x7xf32>
        %two = stablehlo.constant dense<2.0> : tensor<5x7xf32>
        %half = stablehlo.divide %one, %two : tensor<5x7xf32>
        %s = stablehlo.reduce(%half init: %0) applies stablehlo.add across dimensions = [0, 1]
          : (tensor<5x7xf32>, tensor<f32>) -> tensor<f32>
        %r = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>""",
        (np.zeros((), np.float32),),
        f32(17.5),
    ),
    "sums against sums": Wrong(
        "crossings.py",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
          : (tensor<7x5xf32>, tensor<f32>) -> tensor<7xf32>
        %a = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<7xf32>) -> tensor<7x7xf32>
        %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<7xf32>) -> tensor<7x7xf32>
        %r = stablehlo.subtract %a, %b : tensor<7x7xf32>""",
        (np.arange(35, dtype=np.float32).reshape(7, 5),),
        np.subtract.outer(*[np.arange(10, 185, 25, np.float32)] * 2),
    ),
    "what windows of one element step over": Wrong(
        "rules/window.py",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.add %0, %0 : tensor<5xf32>
        %w = "stablehlo.reduce_window"(%a, %zero) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %z = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %z : tensor<f32>
        }) {window_dimensions = array<i64: 1>, window_strides = array<i64: 2>}
          : (tensor<5xf32>, tensor<f32>) -> tensor<3xf32>
        %r = stablehlo.concatenate %a, %w, dim = 0 : (tensor<5xf32>, tensor<3xf32>) -> tensor<8xf32>""",
        (f32(1, 2, 3, 4, 5),),
        f32(2, 4, 6, 8, 10, 2, 6, 10),
    ),
    "bfloat16 that is compared before it is rounded": Wrong(
        "bfloat16.py",
        """%s = stablehlo.add %0, %1 : tensor<3xbf16>
        %r = stablehlo.compare EQ, %s, %0 : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xi1>""",
        (np.array([100, 1, 3], ml_dtypes.bfloat16), np.array([0.125, 0, 0.001], ml_dtypes.bfloat16)),
        np.array([True, True, True]),
    ),
    "arrays that change places in a loop": Wrong(
        "loops.py",
        """%zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %five = stablehlo.constant dense<5> : tensor<i32>
        %x = stablehlo.slice %0 [0:2] : (tensor<4xf32>) -> tensor<2xf32>
        %y = stablehlo.slice %0 [1:3] : (tensor<4xf32>) -> tensor<2xf32>
        %l:3 = stablehlo.while(%i = %zero, %a = %x, %b = %y) : tensor<i32>, tensor<2xf32>, tensor<2xf32>
        cond {
          %more = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %more : tensor<i1>
        } do {
          %next = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %next, %b, %a : tensor<i32>, tensor<2xf32>, tensor<2xf32>
        }
        %r = stablehlo.reshape %l#1 : (tensor<2xf32>) -> tensor<2xf32>""",
        (np.arange(4, dtype=np.float32),),
        f32(1, 2),
    ),
}  # fmt: skip
