"""Rematerialisation: derivatives that compute values a second time instead of keeping them.

The primitive `remat2` holds a jaxpr. Linearising it splits the jaxpr's primal part: what the policy saves are
residuals, and the linear part is a `remat2` again, which computes the rest from the inputs and from what was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from veery._core import source
from veery._core.ad import Zero, is_undefined_primal
from veery._core.effects import has_debug, has_io, ref_effect
from veery._core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    memoized,
    reference_eval,
    replaying,
    subjaxprs,
)
from veery._core.primitive import Primitive
from veery._transforms import staging
from veery._transforms.batching import AxisData, batch_jaxpr
from veery._transforms.dce import dce, dce_jaxpr
from veery._transforms.discharge import replacing
from veery._transforms.jvp import jvp_jaxpr
from veery._transforms.linearize import LinearizedJaxpr, linearize_jaxpr
from veery._transforms.transpose import transpose_jaxpr

Policy = Callable[..., Any] | None


class Decision:
    """What a policy may say of a value, besides True (saved) and False (computed again)."""

    def __init__(self, name: str, saved: bool):
        self.name = name
        self.saved = saved

    def __bool__(self) -> bool:
        return self.saved

    def __repr__(self) -> str:
        return self.name


Saveable = Decision("Saveable", True)
Recompute = Decision("Recompute", False)


class Offloadable(Decision):
    """Saved in another memory: saved, since a program keeps all values on its device."""

    def __init__(self, src: str, dst: str):
        super().__init__(f"Offloadable(src={src!r}, dst={dst!r})", True)
        self.src = src
        self.dst = dst


class Piece(NamedTuple):
    """An equation divided in two: `known` computes its results and what is saved of it, `again` its results from its
    operands and from what was saved."""

    known: JaxprEqn
    again: JaxprEqn


class Partition(NamedTuple):
    """A jaxpr divided by a policy. `known` computes the outputs, then the saved values; `again` computes the demanded
    values from the inputs and the saved ones."""

    known: Jaxpr
    again: Jaxpr
    saved: list[Var]


def partition(jaxpr: Jaxpr, demanded: Sequence[Any], policy: Policy) -> Partition:
    """Divide a jaxpr (without calls) by a policy.

    Args:
        jaxpr: what computes the demanded values. What shows values on the way does so again.
        demanded: atoms of the jaxpr.
        policy: `(primitive, *avals, **params)` -> whether the results may be saved.
    """
    needed = {a for a in demanded if type(a) is not Literal}
    pieces: list[Piece] = []
    again: list[JaxprEqn] = []
    saved: list[Var] = []
    for eqn in reversed(jaxpr.eqns):
        wanted = [v for v in eqn.outvars if v in needed]
        saveable = (wanted or eqn.effects) and _is_saveable(policy, eqn)
        if saveable:
            saved += reversed(wanted)
        elif wanted or has_debug(eqn.effects):
            piece, inner_saved = _divide(eqn, needed, policy)
            saved += reversed(inner_saved)
            needed.update(a for a in piece.again.invars if type(a) is not Literal)
            again.append(piece.again)
            pieces.append(piece)
            continue
        pieces.append(Piece(eqn, eqn))
    known = [p.known for p in reversed(pieces)]
    saved.reverse()
    return Partition(
        jaxpr.replace(eqns=known, outvars=[*jaxpr.outvars, *saved]),
        jaxpr.replace(eqns=again[::-1], invars=[*jaxpr.invars, *saved], outvars=list(demanded)),
        saved,
    )


def _is_saveable(policy: Policy, eqn: JaxprEqn) -> bool:
    if policy is None:
        return False
    return bool(policy(eqn.primitive, *(a.aval for a in eqn.invars), **eqn.params))


def _divide(eqn: JaxprEqn, needed: set[Var], policy: Policy) -> tuple[Piece, list[Var]]:
    """An equation that is computed again, and what is saved inside it."""
    if policy is None or eqn.primitive.divide is None:
        return Piece(eqn, eqn), []
    piece, saved = eqn.primitive.divide(eqn, needed, policy)
    return piece, saved


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its calls of jitted functions written out."""
    if not any(eqn.primitive.name == "jit" for eqn in closed.eqns):
        return closed
    with replaying(closed.jaxpr):
        return staging.stage(lambda *xs: _eval_inlined(closed, *xs), closed.in_avals, closed.debug_info)


def _eval_inlined(closed: ClosedJaxpr, *args: Any) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    read: Callable[[Any], Any] = lambda a: a.val if type(a) is Literal else env[a]
    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        with source.use(eqn.source_info):
            if eqn.primitive.name == "jit":
                out = _eval_inlined(eqn.params["jaxpr"], *operands)
            else:
                out = eqn.primitive.bind(*operands, **eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [read(a) for a in jaxpr.outvars]


class Split(NamedTuple):
    """A checkpointed jaxpr linearised: `known` computes outputs and saved values; `linear` maps the inputs at `used`,
    the saved values and tangents to output tangents."""

    known: ClosedJaxpr
    linear: ClosedJaxpr
    used: list[int]
    nonzeros_out: tuple[bool, ...]


@memoized
def split(closed: ClosedJaxpr, nonzeros: tuple[bool, ...], policy: Policy) -> Split:
    """Linearise a jaxpr, keeping of its primal part what the policy saves."""
    if has_io(closed.effects):
        io = [effect for effect in closed.effects if has_io([effect])]
        raise NotImplementedError(f"Effects not supported in partial-eval of `checkpoint`/`remat`: {io}")
    linearized = linearize_jaxpr(closed if policy is None else _under_policy(closed, policy), nonzeros)
    return _split(closed, linearized, policy)


def _under_policy(closed: ClosedJaxpr, policy: Policy) -> ClosedJaxpr:
    """The jaxpr in which functions that are checkpointed inside save what the policy says, not what theirs does."""
    if not _has_checkpoint(closed):
        return closed
    eqns = []
    for eqn in closed.eqns:
        if eqn.primitive is checkpoint_p:  # what is inside of it in turn meets the policy when it is linearised
            params = eqn.params | {"policy": policy}
        else:
            params = {name: _param_under_policy(value, policy) for name, value in eqn.params.items()}
        eqns.append(eqn.replace(params=params))
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)


def _has_checkpoint(jaxpr: ClosedJaxpr | Jaxpr) -> bool:
    return any(eqn.primitive is checkpoint_p or any(map(_has_checkpoint, subjaxprs(eqn.params))) for eqn in jaxpr.eqns)


def _param_under_policy(value: Any, policy: Policy) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _under_policy(value, policy)
    if isinstance(value, tuple) and value and isinstance(value[0], ClosedJaxpr):
        return tuple(_under_policy(v, policy) for v in value)
    return value


def _split(closed: ClosedJaxpr, linearized: LinearizedJaxpr, policy: Policy) -> Split:
    n_in, n_out = len(closed.in_avals), len(closed.out_avals)
    primal = linearized.primal if policy is None else inline_calls(linearized.primal)
    atoms = {"in": primal.jaxpr.invars, "out": primal.jaxpr.outvars}
    residuals = [atoms[kind][i] for kind, i in linearized.sources]  # type: ignore[index]
    parts = partition(primal.jaxpr.replace(outvars=primal.jaxpr.outvars[:n_out]), residuals, policy)
    again = dce_jaxpr(parts.again)
    needed = {a for eqn in again.eqns for a in eqn.invars if type(a) is not Literal} | {
        a for a in residuals if type(a) is not Literal
    }
    used = [i for i, v in enumerate(again.invars[:n_in]) if v in needed]
    linear = linearized.linear
    n_res = len(residuals)

    def fun(*args: Any) -> list[Any]:
        n = len(used) + len(parts.saved)
        env = dict(zip(used, args))
        # what is not used is not read: any value stands for it
        ins = [env.get(i, False) for i in range(n_in)]
        values = eval_jaxpr(again, primal.consts, *ins, *args[len(used) : n])
        return eval_jaxpr(linear.jaxpr, linear.consts, *values, *args[n:])

    avals = [*(closed.in_avals[i] for i in used), *(v.aval for v in parts.saved), *linear.in_avals[n_res:]]
    return Split(
        dce(ClosedJaxpr(parts.known, primal.consts)),
        staging.stage(fun, avals, closed.debug_info),
        used,
        linearized.nonzeros_out,
    )


# The primitive.


def _impl(*args: Any, jaxpr: ClosedJaxpr, **_params: Any) -> list[Any]:
    return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[list[Any], list[Any]]:
    nonzeros = tuple(type(t) is not Zero for t in tangents)
    both, nonzeros_out = jvp_jaxpr(jaxpr, nonzeros)
    results = checkpoint_p.bind(*primals, *(t for t in tangents if type(t) is not Zero), jaxpr=both, **params)
    n = len(jaxpr.out_avals)
    outs, out_tangents = results[:n], iter(results[n:])
    return outs, [next(out_tangents) if nz else Zero.from_primal_value(x) for x, nz in zip(outs, nonzeros_out)]


def _linearize(
    nonzeros: tuple[bool, ...],
    *primals: Any,
    jaxpr: ClosedJaxpr,
    prevent_cse: bool,
    policy: Policy,
    differentiated: bool,
) -> tuple[Any, ...]:
    parts = split(jaxpr, nonzeros, policy)
    results = eval_jaxpr(parts.known.jaxpr, parts.known.consts, *primals)
    n = len(jaxpr.out_avals)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        params = dict(jaxpr=parts.linear, prevent_cse=prevent_cse, policy=policy, differentiated=True)
        results: list[Any] = checkpoint_p.bind(*residuals, *tangents, **params)
        return results

    return results[:n], parts.nonzeros_out, [*(primals[i] for i in parts.used), *results[n:]], linear


def _transpose(
    cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, differentiated: bool, **params: Any
) -> list[Any]:
    linear = tuple(map(is_undefined_primal, operands))
    transposed, nonzeros = transpose_jaxpr(jaxpr, linear, tuple(type(ct) is not Zero for ct in cts))
    known = [x for x, lin in zip(operands, linear) if not lin]
    given = [ct for ct in cts if type(ct) is not Zero]
    results = iter(checkpoint_p.bind(*known, *given, jaxpr=transposed, differentiated=True, **params))
    flags = iter(nonzeros)
    return [
        None if not lin else next(results) if next(flags) else Zero(x.aval.to_tangent_aval())
        for x, lin in zip(operands, linear)
    ]


def _batch(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[Any, ...]:
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return checkpoint_p.bind(*args, jaxpr=batched, **params), out_dims


checkpoint_p = Primitive(
    "remat2",
    with_refs=replacing("jaxpr"),
    # A function that reads or writes is computed again with what it read the first time.
    takes_refs=lambda *, jaxpr, **_: ref_effect not in jaxpr.effects,
    inert=("policy",),
    multiple_results=True,
    abstract_eval=lambda *avals, jaxpr, **_: jaxpr.out_avals,
    effects=lambda *avals, jaxpr, **_: jaxpr.effects,
    impl=_impl,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    axis_batch=_batch,
    reference=lambda *args, jaxpr, **_: reference_eval(jaxpr, *args),
)


# A name for a value, by which policies know it. Tangents are not named.
name_p: Primitive = Primitive(
    "name",
    abstract_eval=lambda x, *, name: x,
    impl=lambda x, *, name: x,
    jvp=(lambda t, out, x, *, name: t,),
    transpose=lambda ct, x, *, name: [ct],
    batch=lambda args, dims, *, name: (name_p.bind(args[0], name=name), dims[0]),
    reference=lambda x, *, name: np.array(x),
)
