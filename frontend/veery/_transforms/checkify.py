"""Run-time checks as values: an interpreter of jaxprs that carries the first error along.

An error is a code (0: none; otherwise one more than the position of a site) and, for each site, the values that its
message shows. Loops and branches carry both; a function without checks inside is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veery._core import dtypes, lazy, source
from veery._core.ad import NONDIFFERENTIABLE
from veery._core.avals import aval_of
from veery._core.jaxpr import ClosedJaxpr, Effect, JaxprEqn, Literal, jaxpr_as_fun, subjaxprs
from veery._core.primitive import Primitive
from veery._transforms import staging
from veery._transforms.batching import move_batch
from veery._transforms.custom_rules import CustomJVPCall, CustomVJPCall


class JaxRuntimeError(ValueError):
    """A check failed."""


class JaxException(Exception):
    """What went wrong, as `Error.get_exception` gives it; its subclasses are the kinds of checks."""


class FailedCheckError(JaxException):
    """A condition of the user's did not hold."""


class NaNError(JaxException):
    """An operation gave a NaN."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


class OOBError(JaxException):
    """An index was out of bounds."""


Kind = type[JaxException]


class CheckEffect(Effect):
    """The equation may fail."""


check_effect = CheckEffect()


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a check is made: how to word its failure, given the values that go with it."""

    kind: Kind
    message: Callable[[Sequence[np.ndarray]], str]

    def __repr__(self) -> str:
        return self.kind.__name__


@dataclass
class Failure:
    """The first error so far, while a program is interpreted."""

    code: Any
    payloads: dict[int, list[Any]] = field(default_factory=dict)


# The primitive.


def _fail(pred: Any, *payload: Any, site: Site, debug: bool) -> list[Any]:
    if not debug and not np.all(np.asarray(pred)):
        raise JaxRuntimeError(site.message([np.asarray(x) for x in payload]))
    return []


def _batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list, list]:
    """The check of a whole batch, with the values of the first element that fails."""
    from veery.lax import _reduce, _slicing

    size = next(np.shape(x)[d] for x, d in zip(args, dims) if d is not None)
    rows = [move_batch(x, d, 0, size) for x, d in zip(args, dims)]
    first = _reduce.argmin(rows[0], 0, np.int32) if dims[0] is not None else np.int32(0)
    pick = lambda x: _slicing.dynamic_index_in_dim(x, first, 0, keepdims=False)
    pred = args[0] if dims[0] is None else _reduce.reduce_and_p.bind(rows[0], axes=(0,))
    check_p.bind(pred, *map(pick, rows[1:]), **params)
    return [], []


check_p = Primitive(
    "check",
    multiple_results=True,
    abstract_eval=lambda *avals, site, debug: [],
    effects=lambda *avals, **_: {check_effect},
    impl=_fail,
    jvp=NONDIFFERENTIABLE,
    batch=_batch,
    reference=_fail,
)


# The interpreter.


class Checker:
    """Interprets a jaxpr with the kinds of checks that are enabled; `sites` are those met."""

    def __init__(self, enabled: frozenset[Kind]):
        self.enabled = enabled
        self.sites: list[Site] = []
        self._positions: dict[Any, int] = {}

    def run(self, closed: ClosedJaxpr, args: Sequence[Any], failure: Failure) -> list[Any]:
        """The jaxpr's outputs; the failure is updated."""
        jaxpr = closed.jaxpr
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        read = lambda a: a.val if type(a) is Literal else env[a]
        for eqn in jaxpr.eqns:
            with source.use(eqn.source_info):
                out = self._equation(eqn, [read(a) for a in eqn.invars], failure)
            env.update(zip(eqn.outvars, out))
        return [read(a) for a in jaxpr.outvars]

    def _equation(self, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> Sequence[Any]:
        name = eqn.primitive.name
        if name == "check":
            if FailedCheckError in self.enabled:
                self.add(failure, eqn, eqn.params["site"], _not(operands[0]), operands[1:])
            return []
        if name in _HIGHER_ORDER and self._may_fail(eqn):
            return _HIGHER_ORDER[name](self, eqn, operands, failure)
        if OOBError in self.enabled and name in _INDEXING:
            _check_index(self, eqn, operands, failure)
        if DivisionByZeroError in self.enabled and name == "div":
            failed = _any(_compare("eq", operands[1], 0))
            self.add(failure, eqn, Site(DivisionByZeroError, lambda _: "division by zero."), failed, [])
        out = eqn.primitive.bind(*operands, **eqn.params)
        outs = list(out) if eqn.primitive.multiple_results else [out]
        if NaNError in self.enabled and name in _NAN_PRIMITIVES:
            self._check_nans(eqn, outs, failure)
        return outs

    def _check_nans(self, eqn: JaxprEqn, outs: Sequence[Any], failure: Failure) -> None:
        for out in outs:
            if dtypes.issubdtype(aval_of(out).dtype, np.inexact):
                site = Site(NaNError, lambda _: f"nan generated by primitive: {eqn.primitive.name}.")
                self.add(failure, eqn, site, _any(_compare("ne", out, out)), [])

    def _may_fail(self, eqn: JaxprEqn) -> bool:
        """Whether there is something to check inside an equation."""
        for inner in subjaxprs(eqn.params):
            for e in inner.eqns:
                name = e.primitive.name
                kinds = {
                    FailedCheckError: name == "check",
                    NaNError: name in _NAN_PRIMITIVES,
                    DivisionByZeroError: name == "div",
                    OOBError: name in _INDEXING,
                }
                if any(kinds[kind] for kind in self.enabled) or self._may_fail(e):
                    return True
        return False

    def add(self, failure: Failure, eqn: JaxprEqn, site: Site, failed: Any, payload: Sequence[Any]) -> None:
        """Make a scalar check at a site: the first failure is kept."""
        key = (id(eqn), site.kind)  # a body that is traced twice has each site once
        if key not in self._positions:
            self._positions[key] = len(self.sites)
            self.sites.append(site)
        i = self._positions[key]
        new = _and(_compare("eq", failure.code, 0), failed)
        old = failure.payloads.get(i)
        failure.payloads[i] = list(payload) if old is None else [_select(new, a, b) for a, b in zip(old, payload)]
        failure.code = _select(new, failure.code, np.int32(i + 1))


def _compare(name: str, x: Any, y: Any) -> Any:
    from veery.lax import _compare as compare
    from veery.lax import _shape

    return getattr(compare, name)(x, _shape.full_like(x, y) if np.shape(y) != np.shape(x) else y)


def _any(x: Any) -> Any:
    from veery.lax import _reduce

    return _reduce.reduce_or_p.bind(x, axes=tuple(range(np.ndim(x)))) if np.ndim(x) else x


def _and(x: Any, y: Any) -> Any:
    from veery.lax import _bitwise

    return _bitwise.bitwise_and(x, y)


def _not(x: Any) -> Any:
    from veery.lax import _bitwise

    return _bitwise.bitwise_not(x)


def _select(pred: Any, otherwise: Any, chosen: Any) -> Any:
    from veery.lax import _compare as compare
    from veery.lax import _shape

    which = _shape.broadcast_in_dim(pred, np.shape(chosen), ()) if np.shape(chosen) else pred
    return compare.select_n(which, otherwise, chosen)


# Functions within functions.

Body = Callable[[list[Any], Failure], list[Any]]


def _flat(failure: Failure, positions: Sequence[int]) -> list[Any]:
    return [failure.code, *(x for i in positions for x in failure.payloads[i])]


def _unflat(values: Sequence[Any], shapes: dict[int, int], positions: Sequence[int]) -> Failure:
    rest = iter(values[1:])
    return Failure(values[0], {i: [next(rest) for _ in range(shapes[i])] for i in positions})


def _payloads_of(bodies: Sequence[tuple[Body, Sequence[Any]]], code_aval: Any) -> dict[int, list[Any]]:
    """The types of the values that go with the sites inside functions, which are staged to find out."""
    found: dict[int, list[Any]] = {}
    for body, avals in bodies:

        def probe(code: Any, *args: Any, body: Body = body) -> list[Any]:
            failure = Failure(code)
            body(list(args), failure)
            found.update({i: [aval_of(x) for x in xs] for i, xs in failure.payloads.items()})
            return [failure.code]

        staging.stage(probe, [code_aval, *avals])
    return found


class _Inner:
    """Functions inside an equation, which take and give the failure as flat values in front of the others."""

    def __init__(self, bodies: Sequence[tuple[Body, Sequence[Any]]], failure: Failure):
        self.code_aval = aval_of(failure.code)
        self.found = _payloads_of(bodies, self.code_aval)
        self.positions = sorted(self.found)
        self.avals = [self.code_aval, *(a for i in self.positions for a in self.found[i])]
        # a site may have been met before: in an earlier trip, or before the loop
        payloads = {i: failure.payloads.get(i) or [lazy.zeros(a) for a in avals] for i, avals in self.found.items()}
        self.start = _flat(Failure(failure.code, payloads), self.positions)

    def unflat(self, values: Sequence[Any]) -> Failure:
        return _unflat(values, {i: len(avals) for i, avals in self.found.items()}, self.positions)

    def stage(self, body: Body, avals: Sequence[Any], *, before: int = 0) -> ClosedJaxpr:
        """The jaxpr of a body whose `before` first arguments stay in front of the failure."""
        n = len(self.avals)

        def fun(*args: Any) -> list[Any]:
            failure = self.unflat(args[before : before + n])
            outs = body([*args[:before], *args[before + n :]], failure)
            missing = self.unflat(args[before : before + n]).payloads
            failure.payloads = missing | failure.payloads
            return [*_flat(failure, self.positions), *outs]

        return staging.stage(fun, [*avals[:before], *self.avals, *avals[before:]])

    def finish(self, results: Sequence[Any], failure: Failure) -> list[Any]:
        """Update the failure from the results of the equation and return the others."""
        inner = self.unflat(results[: len(self.avals)])
        failure.code = inner.code
        failure.payloads |= inner.payloads
        return list(results[len(self.avals) :])


def _call(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    inner = next(v for v in eqn.params.values() if isinstance(v, ClosedJaxpr))
    return checker.run(inner, operands, failure)


def _cond(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    branches = eqn.params["branches"]
    bodies: list[Body] = [lambda args, f, b=b: checker.run(b, args, f) for b in branches]  # type: ignore[misc]
    avals = [aval_of(x) for x in operands[1:]]
    inner = _Inner([(body, avals) for body in bodies], failure)
    jaxprs = tuple(inner.stage(body, avals) for body in bodies)
    return inner.finish(eqn.primitive.bind(operands[0], *inner.start, *operands[1:], branches=jaxprs), failure)


def _scan(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    closed, n = eqn.params["jaxpr"], eqn.params["num_consts"]
    body: Body = lambda args, f: checker.run(closed, args, f)
    inner = _Inner([(body, closed.in_avals)], failure)
    params = eqn.params | {
        "jaxpr": inner.stage(body, closed.in_avals, before=n),
        "num_carry": eqn.params["num_carry"] + len(inner.avals),
    }
    return inner.finish(eqn.primitive.bind(*operands[:n], *inner.start, *operands[n:], **params), failure)


def _while(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    """The condition is checked at the end of each trip (and before the first): it becomes a carried value."""
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond, step = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n = n_cond + n_body
    (pred,) = checker.run(cond, [*operands[:n_cond], *operands[n:]], failure)

    def body(args: list[Any], f: Failure) -> list[Any]:
        carry = checker.run(step, [*args[n_cond:n], *args[n + 1 :]], f)
        return [*checker.run(cond, [*args[:n_cond], *carry], f), *carry]

    avals = [*(aval_of(x) for x in operands[:n]), aval_of(pred), *step.in_avals[n_body:]]
    inner = _Inner([(body, avals)], failure)
    carried = [*inner.avals, *avals[n:]]
    results = eqn.primitive.bind(
        *operands[:n],
        *inner.start,
        pred,
        *operands[n:],
        cond_nconsts=0,
        cond_jaxpr=staging.stage(lambda *args: [args[len(inner.avals)]], carried),
        body_nconsts=n,
        body_jaxpr=inner.stage(body, avals, before=n),
    )
    return inner.finish(results, failure)[1:]


def _custom_jvp(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    """The checked function keeps its rule: the failure has no tangents."""
    inner, checked = _checked_call(checker, eqn, operands, failure)
    n, k = eqn.params["num_consts"], len(inner.avals)
    given, rule = len(operands), eqn.params["jvp"]

    def with_failure(*xs: Any, **options: Any) -> list[Any]:
        primals, tangents = xs[: given + k], xs[given + k :]
        outs = checked(*primals)
        results = list(rule(*primals[:n], *primals[n + k :], *tangents[k:], **options))
        half = len(results) // 2
        return [*outs[:k], *results[:half], *[None] * k, *results[half:]]

    call = CustomJVPCall(eqn.params["name"], checked, with_failure, eqn.params["symbolic_zeros"], n)
    return inner.finish(call.bind(*operands[:n], *inner.start, *operands[n:]), failure)


def _custom_vjp(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> list[Any]:
    """The checked function keeps its rule: the failure has no cotangents."""
    inner, checked = _checked_call(checker, eqn, operands, failure)
    n, k = eqn.params["num_consts"], len(inner.avals)
    forward, backward, num_outs = (eqn.params[key] for key in ("fwd", "bwd", "num_outs"))

    def fwd(*primals: Any, perturbed: Sequence[bool], **options: Any) -> list[Any]:
        outs = checked(*primals)
        results = forward(*primals[:n], *primals[n + k :], perturbed=perturbed[k:], **options)
        return [*outs[:k], *results]

    def bwd(*xs: Any, **options: Any) -> list[Any]:
        first = len(xs) - num_outs - k
        return [*[None] * k, *backward(*xs[:first], *xs[first + k :], **options)]

    call = CustomVJPCall(eqn.params["name"], checked, fwd, bwd, lambda: num_outs + k, eqn.params["symbolic_zeros"], n)
    return inner.finish(call.bind(*operands[:n], *inner.start, *operands[n:]), failure)


def _checked_call(
    checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure
) -> tuple[_Inner, Callable[..., list[Any]]]:
    """A called function that takes and gives the failure, behind the constants of its rules and in front of results."""
    closed, n = eqn.params["call_jaxpr"], eqn.params["num_consts"]
    body: Body = lambda args, f: checker.run(closed, args, f)
    avals = [aval_of(x) for x in operands]
    inner = _Inner([(body, avals)], failure)
    return inner, jaxpr_as_fun(inner.stage(body, avals, before=n))


_HIGHER_ORDER: dict[str, Callable[..., list[Any]]] = {
    "jit": _call,
    "remat2": _call,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
    "custom_vmap_call": _call,
    "linear_call": _call,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}


# What is checked of single operations.

_NAN_PRIMITIVES = frozenset(
    "acos acosh add asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt conv_general_dilated cos cosh cumlogsumexp "
    "cummax cummin cumprod cumsum custom_linear_solve digamma div dot_general erf erfc erf_inv exp exp2 expm1 fft "
    "igamma igammac integer_pow lgamma log log1p logistic max min mul neg pow reduce_max reduce_min reduce_prod "
    "reduce_sum reduce_window regularized_incomplete_beta rem rsqrt sin sinh sqrt square sub tan tanh".split()
)
_INDEXING = frozenset(
    "gather scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max dynamic_slice "
    "dynamic_update_slice".split()
)


def _check_index(checker: Checker, eqn: JaxprEqn, operands: list[Any], failure: Failure) -> None:
    """Whether the windows that an operation reads or writes are inside its operand."""
    from veery.lax import _compare as compare
    from veery.lax import _convert, _shape

    found = _index_vectors(eqn, operands)
    if found is None:
        return
    vectors, axes, limits = found  # (number of windows, length of index vectors), and for each entry of these
    shape = np.shape(operands[0])
    if not np.size(vectors):
        return
    vectors = _convert.convert_element_type(vectors, np.int32)
    upper = _shape.broadcast_in_dim(np.asarray(limits, np.int32), np.shape(vectors), (1,))
    outside = _or(compare.lt(vectors, _shape.full_like(vectors, 0)), compare.gt(vectors, upper))
    value, entry = _first_where(outside, vectors)

    def message(payload: Sequence[np.ndarray]) -> str:
        axis = axes[int(payload[1])]
        return (
            f"out-of-bounds indexing for array of shape {shape}: index {int(payload[0])} is out of bounds for axis "
            f"{axis} with size {shape[axis]}."
        )

    checker.add(failure, eqn, Site(OOBError, message), _any(outside), [value, entry])


def _or(x: Any, y: Any) -> Any:
    from veery.lax import _bitwise

    return _bitwise.bitwise_or(x, y)


def _first_where(mask: Any, values: Any) -> tuple[Any, Any]:
    """The first value where the mask holds, and its column."""
    from veery.lax import _arithmetic, _convert, _reduce, _shape, _slicing

    count, width = np.shape(values)
    flat = _convert.convert_element_type(_shape.reshape(mask, (count * width,)), np.int32)
    first = _reduce.argmax(flat, 0, np.int32)
    value = _slicing.dynamic_index_in_dim(_shape.reshape(values, (count * width,)), first, 0, keepdims=False)
    return value, _arithmetic.rem(first, np.int32(width))


def _index_vectors(eqn: JaxprEqn, operands: list[Any]) -> tuple[Any, Sequence[int], list[int]] | None:
    """The index vectors of an operation, the axes of the operand that they are for, and the largest valid indices."""
    from veery.lax import _shape

    name, params = eqn.primitive.name, eqn.params
    shape = np.shape(operands[0])
    if name in ("dynamic_slice", "dynamic_update_slice"):
        sizes = params["slice_sizes"] if name == "dynamic_slice" else np.shape(operands[1])
        starts = operands[1:] if name == "dynamic_slice" else operands[2:]
        if not starts:
            return None
        columns = [_shape.reshape(s, (1, 1)) for s in starts]
        return _shape.concatenate(columns, 1), range(len(shape)), [n - k for n, k in zip(shape, sizes)]
    if getattr(params["mode"], "name", "") == "CLIP":
        return None
    numbers = params["dimension_numbers"]
    if name == "gather":
        axes, sizes = numbers.start_index_map, params["slice_sizes"]
    else:
        axes = numbers.scatter_dims_to_operand_dims
        sizes = _window_sizes(numbers, shape, np.shape(operands[2]))
    indices = operands[1]
    width = np.shape(indices)[-1]
    rows = int(np.prod(np.shape(indices)[:-1]))
    return _shape.reshape(indices, (rows, width)), axes, [shape[a] - sizes[a] for a in axes]


def _window_sizes(numbers: Any, shape: Sequence[int], updates: Sequence[int]) -> list[int]:
    """For each dimension of the operand of a scatter, the size of the windows that are written."""
    windows = iter(updates[d] for d in numbers.update_window_dims)
    inserted = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    return [1 if d in inserted else next(windows) for d in range(len(shape))]
