"""Loops whose trips hold what is seldom in loops: half precision, windows that slide, convolutions, sorts."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax


@template(half=False, smooth=False)
def narrow_states(draw: Draw) -> Made:
    """Operations that are rounded once each, of numbers of half precision that go round and are written in part."""
    n, trips = draw.size(33, least=2), draw.integer(1, 6)
    names = [draw.pick("float16", "bfloat16", "float32") for _ in range(3)]
    scanned, bits = draw.chance(0.5), draw.pick((5, 10), (8, 7), (5, 3))

    def fun(x, y):
        def trip(i, state):
            a, b, c = state
            a = (a * b.astype(a.dtype) - c.astype(a.dtype)) / 2
            b = jnp.where(b > a.astype(b.dtype), -b, b.at[i % n].set(b[(i + 1) % n] * 3))
            c = lax.reduce_precision(jnp.maximum(c, a[::-1].astype(c.dtype)) * 0.5, *bits)
            return a, jnp.clip(b, -9, 9), c

        state = tuple(v.astype(name) for v, name in zip((x, y, x - y), names))
        if not scanned:
            return lax.fori_loop(0, trips, trip, state)
        both = lambda c, i: ((new := trip(i, c)), (new[0].max(), new[1] > new[2].astype(new[1].dtype)))
        return lax.scan(both, state, jnp.arange(trips))

    return fun, (draw.normal(n), draw.normal(n))


@template()
def running_totals(draw: Draw) -> Made:
    shape, steps = (draw.size(7), draw.size(100)), draw.integer(1, 4)
    axis, reverse = draw.integer(0, 1), draw.chance(0.5)
    kind = draw.pick("sum", "max", "logsumexp", "prod")

    def fun(x):
        def step(c, _):
            if kind == "prod":
                c = lax.cumprod(jnp.cos(c), axis, reverse) + 0.1 * c
            else:
                run = {"sum": lax.cumsum, "max": lax.cummax, "logsumexp": lax.cumlogsumexp}[kind]
                c = jnp.tanh(run(c, axis, reverse) * 0.3) + 0.5 * c
            return c, c.mean()

        return lax.scan(step, x, None, length=steps)

    return fun, (draw.normal(*shape),)


@template(smooth=False)
def pooled_in_turn(draw: Draw) -> Made:
    shape, steps = (draw.size(13), draw.size(17)), draw.integer(1, 4)
    widths = tuple(min(draw.integer(1, 4), n) for n in shape)
    strides, padding = (draw.integer(1, 2), draw.integer(1, 2)), draw.pick("SAME", "VALID")
    apart = (1, 2) if padding == "SAME" and draw.chance(0.5) else (1, 1)
    start, fold = draw.pick((0.0, lax.add), (-jnp.inf, lax.max), (jnp.inf, lax.min))

    def fun(x):
        def step(c, _):
            found = lax.reduce_window(c, jnp.asarray(start, c.dtype), fold, widths, strides, padding, (1, 1), apart)
            return 0.5 * jnp.sin(c) + 0.01 * found.sum(), found

        return lax.scan(step, x, None, length=steps)

    return fun, (draw.normal(*shape),)


@template()
def filters_in_turn(draw: Draw) -> Made:
    features, groups, steps = draw.integer(1, 3), draw.integer(1, 2), draw.integer(1, 3)
    size, width = (draw.size(7), draw.size(13)), (draw.integer(1, 3), draw.integer(1, 3))
    order = draw.pick("NHWC", "NCHW")
    channels, learns = features * groups, draw.chance(0.4)
    shape = (2, *size, channels) if order == "NHWC" else (2, channels, *size)

    def fun(x, w):
        def layer(w, x):
            numbers = (order, "HWIO", order)
            filters = w.astype(x.dtype)
            return jnp.tanh(lax.conv_general_dilated(x, filters, (1, 1), "SAME", None, None, numbers, groups))

        def step(state, _):
            x, w = state
            if learns:
                w = w - 0.1 * jax.grad(lambda w: (layer(w, x) ** 2).mean())(w)
            x = layer(w, x) + 0.5 * x
            return (x, w), x.mean()

        return lax.scan(step, (x, w), None, length=steps)

    return fun, (draw.normal(*shape), draw.normal(*width, features, channels) * 0.5)


@template(smooth=False)
def ranks_in_turn(draw: Draw) -> Made:
    shape, steps = (draw.size(7), draw.size(33)), draw.integer(1, 4)
    axis, k, whole = draw.integer(0, 1), draw.integer(1, shape[1]), draw.chance(0.4)
    kind = draw.pick("sort", "argsort", "keys", "top", "median")

    def fun(x):
        x = jnp.round(x * 2) / 2 if whole else x  # with ties, and zeros of both signs

        def step(c, _):
            if kind == "sort":
                y = jnp.sort(c, axis=axis)
            elif kind == "argsort":
                y = jnp.take_along_axis(c, jnp.argsort(c, axis=axis), axis)[::-1]
            elif kind == "keys":
                _, y = lax.sort(((c * 2).astype("int8"), c), dimension=axis, num_keys=2)
            elif kind == "top":
                values, places = lax.top_k(c, k)
                return -c[::-1], (values, places)
            else:
                y = c - jnp.median(c, axis=axis, keepdims=True)
            return y * 0.5, y

        return lax.scan(step, x, None, length=steps)

    return fun, (draw.normal(*shape),)
