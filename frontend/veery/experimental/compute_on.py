"""Where parts of programs compute: hints, which have no effect, since a program runs on one device as a whole."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from veery._api.placement import device_put
from veery._core import tree
from veery._core.absent import attributes as _attributes

_KINDS = ("device_host", "device", "tpu_sparsecore")


def _check(compute_type: Any) -> None:
    if not isinstance(compute_type, str):
        raise TypeError("`compute_on`'s compute_type argument must be a string.")
    if compute_type not in _KINDS and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"Invalid compute type {compute_type}. Current supported values are `device_host`, `device`, "
            "`tpu_sparsecore`, and `gpu_stream:#`."
        )


@contextlib.contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """Say where operations are to compute. All do on the device of their program; a CPU device is the host itself.

    Args:
        compute_type: "device_host", "device", "tpu_sparsecore" or "gpu_stream:" and a number.

    Raises:
        TypeError: it is no text.
        ValueError: there is no such place.

    >>> import veery.numpy as jnp
    >>> with compute_on("device_host"):
    ...     jnp.arange(2) + 1
    Array([1, 2], dtype=int32)
    """
    _check(compute_type)
    yield


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A function that is to compute somewhere, and the memories that its results are in.

    Args:
        f: the function, of positional arguments; without it a decorator is returned.
        compute_type: as for `compute_on`; it has no effect.
        out_memory_spaces: a `veery.memory.Space` for all results, or a pytree prefix of them.
        compiler_options: of XLA; they have no effect.

    Raises:
        TypeError: the compute type is no text.
        ValueError: there is no such place, or the memories are no prefix of the results.

    >>> import veery, veery.numpy as jnp
    >>> twice = compute_on2(lambda x: 2 * x, compute_type="device_host", out_memory_spaces=veery.memory.Space.Host)
    >>> veery.jit(twice)(jnp.arange(2)).sharding.memory_kind
    'pinned_host'
    """
    if f is None:
        options = dict(
            compute_type=compute_type, out_memory_spaces=out_memory_spaces, compiler_options=compiler_options
        )
        return lambda g: compute_on2(g, **options)
    _check(compute_type)

    @functools.wraps(f)
    def computing(*args: Any) -> Any:
        leaves, treedef = tree.tree_flatten(f(*args))
        spaces = tree.flatten_axes("compute_on out_memory_spaces", treedef, out_memory_spaces)
        return tree.tree_unflatten(treedef, [device_put(x, space) for x, space in zip(leaves, spaces)])

    return computing


__getattr__, __dir__ = _attributes(__name__)
