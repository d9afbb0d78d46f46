"""Loops, branches, scans and solvers: values, derivatives to third order, batches, compile time."""

from __future__ import annotations

import numpy as np
import pytest
from support import numerics

import veery
from veery import lax, numpy as jnp
from veery._core.jaxpr import check_jaxpr

X = np.array([0.3, -0.7, 1.1])


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


def scanned(x, **options):
    step = lambda c, a: (lax.mul(lax.sin(c), lax.add(a, 1.0)), {"y": lax.mul(c, a)})
    c, ys = lax.scan(step, np.float64(0.4), x, **options)
    return lax.mul(ys["y"], c)


def carried_counter(x):
    step = lambda c, _: ((lax.add(c[0], 1), lax.mul(lax.sin(c[1]), lax.convert_element_type(c[0], np.float64))), None)
    return lax.scan(step, (np.int64(1), x), None, length=3)[0][1]


def branches(x):
    return lax.switch(2, [lax.sin, lax.cos, lambda y: lax.mul(y, lax.exp(y))], x)


def by_predicate(x):
    total = lax.reduce_sum(x, (0,))
    return lax.cond(lax.gt(total, 0.0), lambda y: lax.mul(lax.sin(y), total), lambda y: lax.mul(y, y), x)


def scan_of_cond(x):
    def step(c, a):
        return lax.cond(lax.gt(a, 0.0), lambda: lax.mul(c, lax.sin(a)), lambda: lax.add(lax.cos(c), a)), c

    return lax.scan(step, np.float64(0.5), x)[1]


def scan_of_scan(x):
    inner = lambda c, a: (lax.mul(lax.sin(c), a), c)
    outer = lambda c, _: (lambda r: (lax.add(r[0], c), r[1]))(lax.scan(inner, c, x))
    return lax.reduce_sum(lax.scan(outer, np.float64(0.7), None, length=2)[1], (0,))


def associative(x):
    pair = lambda a, b: (lax.mul(a[0], b[0]), lax.add(lax.mul(b[0], a[1]), b[1]))
    return lax.associative_scan(pair, (lax.cos(x), x))[1]


def solved(x):
    matrix = lambda y: lax.add(lax.mul(y, lax.add(lax.mul(x, x), 2.0)), lax.rev(y, (0,)))

    def by_columns(f, b):
        columns = veery.vmap(f, out_axes=1)(np.eye(3))
        return lax.dot(inverse(columns), b)

    return lax.custom_linear_solve(matrix, lax.sin(x), by_columns, by_columns)


def inverse(a):
    """By Newton's iteration, which needs no linear algebra."""
    start = lax.mul(lax.transpose(a, (1, 0)), lax.div(1.0, lax.reduce_sum(lax.mul(a, a), (0, 1))))
    step = lambda i, y: lax.dot(y, lax.sub(2 * np.eye(3), lax.dot(a, y)))
    return lax.stop_gradient(lax.fori_loop(0, 30, step, start))


def root(x):
    f = lambda y: lax.sub(lax.add(lax.mul(y, lax.mul(y, y)), y), x)
    newton = lambda f, y: lax.fori_loop(
        0, 40, lambda i, z: lax.sub(z, lax.div(f(z), lax.add(lax.mul(z, z) * 3, 1.0))), y
    )
    tangent = lambda g, y: lax.div(y, g(np.ones(3)))
    return lax.custom_root(f, np.zeros(3), newton, tangent)


FUNCTIONS = {
    "scan": scanned,
    "reversed scan": lambda x: scanned(x, reverse=True),
    "unrolled scan": lambda x: scanned(x, unroll=2),
    "scan that carries a counter": carried_counter,
    "switch": branches,
    "cond": by_predicate,
    "cond in scan": scan_of_cond,
    "scan in scan": scan_of_scan,
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: lax.mul(lax.sin(y), 1.5), x),
    "map": lambda x: lax.map(lambda a: lax.mul(a, lax.sin(a)), x),
    "map in batches": lambda x: lax.map(lambda a: lax.mul(a, lax.sin(a)), x, batch_size=2),
    "associative_scan": associative,
    "associative_scan from the end": lambda x: lax.associative_scan(lax.mul, lax.sin(x), reverse=True),
    "platform_dependent": lambda x: lax.platform_dependent(x, cpu=lax.sin, vulkan=lax.cos),
    "custom_linear_solve": solved,
    "custom_root": root,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(in_numpy, name):
    fun = FUNCTIONS[name]
    scalar = lambda x: lax.reduce_sum(lax.sin(fun(x)), (0,))
    check_jaxpr(veery.make_jaxpr(fun)(X))
    close(veery.jit(fun)(X), fun(X))
    tangent = np.array([0.5, -1.0, 0.25])
    forward = veery.jvp(fun, (X,), (tangent,))[1]
    close(forward, numerics.directional(fun, [X], [tangent]), 1e-5)
    close(veery.linearize(fun, X)[1](tangent), forward)
    gradient = veery.grad(scalar)(X)
    close(gradient, numerics.gradient(scalar, X), 1e-5)
    close(veery.jit(veery.grad(veery.jit(scalar)))(X), gradient)
    check_jaxpr(veery.make_jaxpr(veery.grad(scalar))(X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_higher_derivatives(in_numpy, name):
    fun = FUNCTIONS[name]
    line = lambda t: lax.reduce_sum(lax.sin(fun(lax.add(X, lax.mul(t, np.array([0.5, -1.0, 0.25]))))), (0,))
    first, second = veery.grad(line), veery.grad(veery.grad(line))
    close(second(0.1), numerics.gradient(first, 0.1), 1e-5)
    close(veery.jvp(first, (0.1,), (1.0,))[1], second(0.1))
    third = veery.jvp(second, (0.1,), (1.0,))[1]
    close(third, numerics.gradient(second, 0.1), 1e-4)
    close(veery.grad(second)(0.1), third, 1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches(in_numpy, name):
    fun = FUNCTIONS[name]
    batch = np.stack([X, X * 0.5 + 0.1, -X])
    rows = np.stack([fun(x) for x in batch])
    close(veery.vmap(fun)(batch), rows)
    close(veery.vmap(fun, in_axes=1, out_axes=1)(batch.T), rows.T)
    gradient = veery.grad(lambda x: lax.reduce_sum(fun(x), (0,)))
    close(veery.vmap(gradient)(batch), np.stack([gradient(x) for x in batch]))
    nested = veery.vmap(veery.vmap(fun))(np.stack([batch, batch + 0.1]))
    close(nested[1], np.stack([fun(x) for x in batch + 0.1]))


def test_data_dependent_loops_in_forward_mode(in_numpy):
    halved = lambda x, n: lax.while_loop(
        lambda s: lax.lt(s[0], n), lambda s: (lax.add(s[0], 1), lax.sin(s[1])), (np.int64(0), x)
    )[1]
    for n in (0, 1, 4):
        f = lambda x, n=n: halved(x, np.int64(n))
        close(veery.jvp(f, (0.7,), (1.0,))[1], numerics.gradient(f, 0.7), 1e-6)
        second = lambda x, f=f: veery.jvp(f, (x,), (1.0,))[1]
        close(veery.jvp(second, (0.7,), (1.0,))[1], numerics.gradient(second, 0.7), 1e-5)
        close(veery.jacfwd(veery.jit(f))(0.7), second(0.7))
    xs, ns = np.array([0.3, 0.9, 1.4]), np.array([3, 0, 5])
    close(veery.vmap(halved)(xs, ns), [halved(x, n) for x, n in zip(xs, ns)])
    forward = lambda x, n: veery.jvp(lambda y: halved(y, n), (x,), (1.0,))[1]
    close(veery.vmap(forward)(xs, ns), [forward(x, n) for x, n in zip(xs, ns)])
    growing = lambda x: lax.while_loop(lambda y: lax.lt(y, 10.0), lambda y: lax.mul(y, 2.0), x)
    close(veery.vmap(growing)(np.array([1.0, 20.0, 3.0])), [16.0, 20.0, 12.0])
    close(veery.vmap(veery.jacfwd(growing))(np.array([1.0, 20.0, 3.0])), [16.0, 1.0, 4.0])


def test_reverse_mode_of_data_dependent_loops_is_refused(in_numpy):
    dynamic = lambda n: lambda x: lax.fori_loop(0, n, lambda i, y: lax.sin(y), x)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work for lax.while_loop"):
        veery.jit(lambda x, n: veery.grad(dynamic(n))(x))(0.5, 3)
    close(veery.grad(dynamic(3))(0.5), numerics.gradient(dynamic(3), 0.5), 1e-6)  # static bounds: a scan


def test_a_batched_predicate_evaluates_both_branches(in_numpy):
    f = lambda p, x: lax.cond(p, lambda y: lax.sin(y), lambda y: lax.mul(y, 2.0), x)
    x = np.array([0.1, 0.2, 0.3])
    close(veery.vmap(f)(np.array([True, False, True]), x), [np.sin(0.1), 0.4, np.sin(0.3)])
    text = str(veery.make_jaxpr(veery.vmap(f, in_axes=(None, 0)))(True, x))
    assert "cond" in text and "select_n" not in text
    text = str(veery.make_jaxpr(veery.vmap(f))(np.array([True, False, True]), x))
    assert "select_n" in text and "cond" not in text
    index = veery.vmap(lambda i, x: lax.switch(i, [lax.sin, lax.cos, lax.neg], x))
    close(index(np.array([0, 1, 7]), x), [np.sin(0.1), np.cos(0.2), -0.3])


def test_branches_that_are_not_chosen_have_no_derivative(in_numpy):
    x = np.array([-1.0, 0.0, 1.0, 4.0])
    root = lambda x: lax.cond(x > 0, lax.sqrt, lambda y: lax.mul(y, 3.0), x)
    expected = [3.0, 3.0, 0.5, 0.25]
    with np.errstate(all="ignore"):
        for transform in lambda f: f, veery.jit, veery.checkpoint:
            total = lambda x, transform=transform: lax.reduce_sum(transform(veery.vmap(root))(x), (0,))
            close(veery.grad(total)(x), expected)
            close(veery.jvp(total, (x,), (x + 3.0,))[1], np.dot(expected, x + 3.0))
        close(veery.vmap(veery.grad(root))(x), expected)
        # a value that all elements share
        branch = lambda w, above: veery.vmap(lambda a: lax.cond(a > above, lambda: lax.log(w), lambda: w))(-x)
        shared = lambda w: lax.reduce_sum(branch(w, 0), (0,))
        assert veery.grad(shared)(0.0) == np.inf
        assert veery.grad(lambda w: shared(w) + 0.0 * w)(2.0) == 1 * 0.5 + 3
        assert veery.grad(lambda w: lax.reduce_sum(branch(w, 9), (0,)))(0.0) == 4.0


def test_loops_over_constants_of_their_rules(in_numpy):
    """A derivative rule may make arrays of its own, which are the same in each step."""
    matrices = np.random.RandomState(0).randn(3, 4, 4)
    operations = (
        lambda a: jnp.linalg.slogdet(a)[1],
        jnp.linalg.det,
        lambda a: jnp.linalg.inv(a).sum(),
        lambda a: jnp.linalg.solve(a, a[0]).sum(),
        lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True).sum(),
    )
    for operation in operations:
        rows = np.stack([veery.grad(operation)(m) for m in matrices])
        looped = veery.grad(lambda m, f=operation: lax.map(f, m).sum())
        close(looped(matrices), rows)
        close(veery.jit(looped)(matrices), rows)
        check_jaxpr(veery.make_jaxpr(looped)(matrices))


def test_what_is_not_batched_is_not_broadcast(in_numpy):
    w = np.ones((4, 3))
    body = lambda c, row: (lax.add(c, lax.dot(row, x_of(c))), row)
    x_of = lambda c: lax.broadcast(c, (3,))
    out = veery.make_jaxpr(veery.vmap(lambda c: lax.scan(body, c, w)))(np.ones(5))
    (eqn,) = [e for e in out.eqns if e.primitive.name == "scan"]
    assert [v.aval.shape for v in eqn.invars] == [(5,), (4, 3)]
    assert [v.aval.shape for v in eqn.outvars] == [(5,), (4, 3)]
    loop = lambda c, n: lax.while_loop(lambda s: lax.lt(s[0], n), lambda s: (lax.add(s[0], 1), lax.sin(s[1])), (0, c))
    out = veery.make_jaxpr(veery.vmap(loop, in_axes=(0, None), out_axes=(None, 0)))(np.ones(5), 3)
    (eqn,) = [e for e in out.eqns if e.primitive.name == "while"]
    assert [v.aval.shape for v in eqn.outvars] == [(), (5,)]
    branch = veery.vmap(
        lambda c: lax.cond(True, lambda a, b: (a, b), lambda a, b: (lax.sin(a), lax.neg(b)), c, 2.0), out_axes=(0, None)
    )
    (eqn,) = [e for e in veery.make_jaxpr(branch)(np.ones(5)).eqns if e.primitive.name == "cond"]
    assert [v.aval.shape for v in eqn.outvars] == [(5,), ()]


def test_scan_keeps_only_what_it_needs(in_numpy):
    from veery.ad_checkpoint import saved_residuals

    w = np.ones((3, 3))
    f = lambda x: lax.scan(lambda c, _: (lax.dot(lax.dot(w, w), c), None), x, None, length=10)[0]
    assert all(aval.shape[:1] != (10,) for aval, _ in saved_residuals(f, X))  # linear in c: nothing by step
    g = lambda x: lax.scan(lambda c, _: (lax.sin(lax.dot(w, c)), None), x, None, length=10)[0]
    assert [aval.shape for aval, _ in saved_residuals(g, X) if aval.shape[:1] == (10,)] == [(10, 3)]


@pytest.mark.parametrize("unroll", [1, 2, 3, 7, True, False])
def test_unrolled_scans(in_numpy, unroll):
    xs = np.arange(7.0)
    close(scanned(xs, unroll=unroll), scanned(xs))
    close(veery.jit(lambda x: scanned(x, unroll=unroll, reverse=True))(xs), scanned(xs, reverse=True))
    with pytest.raises(ValueError, match="non-negative"):
        scanned(xs, unroll=-1)


def test_scans_of_pytrees_and_lengths(in_numpy):
    step = lambda c, x: ({"n": lax.add(c["n"], 1), "s": lax.add(c["s"], x["a"])}, (x["b"], None))
    init = {"n": 0, "s": 0.0}
    c, (ys, none) = lax.scan(step, init, {"a": np.arange(3.0), "b": np.ones((3, 2))})
    assert none is None and c["n"] == 3
    close(c["s"], 3.0)
    assert ys.shape == (3, 2)
    assert lax.scan(lambda c, x: (c, x), 1.0, None, length=4)[1] is None
    c, ys = lax.scan(lambda c, x: (c, lax.sin(x)), 1.0, np.zeros((0, 2)))
    assert ys.shape == (0, 2) and c == 1.0
    assert lax.fori_loop(3, 1, lambda i, y: y + 1, 5) == 5


def test_weak_types_stay_weak():
    """Python's numbers are weakly typed in loops and branches, where jaxprs are evaluated, and as derivatives."""
    with veery.enable_x64(False):
        weak = lambda f, *args: [a.weak_type for a in veery.make_jaxpr(f)(*args).out_avals]
        assert weak(lambda: lax.fori_loop(0, 3, lambda i, c: c + i, 0)) == [True]
        assert weak(lambda x: lax.while_loop(lambda c: c < x, lambda c: c * 2, 1), 3) == [True]
        assert weak(lambda: lax.scan(lambda c, x: (c * 2, c * x), 1.0, np.ones(3, np.float32))) == [True, False]
        assert weak(lambda: lax.scan(lambda c, x: (c * x, None), 1.0, np.ones(3, np.float32))[0]) == [False]
        doubled = lambda x: lax.scan(lambda c, _: (c * 2.0, None), x, None, length=3)[0]
        assert weak(veery.grad(lambda z: z.real**2 + z.imag**2), 3 + 4j) == [False]  # as in JAX
        assert weak(veery.grad(doubled), 1.0) == [True] and weak(veery.grad(doubled), np.float32(1)) == [False]
        assert weak(lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0), True) == [True]
        assert weak(lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, True))) == [True, False]
        assert weak(lambda p: lax.cond(p, lambda: 1.0, lambda: np.float32(2)), True) == [False]
        assert weak(lambda p: lax.cond(p, lambda: np.float32(2), lambda: 1.0), True) == [True]
        assert weak(veery.jit(lambda x: (2.0, lax.mul(x, 2.0))), 1.0) == [True, True]
        assert weak(veery.grad(lambda x: lax.cond(True, lambda: lax.sin(x), lambda: 2.0 * x)), 1.0) == [True]


def test_bounds_of_loops():
    loops = (lax.scan_p, lax.while_p)
    traced = lambda *bounds: veery.make_jaxpr(lambda: lax.fori_loop(*bounds, lambda i, c: c + i, 0))()
    kind = lambda *bounds: next(eqn.primitive for eqn in traced(*bounds).eqns if eqn.primitive in loops)
    with veery.enable_x64(False):
        assert kind(np.int8(0), 3) is kind(0, np.int8(3)) is lax.scan_p
        assert kind(0.0, 3.0) is lax.while_p
        by_index = veery.make_jaxpr(lambda a, b: lax.fori_loop(a, b, lambda i, c: i, np.int8(0)))
        assert by_index(np.int8(0), 3).out_avals[0].dtype == np.int8
        for lower, upper in ((np.int32(0), np.uint8(3)), (np.int32(0), 3.0), (True, 3)):
            with pytest.raises(TypeError, match="must have equal types"):
                lax.fori_loop(lower, upper, lambda i, c: c, 0)
        with pytest.raises(TypeError, match="lower must be a scalar, got an array of type int32"):
            lax.fori_loop(np.zeros(1, np.int32), 3, lambda i, c: c, 0)
        with pytest.raises(ValueError, match="bounds are statically known"):
            veery.make_jaxpr(lambda n: lax.fori_loop(0, n, lambda i, c: c, 0, unroll=2))(3)


def test_maps_in_blocks_want_one_length(in_numpy):
    for size in (2, 0):  # 0: all at once
        close(lax.map(lambda x: x[0] * x[1], (np.arange(5.0), np.ones(5)), batch_size=size), np.arange(5.0))
    with pytest.raises(ValueError, match="different leading axis sizes"):
        lax.map(lambda x: x[0], (np.arange(3), np.arange(4)), batch_size=2)


def test_the_older_form_of_cond(in_numpy):
    assert [lax.cond(p, 1.0, lambda x: x + 1, 2.0, lambda x: x + 2) for p in (True, False)] == [2.0, 4.0]


def test_associative_scans(in_numpy):
    for n in (0, 1, 2, 5, 8):
        x = np.arange(1.0, n + 1)
        close(lax.associative_scan(lax.add, x), np.cumsum(x))
        close(lax.associative_scan(lax.mul, x, reverse=True), np.cumprod(x[::-1])[::-1])
        close(lax.associative_scan(lax.max, np.stack([x, -x]), axis=1), np.maximum.accumulate(np.stack([x, -x]), 1))
    order = lax.associative_scan(lambda a, b: lax.add(lax.mul(a, 0.0), b), np.arange(5.0))  # the last: not commutative
    close(order, np.arange(5.0))
    with pytest.raises(TypeError, match="should be callable"):
        lax.associative_scan(3, X)
    with pytest.raises(ValueError, match="same first dimension"):
        lax.associative_scan(lambda a, b: a, (X, np.ones(4)))


def test_platforms(in_numpy):
    assert lax.platform_dependent(1.0, cpu=lambda x: x + 1, default=lambda x: x - 1) == 2.0
    assert lax.platform_dependent(1.0, cuda=lambda x: x + 1, default=lambda x: x - 1) == 0.0
    with pytest.raises(NotImplementedError, match="no branch for platform 'cpu'"):
        lax.platform_dependent(1.0, cuda=lambda x: x)
    with pytest.raises(TypeError, match="must be a callable"):
        lax.platform_dependent(1.0, cpu=3)
    with pytest.raises(ValueError, match="Use 'cuda'"):
        lax.platform_dependent(1.0, gpu=lambda x: x)


def test_solvers_with_auxiliary_output_and_errors(in_numpy):
    double = lambda x: lax.mul(x, 2.0)
    halve = lambda f, b: (lax.div(b, 2.0), {"steps": np.int64(3)})
    x, aux = lax.custom_linear_solve(double, X, halve, symmetric=True, has_aux=True)
    close(x, X / 2)
    assert aux["steps"] == 3
    f = lambda b: lax.reduce_sum(lax.custom_linear_solve(double, lax.sin(b), halve, halve, has_aux=True)[0], (0,))
    close(veery.grad(f)(X), np.cos(X) / 2)
    one_way = lambda b: lax.reduce_sum(lax.custom_linear_solve(double, b, lambda f, y: lax.div(y, 2.0)), (0,))
    with pytest.raises(TypeError, match="transpose_solve required"):
        veery.grad(one_way)(X)
    with pytest.raises(TypeError, match="pytree structure must match"):
        lax.custom_linear_solve(lambda x: (x,), X, lambda f, y: y)
    with pytest.raises(ValueError, match="output shapes must match"):
        lax.custom_linear_solve(double, X, lambda f, y: lax.reduce_sum(y, (0,)))
    square_root = lambda a: lax.custom_root(
        lambda y: lax.sub(lax.mul(y, y), a), 1.0, lambda f, y: (lax.sqrt(a), y), lambda g, y: lax.div(y, g(1.0)), True
    )[0]
    close(veery.grad(square_root)(4.0), 0.25)
    close(veery.grad(veery.grad(square_root))(4.0), -1 / 32)


@pytest.mark.compiler
def test_the_program_of_a_scans_gradient_does_not_depend_on_its_length():
    """Nor does the time to trace, lower and compile it: in operations of the jaxpr and lines of the module."""

    def sizes(length):
        w = np.full((2, 2), 0.1, np.float32)
        step = lambda c, _: (lax.mul(lax.dot(w, c), c), None)
        f = veery.grad(lambda x: lax.reduce_sum(lax.scan(step, x, None, length=length)[0], (0,)))
        x = np.ones(2, np.float32)
        return str(veery.make_jaxpr(f)(x)).count("\n"), veery.jit(f).lower(x).as_text().count("\n")

    assert sizes(10) == sizes(1000)


@pytest.mark.compiler
def test_compiled():
    x = X.astype(np.float32)

    def everything(x):
        wide = lambda f: lax.convert_element_type(f, np.float32)
        return [
            lax.associative_scan(lax.add, x),
            lax.platform_dependent(x, cpu=lax.neg, default=lambda y: y),
            wide(lax.while_loop(lambda y: lax.lt(y[0], np.float32(5)), lambda y: lax.mul(y, np.float32(2)), x)),
            lax.custom_linear_solve(lambda y: lax.mul(y, 2.0), x, lambda f, b: lax.div(b, 2.0), symmetric=True),
            lax.scan(lambda c, a: (lax.add(c, a), c), np.float32(0), x, reverse=True, unroll=2)[1],
            veery.vmap(lambda p, y: lax.cond(p, lax.neg, lambda z: z, y))(np.array([True, False, True]), x),
        ]

    expected = [np.cumsum(x), -x, x * 32, x / 2, [0.4, 1.1, 0.0], x * [-1, 1, -1]]
    for actual, wanted in zip(veery.jit(everything)(x), expected):
        close(actual, wanted, 1e-5)
    text = veery.jit(lambda x: lax.platform_dependent(x, cuda=lax.exp, default=lax.neg)).lower(x).as_text()
    assert "negate" in text and "case" not in text and "exponential" not in text
    with pytest.raises(NotImplementedError, match="no branch for platform 'cpu'"):
        veery.jit(lambda x: lax.platform_dependent(x, cuda=lax.exp)).lower(x)


@pytest.mark.compiler
def test_weak_types_of_carries_and_branches() -> None:
    """A weakly typed start takes the dtype that the body gives it, else stays weak; branches must agree in dtype."""
    half = jnp.float16(1)
    carry, ys = lax.scan(lambda c, _: (half, c), 0.0, None, length=2)
    assert carry.dtype == ys.dtype == np.float16
    assert lax.while_loop(lambda c: c < 5, lambda c: half + c, 0.0).dtype == np.float16
    assert lax.fori_loop(0, 5, lambda i, c: c + i, 0).weak_type
    assert not lax.fori_loop(0, 5, lambda i, c: c + jnp.int32(1), 0).weak_type
    assert not lax.cond(True, lambda: 1.0, lambda: jnp.float32(2)).weak_type
    with pytest.raises(TypeError, match="branches must have equal output types"):
        lax.cond(True, lambda: 1.0, lambda: 2)
    assert veery.grad(veery.grad(jnp.sin))(1.0).weak_type


def test_what_no_branch_changes_depends_on_no_choice(in_numpy):
    """It stays what it is, and unmapped under vmap."""
    f = lambda p, a, b: lax.cond(p, lambda a, b: (b, a, lax.neg(b)), lambda a, b: (b, b, b), a, b)
    closed = veery.make_jaxpr(f)(True, 1.0, 2.0)
    (eqn,) = [e for e in closed.eqns if e.primitive.name == "cond"]
    assert len(eqn.outvars) == 2 and closed.jaxpr.outvars[0] is closed.jaxpr.invars[2]
    outs = veery.vmap(f, in_axes=(0, 0, None), out_axes=(None, 0, 0))(np.array([True, False]), np.ones(2), 2.0)
    assert [np.shape(o) for o in outs] == [(), (2,), (2,)]
    close(outs[1], [1.0, 2.0])
    close(outs[2], [-2.0, 2.0])


def test_a_function_is_traced_once_for_each_type(in_numpy):
    """As by jit; but not where it closes over a tracer, which is of one trace."""
    traced = []

    def body(c, x):
        traced.append(x)
        return lax.add(c, x), None

    def step(c):
        traced.append(c)
        return lax.add(c, 1.0)

    for _ in range(2):
        lax.scan(body, 0.0, X)
        lax.while_loop(lambda c: lax.lt(c, 3.0), step, 0.0)
        veery.jit(lambda x: lax.scan(body, 0.0, x)[0])(X)
    assert len(traced) == 2
    lax.scan(body, np.float32(0), X.astype(np.float32))
    assert len(traced) == 3

    def closing(x):
        multiply = lambda c, _: (lax.mul(c, x), None)
        run = lambda c: lax.scan(multiply, c, None, length=2)[0]
        return lax.add(run(1.0), run(2.0))

    close(veery.grad(closing)(3.0), 18.0)
    close(veery.vmap(closing)(X), 3 * X**2)
    close(veery.jit(closing)(3.0), 27.0)


def test_what_a_loop_gives_back_as_it_is_is_no_part_of_it(in_numpy):
    def scanned(x, w):
        return lax.scan(lambda c, y: ((lax.mul(c[0], c[1]), c[1]), y), (x, w), np.ones(3))[0]

    def looped(x, w, n):
        body = lambda c: (lax.add(c[0], 1), lax.mul(c[1], c[2]), c[2])
        return lax.while_loop(lambda c: lax.lt(c[0], n), body, (0, x, w))[1:]

    (eqn,) = veery.make_jaxpr(scanned)(2.0, 3.0).eqns
    assert eqn.params["num_carry"] == 1 and eqn.params["num_consts"] == 1
    x, w = np.array([1.0, 2.0]), np.float64(3.0)
    results, kept = veery.vmap(scanned, (0, None), (0, None))(x, w)
    close(results, 27 * x)
    assert kept.shape == ()
    results, kept = veery.vmap(looped, (0, None, 0), (0, None))(x, w, np.array([1, 2]))
    close(results, [3.0, 18.0])
    assert kept.shape == ()
    close(veery.grad(lambda x, w: sum(scanned(x, w)), (0, 1))(2.0, 3.0), (27.0, 55.0))
    close(veery.jvp(lambda x, w: sum(looped(x, w, 2)), (2.0, 3.0), (0.0, 1.0))[1], 13.0)


def test_what_loops_and_branches_pass_on_are_arrays():
    one = lax.scan(lambda c, _: (c, None), 1.0, None, length=2)[0]
    for result in (one, lax.cond(True, lambda x: x, lambda x: x, 1.0)):
        assert isinstance(result, veery.Array) and result.weak_type and result == 1.0


def test_loops_that_python_runs_leave_arguments_as_they_are(in_numpy):
    def body(carry):
        x, y = carry
        x += 1  # in place if it can be
        return x, y + x

    start = np.array(1.0)
    with veery.disable_jit():
        found = lax.while_loop(lambda c: c[0] < 10, body, (start, start))
        assert lax.fori_loop(0, 0, lambda i, x: x + i, 1.0) == 1.0
        with pytest.raises(ValueError, match="zero-length scan is not supported in disable_jit"):
            lax.scan(lambda c, x: (c + x, x), 0.0, np.zeros(0))
    close(found, (10.0, 55.0))
    assert start == 1.0


def test_errors_of_predicates_and_lengths(in_numpy):
    cond = lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0)
    switch = lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0])
    for f, value, words in [
        (cond, None, "cond predicate is None"),
        (cond, "foo", "Pred must be a scalar, got foo of type <class 'str'>"),
        (cond, lambda: True, "Pred type must be either boolean or number, got <function"),
        (switch, "foo", r"Index type must be an integer, got foo\."),
        (switch, (1.0, 1.0), r"Branch index must be scalar, got \(1.0, 1.0\) of shape \(2,\)\."),
    ]:
        with pytest.raises(TypeError, match=words):
            f(value)
    step = lambda c, x: (c, x)
    for f in (lambda n: lax.scan(step, 1.0, None, n), lambda n: lax.scan(step, 1.0, None, 2, unroll=n)):
        with pytest.raises(veery.errors.ConcretizationTypeError, match="expects a concrete `int`"):
            veery.jit(f)(3)


def test_tangent_solvers_of_roots_may_close_over_what_is_differentiated():
    """Factors of the matrix that the derivative is taken in; the solver has auxiliary output, too."""

    def solution(a, b):
        factors = veery.scipy.linalg.cho_factor(a)
        solve = lambda f, b: veery.scipy.linalg.cho_solve(factors, b)
        tangent = lambda g, b: lax.custom_linear_solve(g, b, solve, symmetric=True)
        return lax.custom_root(lambda x: a @ x - b, b, lambda f, b: (solve(f, b), 5), tangent, has_aux=True)

    rng = np.random.default_rng(0)
    root, b = rng.normal(size=(3, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    matrix = lambda x: x @ x.T + 2 * jnp.eye(3)
    by_root = lambda x, b: solution(matrix(x), b)[0]
    plain = lambda x, b: jnp.linalg.solve(matrix(x), b)
    np.testing.assert_allclose(by_root(root, b), plain(root, b), rtol=1e-5)
    assert solution(matrix(root), b)[1] == 5
    for transform in (veery.jacfwd, veery.jacrev, lambda f, n: veery.jacfwd(veery.jacrev(f, n), n)):
        for n in (0, 1):
            found = veery.jit(transform(by_root, n))(root, b)
            np.testing.assert_allclose(found, transform(plain, n)(root, b), rtol=1e-3, atol=1e-4)
