"""What each optional pass of IREE's compiler brings: CPU time of compilations and calls with it and without.

    python tests/bench/options.py [--only NAME] [--rounds N]

For every program and every option of `OPTIONS` prints the time of a call with the option changed, divided by that with
the options as they are (below 1: the change is faster), or "-" where the compiler makes the very same program of it,
then how many programs differ, the geometric mean of those, and the extremes. The times are CPU times of the process,
the smallest of interleaved rounds, so that other work on the machine counts little. docs/compiler-options.md has a
table of these.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import veery
import veery.numpy as jnp
from veery import lax

# An option, and the value other than the one that is used.
OPTIONS = {
    "iree-opt-generalize-matmul": True,
    "iree-dispatch-creation-enable-aggressive-fusion": False,
    "iree-dispatch-creation-fuse-multi-use": False,
    "iree-opt-aggressively-propagate-transposes": True,
    "iree-opt-outer-dim-concat": True,
    "iree-opt-const-eval": True,
    "iree-opt-const-expr-hoisting": False,
    "iree-llvmcpu-reassociate-fp-reductions": False,
    "iree-llvmcpu-skip-intermediate-roundings": False,
    "iree-llvmcpu-use-decompose-softmax-fuse": False,
    "iree-scheduling-optimize-bindings": False,
    "iree-opt-strip-assertions": False,
}

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def programs() -> dict[str, Program]:
    """Programs of every kind, at sizes that are not powers of two."""
    rng = np.random.default_rng(0)
    x = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    labels = rng.integers(0, 10, 96)

    def mlp(weights: Any, images: Any) -> Any:
        hidden = jnp.tanh(images @ weights[0] + weights[1])
        logits = hidden @ weights[2] + weights[3]
        return -jnp.mean(jnp.sum(veery.nn.log_softmax(logits) * veery.nn.one_hot(labels, 10), -1))

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8.0
        return jnp.einsum("bhqk,bkhd->bqhd", veery.nn.softmax(scores), v)

    def normalised(a: Any) -> Any:
        return (a - a.mean(-1, keepdims=True)) / jnp.sqrt(a.var(-1, keepdims=True) + 1e-5)

    def block(w: Any, a: Any) -> Any:
        q, k, v = (normalised(a) @ m for m in w[:3])
        split = lambda m: m.reshape(2, 50, 4, 16)
        a = a + attention(*map(split, (q, k, v))).reshape(2, 50, 64) @ w[3]
        return a + veery.nn.gelu(normalised(a) @ w[4]) @ w[5]

    def cnn(w: Any, images: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        a = veery.nn.relu(lax.conv_general_dilated(images, w[0], (1, 1), "SAME", dimension_numbers=dims))
        a = lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return (a.reshape(8, -1) @ w[1]).sum()

    def pairs(p: Any) -> Any:
        d = p[:, None] - p[None]
        return jnp.sum(1 / jnp.sqrt((d * d).sum(-1) + 0.1))

    def logistic(w: Any) -> Any:
        return jnp.logaddexp(0.0, -(points @ w)).sum()

    points = x(500, 20)
    weights = (x(70, 130) * 0.1, x(130), x(130, 10) * 0.1, x(10))
    layers = tuple(x(*s) * 0.1 for s in [(64, 64)] * 4 + [(64, 256), (256, 64)])
    filters = (x(3, 3, 3, 16) * 0.1, x(14 * 14 * 16, 10) * 0.1)
    return {
        "x + 1": (lambda a: a + 1, (x(100),)),
        "elementwise chain": (lambda a: jnp.tanh(a) * a + jnp.exp(-a * a), (x(300, 700),)),
        "(x+x*x+3)*(x*x+x*x.T)": (lambda a: (a + a * a + 3) * (a * a + a * a.T), (x(700, 700),)),
        "sum of all": (lambda a: a.sum(), (x(300, 1000),)),
        "sums of rows": (lambda a: a.sum(1), (x(300, 1000),)),
        "sums of columns": (lambda a: a.sum(0), (x(300, 1000),)),
        "softmax": (veery.nn.softmax, (x(150, 1000),)),
        "logsumexp": (lambda a: veery.nn.logsumexp(a, axis=-1), (x(150, 1000),)),
        "layernorm": (normalised, (x(300, 700),)),
        "cumsum": (lambda a: jnp.cumsum(a, 1), (x(100, 300),)),
        "product 100": (jnp.matmul, (x(100, 100), x(100, 100))),
        "product 256": (jnp.matmul, (x(256, 256), x(256, 256))),
        "product 300x70x500": (jnp.matmul, (x(300, 70), x(70, 500))),
        "matrix-vector 1000": (jnp.matmul, (x(1000, 1000), x(1000))),
        "products 24x(50x50)": (jnp.matmul, (x(24, 50, 50), x(24, 50, 50))),
        "product with a transposed": (lambda a, b: a.T @ b, (x(200, 100), x(200, 300))),
        "product of a bfloat16": (
            lambda a, b: a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16), (x(200, 200), x(200, 200))
        ),
        "bias and relu": (lambda a, w, b: veery.nn.relu(a @ w + b), (x(100, 200), x(200, 300), x(300))),
        "concatenate, pad, slice": (
            lambda a, b: jnp.pad(jnp.concatenate([a, b], 1), ((1, 1), (2, 2)))[::2, 3:], (x(300, 300), x(300, 200))
        ),
        "transposes": (lambda a: jnp.transpose(a, (2, 0, 1)) * 2 + 1, (x(60, 50, 70),)),
        "gather of rows": (lambda a, i: a[i], (x(500, 100), rng.integers(0, 500, 300))),
        "convolution": (cnn, (filters, x(8, 28, 28, 3))),
        "gradient of a convolution": (veery.grad(cnn), (filters, x(8, 28, 28, 3))),
        "attention": (attention, (x(2, 50, 4, 16), x(2, 50, 4, 16), x(2, 50, 4, 16))),
        "transformer block": (block, (layers, x(2, 50, 64))),
        "its gradient": (veery.grad(lambda w, a: block(w, a).sum()), (layers, x(2, 50, 64))),
        "gradient of two layers": (veery.value_and_grad(mlp), (weights, x(96, 70))),
        "n-body gradient": (veery.grad(pairs), (x(200, 3),)),
        "logistic regression, Hessian": (veery.hessian(logistic), (x(20),)),
        "jacobian": (veery.jacrev(lambda a: jnp.tanh(points[:20, :20] @ a)), (x(20),)),
        "rows and columns in turn": (lambda a: (a / a.sum(1, keepdims=True)) / a.sum(0), (np.abs(x(200, 300)),)),
        "int32 mix": (lambda a: (a * 7 ^ (a >> 3)) % 1000, (rng.integers(0, 10**6, (300, 300)).astype(np.int32),)),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the options to measure")
    parser.add_argument("--rounds", type=int, default=25, help="how often each program is called, in turn")
    chosen = parser.parse_args()
    options = {name: value for name, value in OPTIONS.items() if chosen.only in name}
    veery.config.update("jax_enable_compilation_cache", False)
    ratios: dict[str, list[float]] = {name: [] for name in options}
    print("program", *options, sep="\t")
    for title, (function, arguments) in programs().items():
        usual = compile(function, arguments, {})
        changed = {name: compile(function, arguments, {name: value}) for name, value in options.items()}
        differing = {name: c for name, c in changed.items() if c is None or code(c) != code(usual)}
        least = in_turn([usual, *differing.values()], arguments, chosen.rounds)
        row = dict(zip(differing, (time / least[0] for time in least[1:]), strict=True))
        for name, ratio in row.items():
            ratios[name].append(ratio)
        print(title, *(f"{row[name]:.2f}" if name in row else "-" for name in options), sep="\t", flush=True)
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found)) if found else 1
        extremes = f"{mean:.3f}, {min(found):.2f} to {max(found):.2f}" if found else ""
        print(f"{name}={options[name]}: changes {len(found)} of {len(programs())} programs: {extremes}")


def compile(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """A function compiled with options; None if that fails."""
    try:
        return veery.jit(function).lower(*arguments).compile(compiler_options=options)
    except Exception as error:
        print(f"# {options}: {str(error).splitlines()[0]}")
        return None


def code(compiled: Any) -> bytes:
    """The program that a compilation made."""
    vmfb: bytes = compiled._program.vmfb
    return vmfb


def in_turn(calls: list[Any], arguments: Any, rounds: int) -> list[float]:
    """The least CPU time of each call; infinite for what is None."""
    arguments = veery.tree.map(jnp.asarray, arguments)
    least = [math.inf] * len(calls)
    for _ in range(rounds if len(calls) > 1 else 1):
        for i, call in enumerate(calls):
            if call:
                begin = time.process_time()
                for _ in range(repeats := 3):
                    veery.block_until_ready(call(*arguments))
                least[i] = min(least[i], (time.process_time() - begin) / repeats)
    return least


if __name__ == "__main__":
    main()
