"""The reference evaluation: every primitive is covered, values equal NumPy's, wrong values are told from right ones."""

from __future__ import annotations

import functools
import importlib
import math
import pkgutil
from typing import Any

import numpy as np
import pytest
import scipy.special
from primitives.table_elementwise import ROWS as ELEMENTWISE, dtype_of, samples
from primitives.table_structural import ROWS as STRUCTURAL
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
from veery import _reference, lax
from veery._core import dtypes
from veery._core.primitive import all_primitives
from veery._reference.interpreter import rules

NOT_EVALUATED = {
    **dict.fromkeys(("new_ref", "get", "swap", "addupdate", "freeze"),
                    "programs that run have values in the place of references"),
    "call_hi_primitive": "programs that run have the operations that it stands for",
    "call_hi_primitive_linearized": "as call_hi_primitive",
    **dict.fromkeys(("psum", "pmax", "pmin", "all_gather", "reduce_scatter", "all_to_all", "ppermute", "axis_index"),
                    "vmap and pmap resolve it"),
    "call_module": "a compiled module has no jaxpr: it is run by itself",
    "custom_lin": "only there while a function is differentiated",
    "dim_as_value": "of symbolic shapes, which programs that run do not have",
    "exchange": "between the programs of several devices",
    "psum_invariant": "shard_map resolves it",
    "all_gather_invariant": "shard_map resolves it",
    "shard_map": "run on several devices, or as the operations that it is made of",
}  # fmt: skip


def test_every_primitive_has_a_reference() -> None:
    for module in pkgutil.walk_packages(veery.__path__, "veery."):
        if not module.name.endswith(("__main__", "as_jax")):  # which stands in JAX's place from then on
            importlib.import_module(module.name)
    ours = [p for p in all_primitives if (getattr(p.abstract_eval, "__module__", "") or "").startswith("veery.")]
    assert len(ours) > 150
    covered = {p.name for p in ours if p.name in rules or p.reference is not None}
    missing = {p.name for p in ours} - covered - NOT_EVALUATED.keys()
    assert not missing, f"no reference for {sorted(missing)}"
    assert NOT_EVALUATED.keys() - covered >= NOT_EVALUATED.keys() - {"custom_lin"}, "an exception that is none"


DTYPES = ["float32", "float16", "bfloat16", "float64", "complex64", "int32", "uint8", "bool"]


def rows(name: str) -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    structural = [(r.primitive, r.fun, r.cast(name)) for r in STRUCTURAL if name in r.dtypes]
    elementwise = [
        (r.primitive.name, functools.partial(r.primitive.bind, **p), samples(r, dtype_of(name)))
        for r in ELEMENTWISE
        if name in r.dtypes
        for p in r.params
    ]
    return structural + elementwise


def other(x: np.ndarray) -> np.ndarray:
    """A wrong result: of the other sign, or one off."""
    if x.dtype.kind == "b":
        return ~x
    return (x + np.ones((), x.dtype)).astype(x.dtype) if x.dtype.kind in "iu" else -x


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", DTYPES)
def test_tables(name: str) -> None:
    """What each operation gives in its own dtype is within the bounds; anything else is not."""
    for primitive, fun, operands in rows(name):
        closed = veery.make_jaxpr(fun)(*operands)
        with numpy_evaluation():
            outs = fun(*operands)
        outs = [np.asarray(x) for x in (outs if isinstance(outs, list | tuple) else [outs])]
        found = _reference.compare(closed, operands, outs)
        assert found.ok, (primitive, [str(f) for f in found.failures])
        assert found.undetermined < 0.1, primitive
        if any(np.any(x != 0) for x in outs):
            assert not _reference.compare(closed, operands, [other(x) for x in outs]).ok, primitive


def values(fun: Any, *args: Any) -> list[np.ndarray]:
    return _reference.evaluate(veery.make_jaxpr(fun)(*args), *args)


X = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
WIDE = X.astype(np.float64)


def newton(x: float) -> float:
    while abs(x * x - 2) > 1e-3:
        x = (x + 2 / x) / 2
    return x


EXPECTED: dict[str, tuple[Any, Any]] = {
    "nothing is rounded": (lambda x: x / 3 * 3 - x, WIDE / 3 * 3 - WIDE),
    "erf": (lax.erf, scipy.special.erf(WIDE)),
    "lgamma": (lax.lgamma, scipy.special.gammaln(WIDE)),
    "logsumexp": (lambda x: veery.nn.logsumexp(x, axis=1), scipy.special.logsumexp(WIDE, axis=1)),
    "product": (lambda x: x.T @ x, WIDE.T @ WIDE),
    "scan": (lambda x: lax.scan(lambda c, a: (c * 0.5 + a, c), x[0] * 0, x)[0],
             sum(WIDE[i] * 0.5 ** (6 - i) for i in range(7))),
    "while": (lambda x: lax.while_loop(lambda s: jnp.abs(s**2 - 2) > 1e-3, lambda s: (s + 2 / s) / 2, x[0, 0] * 0 + 3),
              newton(3.0)),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), np.sin(WIDE) if X[0, 0] > 0 else np.cos(WIDE)),
    "map": (lambda x: lax.map(lambda r: r.sum(), x), WIDE.sum(1)),
    "jit": (lambda x: veery.jit(jnp.square)(x), WIDE**2),
    "checkpoint": (lambda x: veery.checkpoint(jnp.cos)(x), np.cos(WIDE)),
    "custom_jvp": (lambda x: veery.nn.relu(x), np.maximum(WIDE, 0)),
    "psum": (lambda x: veery.vmap(lambda r: r / lax.psum(r, "i"), axis_name="i")(x), WIDE / WIDE.sum(0)),
    "reduce": (lambda x: lax.reduce(x, np.float32(1), lambda a, b: a * 2 + b, (0,)),
               2**7 + sum(WIDE[i] * 2 ** (6 - i) for i in range(7))),
    "reduce_window": (lambda x: lax.reduce_window(x, np.float32(0), lambda a, b: a + 2 * b, (2, 1), (1, 1), "VALID"),
                      2 * (WIDE[1:] + WIDE[:-1])),
    "callback": (lambda x: veery.pure_callback(lambda v: np.asarray(v) * 2, veery.typeof(x), x), WIDE * 2),
    "solve": (lambda x: jnp.linalg.solve(x[:5], x[5]), np.linalg.solve(WIDE[:5], WIDE[5])),
    "fft": (jnp.fft.fft, np.fft.fft(WIDE)),
    "conversion": (lambda x: (x * 100).astype(np.int8), np.clip(np.trunc(WIDE * 100), -128, 127).astype(np.int8)),
    "bits": (lambda x: lax.bitcast_convert_type(x, np.int32), X.view(np.int32)),
    "narrow and back": (lambda x: x.astype(jnp.bfloat16).astype(jnp.float32) - x,
                        X.astype(jnp.bfloat16).astype(np.float64) - WIDE),
    "dot of masks": (lambda x: (x > 0).astype(np.float32) @ x.T, (WIDE > 0) @ WIDE.T),
    "out of range": (lambda x: jnp.exp(x * 0 + 100) + x, np.full(X.shape, np.inf)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_values_equal_numpy(name: str) -> None:
    fun, expected = EXPECTED[name]
    (actual,) = values(fun, X)
    wide = np.asarray(expected).dtype.kind in "fc"
    assert actual.dtype == (np.result_type(expected, np.float64) if wide else np.asarray(expected).dtype)
    if wide:
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)
    else:
        np.testing.assert_array_equal(actual, expected)


def test_random_bits_are_exact() -> None:
    key = veery.random.key(7)
    fun = lambda k: veery.random.bits(k, (50,))
    (bits,) = values(fun, key)
    np.testing.assert_array_equal(bits, fun(key))


def test_io_callbacks_cannot_be_evaluated() -> None:
    from veery.experimental import io_callback

    called = []
    fun = lambda x: io_callback(lambda v: called.append(1) or v, veery.ShapeDtypeStruct((), np.float32), x)
    with pytest.raises(_reference.Unverifiable, match="once for each execution"):
        values(fun, np.float32(1))
    assert not called


def compare(fun: Any, out: Any, *args: Any) -> _reference.Comparison:
    return _reference.compare(veery.make_jaxpr(fun)(*args), args, [np.asarray(out)])


def test_bounds_follow_the_conditioning() -> None:
    n = np.arange(10)
    hilbert = (1 / (n[:, None] + n + 1)).astype(np.float32)
    b = np.ones(10, np.float32)
    solved = compare(jnp.linalg.solve, np.linalg.solve(hilbert, b), hilbert, b)
    assert solved.ok and solved.undetermined > 0.5
    good = np.eye(10, dtype=np.float32) * 2
    assert compare(jnp.linalg.solve, b / 2, good, b).undetermined == 0
    assert not compare(jnp.linalg.solve, b / 2 * (1 + 1e-4), good, b).ok


def test_bounds_of_erf_inv_are_those_of_its_logarithm() -> None:
    """From single precision on it takes log(1 - x²), of which x² is rounded: near 1 that is more than the result is."""
    x = np.float32([0.5, 0.99988])
    exact = scipy.special.erfinv(x.astype(np.float64))
    assert compare(lax.erf_inv, np.float32(exact * [1, 1 + 5e-6]), x).ok
    assert not compare(lax.erf_inv, np.float32(exact * [1 + 5e-6, 1]), x).ok


def test_cancellation_widens_the_bound() -> None:
    fun = lambda x: (x + 1e4) - 1e4
    in_float32 = (X + np.float32(1e4)) - np.float32(1e4)
    assert compare(fun, in_float32, X).ok
    assert not compare(lambda x: x * 1, in_float32, X).ok


def test_zeros_of_transforms_are_rounded() -> None:
    """Equal numbers have a transform of zeros but for the first, of which a product with a matrix leaves a little."""
    x = np.ones(5, np.complex64)
    assert compare(jnp.fft.fft, np.complex64([5, 2e-7j, -1e-7, 0, 1e-7 - 1e-7j]), x).ok
    assert not compare(jnp.fft.fft, np.complex64([5, 0, 1e-5, 0, 0]), x).ok
    assert not compare(jnp.fft.fft, np.complex64([0, 1e-7, 0, 0, 0]), x * 0).ok


def test_uses_of_narrow_values_are_rounded_each_for_itself() -> None:
    """What is stored is rounded to 16 bits, what is computed on at once may keep its digits."""
    v = np.array([-1.1, 2.3, 0.7], dtypes.bfloat16)
    fun = lambda v: (w := v / v.dtype.type(1.414)) - w.max()
    wide = v.astype(np.float32) / np.float32(dtypes.bfloat16(1.414))
    stored = wide.astype(dtypes.bfloat16)
    apart = (wide - stored.max().astype(np.float32)).astype(dtypes.bfloat16)
    assert apart[1] != 0
    for out in (apart, stored - stored.max()):
        found = compare(fun, out, v)
        assert found.ok and found.undetermined == 0
    assert not compare(fun, apart + dtypes.bfloat16(0.2), v).ok
    assert not compare(lambda v: (w := v / v.dtype.type(1.414)) - w, apart * 0 + apart[1], v).ok  # one use
    assert not compare(lambda v: v - v.max(), apart * 0 + apart[1], v).ok  # without digits to lose
    single = v.astype(np.float32)
    assert not compare(fun, single / np.float32(1.414) - stored.max().astype(np.float32), single).ok


def test_bounds_of_few_digits_are_wider_before_nothing_is_known() -> None:
    """A handful of operations in bfloat16 has errors that are lost digits in float32."""
    x = np.array([[0.367, -1.02, 1.68], [-0.859, -0.695, -1.19], [-1.52, 0.531, 2], [-1.84, -0.203, -1.35]])
    fun = lambda x: functools.reduce(lambda a, b: a + b + a * b, list(x))
    for seed in range(20):
        args = (x.astype(dtypes.bfloat16),)
        closed = veery.make_jaxpr(fun)(*args)
        out = np.asarray(_reference.evaluate(closed, *args)[0], dtypes.bfloat16)
        found = _reference.compare(closed, args, [out], seed)
        assert found.ok and found.undetermined == 0
        assert not _reference.compare(closed, args, [-out], seed).ok


def test_jumps_that_rounding_reaches_are_not_compared() -> None:
    fun = lambda x: x / 3 * 3 == x
    in_float32 = X / np.float32(3) * np.float32(3) == X
    found = compare(fun, in_float32, X)
    assert found.ok and found.undetermined > 0
    certain = compare(lambda x: x > 0.1, X <= 0.1, X)
    assert not certain.ok and certain.undetermined == 0
    order = compare(lambda x: jnp.argsort(x / 3 * 0 + jnp.sin(x), 0), np.argsort(np.sin(WIDE), 0).astype(np.int32), X)
    assert order.ok and order.undetermined == 0
    alike = compare(lambda x: (x / 3 * 3 == x) == (x > 0.1), in_float32 == (X > 0.1), X)
    assert alike.ok and alike.undetermined == found.undetermined


def test_signs_of_what_is_not_a_number_are_open() -> None:
    x = np.array([-2, 9, 4], np.float32)
    bits = lambda x: lax.bitcast_convert_type(jnp.sqrt(x), jnp.uint32)
    three, two = np.float32([3, 2]).view(np.uint32)
    for nan in (0x7FC00000, 0xFFC00000):
        assert compare(bits, np.array([nan, three, two], np.uint32), x).ok
    assert not compare(bits, np.array([0x7FC00000, three ^ 1 << 31, two], np.uint32), x).ok
    many = np.full(40, -1, np.float32)
    for nan in (0x7FC00000, 0xFFC00000):
        assert compare(lambda x: bits(x).max(), np.uint32(nan), many).ok


def test_orders_of_almost_equal_numbers_are_open() -> None:
    x = np.array([0.1, 0.1, 5.0], np.float32)
    y = np.array([0.3, 0.3, 0.2], np.float32)
    fun = lambda x, y: jnp.argsort(jnp.stack([x[0] * y[0], (x[1] + y[1]) * 0.075, x[2] * y[2]]))
    assert compare(fun, np.int32([1, 0, 2]), x, y).ok
    assert compare(fun, np.int32([0, 1, 2]), x, y).ok
    assert not compare(fun, np.int32([0, 2, 1]), x, y).ok


def test_directions_of_eigenvectors_are_open_but_not_what_they_compose() -> None:
    s = (X.T @ X).astype(np.float32)
    w, v = np.linalg.eigh(s)
    closed = veery.make_jaxpr(lambda s: list(jnp.linalg.eigh(s)))(s)
    assert _reference.compare(closed, [s], [w, -v]).ok
    assert not _reference.compare(closed, [s], [-w, v]).ok

    def again(s: Any) -> Any:
        w, v = jnp.linalg.eigh(s)
        return (v * w) @ v.T

    found = compare(again, s, s)
    assert found.ok and found.undetermined == 0
    assert not compare(again, s * 1.01, s).ok


def test_samples_may_take_different_branches() -> None:
    """The difference is zero, or a little less or more, by rounding."""
    branch = lambda x: lax.cond(x / 3 * 3 - x >= 0, lambda x: x, lambda x: -x, x)
    loop = lambda x: lax.while_loop(lambda s: s[0] / 3 * 3 - s[0] < 0, lambda s: (s[0] + 1, s[1] + 1), (x, 0))[1]
    x = np.float32(0.7)
    assert compare(branch, x, x).ok and compare(branch, -x, x).ok
    assert compare(loop, np.int32(0), x).ok


def test_sums_of_many_like_terms() -> None:
    x = np.full(100_000, 0.1, np.float32)
    total = np.add.accumulate(x)[-1]  # one after the other
    assert abs(total - 10_000) > 1
    assert compare(jnp.sum, total, x).ok
    assert not compare(jnp.sum, np.float32(-total), x).ok


@pytest.mark.parametrize("out, reason", [(np.zeros(3, np.float32), "float32[3]"), (np.zeros((7, 5)), "float64[7, 5]")])
def test_types_are_compared(out: np.ndarray, reason: str) -> None:
    (failure,) = compare(lambda x: x + 1, out, X).failures
    assert reason in str(failure) and math.prod(X.shape) == failure.size
