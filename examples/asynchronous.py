"""Calls return before the work is done: a chain of twenty products is queued in a fraction of the time it takes.

python examples/asynchronous.py [--size 3000]
"""

from __future__ import annotations

import argparse
import time

import veery
import veery.numpy as jnp
from veery import random


@veery.jit
def product(a, b):
    return (a @ b) / jnp.sqrt(a.shape[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=3000, help="rows and columns of the matrices (default: 3000)")
    parser.add_argument("--length", type=int, default=20, help="products in the chain (default: 20)")
    options = parser.parse_args()

    a = random.normal(random.key(0), (options.size, options.size))
    product(a, a).block_until_ready()  # compile

    start = time.perf_counter()
    result = product(a, a)
    returned = time.perf_counter() - start
    result.block_until_ready()
    finished = time.perf_counter() - start
    print(
        f"one product: the call returned after {1e3 * returned:.2f} ms, the result was there after "
        f"{1e3 * finished:.0f} ms"
    )

    start = time.perf_counter()
    x = a
    for _ in range(options.length):
        x = product(x, a)
    queued = time.perf_counter() - start
    print(f"chain of {options.length}: queued after {1e3 * queued:.2f} ms, first element ready: {x.is_ready()}")
    x.block_until_ready()
    print(f"finished after {time.perf_counter() - start:.2f} s; mean square {float(jnp.mean(x * x)):.4f}")


if __name__ == "__main__":
    main()
