"""What is timed, for one library: prints a JSON object of name -> seconds. Run by run.py, in a process of its own.

python cases.py veery|jax|numpy
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

START = time.perf_counter()


def median_time(call: Callable[[], Any], repeats: int, inner: int = 1) -> float:
    """Median over `repeats` of the time of a call, each measured over `inner` calls."""
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - begin) / inner)
    return statistics.median(times)


def numpy_cases() -> dict[str, float]:
    """The cases that NumPy has."""
    import numpy as np

    results = {"import": time.perf_counter() - START}
    small, x = np.ones(8, np.float32), np.random.default_rng(0).standard_normal((3000, 3000), np.float32)
    a = x[:1024, :1024].copy()
    results["x + 1, 8 floats"] = median_time(lambda: small + 1, 7, 10_000)
    results["(x+x*x+3)*(x*x+x*x.T), 3000x3000"] = median_time(lambda: (x + x * x + 3) * (x * x + x * x.T), 5)
    results["matmul 1024"] = median_time(lambda: a @ a, 9)
    return results


def traced_cases(name: str) -> dict[str, float]:
    """The cases of veery or JAX: the same program under both names."""
    jax = importlib.import_module(name)
    jnp = importlib.import_module(f"{name}.numpy")
    results = {"import": time.perf_counter() - START}

    @jax.jit
    def first(x):
        return jnp.sin(x) * 2 + 1

    begin = time.perf_counter()
    first(jnp.ones(8, jnp.float32)).block_until_ready()
    results["first jitted result, after the import"] = time.perf_counter() - begin

    small = jnp.ones(8, jnp.float32)
    add_one = jax.jit(lambda x: x + 1)
    results["x + 1, 8 floats"] = median_time(lambda: add_one(small).block_until_ready(), 7, 10_000)
    results["eager x + x, 8 floats"] = median_time(lambda: (small + small).block_until_ready(), 7, 3_000)
    fifty = [jnp.full(8, i, jnp.float32) for i in range(50)]
    identity = jax.jit(lambda *xs: [x + 1 for x in xs])
    results["50 arguments, 50 results"] = median_time(lambda: jax.block_until_ready(identity(*fifty)), 7, 1_000)

    x = jax.random.normal(jax.random.key(0), (3000, 3000))
    expression = jax.jit(lambda x: (x + x * x + 3) * (x * x + x * x.T))
    results["(x+x*x+3)*(x*x+x*x.T), 3000x3000"] = median_time(lambda: expression(x).block_until_ready(), 5)
    a = x[:1024, :1024]
    product = jax.jit(jnp.matmul)
    results["matmul 1024"] = median_time(lambda: product(a, a).block_until_ready(), 9)
    results["training step of the tour"] = training_step(jax, jnp)
    if name == "veery":
        results |= artifact_cases(jax, jnp)
    return results


def training_step(jax: Any, jnp: Any) -> float:
    """The step of examples/tour.py: a 64-128-10 network, 64 images, gradient descent with momentum."""
    keys = jax.random.split(jax.random.key(1), 4)
    layers = [
        {"weights": jax.random.normal(keys[0], (64, 128)) * 0.2, "bias": jnp.zeros(128)},
        {"weights": jax.random.normal(keys[1], (128, 10)) * 0.1, "bias": jnp.zeros(10)},
    ]
    images = jax.random.normal(keys[2], (64, 64))
    labels = jax.random.randint(keys[3], (64,), 0, 10)

    def loss(layers, images, labels):
        hidden = jax.nn.relu(images @ layers[0]["weights"] + layers[0]["bias"])
        logits = hidden @ layers[1]["weights"] + layers[1]["bias"]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 10), axis=-1))

    @jax.jit
    def step(layers, velocity):
        value, gradient = jax.value_and_grad(loss)(layers, images, labels)
        velocity = jax.tree.map(lambda v, g: 0.9 * v - 0.03 * g, velocity, gradient)
        return jax.tree.map(jnp.add, layers, velocity), velocity, value

    velocity = jax.tree.map(jnp.zeros_like, layers)
    return median_time(lambda: jax.block_until_ready(step(layers, velocity)), 9, 200)


def artifact_cases(veery: Any, jnp: Any) -> dict[str, float]:
    """A small function compiled into a file: loading it, and calling it beside the jitted function, NumPy to NumPy."""
    import tempfile
    from pathlib import Path

    import numpy as np

    import veery_runtime

    x = np.ones(8, np.float32)
    function = veery.jit(lambda x: jnp.sin(x) * 2 + 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.vmfb"
        function.lower(x).compile().save(path)
        print(f"artifact of sin(x) * 2 + 1: {path.stat().st_size} bytes", file=sys.stderr)
        loaded = veery_runtime.load(path)
        return {
            "artifact: load and first call": median_time(lambda: veery_runtime.load(path)(x), 9, 5),
            "artifact: call, 8 floats": median_time(lambda: loaded(x), 7, 3_000),
            "same by jit, NumPy to NumPy": median_time(lambda: np.asarray(function(x)), 7, 3_000),
        }


if __name__ == "__main__":
    library = sys.argv[1]
    print(json.dumps(numpy_cases() if library == "numpy" else traced_cases(library)))
