"""Lowering: a jaxpr to a StableHLO module that can be looked at and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from veery_lowering.compiler import steps
from veery_lowering.compiler.compile import code_situation, compile_emission
from veery_lowering.compiler.handover import hand_over
from veery_lowering.compiler.inspection import PHASES_OF_ALL, intermediate, temporary_bytes
from veery_lowering.emit.module import Emission, emit_module
from veery_lowering.emit.work import estimate_work, is_blocking, largest_step
from veery_lowering.errors import CompileError, LoweringError
from veery_lowering.kernels import Decision, decisions
from veery_lowering.mlir import bytecode, context, ir
from veery_lowering.passes.pipeline import Pass, Situation, watched_by
from veery_lowering.program import STATIC, Options, Program, Symbols, call_metadata, place_of
from veery_lowering.targets import Target, resolve
from veery_lowering.types import is_static


@dataclass(frozen=True)
class Lowered:
    """A StableHLO module, not compiled yet.

    Attributes:
        with_host_calls: of one that calls LAPACK by addresses, makes the module that does so through the host.
    """

    name: str
    target: Target
    donated: tuple[bool, ...]
    work: Any
    largest_step: Any
    blocking: bool
    symbols: Symbols
    options: Options
    source: str
    emission: Emission = field(repr=False)
    with_host_calls: Callable[[], Emission] | None = field(default=None, repr=False)

    @property
    def module(self) -> Any:
        """The MLIR module."""
        return self.emission.module

    def as_text(self, *, debug_info: bool = False) -> str:
        """The module as MLIR text, arguments under their own names; with the user's file and line if asked."""
        printed = self.module.operation.get_asm(enable_debug_info=debug_info, use_name_loc_as_prefix=not debug_info)
        return str(printed)

    def intermediate(self, phase: str, *, debug_info: bool = False) -> str:
        """IREE's own IR after a phase: "flow" shows the dispatches; "llvm", "asm", "spirv" or "ptx": their code.

        With `debug_info` the IR says where in the user's files its operations come from.

        Raises ValueError for a module that XLA compiles.
        """
        self._refuse_xla(phase)
        emission = self.emission if phase in PHASES_OF_ALL else self._of_irees_list()
        return intermediate(emission, self.target, self.options, phase, debug_info=debug_info)[0]

    def kernels(self) -> tuple[str, list[Decision]]:
        """IREE's IR when it has chosen its dispatches, with locations, and what was decided about our own kernels.

        Raises ValueError for a module that XLA compiles.
        """
        seen: dict[str, list[Decision]] = {}  # of each pass the last run, since a module may be compiled several times

        def watched(p: Pass, module: Any, change: Callable[[], Any]) -> Any:
            with decisions() as seen[p.name]:
                return change()

        with watched_by(watched):
            flow = self.intermediate("flow", debug_info=True)
        return flow, list(chain.from_iterable(seen.values()))

    def _of_irees_list(self) -> Emission:
        """The module, or one like it of which IREE's own list of passes, which is shown, makes code."""
        return self.emission if self.with_host_calls is None else self.with_host_calls()

    def _refuse_xla(self, phase: str) -> None:
        if self.target.backend == "xla":
            raise ValueError(
                f"{phase!r} is a phase of IREE's compiler, and {self.name} is for XLA: lower it for 'cpu' to see that"
            )

    def code_before_changes(self) -> tuple[str, Situation]:
        """IREE's code as the passes of the last stage find it, and what decides which of them are run."""
        self._refuse_xla("vm")
        emission = self._of_irees_list()
        text, module = intermediate(emission, self.target, self.options, "vm")
        return text, code_situation(emission, self.target, module)

    def with_options(self, flags: tuple[str, ...] = (), **choices: Any) -> Lowered:
        """The module to be compiled with further flags, or other choices of how to compile (see Options)."""
        return replace(self, options=replace(self.options, flags=(*self.options.flags, *flags), **choices))

    def temporary_bytes(self) -> int:
        """The bytes that IREE plans for values that are neither arguments nor results; 0 where it does not know."""
        if self.target.backend == "xla":
            return 0
        return temporary_bytes(self.emission, self.target, self.options)

    def as_bytecode(self) -> bytes:
        """The module as MLIR bytecode, locations included."""
        return bytecode(self.emission.module)

    def partitioned(self, arguments: Sequence[str], results: Sequence[str]) -> Lowered:
        """The module with the shardings of its arguments and results, in XLA's words, for its partitioner."""
        with context():
            functions = self.module.body.operations
            main = next(f for f in functions if ir.StringAttr(f.attributes["sym_name"]).value == "main")
            for name, texts in (("arg_attrs", arguments), ("res_attrs", results)):
                marked = [ir.DictAttr.get({"mhlo.sharding": ir.StringAttr.get(text)}) for text in texts]
                main.attributes[name] = ir.ArrayAttr.get(marked)
        return self

    def timed(self) -> tuple[Program, list[tuple[str, float]]]:
        """The program, compiled anew, and the steps of that with the seconds that they took."""
        return steps.timed(self.with_options(cache=False).compile)

    def _steps(self) -> dict[str, str]:
        is_known = self.largest_step is not None and is_static(self.largest_step)
        return {"largest_step": str(self.largest_step)} if is_known else {}

    def compile(self) -> Program:
        """Compile the module.

        Raises CompileError, naming the primitive and the user's line.
        """
        emission = self.emission
        if self.target.backend == "xla":
            vmfb, metadata, key = hand_over(self.emission, self.target, self.options)
        else:
            emission, (vmfb, metadata, key) = self._by_iree()
        return Program(
            name=self.name,
            vmfb=vmfb,
            target=self.target.name,
            backend=self.target.backend,
            inputs=self.emission.inputs,
            outputs=self.emission.outputs,
            donated=self.donated,
            host_calls=emission.host_calls,
            calls_routines=emission.calls_routines,
            symbols=Symbols(tuple((*s[:4], _text(s[4])) for s in self.symbols.sources), self.symbols.constraints),
            work=_text(self.work),
            blocking=self.blocking,
            metadata={**metadata, **call_metadata(self.options, self.source), **self._steps()},
            key=key,
        )

    def _by_iree(self) -> tuple[Emission, tuple[bytes, dict[str, str], str]]:
        """What IREE makes of the module; of one that calls the host for LAPACK where calls by addresses do not do."""
        how = self.name, self.target, self.options, self.source
        try:
            return self.emission, compile_emission(self.emission, *how)
        except CompileError:
            if self.with_host_calls is None:
                raise
        emission = self.with_host_calls()
        return emission, compile_emission(emission, *how)


def lower(
    closed_jaxpr: Any,
    *,
    name: str = "main",
    target: str = "cpu",
    donated: Sequence[bool] = (),
    options: Options | None = None,
    symbols: Any = STATIC,
) -> Lowered:
    """Lower a closed jaxpr to StableHLO.

    Args:
        closed_jaxpr: what to lower.
        name: of the function, for people.
        target: "cpu[:processor]", "vulkan[:chip]", "cuda[:chip]" or "xla[:kind]".
        donated: for each argument, whether the program may overwrite it; none by default.
        options: see Options.
        symbols: where the dimension variables of symbolic shapes are found; see Symbols.

    Raises:
        LoweringError: a primitive has no lowering for the target, or none for symbolic shapes.
    """
    options = options or Options()
    resolved = resolve(target)
    donations = tuple(donated) or (False,) * len(closed_jaxpr.in_avals)
    symbols = Symbols(*symbols)
    if resolved.backend == "xla" and symbols.sources:
        raise LoweringError(
            f"{name}: its shapes are symbolic, and XLA compiles for one shape at a time. Call it with arrays of known "
            "shapes, or compile it for IREE's CPU device"
        )
    choices = dict(
        hardware=resolved.hardware,
        protect=options.protect_arguments,
        self_contained=options.self_contained,
        kernels=options.kernels,
        symbols=symbols,
    )
    emit = functools.partial(emit_module, closed_jaxpr, name, resolved.backend, donations, **choices)
    emission = emit(routines=True)
    with_host_calls = functools.partial(emit, routines=False) if emission.calls_routines else None
    jaxpr = closed_jaxpr.jaxpr
    work, blocking = estimate_work(jaxpr), is_blocking(jaxpr)
    calls = emission.host_calls or emission.calls_routines
    largest = largest_step(jaxpr, emission.calling) if calls else None
    place = place_of(jaxpr)
    return Lowered(
        name, resolved, donations, work, largest, blocking, symbols, options, place, emission, with_host_calls
    )


def _text(value: Any) -> Any:
    """A dimension expression as text, an int as it is."""
    return value if is_static(value) else str(value)
