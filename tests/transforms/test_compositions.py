"""Random small programs under every transformation and nesting: values, derivatives and batches must agree."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support import numerics
from support.numpy_trace import numpy_evaluation

import veery
from veery import lax
from veery._core.jaxpr import check_jaxpr, eval_jaxpr
from veery.ad_checkpoint import checkpoint_name


@veery.custom_jvp
def with_jvp(x):
    return lax.mul(lax.cos(x), x)


@with_jvp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return with_jvp(x), lax.mul(lax.sub(lax.cos(x), lax.mul(x, lax.sin(x))), t)


@veery.custom_vjp
def with_vjp(x):
    return lax.mul(lax.sin(x), lax.reduce_sum(x, (0,)))


def with_vjp_backward(x, ct):
    total = lax.reduce_sum(x, (0,))
    return (lax.add(lax.mul(ct, lax.mul(lax.cos(x), total)), lax.dot(ct, lax.sin(x))),)


with_vjp.defvjp(lambda x: (with_vjp(x), x), with_vjp_backward)


def checkpointed(policy):
    step = lambda x: lax.mul(lax.sin(checkpoint_name(lax.tanh(x), "wave")), x)
    twice = lambda x: lax.cond(lax.gt(x[0], 0.0), lambda y: step(step(y)), step, x)
    return veery.checkpoint(twice, policy=policy)


UNARY = {
    "checkpointed": checkpointed(None),
    "named": checkpointed(veery.checkpoint_policies.save_only_these_names("wave")),
    "custom_jvp": with_jvp,
    "custom_linear": lambda x: veery.custom_derivatives.linear_call(lax.mul, lax.mul, np.array([0.5, -2.0, 1.5]), x),
    "custom_solve": lambda x: lax.custom_linear_solve(
        lambda y: lax.mul(y, lax.add(lax.mul(x, x), 1.0)),
        x,
        lambda _, b: lax.div(b, lax.add(lax.mul(x, x), 1.0)),
        symmetric=True,
    ),
    "sin": lax.sin,
    "tanh": lax.tanh,
    "exp": lambda x: lax.exp(lax.mul(x, 0.3)),
    "square": lambda x: lax.mul(x, x),
    "logistic": lax.logistic,
    "log1p": lambda x: lax.log1p(lax.mul(x, x)),
    "jitted": lambda x: veery.jit(lambda y: lax.mul(lax.sin(y), y))(x),
    "cumsum": lambda x: lax.cumsum(x),
    "reversed": lambda x: lax.rev(x, (0,)),
    "total": lambda x: lax.add(x, lax.reduce_sum(x, (0,))),
    "scanned": lambda x: lax.scan(lambda c, a: (lax.mul(lax.cos(c), a), lax.add(c, a)), np.float64(0.3), x)[1],
    "conditional": lambda x: lax.cond(lax.gt(lax.reduce_sum(x, (0,)), 0.0), lax.sin, lambda y: lax.mul(y, 2.0), x),
    "looped": lambda x: lax.fori_loop(0, 3, lambda i, y: lax.mul(lax.sin(y), 1.2), x),
    "sliced": lambda x: lax.concatenate([lax.slice(x, (1,), (3,)), lax.slice(x, (0,), (1,))], 0),
    "vmapped": lambda x: veery.vmap(lambda a: lax.mul(a, lax.sin(a)))(x),
    "gradient": lambda x: veery.grad(lambda y: lax.reduce_sum(lax.mul(lax.sin(y), y), (0,)))(x),
}
BINARY = {
    "add": lax.add,
    "mul": lax.mul,
    "sub": lax.sub,
    "max": lambda x, y: lax.max(x, lax.add(y, 0.37)),  # apart from ties, where no derivative exists
    "ratio": lambda x, y: lax.div(x, lax.add(lax.mul(y, y), 1.0)),
    "dot": lambda x, y: lax.mul(x, lax.dot(x, y)),
    "atan2": lambda x, y: lax.atan2(x, lax.add(lax.mul(y, y), 1.0)),
    "select": lambda x, y: lax.select(lax.gt(x, lax.add(y, 0.37)), lax.sin(x), y),
}
REVERSE_ONLY = {
    "custom_vjp": with_vjp,
    "custom_gradient": veery.custom_gradient(lambda x: (lax.sin(x), lambda ct: lax.mul(ct, lax.cos(x)))),
    "checkpointed_vjp": veery.checkpoint(lambda x: lax.sin(with_vjp(lax.tanh(x)))),
    "scanned_vjp": lambda x: lax.scan(lambda c, a: (with_vjp(lax.mul(c, a)), None), x, np.array([0.5, 1.5]))[0],
}
STEPS = UNARY | BINARY | REVERSE_ONLY


@st.composite
def programs(draw, unary=UNARY):
    """A function from a vector of three numbers to one, as a list of steps on the values so far."""
    steps = []
    for i in range(draw(st.integers(1, 5))):
        operand = st.integers(0, i)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(sorted(unary))), draw(operand)))
        else:
            steps.append((draw(st.sampled_from(sorted(BINARY))), draw(operand), draw(operand)))
    return tuple(steps)


def function(steps):
    def program(x):
        values = [x]
        for name, *operands in steps:
            values.append(STEPS[name](*(values[i] for i in operands)))
        return values[-1]

    return program


def scalar(fun):
    return lambda x: lax.reduce_sum(lax.sin(fun(x)), (0,))


X = np.array([0.31, -0.72, 1.13])
T = np.array([0.5, -0.25, 1.5])


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=tolerance, atol=tolerance)


@settings(max_examples=40)
@given(programs())
def test_transformations_agree(steps):
    fun = function(steps)
    with veery.enable_x64(True), numpy_evaluation():
        value = fun(X)
        closed = veery.make_jaxpr(fun)(X)
        check_jaxpr(closed)
        close(eval_jaxpr(closed.jaxpr, closed.consts, X)[0], value, 1e-12)
        close(veery.jit(fun)(X), value, 1e-12)

        out, tangent = veery.jvp(fun, (X,), (T,))
        close(out, value, 1e-12)
        numeric = numerics.directional(fun, [X], [T])
        close(tangent, numeric, 1e-5)
        close(veery.jvp(veery.jit(fun), (X,), (T,))[1], tangent, 1e-10)
        close(veery.linearize(fun, X)[1](T), tangent, 1e-10)

        _, pullback = veery.vjp(fun, X)
        (cotangent,) = pullback(T)
        close(np.vdot(cotangent, T), np.vdot(T, tangent), 1e-9)  # <J^T u, v> = <u, J v> for u = v = T

        batch = np.stack([X, X + 0.1, -X])
        close(veery.vmap(fun)(batch), np.stack([fun(x) for x in batch]), 1e-10)
        close(veery.vmap(fun, in_axes=1, out_axes=1)(batch.T), np.stack([fun(x) for x in batch]).T, 1e-10)


def check_reverse(fun):
    """Compare the gradient with numerical differences, and with itself under jit and vmap in any order."""
    gradient = veery.grad(fun)
    reference = gradient(X)
    close(reference, numerics.gradient(fun, X), 1e-5)
    close(veery.jit(veery.grad(veery.jit(fun)))(X), reference, 1e-10)
    batch = np.stack([X, X * 0.5])
    rows = np.stack([gradient(x) for x in batch])
    close(veery.vmap(gradient)(batch), rows, 1e-10)
    close(veery.jit(veery.vmap(veery.grad(fun)))(batch), rows, 1e-10)
    total = lambda b: lax.reduce_sum(veery.vmap(veery.jit(fun))(b), (0,))
    close(veery.grad(total)(batch), rows, 1e-10)
    check_jaxpr(veery.make_jaxpr(veery.vmap(veery.grad(fun)))(batch))
    return gradient


@settings(max_examples=12)
@given(programs())
def test_nestings_agree(steps):
    fun = scalar(function(steps))
    with veery.enable_x64(True), numpy_evaluation():
        gradient = check_reverse(fun)
        hessian = veery.hessian(fun)(X)
        close(hessian, np.transpose(hessian), 1e-8)
        close(veery.jacrev(gradient)(X), hessian, 1e-8)
        close(veery.jacfwd(gradient)(X), hessian, 1e-8)
        columns = [numerics.directional(gradient, [X], [e]) for e in np.eye(3)]
        close(hessian, np.stack(columns), 1e-4)
        close(veery.jit(veery.hessian(fun))(X), hessian, 1e-8)


@settings(max_examples=12)
@given(programs(UNARY | REVERSE_ONLY))
def test_reverse_rules_agree(steps):
    fun = scalar(function(steps))
    with veery.enable_x64(True), numpy_evaluation():
        gradient = check_reverse(fun)
        columns = [numerics.directional(gradient, [X], [e]) for e in np.eye(3)]
        close(veery.jacrev(gradient)(X), np.stack(columns), 1e-4)


@pytest.mark.parametrize("order", range(1, 6))
def test_derivatives_of_any_order(in_numpy, order):
    fun = lax.sin
    for _ in range(order):
        fun = veery.grad(fun)
    close(fun(0.4), np.sin(0.4 + order * np.pi / 2), 1e-12)
    mixed = lax.sin
    for i in range(order):
        inner = mixed
        mixed = (
            veery.grad(inner) if i % 2 else (lambda x, f=inner: veery.jvp(f, (x,), (np.ones_like(np.asarray(1.0)),))[1])
        )
    close(mixed(np.float64(0.4)), np.sin(0.4 + order * np.pi / 2), 1e-12)


def test_second_derivatives_at_ties_follow_the_rule(in_numpy):
    for f in (veery.numpy.logaddexp, veery.numpy.logaddexp2):
        curvature = veery.grad(veery.grad(f))(1.0, 1.0)
        close(curvature, veery.grad(veery.grad(f))(1.0, 1.0 + 1e-6))


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_sums_of_exponentials_at_ties(in_numpy, reverse):
    """They are smooth: equal elements, and equal partial sums, are no special places at any order."""
    f = lambda x: lax.reduce_sum(lax.sin(lax.cumlogsumexp(x, 0, reverse)), (0,))
    tied, apart = np.zeros(3), np.array([0.0, 1e-7, -1e-7])
    for derivative in veery.hessian(f), veery.jacfwd(veery.hessian(f)):
        np.testing.assert_allclose(derivative(tied), derivative(apart), atol=1e-6)


def test_second_derivatives_at_poles_have_their_sign(in_numpy):
    with np.errstate(all="ignore"):
        assert veery.grad(veery.grad(lax.cbrt))(0.0) == -np.inf
        assert veery.grad(veery.grad(lax.sqrt))(0.0) == -np.inf


def test_perturbations_are_not_confused(in_numpy):
    # d/dx (x * d/dy (x + y)) at x=1: the inner derivative is 1, so the outer one is 1 (not 2)
    fun = lambda x: lax.mul(x, veery.grad(lambda y: lax.add(x, y))(1.0))
    close(veery.grad(fun)(1.0), 1.0)
    forward = lambda f: lambda x: veery.jvp(f, (x,), (1.0,))[1]
    close(forward(lambda x: lax.mul(x, forward(lambda y: lax.add(x, y))(1.0)))(1.0), 1.0)


def test_closures_over_tracers(in_numpy):
    def fun(x):
        scaled = veery.jit(lambda y: lax.mul(x, y))
        return veery.grad(lambda y: lax.mul(scaled(y), y))(x)  # d/dy x y^2 = 2 x y at y = x

    close(veery.grad(fun)(3.0), 12.0)
    close(veery.vmap(veery.grad(fun))(np.array([1.0, 2.0])), [4.0, 8.0])


def test_vmap_over_pytrees(in_numpy):
    fun = lambda p, x: {"a": lax.add(p["w"], x), "b": p["b"]}
    p = {"w": np.arange(3.0), "b": np.float64(7)}
    out = veery.vmap(fun, in_axes=({"w": 0, "b": None}, None), out_axes={"a": 0, "b": None})(p, 1.0)
    close(out["a"], [1, 2, 3])
    assert np.shape(out["b"]) == ()
    broadcast = veery.vmap(fun, in_axes=({"w": 0, "b": None}, None))(p, 1.0)
    close(broadcast["b"], [7, 7, 7])
    assert np.shape(veery.vmap(lambda: np.float64(1.0), axis_size=4)()) == (4,)


def test_integer_arguments_have_float0_tangents(in_numpy):
    fun = lambda x, n: lax.mul(x, lax.convert_element_type(n, np.float64))
    _, pullback = veery.vjp(fun, 2.0, np.int64(3))
    ct_x, ct_n = pullback(1.0)
    close(ct_x, 3.0)
    assert ct_n.dtype == veery.float0
    assert veery.grad(fun, argnums=1, allow_int=True)(2.0, np.int64(3)).dtype == veery.float0
    with pytest.raises(TypeError, match="float0 arrays.* do not support any operations"):
        veery.numpy.add(ct_n, 1)


def test_value_and_grad_with_auxiliary_output(in_numpy):
    fun = lambda p, x: (lax.mul(p["w"], x), {"w": p["w"]})
    (value, aux), gradient = veery.value_and_grad(fun, has_aux=True)({"w": 2.0}, 5.0)
    close(value, 10.0)
    close(aux["w"], 2.0)
    close(gradient["w"], 5.0)
    both = veery.grad(lambda a, b: lax.mul(a, b), argnums=(0, 1))(2.0, 5.0)
    close(both, (5.0, 2.0))


def test_tangents_are_arrays_where_values_are():
    """Of the value's weak type; a number that is passed on stays one, as the value does."""
    is_weak_array = lambda x: isinstance(x, veery.Array) and x.weak_type
    for fun in (lambda x: x + 1, lambda x: x + 0, lambda x: 1 - x):
        y, t = veery.jvp(fun, (1.0,), (1.0,))
        assert is_weak_array(y)
        assert is_weak_array(t)
    assert veery.jvp(lambda x: x, (1.0,), (2.0,)) == (1.0, 2.0)
    assert type(veery.jvp(lambda x: x, (1.0,), (2.0,))[1]) is float
    for fun in (veery.numpy.asarray, veery.numpy.array, veery.numpy.squeeze, veery.numpy.real, veery.numpy.ravel):
        y, t = veery.jvp(fun, (1.0,), (2.0,))
        assert is_weak_array(y)
        assert is_weak_array(t)
        assert (y, t) == (1.0, 2.0)
        y, t = veery.jvp(fun, (np.float32(1),), (np.float32(2),))
        assert isinstance(y, veery.Array) and not y.weak_type
        assert isinstance(veery.vjp(fun, 1.0)[0], veery.Array)
    for x in (np.float32(1), np.ones((), np.float32), veery.numpy.float32(1)):
        y, t = veery.jvp(lambda x: -x, (x,), (1.0,))
        assert not y.weak_type
        assert isinstance(t, veery.Array)
        assert not t.weak_type
        assert isinstance(veery.linear_transpose(lambda x: x + 1, x)(x)[0], veery.Array)
        value, t = veery.jvp(veery.grad(lambda x: x + 1), (x,), (x,))  # the gradient is a constant
        assert isinstance(value, veery.Array)
        assert isinstance(t, veery.Array)
    batched = veery.vmap(lambda t: veery.jvp(lambda x: 2 * x, (1.0,), (t,))[1])(np.ones(3, np.float32))
    assert batched.weak_type


def test_linear_transpose(in_numpy):
    matrix = np.arange(6.0).reshape(2, 3)
    fun = lambda x: lax.dot(matrix, x)
    (ct,) = veery.linear_transpose(fun, np.zeros(3))(np.array([1.0, 2.0]))
    close(ct, matrix.T @ [1.0, 2.0])
    looped = lambda x: lax.fori_loop(0, 3, lambda i, y: lax.mul(y, lax.convert_element_type(lax.add(i, 1), y.dtype)), x)
    (ct,) = veery.linear_transpose(looped, np.zeros(2))(np.ones(2))
    close(ct, [6.0, 6.0])
    for cotangent in (np.ones(3), np.ones(2, np.float32), np.ones(2, int)):
        with pytest.raises(TypeError, match=r"cotangent type does not match function output, expected float64\[2\]"):
            veery.linear_transpose(fun, np.zeros(3))(cotangent)


def test_has_jacobians_of_pytrees(in_numpy):
    fun = lambda p: {"s": lax.mul(p["x"], p["y"]), "r": lax.sin(p["x"])}
    p = {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 4.0])}
    for jacobian in (veery.jacfwd, veery.jacrev):
        j = jacobian(fun)(p)
        close(j["s"]["x"], np.diag(p["y"]))
        close(j["s"]["y"], np.diag(p["x"]))
        close(j["r"]["y"], np.zeros((2, 2)))
    h = veery.hessian(lambda p: lax.dot(lax.mul(p["x"], p["x"]), p["y"]))(p)
    close(h["x"]["y"], np.diag(2 * p["x"]))


def test_holomorphic_derivatives(in_numpy):
    z = np.complex128(0.3 + 0.4j)
    close(veery.grad(lax.sin, holomorphic=True)(z), np.cos(z))
    # JAX's convention: the gradient of a real function of a complex number is the conjugate of the steepest ascent
    close(veery.grad(lambda z: lax.add(lax.mul(lax.real(z), lax.real(z)), lax.imag(z)))(z), 2 * z.real - 1j)
