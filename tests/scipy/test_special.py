"""Special functions against SciPy: values compiled in each dtype, and eagerly; derivatives; batches; refusals."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from special_table import ROWS, Row
from support.compiled import assert_close, results
from support.days import of_the_day
from support.interpreted import interpreted, interpreted_with_avals
from support.numpy_trace import numpy_evaluation
from support.rule_checks import check_backward, check_forward, check_second_order

import veery
import veery.numpy as jnp
from veery.scipy import special

DTYPES = {"float32": np.float32, "float64": np.float64}
# Their results have no samples that a row could hold: they are tested by themselves.
ELSEWHERE = {
    "bernoulli", "bessel_jn", "log_softmax", "logsumexp", "lpmn", "lpmn_values", "multigammaln", "polygamma", "softmax",
    "sph_harm_y", "wofz",
}  # fmt: skip
PRIMITIVES = {
    "betainc",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0e",
    "i1e",
    "loggamma",
}
GROUP = 11  # rows in a compilation: one of all takes much longer
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def expected(row: Row, operands: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """What SciPy gives in float64, rounded once."""
    outs = row.reference(*(x.astype(np.float64) for x in operands))
    return [np.asarray(out).astype(operands[0].dtype) for out in (outs if isinstance(outs, tuple) else (outs,))]


@functools.cache
def compiled(group: int, dtype: str) -> dict[str, Any]:
    """The results of some rows in a dtype, from one compilation."""
    rows = [
        row for row in ROWS[group * GROUP : (group + 1) * GROUP] if dtype == "float32" or row.name not in PRIMITIVES
    ]
    with veery.enable_x64(True):
        outs = results([(getattr(special, row.name), row.operands(DTYPES[dtype])) for row in rows])
    return dict(zip([row.name for row in rows], outs, strict=True))


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "row", [
        pytest.param(row, marks=pytest.mark.xdist_group(f"special-{i}"))
        for i in of_the_day(range(-(-len(ROWS) // GROUP)), 4) for row in ROWS[i * GROUP : (i + 1) * GROUP]
    ],
    ids=lambda row: row.name,
)  # fmt: skip
def test_values(row, dtype):
    if dtype == "float64" and row.name in PRIMITIVES:
        pytest.skip("compiled in tests/primitives")
    outs = compiled(ROWS.index(row) // GROUP, dtype)[row.name]
    if isinstance(outs, Exception):
        raise outs
    check(row, outs, row.operands(DTYPES[dtype]), row.ulps[dtype == "float64"])


def check(row: Row, outs: Any, operands: tuple[np.ndarray, ...], ulps: float) -> None:
    """Compare one result, or a tuple of them, with SciPy's."""
    for actual, wanted in zip(outs if isinstance(outs, tuple) else (outs,), expected(row, operands), strict=True):
        assert_close(actual, wanted, ulps, operands)


@pytest.mark.compiler
def test_incomplete_functions_of_large_arguments():
    """The logarithms of their densities are differences of large numbers."""
    random = np.random.default_rng(0)
    a, b, x = np.exp(random.uniform(np.log(0.1), np.log(100), (3, 1000))).astype(np.float32)
    u = random.uniform(0.001, 0.999, 1000).astype(np.float32)
    calls = (special.gammainc, (a, x), 4), (special.gammaincc, (a, x), 80), (special.betainc, (a, b, u), 60)
    for (fun, operands, ulps), out in zip(calls, results([(fun, operands) for fun, operands, _ in calls])):
        wanted = getattr(scipy.special, fun.__name__)(*(v.astype(np.float64) for v in operands))
        assert_close(out, wanted.astype(np.float32), ulps, operands)


@pytest.mark.compiler
def test_incomplete_gamma_functions_of_the_largest_arguments():
    """Products of denominators of the continued fraction would overflow."""
    x = np.array([1e10, 1e13, 1e18, 1e25, 3e38], np.float32)[:, None]
    a = np.array([0.03, 2, 1e3], np.float32)
    slope = lambda a, x: veery.jvp(lambda a: special.gammainc(a, x), (a,), (jnp.ones_like(a),))[1]
    lower, upper, by_a = results([(special.gammainc, (a, x)), (special.gammaincc, (a, x)), (slope, (a, x))])
    for out, wanted in ((lower, 1), (upper, 0), (by_a, 0)):
        np.testing.assert_array_equal(out, np.full((5, 3), wanted))


@by_name
def test_16_bits_are_computed_in_32(row):
    operands = row.operands(ml_dtypes.bfloat16)
    check(row, interpreted(getattr(special, row.name), *operands), operands, 1)


@by_name
def test_batches(row, x64):
    columns = [x[:6] for x in row.operands(np.float64)]
    fun = getattr(special, row.name)
    expected_of = interpreted(fun, *columns)
    mapped = interpreted(veery.vmap(lambda *xs: fun(*xs)), *columns)
    np.testing.assert_array_equal(mapped, expected_of)
    outer = interpreted(veery.vmap(fun, in_axes=(0, *[None] * (len(columns) - 1))), *columns)
    assert np.shape(outer)[-2:] == (6, 6) or len(columns) == 1


@by_name
def test_derivatives(row, x64):
    fun = getattr(special, row.name)
    samples = [np.asarray(x, np.float64).ravel() for x in row.samples]
    with numpy_evaluation():
        for part in parts(fun, samples):
            check_forward(part, samples, row.smooth, row.slack)
            check_backward(part, samples, row.smooth)
            twice = row.smooth if row.twice is None else row.twice
            check_second_order(part, [x[:6] for x in samples], twice, 10 * row.slack)


def parts(fun: Any, samples: list[np.ndarray]) -> list[Any]:
    """The function, or for each of its results the function that gives this one."""
    outs = fun(*samples)
    return [lambda *xs, i=i: fun(*xs)[i] for i in range(len(outs))] if isinstance(outs, tuple) else [fun]


def test_every_function_has_a_row():
    names = {name for name in dir(special) if not name.startswith("_")}
    assert names - {row.name for row in ROWS} == ELSEWHERE


def test_functions_of_indices_and_complex_numbers():
    x = np.array([0.3, 1.7, 4.0, 11.0, 30.0, 90.0])
    z = np.array([0.5 + 2j, -3.2 + 0.1j, -2.5, 7 - 30j, 1e-3j, 12.0])
    above = np.array([0.1 + 2j, 3 + 1e-3j, -4 - 0.5j, 1.0, 0.0, 30 + 30j])
    n, m = np.array([0, 1, 2, 3, 10, 3]), np.array([0, -1, 2, 0, -7, 5])
    theta, phi = np.linspace(0.1, 3, 6), np.linspace(-3, 3, 6)
    scipys = scipy.special
    cases = [
        (lambda x: special.bessel_jn(x - 4, v=9), (x,), scipys.jv(np.arange(10)[:, None], x - 4), 2000),
        (lambda x: special.polygamma(np.arange(6), x), (x,), scipys.polygamma(np.arange(6), x), 16),
        (lambda x: special.multigammaln(x, 3), (x + 1,), scipys.multigammaln(x + 1, 3), 4),
        (special.gamma, (z,), scipys.gamma(z), 300),
        (special.loggamma, (z,), scipys.loggamma(z), 60),
        (special.wofz, (above,), scipys.wofz(above), 200),
        (special.erfcx, (above,), scipys.erfcx(above), 200),
        (lambda *xs: special.sph_harm_y(n, m, *xs), (theta, phi), scipys.sph_harm_y(n, m, theta, phi), 100),
    ]
    with veery.enable_x64(True):
        for fun, operands, wanted, ulps in cases:
            out = interpreted(fun, *operands)
            assert_close(out, wanted, ulps, operands if operands[0].shape == out.shape else ())
    narrow = interpreted(special.loggamma, z.astype(np.complex64))
    assert_close(narrow, scipys.loggamma(z).astype(np.complex64), 60)


def test_bessel_functions_have_derivatives_and_limits(x64):
    x = np.array([-7.0, 0.0, 0.5, 3.0, 26.0, 100.0])
    with numpy_evaluation():
        check_forward(lambda x: special.bessel_jn(x, v=4), [x], [0])
        check_backward(lambda x: special.bessel_jn(x, v=4), [x], [0])
        check_forward(lambda z: special.loggamma(z), [np.array([0.5 + 2j, -3.2 + 0.1j])], [0])
        check_forward(lambda z: special.wofz(z), [np.array([0.5 + 2j, 3.2 - 0.1j])], [0])
        check_forward(lambda t: special.sph_harm_y(np.array([3, 4]), np.array([1, -2]), t, t), [x[2:4]], [0])
    limits = np.asarray(interpreted(lambda x: special.bessel_jn(x, v=1), np.array([0.0, np.inf, np.nan])))
    np.testing.assert_array_equal(limits, [[1, 0, np.nan], [0, 0, np.nan]])
    with pytest.raises(ValueError, match="greatest order, from 0 on; got -1"):
        special.bessel_jn(x, v=-1)


def test_bernoulli_numbers():
    for n in (0, 1, 2, 3, 7, 40):
        with veery.enable_x64(True):
            exact = scipy.special.bernoulli(max(n, 2))[: n + 1]
            np.testing.assert_allclose(special.bernoulli(n), exact, rtol=1e-11, atol=1e-18)
    assert special.bernoulli(3).dtype == np.float32


@pytest.mark.compiler
def test_loops_over_orders_compiled():
    x = np.array([-3.0, 0.0, 0.5, 3.0, 26.0, 100.0], np.float32)
    n, m = np.array([0, 1, 2, 3, 10, 3]), np.array([0, -1, 2, 0, -7, 5])
    calls = [(lambda x: special.bessel_jn(x, v=3), (x,)), (lambda *xs: special.sph_harm_y(n, m, *xs), (x, x))]
    orders, harmonics = results(calls)
    np.testing.assert_allclose(orders, scipy.special.jv(np.arange(4)[:, None], x.astype(np.float64)), atol=1e-6)
    np.testing.assert_allclose(harmonics, scipy.special.sph_harm_y(n, m, x, x.astype(np.float64)), atol=2e-6)


def test_hypergeometric_functions_have_derivatives(x64):
    cases = [
        (special.hyp1f1, scipy.special.hyp1f1, (0.7, 1.8, np.array([-3.0, 0.5, 2.0]))),
        (special.hyp2f1, scipy.special.hyp2f1, (0.7, 1.8, 3.1, np.array([-0.7, 0.5, 0.95]))),
    ]
    for fun, reference, given in cases:
        columns = [np.broadcast_to(np.asarray(x, np.float64), 3) for x in given]
        places = range(len(columns))
        total = lambda *xs, fun=fun: fun(*xs).sum()
        for i, slope in zip(places, interpreted(veery.grad(total, tuple(places)), *columns), strict=True):
            shifted = lambda h, i=i, reference=reference, columns=columns: reference(
                *(x + h * (i == j) for j, x in enumerate(columns))
            )
            np.testing.assert_allclose(slope, (shifted(1e-6) - shifted(-1e-6)) / 2e-6, rtol=3e-7, atol=1e-8)


@pytest.mark.compiler
def test_eager_calls_give_what_compiled_ones_give():
    x = np.array([-2.5, 0.3, 4.0, np.inf], np.float32)
    for fun in (special.gamma, special.erfcx, special.entr, special.sici):
        for eager, compiled_out in zip(np.atleast_2d(fun(x)), np.atleast_2d(veery.jit(fun)(x)), strict=True):
            np.testing.assert_array_equal(eager, compiled_out)


def test_gradients_are_finite_where_values_are():
    """At the points next to which formulas divide by zero."""
    points = {
        "xlogy": (0.0, 2.0), "entr": (1.0,), "rel_entr": (0.0, 1.0), "kl_div": (0.0, 1.0), "spence": (1.0,),
        "boxcox": (2.0, 0.0), "factorial": (0.0,),
        "i1": (0.0,), "sici": (1e-30,), "dawsn": (0.0,), "erfcx": (-3.0,), "comb": (5.0, 2.0),
        "owens_t": (0.0, 0.5), "log_ndtr": (-30.0,), "ndtri": (1e-30,), "beta": (10.0, 10.0), "gamma": (1.0,),
    }  # fmt: skip
    for name, operands in points.items():
        fun = getattr(special, name)
        part = (lambda *xs, fun=fun: fun(*xs)[0]) if name == "sici" else fun
        slopes = interpreted(veery.grad(part, tuple(range(len(operands)))), *map(np.float32, operands))
        assert np.isfinite(slopes).all(), name
    assert interpreted(veery.grad(special.ndtri), np.float32(0)) == 0  # as in JAX: the function is infinite there
    slope = interpreted(veery.grad(special.factorial), np.float32(0))
    np.testing.assert_allclose(slope, -np.euler_gamma, rtol=1e-6)


def test_derivatives_of_digamma_below_zero(x64):
    x = np.array([-0.5, -8.7, -9.3, -20.25, -1205.3, -1e-4])
    orders = np.arange(1, 4)[:, None]
    wanted = scipy.special.polygamma(orders, x)
    np.testing.assert_allclose(interpreted(special.polygamma, orders, x), wanted, rtol=1e-11)
    slopes = interpreted(lambda x: veery.vmap(veery.grad(special.digamma))(x), x)
    np.testing.assert_allclose(slopes, wanted[0], rtol=1e-11)


@pytest.mark.compiler
def test_derivatives_of_digamma_below_zero_compiled():
    x = np.array([-0.5, -8.75, -9.25, -20.25, -600.125, -1e-4], np.float32)
    call = (lambda x: special.polygamma(np.arange(1, 4)[:, None], x), (x,))
    np.testing.assert_allclose(
        results([call])[0], scipy.special.polygamma(np.arange(1, 4)[:, None], x.astype(np.float64)), rtol=2e-5
    )


def test_derivative_of_boxcox_by_lambda(x64):
    x = np.array([3.0, 10.0, 7.0, 4.0, 2.0, 5.0, 1.0, 0.0, np.inf])
    lmbda = np.array([0.0, 1e-30, 1e-3, -0.1, 2.0, -3.0, 0.5, 2.0, -8.0])
    t = lmbda[3:7] * np.log(x[3:7])
    wanted = [0.5 * np.log(3) ** 2, 0.5 * np.log(10) ** 2, 1.8957410532255814]
    wanted = [*wanted, *((t * np.exp(t) - np.expm1(t)) / lmbda[3:7] ** 2), 0.25, 1 / 64]
    slopes = interpreted(lambda x, y: veery.vmap(veery.grad(special.boxcox, 1))(x, y), x, lmbda)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-13)
    curvature = interpreted(veery.grad(veery.grad(special.boxcox, 1), 1), np.float64(3), np.float64(0))
    np.testing.assert_allclose(curvature, np.log(3) ** 3 / 3, rtol=1e-13)
    assert interpreted(veery.grad(special.boxcox, 1), np.float64(0), np.float64(0)) == np.inf


def test_derivatives_where_two_terms_are_nearly_the_same(x64):
    """Of erfcx and dawsn: by asymptotic series, -1 / (2 x^2) and its like at first."""
    x = np.array([9.9, 10.1, 30.0, 1e7, 1e30])
    of_erfcx = [-0.005670519706633622, -0.005451329508867118, -0.0006258354105074841]
    of_dawsn = [-0.005181662905733047, -0.00497538353876205, -0.000556484063550548]
    of_hazard = [-0.9903734622310061, -0.9907308029004075, -0.9988962284881099, -1]
    cases = [
        (special.erfcx, x, [*of_erfcx, *(-1 / np.sqrt(np.pi) / x[3:] ** 2)]),
        (special.dawsn, x, [*of_dawsn, *(-0.5 / x[3:] ** 2)]),
        (veery.grad(special.log_ndtr), -x[:4], of_hazard),
    ]
    for fun, at, wanted in cases:
        slopes = interpreted(lambda x, fun=fun: veery.vmap(veery.grad(fun))(x), at)
        np.testing.assert_allclose(slopes, wanted, rtol=1e-11)


def test_derivative_of_the_first_exponential_integral(x64):
    x = np.array([0.5, 3.0, np.inf])
    slopes = interpreted(lambda x: veery.vmap(veery.grad(lambda x: special.expn(0, x)))(x), x)
    np.testing.assert_allclose(slopes, [-6 * np.exp(-0.5), -4 / 9 * np.exp(-3), 0], rtol=1e-14)


def test_softmax_is_over_all_axes():
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(special.softmax(x), scipy.special.softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x), scipy.special.log_softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.softmax(x, axis=1), scipy.special.softmax(x, axis=1), rtol=1e-6)
    assert special.logsumexp is veery.nn.logsumexp


# What JAX 0.10.2 gives of Python floats alone: weakly typed results but for these functions; and of complex numbers.
STRONG = set(
    """
    beta dawsn erfcx exp1 expi expn fresnel gamma gammasgn hyp1f1 hyp2f1 log_ndtr ndtr ndtri owens_t poch sici spence
    """.split()
)
COMPLEX: dict[type[Exception] | None, str] = {
    None: "expit logit xlogy xlog1py boxcox boxcox1p loggamma gamma erfcx",
    ValueError: "entr rel_entr kl_div betainc gammasgn beta poch dawsn exp1 expi expn hyp1f1 sici",
    NotImplementedError: "fresnel",
    TypeError: """
        gammaln factorial comb betaln gammainc gammaincc digamma zeta erf erfc erfinv i0 i1 i0e i1e ndtr ndtri log_ndtr
        spence hyp2f1
    """,
}


@by_name
def test_types_are_those_of_jax(row):
    fun = getattr(special, row.name)
    count = len(row.samples)
    _, avals = interpreted_with_avals(fun, *[2.0 if row.name == "expn" else 0.5] * count)
    assert {(str(a.dtype), a.weak_type) for a in avals} == {("float32", row.name not in STRONG)}
    _, avals = interpreted_with_avals(fun, *[np.ones(2, np.float16)] * count)
    assert {(str(a.dtype), a.weak_type) for a in avals} == {("float16", False)}
    if row.name not in ("ndtr", "ndtri", "log_ndtr", "spence"):
        _, avals = interpreted_with_avals(fun, *[np.ones(2, np.int8)] * count)
        assert {(str(a.dtype), a.weak_type) for a in avals} == {("float32", False)}


@pytest.mark.parametrize("error", COMPLEX)
def test_complex_numbers(error):
    for name in COMPLEX[error].split():
        count = next(len(row.samples) for row in ROWS if row.name == name)
        xs = [np.array([1.5 + 0.5j, 0.3 - 2j], np.complex64)] * count
        if error is None:
            assert interpreted(getattr(special, name), *xs).dtype == np.complex64
        else:
            with pytest.raises(error):
                getattr(special, name)(*xs)


def test_logarithms_of_complex_numbers():
    x, y = np.array([1.5 + 0.5j, 0.3 - 2j, 0]), np.array([0.4 + 0.1j, -3.0, 2j])
    for name in ("expit", "xlogy", "xlog1py"):
        xs = (x,) if name == "expit" else (x, y)
        wanted = 1 / (1 + np.exp(-x)) if name == "expit" else getattr(scipy.special, name)(*xs)
        out = interpreted(getattr(special, name), *(v.astype(np.complex64) for v in xs))
        np.testing.assert_allclose(out, wanted, rtol=1e-5)
    near = np.array([0.5 + 0.01j, 0.45], np.complex64)
    np.testing.assert_allclose(interpreted(special.logit, near), np.log(near / (1 - near)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 12])
def test_legendre_functions(n, dtype):
    z = np.array([-1, -0.9999, -0.7, 0.0, 1e-3, 0.5, 0.9999, 1], dtype)
    with veery.enable_x64(dtype == "float64"):
        values, slopes = special.lpmn(n, n, z)
        same, normal = (special.lpmn_values(n, n, z, normalized) for normalized in (False, True))
        jitted = veery.jit(special.lpmn_values, static_argnums=(0, 1, 3))(n, n, z, True)
        ends = veery.grad(lambda z: special.lpmn_values(2, 2, z, False).sum())(jnp.array([-1, 1], dtype))
    assert values.dtype == slopes.dtype == normal.dtype == dtype and values.shape == (n + 1, n + 1, 8)
    wide = z.astype(np.float64)
    wanted, wanted_slopes = scipy.special.assoc_legendre_p_all(n, n, wide, diff_n=1)[:, :, : n + 1].swapaxes(1, 2)
    wanted_normal = scipy.special.sph_legendre_p_all(n, n, np.arccos(wide))[0][:, : n + 1].swapaxes(0, 1)
    bound = 100 * np.finfo(dtype).eps
    for actual, expected in ((values, wanted), (same, wanted), (normal, wanted_normal), (jitted, wanted_normal)):
        np.testing.assert_allclose(actual, expected, rtol=bound, atol=bound * max(1, np.abs(expected).max() * 1e-2))
    inside = np.isfinite(wanted_slopes)
    np.testing.assert_array_equal(np.isinf(slopes), np.isinf(wanted_slopes))
    size = np.abs(wanted_slopes[inside]).max()
    np.testing.assert_allclose(np.asarray(slopes)[inside], wanted_slopes[inside], rtol=1e4 * bound, atol=bound * size)
    np.testing.assert_array_equal(ends, [np.inf, np.inf])


REFUSED = [
    (lambda: special.entr(1j), ValueError, "entr does not support complex-valued inputs"),
    (lambda: special.kl_div(1j, 1.0), ValueError, "kl_div does not support complex-valued inputs"),
    (lambda: special.betainc(1j, 1.0, 0.5), ValueError, "betainc does not support complex-valued inputs"),
    (lambda: special.bessel_jn(1j, v=1), ValueError, "complex input not supported"),
    (lambda: special.polygamma(1, 1j), ValueError, "polygamma does not support complex-valued inputs"),
    (lambda: special.polygamma(1.0, 1.0), ValueError, "must be of integer type. Got dtype float32"),
    (lambda: special.ndtr(1), TypeError, "x.dtype=int32 is not supported"),
    (lambda: special.ndtri(True), TypeError, "x.dtype=bool is not supported"),
    (lambda: special.log_ndtr(1j), TypeError, "x.dtype=complex64 is not supported"),
    (lambda: special.spence(2), TypeError, "x.dtype=int32 is not supported"),
    (lambda: special.log_ndtr(1.0, series_order=31), ValueError, "series_order must be <= 30"),
    (lambda: special.log_ndtr(1.0, series_order=-1), ValueError, "series_order must be non-negative"),
    (lambda: special.log_ndtr(1.0, series_order=1.5), TypeError, "series_order must be a Python integer"),
    (lambda: special.zeta(2.0), NotImplementedError, "pass q != None"),
    (lambda: special.factorial(3, exact=True), NotImplementedError, "exact=True"),
    (lambda: special.bernoulli(-1), ValueError, "n must be a non-negative integer"),
    (lambda: special.sph_harm_y(1, 1, 0.5, 0.5, diff_n=1), NotImplementedError, "diff_n"),
    (lambda: special.lpmn(2, 3, np.ones(2)), NotImplementedError, "m!=n"),
    (lambda: special.lpmn_values(2, 2, np.ones((1, 2), np.float32), True), ValueError, "1D"),
    (lambda: special.lpmn(2, 2, np.ones(2, int)), TypeError, "float32 and float64"),
    (lambda: special.lpmn(-1, -1, np.ones(2, np.float32)), ValueError, "non-negative"),
    (lambda: special.gamma([1.0]), TypeError, "gamma requires ndarray or scalar arguments"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(number):
    call, error, words = REFUSED[number]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", ["bernoulli", "multigammaln", "bessel_jn", "sph_harm_y"])
def test_what_must_be_known_is_told_when_it_is_traced(name):
    calls = {
        "bernoulli": lambda n: special.bernoulli(n),
        "multigammaln": lambda n: special.multigammaln(3.0, n),
        "bessel_jn": lambda n: special.bessel_jn(3.0, v=n),
        "sph_harm_y": lambda n: special.sph_harm_y(n, 1, 0.5, 0.5),
    }
    with pytest.raises(TypeError, match="concrete"):
        veery.make_jaxpr(calls[name])(2)


def test_modules_are_imported_when_they_are_used():
    assert "special" in dir(veery.scipy) and veery.scipy.special is special
    with pytest.raises(AttributeError, match="module 'veery.scipy' has no attribute 'specials'"):
        _ = veery.scipy.specials
