"""The method of Broyden, Fletcher, Goldfarb and Shanno."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import value_and_grad
from veery.numpy._promotion import Array
from veery.scipy.optimize._line_search import dot, line_search


class BFGSState(NamedTuple):
    """Where a minimization is."""

    converged: Array
    failed: Array
    nit: Array
    nfev: Array
    x: Array
    fun: Array
    gradient: Array
    inverse_hessian: Array
    before: Array  # the function's value one iteration ago
    status: Array


def minimize_bfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> BFGSState:
    """Minimize by an estimate of the inverse of the second derivative (Nocedal and Wright, algorithm 6.1)."""
    limit = x0.size * 200 if maxiter is None else maxiter
    small = lambda g: jnp.linalg.norm(g, ord=norm) < gtol
    eye = np.eye(x0.size, dtype=x0.dtype)
    value, gradient = value_and_grad(fun)(x0)

    def step(state: BFGSState) -> BFGSState:
        direction = -dot(state.inverse_hessian, state.gradient)
        search = line_search(
            fun, state.x, direction, state.fun, state.gradient, line_search_maxiter, before=state.before
        )
        s = search.step * direction
        y = search.gradient - state.gradient
        rho = jnp.reciprocal(dot(y, s))
        w = eye - rho * jnp.outer(s, y)
        updated = dot(dot(w, state.inverse_hessian), jnp.matrix_transpose(w)) + rho * jnp.outer(s, s)
        return BFGSState(
            converged=small(search.gradient),
            failed=search.failed,
            nit=state.nit + 1,
            nfev=state.nfev + search.nfev,
            x=state.x + s,
            fun=search.fun,
            gradient=search.gradient,
            inverse_hessian=jnp.where(jnp.isfinite(rho), updated, state.inverse_hessian),
            before=state.fun,
            status=jnp.where(search.failed, 2 + search.status, 0),
        )

    start = BFGSState(
        converged=small(gradient),
        failed=jnp.asarray(False),
        nit=0,
        nfev=1,
        x=x0,
        fun=value,
        gradient=gradient,
        inverse_hessian=jnp.asarray(eye),
        before=value + jnp.linalg.norm(gradient) / 2,
        status=jnp.asarray(0),
    )
    more = lambda state: ~state.converged & ~state.failed & (state.nit < limit)
    found = lax.while_loop(more, step, start)
    exhausted = jnp.where(found.nit >= limit, 1, found.status)
    return found._replace(status=jnp.where(found.converged, 0, exhausted))
