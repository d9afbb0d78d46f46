"""Integers: tricks with bits, sorting by digits, hashing, counting."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def radix_sort(draw: Draw) -> Made:
    n, digit = draw.size(33), draw.pick(1, 2)

    def fun(keys, payload):
        def one_pass(i, state):
            keys, payload = state
            bucket = (keys >> (digit * i).astype(keys.dtype)) & (2**digit - 1)
            hot = (bucket[:, None] == jnp.arange(2**digit, dtype=keys.dtype)).astype("int32")
            before = jnp.cumsum(hot, 0) - hot
            starts = jnp.cumsum(hot.sum(0)) - hot.sum(0)
            place = jnp.sum(hot * (before + starts), 1)
            return jnp.zeros_like(keys).at[place].set(keys), jnp.zeros_like(payload).at[place].set(payload)

        return lax.fori_loop(0, 8 // digit, one_pass, (keys, payload))

    return fun, (draw.integers(0, 256, n, dtype="uint32"), draw.normal(n))


@template()
def hash_mixing(draw: Draw) -> Made:
    n = draw.size(129)
    rounds = draw.integer(1, 4)

    def fun(x, w):
        for i in range(rounds):
            x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B + 2 * i)
            x = (x << 13) | (x >> 19)
        low = (x & 0xFF).astype(w.dtype) / 256
        return x, low @ w, lax.population_count(x)

    return fun, (draw.bits(n), draw.normal(n, draw.size(5)))


@template()
def bit_planes(draw: Draw) -> Made:
    n, m = draw.size(33), draw.size(17)
    kind = draw.pick("uint8", "uint16", "int8", "uint32")

    def fun(x, w):
        bits = (x[:, None] >> jnp.arange(8, dtype=x.dtype)) & 1
        packed = jnp.sum(bits.astype(jnp.int32) << jnp.arange(8), 1)
        return bits.astype(w.dtype) @ w, packed, bits.astype(bool).any(1)

    return fun, (draw.bits(n, dtype=kind), draw.normal(8, m))


@template()
def image_bytes(draw: Draw) -> Made:
    n, d, k = draw.size(17), draw.size(64), draw.size(13)
    how = draw.pick("scale", "centre", "raw")
    kind = draw.pick("uint8", "uint16")

    def fun(x, w):
        y = x.astype(w.dtype)
        if how == "scale":
            y = y / 255
        elif how == "centre":
            y = (y - y.mean()) / (y.std() + 1)
        return y @ w / 100

    return fun, (draw.integers(0, 256, n, d, dtype=kind), draw.normal(d, k))


@template()
def histogram(draw: Draw) -> Made:
    n, k = draw.size(129), draw.size(17, least=2)
    how = draw.pick("scatter", "compare", "bincount", "sorted")

    def fun(x, weights):
        bins = jnp.clip(jnp.floor((jnp.tanh(x) + 1) / 2 * k), 0, k - 1).astype("int32")
        if how == "scatter":
            return jnp.zeros(k, weights.dtype).at[bins].add(weights)
        if how == "compare":
            return jnp.sum((bins[:, None] == jnp.arange(k)) * weights[:, None], 0)
        if how == "bincount":
            return jnp.bincount(bins, length=k), bins
        return jnp.searchsorted(jnp.sort(bins), jnp.arange(k)), weights[jnp.argsort(bins)]

    return fun, (draw.normal(n), draw.normal(n))


@template()
def modular_arithmetic(draw: Draw) -> Made:
    n, p = draw.size(64), draw.pick(7, 13, 251)
    kind = draw.pick("int32", "uint32", "int16")

    def fun(a, e, x):
        def step(i, state):
            result, base = state
            bit = (e >> i.astype(e.dtype)) & 1
            return jnp.where(bit == 1, result * base % p, result), base * base % p

        result, _ = lax.fori_loop(0, 5, step, (jnp.ones_like(a), a % p))
        return result, x * (result.astype(x.dtype) / p), lax.div(a, e + 1), lax.rem(a, e + 1)

    return fun, (draw.integers(0, 100, n, dtype=kind), draw.integers(0, 32, n, dtype=kind), draw.normal(n))


@template()
def game_of_life(draw: Draw) -> Made:
    n, m, steps = draw.size(17), draw.size(17), draw.integer(1, 3)
    how = draw.pick("roll", "conv")

    def fun(board, w):
        def step(_, b):
            if how == "roll":
                c = b.astype(jnp.int32)
                around = sum(jnp.roll(c, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - c
            else:
                c = b.astype(jnp.float32)
                kernel = jnp.ones((1, 1, 3, 3)).at[0, 0, 1, 1].set(0).astype(jnp.float32)
                around = lax.conv_general_dilated(c[None, None], kernel, (1, 1), "SAME")[0, 0]
            return (around == 3) | (b & (around == 2))

        board = lax.fori_loop(0, steps, step, board)
        return board, board.astype(w.dtype) @ w

    return fun, (draw.mask(n, m, share=0.4), draw.normal(m, draw.size(5)))


@template()
def bit_sets(draw: Draw) -> Made:
    n = draw.size(64)

    def fun(a, b, x):
        union, both = a | b, a & b
        jaccard = lax.population_count(both).astype(x.dtype) / (lax.population_count(union).astype(x.dtype) + 1)
        lowest = a & (~a + jnp.uint32(1))
        return jaccard * x, lax.clz(lowest), a ^ b

    return fun, (draw.bits(n), draw.bits(n), draw.normal(n))


@template()
def run_lengths(draw: Draw) -> Made:
    n = draw.size(64, least=2)

    def fun(x, w):
        change = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
        run = jnp.cumsum(change) - 1
        length = jnp.zeros(n, "int32").at[run].add(1)
        first = jax.ops.segment_min(jnp.arange(n), run, n)
        return run, length, jnp.zeros(n, w.dtype).at[run].add(w), jnp.where(length > 0, first, -1)

    return fun, (draw.integers(0, 3, n), draw.normal(n))


@template()
def sparse_product(draw: Draw) -> Made:
    n, m, nnz, k = draw.size(33), draw.size(17), draw.size(64), draw.size(5)

    def fun(values, rows, columns, x):
        dense = jnp.zeros((n, m), values.dtype).at[rows, columns].add(values)
        product = jnp.zeros((n, k), values.dtype).at[rows].add(values[:, None] * x[columns])
        return product, dense @ x - product, dense[:, ::-1].T

    return fun, (draw.normal(nnz), draw.integers(0, n, nnz), draw.integers(0, m, nnz), draw.normal(m, k))


@template()
def permutations(draw: Draw) -> Made:
    n, d = draw.size(33), draw.size(7)
    how = draw.pick("inverse", "matrix", "rank")

    def fun(order, x):
        if how == "inverse":
            return x[jnp.argsort(order)], jnp.zeros_like(order).at[order].set(jnp.arange(n, dtype=order.dtype))
        if how == "matrix":
            return (order[:, None] == jnp.arange(n)).astype(x.dtype) @ x
        return jnp.argsort(jnp.argsort(x, axis=0), axis=0), nn.one_hot(order, n, dtype=x.dtype).T @ x

    return fun, (draw.order(n), draw.normal(n, d))


@template()
def fixed_point(draw: Draw) -> Made:
    n, d = draw.size(17), draw.size(33)
    kind = draw.pick("int8", "uint8", "int16")

    def fun(x, w):
        q = jnp.clip(jnp.round(x * 32), 0, 100).astype(kind)
        v = jnp.clip(jnp.round(w * 32), 0, 100).astype(kind)
        total = lax.dot_general(q, v, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return total, (total >> 5).astype(x.dtype) / 32

    return fun, (draw.normal(n, d), draw.normal(d, draw.size(7)))
