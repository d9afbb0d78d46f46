"""Taylor mode: how a function maps the Taylor series of its arguments, all derivatives along a curve at once.

The coefficients of a result follow from those of the operands: sums and linear operations act on each coefficient,
products convolve them, and of any other operation f the rule of its first derivative is enough. For y(s) = f(x(s)) it
gives y'(s) as a function of x(s) and x'(s), whose series to one order less gives that of y (Griewank and Walther,
"Evaluating Derivatives", 2008, chapter 13). So whatever has a derivative rule has a series, loops and branches too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery import lax, numpy as jnp
from veery._api.inspection import make_jaxpr
from veery._core import dtypes
from veery._core.absent import attributes as _attributes
from veery._core.ad import MULTILINEAR, NONDIFFERENTIABLE, Zero
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from veery._core.primitive import Primitive
from veery._core.tree import tree_structure, tree_unflatten, treedef_is_leaf
from veery._transforms.dce import dce
from veery._transforms.staging import stage

Array = Any


class Series(NamedTuple):
    """A value at s = 0, and the coefficients of s, s², ...; None for what does not depend on s."""

    primal: Array
    terms: tuple[Array, ...] | None

    def filled(self, order: int) -> tuple[Array, ...]:
        """The coefficients, zeros where there are none."""
        return self.terms if self.terms is not None else (jnp.zeros_like(self.primal),) * order


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """The value of a function at h(0), and the higher derivatives of fun(h(s)) at s = 0.

    Args:
        fun: a function of arrays; its result is a pytree of arrays.
        primals: the arrays h(0), one for each argument.
        series: for each argument a list of the derivatives h'(0), h''(0), ..., all of one length.
        factorial_scaled: whether `series`, and what is returned, are derivatives; False: they are Taylor
            coefficients, which are the derivatives divided by 1!, 2!, ...

    Returns:
        The value, and a pytree like it with a list of derivatives for each array.

    Raises:
        ValueError: the lists differ in length, or something is no array.
        TypeError: there are more or fewer series than primals, or primals than arguments.

    >>> import veery.numpy as jnp
    >>> from veery.experimental.jet import jet
    >>> value, derivatives = jet(jnp.sin, (0.5,), ([1.0, 0.0, 0.0],))
    >>> [round(float(x), 3) for x in (value, *derivatives)]
    [0.479, 0.878, -0.479, -0.878]
    """
    lengths = set(map(len, series))
    if len(lengths) != 1:
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    if len(primals) != len(series):
        raise TypeError(f"jet: {len(primals)} primals and {len(series)} series; each primal has a series of its own")
    (order,) = lengths
    for i, (primal, terms) in enumerate(zip(primals, series)):
        if not treedef_is_leaf(tree_structure(primal)):
            raise ValueError(f"primal value at position {i} is not an array")
        for j, term in enumerate(terms):
            if not treedef_is_leaf(tree_structure(term)):
                raise ValueError(f"term {j} for argument {i} is not an array")
    closed, out_tree = make_jaxpr(_flat(fun), return_shape=True)(*primals)
    out_tree = tree_structure(out_tree)
    scale = [float(math.factorial(k)) if factorial_scaled else 1.0 for k in range(1, order + 1)]
    given = [
        Series(x, tuple(t if s == 1.0 else jnp.asarray(t) / s for t, s in zip(terms, scale)) if order else None)
        for x, terms in zip(primals, series, strict=True)
    ]
    outs = _evaluate(closed, order, given)
    terms = [[t if s == 1.0 else t * s for t, s in zip(out.filled(order), scale)] for out in outs]
    return tree_unflatten(out_tree, [out.primal for out in outs]), tree_unflatten(out_tree, terms)


jet2 = functools.partial(jet, factorial_scaled=False)


def _flat(fun: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: fun(*args)


def _evaluate(closed: ClosedJaxpr, order: int, args: Sequence[Series]) -> list[Series]:
    """The series of a jaxpr's results to an order, by those of its arguments."""
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.constvars, (Series(c, None) for c in closed.consts)))
    known.update(zip(jaxpr.invars, args, strict=True))
    read = lambda atom: Series(atom.val, None) if type(atom) is Literal else known[atom]
    for eqn in jaxpr.eqns:
        known.update(zip(eqn.outvars, _apply(eqn, order, [read(atom) for atom in eqn.invars]), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(eqn: JaxprEqn, order: int, operands: list[Series]) -> list[Series]:
    primitive, params = eqn.primitive, eqn.params
    if primitive.name in _CALLEES:
        return _evaluate(params[_CALLEES[primitive.name]], order, operands)
    if primitive.name in _STRUCTURED and order:
        return _STRUCTURED[primitive.name](order, operands, **params)
    results = _bind(primitive, [x.primal for x in operands], params)
    varying = any(x.terms is not None for x in operands)
    if not (order and varying) or primitive.jvp is NONDIFFERENTIABLE:
        return [Series(y, None) for y in results]
    if primitive.jvp is MULTILINEAR:
        return [_product(primitive, params, order, results[0], operands)]
    rule = _RULES.get(primitive.name, _by_derivative)
    return rule(primitive, params, order, results, operands)


def _bind(primitive: Primitive, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    out = primitive.bind(*operands, **params)
    return list(out) if primitive.multiple_results else [out]


# Operations.


def _product(
    primitive: Primitive, params: dict[str, Any], order: int, result: Array, operands: Sequence[Series]
) -> Series:
    """What is linear in each of two operands: c_k is the sum of a_i b_(k-i)."""
    a, b = operands
    times = functools.partial(primitive.bind, **params)
    terms = []
    for k in range(1, order + 1):
        pairs = [(i, k - i) for i in range(k + 1)]
        found = [times(x, y) for i, j in pairs if (x := _at(a, i)) is not None and (y := _at(b, j)) is not None]
        terms.append(functools.reduce(lax.add, found))
    return Series(result, tuple(terms))


def _at(x: Series, k: int) -> Array | None:
    """The coefficient of order k; None for zero."""
    if k == 0:
        return x.primal
    return None if x.terms is None else x.terms[k - 1]


def _quotient(_: Any, params: Any, order: int, results: Sequence[Array], operands: Sequence[Series]) -> list[Series]:
    """q = a / b, since a = q b: q_k = (a_k - sum of q_i b_(k-i)) / b_0."""
    a, b = operands
    q = [results[0]]
    for k in range(1, order + 1):
        rest = a.filled(order)[k - 1] * jnp.ones_like(results[0])
        for i in range(k):
            if (divisor := _at(b, k - i)) is not None:
                rest = rest - q[i] * divisor
        q.append(rest / b.primal)
    return [Series(q[0], tuple(q[1:]))]


def _power(
    primitive: Primitive, params: dict[str, Any], order: int, results: Sequence[Array], operands: Sequence[Series]
) -> list[Series]:
    """x ** y is exp(y log x) where y varies, else what its derivative tells."""
    if operands[1].terms is None:
        return _by_derivative(primitive, params, order, results, operands)
    by_logarithm = make_jaxpr(lambda x, y: lax.exp(lax.mul(y, lax.log(x))))(*(x.primal for x in operands))
    (out,) = _evaluate(by_logarithm, order, operands)
    return [Series(results[0], out.terms)]


def _by_derivative(
    primitive: Primitive, params: dict[str, Any], order: int, results: Sequence[Array], operands: Sequence[Series]
) -> list[Series]:
    """y'(s) = g(x(s), x'(s)), in which g is the rule of the derivative: y_(k+1) = (y')_k / (k + 1)."""
    varying = [i for i, x in enumerate(operands) if x.terms is not None]
    avals = [aval_of(x.primal) for x in operands]
    constant: list[bool] = []

    def derivative(*args: Any) -> list[Any]:
        primals, given = args[: len(operands)], iter(args[len(operands) :])
        tangents = [next(given) if i in varying else Zero.from_primal_value(x) for i, x in enumerate(primals)]
        _, out = primitive.apply_jvp(primals, tangents, params)
        out = out if primitive.multiple_results else [out]
        constant[:] = [type(t) is Zero for t in out]
        return [t for t in out if type(t) is not Zero]

    g = dce(stage(derivative, [*avals, *(avals[i].to_tangent_aval() for i in varying)]))  # type: ignore[attr-defined]
    # Where it does not read what varies, the operation is linear: it acts on each coefficient.
    read = {atom for eqn in g.jaxpr.eqns for atom in eqn.invars if type(atom) is not Literal}
    if not read & {g.jaxpr.invars[i] for i in varying}:
        columns = [
            [y.primal for y in _evaluate(g, 0, [Series(x, None) for x in _inputs(operands, varying, k)])]
            for k in range(order)
        ]
        found = iter([*zip(*columns)])
    else:
        slopes = [tuple((k + 1) * operands[i].terms[k] for k in range(order)) for i in varying]  # type: ignore[index]
        shorter = [x if x.terms is None else Series(x.primal, x.terms[: order - 1] or None) for x in operands]
        inner = [Series(slope[0], slope[1:] or None) for slope in slopes]
        rates = _evaluate(g, order - 1, [*shorter, *inner])
        found = iter([tuple(r / (k + 1) for k, r in enumerate((y.primal, *y.filled(order - 1)))) for y in rates])
    return [Series(y, None if zero else next(found)) for y, zero in zip(results, constant)]


def _inputs(operands: Sequence[Series], varying: Sequence[int], k: int) -> list[Array]:
    return [*(x.primal for x in operands), *(operands[i].terms[k] for i in varying)]  # type: ignore[index]


_RULES = {"div": _quotient, "pow": _power}

# Functions within functions.

_CALLEES = {
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "linear_call": "callee",
    "remat2": "jaxpr",
}


def _paired(order: int, values: Sequence[Series]) -> list[Any]:
    """Values as pytrees for loops: floats with their coefficients, others alone."""
    has_terms = lambda x: dtypes.issubdtype(aval_of(x.primal).dtype, np.inexact)  # type: ignore[attr-defined]
    return [(x.primal, x.filled(order)) if has_terms(x) else (x.primal, None) for x in values]


def _series(pairs: Sequence[Any]) -> list[Series]:
    return [Series(*pair) for pair in pairs]


def _scan(order: int, operands: Sequence[Series], **params: Any) -> list[Series]:
    num_consts, num_carry = params["num_consts"], params["num_carry"]
    consts = list(operands[:num_consts])
    rest = _paired(order, operands[num_consts:])

    def body(carry: Any, xs: Any) -> Any:
        outs = _paired(order, _evaluate(params["jaxpr"], order, [*consts, *_series(carry), *_series(xs)]))
        return outs[:num_carry], outs[num_carry:]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    carry, ys = lax.scan(body, rest[:num_carry], rest[num_carry:], **options)
    return _series([*carry, *ys])


def _while(order: int, operands: Sequence[Series], **params: Any) -> list[Series]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body, first = operands[:n_cond], operands[n_cond : n_cond + n_body], operands[n_cond + n_body :]
    values = lambda carry: [Series(x, None) for x, _ in carry]
    going = lambda carry: _evaluate(params["cond_jaxpr"], 0, [*of_cond, *values(carry)])[0].primal
    step = lambda carry: _paired(order, _evaluate(params["body_jaxpr"], order, [*of_body, *_series(carry)]))
    return _series(lax.while_loop(going, step, _paired(order, first)))


def _cond(order: int, operands: Sequence[Series], *, branches: Sequence[ClosedJaxpr], **_: Any) -> list[Series]:
    index, *rest = operands
    taken = lambda branch: lambda pairs: _paired(order, _evaluate(branch, order, _series(pairs)))
    return _series(lax.switch(index.primal, [taken(branch) for branch in branches], _paired(order, rest)))


_STRUCTURED: dict[str, Callable[..., list[Series]]] = {"scan": _scan, "while": _while, "cond": _cond}

__getattr__, __dir__ = _attributes(__name__)
