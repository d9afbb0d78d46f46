"""What JAX's own tests showed to differ: values, what may be traced, and messages."""

from typing import NamedTuple

import numpy as np
import pytest

import veery
import veery.numpy as jnp
from veery import jit, lax, nn
from veery.errors import ConcretizationTypeError
from veery.experimental.ode import odeint
from veery.scipy import special

X = np.arange(15, dtype=np.float32).reshape(3, 5)


def test_where_of_logsumexp_has_no_part_in_its_gradient():
    where = np.arange(5) < 4
    for x in ([0, 0, 0, 0, 100], [0, 0, 0, 0, np.inf], [0, 0, 0, 0, np.nan]):
        x = np.array(x, np.float32)
        np.testing.assert_array_equal(veery.grad(lambda x: nn.logsumexp(x, where=where))(x), [0.25] * 4 + [0])
        assert nn.logsumexp(x, where=where) == np.log(np.float32(4))
    assert nn.logsumexp(jnp.ones(3), where=jnp.zeros(3, bool)) == -np.inf


def test_sums_of_complex_exponentials_have_logarithms_within_a_turn():
    rng = np.random.default_rng(0)
    x, y = ((rng.normal(size=200) + 9j * rng.normal(size=200)).astype(np.complex64) for _ in range(2))
    a, b = x.astype(complex), y.astype(complex)
    np.testing.assert_allclose(jnp.logaddexp(x, y), np.log(np.exp(a) + np.exp(b)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jnp.logaddexp2(x, y), np.log(2**a + 2**b) / np.log(2), rtol=1e-4, atol=1e-5)


def test_edges_of_histograms_may_be_traced():
    x = np.linspace(0, 4, 33, dtype=np.float32)
    edges = jit(lambda x, low: jnp.histogram_bin_edges(x, 4, range=(low, low + 1)))(x, 1.0)
    np.testing.assert_allclose(edges, [1, 1.25, 1.5, 1.75, 2])
    for bad in ((1, 2, 3), 5, np.float32(2)):
        with pytest.raises(ValueError, match="either None or a sequence of scalars"):
            jnp.histogram(x, 4, range=bad)


def test_running_sums_of_floats_as_bools():
    x = np.array([[0.1], [0.5], [0.0]])
    np.testing.assert_array_equal(jnp.cumulative_sum(x, axis=-1, dtype=bool), [[True], [True], [False]])
    np.testing.assert_array_equal(jnp.cumprod(x[:, 0], dtype=bool), [True, True, False])


def test_spherical_harmonics_of_angles_beyond_those_of_a_sphere():
    """As SciPy has them: of the angle from 0 to pi that has the same cosine."""
    n, m, theta = np.full(5, 3), np.array([1, -1, 3, 2, 1]), np.array([-2, -0.5, 4, 7, -9], np.float32)
    same = np.arccos(np.cos(theta))
    expected = special.sph_harm_y(n, m, same, np.float32(0.3), n_max=3)
    np.testing.assert_allclose(
        special.sph_harm_y(n, m, theta, np.float32(0.3), n_max=3), expected, rtol=1e-5, atol=1e-6
    )
    slope = veery.grad(lambda t: special.sph_harm_y(n[:1], m[:1], t[None], np.zeros(1), n_max=3)[0].real)
    np.testing.assert_allclose(slope(jnp.float32(0)), slope(jnp.float32(1e-4)), rtol=1e-3)


def test_trapezoid_with_distances_of_each_sample():
    for dx, axis in [((5,), 0), ((3, 1), 1), ((2, 5), 0), ((3, 4), 1)]:
        dx = np.linspace(1, 2, np.prod(dx), dtype=np.float32).reshape(dx)
        np.testing.assert_allclose(jnp.trapezoid(X, dx=dx, axis=axis), np.trapezoid(X, dx=dx, axis=axis), rtol=1e-6)


@pytest.mark.compiler
def test_what_may_be_traced():
    np.testing.assert_array_equal(jit(lambda k: jnp.tri(3, 4, k))(1), np.tri(3, 4, 1))
    places = jnp.array([3, 20, -1, -20, 7], jnp.int8)
    for shape in ((2, 4), 4, jnp.array([2, 3, 1])):
        given = tuple(shape.tolist()) if isinstance(shape, veery.Array) else shape
        out = jit(lambda shape: jnp.unravel_index(places, shape))(shape)
        np.testing.assert_array_equal(out, jnp.unravel_index(places, given))
        assert all(x.dtype == np.int8 for x in out)


def test_operators_leave_named_tuples_to_their_own():
    class Scaled(NamedTuple):
        value: veery.Array

        def __rmul__(self, other):
            return Scaled(other * self.value)

    assert isinstance(jnp.ones(3) * Scaled(jnp.ones(3)), Scaled)
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        jnp.ones(3) * (1, 2, 3)


def test_logarithms_of_complex_zeros_and_infinities():
    for fun, scale in ((jnp.log2, np.log(2)), (jnp.log10, np.log(10))):
        out = np.asarray(fun(np.array([0, complex(-0.0, 0.0), np.inf, 1 + 1j], np.complex64)))
        np.testing.assert_array_equal(out.real[:3], [-np.inf, -np.inf, np.inf])
        np.testing.assert_allclose(out.imag, np.array([0, np.pi, 0, np.pi / 4]) / scale, rtol=1e-6)


def test_arrays_of_keys_are_made_and_got_as_others_are():
    keys = veery.random.split(veery.random.key(0), 3)
    for made, word in ((jnp.zeros(2, keys.dtype), 0), (jnp.ones((2,), keys.dtype), 1), (jnp.full(2, 7, keys.dtype), 7)):
        assert made.dtype == keys.dtype and veery.random.key_data(made).tolist() == [[word, word]] * 2
    assert jit(lambda: jnp.full((2,), 3, keys.dtype))().dtype == keys.dtype
    assert veery.device_get(keys) is keys
    with pytest.raises(TypeError, match="JAX array with PRNGKey dtype cannot be converted to a NumPy array"):
        np.asarray(keys)


def test_einsum_sums_over_dimensions_that_broadcast():
    rng = np.random.default_rng(0)
    x, y, one = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 1, 6)), rng.normal(size=(1, 4, 5))
    for left in (x, one):
        expected = np.einsum("cij,cjk->cik", left, y)
        np.testing.assert_allclose(jnp.einsum("cij,cjk->cik", left, y), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(jnp.einsum("ij,jk->", x[0], y[0]), np.einsum("ij,jk->", x[0], y[0]), rtol=1e-4)


def test_integers_beyond_a_dtype_wrap_around():
    cases = [(2**32 + 5, "int8", 5), (2**32, "int32", 0), (2**63, "float32", 2.0**63), (-(2**70), "bool", True)]
    for value, dtype, expected in [*cases, (2**100, "float32", 2.0**100), (2**100, "float16", np.inf)]:
        out = lax.convert_element_type(value, dtype)
        assert out.item() == expected and out.dtype == dtype


def test_permutations_are_arrays_too():
    assert lax.transpose(X, jnp.array([1, 0])).shape == (5, 3)


@pytest.mark.compiler
def test_gradients_of_complex_solutions_by_time():
    def solution(times, y):
        return odeint(lambda y, t, a: a * y * jnp.exp(-t).astype(y.dtype), y, times, 3 + 4j)[-1].real

    times, step = np.linspace(0, 1, 4, dtype=np.float32), np.array([0, 0, 0, 0.01], np.float32)
    gradient = veery.grad(solution)(times, 1 + 2j)
    difference = (solution(times + step, 1 + 2j) - solution(times - step, 1 + 2j)) / 0.02
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient[-1], difference, rtol=2e-3)


@pytest.mark.parametrize(
    "fun, error, message",
    [
        (
            lambda: lax.reduce_window(X[0], 0.0, lambda x, y: [x + y], (1,), (1,), "VALID"),
            ValueError,
            "reduce_window output must have the same tree structure as the operands",
        ),
        (
            lambda: veery.eval_shape(lambda x: lax.top_k(x, 2), veery.ShapeDtypeStruct((2**31 + 1,), jnp.bfloat16)),
            ValueError,
            "top_k returns int32 indices, which will overflow",
        ),
        (lambda: lax.convert_element_type(2**70, "int32"), OverflowError, "Python int too large to convert to int32"),
        (
            lambda: lax.broadcast_shapes((3,), (-1,)),
            TypeError,
            "Only non-negative indices are allowed when broadcasting",
        ),
        (lambda: jnp.zeros(2, 3), TypeError, r"Did you accidentally write `jax.numpy.zeros\(2, 3\)` when you meant"),
        (lambda: jnp.rot90(jnp.ones(3)), ValueError, "rot90 requires its first argument to have ndim at least two"),
        (lambda: jnp.tensordot(X, X, ((0,), 1)), TypeError, "tensordot requires both axes lists to be either ints"),
        (
            lambda: jnp.tensordot(X, X, (("a",), ("b",))),
            TypeError,
            "tensordot requires both axes lists to be either ints",
        ),
        (lambda: jnp.trace(X, axis1=1, axis2=-1), ValueError, "axis1 and axis2 can not be same"),
        (
            lambda: jit(lambda x: x.tolist())(X),
            ConcretizationTypeError,
            r"The tolist\(\) method was called on traced array",
        ),
        (
            lambda: jit(lambda s: jnp.unravel_index(3, s))(jnp.ones(2)),
            ValueError,
            "shape should be a scalar or 1D sequence",
        ),
    ],
)
def test_messages(fun, error, message):
    with pytest.raises(error, match=message):
        fun()


@pytest.mark.parametrize("make", [jnp.zeros, jnp.empty, lambda n, dtype: jnp.zeros_like(jnp.ones(n), dtype=dtype)])
def test_floats_that_have_no_zero_are_not_a_number_instead(make):
    """Outside of jit as within."""
    dtype = jnp.float8_e8m0fnu
    eager, jitted = make(3, dtype), veery.jit(lambda: make(3, dtype))()
    assert eager.dtype == jitted.dtype == dtype
    assert np.isnan(eager.astype(np.float32)).all() and np.isnan(jitted.astype(np.float32)).all()
