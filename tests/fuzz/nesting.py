"""Transformations drawn one after the other, and what each must give by the values of the function within.

A stage is a function of arrays to a tuple of arrays, with its arguments. A transformation makes the next stage of one,
and says by `expected` what that gives, by evaluations of the function within alone: in numerical differences, loops
over examples and sums, without any rule of differentiation or batching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

import veery as jax
import veery.numpy as jnp
from fuzz.draw import Draw, is_inexact, ml_dtypes_kind
from veery import lax

Arrays = Sequence[np.ndarray]


class Evaluate(Protocol):
    """The values of a function: anywhere, and near some arguments with what has no gradient held as it is there."""

    def __call__(self, *xs: np.ndarray) -> list[np.ndarray]: ...

    def about(self, *xs: np.ndarray) -> Callable[..., list[np.ndarray]]: ...


class Expected(NamedTuple):
    """What some results must be: `value` up to `error` in each element; where that is NaN, nothing is known."""

    what: str
    actual: np.ndarray
    value: np.ndarray
    error: np.ndarray


@dataclass
class Stage:
    """A function of arrays to a tuple of arrays.

    Attributes:
        fun: the function.
        args: its arguments.
        order: how often it is differentiated.
        reverse: whether it can be differentiated in reverse mode.
        smooth: whether derivatives of it mean something.
    """

    fun: Callable[..., tuple[Any, ...]]
    args: tuple[np.ndarray, ...]
    order: int = 0
    reverse: bool = True
    smooth: bool = True

    @cached_property
    def outs(self) -> list[Any]:
        """Shapes and dtypes of the results."""
        return list(jax.eval_shape(self.fun, *self.args))

    @property
    def inexact(self) -> list[int]:
        """Which arguments have derivatives."""
        return [i for i, x in enumerate(self.args) if is_inexact(x.dtype) and x.size]

    @property
    def inexact_outs(self) -> list[int]:
        """Which results have derivatives."""
        return [i for i, x in enumerate(self.outs) if is_inexact(x.dtype)]

    @property
    def real(self) -> bool:
        """Whether no argument or result is complex."""
        return not any(ml_dtypes_kind(x.dtype) == "c" for x in [*self.args, *self.outs])

    @property
    def cost(self) -> int:
        """How many elements come in and go out."""
        return sum(int(np.prod(x.shape)) for x in [*self.args, *self.outs])


class Transformation:
    """Makes a stage of another. `fun` and `args` are those of the new stage."""

    derivatives = 0
    needs_reverse = False

    def __init__(self, inner: Stage, draw: Draw):
        self.inner = inner
        self.fun = inner.fun
        self.args = inner.args
        self.prepare(draw)

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        """Whether it can be applied to a stage, and JAX would."""
        if not cls.derivatives:
            return True
        if cls.needs_reverse and not inner.reverse:
            return False
        return inner.smooth and bool(inner.inexact) and bool(inner.inexact_outs)

    def prepare(self, draw: Draw) -> None:
        """Draw what there is to choose, and set `fun` and `args`."""
        raise NotImplementedError

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        """What the results must be, by evaluations of the function within."""
        raise NotImplementedError

    @property
    def stage(self) -> Stage:
        i = self.inner
        return Stage(self.fun, tuple(self.args), i.order + self.derivatives, i.reverse, i.smooth)


def exactly(what: str, actual: Arrays, value: Arrays) -> Iterator[Expected]:
    """The same results by another way, up to the rounding of double precision."""
    for i, (a, v) in enumerate(zip(actual, value, strict=True)):
        if not is_inexact(a.dtype):
            yield Expected(f"{what}, result {i}", a, v, np.zeros(np.shape(v)))
            continue
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(v[np.isfinite(v)]), initial=1e-300)
        yield Expected(f"{what}, result {i}", a, v, np.full(np.shape(v), 1e-6 * scale))


class Same(Transformation):
    """What does not change a function."""

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        yield from exactly(type(self).__name__.lower(), outs, inner(*self.args))


class Jit(Same):
    """A jitted function."""

    def prepare(self, draw: Draw) -> None:
        self.fun = jax.jit(self.inner.fun)


class Checkpoint(Same):
    """A function whose intermediate values are computed again in reverse mode."""

    def prepare(self, draw: Draw) -> None:
        names = (None, None, "dots_saveable", "nothing_saveable", "everything_saveable")
        name = draw.pick(*names)
        self.fun = jax.checkpoint(self.inner.fun, policy=name and getattr(jax.checkpoint_policies, name))


class Closure(Transformation):
    """Some arguments closed over, as constants."""

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return len(inner.args) > 1

    def prepare(self, draw: Draw) -> None:
        n = len(self.inner.args)
        kept = set(draw.subset(range(n)))
        if not kept.intersection(self.inner.inexact):  # something by which the rest can be differentiated
            kept.update(self.inner.inexact[:1])
        self.kept = sorted(kept)
        self.args = tuple(self.inner.args[i] for i in self.kept)
        self.fun = lambda *xs: self.inner.fun(*map(jnp.asarray, self.all_of(xs)))

    def all_of(self, xs: Sequence[Any]) -> list[Any]:
        args: list[Any] = list(self.inner.args)
        for i, x in zip(self.kept, xs, strict=True):
            args[i] = x
        return args

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        yield from exactly("closure", outs, inner(*self.all_of(self.args)))


class Branch(Transformation):
    """The function in a branch that is taken or not."""

    def prepare(self, draw: Draw) -> None:
        self.taken = draw.mask(share=0.7)
        self.args = (self.taken, *self.inner.args)
        other = lambda *xs: tuple(2 * y if is_inexact(y.dtype) else y for y in self.inner.fun(*xs))
        self.fun = lambda p, *xs: lax.cond(p, self.inner.fun, other, *xs)

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        factor = 1 if self.taken else 2
        values = [factor * y if is_inexact(y.dtype) else y for y in inner(*self.args[1:])]
        yield from exactly("cond", outs, values)


class Loop(Transformation):
    """An argument replaced several times by what the function gives for it."""

    @classmethod
    def places(cls, inner: Stage) -> list[tuple[int, int]]:
        same = lambda x, y: (x.shape, np.dtype(x.dtype)) == (y.shape, np.dtype(y.dtype))
        return [(i, j) for i in inner.inexact for j in inner.inexact_outs if same(inner.args[i], inner.outs[j])]

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return inner.real and bool(cls.places(inner))

    def prepare(self, draw: Draw) -> None:
        self.i, self.j = draw.pick(*self.places(self.inner))
        self.trips = draw.integer(1, 3)
        scan = draw.chance(0.5)

        def fun(*xs: Any) -> tuple[Any, ...]:
            def step(x: Any) -> Any:
                out = self.inner.fun(*xs[: self.i], x, *xs[self.i + 1 :])[self.j]
                return (x + jnp.tanh(out) / 8).astype(x.dtype)

            if scan:
                last, all_of_them = lax.scan(lambda x, _: (step(x),) * 2, xs[self.i], None, length=self.trips)
                return last, all_of_them
            return (lax.fori_loop(0, self.trips, lambda _, x: step(x), xs[self.i]),)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        xs, trail = list(self.args), []
        for _ in range(self.trips):
            out = np.asarray(inner(*xs)[self.j])
            xs[self.i] = np.asarray(xs[self.i], out.dtype) + np.tanh(out) / 8
            trail.append(xs[self.i])
        yield from exactly("loop", outs, [trail[-1], np.stack(trail)][: len(outs)])


class Batched(Transformation):
    """The function of several examples."""

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return inner.cost < 20_000

    def examples(self, draw: Draw, any_axis: bool) -> None:
        self.n = draw.pick(1, 2, 3, 5)
        chosen = draw.subset(range(len(self.inner.args)))
        self.axes: list[int | None] = [None] * len(self.inner.args)
        args = list(self.inner.args)
        for i in chosen:
            x = args[i]
            axis = draw.integer(-1, x.ndim) if any_axis else 0
            parts = [_vary(x, k, draw) for k in range(self.n)]
            args[i] = np.stack(parts, axis)
            self.axes[i] = axis
        self.args = tuple(args)

    def each(self, inner: Evaluate) -> Iterator[list[np.ndarray]]:
        for k in range(self.n):
            yield inner(*(x if a is None else np.take(x, k, a) for x, a in zip(self.args, self.axes)))


def _vary(x: np.ndarray, k: int, draw: Draw) -> np.ndarray:
    """Another argument of the same kind: of the same signs and definite if it was."""
    if is_inexact(x.dtype):
        return (x * x.dtype.type(draw.pick(1.0, 0.9, 0.85, 0.95))).astype(x.dtype) if k else x
    return np.roll(x, k, -1) if x.ndim else x


class Vmap(Batched):
    """`vmap` over some arguments along any axes."""

    def prepare(self, draw: Draw) -> None:
        self.examples(draw, any_axis=True)
        self.out = draw.pick(0, 0, -1)
        self.fun = jax.vmap(self.inner.fun, in_axes=tuple(self.axes), out_axes=self.out)

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        yield from exactly("vmap", outs, [np.stack(y, self.out) for y in zip(*self.each(inner))])


class Map(Batched):
    """The function in the body of `lax.map`."""

    def prepare(self, draw: Draw) -> None:
        self.examples(draw, any_axis=False)

        def fun(*xs: Any) -> tuple[Any, ...]:
            def one(parts: Any) -> tuple[Any, ...]:
                rest = iter(parts)
                return self.inner.fun(*(x if a is None else next(rest) for x, a in zip(xs, self.axes)))

            return lax.map(one, [x for x, a in zip(xs, self.axes) if a is not None])

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        yield from exactly("map", outs, [np.stack(y) for y in zip(*self.each(inner))])


class Scan(Batched):
    """The function in the body of a scan that carries an average of its results."""

    def prepare(self, draw: Draw) -> None:
        self.examples(draw, any_axis=False)
        self.reverse = draw.chance(0.4)
        self.kinds = [i for i in self.inner.inexact_outs if ml_dtypes_kind(self.inner.outs[i].dtype) == "f"]

        def fun(*xs: Any) -> tuple[Any, ...]:
            def step(c: Any, parts: Any) -> Any:
                rest = iter(parts)
                outs = self.inner.fun(*(x if a is None else next(rest) for x, a in zip(xs, self.axes)))
                for i in self.kinds:
                    c = 0.5 * c + jnp.tanh(outs[i].astype(c.dtype)).sum() / outs[i].size
                return c, outs

            mapped = [x for x, a in zip(xs, self.axes) if a is not None]
            c, outs = lax.scan(step, jnp.zeros((), "float32"), mapped, reverse=self.reverse)
            return (c, *outs)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        trail = list(self.each(inner))
        c = 0.0
        for results in reversed(trail) if self.reverse else trail:
            for i in self.kinds:
                c = 0.5 * c + np.tanh(results[i]).sum() / results[i].size
        yield from exactly("scan", outs, [np.asarray(c), *(np.stack(y) for y in zip(*trail))])


# Derivatives. All are compared along random directions with numerical differences of the function within.


def weights_like(struct: Any) -> np.ndarray:
    """Constants that tell the elements of an array apart."""
    n = int(np.prod(struct.shape))
    return np.cos(1 + np.arange(n)).reshape(struct.shape).astype(struct.dtype)


class Derivative(Transformation):
    """What has to do with derivatives, by some arguments."""

    derivatives = 1

    def choose(self, draw: Draw) -> None:
        self.by = draw.subset(self.inner.inexact)
        self.outs_of = self.inner.inexact_outs
        self.directions = [draw.direction(self.inner.args[i]) for i in self.by]

    def partial(self, xs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
        """The results that have derivatives, as a function of the arguments by which is differentiated."""

        def fun(*ys: Any) -> tuple[Any, ...]:
            outs = self.inner.fun(*self.put(xs, ys))
            return tuple(outs[i] for i in self.outs_of)

        return fun

    def put(self, xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
        full = list(xs)
        for i, y in zip(self.by, ys, strict=True):
            full[i] = y
        return full

    def choose_loss(self, draw: Draw) -> None:
        self.kind = draw.pick("sum", "weighted", "weighted", "squares")

    def loss(self, xs: Sequence[Any]) -> Callable[..., Any]:
        """A number made of the results that have derivatives."""

        def fun(*ys: Any) -> Any:
            total: Any = 0.0
            for y in self.partial(xs)(*ys):
                if self.kind == "weighted":
                    y = y * weights_like(y)
                elif self.kind == "squares":
                    y = y * jnp.conj(y) / 2
                total = total + jnp.sum(jnp.real(y))
            return total

        return fun

    def loss_value(self, outs: Arrays) -> np.ndarray:
        """That number, of results in double precision."""
        total = np.zeros(())
        for i in self.outs_of:
            y = np.asarray(outs[i])
            if self.kind == "weighted":
                y = y * weights_like(self.inner.outs[i]).astype(y.dtype)
            elif self.kind == "squares":
                y = y * np.conj(y) / 2
            total = total + np.sum(np.real(y))
        return total

    def along(self, inner: Evaluate, directions: Sequence[np.ndarray]) -> Callable[[float], list[np.ndarray]]:
        """The results that have derivatives, as a function of the way that one goes in a direction."""
        xs = self.args[: len(self.inner.args)]
        near = inner.about(*xs)

        def fun(h: float) -> list[np.ndarray]:
            ys = [_wide(xs[i]) + h * d for i, d in zip(self.by, directions)]
            outs = near(*self.put(xs, ys))
            return [np.asarray(outs[i]) for i in self.outs_of]

        return fun


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


def differences(fun: Callable[[float], Arrays], order: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Derivatives of arrays by a number, at 0, with bounds of their errors.

    The bounds are NaN where differences do not converge, and where those of both sides converge to different numbers.
    """
    steps = (2e-3, 1e-3, 5e-4) if order == 2 else (2e-4, 1e-4, 5e-5)
    middle, sides = fun(0.0), [(fun(h), fun(-h)) for h in steps]
    found = []
    with np.errstate(all="ignore"):
        for i, m in enumerate(middle):
            up, down = zip(*((u[i], d[i]) for u, d in sides))
            if order == 2:
                a, b, c = ((u - 2 * m + d) / h**2 for u, d, h in zip(up, down, steps))
            else:
                a, b, c = ((u - d) / (2 * h) for u, d, h in zip(up, down, steps))
            first, second = (4 * b - a) / 3, (4 * c - b) / 3
            error = np.abs(second - first) + np.abs(c - b) / 8
            scale = np.max(np.abs(second), initial=0.0)
            error = np.where(error > 1e-2 * (np.abs(second) + scale + 1e-6), np.nan, error)
            error = 4 * error + (1e-6 if order == 1 else 1e-4) * (scale + 1e-3)
            error = error + 4 * np.finfo(np.float64).eps * np.abs(m) / steps[-1] ** order  # of the values themselves
            wide, narrow = _jumps(m, up, down, steps, order)
            kink = (narrow > error) & (narrow > 0.75 * wide)  # half of it where the function is smooth
            found.append((second, np.where(kink, np.nan, error)))
    return found


def _jumps(middle: np.ndarray, up: Arrays, down: Arrays, steps: Sequence[float], order: int) -> list[np.ndarray]:
    """How far the differences of both sides are apart, by two steps of which one is half of the other."""
    if order == 1:
        return [np.abs(u - 2 * middle + d) / h for u, d, h in zip(up[1:], down[1:], steps[1:])]
    twice = zip(up, up[1:], down, down[1:], steps[1:])  # each step is half of the one before
    return [np.abs((uu - 2 * u) - (dd - 2 * d)) / h**2 for uu, u, dd, d, h in twice]


def inner_product(a: np.ndarray, b: np.ndarray) -> Any:
    """The derivative's value in a direction: complex gradients are conjugated as JAX's are."""
    return np.sum(np.real(np.asarray(a) * b))


class Grad(Derivative):
    """`grad` of a number made of the results."""

    needs_reverse = True

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        self.choose_loss(draw)
        with_value = draw.chance(0.3)
        everywhere = tuple(range(len(self.by)))

        def fun(*xs: Any) -> tuple[Any, ...]:
            ys = [xs[i] for i in self.by]
            if with_value:
                value, grads = jax.value_and_grad(self.loss(xs), everywhere)(*ys)
                return (*grads, value)
            return jax.grad(self.loss(xs), everywhere)(*ys)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        def value(outs_along: Arrays) -> np.ndarray:
            full: list[Any] = [None] * len(self.inner.outs)
            for i, y in zip(self.outs_of, outs_along):
                full[i] = y
            return self.loss_value(full)

        along = self.along(inner, self.directions)
        [(slope, error)] = differences(lambda h: [value(along(h))])
        actual = sum(inner_product(g, d) for g, d in zip(outs, self.directions))
        yield Expected("grad along a direction", np.asarray(actual), slope, error)
        if len(outs) > len(self.by):
            yield from exactly("value of value_and_grad", outs[-1:], [value(along(0.0))])


class Jvp(Derivative):
    """`jvp` or `linearize`, with tangents as arguments."""

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        linear = draw.chance(0.4) and self.inner.reverse
        tangents = [d.astype(self.inner.args[i].dtype) for d, i in zip(self.directions, self.by)]
        n = len(self.inner.args)
        self.args = (*self.inner.args, *tangents)

        def fun(*xs: Any) -> tuple[Any, ...]:
            f, ys, ts = self.partial(xs[:n]), [xs[i] for i in self.by], xs[n:]
            if linear:
                out, push = jax.linearize(f, *ys)
                return (*out, *push(*ts))
            out, tangent = jax.jvp(f, tuple(ys), tuple(ts))
            return (*out, *tangent)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        along = self.along(inner, [_wide(t) for t in self.args[len(self.inner.args) :]])
        n = len(self.outs_of)
        yield from exactly("value of jvp", outs[:n], along(0.0))
        for i, (value, error) in enumerate(differences(along)):
            yield Expected(f"tangent {i} of jvp", outs[n + i], value, error)


class Vjp(Derivative):
    """`vjp`, with cotangents as arguments or constants."""

    needs_reverse = True

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        n = len(self.inner.args)
        self.cotangents = [weights_like(self.inner.outs[i]) for i in self.outs_of]
        passed = draw.chance(0.5)
        if passed:
            self.args = (*self.inner.args, *self.cotangents)

        def fun(*xs: Any) -> tuple[Any, ...]:
            out, pull = jax.vjp(self.partial(xs[:n]), *(xs[i] for i in self.by))
            return (*pull(tuple(xs[n:]) if passed else tuple(map(jnp.asarray, self.cotangents))), *out)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        along = self.along(inner, self.directions)
        cts = [_wide(c) for c in self.cotangents]
        [(slope, error)] = differences(lambda h: [np.asarray(sum(map(inner_product, cts, along(h))))])
        actual = sum(inner_product(g, d) for g, d in zip(outs, self.directions))
        yield Expected("vjp along a direction", np.asarray(actual), slope, error)
        yield from exactly("value of vjp", outs[len(self.by) :], along(0.0))


class Jacobian(Derivative):
    """`jacfwd` or `jacrev` by one argument."""

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return super().applies(inner) and inner.real and bool(cls.fitting(inner))

    @classmethod
    def fitting(cls, inner: Stage) -> list[int]:
        size = lambda x: int(np.prod(x.shape))
        total = sum(size(inner.outs[i]) for i in inner.inexact_outs)
        bound = 5_000 if inner.order == 0 else 1_000
        return [i for i in inner.inexact if size(inner.args[i]) * total <= bound and inner.args[i].size <= 130]

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        self.by = [draw.pick(*self.fitting(self.inner))]
        self.directions = [draw.direction(self.inner.args[self.by[0]])]
        forward = draw.chance(0.5) or not self.inner.reverse
        transform = jax.jacfwd if forward else jax.jacrev
        self.fun = lambda *xs: transform(self.partial(xs))(xs[self.by[0]])

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        d = self.directions[0]
        for i, (value, error) in enumerate(differences(self.along(inner, [d]))):
            actual = np.tensordot(np.asarray(outs[i]), d, d.ndim)
            yield Expected(f"jacobian {i} along a direction", actual, value, error)


class Second(Derivative):
    """Second derivatives of a number made of the results."""

    derivatives = 2
    needs_reverse = True

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return super().applies(inner) and inner.real and inner.order == 0

    def curvature(self, inner: Evaluate, directions: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        along = self.along(inner, directions)

        def value(h: float) -> list[np.ndarray]:
            full: list[Any] = [None] * len(self.inner.outs)
            for i, y in zip(self.outs_of, along(h)):
                full[i] = y
            return [self.loss_value(full)]

        [(value_, error)] = differences(value, order=2)
        return value_, error


class Hessian(Second):
    """The Hessian by one argument, in one of its three modes."""

    @classmethod
    def applies(cls, inner: Stage) -> bool:
        return super().applies(inner) and bool(cls.fitting(inner))

    @classmethod
    def fitting(cls, inner: Stage) -> list[int]:
        return [i for i in inner.inexact if inner.args[i].size <= 33]

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        self.choose_loss(draw)
        self.by = [draw.pick(*self.fitting(self.inner))]
        self.directions = [draw.direction(self.inner.args[self.by[0]])]
        reverse_twice, reverse_over_forward = lambda f: jax.jacrev(jax.jacrev(f)), lambda f: jax.jacrev(jax.jacfwd(f))
        mode = draw.pick(jax.hessian, jax.hessian, reverse_over_forward, reverse_twice)
        self.fun = lambda *xs: (mode(self.loss(xs))(xs[self.by[0]]),)

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        d = self.directions[0]
        value, error = self.curvature(inner, [d])
        actual = np.tensordot(np.tensordot(np.asarray(outs[0]), d, d.ndim), d, d.ndim)
        yield Expected("hessian along a direction", actual, value, error)


class Hvp(Second):
    """Products of the Hessian with a vector that is an argument: forward over reverse, or reverse over reverse."""

    def prepare(self, draw: Draw) -> None:
        self.choose(draw)
        self.choose_loss(draw)
        forward = draw.chance(0.5)
        n = len(self.inner.args)
        tangents = [d.astype(self.inner.args[i].dtype) for d, i in zip(self.directions, self.by)]
        self.args = (*self.inner.args, *tangents)
        everywhere = tuple(range(len(self.by)))

        def fun(*xs: Any) -> tuple[Any, ...]:
            ys, ts = tuple(xs[i] for i in self.by), tuple(xs[n:])
            gradient = jax.grad(self.loss(xs[:n]), everywhere)
            if forward:
                return jax.jvp(gradient, ys, ts)[1]
            slope = lambda *ys: sum(jnp.sum(g * t) for g, t in zip(gradient(*ys), ts))
            return jax.grad(slope, everywhere)(*ys)

        self.fun = fun

    def expected(self, inner: Evaluate, outs: Arrays) -> Iterator[Expected]:
        tangents = [_wide(t) for t in self.args[len(self.inner.args) :]]
        value, error = self.curvature(inner, tangents)
        actual = sum(inner_product(y, t) for y, t in zip(outs, tangents))
        yield Expected("Hessian's product along its vector", np.asarray(actual), value, error)


TRANSFORMATIONS: dict[str, type[Transformation]] = {
    cls.__name__: cls
    for cls in (Jit, Checkpoint, Closure, Branch, Loop, Vmap, Map, Scan, Grad, Jvp, Vjp, Jacobian, Hessian, Hvp)
}
_CHANCES = {"Jit": 1, "Checkpoint": 1, "Closure": 2, "Branch": 1, "Loop": 1, "Vmap": 4, "Map": 1, "Scan": 2,
            "Grad": 5, "Jvp": 2, "Vjp": 2, "Jacobian": 3, "Hessian": 2, "Hvp": 2}  # fmt: skip


def drawn_names(draw: Draw) -> list[str]:
    """The names of the transformations of one program, the innermost first."""
    count = draw.pick(0, 1, 1, 1, 2, 2, 2, 3)
    weighted = [name for name, chance in _CHANCES.items() for _ in range(chance)]
    return [draw.pick(*weighted) for _ in range(count)]


def nest(stage: Stage, name: str, draw: Draw, most_derivatives: int = 2) -> Transformation | None:
    """A transformation of a stage, or None if it cannot be applied or would be too much of one kind."""
    cls = TRANSFORMATIONS[name]
    if stage.order + cls.derivatives > most_derivatives or not cls.applies(stage):
        return None
    return cls(stage, draw)
