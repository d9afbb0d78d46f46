"""Products whose operands are copied into tiles: which they are, and that they are right with all that is fused."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compiled import results

import veery
from veery import numpy as jnp
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.fusion import DATA_TILING
from veery_lowering.targets.target import Product
from veery_lowering.targets.tiling import gains_from_tiling

M, K, N = 90, 88, 100  # of which all products below are tiled


@pytest.mark.parametrize(
    ("m", "n", "k", "transposed", "tiled"),
    [
        (M, N, K, False, True),
        (128, 128, 128, False, False),  # whole registers
        (128, 128, 128, True, True),
        (512, 512, 512, False, True),
        (4096, 1, 4096, False, False),
        (1, 4096, 4096, False, False),
        (1000, 33, 1000, False, False),
        (300, 300, 4, False, False),
    ],
)
def test_products_that_gain(m: int, n: int, k: int, transposed: bool, tiled: bool) -> None:
    assert gains_from_tiling(Product(1, m, n, k, "float32"), transposed) is tiled
    assert not gains_from_tiling(Product(1, m, n, k, "float64"), transposed)


def test_programs_that_may_gain() -> None:
    def attempts(*products: Product) -> list[tuple[str, ...]]:
        return resolve("cpu").attempts(Traits(frozenset(), products))

    vector = Product(1, 4096, 1, 4096, "float32")
    assert all(DATA_TILING not in flags for flags in (*attempts(), *attempts(vector)))
    tiled, plain = attempts(Product(1, M, N, K, "float32"), vector)
    assert DATA_TILING in tiled and DATA_TILING not in plain


def test_each_product_is_asked() -> None:
    def program(x: Any, y: Any, v: Any) -> Any:
        return x @ y, y @ v, x.T @ x, x @ y[:, :5]

    shapes = [(M, K), (K, N), (N,)]
    code = veery.jit(program).lower(*(veery.ShapeDtypeStruct(s, "float32") for s in shapes)).as_text("flow")
    made = [line for line in code.splitlines() if "flow.dispatch @" in line and "#iree_encoding" in line]
    assert any(f"{M}x{N}xf32" in line for line in made) and any(f"{K}x{K}xf32" in line for line in made)
    assert not any(f"{M}x5xf32" in line or f"-> tensor<{K}xf32>" in line for line in made)


# What becomes an operand, of a mask, of small integers or of numbers; each is computed where it is copied.
OPERANDS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "itself": lambda np_, x, i, m: x,
    "mask": lambda np_, x, i, m: m.astype(x.dtype),
    "integers": lambda np_, x, i, m: i.astype(x.dtype) - 3,
    "chosen": lambda np_, x, i, m: np_.where(m, x, -0.5).astype(x.dtype),
    "normed": lambda np_, x, i, m: x / abs(x).max(1, keepdims=True),
    "shifted": lambda np_, x, i, m: np_.concatenate([x[1:], x[:1]]),
    "in order": lambda np_, x, i, m: x[np_.argsort(i[:, 0], stable=True)] + x.dtype.type(1),
    "reversed": lambda np_, x, i, m: x[::-1, ::-1],
}
# How it is multiplied with another.
PRODUCTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "plain": lambda np_, x, y: x @ y,
    "by a transpose": lambda np_, x, y: x @ (y.T * 1).T,
    "of a transpose": lambda np_, x, y: np_.einsum("km,kn->mn", x.T, y),
    "turned": lambda np_, x, y: np_.einsum("mk,kn->nm", x, y).T,
    "columns first": lambda np_, x, y: np_.einsum("mk,nk->mn", x, y.T),
    "of parts": lambda np_, x, y: (x[:, :K] @ y[:K]).reshape(2, M // 2, N).reshape(M, N),
    "batched": lambda np_, x, y: (np_.stack([x, x + 1]) @ y)[1] - (np_.ones_like(x) @ y),
}
# What is made of the result.
RESULTS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda np_, z: z,
    "activated": lambda np_, z: np_.maximum(z + z.dtype.type(1), 0),
    "bias": lambda np_, z: z + np_.arange(N).astype(z.dtype),
    "sums": lambda np_, z: (z.sum(0), z.sum(1)),
    "softmax": lambda np_, z: np_.exp(z - z.max(1, keepdims=True)).sum(1),
    "compared": lambda np_, z: np_.where(z > 0, z, -z)[3:],
    "transposed": lambda np_, z: z.T + 1,
    "twice": lambda np_, z: (z * 2, z - z[:1]),
    "padded": lambda np_, z: np_.pad(z, ((1, 2), (0, 3)))[:, 1:],
    "element": lambda np_, z: z - z.ravel()[7],
}


def _kinds(dtype: str) -> list[tuple[str, str, str]]:
    """All operands in all products, all results of all products; for halves, whose exponentials err, a fifth."""
    operands, products, uses = list(OPERANDS), list(PRODUCTS), list(RESULTS)
    pairs = [
        (o, p, uses[(i + j) % len(uses)])
        for (i, o), (j, p) in itertools.product(*map(list, (enumerate(operands), enumerate(products))))
    ]
    pairs += [
        (operands[(i + j) % len(operands)], p, u)
        for (j, p), (i, u) in itertools.product(*map(list, (enumerate(products), enumerate(uses))))
    ]
    return pairs if dtype == "float32" else [names for names in pairs if "softmax" not in names][::5]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products_and_what_is_fused_with_them(dtype: str) -> None:
    rng = np.random.default_rng(0)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    # Eighths and whole numbers, of which products and sums are exact in float32.
    x, y = (rng.integers(-8, 9, shape).astype(kind) / kind.type(8) for shape in ((M, K), (K, N)))
    i, m = rng.integers(-9, 10, (M, K)).astype("int8"), rng.integers(0, 2, (M, K)).astype(bool)

    def program(names: tuple[str, str, str], np_: Any, x: Any, y: Any, i: Any, m: Any) -> Any:
        operand, product, use = names
        return RESULTS[use](np_, PRODUCTS[product](np_, OPERANDS[operand](np_, x, i, m), y))

    kinds = _kinds(dtype)
    eps = float(ml_dtypes.finfo(kind).eps)
    for some in (kinds[start::4] for start in range(4)):
        found = results([(functools.partial(program, names, jnp), (x, y, i, m)) for names in some])
        for names, outs in zip(some, found, strict=True):
            assert not isinstance(outs, Exception), (names, outs)
            expected = program(names, np, x.astype("float64"), y.astype("float64"), i, m)
            for actual, right in zip(veery.tree.leaves(outs), veery.tree.leaves(expected), strict=True):
                largest = max(1.0, float(abs(right).max()))
                error = abs(actual.astype("float64") - right).max() / largest
                assert error < 8 * eps, (names, error)


def test_a_product_beside_one_that_reads_tiles_of_it() -> None:
    """What IREE refused: a product of plain operands, whose result is copied into tiles."""

    def loss(layers: Any, x: Any, y: Any) -> Any:
        for w, b in layers:
            x = jnp.maximum(x, 0) @ w + b
        return -(veery.nn.log_softmax(x) * y).sum(1).mean()

    rng = np.random.default_rng(0)
    sizes = itertools.pairwise((64, 128, 128, 10))
    layers = [(rng.normal(0, 0.1, n).astype(np.float32), np.zeros(n[1], np.float32)) for n in sizes]
    x, y = rng.normal(0, 1, (64, 64)).astype(np.float32), np.full((64, 10), 0.1, np.float32)
    program = veery.jit(veery.grad(loss)).lower(layers, x, y).compile()
    assert program._program.metadata["pipeline"] == "short" and "fallback" not in program._program.metadata
    assert "_encoding_" in veery.jit(veery.grad(loss)).lower(layers, x, y).as_text("stream")
    plain = veery.jit(veery.grad(loss), compiler_options={DATA_TILING.partition("=")[0].strip("-"): "false"})
    for got, expected in zip(*map(veery.tree_util.tree_leaves, (program(layers, x, y), plain(layers, x, y)))):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
