"""`veery as-jax`: a program that is written for JAX, on veery."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from veery import _in_place


@click.command("as-jax", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, required=True)
def as_jax_command(arguments: tuple[str, ...]) -> NoReturn:
    """Run Python with ARGUMENTS, with veery in JAX's place: `import jax` is veery, in it and in its children.

    \b
    Examples:
      veery as-jax train.py --steps 100
      veery as-jax -m pytest tests
      veery as-jax -c "import jax; print(jax.devices())"
    """
    os.execve(sys.executable, [sys.executable, *arguments], {**os.environ, **_in_place.environment()})
