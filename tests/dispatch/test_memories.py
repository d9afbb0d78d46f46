"""Memories of devices: what types tell of them, and where arrays lie. What JAX 0.10.2 gives on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery.experimental.compute_on import compute_on2
from veery.memory import Space
from veery.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

pytestmark = pytest.mark.compiler


@pytest.fixture
def own():
    return SingleDeviceSharding(veery.devices("cpu")[0])


@pytest.fixture
def host(own):
    return own.with_memory_kind("pinned_host")


@pytest.fixture
def x():
    return jnp.arange(8.0)


@pytest.fixture
def h(x, host):
    return veery.device_put(x, host)


def kinds(arrays):
    return [array.sharding.memory_kind for array in veery.tree.leaves(arrays)]


def test_devices_list_their_memories(own):
    device = veery.devices("cpu")[0]
    memories = device.addressable_memories()
    assert [m.kind for m in memories] == ["device", "pinned_host", "unpinned_host"] and memories[0].id == 3 * device.id
    assert repr(memories) == "[CPU_DEVICE_0, PINNED_HOST_1, UNPINNED_HOST_2]"
    assert str(device.memory("pinned_host")) == "PinnedHostMemory(id=1, process_index=0, client=cpu)"
    with pytest.raises(ValueError, match="memory kinds: device, pinned_host, unpinned_host. Got memory kind: disk"):
        own.with_memory_kind("disk")


def test_shardings_tell_their_memory(own, host):
    assert own.memory_kind == "device" and own.with_memory_kind("device") == own != host
    assert hash(own) == hash(own.with_memory_kind("device")) and not own.is_equivalent_to(host, 1)
    assert str(host) == "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=pinned_host)"
    named = NamedSharding(veery.make_mesh((1,), ("x",)), P("x"), memory_kind="unpinned_host")
    assert named.update(spec=P()).memory_kind == "unpinned_host" and named.with_memory_kind("device") != named
    assert NamedSharding(named.mesh.abstract_mesh, P("x")).memory_kind is None


def test_arrays_are_put_into_memories(x, h, own, host):
    assert str(veery.typeof(h)) == "float32<host>[8]" and veery.typeof(h).memory_space is Space.Host
    assert (h.sharding, h.devices(), h.device) == (host, x.devices(), x.device)
    assert np.array_equal(h, x) and np.array_equal(np.from_dlpack(h), x) and float(h[3]) == 3
    assert kinds(veery.device_put([x, h], [Space.Host, Space.Device])) == ["pinned_host", "device"]
    assert kinds(veery.device_put((h, h, h), (None, own, own.device_set.copy().pop()))) == [
        "pinned_host", "device", "device",
    ]  # fmt: skip
    loose = veery.device_put(x, own.with_memory_kind("unpinned_host"))
    assert kinds(loose) == ["unpinned_host"] and veery.typeof(loose) == veery.typeof(x)
    assert kinds((h.copy(), jnp.array(h), jnp.zeros_like(h), h.at[0].set(5.0), h + 1, h[2:4])) == ["pinned_host"] * 6
    assert jnp.allclose(x, h) and jnp.allclose(h, x)
    with pytest.raises(ValueError, match=r"`add` must be .* type: float32<host>\[8\] and .* type: float32\[8\]"):
        h + x
    with pytest.raises(ValueError, match="Received invalid value: PinnedHostMemory"):
        veery.device_put(x, x.device.memory("pinned_host"))


def test_programs_move_values(x, h, own, host):
    def f(a, b):
        on_device = veery.device_put(a, Space.Device) + b
        return on_device, veery.device_put(on_device, host), 2 * a

    sums, offloaded, twice = veery.jit(f)(h, x)
    assert kinds((sums, offloaded, twice)) == ["device", "pinned_host", "pinned_host"]
    assert np.array_equal(sums, offloaded) and np.array_equal(sums, 2 * np.arange(8))
    compiled = veery.jit(f).lower(h, x).compile()
    assert kinds(compiled(h, x)) == ["device", "pinned_host", "pinned_host"]
    assert [s.memory_kind for s in compiled.output_shardings] == ["device", "pinned_host", "pinned_host"]
    assert "b:f32<host>[8] = device_put[sharding=MemorySpace.Host] a" in str(
        veery.make_jaxpr(lambda a: veery.device_put(a, Space.Host))(x)
    )


def test_jit_is_told_memories(x, h, own, host):
    same = veery.jit(lambda a: a, out_shardings=host)
    assert kinds((same(x), same(h), veery.jit(lambda a: a, out_shardings=own)(h))) == ["pinned_host"] * 2 + ["device"]
    assert kinds(veery.jit(lambda a: same(a))(x)) == ["pinned_host"]
    for array, wanted in ((x, host), (h, own)):
        with pytest.raises(ValueError, match=f"Got jit memory kind: {wanted.memory_kind}, arg memory kind: "):
            veery.jit(lambda a: a, in_shardings=wanted)(array)
    struct = veery.ShapeDtypeStruct((8,), np.float32, sharding=host)
    assert str(veery.jit(lambda a: a).trace(struct).jaxpr) == "{ lambda ; a:f32<host>[8]. let in (a,) }"


def test_transformations_keep_memories(x, h):
    def energy(a):
        return (veery.device_put(a, Space.Device) ** 2).sum()

    assert kinds(veery.grad(energy)(h)) == ["pinned_host"] and np.array_equal(veery.grad(energy)(h), 2 * np.arange(8))
    with pytest.raises(ValueError, match=r"the memory of the device, got float32<host>\[\]"):
        veery.grad(lambda a: (veery.device_put(a, Space.Host) ** 2).sum())(x)
    assert kinds(veery.vmap(lambda a: (a * 2, veery.device_put(a, Space.Device)))(h)) == ["pinned_host", "device"]
    step = lambda c, a: (c + veery.device_put(a, Space.Device), veery.device_put(c, Space.Host))
    last, passed = veery.lax.scan(step, jnp.zeros(2), h.reshape(4, 2))
    assert kinds((last, passed)) == ["device", "pinned_host"] and np.array_equal(last, [12, 16])
    assert np.array_equal(passed, [[0, 0], [0, 1], [2, 4], [6, 9]])
    with pytest.raises(TypeError, match="scan body function carry input and carry output must have equal types"):
        veery.lax.scan(lambda c, a: (veery.device_put(c, Space.Host), a), jnp.zeros(2), h.reshape(4, 2))


def test_compute_on2_says_where_results_are(x):
    f = compute_on2(lambda a: (2 * a, a), compute_type="device_host", out_memory_spaces=(Space.Host, Space.Device))
    assert kinds(veery.jit(f)(x)) == ["pinned_host", "device"]
    with pytest.raises(ValueError, match="Invalid compute type moon"):
        compute_on2(f, compute_type="moon", out_memory_spaces=Space.Host)


def test_parts_are_in_memories_too():
    veery_runtime.configure(num_cpu_devices=max(2, len(veery.devices("cpu"))))
    mesh = veery.sharding.Mesh(np.array(veery.devices("cpu")[:2]), "x")
    place = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    x = veery.device_put(jnp.arange(8.0), place)
    assert x.sharding == place and x.addressable_shards[1].data.sharding.memory_kind == "pinned_host"
    assert (2 * x).sharding == place and np.array_equal(2 * x, 2 * np.arange(8))
