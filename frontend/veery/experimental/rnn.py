"""LSTM networks over several layers and in both directions, with weights in the layout of cuDNN.

The weights are one vector: for each layer and direction W_ih (4 H, inputs) and W_hh (4 H, H), and behind them all, for
each layer and direction, b_ih and b_hh (4 H each). The four blocks of rows are the gates: input, forget, cell, output.
The operations are veery's own on every device, so that all transformations apply. `lstm` calls no library of a vendor.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from veery import lax, nn, numpy as jnp, random
from veery._api.jit import jit
from veery._core.absent import attributes as _attributes
from veery._core.dtypes import canonicalize_dtype

Array = Any
PRNGKeyArray = Any
sigmoid, tanh = nn.sigmoid, jnp.tanh
_GATES = 4


def _input_sizes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[int]:
    """The size of what each layer and direction gets."""
    directions = 2 if bidirectional else 1
    later = [hidden_size * directions] * (num_layers - 1)
    return [size for size in (input_size, *later) for _ in range(directions)]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """The shapes of the parts of the vector of weights, in their order."""
    rows = _GATES * hidden_size
    sizes = _input_sizes(input_size, hidden_size, num_layers, bidirectional)
    matrices = [shape for size in sizes for shape in ((rows, size), (rows, hidden_size))]
    return [*matrices, *[(rows,)] * (2 * len(sizes))]


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """The length of the vector of weights.

    >>> get_num_params_in_lstm(3, 2, 2, False)
    104
    """
    return sum(map(math.prod, _shapes(input_size, hidden_size, num_layers, bidirectional)))


def init_lstm_weight(rng: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """Weights uniform between -1 / √H and 1 / √H."""
    size = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    most = math.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (size,), canonicalize_dtype(float), -most, most)


def _parts(weights: Array, *sizes: Any) -> list[Array]:
    parts, start = [], 0
    for shape in _shapes(*sizes):
        end = start + math.prod(shape)
        parts.append(jnp.reshape(weights[start:end], shape))
        start = end
    return parts


def unpack_lstm_weights(
    weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Array], dict[int, Array], dict[int, Array], dict[int, Array]]:
    """The vector of weights as W_ih, W_hh, b_ih, b_hh.

    Each is a dictionary whose key counts layers and, within them, directions.
    """
    parts = _parts(weights, input_size, hidden_size, num_layers, bidirectional)
    matrices, biases = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    numbered = lambda arrays: dict(enumerate(arrays))
    return numbered(matrices[::2]), numbered(matrices[1::2]), numbered(biases[::2]), numbered(biases[1::2])


def swap_lstm_gates(weights: Array, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Array:
    """The vector of weights with the rows of the cell and the output gate exchanged, as other libraries have them."""

    def swapped(part: Array) -> Array:
        input_, forget, cell, output = jnp.split(part, _GATES)
        return jnp.concatenate([input_, forget, output, cell]).reshape(-1)

    return jnp.concatenate(
        [swapped(part) for part in _parts(weights, input_size, hidden_size, num_layers, bidirectional)]
    )


def lstm(
    x: Array, h_0: Array, c_0: Array, weights: Array, seq_lengths: Array, input_size: int, hidden_size: int,
    num_layers: int, dropout: float, bidirectional: bool, precision: Any = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """An LSTM network over sequences of different lengths.

    Args:
        x: the inputs (batch, time, input_size).
        h_0, c_0: the first states (layers * directions, batch, hidden_size).
        weights: the vector of weights; see `init_lstm_weight`.
        seq_lengths: how many steps of each sequence count (batch,).
        input_size, hidden_size, num_layers: sizes.
        dropout: must be 0.
        bidirectional: whether a second network reads the sequences from their ends.
        precision: of the products; accepted for compatibility.

    Returns:
        The outputs (batch, time, directions * hidden_size), 0 behind the ends of sequences, and the last states.

    Raises:
        NotImplementedError: with dropout, whose mask only cuDNN knows.

    >>> import veery, veery.numpy as jnp
    >>> weights = init_lstm_weight(veery.random.key(0), 3, 4, 1, True)
    >>> h = c = jnp.zeros((2, 5, 4))
    >>> y, h, c = lstm(jnp.ones((5, 7, 3)), h, c, weights, jnp.full(5, 6), 3, 4, 1, 0.0, True)
    >>> y.shape, h.shape
    ((5, 7, 8), (2, 5, 4))
    """
    sizes = input_size, hidden_size, num_layers, bidirectional
    parts = unpack_lstm_weights(weights, *sizes)
    return lstm_ref(x, h_0, c_0, *parts, seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional)


@functools.partial(jit, static_argnums=(8, 9, 10, 11, 12))
def lstm_ref(
    x: Array, h_0: Array, c_0: Array, W_ih: dict[int, Array], W_hh: dict[int, Array], b_ih: dict[int, Array],
    b_hh: dict[int, Array], seq_lengths: Array, input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """`lstm` with its weights apart, as `unpack_lstm_weights` gives them."""
    if dropout > 0:
        raise NotImplementedError(
            "Dropout not supported in LSTM reference because we cannot determine CUDNN dropout mask. Apply dropout to "
            "the outputs of one layer, and call lstm for each."
        )
    directions = 2 if bidirectional else 1
    outputs = jnp.swapaxes(x, 0, 1)
    counted = jnp.arange(x.shape[1])[:, None] < seq_lengths[None]
    last_h, last_c = [], []
    for layer in range(num_layers):
        found = []
        for direction in range(directions):
            k = layer * directions + direction
            gates = functools.partial(_step, W_ih[k], W_hh[k], b_ih[k] + b_hh[k])
            y, (h, c) = _directed(gates, outputs, h_0[k], c_0[k], counted, reverse=direction == 1)
            found.append(y)
            last_h.append(h)
            last_c.append(c)
        outputs = jnp.concatenate(found, axis=-1)
    return jnp.swapaxes(outputs, 0, 1), jnp.stack(last_h), jnp.stack(last_c)


def _step(W_ih: Array, W_hh: Array, bias: Array, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    input_, forget, cell, output = jnp.split(x @ W_ih.T + h @ W_hh.T + bias, _GATES, axis=-1)
    c = sigmoid(forget) * c + sigmoid(input_) * tanh(cell)
    return sigmoid(output) * tanh(c), c


def _directed(gates: Any, xs: Array, h: Array, c: Array, counted: Array, reverse: bool) -> tuple[Array, Any]:
    """A layer in one direction; beyond the end of its sequence a state stays. Read from the end, it begins there."""

    def body(state: Any, step: Any) -> Any:
        x, counts = step
        new = gates(x, *state)
        state = tuple(jnp.where(counts[:, None], after, before) for after, before in zip(new, state))
        return state, jnp.where(counts[:, None], new[0], 0.0)

    state, ys = lax.scan(body, (h, c), (xs, counted), reverse=reverse)
    return ys, state


__getattr__, __dir__ = _attributes(__name__)
