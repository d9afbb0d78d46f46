"""Whole programs by XLA: transformations, control flow, random bits, 64 bits, exports, modules from elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import export, lax
from veery_lowering import LoweringError


def _both(xla: Any, function: Any, *args: Any, rtol: float = 2e-5) -> None:
    """Compare XLA's results with IREE's."""
    by_iree, by_xla = veery.jit(function, compiler="iree"), veery.jit(function, device=xla)
    for expected, actual in zip(
        veery.tree_util.tree_leaves(by_iree(*args)), veery.tree_util.tree_leaves(by_xla(*args)), strict=True
    ):
        assert actual.devices() == {xla} and actual.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=rtol, atol=rtol)


def _network(w: Any, x: Any) -> Any:
    for a in w:
        x = jnp.tanh(x @ a) + x
    return jnp.mean(veery.nn.softmax(x) ** 2)


def test_derivatives_of_a_network(xla: Any) -> None:
    rng = np.random.default_rng(0)
    w = [rng.standard_normal((6, 6)).astype(np.float32) / 3 for _ in range(3)]
    x = rng.standard_normal((5, 6)).astype(np.float32)
    _both(xla, veery.value_and_grad(_network), w, x)
    _both(xla, veery.hessian(lambda x: _network(w, x)), x)
    _both(xla, veery.vmap(veery.grad(_network), (None, 0)), w, x[:, None])
    _both(xla, lambda x: veery.jvp(veery.grad(lambda x: _network(w, x)), (x,), (x,)), x)
    _both(xla, veery.grad(veery.checkpoint(_network)), w, x)


def test_constants_of_both_signs(xla: Any) -> None:
    x = np.arange(-9, 10, dtype=np.int16)
    _both(xla, lambda x: [jnp.remainder(x, n) for n in (-7, 7)] + [x // -7, jnp.fmod(x, -5), x % -128], x)
    _both(xla, lambda x: [jnp.where(jnp.int32(n) < 0, x, -x) for n in (-3, 3)], x)
    _both(xla, lambda x: [jnp.where(jnp.uint8(n) > 3, x, -x) for n in (1, 255)], x)
    _both(xla, lambda x: [jnp.maximum(x, n) + jnp.clip(x, n, n + 2) for n in (-4, 4)], x)


def test_control_flow(xla: Any) -> None:
    x = np.linspace(0.1, 1, 7, dtype=np.float32)
    _both(xla, lambda x: lax.scan(lambda c, x: (jnp.sin(c) * x, c), 1.0, x), x)
    _both(xla, veery.grad(lambda x: lax.scan(lambda c, x: (jnp.sin(c) * x, c), 1.0, x)[1].sum()), x)
    _both(xla, lambda x: lax.while_loop(lambda x: x.sum() < 100, lambda x: x * 1.5, x), x)
    _both(xla, lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), x)
    _both(xla, veery.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x)), np.arange(5), x[:5])
    _both(xla, lambda x: lax.associative_scan(jnp.multiply, x), x)


def test_linear_algebra_and_fourier_transforms(xla: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 5, 5)).astype(np.float32)
    spd = a @ a.swapaxes(1, 2) + np.eye(5, dtype=np.float32)
    for function in (jnp.linalg.cholesky, jnp.linalg.eigvalsh, jnp.linalg.inv, jnp.linalg.det):
        _both(xla, function, spd, rtol=2e-4)
    _both(xla, lambda a: jnp.linalg.svd(a, compute_uv=False), a, rtol=2e-4)
    _both(xla, lambda a: abs(jnp.linalg.qr(a)[1]), a, rtol=2e-4)
    _both(xla, veery.grad(lambda a: jnp.linalg.solve(a, a[..., :1]).sum()), spd, rtol=2e-3)
    for function in (jnp.fft.fft, jnp.fft.rfft2, lambda a: jnp.fft.ifftn(a), lambda a: jnp.fft.irfft(a + 0j)):
        _both(xla, function, a)


def test_random_numbers_are_the_same_bits(on_xla: Any) -> None:
    key = veery.random.key(3)
    draw = lambda key: [
        veery.random.normal(key, (1000,)), veery.random.uniform(key, (7, 3)), veery.random.bits(key, (5,), "uint8"),
        veery.random.permutation(key, 20), veery.random.split(key, 3),
    ]  # fmt: skip
    with veery.default_device(veery.devices("cpu")[0]):
        expected = veery.jit(draw)(veery.random.key(3))
    for x, y in zip(veery.jit(draw)(key), expected, strict=True):
        x, y = (veery.random.key_data(z) if jnp.issubdtype(z.dtype, veery.dtypes.prng_key) else z for z in (x, y))
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.usefixtures("x64")
def test_sixty_four_bits(xla: Any) -> None:
    x = np.linspace(-2, 2, 9)
    _both(xla, lambda x: (jnp.sin(x), x.astype(jnp.int64) << 40, jnp.exp(x + 1j * x)), x, rtol=1e-14)


def test_narrow_floats_are_rounded_by_each_operation(xla: Any) -> None:
    x = (np.random.default_rng(0).standard_normal((64, 8)) * 3).astype(jnp.bfloat16)
    f = lambda a: veery.grad(lambda a: (a * a + a).max(1).astype(jnp.float32).sum())(a)
    with veery.disable_jit(), veery.default_device(xla):
        eager = f(jnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(veery.jit(f, device=xla)(x), np.float32), np.asarray(eager, np.float32))


def test_dynamic_shapes_are_compiled_for_each(xla: Any) -> None:
    f = veery.jit(lambda x: x / x.sum(), device=xla, dynamic_shapes={"x": "n"})
    for n in (2, 3, 5):
        np.testing.assert_allclose(f(jnp.ones(n)), np.full(n, 1 / n), rtol=1e-6)
    with pytest.raises(LoweringError, match="XLA compiles for one shape at a time"):
        export.export(veery.jit(lambda x: x + 1), platforms=["xla"])(
            veery.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32)
        )


def test_exports_run_where_they_were_made_for(xla: Any) -> None:
    x = veery.ShapeDtypeStruct((3,), np.float32)
    both = export.export(veery.jit(lambda x: jnp.tanh(x) + 1), platforms=["cpu", "xla"])(x)
    cpu = export.export(veery.jit(lambda x: jnp.tanh(x) + 1))(x)
    for device in (veery.devices("cpu")[0], xla):
        here = veery.device_put(np.arange(3, dtype=np.float32), device)
        np.testing.assert_allclose(both.call(here), np.tanh(np.arange(3)) + 1, rtol=1e-6)
    with pytest.raises(LoweringError, match=r"exported for platforms \(cpu\), it is used on xla"):
        cpu.call(veery.device_put(np.arange(3, dtype=np.float32), xla))
    with pytest.raises(LoweringError, match=r"On the CPU device IREE compiles it: jit\(f, compiler='iree'\)"):
        veery.jit(cpu.call, compiler="xla")(np.arange(3, dtype=np.float32))
    assert veery.jit(cpu.call, compiler="iree")(np.zeros(3, np.float32)).tolist() == [1] * 3


def test_modules_from_elsewhere(on_xla: Any) -> None:
    text = """
    module { func.func public @main(%a: tensor<4x3xf32>, %b: tensor<3xf32>) -> tensor<4xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
      %1 = chlo.erf %0 : tensor<4xf32> -> tensor<4xf32>
      return %1 : tensor<4xf32> } }"""
    function = veery.stablehlo.load(text)
    a, b = np.arange(12, dtype=np.float32).reshape(4, 3) / 10, np.ones(3, np.float32)
    np.testing.assert_allclose(veery.jit(lambda a, b: function(a, b))(a, b), lax.erf(jnp.asarray(a @ b)), rtol=1e-6)


def test_phases_of_iree_and_artifacts_are_refused(xla: Any) -> None:
    lowered = veery.jit(lambda x: x @ x, device=xla).lower(jnp.ones((30, 30)))
    assert "stablehlo.dot_general" in lowered.as_text()
    with pytest.raises(ValueError, match="'flow' is a phase of IREE's compiler"):
        lowered.as_text("flow")
    compiled = lowered.compile()
    assert compiled.memory_analysis().argument_size_in_bytes == 3600
    assert compiled.cost_analysis()["queue"] == "xla"
    with pytest.raises(ValueError, match="was compiled by XLA; artifacts hold programs of IREE"):
        compiled.save("never.vmfb")


def test_the_largest_are_found_by_an_operation_of_xlas(xla: Any) -> None:
    """Of 32-bit floats it looks for the few alone: 0.4 instead of 25 ms for 5 of each of 200 rows of 1,000."""
    x = np.array([[1, np.nan, 3, -np.nan, 2, np.inf, 0, -0.0, 3]], np.float32)
    largest = veery.jit(lambda x: lax.top_k(x, 9), device=xla)
    assert "chlo.top_k" in largest.lower(x).as_text()
    values, places = map(np.asarray, largest(x))
    np.testing.assert_array_equal(places, [[1, 3, 5, 2, 8, 4, 0, 6, 7]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))
