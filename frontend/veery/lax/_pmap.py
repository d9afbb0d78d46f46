"""`pmap` as a primitive: one program on many devices, each of which has a slice of the mapped arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from veery._core import provided
from veery._core.ad import Zero, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, NamedAxisEffect
from veery._core.primitive import Primitive
from veery._core.trace import extend_axis_env
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import linearize_jaxpr
from veery._transforms.transpose import transpose_jaxpr
from veery.lax import _arithmetic, _reduce

# Operands that are mapped have the axis in front; so have all results that are mapped.

Flags = tuple[bool, ...]


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, axis_size: int, out_mapped: Flags, **_: Any) -> list[Any]:
    stacked = lambda a: a.update(shape=(axis_size, *a.shape))
    return [stacked(a) if m else a for a, m in zip(jaxpr.out_avals, out_mapped, strict=True)]


def _impl(*args: Any, **params: Any) -> list[Any]:
    return provided.distribution.execute_on_devices(*args, **params)


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
