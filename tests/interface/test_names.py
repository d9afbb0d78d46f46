"""The account of JAX's public names: each is in veery, with JAX's parameters, or `veery._core.absent` says why not.

`signatures.json` has, for each public module of JAX 0.10.2, the signature of each public name as text ("class",
"module" or "value" for what is no function). Where a test says that veery has a name by now, its line in
`veery/_core/absent.py` goes: `settle.py` does that.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import math
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import veery
import veery.numpy as jnp
from veery._core import absent

RECORDED: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "signatures.json").read_text())
INSTANCES = {"Array": jnp.ones(1), "ufunc": jnp.add, "at": jnp.ones(1).at[0]}
# What arrays lack.
ATTRIBUTES = {
    "Array": {
        "traceback": "Belongs to XLA's runtime.",
        "clone": "Belongs to XLA's runtime.",
        "device_buffer": "Raises AttributeError in JAX too.",
        "device_buffers": "Raises AttributeError in JAX too.",
    }
}

# Parameters that differ on purpose.
DIFFERENT = {
    ("jax.numpy", "set_printoptions"): "names what numpy.set_printoptions takes instead of *args and **kwargs",
    ("jax.lax", "random_gamma_grad"): "names its arguments",
    ("jax", "vmap"): "sum_match belongs to the sharding types that are not there yet",
    ("jax.api_util", "flatten_fun"): "has no private options",
    ("jax.api_util", "flatten_fun_nokwargs"): "has no private options",
    ("jax.debug", "breakpoint"): "names the arguments that JAX passes on to its debuggers",
    ("jax.debug", "log"): "passes on what print takes",
    ("jax.export", "export"): "has no _override_lowering_rules, which is private",
    ("jax.extend.core", "jaxpr_as_fun"): "takes the jaxpr, and returns the function",
    ("jax.extend.core", "unmapped_aval"): "has no axes of meshes",
    ("jax.extend.linear_util", "transformation_with_aux2"): "has no private options",
    ("jax.interpreters.ad", "jvp"): "has no options of JAX's tracing",
    ("jax.interpreters.ad", "linearize"): "has no options of JAX's tracing",
    ("jax.interpreters.batching", "bdim_at_front"): "has no axes of meshes",
    ("jax.interpreters.batching", "broadcast"): "has no axes of meshes",
    ("jax.interpreters.mlir", "aval_to_ir_type"): "has no context: types follow from avals alone",
    ("jax.interpreters.mlir", "ir_constant"): "has no options of XLA's lowering",
    ("jax.interpreters.mlir", "register_lowering"): "has no options of XLA's lowering",
    ("jax.interpreters.partial_eval", "trace_to_jaxpr_dynamic"): "has no options of JAX's tracing",
    ("jax.test_util", "check_jvp"): "eps goes by the dtype",
    ("jax.test_util", "check_vjp"): "eps goes by the dtype",
}
# Where arguments are given by their places, whatever their names.
INNER = ("jax.interpreters.", "jax.extend.")
# Unions of types, which JAX's interpreter-independent form makes look like functions, and what has no signature.
TYPES = {
    ("jax.lax", "ConvGeneralDilatedDimensionNumbers"),
    ("jax.lax", "PrecisionLike"),
    ("jax.core", "Atom"),
    ("jax.core", "max_dim"),
    ("jax.core", "min_dim"),
}


def our_name(space: str) -> str:
    """The name of veery's module for one of JAX's."""
    return space if space in INSTANCES else "veery" + space.removeprefix("jax")


def absent_names(space: str) -> set[str]:
    """The names of a space that veery has not, for reasons that it says."""
    if space in INSTANCES:
        return set(ATTRIBUTES.get(space, ()))
    modules = {name for name in RECORDED[space] if is_absent(f"{space}.{name}")}
    return modules | {n for names in absent.NAMES.get(our_name(space), {}).values() for n in names.split()}


def is_absent(space: str) -> bool:
    return space not in INSTANCES and absent.module_reason(our_name(space)) is not None


def is_there(space: str) -> bool:
    """Whether veery has a module of this name."""
    try:
        return importlib.util.find_spec(our_name(space)) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        return False


SPACES = [space for space in RECORDED if not is_absent(space)]


def owner(space: str) -> Any:
    """The object that has the names of a namespace."""
    return INSTANCES[space] if space in INSTANCES else importlib.import_module(our_name(space))


def parameters(text: str) -> list[inspect.Parameter]:
    """The parameters of a recorded signature; defaults as text, "..." for a private sentinel."""
    namespace: dict[str, Any] = {"inf": math.inf}
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


@pytest.mark.parametrize("space", [space for space in RECORDED if is_absent(space)])
def test_absent_modules_are_not_there(space):
    assert not is_there(space), f"{our_name(space)} is there by now: take it out of MODULES in veery/_core/absent.py"


@pytest.mark.parametrize("space", SPACES)
def test_public_names_are_there_or_refused_with_a_reason(space):
    missing = RECORDED[space].keys() - set(dir(owner(space)))
    refused = absent_names(space)
    assert missing - refused == set(), f"{space} lacks these names: veery/_core/absent.py says nothing of them"
    assert refused - missing == set(), f"{space} has these by now, or JAX has not: take them out of absent.py"


@pytest.mark.parametrize("space", SPACES)
def test_parameters_are_compatible(space):
    have = owner(space)
    found = {}
    for name, text in RECORDED[space].items():
        if not text.startswith("(") or name in absent_names(space) or (space, name) in TYPES:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            function = getattr(have, name)
        if isinstance(function, jnp.ufunc):
            function = function.__call__
        problems = differences(list(inspect.signature(function).parameters.values()), parameters(text))
        if space.startswith(INNER):
            problems = [problem for problem in problems if " instead of " not in problem]
        if (space, name) in DIFFERENT:
            assert problems, f"{space}.{name} does not differ any more"
        elif problems:
            found[name] = problems
    assert not found


def test_the_account_names_what_jax_has():
    modules = {our_name(space) for space in RECORDED}
    assert {m for names in absent.MODULES.values() for m in names.split()} <= modules
    assert absent.NAMES.keys() <= modules


@pytest.mark.parametrize("module", sorted(absent.NAMES))
def test_what_is_absent_is_said(module):
    for why, names in absent.NAMES[module].items():
        for name in names.split():
            message = re.escape(f"module '{module}' has no attribute '{name}': {why}")
            with pytest.raises(AttributeError, match=message):
                getattr(importlib.import_module(module), name)


def test_what_jax_has_not_either_has_no_reason():
    with pytest.raises(AttributeError, match="module 'veery' has no attribute 'nonsense'$"):
        _ = veery.nonsense
