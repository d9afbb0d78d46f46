"""Functions under the settings that forbid implicit promotion: the library's own steps never meet them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import veery
import veery.experimental.ode
import veery.numpy as jnp
from veery import lax
from veery.example_libraries import optimizers
from veery.experimental import sparse
from veery.scipy.interpolate import RegularGridInterpolator

A = np.random.RandomState(0).randn(2, 4, 4).astype(np.float32)
S = A[0] @ A[0].T + 4 * np.eye(4, dtype=np.float32)
X = np.random.RandomState(1).randn(5, 3).astype(np.float32)
V = np.array([0.5, -1.5, 2.5], np.float32)
I = np.array([3, 1, 2, 1, 0], np.int32)
ROWS = np.arange(5, dtype=np.float32)
linalg = jnp.linalg

FUNCTIONS = {
    "add_outer": lambda: jnp.add.outer(V, V),
    "reduceat": lambda: jnp.frompyfunc(jnp.hypot, 2, 1).reduceat(V, np.array([0, 2], np.int32)),
    "average": lambda: jnp.average(X, axis=0, weights=ROWS),
    "cov": lambda: jnp.cov(X, aweights=V**2),
    "bessel_jn": lambda: veery.scipy.special.bessel_jn(X, v=1),
    "corrcoef": lambda: (jnp.corrcoef(X), jnp.corrcoef(X.astype(np.complex64))),
    "cumprod": lambda: veery.grad(lambda a: jnp.cumprod(a, axis=1).sum())(X),
    "det": lambda: veery.grad(lambda a: linalg.det(a).sum())(A),
    "eigh": lambda: veery.jvp(linalg.eigh, (S,), (S,)),
    "histogram2d": lambda: jnp.histogram2d(X[0], X[1], 4, weights=V, density=True),
    "histogram": lambda: jnp.histogram(X, 4),
    "inv": lambda: veery.grad(lambda a: linalg.inv(a).sum())(A),
    "isin": lambda: jnp.isin(X, X[0]),
    "logsumexp_where": lambda: veery.nn.logsumexp(X, where=V > 0),
    "logsumexp": lambda: veery.grad(lambda a: veery.nn.logsumexp(a, axis=1).sum())(X),
    "mgrid": lambda: (jnp.mgrid[0:2, 0:1:3j], jnp.ogrid[0:2, 0:1:0.5]),
    "matrix_rank": lambda: linalg.matrix_rank(A),
    "multivariate_normal": lambda: veery.random.multivariate_normal(
        veery.random.key(0), V, np.eye(3, dtype=np.float32), (5,)
    ),
    "nanquantile": lambda: jnp.nanquantile(X, np.array([0.2, 0.5], np.float32), axis=1),
    "odeint": lambda: veery.experimental.ode.odeint(lambda y, t: -y, V, ROWS),
    "pinv": lambda: veery.jvp(linalg.pinv, (A,), (A,)),
    "polyfit": lambda: jnp.polyfit(ROWS, X, 2),
    "polyfit_with_covariance": lambda: jnp.polyfit(ROWS, X[:, 0], 1, w=np.ones(5, np.float32), cov=True),
    "interpolation": lambda: RegularGridInterpolator((ROWS,), X, method="nearest")(ROWS),
    "sm3": lambda: optimizers.sm3(0.1)[1](0, X, optimizers.sm3(0.1)[0](X)),
    "qr": lambda: veery.jvp(linalg.qr, (A,), (A,)),
    "quantile": lambda: jnp.quantile(X, np.array([0.2, 0.5], np.float32), axis=1),
    "quantile_weights": lambda: jnp.quantile(X, V**2 / 9, axis=1, weights=X, method="inverted_cdf"),
    "slogdet": lambda: veery.grad(lambda a: linalg.slogdet(a)[1].sum())(A),
    "softmax": lambda: veery.grad(lambda a: veery.nn.softmax(a)[0, 0])(X),
    "solve": lambda: veery.grad(lambda a: linalg.solve(a, a[:, :, :1]).sum())(A),
    "svd": lambda: veery.jvp(lambda a: linalg.svd(a, full_matrices=False), (X,), (X,)),
    "top_k": lambda: veery.jvp(lambda a: lax.top_k(a, 2)[0], (X,), (X,)),
    "trapezoid": lambda: jnp.trapezoid(X, dx=V, axis=0),
    "unique": lambda: jnp.unique(I, size=3, return_counts=True),
    "vander": lambda: jnp.vander(V),
} | {
    f"{name}_where": lambda name=name, options=options: getattr(jnp, name)(X, axis=1, where=V > 0, **options)
    for name, options in {
        "sum": {}, "mean": {}, "prod": {}, "std": {}, "var": {}, "max": {"initial": 0.0}, "nansum": {}, "nanmean": {},
        "nanstd": {}, "nanvar": {}, "nanmax": {"initial": 0.0},
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_implicit_promotion_within(name, x64):
    with veery.numpy_rank_promotion("raise"), veery.numpy_dtype_promotion("strict"), veery.enable_x64(x64):
        veery.make_jaxpr(FUNCTIONS[name])()


def test_the_users_own_promotions_are_refused():
    with veery.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="could not be broadcast"):
        jnp.add(X, V)
    refused = pytest.raises(veery.dtypes.TypePromotionError, match="no available implicit dtype promotion")
    with veery.numpy_dtype_promotion("strict"), refused:
        jnp.add(V, I[:3])


LOWER_RANK = {
    "bernoulli": ("less", lambda k, v, shape: veery.random.bernoulli(k, v, shape)),
    "lognormal": ("multiply", lambda k, v, shape: veery.random.lognormal(k, v, shape)),
    "pareto": ("true_divide", lambda k, v, shape: veery.random.pareto(k, v, shape)),
    "randint": ("bitwise_and", lambda k, v, shape: veery.random.randint(k, shape, 0, v.astype(int))),
    "t": ("true_divide", lambda k, v, shape: veery.random.t(k, v, shape)),
    "truncated_normal, lower": ("maximum", lambda k, v, shape: veery.random.truncated_normal(k, v, 9.0, shape)),
    "truncated_normal, upper": ("minimum", lambda k, v, shape: veery.random.truncated_normal(k, 0.0, v, shape)),
    "weibull_min": ("power", lambda k, v, shape: veery.random.weibull_min(k, 1.0, v, shape)),
}


@pytest.mark.parametrize("name", LOWER_RANK)
def test_parameters_of_random_numbers_of_lower_rank_are_refused(name):
    """Where JAX refuses them."""
    operation, sample = LOWER_RANK[name]
    v = np.full(3, 0.5, np.float32)
    with veery.numpy_rank_promotion("raise"):
        for shape, parameter in (((2, 3), v[0]), ((3,), v), ((2, 3), v[None])):
            assert (
                veery.eval_shape(functools.partial(sample, shape=shape), veery.random.key(0), parameter).shape == shape
            )
        with pytest.raises(ValueError, match=f"broadcast together for {operation} on shapes"):
            sample(veery.random.key(0), v, (2, 3))


ON_DEVICE = jnp.asarray(X), jnp.asarray(V)
GUARDED = {
    "allclose": lambda x, v: jnp.allclose(x, x),
    "array": lambda x, v: jnp.array([v, v]),
    "polyadd": lambda x, v: jnp.polyadd(v, v[1:]),
    "gradient": lambda x, v: jnp.gradient(v),
    "nan_to_num": lambda x, v: jnp.nan_to_num(x),
    "polyder": lambda x, v: jnp.polyder(v, 2),
    "polyfit": lambda x, v: jnp.polyfit(v, v, 1),
    "polyint": lambda x, v: jnp.polyint(v),
    "expm": lambda x, v: veery.scipy.linalg.expm(x[:3]),
    "resize": lambda x, v: veery.image.resize(x, (4, 6), "linear"),
    "standardize": lambda x, v: veery.nn.standardize(x),
    "trapezoid": lambda x, v: jnp.trapezoid(v),
    "unwrap": lambda x, v: jnp.unwrap(v),
    "vander": lambda x, v: jnp.vander(v),
}


@pytest.mark.parametrize("name", GUARDED)
def test_what_functions_have_of_their_own_is_no_transfer(name):
    with veery.transfer_guard("disallow"):
        GUARDED[name](*ON_DEVICE)


def test_sparse_arrays_with_strict_ranks():
    dense = jnp.where(jnp.arange(12) % 3 == 0, jnp.arange(1.0, 13.0), 0).reshape(3, 4)
    with veery.numpy_rank_promotion("raise"):
        for x in (sparse.BCOO.fromdense(dense), sparse.BCOO.fromdense(dense[None], n_batch=1)[0]):
            results = {
                "sum": (x.sum(0), dense.sum(0)),
                "sorted": (x.sort_indices(), dense),
                "joined": (sparse.bcoo_concatenate([x, x], dimension=0), jnp.concatenate([dense, dense])),
                "sliced": (x[1:, ::2], dense[1:, ::2]),
                "moved": (sparse.bcoo_dynamic_slice(x, (1, 0), (2, 3)), dense[1:, :3]),
                "reshaped": (x.reshape(4, 3), dense.reshape(4, 3)),
                "product": (x @ x.T, dense @ dense.T),
                "square": (sparse.sparsify(jnp.square)(x), dense**2),
                "dense": (sparse.bcoo_update_layout(x, n_dense=1, on_inefficient=None), dense),
                "batched": (sparse.bcoo_update_layout(x, n_batch=1, on_inefficient=None), dense),
            }
            for name, (found, expected) in results.items():
                np.testing.assert_allclose(found.todense(), expected, err_msg=name)


def test_a_fit_of_several_curves_with_strict_ranks():
    points, curves = jnp.arange(5.0), jnp.arange(10.0).reshape(5, 2) ** 2
    expected = np.polyfit(np.arange(5.0), np.arange(10.0).reshape(5, 2) ** 2, 1, cov=True)
    with veery.numpy_rank_promotion("raise"):
        for found, wanted in zip(jnp.polyfit(points, curves, 1, cov=True), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
