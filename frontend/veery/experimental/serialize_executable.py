"""Compiled functions as bytes: to be loaded by another process, without being traced or compiled again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery import stages
from veery._api import serialized as _serialized


def serialize(compiled: stages.Compiled) -> tuple[bytes, Any, Any]:
    """A compiled function as bytes.

    What it closes over is in them. A program of IREE that calls NumPy is compiled again, to do without.

    Args:
        compiled: what `jit(f).lower(...).compile()` gave.

    Returns:
        The bytes, the structure of (args, kwargs) and that of the result: these are for the caller to keep, for types
        of the user's are in them (both can be pickled).

    Raises:
        ValueError: it is for several devices, has symbolic shapes, or writes to references.
        LoweringError: it calls Python functions (callbacks).

    >>> import veery, veery.numpy as jnp
    >>> compiled = veery.jit(lambda x: 2 * x).lower(jnp.ones(3)).compile()
    >>> deserialize_and_load(*serialize(compiled))(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    return _serialized.serialize(compiled)


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> stages.Compiled:
    """The compiled function that was serialized, loaded on a device.

    The bytes hold a pickle and machine code: load only what you trust.

    Args:
        serialized, in_tree, out_tree: what `serialize` gave.
        backend: a platform, or a client of devices; by default the platform that the function was compiled for.
        execution_devices: where to load, on the first of them.

    Raises:
        ValueError: the bytes are something else (also a pickle.UnpicklingError), or the device is of another platform.
        veery_runtime.ArtifactError: another version of IREE compiled the program, or the CPU is another one.
    """
    return _serialized.deserialize_and_load(serialized, in_tree, out_tree, backend, execution_devices)
