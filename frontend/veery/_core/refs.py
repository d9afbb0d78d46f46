"""References: arrays that can be written to.

A reference belongs to the trace in which it was made, and holds a value of that trace, which writing replaces. While a
function is staged, references are variables of a type of their own, and operations on them are equations with an
effect; `veery._transforms.discharge` makes values of these before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from veery._core.avals import AbstractValue, aval_method, aval_property, aval_rules
from veery._core.effects import ref_effect
from veery._core.trace import CompileTimeTrace, Trace, Tracer, current_trace, eval_trace, set_current_trace


class AbstractRef(AbstractValue):
    """The type of a reference: that of the array it holds.

    Args:
        inner_aval: the type of the array.
        memory_space: where the array is to be, as kernels say; kept, and without a meaning here.
        kind: "no_grad_no_remat" where what is written counts for no derivative.
    """

    __slots__ = ("inner_aval", "memory_space", "kind")
    is_numeric = False
    sharding = None

    def __init__(self, inner_aval: Any, memory_space: Any = None, kind: Any = None):
        self.inner_aval = inner_aval
        self.memory_space = memory_space
        self.kind = kind

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)
    size = property(lambda self: self.inner_aval.size)
    weak_type = property(lambda self: self.inner_aval.weak_type)

    def update(self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None, **changes: Any) -> AbstractRef:
        """The type with some fields replaced, or fields of the array's type."""
        inner = self.inner_aval if inner_aval is None else inner_aval
        return AbstractRef(
            inner.update(**changes) if changes else inner,
            self.memory_space if memory_space is None else memory_space,
            self.kind if kind is None else kind,
        )

    def strip_weak_type(self) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.strip_weak_type())

    def to_tangent_aval(self) -> AbstractRef:
        return self.update(inner_aval=self.inner_aval.to_tangent_aval())

    at_least_vspace = to_tangent_aval

    def str_short(self, short_dtypes: bool = True) -> str:
        space = "" if self.memory_space is None else f"<{self.memory_space}>"
        return f"Ref{space}{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short(short_dtypes=False)

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self.inner_aval)

    def _len(self, ref: Any) -> int:
        return len(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AbstractRef):
            return NotImplemented
        return (self.inner_aval, self.memory_space) == (other.inner_aval, other.memory_space)

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval, self.memory_space))

    # What references can do, `veery.lax._refs` puts here: `get`, `set`, `swap`, `addupdate`, `at`.
    get: aval_method
    set: aval_method
    swap: aval_method
    addupdate: aval_method
    at: aval_property
    _getitem: Callable[..., Any]
    _setitem: Callable[..., Any]


class _RefMeta(type):
    """Makes references of functions that are being staged instances of Ref."""

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or (isinstance(x, Tracer) and type(x.aval) is AbstractRef)


class Ref(metaclass=_RefMeta):
    """An array that can be written to; `new_ref` makes one.

    Indexing reads (`ref[...]`, `ref[1:, 0]`) and assignment writes. Operations of arrays take what was read, not the
    reference itself.
    """

    __slots__ = ("aval", "_trace", "_value", "__weakref__")
    aval: AbstractRef

    def __init__(self, aval: AbstractRef, trace: Trace, value: Any):
        self.aval = aval
        self._trace = trace
        self._value = value

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    sharding = property(lambda self: self._value.sharding)
    committed = property(lambda self: self._value.committed)

    def __len__(self) -> int:
        return len(self.aval)

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr(AbstractRef, name, None), (aval_method, aval_property)):
            return attribute_of_aval(self, self.aval, name)
        raise AttributeError(
            f"Ref has no attribute {name!r}; an array's are those of what is read, as in ref[...].{name}"
        )

    def __getitem__(self, index: Any) -> Any:
        return self.aval._getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.aval._setitem(self, index, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(f"an array reference of type {self.aval} is no array; read it with [...]")

    def unsafe_buffer_pointer(self) -> int:
        """The address of the values in the host's memory; writing to the reference changes it."""
        result: int = self._value.unsafe_buffer_pointer()
        return result

    def __repr__(self) -> str:
        text = repr(self._value)
        return f"Ref{text.removeprefix('Array')}" if text.startswith("Array") else f"Ref({text})"


def attribute_of_aval(value: Any, aval: Any, name: str) -> Any:
    """An attribute that a value has by its type (see `aval_method`).

    Raises:
        AttributeError: its type has none of this name.
    """
    found = getattr(aval, name)
    if isinstance(found, aval_method):
        return found.of(value)
    return found.fget(value) if isinstance(found, aval_property) else found


def is_ref(x: Any) -> bool:
    """Whether a value is a reference, of whatever trace."""
    return type(x) is Ref or (isinstance(x, Tracer) and type(x.aval) is AbstractRef)


def same_ref(x: Any) -> Any:
    """What tells whether two values are one reference."""
    return getattr(x, "_var", x)


def trace_for(args: Sequence[Any]) -> Trace:
    """The current trace, or the one to which it sends what depends on tracers."""
    trace = current_trace()
    if isinstance(trace, CompileTimeTrace):
        inner = any(isinstance(x, Tracer) or (type(x) is Ref and x._trace is not eval_trace) for x in args)
        return trace.around if inner else eval_trace
    return trace


def bind(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply an operation with functions in it, which may use references.

    The trace that references belong to knows their values: there the operation becomes one on values, which are written
    back. To transformations within, references are constants; but some operations cannot be transformed with these.
    """
    trace = trace_for(args)
    if not trace.records:
        found = [x for x in args if is_ref(x)]
        takes = primitive.takes_refs
        if trace.evaluates or not (takes(**params) if callable(takes) else takes):
            settled = bool(found) or (primitive.effects is not None and ref_effect in primitive.effects(**params))
        else:
            settled = any(is_own(x, trace) for x in found)
        if settled:
            with set_current_trace(trace):
                return primitive.with_refs(primitive, args, params)
    return current_trace().process_primitive(primitive, args, params)


def is_own(x: Any, trace: Trace) -> bool:
    """Whether a value is a reference whose value the trace knows."""
    return type(x) is Ref and x._trace is trace


def refuse_own(args: Sequence[Any], trace: Trace, name: str) -> None:
    """Raise ValueError for a function with derivative rules of its own whose references are being transformed."""
    if any(is_own(x, trace) for x in args):
        raise ValueError(
            f"{name}, a function with a custom derivative rule, takes an array reference that is itself mapped or "
            "differentiated. Differentiate inside instead, as in vmap(grad(f)), or pass the value, ref[...]."
        )


def check_aliases(
    name: str,
    what: str,
    args: Sequence[Any],
    consts: Sequence[Any] = (),
    arg_names: Callable[[], Sequence[str] | None] = lambda: None,
) -> None:
    """Raise ValueError if a function takes a reference twice, or closes over one that it takes.

    Args:
        name: the function.
        what: what it is traced for.
        args: the leaves of its arguments.
        consts: what it closes over.
        arg_names: gives names of the leaves.
    """
    refs = [(i, id(same_ref(x))) for i, x in enumerate(args) if is_ref(x)]
    if not refs:
        return
    closed_over = {id(same_ref(x)) for x in consts if is_ref(x)}
    known: dict[int, int] = {}
    for i, ref in refs:
        if ref in closed_over:
            raise ValueError(
                f"when tracing {name} for {what}, a mutable array reference of type {args[i].aval} was both closed "
                f"over and passed as the argument {_name_of(i, arg_names())}"
            )
        first = known.setdefault(ref, i)
        if first != i:
            names = arg_names()
            raise ValueError(
                f"only one reference to a mutable array may be passed as an argument to a function, but when tracing "
                f"{name} for {what} the mutable array reference of type {args[i].aval} appeared at both "
                f"{_name_of(first, names)} and {_name_of(i, names)}."
            )


def _name_of(i: int, names: Sequence[str] | None) -> str:
    return names[i] if names and i < len(names) else str(i)


def inner_aval(aval: Any) -> Any:
    """The type of what a reference of this type holds; other types are themselves."""
    return aval.inner_aval if type(aval) is AbstractRef else aval


aval_rules[Ref] = lambda ref: ref.aval
