"""Functions of veery.numpy against NumPy: a table of calls, traced and evaluated in NumPy, and compiled together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.interpreted import interpreted

import veery
import veery.numpy as jnp
from veery import grad, jit, lax, vmap

Call = Callable[[Any, Any], Any]  # (module, arrays) -> arrays

RNG = np.random.default_rng(0)
F = RNG.normal(size=(3, 4)).astype(np.float32)
G = RNG.normal(size=(4,)).astype(np.float32)
P = np.abs(F) + 0.1
I = RNG.integers(-5, 6, (3, 4)).astype(np.int32)
J = RNG.integers(1, 5, (4,)).astype(np.int32)
U = RNG.integers(0, 255, (3, 4)).astype(np.uint8)
B = RNG.random((3, 4)) > 0.5
C = (F + 1j * F[::-1]).astype(np.complex64)
N = np.where(B, np.nan, F).astype(np.float32)
E0 = np.zeros((0, 3), np.float32)
S = np.array([-np.inf, -1.5, -0.0, 0.0, 0.5, 2.5, np.inf, np.nan], np.float32)

UNARY: dict[str, list[np.ndarray]] = {
    **dict.fromkeys("sin cos tan arctan sinh cosh tanh arcsinh exp exp2 expm1 square negative".split(), [F, I, C, E0]),
    **dict.fromkeys("log log2 log10 log1p sqrt cbrt".split(), [P, J]),
    **dict.fromkeys("arcsin arccos arctanh".split(), [np.tanh(F)]),
    "arccosh": [P + 1],
    "reciprocal": [P],
    **dict.fromkeys("floor ceil trunc rint sign fabs signbit isposinf isneginf".split(), [F, S]),
    **dict.fromkeys("isnan isinf isfinite".split(), [S, I, C]),
    **dict.fromkeys("absolute conjugate real imag angle positive".split(), [F, I, C]),
    **dict.fromkeys("logical_not iscomplex isreal".split(), [F, B, C, I]),
    **dict.fromkeys("invert bitwise_count".split(), [I, U]),
    **dict.fromkeys("deg2rad rad2deg sinc i0".split(), [F, I]),
    "frexp": [F, S[2:]],
    "nan_to_num": [S, I, C],
    "modf": [F],
    "spacing": [F],
}
BINARY: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {
    **dict.fromkeys("add subtract multiply maximum minimum".split(), [(F, G), (I, J), (U, U[:1]), (C, C[0])]),
    **dict.fromkeys("divide floor_divide remainder fmod".split(), [(F, G), (I, J), (F, J)]),
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), [(F, F[::-1]), (I, J), (S, S[0])]),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), [(B, B[::-1]), (I, F)]),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), [(I, J), (B, B[0])]),
    **dict.fromkeys("left_shift right_shift".split(), [(np.abs(I), J), (U, U[:1] % 7)]),
    **dict.fromkeys("fmax fmin".split(), [(N, F), (I, J)]),
    **dict.fromkeys("arctan2 hypot copysign nextafter logaddexp logaddexp2 heaviside".split(), [(F, G)]),
    **dict.fromkeys("gcd lcm".split(), [(I, J)]),
    "power": [(P, F), (np.abs(I), J), (P, J)],
    "float_power": [(P, F)],
    "ldexp": [
        (F, J),
        (np.array([0, -0.0, np.inf, -np.inf, np.nan, 1], np.float32), np.array([[-2000], [300]], np.int32)),
    ],
    "isclose": [(F, F + np.float32(1e-7)), (S, S)],
}
REDUCTIONS: dict[str, list[np.ndarray]] = {
    **dict.fromkeys("sum prod".split(), [F, I, C, E0]),
    **dict.fromkeys("max min ptp".split(), [F, I, U]),
    **dict.fromkeys("all any count_nonzero".split(), [F, I, B, E0]),
    **dict.fromkeys("nansum nanprod nanmax nanmin".split(), [np.where(B & (I > 0), np.nan, F).astype(np.float32), I]),
}

CALLS: dict[str, Call] = {
    "sum where": lambda np, a: np.sum(a[0], axis=1, where=a[3], initial=2.0),
    "max where": lambda np, a: np.max(a[0], axis=0, where=a[3], initial=-1.0),
    "all where": lambda np, a: np.all(a[1], axis=0, where=a[3]),
    "sum axes": lambda np, a: np.sum(a[0], axis=(0, -1), keepdims=True),
    "sum no axes": lambda np, a: np.sum(a[0], axis=()),
    "argmax": lambda np, a: (np.argmax(a[0]), np.argmax(a[1], axis=1), np.argmax(a[4], axis=1, keepdims=True)),
    "argmin": lambda np, a: (np.argmin(a[0]), np.argmin(a[1], axis=0), np.argmin(a[4])),
    "nanargmax": lambda np, a: (np.nanargmax(a[0]), np.nanargmin(a[1], axis=1)),
    "cumsum": lambda np, a: (np.cumsum(a[0]), np.cumsum(a[1], axis=1), np.nancumsum(a[4], axis=0)),
    "cumprod": lambda np, a: (np.cumprod(a[0], axis=0), np.nancumprod(a[4])),
    "cumulative_sum": lambda np, a: np.cumulative_sum(a[0], axis=1, include_initial=True),
    "where": lambda np, a: np.where(a[3], a[0], a[2]),
    "select": lambda np, a: np.select([a[0] > 1, a[3]], [a[0], 2 * a[0]], -1.0),
    "clip": lambda np, a: (np.clip(a[0], -0.5, 0.5), np.clip(a[1], None, 2), np.clip(a[0], a[2], None)),
    "round": lambda np, a: (np.round(a[0], 1), np.round(a[0], -1), np.round(a[1])),
    "divmod": lambda np, a: np.divmod(a[0], a[2]),
    "take": lambda np, a: (np.take(a[0], a[1] % 3, axis=0, mode="wrap"), np.take(a[0], a[1] % 12)),
    "take_along_axis": lambda np, a: np.take_along_axis(a[0], a[1] % 4, axis=1),
    "choose": lambda np, a: np.choose(a[1] % 3, [a[0], 2 * a[0], 3 * a[0]], mode="wrap"),
    "diag": lambda np, a: (np.diag(a[2]), np.diag(a[2], -1), np.diag(a[0], 1), np.diagonal(a[0], -1)),
    "tri": lambda np, a: (np.tril(a[0]), np.triu(a[0], 1), np.tril(a[0], -1), np.tri(3, 4, 1) + a[0]),
    "eye": lambda np, a: np.eye(3, 4, 1) + a[0],
    "vander": lambda np, a: np.vander(a[2], 3),
    "meshgrid": lambda np, a: tuple(np.meshgrid(a[2], a[2][:2])) + tuple(np.meshgrid(a[2], a[2], indexing="ij")),
    "linspace": lambda np, a: np.linspace(a[2], 2 * a[2], 5, axis=-1),
    "linspace half open": lambda np, a: np.linspace(a[0], 1.0, 4, endpoint=False),
    "unravel_index": lambda np, a: np.unravel_index(a[1] % 12, (3, 4)),
    "ravel_multi_index": lambda np, a: np.ravel_multi_index((a[1], a[1]), (3, 4), mode="wrap"),
    "powers": lambda np, a: (a[0] ** 2, a[0] ** 3, a[1] ** 2, a[0] ** -1, 2 ** (a[1] % 4)),
    "scalars": lambda np, a: (a[0] + 1, 2 * a[0], 1 - a[1], a[1] % 3, a[1] // 2, 1.5 / a[0], 7 // (a[1] * a[1] + 1)),
    "methods": lambda np, a: (a[0].sum(0), a[0].max(), a[1].cumsum(), a[0].T, a[0].round(1), a[1].astype("float32")),
    "ufunc methods": lambda np, a: (np.add.reduce(a[0]), np.multiply.accumulate(a[1], 1)),
    "outer": lambda np, a: np.subtract.outer(a[2], a[2]),
    "diff": lambda np, a: (np.diff(a[0]), np.diff(a[0], 2, axis=0), np.diff(a[3]), np.diff(a[2], prepend=1.0)),
    "ediff1d": lambda np, a: np.ediff1d(a[0], to_end=np.float32(7)),
    "gradient": lambda np, a: tuple(np.gradient(a[0])) + (np.gradient(a[0], np.float32(2), axis=1),),
    "gradient at positions": lambda np, a: np.gradient(a[2], np.cumsum(np.abs(a[2]) + 1)),
    "trapezoid": lambda np, a: (np.trapezoid(a[0], axis=0), np.trapezoid(a[2], np.cumsum(np.abs(a[2])))),
    "unwrap": lambda np, a: (np.unwrap(a[0] * 5), np.unwrap(a[1], period=4, axis=0)),
    "packbits": lambda np, a: (np.packbits(a[3]), np.packbits(a[3], axis=1, bitorder="little")),
    "unpackbits": lambda np, a: np.unpackbits(np.packbits(a[3], axis=0), axis=0, count=3),
    "polynomials": lambda np, a: (np.polyval(a[2], a[0]), np.polyadd(a[2], a[2][:2]), np.polyder(a[2])),
    "products of polynomials": lambda np, a: (np.polymul(a[2], a[2][:2]), np.poly(a[2]), np.polyint(a[2])),
    "division of polynomials": lambda np, a: np.polydiv(a[2], a[2][:2])[0],
    "extract": lambda np, a: np.where(a[3].any(), a[0], a[0] + 1),
}
ARGUMENTS = (F, I, G, B, N)


def check(actual: Any, expected: Any, name: str, rtol: float = 1e-5) -> None:
    actual, expected = (x if isinstance(x, tuple) else (x,) for x in (actual, expected))
    assert len(actual) == len(expected), name
    for a, e in zip(actual, expected):
        a, e = np.asarray(a), np.asarray(e)
        assert a.shape == e.shape, name
        np.testing.assert_allclose(a, e.astype(a.dtype), rtol=rtol, atol=1e-6, err_msg=name)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def reference(name: str, *args: np.ndarray) -> Any:
    fun = getattr(np, name, None) or {"positive": np.positive}[name]
    return fun(*args)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for x in UNARY[name]:
        wide = x.astype(np.float64) if x.dtype == np.float32 and name not in ("spacing", "frexp", "nan_to_num") else x
        check(interpreted(getattr(jnp, name), x), reference(name, wide), f"{name} of {x.dtype}")


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for x, y in BINARY[name]:
        check(interpreted(getattr(jnp, name), x, y), reference(name, x, y), f"{name} of {x.dtype}, {y.dtype}")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for x in REDUCTIONS[name]:
        for options in ({}, {"axis": 1}, {"axis": -1, "keepdims": True}):
            if x.size == 0 and options.get("axis") is None and name in ("max", "min"):
                continue
            out = interpreted(lambda x, o=options: getattr(jnp, name)(x, **o), x)
            check(out, getattr(np, name)(x, **options), f"{name} of {x.dtype} with {options}", rtol=1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    call = CALLS[name]
    check(interpreted(lambda *a: call(jnp, a), *ARGUMENTS), call(np, ARGUMENTS), name)


@pytest.mark.compiler
def test_everything_compiled_in_a_few_programs():
    cases = [(n, lambda *xs, n=n: getattr(jnp, n)(*xs), (x,)) for n, xs in UNARY.items() for x in xs[:1]]
    cases += [(n, lambda *xs, n=n: getattr(jnp, n)(*xs), pairs[0]) for n, pairs in BINARY.items()]
    cases += [(n, lambda x, n=n: getattr(jnp, n)(x, axis=1), (xs[0],)) for n, xs in REDUCTIONS.items()]
    for start in range(0, len(cases), 40):
        part = cases[start : start + 40]
        outs = jit(lambda args, part=part: [f(*xs) for (_, f, _), xs in zip(part, args)])([xs for *_, xs in part])
        for (name, fun, xs), out in zip(part, outs):
            check(out, interpreted(fun, *xs), name, rtol=2e-5)
    outs = jit(lambda *a: [call(jnp, a) for call in CALLS.values()])(*ARGUMENTS)
    for (name, call), out in zip(CALLS.items(), outs):
        check(out, call(np, ARGUMENTS), name)


@pytest.mark.compiler
def test_eager_samples():
    x, i, g, b, n = map(jnp.array, ARGUMENTS)
    check(x + 1.5, F + 1.5, "add")
    check(jnp.log2(x + 1j), np.log2(F + np.complex64(1j)), "log2 of complex numbers")
    check(x.sum(1), F.sum(1), "sum")
    check(jnp.where(b, x, 0.0), np.where(B, F, 0), "where")
    check(jnp.nonzero(b), np.nonzero(B), "nonzero")
    check(jnp.argwhere(b), np.argwhere(B), "argwhere")
    check(jnp.compress(b[:, 0], x, axis=0), np.compress(B[:, 0], F, axis=0), "compress")
    check(jnp.extract(b, x), np.extract(B, F), "extract")
    check(jnp.nonzero(b, size=3)[0], np.nonzero(B)[0][:3], "nonzero size")
    check(jit(lambda b: jnp.nonzero(b, size=20, fill_value=7))(b)[1][-1], 7, "nonzero padded")
    check(jnp.place(x, b, g, inplace=False), _placed(F, B, G), "place")
    check(jnp.put(x, jnp.array([0, 5]), -1.0, inplace=False).ravel()[5], -1.0, "put")
    check(jnp.fill_diagonal(x, 9.0, inplace=False)[1, 1], 9.0, "fill_diagonal")
    check(jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 2 * v]), np.where(F < 0, -F, 2 * F), "piecewise")
    for conditions in (np.array([False, True, False]), [False, True, False], jnp.array([False, True, False])):
        each = jnp.piecewise(x, conditions, [lambda v: -v, lambda v: 10 * v, 3.0])
        check(each, 10 * F, "piecewise over the whole range")
    with pytest.raises(ValueError, match="either 4 or 5 functions are expected; got 2"):
        jnp.piecewise(jnp.arange(4), jnp.arange(4) > 1, [1, 2])
    check(jnp.vectorize(lambda u, v: (u * v).sum(), signature="(n),(n)->()")(x, g), F @ G, "vectorize")
    check(jnp.apply_along_axis(lambda v: v - v.max(), 1, x), F - F.max(1, keepdims=True), "apply_along_axis")
    plus = lambda u, v: u + v
    check(jnp.frompyfunc(plus, 2, 1).reduce(x), F.sum(0), "frompyfunc")
    assert len({jnp.frompyfunc(plus, 2, 1), jnp.frompyfunc(plus, 2, 1), jnp.frompyfunc(plus, 2, 1, identity=0)}) == 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_rolled_by_traced_places(dtype: str, references: Any) -> None:
    """By several, of which those along one dimension add up; sizes are larger than narrow integers."""
    x = np.arange(300.0, dtype=np.float32).reshape(3, 100)
    rolled = lambda shift, axis: veery.jit(lambda x, s: jnp.roll(x, s, axis))(x, shift.astype(dtype))
    for shift, axis in (
        ([100, 100], None),
        ([5], None),
        ([1, 2], (0, 1)),
        ([2], (0, 1)),
        ([4, 2, 5], 1),
        ([3, 4], (1, 1)),
    ):
        expected = np.roll(x, shift, axis)
        check(rolled(np.array(shift), axis), expected, f"{shift} along {axis}")
        check(jnp.roll(x, np.array(shift, dtype), axis), expected, f"{shift} along {axis}, known")
    each = veery.vmap(lambda s: jnp.roll(jnp.arange(5), s))(np.array([[1, 2], [3, 3]], dtype))
    check(each, np.stack([np.roll(np.arange(5), 3), np.roll(np.arange(5), 6)]), "vmap")
    for shift, axis in (([1, 2, 3], (0, 1)), ([[1]], 0)):
        with pytest.raises(ValueError, match="must broadcast to one length"):
            rolled(np.array(shift), axis)


def test_more_digits_than_there_are_are_kept(references: Any) -> None:
    x = np.array([1.25, -123.75, 0.0, 30000.0, np.inf, np.nan], np.float32)
    for decimals in (10, 38, 39, 1000):
        check(jnp.round(x, decimals), x, f"{decimals} decimals")
        half = jnp.round(x.astype(np.float16), decimals)
        assert half.dtype == np.float16
        check(half, x.astype(np.float16), f"{decimals} decimals of halves")
    check(jnp.round(x[:4], -2), [0, -100, 0, 30000], "hundreds")


def test_nothing_is_unwrapped(references: Any) -> None:
    for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 3), 0), ((3, 0), 0)):
        assert jnp.unwrap(jnp.ones(shape), axis=axis).shape == shape
    for period in (4, 6.28):
        dtypes = [jnp.unwrap(np.ones(size, np.int32), period=period).dtype for size in (0, 1)]
        assert dtypes[0] == dtypes[1]


def test_products_of_polynomials_are_rounded_once(references: Any) -> None:
    a, b = (np.random.default_rng(i).normal(size=n).astype(np.float16) for i, n in enumerate((12, 9)))
    exact = np.polymul(a.astype(np.float64), b.astype(np.float64))
    check(jnp.polymul(a, b), exact.astype(np.float16), "polymul")
    for n, m in ((0, 4), (3, 0), (0, 0)):
        check(jnp.polymul(np.ones(n), np.ones(m)), np.polymul(np.ones(n), np.ones(m)), "polymul of nothing")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_positions_in_narrow_integers(dtype: str, references: Any) -> None:
    """There are more elements than such integers count."""
    x, i = np.arange(300.0, dtype=np.float32), np.array([5, 100, -3 if dtype[0] == "i" else 7], dtype)
    uses = [
        *(lambda i, m=m: jnp.take(x, i, mode=m) for m in ("wrap", "clip", "fill")),
        *(lambda i, m=m: jnp.put(x, i, 9.0, mode=m, inplace=False) for m in ("wrap", "clip", None)),
        lambda i: jnp.delete(x, i, assume_unique_indices=True),
        lambda i: lax.index_take(x, (i,), (0,)),
        lambda i: jnp.ravel_multi_index((i,), (300,), mode="clip"),
        lambda i: jnp.roll(x, i[0]) + jnp.roll(x, i[2]),
    ]
    for number, use in enumerate(uses):
        for wrap in (lambda f: f, veery.jit):
            check(wrap(use)(i), np.asarray(use(i.astype(np.int32))), f"use {number}")


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_put_where_positions_are_out_of_bounds(mode: str, references: Any) -> None:
    for places in ([-1], [7, -9], [0, -2, 4]):
        expected, values = np.arange(5.0, dtype=np.float32), np.arange(10.0, 10 + len(places))
        np.put(expected, places, values, mode=mode)
        for dtype in (np.int32, np.int8):
            x = np.arange(5.0, dtype=np.float32)
            check(jnp.put(x, np.array(places, dtype), values, mode=mode, inplace=False), expected, f"{places} {mode}")


def _placed(x: np.ndarray, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    out = x.copy()
    np.place(out, mask, values)
    return out


def test_ldexp_of_narrow_dtypes():
    x = np.array([0, -0.0, np.inf, -np.inf, 1, 2**-14], np.float16)
    for exponent in (-2000, -30, 0, 29, 200):
        check(jnp.ldexp(x, exponent), np.ldexp(x, np.int32(exponent)), f"ldexp by {exponent}")


def test_splits_by_a_known_float():
    pieces, _ = veery.jvp(lambda n: jnp.split(jnp.arange(4.0), n), (2.0,), (1.0,))
    assert [piece.tolist() for piece in pieces] == [[0, 1], [2, 3]]


def test_places_beyond_an_array_flattened_as_they_are():
    index = (jnp.array([5], jnp.int8), jnp.array([-1], jnp.int8))
    out = jnp.ravel_multi_index(index, (2, 3), mode="ignore")
    assert out.tolist() == [14] and out.dtype == np.int8


def test_dtypes_of_lists_of_tracers():
    assert jit(lambda x: jnp.iscomplexobj([x, x]))(1j) and jit(lambda x: jnp.isrealobj([x]))(1)


@pytest.mark.compiler
def test_creation():
    check(jnp.arange(2, 10, 3), np.arange(2, 10, 3), "arange")
    check(jnp.arange(0, 1, 0.1), np.arange(0, 1, 0.1), "arange")
    check(jnp.arange(5, 0, -2), np.arange(5, 0, -2), "arange")
    check(jnp.linspace(0, 1, 5), np.linspace(0, 1, 5), "linspace")
    for count, endpoint in ((0, False), (0, True), (1, True)):  # there is no distance
        assert jnp.linspace(0, jnp.ones((2, 2)), count, endpoint, retstep=True)[1].shape == ()
    check(jnp.logspace(0, 2, 5), np.logspace(0, 2, 5), "logspace")
    check(jnp.geomspace(1, 256, 9), np.geomspace(1, 256, 9), "geomspace")
    check(jnp.array([[1, 2], [3, 4.5]]), np.array([[1, 2], [3, 4.5]]), "array")
    check(jnp.array([jnp.ones(2), np.zeros(2)]), [[1, 1], [0, 0]], "array of arrays")
    check(jit(lambda x: jnp.array([x, [1.0, 2.0]]))(jnp.zeros(2)), [[0, 0], [1, 2]], "array of tracers")
    check(jnp.full((2, 2), 7), np.full((2, 2), 7), "full")
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        check(getattr(jnp, name)(7), getattr(np, name)(7), name)
    check(jnp.identity(3), np.identity(3), "identity")
    check(jnp.indices((2, 3)), np.indices((2, 3)), "indices")
    check(jnp.mgrid[0:2, 0:1:3j], np.mgrid[0:2, 0:1:3j], "mgrid")
    check(jnp.mgrid[()], np.zeros(0, np.int32), "mgrid of no axes")
    check(jnp.r_[1, 2, jnp.arange(2)], np.r_[1, 2, np.arange(2)], "r_")
    check(jnp.c_[jnp.arange(2), jnp.arange(2)], np.c_[np.arange(2), np.arange(2)], "c_")
    check(jnp.tril_indices(3), np.tril_indices(3), "tril_indices")
    check(jnp.fromfunction(lambda i, j: i * 10 + j, (2, 3)), np.fromfunction(lambda i, j: i * 10 + j, (2, 3)), "fromf")
    assert jnp.array([]).dtype == np.float32 and jnp.zeros((2, 0)).shape == (2, 0)


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.sin([1.0]), TypeError, "sin requires ndarray or scalar arguments, got <class 'list'> at position 0"),
    (lambda: jnp.add(1, None), TypeError, "add requires ndarray or scalar arguments, got <class 'NoneType'> at"),
    (lambda: jnp.ones(2) + jnp.ones(3), TypeError, r"add got incompatible shapes for broadcasting: \(2,\), \(3,\)"),
    (lambda: jnp.ones(2) + [1, 2], TypeError, r"unsupported operand type\(s\) for \+: 'ArrayImpl' and 'list'"),
    (lambda: jnp.ones(2) + "a", TypeError, "unsupported operand type"),
    (lambda: jnp.sum(jnp.ones(2), out=1), NotImplementedError, "The 'out' argument to jnp.sum is not supported"),
    (lambda: jnp.sum(jnp.ones(2), axis=3), ValueError, "axis 3 is out of bounds for array of dimension 1"),
    (lambda: jnp.sum(jnp.ones((2, 2)), axis=(0, 0)), ValueError, "duplicate value in 'axis'"),
    (lambda: jnp.max(jnp.ones(0)), ValueError, "zero-size array to reduction operation max which has no identity"),
    (lambda: jnp.max(jnp.ones(2), where=jnp.ones(2, bool)), ValueError, "does not have an identity"),
    (lambda: jnp.argmax(jnp.ones(0)), ValueError, "attempt to get argmax of an empty sequence"),
    (lambda: jnp.add(jnp.ones(2), 1, out=3), NotImplementedError, "out argument of <jnp.ufunc 'add'>"),
    (lambda: setattr(jnp.add, "nin", 3), AttributeError, "has no setter"),
    (lambda: jnp.array([[1, 2], [3]]), ValueError, "inhomogeneous shape"),
    (lambda: jnp.array("a"), TypeError, "is not a valid JAX array type"),
    (lambda: jnp.array(None), ValueError, "None is not a valid value for jnp.array"),
    (lambda: jnp.array([1], order="F"), NotImplementedError, "Only implemented for order='K'"),
    (lambda: jit(lambda n: jnp.zeros(n))(3), TypeError, "Shapes must be 1D sequences of concrete values"),
    (lambda: jit(lambda n: jnp.arange(n))(3), TypeError, "It arose in the jnp.arange argument 'stop'"),
    (lambda: jnp.split(jnp.zeros(4), 1.5), TypeError, "must be a concrete integer, got 1.5"),
    (lambda: jnp.ravel_multi_index((5,), (3,), mode="none"), ValueError, "invalid mode='none'"),
    (lambda: jit(lambda n: jnp.ogrid[n:3])(1), TypeError, "It arose in the slice start of jnp.ogrid"),
    (lambda: jit(lambda x: jnp.nonzero(x))(np.ones(3)), TypeError, "The size argument of jnp.nonzero must be"),
    (lambda: jnp.where(1, 2), TypeError, "where requires ndarray or scalar arguments, got <class 'NoneType'>"),
    (lambda: jnp.clip(jnp.ones(2, complex), 0), ValueError, "Clip received a complex value"),
    (lambda: jnp.power(2, -1), TypeError, "Integers cannot be raised to negative powers"),
    (lambda: jnp.ones(3) & 1, TypeError, "and does not accept dtype float32"),
    (lambda: -jnp.array(True), TypeError, "neg does not accept dtype bool"),
    (lambda: jnp.take(jnp.ones(3), 1, mode="raise"), NotImplementedError, "The 'raise' mode to jnp.take"),
    (lambda: jnp.put(jnp.ones(3), 0, 1), ValueError, "cannot modify arrays in-place"),
    (lambda: jnp.linspace(0, 1, -1), ValueError, "Number of samples, -1, must be non-negative"),
    (lambda: jnp.diag(jnp.ones((2, 2, 2))), ValueError, "diag input must be 1d or 2d"),
    (lambda: jnp.tril(jnp.ones(3)), ValueError, "must be at least 2D"),
    (lambda: jnp.fromiter([1]), NotImplementedError, "may be non-pure"),
    (lambda: jnp.choose(jnp.array([3]), [1, 2]), ValueError, "invalid entry in choice array"),
    (lambda: jnp.compress(jnp.ones(2, bool), jnp.ones(5), size=3), ValueError, "size=3 for a.shape.axis.=2"),
    (lambda: jnp.compress(jnp.ones(2, bool), jnp.ones(1)), ValueError, "entries that are out of bounds"),
]


@pytest.mark.parametrize("call, error, message", BAD)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.compiler
def test_einsum_multiplies_by_what_it_is_given():
    asked = []

    def product(x, y, dimension_numbers, precision=None, preferred_element_type=None):
        asked.append((x.shape, y.shape, dimension_numbers))
        return 2 * lax.dot_general(x, y, dimension_numbers, precision, preferred_element_type)

    x, y, z = (np.arange(n, dtype=np.float32).reshape(shape) for n, shape in ((6, (2, 3)), (12, (3, 4)), (4, (4,))))
    out = jnp.einsum("ij,jk,k->i", x, y, z, _dot_general=product)
    np.testing.assert_allclose(out, 4 * np.einsum("ij,jk,k->i", x, y, z))
    assert len(asked) == 2


@pytest.mark.parametrize(
    "subscripts", ["ijk,kl->ijl", "kl,ijk->ijl", "bqhd,bkhd->bhqk", "ij,jk->ik", "ji,jk->ik", "ij,kj->ki"]
)
def test_products_need_no_transpose(subscripts):
    inputs, _ = subscripts.split("->")
    operands = [np.ones([2 + "bhijklqd".index(c) for c in names], np.float32) for names in inputs.split(",")]
    jaxpr = veery.make_jaxpr(lambda *xs: jnp.einsum(subscripts, *xs))(*operands)
    assert "transpose" not in str(jaxpr)
    np.testing.assert_array_equal(veery.core.jaxpr_as_fun(jaxpr)(*operands)[0], np.einsum(subscripts, *operands))


@pytest.mark.compiler
def test_keys_are_close_where_they_are_equal():
    keys = veery.random.split(veery.random.key(0))
    assert jnp.isclose(keys, keys[0]).tolist() == [True, False]
    assert jnp.allclose(keys, keys) and not jnp.allclose(keys, keys[1])


def test_arrays_of_numpys_are_reshaped_as_numpys():
    """As in JAX; numpyro reads values of such constants while it is traced."""
    x, seen = np.arange(6.0), []

    def body(y):
        seen.append(jnp.reshape(x, (2, -1)))
        return y + seen[0] + jnp.ravel(seen[0]).sum()

    veery.make_jaxpr(body)(0.0)
    assert type(seen[0]) is np.ndarray and seen[0].dtype == np.float64
    np.testing.assert_array_equal(seen[0], x.reshape(2, 3))
    assert type(jnp.reshape(np.float32(1), (1,))) is np.ndarray
    np.testing.assert_array_equal(jnp.reshape(x, (2, 3), order="F"), x.reshape(2, 3, order="F"))
    for other in (jnp.reshape(1.0, (1,)), jnp.reshape(jnp.asarray(x), (2, 3)), jnp.ravel(x), jnp.roll(np.eye(2), 1)):
        assert isinstance(other, veery.Array)
    with pytest.raises(ValueError, match="cannot reshape array of size 6 into shape"):
        jnp.reshape(x, (4, 2))


@pytest.mark.compiler
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_mantissas_and_exponents_of_all_numbers(dtype):
    """Of subnormal ones too, eagerly and compiled."""
    kind = jnp.dtype(dtype)
    bits = RNG.integers(0, 2**63, 3000).astype(f"u{kind.itemsize}")
    x = np.concatenate([bits, np.arange(40).astype(bits.dtype), bits[:500] >> 12]).view(kind)
    x = x[np.isfinite(x)]
    mantissas, exponents = np.frexp(x.astype(np.float64))
    for frexp in (jnp.frexp, jit(jnp.frexp), jit(lambda x: jnp.frexp(x))):
        found = frexp(x)
        assert found[0].dtype == kind and found[1].dtype == np.int32
        np.testing.assert_array_equal(found[0].astype(float), mantissas)
        np.testing.assert_array_equal(found[1], exponents)


@pytest.mark.compiler
def test_products_with_python_numbers_under_transformations():
    x = jnp.arange(3)
    assert jit(lambda x: jnp.dot(x, 2.5))(x).tolist() == vmap(lambda x: jnp.dot(x, 2.5))(x).tolist() == [0, 2.5, 5]
    assert jit(lambda x: jnp.dot(x, 2.5))(x.astype("bfloat16")).dtype == jnp.bfloat16
    for product in (jnp.dot, jnp.inner):
        assert jit(lambda product=product: product(2, 3.0))().tolist() == 6
        assert jit(lambda product=product: product(2, 3.0))().weak_type
        assert grad(lambda x, product=product: product(x, 2.0))(1.0).tolist() == 2
        assert jit(grad(lambda x, product=product: product(2.0, x)))(1.0).tolist() == 2
    assert jit(lambda: jnp.outer(2, 3))().tolist() == [[6]]
    assert grad(lambda x: jnp.outer(x, 3.0).sum())(2.0).tolist() == 3


def test_masks_of_reductions_broadcast_with_the_array():
    mask = np.array([[True, False, True], [True, True, True]])
    assert jnp.sum(jnp.arange(3.0), where=mask).tolist() == [0, 1, 4]  # axes are those of the array
    assert jnp.sum(jnp.ones((2, 1)), axis=1, where=mask).tolist() == [2, 3]
    assert jnp.sum(jnp.ones((2, 1)), axis=1, where=mask, keepdims=True).tolist() == [[2], [3]]
    assert jnp.prod(jnp.full((2, 1), 3.0), axis=1, where=mask).tolist() == [9, 27]
    assert jnp.max(jnp.array([[4.0], [5.0]]), axis=0, where=mask, initial=-1).tolist() == [5, 5, 5]
    assert jnp.any(jnp.zeros((2, 1)), axis=1, where=mask).tolist() == [False, False]
    assert jnp.all(jnp.array([[0], [1]]), axis=0, where=~mask).tolist() == [True, False, True]
    assert jnp.nansum(jnp.array([[np.nan], [2.0]]), axis=1, where=mask).tolist() == [0, 6]
    with pytest.raises(ValueError, match="Incompatible shapes for broadcasting"):
        jnp.sum(jnp.ones((2, 2)), where=mask)


def test_complex_numbers_are_true_unless_both_their_parts_are_zero():
    values = [1j, 0j, 2 + 0j]
    for made in (jnp.array(values, bool), jnp.asarray(np.array(values), bool), jnp.array(values).astype(bool)):
        assert made.dtype == bool and made.tolist() == [True, False, True]
    assert jnp.bool_(1j).tolist() is True and jnp.full(2, 1j, bool).tolist() == [True, True]
    with pytest.raises(TypeError, match="cannot be made an array of float32"):
        jnp.array(values, "float32")


def test_joins_of_sequences_of_others():
    """Which have a length and elements, as the block arrays of scico."""

    class Blocks:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return [X, X + 1][i]

    X = np.arange(3.0, dtype="float32")
    np.testing.assert_array_equal(jnp.concatenate(Blocks()), np.concatenate([X, X + 1]))
    np.testing.assert_array_equal(jnp.stack(Blocks()), [X, X + 1])
    with pytest.raises(TypeError, match="concatenate requires a sequence of arrays, got <class 'generator'>"):
        jnp.concatenate(x for x in [X])
