"""The fuzzer itself: programs are made again from their numbers, faults are found and made small."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import veery as jax
import veery.numpy as jnp
from fuzz import checks, nesting
from fuzz.campaign import Campaign, Worker, environment
from fuzz.chains import drawn, text_of
from fuzz.checks import check
from fuzz.draw import Draw
from fuzz.modules import check_module
from fuzz.nesting import Stage, differences
from fuzz.oracle import Evaluator, rule_failures
from fuzz.programs import Draft, Edits
from fuzz.targets import target_named
from fuzz.templates import TEMPLATES
from fuzz.triples import check_triples
from veery import _dispatch, lax, nn
from veery_lowering.emit import registry

FIXED = (3, 13, 14)  # numbers of seed 1: a template, and graphs under transformations


def made(number, seed=1, edits=Edits()):  # noqa: B008
    draft = Draft(seed, number, edits)
    with jax.enable_x64(draft.wide):
        program = draft.make()
        return str(program), program.args, str(jax.make_jaxpr(program.fun)(*program.args))


@pytest.mark.parametrize("number", range(5))
def test_programs_follow_from_seed_and_number(number):
    first, second = made(number), made(number)
    assert first[0] == second[0]
    assert first[2] == second[2]
    for x, y in zip(first[1], second[1], strict=True):
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


def test_programs_of_other_numbers_differ():
    assert len({made(number)[2] for number in range(8)}) == 8


def test_smaller_programs_have_the_same_structure():
    for number in range(5):
        name, args, _ = made(number)
        small_name, small_args, _ = made(number, edits=Edits(largest=2))
        assert small_name.split("(")[-1].split(")")[0] == name.split("(")[-1].split(")")[0]
        assert sum(np.size(x) for x in small_args) <= sum(np.size(x) for x in args)


def test_there_are_templates_of_each_kind():
    assert len(TEMPLATES) >= 100
    names = " ".join(TEMPLATES)
    for kind in ("attention", "kalman", "viterbi", "ctc", "quantum", "radix", "sinkhorn", "particle", "experts"):
        assert kind in names


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_templates_can_be_drawn(name):
    for number in range(2):
        draw = Draw([0, number], half=TEMPLATES[name].half)
        with jax.enable_x64(draw.wide):
            fun, args = TEMPLATES[name].make(draw)
            outs = jax.tree_util.tree_leaves(jax.eval_shape(fun, *args))
        assert outs


def test_differences_say_how_exact_they_are():
    [(slope, error)] = differences(lambda h: [np.sin(np.array([0.3, 1.0]) + h)])
    assert np.all(np.abs(slope - np.cos([0.3, 1.0])) <= error)
    assert np.all(error < 1e-5)
    [(_, error)] = differences(lambda h: [np.abs(np.array([1e-4 + h]))])  # a kink within the steps
    assert np.isnan(error).all()
    [(_, error)] = differences(lambda h: [np.maximum(np.array([h, 1 + h]), 0)])  # a kink at the place itself
    assert np.isnan(error).tolist() == [True, False]
    steep = lambda h: [np.cosh(np.array([50.0, 300.0]) * h)]
    [(slope, error)] = differences(steep)
    assert np.all(np.abs(slope) <= error)


def test_second_differences_say_how_exact_they_are():
    [(curvature, error)] = differences(lambda h: [np.sin(np.array([0.3, 1.0]) + h)], order=2)
    assert np.all(np.abs(curvature + np.sin([0.3, 1.0])) <= error)
    assert np.all(error < 1e-3)
    [(_, error)] = differences(lambda h: [np.array([h, 1 + h]) * np.abs([h, 1 + h])], order=2)
    assert np.isnan(error).tolist() == [True, False]


@pytest.mark.parametrize("order", [1, 2])
def test_kinks_near_by_are_no_errors(order):
    places = np.linspace(-8e-3, 8e-3, 20_000)  # never 0
    bent = lambda x: np.abs(x) if order == 1 else x * np.abs(x)
    [(value, error)] = differences(lambda h: [bent(h - places) + np.sin(3 * h + 1)], order)
    exact = -np.sign(places) + 3 * np.cos(1) if order == 1 else -2 * np.sign(places) - 9 * np.sin(1)
    assert not np.any(np.abs(value - exact) > error)
    assert np.all(error[np.abs(places) > 5e-3] < 1e-3)


@pytest.mark.parametrize("name", ["Grad", "Jvp", "Vjp", "Jacobian", "Hessian", "Hvp"])
def test_derivatives_at_kinks_are_not_compared(name):
    """JAX takes the slope of one side, numerical differences the mean of both."""
    ramp = lambda x: jnp.maximum(x - lax.stop_gradient(x), 0) ** (2 if name in ("Hessian", "Hvp") else 1)
    assert not failures_of(name, lambda x, y: (ramp(x) + nn.relu(y - lax.stop_gradient(y)) * 2 + x**2,))


@pytest.mark.parametrize("kinds", [("float32", "complex64"), ("complex64", "float32"), ("float32", "bfloat16")])
def test_evaluations_are_of_real_numbers(kinds):
    """A step that is smaller than the digits of a dtype is seen through conversions."""
    convert = lambda x, kind: lax.convert_element_type_p.bind(x, new_dtype=jnp.dtype(kind), weak_type=False)
    fun = lambda x: (2 * convert(convert(x, kinds[1]), kinds[0]),)
    evaluate = Evaluator(Stage(fun, (np.ones((), kinds[0]),)))
    assert evaluate(np.asarray(1 / 3))[0] == 2 / 3


@pytest.mark.parametrize("name", sorted(nesting.TRANSFORMATIONS))
def test_transformations_agree_with_the_values_within(name):
    assert not failures_of(name, lambda x, y: (jnp.sin(x) * y.sum(0) + x**2,))


@pytest.mark.parametrize("name", ["Grad", "Jvp", "Vjp", "Jacobian", "Hessian", "Hvp"])
def test_wrong_derivatives_are_noticed(name):
    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), 1.01 * jnp.cos(primals[0]) * tangents[0]))
    assert failures_of(name, lambda x, y: (sine(x * y),))


@pytest.mark.parametrize("factor", [1, 1.1])
def test_constants_of_rules_are_rounded_to_narrow_formats(factor):
    """The derivative of erf has 2 / sqrt(pi), which is 1.125 in bfloat16."""

    @jax.custom_jvp
    def scaled(x):
        return lax.erf(x)

    scaled.defjvp(lambda primals, tangents: jax.jvp(lambda x: factor * lax.erf(x), primals, tangents))
    assert bool(failures_of("Grad", lambda x, y: (scaled(x * y),), "bfloat16")) == (factor != 1)


def test_wrong_batching_is_noticed():
    @jax.custom_batching.custom_vmap
    def double(x):
        return 2 * x

    double.def_vmap(lambda size, batched, x: (2 * x[::-1] if batched[0] else 2 * x, batched[0]))
    assert failures_of("Vmap", lambda x, y: (double(x + y).sum(),))


def test_wrong_integers_and_shapes_are_noticed():
    for out in (lambda x: x > 2, lambda x: jnp.int32(3), lambda x: x[:2]):
        stage = Stage(lambda x, out=out: (out(x),), (np.linspace(0, 1, 5).astype("float32"),))
        program = Draft(0, 0).make()
        transformation = nesting.nest(stage, "Jit", Draw([0]))
        wrong = Stage(lambda x: (x < 2,), stage.args)
        program.stages, program.transformations = [stage, wrong], [transformation]
        assert len(rule_failures(program)) == 1


def failures_of(name, fun, dtype="float32"):
    """What the oracle says of a transformation of a function of two arrays."""
    args = np.linspace(0.2, 1, 5).astype(jnp.dtype(dtype)), np.linspace(-1, 1, 5).astype(jnp.dtype(dtype))
    for k in range(30):  # of the ways to transform it, one in which something happens
        transformation = nesting.nest(Stage(fun, args), name, Draw([k], half=False, wide=False))
        if name != "Vmap" or transformation.n > 1:
            break
    stages = [transformation.inner, transformation.stage]
    draft = Draft(0, 0).make()
    draft.stages, draft.transformations = stages, [transformation]
    return rule_failures(draft)


@pytest.mark.parametrize("number", FIXED)
def test_fixed_programs_run(number):
    outcome = check(1, number, target_named("cpu"))
    assert outcome.kind == "ok", outcome.detail


def test_modules_follow_from_seed_and_number():
    first, second, other = (text_of(drawn(1, number)) for number in (3, 3, 4))
    assert first == second != other


def test_chains_have_all_steps():
    """But those that only some dtypes or shapes have, which more chains would."""
    lines = "\n".join(line for number in range(40) for c in drawn(0, number) for line in c.lines)
    for name in ("convert", "gather", "scatter", "sort", "pad", "reduce_window", "dot_general", "dynamic_update_slice"):
        assert f"stablehlo.{name}" in lines


def test_wrong_operations_of_modules_are_found_and_made_small(monkeypatch):
    assert check_module(1, 0, target_named("stablehlo")).kind == "ok"
    number = next(n for n in range(100) if any("stablehlo.reverse" in line for line in drawn(1, n)[0].lines))
    registry.lookup("rev", "cpu")  # which has them all loaded
    monkeypatch.setitem(registry._rules, ("rev", None), lambda ctx, x, **_: x)
    outcome = check_module(1, number, target_named("stablehlo"))
    assert outcome.kind == "wrong"
    assert outcome.detail.count("stablehlo.") <= 6, outcome.detail


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_wrong_step_is_found_among_triples(monkeypatch):
    registry.lookup("rev", "cpu")  # which has them all loaded
    monkeypatch.setitem(registry._rules, ("rev", None), lambda ctx, x, **_: x)
    outcome = check_triples(1, 0, target_named("cpu"))
    assert outcome.kind == "wrong" and "reverse" in outcome.detail, outcome.detail


def test_a_wrong_lowering_is_found_and_made_small(tmp_path):
    numbers = range(10_000)
    number = next(n for n in numbers if (d := Draft(1, n)).name == "kernel_density" and len(d.names) == 1)
    script = f"""
import sys
from veery_lowering.emit.registry import lookup, replace
from fuzz.checks import check
from fuzz.shrink import forked, shrink
from fuzz.targets import target_named
from fuzz.triples import check_triples
from pathlib import Path

replace("exp", lookup("cos", "cpu"))
found = forked(lambda: check(1, {number}, target_named("cpu")), 300.0)
print(found.kind)
print(shrink(found, "cpu", Path(sys.argv[1]), 240.0))
"""
    env = {**environment(), "VEERY_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, env=env, timeout=560
    )
    assert done.returncode == 0, done.stderr
    kind, path = done.stdout.split()
    assert kind == "wrong"
    text = Path(path).read_text()
    operations = [line for line in text.splitlines() if ".bind(" in line]
    assert "exp_p.bind" in text
    assert len(operations) <= 3, text
    right = subprocess.run([sys.executable, path], capture_output=True, text=True, env=env, timeout=300)
    assert right.returncode == 0, right.stderr  # with the right rule there is nothing wrong with it


def test_a_process_that_ends_is_a_finding(tmp_path, monkeypatch):
    worker = Worker(1, "no such target", tmp_path / "log")
    outcome = worker.check(0)
    assert outcome.kind == "crash"
    assert "exit status 1" in outcome.detail
    assert "no such target" in outcome.detail


def test_a_process_that_hangs_is_a_finding(tmp_path):
    worker = Worker(1, "cpu", tmp_path / "log", limit=0.01)
    assert worker.check(0).kind == "timeout"


def test_programs_that_were_compiled_in_another_form_are_counted(tmp_path):
    program = SimpleNamespace(name="f", metadata={"fallback": "compiled, since IREE failed: operand 12 is bad"})
    with checks.Fallbacks() as said:
        _dispatch.log_fallback(program)
    campaign = Campaign(1, "cpu", tmp_path, outcomes=[checks.Outcome(1, 2, "ok", fallback=said[0])])
    assert "1x operand N is bad" in campaign.summary()


def test_kernels_that_could_not_be_written_are_findings():
    with checks.Fallbacks() as said:
        try:
            raise ValueError("a fault")
        except ValueError:
            logging.getLogger("veery_lowering.kernels").warning("a kernel could not be written", exc_info=True)
    outcome = checks.Outcome(1, 2, "ok")
    checks.note(said, outcome)
    assert outcome.is_finding and "ValueError: a fault" in outcome.detail
    checks.note([], outcome := checks.Outcome(1, 2, "ok"))
    assert not outcome.is_finding


def test_campaigns_count_outcomes(tmp_path):
    campaign = Campaign(1, "cpu", tmp_path, first=FIXED[0], count=1, jobs=1)
    assert [o.kind for o in campaign.run()] == ["ok"]
    assert "1 programs of seed 1 on cpu: 1 ok" in campaign.summary()
    assert json.loads((tmp_path / "outcomes.jsonl").read_text())["number"] == FIXED[0]
