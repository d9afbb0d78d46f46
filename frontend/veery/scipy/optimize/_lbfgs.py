"""The method of Broyden, Fletcher, Goldfarb and Shanno with memory for a few vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import value_and_grad
from veery.numpy._promotion import Array
from veery.scipy.optimize._line_search import dot, line_search


class LBFGSState(NamedTuple):
    """Where a minimization is."""

    converged: Array
    failed: Array
    nit: Array
    nfev: Array
    x: Array
    fun: Array
    gradient: Array
    steps: Array  # the last ones, the newest at the end
    changes: Array  # of the gradient in each
    rho: Array
    gamma: Array
    status: Array


def minimize_lbfgs(
    fun: Callable[[Array], Array],
    x0: Array,
    maxiter: float | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-05,
    maxfun: float | None = None,
    maxgrad: float | None = None,
    maxls: int = 20,
) -> LBFGSState:
    """Minimize by the last few steps (Nocedal and Wright, algorithm 7.5; Sorber, Barel and Lathauwer 2012).

    The status is 1, 2 or 3 after the largest number of iterations, values or gradients, 4 when the function became
    smaller by less than ftol, 5 when the search along a line failed.
    """
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = x0.size * 200
    limits = [np.inf if limit is None else limit for limit in (maxiter, maxfun, maxgrad)]
    value, gradient = value_and_grad(fun)(x0)

    def step(state: LBFGSState) -> LBFGSState:
        direction = _direction(state)
        search = line_search(fun, state.x, direction, state.fun, state.gradient, maxls)
        s = search.step.astype(x0.dtype) * direction
        y = search.gradient - state.gradient
        curvature = jnp.real(dot(y, s))
        status = jnp.where(state.fun - search.fun < ftol, 4, 0)
        for code, count, limit in zip((3, 2, 1), (state.nfev, state.nfev, state.nit), limits[::-1]):
            status = jnp.where(count >= limit, code, status)
        status = jnp.where(search.failed, 5, status)
        converged = jnp.linalg.norm(search.gradient, ord=norm) < gtol
        pushed = lambda history, new: jnp.concatenate([history[1:], new[None]])
        return LBFGSState(
            converged=converged,
            failed=(status > 0) & ~converged,
            nit=state.nit + 1,
            nfev=state.nfev + search.nfev,
            x=state.x + s,
            fun=search.fun,
            gradient=search.gradient,
            steps=pushed(state.steps, s),
            changes=pushed(state.changes, y),
            rho=pushed(state.rho, jnp.reciprocal(curvature).astype(x0.dtype)),
            gamma=(curvature / jnp.real(dot(jnp.conj(y), y))).astype(x0.dtype),
            status=jnp.where(converged, 0, status),
        )

    history = jnp.zeros((maxcor, x0.size), x0.dtype)
    no = jnp.asarray(False)
    start = LBFGSState(
        converged=no,
        failed=no,
        nit=0,
        nfev=1,
        x=x0,
        fun=value,
        gradient=gradient,
        steps=history,
        changes=history,
        rho=history[:, 0] if x0.size else jnp.zeros(maxcor, x0.dtype),
        gamma=jnp.ones((), x0.dtype),
        status=jnp.asarray(0),
    )
    return lax.while_loop(lambda state: ~state.converged & ~state.failed, step, start)


def _direction(state: LBFGSState) -> Array:
    """The negative gradient times the estimated inverse of the second derivative, by two loops over the steps.

    Those that were not taken yet have rho zero, and change nothing.
    """
    size = state.rho.shape[0]
    part = lambda x, y: jnp.real(dot(x, y)).astype(state.rho.dtype)

    def back(trip: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        i = size - 1 - trip
        q, factors = carry
        factor = state.rho[i] * part(jnp.conj(state.steps[i]), q)
        return q - factor * jnp.conj(state.changes[i]), factors.at[i].set(factor)

    q, factors = lax.fori_loop(0, size, back, (-jnp.conj(state.gradient), jnp.zeros_like(state.rho)))

    def forth(i: Any, q: Array) -> Array:
        return q + (factors[i] - state.rho[i] * part(state.changes[i], q)) * state.steps[i]

    return lax.fori_loop(0, size, forth, state.gamma * q)
