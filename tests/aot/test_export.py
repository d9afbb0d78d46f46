"""Exported functions: JAX's interface, across serialisation, under jit, differentiated, on several platforms."""

from __future__ import annotations

import collections
import hashlib

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


def test_named_tuples_are_registered_before_they_are_serialised():
    pair = collections.namedtuple("pair", "left right")
    swap = export.export(veery.jit(lambda p: pair(p.right, p.left)))(pair(np.float32(1), np.float32(2)))
    with pytest.raises(ValueError, match="unregistered type .*pair.*register_namedtuple_serialization"):
        swap.serialize()
    export.register_namedtuple_serialization(pair, serialized_name="tests.pair")
    out = export.deserialize(swap.serialize()).call(pair(np.float32(3), np.float32(4)))
    assert type(out) is pair and (out.left, out.right) == (4, 3)
    with pytest.raises(ValueError, match="same pytree structure"):
        swap.call((np.float32(3), np.float32(4)))


def test_tangents_of_integers():
    nothing = np.zeros(3, veery.dtypes.float0)
    function = veery.jit(lambda n, x, t: (x * n, n, t))
    args = np.arange(3, dtype=np.int32), np.ones(3, np.float32), nothing
    compiled = function.lower(*args).compile()
    exported = export.export(function)(*args)
    again = export.deserialize(exported.serialize(vjp_order=1))
    assert str(again.in_avals[2]) == "float0[3]"
    for call in (compiled, exported.call, again.call):
        product, n, t = call(*args)
        assert product.tolist() == [0, 1, 2] and n.tolist() == [0, 1, 2] and t.dtype == veery.dtypes.float0
    cotangents = again.vjp().call(*args, np.ones(3, np.float32), nothing, nothing)
    assert [c.dtype == veery.dtypes.float0 for c in cotangents] == [True, False, True]
    assert cotangents[1].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="no arguments or results of float0"):
        compiled.save("never.vmfb")


class Scaled:
    """A value with a unit, which is auxiliary data."""

    def __init__(self, x, unit):
        self.x, self.unit = x, unit


Range = collections.namedtuple("Range", "low high")


@pytest.fixture(scope="module")
def registered():
    """Types for this module's tests: there is one registry."""
    veery.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.unit), lambda unit, xs: Scaled(xs[0], unit))
    kept = export.register_pytree_node_serialization(
        Scaled, serialized_name="tests.Scaled", serialize_auxdata=str.encode, deserialize_auxdata=bytes.decode
    )
    assert kept is Scaled and export.register_namedtuple_serialization(Range, serialized_name="tests.Range") is Range
    widen = export.export(veery.jit(lambda r, d: {"r": Range(r.low - d.x, r.high + d.x), "d": [d]}))
    return widen(Range(np.float32(1), np.float32(2)), Scaled(np.float32(0), "m"))


def test_registered_types_are_themselves_after_deserialisation(registered):
    again = export.deserialize(registered.serialize())
    assert (again.in_tree, again.out_tree) == (registered.in_tree, registered.out_tree)
    out = again.call(Range(np.float32(3), np.float32(4)), Scaled(np.float32(1), "m"))
    assert type(out["r"]) is Range and (out["r"].low, out["r"].high) == (2, 5)
    assert type(out["d"][0]) is Scaled and out["d"][0].unit == "m"
    with pytest.raises(ValueError, match="same pytree structure"):
        again.call(Range(np.float32(3), np.float32(4)), Scaled(np.float32(1), "km"))


def test_registrations_that_are_refused(registered):
    class Other(Scaled): ...

    node = dict(serialize_auxdata=lambda aux: aux, deserialize_auxdata=bytes.decode)
    with pytest.raises(ValueError, match="Duplicate serialization .* type `.*Scaled'>`. Previous .* `tests.Scaled`"):
        export.register_pytree_node_serialization(Scaled, serialized_name="new", **node)
    with pytest.raises(ValueError, match="you must call first `tree_util.register_pytree_node` for `.*Other'>`"):
        export.register_pytree_node_serialization(Other, serialized_name="tests.Other", **node)
    with pytest.raises(ValueError, match="Use `export.register_pytree_node_serialization` for types other than"):
        export.register_namedtuple_serialization(Scaled, serialized_name="new")
    pair = collections.namedtuple("pair", "left right")
    with pytest.raises(ValueError, match="Duplicate .* serialized_name `tests.Range`. Previous .* type `.*Range'>`"):
        export.register_namedtuple_serialization(pair, serialized_name="tests.Range")
    veery.tree_util.register_pytree_node(Other, lambda s: ((s.x,), s.unit), lambda unit, xs: Other(xs[0], unit))
    identity = export.export(veery.jit(lambda s: s))(Other(np.float32(1), "m"))
    with pytest.raises(ValueError, match="Cannot serialize PyTreeDef containing an unregistered type `.*Other'>`"):
        identity.serialize()
    export.register_pytree_node_serialization(Other, serialized_name="tests.Other", **node)
    with pytest.raises(ValueError, match=r"must return a `bytes` object. It returned a <class 'str'>"):
        identity.serialize()
    body = registered.serialize()[47:].replace(b"tests.Range", b"tests.Wrong")
    with pytest.raises(ValueError, match="Cannot deserialize a PyTreeDef .* unregistered type `tests.Wrong`"):
        export.deserialize(b"veery-export-4\n" + hashlib.sha256(body).digest() + body)


def test_platforms_that_are_not_here():
    platforms = ("cpu", "tpu", "rocm")
    both = export.deserialize(export.export(veery.jit(jnp.sin), platforms=platforms)(spec((2,), "float32")).serialize())
    assert both.platforms == platforms and "stablehlo.sine" in both.mlir_module("tpu")
    np.testing.assert_allclose(both.call(np.ones(2, np.float32)), np.sin(np.ones(2)), rtol=1e-6)
    far = export.export(veery.jit(jnp.sin), platforms=["tpu"])(spec((2,), "float32"))
    with pytest.raises(NotImplementedError, match=r"exported for platforms \(tpu\), it is used on cpu"):
        far.call(np.ones(2, np.float32))
    with pytest.raises(ValueError, match="unknown target 'abacus'; expected .* tpu, rocm, metal"):
        export.export(veery.jit(jnp.sin), platforms=["abacus"])(spec((2,), "float32"))
    lowered = veery.jit(jnp.sin).trace(spec((2,), "float32")).lower(lowering_platforms=("tpu",))
    assert "stablehlo.sine" in lowered.as_text()
    with pytest.raises(ValueError, match="the module is StableHLO, which XLA and its tools read"):
        lowered.as_text("hlo")


def test_meshes_that_are_not_here():
    place = veery.NamedSharding(veery.sharding.AbstractMesh((4,), ("x",)), veery.P("x"))
    for fun, given in (
        (veery.jit(lambda x: 2 * x), spec((8,), "float32", sharding=place)),
        (veery.jit(lambda x: 2 * x, in_shardings=place), spec((8,), "float32")),
        (veery.jit(lambda x: 2 * x, out_shardings=place), spec((8,), "float32")),
    ):
        exported = export.deserialize(export.export(fun)(given).serialize())
        assert exported.nr_devices == 4 and exported.in_avals[0].shape == (8,)
        np.testing.assert_array_equal(exported.call(np.arange(8, dtype=np.float32)), 2 * np.arange(8))


def test_shardings_are_kept():
    mesh, other = (veery.make_mesh((1, 1), names) for names in (("x", "y"), ("x", "z")))
    rows, both = (veery.NamedSharding(mesh, veery.P(*entries)) for entries in (["x"], [("x", "y"), None]))
    fun = veery.jit(lambda a, b, c: (a + b, c), in_shardings=(rows, None, both), out_shardings=(None, both))
    x = np.ones((2, 2), np.float32)
    exported = export.export(fun)(x, x, x)
    for e in (exported, export.deserialize(exported.serialize())):
        assert e.in_shardings_jax(mesh) == (rows, None, both)
        assert e.out_shardings_jax(mesh) == (None, both)
        for wrong in (other, veery.make_mesh((1,), ("x",))):
            with pytest.raises(ValueError, match="NamedSharding new mesh .* does not match the mesh used for export"):
                e.in_shardings_jax(wrong)
    assert export.export(veery.jit(jnp.sin))(x).in_shardings_jax(other) == (None,)
    named = veery.NamedSharding(veery.make_mesh((1,), (0,)), veery.P(0))
    with pytest.raises(ValueError, match="axes of a mesh are stored by names that are text"):
        export.export(veery.jit(jnp.sin, in_shardings=named))(x).serialize()


def test_safety_checks_that_are_disabled():
    check = export.DisabledSafetyCheck
    assert check.custom_call("f").is_custom_call() == "f" and check.platform().is_custom_call() is None
    assert {check.custom_call("f"), check.platform()} == {check.platform(), check.custom_call("f")}
    for checks in ([check.platform()], [check.custom_call("f")]):
        far = export.export(veery.jit(jnp.sin), platforms=["cuda"], disabled_checks=checks)(spec((2,), "float32"))
        far = export.deserialize(far.serialize())
        assert far.disabled_safety_checks == tuple(checks)
        if checks == [check.platform()]:
            np.testing.assert_allclose(far.call(np.ones(2, np.float32)), np.sin(np.ones(2)), rtol=1e-6)
        else:
            with pytest.raises(NotImplementedError, match="exported for platforms .cuda., it is used on cpu"):
                far.call(np.ones(2, np.float32))


def test_only_jitted_functions_are_exported():
    with pytest.raises(ValueError, match="Function to be exported must be the result of `jit` but is: <function"):
        export.export(lambda x: x)
    assert export.export(jnp.sin)(spec((2,), "float32")).fun_name == "sin"  # jitted in JAX


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


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float16", "bool"])
def test_symbolic_sizes_of_any_dtype(dtype):
    exported = export.export(veery.jit(lambda x: x[::-1]))(
        veery.ShapeDtypeStruct(export.symbolic_shape("b"), np.dtype(dtype))
    )
    x = np.array([1, 0, 200], dtype)
    np.testing.assert_array_equal(export.deserialize(exported.serialize()).call(x), x[::-1])
    assert exported.uses_global_constants
