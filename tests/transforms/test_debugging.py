"""Settings for debugging: what they raise and log."""

from __future__ import annotations

import gc
import logging

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax

X = np.arange(3, dtype=np.float32)


# debug_nans, debug_infs


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("fun", "name"),
    [
        (lambda x: jnp.log(-x), "log"),
        (veery.jit(lambda x: jnp.log(-1 - x) + 1), "log"),
        (veery.jit(lambda x: veery.jit(lambda x: jnp.log(-1 - x) + 1)(x) * 2), "log"),
        (veery.vmap(lambda x: jnp.log(-1 - x)), "log"),
        (lambda x: lax.scan(lambda c, x: (jnp.log(c), x), -1.0, x), "scan"),
        (lambda x: veery.grad(lambda x: jnp.sqrt(x) * 0)(x[0]), "(mul|div)"),
        (lambda x: veery.pmap(lambda x: jnp.log(-1 - x))(x[:1]), "<lambda>"),
    ],
)
def test_nans_are_traced_to_the_operation(fun, name):
    x = jnp.asarray(X)
    with (
        veery.debug_nans(True),
        pytest.raises(FloatingPointError, match=rf"invalid value \(nan\) encountered in {name}"),
    ):
        fun(x)
    fun(x)


@pytest.mark.compiler
def test_nans_name_the_users_line():
    with veery.debug_nans(True), pytest.raises(FloatingPointError, match="test_debugging.py"):
        veery.jit(lambda x: jnp.log(-1 - x) + 1)(X)


@pytest.mark.compiler
def test_values_that_are_masked_are_no_nans():
    with veery.debug_nans(True):
        out = veery.jit(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))(-X)
    assert out.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.compiler
def test_infinities():
    with veery.debug_infs(True):
        with pytest.raises(FloatingPointError, match=r"invalid value \(inf\) encountered in log"):
            veery.jit(lambda x: jnp.log(x) * 2)(X)
        veery.jit(jnp.sqrt)(X)


# Tracing and execution


@pytest.mark.compiler
def test_no_tracing():
    f = veery.jit(lambda x: x + 1)
    f(X)
    with veery.no_tracing():
        assert f(X).tolist() == [1.0, 2.0, 3.0]
        for call in (lambda: f(X[:2]), lambda: lax.scan(lambda c, x: (c, None), 0.0, jnp.asarray(X))):
            with pytest.raises(
                RuntimeError, match="re-tracing function <lambda> at .*test_debugging.py.* 'no_tracing' is set"
            ):
                call()


@pytest.mark.compiler
def test_no_execution():
    f = veery.jit(lambda x: x + 1)
    x = f(X)
    with veery.no_execution():
        for call in (lambda: f(x), lambda: x * 2):
            with pytest.raises(RuntimeError, match="the no_execution config option is set"):
                call()
    f(x)


saved = []


@pytest.fixture
def thawed():
    """What refers to a tracer is asked of the collector, which does not know this module (see conftest)."""
    gc.unfreeze()
    yield
    gc.freeze()


def leak(x):
    saved.append(x)
    return x * 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: veery.jit(leak)(X),
        lambda: veery.vmap(leak)(X),
        lambda: veery.grad(leak)(1.0),
        lambda: lax.scan(lambda c, x: (leak(c), None), 0.0, X),
    ],
)
def test_leaks_are_found_where_they_happen(call, thawed):
    with veery.checking_leaks():
        with pytest.raises(veery.errors.UnexpectedTracerError, match=r"(?s)Leaked trace .*Leaked tracer\(s\):.*saved"):
            call()
        saved.clear()


@pytest.mark.compiler
def test_programs_without_leaks_pass():
    @veery.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda x, t: (f(x[0]), jnp.cos(x[0]) * t[0]))

    def g(w, xs):
        scaled = veery.custom_jvp(lambda x: w * x)
        scaled.defjvp(lambda x, t: (scaled(x[0]), t[0]))
        step = lambda c, x: (veery.checkpoint(lambda c: f(c) + scaled(x))(c), lax.cond(c > 0, jnp.sin, jnp.cos, c))
        total, ys = lax.scan(step, w, xs)
        return total + ys.sum()

    with veery.checking_leaks():
        veery.jit(veery.grad(lambda xs: veery.vmap(g, (None, 0))(1.0, xs).sum()))(np.ones((2, 3), np.float32))
        veery.jvp(veery.jit(lambda xs: g(1.0, xs)), (X,), (X,))


def test_jaxprs_are_checked_on_request(monkeypatch):
    from veery._transforms import staging

    checked = []
    monkeypatch.setattr(staging, "check_jaxpr", checked.append)
    veery.make_jaxpr(lambda x: x + 1)(X)
    assert not checked
    with veery.enable_checks():
        veery.make_jaxpr(veery.jit(lambda x: x + 1))(X)
    assert len(checked) >= 2


# Logs


def messages(caplog, call):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "veery"):
        call()
    return [record.getMessage() for record in caplog.records]


@pytest.mark.compiler
def test_compilations_are_logged(caplog):
    def five(x):
        return x * 5

    with veery.log_compiles():
        lines = messages(caplog, lambda: veery.jit(five)(X))
    starts = ["Finished tracing + transforming five for jit", "Compiling five", "Finished IREE compilation"]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 3
    assert messages(caplog, lambda: veery.jit(five)(X[:2])) == []


@pytest.mark.compiler
def test_cache_misses_are_explained(caplog):
    def g(x, y=1, n=2):
        return x["a"] * y

    f = veery.jit(g, static_argnames="n")
    calls = [
        ((X,), {}, "never seen function:\n    g id="),
        ((X[:2],), {}, "at x['a'], now f32[2] and before f32[3]"),
        ((X, np.float32(2)), {}, "input path"),
        ((X,), {"n": 3}, "static arguments are now 'n': 3 and were none"),
    ]
    with veery.explain_cache_misses():
        for (x, *rest), kwargs, words in calls:
            (line,) = messages(caplog, lambda: f({"a": x}, *rest, **kwargs))  # noqa: B023
            assert line.startswith("TRACING CACHE MISS at ") and f"{__file__}:" in line and words in line
            assert messages(caplog, lambda: f({"a": x}, *rest, **kwargs)) == []  # noqa: B023
        with veery.numpy_rank_promotion("raise"):
            (line,) = messages(caplog, lambda: f({"a": X}))
        assert "the setting jax_numpy_rank_promotion is now 'raise' and was 'allow'" in line


# Transfers


@pytest.mark.compiler
def test_transfer_guards(caplog):
    f = veery.jit(lambda x: x + 1)
    f(X)
    words = r"Disallowed host-to-device transfer: aval=ShapedArray\(f"
    refused = pytest.raises(veery.errors.JaxRuntimeError, match=words)
    with veery.transfer_guard("disallow"):
        for call in (lambda: f(X), lambda: jnp.asarray(X), lambda: veery.device_put(X) * np.float32(2)):
            with refused:
                call()
        assert f(veery.device_put(X)).tolist() == [1.0, 2.0, 3.0]
        # What the library makes itself is no transfer.
        assert jnp.arange(3).tolist() == [0, 1, 2] and jnp.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
        assert (jnp.eye(2) + jnp.ones((2, 2)) * jnp.full((2,), 3.0)).tolist() == [[4, 3], [3, 4]]
        with veery.transfer_guard_host_to_device("allow"):
            f(X)
            with veery.transfer_guard("disallow_explicit"), refused:
                veery.device_put(X)
    with veery.transfer_guard("log"):
        assert messages(caplog, lambda: f(X)) == [
            "host-to-device transfer: aval=ShapedArray(float32[3]), dst=the default device"
        ]
        assert messages(caplog, lambda: veery.device_put(X)) == []
    assert veery.config.jax_transfer_guard_host_to_device is None
    veery.config.update("jax_transfer_guard", "disallow")
    with refused:
        f(X)


# The state of the process


def test_live_arrays():
    x = jnp.arange(12345)
    find = lambda: any(y is x for y in veery.live_arrays())
    assert find()
    x.delete()
    assert not find() and veery.live_arrays("vulkan") == []


def test_environment(capsys):
    assert veery.print_environment_info() is None
    text = capsys.readouterr().out
    assert text == veery.print_environment_info(return_string=True) + "\n"
    assert all(word in text for word in ("veery:", "numpy:", "iree-base-compiler:", "python:", "device info: cpu"))
