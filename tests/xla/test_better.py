"""XLA's programs on arrays of the CPU device, and the better of both compilers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import veery
import veery.numpy as jnp
from veery import lax
from veery_runtime.pjrt.handle import View

pytestmark = pytest.mark.usefixtures("xla")


def _decided(call: Callable[[], Any], executable: Any) -> None:
    """Call until the better one is known."""
    end = time.monotonic() + 120
    while not executable.decided:
        assert time.monotonic() < end
        call()
        time.sleep(0.05)


def _executable(function: Any) -> Any:
    """The program behind a jitted function that was called with one type of arguments."""
    (traced,) = function._traces.values()
    (executable,) = traced.closed.derived.executables.values()
    return executable


def test_arrays_stay_on_the_cpu_device_and_pass_between_both() -> None:
    cpu = veery.devices("cpu")[0]
    by_xla, by_iree = (veery.jit(lambda x, y: (x @ y + 1, y * 2), compiler=each) for each in ("xla", "iree"))
    x, y = jnp.arange(16.0).reshape(4, 4), jnp.ones((4, 4))
    expected = np.asarray(x) @ np.ones((4, 4)) + 1
    for first, second in ((by_xla, by_iree), (by_iree, by_xla), (by_xla, by_xla)):
        z, w = first(x, y)
        assert z.devices() == w.devices() == {cpu}
        np.testing.assert_array_equal(z, expected)
        np.testing.assert_array_equal(second(z, w)[0], expected @ np.full((4, 4), 2) + 1)
    assert _executable(by_xla).queue == "xla" and _executable(by_iree).queue == "inline"


@pytest.mark.parametrize(
    ("function", "expected", "told"),
    [
        (lambda x: jnp.linalg.inv(x), np.linalg.inv, True),
        (lambda x: jnp.sort(x), np.sort, False),  # XLA's own
        (
            lambda x: jnp.linalg.inv(lax.erf_inv(x / 9) + x),
            lambda x: np.linalg.inv(scipy.special.erfinv(x / 9) + x),
            False,
        ),
    ],
)
def test_what_is_lapack_alone_is_not_compiled(
    function: Any, expected: Any, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    x = np.float32(4) * np.eye(5, dtype=np.float32) + np.arange(5, dtype=np.float32) / 7
    with veery.log_compiles(), caplog.at_level(logging.WARNING, logger="veery"):
        found = veery.jit(function, compiler="xla")(x)
    np.testing.assert_allclose(found, expected(x), rtol=1e-4, atol=1e-6)
    assert any("is evaluated by NumPy and LAPACK" in each for each in caplog.messages) is told


def test_results_are_used_before_they_are_ready() -> None:
    slow = veery.jit(lambda x: lax.fori_loop(0, 20, lambda _, y: y @ x, x), compiler="xla")
    x = jnp.full((1000, 1000), 1e-3)
    slow(x).block_until_ready()
    y = slow(x)
    z = veery.jit(lambda y: y + 1)(y)  # by IREE, on a thread that waits
    assert np.isfinite(np.asarray(z)).all()
    np.testing.assert_array_equal(np.asarray(z), np.asarray(y) + 1)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 2), (33, 7)])
def test_all_shapes(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    once = veery.jit(lambda x: x + 1, compiler="xla")(x)
    np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: x * 2)(once)), (x + 1) * 2)
    np.testing.assert_array_equal(np.asarray(veery.jit(lambda x: x * 2, compiler="xla")(once)), (x + 1) * 2)


def test_what_both_compilers_see_is_never_overwritten() -> None:
    steps = [veery.jit(lambda x, y: x + y, donate_argnums=0, compiler=each) for each in ("xla", "iree")]
    one = jnp.ones(1 << 16)
    for turn in (0, 1):
        x = steps[turn](jnp.zeros(1 << 16), one)
        seen = np.asarray(x)
        y = steps[1 - turn](x, one)
        assert x.is_deleted() and seen[0] == 1 and float(y[0]) == 2
        reader = veery.jit(lambda y: y * 1, compiler="iree")
        kept = reader(y)
        z = steps[turn](y, one)
        assert y.is_deleted() and float(kept[0]) == 2 and float(z[0]) == 3
    with pytest.raises(RuntimeError, match="deleted"):
        steps[0](x, one)
    with pytest.raises(RuntimeError, match="donated and passed as another argument"):
        steps[0](one, one)


def test_donated_results_of_xla_are_written_into() -> None:
    step = veery.jit(lambda x: x + 1, donate_argnums=0, compiler="xla")
    x = step(step(jnp.zeros(1 << 18)))
    home = veery.devices("xla")[0]
    before = View(home.client, x._buffer._twin).address
    x = step(x)
    assert View(home.client, x._buffer._twin).address == before and float(x[0]) == 3


def test_errors_of_what_makes_arguments_and_results_surface() -> None:
    def fail(x: Any) -> Any:
        raise ValueError("not this one")

    shape = veery.ShapeDtypeStruct((3,), np.float32)
    for maker in ("iree", "xla"):
        bad = veery.jit(lambda x: veery.pure_callback(fail, shape, x), compiler=maker)
        for user in ("iree", "xla"):
            with pytest.raises(ValueError, match="not this one"):  # at the call, or where the result is read
                np.asarray(veery.jit(lambda x: x + 1, compiler=user)(bad(jnp.ones(3))))


def test_transformations_and_control_flow() -> None:
    f = lambda x: lax.scan(lambda c, x: (c * x, jnp.sin(c)), 1.0, x)[1].sum()
    x = jnp.linspace(0.5, 1.5, 7)
    for transform in (veery.grad, veery.hessian, lambda f: veery.vmap(lambda s: f(x * s))):
        given = jnp.arange(3.0) if transform not in (veery.grad, veery.hessian) else x
        np.testing.assert_allclose(
            veery.jit(transform(f), compiler="xla")(given), veery.jit(transform(f))(given), rtol=2e-5, atol=1e-6
        )


def test_the_better_one_stays_and_is_remembered(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    veery.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        with caplog.at_level(logging.DEBUG, logger="veery"):
            better = veery.jit(lambda x: jnp.cumsum(jnp.sin(x) * x), compiler="auto")
            x = jnp.linspace(0, 1, 1000)
            expected = np.cumsum(np.sin(np.asarray(x, np.float64)) * np.asarray(x, np.float64))
            np.testing.assert_allclose(better(x), expected, rtol=1e-5)
            executable = _executable(better)
            assert executable.current.queue == "xla"
            _decided(lambda: better(x), executable)
        (said,) = [r.getMessage() for r in caplog.records if "stays" in r.getMessage()]
        chosen = said.split(": ")[-1].split()[0]
        assert (executable.current.queue == "xla") == (chosen == "xla")
        np.testing.assert_allclose(better(x), expected, rtol=1e-5)
        again = veery.jit(lambda x: jnp.cumsum(jnp.sin(x) * x), compiler="auto")
        np.testing.assert_allclose(again(x), expected, rtol=1e-5)
        assert (_executable(again).queue == "xla") == (chosen == "xla")
    finally:
        veery.config.update("jax_compilation_cache_dir", None)


def test_donated_arguments_of_the_better_one_are_used_once(tmp_path: Any) -> None:
    veery.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        step = veery.jit(lambda x, y: (x + y, (x * y).sum()), donate_argnums=0, compiler="auto")
        x, y = jnp.zeros(64), jnp.ones(64)
        count = 0

        def call() -> None:
            nonlocal x, count
            x, _ = step(x, y)
            count += 1

        call()
        _decided(call, _executable(step))
        call()
        assert float(x[0]) == count
    finally:
        veery.config.update("jax_compilation_cache_dir", None)


def test_programs_with_effects_are_irees() -> None:
    seen = []

    @veery.jit
    def program(x: Any) -> Any:
        veery.debug.callback(lambda x: seen.append(float(x)), x)
        return x + 1

    auto = veery.jit(program.__wrapped__, compiler="auto")
    for i in range(3):
        auto(float(i))
    veery.effects_barrier()
    assert seen == [0.0, 1.0, 2.0] and _executable(auto).queue != "xla"


def test_without_a_plugin_auto_is_iree_and_xla_is_refused(tmp_path: Any) -> None:
    program = (
        "import veery\nfrom veery_runtime.pjrt import plugins\nplugins._installed = list\n"
        "print(veery.jit(lambda x: x + 1, compiler='auto')(1.0))\n"
        "try:\n    veery.jit(lambda x: x + 1, compiler='xla')(1.0)\n"
        "except RuntimeError as error:\n    print(error)"
    )
    environment = {**os.environ, "VEERY_CACHE_DIR": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    first, second = said.stdout.splitlines()
    assert first == "2.0" and "pip install 'veery[xla]'" in second


def test_ahead_of_time() -> None:
    lowered = veery.jit(lambda x: jnp.sin(x) + 1, compiler="xla").lower(jnp.ones(3))
    compiled = lowered.compile()
    result = compiled(jnp.zeros(3))
    assert result.devices() == {veery.devices("cpu")[0]} and compiled.cost_analysis()["queue"] == "xla"
    np.testing.assert_array_equal(result, np.ones(3))
    assert compiled.runtime_executable().serialize()


def test_the_compiler_is_a_setting_too() -> None:
    veery.config.update("veery_compiler_options", {"compiler": "xla"})
    try:
        f = veery.jit(lambda x: x + 1)
        assert float(f(1.0)) == 2 and _executable(f).queue == "xla"
        assert float(jnp.sin(jnp.float32(0.0)) + 1) == 1  # eager calls too
    finally:
        veery.config.update("veery_compiler_options", {})
    with pytest.raises(ValueError, match="'compiler' takes one of 'iree', 'xla', 'auto', got 'gcc'"):
        veery.jit(lambda x: x, compiler="gcc")
