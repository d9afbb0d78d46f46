"""`shard_map` as a primitive: one program on the devices of a mesh, each of which has its part of the arrays.

With `check_vma` it is known of each value along which axes of the mesh it varies (see `_transforms.varying`), so that
derivatives need nothing beside those of the program. Without it they follow those of `pmap`: what all devices share
receives the sum of their cotangents, and what all return alike hands each its share.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from veery._core import provided
from veery._core.ad import Zero, is_undefined_primal
from veery._core.avals import aval_of, explicit_part
from veery._core.jaxpr import ClosedJaxpr, NamedAxisEffect, eval_jaxpr, memoized
from veery._core.mesh import AbstractMesh, AxisType, Mesh, context, using
from veery._core.partition_spec import PartitionSpec, axes_in, axes_of
from veery._core.primitive import Primitive
from veery._core.sharding import NamedSharding
from veery._core.trace import extend_axis_env
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import linearize_jaxpr
from veery._transforms.staging import stage
from veery._transforms.transpose import transpose_jaxpr
from veery._transforms.varying import in_order
from veery.lax import _arithmetic, _parallel, _shape, _slicing

Specs = tuple[PartitionSpec, ...]
Names = tuple[Any, ...]  # of the axes that the program is written for one position of


@contextlib.contextmanager
def inside(mesh: Mesh | AbstractMesh, manual: Names, check_vma: bool) -> Iterator[None]:
    """The context in which a device's program is traced."""
    outer = context()
    around = outer.abstract if outer.abstract and outer.abstract.manual_axes else mesh.abstract_mesh
    abstract = around.update_axis_types({name: AxisType.Manual for name in manual})
    tracked = (*outer.tracked, *(manual if check_vma else ()))
    with contextlib.ExitStack() as stack:
        stack.enter_context(using(abstract=abstract, tracked=tracked))
        for name in manual:
            stack.enter_context(extend_axis_env(name, mesh.shape[name]))
        yield


def divided(aval: Any, spec: PartitionSpec, mesh: Any, check_vma: bool) -> Any:
    """The type of a device's part of an array."""
    sizes = mesh.shape
    counts = [math.prod(sizes[axis] for axis in axes_of(entry)) for entry in spec]
    counts += [1] * (aval.ndim - len(counts))
    shape = tuple(size if count == 1 else size // count for size, count in zip(aval.shape, counts))
    varying = aval.varying | frozenset(axes_in(spec)) if check_vma else aval.varying
    return aval.update(shape=shape, varying=varying)  # of the other axes of the mesh types do not tell


def assembled(aval: Any, spec: PartitionSpec, mesh: Any, manual: Names) -> Any:
    """The type of an array of which each device has such a part."""
    sizes = mesh.shape
    counts = [math.prod(sizes[axis] for axis in axes_of(entry)) for entry in spec]
    counts += [1] * (aval.ndim - len(counts))
    shape = tuple(size if count == 1 else size * count for size, count in zip(aval.shape, counts))
    divided = explicit_part(NamedSharding(mesh, spec), aval.ndim)
    return aval.update(shape=shape, varying=aval.varying - frozenset(manual), divided=divided)


def _abstract_eval(
    *avals: Any, jaxpr: ClosedJaxpr, mesh: Any, out_specs: Specs, manual_axes: Names, **_: Any
) -> list[Any]:
    return [assembled(a, spec, mesh, manual_axes) for a, spec in zip(jaxpr.out_avals, out_specs, strict=True)]


def _impl(*args: Any, **params: Any) -> list[Any]:
    return provided.distribution.execute_on_mesh(*args, **params)


def _inside(params: dict[str, Any]) -> Any:
    return inside(params["mesh"], params["manual_axes"], params["check_vma"])


# Derivatives.


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list, list]:
    nonzeros = tuple(type(t) is not Zero for t in tangents)
    with _inside(params):
        both, nonzeros_out = jvp_jaxpr(jaxpr, nonzeros)
    results = shard_map_p.bind(
        *primals,
        *(t for t in tangents if type(t) is not Zero),
        jaxpr=both,
        in_specs=(*in_specs, *(s for s, nz in zip(in_specs, nonzeros) if nz)),
        out_specs=(*out_specs, *(s for s, nz in zip(out_specs, nonzeros_out) if nz)),
        **params,
    )
    outs, out_tangents = results[: len(out_specs)], iter(results[len(out_specs) :])
    return outs, [next(out_tangents) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


@memoized
def _with_leading_axis(closed: ClosedJaxpr, first: int) -> ClosedJaxpr:
    """The jaxpr with a leading axis of size 1 on the outputs from `first` on: along it those of all devices go."""

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        return [*outs[:first], *(_shape.expand_dims(x, (0,)) for x in outs[first:])]

    return stage(fun, closed.in_avals, closed.debug_info)


@memoized
def _taking_leading_axis(closed: ClosedJaxpr, which: tuple[bool, ...]) -> ClosedJaxpr:
    """The jaxpr for inputs of which these have a leading axis of size 1."""

    def fun(*args: Any) -> list[Any]:
        args = tuple(_shape.squeeze(x, (0,)) if flag else x for x, flag in zip(args, which))
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    with_axis = [a.update(shape=(1, *a.shape)) if flag else a for a, flag in zip(closed.in_avals, which)]
    return stage(fun, with_axis, closed.debug_info)


def _linearize(
    nonzeros: tuple[bool, ...],
    *primals: Any,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    manual_axes: Names,
    check_vma: bool,
    **params: Any,
) -> tuple:
    params = dict(params, manual_axes=manual_axes, check_vma=check_vma)
    n = len(out_specs)
    with _inside(params):
        split = linearize_jaxpr(jaxpr, nonzeros)
        axes = lambda aval: in_order(aval.varying.intersection(manual_axes)) if check_vma else manual_axes
        all_specs = (*out_specs, *(PartitionSpec(axes(aval)) for aval in split.primal.out_avals[n:]))
        primal = _with_leading_axis(split.primal, n)
        is_extra = [kind == "out" and i >= n for kind, i in split.sources]
        linear_in = (*is_extra, *[False] * (len(split.linear.in_avals) - len(is_extra)))
        linear_jaxpr = _taking_leading_axis(split.linear, linear_in)
    results = shard_map_p.bind(*primals, jaxpr=primal, in_specs=in_specs, out_specs=all_specs, **params)
    residual_specs = tuple(in_specs[i] if kind == "in" else all_specs[i] for kind, i in split.sources)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        return shard_map_p.bind(
            *residuals,
            *tangents,
            jaxpr=linear_jaxpr,
            in_specs=(*residual_specs, *(s for s, nz in zip(in_specs, nonzeros) if nz)),
            out_specs=tuple(s for s, nz in zip(out_specs, split.nonzeros_out) if nz),
            **params,
        )

    return results[:n], split.nonzeros_out, split.residuals(primals, results), linear


@memoized
def _summed(closed: ClosedJaxpr, specs: Specs, manual: Names, check_vma: bool) -> ClosedJaxpr:
    """The jaxpr with its outputs summed over the axes that their specs do not name, where they vary along them."""

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        summed = []
        for x, spec in zip(outs, specs):
            others = [name for name in manual if name not in axes_in(spec)]
            if check_vma:
                others = [name for name in others if name in aval_of(x).varying]
            summed.append(_parallel.reduce_axes("psum", x, tuple(others)))
        return summed

    return stage(fun, closed.in_avals, closed.debug_info)


def _transpose(
    cts: Sequence[Any],
    *operands: Any,
    jaxpr: ClosedJaxpr,
    mesh: Any,
    in_specs: Specs,
    out_specs: Specs,
    manual_axes: Names,
    check_vma: bool,
) -> list[Any]:
    params = dict(mesh=mesh, manual_axes=manual_axes, check_vma=check_vma)
    linear = tuple(map(is_undefined_primal, operands))
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    with _inside(params):
        transposed, nonzeros = transpose_jaxpr(jaxpr, linear, nonzero)
        flags = iter(nonzeros)
        specs = tuple(s for s, lin in zip(in_specs, linear) if lin and next(flags))
        transposed = _summed(transposed, specs, manual_axes, check_vma)
    known = [x for x, lin in zip(operands, linear) if not lin]
    given = [
        ct if check_vma else _share(ct, spec, mesh, manual_axes) for ct, spec, nz in zip(cts, out_specs, nonzero) if nz
    ]
    given_specs = (
        *(s for s, lin in zip(in_specs, linear) if not lin),
        *(s for s, nz in zip(out_specs, nonzero) if nz),
    )
    results = iter(shard_map_p.bind(*known, *given, jaxpr=transposed, in_specs=given_specs, out_specs=specs, **params))
    flags = iter(nonzeros)
    return [
        None if not lin else next(results) if next(flags) else Zero(x.aval.to_tangent_aval())
        for x, lin in zip(operands, linear)
    ]


def _share(ct: Any, spec: PartitionSpec, mesh: Any, manual: Names) -> Any:
    """What of the cotangent of an output each device gets: its share along the axes on which all return the same."""
    count = math.prod(mesh.shape[name] for name in manual if name not in axes_in(spec))
    return ct if count == 1 else _arithmetic.div(ct, np.asarray(count, aval_of(ct).dtype)[()])


# Batching.


def _batch(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    in_specs: Specs,
    out_specs: Specs,
    **params: Any,
) -> tuple[list, list]:
    args = [x if d is None else move_batch(x, d, 0, axis.size) for x, d in zip(args, dims)]
    over, size = _spread(axis, params)
    with _inside(params):
        inner = [None if d is None else 0 for d in dims]
        batched, out_dims = batch_jaxpr(jaxpr, AxisData(axis.name, size), inner, (False,) * len(out_specs))
    behind = lambda spec, d: spec if d is None else spec.update(partitions=(over, *spec.partitions))
    outs = shard_map_p.bind(
        *args,
        jaxpr=batched,
        in_specs=tuple(map(behind, in_specs, dims)),
        out_specs=tuple(map(behind, out_specs, out_dims)),
        **params,
    )
    return outs, list(out_dims)


def _spread(axis: AxisData, params: dict[str, Any]) -> tuple[Any, int]:
    """The mesh axes that divide the batch, and how much of it each device has."""
    over = axes_of(axis.spmd_name)
    if not over or not frozenset(over) <= frozenset(params["manual_axes"]):
        return None, axis.size
    count = math.prod(params["mesh"].shape[name] for name in over)
    if axis.size % count:
        raise ValueError(f"vmap: spmd_axis_name {over} of size {count} does not divide the batch of {axis.size}")
    return over, axis.size // count


# On one device.


def on_one_device(
    *args: Any,
    jaxpr: ClosedJaxpr,
    mesh: Any,
    in_specs: Specs,
    out_specs: Specs,
    manual_axes: Names,
    check_vma: bool,
) -> list[Any]:
    """What all devices compute, as batches along the axes of the mesh."""
    sizes = mesh.shape
    with inside(mesh, manual_axes, False):
        closed = jaxpr
        for name in reversed(manual_axes):
            dims = [0 if name in axes_in(spec) else None for spec in in_specs]
            closed = _over_axis(
                closed, AxisData(name, sizes[name]), tuple(dims), tuple(name in axes_in(spec) for spec in out_specs)
            )
        parts = [_taken_apart(x, spec, sizes, manual_axes) for x, spec in zip(args, in_specs)]
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *parts)
    return [_put_together(x, spec, sizes, manual_axes) for x, spec in zip(outs, out_specs)]


def _over_axis(closed: ClosedJaxpr, axis: AxisData, dims: tuple[int | None, ...], wanted: tuple[bool, ...]) -> Any:
    """The jaxpr for all positions along an axis; of outputs that all share, that of the first."""
    batched, out_dims = batch_jaxpr(closed, axis, dims, wanted)

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(batched.jaxpr, batched.consts, *args)
        return [
            _slicing.index_in_dim(x, 0, 0, keepdims=False) if d is not None and not w else x
            for x, d, w in zip(outs, out_dims, wanted)
        ]

    return stage(fun, batched.in_avals, batched.debug_info)


def _taken_apart(x: Any, spec: PartitionSpec, sizes: Any, manual: Names) -> Any:
    """The parts of an array along leading axes, which are those of the mesh that its spec names, in its order."""
    shape: list[int] = []
    place: dict[Any, int] = {}
    for size, entry in zip(np.shape(x), [*spec, *[None] * len(np.shape(x))]):
        for name in axes_of(entry):
            place[name] = len(shape)
            shape.append(sizes[name])
        shape.append(size // math.prod(sizes[name] for name in axes_of(entry)))
    leading = [place[name] for name in manual if name in place]
    if not leading:
        return x
    order = (*leading, *(i for i in range(len(shape)) if i not in leading))
    return _shape.transpose(_shape.reshape(x, tuple(shape)), order)


def _put_together(x: Any, spec: PartitionSpec, sizes: Any, manual: Names) -> Any:
    """The array of parts along leading axes."""
    leading = [name for name in manual if name in axes_in(spec)]
    if not leading:
        return x
    local = np.shape(x)[len(leading) :]
    order: list[int] = []
    shape = []
    for i, (size, entry) in enumerate(zip(local, [*spec, *[None] * len(local)])):
        order += [leading.index(name) for name in axes_of(entry)]
        order.append(len(leading) + i)
        shape.append(size * math.prod(sizes[name] for name in axes_of(entry)))
    return _shape.reshape(_shape.transpose(x, tuple(order)), tuple(shape))


def _effects(*avals: Any, jaxpr: ClosedJaxpr, manual_axes: Names, **_: Any) -> Any:
    return jaxpr.effects - {NamedAxisEffect(name) for name in manual_axes}


shard_map_p = Primitive(
    "shard_map",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    effects=_effects,
    impl=_impl,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
    composition=on_one_device,
    apart=lambda params: params["mesh"].size > 1,
)
