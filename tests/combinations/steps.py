"""Steps of small programs: what is put together in pairs and triples.

A step takes a matrix, and operands of its own that fit it. Those of `MIDDLES` return a matrix, so that another step may
follow; those of `ENDS` return anything. `PRODUCTS` are the places that an operand has in a product, which all
conversions reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from primitives import table_elementwise as elementwise
from primitives.table_elementwise import dtype_of

import veery
from veery import lax, numpy as jnp

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64".split()
ANY, NUMBERS, REALS, ORDERED, FLOATS, INTEGERS = "biufc", "iufc", "iuf", "biuf", "f", "iu"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """An operand beside the matrix: its shape from the matrix' one, its dtype ("" for the matrix' own), its limit."""

    shape: Callable[[int, int], Shape]
    dtype: str = ""
    below: int = 0


@dataclass(frozen=True, eq=False)
class Step:
    """One step.

    Attributes:
        name: for people; unique.
        fun: of the matrix and the operands.
        operands: what the function takes beside the matrix.
        kinds: of dtypes that it takes, as NumPy's letters; bfloat16 is an "f".
        dtypes: those that it takes where the kinds do not tell.
    """

    name: str
    fun: Callable[..., Any]
    operands: tuple[Operand, ...] = ()
    kinds: str = ANY
    dtypes: tuple[str, ...] = tuple(DTYPES)

    def takes(self, dtype: np.dtype) -> bool:
        return kind(dtype) in self.kinds and dtype.name in self.dtypes


def kind(dtype: np.dtype) -> str:
    return "f" if dtype.name == "bfloat16" else dtype.kind


def values(rng: np.random.Generator, shape: Shape, dtype: np.dtype, below: int = 0) -> np.ndarray:
    """Numbers of a dtype: indices below a limit, all bits of integers, floats of either sign about 1.

    Integers have few values at times and all at others; signs matter in one, conversions to small floats in the other.
    """
    if below:
        return rng.integers(0, below, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        near = rng.integers(max(limits.min, -128), min(limits.max, 255), shape, endpoint=True)
        return np.where(rng.random(shape) < 0.7, near, whole).astype(dtype)
    numbers = rng.normal(size=shape) * rng.choice([0.5, 1, 3], shape)
    if dtype.kind == "c":
        return (numbers + 1j * rng.normal(size=shape)).astype(dtype)
    return numbers.astype(dtype)


def _like(m: int, n: int) -> Shape:
    return m, n


SAME = Operand(_like)
MASK = Operand(_like, "bool")


def _product(name: str, fun: Callable[..., Any], *shapes: Callable[[int, int], Shape]) -> Step:
    return Step(f"product, {name}", fun, tuple(map(Operand, shapes)))


def _products() -> tuple[Step, ...]:
    step = _product

    def convolve(x: Any, k: Any) -> Any:
        layout = lax.conv_dimension_numbers(x.shape, k.shape, ("NHC", "HIO", "NHC"))
        return lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=layout)

    wide = {"b": "int32", "i": "int64", "u": "int64", "f": "float64", "c": "complex128"}
    return (
        step("left", lambda x, w: x @ w, lambda m, n: (n, 4)),
        step("right", lambda x, w: w @ x, lambda m, n: (2, m)),
        step("left transposed", lambda x, w: x.T @ w, lambda m, n: (m, 7)),
        step("right transposed", lambda x, w: w @ x.T, lambda m, n: (2, n)),
        step("both", lambda x: x @ x.T),
        step("matrix times vector", lambda x, v: x @ v, lambda m, n: (n,)),
        step("vector times matrix", lambda x, v: v @ x, lambda m, n: (m,)),
        step("left vector", lambda x, w: x[0] @ w, lambda m, n: (n, 17)),
        step("inner", lambda x, v: x[0] @ v, lambda m, n: (n,)),
        step("batch, left", lambda x, w: jnp.einsum("bi,bij->bj", x, w), lambda m, n: (m, n, 3)),
        step("batch, right", lambda x, w: jnp.einsum("bji,bi->bj", w, x), lambda m, n: (m, 3, n)),
        step("outer", lambda x, v: lax.dot_general(x, v, (((), ()), ((), ()))), lambda m, n: (3,)),
        step("image", lambda x, k: convolve(x[None], k), lambda m, n: (2, n, 3)),
        step("kernel", lambda x, y: convolve(y, x[:, :, None]), lambda m, n: (2, 9, n)),
        step("image and kernel", lambda x: convolve(x[None], x[:2, :, None])),
        step("left, summed wider", lambda x, w: lax.dot(x, w, preferred_element_type=wide[kind(x.dtype)]),
             lambda m, n: (n, 4)),
        Step("product, left, by a mask", lax.dot, (Operand(lambda m, n: (n, 4), "bool"),)),
        Step("product, right, of bytes", lambda x, w: lax.dot(w, x), (Operand(lambda m, n: (2, m), "uint8"),)),
        Step("product, left, by floats", lax.dot, (Operand(lambda m, n: (n, 5), "float32"),)),
        Step("product, right, of complex numbers", lambda x, w: lax.dot(w, x),
             (Operand(lambda m, n: (3, m), "complex64"),)),
    )  # fmt: skip


PRODUCTS = _products()
CONVERSIONS = tuple(Step(f"to {d}", lambda x, d=d: lax.convert_element_type(x, dtype_of(d))) for d in DTYPES)


def _loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: c * x + c[::-1], x)


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1]


def _while(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x), (0, x))[1]


def _plus_transpose(x: Any) -> Any:
    side = min(x.shape)
    return x[:side, :side] + x.T[:side, :side]


MOVES = (
    Step("transpose", lambda x: x.T),
    Step("reshape", lambda x: x.reshape(x.shape[1], x.shape[0])),
    Step("flatten and fold", lambda x: x.reshape(-1)[:, None]),
    Step("broadcast a row", lambda x: jnp.broadcast_to(x[:1], x.shape)),
    Step("broadcast a column", lambda x: lax.broadcast_in_dim(x[:, 0], (x.shape[0], 4), (0,))),
    Step("slice", lambda x: x[1:, :-1] if min(x.shape) > 1 else x[:]),
    Step("strided slice", lambda x: x[:, ::2]),
    Step("reverse", lambda x: x[::-1]),
    Step("strided slice, reversed", lambda x: x[:, ::-2]),
    Step("dynamic slice", lambda x, i: lax.dynamic_slice_in_dim(x, i, 1 + x.shape[0] // 2, 0),
         (Operand(lambda m, n: (), "int32", 3),)),
    Step("update of a slice", lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i)),
         (Operand(lambda m, n: (1, 1)), Operand(lambda m, n: (), "int32", 3))),
    Step("update from itself", lambda x: x.at[1:].set(x[:-1])),
    Step("smooth in place", lambda x: x.at[1:-1].set(x[2:] | x[:-2] if x.dtype == bool else x[2:] + x[:-2])),
    Step("pad", lambda x: jnp.pad(x, ((1, 2), (0, 1)))),
    Step("pad within and cut", lambda x: lax.pad(x, jnp.zeros((), x.dtype), [(-1, 2, 1), (2, -1, 0)])),
    Step("concatenate", lambda x, y: jnp.concatenate([x, y, x[::-1]], 0), (SAME,)),
    Step("roll", lambda x: jnp.roll(x, 1, 1)),
    Step("gather rows", lambda x, i: x[i], (Operand(lambda m, n: (4,), "int32", 3),)),
    Step("gather columns", lambda x, i: jnp.take(x, i, 1), (Operand(lambda m, n: (2,), "int64", 3),)),
    Step("select", lambda x, m, y: jnp.where(m, x, y), (MASK, SAME)),
    Step("select a row or zero", lambda x, m: jnp.where(m[:, None], x, jnp.zeros((), x.dtype)),
         (Operand(lambda m, n: (m,), "bool"),)),
    Step("repeat", lambda x: jnp.repeat(x, 2, 0)),
)  # fmt: skip

ARITHMETIC = (
    Step("add", lambda x, y: x + y, (SAME,), NUMBERS),
    Step("subtract a row", lambda x, y: x - y, (Operand(lambda m, n: (n,)),), NUMBERS),
    Step("multiply", lambda x, y: x * y, (SAME,), NUMBERS),
    Step("multiply by a mask", lambda x, m: x * m, (MASK,), NUMBERS),
    Step("square of the reverse", lambda x: x * x[::-1, ::-1], (), NUMBERS),
    Step("compare", lambda x, y: x > y, (SAME,), ORDERED),
    Step("clamp", lambda x: jnp.clip(x, 1, 3), (), REALS),
    Step("iota added", lambda x: x + lax.broadcasted_iota(x.dtype, x.shape, 1), (), REALS),
    Step("one-hot", lambda x: x[:, :1] == jnp.arange(4).astype(x.dtype), (), ORDERED),
    Step("triangle", lambda x: jnp.tril(x)),
    Step("times a constant table", lambda x: x * jnp.array([2, -1]).astype(x.dtype)[:, None, None].sum(0), (), NUMBERS),
    Step("negate and exponential", lambda x: jnp.exp(-abs(x)), (), FLOATS),
    Step("plus its transpose", _plus_transpose, (), NUMBERS),
    Step("complex conjugate", lambda x: jnp.conj(x) * 1j, (), "fc"),
    Step("identity minus it", lambda x: jnp.eye(*x.shape, dtype=x.dtype) - x, (), NUMBERS),
    Step("shift and mask", lambda x: (x >> 1) & 0x55, (), INTEGERS),
    Step("bits", lambda x: lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}"), (), "iuf"),
)  # fmt: skip

COLLECTIONS = (
    Step("less its maximum", lambda x: x - x.max(axis=1, keepdims=True), (), REALS),
    Step("times its sum", lambda x: x * x.sum(axis=0), (), NUMBERS),
    Step("plus its total", lambda x: x + x.sum(), (), NUMBERS),
    Step("sums against sums", lambda x: x.sum(1)[:, None] - x.sum(1), (), NUMBERS),
    Step("largest times largest", lambda x: x.max(0)[:, None] * x.max(0), (), REALS),
    Step("distances", lambda x: (x * x).sum(1)[:, None] + (x * x).sum(1) - 2 * x @ x.T, (), NUMBERS),
    Step("rows scaled", lambda x: x / (1 + abs(x).sum(1, keepdims=True)), (), FLOATS),
    Step("cumulative sum", lambda x: lax.cumsum(x, 0), (), NUMBERS),
    Step("cumulative maximum, reversed", lambda x: lax.cummax(x, 1, reverse=True), (), REALS),
    Step("sort", lambda x: jnp.sort(x, 1), (), ORDERED),
    Step("window maximum", lambda x: lax.reduce_window(x, _lowest(x.dtype), lax.max, (2, 2), (1, 1), "SAME"), (),
         REALS),
    Step("window sum", lambda x: lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, (1, 2), (1, 1), "VALID"), (),
         REALS),
    Step("scatter into it", lambda x, i, u: x.at[i].add(u), (Operand(lambda m, n: (2,), "int32", 3),
                                                             Operand(lambda m, n: (2, n))), NUMBERS),
    Step("scatter of it", lambda x, i: jnp.zeros((4, x.shape[1]), x.dtype).at[i].set(x),
         (Operand(lambda m, n: (m,), "int32", 4),)),
    Step("product", lambda x, w: x @ w, (Operand(lambda m, n: (n, 3)),)),
    Step("scan", _scan, (), NUMBERS),
    Step("loop", _loop, (), NUMBERS),
    Step("while loop", _while, (), NUMBERS),
    Step("branch", lambda x, i: lax.switch(i, [lambda x: x + x, lambda x: x * x, lambda x: -x], x),
         (Operand(lambda m, n: (), "int32", 3),), NUMBERS),
)  # fmt: skip

MIDDLES = (*MOVES, *ARITHMETIC, *COLLECTIONS)

ENDS = (
    _product("right vector", lambda x, w: w @ x[0], lambda m, n: (17, n)),
    _product("batch of matrices", lambda x, w: jnp.stack([x, x]) @ w, lambda m, n: (2, n, 3)),
    _product("two axes", lambda x, w: jnp.tensordot(x, w, 2), lambda m, n: (m, n, 3)),
    _product("one term", lambda x, w: x[:, :1] @ w, lambda m, n: (1, 5)),
    Step("sum", lambda x: x.sum()),
    Step("sum with a row", lambda x, v: (x * v).sum(), (Operand(lambda m, n: (n,)),), NUMBERS),
    Step("sum with a column", lambda x, v: (x * v).sum(), (Operand(lambda m, n: (m, 1)),), NUMBERS),
    Step("sum of rows", lambda x: x.sum(0)),
    Step("sum of columns", lambda x: x.sum(1)),
    Step("mean", lambda x: x.mean(1), (), NUMBERS),
    Step("maximum", lambda x: x.max(1), (), ORDERED),
    Step("minimum", lambda x: x.min(), (), ORDERED),
    Step("place of the maximum", lambda x: jnp.argmax(x, 0), (), ORDERED),
    Step("any and all", lambda x: (x != 0).any(0) ^ (x != 0).all(0)),
    Step("count", lambda x: (x != 0).sum(1)),
    Step("indices", lambda x, t: t[jnp.clip(x, 0, 4).astype("int32")], (Operand(lambda m, n: (5, 2), "float32"),),
         REALS),
    Step("predicate", lambda x, a, b: jnp.where(x != 0, a, b), (Operand(_like, "float32"),) * 2),
    Step("updates of a scatter", lambda x, i: jnp.zeros(x.shape[1], x.dtype).at[i].add(x),
         (Operand(lambda m, n: (m, n), "int32", 3),), NUMBERS),
    Step("places of a scatter", lambda x, u: jnp.zeros(6, "float32").at[x.astype("int32")].add(u, mode="drop"),
         (Operand(_like, "float32"),), ORDERED),
    Step("keys of a sort", lambda x, y: lax.sort((x, y), num_keys=1)[1], (Operand(_like, "int32"),), ORDERED),
    Step("order", lambda x: jnp.argsort(x, 0), (), ORDERED),
    Step("largest", lambda x: lax.top_k(x, 2 if x.shape[1] > 1 else 1)[0], (), REALS),
    Step("start of a scan", lambda x, y: lax.scan(lambda c, r: (c + r, c[0]), x, y)[1], (SAME,), NUMBERS),
    Step("input of a scan", lambda x: lax.scan(lambda c, r: (c + r.sum(), r[::-1]), jnp.zeros((), x.sum().dtype), x),
         (), NUMBERS),
    Step("constant of a scan", lambda x, y: lax.scan(lambda c, r: (c * r + x[0], x @ r), x[0], y),
         (Operand(lambda m, n: (2, n)),), NUMBERS),
    Step("cumulative log of sums", lambda x: lax.cumlogsumexp(x, 0), (), FLOATS),
    Step("norm", lambda x: jnp.sqrt((x * x).sum(1)) / 3, (), FLOATS),
    Step("real and imaginary parts", lambda x: (x.real, x.imag), (), "c"),
)  # fmt: skip


def _lowest(dtype: np.dtype) -> Any:
    return np.array(-np.inf).astype(dtype) if kind(dtype) == "f" else np.array(np.iinfo(dtype).min, dtype)


def _of_row(row: elementwise.Row, number: int) -> Step:
    """An elementwise primitive of the table of samples as a step."""
    dtypes = tuple(name for name in (row.dtypes if row.compiled is None else row.compiled) if name in DTYPES)
    bind = lambda x, *ys: row.primitive.bind(x, *ys, **row.params[0])
    return Step(f"{row.name} {number}", bind, (SAME,) * (len(row.domains) - 1), ANY, dtypes)


ELEMENTWISE = tuple(
    _of_row(row, i)
    for i, row in enumerate(elementwise.ROWS)
    if row.operands is None and row.name not in ("convert_element_type", "igamma", "igammac", "igamma_grad_a")
)


@dataclass(frozen=True, eq=False)
class Program:
    """Steps one after the other, as a function, with operands."""

    name: str
    fun: Callable[..., Any]
    operands: tuple[np.ndarray, ...]


def program(steps: Sequence[Step], shape: Shape, dtype: str, rng: np.random.Generator) -> Program | None:
    """A program of some steps on a matrix; None where a step does not take what comes before.

    Of a part of them, what the steps in between give is a result too: the compiler fuses those in another way.
    """
    arrays = [values(rng, shape, dtype_of(dtype))]
    aval = veery.ShapeDtypeStruct(shape, dtype_of(dtype))
    counts = []
    for step in steps:
        if len(aval.shape) != 2 or 0 in aval.shape or not step.takes(np.dtype(aval.dtype)):
            return None
        own = [values(rng, o.shape(*aval.shape), np.dtype(dtype_of(o.dtype) if o.dtype else aval.dtype), o.below)
               for o in step.operands]  # fmt: skip
        aval = veery.eval_shape(step.fun, aval, *own)
        arrays += own
        counts.append(len(own))
        if not hasattr(aval, "shape"):  # several results: the last step
            assert step is steps[-1]

    all_of_them = bool(rng.random() < 0.4)

    def fun(x: Any, *others: Any) -> Any:
        left, given = list(others), []
        for step, count in zip(steps, counts):
            x = step.fun(x, *left[:count])
            del left[:count]
            given.append(x)
        return given if all_of_them else x

    name = f"{dtype}{list(shape)}: " + (" => " if all_of_them else " -> ").join(step.name for step in steps)
    return Program(name, fun, tuple(arrays))
