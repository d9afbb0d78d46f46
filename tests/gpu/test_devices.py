"""A GPU as a place: transfers, commitment, errors, and what is said where a driver is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.features import has

import veery
import veery.numpy as jnp
import veery_runtime
from veery import lax


def _cpu() -> Any:
    return veery.devices("cpu")[0]


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16", "bool", "float16", "complex64"])
def test_values_of_any_length_survive_the_way_to_the_device_and_back(gpu: Any, dtype: str) -> None:
    for size in (0, 1, 3, 7, 33, 1001):
        values = (np.arange(size) % 3).astype(dtype)
        x = veery.device_put(values, gpu)
        assert x.devices() == {gpu}
        x.copy_to_host_async()
        np.testing.assert_array_equal(np.asarray(x), values)
        back = veery.device_put(x, _cpu())
        assert back.devices() == {_cpu()}
        np.testing.assert_array_equal(np.asarray(back), values)


def test_computations_stay_where_their_arguments_are(gpu: Any) -> None:
    x = veery.device_put(np.arange(4.0, dtype=np.float32), gpu)
    y = veery.jit(lambda x: x + 1)(x)
    assert y.devices() == (y * 2).devices() == {gpu}
    assert veery.jit(lambda x, y: x * y)(y, np.float32(2)).devices() == {gpu}


def test_default_device_places_new_arrays_and_computations(gpu: Any) -> None:
    with veery.default_device(gpu):
        assert jnp.ones(3).devices() == {gpu}
        assert veery.default_backend() == gpu.platform
        assert veery.jit(lambda: jnp.arange(3))().devices() == {gpu}
    assert jnp.ones(3).devices() == {_cpu()}


def test_jit_takes_a_device_or_a_backend(gpu: Any) -> None:
    x = np.ones(3, np.float32)
    assert veery.jit(lambda x: x + 1, device=gpu)(x).devices() == {gpu}
    assert veery.jit(lambda x: x + 1, backend=gpu.platform)(x).devices() == {gpu}


def test_arrays_of_two_devices_do_not_meet(gpu: Any) -> None:
    here, there = (veery.device_put(np.ones(2, np.float32), d) for d in (_cpu(), gpu))
    with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
        veery.jit(lambda x, y: x + y)(here, there)
    with pytest.raises(ValueError, match="incompatible devices"):
        _ = here + there


def test_arrays_in_the_hosts_memory_leave_that_of_the_device(gpu: Any) -> None:
    place = veery.sharding.SingleDeviceSharding(gpu, memory_kind="pinned_host")
    x = veery.device_put(jnp.arange(4.0), place)
    assert x.devices() == {gpu} and [piece.device for piece in x._buffer.pieces()] == [_cpu()]
    back = veery.device_put(x, gpu)
    assert back._buffer.device is gpu and np.array_equal(back, x) and np.array_equal(x + x, 2 * np.arange(4))


def test_uncommitted_arrays_follow(gpu: Any) -> None:
    there = veery.device_put(np.ones(2, np.float32), gpu)
    assert (jnp.ones(2) + there).devices() == {gpu}


def test_calls_with_fresh_arguments_do_not_disturb_each_other(gpu: Any) -> None:
    """Each call allocates and drops its arguments and results, as a loop over batches does."""
    fun = veery.jit(lambda x, y: (jnp.concatenate([x, y]), lax.clamp(jnp.float32(0), x, y.sum()), x[2:5]))
    for i in range(30):
        x, y = (np.arange(n, dtype=np.float32) + i for n in (40, 24))
        joined, clamped, part = fun(veery.device_put(x, gpu), veery.device_put(y, gpu))
        np.testing.assert_array_equal(joined, np.concatenate([x, y]))
        np.testing.assert_array_equal(clamped, np.clip(x, 0, y.sum()))
        np.testing.assert_array_equal(part, x[2:5])


def test_arguments_are_not_changed_and_donated_ones_are_gone(gpu: Any) -> None:
    x = veery.device_put(np.zeros(8, np.float32), gpu)
    y = veery.jit(lambda x: x.at[2].set(1))(x)
    np.testing.assert_array_equal(np.asarray(x), np.zeros(8))
    np.testing.assert_array_equal(np.asarray(y), np.eye(8)[2])
    z = veery.jit(lambda x: x.at[3].set(1), donate_argnums=0)(y)
    assert y.is_deleted() and float(z.sum()) == 2


def test_float64_computes_where_the_device_has_it(on_gpu: Any) -> None:
    if not has(on_gpu, "fp64"):
        pytest.skip(f"{on_gpu.device_kind} has no float64")
    x = np.linspace(-3, 3, 50)
    with veery.enable_x64(True):
        got = veery.jit(lambda x: (jnp.exp(x) @ x, jnp.sin(x * 1e6)))(x)
    np.testing.assert_allclose(got[0], np.exp(x) @ x, rtol=1e-13)
    np.testing.assert_allclose(got[1], np.sin(x * 1e6), rtol=1e-12, atol=1e-15)


def test_absent_platforms_say_what_was_looked_for() -> None:
    causes = veery_runtime.absent()
    for platform, library in (("cuda", "libcuda"), ("vulkan", "libvulkan")):
        if platform not in causes:
            assert veery.devices(platform)
            continue
        with pytest.raises(
            RuntimeError, match=f"Unknown backend: no {platform} device on this machine: looked for .*{library}.*: ."
        ):
            veery.devices(platform)
    for other in ("tpuu", "rocm", "metal"):
        said = rf"Unknown backend {other}. Available backends are \['cpu'.*\]. veery knows cpu, vulkan.*{other}=/path"
        with pytest.raises(RuntimeError, match=said):
            veery.devices(other)
        with pytest.raises(ValueError, match=f"platform name string like 'cpu' or 'gpu', got: '{other}'"):
            veery.config.update("jax_default_device", other)
