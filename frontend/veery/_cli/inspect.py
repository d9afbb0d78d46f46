"""`veery inspect`: any stage of a compilation, and what is in a file."""

from __future__ import annotations

import dataclasses
import difflib
import time
from pathlib import Path
from typing import Any

import click

from veery import _dispatch
from veery._api.source_lines import annotated
from veery._cli import functions, output
from veery._cli.application import fail

MLIR_STAGES = ("input", "abi", "flow", "stream", "executable-sources", "hal", "vm")
CODE_STAGES = ("llvm", "asm", "spirv", "ptx")
STAGES = ("jaxpr", "stablehlo", *MLIR_STAGES, *CODE_STAGES)
SHOWN = (*STAGES, "kernels")


@click.command("inspect")
@click.argument("what")
@functions.function_options
@click.option("--stage", type=click.Choice(SHOWN), default=None, help="What to show. [default: jaxpr]")
@click.option("--target", default=None, help='Compile for "cpu:x86-64-v3", "vulkan", "cuda:sm_89", ...')
@click.option("--annotate", is_flag=True, help="Put the source line beside each operation.")
@click.option("--stats", is_flag=True, help="Count operations, FLOPs, bytes and dispatches instead.")
@click.option("--passes", is_flag=True, help="List the passes, and what each did to the program, instead.")
@click.option("--timing", is_flag=True, help="Compile it, and show how long each step took, instead.")
@click.option("--diff", nargs=2, metavar="A B", help="Compare two stages, or WHAT with two functions' stage.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with all stages side by side.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "out", type=click.Path(dir_okay=False), help="Write to a file.")
def inspect_command(
    what: str, args_text: str, argnums: str, in_axes: str, x64: bool, stage: str | None, target: str | None,
    annotate: bool, stats: bool, passes: bool, timing: bool, diff: tuple[str, str] | None, html: str | None,
    as_json: bool, out: str | None,
) -> None:  # fmt: skip
    """Show a stage of WHAT: a function (file.py:name), an artifact (.vmfb) or a StableHLO module (.mlir, .mlirbc).

    \b
    Examples:
      veery inspect model.py:predict --args "f32[8,784], {w: f32[784,10], b: f32[10]}"
      veery inspect model.py:loss --args "f32[8]" --grad --stage stablehlo --annotate
      veery inspect model.py:loss --args "f32[8]" --stage asm --target cpu:x86-64-v3 -o loss.s
      veery inspect model.py:loss --args "f32[8]" --stage kernels  # what is computed together, and why
      veery inspect model.py:loss --args "f32[8]" --stats
      veery inspect model.py:loss --args "f32[8]" --passes
      veery inspect model.py:loss --args "f32[8]" --timing
      veery inspect model.py:loss --args "f32[8]" --diff jaxpr stablehlo
      veery inspect model.py:loss --args "f32[8]" --diff model.py:loss model.py:loss_fast --stage stablehlo
      veery inspect model.py:loss --args "f32[8]" --html page.html
      veery inspect model.vmfb
      veery inspect exported.mlir --stage flow

    Stages: jaxpr (what was traced), stablehlo, IREE's input, flow (dispatches), stream, hal and vm, and the code of the
    dispatches: llvm, asm (CPU), spirv (Vulkan), ptx (CUDA). kernels is a table: the dispatches in turn, what each reads
    and writes, which are veery's own kernels, and why others are not.
    """
    if Path(what).suffix == ".vmfb":
        from veery._cli.artifacts import show

        return show(what, as_json, stage)
    options = (args_text, argnums, in_axes, x64)
    if diff:
        return _diff(what, options, diff, stage, target, out)
    for path in filter(None, (html, out)):
        output.check_folder(path)
    subject = Subject(what, options, target)
    if html:
        return _page(subject, html)
    if stats:
        return _stats(subject, as_json)
    if passes:
        return _passes(subject, as_json)
    if timing:
        return _timing(subject, as_json)
    if stage == "kernels":
        return _kernels(subject, as_json)
    _show(subject, stage or subject.default_stage, annotate, as_json, out)


def _page(subject: Subject, path: str) -> None:
    from veery._api.page import page

    Path(path).write_text(page(subject.traced, subject.target))
    click.echo(f"wrote {path}")


def _show(subject: Subject, stage: str, annotate: bool, as_json: bool, out: str | None) -> None:
    text = subject.text(stage, locations=annotate)
    if annotate:
        text = annotated(text, "%" if stage == "jaxpr" else "//")
    if as_json:
        return output.emit_json({"what": subject.what, "stage": stage, "target": subject.target, "text": text})
    output.emit(text, stage, out)


class Subject:
    """A function with arguments, or a StableHLO module in a file."""

    def __init__(self, what: str, options: tuple[str, str, str, bool], target: str | None) -> None:
        self.what = what
        self.target = target
        self.default_stage = "jaxpr"
        self.traced: Any = None
        self.seconds = 0.0  # of tracing
        if Path(what).suffix in (".mlir", ".mlirbc"):
            from veery import config, stablehlo

            if not Path(what).is_file():
                fail(f"there is no file {what}")
            self.default_stage = "stablehlo"
            try:
                module = stablehlo.load(Path(what))
            except ValueError as error:
                fail(f"{what}: {error}", error)
            config.update("jax_enable_x64", True)  # keys are 64 bits wide, whatever the program that it was made of had
            self.traced = functions.trace(module, functions.Arguments(module.args, {}, ()))
            return
        fun, arguments = functions.prepare(what, *options)
        start = time.perf_counter()
        self.traced = functions.trace(fun, arguments)
        self.seconds = time.perf_counter() - start

    def lowered(self) -> Any:
        return self.traced.lower(lowering_platforms=[self.target] if self.target else None)

    def text(self, stage: str, *, locations: bool = False) -> str:
        if stage == "jaxpr":
            return self.traced.jaxpr.pretty_print(source_info=locations)
        if stage == "stablehlo":
            return self.lowered().as_text(debug_info=locations)
        if stage in CODE_STAGES and self.target is None:
            self.target = {"spirv": "vulkan", "ptx": "cuda:sm_80"}.get(stage)
        try:
            return self.lowered().as_text(stage, debug_info=locations)
        except ValueError as error:
            if stage not in CODE_STAGES:
                raise
            return fail(str(error), error)  # the target has no such code


def _diff(
    what: str, options: Any, pair: tuple[str, str], stage: str | None, target: str | None, out: str | None
) -> None:
    if all(item in STAGES for item in pair):
        subject = Subject(what, options, target)
        texts = [subject.text(item) for item in pair]
    elif any(item in STAGES for item in pair):
        fail(f"--diff compares two stages ({', '.join(STAGES)}) or two functions, got {pair[0]} and {pair[1]}")
    else:
        texts = []
        for item in pair:
            subject = Subject(item, options, target)
            texts.append(subject.text(stage or subject.default_stage))
    first, second = (text.splitlines() for text in texts)
    lines = difflib.unified_diff(first, second, *pair, lineterm="")
    output.emit("\n".join(lines), "diff", out)


def _stats(subject: Subject, as_json: bool) -> None:
    from veery._cli.statistics import statistics

    found = statistics(subject.traced, subject.lowered())
    if as_json:
        return output.emit_json(found)
    operations = found.pop("operations")
    output.table("", ["quantity", "value"], [[key.replace("_", " "), output.number(n)] for key, n in found.items()])
    click.echo("")
    quantities = ["count", "flops", "transcendentals", "bytes"]
    rows = [[name, *(costs[key] for key in quantities)] for name, costs in operations.items()]
    output.table("", ["operation", *quantities], rows)


def _passes(subject: Subject, as_json: bool) -> None:
    effects = _dispatch.pass_report(lambda: subject.lowered()._lowered)
    if as_json:
        return output.emit_json([dataclasses.asdict(effect) for effect in effects])
    rows = [[e.stage, e.name, _did(e), e.file, e.purpose] for e in effects]
    output.table("", ["what it changes", "pass", "did", "file", "without it"], rows)


def _kernels(subject: Subject, as_json: bool) -> None:
    from veery._cli.kernels import pieces

    try:
        found, left = pieces(*subject.lowered()._lowered.kernels())
    except ValueError as error:
        fail(str(error), error)
    if as_json:
        return output.emit_json({"pieces": found, "left": left})
    columns = ["piece", "by", "loops", "reads", "writes", "workgroups", "of"]
    rows = [[p[c] if c not in ("reads", "writes") else _bytes(p[c]) for c in columns] for p in found]
    output.table("", columns, rows)
    if left:
        click.echo("")
        columns = ["left to IREE", "of", "because"]
        output.table("", columns, [[d["kind"], d["of"], d["because"]] for d in left])


def _bytes(count: int | None) -> str:
    return "?" if count is None else output.size(count)


def _timing(subject: Subject, as_json: bool) -> None:
    start = time.perf_counter()
    lowered = subject.lowered()._lowered
    lowering = time.perf_counter() - start
    program, steps = lowered.timed()
    steps = [("tracing", subject.seconds), ("lowering", lowering), *steps]
    if as_json:
        found = [{"step": step, "seconds": seconds} for step, seconds in steps]
        return output.emit_json({"what": subject.what, "pipeline": program.metadata["pipeline"], "steps": found})
    whole = sum(seconds for _, seconds in steps)
    rows = [[step, f"{1e3 * seconds:.1f}", f"{100 * seconds / whole:.0f} %"] for step, seconds in steps]
    rows.append([f"all, by the {program.metadata['pipeline']} pipeline", f"{1e3 * whole:.1f}", ""])
    output.table("", ["step", "ms", "share"], rows)


def _did(effect: Any) -> str:
    """What a pass did, in a few words: the kinds of operations that are more or less than before."""
    if not effect.ran:
        return "not for this program"
    if not effect.changed:
        return "nothing"
    name = lambda operation: operation.rpartition(".")[2]
    more = [f"+{n} {name(kind)}" for kind, n in effect.added.items()]
    less = [f"-{n} {name(kind)}" for kind, n in effect.removed.items()]
    return ", ".join((more + less)[:4]) or "moved"
