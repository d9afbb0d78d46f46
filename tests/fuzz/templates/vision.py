"""Images and signals: convolutions, pooling, patches, warps."""

from __future__ import annotations

import numpy as np

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def convolution(draw: Draw) -> Made:
    dims = draw.integer(1, 2)
    n, c, k = draw.size(3), draw.size(5), draw.size(5)
    space, window = [draw.size(17, least=5) for _ in range(dims)], [draw.integer(1, 3) for _ in range(dims)]
    strides, dilation = [draw.integer(1, 2) for _ in range(dims)], [draw.integer(1, 2) for _ in range(dims)]
    padding, groups = draw.pick("SAME", "VALID"), draw.pick(1, 1, 2)

    def fun(x, w, b):
        y = lax.conv_general_dilated(x, w, strides, padding, rhs_dilation=dilation, feature_group_count=groups)
        return nn.relu(y + b[(slice(None), *(None,) * dims)])

    return fun, (draw.normal(n, c * groups, *space), draw.normal(k * groups, c, *window), draw.normal(k * groups))


@template()
def transposed_convolution(draw: Draw) -> Made:
    n, h, w, c, k = draw.size(3), draw.size(7), draw.size(7), draw.size(3), draw.size(3)
    strides, padding = (draw.integer(1, 3), draw.integer(1, 2)), draw.pick("SAME", "VALID")

    def fun(x, f):
        return lax.conv_transpose(x, f, strides, padding)

    return fun, (draw.normal(n, h, w, c), draw.normal(3, 2, c, k))


@template()
def depthwise_convolution(draw: Draw) -> Made:
    n, h, w, c = draw.size(3), draw.size(13, least=3), draw.size(7, least=3), draw.size(7)

    def fun(x, f, p):
        numbers = ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=c)
        return lax.conv_general_dilated(nn.silu(y), p, (1, 1), "VALID", dimension_numbers=numbers)

    return fun, (draw.normal(n, h, w, c), draw.normal(3, 3, 1, c), draw.normal(1, 1, c, draw.size(5)))


@template()
def pooling(draw: Draw) -> Made:
    n, h, w, c = draw.size(3), draw.size(13, least=3), draw.size(13, least=3), draw.size(5)
    window = (1, draw.integer(1, 3), draw.integer(1, 3), 1)
    strides = (1, draw.integer(1, 2), draw.integer(1, 3), 1)
    kind, padding = draw.pick("max", "mean", "min"), draw.pick("SAME", "VALID")

    def fun(x):
        if kind == "max":
            return lax.reduce_window(x, x.dtype.type(-np.inf), lax.max, window, strides, padding)
        if kind == "min":
            return lax.reduce_window(x, x.dtype.type(np.inf), lax.min, window, strides, padding)
        total = lax.reduce_window(x, x.dtype.type(0), lax.add, window, strides, padding)
        count = lax.reduce_window(jnp.ones_like(x), x.dtype.type(0), lax.add, window, strides, padding)
        return total / count

    return fun, (draw.normal(n, h, w, c),)


@template()
def windows_of_matrices(draw: Draw) -> Made:
    shape = draw.size(17, least=3), draw.size(13, least=3)
    window, strides = (draw.integer(1, 3), draw.integer(1, 3)), (draw.integer(1, 3), draw.integer(1, 2))

    def fun(x):
        return lax.reduce_window(x, x.dtype.type(-np.inf), lax.max, window, strides, "VALID")

    return fun, (draw.normal(*shape),)


@template()
def space_to_depth(draw: Draw) -> Made:
    n, h, w, c, b = draw.size(3), draw.size(5), draw.size(5), draw.size(5), draw.pick(2, 3)

    def fun(x, f):
        y = x.reshape(n, h, b, w, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h, w, b * b * c)
        return jnp.flip(y, 1) @ f

    return fun, (draw.normal(n, h * b, w * b, c), draw.normal(b * b * c, draw.size(7)))


@template()
def patch_embedding(draw: Draw) -> Made:
    n, h, w, c, p, d = draw.size(3), draw.size(3), draw.size(3), draw.size(3), draw.pick(2, 4), draw.size(13)

    def fun(x, f, token):
        patches = x.reshape(n, h, p, w, p, c).swapaxes(2, 3).reshape(n, h * w, -1) @ f
        return jnp.concatenate([jnp.broadcast_to(token, (n, 1, d)), patches], axis=1)

    return fun, (draw.normal(n, h * p, w * p, c), draw.normal(p * p * c, d), draw.normal(d))


@template()
def bilinear_warp(draw: Draw) -> Made:
    h, w, n = draw.size(13, least=2), draw.size(17, least=2), draw.size(33)

    def fun(image, points):
        y, x = (jnp.tanh(points).T + 1) / 2 * jnp.array([[h - 1.5], [w - 1.5]], image.dtype)
        i, j = jnp.floor(y).astype("int32"), jnp.floor(x).astype("int32")
        a, b = y - i.astype(y.dtype), x - j.astype(x.dtype)
        top = image[i, j] * (1 - b) + image[i, j + 1] * b
        low = image[i + 1, j] * (1 - b) + image[i + 1, j + 1] * b
        return top * (1 - a) + low * a

    return fun, (draw.normal(h, w), draw.normal(n, 2))


@template()
def image_gradients(draw: Draw) -> Made:
    h, w = draw.size(33, least=2), draw.size(17, least=2)

    def fun(x):
        dx, dy = x[:, 1:] - x[:, :-1], jnp.diff(x, axis=0)
        total = jnp.sum(jnp.sqrt(dx[:-1] ** 2 + dy[:, :-1] ** 2 + 0.01))
        return total, x[::-1, ::2], jnp.rot90(x)

    return fun, (draw.normal(h, w),)


@template()
def nearest_upsampling(draw: Draw) -> Made:
    h, w, c, k = draw.size(7), draw.size(7), draw.size(5), draw.integer(2, 3)
    how = draw.pick("repeat", "broadcast", "index")

    def fun(x, skip):
        if how == "repeat":
            y = x.repeat(k, 0).repeat(k, 1)
        elif how == "broadcast":
            y = jnp.broadcast_to(x[:, None, :, None], (h, k, w, k, c)).reshape(h * k, w * k, c)
        else:
            y = x[jnp.arange(h * k) // k][:, jnp.arange(w * k) // k]
        return jnp.concatenate([y, skip], -1).mean((0, 1)), y * skip[..., :1]

    return fun, (draw.normal(h, w, c), draw.normal(h * k, w * k, draw.size(3)))


@template()
def box_overlaps(draw: Draw) -> Made:
    n, m = draw.size(33), draw.size(13)

    def fun(a, b):
        low = jnp.maximum(a[:, None, :2], b[None, :, :2])
        high = jnp.minimum(a[:, None, :2] + a[:, None, 2:], b[None, :, :2] + b[None, :, 2:])
        both = jnp.prod(jnp.clip(high - low, 0, None), -1)
        area = lambda x: x[:, 2] * x[:, 3]
        overlap = both / (area(a)[:, None] + area(b) - both)
        return overlap, jnp.argmax(overlap, 1), (overlap > 0.3).sum(0)

    return fun, (draw.positive(n, 4), draw.positive(m, 4))


@template()
def suppression(draw: Draw) -> Made:
    n = draw.size(17)

    def fun(overlap, scores):
        order = jnp.argsort(-scores)
        sorted_overlap = overlap[order][:, order]

        def step(i, keep):
            hit = (sorted_overlap[i] > 0.5) & (jnp.arange(n) > i) & keep[i]
            return keep & ~hit

        keep = lax.fori_loop(0, n, step, jnp.ones(n, bool))
        return keep[jnp.argsort(order)], jnp.sum(scores[order] * keep.astype(scores.dtype))

    return fun, (draw.positive(n, n) / 3, draw.normal(n))


@template()
def dilated_causal_convolution(draw: Draw) -> Made:
    n, t, c, k = draw.size(3), draw.size(33), draw.size(7), draw.integer(2, 3)
    dilation = draw.integer(1, 4)

    def fun(x, w, g):
        pad = [((k - 1) * dilation, 0)]
        conv = lambda f: lax.conv_general_dilated(x, f, (1,), pad, rhs_dilation=(dilation,))
        return jnp.tanh(conv(w)) * nn.sigmoid(conv(g))

    return fun, (draw.normal(n, c, t), draw.normal(c, c, k), draw.normal(c, c, k))


@template()
def local_response(draw: Draw) -> Made:
    n, d = draw.size(7), draw.size(33)

    def fun(x):
        squares = lax.reduce_window(x**2, x.dtype.type(0), lax.add, (1, 5), (1, 1), [(0, 0), (2, 2)])
        return x / (1 + 0.1 * squares) ** 0.75, jax.vmap(lambda r: jnp.convolve(r, jnp.ones(3, r.dtype), "same"))(x)

    return fun, (draw.normal(n, d),)


@template()
def convolution_types(draw: Draw) -> Made:
    n, c, h, w, k = draw.size(3), draw.size(3), draw.size(7, least=3), draw.size(7, least=3), draw.size(3)
    source = draw.pick("mask", "bytes", "onehot")

    def fun(x, f):
        if source == "onehot":
            y = nn.one_hot(x.astype("int32") % c, c, axis=1, dtype=f.dtype)[:, :, 0]
        else:
            y = (x > 100).astype(f.dtype) if source == "mask" else x.astype(f.dtype) / 64
            y = jnp.broadcast_to(y, (n, c, h, w))
        return lax.conv_general_dilated(y, f, (1, 1), "SAME")

    return fun, (draw.integers(0, 256, n, 1, h, w, dtype="uint8"), draw.normal(k, c, 3, 3))
