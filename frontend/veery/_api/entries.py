"""What a file of programs says of each function: its programs, its trees, the names of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from veery import _dispatch
from veery._api.arguments import signature
from veery._api.structures import describe
from veery._transforms.float0 import holds_float0


def compile_for(traced: Any, target: str) -> Any:
    """A traced function as a program that calls no Python functions."""
    return traced.lower(lowering_platforms=[target], self_contained=True)._lowered.compile()


def entry(traced: Any, programs: Sequence[Any], *, name: str | None = None) -> Any:
    """What an artifact says of a traced function (a veery.stages.Traced) and its programs."""
    inner = traced._traced
    if any(program.backend == "xla" for program in programs):
        raise ValueError(
            f"{name or inner.name} was compiled by XLA; artifacts hold programs of IREE, which run without a compiler. "
            "Compile it for one of its targets: cpu, vulkan, cuda"
        )
    refuse_refs(inner)
    if holds_float0(inner.closed):
        raise ValueError(f"{name or inner.name}: a file holds no arguments or results of float0, which carry nothing")
    consts = tuple(_dispatch.as_array(c).to_numpy() for c in inner.consts)
    names = tuple(getattr(inner.closed.jaxpr.debug_info, "arg_names", None) or ())
    return _dispatch.entry(
        _identifier(name or inner.name),
        programs,
        in_tree=describe(traced.in_tree),
        out_tree=describe(traced.out_tree),
        parameters=_parameters(traced),
        names=names[len(names) - len(traced._signature.avals) :],
        constants=consts,
    )


def refuse_refs(traced: Any) -> None:
    """Raise ValueError for a function that writes to what it was given: a program by itself has no references."""
    if traced.takes_refs:
        raise ValueError(
            f"{traced.name} takes or closes over array references, which a program by itself cannot write to. Pass "
            "their values and return the new ones."
        )


def _identifier(name: str) -> str:
    return "main" if name == "<lambda>" else name


def _parameters(traced: Any) -> tuple[str, ...]:
    """Names of the positional arguments that are passed at run time (static ones are compiled in)."""
    function = traced._function
    count = len(traced.in_tree.children()[0].children())
    sig = signature(function._fun)
    names = []
    for p in sig.parameters.values() if sig else ():
        if p.kind == p.VAR_POSITIONAL:
            names += [f"{p.name}[{i}]" for i in range(count)]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    static = function._options.static_argnums
    dynamic = [name for i, name in enumerate(names) if i not in static]
    return tuple([*dynamic, *[f"arg{i}" for i in range(len(dynamic), count)]][:count])
