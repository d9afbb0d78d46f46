"""Operators, methods and properties of arrays, concrete and traced."""

from __future__ import annotations

import copy
import io
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
import veery.numpy as jnp
from veery import nn
from veery.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_operators_with_numpy_on_either_side():
    x = jnp.array(X)
    for other in (2, 2.0, np.full(3, 2.0, np.float32)):
        for out, expected in [(x + other, X + 2), (other + x, 2 + X), (x * other, X * 2), (other - x, 2 - X)]:
            assert isinstance(out, veery.Array)
            np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x > 2, X > 2)
    np.testing.assert_array_equal(~(x > 2) | (x < 1), ~(X > 2) | (X < 1))
    assert (x == None) is False  # noqa: E711
    assert round(jnp.array(1.567), 2) == jnp.round(jnp.array(1.567), 2)


@pytest.mark.compiler
def test_properties_and_methods():
    x = jnp.array(X)
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize) == ((2, 3), 2, 6, 24, 4)
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.reshape(3, 2).shape == x.reshape((3, -1)).shape == x.transpose().shape == x.transpose(1, 0).shape == (3, 2)
    assert x.flatten().shape == x.ravel().shape == (6,)
    assert (x.sum().item(), x.max(0).tolist(), x.argmin(), x.any().item()) == (15, [3, 4, 5], 0, True)
    assert x.astype(int).dtype == np.int32 and x.real.dtype == np.float32
    assert x.view("int32").dtype == np.int32 and x.view("int16").shape == (2, 6)
    assert [row.tolist() for row in x] == X.tolist() and len(x) == 2 and 3.0 in x[1]
    with pytest.raises(NotImplementedError, match="arr.flat"):
        x.flat  # noqa: B018
    with pytest.raises(TypeError, match="unhashable type"):
        hash(x)
    assert x.__array_namespace__() is jnp
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), X)
    np.testing.assert_array_equal(copy.deepcopy(x), X)


def test_methods_of_the_class():
    """Libraries make methods of their own of those, as Penzai does."""
    x = jnp.asarray(X)
    assert veery.Array.sum(x) == X.sum() and veery.Array.item(x[0, 1]) == 1.0 and veery.Array.T.fget(x).shape == (3, 2)
    np.testing.assert_array_equal(veery.Array.__lt__(x, 2), X < 2)
    assert veery.Array.shape.fget(x) == (2, 3) and veery.Array.sharding.fget(x) == x.sharding
    assert veery.jit(lambda x: veery.Array.max(x))(X) == 5
    assert {"sum", "item", "shape", "at", "__add__"} <= {*dir(veery.Array)}
    for name in ("_buffer", "nonsense", "__jax_array__"):
        with pytest.raises(AttributeError, match=f"'Array' has no attribute '{name}'"):
            getattr(veery.Array, name)


def test_printing():
    assert repr(jnp.arange(3.0)) == "Array([0., 1., 2.], dtype=float32)"
    assert repr(jnp.array(1.0)) == "Array(1., dtype=float32, weak_type=True)"
    assert repr(jnp.zeros((0, 3), int)) == "Array([], shape=(0, 3), dtype=int32)"
    assert repr(jnp.zeros(0)) == "Array([], shape=(0,), dtype=float32)"
    assert str(jnp.arange(3)) == "[0 1 2]" and f"{jnp.array(1.5):.2f}" == "1.50"


@pytest.mark.parametrize("decimals", [1.5, "a", None])
def test_numbers_of_decimals_are_whole(decimals):
    assert jnp.round(jnp.array(1.25), np.int64(1)) == np.float32(1.2)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        jnp.round(jnp.array(1.25), decimals)


def test_formats_are_those_of_numpy():
    assert (
        f"{jnp.float32(1.5):.3e} {jnp.int32(7):03d} {jnp.arange(3)} {jnp.array(True)!s:>5}"
        == "1.500e+00 007 [0 1 2]  True"
    )
    assert f"{veery.random.key(0)}" == str(veery.random.key(0))
    for spec in ("d", ".2f", ">20"):
        with pytest.raises(TypeError, match="unsupported format string"):
            format(jnp.arange(3), spec)


def test_tracers_have_the_same_methods():
    def fun(x):
        return x.T, x.sum(0), x.reshape(-1)[1:], x.at[0].add(1.0), -x, abs(x), x**2, 1 / (x + 1), x.astype("int8")

    for out, expected in zip(interpreted(fun, X), fun_of_numpy()):
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    seen = []

    def inspect(x):
        seen.append((len(x), [row.shape for row in x], x.nbytes, isinstance(x, jnp.ndarray)))
        return x

    veery.make_jaxpr(inspect)(X)
    assert seen == [(2, [(3,), (3,)], 24, True)]


def fun_of_numpy():
    added = X.copy()
    added[0] += 1
    return (X.T, X.sum(0), X.reshape(-1)[1:], added, -X, abs(X), X**2, 1 / (X + 1), X.astype("int8"))


NEEDS_VALUE = [
    (lambda x: float(x), ConcretizationTypeError, "The problem arose with the `float` function"),
    (lambda x: int(x), ConcretizationTypeError, "The problem arose with the `int` function"),
    (lambda x: 1 if x else 2, TracerBoolConversionError, "Attempted boolean conversion of traced array"),
    (lambda x: [1, 2][x.astype(int)], TracerIntegerConversionError, r"The __index__\(\) method was called"),
    (lambda x: np.asarray(x), TracerArrayConversionError, r"conversion method __array__\(\) was called"),
    (lambda x: x.item(), ConcretizationTypeError, r"item\(\) method"),
    (lambda x: x.tolist(), ConcretizationTypeError, r"tolist\(\) method"),
    (lambda x: f"{x:.2f}", TypeError, "unsupported format string passed to"),
    (lambda x: hash(x), TypeError, "unhashable type"),
    (lambda x: list(x), TypeError, "iteration over a 0-d array"),
    (lambda x: len(x), TypeError, r"len\(\) of unsized object"),
]


@pytest.mark.parametrize("fun, error, message", NEEDS_VALUE)
def test_traced_values_are_not_known(fun, error, message):
    with pytest.raises(error, match=message):
        veery.jit(fun)(1.0)


def test_errors_name_the_users_line():
    def decide(x):
        return 1 if x > 0 else 2

    with pytest.raises(TracerBoolConversionError, match=rf"{__file__}:\d+.*decide"):
        veery.jit(decide)(1.0)


def test_values_are_known_under_eager_derivatives():
    value, grad = veery.value_and_grad(lambda x: x * 2 if x > 0 else x)(3.0)
    assert (float(value), float(grad)) == (6.0, 2.0)


@pytest.mark.parametrize("fun", [np.sin, np.asarray, math.sin, float, complex, lambda x: x.tolist()])
def test_values_whose_derivatives_would_be_lost_are_refused(fun):
    for transformed in (lambda: veery.jvp(fun, (1.0,), (1.0,)), lambda: veery.grad(fun)(1.0)):
        with pytest.raises(ConcretizationTypeError if fun not in (np.sin, np.asarray) else TracerArrayConversionError):
            transformed()


def test_fill_values_have_no_derivatives():
    with pytest.raises(TracerArrayConversionError):
        veery.grad(lambda fill: jnp.take(X[0], 9, mode="fill", fill_value=fill))(1.0)
    assert float(jnp.take(X[0], 9, mode="fill", fill_value=jnp.float32(7))) == 7.0


@pytest.mark.compiler
def test_transformations_of_indexing_and_reductions():
    x = jnp.array(X)
    np.testing.assert_array_equal(veery.grad(lambda x: (x[0] * x[1]).sum())(x), X[::-1])
    np.testing.assert_array_equal(veery.grad(lambda x: x.at[0].set(0.0).sum())(x), [[0] * 3, [1] * 3])
    np.testing.assert_array_equal(veery.grad(lambda x: jnp.where(x > 2, x, 0).sum())(x), (X > 2).astype(np.float32))
    picked = veery.vmap(lambda row, i: row[i])(x, jnp.array([2, 0]))
    np.testing.assert_array_equal(picked, [2, 3])
    set_ = veery.vmap(lambda row, i: row.at[i].set(-1.0))(x, jnp.array([2, 0]))
    np.testing.assert_array_equal(set_, [[0, 1, -1], [-1, 4, 5]])
    assert float(veery.grad(veery.grad(jnp.sinc))(0.0)) == pytest.approx(-(np.pi**2) / 3, rel=1e-5)
    assert float(veery.grad(lambda v: v**3)(2.0)) == 12.0
    assert [float(g) for g in veery.grad(jnp.logaddexp, (0, 1))(np.inf, 1.0)] == [1.0, 0.0]


def test_memory_is_shared_through_dlpack():
    x = jnp.array(X)
    theirs = np.from_dlpack(x)
    np.testing.assert_array_equal(theirs, X)
    assert np.shares_memory(theirs, np.asarray(x))
    assert not np.shares_memory(np.from_dlpack(x, copy=True), np.asarray(x))
    room = np.zeros(64, np.float32)
    first = next(i for i in range(16) if room[i:].ctypes.data % 64 == 0)
    aligned = room[first : first + 32]
    assert np.shares_memory(np.asarray(jnp.from_dlpack(aligned)), aligned)
    assert not np.shares_memory(np.asarray(jnp.from_dlpack(aligned, copy=True)), aligned)


BUFFERS = [X, X > 2, X.astype(np.int8), X.astype(np.complex64), np.zeros((0, 3), np.float32), np.float32(3)]


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("value", BUFFERS, ids=lambda x: f"{x.dtype}{list(x.shape)}")
def test_buffer_protocol(value, is_read):
    x = jnp.array(value)
    if is_read:
        np.asarray(x)
    view = memoryview(x)
    assert view.readonly and view.shape == value.shape and bytes(x) == value.tobytes()
    assert np.shares_memory(np.asarray(view), x.to_numpy()) or not x.size
    owned, elements = sys.getrefcount(x), sys.getrefcount(x.to_numpy())
    for _ in range(100):
        memoryview(x), np.asarray(x)
    assert (sys.getrefcount(x), sys.getrefcount(x.to_numpy())) == (owned, elements)
    del x
    assert view.tobytes() == value.tobytes()
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(bytes(64)).readinto(jnp.array(value))


def test_what_has_no_buffer_is_refused_and_still_read():
    brain, key, deleted = jnp.ones(2, jnp.bfloat16), veery.random.key(0), jnp.array(X)
    deleted.delete()
    read = jnp.array(X)
    np.asarray(read)
    read.delete()
    for x in (brain, key, deleted, read):
        with pytest.raises((SystemError, TypeError, ValueError, RuntimeError)):
            memoryview(x)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(read)
    assert np.asarray(brain).dtype == jnp.bfloat16
    with pytest.raises(TypeError, match="PRNGKey dtype"):
        np.asarray(key)
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(deleted)


def test_interrupts_of_a_wait_for_a_buffer_are_not_lost(monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    x = jnp.array(X)
    monkeypatch.setattr(type(x._buffer), "numpy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        np.asarray(x)


def test_checkpoint_takes_static_arguments_by_name():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert float(veery.grad(lambda x: veery.checkpoint(power, static_argnames="n")(x, n=3))(2.0)) == 12.0


@pytest.mark.compiler
def test_integers_of_4_bits_wrap():
    x = jnp.arange(4) + 5
    doubled = veery.jit(lambda y: (y.astype(jnp.int4) + y.astype(jnp.int4)).astype(jnp.int32))(x)
    assert doubled.tolist() == [-6, -4, -2, 0]


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, jnp.array, jnp.copy, lambda x: x.copy(), lambda x: x.astype(x.dtype, copy=True)],
    ids=["copy.copy", "copy.deepcopy", "array", "copy", "method", "astype"],
)
def test_copies_have_memory_of_their_own(copied):
    """Also under transformations; one of them may then be donated or deleted."""
    x = jnp.array(X)
    under = [lambda x: veery.jvp(copied, (x,), (x,))[0], lambda x: veery.vjp(copied, x)[0], veery.vmap(copied)]
    for fun in (copied, *under):
        out = fun(x)
        assert out.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
        out.delete()
    np.testing.assert_array_equal(x, X)
    assert str(veery.make_jaxpr(copied)(x)).count("copy") == 1


def test_elements_are_looked_for():
    x = jnp.arange(3)
    assert 2 in x and 3 not in x and np.int32(1) in x
    for wrong in (None, "2"):
        with pytest.raises(TypeError, match=r"Array.__contains__: unsupported operand type"):
            wrong in x  # noqa: B015
    with pytest.raises(ValueError, match="query value must be a scalar, got query.shape="):
        x in x  # noqa: B015
    with pytest.raises(ValueError, match="search array must be one-dimensional, got arr.shape="):
        1 in jnp.array(X)  # noqa: B015
    with pytest.raises(TracerBoolConversionError):
        veery.jit(lambda x: 1 in x)(x)


def test_array_says_what_it_cannot_take():
    x = jnp.arange(3)
    with pytest.raises(TypeError, match=r"array\(\) got multiple values for argument 'copy'"):
        jnp.array(x, None, True, copy=False)
    with pytest.raises(TypeError, match=r"array\(\) takes at most 5 positional arguments"):
        jnp.array(x, None, True, "K", 0, 1)
    with pytest.raises(OverflowError, match="Python int too large to convert to int32: -9223372036854775809"):
        jnp.array([0, -(2**63) - 1])
    with pytest.raises(ValueError, match="Passing an array as a dtype argument is no longer supported"):
        jnp.zeros(3, x)
    with pytest.raises(ValueError, match="Cannot broadcast to shape with fewer dimensions"):
        jnp.broadcast_to(x, ())
    with pytest.raises(ValueError, match="could not understand directive 'up'"):
        jnp.r_["up", x]
    np.testing.assert_array_equal(jnp.array(np.ma.array([1, 2], mask=[True, False])), [1, 2])


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.array], ids=lambda kind: kind.__name__)
def test_axes_may_be_integers_of_numpy(kind: Any) -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    calls: list[Callable[[Any], Any]] = [
        lambda i: x.transpose(i(1), i(0)),
        lambda i: x[0].transpose(i(0)),
        lambda i: jnp.moveaxis(x, i(0), i(1)),
        lambda i: jnp.gradient(x, axis=i(1)),
        lambda i: jnp.fft.fftshift(x, i(0)),
        lambda i: jnp.fft.ifftshift(x, (i(0), i(1))),
        lambda i: jnp.apply_over_axes(jnp.sum, x, i(1)),
        lambda i: nn.initializers.he_normal(in_axis=i(0), out_axis=i(1))(veery.random.key(0), (2, 3)),
    ]
    for call in calls:
        np.testing.assert_array_equal(call(kind), call(int))


def test_diagonals_may_be_far_away() -> None:
    for k in (-(2**40), 2**40, 2**70):
        triangle = np.full((2, 3), k > 0)
        for make in (jnp.eye, veery.jit(jnp.eye, static_argnums=(0, 1, 2))):
            np.testing.assert_array_equal(make(2, 3, k), np.zeros((2, 3)))
        np.testing.assert_array_equal(jnp.tri(2, 3, k), triangle)


def test_words_are_seen_as_bools() -> None:
    assert jnp.arange(2, dtype=jnp.int32).view(bool).tolist() == [False] * 4 + [True] + [False] * 3


@pytest.mark.compiler
@pytest.mark.parametrize("kinds", [("complex64", "float64"), ("float64", "complex64"), ("complex64", "int64")])
def test_views_of_single_numbers_of_equal_width(kinds, x64):
    old, new = kinds
    x = np.array(1.5 + 2j if old == "complex64" else 1.5, old)
    for view in (lambda x: x.view(new), veery.jit(lambda x: x.view(new))):
        assert np.asarray(view(jnp.asarray(x))).tobytes() == x.view(new).tobytes()
    with pytest.raises(ValueError, match="itemsize is unchanged"):
        jnp.ones((), np.complex64).view(np.float32)
