"""Cases of `example_libraries`."""

from __future__ import annotations

import functools

import numpy as np
from support.recorded import module

OPTIMIZERS = {
    "sgd": lambda o: o.sgd(0.1),
    "sgd with a schedule": lambda o: o.sgd(o.exponential_decay(0.1, 3, 0.5)),
    "momentum": lambda o: o.momentum(0.1, 0.8),
    "nesterov": lambda o: o.nesterov(0.1, 0.8),
    "adagrad": lambda o: o.adagrad(0.1),
    "rmsprop": lambda o: o.rmsprop(0.1),
    "rmsprop_momentum": lambda o: o.rmsprop_momentum(0.01, eps=1e-4),
    "adam": lambda o: o.adam(0.1, b2=0.99),
    "adamax": lambda o: o.adamax(o.piecewise_constant([1, 3], [0.3, 0.2, 0.1])),
    "sm3": lambda o: o.sm3(0.1, momentum=0.5),
}


def trajectory(make, jax):
    """Four steps on a function of parameters in float32 and float16, one of which has no gradient at first."""
    jnp = jax.numpy
    init, update, get = make(module(jax, "example_libraries.optimizers"))
    params = {"a": jnp.array([[1.0, -2.0, 0.0], [0.5, 0.25, 3.0]]), "b": [jnp.array([1.5, -0.5], jnp.float16)]}
    state = init(params)
    states = []
    for i in range(4):
        grads = jax.tree_util.tree_map(lambda x: x * (1 + i), get(state))  # noqa: B023
        state = update(i, grads, state)
        states.append(state)
    return states, get(state)


def optimizers(function):
    return lambda jax: function(module(jax, "example_libraries.optimizers"), jax)


def schedules(o, jax):
    jnp = jax.numpy
    made = [
        o.constant(0.5),
        o.exponential_decay(1.0, 4, 0.5),
        o.inverse_time_decay(1.0, 4, 0.5),
        o.inverse_time_decay(1.0, 4, 0.5, staircase=True),
        o.polynomial_decay(1.0, 4, 0.1),
        o.polynomial_decay(1.0, 4, 0.1, power=2.0),
        o.piecewise_constant([2, 4], [1.0, 0.5, 0.1]),
        o.make_schedule(3),
    ]
    return [[schedule(i) for i in (0, 1, 3, 4, 9, jnp.int32(2))] for schedule in made]


def packing(o, jax):
    state = o.adam(0.1).init_fn({"a": jax.numpy.ones(2), "b": [jax.numpy.ones(3)]})
    marked = o.unpack_optimizer_state(state)
    return o.pack_optimizer_state(marked), [leaf.subtree for leaf in jax.tree_util.tree_leaves(marked)]


def changed_structure(o, jax):
    bad = o.optimizer(lambda: (lambda x: (x,), lambda i, g, s: (s[0], s[0]), lambda s: s[0]))()
    return bad.update_fn(0, jax.numpy.ones(2), bad.init_fn(jax.numpy.ones(2)))


def number(o, jax):
    init, update, get = o.sm3(0.1)
    state = update(0, jax.numpy.ones(()), init(jax.numpy.float32(2.0)))
    return state, get(state)


LAYERS = {
    "Dense": (lambda s: s.Dense(3), (-1, 4), (2, 4)),
    "Conv": (lambda s: s.Conv(4, (3, 2), (2, 1), "SAME"), (-1, 7, 6, 2), (2, 7, 6, 2)),
    "Conv with padding": (lambda s: s.Conv(2, (3, 3), padding=((1, 0), (2, 1))), (1, 5, 5, 2), None),
    "GeneralConv": (lambda s: s.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (3, 3)), (2, 3, 7, 7), None),
    "ConvTranspose": (lambda s: s.ConvTranspose(4, (3, 3), (2, 2), "SAME"), (-1, 5, 5, 2), (2, 5, 5, 2)),
    "Conv1DTranspose": (lambda s: s.Conv1DTranspose(4, (3,), (2,), "VALID"), (2, 7, 3), None),
    "BatchNorm": (lambda s: s.BatchNorm(), (2, 3, 4, 5), None),
    "BatchNorm without beta": (lambda s: s.BatchNorm(axis=(0, 2), center=False), (2, 3, 4, 5), None),
    "BatchNorm without gamma": (lambda s: s.BatchNorm(axis=0, scale=False), (4, 3), None),
    "BatchNorm alone": (lambda s: s.BatchNorm(axis=0, scale=False, center=False), (4, 3), None),
    "MaxPool": (lambda s: s.MaxPool((2, 2), (2, 2), "SAME"), (3, 5, 5, 2), None),
    "SumPool": (lambda s: s.SumPool((2, 3), spec="HWCN"), (5, 5, 2, 3), None),
    "AvgPool": (lambda s: s.AvgPool((2, 3), padding="SAME", spec="NCHW"), (2, 3, 5, 4), None),
    "AvgPool in strides": (lambda s: s.AvgPool((2, 2), (2, 2)), (2, 5, 6, 3), None),
    "Flatten": (lambda s: s.Flatten, (2, 3, 4), None),
    "FanOut and FanInSum": (lambda s: s.serial(s.FanOut(3), s.FanInSum), (2, 3), None),
    "FanInConcat": (
        lambda s: s.serial(s.FanOut(2), s.parallel(s.Dense(2), s.serial(s.Dense(3), s.Tanh)), s.FanInConcat()),
        (2, 3),
        None,
    ),
    "shape_dependent": (lambda s: s.shape_dependent(lambda shape: s.Dense(shape[-1] + 1)), (2, 3), None),
    "Dropout": (lambda s: s.serial(s.Dropout(0.6), s.Identity, s.Dropout(0.5)), (20, 3), None),
    "Dropout of another mode": (lambda s: s.Dropout(0.6, mode="test"), (2, 3), None),
    **{
        name: (lambda s, name=name: getattr(s, name), (3, 4), None)
        for name in "Tanh Relu Exp LogSoftmax Softmax Softplus Sigmoid Elu LeakyRelu Selu Gelu Identity".split()
    },
}


def layer(make, shape, inputs, jax):
    init, apply = make(module(jax, "example_libraries.stax"))
    out_shape, params = init(jax.random.PRNGKey(3), shape)
    x = np.random.default_rng(0).normal(size=inputs or shape).astype(np.float32)
    return [int(n) for n in out_shape], params, apply(params, x, rng=jax.random.PRNGKey(4))


CASES = {
    **{name: functools.partial(trajectory, make) for name, make in OPTIMIZERS.items()},
    "adam under jit": lambda jax: jax.jit(lambda: trajectory(OPTIMIZERS["adam"], jax))(),
    "sm3 of a number": optimizers(number),
    "schedules": optimizers(schedules),
    "packing": optimizers(packing),
    "packing other things": optimizers(lambda o, jax: o.pack_optimizer_state({"a": 3})),
    "clip_grads": optimizers(lambda o, jax: [o.clip_grads({"a": jax.numpy.ones(3)}, norm) for norm in (0.1, 10.0)]),
    "l2_norm": optimizers(lambda o, jax: o.l2_norm({"a": jax.numpy.ones(3), "b": [jax.numpy.float32(2)]})),
    "a schedule of several numbers": optimizers(lambda o, jax: o.make_schedule(jax.numpy.ones(3))),
    "boundaries of another length": optimizers(lambda o, jax: o.piecewise_constant([1, 2], [1.0, 2.0])),
    "boundaries of two axes": optimizers(lambda o, jax: o.piecewise_constant([[1]], [1.0, 2.0])),
    "another tree": optimizers(lambda o, jax: o.sgd(0.1).update_fn(0, (1.0, 2.0), o.sgd(0.1).init_fn(1.0))),
    "a state of another structure": optimizers(changed_structure),
    **{f"stax.{name}": functools.partial(layer, *fields) for name, fields in LAYERS.items()},
    "stax.Dropout without a key": lambda jax: module(jax, "example_libraries.stax").Dropout(0.5)[1]((), np.ones(3)),
}
