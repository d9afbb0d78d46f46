"""`shard_map`: what is not JAX's, and what its recorded outcomes do not show."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax
from veery.sharding import Mesh, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.compiler
X = np.linspace(-1.0, 2.0, 16, dtype=np.float32).reshape(8, 2)


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(veery.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))


def numeric_gradient(f, w, step=1e-2):
    f64 = lambda w: float(f(w.astype(np.float32)))
    return np.array([(f64(w + e) - f64(w - e)) / (2 * step) for e in step * np.eye(len(w))])


def test_what_branches_close_over_receives_the_cotangents_of_all_devices(mesh):
    """The branches differ between devices, so what they share is summed, though the operand itself does not vary."""

    def loss(w):
        def part(a):
            return lax.cond(lax.axis_index("x") > 1, lambda: jnp.sin(w).sum() * a.sum(), lambda: (w * w).sum())[None]

        return jnp.sum(veery.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X))

    w = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(veery.grad(loss)(w.astype(np.float32)), numeric_gradient(loss, w), rtol=2e-3, atol=2e-3)


def test_calls_with_arrays_print_values(capsys):
    mesh = Mesh(np.array(veery.devices("cpu")[:2]), ("x",))

    @veery.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def f(a):
        b = 2 * a
        print(f"{b}")
        if lax.psum(a, "x").sum() > 0:  # the same on all devices
            return b
        return -b

    for sign in (1, -1):  # traced anew, since it may go another way
        assert f(sign * jnp.arange(4.0)).tolist() == [0, 2, 4, 6]
        first, second = ("[0. 2.]", "[4. 6.]") if sign > 0 else ("[-0. -2.]", "[-4. -6.]")
        assert capsys.readouterr().out == (
            f"On cpu:0 at mesh coordinates (x,) = (0,):\n{first}\n\n"
            f"On cpu:1 at mesh coordinates (x,) = (1,):\n{second}\n\n"
        )
    with pytest.raises(veery.errors.TracerBoolConversionError):
        veery.shard_map(lambda a: a if a.sum() > 0 else -a, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    veery.jit(veery.shard_map(lambda a: print(a) or a, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(X)
    assert capsys.readouterr().out == "JitTracer(float32[4,2]{V:x})\n"


def test_types_of_values_that_vary_along_several_axes_print_as_in_jax():
    mesh = veery.make_mesh((2, 2), ("x", "y"), devices=veery.devices("cpu")[:4])
    seen = []
    f = veery.shard_map(
        lambda a: seen.append(str(veery.typeof(a))) or a, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y")
    )
    veery.eval_shape(f, np.ones((4, 2), np.float32))
    assert seen == ["float32[2,1]{V:(x,y)}"]


def test_rules_of_the_users_own_need_not_sum(mesh):
    """JAX refuses a cotangent that varies more than its argument; here it is summed."""

    @veery.custom_vjp
    def times(a, w):
        return a * w

    times.defvjp(lambda a, w: (a * w, (a, w)), lambda kept, ct: (ct * kept[1], (ct * kept[0]).sum(0)))
    f = lambda g: lambda w: jnp.sum(veery.shard_map(g, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))(X, w) ** 2)
    w = np.array([0.5, 2.0], np.float32)
    np.testing.assert_allclose(veery.grad(f(times))(w), veery.grad(f(lambda a, w: a * w))(w), rtol=1e-5)


def test_loops_carry_what_begins_alike_and_goes_on_apart(mesh):
    """JAX asks for `pcast` at the beginning."""

    def part(a):
        total = lax.fori_loop(0, 3, lambda i, c: c + a.sum() * (i + 1), 0.0)
        trips = lax.while_loop(lambda c: c < 2 + lax.axis_index("x"), lambda c: c + 1, 0)
        return total[None], trips[None]

    total, trips = veery.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    np.testing.assert_allclose(total, 6 * X.reshape(4, -1).sum(1), rtol=1e-5)
    assert trips.tolist() == [2, 3, 4, 5]


def test_rows_of_the_mesh_may_go_different_ways(mesh):
    """Each pair of devices along y sums as often as it likes."""

    def part(a):
        sums = lambda c: (lax.psum(c[0], "y") * 0.5 + c[0] * 0, c[1] + 1)
        return lax.while_loop(lambda c: c[1] < lax.axis_index("x"), sums, (a, 0))[0]

    run = veery.shard_map(part, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    means = np.repeat(X.mean(1, keepdims=True), 2, 1)
    np.testing.assert_allclose(run(X), np.where(np.arange(8)[:, None] < 2, X, means), rtol=1e-6)
    np.testing.assert_allclose(veery.jit(lambda x: lax.map(run, x[None])[0])(X), run(X), rtol=1e-6)


@pytest.mark.parametrize("check", [True, False])
def test_loops_around_it_run_on_one_device(mesh, check):
    """The same program, in batches."""
    specs = dict(mesh=mesh, in_specs=(P("x", "y"), P("y")), out_specs=(P("y"), P(), P(("x", "y"))), check_vma=check)

    def part(a, w):
        here = lax.axis_index(("x", "y")).astype(a.dtype)
        return (
            lax.psum(jnp.sin(a) * w, "x")[0],
            lax.pmax(lax.pmean(a, ("x", "y")).sum() + lax.psum(w, "y").sum(), ("x", "y") if not check else ()),
            (lax.ppermute(a, ("x", "y"), [(0, 7), (3, 1)]).sum() + here)[None],
        )

    f = veery.shard_map(part, **specs)
    w = np.array([0.5, 2.0], np.float32)
    inside = veery.jit(lambda x, w: lax.scan(lambda c, _: (c, f(x, w)), 0.0, None, length=2)[1])(X, w)
    for ours, theirs in zip(inside, f(X, w)):
        np.testing.assert_allclose(ours[1], theirs, rtol=1e-5, atol=1e-6)
    loss = lambda x, w: sum(jnp.sum(o * o) for o in f(x, w))
    looped = lambda x, w: lax.scan(lambda c, _: (c + loss(x, w), None), 0.0, None, length=1)[0]
    for ours, theirs in zip(veery.grad(looped, (0, 1))(X, w), veery.grad(loss, (0, 1))(X, w)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_programs_between_run_on_one_device_and_say_so(mesh, caplog):
    double = veery.shard_map(lambda a: 2 * a, mesh=mesh, in_specs=P("x"), out_specs=P("x"))

    @veery.jit
    def step(w, x):
        y = double(jnp.sin(w) * x)
        return w - 0.1 * double(y + 1), y.sum(), lax.with_sharding_constraint(y, NamedSharding(mesh, P("y")))

    place = NamedSharding(mesh, P("x"))
    w = veery.device_put(X, place)
    veery.config.update("jax_log_compiles", True)
    try:
        with caplog.at_level(logging.WARNING, "veery"):
            new, total, moved = step(w, X)
            jnp.cos(w)
    finally:
        veery.config.update("jax_log_compiles", False)
    assert "runs on several devices in" in caplog.text and "gathers its arguments from 8 devices" in caplog.text
    np.testing.assert_allclose(new, X - 0.2 * (2 * np.sin(X) * X + 1), rtol=1e-5)
    np.testing.assert_allclose(total, (2 * np.sin(X) * X).sum(), rtol=1e-5)
    assert new.sharding == place and moved.sharding.spec == P("y")
    compiled = step.lower(w, X).compile()
    assert "stablehlo" in step.lower(w, X).as_text() and compiled(w, X)[0].sharding == place
    np.testing.assert_allclose(compiled(w, X)[0], new, rtol=1e-6)


def test_programs_that_solve_equations(mesh):
    """Their equations hold several functions by name."""
    a = np.eye(3, dtype=np.float32) * 3 + np.arange(36, dtype=np.float32).reshape(4, 3, 3) / 20
    f = lambda a: jnp.linalg.solve(a, jnp.ones((*a.shape[:-1], 1)))
    g = veery.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(g(a), np.linalg.solve(a, np.ones((4, 3, 1))), rtol=1e-4)
    loss = lambda f: lambda a: jnp.sum(f(a) ** 2)
    np.testing.assert_allclose(veery.grad(loss(g))(a), veery.grad(loss(f))(a), rtol=1e-4, atol=1e-6)


def test_checks_within_are_made(mesh):
    """checkify runs what all devices compute as one program."""
    from veery.experimental import checkify

    def part(a):
        checkify.check(a.sum() < 4, "too much: {x}", x=a.sum())
        return a * 2

    checked = checkify.checkify(veery.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    assert "too much" in checked(X)[0].get() and checked(X - 1)[0].get() is None


def test_calls_return_before_the_work_is_done(mesh):
    gate = threading.Event()

    def wait(a):
        gate.wait()
        return a

    slow = lambda a: veery.pure_callback(wait, veery.ShapeDtypeStruct(a.shape, a.dtype), a)
    f = veery.shard_map(slow, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    y = f(X)
    z = veery.shard_map(lambda a: a + 1, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(y)
    assert not y.is_ready() and not z.is_ready()
    gate.set()
    np.testing.assert_allclose(z, X + 1)

    def fail(a):
        raise KeyError("lost")

    broken = lambda a: veery.pure_callback(fail, veery.ShapeDtypeStruct(a.shape, a.dtype), a)
    with pytest.raises(KeyError, match="lost"):
        np.asarray(veery.shard_map(broken, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)(X))


def test_one_device_is_a_mesh_too():
    mesh = veery.make_mesh((1, 1), ("data", "model"))
    with veery.set_mesh(mesh):
        f = veery.shard_map(lambda a: lax.psum(a * a, "data"), in_specs=P("data", "model"), out_specs=P(None, "model"))
        y = veery.jit(veery.value_and_grad(lambda x: f(x).sum()))(X)
        placed = veery.device_put(X, P("data"))
        np.testing.assert_allclose(y[0], (X * X).sum(), rtol=1e-6)
        np.testing.assert_allclose(y[1], 2 * X, rtol=1e-6)
        assert f(X).sharding == NamedSharding(mesh, P(None, "model")) and placed.sharding.spec == P("data")
        step = veery.jit(lambda x: x + 1, out_shardings=P("data"), donate_argnums=0)
        assert step(placed).sharding.spec == P("data") and placed.is_deleted()


def test_calls_are_verified(mesh, monkeypatch):
    """With `veery_verify` the devices' results are compared with those of one program."""
    from veery._reference import verification

    seen = []
    check = verification.check
    monkeypatch.setattr(verification, "check", lambda *args, **kw: seen.append(args[1]) or check(*args, **kw))
    with veery._core.config.verify("always"):
        veery.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(X)
    assert seen == ["<lambda>"]


def test_results_under_x64_and_in_half_precision(mesh):
    f = veery.shard_map(lambda a: a / lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with veery.enable_x64(True):
        x = np.arange(1.0, 9.0)
        y = f(x)
        assert y.dtype == np.float64
        np.testing.assert_allclose(y, x / np.tile(x.reshape(4, 2).sum(0), 4), rtol=1e-15)
    half = f(jnp.arange(1, 9, dtype=jnp.bfloat16))
    assert half.dtype == jnp.bfloat16
    np.testing.assert_allclose(half.astype(np.float32), np.asarray(y, np.float32), rtol=1e-2)


def test_what_is_no_array_is_passed_as_it_is(mesh):
    mark = object()

    def scaled(given, x, shape):
        assert given["mark"] is mark and type(shape[0]) is int
        return given["factor"] * x + jnp.ones(shape)

    specs = ({"mark": None, "factor": P()}, P("x"), None)
    f = veery.shard_map(scaled, mesh=mesh, in_specs=specs, out_specs=P("x"))
    np.testing.assert_array_equal(
        veery.shard_map(lambda _, x: x, mesh=mesh, in_specs=(None, P("x")), out_specs=P("x"))(None, X), X
    )
    given = {"factor": np.float32(2), "mark": mark}
    for call in (lambda x: f(given, x, (2, 2)), veery.jit(lambda x: f(given, x, (2, 2)))):
        np.testing.assert_allclose(call(X), 2 * X + 1)


def test_derivatives_of_integers_are_results_with_shardings(mesh):
    whole, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    # None in the place of an array has no sharding of its own
    assert veery.jit(lambda _, x: x + 1, in_shardings=(None, rows))(None, X).sharding == rows
    assert veery.device_put((None, X, X), (None, rows, whole))[1].sharding == rows
    f = veery.jit(veery.grad(lambda i, x: x.sum(), argnums=(0, 1), allow_int=True), out_shardings=whole)
    assert [x.dtype for x in f(np.arange(3), X)] == [veery.dtypes.float0, np.float32]


def test_mistakes_are_explained(mesh):
    with pytest.raises(NameError, match="unbound axis name: z"):
        veery.shard_map(lambda a: lax.psum(a, "z"), mesh=mesh, in_specs=P("x"), out_specs=P("x"))(X)
    with pytest.raises(TypeError, match="requires a `jax.sharding.Mesh`"):
        veery.shard_map(lambda a: a, mesh=3, in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(NotImplementedError, match="Use lax.psum"):
        veery.shard_map(lambda a: lax.pcast(a, "x", to="reduced"), mesh=mesh, in_specs=P(), out_specs=P())(X)
    with pytest.raises(ValueError, match="incompatible devices"):
        other = NamedSharding(Mesh(veery.devices("cpu")[:2], "x"), P("x"))
        veery.shard_map(lambda a: a, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(veery.device_put(X, other))
    with pytest.raises(ValueError, match="does not divide the batch"):
        f = veery.shard_map(lambda a: a, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
        veery.vmap(f, spmd_axis_name="y")(np.zeros((3, 4), np.float32))
