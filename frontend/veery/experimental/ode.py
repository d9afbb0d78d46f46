"""Ordinary differential equations: `odeint`, with gradients by the adjoint equation.

The method is that of Dormand and Prince (1980) of orders 5 and 4, with steps chosen as in Hairer, Nørsett and Wanner,
"Solving Ordinary Differential Equations I" (1993), and values between them by Shampine's polynomial (1986).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery import lax, numpy as jnp
from veery._api.autodiff import vjp
from veery._api.custom_derivatives import closure_convert, custom_vjp
from veery._api.jit import jit
from veery._api.vectorize import vmap
from veery._core import dtypes
from veery._core.absent import attributes as _attributes
from veery._core.avals import maybe_aval_of
from veery._core.tree import tree_leaves, tree_map
from veery.flatten_util import ravel_pytree

Array = Any

# The tableau of Dormand and Prince: times, weights of the stages before, of the solution, of its error, and of the
# value in the middle of a step.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0, 0])
_STAGES = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])  # fmt: skip
_SOLUTION = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
# Two thirds of Dormand's and Prince's own estimate of the error, after Shampine.
_LOWER = np.array([1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60])
_ERROR = _SOLUTION - _LOWER
_MIDDLE = np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728,
    187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384,
]) / 2  # fmt: skip


def abs2(x: Array) -> Array:
    """The squared absolute value."""
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x**2


def runge_kutta_step(
    func: Callable[[Array, Any], Array], y0: Array, f0: Array, t0: Any, dt: Any
) -> tuple[Array, Array, Array, Array]:
    """A step of Dormand and Prince.

    Args:
        func: the derivative, of a vector and the time.
        y0, f0: the vector at t0, and its derivative.
        t0, dt: the time, and the step.

    Returns:
        The vector at t0 + dt, its derivative, the estimated error, and the derivatives of all seven stages.
    """
    t0, dt = jnp.asarray(t0), jnp.asarray(dt)
    weights = lambda row: jnp.asarray(row, dt.dtype)
    slopes = [f0]
    for time, row in zip(_TIMES, _STAGES):
        y = y0 + dt * _combined(weights(row), slopes)
        slopes.append(func(y, t0 + dt * weights(time)))
    k = jnp.stack(slopes)
    y1 = dt * jnp.dot(weights(_SOLUTION), k) + y0
    error = dt * jnp.dot(weights(_ERROR), k)
    return y1, k[-1], error, k


def _combined(weights: Array, slopes: Sequence[Array]) -> Array:
    return jnp.dot(weights[: len(slopes)], jnp.stack(slopes))


def fit_4th_order_polynomial(
    y0: Array, y1: Array, y_mid: Array, dy0: Array, dy1: Array, dt: Any
) -> tuple[Array, Array, Array, Array, Array]:
    """The coefficients, highest first, of a polynomial on [0, 1], by values at 0, 1/2 and 1, and slopes at the ends."""
    dy0, dy1 = dt * dy0, dt * dy1
    a = -2.0 * dy0 + 2.0 * dy1 - 8.0 * y0 - 8.0 * y1 + 16.0 * y_mid
    b = 5.0 * dy0 - 3.0 * dy1 + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = -4.0 * dy0 + dy1 - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return a, b, c, dy0, y0


def interp_fit_dopri(y0: Array, y1: Array, k: Array, dt: Any) -> Array:
    """The coefficients of the polynomial through a step (see `fit_4th_order_polynomial`)."""
    y_mid = y0 + jnp.asarray(dt) * jnp.dot(jnp.asarray(_MIDDLE, jnp.asarray(dt).dtype), k)
    return jnp.asarray(fit_4th_order_polynomial(y0, y1, y_mid, k[0], k[-1], dt))


def initial_step_size(
    fun: Callable[[Array, Any], Array], t0: Any, y0: Array, order: int, rtol: Any, atol: Any, f0: Array
) -> Array:
    """The first step, by the derivative and a difference of it (Hairer et al., page 169)."""
    scale = atol + jnp.abs(y0) * rtol
    size, slope = jnp.linalg.norm(y0 / scale), jnp.linalg.norm(f0 / scale)
    h0 = jnp.where((size < 1e-5) | (slope < 1e-5), 1e-6, 0.01 * size / slope)
    f1 = fun(y0 + h0.astype(y0.dtype) * f0, t0 + h0)
    bend = jnp.linalg.norm((f1 - f0) / scale) / h0
    h1 = jnp.where(
        (slope <= 1e-15) & (bend <= 1e-15),
        jnp.maximum(1e-6, h0 * 1e-3),
        (0.01 / jnp.maximum(slope, bend)) ** (1.0 / (order + 1.0)),
    )
    return jnp.minimum(100.0 * h0, h1)


def mean_error_ratio(error_estimate: Array, rtol: Any, atol: Any, y0: Array, y1: Array) -> Array:
    """The root of the mean square of errors divided by what is tolerated of them."""
    tolerated = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(abs2(error_estimate / tolerated.astype(error_estimate.dtype))))


def optimal_step_size(
    last_step: Array, mean_error_ratio: Array, safety: float = 0.9, ifactor: float = 10.0, dfactor: float = 0.2,
    order: float = 5.0,
) -> Array:  # fmt: skip
    """The next step, by the last one and its error (Hairer et al., page 168)."""
    least = jnp.where(mean_error_ratio < 1, 1.0, dfactor)
    factor = jnp.minimum(ifactor, jnp.maximum(mean_error_ratio ** (-1.0 / order) * safety, least))
    return jnp.where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


def odeint(
    func: Callable[..., Any], y0: Any, t: Array, *args: Any, rtol: Any = 1.4e-8, atol: Any = 1.4e-8,
    mxstep: Any = jnp.inf, hmax: Any = jnp.inf,
) -> Any:  # fmt: skip
    """Solve dy/dt = func(y, t, *args) with y(t[0]) = y0.

    Args:
        func: the derivative, a pytree like y0, of y, the time and further arguments.
        y0: a pytree of arrays of floats (or complex numbers).
        t: the times at which y is wanted, growing: an array of floats (T,).
        *args: pytrees of arrays.
        rtol, atol: the tolerated local error, relative to y and absolute.
        mxstep: the most steps between two times. Where they do not suffice, the values are those that were reached,
            continued by the last step's polynomial.
        hmax: the longest step.

    Returns:
        y at the times: a pytree like y0 with a leading axis of T.

    Raises:
        TypeError: an argument is no array, or t is no array of floats.

    Gradients of y0, t, args and of what func closes over are those of the adjoint equation, which is solved backwards
    in time with the same tolerances (Chen, Rubanova, Bettencourt and Duvenaud 2018). Forward mode is not defined.

    >>> import veery.numpy as jnp
    >>> from veery.experimental.ode import odeint
    >>> odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0, 2.0])).round(4)
    Array([1.    , 0.3679, 0.1353], dtype=float32)
    """
    for arg in tree_leaves(args):
        if maybe_aval_of(arg) is None:
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {arg} of type {type(arg)}."
            )
    if not dtypes.issubdtype(jnp.asarray(t).dtype, np.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    t = jnp.asarray(t)
    converted, consts = closure_convert(func, y0, t[0], *args)
    return _odeint_wrapper(converted, rtol, atol, mxstep, hmax, y0, t, *args, *consts)


@functools.partial(jit, static_argnums=(0, 1, 2, 3, 4))
def _odeint_wrapper(
    func: Callable[..., Any], rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Any, ts: Array, *args: Any
) -> Any:
    flat, unravel = ravel_pytree(y0)
    flat_func = ravel_first_arg(func, unravel)
    out = _odeint(flat_func, rtol, atol, mxstep, hmax, flat, ts, *args)
    return vmap(unravel)(out)


def ravel_first_arg(
    f: Callable[..., Any], unravel: Callable[[Array], Any], debug_info: Any = None
) -> Callable[..., Array]:
    """The function of a vector in place of the first argument's pytree, with a vector as its result."""

    def raveled(y_flat: Array, *args: Any) -> Array:
        return ravel_pytree(f(unravel(y_flat), *args))[0]

    return raveled


@functools.partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _odeint(
    func: Callable[..., Array], rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Array, ts: Array, *args: Any
) -> Array:
    slope = lambda y, t: func(y, t, *args)

    def step(state: Any) -> Any:
        i, y, f, t, dt, last_t, polynomial = state
        next_y, next_f, error, k = runge_kutta_step(slope, y, f, t, dt)
        ratio = mean_error_ratio(error, rtol, atol, y, next_y)
        accepted = (next_y, next_f, t + dt, t, interp_fit_dopri(y, next_y, k, dt))
        rejected = (y, f, t, last_t, polynomial)
        next_dt = jnp.clip(optimal_step_size(dt, ratio), 0.0, hmax)
        y, f, t, last_t, polynomial = tree_map(functools.partial(jnp.where, ratio <= 1.0), accepted, rejected)
        return i + 1, y, f, t, next_dt, last_t, polynomial

    def until(carry: Any, target: Array) -> Any:
        unfinished = lambda state: (state[3] < target) & (state[0] < mxstep) & (state[4] > 0)
        _, *carry = lax.while_loop(unfinished, step, (0, *carry))
        _, _, t, _, last_t, polynomial = carry
        at = ((target - last_t) / (t - last_t)).astype(polynomial.dtype)
        return tuple(carry), jnp.polyval(polynomial, at)

    f0 = slope(y0, ts[0])
    dt = jnp.clip(initial_step_size(slope, ts[0], y0, 4, rtol, atol, f0), 0.0, hmax)
    first = y0, f0, ts[0], dt.astype(ts.dtype), ts[0], jnp.array([y0] * 5)
    _, ys = lax.scan(until, first, ts[1:])
    return jnp.concatenate((y0[None], ys))


def _odeint_fwd(
    func: Callable[..., Array], rtol: Any, atol: Any, mxstep: Any, hmax: Any, y0: Array, ts: Array, *args: Any
) -> Any:
    ys = _odeint(func, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _odeint_rev(
    func: Callable[..., Array], rtol: Any, atol: Any, mxstep: Any, hmax: Any, residuals: Any, g: Array
) -> Any:
    ys, ts, args = residuals

    def augmented(state: Any, t: Array, *args: Any) -> Any:
        """y, the gradient with respect to it, and those that gather, backwards in time."""
        y, y_bar, _, _ = state
        y_dot, pull_back = vjp(func, y, -t, *args)
        return (-y_dot, *_grouped(pull_back(y_bar)))

    def interval(carry: Any, i: Array) -> Any:
        y_bar, t0_bar, args_bar = carry
        t_bar = jnp.real(jnp.dot(func(ys[i], ts[i], *args), g[i]))
        state = ys[i], y_bar, t0_bar - t_bar, args_bar
        times = jnp.array([-ts[i], -ts[i - 1]])
        solved = odeint(augmented, state, times, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax)
        _, y_bar, t0_bar, args_bar = tree_map(operator.itemgetter(1), solved)
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar

    first = g[-1], jnp.zeros((), ts.dtype), tree_map(jnp.zeros_like, args)
    (y_bar, t0_bar, args_bar), t_bars = lax.scan(interval, first, jnp.arange(len(ts) - 1, 0, -1))
    ts_bar = jnp.concatenate([t0_bar[None], t_bars[::-1]])
    return (y_bar, ts_bar, *args_bar)


def _grouped(cotangents: Sequence[Any]) -> tuple[Any, Any, tuple[Any, ...]]:
    y_bar, t_bar, *args_bar = cotangents
    return y_bar, t_bar, tuple(args_bar)


_odeint.defvjp(_odeint_fwd, _odeint_rev)

__getattr__, __dir__ = _attributes(__name__)
