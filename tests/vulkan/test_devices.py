"""The Vulkan device as a place: transfers, commitment, errors, and what is said where a driver is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery import lax


def _cpu() -> Any:
    return veery.devices("cpu")[0]


def test_the_target_is_made_of_the_devices_own_properties(vulkan: Any) -> None:
    fields = dict(part.split("=") for part in vulkan.target.removeprefix("vulkan:").split(","))
    assert fields["compute"].count("fp32") == 1 and int(fields["subgroup"]) > 0
    assert fields["sizes"].count("x") == fields["counts"].count("x") == 2
    assert vulkan.platform == "vulkan" and vulkan.device_kind


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16", "bool", "float16", "complex64"])
def test_values_of_any_length_survive_the_way_to_the_device_and_back(vulkan: Any, dtype: str) -> None:
    for size in (0, 1, 3, 7, 33, 1001):
        values = (np.arange(size) % 3).astype(dtype)
        x = veery.device_put(values, vulkan)
        assert x.devices() == {vulkan}
        x.copy_to_host_async()
        np.testing.assert_array_equal(np.asarray(x), values)
        back = veery.device_put(x, _cpu())
        assert back.devices() == {_cpu()}
        np.testing.assert_array_equal(np.asarray(back), values)


def test_computations_stay_where_their_arguments_are(vulkan: Any) -> None:
    x = veery.device_put(np.arange(4.0, dtype=np.float32), vulkan)
    y = veery.jit(lambda x: x + 1)(x)
    assert y.devices() == (y * 2).devices() == {vulkan}
    assert veery.jit(lambda x, y: x * y)(y, np.float32(2)).devices() == {vulkan}


def test_default_device_places_new_arrays_and_computations(vulkan: Any) -> None:
    with veery.default_device(vulkan):
        assert jnp.ones(3).devices() == {vulkan}
        assert veery.default_backend() == "vulkan"
        assert veery.jit(lambda: jnp.arange(3))().devices() == {vulkan}
    assert jnp.ones(3).devices() == {_cpu()}


def test_jit_takes_a_device_or_a_backend(vulkan: Any) -> None:
    x = np.ones(3, np.float32)
    assert veery.jit(lambda x: x + 1, device=vulkan)(x).devices() == {vulkan}
    assert veery.jit(lambda x: x + 1, backend="vulkan")(x).devices() == {vulkan}


def test_arrays_of_two_devices_do_not_meet(vulkan: Any) -> None:
    here, there = (veery.device_put(np.ones(2, np.float32), d) for d in (_cpu(), vulkan))
    with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
        veery.jit(lambda x, y: x + y)(here, there)
    with pytest.raises(ValueError, match="incompatible devices"):
        _ = here + there


def test_arrays_in_the_hosts_memory_leave_that_of_the_device(vulkan: Any) -> None:
    place = veery.sharding.SingleDeviceSharding(vulkan, memory_kind="pinned_host")
    x = veery.device_put(jnp.arange(4.0), place)
    assert x.devices() == {vulkan} and [piece.device for piece in x._buffer.pieces()] == [_cpu()]
    back = veery.device_put(x, vulkan)
    assert back._buffer.device is vulkan and np.array_equal(back, x) and np.array_equal(x + x, 2 * np.arange(4))


def test_uncommitted_arrays_follow(vulkan: Any) -> None:
    there = veery.device_put(np.ones(2, np.float32), vulkan)
    assert (jnp.ones(2) + there).devices() == {vulkan}


def test_calls_with_fresh_arguments_do_not_disturb_each_other(vulkan: Any) -> None:
    """Each call allocates and drops its arguments and results, as a loop over batches does."""
    fun = veery.jit(lambda x, y: (jnp.concatenate([x, y]), lax.clamp(jnp.float32(0), x, y.sum()), x[2:5]))
    for i in range(30):
        x, y = (np.arange(n, dtype=np.float32) + i for n in (40, 24))
        joined, clamped, part = fun(veery.device_put(x, vulkan), veery.device_put(y, vulkan))
        np.testing.assert_array_equal(joined, np.concatenate([x, y]))
        np.testing.assert_array_equal(clamped, np.clip(x, 0, y.sum()))
        np.testing.assert_array_equal(part, x[2:5])


def test_arguments_are_not_changed_and_donated_ones_are_gone(vulkan: Any) -> None:
    x = veery.device_put(np.zeros(8, np.float32), vulkan)
    y = veery.jit(lambda x: x.at[2].set(1))(x)
    np.testing.assert_array_equal(np.asarray(x), np.zeros(8))
    np.testing.assert_array_equal(np.asarray(y), np.eye(8)[2])
    z = veery.jit(lambda x: x.at[3].set(1), donate_argnums=0)(y)
    assert y.is_deleted() and float(z.sum()) == 2


def test_64_bit_types_are_refused_by_name_where_the_device_lacks_them() -> None:
    from veery_lowering import CompileError

    target = (
        "vulkan:vulkan=1.1,compute=fp32+int32,storage=b32,subgroup=32,operations=shuffle+arithmetic,threads=256,"
        "sizes=256x256x64,counts=65535x65535x65535,memory=16384"
    )
    device = SimpleNamespace(platform="vulkan", target=target)
    from veery import _dispatch

    with veery.enable_x64(True):
        for dtype, feature in (("float64", "fp64"), ("int64", "int64")):
            closed = veery.make_jaxpr(lambda x: x + x)(np.ones(3, dtype))
            lowered = _dispatch.lower_jaxpr(closed, "twice", _dispatch.target_of(device), (False,))
            with pytest.raises(CompileError, match=f"cannot compute with {dtype} .it lacks {feature}"):
                lowered.compile()


def test_float64_computes_where_the_device_has_it(on_vulkan: Any) -> None:
    if "fp64" not in on_vulkan.target:
        pytest.skip(f"{on_vulkan.device_kind} has no float64")
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
    with pytest.raises(RuntimeError, match="Unknown backend 'tpuu'; veery knows cpu, vulkan, cuda"):
        veery.devices("tpuu")


def test_unknown_descriptions_are_refused_before_they_reach_the_compiler() -> None:
    from veery_lowering.targets import resolve

    for chip in ("nonsense", "subgroup=8", "subgroup=8,compute=fp32>"):
        with pytest.raises(ValueError, match="Vulkan"):
            resolve(f"vulkan:{chip}")
