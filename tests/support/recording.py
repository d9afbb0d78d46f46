"""For scripts that record what JAX does: files are written, or, with --check, compared with what is there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

VERSION = "0.10.2"


def arguments(about: str | None) -> argparse.Namespace:
    """The options of a script; it ends if JAX is not the version whose behaviour is recorded."""
    import jax

    if jax.__version__ != VERSION:
        sys.exit(f"the files are of JAX {VERSION}, this is {jax.__version__}: make all of them anew, or none")
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    parser.add_argument("themes", nargs="*", help="parts of a script that has several; all of them by default")
    return parser.parse_args()


def keep(
    path: Path,
    content: str | bytes,
    options: argparse.Namespace,
    compared: Callable[[bytes], object] = lambda code: code,
) -> None:
    """Write a file, or end the script if what is `compared` of it is not the same."""
    made = content.encode() if isinstance(content, str) else content
    if not options.check:
        path.write_bytes(made)
    elif compared(path.read_bytes()) != compared(made):
        sys.exit(f"{path} differs from what JAX {VERSION} gives here")
    print(path.name, "is the same" if options.check else "is written", flush=True)
