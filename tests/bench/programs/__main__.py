"""First calls and later calls of programs, for one library; run by beside.py.

    python -m programs veery|jax|numpy [--only TEXT] [--results FILE]

Prints a JSON object of name -> {"first": seconds of the first call, "later": the mean of later calls, "peak": the most
bytes that the process has had so far}. What programs give is kept in a file, so that libraries can be compared.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

import programs

_SECONDS = 0.2  # of later calls that are timed

Program = tuple[Callable[..., Any], tuple[Any, ...]]


class NumPy(SimpleNamespace):
    """NumPy in JAX's place: of the programs those run that are NumPy's alone."""

    numpy = np
    block_until_ready = staticmethod(lambda x: x)
    jit = staticmethod(lambda f: f)


def library_of(name: str) -> Any:
    """A library under JAX's names."""
    if name == "numpy":
        return NumPy()
    importlib.import_module(f"{name}.numpy")
    return importlib.import_module(name)


def chosen(jax: Any, only: str) -> Iterator[tuple[str, Program]]:
    """Programs whose names have a text, named by group and program."""
    for group, make in programs.GROUPS.items():
        try:
            made = make(jax)
        except AttributeError:
            if not isinstance(jax, NumPy):
                raise
            continue  # not NumPy's
        yield from ((f"{group}: {name}", made[name]) for name in made if only in f"{group}: {name}")


def settle(jitted: Any, call: Callable[[], Any]) -> None:
    """Call until veery has found out which of two compilers' programs is faster, where it looks for that."""
    for entry in list(getattr(jitted, "_entries", {}).values()):
        while not getattr(entry.executable, "decided", True):
            call()
            time.sleep(0.01)


def timings(jax: Any, program: Program) -> tuple[dict[str, float], Any]:
    """How long the calls of a program take, and what it gives."""
    function, arguments = program
    jax.block_until_ready(arguments)
    jitted = jax.jit(lambda *xs: function(*xs))
    call = functools.partial(jitted, *arguments)
    start = time.perf_counter()
    results = jax.block_until_ready(call())
    first = time.perf_counter() - start
    settle(jitted, call)
    times: list[float] = []
    while sum(times) < _SECONDS or len(times) < 3:
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return {"first": first, "later": statistics.mean(times)}, results  # a median hides calls that are held up


def flat(results: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a program's results, in the order of their nesting."""
    if isinstance(results, (tuple, list)):
        return [x for each in results for x in flat(each)]
    if isinstance(results, dict):
        return [x for key in sorted(results) for x in flat(results[key])]
    return [np.asarray(results)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=["veery", "jax", "numpy"])
    parser.add_argument("--only", default="", help="programs whose names have this text")
    parser.add_argument("--results", help="where to keep what the programs give")
    options = parser.parse_args()
    jax = library_of(options.library)
    one = np.ones(5, np.float32)
    jax.block_until_ready(jax.jit(lambda x: x * 3 - 1)(one))  # what is done once in a process
    found, kept = {}, {}
    for name, program in chosen(jax, options.only):
        try:
            found[name], results = timings(jax, program)
        except (AttributeError, TypeError):
            if not isinstance(jax, NumPy):
                raise
            continue
        kept.update({f"{name}/{i}": x for i, x in enumerate(flat(results))})
        found[name]["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if options.results:
        np.savez(options.results, **{k: x.astype(np.float64) if x.dtype.kind == "V" else x for k, x in kept.items()})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
