"""Options of a compilation: by `jit`, by the setting, by the environment; what they do, and how they are refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import _dispatch
from veery._api import autotune
from veery._core import config as config_module
from veery._core.compiler_options import pairs
from veery_lowering.errors import CompileError

X = np.ones(8, np.float32)


@pytest.fixture
def setting():
    yield lambda value: veery.config.update("veery_compiler_options", value)
    veery.config.update("veery_compiler_options", None)


def compiled(options=None, x=X):
    return veery.jit(lambda x: jnp.sin(x) + 1, compiler_options=options).lower(x).compile()


def test_options_have_one_form():
    expected = (("iree-opt-level", "O2"), ("queue", "inline"))
    assert pairs({"queue": "inline", "--iree-opt-level": "O2"}) == pairs("--iree-opt-level=O2 queue=inline") == expected
    assert pairs(None) == pairs({}) == pairs("") == ()
    assert pairs("autotune=true iree-opt-const-eval=False") == (("autotune", True), ("iree-opt-const-eval", "False"))
    assert pairs({"iree-opt-const-eval": False}) == (("iree-opt-const-eval", "false"),)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"optimise_for": "size"}, "No such compile option: 'optimise_for'; did you mean 'optimize_for'?"),
        (
            {"xla_cpu_enable_fast_math": True},
            "Options are optimize_for, kernels, queue, autotune, compiler, and those of IREE",
        ),
        ({"optimize_for": "beauty"}, "'optimize_for' takes one of 'speed', 'latency', 'throughput', 'size', got 'beau"),
        ({"queue": "deferred"}, "'queue' takes one of 'auto', 'inline', 'threaded', got 'deferred'"),
    ],
)
def test_unknown_options_are_refused_at_once(options, message, setting):
    for refuse in (lambda: veery.jit(lambda x: x, compiler_options=options), lambda: setting(options)):
        with pytest.raises(ValueError, match=message.replace("?", r"\?")):
            refuse()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"iree-opt-levle": "O2"}, "has no 'iree-opt-levle'; did you mean iree-opt-level"),
        ({"iree-opt-level": "O9"}, "refuses 'iree-opt-level=O9'; it has printed which"),
    ],
)
def test_the_compiler_refuses_its_own(options, message):
    with pytest.raises((ValueError, CompileError), match=message):
        compiled(options)


def test_queues_are_shown_and_can_be_chosen(setting):
    queue = lambda options=None, x=X: compiled(options, x).cost_analysis()["queue"]
    assert queue() == "inline" and queue(x=np.ones(10**6, np.float32)) == "threaded"
    assert queue({"queue": "threaded"}) == queue({"optimize_for": "throughput"}) == "threaded"
    assert queue({"optimize_for": "latency"}, np.ones(10**6, np.float32)) == "inline"
    setting("optimize_for=throughput")
    assert queue() == "threaded" and queue({"optimize_for": "speed"}) == queue({"queue": "inline"}) == "inline"


def test_the_setting_holds_for_what_is_compiled_already(setting):
    increase = veery.jit(lambda x: x + 3)
    x = jnp.ones(5)
    for _ in range(3):
        increase(x)
    queue = lambda: {entry.executable.queue for entry in increase._entries.values()}
    assert queue() == {"inline"}
    setting("queue=threaded")
    assert increase(x).tolist() == [4.0] * 5 and queue() == {"inline", "threaded"}


def test_the_environment(monkeypatch):
    option = config_module.OPTIONS["veery_compiler_options"]
    monkeypatch.setenv("VEERY_COMPILER_OPTIONS", "optimize_for=size iree-opt-level=O1")
    found = config_module._from_environment("veery_compiler_options", option)
    assert found == (("iree-opt-level", "O1"), ("optimize_for", "size"))
    monkeypatch.setenv("VEERY_COMPILER_OPTIONS", "optimize_for=sise")
    with pytest.raises(ValueError, match="environment variable VEERY_COMPILER_OPTIONS='optimize_for=sise': .*'size'"):
        config_module._from_environment("veery_compiler_options", option)


def test_small_programs():
    default, small = (compiled({"optimize_for": goal}) for goal in ("speed", "size"))
    sizes = [each.memory_analysis().generated_code_size_in_bytes for each in (default, small)]
    assert sizes[1] < 0.9 * sizes[0] and (np.asarray(small(X)) == default(X)).all()


def test_tuning_measures_once(monkeypatch, tmp_path, caplog):
    """What is fastest for a program is measured at the first call, and found on disk by the next function like it."""
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path))
    smaller, refused = ("iree-llvmcpu-debug-symbols", "false"), ("iree-opt-level", "O9")
    monkeypatch.setattr(_dispatch.lowering().tuning, "_CPU", (smaller, refused))
    slow = {"iree-llvmcpu-debug-symbols=false": 1.0, "queue=threaded": 0.5}
    times = lambda executables, _: {c: slow.get(autotune._text(c), 2.0) for c in executables}
    measured = []
    monkeypatch.setattr(autotune, "_times", lambda *args: measured.append(times(*args)) or times(*args))
    make = lambda: veery.jit(lambda x: jnp.cos(x) * 3, compiler_options={"autotune": True})
    function = make()
    with caplog.at_level(logging.DEBUG, "veery"):
        np.testing.assert_allclose(function(X), np.cos(X) * 3, rtol=1e-6)
    assert "iree-opt-level=O9 fails" in caplog.text
    assert "iree-llvmcpu-debug-symbols=false takes 1000000.0 us" in caplog.text
    assert [len(each) for each in measured] == [2, 2]  # options of the compiler; queues
    (chosen,) = next(iter(function._traces.values())).closed.derived.executables.values()
    assert chosen.queue == "threaded"
    np.testing.assert_allclose(make()(X), np.cos(X) * 3, rtol=1e-6)
    assert len(measured) == 2


def test_tuning_with_real_measurements(monkeypatch):
    monkeypatch.setattr(_dispatch.lowering().tuning, "_CPU", (("iree-opt-level", "O1"),))
    step = veery.jit(lambda x, y: (x + y, x.sum()), donate_argnums=0, compiler_options={"autotune": True})
    x = jnp.arange(4.0)
    assert step(x, jnp.ones(4))[0].tolist() == [1.0, 2.0, 3.0, 4.0] and x.is_deleted()
    printing = veery.jit(lambda x: (veery.debug.callback(seen.append, x), x)[1], compiler_options={"autotune": True})
    seen = []
    printing(1.0)
    veery.effects_barrier()
    assert len(seen) == 1


def test_costs_and_memory():
    chain = veery.jit(lambda x, w: jnp.tanh(x @ w) @ w, donate_argnums=0)
    program = chain.lower(jnp.zeros((64, 32)), jnp.zeros((32, 32))).compile()
    costs, memory = program.cost_analysis(), program.memory_analysis()
    assert costs["flops"] == 2 * (2 * 64 * 32 * 32) and costs["transcendentals"] == 64 * 32
    assert costs["bytes accessed"] == 4 * (2 * (2 * 64 * 32 + 32 * 32) + 2 * 64 * 32)
    assert memory.argument_size_in_bytes == 4 * (64 * 32 + 32 * 32) and memory.output_size_in_bytes == 4 * 64 * 32
    assert memory.temp_size_in_bytes in (0, 4 * 64 * 32)  # none where the hidden values lie in the donated argument
    assert memory.generated_code_size_in_bytes > 1000
    scan = lambda x: veery.lax.scan(lambda c, _: (jnp.sin(c), None), x, length=7)[0]
    assert veery.jit(scan).lower(jnp.zeros(3)).cost_analysis()["transcendentals"] == 21
