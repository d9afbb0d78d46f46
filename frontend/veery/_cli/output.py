"""What commands print: colours on a terminal, plain text when piped, files with -o."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from veery._api.source_lines import shortened
from veery._cli.application import fail

_LEXERS = {"jaxpr": "haskell", "llvm": "llvm", "asm": "gas", "ptx": "gas"}


def emit(text: str, stage: str, out: str | None) -> None:
    """Print a stage, or write it to a file as it is."""
    if out is not None:
        Path(out).write_text(text + "\n")
        return
    text = shortened(text)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        syntax = Syntax(text, _LEXERS.get(stage, "llvm"), theme="ansi_dark", background_color="default", word_wrap=True)
        Console().print(syntax)
    else:
        click.echo(text)


def check_folder(path: str) -> None:
    """Fail where no file can be written for want of its folder, before anything is computed."""
    folder = Path(path).parent
    if not folder.is_dir():
        fail(f"there is no folder {folder} to write {Path(path).name} into")


def emit_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(json.dumps(value, indent=2, default=str))


def table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Print rows: a table on a terminal, columns separated by spaces when piped. Numbers go to the right."""
    text = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table

        drawn = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
        for i, name in enumerate(columns):
            right = all(not isinstance(row[i], str) for row in rows)
            drawn.add_column(name, justify="right" if right else "left", overflow="fold")
        for row in text:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    widths = [max(map(len, column)) for column in zip(columns, *text)]
    for row in [columns, *text]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def number(value: Any) -> str:
    """A number with its thousands apart, or an expression."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def size(nbytes: int) -> str:
    """A number of bytes for people: "12.3 KiB"."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def duration(seconds: float) -> str:
    """A time for people: "12.3 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
