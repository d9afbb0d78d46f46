"""Loops of all kinds, for those that compile them."""

from __future__ import annotations

from typing import Any

import numpy as np

import veery
from veery import lax, nn, numpy as jnp

X = np.linspace(-1, 1, 100).astype(np.float32)
ROWS = np.linspace(-1, 1, 600).astype(np.float32).reshape(6, 100)


def newton(x):
    state = lax.while_loop(
        lambda s: jnp.abs(s[0] * s[0] - x) > 1e-4 * x, lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1), (x, 0)
    )
    return state


def escape(c):
    def trip(_, state):
        z, count = state
        inside = jnp.abs(z) < 2
        return jnp.where(inside, z * z + c, z), count + inside

    return lax.fori_loop(0, 30, trip, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))


def oscillator(y):
    def trip(y, _):
        y = y + 0.1 * jnp.stack([y[1], -y[0]])
        return y, y

    return lax.scan(trip, y, None, length=20)


def averages(x):
    return lax.scan(lambda c, v: (jnp.tanh(0.9 * c + v), (c, c > v)), jnp.float32(0), x, reverse=True)


def running_rows(x):
    return lax.scan(lambda c, v: (0.5 * c + v, (c * v, c > v)), jnp.zeros(x.shape[1]), x)


def generator(seed):
    def trip(s, _):
        s = s * jnp.uint32(1664525) + jnp.uint32(1013904223)
        return s, ((s >> jnp.uint32(16)) % jnp.uint32(6), s.astype(jnp.int32) // (s % jnp.uint32(3)).astype(jnp.int32))

    return lax.scan(trip, seed, None, length=30)


def recurrence(t):
    return lax.fori_loop(1, 100, lambda i, t: t.at[i].set(0.5 * t[i - 1] + t[i]), t)


def nested(x):
    inner = lambda i, c: lax.fori_loop(0, 5, lambda j, v: v * 0.9 + x[i], c) + 1
    return lax.fori_loop(0, 100, inner, jnp.float32(0))


def collatz(x):
    step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return veery.vmap(lambda x: lax.while_loop(lambda s: s[0] > 1, step, (x, 0))[1])(x)


def power_iteration(a):
    return lax.fori_loop(0, 10, lambda _, v: (a @ v) / jnp.max(jnp.abs(a @ v)), jnp.ones(3))


def exchange(x):
    return lax.fori_loop(0, 5, lambda i, s: (s[1], s[0] * 2, ~s[2]), (x, x * 3, x > 0))


def bits(x):
    trip = lambda i, n: (n << (n & 7)) ^ (n >> 3) ^ jnp.sign(n) ^ lax.population_count(n) ^ lax.clz(n)
    return lax.fori_loop(0, 4, trip, x)


def never(x):
    return lax.fori_loop(0, lax.stop_gradient(x).astype(jnp.int32)[0] - 5, lambda i, v: v * 2, x)


def recurrent(args):
    """The states of a recurrent network of 20 inputs, and the gradient of their squares' sum."""
    w, u, xs = args["w"], args["u"], args["xs"]

    def states(w):
        def cell(h, x):
            h = jnp.tanh(h @ w + x @ u)
            return h, h

        return lax.scan(cell, jnp.zeros((xs.shape[1], w.shape[0])), xs)[1]

    return states(w), veery.grad(lambda w: (states(w) ** 2).sum())(w)


def diffusion(u):
    def trip(i, u):
        p = jnp.pad(u, 1)
        u = u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
        return jnp.where(i % 3 == 0, jnp.roll(u, 2, 0)[::-1], u.at[1:-1, ::2].add(0.01))

    return lax.fori_loop(0, 10, trip, u)


def columns(t):
    return lax.fori_loop(1, t.shape[1], lambda i, t: t.at[:, i].set(0.5 * t[:, i - 1] + t[:, i]), t)


def kalman(zs):
    moves = jnp.eye(4, dtype=jnp.float32) + 0.1 * jnp.eye(4, k=2, dtype=jnp.float32)
    seen = jnp.eye(2, 4, dtype=jnp.float32)

    def step(state, z):
        x, spread = state
        x, spread = moves @ x, moves @ spread @ moves.T + 0.1 * jnp.eye(4)
        gain = jnp.linalg.solve(seen @ spread @ seen.T + jnp.eye(2), seen @ spread).T
        x, spread = x + gain @ (z - seen @ x), (jnp.eye(4) - gain @ seen) @ spread
        return (x, spread), (x, jnp.linalg.cholesky(spread + jnp.eye(4)))

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), zs)


def conjugate_gradients(b):
    matrix = jnp.diag(b * b + 3) + 0.1

    def step(state):
        x, r, p, size, i = state
        image = matrix @ p
        part = size / (p @ image)
        x, r = x + part * p, r - part * image
        rest = r @ r
        return x, r, r + rest / size * p, rest, i + 1

    start = (jnp.zeros_like(b), b, b, b @ b, 0)
    return lax.while_loop(lambda state: (state[3] > 1e-9) & (state[4] < 30), step, start)[0]


def choices(x):
    """Branches too dear to compute both, in one of which something is written in part."""

    def change(i, u):
        grow = lambda u: u.at[i].set(lax.fori_loop(0, 3, lambda j, v: jnp.tanh(v @ u), u[i]))
        return lax.switch(i % 3, [grow, lambda u: u.T[::-1], lambda u: u * (u.sum(0) > 0)], u)

    return lax.fori_loop(0, 9, change, x)


def chosen_once(args):
    """A branch that is the same in all trips, though what it computes is not."""
    first, x = args
    products = lambda u: lax.fori_loop(0, 3, lambda _, v: jnp.tanh(v @ x), u)
    return lax.fori_loop(0, 4, lambda _, u: lax.cond(first, products, lambda u: u.T[::-1], u), x)


def indexed(x):
    """Elements at places that differ from row to row, read, written, and added to one another."""

    def trip(i, state):
        rows, total = state
        places = jnp.argmax(rows, axis=1)
        picked = veery.vmap(lambda row, k: row[k - i])(rows, places)
        rows = veery.vmap(lambda row, k: row.at[k].set(-row[k]))(rows, places)
        return rows, total.at[places].add(picked)

    return lax.fori_loop(0, 6, trip, (x, jnp.zeros(x.shape[1])))


def counting(n):
    """Integers and booleans: products, sums, extremes, and arrays that change places."""

    def trip(i, state):
        a, b, seen = state
        a, b = (a @ b) % 17 - 5, a.T
        return b, a, jnp.concatenate([seen[1:], (a > b).any(0)[:1]]) ^ (a.min(1) < a.max(0) - i)

    return lax.fori_loop(0, 7, trip, (n, n + 1, n[0] > 2))


def many(x):
    """More arrays and numbers, of several types, than a dispatch has buffers; two are too large to share one."""

    def trip(_, values):
        after = []
        for k, v in enumerate(values):
            other = values[k - 3]
            if v.dtype == bool:
                after.append(~v)
            elif v.dtype.kind in "iu":
                after.append(v * jnp.asarray(3, v.dtype) + jnp.asarray(k, v.dtype))
            else:
                after.append(jnp.tanh(v + 0.01 * other.sum()) if v.ndim == 1 else 0.5 * v + jnp.float32(k))
        return after

    kinds = [x[0], x[:7], x.reshape(2, -1), jnp.int32(5), x > 0.1, jnp.arange(3, dtype=jnp.uint8), jnp.uint32(7)]
    large = [jnp.zeros(5000), jnp.ones(5000)]
    return lax.fori_loop(0, 6, trip, [*(kinds[k % 7] for k in range(44)), *large])


def mixed(args):
    """A layer that is trained in bfloat16, its weights in float32, and a trace of its losses in float16."""
    w, x = args

    def loss(w):
        return ((x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32) ** 2).mean()

    def step(w, _):
        value, slope = veery.value_and_grad(loss)(w)
        return w - 0.25 * slope, value.astype(jnp.float16)

    return lax.scan(step, w, None, length=4)


def halves(x):
    """Values of half precision that are carried, rounded after each operation, compared, and written in part."""

    def trip(i, state):
        a, b, most = state
        a = (a * b).astype(a.dtype) - a * jnp.asarray(0.3, a.dtype)
        b = jnp.where(b > 1, b / 2, b.at[i].set(lax.rem(b[i + 1] * 3, b[0])))
        return a, b, jnp.maximum(most, b.max().astype(jnp.float16))

    a, b, most = lax.fori_loop(0, 6, trip, (x.astype(jnp.bfloat16), x.astype(jnp.float16), jnp.float16(0)))
    return a.astype(jnp.float32), b.astype(jnp.float32), most.astype(jnp.float32)


def rounded(x):
    """Of fewer bits: some become infinite, some zero, NaN stays."""
    formats = (8, 7), (5, 10), (5, 3), (4, 23), (2, 2)
    each = lambda c, v: (c + 1, [lax.reduce_precision(v, *bits) for bits in formats])
    halves = lambda c, v: (c + 1, [lax.reduce_precision(v, *bits).astype(jnp.float32) for bits in ((3, 2), (5, 4))])
    lines = x.reshape(5, -1)
    kinds = (lines, each), (lines.astype(jnp.float16), halves), (lines.astype(jnp.bfloat16), halves)
    return [lax.scan(trip, 0, values)[1] for values, trip in kinds]


def running(x):
    """Running sums, products and extremes, from both sides, and what is above windows of several shapes."""

    def trip(c, v):
        signs = (v * 9).astype(jnp.int32)
        above = lax.reduce_window(c, -jnp.inf, lax.max, (2, 3), (2, 1), "SAME", (1, 1), (1, 2))
        below = lax.reduce_window(c, 0.0, lax.add, (3, 1), (1, 2), [(2, -1), (0, 1)], (2, 1))
        c = 0.5 * c + lax.cumsum(v, 1, reverse=True) - lax.cumprod(jnp.cos(v), 0) + lax.cumlogsumexp(c, 1)
        return c, (lax.cummax(c, 0), jnp.cumsum(signs, 1), jnp.cumsum(v > 0.1, 0), above, below)

    return lax.scan(trip, x[0], x)


def filtered(args):
    """Convolutions, with gradients: of lines and images, with steps, dilations and groups."""
    x, w, lines = args

    def loss(w, x):
        h = lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = lax.conv(jnp.tanh(h), w[:1, :2], (1, 1), "VALID")
        other = lax.conv_general_dilated(
            h, w[:, :, :1].reshape(-1, 1, 3, 1)[:4], (1, 1), [(1, 0), (2, 1)], (2, 1), (1, 2)
        )
        return (other**2).mean() + h.mean()

    def step(w, x):
        apart = lax.conv_general_dilated(x, w.reshape(12, 1, 3, 3)[:6], (1, 1), "SAME", feature_group_count=3)
        return w - 0.1 * veery.grad(loss)(w, x), (apart, jnp.convolve(lines, w[0, 0, 0]))

    return lax.scan(step, w, x)


def ranked(x):
    """What is sorted in trips: equal, absent and negative zeros among it, by several keys, from both ends."""

    def trip(c, v):
        places = jnp.argsort(v, axis=0)
        _, second = lax.sort((jnp.round(v).astype(jnp.int8), v), dimension=1, num_keys=2)
        return jnp.sort(c + v, axis=1)[:, ::-1], (
            places,
            second,
            lax.top_k(v, 3),
            lax.top_k((v * 9).astype(jnp.int32), 2),
        )

    return lax.scan(trip, jnp.zeros(x.shape[1:]), x)


def factored(xs):
    """What decompositions of small matrices multiply to, and their signs told apart."""

    def step(c, x):
        q, r = jnp.linalg.qr(x)
        u, s, v = jnp.linalg.svd(x, full_matrices=False)
        w, z = jnp.linalg.eigh(x.T @ x)
        many = veery.scipy.linalg.solve_triangular(jnp.eye(3) + x[:3], jnp.tile(x[:3], (1, 7)), lower=True)
        return c + s[0], (q @ r, jnp.abs(r), s, (u * s) @ v, w, (z * w) @ z.T, many)

    return lax.scan(step, jnp.float32(0), xs)


def waves(args):
    """Complex numbers that go round, alone, in matrices, in branches, and written in part."""
    h, z = args

    def step(state, x):
        psi, line, n = state
        psi = psi - 0.1j * (h @ psi)
        psi = psi / jnp.sqrt(jnp.sum(jnp.abs(psi) ** 2))
        change = lambda psi: lax.fori_loop(0, 2, lambda _, v: v * jnp.exp(0.5j * x) + v.conj(), psi)
        psi = lax.cond(n % 2 == 0, change, lambda psi: psi[::-1].real + 1j * jnp.roll(psi.imag, 1), psi)
        line = line.at[n].set(line[n - 1] * psi[0] + jnp.where(line == line[n], line, 1).sum())
        return (psi, line, n + 1), (psi.astype(jnp.complex64).imag, jnp.vdot(psi, line[: len(psi)]), line != line[n])

    return lax.scan(step, (z[: len(h)] + 0j, z, jnp.int32(0)), z.real)


def nothing(x):
    return lax.scan(lambda c, v: (c @ x, v.sum()), x, jnp.zeros((0, 3)))


SQUARE = X[:81].reshape(9, 9)
NETWORK = {
    "w": np.linspace(-1, 1, 20 * 20).reshape(20, 20).astype(np.float32) / 5,
    "u": np.linspace(1, -1, 5 * 20).reshape(5, 20).astype(np.float32),
    "xs": np.sin(np.arange(7 * 3 * 5)).reshape(7, 3, 5).astype(np.float32),
}
UNUSUAL = np.array(
    [0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e-45, -1e-39, 6e-8, 6.1e-5, 65519, 65520, 3.4e38, -448, 1.00390625,
     1.01171875, np.pi, -1 / 3, 0.1],
    np.float32,
)  # fmt: skip
IMAGES = (
    np.sin(np.arange(2 * 2 * 6 * 3 * 3, dtype=np.float32)).reshape(2, 2, 3, 6, 3),
    np.cos(np.arange(2 * 2 * 3 * 9, dtype=np.float32)).reshape(3, 3, 3, 4),
    X[:7],
)


def special(x: Any) -> Any:
    """Functions that IREE has as operations of CHLO, and rounding away from zero."""

    def trip(x, _):
        y = nn.gelu(x, approximate=False) + lax.round(4 * x) / 8
        return lax.nextafter(y, -y) + veery.scipy.special.zeta(abs(x) + 1.5, 2.0), lax.erfc(x)

    return lax.scan(trip, x, None, length=4)


def process(x: Any) -> Any:
    """The likelihood of a Gaussian process, with matrices that LAPACK factors outside of loops."""

    def loss(scale):
        near = jnp.exp(-jnp.square(x[:, None] - x) * scale) + 0.5 * jnp.eye(x.size)
        factor = jnp.linalg.cholesky(near)
        half = veery.scipy.linalg.solve_triangular(factor, jnp.sin(x), lower=True)
        return half @ half + jnp.log(jnp.diagonal(factor)).sum() + jnp.linalg.solve(near[:33, :33], x[:33]).sum()

    return lax.scan(lambda s, _: (s - 1e-3 * veery.grad(loss)(s), loss(s)), jnp.float32(1.5), None, length=3)


def other_widths(x: Any) -> Any:
    """The bytes of numbers in turn, and what two halves of others are."""

    def trip(i: Any, carried: Any) -> Any:
        word, halves = carried
        parts = lax.bitcast_convert_type(word, jnp.uint8)
        word = lax.bitcast_convert_type(jnp.roll(parts, 1, axis=1), jnp.uint32) + i.astype(jnp.uint32)
        number = lax.bitcast_convert_type(halves, jnp.float32) * 1.5
        return word, lax.bitcast_convert_type(number, jnp.int16)

    return lax.fori_loop(0, 5, trip, (x, lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int16)))


def looked_up(args: Any) -> Any:
    """Each number leads to the next one, in tables of several types, from some of them outside."""
    places, x = args

    def trip(i: Any, carried: Any) -> Any:
        at, total, flags = carried
        found = jnp.take(SQUARE[:, 2] + x[0], at - 3, mode=("clip", "fill")[len(x) % 2], fill_value=0.5)
        total = total + jnp.where(flags, found, x[at % len(x)]) + jnp.array(SQUARE).T[:, 2][at % 9]
        flags = (jnp.array([True, False, True, True, False]) & (x[:5] < 0.5))[at % 5]
        bytes_ = jnp.array([3, 250, 7], np.uint8)[(at % 3).astype(np.uint8)]
        step = jnp.array([5, -7, 2, 100], np.int16)[jnp.abs(total).astype(np.int32) % 4]
        return (at * 3 + i + bytes_ + step) % 11, total, flags

    return lax.fori_loop(0, 7, trip, (places, x[0] * places, places > 3))


def found(args: Any) -> Any:
    return jnp.searchsorted(jnp.sort(args[0]), args[1]), jnp.searchsorted(jnp.sort(args[0]), args[1], side="right")


# Functions, their arguments, and how many of their loops are kernels on the CPU.
LOOPS = [
    (looked_up, ((np.arange(-4, 8, dtype=np.int32), X[:7]),), 1),
    (looked_up, ((np.arange(35, dtype=np.int32).reshape(5, 7), X[:50]),), 1),
    (looked_up, ((np.arange(70_001, dtype=np.int32), X[:50]),), 1),
    (found, ((np.tile(UNUSUAL[:7], 60), np.tile(UNUSUAL[::-1][:7], 20)),), 2),
    (found, ((X[::3], np.linspace(-2, 2, 40_003).astype(np.float32)),), 2),
    (other_widths, (np.array([1, 2**31 + 5, 77, 123456789], np.uint32),), 1),
    (newton, (np.float32(3),), 1),
    (special, (X,), 1),
    (process, (X[:40] * 3,), 1),
    (escape, (X.reshape(10, 10),), 1),
    (oscillator, (np.array([0, 1], np.float32),), 1),
    (averages, (X,), 1),
    (running_rows, (ROWS,), 1),
    (generator, (np.uint32(7),), 1),
    (recurrence, (X,), 1),
    (nested, (X,), 1),
    (collatz, (np.arange(40, dtype=np.int32),), 1),
    (power_iteration, (X[:9].reshape(3, 3),), 1),
    (exchange, (X,), 1),
    (bits, (np.array([-7, 0, 1, 2**31 - 1, -(2**31)], np.int32),), 1),
    (never, (X,), 1),
    (veery.grad(lambda x: averages(x)[1][0].sum()), (X,), 2),
    (recurrent, (NETWORK,), 3),
    (veery.vmap(diffusion), (np.stack([SQUARE, SQUARE * 2]),), 1),
    (columns, (SQUARE,), 1),
    (kalman, (np.sin(np.arange(20, dtype=np.float32)).reshape(10, 2),), 1),
    (conjugate_gradients, (X[:37],), 1),
    (choices, (SQUARE,), 1),
    (chosen_once, ((np.bool_(True), SQUARE),), 1),
    (indexed, (np.sin(np.arange(30, dtype=np.float32)).reshape(5, 6),), 1),
    (counting, (np.arange(9, dtype=np.int32).reshape(3, 3),), 1),
    (many, (X,), 1),
    (mixed, ((SQUARE, SQUARE[:5] + 1),), 1),
    (halves, (X[10:] * 3,), 1),
    (rounded, (UNUSUAL,), 3),
    (running, (np.sin(np.arange(3 * 5 * 37, dtype=np.float32)).reshape(3, 5, 37),), 1),
    (filtered, (IMAGES,), 1),
    (ranked, (np.concatenate([np.round(UNUSUAL), SQUARE.ravel(), SQUARE.ravel()])[:126].reshape(2, 9, 7),), 1),
    (factored, (np.sin(np.arange(1, 46, dtype=np.float32) ** 2).reshape(3, 5, 3),), 1),
    (waves, ((SQUARE[:5, :5] * 1j + SQUARE[:5, :5].T, X[:7] + 1j * X[3:10]),), 1),
    (escape, (X.reshape(10, 10) + 1j * X.reshape(10, 10).T,), 1),
    (escape, (np.linspace(-1, 1, 70_001).astype(np.float32),), 1),  # by several workgroups, of which one has less
    (nothing, (SQUARE,), 0),
]
