"""The user's source lines beside the operations that stem from them."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import click

_PLACE = re.compile(r'"?([^"\s()]+\.py)"?:(\d+)')
_ALIAS = re.compile(r"^(#loc\d*) = (loc\(.*\))$", re.MULTILINE)
_USE = re.compile(r"#loc\d*\b")
_LONG_FEATURES = re.compile(r'(cpu_features = ")[^"]{80,}(")')
_WIDTH = 96


def places(text: str) -> list[tuple[str, tuple[str, int] | None]]:
    """The lines of MLIR or jaxpr text without their locations, each with the user's file and line, if it has one."""
    aliases = dict(_ALIAS.findall(text))
    found = []
    for line in _ALIAS.sub("", text).splitlines():
        bare, location = _split(line)
        if bare.strip() or not location:
            found.append((bare, _place(location, aliases)))
    while found and not found[-1][0].strip():
        found.pop()
    while found and not found[0][0].strip():
        found.pop(0)
    return found


def _split(line: str) -> tuple[str, str]:
    """A line as its text and its trailing location; locations of arguments are dropped."""
    jaxpr = re.search(r"\s+# (\S+\.py:\d+.*)$", line)
    if jaxpr:
        return line[: jaxpr.start()], jaxpr[1]
    last = ""
    at = line.find(" loc(")
    while at >= 0:
        depth, end = 0, at + 4
        quoted = False
        while end < len(line):
            char = line[end]
            quoted ^= char == '"'
            depth += 0 if quoted else (char == "(") - (char == ")")
            end += 1
            if depth == 0:
                break
        last = line[at + 1 : end]
        line = line[:at] + line[end:]
        at = line.find(" loc(", at)
    return line, last


def is_library(file: str) -> bool:
    """Whether a file is no code of the user's."""
    folders = Path(__file__).resolve().parents[1], Path(click.__file__).resolve().parent
    return any(folder in Path(file).resolve().parents for folder in folders)


def place_in(location: str) -> tuple[str, int] | None:
    """The user's file and line in the text of a location that needs no aliases."""
    return _place(location, {})


def _place(location: str, aliases: dict[str, str], depth: int = 0) -> tuple[str, int] | None:
    match = next((m for m in _PLACE.finditer(location) if not is_library(m[1])), None)
    if match:
        return match[1], int(match[2])
    for name in _USE.findall(location) if depth < 16 else ():
        found = _place(aliases.get(name, ""), aliases, depth + 1)
        if found:
            return found
    return None


def annotated(text: str, comment: str) -> str:
    """Text with the source line beside each operation, where it changes."""
    lines = []
    last = None
    for line, place in places(text):
        if place is not None and place != last:
            source = linecache.getline(*place).strip()
            name = place[0].rpartition("/")[2]
            line = f"{line:<{_WIDTH}} {comment} {name}:{place[1]}  {source}"
        last = place or last
        lines.append(line)
    return "\n".join(lines)


def shortened(text: str) -> str:
    """Text without the long list of a processor's features."""
    return _LONG_FEATURES.sub(r"\1...\2", text)
