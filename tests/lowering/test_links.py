"""Links from jaxprs to compiled programs: jaxprs that differ in what they compute never share one."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives.table_structural import ROWS

import veery
import veery_lowering
from veery import lax, nn, numpy as jnp
from veery._transforms.dce import dce
from veery_lowering import Options, host, lower
from veery_lowering.emit import registry
from veery_lowering.store import links
from veery_lowering.store.fingerprint import fingerprint

X = np.ones(3, np.float32)


def text_of(fun: Callable[..., Any], *args: Any) -> str | None:
    return fingerprint(dce(veery.make_jaxpr(fun)(*args)))


def test_names_and_places_do_not_matter() -> None:
    def f(x: Any) -> Any:
        return veery.jit(lambda y: jnp.sin(y) * 2)(x)

    def g(other: Any) -> Any:
        def inner(z: Any) -> Any:
            return jnp.sin(z) * 2

        return veery.jit(inner)(other)

    assert text_of(f, X) == text_of(g, X) is not None


def test_a_policy_of_checkpoint_does_not_matter() -> None:
    """Programs hold no trace of it: it says what is kept for derivatives."""
    saved, computed = veery.checkpoint_policies.everything_saveable, veery.checkpoint_policies.nothing_saveable
    first, second = (veery.checkpoint(lambda x: jnp.sin(x) * 2, policy=policy) for policy in (saved, computed))
    assert text_of(first, X) == text_of(second, X) is not None


DIFFERENT = [
    (lambda x: x + 1.0, lambda x: x + 2.0),
    (lambda x: x * 0.0, lambda x: x * -0.0),
    (lambda x: x - x[0], lambda x: x[0] - x),
    (lambda x: x.sum(), lambda x: x.max()),
    (lambda x: x[:2], lambda x: x[1:]),
    (lambda x: x.astype("float16"), lambda x: x.astype("bfloat16")),
    (lambda x: x > 1, lambda x: x > 2),
    (lambda x: lax.cumsum(x), lambda x: lax.cumsum(x, reverse=True)),
    (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x), lambda x: lax.fori_loop(0, 4, lambda i, c: c * 2, x)),
    (lambda x: nn.relu(x), lambda x: nn.relu6(x)),
    (lambda x: jnp.sort(x), lambda x: jnp.sort(x, descending=True)),
    (lambda x: x @ np.float32([1, 2, 3]), lambda x: x @ np.float32([1, 2, 4])),
    (lambda x: (x, x + 1), lambda x: (x + 1, x)),
]


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_programs_that_differ_have_different_fingerprints(number: int) -> None:
    first, second = DIFFERENT[number]
    closed = [dce(veery.make_jaxpr(f)(X)) for f in (first, second)]
    texts = [fingerprint(c) for c in closed]
    assert None not in texts and texts[0] != texts[1]


def test_equal_fingerprints_mean_equal_modules() -> None:
    """Over all samples of the structural primitives: the module is a function of the fingerprint."""
    modules: dict[str, str] = {}
    written = 0
    for row in ROWS:
        with veery.enable_x64(True):
            closed = dce(veery.make_jaxpr(row.fun)(*row.cast(row.dtypes[0])))
        text = fingerprint(closed)
        if text is None:
            continue
        written += 1
        module = re.sub(r'module @\w+|@\w+|"\w+"', "", lower(closed).as_text())
        assert modules.setdefault(text, module) == module, row.primitive
    assert written > 0.9 * len(ROWS)


def test_target_donation_and_options_enter_the_key() -> None:
    closed = veery.make_jaxpr(lambda x: x + 1)(X)
    keys = {
        links.key(closed, "cpu", (False,), Options()),
        links.key(closed, "cpu", (True,), Options()),
        links.key(closed, "vulkan", (False,), Options()),
        links.key(closed, "cpu", (False,), Options(flags=("--iree-opt-level=O1",))),
    }
    assert len(keys) == 4 and None not in keys


def test_python_functions_and_replaced_rules_have_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = dce(veery.make_jaxpr(lambda x: jnp.tan(x))(X))
    assert fingerprint(closed) is not None
    monkeypatch.setattr(registry, "_replaced", {"tan"})
    assert fingerprint(closed) is None
    monkeypatch.undo()
    closed.jaxpr.eqns[-1].params["extra"] = print
    assert fingerprint(closed) is None


def test_a_second_process_loads_no_compiler(tmp_path: Path) -> None:
    script = (
        "import sys, veery, veery.numpy as jnp\n"
        "f = veery.jit(lambda x: veery.nn.relu(jnp.sin(x)))\n"
        "print(float(f(jnp.arange(5.0))[1]), 'iree.compiler' in sys.modules)"
    )
    environment = os.environ | {"VEERY_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = lambda: subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
    ).stdout.split()
    first, second = run(), run()
    assert first[1] == "True" and second[1] == "False" and first[0] == second[0]
    for link in tmp_path.glob("*/*.veery"):
        link.unlink()  # links that lead nowhere
    assert run() == first


def test_programs_that_call_numpy_are_found_again(tmp_path: Path) -> None:
    script = """if True:
        import sys, numpy as np, veery, veery.numpy as jnp
        from veery import lax
        a = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
        spd = a @ a.T + np.eye(4, dtype="float32")
        def program(a, spd):
            looped = lax.fori_loop(0, 3, lambda i, x: jnp.sort(x, axis=0) + jnp.linalg.inv(spd), a)
            both = jnp.linalg.eigh(spd)[0], jnp.linalg.cholesky(spd), jnp.linalg.cholesky(spd, upper=True)
            return looped, both, lax.top_k(a, 2), jnp.fft.fft(a, 3), veery.grad(lambda a: jnp.linalg.det(a) ** 2)(a)
        for x in veery.tree.leaves(veery.jit(program)(a, spd)):
            print(np.asarray(x).tobytes().hex())
        print("iree.compiler" in sys.modules)"""
    environment = os.environ | {"VEERY_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()
        for _ in range(2)
    )
    assert len(first) == 9 and second == [*first[:-1], "False"] != first


def test_a_program_is_found_as_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that the runtime goes by: steps that it knows nothing of it has threads wait for, however small."""
    monkeypatch.setenv("VEERY_CACHE_DIR", str(tmp_path))
    heat = lambda x: lax.fori_loop(0, 20, lambda _, x: jnp.fft.ifft(jnp.fft.fft(x)).real, x)
    for function, steps in ((heat, True), (jnp.sin, False)):
        closed = dce(veery.make_jaxpr(function)(X))
        made, found = (veery_lowering.compile(closed, options=Options(queue="threaded")) for _ in range(2))
        assert found is not made and found == made
        assert ("largest_step" in found.metadata) is steps


def test_calls_of_other_functions_have_no_description() -> None:
    closed = dce(veery.make_jaxpr(jnp.linalg.eigvals)(np.eye(3, dtype=np.float32)))
    (call,) = lower(closed).compile().host_calls
    (description,) = host.described((call,), closed) or ()
    again = host.restored(json.loads(json.dumps([description])), closed)
    assert again == (call,)
    assert host.described((call, dataclasses.replace(call, function=print)), closed) is None
    without = dce(veery.make_jaxpr(jnp.sin)(np.float32(1)))
    assert host.restored([description], without) is None and host.described((call,), without) is None
    assert host.described((), closed) == [] and host.restored([], closed) == ()
