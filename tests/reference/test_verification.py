"""Compiled programs verified: a broken lowering rule is found and its line named; what is right is not reported."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import debug, lax
from veery._core.errors import VerificationError
from veery._reference import verification
from veery._reference.verification import recording
from veery.extend import core
from veery.interpreters import mlir

pytestmark = pytest.mark.compiler

broken_p = core.Primitive("half_of")
broken_p.def_abstract_eval(lambda x: x)
broken_p.reference = lambda x: x / 2


@pytest.fixture(scope="module", autouse=True)
def _lowering() -> None:
    mlir.register_lowering(broken_p, lambda ctx, x: [ctx_builders().multiply(x, x)])


def ctx_builders() -> Any:
    from veery import _dispatch

    return _dispatch.lowering_module("stablehlo")


X = np.linspace(0.5, 3, 6).astype(np.float32)


def wrong(x: Any) -> Any:
    y = jnp.sin(x) + 2
    z = broken_p.bind(y)  # the line that is named
    return {"z": jnp.cos(z).sum()}


LINE = inspect.getsourcelines(wrong)[1] + 2


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VEERY_VERIFY_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("around", [lambda f: f, veery.jit, lambda f: lambda x: veery.jit(f)(x)])
def test_a_wrong_rule_is_found_and_its_line_named(around, folder):
    with pytest.raises(debug.VerificationError) as raised:
        debug.verify(around(wrong))(X)
    error = raised.value
    assert f"half_of at {__file__}:{LINE}" in error.equation and "half_of" in str(error)
    assert "6 of 6 elements differ" in str(error) and "a program of this equation alone" in str(error)
    done = subprocess.run([sys.executable, error.path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "6 elements are wrong" in done.stdout, done.stderr
    assert [p.name for p in folder.iterdir()] == [error.path.rsplit("/", 1)[1]]


def test_a_wrong_rule_in_a_loop_is_named_by_the_loop(folder):
    def loop(x):
        return lax.scan(lambda c, a: (c + broken_p.bind(a), a), x[0], x)[0]

    with pytest.raises(debug.VerificationError, match="scan at"):
        debug.verify(loop)(X)


def test_results_are_those_of_the_function():
    fun = debug.verify(lambda x, *, k: {"y": jnp.tanh(x) * k, "n": (x > 1).sum()})
    out = fun(X, k=2.0)
    np.testing.assert_allclose(out["y"], np.tanh(X) * 2, rtol=1e-6)
    assert int(out["n"]) == 4


def test_every_call_is_verified_and_recorded():
    fun = debug.verify(veery.jit(lambda x: jnp.exp(x).sum()))
    with recording() as found:
        fun(X), fun(X + 1)
    assert len(found) == 2 and all(r.comparison.ok and r.comparison.undetermined == 0 for r in found)
    assert 0 < found[0].comparison.largest_bound < 1e-4


def test_donated_arguments_are_compared_as_they_were():
    fun = debug.verify(veery.jit(lambda x: x * 2 + 1, donate_argnums=0))
    with recording() as found:
        fun(jnp.asarray(X))
    assert found[-1].comparison.ok


def test_ill_conditioned_programs_are_not_reported():
    n = np.arange(9)
    hilbert = (1 / (n[:, None] + n + 1)).astype(np.float32)
    debug.verify(jnp.linalg.inv)(hilbert)
    debug.verify(lambda x: (x + 1e6) - 1e6)(X)
    debug.verify(lambda x: jnp.floor(x / 3 * 3))(jnp.arange(10.0))
    debug.verify(veery.grad(lambda x: jnp.linalg.norm(x - x + 1e-20)))(X)  # its square is flushed to zero


def test_the_first_call_of_every_program_is_verified_if_set():
    fun = veery.jit(lambda x: jnp.cos(x) * 3)
    fun(X)  # was compiled before
    veery.config.update("veery_verify", "first")
    with recording() as found:
        fun(X), fun(X), jnp.asarray(X) - 17
    names = [r.name for r in found]
    assert names.count("<lambda>") == 1 and len(names) == 2
    veery.config.update("veery_verify", "off")
    with recording() as found:
        veery.jit(lambda x: jnp.cos(x) * 5)(X)
    assert not found


def test_eager_operations_are_verified():
    with veery._core.config.verify("first"), pytest.raises(debug.VerificationError, match="half_of"):
        broken_p.bind(jnp.asarray(X))


def test_the_environment_sets_it():
    code = "import veery; print(veery.config.veery_verify)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=_environment())
    assert done.stdout.strip() == "first", done.stderr


def _environment() -> dict[str, str]:
    import os

    path = os.pathsep.join(p for p in sys.path if p)
    return {**os.environ, "VEERY_VERIFY": "first", "PYTHONPATH": path}


def test_io_callbacks_are_called_once_and_what_they_return_is_used_again():
    from veery.experimental import io_callback

    drawn: list[float] = []
    rng = np.random.default_rng(0)

    def draw(x):
        drawn.append(np.float32(rng.random()))
        return drawn[-1] * x

    def fun(x):
        def step(total, _):
            total = total + io_callback(draw, veery.ShapeDtypeStruct((), np.float32), x)
            return total, jnp.sin(total)

        return lax.scan(step, jnp.float32(0), length=4)

    with recording() as records:
        total, _ = debug.verify(fun)(np.float32(2))
    assert len(drawn) == 4 and total == pytest.approx(2 * sum(drawn))
    assert [r.comparison.ok for r in records if r.name == "fun"] == [True]


def test_a_wrong_program_with_an_io_callback_is_told_without_running_its_parts():
    from veery.experimental import io_callback

    called: list[int] = []
    same = lambda x: io_callback(lambda v: called.append(1) or v, veery.ShapeDtypeStruct((), np.float32), x)
    closed = veery.make_jaxpr(lambda x: 2 * same(x))(np.float32(1))
    (io,) = [eqn.params["callback"] for eqn in closed.jaxpr.eqns if eqn.primitive.name == "io_callback"]
    device, one = veery.devices()[0], np.float32(1)
    calls = {io: [[one]]}
    assert verification.check(closed, "f", [one], [2 * one], device, calls=calls).ok
    with pytest.raises(VerificationError, match="output 0: 1 of 1 elements differ"):
        verification.check(closed, "f", [one], [3 * one], device, calls=calls)
    assert not called


def test_programs_of_which_the_io_callbacks_are_not_known_are_skipped_with_a_line_in_the_log(caplog):
    from veery.experimental import io_callback

    closed = veery.make_jaxpr(lambda x: io_callback(abs, x, x))(np.float32(1))
    with caplog.at_level(logging.INFO, logger="veery"):
        assert verification.check(closed, "f", [np.float32(1)], [np.float32(1)], veery.devices()[0]) is None
    assert "is not verified: it has an io_callback" in caplog.text


_ON_DEVICES = """
import numpy as np
import veery, veery.numpy as jnp
from veery._reference import verification

veery.config.update("jax_num_cpu_devices", 3)
x = np.arange(6, dtype=np.float32).reshape(3, 2)
with verification.recording() as records:
    mean = veery.pmap(lambda x: veery.lax.pmean(jnp.sin(x), "i"), axis_name="i")
    veery.debug.verify(mean)(x)
    assert [r.comparison.ok for r in records if r.name == "<lambda>"] == [True], records
    params = dict(jaxpr=veery.make_jaxpr(jnp.sin)(x[0]), name="sin", axis_name="i", axis_size=3)
    x = jnp.asarray(x)
    try:
        verification.verify_pmap([x], [x], tuple(veery.devices()), in_mapped=(True,), out_mapped=(True,), **params)
    except veery.errors.VerificationError as error:
        print(error)
"""


def test_what_pmap_runs_on_devices_is_verified(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _ON_DEVICES], capture_output=True, text=True, env=_environment(), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "differs from its evaluation in float64" in done.stdout


def test_pure_callbacks_are_evaluated():
    def fun(x):
        return veery.pure_callback(lambda v: np.sinh(v), veery.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    with recording() as found:
        debug.verify(fun)(X)
    assert found[-1].comparison.ok


def test_wrong_only_where_operations_are_compiled_together(folder):
    """Programs are bisected: here one is wrong that has both operations, and returns neither's value alone."""
    from veery._reference import blame, compare, evaluate

    closed = veery.make_jaxpr(lambda x: jnp.tanh(jnp.cos(jnp.sin(x) * 2) + 1))(X)
    right = lambda program, args: [x.astype(np.float32) for x in evaluate(program, *args)]

    def run(program, args):
        names = [eqn.primitive.name for eqn in program.eqns]
        outs = right(program, args)
        together = "cos" in names and "mul" in names and len(outs) == 1
        return [-x for x in outs] if together else outs

    failures = compare(closed, [X], run(closed, [X])).failures
    culprit = blame.find(closed, [X], failures[0], run, 0)
    assert culprit.equation is not None and culprit.equation.primitive.name == "cos"
    assert [e.primitive.name for e in culprit.program.eqns] == ["mul", "cos"]
    assert "only when 2 equations are compiled together" in culprit.how and "mul at" in culprit.how
