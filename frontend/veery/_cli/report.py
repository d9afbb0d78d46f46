"""`veery devices`, `veery cache`, `veery doctor`: what is here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import time
from typing import Any

import click

from veery import _dispatch
from veery._cli import libraries as known_libraries, output
from veery._core.host import processors

_PACKAGES = (
    "veery numpy ml_dtypes optree scipy opt_einsum iree-base-compiler iree-base-runtime click rich pygments lark"
).split()


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices_command(as_json: bool) -> None:
    """List the devices of this machine, and why others are absent.

    \b
    Examples:
      veery devices
      veery devices --json
    """
    found = _devices()
    if as_json:
        return output.emit_json(found)
    rows = [[d["platform"], d["id"], d["kind"], d["target"]] for d in found["devices"]]
    output.table("", ["platform", "id", "kind", "target"], rows)
    for name, cause in found["absent"].items():
        click.echo(f"no {name}: {cause}")
    for plugin in found["plugins"]:
        click.echo(_plugin_line(plugin))


def _devices() -> dict[str, Any]:
    """The devices, those of PJRT plugins too, and what there is to say of those and of what is absent."""
    runtime = _dispatch.runtime()
    accounts = runtime.plugins().accounts()
    loaded = [d for a in accounts if a.devices for d in runtime.devices(a.plugin.platform)]
    devices = [
        {"platform": d.platform, "id": d.id, "kind": d.device_kind, "target": _dispatch.target_of(d)}
        for d in [*runtime.devices(), *loaded]
    ]
    plugins = [
        {
            "platform": a.plugin.platform,
            "origin": a.plugin.origin,
            "path": a.plugin.path,
            "version": a.version,
            "problem": a.problem,
        }
        for a in accounts
    ]
    return {"devices": devices, "absent": runtime.absent(), "plugins": plugins}


def _plugin_line(plugin: dict[str, str]) -> str:
    state = plugin["version"] or f"not loaded: {plugin['problem']}"
    return f"plugin {plugin['platform']}: {plugin['origin']}, {state}"


@click.group("cache")
def cache_command() -> None:
    """Look at, or clear, the folder of compiled programs (VEERY_CACHE_DIR, VEERY_CACHE_MAX_BYTES).

    \b
    Examples:
      veery cache info
      veery cache clear
    """


@cache_command.command("info")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cache_info_command(as_json: bool) -> None:
    """Show where the cache is and how full."""
    info = _dispatch.lowering().cache_info()
    found = {"directory": info.directory, "entries": info.entries, "bytes": info.nbytes, "limit": info.limit}
    if as_json:
        return output.emit_json(found)
    click.echo(f"{info.directory}\n{info.entries} programs, {output.size(info.nbytes)} of {output.size(info.limit)}")


@cache_command.command("clear")
def cache_clear_command() -> None:
    """Remove all compiled programs."""
    lowering = _dispatch.lowering()
    before = lowering.cache_info()
    lowering.clear_cache()
    click.echo(f"removed {before.entries} programs, {output.size(before.nbytes)}, from {before.directory}")


@click.command("doctor")
@click.option("--libraries", is_flag=True, help="Report on the installed libraries that are written for JAX.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(libraries: bool, as_json: bool) -> int:
    """Report on the environment, and compile and run a small program. Exits with 1 if that fails.

    With --libraries: which libraries import with veery in JAX's place, and which names of JAX in their sources veery
    has not. Exits with 1 if one does not import.

    \b
    Examples:
      veery doctor
      veery doctor --json > report.json
      veery doctor --libraries
    """
    if libraries:
        return _libraries(as_json)
    found = {
        "python": f"{platform.python_version()} at {sys.executable}",
        "system": f"{platform.platform()}, {processors()} CPUs",
        "packages": {name: _version(name) for name in _PACKAGES},
        **_devices(),
        "cache": _cache(),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("VEERY_", "JAX_", "IREE_", "VK_"))},
        "test": _try(),
    }
    if as_json:
        output.emit_json(found)
    else:
        _print(found)
    return 0 if found["test"]["ok"] else 1


def _libraries(as_json: bool) -> int:
    found = known_libraries.report()
    if as_json:
        output.emit_json(found)
    elif not found:
        click.echo(f"none is installed of {', '.join(known_libraries.LIBRARIES)}")
    else:
        for d in found:
            click.echo(f"{d['name']} {d['version']}: {'does not import: ' if d['error'] else 'imports'}{d['error']}")
            for name in d["lacks"]:
                click.echo(f"  lacks {name}")
    return 1 if any(d["error"] for d in found) else 0


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    info = _dispatch.lowering().cache_info()
    parent = info.directory
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    return {
        "directory": info.directory,
        "entries": info.entries,
        "bytes": info.nbytes,
        "writable": os.access(parent, os.W_OK),
        "free": shutil.disk_usage(parent).free,
    }


def _try() -> dict[str, Any]:
    """Compile and run x + 1."""
    import veery

    start = time.perf_counter()
    try:
        value = veery.jit(lambda x: x + 1)(1.0)
        return {"ok": float(value) == 2.0, "seconds": time.perf_counter() - start}
    except Exception as error:  # a report tells what is wrong
        return {"ok": False, "error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _print(found: dict[str, Any]) -> None:
    click.echo(f"Python    {found['python']}\nSystem    {found['system']}")
    packages = ", ".join(f"{name} {version or 'MISSING'}" for name, version in found["packages"].items())
    click.echo(f"Packages  {packages}")
    for d in found["devices"]:
        click.echo(f"Device    {d['platform']}:{d['id']}  {d['kind']}  (target {d['target']})")
    for name, cause in found["absent"].items():
        click.echo(f"          no {name}: {cause}")
    for plugin in found["plugins"]:
        click.echo(f"          {_plugin_line(plugin)}")
    cache = found["cache"]
    state = "" if cache["writable"] else "  NOT WRITABLE: programs are compiled anew in each process"
    click.echo(f"Cache     {cache['directory']}  {cache['entries']} programs, {output.size(cache['bytes'])}{state}")
    for name, value in found["environment"].items():
        click.echo(f"          {name}={value}")
    test = found["test"]
    told = f"works ({test['seconds']:.2f} s)" if test["ok"] else f"FAILED: {test.get('error', 'wrong result')}"
    click.echo(f"Compiler  compiling and running x + 1 {told}")
