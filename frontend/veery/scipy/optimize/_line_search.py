"""Steps along a line that make a function smaller by enough (Nocedal and Wright, Numerical Optimization, 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from veery import lax, numpy as jnp
from veery._api.autodiff import value_and_grad
from veery._core import dtypes
from veery.numpy._promotion import Array

C1, C2 = 1e-4, 0.9  # of Wolfe's conditions: how much smaller value and slope must be
ZOOMS = 30


def dot(x: Array, y: Array) -> Array:
    return jnp.dot(x, y, precision=lax.Precision.HIGHEST)


class Point(NamedTuple):
    """A step, with the function's value and slope there."""

    step: Array
    value: Array
    slope: Array


class Search(NamedTuple):
    """What a search found."""

    failed: Array
    status: Array  # 0: it was successful; 1: zooming failed; 3: after the largest number of steps
    nfev: Array
    step: Array
    fun: Array
    gradient: Array


def chosen(mask: Any, x: Any, y: Any) -> Any:
    """The elements of one named tuple or of another."""
    return type(x)(*(jnp.where(mask, a, b) for a, b in zip(x, y)))


def line_search(
    fun: Callable[[Array], Array],
    x: Array,
    direction: Array,
    value: Array,
    gradient: Array,
    maxiter: int,
    before: Array | None = None,
) -> Search:
    """Find a step that satisfies Wolfe's strong conditions.

    Args:
        fun: the function.
        x: where to begin.
        direction: in which to go.
        value: the function's there.
        gradient: its gradient there.
        maxiter: how many steps to try, each twice the one before.
        before: the function's value before x, from which the first step is estimated; by default that is 1.
    """
    slope = jnp.real(dot(gradient, direction))
    number = lambda value_: jnp.asarray(value_, slope.dtype)

    def evaluate(step: Array) -> tuple[Point, Array]:
        fx, g = value_and_grad(fun)(x + step.astype(direction.dtype) * direction)
        at = Point(step, fx.astype(value.dtype), jnp.real(dot(g, direction)).astype(slope.dtype))
        return at, g.astype(gradient.dtype)

    first = number(1)
    if before is not None:
        estimate = 1.01 * 2 * (value - before) / slope
        first = jnp.where(estimate > 1, 1, estimate).astype(slope.dtype)
    too_large = lambda at: at.value > value + C1 * at.step * slope
    flat = lambda at: jnp.abs(at.slope) <= -C2 * slope

    def bracket(state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Go on until there is a step that will do, or two with one between them."""
        i, _, at, *_ = state
        now, g = evaluate(jnp.where(i == 0, first, at.step * 2))
        above = too_large(now) | ((now.value >= at.value) & (i > 0))
        good = flat(now) & ~above
        return i + 1, at, now, g, above, good, (now.slope >= 0) & ~above & ~good

    no = jnp.asarray(False)
    origin = Point(number(0), value, slope)
    more = lambda state: ~(state[4] | state[5] | state[6]) & (state[0] < maxiter)
    i, last, now, g, above, good, rising = lax.while_loop(more, bracket, (0, origin, origin, gradient, no, no, no))
    low, high = chosen(above, last, now), chosen(above, now, last)
    zoomed = _zoom(evaluate, too_large, flat, low, high, gradient, above | rising)
    found = chosen(good, now, zoomed.best)
    failed = ~good & ~zoomed.done
    step = found.step
    if dtypes.finfo(step.dtype).bits < 64:  # smaller ones do not move x
        step = jnp.where(jnp.abs(step) < 1e-8, jnp.sign(step) * 1e-8, step)
    return Search(
        failed=failed,
        status=jnp.where(~failed, 0, jnp.where(above | rising, 1, 3)),
        nfev=i + zoomed.count,
        step=step,
        fun=found.value,
        gradient=jnp.where(good, g, zoomed.gradient),
    )


class _Zoom(NamedTuple):
    done: Array
    failed: Array
    count: Array
    low: Point  # of the steps that were tried and make the function smaller, that with the smallest value
    high: Point  # between which and `low` there is a step that will do
    older: Point
    best: Point
    gradient: Array


def _zoom(
    evaluate: Callable[[Array], tuple[Point, Array]],
    too_large: Callable[[Point], Array],
    flat: Callable[[Point], Array],
    low: Point,
    high: Point,
    gradient: Array,
    wanted: Array,
) -> _Zoom:
    """Narrow the interval by interpolation, cubic or else quadratic, or by halves (algorithm 3.6)."""
    middle = Point(*((a + b) / 2 for a, b in zip(low, high)))
    threshold = 1e-5 if dtypes.finfo(low.step.dtype).bits < 64 else 1e-10

    def step(state: _Zoom) -> _Zoom:
        low, high, older = state.low, state.high, state.older
        width = jnp.abs(high.step - low.step)
        left, right = jnp.minimum(low.step, high.step), jnp.maximum(low.step, high.step)
        within = lambda a, margin: (a > left + margin * width) & (a < right - margin * width)
        cubic, quadratic = _cubic_minimum(low, high, older), _quadratic_minimum(low, high)
        a = jnp.where(within(quadratic, 0.1), quadratic, (low.step + high.step) / 2)
        a = jnp.where((state.count > 0) & within(cubic, 0.2), cubic, a)
        now, g = evaluate(a)
        above = too_large(now) | (now.value >= low.value)
        good = flat(now) & ~above
        turned = (now.slope * (high.step - low.step) >= 0) & ~above & ~good
        moves = ~above & ~good
        return _Zoom(
            done=state.done | good,
            failed=state.failed | (width <= threshold) | (state.count + 1 >= ZOOMS),
            count=state.count + 1,
            low=chosen(moves, now, low),
            high=chosen(above, now, chosen(turned, low, high)),
            older=chosen(above | turned, high, chosen(moves, low, older)),
            best=chosen(good, now, state.best),
            gradient=jnp.where(good, g, state.gradient),
        )

    no = jnp.asarray(False)
    best = Point(jnp.ones_like(low.step), low.value, low.slope)
    start = _Zoom(no, no, 0, low, high, middle, best, gradient)
    return lax.while_loop(lambda state: wanted & ~state.done & ~state.failed, step, start)


def _cubic_minimum(a: Point, b: Point, c: Point) -> Array:
    """Where the cubic through three points, with the slope at the first, is smallest; perhaps NaN."""
    db, dc = b.step - a.step, c.step - a.step
    scale = (db * dc) ** 2 * (db - dc)
    rise_b, rise_c = b.value - a.value - a.slope * db, c.value - a.value - a.slope * dc
    A = (dc**2 * rise_b - db**2 * rise_c) / scale
    B = (db**3 * rise_c - dc**3 * rise_b) / scale
    return a.step + (-B + jnp.sqrt(B * B - 3 * A * a.slope)) / (3 * A)


def _quadratic_minimum(a: Point, b: Point) -> Array:
    """Where the parabola through two points, with the slope at the first, is smallest; perhaps NaN."""
    d = b.step - a.step
    return a.step - a.slope * d * d / (2 * (b.value - a.value - a.slope * d))
