"""The group of subcommands, and what is common to them: errors of one line, exit codes, `--verbose`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from typing import NoReturn

import click

_COMMANDS = {
    "inspect": ("inspect", "Show any stage of a function's compilation, or what is in a file."),
    "compile": ("compile", "Compile a function into a file that runs anywhere."),
    "run": ("run", "Run a function of a compiled file on arrays."),
    "bench": ("bench", "Time a function or a compiled file."),
    "verify": ("verify", "Compare a function's results with its evaluation in float64."),
    "profile": ("profile", "Time each dispatch, with the user's source lines."),
    "as-jax": ("as_jax", "Run a Python program in which `import jax` is veery."),
    "devices": ("report", "List the devices of this machine."),
    "cache": ("report", "Look at, or clear, the folder of compiled programs."),
    "doctor": ("report", "Report on the environment: versions, devices, compiler, cache."),
}

FAILED, WRONG_INPUT, NO_DEVICE, INTERRUPTED = 1, 2, 3, 130


class InputError(click.ClickException):
    """Something that the user gave is wrong; said in a line or two."""

    exit_code = WRONG_INPUT


class Group(click.Group):
    """Imports a subcommand when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"veery._cli.{_COMMANDS[name][0]}")
        return getattr(module, f"{name.replace('-', '_')}_command")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="veery", message="veery %(version)s")
@click.option("--verbose", is_flag=True, help="Show the whole traceback of an error. May stand anywhere.")
def cli(verbose: bool) -> None:
    """Looks into compilations, makes and runs compiled files, measures them.

    \b
    A function is named by its file or module:   model.py:predict   package.model:predict
    Its arguments are given as types:            --args "f32[8,784], {w: f32[784,10], b: f32[10]}"

    \b
    Examples:
      veery inspect model.py:predict --args "f32[8,784]"                   # the jaxpr
      veery inspect model.py:loss --grad --args "f32[8]" --stage stablehlo # of the gradient
      veery compile model.py:predict --args "f32[8,784]" -o model.vmfb
      veery run model.vmfb --input x=@images.npy --output out.npz
      veery verify model.py:predict --args "f32[8,784]"
      veery as-jax train.py --steps 100
      veery doctor

    Exit codes: 0 success; 1 the computation failed (tracing, compiling, running); 2 wrong input (options, files,
    arguments); 3 no device to run on.
    """


def run(argv: list[str]) -> int:
    """Run the command line without leaving the process; returns the exit code."""
    others = argv[1:] if argv[:1] == ["as-jax"] else []  # which are of the program that it runs
    verbose = "--verbose" in argv and not others
    argv = argv if others else [a for a in argv if a != "--verbose"]
    if not verbose:
        warnings.simplefilter("ignore")
    try:
        result = cli.main(argv, prog_name="veery", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return WRONG_INPUT
    except click.ClickException as error:
        if verbose and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        where = getattr(getattr(error, "ctx", None), "command_path", "veery")
        _say(error.format_message(), f" See {where} --help." if isinstance(error, click.UsageError) else "")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # `veery inspect ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if verbose:
            traceback.print_exc()
        _say(f"{type(error).__name__}: {error}")
        return exit_code(error)


def exit_code(error: BaseException) -> int:
    """The exit code of an exception."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "DeviceUnavailableError" in names or "IncompatibleArtifactError" in names:
        return NO_DEVICE
    wrong = isinstance(error, OSError) or not names.isdisjoint(("ArtifactError", "UnknownTargetError"))
    return WRONG_INPUT if wrong else FAILED


def _say(message: str, hint: str = "") -> None:
    """Print an error in at most two lines."""
    lines = [line.strip() for line in str(message).splitlines() if line.strip() and not set(line) <= {"-"}]
    text = lines[0] if lines else "unknown error"
    if len(lines) > 1 and len(text) < 200:
        text += "\n  " + lines[1]
    click.echo(f"veery: error: {text[:500]}{hint}", err=True)


def fail(message: str, cause: BaseException | None = None) -> NoReturn:
    """Raise an InputError."""
    raise InputError(message) from cause
