"""Vectorisation: each operation is applied to whole batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import leaks, provided, source, widths
from veery._core.avals import aval_of
from veery._core.dtypes import float0
from veery._core.jaxpr import ClosedJaxpr, NamedAxisEffect, eval_jaxpr, memoized, subjaxprs
from veery._core.primitive import Primitive
from veery._core.refs import Ref, is_ref, refuse_own
from veery._core.trace import (
    Trace,
    Tracer,
    axis_env,
    current_trace,
    extend_axis_env,
    new_trace,
    set_current_trace,
)
from veery._transforms import explicit
from veery._transforms.jvp import unzip
from veery._transforms.staging import stage

not_mapped = None


class AxisData(NamedTuple):
    """The axis that a vmap maps over; axes of a mesh divide it: `spmd_name`, those of type Explicit `explicit`."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit: tuple[Any, ...] = ()


class VmapTracer(Tracer):
    """A batch of values; `dim` is the dimension of `val` that runs over the batch."""

    __slots__ = ("val", "dim")

    def __init__(self, trace: BatchTrace, val: Any, dim: int):
        self._trace = trace
        self.val = val
        self.dim = dim

    @property
    def aval(self) -> Any:
        return unbatched_aval(aval_of(self.val), self.dim)

    def __repr__(self) -> str:
        batched = aval_of(self.val).str_short(short_dtypes=False)
        return f"VmapTracer(aval={self.aval.str_short(short_dtypes=False)}, batched={batched})"


def unbatched_aval(aval: Any, dim: int | None) -> Any:
    """The aval of one element of a batch."""
    if dim is None:
        return aval
    divided = aval.divided and explicit.without_dimension(aval, dim)
    return aval.update(shape=aval.shape[:dim] + aval.shape[dim + 1 :], divided=divided)


def batched_aval(aval: Any, dim: int | None, size: int, over: tuple[Any, ...] = ()) -> Any:
    """The aval of a batch of such elements, which Explicit axes of a mesh may divide."""
    if dim is None:
        return aval
    divided = explicit.with_dimension(aval, dim, over) if aval.divided or over else None
    return aval.update(shape=(*aval.shape[:dim], size, *aval.shape[dim:]), divided=divided)


class BatchTrace(Trace):
    """Applies batching rules, in its parent.

    `origin` is another trace of the same vmap: traces of one vmap share a tag, and take each other's tracers for their
    own. Where a function with a custom rule is run again in the trace below, it may close over them.
    """

    __slots__ = ("axis", "tag")

    def __init__(self, parent: Trace, axis: AxisData, origin: BatchTrace | None = None):
        super().__init__(parent)
        self.axis = axis
        self.tag: object = object() if origin is None else origin.tag

    def pair(self, x: Any) -> tuple[Any, int | None]:
        """Value and batch dimension (None for what is the same for the whole batch)."""
        if self.owns(x):
            return x.val, x.dim
        return x, not_mapped

    def wrap(self, val: Any, dim: int | None) -> Any:
        return val if dim is None else VmapTracer(self, val, dim)

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        vals, dims = unzip([self.pair(x) for x in args])
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            if all(d is None for d in dims) and not self._names_axis(params):
                return primitive.bind(*vals, **params)
            with widths.keeping(vals):
                out, out_dims = self._apply_rule(primitive, vals, dims, params)
        if primitive.multiple_results:
            return [self.wrap(x, d) for x, d in zip(out, out_dims, strict=True)]
        return self.wrap(out, out_dims)

    def _apply_rule(
        self, primitive: Primitive, vals: tuple[Any, ...], dims: tuple[Any, ...], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        if primitive.axis_batch is not None:
            result: tuple[Any, Any] = primitive.axis_batch(self.axis, vals, dims, **params)
        elif primitive.batch is not None:
            result = primitive.batch(vals, dims, **params)
        else:
            raise NotImplementedError(f"Batching rule for '{primitive}' not implemented")
        return result

    def _names_axis(self, params: dict[str, Any]) -> bool:
        """Whether an operation refers to this axis by name, so that it concerns it even with no batched operand."""
        if self.axis.name is None:
            return False
        names = params.get("axis_name", ())
        if self.axis.name in (names if isinstance(names, tuple) else (names,)):
            return True
        return any(NamedAxisEffect(self.axis.name) in jaxpr.effects for jaxpr in subjaxprs(params))

    def owns(self, x: Any) -> bool:
        return isinstance(x, VmapTracer) and x._trace.tag is self.tag  # type: ignore[attr-defined]

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        refuse_own(args, self, call.name)
        vals, dims = unzip([self.pair(x) for x in args])
        with set_current_trace(self.parent):  # type: ignore[arg-type]
            out, out_dims = call.apply_batch(self.axis, vals, dims, self)
        return [self.wrap(x, d) for x, d in zip(out, out_dims, strict=True)]

    apply_custom_vjp = apply_custom_jvp


@leaks.checked
def batch(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    origin: BatchTrace | None = None,
) -> tuple[list[Any], list[int | None]]:
    """Apply a flat function to batches.

    Args:
        fun: flat function of single elements.
        axis: name and size of the mapped axis.
        args: batches, or references to them.
        dims: the batch dimension of each, None for what is not mapped.
        origin: the trace of this vmap whose tracers the function may close over.

    Returns:
        The outputs, and the batch dimension of each.
    """
    trace = BatchTrace(current_trace(), axis, origin)
    refs = [i for i, (x, d) in enumerate(zip(args, dims, strict=True)) if d is not None and is_ref(x)]
    inputs = [
        trace.wrap(provided.operations.read(x) if i in refs else x, d) for i, (x, d) in enumerate(zip(args, dims))
    ]
    held = {i: Ref(unbatched_aval(aval_of(args[i]), dims[i]), trace, inputs[i]) for i in refs}
    with new_trace(trace), extend_axis_env(axis.name, axis.size), source.transformation("vmap"):
        outs = fun(*(held.get(i, x) for i, x in enumerate(inputs)))
        results, out_dims = unzip([trace.pair(x) for x in outs])
    for i, ref in held.items():
        if ref._value is not inputs[i]:
            value, dim = trace.pair(ref._value)
            provided.operations.write(args[i], move_batch(value, dim, dims[i], axis.size, axis.explicit))  # type: ignore[arg-type]
    return list(results), list(out_dims)


def move_batch(x: Any, dim: int | None, to: int, size: int, over: tuple[Any, ...] = ()) -> Any:
    """The batch with its batch dimension at `to`; what is not batched is broadcast, divided over Explicit axes."""
    if isinstance(x, np.ndarray) and x.dtype == float0:  # no device holds these
        return np.zeros((*x.shape[:to], size, *x.shape[to:]), float0) if dim is None else np.moveaxis(x, dim, to)
    if dim is None:
        shape = np.shape(x)
        dims = tuple(i for i in range(len(shape) + 1) if i != to)
        batch = provided.operations.broadcast_in_dim(x, (*shape[:to], size, *shape[to:]), dims)
        return explicit.alike(batch, batched_aval(aval_of(x), to, size, over)) if over else batch
    return x if dim == to else provided.operations.moveaxis(x, dim, to)


@memoized
def _batch_jaxpr(
    closed: ClosedJaxpr, axis: AxisData, dims: tuple[int | None, ...], out_batched: tuple[bool, ...] | None, env: Any
) -> tuple[ClosedJaxpr, tuple[int | None, ...]]:
    out_dims: tuple[int | None, ...] = ()

    def fun(*args: Any) -> list[Any]:
        nonlocal out_dims
        outs, dims_out = batch(lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), axis, args, dims)
        if out_batched is not None:
            want = [0 if b or d is not None else None for b, d in zip(out_batched, dims_out)]
            outs = [
                x if w is None else move_batch(x, d, 0, axis.size, axis.explicit)
                for x, d, w in zip(outs, dims_out, want)
            ]
            dims_out = want
        out_dims = tuple(dims_out)
        return outs

    in_avals = [batched_aval(a, d, axis.size, axis.explicit) for a, d in zip(closed.in_avals, dims, strict=True)]
    return stage(fun, in_avals, closed.debug_info), out_dims


def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: AxisData,
    dims: Sequence[int | None],
    out_batched: Sequence[bool] | None = None,
) -> tuple[ClosedJaxpr, tuple[int | None, ...]]:
    """The batched form of a jaxpr as a jaxpr.

    Args:
        closed: the jaxpr.
        axis: name and size of the mapped axis.
        dims: batch dimension of each input.
        out_batched: if given, outputs so marked are batched in any case, and all batched outputs are so at 0.

    Returns:
        The jaxpr and the batch dimension of each output.
    """
    out = None if out_batched is None else tuple(bool(b) for b in out_batched)
    result: tuple[ClosedJaxpr, tuple[int | None, ...]] = _batch_jaxpr(closed, axis, tuple(dims), out, axis_env())
    return result


def batch_size(args: Sequence[Any], dims: Sequence[int | None]) -> int:
    """The size of the batch, read off its first batched member."""
    result: int = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
    return result
