"""References: making, reading and writing them.

A trace that knows what a reference holds applies the operations here to that value; others send them to their parent.
Staged, they are equations, which `veery._transforms.discharge` resolves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from veery._core import dtypes, provided, source
from veery._core.avals import ShapedArray, aval_method, aval_of, aval_property, maybe_aval_of
from veery._core.effects import ref_effect
from veery._core.errors import leaked_tracer_error
from veery._core.jaxpr import DropVar
from veery._core.primitive import Primitive, Rule
from veery._core.refs import AbstractRef, Ref, is_own, is_ref, trace_for
from veery._core.trace import EvalTrace, Trace, set_current_trace
from veery._core.tree_registry import register_pytree_node
from veery._transforms.batching import BatchTrace
from veery.lax import _bodies, _convert, _shape
from veery.lax._arithmetic import add
from veery.lax._ref_indexing import Indexer, Window, parse_index, parse_window, read_at, written_at

Indexers = tuple[Indexer | Window, ...]


class TransformedRef:
    """A part of a reference, `ref.at[index]`, that is read and written like one."""

    def __init__(self, ref: Any, indexers: Indexers, integers: Sequence[Any]):
        self.ref = ref
        self.indexers = indexers
        self.integers = tuple(integers)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.indexers[-1].result_shape if self.indexers else self.ref.shape

    dtype = property(lambda self: self.ref.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))
    at = property(lambda self: _PartsOf(self))

    def get(self, idx: Any = ()) -> Any:
        """Read (see `veery.ref.get`)."""
        return get(self, idx)

    def set(self, value: Any, idx: Any = ()) -> None:
        """Write (see `veery.ref.set`)."""
        set(self, idx, value)

    def swap(self, value: Any, idx: Any = ()) -> Any:
        """Write, and return what was there (see `veery.ref.swap`)."""
        return swap(self, idx, value)

    def addupdate(self, value: Any, idx: Any = ()) -> None:
        """Add (see `veery.ref.addupdate`)."""
        addupdate(self, idx, value)

    def __getitem__(self, index: Any) -> Any:
        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        set(self, index, value)

    def __repr__(self) -> str:
        return f"TransformedRef({self.ref!r}, {self.indexers})"


def _part_of(indexers: Indexers, children: Iterable[Any]) -> TransformedRef:
    """The part with other leaves: what takes functions hands them references of its own."""
    ref, integers = children
    if is_ref(ref) and indexers and ref.shape != indexers[0].shape:
        raise TypeError(
            f"a part of a reference of shape {indexers[0].shape} cannot be mapped over: map over the reference, and "
            "take ref.at[...] of what the function gets, or read the part with [...]"
        )
    return TransformedRef(ref, indexers, integers)


# Where functions take it, it is its reference and the integers of its index.
register_pytree_node(TransformedRef, lambda part: ((part.ref, part.integers), part.indexers), _part_of)


class _PartsOf:
    """`ref.at`, which is indexed."""

    def __init__(self, ref: Any):
        self._ref = ref

    def __getitem__(self, index: Any) -> TransformedRef:
        return _part(self._ref, index, "ref.at")


def _part(ref: Any, index: Any, name: str) -> TransformedRef:
    """The part of a reference (or of a part of one) at an index."""
    known = ref if isinstance(ref, TransformedRef) else TransformedRef(ref, (), ())
    if not is_ref(known.ref):
        raise ValueError(f"Can only call `{name}` on a `Ref`: {ref}.")
    window = parse_window(index, known.shape)
    if window is not None:
        part, starts, index = window
        known = TransformedRef(known.ref, (*known.indexers, part), (*known.integers, *starts))
    found = parse_index(index, known.shape)
    if found is None:
        return known
    indexer, integers = found
    return TransformedRef(known.ref, (*known.indexers, indexer), (*known.integers, *integers))


@source.api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Any:
    """A reference to an array, which can be read and written.

    Args:
        init_val: what it holds first: an array or scalar of any dtype.
        memory_space: for kernels; there are none that need one.
        kind: "no_grad_no_remat" for a reference to which differentiated values are written without their derivatives.

    Returns:
        A `Ref`. `ref[...]` reads all of it, `ref[i] = x` writes a part, `ref[i] += x` adds to it. Functions under `jit`
        may make references, take them as arguments and close over them, but not return them.

    Raises:
        TypeError: init_val is no array.
        NotImplementedError: memory_space is given.

    >>> import veery, veery.numpy as jnp
    >>> total = veery.new_ref(jnp.zeros(2))
    >>> @veery.jit
    ... def count(x):
    ...     total[...] += x
    >>> count(jnp.ones(2)); count(jnp.ones(2))
    >>> total
    Ref([2., 2.], dtype=float32)
    """
    if memory_space is not None:
        raise NotImplementedError("new_ref: memory spaces belong to kernels; leave memory_space out")
    if is_ref(init_val) or maybe_aval_of(init_val) is None:
        raise TypeError(
            "Error interpreting argument to new_ref as a JAX value. The problematic value is of type "
            f"{type(init_val)} and was passed to new_ref at position 0."
        )
    return new_ref_p.bind(init_val, kind=kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """A reference to an array of zeros of a type, of which nobody reads what it holds first.

    Args:
        ty: an array, or a `ShapeDtypeStruct`.
        memory_space: as for `new_ref`.

    >>> import veery
    >>> veery.ref.empty_ref(veery.ShapeDtypeStruct((2,), "int32"))
    Ref([0, 0], dtype=int32)
    """
    known: Any = maybe_aval_of(ty)
    aval = ShapedArray(ty.shape, ty.dtype) if known is None else known
    return new_ref(_shape.zeros(aval), memory_space=memory_space)


def freeze(ref: Any) -> Any:
    """What a reference holds at last, as an array. The reference is not to be used any more.

    Args:
        ref: a reference.

    Raises:
        ValueError: it is none.

    >>> import veery
    >>> veery.ref.freeze(veery.new_ref(1))
    Array(1, dtype=int32, weak_type=True)
    """
    return freeze_p.bind(_part(ref, None, "freeze").ref)


def free_ref(ref: Any) -> None:
    """Say that a reference is not used any more.

    Args:
        ref: a reference.

    Raises:
        ValueError: it is none.
    """
    _part(ref, None, "free_ref")


@source.api_boundary
def get(ref: Any, idx: Any = None) -> Any:
    """Read a reference: `ref[idx]`.

    Args:
        ref: a reference.
        idx: integers, slices with constant bounds, integer arrays and `...`, or a tuple of them; all by default.
            Integers that are not known and out of bounds read the nearest element.

    Returns:
        An array, which later writes do not change.

    Raises:
        ValueError: ref is none, or the index does not fit its shape.

    >>> import veery, veery.numpy as jnp
    >>> veery.ref.get(veery.new_ref(jnp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    part = _part(ref, idx, "ref_get")
    return get_p.bind(part.ref, *part.integers, indexers=part.indexers)


@source.api_boundary
def swap(ref: Any, idx: Any, value: Any, _function_name: str = "ref_swap") -> Any:
    """Write to a reference, and return what was there: `ref[idx], old = value, ref[idx]`.

    Args:
        ref: a reference.
        idx: as for `get`. A single integer that is not known and out of bounds writes the nearest element; of those in
            arrays, such ones are left out.
        value: an array of the shape and dtype of what is read at the index.

    Raises:
        ValueError: ref is none, or the index, shape or dtype do not fit.

    >>> import veery, veery.numpy as jnp
    >>> ref = veery.new_ref(jnp.arange(5))
    >>> veery.ref.swap(ref, 3, 10)
    Array(3, dtype=int32)
    >>> ref
    Ref([ 0,  1,  2, 10,  4], dtype=int32)
    """
    part = _part(ref, idx, _function_name)
    return swap_p.bind(part.ref, _implicitly_cast(value, part.dtype), *part.integers, indexers=part.indexers)


@source.api_boundary
def set(ref: Any, idx: Any, value: Any) -> None:
    """Write to a reference: `ref[idx] = value`. Arguments as for `swap`.

    >>> import veery, veery.numpy as jnp
    >>> ref = veery.new_ref(jnp.zeros(3))
    >>> veery.ref.set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.,  0.], dtype=float32)
    """
    swap(ref, idx, value, "ref_set")


@source.api_boundary
def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add to a reference. Unlike `ref[idx] += x` it adds all values for an index that occurs more than once.

    Args:
        ref: a reference.
        idx: as for `swap`.
        x: an array of the shape and dtype of what is read at the index.

    Raises:
        ValueError: ref is none, or the index, shape or dtype do not fit.

    >>> import veery, veery.numpy as jnp
    >>> ref = veery.new_ref(jnp.arange(5))
    >>> veery.ref.addupdate(ref, jnp.array([2, 2]), jnp.array([10, 20]))
    >>> ref
    Ref([ 0,  1, 32,  3,  4], dtype=int32)
    """
    part = _part(ref, idx, "ref_addupdate")
    addupdate_p.bind(part.ref, x, *part.integers, indexers=part.indexers)


def _implicitly_cast(value: Any, dtype: Any) -> Any:
    """The value in the dtype of a reference, if it is a Python float for a float, or integer for an integer."""
    aval: Any = maybe_aval_of(value)
    if not isinstance(aval, ShapedArray) or aval.dtype == dtype:
        return value
    both = lambda kind: dtypes.issubdtype(dtype, kind) and dtypes.issubdtype(aval.dtype, kind)
    if (aval.weak_type and both(np.floating)) or both(np.integer):
        return _convert.convert_element_type(value, dtype)
    return value


AbstractRef.get = aval_method(get)
AbstractRef.set = aval_method(lambda ref, value, idx=(): set(ref, idx, value))
AbstractRef.swap = aval_method(lambda ref, value, idx=(): swap(ref, idx, value))
AbstractRef.addupdate = aval_method(lambda ref, value, idx=(): addupdate(ref, idx, value))
AbstractRef.at = aval_property(_PartsOf)
AbstractRef._getitem = lambda self, ref, index: get(ref, index)
AbstractRef._setitem = lambda self, ref, index, value: set(ref, index, value)


# Primitives. Operands are the reference, the value if one is written, and the integers of the index.


class RefPrimitive(Primitive):
    """An operation on one reference.

    Args:
        on_value: `(ref, *operands, **params)` -> result, in the trace that knows what the reference holds.
        verb: what the operation does, for messages.
    """

    def __init__(self, name: str, on_value: Rule, verb: str = "", **rules: Any):
        super().__init__(name, with_refs=on_value, **rules)
        self.on_value = on_value
        self.verb = verb

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation where the reference's value is known."""
        ref, *operands = args
        trace = trace_for(args)
        if trace.records:
            return trace.process_primitive(self, args, params)
        own = is_own(ref, trace)
        if not own and isinstance(trace, EvalTrace):
            raise leaked_tracer_error(ref, f"the operation {self}")
        writes_in_batch = bool(self.verb) and isinstance(trace, BatchTrace)  # for which element of the batch?
        if not own and (writes_in_batch or any(map(trace.owns, operands))):
            return self._of_another_trace(trace, ref, operands, params)
        with set_current_trace(trace if own else trace.parent):  # type: ignore[arg-type]
            return self.on_value(ref, *operands, **params) if own else self.bind(*args, **params)

    def _of_another_trace(self, trace: Trace, ref: Any, operands: list[Any], params: dict[str, Any]) -> Any:
        """A transformation writes one of its values to a reference from outside, or reads there by one."""
        if not self.verb:
            return _read_parts(_read_whole(ref), params["indexers"], operands)
        batching = isinstance(trace, BatchTrace)
        if not batching and ref.aval.kind == "no_grad_no_remat":
            with set_current_trace(trace.parent):  # type: ignore[arg-type]
                return self.bind(ref, *(x.primal if trace.owns(x) else x for x in operands), **params)
        how, which = ("vmapped", "an unbatched") if batching else ("a differentiated", "a non-differentiated")
        where = "to the vmapped" if batching else "of the differentiated"
        raise ValueError(
            f"performing {self.verb} operation with {how} value on {which} array reference of type {ref.aval}. "
            f"Move the array reference to be an argument {where} function?"
        )


class NewRef(Primitive):
    """The operation that makes a reference: it belongs to the current trace."""

    def bind(self, *args: Any, **params: Any) -> Any:
        trace = trace_for(args)
        if trace.records:
            return trace.process_primitive(self, args, params)
        (value,) = args
        if isinstance(trace, EvalTrace):
            value = provided.backend.as_array(value)
        return Ref(AbstractRef(aval_of(value), kind=params["kind"]), trace, value)


def _read_whole(ref: Any) -> Any:
    return get_p.bind(ref, indexers=())


def _split(indexers: Indexers, integers: Sequence[Any]) -> list[tuple[Indexer | Window, Sequence[Any]]]:
    """Each indexer with its integers."""
    found, start = [], 0
    for indexer in indexers:
        end = start + len(indexer.at)
        found.append((indexer, integers[start:end]))
        start = end
    return found


def _read_parts(value: Any, indexers: Indexers, integers: Sequence[Any]) -> Any:
    for indexer, own in _split(indexers, integers):
        value = read_at(value, indexer, own)
    return value


def _written_parts(old: Any, parts: list[tuple[Indexer | Window, Sequence[Any]]], value: Any, adding: bool) -> Any:
    if not parts:
        return add(old, value) if adding else value
    (indexer, integers), *inner = parts
    if inner:
        value = _written_parts(read_at(old, indexer, integers), inner, value, adding)
    return written_at(old, indexer, integers, value, adding=adding and not inner)


def _put(ref: Ref, value: Any) -> None:
    """Let a reference of the current trace hold a value, of its very type."""
    value = _bodies.as_aval(value, ref.aval.inner_aval)
    ref._value = provided.backend.as_array(value) if isinstance(ref._trace, EvalTrace) else value


def _get(ref: Ref, *integers: Any, indexers: Indexers) -> Any:
    return _read_parts(ref._value, indexers, integers)


def _swap(ref: Ref, value: Any, *integers: Any, indexers: Indexers) -> Any:
    _swap_aval(ref.aval, aval_of(value), indexers=indexers)
    old = ref._value
    _put(ref, _written_parts(old, _split(indexers, integers), value, adding=False))
    return _read_parts(old, indexers, integers)


def _addupdate(ref: Ref, value: Any, *integers: Any, indexers: Indexers) -> list[Any]:
    _addupdate_aval(ref.aval, aval_of(value), indexers=indexers)
    _put(ref, _written_parts(ref._value, _split(indexers, integers), value, adding=True))
    return []


def _part_aval(ref: AbstractRef, indexers: Indexers) -> Any:
    return ref.inner_aval.update(shape=indexers[-1].result_shape) if indexers else ref.inner_aval


def _get_aval(ref: AbstractRef, *integers: Any, indexers: Indexers) -> Any:
    return _part_aval(ref, indexers)


def _checked_part(name: str, ref: AbstractRef, value: Any, indexers: Indexers) -> Any:
    if type(value) is AbstractRef:
        raise ValueError("Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?")
    part = _part_aval(ref, indexers)
    if part.shape != value.shape:
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: {part.shape}. Value shape: "
            f"{value.shape}. A value is not broadcast: write one of that shape."
        )
    if part.dtype != value.dtype:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {part.dtype}. Value dtype: {value.dtype}. Convert the value."
        )
    return part


def _swap_aval(ref: AbstractRef, value: Any, *integers: Any, indexers: Indexers) -> Any:
    return _checked_part("swap", ref, value, indexers)


def _addupdate_aval(ref: AbstractRef, value: Any, *integers: Any, indexers: Indexers) -> list[Any]:
    _checked_part("addupdate", ref, value, indexers)
    return []


def _place(ref: str, integers: Sequence[str], indexers: Indexers) -> str:
    """The part of a reference as Python writes it."""
    text = ref
    for indexer, own in _split(indexers, integers):
        text += f"[{indexer.text([x.split(':')[0] for x in own])}]"
    return text if indexers else f"{ref}[...]"


def _show_get(eqn: Any, operands: list[str], results: list[str]) -> str:
    return f"{results[0]} <- {_place(operands[0], operands[1:], eqn.params['indexers'])}"


def _show_swap(eqn: Any, operands: list[str], results: list[str]) -> str:
    place = _place(operands[0], operands[2:], eqn.params["indexers"])
    if isinstance(eqn.outvars[0], DropVar):
        return f"{place} <- {operands[1]}"
    return f"{results[0]}, {place} <- {place}, {operands[1]}"


def _show_addupdate(eqn: Any, operands: list[str], results: list[str]) -> str:
    return f"{_place(operands[0], operands[2:], eqn.params['indexers'])} += {operands[1]}"


_writes = lambda *avals, **_: frozenset([ref_effect])

new_ref_p = NewRef(
    "new_ref",
    abstract_eval=lambda aval, kind: AbstractRef(aval, kind=kind),
    effects=_writes,
)
get_p = RefPrimitive("get", _get, abstract_eval=_get_aval, shown=_show_get)
swap_p = RefPrimitive("swap", _swap, "a set/swap", abstract_eval=_swap_aval, effects=_writes, shown=_show_swap)
addupdate_p = RefPrimitive(
    "addupdate",
    _addupdate,
    "an addupdate",
    abstract_eval=_addupdate_aval,
    effects=_writes,
    shown=_show_addupdate,
    multiple_results=True,
)
freeze_p = RefPrimitive("freeze", lambda ref: ref._value, abstract_eval=lambda aval: aval.inner_aval, effects=_writes)
