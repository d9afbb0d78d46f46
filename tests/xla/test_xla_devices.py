"""XLA's device as a place: transfers, shared memory, commitment, donation, deletion, forks, errors."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.memory import aligned_empty

import veery
import veery.numpy as jnp
import veery_runtime
from veery import lax
from veery_runtime.pjrt.handle import View


def _cpu() -> Any:
    return veery.devices("cpu")[0]


def _aligned(shape: tuple[int, ...]) -> np.ndarray:
    values: np.ndarray = aligned_empty(shape, np.dtype(np.float32))
    values[...] = np.arange(values.size).reshape(shape)
    return values


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int16", "bool", "float16", "complex64", "bfloat16"])
def test_values_of_any_length_survive_the_way_to_the_device_and_back(xla: Any, dtype: str) -> None:
    for shape in ((), (0,), (1,), (3,), (33,), (1001,), (0, 5), (3, 4, 5)):
        values = (np.arange(np.prod(shape, dtype=int)) % 3).reshape(shape).astype(getattr(ml_dtypes, dtype, dtype))
        x = veery.device_put(values, xla)
        assert x.devices() == {xla}
        x.copy_to_host_async()
        np.testing.assert_array_equal(np.asarray(x), values)
        back = veery.device_put(x, _cpu())
        assert back.devices() == {_cpu()}
        np.testing.assert_array_equal(np.asarray(back), values)
        np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: x)(x)), values)


def test_strided_values_are_copied_in_order(xla: Any) -> None:
    values = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for view in (values.T, values[::2], values[:, ::-1]):
        np.testing.assert_array_equal(np.asarray(veery.device_put(view, xla)), view)


def test_what_is_put_may_be_changed_afterwards(xla: Any) -> None:
    for size in (8, 1 << 20):
        values = np.zeros(size, np.float32)
        x = veery.device_put(values, xla)
        values[:] = 1
        assert not np.asarray(x).any()


def test_arrays_pass_between_both_compilers_without_a_copy(xla: Any) -> None:
    address = lambda x: np.asarray(x).ctypes.data
    x = veery.jit(lambda x: x * 2)(jnp.asarray(_aligned((1 << 18,))))
    there = veery.device_put(x, xla)
    assert address(there) == address(x)
    y = veery.jit(lambda x: x + 1)(there)
    assert y.devices() == {xla}
    assert address(veery.device_put(y, _cpu())) == address(y)
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x) + 1)


def test_computations_stay_where_their_arguments_are(xla: Any) -> None:
    x = veery.device_put(np.arange(4.0, dtype=np.float32), xla)
    y = veery.jit(lambda x: x + 1)(x)
    assert y.devices() == (y * 2).devices() == {xla}
    assert veery.jit(lambda x, y: x * y)(y, np.float32(2)).devices() == {xla}
    here = jnp.ones(4)
    assert (here + y).devices() == {xla}
    with pytest.raises(ValueError, match="Received incompatible devices for jitted computation"):
        veery.jit(lambda x, y: x + y)(veery.device_put(here, _cpu()), y)


def test_it_is_asked_for_by_backend_device_and_setting(xla: Any) -> None:
    x = np.ones(3, np.float32)
    assert veery.jit(lambda x: x + 1, backend="xla")(x).devices() == {xla}
    assert veery.jit(lambda x: x + 1, device=xla)(x).devices() == {xla}
    there = veery.jit(lambda x, n: x * n, backend="xla")
    for _ in range(3):  # the second and third by what is known of the first
        for call in (there(x, 2), there(2.0, x), there(jnp.ones(3), 2) if _ else there(x, 2)):
            assert call.devices() == {xla} and float(call[0]) == 2
    with veery.default_device(xla):
        assert veery.default_backend() == "xla"
        assert veery.jit(lambda: jnp.arange(3))().devices() == {xla}
    assert jnp.ones(3).devices() == {_cpu()}
    program = (
        "import veery, veery.numpy as jnp\n"
        "veery.config.update('jax_platforms', 'xla')\n"
        "print(jnp.arange(3).device.platform, veery.devices()[0].platform)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["xla", "xla"]


def test_platform_dependent_functions_know_the_hardware(on_xla: Any) -> None:
    choose = lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2)
    assert float(veery.jit(choose)(0.0)) == float(choose(0.0)) == 1


def test_calls_return_before_the_work_is_done(xla: Any) -> None:
    x = veery.device_put(np.full((1500, 1500), 1e-3, np.float32), xla)

    @veery.jit
    def powers(x: Any) -> Any:
        return lax.fori_loop(0, 20, lambda _, y: y @ x, x)

    powers(x).block_until_ready()
    y = powers(x)
    assert not y.is_ready()
    assert np.isfinite(np.asarray(y)).all() and y.is_ready()


def test_donated_arguments_are_gone_and_their_memory_is_used(xla: Any) -> None:
    step = veery.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x, y = (veery.device_put(np.full(1 << 18, n, np.float32), xla) for n in (1, 2))
    x, _ = step(x, y)
    before = View(xla.client, x._buffer._ref).address
    x, _ = step(x, y)
    assert View(xla.client, x._buffer._ref).address == before and float(x[0]) == 5
    kept = np.asarray(x)
    given = x
    x, _ = step(x, y)
    assert given.is_deleted() and float(x[0]) == 7 and kept[0] == 5  # what NumPy sees is left alone
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32"):
        step(given, y)
    with pytest.raises(RuntimeError, match="donated and passed as another argument"):
        step(y, y)


def test_memory_is_given_back(xla: Any) -> None:
    before = len(xla.live_buffers())
    x = veery.device_put(np.zeros(1 << 20, np.float32), xla)
    assert len(xla.live_buffers()) == before + 1
    assert xla.memory_stats()["bytes_in_use"] >= x.nbytes
    seen = np.asarray(x)
    x.delete()
    assert len(xla.live_buffers()) == before and not seen.any()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_arrays_are_shared_by_dlpack_both_ways(xla: Any) -> None:
    x = veery.jit(lambda x: x + 1, device=xla)(_aligned((5, 7)))
    seen = np.from_dlpack(x)
    assert seen.ctypes.data == np.asarray(x).ctypes.data
    there = veery.device_put(veery.dlpack.from_dlpack(seen), xla)
    np.testing.assert_array_equal(np.asarray(there), seen)


def test_programs_that_xla_refuses_name_the_function_and_its_line(xla: Any) -> None:
    @veery.jit
    def odd(x: Any) -> Any:
        return x

    program = odd.trace(np.ones(3, np.float32)).lower(lowering_platforms=["xla"])._lowered.compile()
    broken = dataclasses.replace(program, vmfb=b"module { nonsense }")
    with pytest.raises(RuntimeError, match=r"odd \(.*test_xla_devices.py:\d+\): XLA cannot compile it for"):
        veery_runtime.load(broken, xla)


def test_out_of_memory_is_an_exception(xla: Any) -> None:
    with pytest.raises(RuntimeError, match="(?i)memory|exhausted"):
        veery.jit(lambda: jnp.ones((1 << 22, 1 << 22)), backend="xla")().block_until_ready()


def test_a_forked_child_is_told(xla: Any) -> None:
    x = veery.device_put(np.ones(3, np.float32), xla)
    add = veery.jit(lambda x: x + 1)
    add(x).block_until_ready()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            add(x)
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert b"a forked child cannot use the parent's cpu plugin" in os.read(reading, 1000)
    os.close(reading)


def test_compiled_programs_are_serialized_and_found_on_disk(xla: Any, tmp_path: Any) -> None:
    program = (
        "import logging, time, veery\n"
        "veery.config.update('jax_log_compiles', True)\n"
        "f = veery.jit(lambda x: (x @ x @ x).sum(), backend='xla')\n"
        "import numpy as np, sys\n"
        "print(f(np.ones((3, 3), np.float32)), 'iree.compiler' in sys.modules)\n"
    )
    environment = {**os.environ, "VEERY_CACHE_DIR": str(tmp_path)}
    for loads_compiler in ("True", "False"):
        said = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        )
        assert said.stdout.split() == ["81.0", loads_compiler]
        assert "Finished XLA compilation of jit(<lambda>)" in said.stderr
    compiled = veery.jit(lambda x: x + 1, backend="xla").lower(np.ones(3, np.float32)).compile()
    assert compiled.runtime_executable().serialize()
