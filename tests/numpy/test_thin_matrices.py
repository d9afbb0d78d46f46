"""Linear algebra of thin matrices: neither values nor derivatives form anything of the length squared."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import numerics
from support.numpy_trace import numpy_evaluation

import veery
import veery.numpy as jnp
from veery import lax
from veery._core.jaxpr import subjaxprs

LONG = 1000
linalg = jnp.linalg

OF_TALL = {
    "qr": linalg.qr,
    "norm_of_rows": lambda a: linalg.norm(a, axis=1),
    "covariance": lambda a: jnp.cov(a, rowvar=False),
    "householder": lambda a: lax.linalg.householder_product(a, jnp.ones(2)),
    "triangular_solve": lambda a: lax.linalg.triangular_solve(jnp.eye(2) * 2, a),
}
OF_WIDE = {
    "covariance": jnp.cov,
    "solve": lambda a: linalg.solve(jnp.eye(2) * 2, a),
    "cholesky_solve": lambda a: lax.linalg.triangular_solve(linalg.cholesky(a @ a.T), a, left_side=True, lower=True),
}
OF_EITHER = {
    "pinv": linalg.pinv,
    "svd": lambda a: linalg.svd(a, full_matrices=False),
    "svdvals": linalg.svdvals,
    "lu": lambda a: lax.linalg.lu(a)[0],
    "lstsq": lambda a: linalg.lstsq(a, a[:, :1])[0],
    "cond": linalg.cond,
    "spectral_norm": lambda a: linalg.norm(a, 2),
    "nuclear_norm": lambda a: linalg.norm(a, "nuc"),
    "multi_dot": lambda a: linalg.multi_dot([a, a.T, a]),
    "gram_determinant": lambda a: linalg.slogdet(a.T @ a if a.shape[1] == 2 else a @ a.T)[1],
}
CASES = [
    *((name, f, (LONG, 2)) for name, f in (OF_TALL | OF_EITHER).items()),
    *((name, f, (2, LONG)) for name, f in (OF_WIDE | OF_EITHER).items()),
]


def largest(jaxpr):
    """The greatest number of elements of a value in a jaxpr."""
    sizes = [math.prod(v.aval.shape) for eqn in jaxpr.eqns for v in eqn.outvars]
    inner = [largest(getattr(j, "jaxpr", j)) for eqn in jaxpr.eqns for j in subjaxprs(eqn.params)]
    return max([*sizes, *inner], default=0)


@pytest.mark.parametrize(("name", "fun", "shape"), CASES, ids=[f"{name}-{shape[0]}" for name, _, shape in CASES])
def test_nothing_large_is_formed(name, fun, shape):
    a = veery.ShapeDtypeStruct(shape, np.float32)
    leaves = lambda a: [x for x in veery.tree_util.tree_leaves(fun(a)) if jnp.issubdtype(x.dtype, jnp.inexact)]

    def backward(a):
        outs, pullback = veery.vjp(leaves, a)
        return pullback([jnp.ones_like(x) for x in outs])

    for transformed in fun, lambda a: veery.jvp(leaves, (a,), (a,)), backward:
        assert largest(veery.make_jaxpr(transformed)(a).jaxpr) <= 16 * LONG


@pytest.mark.parametrize("fun", [linalg.pinv, lambda a: lax.linalg.lu(a)[0]], ids=["pinv", "lu"])
@pytest.mark.parametrize("shape", [(5, 2), (2, 5), (3, 3), (2, 4, 3), (2, 3, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_derivatives(x64, fun, shape, dtype):
    state = np.random.RandomState(0)
    draw = lambda: state.randn(*shape) + (1j * state.randn(*shape) if dtype == np.complex128 else 0)
    a, t = draw(), draw()
    with numpy_evaluation():
        tangent = veery.jvp(fun, (a,), (t,))[1]
        np.testing.assert_allclose(tangent, numerics.directional(fun, [a], [t]), rtol=1e-6, atol=1e-6)
        ct = np.conj(np.asarray(tangent))
        pulled = veery.vjp(fun, a)[1](ct)[0]
        np.testing.assert_allclose(np.sum(pulled * t), np.sum(ct * tangent), rtol=1e-8)
