"""One self-contained page of all stages side by side: a click on a line lights up what became of it in every stage."""

from __future__ import annotations

import html
import importlib.resources
import linecache
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from veery._api.highlighting import colours, highlighted
from veery._api.source_lines import is_library, place_in, places, shortened
from veery._core.jaxpr import Literal

Place = tuple[str, int]
Lines = list[tuple[str, Place | None]]
Rows = Sequence[tuple[str, Sequence[Place]]]

_EXECUTABLE = re.compile(r"^  flow\.executable private @([\w$]+)", re.MULTILINE)
_LABEL = re.compile(r"^([A-Za-z_][\w$.]*):")
_DISPATCH_CALL = re.compile(r"flow\.dispatch @([\w$]+)::@([\w$]+)")
_FUNCTION = re.compile(r"\s*(@|def |class |async def )")
_MOST_CODE = 6000  # lines
_COLUMN, _ROW, _WIDTH, _HEIGHT = 190, 62, 170, 38


def page(traced: Any, target: str | None = None) -> str:
    """The page of a traced function (a veery.stages.Traced)."""
    lowered = traced.lower(lowering_platforms=[target] if target else None, self_contained=True)
    jaxpr: Lines = places(traced.jaxpr.pretty_print(source_info=True))
    stablehlo = places(lowered.as_text(debug_info=True))
    flow_text, decisions = lowered._lowered.kernels()
    kernels = {d.kernel: list(map(str, d.locations)) for d in decisions if d.kernel}
    flow = places(flow_text)
    kind = {"cpu": "asm", "vulkan": "spirv", "cuda": "ptx"}[(target or "cpu").partition(":")[0]]
    code = _code(lowered.as_text(kind), _dispatch_places(flow, kernels))
    used = [place for _, place in (*jaxpr, *stablehlo, *flow) if place is not None]
    sections = [
        _section("Python", _rows(_source_lines(used)), numbered=True),
        _section("jaxpr", _rows(jaxpr)),
        _graph_section(traced.jaxpr.jaxpr, _groups(flow_text, kernels)),
        _section("StableHLO", _rows(stablehlo)),
        _section("dispatches (flow)", _rows(flow)),
        _section(f"code ({kind})", code),
    ]
    style, script = _file("page.css") + colours("pre"), _file("page.js")
    title = html.escape(f"{traced.fun_name} for {lowered._lowered.target.name[:40]}")
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{style}</style>"
        f"<header><b>{title}</b><span>Click a line: what became of it lights up in every stage. Escape clears.</span>"
        f"</header><main>{''.join(sections)}</main><script>{script}</script></html>"
    )


def _file(name: str) -> str:
    return (importlib.resources.files("veery._api") / name).read_text()


def _rows(lines: Lines) -> Rows:
    return [(text, [] if place is None else [place]) for text, place in lines]


def _mark(stems_from: Iterable[Place]) -> str:
    names = " ".join(f"{Path(file).name}:{line}" for file, line in stems_from)
    return f' data-p="{html.escape(names)}"' if names else ""


def _section(title: str, lines: Rows, numbered: bool = False) -> str:
    rows = []
    texts = highlighted([shortened(text) for text, _ in lines], "python" if numbered else "ir")
    for text, (_, stems_from) in zip(texts, lines, strict=True):
        number = "".join(f"<span class=number>{line}</span>" for _, line in stems_from) if numbered else ""
        rows.append(f"<div{_mark(stems_from)}>{number}{text}</div>")
    return f"<section><h2>{html.escape(title)}</h2><pre>{''.join(rows)}</pre></section>"


def _source_lines(used: list[Place]) -> Lines:
    """The functions of the user's files that operations stem from, from the first one's head to the last operation."""
    found: Lines = []
    for file in dict.fromkeys(file for file, _ in used if not is_library(file)):
        lines = [line for name, line in used if name == file]
        heads = [i for i, text in enumerate(linecache.getlines(file), 1) if _FUNCTION.match(text) and i <= min(lines)]
        found.append((f"# {file}", None))
        for i in range(max(heads, default=min(lines)), max(lines) + 1):
            found.append((linecache.getline(file, i).rstrip("\n"), (file, i)))
    return found


def _dispatch_places(flow: Lines, kernels: Mapping[str, Sequence[str]]) -> dict[str, list[Place]]:
    """The source lines that went into each dispatch, by the name of its function; of kernels their locations tell."""
    found = {f"{name}_code": filter(None, map(place_in, locations)) for name, locations in kernels.items()}
    inside: dict[str, dict[Place, None]] = {name: dict.fromkeys(lines) for name, lines in found.items()}
    names: dict[str, str] = {}
    current = ""
    for text, place in flow:
        start = _EXECUTABLE.match(text)
        current = start[1] if start else "" if text.startswith("  util.func") else current
        if current and place is not None:
            inside.setdefault(current, {})[place] = None
        names.update({function: executable for executable, function in _DISPATCH_CALL.findall(text)})
    return {function: list(inside.get(executable, ())) for function, executable in names.items()}


def _code(text: str, dispatches: dict[str, list[Place]]) -> list[tuple[str, list[Place]]]:
    """The lines of machine code, each with the source lines of the dispatch that it belongs to."""
    found = []
    here: list[Place] = []
    for line in text.splitlines()[:_MOST_CODE]:
        label = _LABEL.match(line)
        if label:
            here = next((p for name, p in dispatches.items() if name in label[1]), [])
        found.append((line, here))
    return found


# The graph.


def _groups(flow: str, kernels: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The dispatches' names and their IR with locations, of kernels the locations."""
    starts = [(m[1], m.start()) for m in _EXECUTABLE.finditer(flow)]
    ends = [start for _, start in starts[1:]] + [flow.find("util.func public", starts[-1][1]) if starts else 0]
    texts = [(name, flow[start:end]) for (name, start), end in zip(starts, ends)]
    return texts + [(name, "\n".join(locations)) for name, locations in kernels.items()]


def _group_of(eqn: Any, groups: list[tuple[str, str]]) -> int | None:
    """The dispatch that an equation was fused into, told by its location in the dispatch's IR."""
    info = eqn.source_info
    place = f'("{info.file}":{info.line}:'
    exact = f'{eqn.primitive.name}"{place}'
    for wanted in (exact, place):
        for i, (_, text) in enumerate(groups):
            if wanted in text:
                return i
    return None


def _ranks(jaxpr: Any) -> list[int]:
    made: dict[Any, int] = {}
    ranks = []
    for eqn in jaxpr.eqns:
        rank = 1 + max((made.get(v, -1) for v in eqn.invars if not isinstance(v, Literal)), default=-1)
        made.update(dict.fromkeys(eqn.outvars, rank))
        ranks.append(rank)
    return ranks


def _graph_section(jaxpr: Any, groups: list[tuple[str, str]]) -> str:
    ranks = _ranks(jaxpr)
    taken: dict[int, int] = {}
    at: dict[Any, tuple[int, int]] = {}
    shapes, edges = [], []
    for eqn, rank in zip(jaxpr.eqns, ranks):
        x, y = 12 + taken.get(rank, 0) * _COLUMN, 12 + rank * _ROW
        taken[rank] = taken.get(rank, 0) + 1
        for v in eqn.invars:
            if not isinstance(v, Literal) and v in at:
                x0, y0 = at[v]
                middle = (y0 + y) / 2
                path = f"M{x0} {y0}C{x0} {middle} {x + _WIDTH / 2} {middle} {x + _WIDTH / 2} {y}"
                edges.append(f'<path d="{path}" fill=none stroke="#a9b2bf"/>')
        at.update(dict.fromkeys(eqn.outvars, (x + _WIDTH // 2, y + _HEIGHT)))
        shapes.append(_node(eqn, x, y, _group_of(eqn, groups)))
    width, height = 24 + max(taken.values(), default=1) * _COLUMN, 30 + (max(ranks, default=0) + 1) * _ROW
    svg = f'<svg width={width} height={height} xmlns="http://www.w3.org/2000/svg">{"".join([*edges, *shapes])}</svg>'
    colours = [(html.escape(name), _colour(i)) for i, (name, _) in enumerate(groups)]
    names = "".join(f'<p><i style="background:{colour}"></i>{name}</p>' for name, colour in colours)
    title = f"graph, coloured by dispatch ({len(groups)})"
    return f"<section><h2>{title}</h2><div class=graph>{names}{svg}</div></section>"


def _colour(group: int | None) -> str:
    return "#eceff3" if group is None else f"hsl({(group * 67 + 205) % 360} 70% 88%)"


def _node(eqn: Any, x: int, y: int, group: int | None) -> str:
    out = eqn.outvars[0].aval
    nbytes = math.prod(out.shape) * getattr(out.dtype, "itemsize", 8)
    info = eqn.source_info
    stems_from = [] if is_library(info.file) or not info.line else [(info.file, info.line)]
    label = html.escape(eqn.primitive.name[:22])
    return (
        f'<g><rect x={x} y={y} width={_WIDTH} height={_HEIGHT} rx=5 fill="{_colour(group)}" stroke="#8b95a3"'
        f"{_mark(stems_from)}/>"
        f"<text x={x + 8} y={y + 15} font-weight=bold>{label}</text>"
        f"<text x={x + 8} y={y + 30}>{html.escape(out.str_short())}, {nbytes:,} B</text></g>"
    )
