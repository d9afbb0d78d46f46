"""What is timed, for one library: prints a JSON object of name -> seconds. Run by run.py, in a process of its own.

python cases.py veery|jax|numpy
"""

from __future__ import annotations

import functools
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

    results |= dispatch_cases(name, jax, jnp)
    results |= lowering_cases(name, jax, jnp)
    results |= eager_cases(jnp)
    results |= loop_cases(jax, jnp)

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


def dispatch_cases(name: str, jax: Any, jnp: Any) -> dict[str, float]:
    """Calls of small jitted functions, waiting for the result; for veery also IREE's own invocation of the program."""
    small = jnp.ones(8, jnp.float32)
    many = [jnp.full(8, i, jnp.float32) for i in range(50)]
    tree = {f"layer {i}": {"weights": x, "bias": (x,)} for i, x in enumerate(many)}
    cases = {
        "x + 1, 8 floats": (lambda x: x + 1, (small,), {}),
        "4 arguments": (lambda a, b, c, d: a + b * c - d, (*many[:4],), {}),
        "50 arguments, 50 results": (lambda *xs: [x + 1 for x in xs], (*many,), {}),
        "pytree of 100 leaves, 1 result": (lambda t: sum(jax.tree.leaves(t)), (tree,), {}),
        "a keyword and a static argument": (lambda x, *, k, n: x * k + n, (small,), {"k": small, "n": 2}),
    }
    results = {}
    for title, (function, args, kwargs) in cases.items():
        jitted = jax.jit(function, static_argnames="n" if "n" in kwargs else ())
        repeats = 3_000 if len(jax.tree.leaves(args)) < 5 else 200
        call = functools.partial(jitted, *args, **kwargs)
        results[title] = median_time(lambda call=call: jax.block_until_ready(call()), 9, repeats)
        if name == "veery" and hasattr(next(iter(jitted._entries.values())).executable, "_load"):
            results[f"{title}: IREE's invoke alone"] = median_time(bare_invocation(jitted), 9, repeats)
    return results


def lowering_cases(name: str, jax: Any, jnp: Any) -> dict[str, float]:
    """A jaxpr of 1,000 equations: traced, lowered to StableHLO, and for veery made ready for the compiler."""

    def layers(x: Any, w: Any) -> Any:
        for i in range(125):
            y = jnp.tanh(x @ w) * 0.5 + x
            x = y - jnp.max(y, axis=1, keepdims=True) * (i + 1.0)
        return x

    square = jnp.ones((16, 16), jnp.float32)
    traced = lambda: jax.jit(lambda x, w: layers(x, w)).trace(square, square)
    results = {
        "1,000 equations traced": median_time(traced, 5),
        "1,000 equations traced and lowered": median_time(lambda: traced().lower(), 5),
    }
    if name == "veery":
        from veery_lowering import Options
        from veery_lowering.compiler.compile import modules

        lowered = traced().lower()._lowered
        ready = lambda: next(iter(modules(lowered.emission, lowered.target, Options())))
        results["1,000 equations made ready for the compiler"] = median_time(ready, 5)
    return results


def bare_invocation(jitted: Any) -> Callable[[], Any]:
    """The program of a jitted function, called as IREE's bindings do it, its argument list made before."""
    import numpy as np

    from veery_runtime import iree, put

    (entry, *_) = jitted._entries.values()
    _, context, function = entry.executable._load(inline=True)
    buffers = [put(np.ones(spec.shape, spec.dtype), spec.device) for spec in entry.executable.inputs]

    def invoke() -> None:
        arguments = iree.VmVariantList(len(buffers) + 2)
        for buffer in buffers:
            arguments.push_ref(buffer._ref)
        arguments.push_ref(iree.NO_FENCE)
        arguments.push_ref(iree.NO_FENCE)
        context.invoke(function, arguments, iree.VmVariantList(len(entry.out_avals)))

    return invoke


def eager_cases(jnp: Any) -> dict[str, float]:
    """Single operations on concrete arrays, and a script of them."""
    import numpy as np

    small, scalar, host = jnp.arange(8.0), jnp.float32(3), np.ones(8, np.float32)
    results = {
        "eager x + x, 8 floats": median_time(lambda: (small + small).block_until_ready(), 7, 3_000),
        "eager x[3]": median_time(lambda: small[3], 7, 1_000),
        "array from NumPy": median_time(lambda: jnp.array(host), 7, 3_000),
        "array to NumPy": median_time(lambda: np.asarray(small), 7, 3_000),
        "float(x)": median_time(lambda: float(scalar), 7, 3_000),
    }
    programs = program_count()
    begin = time.perf_counter()
    eager_script(jnp)
    results["eager script of 30 lines, first time"] = time.perf_counter() - begin
    if programs is not None:
        print(f"programs of the eager script: {program_count() - programs}", file=sys.stderr)
    return results


def program_count() -> int | None:
    """How many programs veery has compiled or found on disk; None for JAX."""
    if "veery" not in sys.modules:
        return None
    import veery_lowering

    info = veery_lowering.cache_info()
    return info.hits + info.misses


def eager_script(jnp: Any) -> Any:
    """What somebody types at a prompt: each line is one or a few programs."""
    x = jnp.linspace(0.0, 1.0, 50)
    y = jnp.sin(2 * jnp.pi * x) + 0.1 * jnp.cos(30 * x)
    design = jnp.stack([x**0, x, x**2, x**3], axis=1)
    gram = design.T @ design
    scale = jnp.sqrt(jnp.diag(gram))
    normalised = gram / jnp.outer(scale, scale)
    off_diagonal = normalised - jnp.eye(4)
    largest = jnp.abs(off_diagonal).max()
    centred = y - y.mean()
    spread = centred.std()
    z = centred / spread
    order = jnp.argsort(z)
    ranked = z[order]
    top, bottom = ranked[-5:], ranked[:5]
    gap = top.mean() - bottom.mean()
    smooth = jnp.convolve(z, jnp.ones(5) / 5, mode="same")
    residual = jnp.where(jnp.abs(z - smooth) > 0.1, z - smooth, 0)
    counts = jnp.histogram(residual, bins=10)[0]
    total = jnp.cumsum(counts)
    share = total / total[-1]
    clipped = jnp.clip(z, -1, 1)
    power = jnp.sum(clipped**2)
    grid = jnp.meshgrid(x, x)[0]
    field = jnp.exp(-((grid - 0.5) ** 2))
    rows, columns = field.sum(0), field.prod(1)
    mask = (rows > rows.mean()) & (columns < 1)
    kept = jnp.count_nonzero(mask)
    padded = jnp.pad(z, 3, mode="edge")
    tiled = jnp.tile(padded[:4], (2, 2)).reshape(-1)
    result = largest + gap + power + share[3] + kept + tiled.sum()
    return float(result)


def loop_cases(jax: Any, jnp: Any) -> dict[str, float]:
    """Loops of 1000 trips with little in them."""
    decay = lambda x: jax.lax.fori_loop(0, 1000, lambda i, x: x * 0.99 + 0.1, x)
    root = lambda a: jax.lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-4 * a, lambda x: 0.5 * (x + a / x), a)
    average = lambda xs: jax.lax.scan(lambda c, x: (jnp.tanh(0.9 * c + x), c * c), jnp.float32(0.5), xs)[1]
    cases = {
        "fori_loop, 1000 trips, a scalar": (decay, jnp.float32(1)),
        "fori_loop, 1000 trips, 1000 floats": (decay, jnp.ones(1000)),
        "while_loop, a root by Newton": (root, jnp.float32(3)),
        "scan of 1000 steps": (average, jnp.ones(1000)),
        "its gradient": (jax.grad(lambda xs: average(xs).sum()), jnp.ones(1000)),
    }
    results = {}
    for title, (function, argument) in cases.items():
        call = functools.partial(jax.jit(function), argument)
        results[title] = median_time(lambda call=call: call().block_until_ready(), 9, 100)
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
    function = veery.jit(lambda x: jnp.sin(x) * 2 + 1, compiler="iree")  # artifacts are its
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
