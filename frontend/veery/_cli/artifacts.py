"""Compiled files on the command line: what is in them, and running them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import numpy as np

from veery import _dispatch
from veery._cli import output
from veery._cli.application import fail
from veery._cli.arguments import dtype_of_name

_DISPATCH = re.compile(rb"[\w$]*_dispatch_\d+_[a-z][\w]*")


def describe(path: str) -> dict[str, Any]:
    """What a file holds, as plain data."""
    runtime = _dispatch.runtime()
    artifact = runtime.load_artifact(path)
    module = runtime.load(path)
    return {
        "file": path,
        "bytes": artifact.nbytes,
        "sha256": artifact.checksum,
        "iree": artifact.iree_version,
        **artifact.metadata,
        "functions": [_function(module[name], entry) for name, entry in artifact.entries.items()],
    }


def _function(function: Any, entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "signature": function.signature,
        "inputs": [{"name": n, "type": output_type(t)} for n, t in zip(entry.names, entry.inputs)],
        "outputs": [output_type(t) for t in entry.outputs],
        "donated": [n for n, d in zip(entry.names, entry.programs[0].donated[len(entry.constants) :]) if d],
        "constant_bytes": sum(c.nbytes for c in entry.constants),
        "targets": [
            {
                "target": p.target,
                "cpu": " ".join([p.machine, *p.cpu_features]),
                "bytes": len(p.vmfb),
                "dispatches": _dispatches(p.vmfb),
            }
            for p in entry.programs
        ],
    }


def _dispatches(program: bytes) -> list[str]:
    names = {name.decode() for name in _DISPATCH.findall(program)}
    return sorted(n for n in names if not re.search(r"_(embedded_elf|system_elf|vulkan_spirv|cuda_nvptx)_", n))


def output_type(spec: tuple[tuple[int, ...], str]) -> str:
    """A type as text: "f32[8,784]"."""
    return _dispatch.runtime().module.short_type(*spec)


def show(path: str, as_json: bool, stage: str | None) -> None:
    """Print what a file holds."""
    if not Path(path).is_file():
        fail(f"there is no file {path}")
    if stage is not None:
        fail("an artifact holds machine code only; --stage needs the function or a .mlir file")
    found = describe(path)
    if as_json:
        return output.emit_json(found)
    click.echo(f"{path}  {output.size(found['bytes'])}, veery {found.get('veery')}, IREE {found['iree']}")
    click.echo(f"sha256 {found['sha256']}")
    for function in found["functions"]:
        click.echo(f"\n{function['name']}{function['signature']}")
        if function["donated"]:
            click.echo(f"  overwrites {', '.join(function['donated'])}")
        if function["constant_bytes"]:
            click.echo(f"  constants {output.size(function['constant_bytes'])}")
        for target in function["targets"]:
            cpu = f" ({target['cpu'][:60]}{'...' if len(target['cpu']) > 60 else ''})" if target["cpu"].strip() else ""
            click.echo(f"  {target['target']}  {output.size(target['bytes'])}{cpu}")
            for name in target["dispatches"]:
                click.echo(f"    {name}")


# Values of inputs.


def read_input(text: str) -> tuple[str | None, Any]:
    """An input as (name or None, array): `x=@x.npy`, `@x.npz`, `4x4xf32=1`, `x=f32=2.5`, `x=3xf32=1 2 3`."""
    match = re.fullmatch(r"(?:([A-Za-z_][^=@]*)=)?@(.+)", text)
    if match:
        return match[1], _read_file(match[2])
    name, _, rest = text.partition("=")
    if _typed(name) is not None and rest:
        return None, _values(name, rest, text)
    kind, _, values = rest.partition("=")
    if _typed(kind) is not None and values:
        return name, _values(kind, values, text)
    if rest and re.fullmatch(r"[A-Za-z_][^=]*", name):
        return name, _number(rest, text)
    return fail(f"--input {text!r}: write name=@file.npy, name=4x4xf32=1, 4x4xf32=1 or name=2.5")


def _read_file(path: str) -> Any:
    if not Path(path).is_file():
        fail(f"there is no file {path}")
    try:
        loaded = np.load(path, allow_pickle=False)
    except ValueError as error:
        fail(f"{path} is no .npy or .npz file: {error}", error)
    return dict(loaded) if hasattr(loaded, "files") else loaded


def _typed(text: str) -> tuple[tuple[int, ...], Any] | None:
    *dims, dtype = text.split("x")
    found = dtype_of_name(dtype)
    if found is None or not all(d.isdigit() for d in dims):
        return None
    return tuple(map(int, dims)), found


def _values(kind: str, text: str, whole: str) -> Any:
    typed = _typed(kind)
    assert typed is not None
    shape, dtype = typed
    items = [_number(item, whole) for item in re.split(r"[\s,\[\]]+", text.strip("[] "))]
    array = np.array(items).astype(dtype)
    if array.size not in (1, int(np.prod(shape))):
        fail(f"--input {whole!r}: {array.size} values for {int(np.prod(shape))} elements")
    return np.broadcast_to(array.reshape(shape if array.size == np.prod(shape) else ()), shape)


def _number(text: str, whole: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text) if re.search(r"[.eEn]", text) else int(text)
    except ValueError:
        return fail(f"--input {whole!r}: {text!r} is no number")


def choose_function(module: Any, name: str | None) -> Any:
    """The function of an artifact that the command line means."""
    if name is None and len(module) == 1:
        return next(iter(module))
    names = [f.name for f in module]
    if name is None:
        fail(f"the artifact has several functions; choose one with --function: {', '.join(names)}")
    if name not in names:
        fail(f"the artifact has no function {name!r}; it has {', '.join(names)}")
    return module[name]


def bind(function: Any, inputs: tuple[str, ...]) -> list[Any]:
    """The flat arguments of a function from --input options: by name, else by position."""
    names = list(function._entry.names) or [str(i) for i in range(len(function.inputs))]
    values: dict[int, Any] = {}
    for text in inputs:
        name, value = read_input(text)
        if name is None:
            free = [i for i in range(len(names)) if i not in values]
            if not free:
                fail(f"--input {text!r}: the function takes {len(names)} arrays only ({', '.join(names)})")
            values[free[0]] = value
        else:
            values.update(_named(names, name, value, text))
    missing = [names[i] for i in range(len(names)) if i not in values]
    if missing:
        fail(f"no --input for {', '.join(missing)}; the signature is {function!r}")
    return [values[i] for i in range(len(names))]


def _named(names: list[str], name: str, value: Any, text: str) -> dict[int, Any]:
    if isinstance(value, dict):  # an .npz for a dictionary of arrays
        paths = {f"{name}['{key}']": array for key, array in value.items()}
        unknown = [path for path in paths if path not in names]
        if unknown:
            fail(f"--input {text!r}: the function has no {unknown[0]}; it takes {', '.join(names)}")
        return {names.index(path): array for path, array in paths.items()}
    if name not in names:
        fail(f"--input {text!r}: the function has no argument {name!r}; it takes {', '.join(names)}")
    return {names.index(name): value}
