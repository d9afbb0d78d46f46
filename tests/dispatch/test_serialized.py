"""Compiled functions as bytes, loaded again here and by another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery.experimental.serialize_executable import deserialize_and_load, serialize
from veery_lowering.errors import LoweringError

pytestmark = pytest.mark.compiler

OTHER_PROCESS = """
import pickle, sys
import numpy as np
from veery.experimental.serialize_executable import deserialize_and_load
from veery_lowering.errors import LoweringError
load = deserialize_and_load(*pickle.load(open(sys.argv[1], "rb")))
result = load({"x": np.arange(3, dtype=np.float32)}, scale=np.float32(2))
assert "iree.compiler" not in sys.modules, "nothing is to be compiled"
print(result["y"].tolist(), result["key"].dtype)
"""


def function(weights):
    return lambda tree, scale: {"y": scale * tree["x"] + weights, "key": veery.random.key(scale.astype(int))}


def compiled(compiler="iree"):
    specs = {"x": jnp.ones(3)}, jnp.float32(1)
    jitted = veery.jit(function(jnp.array([0.0, 1.0, 2.0])), compiler=compiler)
    return jitted.lower(specs[0], scale=specs[1]).compile()


def test_another_process_runs_it_without_a_compiler(tmp_path):
    path = tmp_path / "function"
    path.write_bytes(pickle.dumps(serialize(compiled())))
    run = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(path)], capture_output=True, text=True, env=os.environ, timeout=300
    )
    assert (run.stdout, run.stderr) == ("[0.0, 3.0, 6.0] key<fry>\n", "")


def test_it_is_described_as_before():
    original = compiled()
    again = deserialize_and_load(*serialize(original))
    assert isinstance(again, veery.stages.Compiled)
    assert again.in_avals == original.in_avals and again.in_tree == original.in_tree
    assert again.out_info == original.out_info and again.args_info == original.args_info
    assert again.cost_analysis() == original.cost_analysis() and again.memory_analysis() == original.memory_analysis()
    assert again.input_shardings == original.input_shardings and again.output_shardings == original.output_shardings
    with pytest.raises(TypeError, match="input pytree does not match"):
        again(jnp.ones(3))
    with pytest.raises(TypeError, match="Argument types differ"):
        again({"x": jnp.ones(4)}, scale=jnp.float32(1))
    with pytest.raises(ValueError, match="was serialized before"):
        serialize(again)


def test_programs_that_call_numpy_do_without():
    a = np.array([[4.0, 2.0], [2.0, 3.0]], np.float32)
    again = deserialize_and_load(*serialize(veery.jit(jnp.linalg.cholesky).lower(a).compile()))
    np.testing.assert_allclose(again(a), np.linalg.cholesky(a), rtol=1e-6)


def test_programs_of_xla():
    try:
        device = veery.devices("xla")[0]
    except RuntimeError as error:
        pytest.skip(str(error))
    veery.clear_caches()
    sine = lambda: veery.jit(jnp.sin).lower(jnp.ones(3, device=device)).compile()
    sine()  # from here on it is on disk: what is loaded from bytes is serialized, too
    for original in (compiled("xla"), sine()):
        payload, in_tree, out_tree = serialize(original)
        again = deserialize_and_load(payload, in_tree, out_tree)
        assert again.input_shardings == original.input_shardings
    assert again(jnp.zeros(3, device=device)).devices() == {device}
    np.testing.assert_array_equal(again(jnp.zeros(3, device=device)), np.zeros(3))


def test_what_cannot_be_serialized_is_refused():
    lowered = veery.jit(lambda x: veery.pure_callback(np.sin, x, x)).lower(jnp.ones(3))
    with pytest.raises(LoweringError, match="calls the Python function sin"):
        serialize(lowered.compile())
    dynamic = veery.jit(lambda x: x + 1, dynamic_shapes={"x": "n"})
    with pytest.raises(ValueError, match="does not support serialization.*symbolic shapes"):
        serialize(dynamic.lower(veery.ShapeDtypeStruct(veery.export.symbolic_shape("n"), "float32")).compile())


def test_other_bytes_and_other_devices_are_refused():
    payload, in_tree, out_tree = serialize(compiled())
    for kind in (ValueError, pickle.UnpicklingError):
        with pytest.raises(kind, match="no function that was serialized"):
            deserialize_and_load(payload[:-1000], in_tree, out_tree)
    with pytest.raises(ValueError, match="another version of veery"):
        deserialize_and_load(pickle.dumps(("", b"", None, (), ())), in_tree, out_tree)
    with pytest.raises(ValueError, match="belong to a client other than"):
        deserialize_and_load(payload, in_tree, out_tree, "vulkan", veery.devices("cpu"))
