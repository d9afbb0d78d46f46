"""Jaxprs from functions, and their simplification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core.absent import attributes as _attributes
from veery._core.avals import aval_of as _aval_of
from veery._core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from veery._transforms import dce as _dce, staging as _staging
from veery._transforms.partial import evaluate_partially as _evaluate_partially
from veery._transforms.remat import Offloadable as Offloadable, Recompute as Recompute, Saveable as Saveable

DynamicJaxprTrace = _staging.StagingTrace
JaxprTracer = DynamicJaxprTracer = _staging.JitTracer


def trace_to_jaxpr_dynamic(fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any]) -> tuple[Jaxpr, list, list]:
    """The jaxpr of a function of flat arguments, the types of its outputs, and the values that it closes over."""
    closed = _staging.stage(fun, in_avals)
    return closed.jaxpr, closed.out_avals, closed.consts


class PartialVal(tuple[Any, Any]):
    """A value that may be unknown: (None, value), or (aval, None)."""

    __slots__ = ()

    def __new__(cls, pair: tuple[Any, Any]) -> PartialVal:
        return super().__new__(cls, pair)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        """A value of which only the type is known."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether it is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None if it is not known."""
        return self[1] if self.is_known() else None

    def get_aval(self) -> Any:
        """Its type."""
        return _aval_of(self[1]) if self.is_known() else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluate a function of which some arguments are unknown: what depends on the known ones alone is computed.

    Args:
        fun: a function of flat arguments (see `veery.extend.linear_util`) that returns a flat sequence.
        pvals: its arguments.
        instantiate: which outputs are unknown in any case.

    Returns:
        A jaxpr from constants and unknown arguments to unknown outputs, all outputs, and the constants.

    >>> from veery.extend import linear_util as lu
    >>> from veery.core import ShapedArray
    >>> unknown = PartialVal.unknown(ShapedArray((), "float32"))
    >>> fun = lu.wrap_init(lambda x, y: [x + y, y * y])
    >>> jaxpr, out, consts = trace_to_jaxpr_nounits(fun, [unknown, PartialVal.known(3.0)])
    >>> out[0].get_aval(), out[1].get_known()
    (ShapedArray(float32[]), 9.0)
    """
    args = [aval if aval is not None else const for aval, const in pvals]
    closed, values, unknown = _evaluate_partially(fun.call_wrapped, args, instantiate)
    out = [PartialVal.unknown(x) if u else PartialVal.known(x) for x, u in zip(values, unknown)]
    return convert_constvars_jaxpr(closed.jaxpr), out, closed.consts


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its constants as leading arguments."""
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as a closed one."""
    return ClosedJaxpr(jaxpr, [])


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """A jaxpr without the outputs that are not used, what only they need, and inputs that nothing uses.

    Args:
        jaxpr: the jaxpr.
        used_outputs: which outputs are used.
        instantiate: which inputs are kept in any case.

    Returns:
        The smaller jaxpr, and which inputs it has.
    """
    kept = [a for a, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    smaller = _dce.dce_jaxpr(jaxpr.replace(outvars=kept))
    needed = {a for eqn in smaller.eqns for a in eqn.invars if type(a) is not Literal}
    needed.update(a for a in kept if type(a) is not Literal)
    wanted = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else instantiate
    used_inputs = [w or v in needed for v, w in zip(jaxpr.invars, wanted, strict=True)]
    return smaller.replace(invars=[v for v, used in zip(jaxpr.invars, used_inputs) if used]), used_inputs


__getattr__, __dir__ = _attributes(__name__)
