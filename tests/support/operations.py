"""Functions of one operation of StableHLO each, with what its specification says that they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import signal, special
from support.compiled import results

import veery
from veery import numpy as jnp

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 5)).astype(np.float32)
LARGE = X * np.float32(1e6)
KEYS = (np.arange(40) * 7 % 5).astype(np.float32)
IMAGE = RNG.standard_normal((1, 2, 6, 7)).astype(np.float32)
KERNEL = RNG.standard_normal((3, 2, 2, 3)).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A function's arguments and results in MLIR, its body, and what it gives for the arguments."""

    body: str
    arguments: tuple[np.ndarray, ...]
    expected: np.ndarray

    @property
    def text(self) -> str:
        types = ", ".join(f"%{i}: {tensor(x)}" for i, x in enumerate(self.arguments))
        kind = tensor(self.expected)
        return f"func.func @main({types}) -> {kind} {{\n{self.body}\nreturn %r : {kind}\n}}"


def tensor(x: np.ndarray) -> str:
    kind = {"float": "f", "int": "i", "uint": "ui"}
    name = x.dtype.name.rstrip("0123456789")
    element = "i1" if name == "bool" else f"{kind[name]}{8 * x.dtype.itemsize}"
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}{element}>"


def unary(name: str, x: np.ndarray, expected: np.ndarray) -> Case:
    return Case(f'%r = "{name}"(%0) : ({tensor(x)}) -> {tensor(expected)}', (x,), expected)


def binary(name: str, x: np.ndarray, y: np.ndarray, expected: np.ndarray) -> Case:
    return Case(f'%r = "{name}"(%0, %1) : ({tensor(x)}, {tensor(y)}) -> {tensor(expected)}', (x, y), expected)


def folded(operation: str, kind: str) -> str:
    """A body that applies an operation to two numbers."""
    return f"""({{
      ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
        %s = stablehlo.{operation} %a, %b : tensor<{kind}>
        stablehlo.return %s : tensor<{kind}>
      }})"""


def windows(x: np.ndarray, start: str, operation: str, options: str, expected: np.ndarray) -> Case:
    kind = tensor(x).rpartition("x")[2][:-1]
    body = f"""%z = stablehlo.constant dense<{start}> : tensor<{kind}>
      %r = "stablehlo.reduce_window"(%0, %z) {folded(operation, kind)} {{{options}}}
        : ({tensor(x)}, tensor<{kind}>) -> {tensor(expected)}"""
    return Case(body, (x,), expected)


def sorts(comparison: str, keys: np.ndarray, expected: np.ndarray, axis: int = 0) -> Case:
    """The places that sorting takes elements from."""
    kind, places = tensor(keys).rpartition("x")[2][:-1], tensor(expected)
    body = f"""%i = stablehlo.iota dim = {axis} : {places}
      %s:2 = "stablehlo.sort"(%0, %i) ({{
        ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>, %c: tensor<i32>, %d: tensor<i32>):
          {comparison}
          stablehlo.return %less : tensor<i1>
        }}) {{dimension = {axis} : i64, is_stable = true}} : ({tensor(keys)}, {places}) -> ({tensor(keys)}, {places})
      %z = stablehlo.constant dense<0> : {places}
      %r = stablehlo.add %s#1, %z : {places}"""
    return Case(body, (keys,), expected)


def gathered(x: np.ndarray, places: np.ndarray, axis: int, expected: np.ndarray) -> Case:
    """Rows of a matrix at some places, of which `axis` is that of the index vectors."""
    numbers = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0]"
    body = f"""%r = "stablehlo.gather"(%0, %1) {{
        dimension_numbers = #stablehlo.gather<{numbers}, index_vector_dim = {axis}>,
        slice_sizes = array<i64: 1, {x.shape[1]}>
      }} : ({tensor(x)}, {tensor(places)}) -> {tensor(expected)}"""
    return Case(body, (x, places), expected)


def scattered(operation: str, places: np.ndarray, updates: np.ndarray, expected: np.ndarray) -> Case:
    numbers = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"
    body = f"""%r = "stablehlo.scatter"(%0, %1, %2) {folded(operation, "f32")} {{
        scatter_dimension_numbers = #stablehlo.scatter<{numbers}, index_vector_dim = 1>
      }} : ({tensor(X)}, {tensor(places)}, {tensor(updates)}) -> {tensor(X)}"""
    return Case(body, (X, places, updates), expected)


def added(x: np.ndarray, places: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = x.copy()
    for place, update in zip(places, updates):
        if 0 <= place < len(y):
            y[place] += update
    return y


def convolved() -> Case:
    """Channels first, and kernels turned about: what SciPy calls a convolution."""
    expected = np.array([[sum(signal.convolve(IMAGE[0, i], k[i], "valid") for i in range(2)) for k in KERNEL]])
    expected = expected.astype(np.float32)
    body = f"""%r = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {{reverse = [true, true]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : ({tensor(IMAGE)}, {tensor(KERNEL)}) -> {tensor(expected)}"""
    return Case(body, (IMAGE, KERNEL), expected)


def pooled_back(x: np.ndarray, source: np.ndarray) -> Case:
    """What goes back to the largest of overlapping windows of two."""
    expected = np.zeros_like(x)
    for i, s in enumerate(source):
        expected[i + np.argmax(x[i : i + 2])] += s
    body = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
      %r = "stablehlo.select_and_scatter"(%0, %1, %z) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %g = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %g : tensor<i1>
        }}, {{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }}) {{window_dimensions = array<i64: 2>}} : ({tensor(x)}, {tensor(source)}, tensor<f32>) -> {tensor(x)}"""
    return Case(body, (x, source), expected)


_I32 = np.array([7, -7, 3, 0], np.int32)
_LESS = "%less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>"
_PLACES = np.array([[2], [-1], [9], [0]], np.int32)
_ROWS = np.arange(20, dtype=np.float32).reshape(4, 5)
_LINE = X.ravel()

CASES = {
    "powers": binary("stablehlo.power", X, np.full_like(X, 3), X**3),
    "remainders": binary("stablehlo.remainder", _I32, np.full(4, 4, np.int32), np.fmod(_I32, 4)),
    "large sines": unary("stablehlo.sine", LARGE, np.sin(LARGE.astype(np.float64)).astype(np.float32)),
    "error function": Case(f"%r = chlo.erf %0 : {tensor(X)} -> {tensor(X)}", (X,), special.erf(X)),
    "ties to even": unary("stablehlo.round_nearest_even", np.float32([0.5, 1.5, -2.5]), np.float32([0, 2, -2])),
    "ties away from zero": unary("stablehlo.round_nearest_afz", np.float32([0.5, 1.5, -2.5]), np.float32([1, 2, -3])),
    "saturated integers": unary("stablehlo.convert", np.float32([300, -2, np.nan]), np.array([255, 0, 0], np.uint8)),
    "few bits": Case(
        f"%r = stablehlo.reduce_precision %0, format = e8m7 : {tensor(X)}",
        (X,),
        np.asarray(X, jnp.bfloat16).astype(np.float32),
    ),
    "bools added": binary("stablehlo.add", *np.array([[True, True], [True, False]]), np.array([True, True])),
    "a window from a number": windows(
        np.arange(6, dtype=np.float32), "10.0", "add", "window_dimensions = array<i64: 2>",
        np.float32([11, 13, 15, 17, 19]),
    ),
    "windows that leave padding out": windows(
        np.arange(1, 5, dtype=np.float32), "5.0", "add",
        "window_dimensions = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>", np.float32([6, 8, 10, 12]),
    ),
    "windows of products": windows(
        np.arange(1, 7, dtype=np.int32), "1", "multiply",
        "window_dimensions = array<i64: 2>, window_strides = array<i64: 2>", np.int32([2, 12, 30]),
    ),
    "padded windows of the least": windows(
        X, "0x7F800000", "minimum",
        "window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>",
        np.minimum(X, np.roll(np.where(np.arange(5) == 0, np.inf, X), -1, 1)).astype(np.float32),
    ),
    "running products": windows(
        X, "1.0", "multiply",
        "window_dimensions = array<i64: 4, 1>, padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>", np.cumprod(X, 0),
    ),
    "running sums from the end": windows(
        _I32, "0", "add", "window_dimensions = array<i64: 4>, padding = dense<[[0, 3]]> : tensor<1x2xi64>",
        np.cumsum(_I32[::-1], dtype=np.int32)[::-1].copy(),
    ),
    "a stable sort": sorts(_LESS, KEYS, np.argsort(KEYS, kind="stable").astype(np.int32)),
    "a descending sort": sorts(_LESS.replace("LT", "GT"), KEYS, np.argsort(-KEYS, kind="stable").astype(np.int32)),
    "a sort in which zeros are equal, and NaN last": sorts(
        """%n = stablehlo.constant dense<0x7FC00000> : tensor<f32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %e = stablehlo.compare EQ, %a, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %f = stablehlo.select %e, %z, %a : tensor<i1>, tensor<f32>
        %g = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %h = stablehlo.select %g, %n, %f : tensor<i1>, tensor<f32>
        %j = stablehlo.compare EQ, %b, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %k = stablehlo.select %j, %z, %b : tensor<i1>, tensor<f32>
        %l = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %m = stablehlo.select %l, %n, %k : tensor<i1>, tensor<f32>
        %less = stablehlo.compare LT, %h, %m, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>""",
        np.float32([0, np.nan, -0.0, -3, np.nan, 2, 0]), np.int32([3, 0, 2, 6, 5, 1, 4]),
    ),
    "a sort by all bits": sorts(
        "%less = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>",
        np.float32([0, np.nan, -0.0, -3]), np.int32([3, 2, 0, 1]),
    ),
    "a sort by a constant's side": sorts(
        """%h = stablehlo.constant dense<2.0> : tensor<f32>
        %p = stablehlo.multiply %a, %h : tensor<f32>
        %n = stablehlo.abs %p : tensor<f32>
        %m = stablehlo.abs %b : tensor<f32>
        %q = stablehlo.multiply %m, %h : tensor<f32>
        %less = stablehlo.compare LT, %n, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>""",
        X, np.argsort(np.abs(X), 1, kind="stable").astype(np.int32), 1,
    ),
    "lookups outside": gathered(X, _PLACES, 1, X[[2, 0, 3, 0]]),
    "lookups with the components first": gathered(X, _PLACES.T.copy(), 0, X[[2, 0, 3, 0]]),
    "lookups without components": gathered(X, _PLACES[:, 0].copy(), 1, X[[2, 0, 3, 0]]),
    "additions outside": scattered("add", _PLACES, _ROWS, added(X, _PLACES[:, 0], _ROWS)),
    "a part from outside": Case(
        "%r = stablehlo.dynamic_slice %0, %1, sizes = [2] : (tensor<4xi32>, tensor<i8>) -> tensor<2xi32>",
        (_I32, np.array(-3, np.int8)), _I32[:2],
    ),
    "a part to outside": Case(
        "%r = stablehlo.dynamic_update_slice %0, %1, %2 : (tensor<4xi32>, tensor<2xi32>, tensor<i8>) -> tensor<4xi32>",
        (_I32, np.array([8, 9], np.int32), np.array(100, np.int8)), np.array([7, -7, 8, 9], np.int32),
    ),
    "channels first, turned about": convolved(),
    "overlapping windows": pooled_back(_LINE, _LINE[:-1] * 2),
    "a table of complex numbers": Case(
        """%c = stablehlo.constant
          dense<[(1.0, -2.0), (0x7F800000, 0.5), (-0.25, 3.0), (4.0, 0.0)]> : tensor<4xcomplex<f32>>
        %r = stablehlo.imag %c : (tensor<4xcomplex<f32>>) -> tensor<4xf32>""",
        (), np.float32([-2, 0.5, 3, 0]),
    ),
    "a loop": Case(
        """%n = stablehlo.constant dense<3> : tensor<i32>
        %z = stablehlo.constant dense<0> : tensor<i32>
        %w:2 = stablehlo.while(%k = %z, %y = %0) : tensor<i32>, tensor<4xi32>
        cond {
          %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %k, %one : tensor<i32>
          %v = stablehlo.dynamic_slice %y, %j, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>
          %u = stablehlo.dynamic_update_slice %y, %v, %k : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
          stablehlo.return %j, %u : tensor<i32>, tensor<4xi32>
        }
        %r = stablehlo.add %w#1, %w#1 : tensor<4xi32>""",
        (_I32,), 2 * np.array([-7, 3, 0, 0], np.int32),
    ),
}  # fmt: skip


def wrong(cases: dict[str, Case]) -> list[str]:
    """Those that give something else, and what."""
    outs = results([(veery.stablehlo.load(case.text), case.arguments) for case in cases.values()])
    found = []
    for (name, case), out in zip(cases.items(), outs, strict=True):
        if isinstance(out, Exception):
            found.append(f"{name}: {out}")
        elif out.dtype != case.expected.dtype or not np.allclose(out, case.expected, 1e-5, 1e-6, equal_nan=True):
            found.append(f"{name}: {out}, not {case.expected}")
    return found
