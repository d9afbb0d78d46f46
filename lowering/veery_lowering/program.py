"""What the lowering hands to the runtime: plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Signature = tuple[tuple[tuple[Any, ...], str], ...]  # ((shape, dtype name), ...); a symbolic size is a text


class Symbols(NamedTuple):
    """The dimension variables of a program.

    sources: (name, argument, axis, factor, offset) of each, in an order in which offsets know the variables before: its
        value is (size of the argument's axis - offset) / factor.
    constraints: texts such as "b >= 2".
    """

    sources: tuple[tuple[str, int, int, int, Any], ...] = ()
    constraints: tuple[str, ...] = ()


STATIC = Symbols()


@dataclass(frozen=True)
class Options:
    """Choices of the caller.

    flags: further flags of IREE's compiler, which win over those that a target chooses.
    optimize_for: what the flags that a target chooses are best for: "speed" or "size".
    kernels: whether small operations, loops and moves become kernels of our own, where that is faster.
    queue: where the program runs: "inline", "threaded", or "auto", by its work.
    cache: look the program up on disk, and keep it there.
    protect_arguments: keep arguments that are not donated unchanged; False is for tests that show why.
    self_contained: call no Python functions, so that the program can be saved and run elsewhere.
    isolation: whether the compiler runs in a process of its own: "always", or "never", which is for debugging it.
        Programs on disk are the same for both.
    time_limit: the seconds that a compilation in a process of its own may take; None for as long as it takes.
    """

    flags: tuple[str, ...] = ()
    optimize_for: str = "speed"
    kernels: bool = True
    queue: str = "auto"
    cache: bool = True
    protect_arguments: bool = True
    self_contained: bool = False
    # The name of a link on disk has the others, as text.
    isolation: str = field(default="always", repr=False)
    time_limit: float | None = field(default=None, repr=False)


@dataclass(frozen=True)
class HostCall:
    """A Python function that a program calls, imported as `host.<symbol>`: arrays in, a sequence of arrays out.

    pure: false if it has effects, and for all functions of a program whose branches call some: it is synchronous.
    """

    symbol: str
    function: Callable[..., Any]
    inputs: Signature
    outputs: Signature
    pure: bool


@dataclass(frozen=True)
class Program:
    """A compiled function with all that is needed to load and call it.

    inputs, outputs: (shape, dtype name) of each argument and result; dtype names are NumPy's and ml_dtypes', keys are
        "uint64", int4 and int2 are one byte an element.
    donated: the arguments that the program may overwrite.
    calls_routines: whether it calls LAPACK's routines by their addresses in this process.
    symbols: the dimension variables in the shapes of inputs and outputs, offsets as texts.
    work: an estimate of floating-point operations plus bytes touched; a text where it depends on dimension variables.
    blocking: the program has control flow that reads values computed on the device, so that a call returns late.
    metadata: texts: what it was compiled by and for, "source" (where the function is defined), "queue" where that was
        chosen, "pipeline" (which of IREE's compiled it, see compiler/short.py), "dispatches" (how many it has, and how
        many of them were known), "control_flow" ("device" where kernels have all of it, so that a call need not wait,
        else "host"), "overwritten" (the numbers of arguments in whose places results are), "recorded" (whether
        commands are recorded "once", or "anew" in each call, which must wait for its arguments), "largest_step" (the
        most work of one step, beside those of the Python functions that are called), "fallback" (which flags the
        compiler failed with, and how, so that it was compiled without them).
    key: of the program's entry in the cache on disk.
    """

    name: str
    vmfb: bytes = field(repr=False)
    target: str
    backend: str
    inputs: Signature
    outputs: Signature
    donated: tuple[bool, ...]
    host_calls: tuple[HostCall, ...] = ()
    calls_routines: bool = False
    symbols: Symbols = STATIC
    work: int | str = 0
    blocking: bool = False
    entry: str = "main"
    metadata: dict[str, str] = field(default_factory=dict)
    key: str = ""

    @property
    def is_of_this_process(self) -> bool:
        """Whether it calls functions that no file can contain."""
        return bool(self.host_calls) or self.calls_routines


def call_metadata(options: Options, source: str) -> dict[str, str]:
    """The metadata that do not come from the compiler."""
    return {"source": source} | ({} if options.queue == "auto" else {"queue": options.queue})


def place_of(jaxpr: Any) -> str:
    """The user's file and line where the function of a jaxpr is defined; empty where that is unknown."""
    info = getattr(jaxpr, "debug_info", None)
    file = getattr(info, "file", None)
    return "" if file is None else f"{file}:{getattr(info, 'line', None) or 0}"
