"""What calls and compilations leave behind: nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_PRELUDE = """
import gc, json
import numpy as np
import veery, veery.numpy as jnp
from veery._api.jit import JitFunction
from veery._core.jaxpr import Jaxpr
from veery_runtime import synchronize
from veery_runtime.executable import Executable

def state():
    synchronize()
    gc.collect()
    objects = gc.get_objects()
    kinds = [sum(type(x) is kind for x in objects) for kind in (Executable, Jaxpr, JitFunction)]
    pages = int(open("/proc/self/statm").read().split()[1])
    return {"objects": len(objects), "kinds": kinds, "KiB": pages * 4}
"""


def _grown(script: str) -> tuple[dict, dict]:
    done = subprocess.run([sys.executable, "-c", _PRELUDE + script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = map(json.loads, done.stdout.splitlines())
    return before, after


def test_ten_thousand_calls():
    before, after = _grown("""
veery.config.update("veery_host_evaluation", False)  # y + x would begin on the host, and be compiled some time
x, large = jnp.ones(8), jnp.ones((96, 96))  # those of all calls are 2.4 MB, if they are in flight at once
combine = veery.jit(lambda tree, scale, *, n: veery.tree.map(lambda a: a * scale + n, tree), static_argnames="n")
product = veery.jit(lambda a: a @ a / 96)
shift = veery.jit(lambda a: a + 1, donate_argnums=0)

def burst(count):
    y, z = x, large
    for i in range(count):
        combine({"a": y, "b": [np.ones(3, np.float32), 2.0]}, 0.5, n=1)
        y = shift(y + x)
        if i % 50 == 0:
            z = product(z)
            z.copy_to_host_async()
    return np.asarray(y), np.asarray(z)

for _ in range(3):
    burst(3300)  # of each of three functions; the allocator keeps what was in flight at once
print(json.dumps(state()))
burst(3300)
print(json.dumps(state()))
""")
    assert after["kinds"] == before["kinds"]
    assert after["objects"] - before["objects"] < 100
    assert after["KiB"] - before["KiB"] < 4096  # 0.4 KiB a call


@pytest.mark.parametrize(
    ("function", "count", "bursts"),
    [
        ("jnp.sin(x) + 1", 20, 48),  # IREE's pool loses 2.8 MB a call where several are in flight
        ("(jnp.sort(x.T + x, axis=0) + x).sum()", 16, 24),  # 2 MB a call of 4 MB that it needs on the way
    ],
    ids=["results", "scratch"],
)
def test_calls_that_do_not_depend_on_each_other(function, count, bursts):
    """How many calls are in flight at once is the scheduler's: a later burst may need one slab of 64 MB more."""
    before, after = _grown(f"""
f = veery.jit(lambda x: {function})
x = jnp.ones((1000, 1000))

def burst(times):
    for _ in range(times):
        results = [f(x) for _ in range({count})]
        veery.block_until_ready(results)

burst(3)
print(json.dumps(state()))
burst({bursts})
print(json.dumps(state()))
""")
    assert after["KiB"] - before["KiB"] < 128 << 10  # what IREE's pool loses: 2.7 GB and 770 MB


def test_results_that_are_dropped_at_once():
    """IREE's pool keeps one of the slabs of 64 MB that they lie in, whether they were in flight together or not."""
    before, after = _grown("""
f = veery.jit(lambda x: x + x)
x = jnp.ones((1000, 1000))

def burst(times):
    for _ in range(times):
        results = [f(x).block_until_ready() for _ in range(40)]

burst(2)
print(json.dumps(state()))
burst(4)
print(json.dumps(state()))
""")
    assert after["KiB"] - before["KiB"] < 32 << 10  # 500 MB with IREE's pool


def test_three_hundred_functions():
    """Traced, loaded and dropped; 14 KiB each may be lost, where a loaded program takes 56 KiB."""
    before, after = _grown("""
def call(factor):
    veery.jit(lambda x: x * factor)(jnp.ones(3))

def compilations(factors, cached):
    veery.config.update("jax_enable_compilation_cache", cached)
    for factor in factors:
        call(factor)

compilations([2.0] * 30, True)
compilations([3.0, 4.0], False)
print(json.dumps(state()))
compilations([2.0] * 300, True)
compilations([5.0 + i for i in range(8)], False)
print(json.dumps(state()))
""")
    assert after["kinds"] == before["kinds"]
    assert after["objects"] - before["objects"] < 300
    assert after["KiB"] - before["KiB"] < 4096
