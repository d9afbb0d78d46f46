"""Arguments of transformed functions: static ones, donated ones, names and pytree paths for messages."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def wraps(fun: Any) -> Callable[[F], F]:
    """Makes a function look like another: name, documentation and attributes, as far as the other has them.

    An object that stands for a function keeps what its class has: the other may be an object with methods of the same
    names.
    """

    def look(wrapper: F) -> F:
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            with contextlib.suppress(AttributeError, TypeError):  # callable objects may have none, or odd ones
                setattr(wrapper, name, getattr(fun, name))
        if not type(fun).__module__.startswith("veery."):
            own = type(wrapper)
            wrapper.__dict__.update({k: v for k, v in getattr(fun, "__dict__", {}).items() if not hasattr(own, k)})
        wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
        return wrapper

    return look


def function_name(fun: Any) -> str:
    """A name for a callable, for jaxprs and messages."""
    name = getattr(fun, "__name__", None)
    if name is not None:
        return name
    inner = getattr(fun, "func", None)
    return function_name(inner) if inner is not None else type(fun).__name__


def signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable, None where it has none (built-in functions)."""
    try:
        return inspect.signature(fun)
    except (ValueError, TypeError):
        return None


def as_tuple(x: Any) -> tuple[Any, ...]:
    """An int or a string as a tuple of one; None as the empty tuple."""
    if x is None:
        return ()
    return (x,) if isinstance(x, (int, str)) else tuple(x)


def positions_and_names(
    fun: Callable[..., Any], argnums: Any, argnames: Any, option: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    """Positions and names of the arguments that `option` speaks of, each completed from the other by the signature.

    Raises:
        ValueError: an argument that the function does not have.
    """
    sig = signature(fun)
    numbers, names = as_tuple(argnums), as_tuple(argnames)
    if sig is None:
        if option == "donate" and names:
            raise ValueError(
                f"Getting the signature of function {fun} failed. Pass donate_argnums instead of donate_argnames."
            )
        return numbers, frozenset(names)
    parameters = list(sig.parameters.values())
    positional = [i for i, p in enumerate(parameters) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    _check(fun, sig, numbers, names, option)
    if all(p.kind != p.VAR_POSITIONAL for p in parameters):  # else a call's arguments tell where the end is
        numbers = tuple(n + len(positional) if n < 0 else n for n in numbers)
    if argnames is None:
        names = tuple(
            parameters[n].name
            for n in numbers
            if 0 <= n < len(positional) and parameters[n].kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
    if argnums is None:
        numbers = tuple(i for i in positional if parameters[i].name in names)
    return tuple(sorted(set(numbers))), frozenset(names)


def check_traceable(fun: Any) -> None:
    """Raise TypeError for callables that cannot be transformed: staticmethod objects, and functions that yield."""
    if isinstance(fun, staticmethod):
        raise TypeError(f"staticmethod arguments are not supported, got {fun}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"Expected a function, got a generator function: {fun}")


def _check(fun: Any, sig: inspect.Signature, numbers: Sequence[int], names: Iterable[str], option: str) -> None:
    kinds = [p.kind for p in sig.parameters.values()]
    count = sum(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        for n in numbers:
            if not isinstance(n, int):
                raise TypeError(f"Jitted function has {option}_argnums={numbers}, which must be ints")
            if not -count <= n < count:
                raise ValueError(
                    f"Jitted function has {option}_argnums={numbers}, but only accepts {count} positional arguments."
                )
    start = f"Jitted function has invalid argnames {{}} in {option}_argnames."
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    unnamed = {n for n in names if n in sig.parameters and sig.parameters[n].kind in by_position}
    if unnamed:
        raise ValueError(f"{start.format(unnamed)} These are positional-only")
    unknown = {n for n in names if n not in sig.parameters}
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ValueError(
            f"{start.format(unknown)} Function does not take these args. {function_name(fun)} takes "
            f"{list(sig.parameters)}."
        )


def argument_names(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """A name for each positional argument, then for each keyword argument."""
    sig = signature(fun)
    names: list[str] = []
    if sig is not None:
        for p in sig.parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind == p.VAR_POSITIONAL:
                names += [f"{p.name}[{i}]" for i in range(max(0, len(args) - len(names)))]
    names += [f"args[{i}]" for i in range(len(names), len(args))]
    return [*names[: len(args)], *kwargs]
