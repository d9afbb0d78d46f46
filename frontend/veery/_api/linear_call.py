"""`linear_call`: linear functions with transposes of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core import source, tree
from veery._core.ad import Zero, instantiate_zeros, is_undefined_primal
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, reference_eval
from veery._core.primitive import Primitive
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery.lax import _bodies


@source.api_boundary
def linear_call(
    fun: Callable[[Any, Any], Any], fun_transpose: Callable[[Any, Any], Any], residual_args: Any, linear_args: Any
) -> Any:
    """Call a linear function whose transpose is given.

    Args:
        fun: `(residuals, x) -> y`, linear in x.
        fun_transpose: `(residuals, y) -> x`, its transpose.
        residual_args: pytree, not differentiated.
        linear_args: pytree of the linear arguments.

    Returns:
        fun(residual_args, linear_args). Its transpose is fun_transpose, whose transpose is fun.

    Raises:
        TypeError: the transpose's output is not like linear_args.

    >>> import veery
    >>> half = lambda x: veery.custom_derivatives.linear_call(lambda r, x: x / r, lambda r, y: y / r, 2.0, x)
    >>> float(veery.grad(half)(1.0))
    0.5
    """
    residuals, res_tree = tree.tree_flatten(residual_args)
    linear, lin_tree = tree.tree_flatten(linear_args)
    out_tree: Any = None
    back_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        n = len(residuals)
        out = fun(tree.tree_unflatten(res_tree, xs[:n]), tree.tree_unflatten(lin_tree, xs[n:]))
        leaves, out_tree = tree.tree_flatten(out)
        return leaves

    def flat_back(*xs: Any) -> list[Any]:
        nonlocal back_tree
        n = len(residuals)
        out = fun_transpose(tree.tree_unflatten(res_tree, xs[:n]), tree.tree_unflatten(out_tree, xs[n:]))
        leaves, back_tree = tree.tree_flatten(out)
        return leaves

    res_avals, lin_avals = [[aval_of(x) for x in xs] for xs in (residuals, linear)]
    callee, consts = staging.close_over(staging.stage(flat, [*res_avals, *lin_avals]))
    back, back_consts = staging.close_over(staging.stage(flat_back, [*res_avals, *callee.out_avals]))
    if back_tree != lin_tree:
        raise TypeError(
            "transpose output pytree structure must match that of linear inputs, got output structure "
            f"{back_tree} and input structure {lin_tree}."
        )
    (callee, back), shared = _bodies.share_consts(
        [_bodies.Body(callee, consts, out_tree), _bodies.Body(back, back_consts, lin_tree)]
    )
    operands = [*shared, *residuals]
    outs = linear_call_p.bind(*operands, *linear, callee=callee, transpose=back, num_res=len(operands))
    return tree.tree_unflatten(out_tree, outs)


def _eval(*args: Any, callee: ClosedJaxpr, **_params: Any) -> list[Any]:
    return eval_jaxpr(callee.jaxpr, callee.consts, *args)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, num_res: int, **params: Any) -> tuple[list, list]:
    if any(type(t) is not Zero for t in tangents[:num_res]):
        raise NotImplementedError("linear_call cannot be differentiated in its residual arguments")
    outs = linear_call_p.bind(*primals, num_res=num_res, **params)
    linear = map(instantiate_zeros, tangents[num_res:])
    return outs, linear_call_p.bind(*primals[:num_res], *linear, num_res=num_res, **params)


def _transpose(cts: Sequence[Any], *args: Any, callee: ClosedJaxpr, transpose: ClosedJaxpr, num_res: int) -> list[Any]:
    residuals = args[:num_res]
    if any(map(is_undefined_primal, residuals)):
        raise NotImplementedError("linear_call cannot be transposed in its residual arguments")
    outs = linear_call_p.bind(
        *residuals, *map(instantiate_zeros, cts), callee=transpose, transpose=callee, num_res=num_res
    )
    return [None] * num_res + list(outs)


def _batch(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callee: ClosedJaxpr,
    transpose: ClosedJaxpr,
    num_res: int,
) -> tuple[list, list]:
    """All linear arguments and results are batched in front, so that the transpose is that of the whole."""
    res_dims = list(dims[:num_res])
    batched = [
        batch_jaxpr(f, axis, [*res_dims, *[0] * (len(f.in_avals) - num_res)], [True] * len(f.out_avals))[0]
        for f in (callee, transpose)
    ]
    linear = [move_batch(x, d, 0, axis.size, axis.explicit) for x, d in zip(args[num_res:], dims[num_res:])]
    outs = linear_call_p.bind(*args[:num_res], *linear, callee=batched[0], transpose=batched[1], num_res=num_res)
    return outs, [0] * len(outs)


linear_call_p = Primitive(
    "linear_call",
    stands_for="callee",
    multiple_results=True,
    abstract_eval=lambda *avals, callee, **_: callee.out_avals,
    effects=lambda *avals, callee, **_: callee.effects,
    impl=_eval,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    reference=lambda *args, callee, **_: reference_eval(callee, *args),
)
