"""Functions with batching rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core.ad import instantiate_zeros
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, reference_eval
from veery._core.primitive import Primitive
from veery._transforms.batching import AxisData, batch, move_batch
from veery._transforms.custom_rules import Rule
from veery._transforms.discharge import replacing
from veery._transforms.jvp import jvp, jvp_jaxpr
from veery.lax import _shape, _slicing

# `(axis_size, in_batched, *args) -> (outs, out_batched)`, flat; what is batched is so in front.
FlatRule = Callable[..., tuple[Sequence[Any], Sequence[bool]]]


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, call: ClosedJaxpr, rule: Rule) -> tuple:
    if all(d is None for d in dims):
        outs = custom_vmap_p.bind(*args, call=call, rule=rule)
        return outs, [None] * len(outs)
    rows = [x if d is None else move_batch(x, d, 0, axis.size) for x, d in zip(args, dims)]
    outs, batched = rule(axis.size, [d is not None for d in dims], *rows)
    return outs, [0 if b else None for b in batched]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: ClosedJaxpr, rule: Rule) -> tuple[list, list]:
    """The jvp is a function with a batching rule too: the jvp of the rule."""
    n_in, n_out = len(primals), len(call.out_avals)
    both, _ = jvp_jaxpr(call, (True,) * n_in, True)
    outs = custom_vmap_p.bind(
        *primals, *map(instantiate_zeros, tangents), call=both, rule=Rule(_jvp_of_rule(rule, n_in), "jvp of rule")
    )
    return outs[:n_out], outs[n_out:]


def _jvp_of_rule(rule: Rule, n_in: int) -> FlatRule:
    """The rule applied to what is batched in primal and tangent alike, under vmap over what is batched in one only."""

    def rule_of_jvp(size: int, in_batched: Sequence[bool], *args: Any) -> tuple[list[Any], list[bool]]:
        primal_b, tangent_b = in_batched[:n_in], in_batched[n_in:]
        mutual = [a and b for a, b in zip(primal_b, tangent_b)]
        out_mutual: list[bool] = []

        def once(*xs: Any) -> list[Any]:
            def apply(*primals: Any) -> Sequence[Any]:
                outs, out_mutual[:] = rule(size, mutual, *primals)  # type: ignore[misc]
                return outs

            outs, tangents = jvp(apply, xs[:n_in], xs[n_in:])
            return [*outs, *map(instantiate_zeros, tangents)]

        dims = [0 if b and not m else None for b, m in zip([*primal_b, *tangent_b], [*mutual, *mutual])]
        outs, out_dims = batch(once, AxisData(None, size), args, dims)
        both_mutual = [*out_mutual, *out_mutual]
        outs = [
            _diagonal(move_batch(x, d, 0, size), size) if m and d is not None else _in_front(x, d, size)
            for x, d, m in zip(outs, out_dims, both_mutual)
        ]
        return outs, [m or d is not None for m, d in zip(both_mutual, out_dims)]

    return rule_of_jvp


def _in_front(x: Any, dim: int | None, size: int) -> Any:
    return x if dim is None else move_batch(x, dim, 0, size)


def _diagonal(x: Any, size: int) -> Any:
    """Element i of row i, of what was batched twice over the same axis."""
    rows = [_slicing.index_in_dim(_slicing.index_in_dim(x, i, 0, keepdims=False), i, 0) for i in range(size)]
    return _shape.concatenate(rows, 0)


def _linearize(*args: Any, **_params: Any) -> Any:
    raise ValueError(
        "custom_vmap functions do not support reverse-mode differentiation. To give a function rules for both, wrap "
        "the custom_vmap function in custom_vjp."
    )


def _eval(*args: Any, call: ClosedJaxpr, rule: Rule) -> list[Any]:
    return eval_jaxpr(call.jaxpr, call.consts, *args)


custom_vmap_p = Primitive(
    "custom_vmap_call",
    with_refs=replacing("call"),
    stands_for="call",
    multiple_results=True,
    abstract_eval=lambda *avals, call, rule: call.out_avals,
    effects=lambda *avals, call, **_: call.effects,
    impl=_eval,
    jvp=_jvp,
    linearize=_linearize,
    axis_batch=_batch,
    reference=lambda *args, call, rule: reference_eval(call, *args),
)
