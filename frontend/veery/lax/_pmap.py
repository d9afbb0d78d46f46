"""One program on many devices: `pmap` as a primitive, and collectives as exchanges between the devices' programs.

Each device runs the same program in a thread of its own. Collectives over the mapped axis become calls of Python
functions that exchange values between those threads; everything else is compiled as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import provided
from veery._core.ad import Zero, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, NamedAxisEffect, memoized
from veery._core.primitive import Primitive
from veery._core.trace import extend_axis_env
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import linearize_jaxpr
from veery._transforms.transpose import transpose_jaxpr
from veery.lax import _arithmetic, _reduce

# Collectives between devices.


class Exchange:
    """A collective as a function of one device's values: from the values of all devices to this device's result."""

    def __init__(self, name: str, combine: Callable[[list[np.ndarray], int], Any]):
        self.__name__ = name
        self.combine = combine

    def __call__(self, *operands: np.ndarray) -> Any:
        spmd = provided.backend.exchanges()
        values = spmd.exchange(operands[0] if operands else None)
        return np.asarray(self.combine(values, spmd.rank()))


def _members(rank: int, groups: Any, size: int) -> list[int]:
    """The positions of this device's group, in order."""
    return list(range(size)) if groups is None else list(next(g for g in groups if rank in g))


def _reducer(combine: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    def make(*, axis_size: int, axis_index_groups: Any, **_: Any) -> Callable[[list[np.ndarray], int], Any]:
        def reduce(values: list[np.ndarray], rank: int) -> np.ndarray:
            chosen = np.stack([values[i] for i in _members(rank, axis_index_groups, axis_size)])
            return combine(chosen).astype(chosen.dtype)

        return reduce

    return make


def _all_gather(*, all_gather_dimension: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    return lambda values, rank: np.stack(
        [values[i] for i in _members(rank, axis_index_groups, axis_size)], all_gather_dimension
    )


def _reduce_scatter(*, scatter_dimension: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    def combine(values: list[np.ndarray], rank: int) -> np.ndarray:
        members = _members(rank, axis_index_groups, axis_size)
        total = np.sum([values[i] for i in members], axis=0, dtype=values[0].dtype)
        return np.take(total, members.index(rank), scatter_dimension)

    return combine


def _all_to_all(*, split_axis: int, concat_axis: int, axis_size: int, axis_index_groups: Any, **_: Any) -> Any:
    def combine(values: list[np.ndarray], rank: int) -> np.ndarray:
        members = _members(rank, axis_index_groups, axis_size)
        here = members.index(rank)
        return np.stack([np.take(values[i], here, split_axis) for i in members], concat_axis)

    return combine


def _ppermute(*, perm: Sequence[tuple[int, int]], **_: Any) -> Any:
    source_of = {destination: origin for origin, destination in perm}
    return lambda values, rank: values[source_of[rank]] if rank in source_of else np.zeros_like(values[rank])


_exchanges: dict[str, Callable[..., Any]] = {
    "psum": _reducer(lambda x: x.sum(0)),
    "pmax": _reducer(lambda x: x.max(0)),
    "pmin": _reducer(lambda x: x.min(0)),
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "ppermute": _ppermute,
    "axis_index": lambda **_: lambda values, rank: np.int32(rank),
}

exchange_p = Primitive(
    "exchange",
    multiple_results=True,
    abstract_eval=lambda *avals, function, out_avals: list(out_avals),
    effects=lambda *avals, **_: set(),
)


def between_devices(jaxpr: Jaxpr, axis_name: Any) -> Jaxpr:
    """The jaxpr with the collectives over an axis, at any depth, as exchanges between devices."""
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _exchanges and eqn.params.get("axis_name") == axis_name:
            function = Exchange(eqn.primitive.name, _exchanges[eqn.primitive.name](**eqn.params))
            params = {"function": function, "out_avals": tuple(v.aval for v in eqn.outvars)}
            eqns.append(eqn.replace(primitive=exchange_p, params=params))
        else:
            params = {key: _inside(value, axis_name) for key, value in eqn.params.items()}
            eqns.append(eqn.replace(params=params))
    effects = jaxpr.effects - {NamedAxisEffect(axis_name)}
    return jaxpr.replace(eqns=eqns, effects=effects)


def _inside(value: Any, axis_name: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return ClosedJaxpr(between_devices(value.jaxpr, axis_name), value.consts)
    if isinstance(value, tuple) and value and isinstance(value[0], ClosedJaxpr):
        return tuple(_inside(v, axis_name) for v in value)
    return value


@memoized
def device_program(closed: ClosedJaxpr, axis_name: Any) -> ClosedJaxpr:
    """What each device runs."""
    return ClosedJaxpr(between_devices(closed.jaxpr, axis_name), closed.consts)


# The primitive. Operands that are mapped have the axis in front; so have all results that are mapped.

Flags = tuple[bool, ...]


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, axis_size: int, out_mapped: Flags, **_: Any) -> list[Any]:
    stacked = lambda a: a.update(shape=(axis_size, *a.shape))
    return [stacked(a) if m else a for a, m in zip(jaxpr.out_avals, out_mapped, strict=True)]


def _impl(*args: Any, **params: Any) -> list[Any]:
    return provided.backend.execute_on_devices(*args, **params)


def _in_axis(params: dict[str, Any]) -> Any:
    return extend_axis_env(params["axis_name"], params["axis_size"])


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    in_mapped: Flags,
    out_mapped: Flags,
    **params: Any,
) -> tuple[list, list]:
    nonzeros = tuple(type(t) is not Zero for t in tangents)
    with _in_axis(params):
        both, nonzeros_out = jvp_jaxpr(jaxpr, nonzeros)
    mapped_tangents = tuple(m for m, nz in zip(in_mapped, nonzeros) if nz)
    mapped_out = tuple(m for m, nz in zip(out_mapped, nonzeros_out) if nz)
    results = pmap_p.bind(
        *primals,
        *(t for t in tangents if type(t) is not Zero),
        jaxpr=both,
        in_mapped=(*in_mapped, *mapped_tangents),
        out_mapped=(*out_mapped, *mapped_out),
        **params,
    )
    outs, out_tangents = results[: len(out_mapped)], iter(results[len(out_mapped) :])
    return outs, [next(out_tangents) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


def _linearize(
    nonzeros: Flags, *primals: Any, jaxpr: ClosedJaxpr, in_mapped: Flags, out_mapped: Flags, **params: Any
) -> tuple:
    with _in_axis(params):
        split = linearize_jaxpr(jaxpr, nonzeros)
    n_extra = len(split.primal.out_avals) - len(out_mapped)
    all_mapped = (*out_mapped, *[True] * n_extra)
    results = pmap_p.bind(*primals, jaxpr=split.primal, in_mapped=in_mapped, out_mapped=all_mapped, **params)
    residual_mapped = tuple(in_mapped[i] if kind == "in" else all_mapped[i] for kind, i in split.sources)
    tangent_mapped = tuple(m for m, nz in zip(in_mapped, nonzeros) if nz)
    linear_out = tuple(m for m, nz in zip(out_mapped, split.nonzeros_out) if nz)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        return pmap_p.bind(
            *residuals,
            *tangents,
            jaxpr=split.linear,
            in_mapped=(*residual_mapped, *tangent_mapped),
            out_mapped=linear_out,
            **params,
        )

    return results[: len(out_mapped)], split.nonzeros_out, split.residuals(primals, results), linear


def _transpose(
    cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, in_mapped: Flags, out_mapped: Flags, **params: Any
) -> list[Any]:
    linear = tuple(map(is_undefined_primal, operands))
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    with _in_axis(params):
        transposed, nonzeros = transpose_jaxpr(jaxpr, linear, nonzero)
    known = [x for x, lin in zip(operands, linear) if not lin]
    size = params["axis_size"]
    # an output that is the same on all devices hands each of them its share of the cotangent
    given = [
        ct if m else _arithmetic.div(ct, np.asarray(size, aval_of(ct).dtype)[()])
        for ct, m, nz in zip(cts, out_mapped, nonzero)
        if nz
    ]
    in_flags = (
        *(m for m, lin in zip(in_mapped, linear) if not lin),
        *(m for m, nz in zip(out_mapped, nonzero) if nz),
    )
    results = iter(
        pmap_p.bind(*known, *given, jaxpr=transposed, in_mapped=in_flags, out_mapped=(True,) * sum(nonzeros), **params)
    )
    flags = iter(nonzeros)
    cts_in: list[Any] = []
    for x, lin, mapped in zip(operands, linear, in_mapped):
        if not lin:
            cts_in.append(None)
        elif not next(flags):
            cts_in.append(Zero(x.aval.to_tangent_aval()))
        else:  # what all devices shared gets the sum of their cotangents
            ct = next(results)
            cts_in.append(ct if mapped else _reduce.reduce_sum(ct, (0,)))
    return cts_in


def _batch(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    in_mapped: Flags,
    out_mapped: Flags,
    **params: Any,
) -> tuple[list, list]:
    # the batch axis goes behind the mapped one
    args = [x if d is None else move_batch(x, d, 1 if m else 0, axis.size) for x, d, m in zip(args, dims, in_mapped)]
    inner = [None if d is None else 0 for d in dims]
    with _in_axis(params):
        batched, out_dims = batch_jaxpr(jaxpr, axis, inner, (False,) * len(out_mapped))
    outs = pmap_p.bind(*args, jaxpr=batched, in_mapped=in_mapped, out_mapped=out_mapped, **params)
    return outs, [None if d is None else 1 if m else 0 for d, m in zip(out_dims, out_mapped)]


pmap_p = Primitive(
    "pmap",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    effects=lambda *avals, jaxpr, axis_name, **_: jaxpr.effects - {NamedAxisEffect(axis_name)},
    impl=_impl,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
)
