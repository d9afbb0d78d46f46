"""Whole programs on a GPU: training, loops, random numbers, and the sizes at which its drivers go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.features import has

import veery
import veery.numpy as jnp
import veery_runtime
from veery import lax, nn, random

_rng = np.random.default_rng(0)


def _normal(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def _everywhere(gpu: Any, fun: Any, *args: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The leaves of the results on the CPU and on the GPU, of two calls there."""
    outs = []
    for device in (veery.devices("cpu")[0], gpu):
        placed = veery.device_put(args, device)
        compiled = veery.jit(fun)
        for _ in range(1 + (device is gpu)):
            outs.append([np.asarray(x) for x in veery.tree_util.tree_leaves(compiled(*placed))])
    for first, second in zip(outs[1], outs[2], strict=True):
        np.testing.assert_array_equal(first, second)
    return outs[0], outs[1]


def test_arrays_that_a_loop_carries_are_parts_of_one_allocation(gpu: Any) -> None:
    def loop(x: Any) -> Any:
        step = lambda s: (jnp.sin(s[0]) + s[1], s[1] * 0.5 + s[0][::-1], s[2] + jnp.abs(s[0]).sum())
        a, b, n = lax.while_loop(lambda s: s[2] < 50, step, (x, x * 2, jnp.float32(0)))
        return jnp.cumsum(a)[::-1] @ jnp.tanh(b) + n

    expected, actual = _everywhere(gpu, loop, np.linspace(0, 1, 5, dtype=np.float32))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_a_training_step_learns_as_on_the_cpu(gpu: Any) -> None:
    parameters = [(_normal(64, 128) / 8, np.zeros(128, np.float32)), (_normal(128, 10) / 8, np.zeros(10, np.float32))]
    images, labels = _normal(32, 64), _rng.integers(0, 10, 32).astype(np.int32)

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        (w1, b1), (w2, b2) = parameters
        logits = jnp.maximum(images @ w1 + b1, 0) @ w2 + b2
        logits = logits - lax.stop_gradient(logits.max(axis=1, keepdims=True))
        chosen = (logits * (labels[:, None] == jnp.arange(10))).sum(axis=1)
        return (jnp.log(jnp.exp(logits).sum(axis=1)) - chosen).sum() / 32

    @veery.jit
    def step(parameters: Any, images: Any, labels: Any) -> Any:
        value, gradient = veery.value_and_grad(loss)(parameters, images, labels)
        return veery.tree_util.tree_map(lambda p, g: p - 0.1 * g, parameters, gradient), value

    losses = {}
    for device in (veery.devices("cpu")[0], gpu):
        state, *batch = veery.device_put((parameters, images, labels), device)
        values = []
        for _ in range(5):
            state, value = step(state, *batch)
            values.append(float(value))
        losses[device.platform] = values
        assert value.devices() == {device}
    assert losses[gpu.platform][-1] < losses[gpu.platform][0]
    np.testing.assert_allclose(losses[gpu.platform], losses["cpu"], rtol=1e-5)


def test_loops_and_branches(gpu: Any) -> None:
    def program(x: Any, n: Any) -> Any:
        doubled = lax.while_loop(lambda c: c[0].sum() < 100, lambda c: (c[0] * 1.5, c[1] + 1), (x, 0))
        summed, history = lax.scan(lambda c, a: (c * 0.9 + a, c), jnp.zeros(()), x)
        counted = lax.fori_loop(0, n, lambda i, c: c + i, 0)
        branch = lax.cond(n > 3, lambda x: x * 2, lambda x: x - 1, x)
        chosen = lax.switch(n, [lambda: 1, lambda: 2, lambda: 3])
        return doubled, summed, history, counted, branch, chosen

    expected, actual = _everywhere(gpu, program, np.abs(_normal(10)), np.int32(7))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_programs_keep_to_one_queue(gpu: Any) -> None:
    """With work on both of its queues IREE lost llvmpipe's device after some calls of a loop."""
    scan = veery.jit(lambda x: lax.scan(lambda c, a: (c * 0.9 + a, c), jnp.zeros(()), x))
    x = veery.device_put(_normal(10), gpu)
    expected = np.asarray(scan(x)[0])
    for _ in range(100):
        np.testing.assert_array_equal(scan(x)[0], expected)


def test_programs_of_copies_alone_copy_what_each_call_passes(gpu: Any) -> None:
    """IREE's runtime plays what it recorded of such commands for the first call again, with its buffers."""
    rows = _normal(5, 3)
    x = veery.device_put(rows, gpu)
    chosen = [4, 0, 3, 3, 1, 2]
    for _ in range(2):
        for i in chosen:
            np.testing.assert_array_equal(x[i], rows[i])
    join = veery.jit(lambda a, b: (jnp.concatenate([b, a]), jnp.zeros_like(a)))
    kept = [(rows[i], rows[j], join(x[i], x[j])) for i, j in zip(chosen, chosen[1:])]
    for a, b, (joined, zeros) in kept:
        np.testing.assert_array_equal(joined, np.concatenate([b, a]))
        np.testing.assert_array_equal(zeros, 0)


def test_random_numbers_have_the_cpus_bits(gpu: Any) -> None:
    if not has(gpu, "int64"):
        pytest.skip(f"{gpu.device_kind} has no 64-bit integers, of which keys are made")

    def program(words: Any) -> Any:
        key = random.wrap_key_data(words)
        keys = random.split(key, 5)
        return (
            random.key_data(keys),
            random.key_data(random.fold_in(key, 7)),
            random.bits(keys[0], (1001,)),
            random.bits(keys[1], (33,), "uint8"),
            random.uniform(keys[2], (100,)),
            random.randint(keys[3], (100,), 0, 17),
            random.normal(keys[4], (100,)),
        )

    expected, actual = _everywhere(gpu, program, np.array([0, 42], np.uint32))
    for a, b in zip(actual[:-1], expected[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(actual[-1], expected[-1], rtol=1e-5, atol=1e-6)


def test_what_is_longer_than_a_shader_may_loop(gpu: Any) -> None:
    """llvmpipe ends loops after 65535 rounds; each of these would be a sum, a maximum or an update too few."""
    convolve = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME")
    indices = _rng.integers(0, 100, 70_001).astype(np.int32)

    def program(x: Any, a: Any, b: Any, images: Any, kernel: Any, indices: Any, updates: Any) -> Any:
        return (
            x.sum(), x.max(), jnp.argmax(x), x / jnp.sqrt((x * x).sum()), x.reshape(3, -1).sum(axis=0), a @ b,
            veery.grad(lambda w: (convolve(images, w) ** 2).sum())(kernel),
            jnp.zeros(100).at[indices].add(updates), jnp.zeros(100).at[indices].set(updates),
        )  # fmt: skip

    args = (_normal(200_001), _normal(3, 100_003), _normal(100_003, 2), _normal(100, 1, 28, 28), _normal(2, 1, 3, 3))
    expected, actual = _everywhere(gpu, program, *args, indices, _normal(70_001))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * np.abs(b).max())


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_reductions_of_every_width(gpu: Any, dtype: str) -> None:
    """IREE fills the idle invocations of signed extremes with the unsigned neutral element."""
    sizes = (3, 24, 40, 160)
    arrays = [(_rng.integers(5, 90, (2, n))).astype(dtype) for n in sizes]
    functions = (lambda x: x.min(axis=1), lambda x: x.max(axis=1), lambda x: x.sum(axis=1))
    negative = [-x if x.dtype.kind != "u" else x for x in arrays]
    program = lambda *xs: [f(x) for x in xs for f in functions]
    expected, actual = _everywhere(gpu, program, *arrays, *negative)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_what_reads_and_writes_many_arrays(gpu: Any) -> None:
    """CUDA binds 16 buffers to a dispatch, others 32."""
    arrays = [_normal(40) for _ in range(40)]
    program = lambda *xs: ([jnp.tanh(x * 2 + y) for x, y in zip(xs, xs[1:])], sum(xs))
    expected, actual = _everywhere(gpu, program, *arrays)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_slices_of_constants(gpu: Any) -> None:
    """In sums IREE makes zeros of them, in the code for CUDA."""
    lower, table = np.tril(np.ones((7, 7), bool)), _normal(7, 7)

    def program(x: Any) -> Any:
        mask, numbers = jnp.asarray(lower), jnp.asarray(table)
        chosen = jnp.where(mask[:5], x[:5], 0)
        return (
            chosen.sum(1), chosen.sum(), jnp.where(mask[::2], x[::2], -1).max(1), (numbers[1:, 2:] * x[1:, 2:]).sum(0),
            numbers[:5] @ x, (numbers.T[:5] * x[:5]).sum(1), jnp.diagonal(x[:, 1:]).cumsum(), nn.softmax(chosen),
        )  # fmt: skip

    expected, actual = _everywhere(gpu, program, _normal(7, 7))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_sums_that_begin_with_the_same_zeros(gpu: Any) -> None:
    """IREE writes the sums of one window to the zeros that both begin with."""

    def program(x: Any, y: Any) -> Any:
        sums = [lax.reduce_window(x, np.float32(0), lax.add, (3,)), lax.reduce_window(y, np.float32(0), lax.add, (2,))]
        best = [lax.reduce_window(x, -np.float32(np.inf), lax.max, (3,)), lax.cummax(y), jnp.cumsum(x[:5])]
        return sums, best, x[:6] @ jnp.outer(y, y), y @ jnp.outer(y, x[:6])

    expected, actual = _everywhere(gpu, program, _normal(7), _normal(6))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_products_of_many_shapes(gpu: Any) -> None:
    """Tiles that divide what is multiplied, and that do not, of batches and of transposed operands."""
    sizes = [(128, 64, 192), (131, 70, 67), (16, 301, 300), (5, 4, 33), (97, 130, 4), (4, 5, 6), (70, 1, 70)]
    plain = [(_normal(m, k), _normal(k, n)) for m, k, n in sizes]
    pairs = [*plain, (_normal(3, 50, 40), _normal(3, 40, 60)), (_normal(9, 33, 17), _normal(9, 17, 35))]
    subscripts = ["mk,nk->mn", "km,kn->mn", "km,nk->mn", "bmk,bnk->bmn", "mbk,bkn->bmn", "bhqd,bkhd->bhqk"]
    shapes = [((65, 40), (70, 40)), ((40, 65), (40, 70)), ((40, 65), (70, 40)), ((3, 33, 16), (3, 34, 16))]
    shapes += [((33, 3, 16), (3, 16, 34)), ((2, 3, 20, 16), (2, 24, 3, 16))]
    others = [(_normal(*a), _normal(*b)) for a, b in shapes]
    bias = _normal(192)

    def program(pairs: Any, others: Any, bias: Any) -> Any:
        (a, b), *_ = pairs
        fused = [jnp.maximum(a @ b + bias, 0), jnp.tanh(a) @ b, (a @ b).sum(1)]
        return [x @ y for x, y in pairs], [jnp.einsum(s, x, y) for s, (x, y) in zip(subscripts, others)], fused

    _, found = _everywhere(gpu, program, pairs, others, bias)
    a, b = (x.astype(np.float64) for x in pairs[0])
    expected = [x.astype(np.float64) @ y for x, y in pairs]
    expected += [np.einsum(s, x.astype(np.float64), y) for s, (x, y) in zip(subscripts, others)]
    expected += [np.maximum(a @ b + bias, 0), np.tanh(a) @ b, (a @ b).sum(1)]
    for c, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(c, right, rtol=1e-4, atol=2e-4)


def test_products_of_matrices(gpu: Any) -> None:
    shapes = [(64, 64, 64), (33, 257, 65), (1, 512, 256), (256, 512, 1), (7, 5, 3)]
    pairs = [(_normal(m, k), _normal(k, n)) for m, k, n in shapes]
    integers = [tuple(np.round(x * 3).astype(np.int32) for x in pair) for pair in pairs]
    halves = [tuple(x.astype(np.float16) for x in pair) for pair in pairs]
    _, products = _everywhere(gpu, lambda *all: [a @ b for a, b in all], *pairs, *integers, *halves)
    count = len(shapes)
    for (a, b), c in zip(pairs, products[:count]):
        np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    for (a, b), c in zip(integers, products[count : 2 * count]):
        np.testing.assert_array_equal(c, a @ b)
    for (a, b), c in zip(pairs, products[2 * count :]):
        assert c.dtype == np.float16
        np.testing.assert_allclose(c, a @ b, rtol=2e-2, atol=2e-2 * np.sqrt(a.shape[1]))


def test_choices_keep_nan(gpu: Any) -> None:
    """NVIDIA's driver for Vulkan makes extremes of them, of which those with NaN are the other number."""
    one, more = np.float32(1), np.array([np.nan, -1, 0, 2, np.nan, np.inf], np.float32)

    def program(x: Any, y: Any) -> Any:
        return (
            jnp.where(x > 1, 1, x), jnp.where(x < one, one, x), jnp.where(x > y, x, y), jnp.where(y >= x, x, y),
            jnp.where(x <= 0, 0, x), jnp.arctan(x),
        )  # fmt: skip

    expected, actual = _everywhere(gpu, program, more, more[::-1].copy())
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_exact_sums_survive_the_drivers_algebra(gpu: Any) -> None:
    """Mesa makes x of (x + c) - c unless it is kept from seeing through."""
    x = _normal(100)

    def two_sum(a: Any, b: Any) -> Any:
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)

    big = np.float32(2.0**12)
    total, error = veery.jit(lambda x: two_sum(x, big))(veery.device_put(x, gpu))
    np.testing.assert_array_equal(np.asarray(total, np.float64) + np.asarray(error), x.astype(np.float64) + big)


def test_python_functions(gpu: Any) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        y = veery.pure_callback(lambda x: np.sort(np.asarray(x)) + 1, veery.typeof(x), x * 2)
        note = lambda v: veery.debug.callback(lambda v: seen.append(float(v)), v, ordered=True)
        return lax.scan(lambda c, v: (note(c + v), (c + v, v * y[0]))[1], jnp.float32(0), y)

    on_cpu, on_gpu = _everywhere(gpu, f, np.array([3, 1, 2], np.float32))
    for a, b in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    veery.effects_barrier()
    assert seen == [3.0, 8.0, 15.0] * 3


def test_exceptions_in_python_functions(gpu: Any) -> None:
    def fail(x: Any) -> Any:
        raise KeyError("on purpose")

    x = veery.device_put(np.ones(3, np.float32), gpu)
    y = veery.jit(lambda x: veery.pure_callback(fail, veery.typeof(x), x) + 1)(x)
    with pytest.raises(KeyError, match="on purpose"):
        y.block_until_ready()
    assert veery.jit(lambda x: x + 1)(x).tolist() == [2.0] * 3


def test_linear_algebra_and_sorting(gpu: Any) -> None:
    """By the host, within loops too, unless they are small there."""
    x = _normal(2, 60, 60)
    s = x @ x.transpose(0, 2, 1) + np.eye(60, dtype=np.float32)

    def fun(s: Any, x: Any) -> Any:
        step = lambda i, c: jnp.linalg.solve(s[0], c) + jnp.sort(c)[::-1]
        small = lambda i, c: jnp.linalg.cholesky(c @ c.T + jnp.eye(4))
        v, w = jnp.linalg.svd(s)[1], jnp.linalg.eigvalsh(s)
        ordered = jnp.sort(x, 1), jnp.argsort(x[0], axis=0), lax.top_k(x, 5)
        loops = lax.fori_loop(0, 5, step, s[1, 0]), lax.fori_loop(0, 5, small, s[0, :4, :4])
        return jnp.linalg.cholesky(s), v, w, jnp.linalg.inv(s), ordered, loops, jnp.fft.rfft(s, axis=1)

    for expected, actual in zip(*_everywhere(gpu, fun, s, x), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_linear_algebra_without_the_host(gpu: Any, tmp_path: Any) -> None:
    """As in saved programs, by loops."""
    x = _normal(2, 4, 4)
    s = x @ x.transpose(0, 2, 1) + np.eye(4, dtype=np.float32)
    fun = lambda s: [jnp.linalg.cholesky(s), jnp.sort(s, 1), jnp.fft.rfft(s, axis=1)]
    target = gpu.target if gpu.platform == "vulkan" else gpu.platform
    veery.aot.compile(veery.jit(fun), (s,), targets=(target,), out=tmp_path / "factors.vmfb")
    program = veery_runtime.load(tmp_path / "factors.vmfb", device=gpu)
    for actual, expected in zip(program(s), veery.jit(fun)(s), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_what_a_loop_gives_is_written_into_what_it_began_with(gpu: Any) -> None:
    """IREE puts the two into one submission, as if no loop were between, and fails; the fallback waits for the loop."""

    def programs(x: Any) -> Any:
        y = x * 2
        return y.at[1:].set(lax.fori_loop(0, 3, lambda i, z: jnp.sin(z), y)[:-1])

    expected, actual = _everywhere(gpu, programs, np.linspace(0, 2, 33, dtype=np.float32))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_trips_write_into_copies(gpu: Any) -> None:
    """Each trip of the scan gets x as it was before, and parts of an array that come from other parts of it."""

    def programs(x: Any, w: Any) -> Any:
        added = lax.scan(lambda c, s: (c, (x.at[jnp.array([0, 5])].add(s), s)), 0, w)[1]
        y = x * 2
        return added, y.at[1:-1].set((y[:-2] + y[2:]) / 2), y.at[1:].set(y[:-1])

    expected, actual = _everywhere(gpu, programs, np.arange(1, 9, dtype=np.float32), np.array([3, 1, 4], np.float32))
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)
