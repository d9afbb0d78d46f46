"""A text that says all of a jaxpr that its lowering depends on, so that a program can be found before it is lowered."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from typing import Any

import numpy as np

from veery_lowering.emit import registry

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))


class _Opaque(Exception):
    """A parameter is not plain data: a Python function, a device, ..."""


def fingerprint(closed_jaxpr: Any) -> str | None:
    """The same text for jaxprs that are lowered to the same module, up to names and places; None if there is none.

    There is none where an equation has a parameter that is not plain data, or a lowering rule made outside veery.
    """
    writer = _Writer()
    try:
        writer.closed(closed_jaxpr)
    except _Opaque:
        return None
    return "\n".join(writer.parts)


class _Writer:
    """Writes variables as numbers, in the order in which they are met, and each inner jaxpr once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._variables: dict[int, int] = {}
        self._jaxprs: dict[int, int] = {}

    def closed(self, closed_jaxpr: Any) -> None:
        for const in closed_jaxpr.consts:
            self.value(const)
        self.jaxpr(closed_jaxpr.jaxpr)

    def jaxpr(self, jaxpr: Any) -> None:
        known = self._jaxprs.setdefault(id(jaxpr), len(self._jaxprs))
        self.parts.append(f"jaxpr {known}")
        if known < len(self._jaxprs) - 1:
            return
        for variable in (*jaxpr.constvars, *jaxpr.invars):
            self.atom(variable)
        for eqn in jaxpr.eqns:
            self.equation(eqn)
        self.parts.append("in")
        for atom in jaxpr.outvars:
            self.atom(atom)

    def equation(self, eqn: Any) -> None:
        name = eqn.primitive.name
        if registry.is_replaced(name):
            raise _Opaque(name)
        self.parts.append(name)
        for atom in eqn.invars:
            self.atom(atom)
        self.parts.append("->")
        for variable in eqn.outvars:
            self.atom(variable)
        function = eqn.primitive.stands_for
        for key in [function] if function else sorted(eqn.params.keys() - eqn.primitive.inert):
            self.parts.append(key)
            self.value(eqn.params[key])

    def atom(self, atom: Any) -> None:
        kind = f"{getattr(atom.aval, 'shape', '')}{getattr(atom.aval, 'dtype', '')}"
        if hasattr(atom, "val"):
            self.parts.append(kind)
            self.value(atom.val)
        else:
            self.parts.append(f"{self._variables.setdefault(id(atom), len(self._variables))}:{kind}")

    def value(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self.parts.append(f"{kind.__name__} {value!r}")
        elif isinstance(value, np.dtype) or hasattr(value, "physical"):  # an extended dtype stands on a physical one
            self.parts.append(f"dtype {value}")
        elif isinstance(value, enum.Enum):
            self.parts.append(f"{_name(kind)}.{value.name}")
        elif isinstance(value, (np.generic, np.ndarray)) and not value.dtype.hasobject:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            self.parts.append(f"array {value.dtype.name} {value.shape} {digest}")
        elif isinstance(value, (tuple, list)):
            self.parts.append(f"{_name(kind)} {len(value)}")
            for item in value:
                self.value(item)
        elif isinstance(value, type):
            self.parts.append(_name(value))
        elif hasattr(value, "jaxpr") and hasattr(value, "consts"):
            self.closed(value)
        elif hasattr(value, "eqns") and hasattr(value, "invars"):
            self.jaxpr(value)
        elif dataclasses.is_dataclass(value):
            self.parts.append(_name(kind))
            for field in dataclasses.fields(value):
                self.value(getattr(value, field.name))
        else:
            raise _Opaque(kind)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
