"""Exported functions: JAX's interface, across serialisation, under jit, differentiated, on several platforms."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import export

spec = veery.ShapeDtypeStruct
table = np.arange(3, dtype=np.float32)


def model(params, x, *, scale):
    return {"y": jnp.sin(x * params["w"]) * scale + jnp.asarray(table)}, params["n"]


@pytest.fixture(scope="module")
def exported():
    params = {"w": spec((3,), "float32"), "n": spec((), "int32")}
    return export.export(veery.jit(model), platforms=["cpu", "vulkan"])(
        params, spec((2, 3), "float32"), scale=spec((), "float32")
    )


ARGS = ({"w": np.ones(3, np.float32), "n": np.int32(3)}, np.ones((2, 3), np.float32))


@pytest.mark.parametrize("order", [0, 1])
def test_serialised_and_called(exported, order):
    again = export.deserialize(exported.serialize(vjp_order=order))
    for name in ("fun_name", "in_tree", "in_avals", "out_tree", "out_avals", "platforms", "nr_devices"):
        assert getattr(again, name) == getattr(exported, name)
    assert again.has_vjp() == bool(order)
    out, n = again.call(*ARGS, scale=np.float32(2))
    np.testing.assert_allclose(out["y"], np.sin(np.ones((2, 3))) * 2 + table, rtol=1e-6)
    assert n == 3
    assert "stablehlo" in again.mlir_module() and "stablehlo" in again.mlir_module("vulkan")


def test_what_jax_tells_of_an_exported_function(exported):
    told = {name: getattr(exported, name) for name in vars(type(exported)) if not name.startswith("_")}
    assert told["module_kept_var_idx"] == (0, 1, 2, 3) and told["in_shardings_hlo"] == (None,) * 4
    assert told["out_shardings_hlo"] == (None, None) and told["disabled_safety_checks"] == ()
    assert told["ordered_effects"] == told["unordered_effects"] == () and not told["uses_global_constants"]
    versions = export.minimum_supported_calling_convention_version, export.maximum_supported_calling_convention_version
    assert versions[0] <= told["calling_convention_version"] <= versions[1]


def test_derivative(exported):
    again = export.deserialize(exported.serialize(vjp_order=1))
    call = lambda w, f: f({"w": w, "n": np.int32(3)}, ARGS[1], scale=np.float32(2))[0]["y"].sum()
    gradient = veery.jit(veery.grad(lambda w: call(w, again.call)))(ARGS[0]["w"])
    np.testing.assert_allclose(gradient, 2 * 2 * np.cos(ARGS[0]["w"]), rtol=1e-6)  # two rows, the scale
    with pytest.raises(ValueError, match="No VJP is available"):
        again.vjp().vjp()


def test_named_tuples_are_known_by_their_names():
    pair = collections.namedtuple("pair", "left right")
    swap = export.export(veery.jit(lambda p: pair(p.right, p.left)))(pair(np.float32(1), np.float32(2)))
    out = export.deserialize(swap.serialize()).call(pair(np.float32(3), np.float32(4)))
    assert type(out).__name__ == "pair" and (out.left, out.right) == (4, 3)
    with pytest.raises(ValueError, match="same pytree structure"):
        swap.call((np.float32(3), np.float32(4)))


def test_second_derivative():
    cube = export.export(veery.jit(lambda x: x**3))(spec((), "float32"))
    again = export.deserialize(cube.serialize(vjp_order=2))
    assert veery.grad(veery.grad(again.call))(np.float32(2)) == 12
    with pytest.raises(ValueError, match="No VJP is available"):
        veery.grad(export.deserialize(cube.serialize()).call)(np.float32(2))
    assert again.vjp().vjp().in_avals == cube.vjp().vjp().in_avals and not again.vjp().vjp().has_vjp()


def test_misuse(exported):
    with pytest.raises(ValueError, match="same pytree structure as when the function 'model' was exported"):
        exported.call(1.0)
    with pytest.raises(ValueError, match=r"Shape mismatch for args\[1\] of model: expected .2, 3. and called with .3"):
        exported.call(ARGS[0], np.ones((3, 2), np.float32), scale=np.float32(2))
    with pytest.raises(ValueError, match=r"Dtype mismatch for kwargs\['scale'\] .* expected float32 .* int32"):
        exported.call(*ARGS, scale=np.int32(2))
    with pytest.raises(ValueError, match="exported for the platforms .'cpu', 'vulkan'., not for 'cuda'"):
        exported.mlir_module("cuda")
    data = exported.serialize()
    data[len(data) // 2] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        export.deserialize(data)
    with pytest.raises(ValueError, match="no function exported by veery"):
        export.deserialize(b"abc")
    far = export.export(jnp.sin, platforms=["cuda"])(spec((2,), "float32"))
    with pytest.raises(NotImplementedError, match=r"exported for platforms \(cuda\), it is used on cpu"):
        far.call(np.ones(2, np.float32))
