"""Python beside devices: in this process."""

from __future__ import annotations

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery.experimental import colocated_python as cp
from veery.experimental.array_serialization.serialization import GlobalAsyncCheckpointManagerBase
from veery.experimental.colocated_python.serialization import DeviceList
from veery.sharding import Mesh, PartitionSpec


@cp.colocated_python
def scaled(x, *, by):
    assert isinstance(x, veery.Array)
    return {"y": jnp.asarray(np.asarray(x) * np.asarray(by))}


ONES, TWO = jnp.ones(3, jnp.float32), jnp.float32(2)


def test_calls():
    assert scaled(ONES, by=TWO)["y"].tolist() == [2, 2, 2] and scaled.__name__ == "scaled"
    with pytest.raises(ValueError, match="only supports jax.Array as input and output, but got <class 'int'>"):
        scaled(ONES, by=2)
    with pytest.raises(ValueError, match="only supports jax.Array"):
        cp.colocated_python(lambda x: 1)(ONES)


def test_what_is_known_before():
    known = scaled.specialize(in_specs=((ONES,), {"by": TWO}))
    assert known(ONES, by=TWO)["y"].shape == (3,)
    with pytest.raises(ValueError, match="arguments were specified"):
        known(jnp.ones(4), by=TWO)
    with pytest.raises(ValueError, match="in_specs already specified"):
        known.specialize(in_specs=((ONES,), {}))
    place = veery.sharding.NamedSharding(Mesh(veery.devices("cpu")[:1], "x"), PartitionSpec("x"))
    placed = known.specialize(
        out_specs_fn=lambda x, by: {"y": veery.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)}
    )
    assert placed(ONES, by=TWO)["y"].sharding == place
    wrong = known.specialize(out_specs_fn=lambda x, by: {"y": veery.ShapeDtypeStruct((4,), x.dtype)})
    with pytest.raises(ValueError, match=r"results were specified as .*\(4,\).*, but are .*\(3,\)"):
        wrong(ONES, by=TWO)


def test_without_arrays_it_is_said_where():
    constant = cp.colocated_python(lambda: jnp.zeros(2))
    with pytest.raises(ValueError, match=r"specialize\(devices=...\)"):
        constant()
    assert constant.specialize(devices=veery.devices("cpu"))().shape == (2,)


def test_objects_are_made_at_the_first_call():
    made = []

    @cp.colocated_python_class
    class Total:
        def __init__(self, start):
            made.append(start)
            self.value = start

        def add(self, x):
            self.value = self.value + x
            return self.value

        def double(self, x):
            return self.value * 2

    total = Total(ONES)
    assert not made and Total.__name__ == "Total"
    assert total.add(TWO).tolist() == [3, 3, 3] and total.double(TWO).tolist() == [6, 6, 6] and len(made) == 1


def test_cpu_devices():
    class Accelerator:
        platform = "tpu"

    cpus = veery.devices("cpu")
    assert cp.colocated_cpu_devices((Accelerator(),)) == cpus[:1]
    with pytest.raises(ValueError, match=f"there are {len(cpus)} CPU devices for {len(cpus) + 1} others"):
        cp.colocated_cpu_devices([Accelerator()] * (len(cpus) + 1))
    mesh = Mesh(np.array(cpus[:1]).reshape(1, 1), ("x", "y"))
    assert cp.colocated_cpu_devices(mesh) == mesh
    assert DeviceList(cpus) == tuple(cpus)


def test_the_interface_of_checkpoint_managers():
    with pytest.raises(TypeError, match="abstract"):
        GlobalAsyncCheckpointManagerBase()
