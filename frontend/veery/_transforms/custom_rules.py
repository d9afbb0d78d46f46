"""Functions with derivative rules of their own.

A call travels through the traces as an object that holds the function and its rules as flat functions. Evaluation
runs the function as it is (so that Python control flow on concrete values works), differentiation uses the rules,
batching wraps them all, and staging traces the function to a jaxpr and keeps the rules beside it in an equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core import dtypes
from veery._core.ad import Zero, instantiate_zeros, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, jaxpr_as_fun
from veery._core.primitive import Primitive
from veery._core.trace import current_trace
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch, move_batch

FlatFun = Callable[..., Sequence[Any]]


class Rule:
    """A rule among an equation's parameters: a callable that prints as its name."""

    def __init__(self, call: FlatFun, name: str):
        self.call = call
        self.__name__ = name

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self.call(*args)


class CustomJVPCall:
    """A call of a function with a jvp rule of its own.

    `fun` maps flat primals to flat outputs; `rule` maps primals followed by tangents (arrays, or maybe symbolic Zeros
    if `symbolic_zeros`) to outputs followed by output tangents.
    """

    def __init__(self, name: str, fun: FlatFun, rule: FlatFun, symbolic_zeros: bool = False):
        self.name = name
        self.fun = fun
        self.rule = rule
        self.symbolic_zeros = symbolic_zeros

    def bind(self, *args: Any) -> list[Any]:
        """The call in the current trace."""
        return list(current_trace().process_custom_jvp_call(self, args))

    def apply_jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs and tangents by the custom rule."""
        if not self.symbolic_zeros:
            tangents = [instantiate_zeros(t) for t in tangents]
        results = list(self.rule(*primals, *tangents))
        outs, out_tangents = results[: len(results) // 2], results[len(results) // 2 :]
        return outs, [_without_float0(p, t) for p, t in zip(outs, out_tangents)]

    def apply_batch(self, axis: AxisData, vals: Sequence[Any], dims: Sequence[int | None]) -> tuple[list, list]:
        """The call on batches; every output gets a batch dimension, in front."""
        fun = _batched(self.fun, axis, dims)
        rule = _batched(self.rule, axis, [*dims, *dims])
        outs = CustomJVPCall(self.name, fun, rule).bind(*vals)
        return outs, [0] * len(outs)

    def stage(self, trace: staging.StagingTrace, args: Sequence[Any]) -> list[Any]:
        """An equation for the call."""
        closed, consts = _stage_function(self.name, self.fun, args)
        n = len(consts)
        params = {
            "name": self.name,
            "call_jaxpr": closed,
            "jvp": Rule(lambda *xs: self.rule(*_drop_leading(xs, n)), "jvp"),
            "symbolic_zeros": self.symbolic_zeros,
        }
        return trace.process_primitive(custom_jvp_call_p, [*consts, *args], params)


class CustomVJPCall:
    """A call of a function with a vjp rule of its own.

    `fwd` maps flat primals to outputs followed by residuals (`num_outs` says where these begin); `bwd` maps residuals
    followed by output cotangents to a cotangent for each primal.
    """

    def __init__(self, name: str, fun: FlatFun, fwd: FlatFun, bwd: FlatFun, num_outs: Callable[[], int]):
        self.name = name
        self.fun = fun
        self.fwd = fwd
        self.bwd = bwd
        self.num_outs = num_outs

    def bind(self, *args: Any) -> list[Any]:
        """The call in the current trace."""
        return list(current_trace().process_custom_vjp_call(self, args))

    def apply_jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs, and tangents as a linear operation that only transposition understands."""
        results = list(self.fwd(*primals))
        n = self.num_outs()
        outs, residuals = results[:n], results[n:]
        out_avals = tuple(aval_of(o).to_tangent_aval() for o in outs)
        tangents = [instantiate_zeros(t) for t in tangents]
        out_tangents = custom_lin_p.bind(
            *residuals,
            *tangents,
            name=self.name,
            num_res=len(residuals),
            bwd=Rule(self.bwd, "bwd"),
            out_avals=out_avals,
        )
        return outs, [_without_float0(p, t) for p, t in zip(outs, out_tangents)]

    def apply_batch(self, axis: AxisData, vals: Sequence[Any], dims: Sequence[int | None]) -> tuple[list, list]:
        """The call on batches; every output gets a batch dimension, in front."""
        fun, fwd = _batched(self.fun, axis, dims), _batched(self.fwd, axis, dims)

        def bwd(*xs: Any) -> list[Any]:
            cts, ct_dims = batch(self.bwd, axis, xs, [0] * len(xs))
            return [_unbatch_cotangent(ct, d, want, axis) for ct, d, want in zip(cts, ct_dims, dims, strict=True)]

        outs = CustomVJPCall(self.name, fun, fwd, bwd, self.num_outs).bind(*vals)
        return outs, [0] * len(outs)

    def stage(self, trace: staging.StagingTrace, args: Sequence[Any]) -> list[Any]:
        """An equation for the call."""
        closed, consts = _stage_function(self.name, self.fun, args)
        n = len(consts)

        def bwd(*xs: Any) -> list[Any]:
            zeros = [Zero(aval_of(c).to_tangent_aval()) for c in consts]
            return [*(instantiate_zeros(z) for z in zeros), *self.bwd(*xs)]

        params = {
            "name": self.name,
            "call_jaxpr": closed,
            "fwd": Rule(lambda *xs: self.fwd(*xs[n:]), "fwd"),
            "bwd": Rule(bwd if n else self.bwd, "bwd"),
            "num_outs": len(closed.out_avals),
        }
        return trace.process_primitive(custom_vjp_call_p, [*consts, *args], params)


def _stage_function(name: str, fun: FlatFun, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    closed = staging.stage(fun, [aval_of(x) for x in args], staging.DebugInfo(name))
    return staging.close_over(closed)


def _drop_leading(xs: Sequence[Any], n: int) -> list[Any]:
    """Primals and tangents without those of the n leading constants."""
    half = len(xs) // 2
    return [*xs[n:half], *xs[half + n :]]


def _without_float0(primal: Any, t: Any) -> Any:
    """A tangent, with arrays of float0 (which carry nothing) as symbolic zeros."""
    is_float0 = type(t) is not Zero and getattr(t, "dtype", None) == dtypes.float0
    return Zero.from_primal_value(primal) if is_float0 or t is None else t


def _batched(fun: FlatFun, axis: AxisData, dims: Sequence[int | None]) -> FlatFun:
    """A function of batches whose outputs all have a batch dimension in front."""

    def batched(*xs: Any) -> list[Any]:
        outs, out_dims = batch(fun, axis, xs, dims)
        return [move_batch(x, d, 0, axis.size) for x, d in zip(outs, out_dims)]

    return batched


def _unbatch_cotangent(ct: Any, dim: int | None, want: int | None, axis: AxisData) -> Any:
    """The cotangent of an input that was batched at `want`, or was the same for the whole batch (None)."""
    if type(ct) is Zero or getattr(ct, "dtype", None) == dtypes.float0:
        return ct
    if want is not None:
        return move_batch(ct, dim, want, axis.size)
    from veery.lax import _reduce

    ct = move_batch(ct, dim, 0, axis.size)
    return _reduce.reduce_sum_p.bind(ct, axes=(0,))


def _jvp_of_staged(primals: Any, tangents: Any, *, call_jaxpr: Any, jvp: Any, name: str, symbolic_zeros: bool) -> Any:
    call = CustomJVPCall(name, jaxpr_as_fun(call_jaxpr), jvp, symbolic_zeros)
    return call.apply_jvp(primals, tangents)


def _batch_staged_jvp(
    axis: AxisData, args: Any, dims: Any, *, call_jaxpr: Any, jvp: Any, name: str, **params: Any
) -> Any:
    return CustomJVPCall(name, jaxpr_as_fun(call_jaxpr), jvp, **params).apply_batch(axis, args, dims)


def _staged_vjp_call(name: str, call_jaxpr: ClosedJaxpr, fwd: FlatFun, bwd: FlatFun, num_outs: int) -> CustomVJPCall:
    return CustomVJPCall(name, jaxpr_as_fun(call_jaxpr), fwd, bwd, lambda: num_outs)


def _eval_call(*args: Any, call_jaxpr: ClosedJaxpr, **_params: Any) -> list[Any]:
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


custom_jvp_call_p = Primitive(
    "custom_jvp_call",
    multiple_results=True,
    abstract_eval=lambda *avals, call_jaxpr, **_: call_jaxpr.out_avals,
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    impl=_eval_call,
    jvp=_jvp_of_staged,
    axis_batch=_batch_staged_jvp,
)

custom_vjp_call_p = Primitive(
    "custom_vjp_call",
    multiple_results=True,
    abstract_eval=lambda *avals, call_jaxpr, **_: call_jaxpr.out_avals,
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    impl=_eval_call,
    jvp=lambda primals, tangents, **params: _staged_vjp_call(**params).apply_jvp(primals, tangents),
    axis_batch=lambda axis, args, dims, **params: _staged_vjp_call(**params).apply_batch(axis, args, dims),
)


def _forward_mode_error(*args: Any, name: str, **_params: Any) -> Any:
    raise TypeError(
        f"can't apply forward-mode autodiff (jvp) to a custom_vjp function. Function {name} has a reverse-mode rule "
        "only; differentiate it with grad or vjp, or define it with custom_jvp."
    )


def _transpose_custom_lin(cts: Sequence[Any], *args: Any, num_res: int, bwd: Any, out_avals: Any, name: str) -> Any:
    residuals, linear = args[:num_res], args[num_res:]
    cts = [instantiate_zeros(ct) for ct in cts]
    ct_ins = list(bwd(*residuals, *cts))
    results = [
        _without_float0_ct(x, ct) if is_undefined_primal(x) else None for x, ct in zip(linear, ct_ins, strict=True)
    ]
    return [None] * num_res + results


def _without_float0_ct(x: Any, ct: Any) -> Any:
    is_float0 = type(ct) is not Zero and getattr(ct, "dtype", None) == dtypes.float0
    return Zero(x.aval) if is_float0 or ct is None else ct


def _batch_custom_lin(
    axis: AxisData, args: Any, dims: Any, *, num_res: int, bwd: Any, out_avals: Any, name: str
) -> Any:
    from veery._transforms.batching import batched_aval

    def batched_bwd(*xs: Any) -> list[Any]:
        in_dims = [*dims[:num_res], *[0] * len(out_avals)]
        cts, ct_dims = batch(bwd, axis, xs, in_dims)
        return [_unbatch_cotangent(ct, d, want, axis) for ct, d, want in zip(cts, ct_dims, dims[num_res:])]

    avals = tuple(batched_aval(a, 0, axis.size) for a in out_avals)
    outs = custom_lin_p.bind(*args, num_res=num_res, bwd=Rule(batched_bwd, "bwd"), out_avals=avals, name=name)
    return outs, [0] * len(outs)


custom_lin_p = Primitive(
    "custom_lin",
    multiple_results=True,
    abstract_eval=lambda *avals, out_avals, **_: out_avals,
    impl=_forward_mode_error,
    jvp=_forward_mode_error,
    transpose=_transpose_custom_lin,
    axis_batch=_batch_custom_lin,
)
