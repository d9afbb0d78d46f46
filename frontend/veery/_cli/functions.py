"""Functions by name, transformed as the options say."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from veery._cli.application import fail
from veery._cli.arguments import Arguments, parse
from veery._core.compiler_options import pairs

TRANSFORMS = "transforms"


def load(reference: str) -> Callable[..., Any]:
    """The function of "file.py:name" or "package.module:name" (the name may have dots).

    Raises InputError: no such file, module or function, or the import fails.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or not place or not name:
        fail(f"{reference!r} names no function; write file.py:function or package.module:function")
    module = _module(place)
    try:
        found = functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        known = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        fail(f"{place} has no function {name!r}; it has {', '.join(known) or 'none'}", error)
    if not callable(found):
        fail(f"{name!r} of {place} is no function but {type(found).__name__}")
    return found


def _module(place: str) -> Any:
    if place.endswith(".py") or "/" in place:
        path = Path(place)
        if not path.is_file():
            fail(f"there is no file {place}")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent.resolve()))
        sys.modules[path.stem] = module
        loader: Callable[[], Any] = functools.partial(spec.loader.exec_module, module)
    else:
        sys.path.insert(0, "")
        loader = functools.partial(importlib.import_module, place)
    try:
        return loader() or module
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, ModuleNotFoundError) and error.name and place.startswith(error.name):
            fail(f"there is no module {place!r}", error)
        return fail(f"importing {place} failed: {type(error).__name__}: {error}", error)


def _note(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Remember the order in which transformations are given."""
    if value:
        ctx.ensure_object(dict).setdefault(TRANSFORMS, []).append(param.name)
    return value


def _set_options(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:
    """Have what is compiled use these options, which win over those of the environment."""
    from veery import config

    try:
        config.update("veery_compiler_options", {**dict(config.veery_compiler_options), **dict(pairs(" ".join(value)))})
    except ValueError as error:
        fail(str(error), error)


def function_options(command: Any) -> Any:
    """The options of all commands that take a function."""
    options = [
        click.option(
            "--args", "args_text", default="", help='Types of the arguments: "f32[8,784], {w: f32[n,10]}" (any n).'
        ),
        click.option("--grad", is_flag=True, callback=_note, expose_value=False, help="Differentiate the function."),
        click.option("--value-and-grad", is_flag=True, callback=_note, expose_value=False, help="Value and gradient."),
        click.option("--vmap", is_flag=True, callback=_note, expose_value=False, help="Map over leading axes."),
        click.option("--jit", is_flag=True, callback=_note, expose_value=False, help="Wrap into jit."),
        click.option("--argnums", default="0", help="Arguments to differentiate by: 0 or 0,1."),
        click.option("--in-axes", default="0", help="Axes to map over: 0, or 0,None."),
        click.option("--x64", is_flag=True, help="Allow 64-bit types."),
        click.option(
            "--option",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_set_options,
            expose_value=False,
            help="Compile with this: optimize_for=size, queue=inline, iree-opt-level=O2, ...; repeat.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def numbers(text: str) -> Any:
    """The axes in a text: "0" is 0, "0,None" is (0, None)."""
    try:
        items = [None if item.strip() == "None" else int(item) for item in text.split(",")]
    except ValueError:
        fail(f"expected numbers such as 0 or 0,1, got {text!r}")
    return items[0] if len(items) == 1 else tuple(items)


def _transformed(fun: Callable[..., Any], names: list[str], argnums: str, in_axes: str) -> Callable[..., Any]:
    """The function under transformations, the first innermost."""
    import veery

    wrap: dict[str, Callable[[Any], Any]] = {
        "grad": lambda f: veery.grad(f, argnums=numbers(argnums)),
        "value_and_grad": lambda f: veery.value_and_grad(f, argnums=numbers(argnums)),
        "vmap": lambda f: veery.vmap(f, in_axes=numbers(in_axes)),
        "jit": veery.jit,
    }
    for name in names:
        fun = wrap[name](fun)
    return fun


def jitted(fun: Callable[..., Any], arguments: Arguments) -> Any:
    """The function under `jit`, if it is not already, with the arguments that are no arrays static."""
    import veery
    from veery._api.jit import JitFunction

    return fun if isinstance(fun, JitFunction) else veery.jit(fun, static_argnums=arguments.static or None)


def trace(fun: Callable[..., Any], arguments: Arguments) -> Any:
    """The function traced for the arguments (a veery.stages.Traced)."""
    return jitted(fun, arguments).trace(*arguments.args, **arguments.kwargs)


def request(reference: str, args_text: str, argnums: str, in_axes: str, x64: bool) -> dict[str, Any]:
    """What the command line asks for, as plain data: a function, its transformations, the types of its arguments."""
    from veery import config

    names = (click.get_current_context().obj or {}).get(TRANSFORMS, [])
    options = dict(config.veery_compiler_options)
    return dict(
        reference=reference, args=args_text, argnums=argnums, in_axes=in_axes, x64=x64, names=names, options=options
    )


def prepare(reference: str, args_text: str, argnums: str, in_axes: str, x64: bool) -> tuple[Any, Arguments]:
    """The transformed function and its arguments."""
    return requested(request(reference, args_text, argnums, in_axes, x64))


def requested(asked: dict[str, Any]) -> tuple[Any, Arguments]:
    """The transformed function of a request, and its arguments."""
    from veery import config

    config.update("veery_compiler_options", asked["options"])
    if asked["x64"]:
        config.update("jax_enable_x64", True)
    fun = load(asked["reference"])
    return _transformed(fun, asked["names"], asked["argnums"], asked["in_axes"]), parse(asked["args"])
