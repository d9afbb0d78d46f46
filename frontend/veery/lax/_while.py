"""Loops whose number of trips is found while they run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, effects, provided, source, tree
from veery._core.ad import Zero, instantiate_zeros
from veery._core.avals import ShapedArray, aval_of
from veery._core.config import config
from veery._core.dimensions import is_symbolic_dim
from veery._core.errors import ConcretizationTypeError
from veery._core.jaxpr import ClosedJaxpr, Effect, eval_jaxpr, reference_eval
from veery._core.primitive import Primitive
from veery._core.trace import Tracer
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.varying import pvary
from veery.lax import _bodies, _carry, _compare, _convert, _reduce, _shape
from veery.lax._arithmetic import add
from veery.lax._control_refs import while_with_refs
from veery.lax._scan import scan


@source.api_boundary
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """Repeat a function while a condition holds.

    Args:
        cond_fun: from the carried value to a scalar bool.
        body_fun: from the carried value to the next one, of the same pytree, shapes and dtypes.
        init_val: the first value, a pytree of arrays.

    Returns:
        The value for which the condition is false.

    Raises:
        TypeError: the body changes the type of the value, or the condition is no scalar bool.

    Forward-mode derivatives work; reverse mode does not, since the number of steps to remember is not known
    (use `scan`, or `fori_loop` with static bounds).

    >>> import veery
    >>> int(veery.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 1))
    128
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    leaves, treedef = tree.tree_flatten(init_val)
    if config.jax_disable_jit and not any(isinstance(x, Tracer) for x in leaves):
        value = tree.tree_map(_bodies.as_array, init_val)  # the body may change arrays of NumPy in place
        while cond_fun(value):
            value = body_fun(value)
        return value
    in_tree = tree.tree_structure((init_val,))
    leaves, body = _carry.stage_with_carry(
        lambda avals: _bodies.stage_body(body_fun, in_tree, avals, "while_loop body"), leaves
    )
    avals = [aval_of(x) for x in leaves]
    cond = _bodies.stage_body(cond_fun, in_tree, avals, "while_loop cond")
    _check_condition(cond)
    ends = cond.jaxpr.out_avals[0].varying
    if not all(ends <= aval.varying for aval in avals):  # trips differ along these axes of a mesh
        return while_loop(cond_fun, body_fun, tree.tree_map(lambda x: pvary(x, ends), init_val))
    name = _bodies.first_parameter(body_fun)
    _carry.check("while_loop body function", name, body.out_tree, body.jaxpr.out_avals, treedef, avals)
    fixed = _carry.read_only(body.jaxpr, len(body.consts), leaves)
    consts = [x for x, flag in zip(leaves, fixed) if flag]
    outs = iter(
        while_p.bind(
            *[*cond.consts, *consts],
            *[*body.consts, *consts],
            *[x for x, flag in zip(leaves, fixed) if not flag],
            cond_nconsts=len(cond.consts) + len(consts),
            cond_jaxpr=_carry.as_consts(cond.jaxpr, len(cond.consts), fixed, False),
            body_nconsts=len(body.consts) + len(consts),
            body_jaxpr=_carry.as_consts(body.jaxpr, len(body.consts), fixed),
        )
    )
    last = [_bodies.as_array(x) if flag else next(outs) for x, flag in zip(leaves, fixed)]
    return tree.tree_unflatten(treedef, last)


def _check_condition(cond: _bodies.Body) -> None:
    if cond.out_tree != tree.tree_structure(0):
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond.out_tree}.")
    (aval,) = cond.jaxpr.out_avals
    if aval.shape != () or not dtypes.issubdtype(aval.dtype, np.bool_):
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) [{aval!r}].")


@source.api_boundary
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool | None = None
) -> Any:
    """Repeat a function for each integer of a range.

    Args:
        lower: first index, a scalar.
        upper: end of the range, a scalar of the same dtype.
        body_fun: from (index, carried value) to the next value.
        init_val: the first value, a pytree of arrays.
        unroll: how many trips are written out at a time; only with bounds that are known when tracing.

    Returns:
        The last value. With integer bounds that are known when tracing the loop is a `scan`, which can be
        differentiated in reverse; otherwise a `while_loop`, which cannot.

    Raises:
        TypeError: the bounds are no scalars of one dtype, or the body changes the type of the value.
        ValueError: `unroll` is given though a bound is not known.

    >>> import veery
    >>> int(veery.lax.fori_loop(0, 5, lambda i, total: total + i, 0))
    10
    """
    if not callable(body_fun):
        raise TypeError("lax.fori_loop: body_fun argument should be callable.")
    dtype = _bounds_dtype(lower, upper)
    known = _known_integers(lower, upper)
    if known is None:
        if unroll is not None:
            raise ValueError(
                f"Can only use `unroll` in `fori_loop` if the loop bounds are statically known, got {lower=} {upper=}"
            )
        lower, upper = (provided.operations.dimension_value(x) if is_symbolic_dim(x) else x for x in (lower, upper))
        adopt = lambda x: x if aval_of(x).dtype == dtype else _convert.convert_element_type(x, dtype)
        state = (adopt(lower), adopt(upper), init_val)
        step = lambda loop_carry: (_add_one(loop_carry[0]), loop_carry[1], body_fun(loop_carry[0], loop_carry[2]))
        return while_loop(lambda s: _compare.lt(s[0], s[1]), step, state)[2]
    first, last = known
    if config.jax_disable_jit:
        value = init_val
        for i in range(first, last):
            value = body_fun(i, value)
        return value

    def body(loop_carry: tuple, _: None) -> tuple:
        i, value = loop_carry
        return (_add_one(i), body_fun(i, value)), None

    start = first if dtype == dtypes.default_int_dtype() else np.asarray(first, dtype)[()]
    (_, result), _ = scan(body, (start, init_val), None, length=max(last - first, 0), unroll=unroll or 1)
    return result


def _bounds_dtype(lower: Any, upper: Any) -> Any:
    """The dtype of the index: that of both bounds, where a weakly typed integer takes that of another integer."""
    avals = [aval_of(lower), aval_of(upper)]
    for aval, name in zip(avals, ("lower", "upper")):
        if aval.shape:
            raise TypeError(f"lax.fori_loop: {name} must be a scalar, got an array of type {aval.str_short(False)}")
    found = [a.dtype for a in avals]
    if all(dtypes.issubdtype(d, np.integer) for d in found):
        found = [a.dtype for a in avals if not a.weak_type] or found
    if len(set(found)) > 1:
        raise TypeError(
            f"lower and upper arguments to fori_loop must have equal types, got {found[0].name} and {found[1].name}"
        )
    return found[0]


def _known_integers(lower: Any, upper: Any) -> tuple[int, int] | None:
    """The bounds, if they are integers whose values are known."""
    try:
        return operator.index(lower), operator.index(upper)
    except (TypeError, ConcretizationTypeError):
        return None


def _add_one(i: Any) -> Any:
    return add(i, 1)


# Rules. Operands: constants of the condition, constants of the body, carry.


def _split(operands: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> tuple[list, list, list]:
    a, b = cond_nconsts, cond_nconsts + body_nconsts
    return list(operands[:a]), list(operands[a:b]), list(operands[b:])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list, list]:
    cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
    body: ClosedJaxpr = params["body_jaxpr"]
    cond_consts, body_consts, carry = _split(primals, cond_nconsts, body_nconsts)
    _, consts_dot, carry_dot = _split(tangents, cond_nconsts, body_nconsts)
    const_nz = tuple(type(t) is not Zero for t in consts_dot)
    carry_nz = _carry.fixpoint(
        [type(t) is not Zero for t in carry_dot], lambda nz: jvp_jaxpr(body, (*const_nz, *nz), tuple(nz))[1]
    )
    both, _ = jvp_jaxpr(body, (*const_nz, *carry_nz), tuple(carry_nz))
    n_c, n = len(body_consts), len(carry)
    dots = [t for t in consts_dot if type(t) is not Zero]
    carry_dots = [instantiate_zeros(t) for t, nz in zip(carry_dot, carry_nz) if nz]
    # from (consts, carry, const tangents, carry tangents) to (consts, const tangents, carry, carry tangents)
    body_jvp = _carry.reorder(both, (n_c, n, len(dots), len(carry_dots)), (0, 2, 1, 3))
    cond_jvp = _carry.add_unused(params["cond_jaxpr"], tuple([aval_of(t) for t in carry_dots]))
    results = while_p.bind(
        *cond_consts,
        *body_consts,
        *dots,
        *carry,
        *carry_dots,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond_jvp,
        body_nconsts=n_c + len(dots),
        body_jaxpr=body_jvp,
    )
    outs, out_dots = results[:n], iter(results[n:])
    return outs, [next(out_dots) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, carry_nz)]


def _linearize(nonzeros: tuple[bool, ...], *primals: Any, **params: Any) -> tuple:
    outs = while_p.bind(*primals, **params)
    _, _, carry_nz = _split(nonzeros, params["cond_nconsts"], params["body_nconsts"])
    _, const_nz, _ = _split(nonzeros, params["cond_nconsts"], params["body_nconsts"])
    body = params["body_jaxpr"]
    nonzeros_out = _carry.fixpoint(carry_nz, lambda nz: jvp_jaxpr(body, (*const_nz, *nz), tuple(nz))[1])

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = iter(tangents)
        dots = [next(given) if nz else Zero.from_primal_value(p) for p, nz in zip(residuals, nonzeros)]
        _, out_dots = _jvp(residuals, dots, **params)
        return [t for t in out_dots if type(t) is not Zero]

    return outs, tuple(nonzeros_out), list(primals), linear


def _transpose(cts: Sequence[Any], *operands: Any, **params: Any) -> list[Any]:
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop "
        "values. "
        "Try using lax.scan, or using fori_loop with static start/stop."
    )


def _batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list, list]:
    cond_nconsts, body_nconsts = params["cond_nconsts"], params["body_nconsts"]
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    args = [x if d is None else move_batch(x, d, 0, axis.size) for x, d in zip(args, dims)]
    flags = [d is not None for d in dims]
    cond_b, body_b, carry_b = _split(flags, cond_nconsts, body_nconsts)
    as_dims = lambda bs: [0 if b else None for b in bs]
    pred_batched = False
    while True:
        step = batch_jaxpr(body, axis, as_dims([*body_b, *carry_b]), carry_b)[1]
        pred_batched = batch_jaxpr(cond, axis, as_dims([*cond_b, *carry_b]))[1][0] is not None
        found = [pred_batched or b or d is not None for b, d in zip(carry_b, step)]
        if found == carry_b:
            break
        carry_b = found
    body_batched, _ = batch_jaxpr(body, axis, as_dims([*body_b, *carry_b]), carry_b)
    cond_batched, _ = batch_jaxpr(cond, axis, as_dims([*cond_b, *carry_b]))
    cond_consts, body_consts, carry = _split(args, cond_nconsts, body_nconsts)
    carry = [
        move_batch(x, 0 if d is not None else None, 0, axis.size, axis.explicit) if b else x
        for x, b, d in zip(carry, carry_b, _split(dims, cond_nconsts, body_nconsts)[2])
    ]
    if pred_batched:
        if effects.has_io(_effects(cond_jaxpr=cond, body_jaxpr=body)):
            raise NotImplementedError("IO effects not supported in while_loop with batched predicate")
        body_batched = _frozen_when_done(cond_batched, cond_nconsts, body_batched, body_nconsts)
        body_consts = [*cond_consts, *body_consts]
        cond_batched = _any(cond_batched)
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *carry,
        cond_nconsts=cond_nconsts,
        cond_jaxpr=cond_batched,
        body_nconsts=len(body_consts),
        body_jaxpr=body_batched,
    )
    return outs, as_dims(carry_b)


def _any(cond: ClosedJaxpr) -> ClosedJaxpr:
    """The condition of a batched loop: it goes on while any element does."""

    def fun(*args: Any) -> list[Any]:
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *args)
        return [_reduce.reduce_or_p.bind(pred, axes=(0,))]

    return staging.stage(fun, cond.in_avals, cond.debug_info)


def _frozen_when_done(cond: ClosedJaxpr, n_cond: int, body: ClosedJaxpr, n_body: int) -> ClosedJaxpr:
    """The body of a batched loop: elements whose condition is false keep their values."""

    def fun(*args: Any) -> list[Any]:
        cond_consts, body_consts, carry = _split(args, n_cond, n_body)
        (pred,) = eval_jaxpr(cond.jaxpr, cond.consts, *cond_consts, *carry)
        new = eval_jaxpr(body.jaxpr, body.consts, *body_consts, *carry)
        return [
            _compare.select_n(_shape.broadcast_in_dim(pred, np.shape(x), (0,)), old, x) for old, x in zip(carry, new)
        ]

    return staging.stage(fun, [*cond.in_avals[:n_cond], *body.in_avals], body.debug_info)


def _reference(
    *operands: Any, cond_nconsts: int, cond_jaxpr: ClosedJaxpr, body_nconsts: int, body_jaxpr: ClosedJaxpr
) -> list[Any]:
    cond_consts, body_consts, carry = _split(operands, cond_nconsts, body_nconsts)
    while reference_eval(cond_jaxpr, *cond_consts, *carry)[0]:
        carry = reference_eval(body_jaxpr, *body_consts, *carry)
    return carry


def _effects(*avals: ShapedArray, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, **_: Any) -> frozenset[Effect]:
    return cond_jaxpr.effects | body_jaxpr.effects


while_p = Primitive(
    "while",
    with_refs=while_with_refs,
    multiple_results=True,
    abstract_eval=lambda *avals, body_jaxpr, **_: body_jaxpr.out_avals,
    effects=_effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
    reference=_reference,
)
