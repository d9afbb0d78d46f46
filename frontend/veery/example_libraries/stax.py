"""Layers of neural networks as pairs of functions: first parameters, and application.

    init_fun, apply_fun = serial(Dense(16), Relu, Dense(1))
    output_shape, parameters = init_fun(key, (-1, 8))
    outputs = apply_fun(parameters, inputs)

Shapes begin with the size of a batch, which may be -1 where no layer depends on it.

>>> import veery, veery.numpy as jnp
>>> from veery.example_libraries import stax
>>> init_fun, apply_fun = stax.serial(stax.Conv(4, (3, 3)), stax.Relu, stax.Flatten, stax.Dense(2), stax.LogSoftmax)
>>> shape, parameters = init_fun(veery.random.key(0), (5, 8, 8, 1))
>>> shape, apply_fun(parameters, jnp.ones((5, 8, 8, 1))).shape
((5, 2), (5, 2))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from veery import lax, nn, numpy as jnp, random
from veery.nn.initializers import glorot_normal, normal, ones, zeros

Array = Any
Layer = tuple[Callable[..., Any], Callable[..., Any]]

# Under the names that they have in stax, too.
glorot, randn, logsoftmax = glorot_normal, normal, nn.log_softmax
relu, elu, gelu, selu, leaky_relu = nn.relu, nn.elu, nn.gelu, nn.selu, nn.leaky_relu
sigmoid, softmax, log_softmax = nn.sigmoid, nn.softmax, nn.log_softmax
softplus, standardize = nn.softplus, nn.standardize


_WEIGHTS, _BIAS, _SMALL_BIAS = glorot_normal(), normal(), normal(1e-6)


def Dense(out_dim: int, W_init: Any = _WEIGHTS, b_init: Any = _BIAS) -> Layer:
    """x @ W + b, in which W is (size of the last axis, out_dim)."""

    def init_fun(rng: Array, input_shape: Sequence[int]) -> Any:
        key_w, key_b = random.split(rng)
        return (*input_shape[:-1], out_dim), (W_init(key_w, (input_shape[-1], out_dim)), b_init(key_b, (out_dim,)))

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        W, b = params
        return jnp.dot(inputs, W) + b

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: tuple[str, str, str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL_BIAS,
) -> Layer:
    """A convolution and a bias for each channel.

    Args:
        dimension_numbers: the letters of the axes of inputs, kernel and outputs, such as ("NHWC", "HWIO", "NHWC").
        out_chan: the number of channels of the outputs.
        filter_shape: the sizes of the kernel in space.
        strides: the steps in space; 1 by default.
        padding: "VALID", "SAME", or (before, after) for each axis in space.
        W_init, b_init: initializers of kernel and bias.
    """
    strides = strides or (1,) * len(filter_shape)

    def convolve(inputs: Array, W: Array) -> Array:
        return lax.conv_general_dilated(inputs, W, strides, padding, dimension_numbers=dimension_numbers)

    shape_of = lambda x, w: lax.conv_general_shape_tuple(x, w, strides, padding, dimension_numbers)
    return _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, convolve, shape_of)


def GeneralConvTranspose(
    dimension_numbers: tuple[str, str, str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL_BIAS,
) -> Layer:
    """The transpose of a convolution, whose steps make outputs larger, and a bias; see `GeneralConv`."""
    strides = strides or (1,) * len(filter_shape)

    def convolve(inputs: Array, W: Array) -> Array:
        return lax.conv_transpose(inputs, W, strides, padding, dimension_numbers=dimension_numbers)

    shape_of = lambda x, w: lax.conv_transpose_shape_tuple(x, w, strides, padding, dimension_numbers)
    return _convolution(dimension_numbers, out_chan, filter_shape, W_init, b_init, convolve, shape_of)


def _convolution(
    dimension_numbers: tuple[str, str, str],
    out_chan: int,
    filter_shape: Sequence[int],
    W_init: Any,
    b_init: Any,
    convolve: Callable[[Array, Array], Array],
    shape_of: Callable[[Any, Any], Any],
) -> Layer:
    inputs_are, kernel_is, outputs_are = dimension_numbers
    W_init = W_init or glorot_normal(kernel_is.index("I"), kernel_is.index("O"))

    def init_fun(rng: Array, input_shape: Sequence[int]) -> Any:
        in_space = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[inputs_are.index("C")]}
        kernel_shape = [channels[c] if c in channels else next(in_space) for c in kernel_is]
        bias_shape = [out_chan if c == "C" else 1 for c in outputs_are]
        key_w, key_b = random.split(rng)
        output_shape = tuple(map(int, shape_of(input_shape, kernel_shape)))
        return output_shape, (W_init(key_w, kernel_shape), b_init(key_b, bias_shape))

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Inputs with mean 0 and variance 1 over `axis`, times gamma (with `scale`) plus beta (with `center`)."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Array, input_shape: Sequence[int]) -> Any:
        shape = tuple(size for i, size in enumerate(input_shape) if i not in axes)
        key_beta, key_gamma = random.split(rng)
        beta = beta_init(key_beta, shape) if center else ()
        gamma = gamma_init(key_gamma, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Array, **kwargs: Any) -> Array:
        beta, gamma = params
        along = tuple(None if i in axes else slice(None) for i in range(jnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            z = gamma[along] * z
        return z + beta[along] if center else z

    return init_fun, apply_fun


# Functions of each element, or along the last axis.


def elementwise(fun: Callable[..., Array], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that keeps shapes."""
    return lambda rng, input_shape: (input_shape, ()), lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = elementwise(lambda x: x)


# Windows.


def MaxPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The largest element of each window.

    Args:
        window_shape: the sizes in space.
        strides: the steps in space; 1 by default.
        padding: as of `GeneralConv`.
        spec: the letters of the axes, among them N and C; by default they are the first and the last.
    """
    return _pooling(lax.max, -jnp.inf, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The sum of each window; see `MaxPool`."""
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The mean of each window, without its padding; see `MaxPool`."""
    return _pooling(lax.add, 0.0, window_shape, strides, padding, spec, mean=True)


def _pooling(
    reducer: Any, init_val: Any, window_shape: Any, strides: Any, padding: Any, spec: Any, mean: bool = False
) -> Layer:
    strides = strides or (1,) * len(window_shape)
    others = (0, len(window_shape) + 1) if spec is None else sorted((spec.index("N"), spec.index("C")))
    whole = lambda sizes: functools.reduce(lambda found, i: (*found[:i], 1, *found[i:]), others, tuple(sizes))
    window, steps = whole(window_shape), whole(strides)

    def init_fun(rng: Array, input_shape: Sequence[int]) -> Any:
        pads = lax.padtype_to_pads(input_shape, window, steps, padding)
        no_dilation = (1,) * len(window)
        shape = lax.reduce_window_shape_tuple(tuple(input_shape), window, steps, pads, no_dilation, no_dilation)
        return tuple(shape), ()

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        out = lax.reduce_window(inputs, init_val, reducer, window, steps, padding)
        if not mean:
            return out
        in_space = tuple(1 if i in others else size for i, size in enumerate(inputs.shape))
        return out / lax.reduce_window(jnp.ones(in_space, inputs.dtype), 0.0, lax.add, window, steps, padding)

    return init_fun, apply_fun


# Shapes, several inputs, chance.


def _flatten() -> Layer:
    init_fun = lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ())
    return init_fun, lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1))


Flatten = _flatten()


def FanOut(num: int) -> Layer:
    """The inputs, so many times."""
    return lambda rng, input_shape: ([input_shape] * num, ()), lambda params, inputs, **kwargs: [inputs] * num


def _fan_in_sum() -> Layer:
    return lambda rng, input_shape: (input_shape[0], ()), lambda params, inputs, **kwargs: sum(inputs)


FanInSum = _fan_in_sum()


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs, joined along an axis."""

    def init_fun(rng: Array, input_shape: Sequence[Sequence[int]]) -> Any:
        at = axis % len(input_shape[0])
        size = sum(shape[at] for shape in input_shape)
        return (*input_shape[0][:at], size, *input_shape[0][at + 1 :]), ()

    return init_fun, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Each element with probability `rate`, divided by it, else 0; in another mode than "train" the inputs.

    The application needs a key: `apply_fun(params, inputs, rng=key)`.
    """

    def apply_fun(params: Any, inputs: Array, **kwargs: Any) -> Array:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument. That is, instead of "
                "`apply_fun(params, inputs)`, call it like `apply_fun(params, inputs, rng)` where `rng` is a PRNG key "
                "(e.g. from `jax.random.key`)."
            )
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun


def serial(*layers: Layer) -> Layer:
    """Layers one after the other."""

    def init_fun(rng: Array, input_shape: Any) -> Any:
        params = []
        for init, _ in layers:
            rng, key = random.split(rng)
            input_shape, param = init(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        for (_, apply), param, rng in zip(layers, params, _keys(kwargs.pop("rng", None), len(layers))):
            inputs = apply(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: each takes an element of a list of inputs, as `FanOut` makes them."""

    def init_fun(rng: Array, input_shape: Sequence[Any]) -> Any:
        keys = random.split(rng, len(layers))
        made = [init(key, shape) for (init, _), key, shape in zip(layers, keys, input_shape)]
        return [shape for shape, _ in made], tuple(param for _, param in made)

    def apply_fun(params: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [apply(p, x, rng=key, **kwargs) for (_, apply), p, x, key in zip(layers, params, inputs, keys)]

    return init_fun, apply_fun


def _keys(rng: Array | None, count: int) -> Sequence[Any]:
    return (None,) * count if rng is None else random.split(rng, count)


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that `make_layer` gives for a shape of inputs."""
    init_fun = lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape)
    return init_fun, lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs)
