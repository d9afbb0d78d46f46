"""A generator of random numbers that keeps its state, in a reference."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery import numpy as jnp, random
from veery._core import dtypes
from veery._core.refs import is_ref
from veery._core.trace import trace_state_clean
from veery._core.tree_registry import register_dataclass
from veery.lax._refs import new_ref

Array = Any  # an Array or a tracer
Size = Any  # an integer, several, or None for the shape of the arguments


def _shape(size: Size, *arguments: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*map(np.shape, arguments))
    return tuple(map(operator.index, size)) if isinstance(size, Sequence) else (operator.index(size),)


@register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A generator made by `stateful_rng`: each draw is of the next key, which the number of draws is folded into.

    It may be an argument of functions under `jit` and `vmap` and be closed over by them; they cannot return it.
    """

    _base_key: Array
    _counter: Any

    def __post_init__(self) -> None:
        if not isinstance(getattr(self._base_key, "dtype", None), dtypes.KeyDType):
            raise ValueError(f"Expected base_key to be a typed PRNG key; got {self._base_key}")
        if not is_ref(self._counter):
            raise ValueError(f"Expected counter to be a scalar integer ref; got {self._counter}")

    def key(self, shape: Any = ()) -> Array:
        """The next key, or an array of keys.

        Raises:
            ValueError: this is what `split` made, of which `vmap` gives the generators.
        """
        if np.shape(self._base_key):
            raise ValueError("cannot operate on split stateful generator: it is for vmap")
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        wanted = _shape(shape)
        return random.split(key, wanted) if wanted else key

    def random(self, size: Size = None, dtype: Any = float) -> Array:
        """Floats in [0, 1)."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float) -> Array:
        """Floats in [low, high)."""
        return random.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float) -> Array:
        """Normal floats of a mean and a standard deviation."""
        sample = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return (jnp.asarray(loc) + jnp.asarray(scale) * sample).astype(dtype)

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Array:
        """Integers in [low, high), or in [0, low) without `high`."""
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: Any) -> StatefulPRNG:
        """As many generators in one, of which `vmap` gives one to each call.

        >>> import veery, veery.numpy as jnp
        >>> rng = stateful_rng(123)
        >>> veery.vmap(lambda rng, x: x + rng.uniform())(rng.split(3), jnp.zeros(3))
        Array([0.35525954, 0.21937883, 0.5336956 ], dtype=float32)
        """
        return StatefulPRNG(self.key(num), new_ref(jnp.zeros(_shape(num), int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of so many generators."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator of random numbers with a state of its own.

    Args:
        seed: an integer; None for one that nobody knows, outside of functions that are traced.
        impl: the generator of the keys, as of `veery.random.key`.

    Raises:
        TypeError: there is no seed, and a function is being traced.

    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if not trace_state_clean():
            raise TypeError(
                "When used within transformed code, jax.experimental.random.stateful_rng() requires an explicit seed "
                "to be set."
            )
        entropy: Any = np.random.SeedSequence().entropy
        seed = np.int64(entropy & np.iinfo(np.int64).max)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
