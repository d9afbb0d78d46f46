"""`veery run`: a function of a compiled file on arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from veery import _dispatch
from veery._cli import output
from veery._cli.application import NO_DEVICE, exit_code, fail
from veery._cli.artifacts import bind, choose_function


@click.command("run")
@click.argument("artifact")
@click.option("--input", "inputs", multiple=True, help="name=@x.npy, name=4x4xf32=1, 4x4xf32=1, p=@dict.npz; repeat.")
@click.option("--output", "out", type=click.Path(dir_okay=False), help="Write results to a .npz, or one to a .npy.")
@click.option("--function", "name", default=None, help="Which function, if there are several.")
@click.option("--device", default=None, help="A platform (cpu, vulkan, cuda) or one of the file's targets.")
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
def run_command(
    artifact: str, inputs: tuple[str, ...], out: str | None, name: str | None, device: str | None, as_json: bool
) -> None:
    """Run a function of ARTIFACT (a .vmfb) on arrays.

    \b
    Examples:
      veery run model.vmfb --input x=@x.npy --output out.npz
      veery run model.vmfb --input 4x4xf32=1 --input "params['b']=10xf32=0"
      veery run model.vmfb --function predict --input params=@params.npz --input x=@x.npy --json
      veery run model.vmfb --device vulkan --input x=8xf32=1
    """
    if not Path(artifact).is_file():
        fail(f"there is no file {artifact}")
    function = choose_function(_dispatch.runtime().load(artifact, device), name)
    values = bind(function, inputs)
    try:
        results = function.call_flat(values)
    except (TypeError, ValueError) as error:  # of the arguments: what happens on a device is an ExecutionError
        if exit_code(error) == NO_DEVICE:
            raise
        fail(str(error), error)
    names = function.result_names
    if out is not None:
        _write(out, dict(zip(names, results)))
    elif as_json:
        output.emit_json({n: _plain(r) for n, r in zip(names, results)})
    else:
        for n, r in zip(names, results):
            text = np.array2string(np.asarray(r), threshold=100, precision=6)
            click.echo(f"{n} {r.dtype.name}{list(r.shape)}\n{text}")


def _plain(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind == "c":
        return {"real": array.real.tolist(), "imag": array.imag.tolist()}
    return array.astype(np.float64 if array.dtype.kind == "V" else array.dtype).tolist()


def _write(path: str, results: dict[str, np.ndarray[Any, Any]]) -> None:
    if Path(path).suffix == ".npy":
        if len(results) != 1:
            fail(f"{path}: a .npy holds one array, there are {len(results)}; write to a .npz")
        np.save(path, next(iter(results.values())))
    else:
        with open(path, "wb") as file:
            np.savez(file, **results)  # type: ignore[arg-type]
