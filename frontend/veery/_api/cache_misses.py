"""Why a function is traced again: what `jax_explain_cache_misses` logs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from veery._api.arguments import argument_names, function_name
from veery._core import source, tree, tree_errors, tree_registry
from veery._core.config import OPTIONS

logger = logging.getLogger("veery")


def explain_miss(fun: Any, args: tuple, kwargs: dict[str, Any], signature: Any, seen: Sequence[Any]) -> None:
    """Log in what a call differs from the signatures under which the function was traced."""
    place = source.of_function(fun)
    where = f" defined at {place.file}:{place.line}" if place.line else ""
    lines = [f"TRACING CACHE MISS at {source.current()}:"]
    if not seen:
        lines += ["  never seen function:", f"    {function_name(fun)} id={id(fun)}{where}"]
    else:
        closest = min((_differences(fun, args, kwargs, signature, old) for old in seen), key=len)
        lines += [f"  for {function_name(fun)}{where}", "  all previously seen cache keys differ. For the closest:"]
        lines += [f"  * {difference}" for difference in closest]
    logger.warning("\n".join(lines))


def _differences(fun: Any, args: tuple, kwargs: dict[str, Any], new: Any, old: Any) -> list[str]:
    found = []
    if new.trace_key != old.trace_key:
        names = [name for name, option in OPTIONS.items() if option.traced]
        found += [
            f"the setting {name} is now {a!r} and was {b!r}"
            for name, a, b in zip(names, new.trace_key, old.trace_key)
            if a != b
        ]
    if new.axes != old.axes:
        found.append(f"the named axes are now {new.axes} and were {old.axes}")
    if new.static != old.static:
        found.append(f"static arguments are now {_static(new)} and were {_static(old)}")
    if new.treedef != old.treedef:
        found += [
            f"at input path {tree_registry.keystr(path)} now {a} and before {b}, so {why}"
            for path, a, b, why in tree_errors.equality_errors_pytreedef(new.treedef, old.treedef)
        ]
    elif new.avals != old.avals:
        found += [
            f"at {name}, now {_shown(a)} and before {_shown(b)}{_hint(a, b)}"
            for name, a, b in zip(_leaf_names(fun, args, kwargs, new), new.avals, old.avals)
            if a != b
        ]
    return found or ["the explanation is not known"]


def _static(signature: Any) -> str:
    return ", ".join(f"{where!r}: {value!r}" for where, _, value in signature.static) or "none"


def _shown(aval: Any) -> str:
    return f"{'~' if getattr(aval, 'weak_type', False) else ''}{aval.str_short()}"


def _hint(a: Any, b: Any) -> str:
    alike = a.shape == b.shape and a.dtype == b.dtype
    return " (a Python number and an array differ in weak_type)" if alike and a.weak_type != b.weak_type else ""


def _leaf_names(fun: Any, args: tuple, kwargs: dict[str, Any], signature: Any) -> list[str]:
    """A name for each dynamic leaf: its argument's, if there are no static ones, with the path in it."""
    dynamic, named = tree.tree_unflatten(signature.treedef, list(range(len(signature.avals))))
    names = argument_names(fun, args, {}) if len(dynamic) == len(args) else [f"argument {i}" for i in range(len(args))]
    values = [*zip(names, dynamic), *sorted(named.items())]
    return [
        name + tree_registry.keystr(path) for name, value in values for path, _ in tree.tree_flatten_with_path(value)[0]
    ]
