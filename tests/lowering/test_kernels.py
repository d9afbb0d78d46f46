"""Loops as kernels of our own: which ones, and that they compute what the loops do."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted
from support.kernels import how_many
from support.loops import LOOPS, SQUARE, X, newton

import veery
from veery import lax, numpy as jnp
from veery_lowering.compiler import isolation
from veery_lowering.compiler.sessions import Diagnostic
from veery_lowering.kernels import ProductKernel, RowKernel, fuse_loops, fuse_products, fuse_rows
from veery_lowering.kernels._body import Body
from veery_lowering.kernels._executable import Executable
from veery_lowering.passes.simplification import inlined

kernels = functools.partial(how_many, fuse_loops)


def test_which_loops_become_kernels() -> None:
    assert [kernels(fun, *args) for fun, args, _ in LOOPS] == [count for *_, count in LOOPS]
    sorting = lambda x: lax.fori_loop(0, 20, lambda i, u: u + 0.1 * jnp.sort(u), jnp.tile(x, 9))
    products = lambda x: lax.fori_loop(0, 20, lambda i, u: jnp.tanh(u @ x), x)
    parts = lambda x: lax.fori_loop(0, 9, lambda i, us: [jnp.roll(u, k) for k, u in enumerate(us)], [x] * 40)
    printing = lambda x: lax.fori_loop(0, 2, lambda i, u: (veery.debug.print("{}", u), u)[1], x)
    written = lambda x: lax.fori_loop(0, 3, lambda i, t: t.at[i].set(t[i] * 2), x * 2)
    rising = lambda s: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, sorting(s[1])[:100]), s)
    choosing = lambda x: lax.fori_loop(0, 3, lambda i, s: lax.cond(i > 1, rising, lambda s: s, s), (x, x * X))
    million = np.ones(10**6, np.float32)
    one = np.float32(1)
    square = million[: 1 << 16].reshape(256, 256)
    of_one = [(choosing, one), (sorting, X), (parts, million[:5000]), (printing, one)]
    for fun, x in [*of_one, (products, square), (written, million)]:
        assert kernels(fun, x) == 0


@pytest.mark.parametrize("part", range(5))
def test_kernels_compute_what_loops_do(part: int) -> None:
    loops = LOOPS[part::5]
    arguments = [veery.tree.map(jnp.array, x) for _, args, _ in loops for x in args]
    everything = lambda *xs: [fun(x) for (fun, *_), x in zip(loops, xs)]
    lowered = veery.jit(everything).lower(*arguments)
    assert "fallback" not in lowered._lowered.compile().metadata
    for (fun, args, _), outs in zip(loops, lowered.compile()(*arguments)):
        flat, tree = veery.tree.flatten(args)
        expected = veery.tree.leaves(interpreted(lambda *xs: fun(*veery.tree.unflatten(tree, xs)), *flat))  # noqa: B023
        for actual, wanted in zip(veery.tree.leaves(outs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=1e-6, err_msg=str(fun))
    for x, argument in zip((x for _, args, _ in loops for x in args), arguments):
        same = veery.tree.map(lambda a, b: np.array_equal(a, b, equal_nan=True), argument, x)
        assert all(veery.tree.leaves(same))  # what they write by rows is no argument


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_of_constants_of_which_one_result_is_read_on(reverse: bool) -> None:
    """IREE runs such a kernel twice, and takes its first result for the second."""

    @veery.jit
    def sums() -> Any:
        start = jnp.zeros(()), jnp.ones(())
        (total, _), ones = lax.scan(lambda c, x: ((c[0] + x, c[1]), c[1]), start, jnp.ones(3), reverse=reverse)
        return 1 + total, ones

    total, ones = sums()
    assert float(total) == 4
    np.testing.assert_array_equal(ones, np.ones(3))


def test_integers_and_orders_that_a_loop_draws() -> None:
    drawn = lambda key: (veery.random.randint(key, (5,), -3, 9), veery.random.permutation(key, 7))
    keys = veery.random.split(veery.random.key(3), 4)
    looped = veery.jit(lambda keys: lax.scan(lambda _, key: (None, drawn(key)), None, keys)[1])
    assert kernels(looped, keys) == 1
    for found, expected in zip(looped(keys), zip(*map(drawn, keys)), strict=True):
        np.testing.assert_array_equal(found, np.stack(expected))


FACTORS = [(40, 33, 20), (16, 8, 1), (15, 8, 9), (17, 7, 12), (64, 32, 128), (1, 32, 32), (20, 300, 300)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products_whose_second_factors_columns_lie_in_memory(dtype: str, x64: Any) -> None:
    """In loops, with batches and without, of columns that are two axes, and of a part of an array."""
    integers = lambda *shape: np.random.default_rng(5).integers(-3, 4, shape).astype(dtype)
    twice = lambda fun: lambda x, y: lax.fori_loop(0, 2, lambda i, c: (fun(x + i, y), c[0]), (fun(x, y),) * 2)
    calls = [(lambda x, y: x @ y.T, integers(m, k), integers(n, k)) for m, n, k in FACTORS]
    calls += [
        (lambda x, y: jnp.einsum("bik,bjk->bij", x, y), integers(3, 20, 6), integers(3, 9, 6)),
        (lambda x, y: jnp.einsum("ik,abk->iab", x, y), integers(20, 6), integers(3, 4, 6)),
        (lambda x, y: jnp.einsum("ikl,akl->ia", x, y), integers(20, 6, 5), integers(9, 6, 5)),
        (lambda x, y: x @ y[::2, 1:].T, integers(20, 6), integers(18, 7)),
    ]
    program = lambda pairs: [twice(fun)(*pair) for (fun, *_), pair in zip(calls, pairs)]
    pairs = [pair for _, *pair in calls]
    assert kernels(program, pairs) == len(calls)
    for (fun, x, y), (last, before) in zip(calls, veery.jit(program)(pairs)):
        np.testing.assert_array_equal(last, interpreted(fun, x + np.ones((), dtype), y))
        np.testing.assert_array_equal(before, interpreted(fun, x, y))


BOOLEANS: list[Callable[[Any, Any], Any]] = [
    lambda m, i: jnp.roll(m, (1, -2), (0, 1)),
    lambda m, i: sum(jnp.roll(m, k, 1).astype(np.int32) for k in range(4)) % 2 == i % 2,
    lambda m, i: m[::-1].astype(np.float32) + m[:, ::-1].astype(np.int8) > i % 2,
    lambda m, i: m.T.reshape(m.shape).astype(np.uint8) + m[0].astype(np.uint8) != 1,
    lambda m, i: m.astype(jnp.bfloat16) * m[:, :1].astype(np.float16) > 0.5,
    lambda m, i: (m.sum(1, keepdims=True) > m.astype(np.int32)) ^ m[i],
    lambda m, i: jnp.pad(m[1:, 2:], ((0, 1), (1, 1))) & (m | (i == 1)),
    lambda m, i: m[jnp.argsort(m.sum(1) + i)].astype(np.float32) != m.astype(np.float32),
]


def test_factors_are_turned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is worth it, before the loop if nothing in it changes them."""
    texts: list[tuple[int, int]] = []
    turned = Body.turned

    def noted(self: Body, *args: Any) -> Any:
        before = len(self.out.prologue), len(self.out.lines)
        found = turned(self, *args)
        texts.append((len(self.out.prologue) - before[0], len(self.out.lines) - before[1]))
        return found

    monkeypatch.setattr(Body, "turned", noted)
    h, w = np.ones((16, 32), np.float32), np.ones((32, 32), np.float32)
    kernels(lambda h, w: lax.fori_loop(0, 40, lambda i, h: jnp.tanh(h @ w.T) + jnp.sin(h) @ w.T, h), h, w)
    assert len(texts) == 2 and texts[0][0] > 0 and texts[0][1] == 0 and texts[1] == (0, 0)
    texts.clear()
    kernels(lambda h, w: lax.fori_loop(0, 40, lambda i, s: (s[0] @ s[1].T, s[1] * 0.9), (h, w)), np.ones((64, 32)), w)
    assert len(texts) == 1 and texts[0][0] == 0 and texts[0][1] > 0
    texts.clear()
    kernels(lambda h, w: lax.fori_loop(0, 40, lambda i, h: h @ w, h), h, w)
    assert not texts


@pytest.mark.parametrize("shape", [(9, 16), (5, 33), (3, 130)], ids=str)
def test_booleans_that_are_copied_and_become_numbers(shape: tuple[int, int]) -> None:
    mask = np.random.default_rng(3).random(shape) > 0.4
    loops = [lambda m, fun=fun: lax.fori_loop(0, 5, lambda i, c: (fun(c[0], i), c[0]), (m, ~m)) for fun in BOOLEANS]
    program = lambda m: [loop(m) for loop in loops]
    assert kernels(program, mask) == len(loops)
    for loop, outs in zip(loops, veery.jit(program)(mask)):
        for actual, wanted in zip(outs, interpreted(loop, mask), strict=True):
            np.testing.assert_array_equal(actual, wanted)


def test_what_libraries_are_called_for() -> None:
    """LAPACK by its addresses but for small matrices in loops, and NumPy for general eigenvalues and long sorts."""
    looped = lambda fun: lambda x: lax.fori_loop(0, 3, lambda _, x: fun(x), x)
    for fun, shape, called in (
        (jnp.linalg.cholesky, (3, 3), "veery.lapack"),
        (jnp.linalg.inv, (2, 9, 9), "veery.lapack"),
        (lambda x: jnp.linalg.inv(x + 0j), (3, 3), "veery.lapack"),
        (looped(jnp.linalg.cholesky), (200, 200), "veery.lapack"),
        (looped(jnp.linalg.cholesky), (9, 9), None),
        (jnp.linalg.eigvals, (3, 3), "host.cb"),
        (jnp.sort, (200,), "host.cb"),
    ):
        text = veery.jit(fun).lower(np.ones(shape, np.float32)).as_text()
        assert [name for name in ("veery.lapack", "host.cb") if name in text] == ([called] if called else [])


def test_a_loop_that_a_value_ends_does_not_hold_up_its_caller() -> None:
    compiled = veery.jit(newton).lower(np.float32(2)).compile()
    assert compiled.cost_analysis()["queue"] == "threaded" and compiled(jnp.float32(2))[1] == 3


def test_without_kernels_where_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = isolation.run_pipeline, []

    def fail_first(module: bytes, *rest: Any, **options: Any) -> Any:
        calls.append(b"veery_loop_0" in module)
        return (None, [Diagnostic("error", "too many\nregisters")]) if calls[-1] else run(module, *rest, **options)

    monkeypatch.setattr(isolation, "run_pipeline", fail_first)
    program = veery.jit(newton).lower(np.float32(2))._lowered.with_options(cache=False).compile()
    assert calls[0] and not calls[-1]
    assert program.metadata["fallback"].startswith("compiled without kernels of our own")
    assert "too many registers" in program.metadata["fallback"] and program.metadata["control_flow"] == "host"


@pytest.mark.parametrize("error", [RuntimeError("a fault"), AssertionError(), KeyError("x")])
def test_a_kernel_that_cannot_be_written_leaves_the_loop_to_iree(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Executable, "code", property(fail))
    power = veery.jit(lambda a: lax.fori_loop(0, 5, lambda i, v: a @ v, jnp.ones(3)))
    compiled = power.lower(SQUARE[:3, :3])._lowered.with_options(cache=False).compile()
    assert compiled.metadata["control_flow"] == "host" and "fallback" not in compiled.metadata
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].exc_info[1] is error


def test_passes_that_fail_leave_the_program_to_iree(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("veery_lowering.kernels._given_away", fail)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    twice = veery.jit(lambda x: (x @ x.T) * 2 + x.sum(1))
    compiled = twice.lower(x)._lowered.with_options(cache=False).compile()
    assert "fallback" not in compiled.metadata
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert "could not be written" in caplog.records[0].getMessage()
    np.testing.assert_allclose(twice(x), (x @ x.T) * 2 + x.sum(1))


def test_double_precision_and_what_is_not_finite() -> None:
    with veery.enable_x64(True):
        x = np.linspace(0, 1, 12).reshape(3, 4)
        x[1, 2] = np.nan
        x[0, 0] = np.inf
        trip = lambda i, v: jnp.stack([(v * v).sum(0), v.max(0), v.min(0)])
        found = veery.jit(lambda x: lax.fori_loop(0, 3, trip, x))(x)
        expected = interpreted(lambda x: lax.fori_loop(0, 3, trip, x), x)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize(("kind", "fuse"), [(ProductKernel, fuse_products), (RowKernel, fuse_rows)])
def test_programs_are_as_they_were_without_kernels_that_cannot_be_written(
    kind: type, fuse: Callable[[Any], int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any, **how: Any) -> None:
        raise KeyError(kind.__name__)

    def unchanged(module: Any) -> None:
        before = str(module)
        assert fuse(module) == 0
        assert str(module) == before

    monkeypatch.setattr(kind, "__init__", broken)
    x = jnp.ones((40, 33), jnp.bfloat16)
    function = lambda x: veery.nn.softmax(lax.dot(x, x.T, preferred_element_type=np.float32), axis=-1)
    inlined(veery.jit(function).lower(x)._lowered.module, unchanged)
    assert "could not be written" in caplog.text and kind.__name__ in caplog.text


@pytest.mark.parametrize(
    "given", [np.ones(300, np.complex64), np.ones((0, 3), np.float32), np.ones(6, jnp.float8_e4m3fn)]
)
@pytest.mark.usefixtures("as_preferred")
def test_what_no_kernel_holds_may_be_given_away(given: np.ndarray) -> None:
    """Beside kernels of all kinds, which ask whose place their results may take."""

    def fun(x: Any, y: Any) -> Any:
        rows = y - y.max(1, keepdims=True) * y.std(1, keepdims=True)
        return x[::-1], y @ y.T + 1, rows, (y * 2).sum(0) - y.min(0), jnp.pad(jnp.tanh(y), 1), -y

    y = np.random.default_rng(3).standard_normal((40, 33)).astype(np.float32)
    found = veery.jit(fun, donate_argnums=0)(jnp.asarray(given), y)
    for actual, expected in zip(found, interpreted(fun, given, y), strict=True):
        assert actual.dtype == expected.dtype
        wide = [np.asarray(x).astype(np.complex128) for x in (actual, expected)]
        np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-5)
