"""Linear systems and roots found by the user's solvers, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import dtypes, source, tree
from veery._core.ad import Zero, instantiate_zeros, is_undefined_primal, zeros_like_aval
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, eval_jaxpr, reference_eval
from veery._core.primitive import Primitive
from veery._transforms.batching import AxisData, batch_jaxpr, move_batch
from veery._transforms.custom_rules import CustomJVPCall
from veery._transforms.jvp import jvp
from veery._transforms.linearize import linearize
from veery._transforms.transpose import transpose_jaxpr
from veery.lax import _arithmetic, _bodies

Solver = Callable[[Callable[[Any], Any], Any], Any]


class _Problem(NamedTuple):
    """The functions of a linear system as jaxprs, each with the number of values that it closed over."""

    matvec: ClosedJaxpr
    vecmat: ClosedJaxpr | None
    solve: ClosedJaxpr
    transpose_solve: ClosedJaxpr | None


@source.api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve a linear system by a given function, with derivatives that solve further such systems.

    Args:
        matvec: the linear function A, from a pytree like b to one like b.
        b: the right-hand side.
        solve: `solve(matvec, b)` -> x with matvec(x) = b.
        transpose_solve: the same for the transposed function; needed for reverse mode unless symmetric, unused then.
        symmetric: whether matvec is symmetric, so that `solve` serves for both.
        has_aux: whether `solve` returns a pair of the solution and auxiliary output, which is not differentiated.

    Returns:
        The solution x (and auxiliary output).

    Raises:
        TypeError: the functions' outputs have another structure than b.
        ValueError: they have other shapes than b.

    >>> import veery, veery.numpy as jnp
    >>> double = lambda x: 2.0 * x
    >>> float(veery.lax.custom_linear_solve(double, 6.0, lambda f, y: y / 2.0, symmetric=True))
    3.0
    """
    leaves, treedef = tree.tree_flatten(b)
    in_tree = tree.tree_structure((b,))
    avals = [aval_of(x) for x in leaves]
    a = _staged(matvec, "matvec", in_tree, treedef, avals)
    solver = _staged(lambda y: solve(matvec, y), "solve", in_tree, treedef, avals, has_aux)
    vecmat, back = None, None
    if symmetric:
        vecmat, back = a, solver
    elif transpose_solve is not None:
        vecmat = _bodies.Body(_transposed(a), a.consts, a.out_tree)
        transposed = lambda x: tree.tree_unflatten(
            treedef, eval_jaxpr(vecmat.jaxpr.jaxpr, vecmat.jaxpr.consts, *vecmat.consts, *tree.tree_leaves(x))
        )
        back = _staged(lambda y: transpose_solve(transposed, y), "transpose_solve", in_tree, treedef, avals, has_aux)
    bodies = (a, vecmat, solver, back)
    outs = linear_solve_p.bind(
        *(c for body in bodies if body is not None for c in body.consts),
        *leaves,
        lengths=tuple(0 if body is None else len(body.consts) for body in bodies),
        problem=_Problem(*(None if body is None else body.jaxpr for body in bodies)),  # type: ignore[arg-type]
    )
    return tree.tree_unflatten(solver.out_tree, outs)


def _staged(
    fun: Any, name: str, in_tree: Any, treedef: Any, avals: Sequence[Any], has_aux: bool = False, like: str = "b"
) -> _bodies.Body:
    """A function of values like `like`, of which `in_tree` has one or several, that returns one."""
    count = in_tree.num_leaves // max(treedef.num_leaves, 1)
    body = _bodies.stage_body(fun, in_tree, [*avals] * count, name)
    out_tree = body.out_tree
    if has_aux:
        children = tree.treedef_children(out_tree)
        if len(children) != 2:
            raise ValueError(f"{name}() must return a pair of solution and auxiliary output, got {out_tree}")
        out_tree = children[0]
    if out_tree != treedef:
        raise TypeError(f"{name}() output pytree structure must match {like}, got {out_tree} and {treedef}.")
    shapes = [a.shape for a in body.jaxpr.out_avals[: len(avals)]]
    if shapes != [a.shape for a in avals]:
        raise ValueError(f"{name}() output shapes must match {like}, got {shapes} and {[a.shape for a in avals]}")
    return body


def _transposed(body: _bodies.Body) -> ClosedJaxpr:
    n = len(body.consts)
    linear = tuple(i >= n for i in range(len(body.jaxpr.in_avals)))
    return transpose_jaxpr(body.jaxpr, linear, (True,) * len(body.jaxpr.out_avals), True)[0]


# Operands: what matvec, vecmat, solve and transpose_solve close over; the right-hand side.


def _split(operands: Sequence[Any], lengths: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    groups, start = [], 0
    for n in lengths:
        groups.append(list(operands[start : start + n]))
        start += n
    return groups, list(operands[start:])


def _solve(*operands: Any, lengths: Sequence[int], problem: _Problem) -> list[Any]:
    groups, b = _split(operands, lengths)
    return eval_jaxpr(problem.solve.jaxpr, problem.solve.consts, *groups[2], *b)


def _reference(*operands: Any, lengths: Sequence[int], problem: _Problem) -> list[np.ndarray]:
    groups, b = _split(operands, lengths)
    return reference_eval(problem.solve, *groups[2], *b)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list, list]:
    """From A x = b: A dx = db - dA x."""
    outs = linear_solve_p.bind(*primals, **params)
    groups, b = _split(primals, params["lengths"])
    (a_dot, *_), b_dot = _split(tangents, params["lengths"])
    x, aux = outs[: len(b)], outs[len(b) :]
    matvec = params["problem"].matvec
    if any(type(t) is not Zero for t in a_dot):
        apply = lambda *args: eval_jaxpr(matvec.jaxpr, matvec.consts, *args)
        _, ax_dot = jvp(apply, [*groups[0], *x], [*a_dot, *map(Zero.from_primal_value, x)])
        b_dot = [_minus(instantiate_zeros(t), ax) for t, ax in zip(b_dot, ax_dot)]
    if all(type(t) is Zero for t in b_dot):
        return outs, [Zero.from_primal_value(o) for o in outs]
    known = [c for group in groups for c in group]
    x_dot = linear_solve_p.bind(*known, *map(instantiate_zeros, b_dot), **params)[: len(b)]
    return outs, [*x_dot, *map(Zero.from_primal_value, aux)]


def _minus(a: Any, b: Any) -> Any:
    return a if type(b) is Zero else _arithmetic.sub(a, b)


def _transpose(cts: Sequence[Any], *operands: Any, lengths: Sequence[int], problem: _Problem) -> list[Any]:
    if problem.transpose_solve is None:
        raise TypeError("transpose_solve required for backwards mode automatic differentiation of custom_linear_solve")
    groups, b = _split(operands, lengths)
    if any(is_undefined_primal(x) for group in groups for x in group):
        raise TypeError("custom_linear_solve is transposed in its right-hand side only")
    order = (1, 0, 3, 2)
    known = [c for i in order for c in groups[i]]
    ct_b = linear_solve_p.bind(
        *known,
        *map(instantiate_zeros, cts[: len(b)]),
        lengths=tuple(lengths[i] for i in order),
        problem=_Problem(*(problem[i] for i in order)),  # type: ignore[arg-type]
    )
    return [None] * (len(operands) - len(b)) + list(ct_b[: len(b)])


def _batch(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, lengths: Sequence[int], problem: _Problem
) -> tuple[list, list]:
    group_dims, b_dims = _split(dims, lengths)
    _, b = _split(args, lengths)
    batched = [
        None if f is None else batch_jaxpr(f, axis, [*ds, *[0] * len(b)], [True] * len(f.out_avals))[0]
        for f, ds in zip(problem, group_dims)
    ]
    rows = [move_batch(x, d, 0, axis.size) for x, d in zip(b, b_dims)]
    known = args[: len(args) - len(b)]
    outs = linear_solve_p.bind(*known, *rows, lengths=lengths, problem=_Problem(*batched))  # type: ignore[arg-type]
    return outs, [0] * len(outs)


linear_solve_p = Primitive(
    "custom_linear_solve",
    checks=("nan",),
    multiple_results=True,
    abstract_eval=lambda *avals, problem, **_: problem.solve.out_avals,
    effects=lambda *avals, problem, **_: problem.solve.effects,
    impl=_solve,
    jvp=_jvp,
    transpose=_transpose,
    axis_batch=_batch,
    reference=_reference,
)


@source.api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A root of a function, found by a given solver, with derivatives in what the function closes over.

    Args:
        f: the function; its output is like its argument.
        initial_guess: where the solver starts (not differentiated).
        solve: `solve(f, initial_guess)` -> x with f(x) = 0.
        tangent_solve: `tangent_solve(g, y)` -> x with g(x) = y for the linear function g, the derivative of f at
            the root.
        has_aux: whether `solve` returns a pair of the root and auxiliary output, which is not differentiated.

    Returns:
        The root (and auxiliary output).

    Raises:
        TypeError: the functions' outputs are not like the guess.

    >>> import veery, veery.numpy as jnp
    >>> newton = lambda f, x: veery.lax.fori_loop(0, 20, lambda i, x: x - f(x) / veery.grad(f)(x), x)
    >>> root = lambda a: veery.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> round(float(veery.grad(root)(4.0)), 4)
    0.25
    """
    leaves, treedef = tree.tree_flatten(initial_guess)
    in_tree = tree.tree_structure((initial_guess,))
    avals = [aval_of(x) for x in leaves]
    function = _staged(f, "f", in_tree, treedef, avals, like="initial_guess")
    solver = _staged(lambda x: solve(f, x), "solve", in_tree, treedef, avals, has_aux, "initial_guess")
    # Here, since what tangent_solve closes over may be traced: in the rule that would be of a trace that has ended.
    tangent = _staged_tangent(f, tangent_solve, tree.tree_structure((initial_guess,) * 2), treedef, avals)
    n, n_f = len(leaves), len(function.consts)
    n_solver = n_f + len(tangent.consts)

    def find(*args: Any) -> list[Any]:
        return eval_jaxpr(solver.jaxpr.jaxpr, solver.jaxpr.consts, *args[n_solver:])

    def rule(*args: Any) -> list[Any]:
        primals, tangents = args[: len(args) // 2], args[len(args) // 2 :]
        outs = call.bind(*primals)
        root_dot = _root_tangent(function, tangent, primals[:n_solver], tangents[:n_f], outs[:n])
        return [*outs, *root_dot, *map(Zero.from_primal_value, outs[n:])]

    # tangents of what the solvers close over do not count, those of what f closes over do
    call = CustomJVPCall("custom_root", find, rule, symbolic_zeros=True)
    outs = call.bind(*function.consts, *tangent.consts, *solver.consts, *leaves)
    return tree.tree_unflatten(solver.out_tree, outs)


def _staged_tangent(
    f: Callable[[Any], Any], tangent_solve: Callable[..., Any], in_tree: Any, treedef: Any, avals: Sequence[Any]
) -> _bodies.Body:
    """The function of a root and of y that solves `g(x) = y` for x, where g is the derivative of f at the root."""
    inexact = [dtypes.issubdtype(a.dtype, np.inexact) for a in avals]

    def solve_at(root: Any, y: Any) -> Any:
        flat = lambda *x: tree.tree_leaves(f(tree.tree_unflatten(treedef, x)))
        split = linearize(flat, tree.tree_leaves(root), inexact)

        def derivative(x: Any) -> Any:
            tangents = [t for t, moves in zip(tree.tree_leaves(x), inexact) if moves]
            outs = iter(eval_jaxpr(split.jaxpr.jaxpr, split.jaxpr.consts, *tangents))
            results = [next(outs) if nz else zeros_like_aval(a) for a, nz in zip(avals, split.nonzeros_out)]
            return tree.tree_unflatten(treedef, results)

        return tangent_solve(derivative, y)

    return _staged(solve_at, "tangent_solve", in_tree, treedef, avals, like="initial_guess")


def _root_tangent(
    function: _bodies.Body, tangent: _bodies.Body, consts: Sequence[Any], consts_dot: Sequence[Any], root: Sequence[Any]
) -> list[Any]:
    """From f(a, x) = 0: the derivative of f in x maps dx to -(derivative of f in a)(da).

    Args:
        consts: what both functions close over.
        consts_dot: the tangents of the first's.
    """
    if all(type(t) is Zero for t in consts_dot):
        return list(map(Zero.from_primal_value, root))
    evaluate = lambda *args: eval_jaxpr(function.jaxpr.jaxpr, function.jaxpr.consts, *args)
    n_f = len(consts_dot)
    _, rhs = jvp(evaluate, [*consts[:n_f], *root], [*consts_dot, *map(Zero.from_primal_value, root)])
    numbers = [dtypes.issubdtype(aval_of(x).dtype, np.inexact) for x in root]
    rhs = [instantiate_zeros(t) if moves else zeros_like_aval(aval_of(x)) for t, x, moves in zip(rhs, root, numbers)]
    solution = eval_jaxpr(tangent.jaxpr.jaxpr, tangent.jaxpr.consts, *consts[n_f:], *root, *rhs)
    return [_arithmetic.neg(t) if moves else Zero.from_primal_value(t) for t, moves in zip(solution, numbers)]
