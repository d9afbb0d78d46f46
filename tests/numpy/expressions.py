"""Evaluate expressions, one a line of the input, with `jnp` from a package; prints their outcomes as JSON.

    python tests/numpy/expressions.py veery --interpreted < expressions.txt
    python tests/numpy/expressions.py jax < expressions.txt         # how recorded_expressions.json was made
For what outcomes look like see tests/support/outcomes.py.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np

OPERANDS = """
F = jnp.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.25]], dtype=jnp.float32)
V = jnp.array([3.0, 1.0, 2.0], dtype=jnp.float32)
I = jnp.array([[1, -2, 3], [4, 5, -6]], dtype=jnp.int32)
J = jnp.array([3, 1, 2], dtype=jnp.int32)
B = jnp.array([[True, False, True], [False, False, True]])
C = jnp.array([[1 + 2j, -3.0j, 2.0], [0.5, 1j, -1 - 1j]], dtype=jnp.complex64)
H = jnp.array([1.5, -2.0, 0.25], dtype=jnp.float16)
BF = jnp.array([1.5, -2.0, 0.25], dtype=jnp.bfloat16)
U = jnp.array([1, 200, 255], dtype=jnp.uint8)
S8 = jnp.array([-128, 127, 5], dtype=jnp.int8)
W = jnp.asarray(2.0)
WI = jnp.asarray(3)
E = jnp.zeros((0, 3), jnp.float32)
N = jnp.array([1.0, jnp.nan, -jnp.inf, jnp.inf, -0.0, 0.0], dtype=jnp.float32)
Z = jnp.float32(2.5)
npF = np.array([1.0, 2.0, 3.0])
npI = np.arange(3)

class X:  # an array only by its method, without a shape
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value

jax.tree_util.register_pytree_node(X, lambda x: ((x.value,), None), lambda _, values: X(*values))
"""

SUBMODULES = """image ops scipy.cluster.vq scipy.fft scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage
scipy.signal scipy.special scipy.stats"""


def main(package: str, *options: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.outcomes import outcome

    if "--interpreted" in options:
        from support.interpreted_programs import install

        install()
    jax = importlib.import_module(package)
    names = {"jax": jax, "jnp": importlib.import_module(f"{package}.numpy"), "np": np, "lax": jax.lax}
    for name in SUBMODULES.split():
        importlib.import_module(f"{package}.{name}")
    exec(OPERANDS, names)
    results = {line: outcome(line, names, jax.Array) for line in sys.stdin.read().splitlines() if line}
    print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results.items()) + "\n}")


if __name__ == "__main__":
    main(*sys.argv[1:])
