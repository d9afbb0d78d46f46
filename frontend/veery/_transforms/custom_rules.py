"""Functions with derivative rules of their own.

A call travels through the traces as an object that holds the function and its rules as flat functions. Evaluation
runs the function as it is (so that Python control flow on concrete values works), differentiation uses the rules,
batching wraps them all, and staging traces the function to a jaxpr and keeps the rules beside it in an equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from veery._core import dtypes, leaks, provided
from veery._core.ad import Zero, instantiate_zeros, is_undefined_primal
from veery._core.avals import ShapedArray, aval_of
from veery._core.jaxpr import ClosedJaxpr, DebugInfo, eval_jaxpr, jaxpr_as_fun, reference_eval
from veery._core.primitive import Primitive
from veery._core.refs import refuse_own
from veery._core.trace import Trace, Tracer, current_trace
from veery._transforms import staging
from veery._transforms.batching import AxisData, BatchTrace, batch, batched_aval, move_batch, unbatched_aval
from veery._transforms.calls import transpose_call
from veery._transforms.varying import in_order

FlatFun = Callable[..., Sequence[Any]]
Forward = Callable[..., tuple[list[Any], FlatFun]]


class Rule:
    """A rule among an equation's parameters: a callable that prints as its name."""

    def __init__(self, call: FlatFun, name: str):
        self.call = call
        self.__name__ = name

    def __call__(self, *args: Any, **options: Any) -> Sequence[Any]:
        return self.call(*args, **options)

    call_wrapped = __call__  # by which traces made outside veery call functions


class CustomRuleError(TypeError):
    """A function with derivative rules of its own is differentiated in a value that its rules do not know of."""


class CustomJVPCall:
    """A call of a function with a jvp rule of its own.

    `fun` maps flat primals to flat outputs; `rule` maps primals followed by tangents (arrays, or maybe symbolic Zeros
    if `symbolic_zeros`) to outputs followed by output tangents. Both take `num_consts` further values in front, which
    they closed over before the call was staged.
    """

    def __init__(self, name: str, fun: FlatFun, rule: FlatFun, symbolic_zeros: bool = False, num_consts: int = 0):
        self.name = name
        self.fun = fun
        self.rule = rule
        self.symbolic_zeros = symbolic_zeros
        self.num_consts = num_consts

    def bind(self, *args: Any) -> list[Any]:
        """The call in the current trace."""
        return list(current_trace().apply_custom_jvp(self, args))

    def processed_by(self, trace: Trace, args: Sequence[Any]) -> Sequence[Any]:
        """The call in a trace made outside veery."""
        fun, rule = Rule(self.fun, self.name), Rule(self.rule, "jvp")
        return trace.process_custom_jvp_call(custom_jvp_call_p, fun, rule, args, symbolic_zeros=self.symbolic_zeros)

    def apply_jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs and tangents by the custom rule."""
        tangents = _of_arguments("jvp", tangents, self.num_consts)
        if not self.symbolic_zeros:
            tangents = [_instantiated(t) for t in tangents]
        results = list(self.rule(*primals, *tangents))
        outs, out_tangents = results[: len(results) // 2], results[len(results) // 2 :]
        return outs, [_without_float0(p, t) for p, t in zip(outs, out_tangents)]

    def apply_batch(
        self, axis: AxisData, vals: Sequence[Any], dims: Sequence[int | None], origin: BatchTrace | None = None
    ) -> tuple[list[Any], list[Any]]:
        """The call on batches; outputs that are batched have their batch dimension in front."""
        places = _Places(dims)
        both_dims = [*dims, *dims[self.num_consts :]]
        fun = _batched(self.fun, axis, dims, places.of_outputs, origin)
        rule = _batched(self.rule, axis, both_dims, places.of_outputs_and_tangents, origin)
        outs = CustomJVPCall(self.name, fun, rule, self.symbolic_zeros, self.num_consts).bind(*vals)
        return outs, places.found(len(outs))

    def stage(self, trace: staging.StagingTrace, args: Sequence[Any]) -> list[Any]:
        """An equation for the call."""
        closed, consts = _stage_function(self.name, self.fun, args)
        params = {
            "name": self.name,
            "call_jaxpr": closed,
            "jvp": Rule(_substituting(self.rule, consts), "jvp"),
            "num_consts": len(consts) + self.num_consts,
            "symbolic_zeros": self.symbolic_zeros,
        }
        result: list[Any] = trace.process_primitive(custom_jvp_call_p, [*consts, *args], params)
        return result


class CustomVJPCall:
    """A call of a function with a vjp rule of its own.

    `fwd` maps flat primals (and `perturbed`, flags that say which of them have tangents) to a pair: outputs followed by
    residuals (`num_outs` says where these begin), and the rule for these residuals, which may be others each time. It
    maps residuals followed by output cotangents (arrays, or maybe symbolic Zeros if `symbolic_zeros`) to a cotangent
    for each primal (None for zero). All three take `num_consts` further values in front, which they closed over before
    the call was staged.
    """

    def __init__(
        self,
        name: str,
        fun: FlatFun,
        fwd: Forward,
        num_outs: Callable[[], int],
        symbolic_zeros: bool = False,
        num_consts: int = 0,
    ):
        self.name = name
        self.fun = fun
        self.fwd = fwd
        self.num_outs = num_outs
        self.symbolic_zeros = symbolic_zeros
        self.num_consts = num_consts

    def bind(self, *args: Any) -> list[Any]:
        """The call in the current trace."""
        return list(current_trace().apply_custom_vjp(self, args))

    def processed_by(self, trace: Trace, args: Sequence[Any]) -> Sequence[Any]:
        """The call in a trace made outside veery."""
        results_of, backward = _apart(self.fwd)
        fun, fwd = Rule(self.fun, self.name), Rule(results_of, "fwd")
        bwd = Rule(lambda *xs: backward[-1](*xs), "bwd")
        return trace.process_custom_vjp_call(
            custom_vjp_call_p, fun, fwd, bwd, args, out_trees=self.num_outs, symbolic_zeros=self.symbolic_zeros
        )

    def apply_jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Outputs, and tangents as a linear operation that only transposition understands."""
        tangents = _of_arguments("vjp", tangents, self.num_consts)
        perturbed = tuple(type(t) is not Zero for t in tangents)
        results, bwd = self.fwd(*primals, perturbed=perturbed)
        n = self.num_outs()
        outs, residuals = results[:n], [*primals[: self.num_consts], *results[n:]]
        out_tangents = custom_lin_p.bind(
            *residuals,
            *(t for t in tangents if type(t) is not Zero),
            name=self.name,
            num_res=len(residuals),
            perturbed=perturbed,
            bwd=Rule(bwd, "bwd"),
            out_avals=tuple(aval_of(o).to_tangent_aval() for o in outs),
            symbolic_zeros=self.symbolic_zeros,
        )
        return outs, [_without_float0(p, t) for p, t in zip(outs, out_tangents)]

    def apply_batch(
        self, axis: AxisData, vals: Sequence[Any], dims: Sequence[int | None], origin: BatchTrace | None = None
    ) -> tuple[list[Any], list[Any]]:
        """The call on batches; outputs that are batched have their batch dimension in front."""
        places = _Places(dims)
        const_dims, arg_dims = dims[: self.num_consts], dims[self.num_consts :]
        fun = _batched(self.fun, axis, dims, places.of_outputs, origin)
        leaks.exempt([] if origin is None else [origin])

        def fwd(*xs: Any, **options: Any) -> tuple[list[Any], FlatFun]:
            results_of, backward = _apart(self.fwd)
            results, result_dims = _batch_maybe_zeros(results_of, axis, xs, dims, origin, **options)
            n = self.num_outs()
            to = [*places.of_outputs(result_dims[:n]), *(None if d is None else 0 for d in result_dims[n:])]
            in_dims = [*const_dims, *to[n:], *to[:n]]

            def bwd(*xs: Any) -> list[Any]:
                cts, ct_dims = _batch_maybe_zeros(backward[-1], axis, xs, in_dims, origin)
                return [_unbatch_cotangent(ct, d, w, axis) for ct, d, w in zip(cts, ct_dims, arg_dims, strict=True)]

            return [_placed(x, d, place, axis) for x, d, place in zip(results, result_dims, to, strict=True)], bwd

        outs = CustomVJPCall(self.name, fun, fwd, self.num_outs, self.symbolic_zeros, self.num_consts).bind(*vals)
        return outs, places.found(len(outs))

    def stage(self, trace: staging.StagingTrace, args: Sequence[Any]) -> list[Any]:
        """An equation for the call."""
        closed, consts = _stage_function(self.name, self.fun, args)

        def fwd(*xs: Any, **options: Any) -> tuple[list[Any], FlatFun]:
            results_of, backward = _apart(self.fwd)
            results = list(_substituting(results_of, consts)(*xs, **options))
            return results, _substituting(backward[-1], consts)

        params = {
            "name": self.name,
            "call_jaxpr": closed,
            "fwd": Rule(fwd, "fwd"),
            "num_consts": len(consts) + self.num_consts,
            "num_outs": len(closed.out_avals),
            "symbolic_zeros": self.symbolic_zeros,
        }
        result: list[Any] = trace.process_primitive(custom_vjp_call_p, [*consts, *args], params)
        return result


def _apart(fwd: Forward) -> tuple[FlatFun, list[FlatFun]]:
    """A function for the results of `fwd` alone, and a list that gets the rules that go on from them."""
    backward: list[FlatFun] = []

    def results_of(*xs: Any, **options: Any) -> list[Any]:
        results, bwd = fwd(*xs, **options)
        backward.append(bwd)
        return results

    return results_of, backward


def _instantiated(t: Any) -> Any:
    """A tangent as an array; the zero tangent of an integer is an array of float0."""
    if type(t) is Zero and t.aval.dtype == dtypes.float0:
        return np.zeros(t.aval.shape, dtypes.float0)
    return instantiate_zeros(t)


def _stage_function(name: str, fun: FlatFun, args: Sequence[Any]) -> tuple[ClosedJaxpr, list[Any]]:
    closed = staging.stage(fun, [aval_of(x) for x in args], DebugInfo(name))
    return staging.close_over(closed)


def _without_float0(primal: Any, t: Any) -> Any:
    """A tangent, with arrays of float0 (which carry nothing) as symbolic zeros."""
    is_float0 = type(t) is not Zero and getattr(t, "dtype", None) == dtypes.float0
    return Zero.from_primal_value(primal) if is_float0 or t is None else t


def _batch_maybe_zeros(
    fun: FlatFun,
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    origin: BatchTrace | None = None,
    **options: Any,
) -> tuple[list[Any], list[int | None]]:
    """Like `batch`, for arguments and results some of which are symbolic Zeros (or float0 arrays)."""
    known = [_unbatched_zero(x, d) for x, d in zip(args, dims, strict=True)]
    arrays = [(x, d) for x, d, zero in zip(args, dims, known) if zero is None]
    zeros: list[Any] = []

    def of_arrays(*xs: Any) -> list[Any]:
        rest = iter(xs)
        outs = fun(*(next(rest) if zero is None else zero for zero in known), **options)
        zeros[:] = [x if _is_zero(x) else None for x in outs]
        return [x for x in outs if not _is_zero(x)]

    outs, out_dims = batch(of_arrays, axis, [x for x, _ in arrays], [d for _, d in arrays], origin)
    found = iter(zip(outs, out_dims))
    pairs = [next(found) if zero is None else (zero, None) for zero in zeros]
    return [x for x, _ in pairs], [d for _, d in pairs]


def _is_zero(x: Any) -> bool:
    return type(x) is Zero or getattr(x, "dtype", None) == dtypes.float0


def _unbatched_zero(x: Any, dim: int | None) -> Any:
    """One element of a batch of zeros; None for what is no symbolic zero."""
    if type(x) is Zero:
        return Zero(unbatched_aval(x.aval, dim))
    if _is_zero(x):
        return np.zeros(np.delete(x.shape, [] if dim is None else dim), dtypes.float0)
    return None


class _Places:
    """Where the outputs of a batched call have their batch dimension: in front, or nowhere (None).

    If no argument is batched, an output is only where the function closes over batches; whichever of the function and
    its rule runs first says which outputs those are.
    """

    def __init__(self, dims: Sequence[int | None]):
        self._all = any(d is not None for d in dims)
        self._places: list[int | None] | None = None

    def found(self, count: int) -> list[int | None]:
        return [0] * count if self._all or self._places is None else self._places

    def of_outputs(self, dims: Sequence[int | None]) -> list[int | None]:
        """Where these outputs go, given where they are batched."""
        if self._all:
            return [0] * len(dims)
        if self._places is None:
            self._places = [None if d is None else 0 for d in dims]
        if any(d is not None and place is None for d, place in zip(dims, self._places)):
            raise ValueError(
                "vmap of a function with a custom derivative rule: the rule closes over mapped values that the "
                "function does not depend on. Pass them to the function as arguments."
            )
        return self._places

    def of_outputs_and_tangents(self, dims: Sequence[int | None]) -> list[int | None]:
        half = len(dims) // 2
        places = self.of_outputs([a if b is None else b for a, b in zip(dims[:half], dims[half:])])
        return [*places, *places]


def _batched(
    fun: FlatFun,
    axis: AxisData,
    dims: Sequence[int | None],
    places: Callable[[Sequence[int | None]], Sequence[int | None]],
    origin: BatchTrace | None = None,
) -> FlatFun:
    """A function of batches whose outputs have their batch dimensions where `places` says."""
    leaks.exempt([] if origin is None else [origin])

    def batched(*xs: Any, **options: Any) -> list[Any]:
        outs, out_dims = _batch_maybe_zeros(fun, axis, xs, dims, origin, **options)
        return [_placed(x, d, to, axis) for x, d, to in zip(outs, out_dims, places(out_dims), strict=True)]

    return batched


def _placed(x: Any, dim: int | None, to: int | None, axis: AxisData) -> Any:
    if to is None:
        return x
    return _batched_zero(x, axis) if _is_zero(x) else move_batch(x, dim, to, axis.size, axis.explicit)


def _batched_zero(x: Any, axis: AxisData) -> Zero:
    aval = x.aval if type(x) is Zero else ShapedArray(x.shape, dtypes.float0)
    return Zero(batched_aval(aval, 0, axis.size, axis.explicit))


def _unbatch_cotangent(ct: Any, dim: int | None, want: int | None, axis: AxisData) -> Any:
    """The cotangent of an input that was batched at `want`, or was the same for the whole batch (None)."""
    if type(ct) is Zero:
        return Zero(batched_aval(ct.aval, want, axis.size, axis.explicit))
    if ct is None or _is_zero(ct):
        return None
    if want is not None:
        return move_batch(ct, dim, want, axis.size, axis.explicit)
    return provided.operations.sum_over(move_batch(ct, dim, 0, axis.size, axis.explicit), (0,))


def _of_arguments(kind: str, tangents: Sequence[Any], num_consts: int) -> list[Any]:
    """Tangents without those of what the function closes over, which must be zero.

    Raises:
        CustomRuleError: they are not.
    """
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise CustomRuleError(
            f"Detected differentiation of a custom_{kind} function with respect to a closed-over value. That isn't "
            f"supported because the custom {kind.upper()} rule only specifies how to differentiate the custom_{kind} "
            "function with respect to explicit input parameters. Try passing the closed-over value into the "
            f"custom_{kind} function as an argument, and adapting the custom_{kind} rules."
        )
    return list(tangents[num_consts:])


def _substituting(fun: FlatFun, captured: Sequence[Any]) -> FlatFun:
    """A rule that takes the values that it closes over as leading arguments.

    The rule of a staged call runs when the trace that it was made in is over. It is traced itself, and the tracers that
    it finds in its closure stand for the operands of the equation.
    """
    n = len(captured)
    if not any(isinstance(x, Tracer) for x in captured):
        return lambda *xs, **options: fun(*xs[n:], **options)
    leaks.exempt(x._trace for x in captured if isinstance(x, Tracer))

    def substituted(*xs: Any, **options: Any) -> list[Any]:
        args = xs[n:]
        with staging.staging() as trace, _revived(captured):
            trace.stand_for(captured, xs[:n])
            ins = [x if x is None or _is_zero(x) else trace.new_arg(aval_of(x)) for x in args]
            outs = list(fun(*ins, **options))
            closed = trace.close([x for x in outs if x is not None and not _is_zero(x)])
        results = eval_jaxpr(closed.jaxpr, closed.consts, *(x for x in args if x is not None and not _is_zero(x)))
        rest = iter(results)
        return [x if x is None or _is_zero(x) else next(rest) for x in outs]

    return substituted


@contextmanager
def _revived(captured: Sequence[Any]) -> Iterator[None]:
    """Let tracers be used though their traces may be over."""
    traces = {x._trace for x in captured if isinstance(x, Tracer) and not x._trace.alive}
    for trace in traces:
        trace.alive = True
    try:
        yield
    finally:
        for trace in traces:
            trace.alive = False


def _staged_jvp_call(*, call_jaxpr: ClosedJaxpr, jvp: FlatFun, **params: Any) -> CustomJVPCall:
    return CustomJVPCall(fun=jaxpr_as_fun(call_jaxpr), rule=jvp, **params)


def _staged_vjp_call(*, call_jaxpr: ClosedJaxpr, num_outs: int, **params: Any) -> CustomVJPCall:
    return CustomVJPCall(fun=jaxpr_as_fun(call_jaxpr), num_outs=lambda: num_outs, **params)


def _eval_call(*args: Any, call_jaxpr: ClosedJaxpr, **_params: Any) -> list[Any]:
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _call_with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    if not current_trace().evaluates:
        refuse_own(args, current_trace(), params["name"])
    return _eval_call(*args, **params)


def _reference(*args: Any, call_jaxpr: ClosedJaxpr, **_params: Any) -> list[np.ndarray]:
    return reference_eval(call_jaxpr, *args)


class _CustomCall(Primitive):
    """An operation whose equations tell interpreters their functions, too, each with `call_wrapped`."""

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        fun = Rule(jaxpr_as_fun(params["call_jaxpr"]), params["name"])
        rules = [Rule(params[name], name) for name in ("jvp", "fwd") if name in params]
        return {**params, "subfuns": (fun, *rules)}

    def bind(self, *args: Any, subfuns: Any = None, **params: Any) -> Any:
        return super().bind(*args, **params)


custom_jvp_call_p = _CustomCall(
    "custom_jvp_call",
    with_refs=_call_with_refs,
    takes_refs=True,
    stands_for="call_jaxpr",
    multiple_results=True,
    abstract_eval=lambda *avals, call_jaxpr, **_: call_jaxpr.out_avals,
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    impl=_eval_call,
    jvp=lambda primals, tangents, **params: _staged_jvp_call(**params).apply_jvp(primals, tangents),
    # of a linear function of which nothing is differentiated any more, as under `linear_transpose`
    transpose=lambda cts, *args, call_jaxpr, name, **_: transpose_call(cts, *args, jaxpr=call_jaxpr, name=name),
    axis_batch=lambda axis, args, dims, **params: _staged_jvp_call(**params).apply_batch(axis, args, dims),
    reference=_reference,
)

custom_vjp_call_p = _CustomCall(
    "custom_vjp_call",
    with_refs=_call_with_refs,
    takes_refs=True,
    stands_for="call_jaxpr",
    multiple_results=True,
    abstract_eval=lambda *avals, call_jaxpr, **_: call_jaxpr.out_avals,
    effects=lambda *avals, call_jaxpr, **_: call_jaxpr.effects,
    impl=_eval_call,
    jvp=lambda primals, tangents, **params: _staged_vjp_call(**params).apply_jvp(primals, tangents),
    axis_batch=lambda axis, args, dims, **params: _staged_vjp_call(**params).apply_batch(axis, args, dims),
    reference=_reference,
)


def _forward_mode_error(*args: Any, name: str = "", **_params: Any) -> Any:
    raise TypeError(
        f"can't apply forward-mode autodiff (jvp) to a custom_vjp function. Function {name} has a reverse-mode rule "
        "only; differentiate it with grad or vjp, or define it with custom_jvp."
    )


def _transpose_custom_lin(
    cts: Sequence[Any],
    *args: Any,
    num_res: int,
    perturbed: Sequence[bool],
    bwd: Any,
    symbolic_zeros: bool,
    **_: Any,
) -> list[Any]:
    residuals, linear = args[:num_res], args[num_res:]
    if not symbolic_zeros:
        cts = [_instantiated(ct) for ct in cts]
    cts = [provided.operations.copy(ct) if dtypes.is_python_scalar(ct) else ct for ct in cts]  # rules take arrays
    wanted = [ct for ct, p in zip(bwd(*residuals, *cts), perturbed, strict=True) if p]
    results = [_cotangent_of(x, ct) if is_undefined_primal(x) else None for x, ct in zip(linear, wanted, strict=True)]
    return [None] * num_res + results


def _cotangent_of(x: Any, ct: Any) -> Any:
    if ct is None or _is_zero(ct):
        return Zero(x.aval)
    more = aval_of(ct).varying - x.aval.varying  # of what devices share, each has its part of the cotangent
    return provided.operations.invariant_sum(ct, in_order(more)) if more else ct


def _batch_custom_lin(
    axis: AxisData, args: Any, dims: Any, *, num_res: int, perturbed: Any, bwd: Any, out_avals: Any, **params: Any
) -> tuple[list[Any], list[int]]:
    tangent_dims = iter(dims[num_res:])
    wanted = [next(tangent_dims) if p else None for p in perturbed]

    def batched_bwd(*xs: Any) -> list[Any]:
        in_dims = [*dims[:num_res], *[0] * len(out_avals)]
        cts, ct_dims = _batch_maybe_zeros(bwd, axis, xs, in_dims)
        return [
            _unbatch_cotangent(ct, d, want, axis) if p else None
            for ct, d, want, p in zip(cts, ct_dims, wanted, perturbed, strict=True)
        ]

    avals = tuple(batched_aval(a, 0, axis.size, axis.explicit) for a in out_avals)
    outs = custom_lin_p.bind(
        *args, num_res=num_res, perturbed=perturbed, bwd=Rule(batched_bwd, "bwd"), out_avals=avals, **params
    )
    return outs, [0] * len(outs)


def _lin_with_refs(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    return _forward_mode_error(*args, **params)


custom_lin_p = Primitive(
    "custom_lin",
    with_refs=_lin_with_refs,
    takes_refs=True,
    transposes_zeros=True,
    multiple_results=True,
    abstract_eval=lambda *avals, out_avals, **_: out_avals,
    varies=lambda found, **_: (None, None),
    impl=_forward_mode_error,
    jvp=_forward_mode_error,
    transpose=_transpose_custom_lin,
    axis_batch=_batch_custom_lin,
    reference=_forward_mode_error,
)
