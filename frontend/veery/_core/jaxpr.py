"""Jaxprs: the graphs that functions are traced to, their evaluation and their checker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from veery._core import dtypes, source, widths
from veery._core.avals import AbstractValue, ShapedArray, aval_of
from veery._core.effects import Effect as Effect
from veery._core.errors import JaxprTypeError as JaxprTypeError
from veery._core.mesh import using
from veery._core.primitive import Primitive

no_effects: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class NamedAxisEffect(Effect):
    """The equation refers to a named axis."""

    name: Any


class Var:
    """A variable of a jaxpr. Identity is its name; the printer gives it letters."""

    __slots__ = ("aval", "__weakref__")
    aval: Any

    def __init__(self, aval: AbstractValue):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """The place of a result that nothing uses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar constant within a jaxpr."""

    __slots__ = ("val", "aval")
    val: Any
    aval: Any
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, val: Any, aval: AbstractValue):
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class JaxprEqn:
    """One application of a primitive."""

    __slots__ = ("invars", "outvars", "primitive", "params", "effects", "source_info")

    def __init__(
        self,
        invars: list[Atom],
        outvars: list[Var],
        primitive: Primitive,
        params: dict[str, Any],
        effects: frozenset[Any] = no_effects,
        source_info: source.SourceInfo | None = None,
    ):
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.effects = effects
        self.source_info = source_info

    def replace(self, **changes: Any) -> JaxprEqn:
        """The equation with some fields replaced."""
        return JaxprEqn(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def __repr__(self) -> str:
        from veery._core.pretty import eqn_text

        return eqn_text(self)


@dataclass(frozen=True)
class DebugInfo:
    """What a jaxpr remembers of the function it was traced from."""

    name: str = "main"
    file: str | None = None
    line: int | None = None
    arg_names: tuple[str, ...] | None = None
    result_paths: tuple[str, ...] | None = None
    traced_for: str = "jit"
    compiled: bool = False  # a user asked for this function to be compiled: NumPy never evaluates it


@dataclass(eq=False)
class Jaxpr:
    """A function as a list of equations: `{ lambda constvars ; invars. let eqns in outvars }`."""

    constvars: list[Var]
    invars: list[Var]
    outvars: list[Atom]
    eqns: list[JaxprEqn]
    effects: frozenset[Any] = no_effects
    debug_info: DebugInfo = field(default_factory=DebugInfo)
    is_high: bool = False  # whether there are types of the user's in it
    qdds: dict[Var, Any] = field(default_factory=dict)  # what mutable inputs hold (see veery._core.hitypes)

    def replace(self, **changes: Any) -> Jaxpr:
        """The jaxpr with some fields replaced."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        from veery._core.pretty import jaxpr_text

        return jaxpr_text(self)

    def pretty_print(self, **options: Any) -> str:
        """The text of the jaxpr; options as in JAX are accepted."""
        from veery._core.pretty import jaxpr_text

        return jaxpr_text(self, **options)


@dataclass(eq=False)
class Derived:
    """What was made of a jaxpr.

    Attributes:
        transformed: results of transformations, by the transformation and its arguments (see `memoized`).
        executables: loaded programs, by device, donated arguments and compiler options.
        on_host: what evaluates the jaxpr by NumPy, by device; None where it is to be compiled.
        on_devices: by devices, what runs the program on all of them (`pmap`, `shard_map`).
        donations: by which arguments are donated, which of them a result may become.
        tuned: the fastest compiler options, by device and the options that were asked for.
        verified: the devices, or the devices with options, on which results were compared with the reference.
        consts: of a staged operation, the constants that were made its leading arguments.
        calls_python: whether results come from functions of the user's in Python; None where nobody has asked.
    """

    transformed: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    executables: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    on_host: dict[Any, Any] = field(default_factory=dict)
    on_devices: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    donations: dict[tuple[bool, ...], tuple[bool, ...]] = field(default_factory=dict)
    tuned: dict[tuple[Any, ...], tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    verified: set[Any] = field(default_factory=set)
    consts: list[Any] = field(default_factory=list)
    calls_python: bool | None = None


@dataclass(eq=False)
class ClosedJaxpr:
    """A jaxpr with the values of its constvars."""

    jaxpr: Jaxpr
    consts: list[Any]

    @cached_property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.invars]

    @cached_property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.outvars]

    @cached_property
    def derived(self) -> Derived:
        """What was made of this jaxpr, kept as long as it lives."""
        return Derived()

    literals = property(lambda self: self.consts)

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        return self.jaxpr.outvars

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Any]:
        return self.jaxpr.effects

    @property
    def debug_info(self) -> DebugInfo:
        return self.jaxpr.debug_info

    def map_jaxpr(self, f: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: list[Any] | None = None) -> ClosedJaxpr:
        return ClosedJaxpr(jaxpr or self.jaxpr, self.consts if consts is None else consts)

    def __repr__(self) -> str:
        from veery._core.pretty import jaxpr_text

        return jaxpr_text(self.jaxpr)

    def pretty_print(self, **options: Any) -> str:
        """The text of the jaxpr."""
        return self.jaxpr.pretty_print(**options)

    def _repr_html_(self) -> str:
        from veery._core.pretty import jaxpr_html

        return jaxpr_html(self.jaxpr)


def memoized(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Remember a transformation `(closed_jaxpr, *hashable)` on the jaxpr itself.

    Inner jaxprs are thus transformed once however often they are called, and equal calls share one object, which
    the lowering turns into one function.
    """

    def wrapper(jaxpr: ClosedJaxpr, *args: Any) -> Any:
        key = (transform, *args)
        transformed = jaxpr.derived.transformed
        result = transformed.get(key)
        if result is None:
            result = transformed[key] = transform(jaxpr, *args)
        return result

    wrapper.__name__ = transform.__name__
    wrapper.__doc__ = transform.__doc__
    return wrapper


def read_atom(env: dict[Var, Any], atom: Atom) -> Any:
    """The value of an atom in an environment."""
    return atom.val if type(atom) is Literal else env[atom]  # type: ignore[index]


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Apply a jaxpr's equations in the current trace.

    Args:
        jaxpr: the graph.
        consts: values of its constvars.
        *args: values of its invars.
        propagate_source_info: whether what is made of an equation has its place in the user's program, or that of the
            call.

    Returns:
        The values of its outvars.
    """
    with replaying(jaxpr):
        return _eval_jaxpr(jaxpr, consts, args, propagate_source_info)


def replaying(jaxpr: Jaxpr) -> contextlib.AbstractContextManager[None]:
    """A context for applying equations anew: how their results are divided, and how wide they are, was settled when
    they were traced.
    """
    width = widths.keeping(_avals(jaxpr))
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            if var.aval.divided is not None:
                return _settled(width)
    return width


@contextlib.contextmanager
def _settled(width: contextlib.AbstractContextManager[None]) -> Iterator[None]:
    with width, using(settled=True):
        yield


def _avals(jaxpr: Jaxpr) -> Iterator[Any]:
    """The avals of what the equations take and give, but for literals."""
    for var in (*jaxpr.constvars, *jaxpr.invars):
        yield var.aval
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            yield var.aval


def _eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], propagate_source_info: bool) -> list[Any]:
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    last_use = _last_uses(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        operands = [a.val if type(a) is Literal else env[a] for a in eqn.invars]  # type: ignore[index]
        with source.use(eqn.source_info) if propagate_source_info else contextlib.nullcontext():
            out = eqn.primitive.bind(*operands, **eqn.params)
        if eqn.primitive.multiple_results:
            env.update(zip(eqn.outvars, out, strict=True))
        else:
            env[eqn.outvars[0]] = out
        for var in last_use.get(i, ()):
            env.pop(var, None)
    return [read_atom(env, a) for a in jaxpr.outvars]


def reference_eval(closed: ClosedJaxpr, *args: Any) -> list[np.ndarray]:
    """The outputs of a jaxpr as NumPy arrays, for the references of primitives that hold jaxprs."""
    outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    return [
        np.asarray(x, aval.dtype) if dtypes.is_python_scalar(x) else np.asarray(x)
        for x, aval in zip(outs, closed.out_avals)
    ]


def _last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """For each equation, the variables that are not needed after it (so that their buffers can go)."""
    last: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for atom in (*eqn.invars, *eqn.outvars):
            if type(atom) is not Literal:
                last[atom] = i  # type: ignore[index]
    for atom in jaxpr.outvars:
        if type(atom) is not Literal:
            last.pop(atom, None)  # type: ignore[arg-type]
    uses: dict[int, list[Var]] = {}
    for var, i in last.items():
        uses.setdefault(i, []).append(var)
    return uses


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function that evaluates the closed jaxpr."""
    return lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, *args)


def map_jaxprs(value: Any, f: Callable[[ClosedJaxpr], ClosedJaxpr]) -> Any:
    """A parameter of an equation with another jaxpr in the place of each in it."""
    if isinstance(value, ClosedJaxpr):
        return f(value)
    if isinstance(value, tuple) and any(isinstance(item, ClosedJaxpr) for item in value):
        items = [map_jaxprs(item, f) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def subjaxprs(params: dict[str, Any]) -> Iterator[ClosedJaxpr | Jaxpr]:
    """The jaxprs among the parameters of an equation."""
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, (ClosedJaxpr, Jaxpr)):
                yield item


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Check that a jaxpr is well formed: variables are bound once before use and equations have the types they say.

    Raises:
        JaxprTypeError: with the equation that is at fault.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        _check_consts(jaxpr)
        jaxpr = jaxpr.jaxpr
    bound: set[Var] = set()
    for var in (*jaxpr.constvars, *jaxpr.invars):
        _bind_once(bound, var, jaxpr)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            _check_bound(bound, atom, eqn)
        for inner in subjaxprs(eqn.params):
            check_jaxpr(inner)
        _check_eqn_types(eqn)
        for var in eqn.outvars:
            if not isinstance(var, DropVar):
                _bind_once(bound, var, eqn)
    for atom in jaxpr.outvars:
        _check_bound(bound, atom, jaxpr)


def _check_consts(closed: ClosedJaxpr) -> None:
    if len(closed.consts) != len(closed.jaxpr.constvars):
        raise JaxprTypeError(f"{len(closed.consts)} consts for {len(closed.jaxpr.constvars)} constvars in\n{closed}")
    for var, const in zip(closed.jaxpr.constvars, closed.consts):
        if not _same_type(var.aval, aval_of(const)):
            raise JaxprTypeError(f"const of type {aval_of(const)} for a constvar of type {var.aval} in\n{closed}")


def _bind_once(bound: set[Var], var: Var, where: Any) -> None:
    if var in bound:
        raise JaxprTypeError(f"variable {var} is bound twice, the second time in\n{where}")
    bound.add(var)


def _check_bound(bound: set[Var], atom: Atom, where: Any) -> None:
    if isinstance(atom, Var) and atom not in bound:
        raise JaxprTypeError(f"variable {atom} is used before it is bound, in\n{where}")


def _check_eqn_types(eqn: JaxprEqn) -> None:
    if eqn.primitive.abstract_eval is None:
        return
    out = eqn.primitive.abstract_eval(*(a.aval for a in eqn.invars), **eqn.params)
    outs = list(out) if eqn.primitive.multiple_results else [out]
    if len(outs) != len(eqn.outvars):
        raise JaxprTypeError(f"{len(outs)} results for {len(eqn.outvars)} variables in\n{eqn}")
    for aval, var in zip(outs, eqn.outvars):
        if not _same_type(aval, var.aval):
            raise JaxprTypeError(f"result of type {aval} for a variable of type {var.aval} in\n{eqn}")


def _same_type(a: Any, b: Any) -> bool:
    """Equal but for weak types, which describe how a value was made and not what it is."""
    if isinstance(a, ShapedArray) and isinstance(b, ShapedArray):
        return a.shape == b.shape and a.dtype == b.dtype
    return type(a) is type(b)
