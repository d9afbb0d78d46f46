"""Programs on several of XLA's devices: `pmap` and `shard_map` with collectives of XLA, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery import lax
from veery.sharding import Mesh, NamedSharding, PartitionSpec as P


@pytest.fixture(scope="module")
def devices(xla: Any) -> list[Any]:
    """Four devices of a client of their own: the one of other tests has as many as there were to be when it began."""
    veery_runtime.configure(num_cpu_devices=max(4, len(veery.devices("cpu"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VEERY_PJRT_PLUGIN", f"several={xla.client.api.path}")
        return list(veery.devices("several")[:4])


X = np.arange(4 * 4 * 3, dtype=np.float32).reshape(4, 4, 3)
GROUPS = [[0, 2], [1, 3]]
COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "i"),
    "psum of integers": lambda x: lax.psum(x.astype(jnp.int32), "i"),
    "psum in groups": lambda x: lax.psum(x, "i", axis_index_groups=GROUPS),
    "pmean": lambda x: lax.pmean(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin in groups": lambda x: lax.pmin(x, "i", axis_index_groups=GROUPS),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather along an axis": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i"),
    "psum_scatter along an axis": lambda x: lax.psum_scatter(x.T, "i", scatter_dimension=1, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 1),
    "all_to_all tiled": lambda x: lax.all_to_all(x.T, "i", 1, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]),
    "axis_index": lambda x: x * 0 + lax.axis_index("i"),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, x: lax.psum(x, "i") / 4 + x, x),
    "large": lambda x: lax.psum(jnp.broadcast_to(x[..., None], (4, 3, 50_000)).sum(-1), "i"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_equal_vmaps(name: str, devices: list[Any]) -> None:
    function = COLLECTIVES[name]
    expected = veery.vmap(function, axis_name="i")(X)
    actual = veery.pmap(function, axis_name="i", devices=devices)(X)
    assert actual.devices() == set(devices) and actual.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-6)


@pytest.mark.parametrize("name", ["psum", "all_gather", "psum_scatter", "all_to_all", "ppermute", "pmean"])
def test_derivatives_equal_vmaps(name: str, devices: list[Any]) -> None:
    def loss(x: Any) -> Any:
        y = jnp.sin(COLLECTIVES[name](x))
        return (y * jnp.arange(float(y.size)).reshape(y.shape)).sum()

    expected = veery.vmap(veery.grad(loss), axis_name="i")(X / 10)
    actual = veery.pmap(veery.grad(loss), axis_name="i", devices=devices)(X / 10)
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-4, atol=1e-5)


def test_a_mesh_of_two_axes(devices: list[Any]) -> None:
    mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))

    def part(x: Any) -> Any:
        return lax.psum(x, "a") + 10 * lax.pmax(x, "b") + lax.axis_index("a") + 100 * lax.axis_index("b")

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    mapped = veery.jit(veery.shard_map(part, mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b")))
    halves = x.reshape(2, 2, 2, 3)  # a, rows, b, columns
    total, most = halves.sum(0, keepdims=True), halves.max(2, keepdims=True)
    places = np.arange(2)[:, None, None, None] + 100 * np.arange(2)[None, None, :, None]
    np.testing.assert_allclose(mapped(x), (total + 10 * most + places).reshape(4, 6))


def test_results_stay_where_they_are_and_are_used_there(devices: list[Any]) -> None:
    step = veery.pmap(lambda w, g: w - 0.1 * lax.pmean(g, "i"), axis_name="i", devices=devices)
    w, g = np.zeros((4, 5), np.float32), np.ones((4, 5), np.float32)
    for _ in range(3):
        w = step(w, g)
    assert w.devices() == set(devices)
    np.testing.assert_allclose(w, np.full((4, 5), -0.3), rtol=1e-6)


def test_errors_and_python_functions(devices: list[Any]) -> None:
    shape = veery.ShapeDtypeStruct((), np.float32)
    double = lambda x: veery.pure_callback(lambda x: 2 * np.asarray(x), shape, x)
    mapped = veery.pmap(lambda x: lax.psum(double(x), "i"), axis_name="i", devices=devices)
    np.testing.assert_array_equal(mapped(np.arange(4, dtype=np.float32)), [12] * 4)
    x = veery.pmap(lambda x: x + 1, devices=devices)(np.zeros(4, np.float32))
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        veery.pmap(lambda x: x + 1, devices=devices)(x)


@pytest.mark.parametrize("spec", [P("a"), P("a", "b"), P(None, "b"), P(("b", "a")), P("b", "a"), P()])
def test_jit_divides_what_is_sharded(spec: Any, devices: list[Any]) -> None:
    mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 12), (12, 4)))
    here = veery.device_put(x, NamedSharding(mesh, spec))

    def step(x: Any, w: Any, scale: Any) -> Any:
        y = jnp.tanh(x @ w) * scale
        return y, veery.nn.softmax(x, axis=0) + x[::-1], y.sum(), jnp.sort(x, axis=0), x.sum(1)

    expected = veery.jit(step)(x, w, 2.0)
    for _ in range(2):
        actual = veery.jit(step)(here, w, 2.0)
        for a, e in zip(actual, expected, strict=True):
            assert a.devices() == set(devices) and a.dtype == e.dtype
            np.testing.assert_allclose(np.asarray(a), np.asarray(e), rtol=2e-5, atol=1e-5)
    assert actual[1].sharding == here.sharding  # as the argument of its shape
    assert {s.data.shape for s in actual[1].addressable_shards} == {here.sharding.shard_shape(x.shape)}
    gradient = veery.jit(veery.grad(lambda x: step(x, w, 2.0)[0].sum()))
    np.testing.assert_allclose(np.asarray(gradient(here)), np.asarray(gradient(x)), rtol=2e-5, atol=1e-5)


def test_a_divided_program_is_one_program(devices: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    mesh = Mesh(np.array(devices), ("a",))
    x = veery.device_put(np.ones((8, 3), np.float32), NamedSharding(mesh, P("a")))
    total = veery.jit(lambda x: (x * 2).sum(0))
    with caplog.at_level("DEBUG", logger="veery"):
        np.testing.assert_array_equal(total(x), [16, 16, 16])
    assert not any("runs on one" in record.getMessage() for record in caplog.records)
    donated = veery.jit(lambda x: x + 1, donate_argnums=0)
    y = donated(x)
    assert x.is_deleted() and y.sharding == NamedSharding(mesh, P("a"))
    np.testing.assert_array_equal(y, np.full((8, 3), 2))
