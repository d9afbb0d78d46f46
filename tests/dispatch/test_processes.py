"""Threads and processes that trace, compile and call at the same time."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import veery
import veery.numpy as jnp


def test_threads_compile_and_call_the_same_functions():
    """8 threads, each calling 20 functions 500 times in all, of which the first calls compile."""
    functions = [veery.jit(lambda x, k=k: jnp.sum(x * k) + jnp.max(x) - k) for k in range(20)]
    x = np.arange(12, dtype=np.float32)
    expected = [x.sum() * k + x.max() - k for k in range(20)]
    start = threading.Barrier(8)

    def wrong(seed: int) -> list[int]:
        order = np.random.default_rng(seed).integers(0, 20, 500)
        start.wait()
        results = [functions[k](x) for k in order]
        return [k for k, result in zip(order, results) if float(result) != expected[k]]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(wrong, range(8))) == [[]] * 8


def test_no_driver_is_opened_that_nobody_asked_for():
    """Mesa's software device takes two cores once it is open, and a driver's start takes time."""
    script = """
import veery, veery_runtime.discovery
print(veery.jit(lambda x: x + 1)(1.0), veery.devices(), veery_runtime.discovery._gpus)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "2.0 [CpuDevice(id=0)] {}\n", done.stderr[-3000:]


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_a_forked_child_compiles(tmp_path, monkeypatch):
    """The compiler's threads do not come along; a child that used it as its parent did would hang."""
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path))
    script = """
import os, signal, veery, veery.numpy as jnp
increase = veery.jit(lambda x: x + 1)
increase(1.0)
child = os.fork()
if child == 0:
    signal.alarm(250)
    try:
        print(float(increase(2.0)), float(veery.jit(lambda x: jnp.tanh(x) * 0)(2.0)), flush=True)
        try:
            veery.jit(lambda x: x, compiler_options={"no-such-option": 1})(2.0)
        except Exception as error:
            print("no-such-option" in str(error), flush=True)
    finally:
        os._exit(0)
print("child", os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:3] == ["3.0 0.0", "True", "child 0"]
