"""Jaxprs as Python: a failure written as a file that shows it again."""

from __future__ import annotations

import base64
import enum
import itertools
import sys
import zlib
from typing import Any

import ml_dtypes
import numpy as np

from veery._core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal
from veery._core.primitive import Primitive

_SCRIPT = '''"""{title}

{detail}
"""

{imports}
import veery as jax
from veery._reference import compare


{functions}

args = [
{args}
]
with jax.enable_x64({wide}):
    closed = jax.make_jaxpr(main)(*args)
    print(closed)
    outs = jax.jit(main)(*args)
    comparison = compare(closed, args, outs)
    print(*comparison.failures, sep="\\n")
    assert comparison.ok
'''


class Unwritable(Exception):
    """A parameter has no text."""


def script(jaxpr: Jaxpr, args: tuple[Any, ...], title: str, detail: str, wide: bool) -> str:
    """A file that evaluates a jaxpr without constants, compiled, and compares it with the reference.

    Raises:
        Unwritable: an equation holds what cannot be written down.
    """
    writer = Writer()
    writer.function(jaxpr, "main")
    return _SCRIPT.format(
        title=title.replace('"', "'"),
        detail=detail.replace("\\", "/").replace('"', "'"),
        imports="\n".join(sorted(writer.imports)),
        functions="\n\n\n".join(writer.functions),
        args="\n".join(f"    {array_text(np.asarray(x))}," for x in args),
        wide=wide,
    )


class Writer:
    """Writes functions, and remembers what they import."""

    def __init__(self) -> None:
        self.imports = {"import base64", "import zlib", "import ml_dtypes", "import numpy as np"}
        self.functions: list[str] = []
        self._numbers = itertools.count()

    def function(self, jaxpr: Jaxpr, name: str) -> None:
        """Append a function that applies a jaxpr's equations."""
        names: dict[Any, str] = {}
        invars = [*jaxpr.constvars, *jaxpr.invars]
        for v in invars:
            names[v] = f"v{len(names)}"
        lines = [f"def {name}({', '.join(names[v] for v in invars)}):"]
        for eqn in jaxpr.eqns:
            for v in eqn.outvars:
                names[v] = "_" if isinstance(v, DropVar) else f"v{len(names)}"
            text = self.equation(eqn, [self.atom(a, names) for a in eqn.invars])
            left = ", ".join(names[v] for v in eqn.outvars)
            comma = "," if eqn.primitive.multiple_results and len(eqn.outvars) == 1 else ""
            types = ", ".join(v.aval.str_short() for v in eqn.outvars)
            lines.append(f"    {left}{comma} = {text}  # {types}")
        lines.append(f"    return ({', '.join(self.atom(a, names) for a in jaxpr.outvars)},)")
        self.functions.append("\n".join(lines))

    def equation(self, eqn: JaxprEqn, operands: list[str]) -> str:
        """An application of a primitive."""
        name = eqn.primitive.name
        if name in ("jit", "custom_jvp_call", "custom_vjp_call"):
            inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr") or eqn.params.get("fun_jaxpr")
            function = self.nested(inner)
            return f"{f'jax.jit({function})' if name == 'jit' else function}({', '.join(operands)})"
        params = [f"{key}={self.value(x)}" for key, x in eqn.params.items()]
        return f"{self.primitive(eqn.primitive)}.bind({', '.join([*operands, *params])})"

    def primitive(self, primitive: Primitive) -> str:
        """The name of a primitive, which is imported."""
        for module, contents in sorted(sys.modules.items()):
            if module.startswith("veery.") and not module.startswith("veery._reference"):
                for key, x in vars(contents).items():
                    if x is primitive:
                        self.imports.add(f"from {module} import {key}")
                        return key
        raise Unwritable(str(primitive))

    def nested(self, closed: Any) -> str:
        """The name of a function for a jaxpr within."""
        if isinstance(closed, ClosedJaxpr) and closed.consts:
            raise Unwritable("constants of an inner jaxpr")
        jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
        self.function(jaxpr, name := f"inner{next(self._numbers)}")
        return name

    def atom(self, atom: Any, names: dict[Any, str]) -> str:
        if not isinstance(atom, Literal):
            return names[atom]
        if atom.aval.weak_type:
            return repr(np.asarray(atom.val).item())
        return array_text(np.asarray(atom.val, atom.aval.dtype))

    def value(self, x: Any) -> str:
        """The text of a parameter."""
        if isinstance(x, ClosedJaxpr):
            types = ", ".join(f"jax.ShapeDtypeStruct({a.shape}, {self.value(a.dtype)})" for a in x.in_avals)
            return f"jax.make_jaxpr({self.nested(x)})({types})"
        if x is None or isinstance(x, (bool, int, float, complex, str)) and not isinstance(x, enum.Enum):
            return repr(x) if x == x and x not in (float("inf"), -float("inf")) else f"float('{x}')"
        if isinstance(x, (np.dtype, type)) and _is_dtype(x):
            name = np.dtype(x).name
            return f"np.dtype(ml_dtypes.{name})" if hasattr(ml_dtypes, name) else f"np.dtype({name!r})"
        if isinstance(x, (np.ndarray, np.generic)):
            return array_text(np.asarray(x))
        if isinstance(x, enum.Enum):
            self.imports.add(f"from {type(x).__module__} import {type(x).__name__}")
            return f"{type(x).__name__}.{x.name}"
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            self.imports.add(f"from {type(x).__module__} import {type(x).__name__}")
            return f"{type(x).__name__}({', '.join(map(self.value, x))})"
        if isinstance(x, (tuple, list)):
            items = ", ".join(map(self.value, x))
            return f"[{items}]" if isinstance(x, list) else f"({items}{',' if len(x) == 1 else ''})"
        if isinstance(x, frozenset) and not x:
            return "frozenset()"
        if isinstance(x, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in x.items()) + "}"
        fields = getattr(type(x), "__dataclass_fields__", None)
        if fields:
            self.imports.add(f"from {type(x).__module__} import {type(x).__name__}")
            return f"{type(x).__name__}({', '.join(f'{k}={self.value(getattr(x, k))}' for k in fields)})"
        raise Unwritable(f"{type(x)}")


def _is_dtype(x: Any) -> bool:
    try:
        np.dtype(x)
    except TypeError:
        return False
    return True


def array_text(x: np.ndarray) -> str:
    """An array as an expression: its elements, or its bytes if it has many."""
    dtype = f"ml_dtypes.{x.dtype.name}" if hasattr(ml_dtypes, x.dtype.name) else repr(x.dtype.name)
    if x.size <= 24 and np.all(np.isfinite(x.astype("complex128"))):
        return f"np.array({x.tolist()!r}, {dtype}).reshape({x.shape})"
    text = base64.b64encode(zlib.compress(x.tobytes(), 9)).decode()
    return f"np.frombuffer(zlib.decompress(base64.b64decode({text!r})), {dtype}).reshape({x.shape})"
