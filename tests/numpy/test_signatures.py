"""The surface that programs written for JAX rely on: public names and their parameters, held to those of JAX 0.10.

`signatures.json` has, for each namespace, the signature of each public name as text ("class", "module" or "value" for
what is no function). `refusals.json` says which names are left out, and why.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import veery
import veery.numpy as jnp

HERE = Path(__file__).parent
RECORDED: dict[str, dict[str, str]] = json.loads((HERE / "signatures.json").read_text())
REFUSED: dict[str, dict[str, str]] = json.loads((HERE / "refusals.json").read_text())
REASONS = {
    (space, name): reason
    for space, groups in REFUSED.items()
    for reason, names in groups.items()
    for name in names.split()
}
CASES = [(space, name) for space, names in RECORDED.items() for name in names]

# Parameters that differ on purpose.
DIFFERENT = {
    ("numpy", "set_printoptions"): "names what numpy.set_printoptions takes instead of *args and **kwargs",
    ("numpy", "einsum"): "has no _dot_general, which is private",
    ("lax", "random_gamma_grad"): "names its arguments",
    ("veery", "vmap"): "sum_match belongs to the sharding types that are not there yet",
}
# Unions of types, which JAX's interpreter-independent form makes look like functions.
TYPES = {("lax", "ConvGeneralDilatedDimensionNumbers"), ("lax", "PrecisionLike")}


def owner(space: str) -> Any:
    """The object that has the names of a namespace."""
    instances = {"Array": jnp.ones(1), "ufunc": jnp.add, "at": jnp.ones(1).at[0]}
    if space in instances:
        return instances[space]
    return veery if space == "veery" else importlib.import_module(f"veery.{space}")


def parameters(text: str) -> list[inspect.Parameter]:
    """The parameters of a recorded signature; defaults as text, "..." for a private sentinel."""
    namespace: dict[str, Any] = {}
    exec(f"def f{text}: pass", namespace)  # noqa: S102  data of this folder
    return list(inspect.signature(namespace["f"]).parameters.values())


def same_default(our: inspect.Parameter, their: inspect.Parameter) -> bool:
    """Whether leaving out an argument means the same; where it may not be left out, anything does."""
    if their.default is their.empty or their.default is ...:
        return True
    value = our.default.__name__ if isinstance(our.default, type) else our.default
    return bool(value == their.default)


def differences(ours: list[inspect.Parameter], theirs: list[inspect.Parameter]) -> list[str]:
    """How calls that fit the second signature could fail to fit the first, or mean something else."""
    by_name = {p.name: p for p in ours}
    positional = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = []
    for place, their in enumerate(theirs):
        if their.kind in (their.VAR_POSITIONAL, their.VAR_KEYWORD):
            if not any(p.kind == their.kind for p in ours):
                found.append(f"no {their}")
            continue
        by_place = their.kind in (their.POSITIONAL_ONLY, their.POSITIONAL_OR_KEYWORD)
        if by_place and place >= len(positional):
            found.append(f"no positional parameter {their.name}")
            continue
        our = positional[place] if by_place else by_name.get(their.name)
        if our is None:
            found.append(f"no parameter {their.name}")
        elif our.name != their.name and their.kind != their.POSITIONAL_ONLY:
            found.append(f"{our.name} instead of {their.name}")
        elif their.kind == their.POSITIONAL_OR_KEYWORD and our.kind == our.POSITIONAL_ONLY:
            found.append(f"{our.name} is positional only")
        elif not same_default(our, their):
            found.append(f"default of {their.name}: {our.default!r} instead of {their.default!r}")
    known = {p.name for p in theirs}
    required = [p for p in ours if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    found += [f"requires {p.name}" for p in required if p.name not in known and p not in positional[: len(theirs)]]
    return found


@pytest.mark.parametrize("space", RECORDED)
def test_public_names_are_there_or_refused_with_a_reason(space):
    missing = RECORDED[space].keys() - set(dir(owner(space)))
    refused = {name for s, name in REASONS if s == space}
    assert missing - refused == set(), f"{space} lacks these names"
    assert refused - missing == set(), f"{space} has these names by now, or they are none of JAX's"


@pytest.mark.parametrize("space", RECORDED)
def test_parameters_are_compatible(space):
    have = owner(space)
    found = {}
    for name, text in RECORDED[space].items():
        if not text.startswith("(") or (space, name) in REASONS or (space, name) in TYPES:
            continue
        function = getattr(have, name)
        if isinstance(function, jnp.ufunc):
            function = function.__call__
        problems = differences(list(inspect.signature(function).parameters.values()), parameters(text))
        if (space, name) in DIFFERENT:
            assert problems, f"{space}.{name} does not differ any more"
        elif problems:
            found[name] = problems
    assert not found
