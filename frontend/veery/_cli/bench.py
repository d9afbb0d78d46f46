"""`veery bench`: medians and percentiles of calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from veery import _dispatch
from veery._cli import functions, output
from veery._cli.application import fail
from veery._cli.arguments import concrete
from veery._cli.first_call import measured

_ROUNDS = 2  # in which each first call is made


@click.command("bench")
@click.argument("what")
@functions.function_options
@click.option("--target", "targets", multiple=True, help="Where to run: cpu, vulkan, cpu:generic; repeat.")
@click.option("--numpy", "reference", default=None, help="A NumPy function (file.py:name) to compare with.")
@click.option("--function", "name", default=None, help="Which function of an artifact.")
@click.option("--repeats", default=50, show_default=True, type=click.IntRange(1), help="Measured calls.")
@click.option("--warmup", default=3, show_default=True, type=click.IntRange(0), help="Calls before measuring.")
@click.option("--first-call", is_flag=True, help="Time first calls instead, each in a process of its own.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_command(
    what: str, args_text: str, argnums: str, in_axes: str, x64: bool, targets: tuple[str, ...], reference: str | None,
    name: str | None, repeats: int, warmup: int, first_call: bool, as_json: bool,
) -> None:  # fmt: skip
    """Time calls of WHAT (file.py:name or a .vmfb) on random arrays, from call to finished result.

    \b
    Examples:
      veery bench model.py:predict --args "f32[8,784]"
      veery bench model.py:predict --args "f32[8,784]" --target cpu --target cpu:generic --target vulkan
      veery bench model.py:predict --args "f32[8,784]" --option queue=threaded --option iree-opt-level=O2
      veery bench model.py:predict --args "f32[8,784]" --numpy reference.py:predict
      veery bench model.py:predict --args "f32[8,784]" --first-call
      veery bench model.vmfb --repeats 1000 --json
    """
    if first_call:
        if targets or reference or name or Path(what).suffix == ".vmfb":
            fail("--first-call times a function as jit runs it: without --target, --numpy, --function or a .vmfb")
        return _first_calls(what, functions.request(what, args_text, argnums, in_axes, x64), as_json)
    candidates = _candidates(what, (args_text, argnums, in_axes, x64), targets, name)
    if reference is not None:
        from veery._cli.arguments import parse

        fun, arguments = functions.load(reference), concrete(parse(args_text))
        candidates.append((f"numpy {reference}", 0.0, lambda: fun(*arguments.args, **arguments.kwargs)))
    rows = [_measure(label, compiled, call, repeats, warmup) for label, compiled, call in candidates]
    for row in rows:
        row["relative"] = row["median"] / rows[0]["median"]
    if as_json:
        return output.emit_json({"what": what, "repeats": repeats, "unit": "s", "results": rows})
    columns = ["where", "compile", "median", "p10", "p90", "p99", "relative"]
    text = [[r["where"], *[output.duration(r[c]) for c in columns[1:-1]], f"{r['relative']:.2f}"] for r in rows]
    for line, row in zip(text, rows):
        line[1] = line[1] if row["compile"] else "-"  # of what was not compiled here
    output.table(f"{what}, {repeats} calls", columns, text)


def _first_calls(what: str, request: dict[str, Any], as_json: bool) -> None:
    rows = measured(request, _ROUNDS)
    if as_json:
        return output.emit_json({"what": what, "rounds": _ROUNDS, "unit": "s", "results": rows})
    text = [[row["state"], output.duration(row["first"]), output.duration(row["later"])] for row in rows]
    output.table(f"{what}, the least of {_ROUNDS} processes", ["what is known", "first call", "later calls"], text)


Candidate = tuple[str, float, Callable[[], Any]]


def _candidates(what: str, options: Any, targets: tuple[str, ...], name: str | None) -> list[Candidate]:
    runtime = _dispatch.runtime()
    if Path(what).suffix == ".vmfb":
        from veery._cli.artifacts import choose_function

        if not Path(what).is_file():
            fail(f"there is no file {what}")
        return [_artifact_call(choose_function(runtime.load(what, t), name), 0.0) for t in targets or (None,)]
    fun, arguments = functions.prepare(what, *options)
    traced = functions.trace(fun, arguments)
    from veery._api import entries

    found = []
    for target in targets or (_dispatch.target_of(_dispatch.default_device()),):
        start = time.perf_counter()
        program = entries.compile_for(traced, _of_the_device(target))
        seconds = time.perf_counter() - start
        module = runtime.load(_dispatch.artifact_bytes([entries.entry(traced, [program], name="main")]))
        found.append(_artifact_call(module.main, seconds))
    return found


def _of_the_device(target: str) -> str:
    """A platform as the target of its device here, as jit has it; other targets, and absent devices, as given."""
    runtime = _dispatch.runtime()
    try:
        return _dispatch.target_of(runtime.devices(target)[0])
    except (RuntimeError, ValueError):
        return target


def _artifact_call(function: Any, seconds: float) -> Candidate:
    """A call on arrays that are on the device already, until its results are there."""
    runtime = _dispatch.runtime()
    leaves = [_random(shape, runtime.iree.dtype_from_name(dtype)) for shape, dtype in function.inputs]
    executable = function._loaded()
    buffers = [runtime.put(leaf, executable.device) for leaf in leaves]
    donated = any(executable._program.donated)

    def call() -> None:
        given = [runtime.put(leaf, executable.device) for leaf in leaves] if donated else buffers
        for buffer in executable(given):
            buffer.wait()

    name = function.target if len(function.target) < 40 else executable.device.platform
    return f"{name} on {executable.device}, {executable.queue}", seconds, call


def _random(shape: tuple[int, ...], dtype: Any) -> Any:
    from veery._api.shape_structs import ShapeDtypeStruct

    return concrete(ShapeDtypeStruct(shape, dtype))


def _measure(label: str, compiled: float, call: Callable[[], Any], repeats: int, warmup: int) -> dict[str, Any]:
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    p10, median, p90, p99 = np.percentile(times, [10, 50, 90, 99]).tolist()
    percentiles = {"median": median, "p10": p10, "p90": p90, "p99": p99}
    return {"where": label, "compile": compiled, **percentiles, "best": min(times)}
