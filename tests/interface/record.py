"""Records the public names of JAX's modules, with their signatures: signatures.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/interface/record.py [--check]
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from support.recording import arguments, keep

# Of these JAX's own names are many, none of which is veery's; of others, some modules import what is not installed.
WHOLE = (
    "experimental.array_serialization experimental.colocated_python experimental.jax2tf experimental.mosaic"
    " experimental.pallas extend.mlir extend.pallas tools"
).split()
CLOSED = "collect_profile experimental.roofline experimental.source_mapper experimental.sparse.test_util".split()


class _Text(str):
    """A default as it is written."""

    __repr__ = str.__str__


def written(default: Any) -> str:
    """A default as text; "..." for what is private to JAX."""
    if isinstance(default, type):
        return repr(default.__name__)
    if isinstance(default, np.generic):
        return repr(default.item())
    plain = default is None or type(default) in (bool, int, float, complex, str, tuple)
    return repr(default) if plain or default == frozenset() else "..."


def signature_of(owner: Any, name: str) -> str:
    if isinstance(inspect.getattr_static(type(owner), name, None), property):
        return "property"
    value = getattr(owner, name)
    if isinstance(value, type):
        return "class"
    if inspect.ismodule(value):
        return "module"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # no function, or one that has no signature
        return "value"
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    parameters = [p if p.default is p.empty else p.replace(default=_Text(written(p.default))) for p in parameters]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def modules() -> Iterator[str]:
    """The public modules of JAX; of the packages in WHOLE, only themselves."""
    yield "jax"
    for found in pkgutil.walk_packages(jax.__path__, "jax.", onerror=lambda name: None):
        inner = any(found.name.startswith(f"jax.{name}.") for name in WHOLE)
        if not inner and not any(part.startswith("_") for part in found.name.split(".")):
            yield found.name


def public_names(module: ModuleType) -> set[str]:
    """What a module offers: `__all__`, else what it defines or imports `as` something, else all, and its modules."""
    listed = getattr(module, "__all__", None)
    offered = set(listed) if listed else set(_offered(ast.parse(Path(str(module.__file__)).read_text()).body))
    names = (offered or set(dir(module)) - {"annotations"}) | set(getattr(module, "_deprecations", ()))
    inner = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", []))}
    found = {name for name in names if not inspect.ismodule(getattr(module, name, None)) or _is_its(module, name)}
    return {name for name in found | inner if not name.startswith("_") and hasattr(module, name)}


def _is_its(module: ModuleType, name: str) -> bool:
    """Whether a module is offered by another, and not an abbreviation in its code."""
    return getattr(module, name).__name__ in (f"{module.__name__}.{name}", f"jax.{name}", f"jax._src.{name}")


def _offered(statements: list[ast.stmt]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname for alias in node.names if alias.asname)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.If):
            yield from _offered(node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _offered(node.body)


def signatures() -> str:
    spaces: dict[str, Any] = {}
    for space in modules():
        closed = space.removeprefix("jax.") in (*WHOLE, *CLOSED)
        owner = None if closed else importlib.import_module(space)
        spaces[space] = owner, [] if owner is None else public_names(owner)
    for space, instance in {"Array": jnp.ones(1), "ufunc": jnp.add, "at": jnp.ones(1).at[0]}.items():
        spaces[space] = instance, [name for name in dir(instance) if not name.startswith("_")]
    parts = []
    for space, (owner, names) in spaces.items():
        lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(signature_of(owner, n))}" for n in sorted(names))
        parts.append(f"{json.dumps(space)}: {{\n{lines}\n}}" if names else f"{json.dumps(space)}: {{}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")
    keep(Path(__file__).parent / "signatures.json", signatures(), options)


if __name__ == "__main__":
    main()
