"""The tiles of dispatches: which they are, and that what they compute is right with all that is fused."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results
from support.days import of_the_day

import veery
from veery import numpy as jnp
from veery_lowering.compiler import sessions, tiles
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.fusion import DATA_TILING

# Of processors with AVX2 and with AVX-512, whichever this one has.
LANES = {8: "x86-64-v3", 16: "x86-64-v4"}
_HOST = resolve("cpu").attempts(Traits(frozenset(), ()))[0]
REDUCED = """
func.func @main(%x: tensor<{shape}xf32>) -> tensor<{result}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sums = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [{axes}]
      : (tensor<{shape}xf32>, tensor<f32>) -> tensor<{result}xf32>
  return %sums : tensor<{result}xf32>
}}"""


def flags(lanes: int) -> tuple[str, ...]:
    return tuple(flag.replace("cpu=host", f"cpu={LANES[lanes]}") for flag in _HOST)


def configured(
    monkeypatch: pytest.MonkeyPatch, shape: str, axes: str, result: str, shortly: bool, lanes: int
) -> tuple[str, str]:
    """A sum's dispatch before and after tiles were chosen, for registers of so many float32."""
    texts = []

    def noted(module: Any) -> None:
        texts.append(str(module))
        choose(module)
        texts.append(str(module))

    choose = tiles.choose_tiles
    monkeypatch.setattr(tiles, "choose_tiles", noted)
    module = REDUCED.format(shape=shape, axes=axes, result=result).encode()
    program, diagnostics = sessions.run_pipeline(module, flags(lanes), shortly=shortly)
    assert program is not None, diagnostics
    before, after = texts
    return before, after


@pytest.mark.parametrize("shortly", [True, False])
@pytest.mark.parametrize(
    ("columns", "lanes", "rows", "registers"),
    [(1001, 8, 1, 8), (1001, 16, 1, 8), (33, 8, 1, 8), (33, 16, 4, 2), (10, 8, 4, 2), (10, 16, 8, 1), (7, 8, 8, 1)],
)
def test_tiles_of_rows(
    columns: int, lanes: int, rows: int, registers: int, shortly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = configured(monkeypatch, f"300x{columns}", "1", "300", shortly, lanes)
    assert "enable_loop_peeling" not in before  # IREE's are masked still
    assert "enable_loop_peeling" in after
    tiled = f"vector_common_parallel = [{rows}, 0], vector_reduction = [0, {registers * lanes}]>"
    assert tiled in after and tiled not in before.replace(f"[0, {lanes}]", "[0, 0]")


@pytest.mark.parametrize(
    ("columns", "lanes", "registers"), [(999, 8, 4), (999, 16, 4), (100, 8, 4), (100, 16, 1), (50, 8, 1)]
)
def test_tiles_of_columns(columns: int, lanes: int, registers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, after = configured(monkeypatch, f"300x{columns}", "0", str(columns), True, lanes)
    assert f"vector_common_parallel = [{registers * lanes}, 0], vector_reduction = [0, 1]>" in after
    divided = int(after.split("distribution = [")[1].split(",")[0])
    assert divided % (registers * lanes) == 0 and "enable_loop_peeling" not in after


@pytest.mark.parametrize(
    ("shape", "rows"),
    [("2048x1024", 8), ("1100x1030", 5), ("1031x1030", None), ("1024x1030", None), ("2048x1023", None)],
)
def test_columns_of_many_pages_are_read_in_blocks(
    shape: str, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, after = configured(monkeypatch, shape, "0", shape.split("x")[1], True, 16)
    assert rows is None or f"cache_reduction = [0, {rows}]" in after
    assert ("cache_reduction" in after) == ("distribution = [512, 0]" in after) == (rows is not None)


@pytest.mark.parametrize("columns", [2, 3, 7])
def test_few_columns_are_one_vector(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, after = configured(monkeypatch, f"3000x{columns}", "0", str(columns), True, 16)
    assert f"distribution = [{columns}, 0], vector_common_parallel = [{columns}, 0], vector_reduction = [0, 1]" in after


@pytest.mark.parametrize(
    "fun",
    [lambda x: (x * x).sum(0), lambda x: (x * x[:, :1]).sum(0) * 2, lambda x: ((x - 1.5) ** 2).sum(0)],
)
@pytest.mark.parametrize("columns", [64, 50, 5])
def test_products_of_columns_are_added_up_in_vectors(fun: Callable[[Any], Any], columns: int) -> None:
    code = veery.jit(fun).lower(np.zeros((900, columns), np.float32)).as_text("llvm")
    products = [line for line in code.splitlines() if " = fmul contract " in line]
    assert products and all(" x float> " in line for line in products)


@pytest.mark.parametrize(
    ("shape", "last", "peeled"),
    [("100000", 4000, False), ("131072", 4096, False), ("100003", 4096, True), ("1003", None, False)]
    + [("1000x100", 100, True), ("30x100", None, False), ("100x1600", 3200, False)],
)
def test_tiles_of_elements(shape: str, last: int | None, peeled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workgroups compute whole vectors where their number allows it; a rest is peeled where there are many elements."""
    dims = shape.split("x")
    module = f"""func.func @main(%x: tensor<{shape}xf32>, %y: tensor<{dims[-1]}xf32>) -> tensor<{shape}xf32> {{
  %b = stablehlo.broadcast_in_dim %y, dims = [{len(dims) - 1}] : (tensor<{dims[-1]}xf32>) -> tensor<{shape}xf32>
  %s = stablehlo.add %x, %b : tensor<{shape}xf32>
  %r = stablehlo.sqrt %s : tensor<{shape}xf32>
  return %r : tensor<{shape}xf32>
}}"""
    after = unrolled(module, monkeypatch)
    if last:
        assert int(after.split("distribution = [")[1].split("]")[0].split(",")[-1]) == min(last, int(dims[-1]))
    assert ("enable_loop_peeling" in after) == peeled


@pytest.mark.parametrize(
    ("a", "b", "result", "steps"),
    [
        ("16x64", "64x24", "16x24", 4),
        ("16x64", "64x25", "16x25", 16),
        ("3x16x64", "3x64x24", "3x16x24", 4),
        ("3x15x64", "3x64x24", "3x15x24", 16),
        ("50x50", "50x50", "50x50", 10),  # no whole vectors
        ("50x64", "64x7", "50x7", 4),  # all columns are one tile
        ("64x33", "33x16", "64x16", 3),
        ("64x17", "17x16", "64x16", 1),
    ],
)
def test_steps_of_products(a: str, b: str, result: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of products hold few steps of k where that costs no time at run time, also those of several products."""
    batch = a.count("x") - 1
    batched = "batching_dims = [0] x [0], " * batch
    module = f"""func.func @main(%x: tensor<{a}xf32>, %y: tensor<{b}xf32>) -> tensor<{result}xf32> {{
  %p = stablehlo.dot_general %x, %y, {batched}contracting_dims = [{batch + 1}] x [{batch}]
    : (tensor<{a}xf32>, tensor<{b}xf32>) -> tensor<{result}xf32>
  return %p : tensor<{result}xf32>
}}"""
    assert f"vector_reduction = [{'0, ' * (batch + 2)}{steps}]" in unrolled(module, monkeypatch)


def test_one_tile_of_vectors_is_packed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what products read that lie in tiles: of tiles of one column, which are transposed, a row of them is."""
    module = """func.func @main(%x: tensor<128x256xf32>, %y: tensor<512x256xf32>, %z: tensor<128x512xf32>)
    -> tensor<128x512xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (tensor<128x256xf32>, tensor<512x256xf32>) -> tensor<128x512xf32>
  %q = stablehlo.multiply %p, %z : tensor<128x512xf32>
  return %q : tensor<128x512xf32>
}"""
    after = unrolled(module, monkeypatch, DATA_TILING)
    configs = dict(re.findall(r"(#config\d*) = #iree_cpu.lowering_config<(.*)>", after))
    packs = re.findall(r"linalg.pack .* inner_tiles = \[\d+, (\d+)\] .*lowering_config = (#config\d*)", after)
    found = {
        int(columns) > 1: re.search(r"vector_common_parallel = \[1, (\d+)\]", configs[name]) for columns, name in packs
    }
    assert found[True][1] == "1" and int(found[False][1]) > 1, found


def test_steps_of_sums_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    module = """func.func @main(%x: tensor<16x8x512xf32>, %y: tensor<16x512xf32>) -> tensor<16x8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %y, dims = [0, 2] : (tensor<16x512xf32>) -> tensor<16x8x512xf32>
  %p = stablehlo.multiply %x, %b : tensor<16x8x512xf32>
  %sums = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [2]
      : (tensor<16x8x512xf32>, tensor<f32>) -> tensor<16x8xf32>
  return %sums : tensor<16x8xf32>
}"""
    assert f"vector_reduction = [0, 0, {tiles._STEPS}]" not in unrolled(module, monkeypatch)


def unrolled(module: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """A module's dispatches when all is decided about their loops."""
    texts = []

    def noted(module: Any) -> None:
        unroll(module)
        texts.append(str(module))

    unroll = tiles.unroll_less
    monkeypatch.setattr(tiles, "unroll_less", noted)
    program, diagnostics = sessions.run_pipeline(module.encode(), (*flags(16), *more), shortly=True)
    assert program is not None, diagnostics
    return texts[0]


def of(np_: Any, x: Any) -> Any:
    """Float64 in the reference, the operand's dtype in what is compiled."""
    return x.dtype if np_ is jnp else np.float64


def wide(x: Any) -> Any:
    return x.astype(np.int32) if x.dtype.kind == "i" else x


# What is reduced of an array, of which the last axis has the rows.
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda np_, x: x.sum(-1),
    "largest": lambda np_, x: x.max(-1),
    "least of columns": lambda np_, x: x.min(0),
    "sums of columns": lambda np_, x: x.sum(0),
    "sums of the middle": lambda np_, x: x.sum(tuple(range(1, x.ndim))),
    "sum": lambda np_, x: x.sum(),
    "norms": lambda np_, x: (x * x).sum(-1) + x.max(-1),
    "squares of columns": lambda np_, x: (wide(x) * x).sum(0),
    "products of columns": lambda np_, x: ((wide(x) - 1) * x[:1] * x).sum(-2) + wide(x).max(-2),
    "places": lambda np_, x: x.argmax(-1).astype(of(np_, x)),
    "counts": lambda np_, x: ((x > 0).sum(-1) + (x > 1).sum(0).sum()).astype(of(np_, x)),
    "any": lambda np_, x: (x > 2).any(-1).astype(of(np_, x)) + (x < 2).all(-1).astype(of(np_, x)),
    "by a vector": lambda np_, x: x @ (np_.arange(x.shape[-1]) % 3).astype(x.dtype),
    "a vector by it": lambda np_, x: (np_.arange(x.shape[-2]) % 3).astype(x.dtype) @ x,
    "dots": lambda np_, x: (x[:1] * x).sum(-1) + wide(x[:, :1]).reshape(-1) @ wide(x[:, -1:]).reshape(-1),
    "masked": lambda np_, x: np_.where(x > 0, x, x[..., :1]).sum(-1),
    "both": lambda np_, x: x.sum(-1)[..., None] - x.max(0) + x,
}
# What is made of that.
USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "itself": lambda np_, x, y: y,
    "rolled": lambda np_, x, y: np_.roll(y.reshape(-1), 1) + 3,
    "of all": lambda np_, x, y: x - y.reshape(-1)[0],
    "twice": lambda np_, x, y: (y + 1, y.reshape(-1)[::-1] * 2),
}
SHAPES = [
    (37, 5),
    (13, 17),
    (9, 40),
    (6, 50),
    (11, 129),
    (3, 1000),
    (5, 6, 70),
    (150, 33),
    (1, 200),
    (200, 1),
    (66, 300),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
@pytest.mark.parametrize("name", of_the_day(list(REDUCTIONS), 3))
def test_reductions_and_what_is_made_of_them(name: str, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(0)
    arrays = [(rng.integers(-3, 4, shape) / (1 if kind.kind == "i" else 4)).astype(kind) for shape in SHAPES]
    start = list(REDUCTIONS).index(name)
    cases = [(list(USES)[(i + start) % len(USES)], x) for i, x in enumerate(arrays)]

    def program(use: str, np_: Any, x: Any) -> Any:
        return USES[use](np_, x, REDUCTIONS[name](np_, x))

    found = results([(functools.partial(program, use, jnp), (x,)) for use, x in cases])
    for (use, x), outs in zip(cases, found, strict=True):
        assert not isinstance(outs, Exception), (use, x.shape, outs)
        expected = program(use, np, x.astype(np.float64 if kind.kind in "fV" else np.int64))
        for actual, right in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
            if kind.kind == "i":  # which wraps around
                right = right.astype(np.int64).astype(actual.dtype)
                np.testing.assert_array_equal(actual, right, err_msg=f"{use} {x.shape}")
            else:
                largest = max(1.0, float(abs(right).max()))
                error = abs(actual.astype(np.float64) - right).max() / largest
                assert error < 4 * float(ml_dtypes.finfo(kind).eps), (use, x.shape, error)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_columns_of_many_pages(dtype: str) -> None:
    """Alone and with what is computed beside them, in blocks and not."""
    rng = np.random.default_rng(3)
    names = [name for name in REDUCTIONS if "columns" in name or name in ("counts", "both", "a vector by it")]
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in [(2048, 1024), (1100, 1030), (1031, 1030)]]
    cases = [(name, x) for name in names for x in arrays]
    found = results([(functools.partial(REDUCTIONS[name], jnp), (x,)) for name, x in cases])
    for (name, x), actual in zip(cases, found, strict=True):  # small integers: all sums are exact
        np.testing.assert_array_equal(actual, REDUCTIONS[name](np, x), err_msg=f"{name} {x.shape}")


def softmax(np_: Any, x: Any) -> Any:
    e = np_.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# Rows that are read more than once in a dispatch.
ROWWISE: dict[str, Callable[[Any, Any], Any]] = {
    "softmax": softmax,
    "logsumexp": lambda np_, x: np_.log(np_.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1),
    "normalised": lambda np_, x: (x - x.mean(-1, keepdims=True)) / np_.sqrt(x.var(-1, keepdims=True) + 1e-3),
    "deviations": lambda np_, x: np_.sqrt(x.var(-1) + 1e-3) + x.var(),
    "distances": lambda np_, x: np_.sqrt(((x[:5, None] - x[None, :7]) ** 2).sum(-1) + 1e-3),
    "weights": lambda np_, x: softmax(np_, x @ (x.T * 0.01)) @ x,
    "of columns": lambda np_, x: softmax(np_, x.T).T - x / abs(x).sum(0),
}


@pytest.mark.parametrize("name", ROWWISE)
def test_rowwise_programs(name: str) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES if len(shape) == 2]
    found = results([(functools.partial(ROWWISE[name], jnp), (x,)) for x in arrays])
    for x, actual in zip(arrays, found, strict=True):
        expected = ROWWISE[name](np, x.astype(np.float64))
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5, err_msg=str(x.shape))


def test_sums_are_those_of_trees() -> None:
    """A row is no longer summed element by element: the error would be some hundred units in the last place."""
    x = np.random.default_rng(2).uniform(size=(3, 100_001)).astype(np.float32)
    error = abs(np.asarray(veery.jit(lambda x: x.sum(1))(x)).astype(np.float64) / x.astype(np.float64).sum(1) - 1)
    assert error.max() < 20 * np.finfo(np.float32).eps


# Of a product of few rows, what its operands are and what is made of it.
FEW_ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "itself": lambda np_, x, y: x @ y,
    "activated": lambda np_, x, y: np_.maximum(x @ y + y[0], 0),
    "by a mask": lambda np_, x, y: x @ np_.where(y > 0, y, 0),
    "sums": lambda np_, x, y: ((x @ y).sum(0), (x @ y).sum(1)),
    "batched": lambda np_, x, y: np_.stack([x, x + 1]) @ np_.stack([y, -y]),
    "by a transpose": lambda np_, x, y: x @ (y + 1).T.T + (x @ y)[::-1],
    "of columns": lambda np_, x, y: np_.einsum("km,kn->mn", x.T * 2, y) - x[:, :1],
    "of columns, batched": lambda np_, x, y: np_.einsum("bkm,bkn->bmn", np_.stack([x.T, x.T + 1]), np_.stack([y, -y])),
    "turned": lambda np_, x, y: (x @ y).T.sum(0) + (x @ y).T,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", of_the_day(list(FEW_ROWS), 3))
def test_products_of_few_rows(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)  # eighths, of which all sums are exact
    sizes = [(m, k, n) for m in (2, 5, 8, 13, 16, 19, 27) for k, n in ((7, 70), (65, 131))] + [
        (9, 1200, 90),
        (20, 1031, 80),
    ]
    operands = [tuple(rng.integers(-8, 9, shape).astype(dtype) / 8 for shape in ((m, k), (k, n))) for m, k, n in sizes]
    with veery.enable_x64(dtype == "float64"):
        found = results([(functools.partial(FEW_ROWS[name], jnp), pair) for pair in operands])
    for (x, y), outs in zip(operands, found, strict=True):
        assert not isinstance(outs, Exception), (x.shape, y.shape, outs)
        expected = FEW_ROWS[name](np, x, y)
        for actual, right in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
            assert actual.dtype == dtype
            np.testing.assert_array_equal(actual, right, err_msg=f"{x.shape} {y.shape}")  # exact in float32


# What moves elements, or computes each with others of its row or column, of arrays of two axes and of three.
MOVED: dict[str, Callable[[Any, Any], Any]] = {
    "outer": lambda np_, x: x[0][:, None] * x[-1][..., None, :],
    "bias": lambda np_, x: x + x[0] * x[..., :1],
    "joined": lambda np_, x: np_.concatenate([x, x + 1], axis=-1),
    "stacked": lambda np_, x: np_.stack([x, x + 1, x * 2], axis=-1),
    "padded": lambda np_, x: np_.pad(x, [(2, 1)] * x.ndim)[1:] * 3,
    "in steps": lambda np_, x: np_.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)[::-1],
    "rolled": lambda np_, x: np_.roll(x, 2, axis=-1) - np_.roll(x, 1, axis=0),
    "turned": lambda np_, x: x.T + 1 - x.T[:1],
    "rows": lambda np_, x: x[np_.arange(x.shape[0]) // 2] * x[::-1],
    "repeated": lambda np_, x: np_.repeat(x, 3, axis=-1) + 1,
}


@pytest.mark.parametrize("name", of_the_day(list(MOVED), 2))
def test_what_moves_elements(name: str) -> None:
    arrays = [np.arange(np.prod(shape)).reshape(shape).astype(np.float32) for shape in (*SHAPES, (3, 5000), (7, 9, 33))]
    arrays = [x for x in arrays if x.shape[-1] >= 5]
    found = results([(functools.partial(MOVED[name], jnp), (x,)) for x in arrays])
    for x, actual in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(actual, MOVED[name](np, x), err_msg=str(x.shape))


# Of so many elements that rests are peeled: of one axis and of rows, in every dtype whose vectors have another length.
ELEMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda np_, x: x * 2 + 1,
    "by the row": lambda np_, x: x * x[..., :1] + x.reshape(-1)[: x.shape[-1]],
    "chosen": lambda np_, x: np_.where(x > 3, x, -x) // 2,
    "as others": lambda np_, x: (x.astype(np.int32) * 3 > 2, x.astype(np.float32) / 2, x.astype(np.int8)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "int32"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_what_is_computed_by_elements(name: str, dtype: str) -> None:
    shapes = [(100000,), (100003,), (65537,), (1000, 100), (129, 513), (2, 3, 11111), (70001, 1), (4099, 17)]
    arrays = [(np.arange(np.prod(shape)) % 11 - 4).reshape(shape).astype(dtype) for shape in shapes]
    with veery.enable_x64(dtype == "float64"):
        found = results([(functools.partial(ELEMENTS[name], jnp), (x,)) for x in arrays])
    for x, outs in zip(arrays, found, strict=True):
        expected = ELEMENTS[name](np, x)
        for actual, right in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(actual, right, err_msg=str(x.shape))


def test_what_is_left_of_transposed_rows() -> None:
    """Of some numbers of columns there are parts of 46 or 62, whose rests of 14 were transposed wrongly."""
    shapes = [(np.float32, 4, n) for n in (20522, 38342, 50002, 62558, 50006)]
    shapes += [(np.float64, 2, 50002), (np.float16, 8, 50002), (np.int8, 16, 38342), (np.int32, 4, 54486)]
    arrays = [(np.arange(rows * n) % 120).astype(dtype).reshape(rows, n) for dtype, rows, n in shapes]
    with veery.enable_x64(True):
        for x, out in zip(arrays, veery.jit(lambda *xs: [y.T + y.dtype.type(1) for y in xs])(*arrays), strict=True):
            np.testing.assert_array_equal(out, x.T + x.dtype.type(1))
