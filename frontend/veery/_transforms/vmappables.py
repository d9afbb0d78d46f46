"""Types whose objects `vmap` maps over as wholes, by functions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from veery._core.avals import aval_of
from veery._core.trace import set_current_trace
from veery._transforms.batching import BatchTrace, move_batch


class Vmappable(NamedTuple):
    """How a type is mapped over: what says where its axis is, and functions to one element and back."""

    spec_type: type
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]
    make_iota: Callable[..., Any] | None


vmappables: dict[type, Vmappable] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[..., Any] | None,
) -> None:
    """Let `vmap` take objects of a type as wholes, although they may be pytrees.

    Args:
        data_type: the type.
        spec_type: the type of what `in_axes` and `out_axes` say of such objects.
        axis_size_type: the type of the size of their axes.
        to_elt: makes what the function of single elements gets. Its arguments: a function from an array and its axis to
            one element of it, a function that gives the index of the element, the object, and what `in_axes` says.
        from_elt: makes an object of what the function returns. Its arguments: a function from the size of the batch, an
            element and an axis to the batch of such elements, the size of the batch, what was returned, and what
            `out_axes` says.
        make_iota: from a size to the indices of all elements; None for those of an array.

    >>> import veery, veery.numpy as jnp
    >>> from veery.interpreters import batching
    >>> class Columns:
    ...     def __init__(self, data):
    ...         self.data, self.shape = data, data.shape
    >>> batching.register_vmappable(
    ...     Columns, int, int,
    ...     lambda cont, index, x, axis: Columns(cont(x.data, 1)),
    ...     lambda cont, size, x, axis: Columns(cont(size, x.data, 1)), None)
    >>> veery.vmap(lambda x: Columns(x.data * x.data[0]), axis_size=2)(Columns(jnp.array([[2, 3], [4, 5]]))).data
    Array([[ 4,  9],
           [ 8, 15]], dtype=int32)
    """
    vmappables[data_type] = Vmappable(spec_type, to_elt, from_elt, make_iota)


def unregister_vmappable(data_type: type) -> None:
    """Take objects of a type apart again, as other pytrees.

    Args:
        data_type: the type, which need not be registered.

    >>> from veery.interpreters import batching
    >>> batching.unregister_vmappable(dict)
    """
    vmappables.pop(data_type, None)


def is_vmappable(x: Any) -> bool:
    """Whether an object is mapped over as a whole.

    Args:
        x: anything.

    >>> from veery.interpreters import batching
    >>> batching.is_vmappable({})
    False
    """
    return type(x) in vmappables


def spec_types() -> tuple[type, ...]:
    """The types of what may be said of an axis, besides int."""
    return tuple({known.spec_type for known in vmappables.values()})


def elements(trace: BatchTrace, x: Any, spec: Any) -> Any:
    """What the function of single elements gets of an argument.

    Args:
        trace: of the vmap.
        x: a batch, or an object of a registered type.
        spec: its axis; of an object what `in_axes` says.
    """
    known = vmappables.get(type(x))
    if known is None:
        return trace.wrap(x, None if spec is None else spec % len(aval_of(x).shape))

    def index() -> Any:
        return trace.wrap((known.make_iota or np.arange)(trace.axis.size), 0)

    return known.to_elt(lambda x, spec: elements(trace, x, spec), index, x, spec)


def batches(trace: BatchTrace, x: Any, spec: Any) -> Any:
    """The batch of what the function of single elements returned, for the trace below.

    Args:
        trace: of the vmap.
        x: a value of the trace, or an object of a registered type.
        spec: where its axis goes; of an object what `out_axes` says.

    Raises:
        ValueError: it varies along the batch, and shall have no axis for it.
    """
    with set_current_trace(trace.parent):  # type: ignore[arg-type]
        known = vmappables.get(type(x))
        if known is not None:
            return known.from_elt(lambda size, x, spec: batches(trace, x, spec), trace.axis.size, x, spec)
        value, dim = trace.pair(x)
        if spec is None:
            if dim is not None:
                raise ValueError(f"vmap has mapped output, of shape {aval_of(x).shape}, but out_axes is None")
            return value
        ndim = len(aval_of(x).shape) + 1
        return move_batch(value, dim, spec % ndim, trace.axis.size, trace.axis.explicit)
