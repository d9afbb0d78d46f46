"""Scans: loops over the leading axis of arrays, with a carried value and stacked outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veery._core import source, tree
from veery._core.ad import UndefinedPrimal, Zero, add_tangents, instantiate_zeros, is_undefined_primal
from veery._core.avals import ShapedArray, aval_of
from veery._core.config import config
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var, eval_jaxpr, memoized, reference_eval
from veery._core.primitive import Primitive
from veery._core.trace import Tracer
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.dce import dce, dce_jaxpr, side_effects
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import linearize_jaxpr
from veery._transforms.remat import Piece, Policy, inline_calls, partition
from veery._transforms.transpose import backward_pass
from veery.lax import _bodies, _carry, _shape


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
    x_avals = [a.update(shape=a.shape[1:]) for a in map(aval_of, x_leaves)]  # type: ignore[attr-defined]
    in_tree = tree.tree_structure((init, xs))
    carry_leaves, body = _carry.stage_with_carry(
        lambda avals: _bodies.stage_body(f, in_tree, [*avals, *x_avals], "scan body"), carry_leaves
    )
    carry_avals = [aval_of(x) for x in carry_leaves]
    y_tree = _check_outputs(f, body, carry_tree, carry_avals)
    unroll = _checked_unroll(unroll, size)
    outs = scan_p.bind(
        *body.consts,
        *carry_leaves,
        *x_leaves,
        jaxpr=body.jaxpr,
        length=size,
        reverse=bool(reverse),
        num_consts=len(body.consts),
        num_carry=len(carry_leaves),
        unroll=unroll,
    )
    n = len(carry_leaves)
    return tree.tree_unflatten(carry_tree, outs[:n]), tree.tree_unflatten(y_tree, outs[n:])


def _checked_unroll(unroll: int | bool, length: int) -> int:
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
            f"scan body output must be a pair, got {tree.tree_unflatten(body.out_tree, list(body.jaxpr.out_avals))} "
            f"from {_bodies.function_name(f)}."
        )
    n = len(carry_avals)
    out_avals = body.jaxpr.out_avals[: children[0].num_leaves]
    name = _bodies.first_parameter(f)
    _carry.check("scan body function", name, children[0], out_avals, carry_tree, carry_avals)
    assert children[0].num_leaves == n
    return children[1]


def _python_scan(f: Any, carry: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    ys = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree.tree_map(lambda x: x[i], xs))  # noqa: B023
        ys.append(y)
    if reverse:
        ys.reverse()
    stack = lambda *leaves: _shape.concatenate([_shape.expand_dims(y, (0,)) for y in leaves], 0)
    return carry, tree.tree_map(stack, *ys)


# Rules. Operands: constants, carry, xs (stacked); results: carry, ys (stacked).


def _split(operands: Sequence[Any], num_consts: int, num_carry: int) -> tuple[list, list, list]:
    a, b = num_consts, num_consts + num_carry
    return list(operands[:a]), list(operands[a:b]), list(operands[b:])


def _stacked(aval: ShapedArray, length: int) -> ShapedArray:
    return aval.update(shape=(length, *aval.shape))


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
) -> tuple[list, list]:
    nonzeros = [type(t) is not Zero for t in tangents]
    const_nz, carry_nz, xs_nz = _split(nonzeros, num_consts, num_carry)
    n_ys = len(jaxpr.out_avals) - num_carry
    wanted = lambda nz: (*nz, *[False] * n_ys)
    carry_nz = _carry.fixpoint(
        carry_nz, lambda nz: jvp_jaxpr(jaxpr, (*const_nz, *nz, *xs_nz), wanted(nz))[1][:num_carry]
    )
    both, nonzeros_out = jvp_jaxpr(jaxpr, (*const_nz, *carry_nz, *xs_nz), wanted(carry_nz))
    tangents = [instantiate_zeros(t) if nz else t for t, nz in zip(tangents, [*const_nz, *carry_nz, *xs_nz])]
    dots = [[t for t in group if type(t) is not Zero] for group in _split(tangents, num_consts, num_carry)]
    groups = _split(primals, num_consts, num_carry)
    sizes = tuple([len(g) for g in (*groups, *dots)])
    # from (consts, carry, xs, their tangents) to (consts, tangents, carry, tangents, xs, tangents)
    body = _interleave_outputs(_carry.reorder(both, sizes, (0, 3, 1, 4, 2, 5)), num_carry, n_ys, len(dots[1]))
    results = scan_p.bind(
        *groups[0], *dots[0], *groups[1], *dots[1], *groups[2], *dots[2],
        jaxpr=body, num_consts=sizes[0] + sizes[3], num_carry=num_carry + sizes[4], **params,
    )  # fmt: skip
    n_carry_dots = sizes[4]
    carry, rest = results[:num_carry], results[num_carry:]
    carry_dots, rest = rest[:n_carry_dots], rest[n_carry_dots:]
    ys, y_dots = rest[:n_ys], rest[n_ys:]
    outs, out_dots = [*carry, *ys], iter([*carry_dots, *y_dots])
    return outs, [next(out_dots) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


@memoized
def _interleave_outputs(closed: ClosedJaxpr, num_carry: int, n_ys: int, n_carry_dots: int) -> ClosedJaxpr:
    """From outputs (carry, ys, carry tangents, y tangents) to (carry, carry tangents, ys, y tangents)."""
    o = closed.jaxpr.outvars
    a, b, c = num_carry, num_carry + n_ys, num_carry + n_ys + n_carry_dots
    outvars = [*o[:a], *o[b:c], *o[a:b], *o[c:]]
    return ClosedJaxpr(closed.jaxpr.replace(outvars=outvars), closed.consts)


def _linearize(
    nonzeros: tuple[bool, ...], *primals: Any, jaxpr: ClosedJaxpr, num_consts: int, num_carry: int, **params: Any
) -> tuple:
    const_nz, carry_nz, xs_nz = _split(nonzeros, num_consts, num_carry)
    n_out = len(jaxpr.out_avals)
    n_ys = n_out - num_carry
    wanted = lambda nz: (*nz, *[False] * n_ys)
    carry_nz = _carry.fixpoint(
        carry_nz, lambda nz: linearize_jaxpr(jaxpr, (*const_nz, *nz, *xs_nz), wanted(nz)).nonzeros_out[:num_carry]
    )
    split = linearize_jaxpr(jaxpr, (*const_nz, *carry_nz, *xs_nz), wanted(carry_nz))
    plan = _plan_residuals(split.primal, len(jaxpr.out_avals), split.sources, num_consts, num_carry)
    results = scan_p.bind(*primals, jaxpr=plan.primal, num_consts=num_consts, num_carry=num_carry, **params)
    outs, extra_ys = results[:n_out], results[n_out:]
    consts, _, xs = _split(primals, num_consts, num_carry)
    ys = [*outs[num_carry:], *extra_ys]
    invariant = [consts[i] for i in plan.from_consts] + plan.hoisted(consts)
    stacked = [xs[i] for i in plan.from_xs] + [ys[i] for i in plan.from_ys]
    n_const_dots, n_carry_dots = sum(const_nz), sum(carry_nz)
    body = plan.linear_body(split.linear, n_const_dots, n_carry_dots)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        kept_consts, kept_xs = residuals[: len(invariant)], residuals[len(invariant) :]
        given = iter(tangents)
        flat = [next(given) if nz else None for nz in nonzeros]
        c, k, x = _split(flat, num_consts, num_carry)
        avals = jaxpr.in_avals[num_consts : num_consts + num_carry]
        carry_dots = [
            t if t is not None else instantiate_zeros(Zero(a.to_tangent_aval()))
            for t, a, nz in zip(k, avals, carry_nz)
            if nz
        ]
        return scan_p.bind(
            *kept_consts, *(t for t in c if t is not None), *carry_dots, *kept_xs, *(t for t in x if t is not None),
            jaxpr=body, num_consts=len(invariant) + n_const_dots, num_carry=n_carry_dots, **params,
        )  # fmt: skip

    return outs, split.nonzeros_out, [*invariant, *stacked], linear


class _ResidualPlan:
    """Where the residuals of a scan's body come from: constants and xs as they are, ys of the primal scan for the rest.

    Residuals that depend on constants alone are the same in each step: they are computed once, before the loop,
    and are not stacked.
    """

    def __init__(
        self, primal: ClosedJaxpr, n_out: int, sources: Sequence[tuple[str, int]], num_consts: int, num_carry: int
    ):
        self.from_consts: list[int] = []
        self.from_xs: list[int] = []
        self.from_ys: list[int] = []
        self._hoisted_outs: list[int] = []
        self._primal = primal
        self._num_consts = num_consts
        invariant = _invariant_outputs(primal, num_consts)
        groups: list[tuple[str, int]] = []
        extra_outs: list[Any] = []
        for kind, i in sources:
            if kind == "in" and i < num_consts:
                groups.append(("const", _index_in(self.from_consts, i)))
            elif kind == "in" and i >= num_consts + num_carry:
                groups.append(("x", _index_in(self.from_xs, i - num_consts - num_carry)))
            elif kind == "out" and i in invariant:
                groups.append(("hoisted", _index_in(self._hoisted_outs, i)))
            elif kind == "out" and num_carry <= i < n_out:
                groups.append(("y", _index_in(self.from_ys, i - num_carry)))
            else:
                atom = primal.jaxpr.invars[i] if kind == "in" else primal.jaxpr.outvars[i]
                extra_outs.append(atom)
                groups.append(("y", _index_in(self.from_ys, n_out - num_carry + len(extra_outs) - 1)))
        self._groups = groups
        outvars = [*primal.jaxpr.outvars[:n_out], *extra_outs]
        self.primal = dce(ClosedJaxpr(primal.jaxpr.replace(outvars=outvars), primal.consts))

    def hoisted(self, consts: Sequence[Any]) -> list[Any]:
        """The residuals that depend on constants alone."""
        if not self._hoisted_outs:
            return []
        jaxpr = self._primal.jaxpr
        outvars = [jaxpr.outvars[i] for i in self._hoisted_outs]
        alone = dce_jaxpr(jaxpr.replace(outvars=outvars, invars=jaxpr.invars[: self._num_consts]), keep_effects=False)
        return eval_jaxpr(alone, self._primal.consts, *consts)

    def linear_body(self, linear: ClosedJaxpr, n_const_dots: int, n_carry_dots: int) -> ClosedJaxpr:
        """The linear body with inputs in the order of a scan: invariant residuals, tangents of constants, of carry,
        residuals by step, tangents of xs."""
        n_res = len(self._groups)
        tangent_avals = linear.in_avals[n_res:]
        base = {"const": 0, "hoisted": len(self.from_consts), "x": 0, "y": len(self.from_xs)}
        n_invariant = len(self.from_consts) + len(self._hoisted_outs)
        n_stacked = len(self.from_xs) + len(self.from_ys)
        invariant_avals: list[Any] = [None] * n_invariant
        stacked_avals: list[Any] = [None] * n_stacked
        for (kind, i), aval in zip(self._groups, linear.in_avals):
            (invariant_avals if kind in ("const", "hoisted") else stacked_avals)[base[kind] + i] = aval

        def fun(*args: Any) -> list[Any]:
            a = n_invariant + n_const_dots + n_carry_dots
            invariant, stacked = args[:n_invariant], args[a : a + n_stacked]
            residuals = [
                (invariant if kind in ("const", "hoisted") else stacked)[base[kind] + i] for kind, i in self._groups
            ]
            tangents = [*args[n_invariant:a], *args[a + n_stacked :]]
            return eval_jaxpr(linear.jaxpr, linear.consts, *residuals, *tangents)

        n = n_const_dots + n_carry_dots
        avals = [*invariant_avals, *tangent_avals[:n], *stacked_avals, *tangent_avals[n:]]
        return staging.stage(fun, avals, linear.debug_info)


_plan_residuals = memoized(_ResidualPlan)


def _index_in(items: list[int], item: int) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _invariant_outputs(closed: ClosedJaxpr, num_consts: int) -> set[int]:
    """The outputs that depend on the leading constants, and on the jaxpr's own, alone."""
    invariant = {*closed.jaxpr.constvars, *closed.jaxpr.invars[:num_consts]}
    for eqn in closed.jaxpr.eqns:
        if not side_effects(eqn.effects) and all(type(a) is Literal or a in invariant for a in eqn.invars):
            invariant.update(eqn.outvars)
    return {i for i, a in enumerate(closed.jaxpr.outvars) if type(a) is Literal or a in invariant}


def _transpose(
    cts: Sequence[Any],
    *operands: Any,
    jaxpr: ClosedJaxpr,
    num_consts: int,
    num_carry: int,
    length: int,
    reverse: bool,
    unroll: int,
) -> list[Any]:
    params = dict(length=length, reverse=reverse, unroll=unroll)
    flags = [is_undefined_primal(x) for x in operands]
    const_flags, carry_flags, xs_flags = _split(flags, num_consts, num_carry)
    # A carry that starts from a known value (zero) is linear all the same if linear values flow into it.
    linear_carry = _carry.fixpoint(carry_flags, lambda nz: _depends(jaxpr, (*const_flags, *nz, *xs_flags))[:num_carry])
    if not all(linear_carry):
        return _transpose_by_linearizing(
            cts, operands, dict(jaxpr=jaxpr, num_consts=num_consts, num_carry=num_carry, **params)
        )
    consts, carry, xs = _split(operands, num_consts, num_carry)
    lin_consts, lin_xs = const_flags, xs_flags
    known_consts = [x for x in consts if not is_undefined_primal(x)]
    known_xs = [x for x in xs if not is_undefined_primal(x)]
    ct_carry = [instantiate_zeros(ct) for ct in cts[:num_carry]]
    ct_ys, ys_nz = cts[num_carry:], [type(ct) is not Zero for ct in cts[num_carry:]]
    ct_consts = [instantiate_zeros(Zero(x.aval)) for x in consts if is_undefined_primal(x)]
    body = _transposed_body(jaxpr, tuple(lin_consts), num_carry, tuple(lin_xs), tuple(ys_nz))
    results = scan_p.bind(
        *known_consts,
        *ct_consts,
        *ct_carry,
        *(ct for ct in ct_ys if type(ct) is not Zero),
        *known_xs,
        jaxpr=body,
        num_consts=len(known_consts),
        num_carry=len(ct_consts) + num_carry,
        length=length,
        reverse=not reverse,
        unroll=unroll,
    )
    out = iter(results)
    const_cts = [next(out) if lin else None for lin in lin_consts]
    carry_cts = [ct if is_undefined_primal(x) else None for x, ct in zip(carry, out)]
    return [*const_cts, *carry_cts, *(next(out) if lin else None for lin in lin_xs)]


def _depends(closed: ClosedJaxpr, flags: Sequence[bool]) -> list[bool]:
    """Which outputs depend on the inputs that are flagged."""
    tainted = {v for v, flag in zip(closed.jaxpr.invars, flags) if flag}
    for eqn in closed.jaxpr.eqns:
        if any(type(a) is not Literal and a in tainted for a in eqn.invars):
            tainted.update(eqn.outvars)
    return [type(a) is not Literal and a in tainted for a in closed.jaxpr.outvars]


@memoized
def _transposed_body(
    jaxpr: ClosedJaxpr, lin_consts: tuple[bool, ...], num_carry: int, lin_xs: tuple[bool, ...], ys_nz: tuple[bool, ...]
) -> ClosedJaxpr:
    """From (known consts; cotangents of consts so far, of carry; of ys, known xs) to the cotangents a step earlier."""
    n_consts = len(lin_consts)
    c_avals, k_avals, x_avals = _split(jaxpr.in_avals, n_consts, num_carry)
    y_avals = jaxpr.out_avals[num_carry:]
    known_c = [a for a, lin in zip(c_avals, lin_consts) if not lin]
    linear_c = [a for a, lin in zip(c_avals, lin_consts) if lin]
    known_x = [a for a, lin in zip(x_avals, lin_xs) if not lin]
    given_y = [a for a, nz in zip(y_avals, ys_nz) if nz]

    def fun(*args: Any) -> list[Any]:
        it = iter(args)
        take = lambda n: [next(it) for _ in range(n)]
        consts, sums, ct_carry, ct_ys, xs = map(
            take, (len(known_c), len(linear_c), num_carry, len(given_y), len(known_x))
        )
        known_consts, known_xs, cts = iter(consts), iter(xs), iter(ct_ys)
        operands = [
            *(UndefinedPrimal(a) if lin else next(known_consts) for a, lin in zip(c_avals, lin_consts)),
            *map(UndefinedPrimal, k_avals),
            *(UndefinedPrimal(a) if lin else next(known_xs) for a, lin in zip(x_avals, lin_xs)),
        ]
        ct_out = [*ct_carry, *(next(cts) if nz else Zero(a) for a, nz in zip(y_avals, ys_nz))]
        ct_in = backward_pass(jaxpr.jaxpr, jaxpr.consts, operands, ct_out)
        ct_c, ct_k, ct_x = _split(ct_in, n_consts, num_carry)
        new = [ct for ct, lin in zip(ct_c, lin_consts) if lin]
        return [
            *(instantiate_zeros(add_tangents(a, b)) for a, b in zip(sums, new)),
            *map(instantiate_zeros, ct_k),
            *(instantiate_zeros(ct) for ct, lin in zip(ct_x, lin_xs) if lin),
        ]

    def stage(strong: Sequence[bool]) -> ClosedJaxpr:
        carried = [a.strip_weak_type() if s else a for a, s in zip(k_avals, strong)]
        return staging.stage(fun, [*known_c, *linear_c, *carried, *given_y, *known_x], jaxpr.debug_info)

    # A carry is of weak type where it stays so in each step.
    carried_out = lambda closed: closed.out_avals[len(linear_c) : len(linear_c) + num_carry]
    strong = [not a.weak_type for a in k_avals]
    strong = _carry.fixpoint(strong, lambda flags: [not a.weak_type for a in carried_out(stage(flags))])
    return stage(strong)


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
) -> tuple[list, list]:
    flags = [d is not None for d in dims]
    const_b, carry_b, xs_b = _split(flags, num_consts, num_carry)
    n_ys = len(jaxpr.out_avals) - num_carry
    as_dims = lambda bs: [0 if b else None for b in bs]
    batched_outs = lambda bs: batch_jaxpr(jaxpr, axis, as_dims([*const_b, *bs, *xs_b]), [*bs, *[False] * n_ys])
    carry_b = _carry.fixpoint(carry_b, lambda bs: [d is not None for d in batched_outs(bs)[1][:num_carry]])
    body, out_dims = batched_outs(carry_b)
    consts, carry, xs = _split(list(zip(args, dims)), num_consts, num_carry)
    operands = [
        *(x if d is None else move_batch(x, d, 0, axis.size) for x, d in consts),
        *(move_batch(x, d, 0, axis.size) if b else x for (x, d), b in zip(carry, carry_b)),
        *(x if d is None else move_batch(x, d, 1, axis.size) for x, d in xs),
    ]
    outs = scan_p.bind(*operands, jaxpr=body, num_consts=num_consts, num_carry=num_carry, **params)
    y_dims = [None if d is None else 1 for d in out_dims[num_carry:]]
    return outs, [*as_dims(carry_b), *y_dims]


def _reference(
    *operands: Any, jaxpr: ClosedJaxpr, length: int, reverse: bool, num_consts: int, num_carry: int, unroll: int
) -> list[Any]:
    consts, carry, xs = _split(operands, num_consts, num_carry)
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
    stacks = [Var(v.aval.update(shape=(length, *v.aval.shape))) for v in inner.saved]
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
