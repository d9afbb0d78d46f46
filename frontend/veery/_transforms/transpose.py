"""Transposition of linear jaxprs: cotangents of outputs are pulled back to cotangents of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery._core import source
from veery._core.ad import UndefinedPrimal, Zero, add_tangents, instantiate_zeros, is_undefined_primal
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, memoized, replaying
from veery._transforms import explicit
from veery._transforms.dce import dce
from veery._transforms.staging import stage


def backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Pull cotangents back through a jaxpr that is linear in some of its inputs.

    Args:
        jaxpr: linear in the inputs that are UndefinedPrimal.
        consts: values of its constvars.
        args: a value or an UndefinedPrimal for each input.
        cts: a cotangent for each output; may be Zero.

    Returns:
        For each input its cotangent (maybe Zero), None for inputs that are values.
    """
    with replaying(jaxpr):
        return _backward_pass(jaxpr, consts, args, cts)


def _backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear_vars: set[Var] = set()
    for var, arg in zip(jaxpr.invars, args, strict=True):
        if is_undefined_primal(arg):
            linear_vars.add(var)
        else:
            values[var] = arg
    linear_eqns = _evaluate_known(jaxpr, values, linear_vars)

    cotangents: dict[Var, Any] = {}
    for atom, ct in zip(jaxpr.outvars, cts, strict=True):
        _accumulate(cotangents, linear_vars, atom, ct)
    around = source.raw_name_stack()
    with source.transformation("transpose"):
        for eqn in reversed(linear_eqns):
            ct_outs = [cotangents.pop(v) if v in cotangents else Zero(v.aval.to_tangent_aval()) for v in eqn.outvars]
            if not eqn.primitive.transposes_zeros and all(type(ct) is Zero for ct in ct_outs):
                continue
            with source.use(eqn.source_info, within=around):
                ct_ins = _transpose_eqn(eqn, values, linear_vars, ct_outs)
                for atom, ct in zip(eqn.invars, ct_ins, strict=True):
                    if ct is not None:
                        _accumulate(cotangents, linear_vars, atom, ct)
    return [cotangents.get(v, Zero(v.aval.to_tangent_aval())) if v in linear_vars else None for v in jaxpr.invars]


def _evaluate_known(jaxpr: Jaxpr, values: dict[Var, Any], linear_vars: set[Var]) -> list[JaxprEqn]:
    """Evaluate the equations that depend on no linear input, and return the others."""
    linear_eqns = []
    for eqn in jaxpr.eqns:
        if any(a in linear_vars for a in eqn.invars if type(a) is not Literal):
            linear_eqns.append(eqn)
            linear_vars.update(eqn.outvars)
            continue
        operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
        with source.use(eqn.source_info):
            out = eqn.primitive.bind(*operands, **eqn.params)
        values.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return linear_eqns


def _transpose_eqn(eqn: JaxprEqn, values: dict[Var, Any], linear_vars: set[Var], ct_outs: list[Any]) -> Sequence[Any]:
    operands = [
        a.val if isinstance(a, Literal) else UndefinedPrimal(a.aval) if a in linear_vars else values[a]
        for a in eqn.invars
    ]
    if eqn.primitive.transpose is None:
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{eqn.primitive}' not implemented"
        )
    ct = ct_outs if eqn.primitive.multiple_results else ct_outs[0]
    try:
        found: Sequence[Any] = eqn.primitive.transpose(ct, *operands, **eqn.params)
    except TypeError as error:
        if UndefinedPrimal.__name__ not in str(error):
            raise
        raise TypeError(
            f"{eqn.primitive} is not linear in what it is given, {', '.join(str(a.aval) for a in eqn.invars)}: only "
            "linear functions are transposed. Compute what does not depend on their arguments outside."
        ) from error
    for atom in (*eqn.invars, *eqn.outvars):
        if atom.aval.divided is not None:
            return [x if x is None or type(x) is Zero else explicit.alike(x, a.aval) for x, a in zip(found, eqn.invars)]
    return found


def _accumulate(cotangents: dict[Var, Any], linear_vars: set[Var], atom: Any, ct: Any) -> None:
    if type(ct) is not Zero and type(atom) is not Literal and atom in linear_vars:
        cotangents[atom] = add_tangents(cotangents[atom], ct) if atom in cotangents else ct


@memoized
def transpose_jaxpr(
    closed: ClosedJaxpr, linear: tuple[bool, ...], nonzero_cts: tuple[bool, ...], instantiate: bool = False
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The transpose of a jaxpr as a jaxpr.

    Args:
        closed: a jaxpr.
        linear: which inputs it is transposed in.
        nonzero_cts: which outputs have a cotangent.
        instantiate: whether zero cotangents of inputs are made arrays.

    Returns:
        A jaxpr from the non-linear inputs and the nonzero cotangents to the nonzero cotangents of linear inputs; and
        which of the linear inputs those are.
    """
    known_avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]
    ct_avals = [a.to_tangent_aval() for a, nz in zip(closed.out_avals, nonzero_cts, strict=True) if nz]
    nonzeros: tuple[bool, ...] = ()

    def fun(*xs: Any) -> list[Any]:
        nonlocal nonzeros
        known, given = iter(xs[: len(known_avals)]), iter(xs[len(known_avals) :])
        args = [UndefinedPrimal(a) if lin else next(known) for a, lin in zip(closed.in_avals, linear)]
        cts = [next(given) if nz else Zero(a.to_tangent_aval()) for a, nz in zip(closed.out_avals, nonzero_cts)]
        ct_ins = [
            ct for ct, lin in zip(backward_pass(closed.jaxpr, closed.consts, args, cts), linear, strict=True) if lin
        ]
        if instantiate:
            ct_ins = [instantiate_zeros(ct) for ct in ct_ins]
        nonzeros = tuple(type(ct) is not Zero for ct in ct_ins)
        return [ct for ct in ct_ins if type(ct) is not Zero]

    return dce(stage(fun, [*known_avals, *ct_avals], closed.debug_info)), nonzeros
