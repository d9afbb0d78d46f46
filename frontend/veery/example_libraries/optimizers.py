"""Optimizers as triples of functions: first state, update, and parameters of a state.

    init_fn, update_fn, params_fn = adam(1e-3)
    state = init_fn(parameters)
    state = update_fn(step, gradients, state)
    parameters = params_fn(state)

Parameters are a pytree of arrays. The state is an `OptimizerState`, a pytree too. Steps are counted from 0; step sizes
are numbers, or *schedules*: functions of the step.

>>> import veery, veery.numpy as jnp
>>> from veery.example_libraries import optimizers
>>> init_fn, update_fn, params_fn = optimizers.momentum(0.1, mass=0.9)
>>> state = init_fn({"w": jnp.array([1.0, 2.0])})
>>> for step in range(50):
...     state = update_fn(step, veery.grad(lambda p: jnp.sum(p["w"] ** 2))(params_fn(state)), state)
>>> bool(jnp.all(jnp.abs(params_fn(state)["w"]) < 0.2))
True
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from veery import numpy as jnp
from veery._core.absent import attributes as _attributes
from veery._core.tree import PyTreeDef, tree_flatten, tree_leaves, tree_map, tree_unflatten
from veery._core.tree_registry import register_pytree_node

Array = Any
Params = Any
State = Any
Updates = Any
Step = int
Schedule = Callable[[Step], Any]
InitFn = Callable[[Params], "OptimizerState"]
UpdateFn = Callable[[Step, Updates, "OptimizerState"], "OptimizerState"]
ParamsFn = Callable[["OptimizerState"], Params]


class OptimizerState(NamedTuple):
    """The state of an optimizer: for each parameter the leaves of its own state.

    Attributes:
        packed_state: a list of arrays for each parameter.
        tree_def: the tree of the parameters.
        subtree_defs: for each parameter the tree of its state.
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda trees, children: OptimizerState(*children, *trees),
)


def optimizer(opt_maker: Callable[..., tuple[Any, Any, Any]]) -> Callable[..., Optimizer]:
    """A maker of optimizers of pytrees from one of optimizers of single arrays.

    Args:
        opt_maker: returns `init(x) -> state`, `update(step, gradient, state) -> state` and `get_params(state) -> x`,
            in which x is an array and the state a pytree.

    Returns:
        A function of the same arguments that returns an `Optimizer`.
    """

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def packed(states: list[Any], tree: PyTreeDef) -> OptimizerState:
            flat = [tree_flatten(state) for state in states]
            return OptimizerState(tuple(leaves for leaves, _ in flat), tree, tuple(sub for _, sub in flat))

        def unpacked(state: OptimizerState) -> list[Any]:
            return [tree_unflatten(sub, leaves) for sub, leaves in zip(state.subtree_defs, state.packed_state)]

        def tree_init(x0_tree: Params) -> OptimizerState:
            leaves, tree = tree_flatten(x0_tree)
            return packed([init(x) for x in leaves], tree)

        def tree_update(i: Step, grad_tree: Updates, opt_state: OptimizerState) -> OptimizerState:
            _, tree, subtrees = opt_state
            gradients, given = tree_flatten(grad_tree)
            if given != tree:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the parameter tree "
                    f"structure with which it was initialized: parameter tree {tree} and grad tree {given}."
                )
            new = packed([update(i, g, s) for g, s in zip(gradients, unpacked(opt_state))], tree)
            for before, after in zip(subtrees, new.subtree_defs):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match its input "
                        f"structure: input {before} and output {after}."
                    )
            return new

        def tree_get_params(opt_state: OptimizerState) -> Params:
            _, tree, _ = opt_state
            return tree_unflatten(tree, [get_params(s) for s in unpacked(opt_state)])

        return Optimizer(tree_init, tree_update, tree_get_params)

    return tree_opt_maker


# Optimizers.


@optimizer
def sgd(step_size: Any) -> tuple[Any, Any, Any]:
    """Gradient descent: x - step g."""
    step_size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - step_size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Schedule, mass: float) -> tuple[Any, Any, Any]:
    """Gradient descent with momentum (Polyak 1964): x - step v, where v becomes mass v + g."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Schedule, mass: float) -> tuple[Any, Any, Any]:
    """Gradient descent with Nesterov's momentum (1983): x - step (mass v + g), where v becomes mass v + g."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> tuple[Any, Any, Any]:
    """Adagrad (Duchi, Hazan and Singer 2011): steps are divided by the root of the sum of all squared gradients."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, total, m = state
        total = total + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(total)) + momentum * m
        return x - step_size(i) * m, total, m

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> tuple[Any, Any, Any]:
    """RMSProp (Tieleman and Hinton 2012): steps are divided by the root of the mean squared gradient."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        return x - step_size(i) * g / jnp.sqrt(mean + eps), mean

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> tuple[Any, Any, Any]:
    """RMSProp with momentum; the step size is part of what the momentum remembers."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, mean, m = state
        mean = mean * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + step_size(i) * g / jnp.sqrt(mean + eps)
        return x - m, mean, m

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> tuple[Any, Any, Any]:
    """Adam (Kingma and Ba 2014).

    Args:
        step_size: a number or a schedule.
        b1: how much of the mean of the gradients is kept at each step.
        b2: the same of the mean of their squares.
        eps: what is added to the root of the latter.
    """
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        unbiased_m = m / _bias(b1, m, i)
        unbiased_v = v / _bias(b2, m, i)
        return x - step_size(i) * unbiased_m / (jnp.sqrt(unbiased_v) + eps), m, v

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> tuple[Any, Any, Any]:
    """AdaMax (Kingma and Ba 2014): Adam with the largest instead of the mean squared gradient."""
    step_size = make_schedule(step_size)

    def update(i: Step, g: Array, state: State) -> State:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - (step_size(i) / _bias(b1, m, i)) * m / (u + eps), m, u

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> tuple[Any, Any, Any]:
    """SM3 (Anil, Gupta, Koren and Singer 2019): Adagrad that keeps sums of slices, not of elements."""
    step_size = make_schedule(step_size)

    def init(x: Array) -> State:
        shape, x = x.shape, jnp.atleast_1d(x)
        return x, jnp.zeros_like(x), [jnp.zeros(size, x.dtype) for size in x.shape], shape

    def update(i: Step, g: Array, state: State) -> State:
        x, m, sums, shape = state
        along = [s.reshape(*[1] * axis, -1, *[1] * (x.ndim - 1 - axis)) for axis, s in enumerate(sums)]
        total = functools.reduce(jnp.minimum, along) + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(total)) + momentum * m
        others = [tuple(k for k in range(x.ndim) if k != axis) for axis in range(x.ndim)]
        return x - step_size(i) * m, m, [total.max(axes) for axes in others], shape

    def get_params(state: State) -> Array:
        x, _, _, shape = state
        return x if shape else x[0]

    return init, update, get_params


def _with_zeros(count: int) -> Callable[[Array], State]:
    """The first state of an optimizer: the array, and so many arrays of zeros like it."""
    return lambda x: (x, *[jnp.zeros_like(x) for _ in range(count)])


def _first(state: State) -> Array:
    return state[0]


def _inverse_root(x: Array) -> Array:
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


def _bias(decay: float, like: Array, step: Step) -> Array:
    """What a mean that began with zeros has seen of its gradients."""
    return 1 - jnp.asarray(decay, like.dtype) ** (step + 1)


# Schedules.


def constant(step_size: Any) -> Schedule:
    """The same step size at each step."""

    def schedule(i: Step) -> Any:
        return step_size

    return schedule


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """step_size * decay_rate ** (step / decay_steps).

    >>> float(exponential_decay(1.0, 10, 0.5)(20))
    0.25
    """

    def schedule(i: Step) -> Any:
        return step_size * decay_rate ** (i / decay_steps)

    return schedule


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """step_size / (1 + decay_rate * step / decay_steps); with `staircase` the quotient is rounded down."""

    def schedule(i: Step) -> Any:
        decay = decay_rate * jnp.floor(i / decay_steps) if staircase else decay_rate * i / decay_steps
        return step_size / (1 + decay)

    return schedule


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0) -> Schedule:
    """From step_size to final_step_size within decay_steps, as (1 - step / decay_steps) ** power falls."""

    def schedule(i: Step) -> Any:
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """The value whose index is the number of boundaries that are below the step.

    Raises:
        ValueError: these are not sequences, or there is not one value more than boundaries.
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")

    def schedule(i: Step) -> Any:
        return values[jnp.sum(i > boundaries)]

    return schedule


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A number as a schedule; schedules stay.

    Raises:
        TypeError: it is neither.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))


# Gradients.


def l2_norm(tree: Any) -> Array:
    """The root of the sum of the squares of all arrays in a pytree.

    >>> import veery.numpy as jnp
    >>> l2_norm({"a": jnp.array([3.0]), "b": jnp.array(4.0)})
    Array(5., dtype=float32)
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, scaled down so that their `l2_norm` is at most max_norm."""
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# States as pytrees of JoinPoints.


class JoinPoint:
    """Marks where the tree of the parameters ends and the state of a parameter, `subtree`, begins."""

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The pytree of the parameters with a JoinPoint, around its state, for each: for files, or other libraries."""
    states = [tree_unflatten(sub, leaves) for leaves, sub in zip(opt_state.packed_state, opt_state.subtree_defs)]
    return tree_unflatten(opt_state.tree_def, [JoinPoint(state) for state in states])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """What `unpack_optimizer_state` made as the state of an optimizer.

    Raises:
        AssertionError: a leaf is no JoinPoint.
    """
    points, tree = tree_flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise AssertionError("pack_optimizer_state takes a pytree whose leaves are JoinPoints")
    flat = [tree_flatten(point.subtree) for point in points]
    return OptimizerState(tuple(leaves for leaves, _ in flat), tree, tuple(sub for _, sub in flat))


__getattr__, __dir__ = _attributes(__name__)
