"""Losses, optimisers and the small steps of training."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def softmax_regression(draw: Draw) -> Made:
    n, d, k = draw.size(64), draw.size(33), draw.size(17)
    smoothing = draw.pick(0.0, 0.1)

    def fun(w, b, x, labels):
        logits = nn.log_softmax(x @ w + b)
        targets = nn.one_hot(labels, k, dtype=logits.dtype) * (1 - smoothing) + smoothing / k
        return -jnp.mean(jnp.sum(targets * logits, axis=-1))

    return fun, (draw.normal(d, k), draw.normal(k), draw.normal(n, d), draw.integers(0, k, n))


@template()
def logistic_regression(draw: Draw) -> Made:
    n, d = draw.size(100), draw.size(17)

    def fun(w, x, y):
        sign = jnp.where(y, 1, -1).astype(x.dtype)
        return jnp.logaddexp(0, -sign * (x @ w)).mean() + 0.01 * jnp.sum(w**2)

    return fun, (draw.normal(d), draw.normal(n, d), draw.mask(n))


@template()
def hinge_loss(draw: Draw) -> Made:
    n, d, k = draw.size(33), draw.size(13), draw.size(7, least=2)
    power = draw.pick(1, 2)

    def fun(w, x, labels):
        scores = x @ w
        right = jnp.take_along_axis(scores, labels[:, None], axis=1)
        margins = jnp.maximum(scores - right + 1, 0) ** power
        return jnp.sum(margins * (1 - nn.one_hot(labels, k, dtype=margins.dtype))) / n

    return fun, (draw.normal(d, k), draw.normal(n, d), draw.integers(0, k, n))


@template()
def huber_regression(draw: Draw) -> Made:
    n, d = draw.size(64), draw.size(17)

    def fun(w, x, y, delta):
        r = x @ w - y
        small = jnp.abs(r) <= delta
        return jnp.mean(jnp.where(small, 0.5 * r**2, delta * (jnp.abs(r) - 0.5 * delta)))

    return fun, (draw.normal(d), draw.normal(n, d), draw.normal(n), draw.positive())


@template()
def multilayer_perceptron(draw: Draw) -> Made:
    n, sizes = draw.size(33), [draw.size(33) for _ in range(draw.integer(2, 4))]
    activation = draw.pick(jnp.tanh, nn.relu, nn.gelu, nn.silu, nn.elu, nn.softplus, jnp.sin)

    def fun(x, *weights):
        for w in weights:
            x = activation(x @ w / w.shape[0] ** 0.5)
        return x

    return fun, (draw.normal(n, sizes[0]), *(draw.normal(a, b) for a, b in zip(sizes, sizes[1:])))


@template()
def adam_step(draw: Draw) -> Made:
    shape = draw.size(33), draw.size(17)
    t = draw.integer(1, 9)

    def fun(w, m, v, x):
        g = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g**2
        step = (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-3)
        return w - 0.1 * step, m, v

    return fun, (draw.normal(*shape), draw.normal(*shape), draw.positive(*shape), draw.normal(draw.size(17), shape[0]))


@template()
def training_loop(draw: Draw) -> Made:
    n, d = draw.size(17), draw.size(7)
    momentum, steps = draw.pick(0.0, 0.9), draw.integer(2, 5)

    def fun(w, x, y):
        def step(state, _):
            w, u = state
            loss, g = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)
            u = momentum * u - 0.1 * g
            return (w + u, u), loss

        (w, _), losses = lax.scan(step, (w, jnp.zeros_like(w)), None, length=steps)
        return w, losses

    return fun, (draw.normal(d), draw.normal(n, d), draw.normal(n))


@template()
def clip_by_global_norm(draw: Draw) -> Made:
    shapes = [(draw.size(33),), (draw.size(7), draw.size(17)), ()]

    def fun(limit, *grads):
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads))
        scale = jnp.where(norm > limit, limit / norm, 1.0).astype(norm.dtype)
        return tuple(g * scale for g in grads)

    return fun, (draw.positive(), *(draw.normal(*s) for s in shapes))


@template()
def batch_norm(draw: Draw) -> Made:
    shape = [draw.size(17) for _ in range(draw.integer(2, 4))]
    axes = tuple(range(len(shape) - 1)) if draw.chance(0.5) else (len(shape) - 1,)

    def fun(x, scale, bias):
        mean = x.mean(axes, keepdims=True)
        var = ((x - mean) ** 2).mean(axes, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 0.1) * scale + bias

    return fun, (draw.normal(*shape), draw.normal(shape[-1]), draw.normal(shape[-1]))


@template()
def group_norm(draw: Draw) -> Made:
    n, groups, per, length = draw.size(7), draw.size(5), draw.size(5), draw.size(13)

    def fun(x, scale):
        y = x.reshape(n, groups, per, length)
        y = (y - y.mean((2, 3), keepdims=True)) / jnp.sqrt(y.var((2, 3), keepdims=True) + 0.1)
        return y.reshape(n, groups * per, length) * scale[:, None]

    return fun, (draw.normal(n, groups * per, length), draw.normal(groups * per))


@template()
def dropout(draw: Draw) -> Made:
    n, d = draw.size(33), draw.size(33)
    rate = draw.pick(0.1, 0.5)

    def fun(key, x, w):
        keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 1 - rate, x.shape)
        return jnp.where(keep, x / (1 - rate), 0) @ w

    return fun, (draw.bits(2), draw.normal(n, d), draw.normal(d, draw.size(7)))


@template()
def contrastive_loss(draw: Draw) -> Made:
    n, d = draw.size(33, least=2), draw.size(17, least=2)

    def fun(a, b, temperature):
        a, b = (x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-2) for x in (a, b))
        logits = a @ b.T / temperature
        eye = jnp.eye(n, dtype=logits.dtype)
        return -jnp.sum(eye * nn.log_softmax(logits, 0)) - jnp.sum(eye * nn.log_softmax(logits, 1))

    return fun, (draw.normal(n, d), draw.normal(n, d), draw.positive())


@template()
def confusion_matrix(draw: Draw) -> Made:
    n, k = draw.size(129), draw.size(17)
    kind = draw.pick("float", "int", "scatter")

    def fun(labels, scores):
        guess = jnp.argmax(scores, axis=1)
        if kind == "scatter":
            return jnp.zeros((k, k), "int32").at[labels, guess].add(1)
        dtype = scores.dtype if kind == "float" else jnp.int32
        return nn.one_hot(labels, k, dtype=dtype).T @ nn.one_hot(guess, k, dtype=dtype)

    return fun, (draw.integers(0, k, n), draw.normal(n, k))


@template()
def masked_mean(draw: Draw) -> Made:
    n, t, d = draw.size(13), draw.size(17), draw.size(13)

    def fun(x, lengths):
        mask = (jnp.arange(t) < lengths[:, None]).astype(x.dtype)
        total = jnp.einsum("nt,ntd->nd", mask, x)
        return total / jnp.maximum(mask.sum(1, keepdims=True), 1)

    return fun, (draw.normal(n, t, d), draw.integers(0, t + 1, n))


@template()
def label_ranking(draw: Draw) -> Made:
    n, k = draw.size(13), draw.size(17)

    def fun(scores, relevance):
        order = jnp.argsort(-scores, axis=1)
        gains = jnp.take_along_axis(relevance, order, 1)
        return jnp.sum(gains / jnp.log2(jnp.arange(k) + 2.0).astype(gains.dtype), 1)

    return fun, (draw.normal(n, k), draw.positive(n, k))


@template()
def ragged_pooling(draw: Draw) -> Made:
    n, k, d = draw.size(64), draw.size(13), draw.size(17)
    how = draw.pick("matrix", "segment", "max")

    def fun(x, ids):
        if how == "matrix":
            return (ids == jnp.arange(k)[:, None]).astype(x.dtype) @ x
        if how == "segment":
            return jax.ops.segment_sum(x, ids, num_segments=k)
        return jnp.where(jnp.isfinite(out := jax.ops.segment_max(x, ids, num_segments=k)), out, 0)

    return fun, (draw.normal(n, d), draw.integers(0, k, n))


@template()
def gauss_newton(draw: Draw) -> Made:
    n, d = draw.size(17), draw.size(7)

    def fun(w, x, y):
        residual = lambda w: jnp.tanh(x @ w) - y
        j = jax.jacrev(residual)(w)
        return j.T @ j, j.T @ residual(w)

    return fun, (draw.normal(d), draw.normal(n, d), draw.normal(n))


@template()
def quantised_linear(draw: Draw) -> Made:
    n, d, k = draw.size(33), draw.size(33), draw.size(17)
    kind = draw.pick("uint8", "int8", "uint16")

    def fun(x, w, scale, zero):
        wide = x.astype(jnp.int32) - zero
        return (wide.astype(scale.dtype) @ w.astype(scale.dtype)) * scale, x.astype(jnp.int32) @ w.astype(jnp.int32)

    x, w = draw.bits(n, d, dtype=kind), draw.bits(d, k, dtype="int8")
    return fun, (x, w, draw.positive(k), draw.integers(0, 9, dtype="int32"))


@template()
def fake_quantisation(draw: Draw) -> Made:
    n, d = draw.size(33), draw.size(17)
    levels = draw.pick(15, 127, 255)

    def fun(x, w):
        scale = jnp.max(jnp.abs(w)) / levels + 1e-3
        rounded = w + lax.stop_gradient(jnp.round(w / scale) * scale - w)
        return x @ rounded

    return fun, (draw.normal(n, d), draw.normal(d, draw.size(13)))


@template()
def expectation_step(draw: Draw) -> Made:
    n, d, k = draw.size(33), draw.size(5), draw.size(7)

    def fun(x, means, logweights):
        distances = jnp.sum((x[:, None] - means) ** 2, -1)
        joint = nn.log_softmax(logweights) - 0.5 * distances
        r = jnp.exp(joint - nn.logsumexp(joint, axis=1, keepdims=True))
        return (r.T @ x) / (r.sum(0)[:, None] + 0.1), nn.logsumexp(joint, axis=1).sum()

    return fun, (draw.normal(n, d), draw.normal(k, d), draw.normal(k))


@template()
def focal_loss(draw: Draw) -> Made:
    n = draw.size(129)
    gamma = draw.pick(1, 2, 2.5)

    def fun(logits, y):
        p = nn.sigmoid(logits)
        q = jnp.where(y, p, 1 - p)
        return -jnp.mean((1 - q) ** gamma * jnp.log(q + 1e-2))

    return fun, (draw.normal(n), draw.mask(n))


@template()
def policy_gradient(draw: Draw) -> Made:
    t, a = draw.size(33), draw.size(7)

    def fun(logits, rewards, actions, done):
        step = lambda g, x: ((g := x[0] + 0.9 * g * (1 - x[1].astype(g.dtype))), g)
        _, returns = lax.scan(step, jnp.zeros((), rewards.dtype), (rewards, done), reverse=True)
        logp = jnp.take_along_axis(nn.log_softmax(logits), actions[:, None], 1)[:, 0]
        return jnp.mean(logp * lax.stop_gradient(returns - returns.mean()))

    return fun, (draw.normal(t, a), draw.normal(t), draw.integers(0, a, t), draw.mask(t, share=0.2))


@template()
def polynomial_fit(draw: Draw) -> Made:
    n, d = draw.size(33), draw.integer(2, 5)

    def fun(c, x, y):
        powers = jnp.tanh(x)[:, None] ** jnp.arange(d)
        return jnp.mean((powers @ c - y) ** 2), jnp.polyval(c, jnp.tanh(x))

    return fun, (draw.normal(d), draw.normal(n), draw.normal(n))


@template()
def knn_classifier(draw: Draw) -> Made:
    n, m, d, k = draw.size(33, least=5), draw.size(17), draw.size(7), draw.integer(1, 5)

    def fun(x, labels, q):
        squares = jnp.sum(q**2, 1)[:, None] - 2 * q @ x.T + jnp.sum(x**2, 1)
        near, index = lax.top_k(-squares, k)
        votes = nn.one_hot(labels[index], 4, dtype=x.dtype).sum(1)
        return votes, jnp.mean(near)

    return fun, (draw.normal(n, d), draw.integers(0, 4, n), draw.normal(m, d))
