"""Eager programs that NumPy evaluates: the same bits as compiled, and compiled where they must be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled import assert_close, results
from support.table_calls import Call, elementwise_calls, special, structural_calls

import veery
import veery.numpy as jnp
import veery_lowering
from veery import _eager, lax
from veery._eager import HostProgram, host_program
from veery._eager.libraries import library_program

R = np.random.default_rng(7)
DTYPES = ("int32", "uint8", "float32", "float64", "complex64")


def program_of(fun: Callable[..., Any], operands: tuple[np.ndarray, ...]) -> HostProgram | None:
    return host_program(veery.make_jaxpr(fun)(*operands))


def equal_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether elements have the same bits, or are NaN both: which of two NaNs goes on is nobody's promise."""
    if a.dtype.kind == "c":
        return equal_bits(a.real, b.real) & equal_bits(a.imag, b.imag)
    bits = f"u{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return same if a.dtype.kind in "biu" else same | (a != a) & (b != b)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", DTYPES)
def test_the_bits_are_those_of_the_compiled_program(name: str) -> None:
    calls = [call for call in elementwise_calls(name) + structural_calls(name) if program_of(*call[1:])]
    assert len(calls) > 15
    wrong = []
    for (title, fun, operands), compiled in zip(calls, results([call[1:] for call in calls]), strict=True):
        if isinstance(compiled, Exception):
            raise compiled
        (out,) = program_of(fun, operands)(list(operands))
        out = np.asarray(out)
        if (out.dtype, out.shape) != (compiled.dtype, compiled.shape):
            wrong.append(f"{title}: {out.dtype}{out.shape}, compiled {compiled.dtype}{compiled.shape}")
            continue
        for i in np.argwhere(~equal_bits(out, compiled))[:3]:
            at = [x[tuple(i)] if x.shape == out.shape else ... for x in operands]
            wrong.append(f"{title} of {at}: {out[tuple(i)]}, compiled {compiled[tuple(i)]}")
    assert not wrong, "\n".join(wrong)


def special_pairs() -> list[np.ndarray]:
    return [x.ravel() for x in np.meshgrid(*[special(np.dtype("float32"))] * 2)]


def test_fused_programs_have_the_bits_of_the_compiled_ones() -> None:
    """Several operations, of which the compiler makes one loop."""
    x, y = special_pairs()
    rows = np.stack([x, y], axis=1)
    key = np.array([1, 2], np.uint32)
    exact: list[Call] = [
        ("quotients", lambda x, y: (x / 3 - y) / jnp.sqrt(jnp.abs(y) + 2), (x, y)),
        ("products", lambda x, y: x * y * 0.1 * x, (x, y)),
        ("extremes of rows", lambda r: r.max(1), (rows,)),
        ("least of rows", lambda r: r.min(1), (rows,)),
        ("largest of all", lambda r: jnp.maximum(r[:, 0].max(), r[:30, 1].max()), (rows,)),
        ("clip", lambda x, y: jnp.clip(x, -0.0, y), (x, y)),
        ("where", lambda x, y: jnp.where(x > y, -x, jnp.floor(y)), (x, y)),
        ("powers", lambda x: x**2 * x**3, (x,)),
        ("indices", lambda x, i: jnp.take(x, i, mode="fill"), (x, np.array([[0, -1, 5], [7, 9000, -9000]]))),
        ("writes", lambda x, i: x.at[i, 0].set(jnp.arange(4.0)), (rows, np.array([3, 3, 2, 9000]))),
        ("counts", lambda i: jnp.bincount(i, length=5), (np.array([3, 3, 2, 1]),)),
        ("uniform", lambda k: veery.random.uniform(veery.random.wrap_key_data(k), (50,)), (key,)),
        ("bits", lambda k: veery.random.randint(k, (50,), -5, 1000), (key,)),
        ("sorted", lambda x: jnp.sort(x), (x,)),
        ("order", lambda x: jnp.argsort(jnp.floor(x)), (x,)),
    ]
    programs = [program_of(fun, operands) for _, fun, operands in exact]
    for (title, _, operands), program, compiled in zip(exact, programs, results([call[1:] for call in exact])):
        assert program is not None, title
        out = np.asarray(program(list(operands))[0])
        assert out.dtype == compiled.dtype and equal_bits(out, compiled).all(), f"{title}: {out}, compiled {compiled}"


def test_small_matrices_are_those_of_numpy_in_double_precision_or_lapacks_in_single() -> None:
    operands = R.normal(size=(5, 5)).astype(np.float32), R.normal(size=(5, 2)).astype(np.float32)
    for fun, wanted in (
        (jnp.linalg.solve, np.linalg.solve(*operands)),
        (lambda x, y: jnp.linalg.eigvalsh(x), np.linalg.eigvalsh((operands[0] + operands[0].T) / 2)),
    ):
        program = program_of(fun, operands)
        assert program is not None
        (compiled,) = results([(fun, operands)])
        for found in (compiled, program(list(operands))[0]):
            np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_windows_at_one_index_and_quotients_by_known_numbers_are_those_of_the_general_ways() -> None:
    x = R.normal(size=(6, 4)).astype(np.float32)
    n = np.array([-9, -8, -1, 0, 1, 7, 8, 2**31 - 1, -(2**31)], np.int32)
    for at in (-9, -6, -1, 0, 3, 5, 6, 2**31 - 1):
        for mode in ("fill", "clip", "promise_in_bounds"):
            if mode != "promise_in_bounds" or -6 <= at < 6:
                fun = lambda x, i, mode=mode: x.at[i, 1:].get(mode=mode)
                (taken,) = program_of(fun, (x, np.int32(at)))([x, np.asarray(at, np.int32)])  # type: ignore[misc]
                wanted = x[min(max(at + 6 * (at < 0), 0), 5), 1:]
                outside = mode == "fill" and not -6 <= at < 6
                np.testing.assert_array_equal(taken, np.full(3, np.nan) if outside else wanted)
    for divisor in (1, 3, -3, -(2**31), 2**31 - 1):
        (quotients,) = program_of(lambda n, d=divisor: lax.div(n, jnp.int32(d)), (n,))([n])  # type: ignore[misc]
        assert quotients.tolist() == [
            int(abs(a) // abs(divisor)) * (1 if (a < 0) == (divisor < 0) else -1) for a in n.tolist()
        ]


def test_floats_become_integers_within_the_limits() -> None:
    """Where all are far from the limits, and where one is not."""
    numbers = [0.0, 0.5, -0.5, 63.9, -64.5, 127.5, -128.5, 1e9, -1.5e9, 2.0**31, -(2.0**31), 1e20, np.nan]
    for name in ("int8", "int16", "int32", "uint8", "uint32"):
        info = np.iinfo(name)
        for value in (*numbers, numbers, numbers[:4]):
            x = np.asarray(value, np.float32)
            (found,) = program_of(lambda x, name=name: lax.convert_element_type(x, name), (x,))([x])  # type: ignore[misc]
            wanted = [0 if v != v else int(min(max(v, info.min), info.max)) for v in np.atleast_1d(x).tolist()]
            assert found.dtype == name and found.shape == x.shape
            assert np.atleast_1d(found).tolist() == wanted, (name, value)


LEFT_TO_THE_COMPILER = {
    "sum of a product": lambda x, y: x * y + x,
    "difference from a product that was moved": lambda x, y: y[::-1] - (-(x * y)).reshape(-1, 1)[:, 0],
    "sum of floats": lambda x, y: x.sum(),
    "transcendental": lambda x, y: jnp.exp(x),
    "multiplication by one": lambda x, y: x * lax.full_like(x, 1),
    "float16": lambda x, y: x.astype(jnp.float16) * 2,
    "too much": lambda x, y: x[:40_000, None] + y,
    "effect": lambda x, y: veery.debug.print("{}", x) or x,
}


@pytest.mark.parametrize("title", LEFT_TO_THE_COMPILER)
def test_left_to_the_compiler(title: str) -> None:
    assert program_of(LEFT_TO_THE_COMPILER[title], tuple(special_pairs())) is None


def compilations() -> int:
    info = veery_lowering.cache_info()
    return info.hits + info.misses


def test_nothing_is_compiled_and_types_are_those_of_compiled_programs() -> None:
    def script() -> list[Any]:
        x = jnp.arange(6)
        y = jnp.asarray(2.5)
        placed = veery.device_put(jnp.ones(3), veery.devices()[0])
        keys = veery.random.split(veery.random.key(3), 2)
        return [
            x + 1, x * 2.0, y * 2, x[1:3], x[jnp.array([0, -1])], x.reshape(2, 3).T, placed / 2, x.at[2].set(7), keys,
            jnp.stack([y, y]), jnp.where(x > 2, x, -1.5), x.max(), x.argmin(), (x > 3).sum(),
            jnp.linalg.inv(jnp.eye(2)), veery.random.uniform(keys[0], (3,)), jnp.concatenate([x, x]),
            jnp.zeros((0, 2)) + 1,
        ]  # fmt: skip

    before = compilations()
    outs = script()
    assert compilations() == before
    veery.config.update("veery_host_evaluation", False)
    compiled = script()
    assert compilations() > before
    for out, expected in zip(outs, compiled, strict=True):
        assert (out.aval, out.committed, out.device) == (expected.aval, expected.committed, expected.device)
        assert repr(out) == repr(expected)
        assert not np.asarray(out.to_numpy()).flags.writeable


def test_the_functions_of_users_are_compiled() -> None:
    before = compilations()
    veery.jit(lambda x: x + 41)(jnp.ones(3))
    assert compilations() == before + 1


def test_an_argument_that_is_being_computed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.ones(37)
    monkeypatch.setattr(type(x._buffer), "numpy_if_ready", lambda buffer: None)
    before = compilations()
    assert (x - 2.0).tolist() == [-1.0] * 37 and compilations() == before + 1


def test_what_is_called_for_long_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_eager, "MOST_SECONDS", 0.002)
    x, before = jnp.arange(77.0), compilations()
    assert (x - 3)[0].item() == -3.0 and compilations() == before
    end = time.monotonic() + 60
    while compilations() == before and time.monotonic() < end:
        out = x - 3
    assert compilations() == before + 1 and out.tolist() == list(range(-3, 74))


def test_deleted_and_donated_arguments() -> None:
    x = jnp.ones(5)
    x + 1  # the host has seen its memory
    assert veery.jit(lambda x: x * 3, donate_argnums=0)(x).tolist() == [3.0] * 5
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_settings_hold() -> None:
    x = jnp.zeros(4)
    with veery.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        x / x
    veery.config.update("jax_no_execution", True)
    with pytest.raises(RuntimeError, match="no_execution"):
        x * 3
    veery.config.update("jax_no_execution", False)
    veery.config.update("jax_disable_jit", True)
    assert (x + 2).tolist() == [2.0] * 4


def test_threads_share_programs_and_keep_their_own_floating_point_modes() -> None:
    x = jnp.full(16, 2.0**-130)
    failures = []

    def work() -> None:
        for _ in range(200):
            if (x * 2.0).to_numpy().any() or not (np.float32(2.0**-130) * np.ones(16, np.float32)).all():
                failures.append("subnormal numbers")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_a_user_had_compiled_is_run_by_one_program() -> None:
    """Called directly, or as an equation of another function that is evaluated: the same program, and not NumPy."""
    double = veery.jit(lambda x: x * 2 + 1)
    x = jnp.arange(3.0)
    direct = double(x)
    outer = veery.make_jaxpr(lambda x: double(x))(x)
    (through,) = veery.core.eval_jaxpr(outer.jaxpr, outer.consts, x)
    np.testing.assert_array_equal(direct, through)
    derived = outer.eqns[0].params["jaxpr"].derived
    assert len(derived.executables) == 1 and not derived.on_host


def test_functions_of_the_library_are_evaluated_wherever_they_are_reached() -> None:
    x = jnp.arange(3.0)
    outer = veery.make_jaxpr(lambda x: jnp.clip(x, 0, 1))(x)
    (equation,) = outer.eqns
    veery.core.eval_jaxpr(outer.jaxpr, outer.consts, x)
    derived = equation.params["jaxpr"].derived
    assert derived.on_host and not derived.executables


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", DTYPES)
def test_operations_beside_a_sort(name: str) -> None:
    """What may stand in such programs gives what compiled programs give, to rounding, in all its samples."""
    calls = elementwise_calls(name) + structural_calls(name)
    if name == "complex64":  # squares of large ones overflow in another order
        calls = [call for call in calls if not call[0].startswith("special")]
    chosen, evaluated = [], []
    for title, fun, operands in calls:
        both = lambda *xs, fun=fun: (fun(*xs), jnp.sort(jnp.arange(40_000) % 7))
        program = library_program(veery.make_jaxpr(both)(*operands), {})
        if program is not None:
            chosen.append((title, fun, operands))
            evaluated.append(program([np.asarray(x) for x in operands])[0])
    assert len(chosen) > 30
    for (title, _, operands), out, compiled in zip(
        chosen, evaluated, results([call[1:] for call in chosen]), strict=True
    ):
        if isinstance(compiled, Exception):
            continue
        if title.startswith("special"):  # of subnormal numbers compiled programs flush some
            info = np.finfo(operands[0].dtype)
            plain = np.logical_and.reduce([~((x != 0) & (np.abs(x) < info.tiny)) for x in operands])
            out, compiled = out[plain], compiled[plain]
        try:
            assert_close(out, compiled, 100)
        except AssertionError as error:
            raise AssertionError(f"{title}: {error}") from None
