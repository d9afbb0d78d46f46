"""StableHLO module to program, by IREE's compiler, through the cache on disk."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from veery_lowering.compiler import isolation, progress, steps
from veery_lowering.compiler.once import once
from veery_lowering.compiler.sessions import (
    DISPATCHES,
    OVERWRITTEN,
    UNFIT,
    Check,
    Diagnostic,
    has_lost_threads,
    run_pipeline,
)
from veery_lowering.emit.module import Emission
from veery_lowering.errors import CRASHED, STOPPED, CompileError, CompilerCrash, CompilerTimeout, Rejected
from veery_lowering.mlir import COMPILER_VERSION, operations
from veery_lowering.passes import pipeline as passes
from veery_lowering.passes.pipeline import Fusion, Situation, Stage
from veery_lowering.passes.simplification import SETTLED, inlined
from veery_lowering.passes.spirv.nan import keep_nan
from veery_lowering.passes.spirv.races import has_race
from veery_lowering.passes.stream.overwriting import refuse_unsafe
from veery_lowering.program import Options
from veery_lowering.store.cache import disk_cache
from veery_lowering.targets import GOAL_FLAGS, Flags, Target
from veery_lowering.targets.fusion import NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION
from veery_lowering.targets.target import SYNCHRONOUS
from veery_lowering.targets.traits import traits

_logger = logging.getLogger(__name__)

RACE = "IREE has made a shader that reads memory which another invocation writes, without a barrier between"
T = TypeVar("T")
Run = Callable[..., tuple[bytes | None, list[Diagnostic]]]

_KEY_FORMAT = "136"
_MANY_ELEMENTS = 1 << 13
_BRANCHING = frozenset(("stablehlo.case", "stablehlo.if", "stablehlo.while"))
_ROUNDS = 3  # of asking IREE to overwrite fewer donated arguments, because it did it wrongly


def compile_emission(
    emission: Emission, name: str, target: Target, options: Options, source: str = ""
) -> tuple[bytes, dict[str, str], str]:
    """Compile a module, or find it on disk: the program's bytes, metadata, and key on disk.

    `source` is the place of the function in the user's code. The metadata "control_flow" say where branches and loops
    are: "device", in kernels of ours, or "host"; "overwritten" which arguments are; "recorded" whether commands are
    recorded "once" or "anew" in each call; "pipeline" which of IREE's pipelines compiled it; "dispatches" how many the
    short one did; "fallback", if there, why the program was not compiled as is best.

    Raises CompileError if every option list of the target fails.
    """
    attempts = attempts_of(emission, target, options)
    if not attempts:
        raise CompileError(f"compile: {name} calls LAPACK by addresses, which none of the ways to compile it allows")
    cache = disk_cache() if options.cache else None
    key = _key(emission, target, options, attempts)
    found = cache.get(key) if cache else None
    if found is None:

        def made() -> tuple[bytes, dict[str, str]]:
            start = time.perf_counter()
            run = compiler_of(options, target)
            if cache is not None and cache.keeps_parts():
                run = functools.partial(run, parts=str(cache.directory))
            with progress.shown(name, target.name):
                program, told, diagnostics = _compile(emission, target, options, attempts, run)
            if program is None:
                raise CompileError(_explain(emission, name, source, target, diagnostics))
            entry = program, _metadata(target) | told
            if cache:
                cache.put(key, entry, time.perf_counter() - start)
            return entry

        found = once(key, made)
    return *found, key


def compiler_of(options: Options, target: Target) -> Run:
    isolated = options.isolation != "never" or has_lost_threads()
    deadline = isolation.Deadline(options.time_limit)
    run = functools.partial(isolation.run_pipeline, deadline=deadline) if isolated else run_pipeline
    run = functools.partial(run, prelude=SETTLED)
    if target.keeps_nan:
        run = functools.partial(run, shaders=functools.partial(keep_nan, floats=target.keeps_nan))
    return functools.partial(_run_without_races, run) if target.backend == "vulkan" else run


def _run_without_races(run: Run, *arguments: Any, **options: Any) -> tuple[bytes | None, list[Diagnostic]]:
    result, diagnostics = run(*arguments, **options)
    if result is not None and has_race(result):
        return None, [Diagnostic("error", RACE), *diagnostics]
    return result, diagnostics


class Attempt(NamedTuple):
    """A way to compile: options, and whether the short pipeline (short.py) compiles with them."""

    flags: Flags
    shortly: bool = False


def attempts_of(emission: Emission, target: Target, options: Options) -> list[Attempt]:
    """The ways to compile, the preferred one first."""
    attempts = [_with_options(flags, options, emission) for flags in target.attempts(traits(emission.module))]
    # Multi-use fusion of IREE 3.13 makes invalid IR of some large graphs: "operand #1 does not dominate this use".
    # Aggressive fusion makes dispatches of others that are not tiled as a whole: "write affecting operations on global
    # resources are restricted to workgroup distributed contexts".
    without = [flag for flag in (NO_AGGRESSIVE_FUSION, NO_MULTI_USE_FUSION) if flag not in attempts[-1]]
    if without:
        attempts.append((*attempts[-1], *without))
    # Where it crashes, it may not take this process along.
    contained = options.isolation != "never" and not has_unknown_sizes(emission)
    ways = [Attempt(flags, shortly=contained and target.compiles_shortly(flags)) for flags in attempts]
    if emission.calls_routines:  # IREE's own list of passes refuses calls by addresses
        return [way for way in ways if way.shortly]
    return [each for way in ways for each in ([way] * way.shortly + [way._replace(shortly=False)])]


def _with_options(flags: Flags, options: Options, emission: Emission) -> Flags:
    model = (SYNCHRONOUS,) if emission.is_synchronous else ()
    return (*flags, *GOAL_FLAGS[options.optimize_for], *model, *options.flags)


class Prepared(NamedTuple):
    """A module as the compiler gets it.

    Attributes:
        code: the module.
        overwritten: the arguments that its results overwrite.
        kernels: whether loops are kernels of ours.
        branches: whether it has blocks that are passed values.
    """

    code: bytes
    overwritten: list[int]
    kernels: bool
    branches: bool


def _prepared(emission: Emission, target: Target, fusion: Fusion, kept: Collection[int] | None = None) -> Prepared:
    """The module for a target, in which results overwrite donated arguments unless `kept` is None."""
    steps.begin("passes")
    situation = Situation(target.backend, emission.donated, fusion=fusion, kept=kept, register=target.register)
    found: dict[str, Any] = {}
    branches = False

    def change(module: Any) -> None:
        nonlocal branches
        found.update(passes.run(Stage.SIMPLIFIED, module, situation))
        branches = any(op.name in _BRANCHING for op in operations(module))

    code = inlined(emission.module, change, lambda module: passes.run(Stage.INLINED, module, situation))
    return Prepared(
        code,
        found.get("reuse_donated", []),
        any(found.get(p.__name__) for p in passes.MAKE_KERNELS),
        branches,
    )


def try_each(
    emission: Emission, target: Target, fusion: Fusion, plain: Prepared, attempt: Callable[[Prepared, Check | None], T]
) -> T | None:
    """What the first successful attempt returns: with results in the memory of donated arguments, or the plain module.

    Args:
        emission, target, fusion: what the module is made for.
        plain: the module in which nothing is overwritten.
        attempt: compiles a module with a check; returns None where it fails.
    """
    kept: set[int] = set()
    for _ in range(_ROUNDS if any(emission.donated) else 0):
        prepared = _prepared(emission, target, fusion, kept)
        if not prepared.overwritten:
            break
        try:
            result = attempt(prepared, ("stream", functools.partial(refuse_unsafe, prepared.overwritten)))
        except Rejected as rejected:
            if not rejected.arguments:
                raise
            kept |= rejected.arguments
        else:
            if result is not None:
                return result
            break
    return attempt(plain, None)


def modules(emission: Emission, target: Target, options: Options) -> Iterator[tuple[Fusion, Prepared]]:
    """The module in the ways in which it is given to the compiler, one after the other, until one compiles."""
    whole = Fusion.FULL if options.kernels else Fusion.NO_KERNELS
    try:
        full = prepared = _prepared(emission, target, whole)
    except Exception as error:
        if whole is Fusion.NO_KERNELS:
            raise
        whole = Fusion.NO_KERNELS
        full = prepared = _prepared(emission, target, whole)  # raises what is no kernel's fault
        # The program is right without kernels, only slower.
        _logger.warning("the kernels of a program could not be written; IREE makes dispatches", exc_info=error)
    yield whole, full
    for fusion in [Fusion.NO_KERNELS] * full.kernels + [Fusion.REDUCED_APART, Fusion.NONE]:
        before, prepared = prepared, _prepared(emission, target, fusion)
        if prepared.code != before.code:
            yield fusion, prepared


def _compile(
    emission: Emission, target: Target, options: Options, attempts: Sequence[Attempt], run: Run
) -> tuple[bytes | None, dict[str, str], list[Diagnostic]]:
    """What the first way that works makes of a module, and metadata.

    If there is none: what the compiler said, the last word first.
    """
    said: list[Diagnostic] = []
    pipeline = "standard"
    for fusion, plain in modules(emission, target, options):
        hopeless: Flags | None = None
        for flags, shortly in attempts:
            if flags == hopeless:
                continue

            def attempt(module: Prepared, check: Check | None) -> tuple[Prepared, bytes, list[Diagnostic]] | None:
                changes = passes.changes_of_code(code_situation(emission, target, module))
                arguments = module.code, flags  # noqa: B023
                program, failed[:] = run(*arguments, changes=changes, check=check, shortly=shortly)  # noqa: B023
                return None if program is None else (module, program, failed)  # noqa: B023

            failed: list[Diagnostic] = []
            try:
                # The short pipeline puts results into the places of arguments when all else is decided.
                result = attempt(plain, None) if shortly else try_each(emission, target, fusion, plain, attempt)
            except CompilerTimeout as stop:
                return None, {}, [Diagnostic("error", str(stop)), *said]
            except (CompilerCrash, Rejected) as error:
                severity = UNFIT if shortly and isinstance(error, CompilerCrash) else "error"
                result, failed = None, [Diagnostic(severity, str(error))]
            if result is not None:
                module, program, diagnostics = result
                told = {
                    "overwritten": " ".join(map(str, module.overwritten)),
                    "control_flow": "host" if module.branches else "device",
                }
                told["pipeline"] = "short" if shortly else pipeline
                told["recorded"] = "anew" if module.overwritten else "once"
                told |= {d.severity: d.message for d in diagnostics if d.severity in (DISPATCHES, OVERWRITTEN)}
                fallback = {"fallback": _fallback(attempts[0].flags, flags, fusion, said)} if said else {}
                return program, told | fallback, diagnostics
            unfit = next((d.message for d in failed if d.severity == UNFIT), None)
            if unfit is not None:  # the standard pipeline makes the same program, only more slowly
                pipeline = f"standard, since the short one fails: {unfit}"
                continue
            hopeless = flags  # in any pipeline
            said = failed + said
    return None, {}, said


def code_situation(emission: Emission, target: Target, module: Prepared) -> Situation:
    """What decides which passes change IREE's code."""
    return Situation(target.backend, large=_is_large(emission), branches=module.branches)


def _is_large(emission: Emission) -> bool:
    """Whether calls may run on worker threads: what the inline queue allocates comes from the allocator anyway."""
    shapes = [shape for shape, _ in (*emission.inputs, *emission.outputs)]
    return has_unknown_sizes(emission) or sum(map(math.prod, shapes)) >= _MANY_ELEMENTS


def has_unknown_sizes(emission: Emission) -> bool:
    """Whether shapes have dimension variables."""
    shapes = [shape for shape, _ in (*emission.inputs, *emission.outputs)]
    return any(isinstance(n, str) for shape in shapes for n in shape)


def _fallback(preferred: Flags, used: Flags, fusion: Fusion, said: Sequence[Diagnostic]) -> str:
    changes = [] if fusion is Fusion.FULL else [fusion.value]
    changes += [f"without {flag}" for flag in preferred if flag not in used]
    changes += [f"with {flag}" for flag in used if flag not in preferred]
    reason = " ".join(_errors(said)[0].split())[:200]
    return f"compiled {', '.join(changes)}, since IREE failed: {reason}"


def _key(emission: Emission, target: Target, options: Options, attempts: Sequence[Attempt]) -> str:
    """Hash of the IR without locations, and of all that the code depends on beside it."""
    text = emission.module.operation.get_asm(enable_debug_info=False, assume_verified=True)
    digest = hashlib.sha256()
    flags = [*dict.fromkeys(way.flags for way in attempts)]
    asked = repr((flags, options.kernels, emission.donated if any(emission.donated) else ()))
    for part in (_KEY_FORMAT, COMPILER_VERSION, target.name, target.machine, asked, text):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _metadata(target: Target) -> dict[str, str]:
    return {"iree": COMPILER_VERSION, "target": target.name, "cpu_features": target.machine}


def _errors(diagnostics: Sequence[Diagnostic]) -> list[str]:
    return [d.message for d in diagnostics if d.severity == "error"] or ["no diagnostics were given"]


_PLACE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):\d+: (?P<text>.*)", re.DOTALL)


def _explain(emission: Emission, name: str, source: str, target: Target, diagnostics: Sequence[Diagnostic]) -> str:
    """The first error that has a place, with the primitives and the line of the user's code that it stems from."""
    errors = _errors(diagnostics)
    message = next(filter(_PLACE.match, errors), errors[0])
    match = _PLACE.match(message)
    where, text = f" at {source}" if source else "", message
    if match:
        text = match["text"]
        place = (match["file"], int(match["line"]))
        primitives = ", ".join(emission.primitives.get(place, ()))
        if primitives:
            where = f" at {place[0]}:{place[1]} (primitive {primitives})"
    crash = next((error for error in errors if error.startswith((CRASHED, STOPPED)) and error != message), None)
    first_lines = "\n".join([*text.splitlines()[:4], *([crash] if crash else [])])[:600]
    if has_unknown_sizes(emission):
        first_lines += "\nIts shapes are symbolic; compiled for one shape it may do."
    return f"compile: IREE cannot compile {name!r} for target {target.name!r}{where}:\n{first_lines}"
