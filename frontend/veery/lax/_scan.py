"""Scans: loops over the leading axis of arrays, with a carried value and stacked outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import source, tree
from veery._core.ad import UndefinedPrimal, Zero, add_tangents, instantiate_zeros, is_undefined_primal
from veery._core.avals import ShapedArray, aval_of
from veery._core.config import config
from veery._core.errors import ConcretizationTypeError
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, memoized, reference_eval
from veery._core.primitive import Primitive
from veery._core.refs import check_aliases
from veery._core.trace import Tracer
from veery._transforms import explicit, staging
from veery._transforms.batching import AxisData, batch_jaxpr, batched_aval, move_batch, unbatched_aval
from veery._transforms.dce import dce_jaxpr
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import LinearizedJaxpr, linearize_jaxpr
from veery._transforms.remat import Piece, Policy, inline_calls, partition
from veery._transforms.transpose import backward_pass
from veery.lax import _bodies, _carry, _shape
from veery.lax._control_refs import scan_with_refs
from veery.lax._scan_residuals import plan_residuals


@source.api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Apply a function to each element along the leading axis of arrays, carrying a value from one to the next.

    Args:
        f: from (carry, x) to (next carry, y); the carry keeps its pytree, shapes and dtypes.
        init: the first carry, a pytree of arrays.
        xs: pytree of arrays with a common leading axis, or None.
        length: number of steps; needed if xs has no arrays.
        reverse: whether to go from the last element to the first (outputs stay in the order of xs).
        unroll: how many steps are written out at a time; True for all.

    Returns:
        The last carry, and the ys stacked along a new leading axis.

    Raises:
        TypeError: f changes the type of the carry.
        ValueError: lengths differ.

    Compile time does not depend on the length; reverse-mode derivatives keep only the values that they need.

    >>> import veery, veery.numpy as jnp
    >>> total, sums = veery.lax.scan(lambda c, x: (c + x, c + x), 0.0, jnp.arange(4.0))
    >>> sums.tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    if not callable(f):
        raise TypeError("lax.scan: f argument should be a callable.")
    x_leaves, xs_tree = tree.tree_flatten(xs)
    carry_leaves, carry_tree = tree.tree_flatten(init)
    size = leading_size(x_leaves, length)
    if config.jax_disable_jit and not any(isinstance(x, Tracer) for x in (*x_leaves, *carry_leaves)):
        return _python_scan(f, init, xs, size, reverse)
    x_avals = [_element(aval_of(x)) for x in x_leaves]  # type: ignore[attr-defined]
    in_tree = tree.tree_structure((init, xs))
    carry_leaves, body = _carry.stage_with_carry(
        lambda avals: _bodies.stage_body(f, in_tree, [*avals, *x_avals], "scan body"), carry_leaves
    )
    carry_avals = [aval_of(x) for x in carry_leaves]
    y_tree = _check_outputs(f, body, carry_tree, carry_avals)
    unroll = _checked_unroll(unroll, size)
    check_aliases(_bodies.function_name(f), "scan", [*carry_leaves, *x_leaves], body.consts)
    fixed = _carry.read_only(body.jaxpr, len(body.consts), carry_leaves)
    consts = [*body.consts, *(x for x, flag in zip(carry_leaves, fixed) if flag)]
    carried = [x for x, flag in zip(carry_leaves, fixed) if not flag]
    outs = iter(
        scan_p.bind(
            *consts,
            *carried,
            *x_leaves,
            jaxpr=_carry.as_consts(body.jaxpr, len(body.consts), fixed),
            length=size,
            reverse=bool(reverse),
            num_consts=len(consts),
            num_carry=len(carried),
            unroll=unroll,
        )
    )
    last = [_bodies.as_array(x) if flag else next(outs) for x, flag in zip(carry_leaves, fixed)]
    return tree.tree_unflatten(carry_tree, last), tree.tree_unflatten(y_tree, list(outs))


def _checked_unroll(unroll: int | bool, length: int) -> int:
    if isinstance(unroll, Tracer):
        raise ConcretizationTypeError(
            unroll, "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."
        )
    if unroll is True:
        return max(length, 1)
    if unroll < 0:
        raise ValueError("`unroll` must be a `bool` or a non-negative `int`.")
    return max(int(unroll), 1)


def leading_size(leaves: Sequence[Any], length: int | None = None) -> int:
    """The size of the leading axis that arrays have in common; `length` is what it should be.

    Raises:
        ValueError: sizes differ, or there is nothing to tell the size by.
    """
    for x in leaves:
        if not np.shape(x):
            raise ValueError(f"scan got value with no leading axis to scan over: {x}.")
    sizes = {np.shape(x)[0] for x in leaves}
    if length is not None:
        if isinstance(length, Tracer):
            raise ConcretizationTypeError(length, "The `length` argument to `scan` expects a concrete `int` value.")
        try:
            length = int(length)
        except Exception as e:
            raise TypeError("The `length` argument to `scan` expects a concrete `int` value.") from e
        if not all(s == length for s in sizes):
            raise ValueError(
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{[np.shape(x)[0] for x in leaves]}."
            )
        return length
    if len(sizes) > 1:
        raise ValueError(
            f"scan got values with different leading axis sizes: {', '.join(str(np.shape(x)[0]) for x in leaves)}."
        )
    if not sizes:
        raise ValueError("scan got no values to scan over and `length` not provided.")
    return sizes.pop()


def _check_outputs(f: Any, body: _bodies.Body, carry_tree: Any, carry_avals: Sequence[Any]) -> Any:
    """The tree of the ys, after checking that the body returns a pair whose first member is like the carry."""
    children = tree.treedef_children(body.out_tree)
    if len(children) != 2 or not isinstance(
        tree.tree_unflatten(body.out_tree, [None] * body.out_tree.num_leaves), (tuple, list)
    ):
        raise TypeError(
            f"scan body output must be a pair, got {tree.tree_unflatten(body.out_tree, list(body.jaxpr.out_avals))}. "
            f"The body is {_bodies.place(f)}."
        )
    n = len(carry_avals)
    out_avals = body.jaxpr.out_avals[: children[0].num_leaves]
    name = _bodies.first_parameter(f)
    _carry.check("scan body function", name, children[0], out_avals, carry_tree, carry_avals)
    assert children[0].num_leaves == n
    return children[1]


def _python_scan(f: Any, carry: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    if not length:
        raise ValueError("zero-length scan is not supported in disable_jit() mode because the output type is unknown.")
    ys = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree.tree_map(lambda x: x[i], xs))  # noqa: B023
        ys.append(y)
    if reverse:
        ys.reverse()
    stack = lambda *leaves: _shape.concatenate([_shape.expand_dims(y, (0,)) for y in leaves], 0)
    return carry, tree.tree_map(stack, *ys)


# Rules. Operands are constants, carry, xs (stacked); results are carry, ys (stacked). The body takes constants, carry
# and a slice of xs, and gives carry and a slice of ys.


class Groups(NamedTuple):
    """What belongs to the operands of a scan: the operands themselves, their types, their tangents, flags..."""

    consts: list[Any]
    carry: list[Any]
    xs: list[Any]


def _grouped(items: Sequence[Any], num_consts: int, num_carry: int) -> Groups:
    a, b = num_consts, num_consts + num_carry
    return Groups(list(items[:a]), list(items[a:b]), list(items[b:]))


def _only(items: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The items that are flagged."""
    return [x for x, flag in zip(items, flags) if flag]


def _stacked(aval: ShapedArray, length: int) -> ShapedArray:
    return batched_aval(aval, 0, length)


def _element(aval: Any) -> Any:
    """The type of what a step gets of an array.

    Raises:
        ValueError: an Explicit axis of a mesh divides the array along the steps.
    """
    if aval.divided is not None and explicit.ways_of(aval)[0]:
        raise ValueError(f"0th dimension of all xs should be replicated. Got {aval.divided.spec}")
    return unbatched_aval(aval, 0)


def _abstract_eval(*avals: Any, jaxpr: ClosedJaxpr, length: int, num_carry: int, **_: Any) -> list[Any]:
    outs = jaxpr.out_avals
    return [*outs[:num_carry], *(_stacked(a, length) for a in outs[num_carry:])]


def _jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list[Any], list[Any]]:
    """A scan whose body computes tangents too. A carry has a tangent where some step gives it one."""
    nonzeros = _grouped([type(t) is not Zero for t in tangents], num_consts, num_carry)
    num_ys = len(jaxpr.out_avals) - num_carry

    def with_tangents(carry: Sequence[bool]) -> tuple[ClosedJaxpr, Sequence[bool]]:
        asked = (*carry, *[False] * num_ys)
        return jvp_jaxpr(jaxpr, (*nonzeros.consts, *carry, *nonzeros.xs), asked)

    carry_nonzeros = _carry.fixpoint(nonzeros.carry, lambda carry: with_tangents(carry)[1][:num_carry])
    both, nonzeros_out = with_tangents(carry_nonzeros)

    given = _grouped(primals, num_consts, num_carry)
    flags = Groups(nonzeros.consts, carry_nonzeros, nonzeros.xs)
    dots = Groups(
        *([instantiate_zeros(t) for t in _only(group, wanted)]
          for group, wanted in zip(_grouped(tangents, num_consts, num_carry), flags))
    )  # fmt: skip
    # from (consts, carry, xs, their tangents) to (consts, tangents, carry, tangents, xs, tangents)
    sizes = tuple([len(group) for group in (*given, *dots)])
    body = _interleave_outputs(_carry.reorder(both, sizes, (0, 3, 1, 4, 2, 5)), num_carry, num_ys, len(dots.carry))
    results = scan_p.bind(
        *given.consts, *dots.consts, *given.carry, *dots.carry, *given.xs, *dots.xs, jaxpr=body,
        num_consts=num_consts + len(dots.consts), num_carry=num_carry + len(dots.carry), **params,
    )  # fmt: skip
    taken = iter(results)
    take = lambda count: list(itertools.islice(taken, count))
    carry, carry_dots, ys, ys_dots = take(num_carry), take(len(dots.carry)), take(num_ys), list(taken)
    outs, out_dots = [*carry, *ys], iter([*carry_dots, *ys_dots])
    return outs, [next(out_dots) if nonzero else Zero.from_primal_value(x) for x, nonzero in zip(outs, nonzeros_out)]


@memoized
def _interleave_outputs(closed: ClosedJaxpr, num_carry: int, num_ys: int, num_carry_dots: int) -> ClosedJaxpr:
    """From outputs (carry, ys, carry tangents, y tangents) to (carry, carry tangents, ys, y tangents)."""
    outvars = iter(closed.jaxpr.outvars)
    take = lambda count: list(itertools.islice(outvars, count))
    carry, ys, carry_dots, ys_dots = take(num_carry), take(num_ys), take(num_carry_dots), list(outvars)
    return ClosedJaxpr(closed.jaxpr.replace(outvars=[*carry, *carry_dots, *ys, *ys_dots]), closed.consts)


def _linearize(
    nonzeros: tuple[bool, ...], *primals: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> tuple[Any, ...]:
    """The scan of the body's primal part, which also gives residuals, and a linear scan over these."""
    given_dots = _grouped(nonzeros, num_consts, num_carry)
    num_outs = len(jaxpr.out_avals)
    num_ys = num_outs - num_carry

    def linearized(carry: Sequence[bool]) -> LinearizedJaxpr:
        asked = (*carry, *[False] * num_ys)
        return linearize_jaxpr(jaxpr, (*given_dots.consts, *carry, *given_dots.xs), asked)

    carry_nonzeros = _carry.fixpoint(given_dots.carry, lambda carry: linearized(carry).nonzeros_out[:num_carry])
    split = linearized(carry_nonzeros)
    plan = plan_residuals(split.primal, num_outs, split.sources, num_consts, num_carry)
    results = scan_p.bind(*primals, jaxpr=plan.primal, num_consts=num_consts, num_carry=num_carry, **params)
    outs = results[:num_outs]

    given = _grouped(primals, num_consts, num_carry)
    ys = results[num_carry:]  # behind those of the user are those that are residuals
    invariant = [given.consts[i] for i in plan.from_consts] + plan.hoisted(given.consts)
    stacked = [given.xs[i] for i in plan.from_xs] + [ys[i] for i in plan.from_ys]
    num_const_dots, num_carry_dots = sum(given_dots.consts), sum(carry_nonzeros)
    body = plan.linear_body(split.linear, num_const_dots, num_carry_dots)
    carry_avals = _grouped(jaxpr.in_avals, num_consts, num_carry).carry

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        of_steps, by_step = residuals[: len(invariant)], residuals[len(invariant) :]
        given = iter(tangents)
        dots = _grouped([next(given) if nonzero else None for nonzero in nonzeros], num_consts, num_carry)
        zeros = (instantiate_zeros(Zero(aval.to_tangent_aval())) for aval in _only(carry_avals, carry_nonzeros))
        carry_dots = [z if t is None else t for t, z in zip(_only(dots.carry, carry_nonzeros), zeros)]
        there = lambda group: [t for t in group if t is not None]
        found: list[Any] = scan_p.bind(
            *of_steps, *there(dots.consts), *carry_dots, *by_step, *there(dots.xs),
            jaxpr=body, num_consts=len(invariant) + num_const_dots, num_carry=num_carry_dots, **params,
        )  # fmt: skip
        return found

    return outs, split.nonzeros_out, [*invariant, *stacked], linear


def _transpose(
    cts: Sequence[Any],
    *operands: Any,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **params: Any,
) -> list[Any]:
    """A scan in the other direction: it carries the cotangents of the carry, and sums those of constants."""
    given = _grouped(operands, num_consts, num_carry)
    linear = Groups(*([is_undefined_primal(x) for x in group] for group in given))
    # A carry that starts from a known value (zero) is linear all the same if linear values flow into it.
    depends = lambda carry: _depends(jaxpr, (*linear.consts, *carry, *linear.xs))[:num_carry]
    if not all(_carry.fixpoint(linear.carry, depends)):
        whole = dict(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, reverse=reverse, **params)
        return _transpose_by_linearizing(cts, operands, whole)

    known = Groups(*([x for x in group if not is_undefined_primal(x)] for group in given))
    ct_sums = [instantiate_zeros(Zero(x.aval)) for x in _only(given.consts, linear.consts)]
    ct_carry = [instantiate_zeros(ct) for ct in cts[:num_carry]]
    ys_nonzeros = tuple([type(ct) is not Zero for ct in cts[num_carry:]])
    body = _transposed_body(jaxpr, tuple(linear.consts), num_carry, tuple(linear.xs), ys_nonzeros)
    results = scan_p.bind(
        *known.consts, *ct_sums, *ct_carry, *_only(cts[num_carry:], ys_nonzeros), *known.xs, jaxpr=body,
        num_consts=len(known.consts), num_carry=len(ct_sums) + num_carry, reverse=not reverse, **params,
    )  # fmt: skip
    found = iter(results)
    ct_consts = [next(found) if flag else None for flag in linear.consts]
    ct_starts = [ct if flag else None for flag, ct in zip(linear.carry, found)]
    return [*ct_consts, *ct_starts, *(next(found) if flag else None for flag in linear.xs)]


def _depends(closed: ClosedJaxpr, flags: Sequence[bool]) -> list[bool]:
    """Which outputs depend on the inputs that are flagged."""
    tainted = {v for v, flag in zip(closed.jaxpr.invars, flags) if flag}
    for eqn in closed.jaxpr.eqns:
        if any(type(a) is not Literal and a in tainted for a in eqn.invars):
            tainted.update(eqn.outvars)
    return [type(a) is not Literal and a in tainted for a in closed.jaxpr.outvars]


@memoized
def _transposed_body(
    jaxpr: ClosedJaxpr,
    linear_consts: tuple[bool, ...],
    num_carry: int,
    linear_xs: tuple[bool, ...],
    ys_nonzeros: tuple[bool, ...],
) -> ClosedJaxpr:
    """From (known consts; cotangents of consts so far, of carry; of ys, known xs) to the cotangents a step earlier."""
    num_consts = len(linear_consts)
    avals = _grouped(jaxpr.in_avals, num_consts, num_carry)
    ys_avals = jaxpr.out_avals[num_carry:]
    inverted = lambda flags: [not flag for flag in flags]
    known_consts, sums = _only(avals.consts, inverted(linear_consts)), _only(avals.consts, linear_consts)
    known_xs, given_ys = _only(avals.xs, inverted(linear_xs)), _only(ys_avals, ys_nonzeros)

    def backwards(*args: Any) -> list[Any]:
        given = iter(args)
        take = lambda avals: list(itertools.islice(given, len(avals)))
        consts, totals, ct_carry, ct_ys, xs = map(take, (known_consts, sums, avals.carry, given_ys, known_xs))
        operands = [
            *_filled(avals.consts, linear_consts, UndefinedPrimal, consts),
            *map(UndefinedPrimal, avals.carry),
            *_filled(avals.xs, linear_xs, UndefinedPrimal, xs),
        ]
        ct_out = [*ct_carry, *_filled(ys_avals, inverted(ys_nonzeros), Zero, ct_ys)]
        cts = _grouped(backward_pass(jaxpr.jaxpr, jaxpr.consts, operands, ct_out), num_consts, num_carry)
        return [
            *(instantiate_zeros(add_tangents(a, b)) for a, b in zip(totals, _only(cts.consts, linear_consts))),
            *map(instantiate_zeros, cts.carry),
            *map(instantiate_zeros, _only(cts.xs, linear_xs)),
        ]

    def stage(strong: Sequence[bool]) -> ClosedJaxpr:
        carried = [aval.strip_weak_type() if flag else aval for aval, flag in zip(avals.carry, strong)]
        return staging.stage(backwards, [*known_consts, *sums, *carried, *given_ys, *known_xs], jaxpr.debug_info)

    # A carry is of weak type where it stays so in each step.
    carried_out = lambda closed: closed.out_avals[len(sums) : len(sums) + num_carry]
    strong = [not aval.weak_type for aval in avals.carry]
    strong = _carry.fixpoint(strong, lambda flags: [not aval.weak_type for aval in carried_out(stage(flags))])
    return stage(strong)


def _filled(avals: Sequence[Any], flags: Sequence[bool], made: Any, others: Sequence[Any]) -> list[Any]:
    """For each type what is made of it where it is flagged, else the next of the others."""
    rest = iter(others)
    return [made(aval) if flag else next(rest) for aval, flag in zip(avals, flags)]


def _transpose_by_linearizing(cts: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Transpose a scan that also carries values that are not linear (a counter, say).

    A linear function is its own derivative at any point: linearising at zero separates the two.
    """
    flags = tuple(map(is_undefined_primal, operands))
    point = [instantiate_zeros(Zero(x.aval)) if lin else x for x, lin in zip(operands, flags)]
    outs, nonzeros_out, residuals, linear = _linearize(flags, *point, **params)
    avals = [x.aval for x, lin in zip(operands, flags) if lin]
    closed = staging.stage(lambda *tangents: linear(residuals, *tangents), avals)
    given = [ct for ct, nz in zip(cts, nonzeros_out) if nz]
    found = iter(backward_pass(closed.jaxpr, closed.consts, [UndefinedPrimal(a) for a in avals], given))
    return [next(found) if lin else None for lin in flags]


def _batch(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> tuple[list[Any], list[int | None]]:
    """A scan whose body is batched. A carry is batched where some step makes it so."""
    batched = _grouped([d is not None for d in dims], num_consts, num_carry)
    unbatched_ys = [False] * (len(jaxpr.out_avals) - num_carry)
    in_front = lambda flags: [0 if flag else None for flag in flags]

    def batched_body(carry: Sequence[bool]) -> tuple[ClosedJaxpr, Sequence[int | None]]:
        in_dims = in_front([*batched.consts, *carry, *batched.xs])
        return batch_jaxpr(jaxpr, axis, in_dims, [*carry, *unbatched_ys])

    carry_batched = _carry.fixpoint(
        batched.carry, lambda carry: [d is not None for d in batched_body(carry)[1][:num_carry]]
    )
    body, out_dims = batched_body(carry_batched)
    given = _grouped(list(zip(args, dims)), num_consts, num_carry)
    operands = [
        *(x if d is None else move_batch(x, d, 0, axis.size) for x, d in given.consts),
        *(
            move_batch(x, d, 0, axis.size, axis.explicit) if flag else x
            for (x, d), flag in zip(given.carry, carry_batched)
        ),
        *(x if d is None else move_batch(x, d, 1, axis.size) for x, d in given.xs),
    ]
    outs = scan_p.bind(*operands, jaxpr=body, num_consts=num_consts, num_carry=num_carry, **params)
    ys_dims = [None if d is None else 1 for d in out_dims[num_carry:]]
    return outs, [*in_front(carry_batched), *ys_dims]


def _reference(
    *operands: Any, jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, unroll: int
) -> list[Any]:
    consts, carry, xs = _grouped(operands, num_consts, num_carry)
    ys: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        outs = reference_eval(jaxpr, *consts, *carry, *(x[i] for x in xs))
        carry, ys[i] = outs[:num_carry], outs[num_carry:]
    avals = jaxpr.out_avals[num_carry:]
    stacks = [np.stack([y[j] for y in ys]) if length else np.zeros((0, *a.shape), a.dtype) for j, a in enumerate(avals)]
    return [*carry, *stacks]


def _divide(eqn: JaxprEqn, needed: set[Var], policy: Policy) -> tuple[Piece, list[Var]]:
    """A scan whose body is divided: values that are saved in each step are stacked."""
    body = inline_calls(eqn.params["jaxpr"])
    num_carry, length = eqn.params["num_carry"], eqn.params["length"]
    outvars = [v for i, v in enumerate(eqn.outvars) if i < num_carry or v in needed]
    demanded = [a for a, v in zip(body.jaxpr.outvars, eqn.outvars) if v in outvars]
    inner = partition(body.jaxpr, demanded, policy)
    if not inner.saved:
        return Piece(eqn, eqn), []
    stacks = [Var(_stacked(v.aval, length)) for v in inner.saved]
    known = eqn.replace(
        outvars=[*eqn.outvars, *stacks], params=eqn.params | {"jaxpr": ClosedJaxpr(dce_jaxpr(inner.known), body.consts)}
    )
    again = eqn.replace(
        invars=[*eqn.invars, *stacks],
        outvars=outvars,
        params=eqn.params | {"jaxpr": ClosedJaxpr(dce_jaxpr(inner.again), body.consts)},
    )
    return Piece(known, again), stacks


scan_p = Primitive(
    "scan",
    with_refs=scan_with_refs,
    takes_refs=True,
    multiple_results=True,
    abstract_eval=_abstract_eval,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
    divide=_divide,
    reference=_reference,
)
