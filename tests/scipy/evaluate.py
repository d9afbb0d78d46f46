"""Evaluate expressions in the modules of SciPy's functions; prints their outcomes as JSON, by module.

    python tests/scipy/evaluate.py veery --interpreted < recorded_functions.json
    python tests/scipy/evaluate.py jax < recorded_functions.json     # how recorded_functions.json was made

The input's outcomes are not read. `m` is the module, for what outcomes look like see
tests/support/outcomes.py.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

# For each module its operands: 32-bit ones of a fixed seed.
COMMON = """
rng = np.random.default_rng(0)
normal = lambda *shape: jnp.asarray(rng.normal(size=shape), "float32")
"""
OPERANDS = {
    "scipy.linalg": """
f, i = jnp.arange(1.0, 4), jnp.arange(1, 4)
c = f + 1j
a, b, B, eye = normal(3, 3), jnp.ones(3), jnp.ones((3, 2)), jnp.eye(3, dtype=int)
spd = a @ a.T + jnp.eye(3)
st, C, bf = jnp.stack([spd, spd]), a + 1j * a.T, a.astype("bfloat16")
""",
    "scipy.signal": """
x, y, X, Y, X3 = normal(7), normal(3), normal(4, 5), normal(2, 3), normal(3, 4, 5)
c, CY, i, bf, h = x + 1j * x[::-1], Y + 1j * Y[::-1], jnp.arange(7), x.astype("bfloat16"), x.astype("float16")
long, two, win = normal(40), normal(2, 40), normal(8) ** 2
C, k, BF = long + 1j * long[::-1], jnp.arange(40), long.astype("bfloat16")
""",
    "scipy.fft": """
x, X, X3 = normal(7), normal(4, 5), normal(2, 3, 4)
c, i, iX = x + 1j * x[::-1], jnp.arange(6), jnp.arange(20).reshape(4, 5)
bf, h = x.astype("bfloat16"), x.astype("float16")
""",
    "scipy.ndimage": """
x, X, iX = normal(7), normal(4, 5), jnp.arange(20).reshape(4, 5)
co = [jnp.asarray(rng.uniform(-3, 7, size=(6,)), "float32") for _ in range(2)]
ci, bf, h = [jnp.array([0, 2, -1]), jnp.array([1, 3, 7])], x.astype("bfloat16"), x.astype("float16")
""",
    "scipy.integrate": "x, X = normal(7), normal(4, 5)",
    "scipy.interpolate": """
X, iX = normal(4, 5), jnp.arange(20).reshape(4, 5)
g = (jnp.array([0.0, 1, 2.5, 4]), jnp.array([-1.0, 0, 1, 2, 5]))
pts, R = jnp.asarray(rng.uniform(-1, 5, size=(6, 2)), "float32"), m.RegularGridInterpolator
""",
    "scipy.cluster.vq": "x, X, X3, iX = normal(7), normal(4, 5), normal(2, 3, 4), jnp.arange(20).reshape(4, 5)",
    "scipy.optimize": """
rosen = lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
quad = lambda x: jnp.sum((x - jnp.arange(x.size)) ** 2 * jnp.arange(1, x.size + 1))
him = lambda x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2
mat = lambda x: 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]
lb = "l-bfgs-experimental-do-not-rely-on-this"
core = lambda r: (r.x, r.success, r.status, r.nfev, r.njev, r.nit)
""",
    "scipy.sparse.linalg": """
X, Q, b = normal(4, 6), normal(5, 5), normal(5)
spd, q = Q @ Q.T + 5 * jnp.eye(5), Q + 5 * jnp.eye(5)
cq, cb = q + 1j * Q.T, b + 1j * b[::-1]
her = cq @ cq.conj().T
""",
    "scipy.spatial.transform": """
q, Q, v, V = normal(4), normal(5, 4), normal(3), normal(5, 3)
R, Sl, ang = m.Rotation, m.Slerp, jnp.asarray(rng.uniform(-3, 3, size=(5, 3)), "float32")
r, rs = R.from_quat(q), R.from_quat(Q)
one = jnp.array([[0.0, 0, 0, 1], [0, 0, 0, -1], [0, -1, 0, 0], [-1, 0, 0, 0]])
sl = Sl.init(jnp.arange(5.0), rs)
""",
    "image": """
X, iX, X3 = normal(4, 6), jnp.arange(24).reshape(4, 6), normal(2, 4, 5)
bf, h = X.astype("bfloat16"), X.astype("float16")
""",
}


def main(package: str, *options: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.outcomes import outcome

    if "--interpreted" in options:
        from support.interpreted_programs import install

        install()
    jax = importlib.import_module(package)
    results: dict[str, Any] = {}
    for module, lines in json.load(sys.stdin).items():
        names = {"jax": jax, "jnp": importlib.import_module(f"{package}.numpy"), "np": np, "lax": jax.lax}
        names["m"] = importlib.import_module(f"{package}.{module}")
        exec(COMMON + OPERANDS[module], names)
        results[module] = {line: outcome(line, names, jax.Array) for line in lines}
    parts = []
    for module, found in results.items():
        rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        parts.append(f"{json.dumps(module)}: {{\n{rows}\n}}")
    print("{\n" + ",\n".join(parts) + "\n}")


if __name__ == "__main__":
    main(*sys.argv[1:])
