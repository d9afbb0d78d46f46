"""XLA beside IREE and the reference: which of them agree, and who is said to be alone."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import _dispatch, debug
from veery._core.config import verify, verify_beside
from veery._reference.agreement import standing
from veery._reference.comparison import compare_each
from veery._reference.verification import recording
from veery.experimental import io_callback
from veery.extend import core
from veery.interpreters import mlir

X = np.linspace(0.5, 3, 6).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEERY_VERIFY_DIR", str(tmp_path))
    return tmp_path


def _identity(name: str, **factors: int) -> Any:
    """A primitive that is the identity, but for platforms that multiply by a factor."""
    primitive = core.Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    primitive.reference = lambda x: x  # type: ignore[method-assign]
    builders = _dispatch.lowering_module("stablehlo")

    def lowered(factor: int) -> Any:
        def rule(ctx: Any, x: Any) -> list[Any]:
            for _ in range(factor - 1):
                x = builders.add(x, x)
            return [x]

        return rule

    for platform in ("cpu", "xla"):
        mlir.register_lowering(primitive, lowered(factors.get(platform, 1)), platform)
    return primitive


@pytest.mark.parametrize(
    ("factors", "alone", "wrong"),
    [
        ({"cpu": 2}, "cpu is alone: the reference and xla agree.", ["cpu:0"]),
        ({"xla": 2}, "xla is alone: the reference and cpu agree.", ["xla:0"]),
        ({"cpu": 2, "xla": 2}, "The reference is alone: cpu and xla agree.", ["cpu:0", "xla:0"]),
        ({"cpu": 2, "xla": 3}, "No two of the reference, cpu and xla agree.", ["cpu:0", "xla:0"]),
    ],
)
def test_who_is_alone_is_said_and_the_equation_found(xla: Any, factors: Any, alone: str, wrong: list[str]) -> None:
    odd_p = _identity(f"odd_{'_'.join(map(str, factors.values()))}", **factors)
    with pytest.raises(debug.VerificationError) as raised:
        debug.verify(lambda x: jnp.sin(odd_p.bind(x + 1)), beside="xla")(X)
    message, error = str(raised.value), raised.value
    assert f"\n{alone}\n" in message and "odd_" in error.equation and __file__ in error.equation
    assert [name for name in ("cpu:0", "xla:0") if f"on {name} differs" in message] == wrong
    done = subprocess.run([sys.executable, error.path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "6 elements are wrong" in done.stdout, done.stderr  # where it was found


def test_right_programs_are_recorded_of_each_compiler(xla: Any) -> None:
    def step(w: Any, x: Any, y: Any) -> Any:
        return w - 0.1 * veery.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(w)

    args = np.zeros((3, 2), np.float32), np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)
    with recording() as found:
        on_cpu = debug.verify(veery.jit(step, donate_argnums=0), beside=["xla"])(*args)
    assert [(r.name, r.platform) for r in found] == [("step", "cpu"), ("step", "xla")]
    assert all(r.comparison.ok and r.comparison.undetermined == 0 for r in found)
    with recording() as found, veery.default_device(xla):
        on_xla = debug.verify(step, beside=("xla", "cpu"))(*args)
    assert [(r.name, r.platform) for r in found] == [("step", "xla"), ("step", "cpu")]
    assert on_cpu.devices() != on_xla.devices() == {xla}
    np.testing.assert_allclose(on_cpu, on_xla, rtol=1e-6)


def test_programs_of_xla_on_the_cpu_device_are_xlas(xla: Any) -> None:
    only_there_p = _identity("only_there", xla=2)
    with pytest.raises(debug.VerificationError) as raised:
        debug.verify(veery.jit(lambda x: jnp.cos(only_there_p.bind(x)), compiler="xla"), beside="xla,cpu")(X)
    assert "xla is alone: the reference and cpu agree." in str(raised.value)
    assert "only_there" in raised.value.equation


def test_the_setting_names_platforms_and_each_is_asked_once(xla: Any) -> None:
    fun = veery.jit(lambda x: jnp.cos(x) * 7)
    with recording() as found, verify("first"):
        fun(X), fun(X)
        with verify_beside("xla"):
            fun(X), fun(X)
            debug.verify(fun, beside="")(X)
    assert [r.platform for r in found] == ["cpu", "cpu", "xla", "cpu"]
    code = "import veery; print(veery.config.veery_verify_beside)"
    environment = {**os.environ, "VEERY_VERIFY_BESIDE": "xla, cpu"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "xla,cpu"
    with pytest.raises(ValueError, match='expected platforms such as "xla" or "xla,vulkan"'):
        debug.verify(fun, beside="xla,,cpu")


def test_a_platform_without_a_device_is_an_error_with_the_way_out() -> None:
    with pytest.raises(RuntimeError, match=r"Unknown backend: no tpu device .*pip install 'veery\[xla-tpu\]'"):
        debug.verify(lambda x: x + 1, beside="tpu")(X)


def test_a_program_that_one_compiler_refuses_is_told(xla: Any) -> None:
    here_p = core.Primitive("only_here")
    here_p.def_abstract_eval(lambda x: x)
    here_p.reference = lambda x: x  # type: ignore[method-assign]
    mlir.register_lowering(here_p, lambda ctx, x: [x], "cpu")
    with pytest.raises(debug.VerificationError, match=r"jit\(<lambda>\) does not run on xla:0: only_here"):
        debug.verify(lambda x: here_p.bind(x) + 1, beside="xla")(X)


def test_effects_happen_once(xla: Any, caplog: Any, capfd: Any) -> None:
    called: list[int] = []

    def fun(x: Any) -> Any:
        veery.debug.print("x = {}", x)
        return io_callback(lambda v: called.append(1) or v, veery.ShapeDtypeStruct((), np.float32), x) + 1

    def printing(x: Any) -> Any:
        veery.debug.print("y = {}", x)
        return x + 2

    with caplog.at_level(logging.INFO, logger="veery"), recording() as found:
        debug.verify(fun, beside="xla")(np.float32(1))
        debug.verify(printing, beside="xla")(np.float32(1))
        veery.effects_barrier()
    assert [(r.name, r.platform) for r in found] == [("fun", "cpu"), ("printing", "cpu"), ("printing", "xla")]
    assert len(called) == 1 and capfd.readouterr().out == "x = 1.0\ny = 1.0\n"
    assert "jit(fun) does not run on xla too" in caplog.text


def test_what_lies_behind_jumps_says_nothing_and_numbers_in_wrong_places_do() -> None:
    """Without a compiler: results by hand, beside the reference."""
    closed = veery.make_jaxpr(lambda x: (x > jnp.float32(1 / 3) * 3, jnp.log(x)))(X)
    first, log = X > 1, np.log(X)
    near = np.float32([0.3])
    jump = veery.make_jaxpr(lambda x: jnp.floor(x * 10))(near)
    either = compare_each(jump, [near], [[np.float32([3])], [np.float32([2])]])
    assert standing(dict(zip(["a", "b"], either))) == "The reference, a and b agree."
    nan = np.where(np.arange(6) == 2, np.nan, log).astype(np.float32)
    short = [first[:3], log]
    found = compare_each(closed, [X], [[first, log], [first, nan], [first, nan], short, [~first, log]])
    said = standing(dict(zip("abcde", found)))
    assert said == "d and e are alone: the reference and a agree; b and c agree."


def test_the_command_compares_both_compilers(xla: Any, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import veery.numpy as jnp\ndef f(x):\n    return jnp.tanh(x).sum()\n")
    command = [sys.executable, "-m", "veery", "verify", "model.py:f", "--args", "f32[8]", "--beside", "xla"]
    both = [
        subprocess.run([*command, *more], capture_output=True, text=True, cwd=tmp_path, check=True).stdout
        for more in ((), ("--json",))
    ]
    assert [line.split()[1] for line in both[0].splitlines()] == ["on", "cpu", "xla"]
    assert [p["platform"] for p in json.loads(both[1])["programs"]] == ["cpu", "xla"]
