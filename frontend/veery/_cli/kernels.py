"""The pieces of a program: what is computed together, by whom, and why."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Sequence
from typing import Any

from veery._api.source_lines import place_in, places

_PIECE = re.compile(r"(?:flow\.dispatch @[\w$]+::|util\.call )@([\w$.]+)")
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)([a-zA-Z_]\w*(?:<\w+>)?)>")
_OPERATION = re.compile(r"^(\w+\.\w+)$")
_LOOP = re.compile(r"scf\.(while|for)\b")


def pieces(flow: str, decisions: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The dispatches and host calls of IREE's flow IR in their order, and what could be no kernel of veery's.

    Args:
        flow: the IR, with locations.
        decisions: what was decided about kernels (a `Decision` each).

    Returns:
        Of each piece: its name, by whom it is ("veery: in registers, ...", "IREE", "host"), in how many loops it lies,
        the bytes that it reads and writes (None where shapes are not known), its workgroups ("" where IREE decides),
        the user's line. Of each place without kernel: its kind, the line, and the reasons.
    """
    by_name = {d.kernel: d for d in decisions if d.kernel}
    found: list[dict[str, Any]] = []
    open_loops: list[int] = []
    for line, place in places(flow):
        indent = len(line) - len(line.lstrip())
        if open_loops and indent <= open_loops[-1] and line.lstrip() == "}":
            open_loops.pop()
        if _LOOP.search(line):
            open_loops.append(indent)
        match = _PIECE.search(line)
        if match is None:
            continue
        name = match[1]
        kernel = by_name.get(name.removesuffix("_run"))
        taken, _, made = line[match.end() :].rpartition("->")
        found.append(
            {
                "piece": kernel.kernel if kernel else name,
                "by": f"veery, {kernel.form}" if kernel else "IREE" if "flow.dispatch" in match[0] else "host",
                "loops": len(open_loops),
                "reads": _bytes(taken.rpartition(" : ")[2]),
                "writes": _bytes(made),
                "workgroups": kernel.workgroups if kernel else "",
                "of": _line(place) if place or kernel is None else _line(place_in(str(kernel.locations[0]))),
            }
        )
    dispatched = {piece["piece"] for piece in found}
    left = [
        {"kind": d.kind, "of": _line(place_in(str(d.locations[0]))), "because": _because(d)}
        for d in decisions
        if d.kernel not in dispatched
    ]
    return found, left


def _because(decision: Any) -> str:
    if decision.kernel:
        return "IREE did not compile the program with kernels, or does not need this one"
    return "; ".join(dict.fromkeys(_OPERATION.sub(r"no kernel of this form holds \1", r) for r in decision.reasons))


def _bytes(types: str) -> int | None:
    """The bytes of all tensors of some MLIR types."""
    bits = 0
    for shape, element in _TENSOR.findall(types):
        if "?" in shape:
            return None
        width = re.search(r"\d+", element)
        parts = 2 if element.startswith("complex") else 1
        bits += math.prod(map(int, filter(None, shape.split("x")))) * parts * int(width[0] if width else 64)
    return -(-bits // 8)


def _line(place: tuple[str, int] | None) -> str:
    """A place in the user's files, with what stands there."""
    if place is None:
        return ""
    file, number = place
    return f"{file.rpartition('/')[2]}:{number}  {linecache.getline(file, number).strip()}".rstrip()
