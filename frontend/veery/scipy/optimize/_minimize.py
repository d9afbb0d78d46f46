"""Minima of functions by methods that follow gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from veery import numpy as jnp
from veery.numpy._promotion import Array, ArrayLike, ensure_arraylike, promote_dtypes_inexact
from veery.numpy._shaping import as_array
from veery.scipy.optimize._bfgs import minimize_bfgs
from veery.scipy.optimize._lbfgs import minimize_lbfgs


class OptimizeResults(NamedTuple):
    """What an optimization found.

    Attributes:
        x: the solution.
        success: whether it converged.
        status: why it ended. With BFGS 0: it converged; 1: after the largest number of iterations; 3: zooming in on a
            step failed; 5: after the largest number of steps in a search along a line.
        fun: the function's value.
        jac: its gradient.
        hess_inv: the estimated inverse of its second derivative, or None.
        nfev: how often the function was evaluated.
        njev: how often its gradient was.
        nit: the number of iterations.
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


_METHODS: dict[str, Callable[..., Any]] = {
    "bfgs": minimize_bfgs,
    "l-bfgs-experimental-do-not-rely-on-this": minimize_lbfgs,
}


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Find a minimum of a real function of a vector, by its gradients.

    Args:
        fun: `fun(x, *args)`, differentiable.
        x0: where to begin, an array of shape (n,).
        args: further arguments of the function.
        method: "BFGS" (Nocedal and Wright, Numerical Optimization, algorithm 6.1), or
            "l-bfgs-experimental-do-not-rely-on-this" (algorithm 7.5), with memory for a few vectors, also complex ones.
        tol: the option gtol where that is not given.
        options: of the method. Both: maxiter; gtol, the norm of the gradient at which it ends (1e-5), and the order
            `norm` of that norm (infinite). BFGS: line_search_maxiter (10). L-BFGS: maxcor, the number of vectors (10),
            ftol, maxfun, maxgrad, and maxls (20).

    Returns:
        See `OptimizeResults`. There is no reverse mode through it; `veery.lax.custom_root` has derivatives of the
        solution.

    Raises:
        TypeError: args is no tuple, x0 no array, or there is no such option.
        ValueError: x0 is no vector, or there is no such method.

    >>> import veery.numpy as jnp
    >>> result = minimize(lambda x: jnp.sum((x - 1.0) ** 2), jnp.zeros(2), method="BFGS")
    >>> result.x.round(3).tolist(), bool(result.success)
    ([1.0, 1.0], True)
    """
    if not isinstance(args, tuple):
        raise TypeError(f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args}")
    if method.lower() not in _METHODS:
        raise ValueError(f"Method {method} not recognized")
    x0 = ensure_arraylike("minimize", x0)
    (x0,) = promote_dtypes_inexact(x0)
    if np.ndim(x0) != 1:
        raise ValueError(f"minimize needs x0 of shape (n,), got {np.shape(x0)}; see veery.flatten_util.ravel_pytree")
    given = ({} if tol is None else {"gtol": tol}) | dict(options or {})
    found = _METHODS[method.lower()](lambda x: fun(x, *args), as_array(x0), **given)
    return OptimizeResults(
        x=found.x,
        success=found.converged & jnp.logical_not(found.failed),
        status=found.status,
        fun=found.fun,
        jac=found.gradient,
        hess_inv=getattr(found, "inverse_hessian", None),
        nfev=found.nfev,
        njev=found.nfev,
        nit=found.nit,
    )
