"""The `veery` command: looks into every stage of a compilation, makes and runs artifacts, measures.

`main` is the entry point. Each subcommand has a module of its own, imported when it is called.
"""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (see `veery --help`)."""
    from veery._cli.application import run

    return run(sys.argv[1:] if argv is None else argv)
