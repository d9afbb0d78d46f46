"""Python functions that XLA's programs call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import lax
from veery.experimental import io_callback

F3 = veery.ShapeDtypeStruct((3,), np.float32)


def test_pure_functions_run_under_all_transformations(on_xla: Any) -> None:
    twice = lambda x: veery.pure_callback(lambda x: 2 * np.asarray(x), F3, x, vmap_method="sequential")
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(veery.jit(twice)(x), [0, 2, 4])
    np.testing.assert_array_equal(veery.jit(veery.vmap(twice))(jnp.ones((2, 3))), np.full((2, 3), 2))
    looped = veery.jit(lambda x: lax.fori_loop(0, 4, lambda _, x: twice(x), x))
    np.testing.assert_array_equal(looped(x), [0, 16, 32])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64", "float16", "uint32"])
def test_values_of_each_dtype_arrive(on_xla: Any, dtype: str) -> None:
    x = (np.arange(6).reshape(2, 3) % 2).astype(jnp.dtype(dtype))
    seen = []

    def note(x: Any, empty: Any) -> Any:
        seen.append((x.dtype, x.shape, empty.shape))
        return np.asarray(x).T

    out = veery.ShapeDtypeStruct((3, 2), x.dtype)
    result = veery.jit(lambda x, e: veery.pure_callback(note, out, x, e))(x, np.zeros((0, 4), np.float32))
    np.testing.assert_array_equal(np.asarray(result), x.T)
    assert seen == [(x.dtype, (2, 3), (0, 4))]


def test_effects_happen_in_the_order_of_the_program(on_xla: Any) -> None:
    seen: list[int] = []

    @veery.jit
    def program(x: Any) -> Any:
        for i in range(10):
            io_callback(lambda x, i=i: seen.append(i), None, x, ordered=True)
        return x * 2

    for _ in range(20):
        seen.clear()
        program(jnp.ones(2))
        veery.effects_barrier()
        assert seen == list(range(10))


def test_effects_happen_in_order_in_loops_branches_and_calls(on_xla: Any) -> None:
    seen: list[tuple[str, int]] = []
    note = lambda what: lambda n: seen.append((what, int(n)))

    @veery.jit
    def inner(n: Any) -> Any:
        io_callback(note("inner"), None, n, ordered=True)
        return n + 1

    @veery.jit
    def program(n: Any) -> Any:
        io_callback(note("start"), None, n, ordered=True)

        def trip(i: Any, n: Any) -> Any:
            io_callback(note("trip"), None, i, ordered=True)
            n = inner(n)
            return lax.cond(i % 2 == 0, lambda n: (io_callback(note("even"), None, n, ordered=True), n)[1], inner, n)

        n = lax.fori_loop(0, 3, trip, n)
        io_callback(note("end"), None, n, ordered=True)
        return n

    expected = [
        ("start", 0), ("trip", 0), ("inner", 0), ("even", 1), ("trip", 1), ("inner", 1), ("inner", 2), ("trip", 2),
        ("inner", 3), ("even", 4), ("end", 4),
    ]  # fmt: skip
    for _ in range(5):
        seen.clear()
        assert int(program(0)) == 4
        veery.effects_barrier()
        assert seen == expected


def test_prints(on_xla: Any, capfd: Any) -> None:
    @veery.jit
    def program(x: Any) -> Any:
        veery.debug.print("x = {}", x)
        return x + 1

    program(jnp.arange(2))
    veery.effects_barrier()
    assert capfd.readouterr().out == "x = [0 1]\n"


FREED_EARLY = """
import gc, threading
import numpy as np, veery, veery.numpy as jnp

veery.config.update("jax_platforms", "xla")
returned = threading.Event()

def twice(x):
    assert returned.wait(60)
    return 2 * np.asarray(x)

# a program that XLA does not run in the caller's thread
shape = veery.ShapeDtypeStruct((3,), np.float32)
function = veery.jit(lambda x: veery.pure_callback(twice, shape, (x @ x)[0, :3]))
doubled = function(jnp.eye(300))
result = veery.jit(lambda y: y + 1)(doubled)
del function, doubled
veery.clear_caches()
gc.collect()
returned.set()
print(result)
"""


def test_functions_of_programs_that_nobody_has_are_there_until_they_ran() -> None:
    for _ in range(2):  # the second finds the code on disk, and nobody who still writes it there
        done = subprocess.run([sys.executable, "-c", FREED_EARLY], capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == ("[3. 1. 1.]\n", "")


def test_exceptions_surface_at_the_call_or_where_the_result_is_read(on_xla: Any) -> None:
    def fail(x: Any) -> Any:
        raise ValueError("not this one")

    for use in (np.asarray, lambda y: np.asarray(y * 2)):
        with pytest.raises(ValueError, match="not this one"):
            use(veery.jit(lambda x: veery.pure_callback(fail, F3, x) + 1)(jnp.arange(3.0)))
    with pytest.raises(ValueError, match="not this one"):
        veery.jit(lambda x: io_callback(fail, None, x))(jnp.arange(3.0))
        veery.effects_barrier()


def test_wrong_results_are_refused(on_xla: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Incorrect output shape for return value #0: Expected: \(3,\)"):
        np.asarray(veery.jit(lambda x: veery.pure_callback(lambda x: x[:2], F3, x))(jnp.arange(3.0)))


def test_a_function_may_compute_with_arrays(on_xla: Any) -> None:
    def compute(x: Any) -> Any:
        return np.asarray(jnp.asarray(x) * 2 + 1)

    np.testing.assert_array_equal(veery.jit(lambda x: veery.pure_callback(compute, F3, x))(jnp.arange(3.0)), [1, 3, 5])


@pytest.mark.parametrize("place", ["beside", "there"])
def test_programs_that_functions_call_do_not_wait_for_the_one_that_waits(xla: Any, place: str) -> None:
    """XLA runs `outer` on a thread of its own, and whatever else its client is given after that."""
    options = {"compiler": "xla"} if place == "beside" else {"backend": "xla"}
    inner = veery.jit(lambda x: 2 * x + 1, **options)
    rows = jnp.ones((300, 300))

    def compute(x: Any) -> Any:
        for _ in range(40):  # more than XLA takes before the first is done
            found = inner(np.asarray(x))
        return np.asarray(found)

    outer = veery.jit(lambda x, rows: veery.pure_callback(compute, F3, x) + (rows @ rows)[0, 0], **options)
    x = np.arange(3, dtype=np.float32)
    if place == "beside":
        np.testing.assert_array_equal(outer(x, rows), [301, 303, 305])
    else:
        with pytest.raises(RuntimeError, match="is called by a Python function that a program on .* waits for"):
            np.asarray(outer(x, rows))
