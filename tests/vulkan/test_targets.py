"""What programs are compiled for: a Vulkan device by its properties, and what it cannot do."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_lowering
from veery import lax


def test_the_target_is_made_of_the_devices_own_properties(vulkan: Any) -> None:
    fields = dict(part.split("=") for part in vulkan.target.removeprefix("vulkan:").split(","))
    assert fields["compute"].count("fp32") == 1 and int(fields["subgroup"]) > 0
    assert fields["sizes"].count("x") == fields["counts"].count("x") == 2
    assert vulkan.platform == "vulkan" and vulkan.device_kind


def test_64_bit_types_are_refused_by_name_where_the_device_lacks_them() -> None:
    from veery_lowering import CompileError

    target = (
        "vulkan:vulkan=1.1,compute=fp32+int32,storage=b32,subgroup=32,operations=shuffle+arithmetic,threads=256,"
        "sizes=256x256x64,counts=65535x65535x65535,memory=16384,nan=none"
    )
    device = SimpleNamespace(platform="vulkan", target=target)
    from veery import _dispatch

    with veery.enable_x64(True):
        for dtype, feature in (("float64", "fp64"), ("int64", "int64")):
            closed = veery.make_jaxpr(lambda x: x + x)(np.ones(3, dtype))
            lowered = _dispatch.lower_jaxpr(closed, "twice", _dispatch.target_of(device), (False,))
            with pytest.raises(CompileError, match=f"cannot compute with {dtype} .it lacks {feature}"):
                lowered.compile()


def test_unknown_descriptions_are_refused_before_they_reach_the_compiler() -> None:
    from veery_lowering.targets import resolve

    for chip in ("nonsense", "subgroup=8", "subgroup=8,compute=fp32>"):
        with pytest.raises(ValueError, match="Vulkan"):
            resolve(f"vulkan:{chip}")


def test_float32_functions_need_no_float64(vulkan: Any) -> None:
    program = veery.jit(lambda x, y: (jnp.sin(x), jnp.cos(x), jnp.tan(x), lax.pow(x, y), lax.rem(x, y)))
    text = program.lower(*[veery.device_put(np.ones(3, np.float32), vulkan)] * 2).as_text()
    assert "math.sin" in text and "f64" not in text


@pytest.mark.parametrize(("target", "floats"), [("vulkan", (16, 32)), ("vulkan:ada", (16, 32)), ("vulkan:adreno", ())])
def test_shaders_ask_that_nan_is_kept(target: str, floats: tuple[int, ...]) -> None:
    """In SPIR-V's words: the execution mode SignedZeroInfNanPreserve, 4461, of floats of so many bits."""
    closed = veery.make_jaxpr(lambda x: jnp.where(x > 1, 1, x).astype(jnp.float16).sum())(np.ones(3, np.float32))
    code = veery_lowering.compile(closed, target=target, options=veery_lowering.Options(cache=False)).vmfb
    assert tuple(bits for bits in (16, 32, 64) if struct.pack("<II", 4461, bits) in code) == floats
