"""Artifacts: what goes in comes out, in any process; damage and misuse are told in a line."""

from __future__ import annotations

import collections
import json
import subprocess

import ml_dtypes
import numpy as np
import pytest

import veery
import veery.numpy as jnp
import veery_runtime
from veery_runtime import cpu, weights

Pair = collections.namedtuple("Pair", "left right")
spec = veery.ShapeDtypeStruct


def saved(tmp_path, fun, *args, **kwargs):
    path = tmp_path / "f.vmfb"
    veery.jit(fun).lower(*args).compile().save(path, **kwargs)
    return veery_runtime.load(path)


def test_pytrees_and_dtypes_round_trip(tmp_path):
    names = ["bool", "int8", "int16", "int32", "uint8", "uint32", "float16", "bfloat16", "float32", "complex64"]
    arrays = {name: np.ones((2, 2), getattr(ml_dtypes, name, name)) for name in names}
    tree = (arrays, [Pair(np.float32(2), None), ()])
    path = tmp_path / "f.vmfb"
    fun = veery.jit(lambda tree, *, scale: {"same": tree, "scaled": tree[1][0].left * scale})
    fun.lower(tree, scale=np.ones(3, np.float32)).compile().save(path)
    f = veery_runtime.load(path)
    out = f(tree, scale=[1, 2, 3])
    same, rest = out["same"]
    assert all(same[n].dtype == arrays[n].dtype and (same[n] == arrays[n]).all() for n in names)
    assert type(rest[0]).__name__ == "Pair" and rest[0].right is None and rest[1] == ()
    np.testing.assert_array_equal(out["scaled"], [2, 4, 6])


@pytest.mark.parametrize("suffix", ["safetensors", "irpa"])
def test_large_constants_go_to_a_file_of_their_own(tmp_path, suffix):
    w = np.arange(4096, dtype=np.float32).reshape(64, 64)
    constant = jnp.asarray(w)
    f = saved(tmp_path, lambda x: constant + x, np.float32(1), weights=tmp_path / f"w.{suffix}")
    np.testing.assert_array_equal(f(1.0), w + 1)
    assert (tmp_path / "f.vmfb").stat().st_size < w.nbytes + 8192
    (array,) = weights.read(tmp_path / f"w.{suffix}").values()
    np.testing.assert_array_equal(array, w)
    (tmp_path / f"w.{suffix}").unlink()
    with pytest.raises(veery_runtime.ArtifactError, match="keeps its weights in .* which is not there"):
        veery_runtime.load(tmp_path / "f.vmfb")


def test_constants_of_the_same_bytes_keep_their_shapes_and_dtypes(tmp_path):
    numbers = np.arange(9, dtype=np.float32)
    constants = [jnp.asarray(c) for c in (numbers, numbers.reshape(3, 3), numbers.view(np.int32), numbers[None])]
    f = saved(tmp_path, lambda x: [c + x for c in constants], np.int32(1))
    for out, c in zip(f(np.int32(1)), constants, strict=True):
        assert out.dtype == c.dtype
        np.testing.assert_array_equal(out, np.asarray(c) + np.asarray(1, c.dtype))


def test_a_program_of_python_functions_is_compiled_without_them(tmp_path):
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    np.testing.assert_array_equal(saved(tmp_path, veery.lax.sort, x)(x), np.sort(x))


def test_the_best_program_for_the_cpu_is_chosen(model):
    loaded = veery_runtime.load(model)
    assert loaded.step.targets == ("cpu:generic", "cpu:x86-64-v3")
    assert loaded.step.target == ("cpu:x86-64-v3" if {"avx2", "fma"} <= set(cpu.features()) else "cpu:generic")
    assert veery_runtime.load(model, "cpu:generic").step.target == "cpu:generic"
    with pytest.raises(veery_runtime.DeviceUnavailableError, match="not compiled for vulkan, only for cpu:generic"):
        veery_runtime.load(model, "vulkan").step(None)


def test_results_stay_on_the_device_on_request(model):
    loaded = veery_runtime.load(model)
    params, x = loaded.init.launch(), np.ones((4, 3), np.float32)
    for _ in range(3):
        params = loaded.step.launch(params, x)
    assert isinstance(params["w"], veery_runtime.Buffer) and params["w"].numpy().shape == (3,)
    assert loaded.predict(params, x)[0] < loaded.predict(loaded.init(), x)[0]


def test_programs_for_other_machines(tmp_path):
    path = tmp_path / "far.vmfb"
    functions = {"next": (lambda x: x + 1, (spec((4,), "float32"),))}
    veery.aot.compile(functions, targets=["cpu:aarch64-linux", "cuda:sm_89"], out=path)
    programs = veery_runtime.load_artifact(path).entries["next"].programs
    assert [(p.target, p.backend, p.machine) for p in programs] == [
        ("cpu:aarch64-linux", "cpu", "aarch64"),
        ("cuda:sm_89", "cuda", ""),
    ]
    assert b"embedded-elf-arm_64" in programs[0].vmfb and b"sm_89" in programs[1].vmfb
    with pytest.raises(veery_runtime.DeviceUnavailableError, match="cannot run here. cpu:aarch64-linux: it was"):
        veery_runtime.load(path)(np.ones(4, np.float32))


WRONG_CALLS = [
    (lambda m, x: m.predict({"w": x[0]}, x), "argument params must be a dict .* got one without 'b'"),
    (lambda m, x: m.predict(3, x), "argument params must be a dict with the keys 'b', 'w', got int"),
    (lambda m, x: m.predict(m.init(), x.astype("f8")), r"argument x must be f32\[4,3\], got f64\[4,3\]; convert"),
    (lambda m, x: m.predict(m.init(), x[:2]), r"argument x must be f32\[4,3\], got f32\[2,3\]; the function was comp"),
    (lambda m, x: m.predict({"w": [1, 2], "b": 0.0}, x), r"argument params\['w'\] must be f32\[3\], got f32\[2\]"),
    (lambda m, x: m.predict(m.init()), "the call misses x. Its signature is"),
    (lambda m, x: m.predict(m.init(), x, y=1), "the call has no argument y"),
    (lambda m, x: m(m.init()), r"has 3 functions \(init, step, predict\); call one of them"),
]


@pytest.mark.parametrize("call, message", WRONG_CALLS)
def test_wrong_arguments(model, call, message):
    with pytest.raises(TypeError, match=message):
        call(veery_runtime.load(model), np.ones((4, 3), np.float32))


def test_damaged_files(model, tmp_path):
    data = model.read_bytes()
    middle = len(data) // 2
    damaged = {
        "is empty": b"",
        "truncated": data[:-1],
        "not a veery artifact": b"PK" + bytes(1000),
        "SHA-256": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
    }
    for message, content in damaged.items():
        path = tmp_path / "bad.vmfb"
        path.write_bytes(content)
        with pytest.raises(veery_runtime.CorruptArtifactError, match=message):
            veery_runtime.load(path)


def test_iree_tools_run_the_file(model):
    from pathlib import Path

    import iree.runtime

    tool = Path(iree.runtime.__file__).parent / "../_runtime_libs/iree-run-module"
    if not tool.exists():
        pytest.skip("the tools are not installed")
    command = [tool, f"--module={model}", "--device=local-sync", "--function=main"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert "3xf32=1 1 1" in result.stdout, result.stderr


def test_the_runtime_alone(model, run_without_compiler):
    script = """
import time; start = time.process_time()  # of work: other processes of the machine do not count
import numpy as np
numpys = time.process_time() - start
import veery_runtime
ours = time.process_time() - start - numpys
import json, resource, sys
model = veery_runtime.load(sys.argv[2])
params, x = model.init(), np.ones((4, 3), np.float32)
def memory(): return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()
for i in range(10_000):
    if i == 1000: before = memory()
    y = model.predict(params, x)
print(json.dumps(dict(ours=ours, numpys=numpys, growth=memory() - before, y=y.tolist(),
    modules=sorted({m.split('.')[0] for m in sys.modules} & {'optree', 'scipy', 'veery', 'jax'}))))
"""
    result = run_without_compiler(script, model)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["y"] == [3.0] * 4 and told["modules"] == []
    assert told["growth"] < 2 << 20
    assert told["ours"] < 4 * told["numpys"]


def test_containers_that_a_file_cannot_describe(tmp_path):
    @veery.tree_util.register_pytree_node_class
    class Point:
        def tree_flatten(self):
            return (1.0,), None

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls()

    with pytest.raises(ValueError, match="cannot describe the container .*Point; pass and return dicts"):
        saved(tmp_path, lambda x: x, Point())
