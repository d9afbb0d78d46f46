"""The table of lowering rules: primitive name (and target, where targets differ) to a function that emits StableHLO.

A rule is a function ``(ctx, *operands, **params)`` that takes MLIR values and returns one value, or a list for
a primitive with several results. It emits operations at the ambient insertion point and location:

>>> from veery_lowering import stablehlo as hlo
>>> @rule("twice")
... def _twice(ctx, x):
...     return hlo.add(x, x)
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Value = Any  # an MLIR value; typed loosely so that this module does not load the compiler
Rule = Callable[..., Any]

BY_IREE = ("cpu", "vulkan", "cuda")  # targets whose programs IREE compiles, so that they may call functions of ours


class Emitter(Protocol):
    """What a rule may ask of the module under construction (see module.py)."""

    def call(self, closed_jaxpr: Any, operands: Sequence[Value], name: str | None = None) -> list[Value]: ...

    def inline(self, closed_jaxpr: Any, operands: Sequence[Value]) -> list[Value]: ...

    def host_call(
        self, function: Callable[..., Any], operands: Sequence[Value], avals_out: Sequence[Any], pure: bool
    ) -> list[Value]: ...

    def call_routines(self) -> None: ...

    def in_loop(self) -> bool: ...

    @property
    def kernels(self) -> bool: ...

    @property
    def routines(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule knows about the equation that it lowers.

    avals_in, avals_out: the ShapedArrays of the operands and of the results.
    target: "cpu", "vulkan", "cuda" or "xla".
    hardware: what the program runs on: the target, but for XLA "cpu", "cuda", "tpu", ...
    definition: the primitive itself, for its NumPy reference and its composition of other primitives.
    """

    primitive: str
    target: str
    avals_in: tuple[Any, ...]
    avals_out: tuple[Any, ...]
    emitter: Emitter
    definition: Any = None
    hardware: str = ""

    @property
    def module_context(self) -> Context:
        """What rules that are written for JAX keep things alive by."""
        return self

    def add_keepalive(self, kept: Any) -> None:
        """Nothing: programs keep the functions that they call."""

    def call(self, closed_jaxpr: Any, *operands: Value, name: str | None = None) -> list[Value]:
        """Call the function of a jaxpr; equal jaxprs share one function."""
        return self.emitter.call(closed_jaxpr, operands, name)

    def inline(self, closed_jaxpr: Any, *operands: Value) -> list[Value]:
        """Emit the equations of a jaxpr here."""
        return self.emitter.inline(closed_jaxpr, operands)

    def host_call(
        self, function: Callable[..., Any], operands: Sequence[Value], avals_out: Sequence[Any], pure: bool = True
    ) -> list[Value]:
        """Call a Python function on NumPy arrays at run time; it returns a sequence of arrays of `avals_out`.

        A pure call may be merged with an equal one or dropped when nothing reads its results.
        """
        return self.emitter.host_call(function, operands, avals_out, pure)


_rules: dict[tuple[str, str | None], Rule] = {}
_replaced: set[str] = set()
_of_any_shape: set[str] = set()
_loaded = False


def rule(name: str, *, target: str | None = None, any_shape: bool = False) -> Callable[[Rule], Rule]:
    """Register the decorated function as the lowering of primitive `name`.

    Args:
        name: of the primitive.
        target: the only one for which it is; None for all.
        any_shape: whether it takes symbolic shapes: IREE compiles what it emits for them, and that is tested.
    """

    def register(function: Rule) -> Rule:
        if (name, target) in _rules:
            raise ValueError(f"rule: primitive {name!r} has a lowering rule for target {target or 'any'} already")
        _rules[name, target] = function
        if any_shape:
            _of_any_shape.add(name)
        return function

    return register


def replace(name: str, function: Rule, *, target: str | None = None) -> None:
    """Set the lowering rule of primitive `name`, whether or not it has one: for primitives made outside veery."""
    _load_rules()
    _rules[name, target] = function
    _replaced.add(name)


def is_replaced(name: str) -> bool:
    """Whether a lowering rule of primitive `name` was made outside veery."""
    return name in _replaced


def takes_any_shape(name: str) -> bool:
    """Whether primitive `name` is lowered for symbolic shapes."""
    _load_rules()
    return name in _of_any_shape


def lookup(name: str, target: str) -> Rule | None:
    """The rule of primitive `name` for `target` ("cpu", "vulkan", "cuda", "xla"), or None."""
    _load_rules()
    return _rules.get((name, target)) or _rules.get((name, None))


def rule_names() -> frozenset[str]:
    """The names of all primitives that have a rule for some target."""
    _load_rules()
    return frozenset(name for name, _ in _rules)


def _load_rules() -> None:
    global _loaded
    if _loaded:
        return
    package = importlib.import_module("veery_lowering.emit.rules")
    for info in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"veery_lowering.emit.rules.{info.name}")
    _loaded = True
