"""`veery compile`: a function into a file."""

from __future__ import annotations

import click

from veery._cli import functions, output


@click.command("compile")
@click.argument("what")
@functions.function_options
@click.option("--target", "targets", multiple=True, help='Repeat for several: cpu, cpu:generic, vulkan, "cuda:sm_89".')
@click.option("-o", "--output", "out", required=True, type=click.Path(dir_okay=False), help="The file (.vmfb).")
@click.option("--name", default=None, help="Name of the function in the file.")
@click.option("--weights", type=click.Path(dir_okay=False), help="Put large constants into this .safetensors or .irpa.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def compile_command(
    what: str, args_text: str, argnums: str, in_axes: str, x64: bool, targets: tuple[str, ...], out: str,
    name: str | None, weights: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Compile WHAT (file.py:name) for one or several targets into one file.

    \b
    Examples:
      veery compile model.py:predict --args "f32[8,784]" -o model.vmfb
      veery compile model.py:predict --args "f32[8,784]" --target cpu:generic --target cpu:x86-64-v3 -o model.vmfb
      veery compile model.py:predict --args "f32[8,784]" --target cpu:aarch64-linux -o pi.vmfb
      veery compile model.py:predict --args "f32[b,784]" -o any_batch.vmfb
      veery compile model.py:loss --grad --args "f32[8]" -o grad.vmfb --weights grad.safetensors
    """
    from veery._api import artifacts
    from veery._cli.artifacts import describe

    output.check_folder(out)
    fun, arguments = functions.prepare(what, args_text, argnums, in_axes, x64)
    traced = functions.trace(fun, arguments)
    artifacts.save({name or what.rpartition(":")[2].rpartition(".")[2]: traced}, targets or ("cpu",), out, weights)
    found = describe(out)
    if as_json:
        return output.emit_json(found)
    (function,) = found["functions"]
    names = ", ".join(target["target"] for target in function["targets"])
    click.echo(f"{out}  {output.size(found['bytes'])}  {names}\n{function['name']}{function['signature']}")
