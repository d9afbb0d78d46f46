"""Python functions within programs. What is printed and called, and the words of errors, are JAX's."""

from __future__ import annotations

import logging
import threading
import traceback
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax
from veery.debug import print as show
from veery.experimental import io_callback

f32 = np.float32
SCALAR = veery.ShapeDtypeStruct((), f32)
X = np.arange(3, dtype=f32)


def printed(capsys, fun, *args):
    """The lines that a function prints, after all effects."""
    capsys.readouterr()
    veery.block_until_ready(fun(*args))
    veery.effects_barrier()
    return capsys.readouterr().out.splitlines()


# pure_callback


def twice(x):
    assert isinstance(x, veery.Array) and not isinstance(x, np.ndarray)
    return np.asarray(x) * 2


def unused(x):
    """What calls Python for nothing."""
    veery.pure_callback(twice, SCALAR, x)
    return x * 3


@pytest.mark.parametrize(
    "fun",
    [
        unused,
        lambda x: veery.jit(unused)(x) + 1,
        lambda x: lax.fori_loop(0, 3, lambda _, x: unused(x), x),
        lambda x: lax.while_loop(lambda x: x < 9, lambda x: veery.jit(unused)(x), x),
        lambda x: lax.scan(lambda x, _: (unused(x), x), x, length=2),
        lambda x: lax.cond(x > 0, unused, lambda x: x, x),
        veery.checkpoint(unused),
    ],
    ids="alone jit fori while scan cond checkpoint".split(),
)
def test_pure_functions_are_not_called_for_nothing(fun):
    """In a loop that has such a call is no kernel: the steps of a Gaussian process took 30 times as long."""
    assert "host.cb" not in veery.jit(fun).lower(f32(1)).as_text()


VALUES = [
    f32(1.5),
    np.zeros((0, 3), f32),
    np.array([True, False]),
    np.array([[1.5, -2], [3, 4]], ml_dtypes.bfloat16),
    np.array([1 + 2j, 3j], np.complex64),
    np.arange(3, dtype=np.uint8),
]


@pytest.mark.compiler
def test_values_of_all_kinds_make_the_round_trip():
    def f(tree):
        return veery.pure_callback(lambda t: t, veery.tree.map(veery.typeof, tree), tree)

    tree = {"values": VALUES, "none": None}
    for run in (f, veery.jit(f)):
        out = run(tree)
        assert veery.tree.structure(out) == veery.tree.structure(tree)
        for got, want in zip(out["values"], VALUES):
            assert got.dtype == want.dtype and got.shape == want.shape
            assert np.asarray(got).tobytes() == want.tobytes()


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.zeros(4, f32), r"Incorrect output shape for return value #0: Expected: \(\), Actual: \(4,\)"),
        (np.zeros((), np.int32), "Incorrect output dtype for return value #0: Expected: float32, Actual: int32"),
        ((f32(1), f32(2)), "Mismatched number of outputs from callback. Expected: 1, Actual: 2"),
        (None, "Mismatched number of outputs from callback. Expected: 1, Actual: 0"),
        ("a", "Dtype <U1 is not a valid array type"),
    ],
)
def test_other_results_than_declared_are_refused(returned, words):
    f = lambda x: veery.pure_callback(lambda x: returned, SCALAR, x)
    with pytest.raises(veery.errors.JaxRuntimeError, match=words):
        f(X)
    with pytest.raises(veery.errors.JaxRuntimeError, match=words):
        veery.jit(f)(X)


@pytest.mark.compiler
def test_wide_results_are_narrowed_like_all_arrays():
    f = veery.jit(lambda x: veery.pure_callback(lambda x: (np.float64(2), [1.0]), (SCALAR, [SCALAR]), x))
    assert veery.tree.map(float, f(X)) == (2.0, [1.0])
    with pytest.raises(ValueError, match="64-bit types when `jax_enable_x64` is disabled"):
        veery.pure_callback(twice, np.zeros(3), X)
    with veery.enable_x64(True):
        y = veery.pure_callback(lambda x: x, np.zeros(3), np.arange(3.0))
        assert y.dtype == np.float64


METHODS = {
    "sequential": [((2,), (2,))] * 4,
    "sequential_unrolled": [((2,), (2,))] * 4,
    "expand_dims": [((4, 2), (1, 2))],
    "broadcast_all": [((4, 2), (4, 2))],
    "legacy_vectorized": [((4, 2), (2,))],
}


@pytest.mark.compiler
@pytest.mark.parametrize("method", METHODS)
def test_vmap_methods(method):
    shapes = []

    def add(x, y):
        shapes.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    f = lambda x, y: veery.pure_callback(add, veery.typeof(x), x, y, vmap_method=method)
    x, y = np.arange(8, dtype=f32).reshape(2, 4), np.ones(2, f32)
    out = veery.jit(veery.vmap(f, in_axes=(1, None)))(x, y)
    np.testing.assert_array_equal(out, x.T + 1)
    assert shapes == METHODS[method]


def test_vmap_needs_a_method():
    f = lambda x: veery.pure_callback(twice, SCALAR, x)
    with pytest.raises(NotImplementedError, match="vmap is only supported for the pure_callback primitive when"):
        veery.vmap(f)(X)
    with pytest.raises(ValueError, match="vmap_method must be on of the allowed methods"):
        veery.pure_callback(twice, SCALAR, X, vmap_method="vectorized")


@pytest.mark.parametrize(
    ("transform", "error", "words"),
    [
        (lambda: veery.grad(lambda x: veery.pure_callback(twice, SCALAR, x))(1.0), ValueError, "do not support JVP"),
        (lambda: veery.grad(lambda x: io_callback(twice, SCALAR, x))(1.0), ValueError, "IO callbacks do not support"),
        (
            lambda: veery.vmap(lambda x: io_callback(twice, SCALAR, x, ordered=True))(X),
            ValueError,
            "Cannot `vmap` ordered IO callback",
        ),
        (
            lambda: veery.vmap(lambda x: lax.cond(x > 0, lambda: io_callback(twice, SCALAR, 1.0), lambda: x))(X),
            NotImplementedError,
            "IO effect not supported in vmap-of-cond",
        ),
        (
            lambda: veery.grad(veery.checkpoint(lambda x: (io_callback(lambda: None, None), jnp.sin(x))[1]))(1.0),
            NotImplementedError,
            "Effects not supported in partial-eval of `checkpoint`/`remat`",
        ),
        (lambda: veery.pure_callback(twice, SCALAR, "abc"), TypeError, "passed to pure_callback at position 0"),
        (lambda: veery.debug.callback(3), TypeError, "must be callable"),
        (lambda: veery.debug.callback(a=1), TypeError, "two-call form"),
    ],
)
def test_what_is_refused(transform, error, words):
    with pytest.raises(error, match=words):
        transform()


@pytest.mark.compiler
def test_a_derivative_rule_of_its_own_makes_it_differentiable():
    @veery.custom_jvp
    def sine(x):
        return veery.pure_callback(lambda x: np.sin(np.asarray(x)), veery.typeof(x), x, vmap_method="broadcast_all")

    sine.defjvp(lambda x, t: (sine(x[0]), jnp.cos(x[0]) * t[0]))
    out = veery.jit(veery.vmap(veery.grad(sine)))(X)
    np.testing.assert_allclose(out, np.cos(X), rtol=1e-6)


@pytest.mark.compiler
def test_unused_pure_callbacks_are_dropped_and_effects_kept():
    calls = []

    def f(x):
        veery.pure_callback(lambda x: calls.append("pure") or x, SCALAR, x[0])
        io_callback(lambda x: calls.append("io"), None, x[0])
        return x

    veery.jit(f)(X)
    veery.effects_barrier()
    assert calls == ["io"]


# Effects.


def test_effects_are_part_of_types():
    def f(x):
        io_callback(lambda: None, None)
        show("{}", x, ordered=True)

    inside = [
        f,
        veery.jit(f),
        lambda x: lax.scan(lambda c, x: (f(x), None), None, x),
        lambda x: lax.cond(x[0] > 0, f, lambda x: None, x),
        lambda x: lax.while_loop(lambda x: x[0] < 1, lambda x: (f(x), x)[1], x),
        veery.checkpoint(f),
        veery.vmap(f),
    ]
    for function in inside:
        names = sorted(map(repr, veery.make_jaxpr(function)(X).effects))
        assert names == ["IOEffect", "OrderedDebugEffect"]


@pytest.mark.compiler
def test_ordered_effects_keep_program_order_in_loops_and_across_calls():
    seen = []
    note = lambda label, x: io_callback(lambda x: seen.append((label, int(x))), None, x, ordered=True)

    def body(i, total):
        note("body", i)
        total = lax.cond(i % 2 == 0, lambda: (note("even", i), total + 1)[1], lambda: total)
        return total

    @veery.jit
    def f(n):
        note("begin", n)
        total = lax.fori_loop(0, n, body, 0)
        note("end", total)
        return total

    @veery.jit
    def big(x):
        y = x @ x
        note("big", y[0, 0].astype(int))
        return y

    ones = jnp.ones((400, 400))
    for _ in range(2):
        big(ones)
        f(2)
        note("eager", 5)
    veery.effects_barrier()
    one = [("big", 400), ("begin", 2), ("body", 0), ("even", 0), ("body", 1), ("end", 1), ("eager", 5)]
    assert seen == one * 2


@pytest.mark.compiler
def test_scans_carry_results_of_callbacks():
    numbers = iter(range(100))
    draw = lambda: io_callback(lambda: f32(next(numbers)), SCALAR, ordered=True)
    total, drawn = veery.jit(lambda: lax.scan(lambda c, _: ((y := draw()) + c, y), 0.0, None, length=4))()
    assert drawn.tolist() == [0.0, 1.0, 2.0, 3.0] and float(total) == 6.0


# debug


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("fun", "lines"),
    [
        (lambda x: show("x={x:.2f} {}", x, x=x[1]), ["x=1.00 [0. 1. 2.]"]),
        (lambda x: show("{} {} {}", "str", x[1], None), ["str 1.0 None"]),
        (
            lambda x: show("{} {!r} {}", x > 1, x.astype(jnp.bfloat16), x[:0]),
            ["[False False  True] Array([0, 1, 2], dtype=bfloat16) []"],
        ),
        (lambda x: show(""), [""]),
        (lambda x: show(ordered=True)("{x}", x=42), ["42"]),
        (veery.vmap(lambda x: show("{} {}", x, 2, ordered=True)), ["0.0 2", "1.0 2", "2.0 2"]),
        (
            lambda x: veery.vmap(veery.vmap(lambda x, y: show("{} {}", x, y), (0, None)), (None, 0))(x, x),
            ["0.0 0.0", "0.0 1.0", "0.0 2.0", "1.0 0.0", "1.0 1.0", "1.0 2.0", "2.0 0.0", "2.0 1.0", "2.0 2.0"],
        ),
        (veery.vmap(lambda x: (show("c"), x)[1]), ["c"]),
        (lambda x: veery.grad(lambda x: (show("g {}", x), x**2)[1])(x[2]), ["g 2.0"]),
        (lambda x: veery.jvp(lambda x: (show("g {}", x), x**2)[1], (x[2],), (x[1],)), ["g 2.0"]),
        (
            lambda x: lax.scan(lambda c, x: (show("{} {}", c, x), (c + x, c))[1], 0.0, x),
            ["0.0 0.0", "0.0 1.0", "1.0 2.0"],
        ),
        (
            veery.grad(lambda x: lax.scan(lambda c, x: (show("{} {}", c, x), (c * x, c))[1], 1.0, x)[0]),
            ["1.0 0.0", "0.0 1.0", "0.0 2.0"],
        ),
        (lambda x: lax.cond(x[0] > 0, lambda: show("a"), lambda: show("b")), ["b"]),
        (
            veery.vmap(lambda x: lax.cond(x > 0, lambda x: show("a {}", x), lambda x: show("b {}", x), x)),
            ["b 0.0", "b 1.0", "b 2.0", "a 0.0", "a 1.0", "a 2.0"],
        ),
        (
            lambda x: lax.while_loop(
                lambda i: (show("c {}", i, ordered=True), i < 2)[1],
                lambda i: (show("b {}", i, ordered=True), i + 1)[1],
                0,
            ),
            ["c 0", "b 0", "c 1", "b 1", "c 2"],
        ),
        (
            veery.vmap(lambda n: lax.while_loop(lambda i: i < n, lambda i: (show("w {}", i), i + 1)[1], 0)),
            ["w 0", "w 0", "w 0", "w 0", "w 1", "w 1"],
        ),
    ],
)
def test_prints(capsys, fun, lines):
    assert printed(capsys, veery.jit(fun), X) == lines


def test_prints_at_once(capsys):
    assert printed(capsys, lambda: show("{} {x}", X, x=3)) == ["[0. 1. 2.] 3"]
    assert printed(capsys, lambda: veery.vmap(lambda x: show("{}", x))(X)) == ["0.0", "1.0", "2.0"]
    with np.printoptions(precision=2):
        assert printed(capsys, lambda: show("{}", X / 3)) == ["[0.   0.33 0.67]"]


policies = veery.checkpoint_policies


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("policy", "times"), [(None, 2), (policies.everything_saveable, 1), (policies.dots_saveable, 2)]
)
def test_what_is_computed_again_is_shown_again(capsys, policy, times):
    f = lambda x: (show("{}", jnp.cos(x)), jnp.sin(jnp.sin(x)))[1]
    assert printed(capsys, veery.grad(veery.checkpoint(f, policy=policy)), 0.0) == ["1.0"] * times


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: show("hello", 1, 2), ValueError, r"Unused positional arguments to `jax.debug.print`: \[1, 2\]"),
        (lambda: show("hello", x=1), ValueError, "You may be passing an f-string"),
        (lambda: show("hello {x}"), KeyError, "x"),
        (lambda: show(ordered=True, a=1), TypeError, "two-call form"),
    ],
)
def test_format_strings_are_checked(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.compiler
def test_log(caplog):
    with caplog.at_level(logging.INFO, "veery.debug"):
        veery.jit(lambda x: veery.debug.log("sum {}", x.sum()))(X)
        veery.effects_barrier()
    assert [record.getMessage() for record in caplog.records] == ["sum 3.0"]


# Errors and threads.


def fail_on_purpose(*_):
    raise KeyError("on purpose") from ValueError("the cause")


FAILING = {
    "pure_callback": lambda x: veery.pure_callback(fail_on_purpose, SCALAR, x[0]),
    "io_callback": lambda x: io_callback(fail_on_purpose, SCALAR, x[0]),
    "debug.callback": lambda x: (veery.debug.callback(fail_on_purpose, x), x + 1)[1],
}


@pytest.mark.compiler
@pytest.mark.parametrize("size", [3, 300_000])
@pytest.mark.parametrize("name", FAILING)
def test_exceptions_surface_at_the_call(name, size):
    """Of small programs, which run in the caller's thread, and of large ones."""
    f, x = veery.jit(FAILING[name]), jnp.arange(size, dtype=f32)
    for _ in range(2):  # each tells the same
        with pytest.raises(KeyError, match="on purpose") as caught:
            f(x)
        error = caught.value
        assert isinstance(error, veery.errors.JaxRuntimeError) and str(error) == "KeyError: 'on purpose'"
        assert [f.name for f in traceback.extract_tb(error.__traceback__)][-1] == "fail_on_purpose"
        assert isinstance(error.__cause__, ValueError)
        (note,) = (n for n in error.__notes__ if "fail_on_purpose" in n)
        assert f"{name} calls from {__file__}" in note
    assert veery.jit(lambda x: x + 1)(1.0) == 2.0
    veery.effects_barrier()


@pytest.mark.compiler
def test_exceptions_of_programs_on_other_threads_surface_at_the_read():
    returned = threading.Event()

    def fail_after_the_call(*_):
        assert returned.wait(60)
        fail_on_purpose()

    f = veery.jit(
        lambda x: veery.pure_callback(fail_after_the_call, SCALAR, x[0]), compiler_options={"queue": "threaded"}
    )
    x = f(X)
    returned.set()
    with pytest.raises(KeyError, match="on purpose"):
        x.block_until_ready()


@pytest.mark.compiler
def test_results_before_branches_with_callbacks_are_there():
    """On worker threads, as large programs are."""

    def checked(x):
        return lax.cond((x < 0).any(), lambda x: veery.pure_callback(fail_on_purpose, x, x), lambda x: x, x)

    @veery.jit
    def f(x):
        a = checked(x @ x)
        return a + 1, checked(a @ x) + 1

    x = jnp.eye(128)
    for result, right in zip(f(x), (x + 1, x + 1)):
        np.testing.assert_array_equal(result, right)
    with pytest.raises(KeyError, match="on purpose"):
        f(x.at[0, 1].set(-1))


@pytest.mark.compiler
def test_failures_without_results_surface_in_the_barrier_once():
    veery.jit(lambda x: veery.debug.callback(fail_on_purpose, x))(X)
    with pytest.raises(KeyError, match="on purpose"):
        veery.effects_barrier()
    veery.effects_barrier()


@pytest.mark.compiler
@pytest.mark.parametrize("size", [3, 600])
def test_callbacks_may_call_programs_with_callbacks(size):
    seen = []
    inner = veery.jit(
        lambda x: lax.while_loop(
            lambda c: c[0] < 2,
            lambda c: (veery.debug.callback(lambda i: seen.append(int(i)), c[0]), (c[0] + 1, c[1] @ c[1] / size))[1],
            (0, x),
        )[1]
    )

    def outer(x):
        y = inner(x)
        veery.effects_barrier()  # its own effects have happened, those around it are not waited for
        return np.asarray(y)

    @veery.jit
    def f(x):
        y = veery.pure_callback(outer, veery.typeof(x), x @ x / size)
        io_callback(lambda y: seen.append("io"), None, y[0, 0], ordered=True)
        return io_callback(outer, veery.typeof(x), y, ordered=True)

    x = jnp.ones((size, size))
    np.testing.assert_allclose(f(x)[0, 0], 1.0, rtol=1e-4)
    veery.effects_barrier()
    assert seen == [0, 1, "io", 0, 1]


@pytest.mark.compiler
def test_programs_with_callbacks_from_many_threads():
    lock, counts = threading.Lock(), []

    def count(x):
        with lock:
            counts.append(int(x))

    f = veery.jit(lambda x: (veery.debug.callback(count, x), veery.pure_callback(twice, veery.typeof(x), x))[1])
    results = {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({(i, j): int(f(100 * i + j)) for j in range(20)}))
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    veery.effects_barrier()
    assert results == {(i, j): 2 * (100 * i + j) for i in range(6) for j in range(20)}
    assert sorted(counts) == sorted(100 * i + j for i in range(6) for j in range(20))


@pytest.mark.compiler
def test_pmap_calls_on_each_device(capsys):
    f = lambda x: (show("{}", x), lax.psum(veery.pure_callback(twice, SCALAR, x), "i"))[1]
    n = min(2, len(veery.devices("cpu")))
    xs = np.arange(n, dtype=f32)
    lines = printed(capsys, lambda: veery.pmap(f, axis_name="i")(xs))
    assert sorted(lines) == [str(float(x)) for x in xs]


@pytest.mark.compiler
def test_saved_programs_cannot_have_callbacks(tmp_path):
    compiled = veery.jit(partial(FAILING["debug.callback"])).lower(X).compile()
    with pytest.raises(Exception, match=r"Python function fail_on_purpose, which a saved program cannot contain.*\.py"):
        compiled.save(tmp_path / "f.vmfb")


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e3m4", "float8_e4m3fn"])
def test_elements_of_a_byte_and_less_are_passed_as_they_are(name):
    dtype = np.dtype(getattr(jnp, name))
    x = jnp.array([0, 1, 1 if name.startswith("u") else -1], dtype)
    seen = []

    def reversed_(x):
        seen.append(np.asarray(x))
        return np.asarray(x)[::-1]

    struct = veery.ShapeDtypeStruct(x.shape, dtype)
    for call in (veery.pure_callback, io_callback):
        function = partial(call, reversed_, struct)
        for outcome in (function(x), veery.jit(function)(x)):
            assert outcome.dtype == dtype
            np.testing.assert_array_equal(np.asarray(outcome), np.asarray(x)[::-1])
    assert len(seen) == 4 and all(value.dtype == dtype and (value == np.asarray(x)).all() for value in seen)


@pytest.mark.compiler
def test_one_of_three_branches_that_give_back_their_operand(capsys):
    def branch(name):
        return lambda x: (show(name + " {}", x), x)[1]

    function = lambda i: lax.switch(i, [branch(name) for name in "abc"], i)
    for run in (function, veery.jit(function)):
        assert [printed(capsys, run, i) for i in range(3)] == [["a 0"], ["b 1"], ["c 2"]]
