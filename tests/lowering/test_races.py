"""Shaders that race are found in the programs, and values are computed so that there are none."""

from __future__ import annotations

import numpy as np
import pytest
from support.passes import leave_out

import veery
import veery.numpy as jnp
from veery_lowering import Options, lower
from veery_lowering.compiler.isolation import run_pipeline
from veery_lowering.errors import CompileError
from veery_lowering.passes.spirv.races import has_race
from veery_lowering.targets import Traits, resolve

TARGET = (
    "vulkan:vulkan=1.3,compute=fp32+fp16+fp64+int64+int32+int16+int8,storage=b64+b32+b16+b8,subgroup=8,"
    "operations=shuffle+arithmetic,threads=1024,sizes=1024x1024x1024,counts=65535x65535x65535,memory=32768,nan=fp32"
)
WIDENED = (
    "func.func @main(%m: tensor<9x70xi8>, %w: tensor<9x70xf32>) -> tensor<70xf32> {",
    "%zero = stablehlo.constant dense<0.0> : tensor<f32>",
    "%x = stablehlo.convert %m : (tensor<9x70xi8>) -> tensor<9x70xf32>",
    "%y = stablehlo.optimization_barrier %x : tensor<9x70xf32>",
    "%p = stablehlo.multiply %x, %w : tensor<9x70xf32>",
    "%r = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0]"
    " : (tensor<9x70xf32>, tensor<f32>) -> tensor<70xf32>",
    "return %r : tensor<70xf32> }",
)


def _program(*lines: str) -> bytes:
    program, diagnostics = run_pipeline("\n".join(lines).encode(), resolve(TARGET).attempts(Traits(frozenset(), ()))[0])
    assert program is not None, diagnostics
    return program


def test_iree_makes_races() -> None:
    """Should this fail, IREE was mended: widened.py can go."""
    barrier = WIDENED[3]
    assert has_race(_program(*(line for line in WIDENED if line != barrier)))
    assert not has_race(_program(*(line.replace("multiply %x", "multiply %y") for line in WIDENED)))


def test_programs_without_shared_memory_have_none() -> None:
    assert not has_race(b"\x03\x02\x23\x07" * 9)
    assert not has_race(_program("func.func @main(%x: tensor<9xf32>) -> tensor<9xf32> { return %x : tensor<9xf32> }"))


def test_invocations_may_use_places_of_their_own() -> None:
    product = "stablehlo.dot_general %w, %w, contracting_dims = [1] x [0]"
    assert not has_race(
        _program(
            "func.func @main(%w: tensor<9x9xf32>) -> tensor<9x9xf32> {",
            f"%p = {product} : (tensor<9x9xf32>, tensor<9x9xf32>) -> tensor<9x9xf32>",
            "%r = stablehlo.tanh %p : tensor<9x9xf32>",
            "return %r : tensor<9x9xf32> }",
        )
    )


def _masked_sum() -> tuple[bytes, dict[str, str]]:
    closed = veery.make_jaxpr(lambda m, w: (m.astype(jnp.float32) * w).sum(0))(
        np.ones((9, 70), bool), np.ones((9, 70), np.float32)
    )
    program = lower(closed, name="masked", target=TARGET, options=Options(cache=False)).compile()
    return program.vmfb, program.metadata


def test_programs_are_compiled_without_races(monkeypatch: pytest.MonkeyPatch) -> None:
    program, metadata = _masked_sum()
    assert not has_race(program) and "fallback" not in metadata

    leave_out(monkeypatch, "compute_widened")
    program, metadata = _masked_sum()
    assert not has_race(program)
    assert metadata["fallback"].startswith("compiled with what is reduced computed before, ")
    assert "since IREE failed: IREE has made a shader" in metadata["fallback"]

    leave_out(monkeypatch, "compute_before_reductions")
    program, metadata = _masked_sum()
    assert not has_race(program)
    assert metadata["fallback"].startswith("compiled with each value for itself, ")

    leave_out(monkeypatch, "compute_each")
    with pytest.raises(CompileError, match="reads memory which another invocation writes, without a barrier"):
        _masked_sum()
