"""Records modules as JAX exports them: jax_0_10_*.mlirbc.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/aot/data/record.py [--check]

The files have the places of the functions' source in them, which were others when the files were made; so --check
compares the modules without places. A test damages single bytes of one: look at it when you make them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir.dialects import stablehlo
from support.recording import arguments, keep

EXPORTED: dict[str, tuple[Callable[..., Any], Any]] = {}


def exported(name: str, *args: Any) -> Callable[[Any], Any]:
    """Export a function of arguments whose dtypes and shapes are written as "float32 2 5"."""

    def spec(text: str) -> jax.ShapeDtypeStruct:
        dtype, *shape = text.split()
        return jax.ShapeDtypeStruct(tuple(map(int, shape)), dtype)

    def keep_it(function: Callable[..., Any]) -> Callable[..., Any]:
        EXPORTED[name] = function, jax.tree.map(spec, args)
        return function

    return keep_it


@exported("layer", {"b": "float32 3", "w": "float32 5 3"}, "float32 2 5")
def f(p, x):
    return jax.nn.softmax(jnp.tanh(x @ p["w"] + p["b"]))


@exported("depthwise", "float16 1 3 4 3", "float16 2 2 1 3")
def f(x, w):  # noqa: F811  the names of the functions are in the files
    numbers = ("NHWC", "HWIO", "NHWC")
    options = {"feature_group_count": 3, "preferred_element_type": jnp.float32}
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=numbers, **options)


@exported("update", "float32 8 5", "float32 33")
def f(x, w):  # noqa: F811
    y = x * 2
    return y, y.at[1].set(7.0), jnp.cumsum(w)


@exported("steps", "float16 7", "bool 7")
def steps(x, m):
    x = x.astype(jnp.float32)
    return x[::2] * 3, jnp.where(m, 7.0, 3.0)[::3] + 1, (x + 1)[1::3].sum(), x[::2][::-1]


@exported("strided_window", "float32 4 5")
def strided(x):
    y = x * 2
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1), (1, 2), "VALID"), y


@exported("unsigned", "uint8 9", "uint16 4")
def folds(x, y):
    backwards, sums, products = x[::-1], jnp.cumsum(x, dtype=jnp.uint8), jnp.cumprod(x, dtype=jnp.uint8)
    largest, least = lax.cummax(x), lax.reduce_window(x, np.uint8(255), lax.min, (2,), (1,), "VALID")
    return backwards, sums, products, largest, least, lax.cummax(y, reverse=True)


@exported("trips", "float32 8", "float32 4", "int32 2")
def trips(x, w, p):
    y = x * 2
    one = lambda c, s: (c, jnp.sort(x.at[p].add(s)))
    two = lambda c, s: (c, jnp.sort(y.at[1].set(s)))
    return lax.scan(one, 0, w)[1], lax.scan(two, 0, w)[1]


@exported("shifts", "float32 33", "int32")
def all_(x, i):
    def shifts(x):
        y = x * 2
        smoothed, turned = y.at[1:-1].set((y[:-2] + y[2:]) / 2), y.at[:16].set(y[:16][::-1])
        placed = lax.dynamic_update_slice(y, lax.dynamic_slice(y, (0,), (32,)), (i,))
        return smoothed, y.at[1:].set(y[:-1]), turned, placed, y.at[:3].set(y[3:6])

    a = jnp.outer(x, x + 3)
    shifted = shifts(x)[0], *(shifts(x + k)[k] for k in range(1, 5))
    return *shifted, lax.dynamic_update_slice(a, a[:20, :29] * 2, (0, 1))


exported("signs", "uint8 5", "bool 5", "float32 5 5", "float32 0 5")(
    lambda u, m, w, e: (
        u.astype("float32") @ w,
        m.astype("float32") * w[0],
        m.astype("float32") @ w,
        jnp.dot(u, u, preferred_element_type=jnp.int32),
        m @ m,
        e.T @ e,
    )
)
exported("sum_of_products", "float32 7 5", "float32 5")(lambda a, v: (a * v).sum())
exported("paddings", "float32 4")(
    lambda x: (
        lax.pad(lax.pad(x, 0.0, [(0, 0, 1)]), 0.0, [(1, 2, 0)]),
        lax.pad(lax.pad(x, 0.0, [(1, 1, 0)]), 0.0, [(1, 2, 1)]),
    )
)


def without_places(code: bytes) -> str:
    with make_ir_context() as context:
        return str(stablehlo.deserialize_portable_artifact(context, code))


def main() -> None:
    options = arguments(__doc__)
    for name, (function, args) in EXPORTED.items():
        code = jax.export.export(jax.jit(function))(*args).mlir_module_serialized
        keep(Path(__file__).with_name(f"jax_0_10_{name}.mlirbc"), code, options, without_places)


if __name__ == "__main__":
    main()
