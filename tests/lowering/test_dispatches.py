"""Dispatch creation: what dispatches compute twice, and that they are those of the compiler's own phase."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from support import phases
from support.compiled import results

import veery
from veery import lax, numpy as jnp
from veery._transforms.dce import dce
from veery_lowering import lower
from veery_lowering.compiler import dispatches, isolation
from veery_lowering.targets import Traits, resolve
from veery_lowering.targets.fusion import DATA_TILING, NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION

FLAGS = resolve("cpu").attempts(Traits(frozenset(), ()))[0]

# Two ways to write a value, which are one operation when they are compiled together.
TWICE = {
    "products": lambda np_, x, y: (x * y, y * x),
    "sums": lambda np_, x, y: (x + y, y + x),
    "maxima": lambda np_, x, y: (np_.maximum(x, y), np_.maximum(y, x)),
    "factors": lambda np_, x, y: (x * y, (x * 1) * y),
    "selections": lambda np_, x, y: (np_.where(x > y, x, y), np_.where(~(x > y), y, x)),
}
# What reads values in an order of its own, so that they are computed before.
READERS = {
    "reversed": lambda np_, v, i: np_.flip(v, i % 2),
    "shifted": lambda np_, v, i: np_.pad(v, ((i, 0), (1, 0)))[: v.shape[0], : v.shape[1]],
    "summed up": lambda np_, v, i: np_.cumsum(v, i % 2),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_values_that_a_dispatch_has_twice(dtype: str, x64: None) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-9, 9, (5, 7)).astype(dtype) for _ in range(3)]

    def program(np_: Any, twice: Any, read: Any, a: Any, b: Any, x: Any) -> Any:
        p = a * b
        c, d = twice(np_, x, p)
        e, f = twice(np_, c, p)
        reader = functools.partial(read, np_)
        return reader(p, 0) + 1, reader(c, 1) + reader(d, 2), reader(e, 1) * 2 + reader(f, 0) + reader(c, 2)

    kinds = list(itertools.product(TWICE.values(), READERS.values()))
    found = results([(functools.partial(program, jnp, *kind), arrays) for kind in kinds])
    wide = [x.astype("int64") for x in arrays]
    for kind, outs in zip(kinds, found, strict=True):
        assert not isinstance(outs, Exception), outs
        for actual, right in zip(outs, program(np, *kind, *wide), strict=True):
            np.testing.assert_array_equal(actual, right)


NETWORK = b"""
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %table = stablehlo.constant dense<[1.0, 2.0, 3.0, 5.0]> : tensor<4xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %s = stablehlo.multiply %b, %table : tensor<4xf32>
  %c = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %z = stablehlo.add %y, %c : tensor<8x4xf32>
  %t = stablehlo.tanh %z : tensor<8x4xf32>
  %u = stablehlo.multiply %t, %z : tensor<8x4xf32>
  %r = stablehlo.reduce(%u init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %t, %r : tensor<8x4xf32>, tensor<4xf32>
}"""
TABLE = b"""func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
  %i = stablehlo.iota dim = 0 : tensor<300xf32>
  %e = stablehlo.exponential %i : tensor<300xf32>
  %r = stablehlo.multiply %x, %e : tensor<300xf32>
  return %r : tensor<300xf32>
}"""


# A product that gains from tiles: the compiler's own phase asks for them whatever the product.
PRODUCT = b"""
func.func @main(%x: tensor<90x88xf32>, %y: tensor<88x100xf32>, %b: tensor<90x100xf32>) -> tensor<90x100xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<90x88xf32>, tensor<88x100xf32>) -> tensor<90x100xf32>
  %r = stablehlo.add %p, %b : tensor<90x100xf32>
  return %r : tensor<90x100xf32>
}"""
KINDS = {
    "plain": FLAGS,
    "no multi-use": (*FLAGS, NO_MULTI_USE_FUSION),
    "aggressive": tuple(flag for flag in FLAGS if flag != NO_AGGRESSIVE_FUSION),
    "vulkan": resolve("vulkan:valhall4").attempts(Traits(frozenset(), ()))[0],
    "cuda": resolve("cuda:sm_80").attempts(Traits(frozenset(), ()))[0],
}
TILED = (*FLAGS, DATA_TILING)


@pytest.mark.parametrize(
    ("module", "flags"),
    [*itertools.product((NETWORK, TABLE, PRODUCT), KINDS.values()), (TABLE, TILED), (PRODUCT, TILED)],
)
def test_dispatches_are_those_of_the_compilers_own_phase(module: bytes, flags: tuple[str, ...]) -> None:
    assert dispatches.knows(flags)
    (ours, said), (theirs, _) = (isolation.call(f, module, flags, "flow") for f in (phases.run_ours, phases.run_theirs))
    assert ours is not None, said
    assert ours == theirs


def test_options_that_change_it() -> None:
    assert dispatches.knows((*FLAGS, "--iree-llvmcpu-loop-vectorization=true"))
    for flag in ("--iree-opt-level=O1", "--iree-dispatch-creation-split-reduction=true", "--iree-flow-trace"):
        flags = (*FLAGS, flag)
        assert not dispatches.knows(flags)
        assert dispatches.made_safe(flags) == (*flags, NO_MULTI_USE_FUSION)
    asked = (*FLAGS, "--iree-dispatch-creation-fuse-multi-use=true")
    assert dispatches.made_safe(asked) == asked and dispatches.made_safe(FLAGS) == FLAGS


# What the compiler finds to be the same for all elements, though it is computed of arguments.
CONSTANT = {
    "equal to itself": lambda x: x == x,
    "at most itself": lambda x: (x <= x).astype(x.dtype) + x - x,
    "no bits": lambda x: (x & 0) + 3,
    "all bits": lambda x: x | ~x,
    "bits and no bits": lambda x: (x & ~x) + 1,
    "itself from itself": lambda x: (x - x) + 7,
    "with its negative": lambda x: x + -x + 2,
    "times zero": lambda x: x * 0 + 5,
    "shifted by nothing": lambda x: (x << 0) - x + 1,
    "of two masks": lambda x: (x > 3) | ~(x > 3),
    "one of two": lambda x: (x + 1) - x,
}
REDUCTIONS = {
    "sum": lambda np_, v: v.sum(),
    "sum of rows": lambda np_, v: v.sum(1),
    "sum of columns": lambda np_, v: v.sum(0),
    "mean": lambda np_, v: v.mean(axis=1),
    "product": lambda np_, v: v.prod(0),
    "counted": lambda np_, v: np_.count_nonzero(v, axis=0),
    "largest": lambda np_, v: v.max(1),
    "where": lambda np_, v: v.argmax(0),
    "summed up": lambda np_, v: np_.cumsum(v, 1),
    "twice": lambda np_, v: (v.sum(0) * v.sum()).sum(),
}


def test_reductions_of_what_turns_out_to_be_constant() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    kinds = list(itertools.product(CONSTANT, REDUCTIONS))
    found = results([(lambda x, c=c, r=r: REDUCTIONS[r](jnp, CONSTANT[c](x)), (x,)) for c, r in kinds])
    wrong = []
    for (c, r), actual in zip(kinds, found, strict=True):
        right = REDUCTIONS[r](np, CONSTANT[c](x.astype(np.int64)))
        if isinstance(actual, Exception) or not np.array_equal(actual, right):
            wrong.append((c, r, actual, right))
    assert not wrong


def test_reductions_of_constants_with_options_that_nobody_knows() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    counted = veery.jit(lambda x: (x == x).sum(), compiler_options={"iree-opt-level": "O2"})
    assert counted(x) == 12


def test_others_are_not_taken_for_constant() -> None:
    x = np.ones((1, 8, 8, 3), np.float32)
    programs = [
        lambda x: jnp.arange(300).sum() + x.sum(),
        lambda x: (jnp.arange(300) * x.sum()).sum(),
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
        lambda x: lax.conv(x, jnp.ones((2, 8, 3, 3)), (1, 1), "SAME"),
        lambda x: x[0] @ x[0, 0].T + jnp.einsum("abcd,abcd->ab", x, x).sum(),
        lambda x: veery.nn.softmax(jnp.broadcast_to(x[0, 0, 0], (5, 3))).argmax(0),
        lambda x: jnp.linalg.norm(jnp.eye(8) @ x[0, :, :, 0]),
    ]
    for program in programs:
        assert "fallback" not in lower(dce(veery.make_jaxpr(program)(x))).compile().metadata
