"""Layers of networks: attention, recurrence, experts, messages over graphs."""

from __future__ import annotations

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw
from fuzz.templates import Made, template
from veery import lax, nn


@template()
def attention(draw: Draw) -> Made:
    b, t, s, h, d = draw.size(3), draw.size(17), draw.size(13), draw.size(3), draw.size(13)
    masked = draw.pick("causal", "lengths", "none")

    def fun(q, k, v, lengths):
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / d**0.5
        if masked == "causal":
            scores = jnp.where(jnp.tril(jnp.ones((t, s), bool)), scores, -1e4)
        elif masked == "lengths":
            scores = jnp.where(jnp.arange(s) < lengths[:, None, None, None], scores, -1e4)
        return jnp.einsum("bhts,bshd->bthd", nn.softmax(scores), v)

    return fun, (draw.normal(b, t, h, d), draw.normal(b, s, h, d), draw.normal(b, s, h, d), draw.integers(1, s + 1, b))


@template()
def grouped_query_attention(draw: Draw) -> Made:
    t, groups, per, d = draw.size(13), draw.size(3), draw.size(3), draw.size(7)

    def fun(x, wq, wk, wv):
        q = (x @ wq).reshape(t, groups, per, d)
        k, v = (x @ wk).reshape(t, groups, d), (x @ wv).reshape(t, groups, d)
        weights = nn.softmax(jnp.einsum("tgpd,sgd->gpts", q, k) / d**0.5)
        return jnp.einsum("gpts,sgd->tgpd", weights, v).reshape(t, -1)

    m = draw.size(13)
    return fun, (draw.normal(t, m), *(draw.normal(m, n) for n in (groups * per * d, groups * d, groups * d)))


@template()
def rotary_embedding(draw: Draw) -> Made:
    t, h, d = draw.size(33), draw.size(5), draw.size(13)

    def fun(x):
        angles = jnp.arange(t)[:, None] / 100.0 ** (jnp.arange(d) / d)
        sin, cos = jnp.sin(angles)[:, None].astype(x.dtype), jnp.cos(angles)[:, None].astype(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    return fun, (draw.normal(t, h, 2 * d),)


@template()
def decoding_with_cache(draw: Draw) -> Made:
    t, d, steps = draw.size(13, least=3), draw.size(13), draw.integer(1, 3)

    def fun(cache_k, cache_v, x, w):
        def step(state, i):
            ck, cv, x = state
            q, k, v = jnp.split(x @ w, 3)
            ck = lax.dynamic_update_slice(ck, k[None], (i, 0))
            cv = lax.dynamic_update_index_in_dim(cv, v, i, 0)
            weights = nn.softmax(jnp.where(jnp.arange(t) <= i, ck @ q, -1e3))
            x = jnp.tanh(weights @ cv)
            return (ck, cv, x), x

        (ck, cv, _), out = lax.scan(step, (cache_k, cache_v, x), jnp.arange(steps))
        return out, ck, cv

    return fun, (draw.normal(t, d), draw.normal(t, d), draw.normal(d), draw.normal(d, 3 * d))


@template()
def greedy_decoding(draw: Draw) -> Made:
    v, d, t = draw.size(17, least=2), draw.size(13), draw.integer(2, 6)

    def fun(table, w, state, start):
        def step(carry, _):
            state, token = carry
            state = jnp.tanh(state @ w + table[token])
            logits = state @ table.T
            token = jnp.argmax(logits).astype(token.dtype)
            return (state, token), (token, nn.logsumexp(logits))

        return lax.scan(step, (state, start), None, length=t)[1]

    return fun, (draw.normal(v, d), draw.normal(d, d), draw.normal(d), draw.integers(0, v))


@template()
def mixture_of_experts(draw: Draw) -> Made:
    n, d, e, k = draw.size(33), draw.size(13), draw.size(7, least=2), draw.integer(1, 2)

    def fun(x, gate, w):
        probabilities = nn.softmax(x @ gate)
        top, index = lax.top_k(probabilities, k)
        dispatch = nn.one_hot(index, e, dtype=x.dtype)
        combine = jnp.einsum("nk,nke->ne", top / top.sum(-1, keepdims=True), dispatch)
        outs = jnp.einsum("nd,edf->enf", x, w)
        balance = jnp.sum(dispatch.mean((0, 1)) * probabilities.mean(0))
        return jnp.einsum("ne,enf->nf", combine, jnp.tanh(outs)), balance

    return fun, (draw.normal(n, d), draw.normal(d, e), draw.normal(e, d, draw.size(7)))


@template()
def expert_capacity(draw: Draw) -> Made:
    n, d, e = draw.size(33), draw.size(7), draw.size(5, least=2)
    capacity = draw.integer(1, 8)

    def fun(x, gate, w):
        choice = jnp.argmax(x @ gate, axis=-1)
        hot = nn.one_hot(choice, e, dtype=jnp.int32)
        place = jnp.cumsum(hot, axis=0) * hot - 1
        kept = (place < capacity) & (hot > 0)
        slots = nn.one_hot(jnp.where(kept, place, -1), capacity, dtype=x.dtype) * kept[..., None]
        inputs = jnp.einsum("nec,nd->ecd", slots, x)
        return jnp.einsum("nec,ecd->nd", slots, jnp.einsum("ecd,edf->ecf", inputs, w)), kept.sum(0)

    return fun, (draw.normal(n, d), draw.normal(d, e), draw.normal(e, d, d))


@template()
def recurrent_cell(draw: Draw) -> Made:
    t, n, d, h = draw.size(13), draw.size(5), draw.size(7), draw.size(13)
    kind, reverse = draw.pick("rnn", "gru", "lstm"), draw.chance(0.3)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]

    def fun(x, start, wx, wh):
        def step(state, x):
            z = x @ wx + state[0] @ wh
            if kind == "rnn":
                new = (jnp.tanh(z), state[1])
            elif kind == "gru":
                r, u, c = jnp.split(z, 3, -1)
                new = ((1 - nn.sigmoid(u)) * state[0] + nn.sigmoid(u) * jnp.tanh(nn.sigmoid(r) * c), state[1])
            else:
                i, f, g, o = jnp.split(z, 4, -1)
                cell = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * jnp.tanh(g)
                new = (nn.sigmoid(o) * jnp.tanh(cell), cell)
            return new, new[0]

        return lax.scan(step, (start, start), x, reverse=reverse)

    return fun, (draw.normal(t, n, d), draw.normal(n, h), draw.normal(d, gates * h), draw.normal(h, gates * h))


@template()
def graph_message_passing(draw: Draw) -> Made:
    n, m, d = draw.size(33), draw.size(64), draw.size(13)
    how = draw.pick("sum", "mean", "max", "attention")

    def fun(x, w, src, dst):
        messages = (x @ w)[src]
        if how == "attention":
            score = jnp.sum(messages * x[dst], -1)
            e = jnp.exp(score - lax.stop_gradient(jax.ops.segment_max(score, dst, n))[dst])
            messages = messages * (e / jax.ops.segment_sum(e, dst, n)[dst])[:, None]
        if how == "max":
            out = jnp.full((n, d), -10, x.dtype).at[dst].max(messages)
        else:
            out = jnp.zeros((n, d), x.dtype).at[dst].add(messages)
        if how == "mean":
            out = out / jnp.maximum(jnp.zeros(n, x.dtype).at[dst].add(1), 1)[:, None]
        return nn.relu(out) + x

    return fun, (draw.normal(n, d), draw.normal(d, d), draw.integers(0, n, m), draw.integers(0, n, m))


@template()
def normalised_adjacency(draw: Draw) -> Made:
    n, d = draw.size(33), draw.size(13)

    def fun(adjacency, x, w):
        a = (adjacency | adjacency.T | jnp.eye(n, dtype=bool)).astype(x.dtype)
        r = lax.rsqrt(a.sum(1))
        return jnp.tanh((r[:, None] * a * r) @ x @ w)

    return fun, (draw.mask(n, n, share=0.2), draw.normal(n, d), draw.normal(d, draw.size(7)))


@template()
def embedding_lookup(draw: Draw) -> Made:
    v, d, shape = draw.size(100), draw.size(17), [draw.size(13) for _ in range(draw.integer(1, 2))]
    how = draw.pick("index", "take", "one_hot")

    def fun(table, ids, positions):
        if how == "index":
            e = table[ids]
        elif how == "take":
            e = jnp.take(table, ids, axis=0)
        else:
            e = nn.one_hot(ids, v, dtype=table.dtype) @ table
        return e * d**0.5 + positions

    return fun, (draw.normal(v, d), draw.integers(0, v, *shape), draw.normal(shape[-1], d))


@template()
def vector_quantisation(draw: Draw) -> Made:
    n, k, d = draw.size(33), draw.size(17), draw.size(7)

    def fun(x, codes):
        distances = jnp.sum(x**2, 1, keepdims=True) - 2 * x @ codes.T + jnp.sum(codes**2, 1)
        hot = nn.one_hot(jnp.argmin(distances, 1), k, dtype=x.dtype)
        q = hot @ codes
        usage = hot.mean(0)
        loss, perplexity = jnp.mean((q - lax.stop_gradient(x)) ** 2), jnp.exp(-jnp.sum(usage * jnp.log(usage + 0.01)))
        return x + lax.stop_gradient(q - x), loss, perplexity

    return fun, (draw.normal(n, d), draw.normal(k, d))


@template()
def linear_attention(draw: Draw) -> Made:
    t, d, e = draw.size(17), draw.size(7), draw.size(5)
    chunked = draw.chance(0.5)

    def fun(q, k, v):
        q, k = nn.elu(q) + 1, nn.elu(k) + 1
        if chunked:
            weights = jnp.tril(q @ k.T)
            return weights @ v / (weights.sum(1, keepdims=True) + 0.1)

        def step(state, x):
            s, z = state
            q, k, v = x
            s, z = s + jnp.outer(k, v), z + k
            return (s, z), q @ s / (q @ z + 0.1)

        return lax.scan(step, (jnp.zeros((d, e), q.dtype), jnp.zeros(d, q.dtype)), (q, k, v))[1]

    return fun, (draw.normal(t, d), draw.normal(t, d), draw.normal(t, e))


@template()
def state_space_model(draw: Draw) -> Made:
    t, d = draw.size(33), draw.size(13)

    def fun(a, b, x):
        decay = nn.sigmoid(a) * jnp.ones_like(x)
        combine = lambda left, right: (left[0] * right[0], left[1] * right[0] + right[1])
        return lax.associative_scan(combine, (decay, b * x), reverse=False)[1]

    return fun, (draw.normal(d), draw.normal(d), draw.normal(t, d))


@template()
def low_rank_adapter(draw: Draw) -> Made:
    n, d, k, r = draw.size(33), draw.size(33), draw.size(17), draw.size(3)
    spell = draw.pick("nd,dr,rk->nk", "nd,dr,rk->kn")

    def fun(x, w, a, b):
        low = jnp.einsum(spell, x, a, b)
        return x @ w + 0.5 * (low if low.shape == (n, k) else low.T)

    return fun, (draw.normal(n, d), draw.normal(d, k), draw.normal(d, r), draw.normal(r, k))


@template()
def deep_sets(draw: Draw) -> Made:
    b, n, d, h = draw.size(5), draw.size(13), draw.size(7), draw.size(13)

    def fun(x, w, v, mask):
        y = jnp.tanh(x @ w)
        weight = nn.softmax(jnp.where(mask, y @ v, -1e4), axis=1)
        pooled = jnp.einsum("bn,bnh->bh", weight, y)
        return pooled, jnp.max(jnp.where(mask[..., None], y, -2), axis=1)

    return fun, (draw.normal(b, n, d), draw.normal(d, h), draw.normal(h), draw.mask(b, n))
