"""Staging: from a Python function to a jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from veery._core import leaks, provided, source
from veery._core.avals import AbstractValue, ShapedArray, aval_of
from veery._core.config import config
from veery._core.effects import ref_effect
from veery._core.hitypes import AvalQDD, MutableQuasiDynamicData, with_qdd
from veery._core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    check_jaxpr,
    no_effects,
)
from veery._core.memory import MemorySpace
from veery._core.mesh import context
from veery._core.primitive import Primitive
from veery._core.refs import AbstractRef, attribute_of_aval
from veery._core.trace import Trace, Tracer, check_alive, current_trace, new_trace
from veery._transforms import explicit, spaces, varying


class JitTracer(Tracer):
    """A value of a jaxpr that is being built."""

    __slots__ = ("_var", "source_info")

    def __init__(self, trace: StagingTrace, var: Var, source_info: source.SourceInfo | None):
        self._trace = trace
        self._var = var
        self.source_info = source_info

    @property
    def aval(self) -> Any:
        return self._var.aval

    def shared_value(self) -> Any | None:
        """The value on all devices of a `shard_map` that is called with arrays; None where there is none such."""
        values = self._trace.values  # type: ignore[attr-defined]
        return None if values is None else values.shared(self)

    def __repr__(self) -> str:
        values = self._trace.values  # type: ignore[attr-defined]
        if values is not None and isinstance(self.aval, ShapedArray):
            return str(values.text(self))
        weak = "~" if getattr(self.aval, "weak_type", False) else ""
        return f"JitTracer({weak}{self.aval.str_short(short_dtypes=False)})"


class TypedTracer(JitTracer):
    """A value of a type that brings its own methods: a reference, or a type of the user's."""

    __slots__ = ()
    is_array = False

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _OF_TRACERS:
            return object.__getattribute__(self, name)
        return attribute_of_aval(self, self._var.aval, name)

    def __getitem__(self, index: Any) -> Any:
        return self._var.aval._getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._var.aval._setitem(self, index, value)

    def __len__(self) -> int:
        return int(self._operate("len"))

    def __getattr__(self, name: str) -> Any:  # such as __jax_array__
        return attribute_of_aval(self, self._var.aval, name)

    def _operate(self, name: str, *operands: Any) -> Any:
        """An operator, as the type has it."""
        method = getattr(self._var.aval, f"_{name}", None)
        if method is None:
            raise TypeError(f"unsupported operand type(s) for {name}: a value of type {self._var.aval}")
        return method(self, *operands)


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *operands: self._operate(name, *operands)


_OPERATORS = """
    iter add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv
    rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror neg pos abs invert complex int float index round trunc
    floor ceil
"""
for operator in _OPERATORS.split():
    setattr(TypedTracer, f"__{operator}__", _operator(operator))
_OF_TRACERS = ("aval", "source_info", "is_array", "concrete_value")


def tracer_of(trace: StagingTrace, var: Var, info: source.SourceInfo | None) -> JitTracer:
    """The tracer for a variable."""
    return (JitTracer if isinstance(var.aval, ShapedArray) else TypedTracer)(trace, var, info)


class StagingTrace(Trace):
    """Records operations as the equations of a jaxpr."""

    records = True

    __slots__ = (
        "invars", "constvars", "consts", "eqns", "_const_vars", "debug_info", "_keep", "is_high", "qdds", "values",
    )  # fmt: skip

    def __init__(self, parent: Trace | None, debug_info: DebugInfo | None = None):
        super().__init__(parent)
        self.values: Any = None  # what knows the values of tracers (see veery._api.shard_values)
        self.invars: list[Var] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self.eqns: list[JaxprEqn] = []
        self._const_vars: dict[int, JitTracer] = {}
        self.debug_info = debug_info or DebugInfo()
        self.is_high = False
        self.qdds: dict[Var, MutableQuasiDynamicData] = {}

    def new_var(self, aval: Any) -> Var:
        """A variable of a type, of which may be known what it holds."""
        if not aval.is_high:
            return Var(aval)
        self.is_high = True
        if not isinstance(aval, AvalQDD):
            return Var(aval)
        var = Var(aval.aval)
        self.qdds[var] = MutableQuasiDynamicData(aval.qdd)
        return var

    def qdd_of(self, tracer: Any) -> MutableQuasiDynamicData:
        """What a mutable value holds.

        Raises:
            NotImplementedError: it is carried by a loop.
        """
        if tracer._var not in self.qdds:
            raise NotImplementedError(
                f"a loop carries a value of type {tracer.aval}, of which is not known what it holds; close over it"
            )
        return self.qdds[tracer._var]

    def new_arg(self, aval: AbstractValue) -> JitTracer:
        """A tracer for a new argument of the jaxpr."""
        var = self.new_var(aval)
        self.invars.append(var)
        return tracer_of(self, var, None)

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for a value: constants become literals or constvars."""
        if isinstance(x, JitTracer) and x._trace is self:
            return x._var
        return self._constant(x)

    def lift(self, x: Any) -> Any:
        """A value as a tracer of this trace."""
        if isinstance(x, JitTracer) and x._trace is self:
            return x
        atom = self._constant(x)
        return self._const_vars[id(x)] if isinstance(atom, Var) else x

    def stand_for(self, tracers: Sequence[Any], values: Sequence[Any]) -> None:
        """Let tracers of other traces, where they are met, stand for these values (which become constants)."""
        for tracer, value in zip(tracers, values, strict=True):
            var = Var(aval_of(value))
            self._const_vars[id(tracer)] = tracer_of(self, var, None)
            self.constvars.append(var)
            self.consts.append(value)

    def _constant(self, x: Any) -> Atom:
        if isinstance(x, Tracer):
            if id(x) not in self._const_vars:
                check_alive(x, f"the function {self.debug_info.name}")
        elif isinstance(x, (bool, int, float, complex, np.generic)) or (isinstance(x, np.ndarray) and x.ndim == 0):
            aval = aval_of(x)
            value = np.asarray(x, aval.dtype)[()]
            # a Python scalar stays one: it is weakly typed when the jaxpr is evaluated, and a flag in `if x is True`
            return Literal(x if aval.weak_type or type(x) is bool else value, aval)
        known = self._const_vars.get(id(x))
        if known is None:
            aval = aval_of(x)
            known = tracer_of(self, self.new_var(with_qdd(aval, x) if aval.is_high else aval), None)
            self._const_vars[id(x)] = known
            self.constvars.append(known._var)
            self.consts.append(x)  # also keeps x alive, and so its id unique
        return known._var

    def process_primitive(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        atoms = [self.atom(x) for x in args]
        avals = [a.aval for a in atoms]
        if primitive.abstract_eval is None:
            raise NotImplementedError(f"Abstract evaluation for '{primitive}' not implemented")
        if primitive.with_refs is None:
            refuse_refs(primitive, avals)
        if context().tracked:
            if primitive is varying.pvary_p:  # of a function that is staged again for values that vary already
                missing = frozenset(params["axes"]) - avals[0].varying
                if not missing:
                    return self.lift(args[0])
                params = {"axes": varying.in_order(missing)}
            atoms, out = self._with_varying(primitive, atoms, args, params)
        else:
            out = primitive.abstract_eval(*avals, **params)
        if isinstance(out, (list, tuple)) != primitive.multiple_results:
            raise ValueError(
                f"{primitive}.abstract_eval() method should return a tuple or a list iff {primitive}.multiple_results."
            )
        for aval in avals:
            if aval.divided is not None:
                out = explicit.typed(primitive, avals, out, params)
                break
        for aval in avals:
            if aval.memory_space is not MemorySpace.Device:
                out = spaces.typed(primitive, avals, out, params)
                break
        effects = frozenset(primitive.effects(*avals, **params)) if primitive.effects else no_effects
        info = source.current()
        outvars = [Var(aval) for aval in (out if primitive.multiple_results else (out,))]
        self.eqns.append(JaxprEqn(atoms, outvars, primitive, params, effects, info))
        if primitive.with_refs is not None:
            self._note_high(atoms, params)
        tracers = [tracer_of(self, var, info) for var in outvars]
        return tracers if primitive.multiple_results else tracers[0]

    def _with_varying(
        self, primitive: Primitive, atoms: list[Atom], args: Sequence[Any], params: dict[str, Any]
    ) -> tuple[list[Atom], Any]:
        """The operands, which are made to vary where they must, and the types of the results (see `varying`)."""
        avals = [a.aval for a in atoms]
        needed, out_varies = varying.required(primitive, avals, params)
        found = []
        for atom, x, axes in zip(atoms, args, needed):
            missing = axes - atom.aval.varying
            if missing:
                atom = self.process_primitive(varying.pvary_p, [x], {"axes": varying.in_order(missing)})._var
            found.append(atom)
        if out_varies is None:
            return found, primitive.abstract_eval(*[a.aval for a in found], **params)  # type: ignore[misc]
        out = primitive.abstract_eval(*map(varying.without, avals), **params)  # type: ignore[misc]
        if primitive.multiple_results:
            return found, [varying.typed(aval, out_varies) for aval in out]
        return found, varying.typed(out, out_varies)

    def _note_high(self, atoms: Sequence[Atom], params: dict[str, Any]) -> None:
        """Mutable operands of a call hold what they do when the callee is done."""
        called = params.get("jaxpr")
        if isinstance(called, ClosedJaxpr) and called.jaxpr.is_high:
            self.is_high = True
            for atom, var in zip(atoms, called.jaxpr.invars):
                if var in called.jaxpr.qdds:
                    self.qdds[atom].update(called.jaxpr.qdds[var].cur_val)  # type: ignore[index]

    def apply_custom_jvp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        result: list[Any] = call.stage(self, args)
        return result

    def apply_custom_vjp(self, call: Any, args: Sequence[Any]) -> list[Any]:
        result: list[Any] = call.stage(self, args)
        return result

    def _check_no_refs(self, outvars: Sequence[Atom]) -> None:
        """Raise ValueError if a reference is returned."""
        for atom in outvars:
            if type(atom.aval) is not AbstractRef:
                continue
            info = self.debug_info
            origin = ""
            if atom in self.invars:
                i = self.invars.index(atom)
                name = (*(info.arg_names or ()), *map(str, range(i + 1)))[i]
                origin = f"\n\nThe returned mutable array was passed in as the argument {name}."
            made = next((eqn.source_info for eqn in self.eqns if atom in eqn.outvars), None)
            if made is not None:
                origin = f"\n\nThe returned mutable array was created on line {made}."
            raise ValueError(
                f"function {info.name} traced for {info.traced_for} returned a mutable array reference of type "
                f"{atom.aval}, but mutable array references cannot be returned.{origin}"
            )

    def close(self, outs: Sequence[Any]) -> ClosedJaxpr:
        """The finished jaxpr with these outputs."""
        outvars = [self.atom(x) for x in outs]
        self._check_no_refs(outvars)
        effects = frozenset().union(*(e.effects for e in self.eqns)) if self.eqns else no_effects
        if self.is_high:
            effects |= {ref_effect}
        jaxpr = Jaxpr(
            self.constvars, self.invars, outvars, self.eqns, effects, self.debug_info, self.is_high, self.qdds
        )
        self._const_vars = {}
        closed = ClosedJaxpr(prune_constants(mark_dropped(jaxpr)), _used_consts(jaxpr, self.consts))
        if config.jax_enable_checks:
            check_jaxpr(closed)
        return closed


def refuse_refs(primitive: Primitive, avals: Sequence[Any]) -> None:
    """Raise ValueError if an operation of arrays is given a reference."""
    for aval in avals:
        if aval.is_high:
            raise TypeError(f"{primitive} takes arrays; got a value of type {aval}, which they do not know")
        if type(aval) is AbstractRef:
            raise ValueError(
                f"Attempting to pass a Ref {aval} to a primitive: {primitive} -- did you forget to unpack ([...]) the "
                "ref?"
            )


def _used(jaxpr: Jaxpr) -> set[Var]:
    used = {a for eqn in jaxpr.eqns for a in eqn.invars if type(a) is not Literal}
    used.update(a for a in jaxpr.outvars if type(a) is not Literal)
    return used  # type: ignore[return-value]


def mark_dropped(jaxpr: Jaxpr) -> Jaxpr:
    """Replace results that nothing uses by DropVars."""
    used = _used(jaxpr)
    for eqn in jaxpr.eqns:
        eqn.outvars = [v if v in used else DropVar(v.aval) for v in eqn.outvars]
    return jaxpr


def prune_constants(jaxpr: Jaxpr) -> Jaxpr:
    """Drop constvars that nothing uses."""
    used = _used(jaxpr)
    return jaxpr.replace(constvars=[v for v in jaxpr.constvars if v in used])


def _used_consts(jaxpr: Jaxpr, consts: Sequence[Any]) -> list[Any]:
    used = _used(jaxpr)
    return [_kept(c, v.aval) for v, c in zip(jaxpr.constvars, consts) if v in used]


def _kept(value: Any, aval: Any) -> Any:
    """A constant; a NumPy array that was of 64 bits where these were on, and would be of 32 from here on, as an array
    of its own.
    """
    if isinstance(value, np.ndarray) and aval_of(value).dtype != aval.dtype == value.dtype:
        return provided.backend.array_from_numpy(value, aval)
    return value


@contextmanager
def staging(debug_info: DebugInfo | None = None) -> Iterator[StagingTrace]:
    """A fresh StagingTrace as the current trace."""
    trace = StagingTrace(current_trace(), debug_info)
    with new_trace(trace), source.fresh():
        yield trace


@leaks.checked
def stage(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[AbstractValue],
    debug_info: DebugInfo | None = None,
    values: Any = None,
) -> ClosedJaxpr:
    """Trace a function of flat arguments.

    Args:
        fun: takes one tracer for each aval, returns a flat sequence of arrays.
        in_avals: types of the arguments.
        debug_info: what to remember of the function.
        values: what knows the values of its tracers (see veery._api.shard_values).

    Returns:
        The jaxpr with the constants that the function closed over (they may be tracers of enclosing traces).
    """
    with staging(debug_info) as trace:
        trace.values = values
        outs = fun(*(trace.new_arg(aval) for aval in in_avals))
        result: ClosedJaxpr = trace.close(outs)
        return result


def forbid_tracing(fun: Any) -> None:
    """Raise RuntimeError if no function may be traced anew."""
    if config.jax_no_tracing:
        name = getattr(fun, "__name__", type(fun).__name__)
        raise RuntimeError(
            f"re-tracing function {name} at {source.of_function(fun)} for `jit`, but 'no_tracing' is set"
        )


def close_over(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Turn constants into leading arguments: a jaxpr without consts, and the values to pass first."""
    if not closed.consts:
        return closed, []
    jaxpr = closed.jaxpr
    hoisted = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    return ClosedJaxpr(hoisted, []), list(closed.consts)


def with_consts(closed: ClosedJaxpr, consts: list[Any]) -> ClosedJaxpr:
    """The jaxpr with its leading arguments turned back into constants."""
    jaxpr = closed.jaxpr
    n = len(consts)
    return ClosedJaxpr(jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:]), consts)


def strip_weak_types(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The avals without weak types."""
    return [aval.strip_weak_type() for aval in avals]
