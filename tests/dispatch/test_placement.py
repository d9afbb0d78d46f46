"""Where arrays and programs go: commitment, lowering for a device, donation as `jit` sees it."""

from __future__ import annotations

import functools
import gc

import numpy as np
import pytest
from support.memory import aligned_empty

import veery
import veery.numpy as jnp
import veery_runtime


@pytest.fixture(scope="module")
def pair():
    """Two devices."""
    veery_runtime.configure(num_cpu_devices=max(2, len(veery.devices("cpu"))))
    return veery.devices("cpu")[:2]


increase = veery.jit(lambda x: x + 1)


def test_results_are_committed_like_their_arguments(pair):
    x = jnp.ones(3)
    for _ in range(3):  # the second call of a kind takes a shorter way
        assert not increase(x).committed
        for device in pair:
            result = increase(veery.device_put(x, device))
            assert result.committed and result.devices() == {device}


def test_what_numpy_computes_of_arrays_is_where_they_are(pair):
    """Results whose size depends on values, and arrays that are made of arrays."""
    first, second = pair
    x = veery.device_put(jnp.array([3.0, 0.0, 3.0, 3.0]), second)
    results = [
        *(jnp.array([x, x]), jnp.asarray([[x[0], 1.0]]), x[x > 0], jnp.unique(x), *jnp.nonzero(x), jnp.argwhere(x)),
        *(jnp.nonzero(x, size=2)[0], jnp.unique(x, return_counts=True)[1], jnp.setxor1d(x, 2 * x), jnp.roots(x)),
        *jnp.intersect1d(x, x, return_indices=True),
        *(jnp.roots(x.at[0].set(0.0)), jnp.trim_zeros(x), jnp.extract(x > 0, x), jnp.union1d(x, x), jnp.where(x)[0]),
    ]
    assert all(y.committed and y.devices() == {second} for y in results)
    assert not jnp.array([jnp.ones(2), 1 * jnp.ones(2)]).committed
    with pytest.raises(ValueError, match="incompatible devices"):
        jnp.array([x, veery.device_put(x, first)])


def test_arrays_say_where_they_are(pair):
    first, second = pair
    x = veery.device_put(np.ones((2, 3), np.float32), second)
    place = x.sharding
    assert place == veery.sharding.SingleDeviceSharding(second) != veery.sharding.SingleDeviceSharding(first)
    assert (place.device_set, place.num_devices, place.is_fully_replicated) == ({second}, 1, True)
    assert place.shard_shape(x.shape) == (2, 3)
    assert place.devices_indices_map(x.shape) == {second: (slice(None), slice(None))}
    assert place.is_equivalent_to(place.with_memory_kind("device"), 2) and hash(place) == hash(x.sharding)
    assert veery.device_put(jnp.ones(3), place).devices() == {second}
    spec = veery.typeof(x).sharding.spec  # as optax passes it on: random.normal(key, out_sharding=...)
    assert spec == veery.P(None, None) and veery.device_put(x, veery.typeof(x).sharding) is x


def test_lowering_is_for_the_device_of_the_arguments(pair):
    first, second = pair
    x = jnp.ones(3)
    compiled = increase.lower(veery.device_put(x, second)).compile()
    assert compiled(x).devices() == {second} and not compiled(x).committed
    assert compiled(veery.device_put(x, second)).committed
    with pytest.raises(ValueError, match="compiled for input shardings that disagree"):
        compiled(veery.device_put(x, first))
    with pytest.raises(ValueError, match="incompatible devices"):
        veery.jit(lambda a, b: a + b).lower(*(veery.device_put(x, d) for d in pair))
    free = increase.trace(x).lower(lowering_platforms=["cpu"]).compile()
    assert free(veery.device_put(x, second)).devices() == {second}


def test_lowered_functions_take_compiler_options():
    x = jnp.ones(3)
    lowered = increase.lower(x)
    assert lowered.compile(compiler_options={"iree-opt-level": "O1"})(x).tolist() == [2.0] * 3
    with pytest.raises((veery.errors.JaxRuntimeError, ValueError, RuntimeError), match="no-such-option"):
        lowered.compile(compiler_options={"no-such-option": "1"})


def test_donated_arrays_without_a_result_like_them_are_kept():
    total = veery.jit(lambda x, y: (x.sum(), y + 1), donate_argnums=(0, 1))
    x, y = jnp.ones(3), jnp.ones(4)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: float32\[3\]"):
        total(x, y)
    assert not x.is_deleted() and y.is_deleted()
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[4\]"):
        y + 1


def test_donated_memory_is_used_again():
    average = veery.jit(lambda mean, x: 0.9 * mean + 0.1 * x, donate_argnums=0)
    x = np.ones((128, 256), np.float32)
    mean, places = jnp.zeros_like(x), []
    for _ in range(6):
        mean = average(mean, x).block_until_ready()
        places.append(veery_runtime.sharing.extent(mean._buffer._ref, mean._buffer._spec))
    assert len(set(places[2:])) == 1  # until it is known what a program's results share, they are copied
    np.testing.assert_allclose(mean, np.full_like(x, 1 - 0.9**6), rtol=1e-5)


PARTS = {
    "a number at a place": lambda a: a.at[0].set(99.0),
    "a number in a range": lambda a: a.at[5:1000].set(1.0),
    "numbers": lambda a: a.at[3:6].set(jnp.array([1.0, 2.0, 3.0])),
    "many": lambda a: a.at[:1000].set(np.arange(1000.0)),
    "another part": lambda a: a.at[:100].set(a[200:300]),
}


@pytest.mark.parametrize("n", [10_000, 400_000])
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_donated_arrays_are_filled(name: str, n: int) -> None:
    expected = np.asarray(PARTS[name](jnp.arange(float(n))))
    write = veery.jit(PARTS[name], donate_argnums=0)
    for made in (jnp.arange(float(n)), jnp.asarray(np.arange(n, dtype=np.float32)), jnp.arange(float(n)) * 1):
        out = write(made)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(write(out), expected)
        assert made.is_deleted() and out.is_deleted()


def test_parts_of_what_a_callback_gives_are_filled() -> None:
    double = lambda x: veery.pure_callback(lambda x: np.asarray(x) * 2, veery.ShapeDtypeStruct(x.shape, x.dtype), x)
    x = jnp.ones((300, 300))
    out = veery.jit(lambda x: (double(x).at[0].set(1.0), double(x + 1).at[3:5, 7].set(x[0, :2])))(x)
    np.testing.assert_array_equal(out[0], np.full((300, 300), 2.0) - np.eye(300)[0][:, None])
    assert np.asarray(out[1]).sum() == 300 * 300 * 4 - 2 * 3


def test_a_training_loop_holds_its_state_once():
    """The new state is written over the old one, which is donated; products that read it come first."""
    device = veery.devices()[0]

    @functools.partial(veery.jit, donate_argnums=0)
    def step(state, batch):
        loss = lambda weights: jnp.sum(jnp.tanh(batch @ weights) ** 2)
        weights, velocity = state
        velocity = 0.9 * velocity + veery.grad(loss)(weights)
        return weights - 1e-3 * velocity, velocity

    batch = jnp.ones((32, 256))
    state = jnp.ones((256, 512)), jnp.zeros((256, 512))
    for _ in range(3):  # until it is known what a program's results share, they are copied
        state = veery.block_until_ready(step(state, batch))
    gc.collect()
    device.ledger.settle()
    device.ledger.peak = before = device.ledger.live
    places = set()
    for _ in range(10):
        state = veery.block_until_ready(step(state, batch))
        places.update(veery_runtime.sharing.extent(x._buffer._ref, x._buffer._spec) for x in state)
    assert len(places) == len(state)
    assert device.memory_stats()["peak_bytes_in_use"] - before <= 0.05 * sum(x.nbytes for x in state)


def test_errors_of_the_device_name_the_function_and_its_line():
    def enormous(x):
        return jnp.zeros((1 << 30, 1 << 12)) + x

    with pytest.raises(veery.errors.JaxRuntimeError, match=r"enormous \(.*test_placement.py:\d+\): out of memory"):
        np.asarray(veery.jit(enormous)(1.0))


def test_live_arrays():
    x = jnp.ones(3)
    assert any(each is x for each in veery.live_arrays())
    x.delete()
    assert not any(each is x for each in veery.live_arrays())


def test_memory_is_shared_where_that_is_asked_for():
    given = aligned_empty((1000,), np.dtype(np.float32))
    given[:] = 1
    pointers = [veery.device_put(given, may_alias=share).unsafe_buffer_pointer() for share in (True, False, None)]
    assert [pointer == given.ctypes.data for pointer in pointers] == [True, False, False]


def test_what_is_donated_is_not_static():
    for options in ({"static_argnums": 0, "donate_argnums": 0}, {"static_argnames": "x", "donate_argnames": "x"}):
        with pytest.raises(ValueError, match=r"static_arg\w+ and donate_arg\w+ cannot intersect"):
            veery.jit(lambda x: x, **options)


def test_what_is_donated_is_not_passed_twice():
    x = jnp.ones(1000)
    add = veery.jit(lambda a, b: a + b, donate_argnums=0)
    with pytest.raises(veery.errors.JaxRuntimeError, match="INVALID_ARGUMENT: .* donated and passed as another"):
        add(x, x)
    assert not x.is_deleted() and float(add(x, jnp.ones(1000))[0]) == 2


def test_platforms_that_the_settings_leave_out_are_refused():
    """As in JAX: a program that looks for a GPU, and takes the CPU else, can be told to."""
    for named, others in (("vulkan,cpu", ("cuda", "xla")), ("cpu", ("gpu", "vulkan", "xla"))):
        veery.config.update("jax_platforms", named)
        assert veery.devices("cpu")
        for other in others:
            for ask in (veery.devices, veery.device_count, lambda name: veery.jit(jnp.sin, backend=name)):
                with pytest.raises(RuntimeError, match=f"Unknown backend: '{other}' .*jax_platforms: '{named}'"):
                    ask(other)
    assert veery.devices() == veery.devices("cpu")
    assert jnp.zeros(2, device="cpu").devices() == {veery.devices()[0]}
    with pytest.raises(RuntimeError, match="Unknown backend: 'xla'"):
        jnp.zeros(2, device="xla")


def test_what_devices_have_in_common(pair):
    """Libraries ask it of a device before they move its arrays."""
    first, second = pair
    assert first.client == second.client and first.client.process_index() == 0
    assert (first.client.platform, first.client.runtime_type) == ("cpu", "iree")
    assert first.client.platform_version.startswith("IREE ")
    assert str(second) == f"cpu:{second.id}"
    memory = first.default_memory()
    assert memory == first.memory("device") != second.default_memory()
    assert (memory.kind, memory.platform, memory.addressable_by_devices()) == ("device", "cpu", [first])
    with pytest.raises(ValueError, match="memory kinds: device, pinned_host, unpinned_host. Got memory kind: disk"):
        first.memory("disk")


def test_modules_are_there_in_one_dialect():
    lowered = increase.lower(1.0)
    assert "stablehlo.add" in str(lowered.compiler_ir("stablehlo"))
    with pytest.raises(ValueError, match="the module is StableHLO, which XLA and its tools read"):
        lowered.compiler_ir(dialect="hlo")


def test_put_without_sharing_memory():
    x = jnp.ones(3)
    assert veery.device_put(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    copied = veery.device_put(x, may_alias=False)
    assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer() and not copied.committed
    assert veery.device_put(x, veery.devices()[0], may_alias=False).committed


def test_unknown_platforms_are_refused_without_drivers() -> None:
    """To say which platforms there are opens none: a device of Vulkan on the CPU takes two cores from then on."""
    with pytest.raises(RuntimeError, match=r"Unknown backend nope\. Available backends are \['cpu'"):
        veery.devices("nope")
    # what opens one fails at its end


def test_types_are_no_arrays():
    x = veery.ShapeDtypeStruct((2,), np.float32)
    for use in (veery.jit(lambda x: x + 1), veery.grad(lambda x: x.sum()), veery.vmap(lambda x: -x), jnp.sin,
                veery.device_put, lambda x: jnp.reshape(x, (1, 2))):  # fmt: skip
        with pytest.raises(TypeError, match="float32.* is not a valid JAX type: .*eval_shape"):
            use(x)


def test_places_are_said_once():
    with pytest.raises(ValueError, match="both a device and a backend"):
        veery.jit(lambda x: x, device=veery.devices()[0], backend="cpu")
    with pytest.raises(ValueError, match=r"should be a sequence of ints. Got \(\(4, 1\), 2\)"):
        veery.make_mesh(((4, 1), 2), ("x", "y"))
