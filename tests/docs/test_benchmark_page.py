"""The document of the benchmark says what was measured."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.page import BARS, FIRST, LATER, LEAST, MOST, page, picture, processor, ratios

SVG = "{http://www.w3.org/2000/svg}"


def timings(first: float, later: float) -> dict[str, float]:
    return {"first": first, "later": later, "peak": 1.0}


FOUND = {
    "iree": {"a: x < y": timings(0.08, 2e-6), "a: z": timings(0.01, 1e-3), "b: z": timings(0.1, 1.0)},
    "iree, second process": {name: timings(0.005, 1e-6) for name in ("a: x < y", "a: z", "b: z")},
    "jax": {"a: x < y": timings(0.01, 1e-6), "a: z": timings(0.02, 4e-3), "b: z": timings(0.1, 1e-6)},
    "numpy": {"a: z": timings(0.1, 3e-6)},
}


def test_ratios_are_by_groups() -> None:
    assert ratios(FOUND, FIRST) == {"a": {"x < y": 8, "z": 0.5}, "b": {"z": 1}}


def test_bars_are_as_long_as_ratios_are_far_from_one() -> None:
    svg = ElementTree.fromstring(picture(ratios(FOUND, LATER), LATER))
    bars = {rect.findtext(f"{SVG}title"): rect for rect in svg.iter(f"{SVG}rect")}
    octave = BARS / (MOST - LEAST)
    widths = {title: float(rect.get("width", "")) / octave for title, rect in bars.items()}
    assert widths == pytest.approx({"x < y: 2.00": 1, "z: 0.25": 2, "z: 1000000.00": MOST}, abs=0.01)
    middle = float(svg.find(f"{SVG}line").get("x1", ""))  # type: ignore[union-attr]
    starts = {title: float(rect.get("x", "")) - middle for title, rect in bars.items()}
    assert starts == pytest.approx({"x < y: 2.00": 0, "z: 0.25": -2 * octave, "z: 1000000.00": 0}, abs=0.1)
    assert len({rect.get("fill") for rect in bars.values()}) == 2
    assert [text.text for text in svg.iter(f"{SVG}text") if text.get("font-weight")] == ["a", "b"]


def test_tables_have_all_programs() -> None:
    text = page(FOUND, "1.2.3", "a machine", date(2026, 1, 2))
    assert "3 programs" in text and "JAX 1.2.3" in text and "a machine, 02 January 2026" in text
    assert "| a | 2 | 2.00, 8.0; 1 | 0.35, 0.5; 0 | 0.71, 2.0; 1 |" in text
    assert "| a: x < y | 80.0 | 5.0 | 10.0 | 2.0 | 1.0 |  |" in text
    assert "| a: z | 10.0 | 5.0 | 20.0 | 1000.0 | 4000.0 | 3.0 |" in text
    assert all(f"]({calls.name}.svg)" in text for calls in (LATER, FIRST))


def test_the_document_has_its_pictures() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "benchmark.md").read_text()
    for name in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (
            len(list(ElementTree.parse(docs / name).iter(f"{SVG}rect"))) == text.count("\n| ", text.index("## All")) - 1
        )


def test_the_processor_is_named() -> None:
    assert re.search(r", \d+ cores$", processor())
