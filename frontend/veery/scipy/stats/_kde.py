"""Density estimates by Gaussian kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import lax, numpy as jnp, random
from veery._api.jit import jit
from veery._core import dtypes
from veery._core.avals import aval_of
from veery._core.tree_registry import register_pytree_node_class
from veery.nn import logsumexp
from veery.numpy import linalg
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.scipy.special._error_functions import ndtr_of


def _refuse_complex(x: ArrayLike, what: str) -> None:
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):  # type: ignore[attr-defined]
        raise NotImplementedError(f"gaussian_kde does not support complex {what}")


@register_pytree_node_class
@dataclass(frozen=True, init=False, slots=True)
class gaussian_kde:  # noqa: N801 (SciPy's name)
    """An estimate of a density: the mean of normal densities around the points of a sample.

    Args:
        dataset: array of shape (n,), or (d, n) for points of d dimensions.
        bw_method: the width of the kernels relative to the sample's deviation: "scott" (the default), "silverman", a
            number, or a function of the estimate that gives one.
        weights: array of shape (n,), of the points.

    Raises:
        ValueError: there is but one number, or the weights do not fit.
        NotImplementedError: the points are complex.

    It is a pytree, so that it may be an argument of transformed functions.

    >>> import veery.numpy as jnp
    >>> kde = gaussian_kde(jnp.array([0.0, 1.0, 3.0]))
    >>> [round(float(p), 4) for p in kde.evaluate(jnp.array([0.5, 2.0]))]
    [0.2132, 0.1842]
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: str | ArrayLike | Callable[[Any], Array] | None = None,
        weights: ArrayLike | None = None,
    ):
        dataset = ensure_arraylike("gaussian_kde", dataset)
        points = jnp.atleast_2d(dataset)
        _refuse_complex(points, "data")
        if not points.size > 1:
            raise ValueError("`dataset` input should have multiple elements.")
        d, n = points.shape
        if weights is None:
            points = jnp.asarray(*promote_dtypes_inexact(points))
            given = jnp.full(n, 1.0 / n, points.dtype)
        else:
            weights = ensure_arraylike("gaussian_kde", weights)
            points, given = promote_dtypes_inexact(points, jnp.atleast_1d(weights))
            if given.ndim != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if len(given) != n:
                raise ValueError("`weights` input should be of length n")
            given = given / jnp.sum(given)
        self._set(dataset=points, weights=given, neff=1 / jnp.sum(given**2))
        factor = self._bandwidth("scott" if bw_method is None else bw_method, d)
        covariance = jnp.atleast_2d(jnp.cov(points, rowvar=True, bias=False, aweights=given))
        self._set(covariance=covariance * factor**2, inv_cov=linalg.inv(covariance) / factor**2)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _bandwidth(self, method: Any, d: int) -> Any:
        if isinstance(method, str) and method == "scott":
            return jnp.power(self.neff, -1.0 / (d + 4))
        if isinstance(method, str) and method == "silverman":
            return jnp.power(self.neff * (d + 2) / 4.0, -1.0 / (d + 4))
        if not isinstance(method, str) and jnp.isscalar(method):
            return method
        if callable(method):
            return method(self)
        raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar, or a callable.")

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Its fields."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate of such fields."""
        kde = cls.__new__(cls)
        kde._set(**dict(zip(("neff", "dataset", "weights", "covariance", "inv_cov"), children)))
        return kde

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points of the sample."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points.

        Args:
            points: array of shape (m,) for one dimension, else (d, m); or (d,) for one point.

        Returns:
            Array of shape (m,).
        """
        return jnp.exp(self.logpdf(points))

    def __call__(self, points: ArrayLike) -> Array:
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The same as evaluate."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points; arguments as for evaluate."""
        x = ensure_arraylike("logpdf", x)
        return _log_density(self, self._as_points(x))

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal one.

        Args:
            mean: array of shape (d,).
            cov: array of shape (d, d).

        Raises:
            ValueError: they have other shapes.
        """
        centre, spread = jnp.atleast_1d(jnp.squeeze(mean)), jnp.atleast_2d(cov)
        if centre.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if spread.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        return _overlap(self.covariance + spread, self.dataset, self.weights, centre[:, None])[0]

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability between two numbers, of an estimate in one dimension.

        Raises:
            ValueError: there are several dimensions, or the limits are no scalars.
        """
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if np.ndim(low) != 0 or np.ndim(high) != 0:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        return _box(self, low, high)

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimates.

        Raises:
            ValueError: they have different numbers of dimensions.
        """
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        values = _overlap(self.covariance + other.covariance, self.dataset, self.weights, other.dataset)
        return jnp.sum(values * other.weights)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """Not there: integrals over boxes of several dimensions need numerical integration."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there: an estimate does not change; make another one."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")

    def resample(self, key: ArrayLike, shape: tuple[int, ...] = ()) -> Array:
        """Samples from the estimate.

        Args:
            key: one key.
            shape: of the samples.

        Returns:
            Array of shape (d, *shape).
        """
        for_points, for_noise = random.split(key)
        index = random.choice(for_points, self.n, shape=shape, p=self.weights)
        centre = jnp.zeros(self.d, self.covariance.dtype)
        noise = random.multivariate_normal(for_noise, centre, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, index] + noise.T

    def _as_points(self, points: ArrayLike) -> Array:
        _refuse_complex(points, "coordinates")
        x = jnp.atleast_2d(points)
        d, m = x.shape
        if d == self.d:
            return x
        if d == 1 and m == self.d:
            return x.reshape(self.d, 1)
        raise ValueError(f"points have dimension {d}, dataset has dimension {self.d}")


@jit
def _log_density(kde: gaussian_kde, points: Array) -> Array:
    points, data, weights, precision = promote_dtypes_inexact(points, kde.dataset, kde.weights, kde.inv_cov)
    whitening = linalg.cholesky(precision)
    differences = (whitening.T @ data)[:, :, None] - (whitening.T @ points)[:, None, :]
    norm = jnp.sum(jnp.log(jnp.diagonal(whitening))) - 0.5 * kde.d * np.log(2 * np.pi)
    exponents = norm - 0.5 * jnp.sum(differences * differences, 0)
    return logsumexp(exponents + jnp.log(weights)[:, None], axis=0)


@jit
def _box(kde: gaussian_kde, low: ArrayLike, high: ArrayLike) -> Array:
    deviation = jnp.sqrt(kde.covariance[0, 0])
    ends = [(x - kde.dataset[0]) / deviation for x in (low, high)]
    return jnp.sum(kde.weights * (ndtr_of(ends[1]) - ndtr_of(ends[0])))


@jit
def _overlap(covariance: Array, data: Array, weights: Array, centres: Array) -> Array:
    """For each centre the sum of weights times the normal densities of the differences to data."""
    factor = linalg.cholesky(covariance)
    differences = (data[:, :, None] - centres[:, None, :]).reshape(len(data), -1)
    columns = lax.linalg.triangular_solve(factor, differences, left_side=True, lower=True)
    squares = jnp.sum(columns * columns, 0).reshape(data.shape[1], centres.shape[1])
    norm = (2 * np.pi) ** (len(data) / 2) * jnp.prod(jnp.diagonal(factor))
    return weights @ jnp.exp(-0.5 * squares) / norm
