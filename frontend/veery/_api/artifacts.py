"""Files with machine code for several targets, which run without veery (see `veery.aot`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from veery import _dispatch
from veery._api.arguments import function_name
from veery._api.entries import compile_for, entry
from veery._api.jit import JitFunction, jit

__all__ = ["compile", "load"]

Specs = tuple[Any, ...]


def compile(
    fun: Callable[..., Any] | Mapping[str, tuple[Callable[..., Any], Specs]],
    specs: Any = None,
    *,
    targets: str | Sequence[str] = ("cpu",),
    out: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
) -> None:
    """Compile functions for one or several targets and write them to a file.

    `veery_runtime.load(out)` runs it: the first of the targets whose device is there, and of several programs for CPUs
    the one that uses most of what the CPU has.

    Args:
        fun: a function (`jit` with its options, e.g. donated or static arguments, or a plain one), or a dictionary of
            names to (function, specs).
        specs: the types of the arguments: a tuple with a pytree of arrays or ShapeDtypeStructs for each. With
            dimensions from `veery.export.symbolic_shape` one program serves all sizes.
        targets: "cpu" (this machine's, with all of its features), "cpu:generic" (any CPU of this architecture),
            "cpu:x86-64-v3", "cpu:aarch64-linux", "vulkan", "vulkan:rdna3", "cuda:sm_89", ... in order of preference.
        out: the file, by custom ending in `.vmfb`. IREE's own tools run its first function for its first target.
        weights: a `.safetensors` or `.irpa` file in the same folder, for large constants; it is mapped when loaded.

    Raises:
        ValueError: an unknown target, or containers that a file cannot describe.
        CompileError: IREE cannot compile a function for a target.
        LoweringError: a function needs Python at run time (callbacks).

    >>> import veery, veery.numpy as jnp
    >>> x = veery.ShapeDtypeStruct((4, 4), "float32")
    >>> veery.aot.compile(jnp.sin, (x,), targets=["cpu:x86-64-v3", "cpu:generic"], out="sine.vmfb")
    >>> x = veery.ShapeDtypeStruct(veery.export.symbolic_shape("b, 4"), "float32")
    >>> veery.aot.compile(jnp.sin, (x,), out="sine.vmfb")
    >>> import numpy, veery_runtime
    >>> [veery_runtime.load("sine.vmfb")(numpy.zeros((b, 4), "float32")).shape for b in (1, 7)]
    [(1, 4), (7, 4)]
    """
    functions = dict(fun) if isinstance(fun, Mapping) else {function_name(fun): (fun, specs)}
    targets = [targets] if isinstance(targets, str) else list(targets)
    if not targets or not functions:
        raise ValueError("compile: at least one target and one function are needed")
    save({name: _trace(name, function, types) for name, (function, types) in functions.items()}, targets, out, weights)


def save(traced: Mapping[str, Any], targets: Sequence[str], out: Any, weights: Any = None) -> None:
    """Compile traced functions (veery.stages.Traced, by name) for targets and write them to a file; see `compile`."""
    entries = []
    for name, each in traced.items():
        programs = [compile_for(each, target) for target in dict.fromkeys(targets)]
        entries.append(entry(each, programs, name=name))
    _dispatch.save_artifact(out, entries, weights_path=weights)


def load(path: str | os.PathLike[str], device: Any = None) -> Any:
    """The functions of an artifact, as `veery_runtime.load` gives them: pytrees of NumPy arrays in and out."""
    return _dispatch.runtime().load(path, device)


def _trace(name: str, fun: Any, specs: Any) -> Any:
    if not isinstance(specs, (tuple, list)):
        raise TypeError(f"compile: the types of {name}'s arguments must be a tuple, one for each, got {specs!r}")
    function = fun if isinstance(fun, JitFunction) else jit(fun)
    return function.trace(*specs)
