"""The document of the benchmark beside JAX, with bars: of what `beside.py --json` wrote.

    python tests/bench/page.py RESULTS.json --jax VERSION [--docs FOLDER]

It is for the machine that measured, whose processor is named in the document.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterable, Mapping
from datetime import date
from html import escape
from pathlib import Path
from typing import NamedTuple

from veery.version import VEERY_VERSION

ROOT = Path(__file__).parents[2]

# Of the pictures, in pixels, and what their bars begin and end with: powers of 2 of JAX's time.
NAMES, BARS, ROW, TITLE = 300, 420, 15, 28
LEAST, MOST = -7, 3
FASTER, SLOWER, TEXT, LINE = "#2a9d8f", "#e76f51", "#808080", "#b0b0b0"


class Calls(NamedTuple):
    """Calls of a kind.

    Attributes:
        title: of their picture.
        name: of its file.
        column: of the results, beside the column of JAX.
        key: of a program's timings.
        wanted: the ratio to JAX's time that is to be reached.
    """

    title: str
    name: str
    column: str
    key: str
    wanted: float


LATER = Calls("Later calls", "benchmark-later", "iree", "later", 1.2)
FIRST = Calls("First calls, nothing on disk", "benchmark-first", "iree", "first", 4)
SECOND = Calls("First calls, in a second process", "benchmark-second", "iree, second process", "first", 1)

Results = Mapping[str, Mapping[str, Mapping[str, float]]]
Ratios = dict[str, dict[str, float]]  # by groups and names


def ratios(found: Results, calls: Calls) -> Ratios:
    """What calls take, in JAX's time."""
    made: Ratios = {}
    ours, theirs = found[calls.column], found["jax"]
    for full in ours:
        group, _, name = full.partition(": ")
        if full in theirs:
            made.setdefault(group, {})[name] = ours[full][calls.key] / theirs[full][calls.key]
    return made


def picture(groups: Ratios, calls: Calls) -> str:
    """Bars from JAX's time to ours, on a logarithmic scale, as SVG: to the left where ours is less."""
    middle = NAMES + BARS * -LEAST / (MOST - LEAST)
    place = lambda ratio: NAMES + BARS * (min(max(math.log2(ratio), LEAST), MOST) - LEAST) / (MOST - LEAST)
    lines, y = [], TITLE
    for power in range(LEAST, MOST + 1):
        x, label = place(2.0**power), f"{2**power}" if power >= 0 else f"1/{2**-power}"
        lines.append(f'<text x="{x:.0f}" y="18" text-anchor="middle">{label}</text>')
    for group, programs in groups.items():
        y += ROW
        lines.append(f'<text x="0" y="{y}" font-weight="bold">{escape(group)}</text>')
        for name, ratio in programs.items():
            y += ROW
            start, end = sorted((middle, place(ratio)))
            color = SLOWER if ratio > calls.wanted else FASTER
            bar = f'x="{start:.1f}" y="{y - ROW + 5}" width="{end - start:.1f}" height="{ROW - 4}" fill="{color}"'
            lines += [
                f'<text x="{NAMES - 8}" y="{y}" text-anchor="end">{escape(name)}</text>',
                f"<rect {bar}><title>{escape(name)}: {ratio:.2f}</title></rect>",
                f'<text x="{NAMES + BARS + 8}" y="{y}">{ratio:.2f}</text>',
            ]
        y += ROW // 2
    rule = f'<line x1="{middle:.1f}" x2="{middle:.1f}" y1="24" y2="{y}" stroke="{LINE}"/>'
    size = f'width="{NAMES + BARS + 60}" height="{y + 8}"'
    style = f'font-family="sans-serif" font-size="11" fill="{TEXT}"'
    title = f"<title>{escape(calls.title)}, in JAX's time</title>"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', title, rule, *lines, "</svg>", ""])


def summary(found: Results) -> Iterable[str]:
    """A table of the groups: of each kind of calls the geometric mean, the most, and how many are above the limit."""
    kinds = [FIRST, SECOND, LATER]
    yield "| | programs | " + " | ".join(f"{calls.title.lower()}, above {calls.wanted:g}" for calls in kinds) + " |"
    yield "|---" * (2 + len(kinds)) + "|"
    tables = [ratios(found, calls) for calls in kinds]
    everything = [[ratio for group in table.values() for ratio in group.values()] for table in tables]
    rows = {group: [[*table[group].values()] for table in tables] for group in tables[0]} | {"**all**": everything}
    for group, cells in rows.items():
        texts = [
            f"{statistics.geometric_mean(cell):.2f}, {max(cell):.1f}; {sum(x > calls.wanted for x in cell)}"
            for cell, calls in zip(cells, kinds, strict=True)
        ]
        yield f"| {group} | {len(cells[0])} | {' | '.join(texts)} |"


def numbers(found: Results) -> Iterable[str]:
    """A table of all programs: what their calls take, here and with JAX."""
    yield "| | first, ms | second process | JAX | later, us | JAX | NumPy |"
    yield "|---" * 7 + "|"
    for full, ours in found["iree"].items():
        theirs, second = found["jax"].get(full), found[SECOND.column].get(full)
        if theirs and second:
            firsts = [f"{1e3 * x['first']:.1f}" for x in (ours, second, theirs)]
            plain = found.get("numpy", {}).get(full)
            laters = [f"{1e6 * x['later']:.1f}" if x else "" for x in (ours, theirs, plain)]
            yield f"| {full} | {' | '.join([*firsts, *laters])} |"


def processor() -> str:
    """Its name, as Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'a processor'}, {len(os.sched_getaffinity(0))} cores"


def page(found: Results, jax: str, machine: str, day: date) -> str:
    """The document, in Markdown."""
    pictures = [f"## {calls.title}\n\n![{calls.title}, in JAX's time]({calls.name}.svg)\n" for calls in (LATER, FIRST)]
    opening = f"""# The benchmark beside JAX

What {len(found["iree"])} programs take with veery {VEERY_VERSION}, compiled by IREE, and with JAX {jax}, on
{machine}, {day:%d %B %Y}. `make bench-page JAX_PYTHON=...` measures and writes this page;
the programs are in `tests/bench/programs`. Each library runs in processes of its own, in turn; a later call is the mean
of 0.2 s of calls that are waited for, and the least of the rounds counts. On machines with few cores a program takes
0.7 to 1.5 of its time from one run to the next.

In JAX's time, the geometric mean of a group, the most of it, and how many are above the limit in the heading:
"""
    return "\n".join([opening, *summary(found), "", *pictures, "## All figures", "", *numbers(found), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="what beside.py --json wrote")
    parser.add_argument("--jax", required=True, help="the version of JAX that was measured")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder that the document goes to")
    options = parser.parse_args()
    found: Results = json.loads(options.results.read_text())
    for calls in (LATER, FIRST):
        (options.docs / f"{calls.name}.svg").write_text(picture(ratios(found, calls), calls))
    (options.docs / "benchmark.md").write_text(page(found, options.jax, processor(), date.today()))


if __name__ == "__main__":
    main()
