"""`veery verify`: what a function returns, compiled, beside its evaluation in float64."""

from __future__ import annotations

from typing import Any

import click

from veery import _dispatch
from veery._cli import functions, output
from veery._cli.application import FAILED
from veery._cli.arguments import concrete


@click.command("verify")
@click.argument("what")
@functions.function_options
@click.option("--device", default="cpu", show_default=True, help="Where to run: cpu, vulkan, cuda, xla.")
@click.option("--beside", default="", help="Compare with what it returns there too: xla, or xla,vulkan.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the random arguments.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_command(
    what: str,
    args_text: str,
    argnums: str,
    in_axes: str,
    x64: bool,
    device: str,
    beside: str,
    seed: int,
    as_json: bool,
) -> int:
    """Compare what WHAT (file.py:name) returns, compiled, with its evaluation in float64 by NumPy and SciPy.

    \b
    Examples:
      veery verify model.py:step --args "{w: f32[784,10], b: f32[10]}, f32[8,784]"
      veery verify model.py:loss --args "f32[8]" --grad --device vulkan
      veery verify model.py:loss --args "f32[8]" --beside xla
      veery verify model.py:loss --args "f32[8]" --seed 7 --json

    Arguments are random. By how much results may differ follows the conditioning of the function. If they differ by
    more, the exit code is 1, the first equation that does is named with its line, and a Python file that reproduces it
    is written into the working directory, or into the folder VEERY_VERIFY_DIR. With --beside xla a second compiler is
    asked, and the message says who is alone.
    """
    from veery import debug, default_device
    from veery._reference.verification import recording

    fun, arguments = functions.prepare(what, args_text, argnums, in_axes, x64)
    jitted = functions.jitted(fun, arguments)
    difference = None
    with default_device(_dispatch.first_device(device)), recording() as found:
        try:
            verified = debug.verify(jitted, beside=beside or None)
            verified(*concrete(arguments.args, seed), **concrete(arguments.kwargs, seed))
        except debug.VerificationError as error:
            difference = error
    if difference is not None:
        if as_json:
            output.emit_json({"what": what, "ok": False, "message": str(difference), "file": difference.path})
        else:
            click.echo(str(difference))
        return FAILED
    rows = [_row(record) for record in found]
    if as_json:
        output.emit_json({"what": what, "ok": True, "programs": rows})
    else:
        columns = ["program", "on", "elements", "undetermined", "error", "bound"]
        text = [[r["program"], r["platform"], r["elements"], f"{r['undetermined']:.1%}", *_sizes(r)] for r in rows]
        output.table(f"{what}: no difference", columns, text)
    return 0


def _row(record: Any) -> dict[str, Any]:
    found = record.comparison
    return {
        "program": record.name,
        "platform": record.platform,
        "elements": sum(x.size for x in found.expected),
        "undetermined": found.undetermined,
        "error": found.largest_error,
        "bound": found.largest_bound,
    }


def _sizes(row: dict[str, Any]) -> list[str]:
    return [f"{row[key]:.2g}" for key in ("error", "bound")]
