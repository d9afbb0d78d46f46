"""Modules that concern XLA's compiler and the layout over devices: values are unchanged, and names are checked."""

import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery.experimental.compute_on import compute_on
from veery.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from veery.experimental.shard_alike import shard_alike
from veery.sharding import Mesh, NamedSharding, PartitionSpec as P


def test_places_of_computations_are_checked():
    with compute_on("gpu_stream:1"):
        assert jnp.add(1, 2) == 3
    with pytest.raises(ValueError, match="Invalid compute type moon"), compute_on("moon"):
        pass
    with pytest.raises(TypeError, match="must be a string"), compute_on(3):
        pass


def test_groups_do_what_their_function_does():
    assert scheduling_group("a")(lambda x: x + 1)(1) == 2
    assert xla_metadata_call(lambda x: x + 1, key="value")(1) == 2
    with pytest.raises(NotImplementedError, match="metadata are texts"):
        xla_metadata_call(abs, key=1)


def test_arrays_are_laid_out_alike():
    veery_runtime.configure(num_cpu_devices=max(2, len(veery.devices("cpu"))))
    mesh = Mesh(np.array(veery.devices("cpu")[:2]), ("x",))
    divided = veery.device_put(jnp.arange(4.0), NamedSharding(mesh, P("x")))
    whole = jnp.ones(4)
    for pair in (shard_alike(divided, whole), shard_alike(whole, divided)):
        assert [a.sharding for a in pair] == [divided.sharding] * 2
        assert sum(float(a.sum()) for a in pair) == 10
    assert veery.make_jaxpr(lambda x, y: shard_alike({"a": x}, {"a": y}))(1.0, 2.0).eqns == []
    with pytest.raises(ValueError, match="Trees should be equal"):
        shard_alike([whole], whole)
    with pytest.raises(ValueError, match="leaves shapes"):
        shard_alike(whole, whole[:2])
