"""Which part of an array each device has, by counting; and pictures of it."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import veery
from veery.experimental.custom_partitioning import ArrayMapping, CompoundFactor, SdyShardingRule, custom_partitioning
from veery.experimental.layout import Format, Layout
from veery.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec as P

SIZES = {"a": 2, "b": 2, "c": 2}
SPECS = [
    P(*entries)
    for entries in itertools.product((None, "a", ("b", "a"), "c", ("a", "b", "c")), repeat=2)
    if len({n for e in entries for n in (e if isinstance(e, tuple) else (e,)) if n})
    == sum(len(e) if isinstance(e, tuple) else e is not None for e in entries)
]


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(veery.devices("cpu")[:8]).reshape(2, 2, 2), tuple(SIZES))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_parts_are_counted_by_the_positions_of_devices(spec, mesh):
    """The first axis of a tuple divides coarsest; all parts together are the array, each the same number of times."""
    shape = (16, 8)
    sharding = NamedSharding(mesh, spec)
    whole = np.arange(math.prod(shape)).reshape(shape)
    seen = np.zeros(shape, int)
    for position, device in np.ndenumerate(mesh.devices):
        place = dict(zip(SIZES, position))
        expected = whole
        for axis, entry in enumerate(spec):
            for name in (entry if isinstance(entry, tuple) else (entry,)) if entry else ():
                expected = np.split(expected, SIZES[name], axis)[place[name]]
        index = sharding.devices_indices_map(shape)[device]
        np.testing.assert_array_equal(whole[index], expected)
        assert whole[index].shape == sharding.shard_shape(shape)
        seen[index] += 1
    assert len(np.unique(seen)) == 1 and seen.flat[0] == 8 // math.prod(
        SIZES[n] for e in spec for n in (e if isinstance(e, tuple) else (e,)) if n
    )


@pytest.mark.parametrize("spec", SPECS[:8], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_arrays_are_what_was_put_there(spec, dtype, mesh):
    x = (np.arange(64).reshape(8, 8) % 5).astype(veery.dtypes.result_type(dtype))
    place = NamedSharding(mesh, spec)
    y = veery.device_put(x, place)
    np.testing.assert_array_equal(np.asarray(y), x)
    for shard in y.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
    for other in (P(), P("c", ("a", "b"))):
        moved = veery.device_put(y, NamedSharding(mesh, other))
        assert moved.sharding.spec == other
        np.testing.assert_array_equal(np.asarray(moved), x)
    parts = [shard.data for shard in y.addressable_shards]
    made = veery.make_array_from_single_device_arrays(x.shape, place, parts[::-1])
    y.delete()
    assert y.is_deleted() and not made.is_deleted()
    np.testing.assert_array_equal(np.asarray(made), x)


def test_keys_and_empty_arrays_are_divided_too(mesh):
    keys = veery.random.split(veery.random.key(3), 8)
    placed = veery.device_put(keys, NamedSharding(mesh, P(("a", "b", "c"))))
    assert placed.dtype == keys.dtype and placed.addressable_shards[5].data.shape == (1,)
    assert veery.random.key_data(placed).tolist() == veery.random.key_data(keys).tolist()
    empty = veery.device_put(np.zeros((0, 4), np.float32), NamedSharding(mesh, P("a", "b")))
    assert empty.addressable_shards[1].data.shape == (0, 2) and np.asarray(empty).shape == (0, 4)


def test_an_abstract_mesh_pickles_and_is_equal():
    mesh = AbstractMesh((2, 4), ("a", "b"))
    assert pickle.loads(pickle.dumps(mesh)) == mesh and hash(pickle.loads(pickle.dumps(mesh))) == hash(mesh)
    assert pickle.loads(pickle.dumps(P("a", unreduced={"b"}))) == P("a", unreduced={"b"})


def test_devices_meshes_and_shardings_pickle(mesh):
    whole = NamedSharding(mesh, P(), memory_kind="pinned_host")
    for value in (
        veery.devices()[3],
        mesh,
        NamedSharding(mesh, P("a")),
        whole,
        veery.sharding.SingleDeviceSharding(veery.devices()[1]),
    ):
        same = pickle.loads(pickle.dumps(value))
        assert same == value and hash(same) == hash(value)
    there = f"import pickle; print(pickle.loads({pickle.dumps(NamedSharding(mesh, P('a')))!r}))"
    run = subprocess.run(
        [sys.executable, "-c", there], env={**os.environ, "VEERY_NUM_CPU_DEVICES": "1"}, capture_output=True, text=True
    )
    assert run.returncode and "There is no device 1 of the platform 'cpu' in this process" in run.stderr


def test_pictures(mesh, capsys):
    draw = veery.debug.visualize_sharding
    draw((4, 4), NamedSharding(mesh, P("a", "b")), use_color=False, scale=0.6)
    veery.debug.visualize_array_sharding(veery.device_put(np.ones(4), NamedSharding(mesh, P(("a", "b")))))
    veery.jit(veery.debug.visualize_array_sharding)(veery.device_put(np.ones(4), NamedSharding(mesh, P("c"))))
    assert capsys.readouterr().out.splitlines() == [
        "┌───────────┬───────────┐",
        "│           │           │",
        "│  CPU 0,1  │  CPU 2,3  │",
        "├───────────┼───────────┤",
        "│           │           │",
        "│  CPU 4,5  │  CPU 6,7  │",
        "└───────────┴───────────┘",
        "┌───────────┬───────────┬───────────┬───────────┐",
        "│  CPU 0,1  │  CPU 2,3  │  CPU 4,5  │  CPU 6,7  │",
        "└───────────┴───────────┴───────────┴───────────┘",
        "┌───────────────┬───────────────┐",
        "│  CPU 0,2,4,6  │  CPU 1,3,5,7  │",
        "└───────────────┴───────────────┘",
    ]
    with pytest.raises(ValueError, match="1 and 2 dimensions"):
        draw((2, 2, 2), NamedSharding(mesh, P()))


def test_other_orders_in_memory_are_refused():
    here = veery.sharding.SingleDeviceSharding(veery.devices("cpu")[0])
    with pytest.raises(NotImplementedError, match="row by row"):
        veery.device_put(np.ones((2, 3)), Format(Layout((1, 0)), here))
    assert veery.device_put(np.ones((2, 3)), Format(None, here)).format.layout == Layout((0, 1), ())


@pytest.mark.compiler
def test_functions_with_rules_for_a_partitioner_run_as_they_are():
    @custom_partitioning
    def double(x, n=2):
        return x * n

    with pytest.raises(AttributeError, match="def_partition"):
        double(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="no ->"):
        double.def_partition(partition=lambda *args: None, sharding_rule="i i")
    double.def_partition(partition=lambda *args: None, sharding_rule="... (i j) -> ... (i j)", i=2)
    assert double.sharding_rule.operand_mappings == (("…", ("i", "j")),)
    assert double(np.ones(3, np.float32)).tolist() == veery.jit(double)(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    thrice = custom_partitioning(lambda x, n=2: x * n, static_argnums=1)
    thrice.def_partition(partition=lambda *args: None, sharding_rule="i -> i")
    for out in (thrice(np.ones(1, np.float32), n=3), thrice(n=3, x=np.ones(1, np.float32))):
        assert out.tolist() == [3]
    assert thrice(np.ones(1, np.float32)).tolist() == [2]  # a static argument by default
    with pytest.raises(NotImplementedError, match="custom_partitioning"):
        veery.grad(lambda x: double(x).sum())(np.ones(3, np.float32))
    rule = SdyShardingRule(
        (ArrayMapping("i", CompoundFactor("j", "k")),), (ArrayMapping("i"),), reduction_factors=("j",)
    )
    assert rule.operand_mappings == (("i", ("j", "k")),)
    for wrong in (lambda: CompoundFactor("j"), lambda: ArrayMapping(3), lambda: SdyShardingRule((), (), i=3)):
        with pytest.raises(ValueError):
            wrong()


def test_there_is_one_process():
    import subprocess
    import sys

    script = """
import veery, pytest
with pytest.raises(NotImplementedError, match="num_processes=2"):
    veery.distributed.initialize("localhost:1", 2, 0)
veery.distributed.initialize("localhost:1", 1, 0)
assert veery.distributed.is_initialized()
with pytest.raises(RuntimeError, match="once"):
    veery.distributed.initialize()
veery.distributed.shutdown()
assert not veery.distributed.is_initialized()
veery.devices()
with pytest.raises(RuntimeError, match="must be called before"):
    veery.distributed.initialize()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
