"""Printing jaxprs in JAX's syntax."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from veery._core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var

WIDTH = 80


class Names:
    """Letters for the variables of one jaxpr, in the order in which they are met: a, b, ..., z, ba, bb, ..."""

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._letters = _letters()

    def of(self, var: Var) -> str:
        if var not in self._names:
            self._names[var] = next(self._letters)
        return self._names[var]


def _letters() -> Iterator[str]:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    yield from alphabet
    for length in itertools.count(2):
        for letters in itertools.product(alphabet, repeat=length):
            if letters[0] != "a":
                yield "".join(letters)


def jaxpr_text(jaxpr: Jaxpr, *, source_info: bool = False, name_stack: bool = False, **_options: Any) -> str:
    """A jaxpr as JAX prints it.

    Args:
        jaxpr: what to print.
        source_info: whether each equation is followed by the user's file and line.
        name_stack: whether names of `named_scope` are shown.

    Returns:
        Text such as `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.
    """
    return "\n".join(_jaxpr_lines(jaxpr, _Style(Names(), source_info, name_stack), WIDTH))


def eqn_text(eqn: JaxprEqn) -> str:
    """One equation as text."""
    return "\n".join(_eqn_lines(eqn, _Style(Names()), WIDTH))


def jaxpr_html(jaxpr: Jaxpr) -> str:
    """A jaxpr for notebooks."""
    return f"<pre style='line-height:1.3;font-family:monospace'>{html.escape(jaxpr_text(jaxpr))}</pre>"


@dataclass
class _Style:
    names: Names
    source_info: bool = False
    name_stack: bool = False


def _jaxpr_lines(jaxpr: Jaxpr, style: _Style, width: int) -> list[str]:
    names = style.names
    header = f"lambda {_binders(jaxpr.constvars, names)}; {_binders(jaxpr.invars, names)}."
    eqns = [_eqn_lines(eqn, style, width - 4) for eqn in jaxpr.eqns]
    outs = [_atom(a, names) for a in jaxpr.outvars]
    result = f"in ({', '.join(outs)}{',' if len(outs) == 1 else ''})"
    body = "; ".join(lines[0] for lines in eqns)
    one_line = f"{{ {header} let {body}{' ' if body else ''}{result} }}"
    if len(one_line) <= width and all(len(lines) == 1 for lines in eqns):
        return [one_line]
    return [f"{{ {header} let", *("    " + line for lines in eqns for line in lines), f"  {result} }}"]


def _binders(variables: list[Var], names: Names) -> str:
    return " ".join(_typed(v, names) for v in variables)


def _typed(var: Var, names: Names) -> str:
    return "_:" + var.aval.str_short() if isinstance(var, DropVar) else f"{names.of(var)}:{var.aval.str_short()}"


def _atom(atom: Atom, names: Names) -> str:
    if isinstance(atom, Literal):
        value = np.asarray(atom.val)
        return f"{value.item() if value.dtype != object else atom.val}:{atom.aval.str_short()}"
    return names.of(atom)


def _eqn_lines(eqn: JaxprEqn, style: _Style, width: int) -> list[str]:
    if eqn.primitive.shown is not None:
        results = [_typed(v, style.names) for v in eqn.outvars]
        return [eqn.primitive.shown(eqn, [_atom(a, style.names) for a in eqn.invars], results) + _comment(eqn, style)]
    left = " ".join(_typed(v, style.names) for v in eqn.outvars)
    prefix = (f"{left} = " if left else "") + eqn.primitive.name
    operands = " ".join(_atom(a, style.names) for a in eqn.invars)
    shown = sorted((key, value) for key, value in eqn.params.items() if not _is_plain(eqn, key, value))
    params = [(key, _param_lines(value, style, width - 4)) for key, value in shown]
    comment = _comment(eqn, style)
    flat = " ".join(f"{key}={lines[0]}" for key, lines in params)
    one_line = f"{prefix}{f'[{flat}]' if params else ''} {operands}".rstrip()
    if len(one_line) <= width and all(len(lines) == 1 for _, lines in params):
        return [one_line + comment]
    middle = []
    for key, lines in params:
        middle += [f"  {key}={lines[0]}", *("  " + line for line in lines[1:])]
    return [f"{prefix}[", *middle, f"] {operands}".rstrip() + comment]


def _is_plain(eqn: JaxprEqn, key: str, value: Any) -> bool:
    """Whether the types of an equation say what a parameter does, as the shape to which a scalar is broadcast, or it
    is always the same: calls that are there are not inlined."""
    if key == "inline":
        return eqn.primitive.name == "jit"
    return eqn.primitive.name == "broadcast_in_dim" and (key == "shape" or value == ())


def _comment(eqn: JaxprEqn, style: _Style) -> str:
    info = eqn.source_info
    if info is None:
        return ""
    parts = [info.name_stack] if style.name_stack and info.name_stack else []
    if style.source_info:
        parts.append(f"{info.file}:{info.line} ({info.function})")
    return f"  # {' '.join(parts)}" if parts else ""


def _param_lines(value: Any, style: _Style, width: int) -> list[str]:
    if isinstance(value, ClosedJaxpr):
        value = value.jaxpr
    if isinstance(value, Jaxpr):
        return _jaxpr_lines(value, style, width)
    if isinstance(value, tuple) and value and isinstance(value[0], (Jaxpr, ClosedJaxpr)):
        lines = [line for item in value for line in _param_lines(item, style, width - 2)]
        return ["(", *("  " + line for line in lines), ")"]
    if isinstance(value, (type, np.dtype)):
        return [np.dtype(value).name]
    if callable(value):
        return [getattr(value, "__name__", type(value).__name__)]
    return [str(value)]
