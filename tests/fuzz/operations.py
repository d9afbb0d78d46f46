"""The operations of random graphs: each draws itself and its operands from the values so far, or gives None.

Values stay of moderate size, so that overflow does not hide what follows; each operation is valid in JAX for the
operands that it chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw, as_dtype, ml_dtypes_kind
from veery import lax, nn

Drawn = tuple[Callable[..., Any], tuple[int, ...]] | None
Operation = Callable[[Draw, Any], Drawn]

OPERATIONS: list[Operation] = []
_UNARY = {
    "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh, "neg": lambda x: -x, "abs": jnp.abs, "square": jnp.square,
    "exp": lambda x: jnp.exp(-jnp.abs(x)), "log": lambda x: jnp.log(x * x + 1), "sqrt": lambda x: jnp.sqrt(x * x + 1),
    "rsqrt": lambda x: lax.rsqrt(x * x + 1), "logistic": nn.sigmoid, "erf": lax.erf,
    "log1p": lambda x: jnp.log1p(x * x), "expm1": lambda x: jnp.expm1(-x * x), "atan": jnp.arctan,
    "cbrt": lambda x: jnp.cbrt(x * x + 1), "sign": jnp.sign,
    "floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round, "relu": nn.relu, "softplus": nn.softplus,
    "reciprocal": lambda x: 1 / (x * x + 1), "asinh": jnp.arcsinh, "sinh": lambda x: jnp.sinh(jnp.tanh(x)),
    "cube": lambda x: lax.integer_pow(jnp.tanh(x), 3), "asin": lambda x: jnp.arcsin(0.9 * jnp.tanh(x)),
    "nan": lambda x: jnp.nan_to_num(jnp.where(x > 1, jnp.inf, x), posinf=2.0),
}  # fmt: skip
_COMPLEX = {
    "conj": jnp.conj, "real": jnp.real, "imag": jnp.imag, "abs": lambda x: jnp.sqrt(jnp.real(x * jnp.conj(x)) + 0.1),
    "exp": lambda x: jnp.exp(x / (1 + jnp.abs(x))), "tanh": lambda x: x / (1 + jnp.abs(x)), "neg": lambda x: -x,
    "sin": lambda x: jnp.sin(x / (1 + jnp.abs(x))), "square": lambda x: x * x / 4,
}  # fmt: skip
_INTEGER = {
    "neg": lambda x: -x, "abs": jnp.abs, "not": lambda x: ~x, "popcount": lax.population_count, "clz": lax.clz,
    "square": lambda x: x * x, "left": lambda x: x << 2, "right": lambda x: x >> 1, "sign": jnp.sign,
    "rem": lambda x: x % 7, "div": lambda x: x // 3, "logical": lambda x: lax.shift_right_logical(x, jnp.ones_like(x)),
}  # fmt: skip
_BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "max": jnp.maximum, "min": jnp.minimum,
    "div": lambda x, y: x / (y * y + 1), "atan2": lambda x, y: jnp.arctan2(x, y * y + 1),
    "pow": lambda x, y: (x * x + 0.5) ** jnp.tanh(y), "hypot": lambda x, y: jnp.sqrt(x * x + y * y + 0.1),
    "logaddexp": jnp.logaddexp, "rem": lambda x, y: lax.rem(x, y * y + 1),
}  # fmt: skip
_COMPLEX_BINARY = {"add": jnp.add, "sub": jnp.subtract, "mul": lambda x, y: x * y / 2}
_INTEGER_BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "max": jnp.maximum, "min": jnp.minimum,
    "and": jnp.bitwise_and, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor, "shift": lambda x, y: x << (y & 3),
}  # fmt: skip
_COMPARE = (jnp.less, jnp.less_equal, jnp.greater, jnp.greater_equal, jnp.equal, jnp.not_equal)


def operation(draw: Operation) -> Operation:
    OPERATIONS.append(draw)
    return draw


def kind_of(pool: Any, i: int) -> str:
    return ml_dtypes_kind(pool.types[i].dtype)


@operation
def unary(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iufc")
    if i is None:
        return None
    table = {"f": _UNARY, "c": _COMPLEX, "i": _INTEGER, "u": _INTEGER}[kind_of(pool, i)]
    return table[draw.pick(*table)], (i,)


@operation
def another_unary(draw: Draw, pool: Any) -> Drawn:
    return unary(draw, pool)


@operation
def binary(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iufc")
    if i is None:
        return None
    table = {"f": _BINARY, "c": _COMPLEX_BINARY, "i": _INTEGER_BINARY, "u": _INTEGER_BINARY}[kind_of(pool, i)]
    return table[draw.pick(*table)], (i, pool.like(i))


@operation
def convert(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose()
    if i is None:
        return None
    kind = kind_of(pool, i)
    names = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"]
    names += ["float16", "bfloat16", "float32", "complex64"]
    names += ["int64", "uint64", "float64", "complex128"] if draw.wide else []
    to = as_dtype(draw.pick(*names, draw.float, draw.float, draw.float))
    wanted = ml_dtypes_kind(to)
    if kind in "fc" and wanted in "iu":
        low = 0 if wanted == "u" else -100
        return lambda x: jnp.clip(jnp.round(jnp.real(x) * 4), low, 100).astype(to), (i,)
    if kind == "c" and wanted != "c":
        return lambda x: jnp.imag(x).astype(to), (i,)
    if kind in "iu" and wanted == "f" and to.itemsize == 2:  # where numbers end at 65504
        return lambda x: (x & x.dtype.type(127)).astype(to), (i,)
    return lambda x: x.astype(to), (i,)


@operation
def to_floats(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("biu")
    if i is None:
        return None
    bits = kind_of(pool, i) in "iu" and np.dtype(pool.types[i].dtype).itemsize > 1
    to = as_dtype(draw.float)
    return lambda x: ((x & x.dtype.type(255)) if bits else x).astype(to) / 8, (i,)


@operation
def broadcast_binary(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f", 1)
    if i is None:
        return None
    axis, keep = draw.integer(0, len(pool.types[i].shape) - 1), draw.chance(0.5)
    small_sum = lambda x, a, keepdims: jnp.tanh(jnp.sum(x, a, keepdims=keepdims))
    how, fold = draw.pick("add", "mul", "sub"), draw.pick(jnp.mean, jnp.max, jnp.min, small_sum)

    def fun(x):
        y = fold(x, axis, keepdims=True) if keep else fold(x, None, keepdims=False)
        return x + y if how == "add" else x - y if how == "sub" else x * y

    return fun, (i,)


@operation
def outer(draw: Draw, pool: Any) -> Drawn:
    i, j = pool.choose("f", 1), pool.choose("f", 1)
    if i is None or pool.types[i].dtype != pool.types[j].dtype:
        return None
    how = draw.pick(jnp.multiply, jnp.add, jnp.maximum)
    return lambda x, y: how(x.reshape(-1)[:33, None], y.reshape(-1)[:33]), (i, j)


@operation
def transpose(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=2)
    if i is None:
        return None
    order = draw.permutation(len(pool.types[i].shape))
    return lambda x: jnp.transpose(x, order), (i,)


@operation
def reshape(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None:
        return None
    shape = pool.types[i].shape
    n = int(np.prod(shape))
    factors = [k for k in (1, 2, 3, 5, 7, 13) if n % k == 0]
    k = draw.pick(*factors)
    new = draw.pick((n,), (k, n // k), (n // k, k), (1, *shape), (*shape, 1), (n // k, 1, k))
    return lambda x: x.reshape(new), (i,)


@operation
def strided_slice(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None:
        return None
    index: list[Any] = []
    for size in pool.types[i].shape:
        start = draw.integer(0, size - 1)
        stop = draw.integer(start + 1, size)
        step = draw.pick(1, 1, 2, 3, -1, -1, -2)
        index.append(draw.pick(slice(None), slice(start, stop, step) if step > 0 else slice(None, None, step)))
    if draw.chance(0.2):
        index[draw.integer(0, len(index) - 1)] = draw.pick(0, -1)
    if draw.chance(0.15):
        index.insert(draw.integer(0, len(index)), None)
    return lambda x: x[tuple(index)], (i,)


@operation
def pad(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("biuf", 1)
    if i is None:
        return None
    rank = len(pool.types[i].shape)
    if draw.chance(0.5):
        config = [(draw.integer(0, 2), draw.integer(0, 2), draw.integer(0, 1)) for _ in range(rank)]
        return lambda x: lax.pad(x, jnp.zeros((), x.dtype), config), (i,)
    if min(pool.types[i].shape) < 2:
        return None
    mode = draw.pick("edge", "wrap", "reflect", "symmetric", "constant")
    widths = [(draw.integer(0, 1), draw.integer(0, 1)) for _ in range(rank)]
    return lambda x: jnp.pad(x, widths, mode=mode), (i,)


@operation
def concatenate(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None:
        return None
    axis = draw.integer(0, len(pool.types[i].shape) - 1)
    j, back = pool.like(i), draw.chance(0.4)
    join = draw.pick(jnp.concatenate, jnp.stack)
    return lambda x, y: join([x, jnp.flip(y, axis) if back else y], axis), (i, j)


@operation
def gather(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None:
        return None
    shape = pool.types[i].shape
    axis = draw.integer(0, len(shape) - 1)
    index = draw.integers(-shape[axis], shape[axis], *draw.pick((draw.size(7),), (2, 3), ()), dtype="int32")
    j = pool.choose("iu", 1)
    if j is not None and draw.chance(0.5):
        size = shape[axis]
        places = lambda k: (k.reshape(-1)[:17] % k.dtype.type(min(size, 100))).astype("int32")
        return lambda x, k: jnp.take(x, places(k), axis), (i, j)
    return lambda x: jnp.take(x, index % shape[axis], axis) if index.ndim else jnp.moveaxis(x, axis, 0)[index], (i,)


@operation
def scatter(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iuf", 1)
    if i is None:
        return None
    size = pool.types[i].shape[0]
    index = draw.integers(0, size, draw.size(7), dtype="int32")
    how = draw.pick("add", "max", "min", "multiply", "set")
    if how == "set":
        index = np.unique(index)

    def fun(x):
        updates = x[::-1][(jnp.arange(len(index)) * 3) % size]
        if how == "multiply":
            updates = jnp.sign(updates)
        return getattr(x.at[index], how)(updates)

    return fun, (i,)


@operation
def update_from_itself(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None or pool.types[i].shape[0] < 2:
        return None
    n = pool.types[i].shape[0]
    size = draw.integer(1, n - 1)
    source, target = draw.integer(0, n - size), draw.integer(0, n - size)
    how = draw.pick("as it is", "turned about", "added", "at a computed place")

    def fun(x):
        part = x[source : source + size]
        if how == "turned about":
            part = part[::-1]
        elif how == "added":
            part = part | x[:size] if x.dtype == bool else part + x[:size]
        elif how == "at a computed place":
            place = target + (jnp.abs(x.reshape(-1)[0]) > 0).astype("int32") * 0
            return lax.dynamic_update_slice_in_dim(x, part, place, 0)
        return x.at[target : target + size].set(part)

    return fun, (i,)


@operation
def where(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose()
    if i is None:
        return None
    how = draw.pick("iota", "compare", "mask")
    j, modulus = pool.like(i), draw.integer(2, 3)

    def fun(x, y):
        if how == "iota":
            condition = jnp.arange(x.size).reshape(x.shape) % modulus == 0
        elif how == "compare" and not jnp.iscomplexobj(x):
            condition = x > y[(slice(None, None, -1),) * y.ndim]
        else:
            condition = x != y.reshape(-1)[0] if y.size else x == x
        return jnp.where(condition, x, draw_constant(x.dtype) if how == "mask" else y)

    return fun, (i, j)


def draw_constant(dtype: Any) -> np.ndarray:
    return np.asarray(1, dtype)


@operation
def select(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("b")
    if i is None:
        return None
    j = pool.like(i, same_dtype=False)
    k = pool.like(j)
    return lambda p, x, y: jnp.where(p, x, y), (i, j, k)


@operation
def compare(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iuf")
    return None if i is None else (draw.pick(*_COMPARE), (i, pool.like(i)))


@operation
def logic(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("b")
    if i is None:
        return None
    return draw.pick(jnp.logical_and, jnp.logical_or, jnp.logical_xor, lambda x, y: ~x | y), (i, pool.like(i))


@operation
def iota(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iuf", 1)
    if i is None:
        return None
    axis = draw.integer(0, len(pool.types[i].shape) - 1)
    kind = draw.pick("add", "eye", "tri")

    def fun(x):
        if kind == "add" or x.ndim < 2:
            return x + lax.broadcasted_iota(x.dtype, x.shape, axis) % x.dtype.type(13)
        if kind == "tri":
            return jnp.tril(x) if axis else jnp.triu(x, 1)
        return x * jnp.eye(x.shape[-2], x.shape[-1], dtype=x.dtype) + x

    return fun, (i,)


@operation
def constant(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f")
    if i is None:
        return None
    values = draw.normal(*pool.types[i].shape, dtype="float32").astype(pool.types[i].dtype)
    return draw.pick(lambda x: x + values, lambda x: x * values, lambda x: jnp.where(values > 0, x, values)), (i,)


@operation
def reduction(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose(least_rank=1)
    if i is None:
        return None
    rank, kind = len(pool.types[i].shape), kind_of(pool, i)
    axes = tuple(draw.subset(range(rank)))
    if kind == "b":
        fold = draw.pick(jnp.any, jnp.all, jnp.sum, lambda x, a, keepdims: jnp.argmax(x, a[0], keepdims=keepdims))
    elif kind == "c":
        fold = jnp.mean
    elif kind in "iu":
        first_least = lambda x, a, keepdims: jnp.argmin(x, a[0], keepdims=keepdims)
        fold = draw.pick(jnp.sum, jnp.max, jnp.min, jnp.prod, first_least)
    else:
        fold = draw.pick(
            jnp.mean, jnp.max, jnp.min, nn.logsumexp, jnp.var, jnp.nanmax,
            lambda x, a, keepdims: jnp.prod(jnp.tanh(x) + 0.5, a, keepdims=keepdims),
            lambda x, a, keepdims: jnp.nansum(jnp.where(x > 2, jnp.nan, x), a, keepdims=keepdims) / 10,
            lambda x, a, keepdims: jnp.argmax(x, a[0], keepdims=keepdims),
        )  # fmt: skip
    keep = draw.chance(0.4)
    return lambda x: fold(x, axes, keepdims=keep), (i,)


@operation
def cumulative(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iuf", 1)
    if i is None:
        return None
    axis, reverse = draw.integer(0, len(pool.types[i].shape) - 1), draw.chance(0.4)
    if kind_of(pool, i) == "f":
        fold = draw.pick(
            lambda x: lax.cumsum(x, axis, reverse) / x.shape[axis], lambda x: lax.cummax(x, axis, reverse),
            lambda x: lax.cummin(x, axis, reverse), lambda x: lax.cumlogsumexp(x, axis, reverse),
            lambda x: lax.cumprod(jnp.tanh(x) + 0.4, axis, reverse),
        )  # fmt: skip
    else:
        fold = draw.pick(lambda x: lax.cumsum(x, axis, reverse), lambda x: lax.cummax(x, axis, reverse))
    return fold, (i,)


@operation
def sorting(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iuf", 1)
    if i is None:
        return None
    axis = draw.integer(0, len(pool.types[i].shape) - 1)
    how = draw.pick("sort", "argsort", "top_k", "pairs", "descending")
    k = draw.integer(1, min(pool.types[i].shape[-1], 5))

    def fun(x):
        if how == "sort":
            return jnp.sort(x, axis)
        if how == "argsort":
            return jnp.argsort(x, axis)
        if how == "descending":
            return jnp.sort(x, axis)[::-1]
        if how == "top_k":
            return lax.top_k(x, k)[0]
        return lax.sort((x, x * x), dimension=axis, num_keys=1)[1]

    return fun, (i,)


@operation
def product(draw: Draw, pool: Any) -> Drawn:
    """A product of two matrices: values as they are, masks, bytes, one-hots, transposed or not."""
    i, j = pool.choose("biufc", 1), pool.choose("fc", 1)
    if j is None:
        return None
    if draw.chance(0.4):
        i, j = j, i
    to = as_dtype(draw.complex if "c" in (kind_of(pool, i), kind_of(pool, j)) else draw.float)
    turned, flipped = draw.chance(0.5), draw.chance(0.3)

    def matrix(x):
        x = x.reshape(-1, x.shape[-1])[:33] if x.ndim > 1 else x[None, :]
        return x.astype(to) / 64 if x.dtype.kind in "iu" and x.dtype.itemsize > 1 else x.astype(to)

    def fun(x, y):
        a, b = matrix(x), matrix(y)
        if turned:
            a = a.T
        n = min(a.shape[1], b.shape[0])
        out = a[:, :n] @ b[:n] / max(n, 1)
        return out.T if flipped else out

    return fun, (i, j)


@operation
def another_product(draw: Draw, pool: Any) -> Drawn:
    return product(draw, pool)


@operation
def einsum(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f", 2)
    if i is None:
        return None
    rank = len(pool.types[i].shape)
    letters = "abc"[:rank] if rank <= 3 else None
    if letters is None or pool.types[i].shape[-1] > 64:
        return None
    spell = draw.pick(
        f"{letters},{letters[:-1]}z->z{letters[0]}", f"{letters},{letters[:-1]}z->{letters[:-1]}z",
        f"{letters},{letters[:-1]}z->{letters[-1]}z", f"{letters},{letters[:-1]}z->{letters[0]}",
    )  # fmt: skip
    return lambda x: jnp.einsum(spell, x, jnp.flip(x, -1)) / x.size**0.5, (i,)


@operation
def integer_product(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iu", 1)
    if i is None:
        return None
    j = pool.like(i)

    def fun(x, y):
        a, b = (z.reshape(-1, z.shape[-1])[:33] for z in (x, y))
        return lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)

    if np.dtype(pool.types[i].dtype).itemsize > 2:
        return lambda x, y: x.reshape(-1, x.shape[-1])[:33] @ y.reshape(-1, y.shape[-1])[:33].T, (i, j)
    return fun, (i, j)


@operation
def one_hot(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iu")
    if i is None:
        return None
    k, to = draw.size(13), as_dtype(draw.float)
    return lambda x: nn.one_hot((x & x.dtype.type(7)).astype("int32"), k, dtype=to), (i,)


@operation
def window(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f", 1)
    if i is None:
        return None
    shape = pool.types[i].shape
    sizes = tuple(draw.integer(1, min(3, s)) for s in shape)
    strides = tuple(draw.integer(1, 2) for _ in shape)
    padding, kind = draw.pick("VALID", "SAME"), draw.pick("max", "min", "sum")

    def fun(x):
        if kind == "sum":
            total = lax.reduce_window(x, x.dtype.type(0), lax.add, sizes, strides, padding)
            return total / np.prod(sizes).astype(x.dtype)
        if kind == "max":
            return lax.reduce_window(x, x.dtype.type(-np.inf), lax.max, sizes, strides, padding)
        return lax.reduce_window(x, x.dtype.type(np.inf), lax.min, sizes, strides, padding)

    return fun, (i,)


@operation
def convolve(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f", 2)
    if i is None:
        return None
    k, padding, stride = draw.integer(1, 3), draw.pick("SAME", "VALID"), draw.integer(1, 2)
    channels = draw.integer(1, 3)
    if pool.types[i].shape[-1] < k:
        return None

    def fun(x):
        y = x.reshape(-1, 1, x.shape[-1])[:5]
        kernel = (jnp.arange(channels * k).reshape(channels, 1, k) / (channels * k)).astype(x.dtype)
        return lax.conv_general_dilated(y, kernel, (stride,), padding)

    return fun, (i,)


@operation
def loop(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f", 1)
    if i is None:
        return None
    how, reverse, trips = draw.pick("scan", "carry", "fori", "map"), draw.chance(0.4), draw.integer(1, 4)

    def fun(x):
        if x.shape[0] > 17 and how != "fori":
            x = x[:17]
        if how == "scan":
            return lax.scan(lambda c, a: (c * 0.5 + a, c * a), jnp.zeros_like(x[0]), x, reverse=reverse)[1]
        if how == "carry":
            step = lambda c, a: (jnp.tanh(c + a.sum()) * 0.5 + a, None)
            return lax.scan(step, jnp.ones_like(x[0]), x, reverse=reverse)[0]
        if how == "map":
            return lax.map(lambda a: jnp.cumsum(jnp.sin(a).reshape(-1)) / max(a.size, 1), x)
        return lax.fori_loop(0, trips, lambda k, s: 0.8 * jnp.sin(s) + (0.1 * k).astype(s.dtype) * x, x)

    return fun, (i,)


@operation
def branch(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f")
    if i is None:
        return None
    j, how = pool.like(i), draw.pick("cond", "switch", "mapped")

    def fun(x, y):
        if how == "cond":
            return lax.cond(x.sum() > y.sum(), lambda x, y: jnp.sin(x) + y, lambda x, y: x * 0.5, x, y)
        if how == "mapped" and x.ndim:
            one = lambda a, b: lax.cond(a.sum() > 0, lambda a, b: a * b, lambda a, b: jnp.cos(b), a, b)
            return jax.vmap(one)(x, y)
        index = jnp.clip(jnp.round(x.sum()), 0, 2).astype("int32")
        return lax.switch(index, [lambda x, y: x, lambda x, y: x * y, lambda x, y: jnp.tanh(y)], x, y)

    return fun, (i, j)


@operation
def bits(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("iu")
    if i is None:
        return None
    dtype = np.dtype(pool.types[i].dtype)
    to = np.dtype(f"{'u' if dtype.kind == 'i' else ''}int{8 * dtype.itemsize}")
    return lambda x: lax.bitcast_convert_type(x, to), (i,)


@operation
def complex_of(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f")
    if i is None or np.dtype(pool.types[i].dtype).itemsize < 4:
        return None
    return lax.complex, (i, pool.like(i))


@operation
def fourier(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("c", 1)
    if i is None or pool.types[i].shape[-1] > 64:
        return None
    how = draw.pick(jnp.fft.fft, jnp.fft.ifft)
    return lambda x: how(x) / x.shape[-1] ** 0.5, (i,)


@operation
def random_numbers(draw: Draw, pool: Any) -> Drawn:
    i = pool.choose("f")
    if i is None or np.dtype(pool.types[i].dtype).itemsize < 4:
        return None
    seed = draw.integer(0, 99)
    return lambda x: x + jax.random.uniform(jax.random.key(seed), x.shape, x.dtype), (i,)
