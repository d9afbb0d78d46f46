"""`veery profile`: where the time goes, by dispatch and by the user's line."""

from __future__ import annotations

import linecache
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from veery import _dispatch
from veery._api.source_lines import places
from veery._cli import functions, output
from veery._cli.application import fail
from veery._cli.arguments import concrete

_ROW = re.compile(r"host_execute (\S+)\s+count=(\d+) total=([\d.]+) (ns|us|ms|s)\b")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_CALL = re.compile(r"flow\.dispatch @[\w$]+::@([\w$]+)")


@click.command("profile")
@click.argument("what")
@functions.function_options
@click.option("--repeats", default=10, show_default=True, type=click.IntRange(1, 10_000), help="Profiled calls.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profile_command(
    what: str, args_text: str, argnums: str, in_axes: str, x64: bool, repeats: int, as_json: bool
) -> None:
    """Time each dispatch of WHAT (file.py:name) on the CPU, beside the source line that it stems from.

    \b
    Examples:
      veery profile model.py:predict --args "f32[8,784], {w: f32[784,10], b: f32[10]}"
      veery profile model.py:loss --grad --args "f32[1024]" --repeats 100 --json
    """
    from veery._api import entries

    fun, arguments = functions.prepare(what, args_text, argnums, in_axes, x64)
    traced = functions.trace(fun, arguments)
    lowered = traced.lower(lowering_platforms=["cpu"], self_contained=True)
    lines: dict[str, tuple[str, int] | None] = {}
    for line, place in places(lowered.as_text("flow", debug_info=True)):
        for name in _CALL.findall(line):
            lines.setdefault(name, place)
    times = _dispatch_times(entries.entry(traced, [lowered._lowered.compile()]), repeats)
    total = sum(seconds for _, seconds in times.values()) or 1.0
    rows: list[dict[str, Any]] = [
        {"dispatch": name, "calls": count // repeats, "seconds": seconds / repeats, "share": seconds / total,
         "source": _source(lines.get(name))}
        for name, (count, seconds) in sorted(times.items(), key=lambda item: -item[1][1])
    ]  # fmt: skip
    if as_json:
        return output.emit_json({"what": what, "repeats": repeats, "dispatches": rows})
    text = [[r["dispatch"], r["calls"], output.duration(r["seconds"]), f"{r['share']:.0%}", r["source"]] for r in rows]
    output.table(f"{what}, mean of {repeats} calls", ["dispatch", "calls", "time", "share", "source"], text)


def _source(place: tuple[str, int] | None) -> str:
    if place is None:
        return ""
    return f"{Path(place[0]).name}:{place[1]}  {linecache.getline(*place).strip()}"


def _dispatch_times(entry: Any, repeats: int) -> dict[str, tuple[int, float]]:
    """Number and total seconds of each dispatch's executions in `repeats` calls, by IREE's own tool."""
    tool = _dispatch.runtime().iree.tool("iree-benchmark-module")
    if tool is None:
        fail("the tools of iree-base-runtime are not installed, which profiling needs")
    program = entry.programs[0]
    with tempfile.TemporaryDirectory(prefix="veery-profile-") as folder:
        module = Path(folder) / "module.vmfb"
        module.write_bytes(program.vmfb)
        command = [tool, f"--module={module}", "--function=main", "--device=local-task"]
        command += [f"--benchmark_min_time={repeats}x", "--print_device_statistics=true", "--batch_concurrency=1"]
        arrays = [*entry.constants, *[_input(spec) for spec in entry.inputs]]
        for i, array in enumerate(arrays):
            np.save(f"{folder}/{i}.npy", array)
            command.append(f"--input=@{folder}/{i}.npy")
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"IREE's profiler failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:300]}")
    return {
        name: (int(count), float(total) * _UNITS[unit])
        for name, count, total, unit in _ROW.findall(done.stdout + done.stderr)
    }


def _input(spec: Any) -> Any:
    from veery._api.shape_structs import ShapeDtypeStruct

    shape, dtype = spec
    return concrete(ShapeDtypeStruct(shape, _dispatch.runtime().iree.dtype_from_name(dtype)))
