"""The call primitive `jit`: a jaxpr applied to arguments, transformed as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import provided
from veery._core.ad import Zero, is_undefined_primal
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr
from veery._core.primitive import Primitive
from veery._transforms.batching import AxisData, batch_jaxpr
from veery._transforms.discharge import replacing
from veery._transforms.high import Lowered, lowered
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import linearize_jaxpr
from veery._transforms.transpose import transpose_jaxpr


def _with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    if not jaxpr.jaxpr.is_high:
        results: list[Any] = replacing("jaxpr")(primitive, args, params)
        return results
    low: Lowered = lowered(jaxpr)
    return low.outputs(args, primitive.bind(*low.inputs(args), jaxpr=low.jaxpr, name=params["name"]))


def _impl(*args: Any, jaxpr: ClosedJaxpr, name: str, **_: Any) -> list[Any]:
    return provided.backend.execute(jaxpr, name, args)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> tuple[list[Any], list[Any]]:
    nonzeros = tuple(type(t) is not Zero for t in tangents)
    both, nonzeros_out = jvp_jaxpr(jaxpr, nonzeros)
    results = jit_p.bind(*primals, *(t for t in tangents if type(t) is not Zero), jaxpr=both, name=name)
    outs, out_tangents = results[: len(jaxpr.out_avals)], iter(results[len(jaxpr.out_avals) :])
    return outs, [next(out_tangents) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


def _linearize(nonzeros: tuple[bool, ...], *primals: Any, jaxpr: ClosedJaxpr, name: str, **_: Any) -> tuple[Any, ...]:
    split = linearize_jaxpr(jaxpr, nonzeros)
    results = jit_p.bind(*primals, jaxpr=split.primal, name=name)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        result: list[Any] = jit_p.bind(*residuals, *tangents, jaxpr=split.linear, name=name)
        return result

    outs = results[: len(jaxpr.out_avals)]
    return outs, split.nonzeros_out, split.residuals(primals, results), linear


def transpose_call(cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, name: str, **_: Any) -> list[Any]:
    """The transpose rule of a call of a jaxpr: the call of its transpose."""
    linear = tuple(map(is_undefined_primal, operands))
    nonzero_cts = tuple(type(ct) is not Zero for ct in cts)
    transposed, nonzeros = transpose_jaxpr(jaxpr, linear, nonzero_cts)
    known = [x for x, lin in zip(operands, linear) if not lin]
    given = [ct for ct in cts if type(ct) is not Zero]
    results = iter(jit_p.bind(*known, *given, jaxpr=transposed, name=name))
    flags = iter(nonzeros)
    return [
        None if not lin else next(results) if next(flags) else Zero(x.aval.to_tangent_aval())
        for x, lin in zip(operands, linear)
    ]


def _batch(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> tuple[Any, ...]:
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return jit_p.bind(*args, jaxpr=batched, name=name), out_dims


class _Call(Primitive):
    """Calls that stay calls. Traces of others ask each whether it is to be inlined, as JAX's may: none here is."""

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """Apply `params["jaxpr"]`, which is called `params["name"]`."""
        results: list[Any] = super().bind(*args, **({"inline": False} | params))
        return results


jit_p = _Call(
    "jit",
    with_refs=_with_refs,
    takes_refs=True,
    inert=("name", "inline"),
    multiple_results=True,
    abstract_eval=lambda *avals, jaxpr, **_: jaxpr.out_avals,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    impl=_impl,
    jvp=_jvp,
    linearize=_linearize,
    transpose=transpose_call,
    axis_batch=_batch,
)


class InlinedCall(Primitive):
    """A call of a jaxpr that leaves no equation of its own: its equations are applied in its place."""

    def __init__(self, name: str):
        super().__init__(name, multiple_results=True)

    def bind(self, *args: Any, **params: Any) -> list[Any]:
        """Apply `params["call_jaxpr"]`."""
        call = params["call_jaxpr"]
        closed = call if isinstance(call, ClosedJaxpr) else ClosedJaxpr(call, [])
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)
