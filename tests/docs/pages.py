"""What is in the pages of the documents: code blocks, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OUTSIDE = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$")
_LITERAL = re.compile(r"`([^`]+)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        info: what stands behind the opening fence: the language, and words for the tests.
        text: the code.
        line: number of its first line in the page, from 0.
    """

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]


def split(page: Path) -> tuple[list[str], list[Block]]:
    """The lines of a page outside of blocks (those within are empty), and the blocks."""
    prose: list[str] = []
    blocks: list[Block] = []
    opened, code = None, []
    for number, line in enumerate(page.read_text().splitlines()):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened, code = (fence["fence"], fence["info"].strip(), number + 1), []
        elif opened is not None and line.startswith(opened[0]):
            blocks.append(Block(opened[1], "".join(f"{each}\n" for each in code), opened[2]))
            opened = None
        elif opened is not None:
            code.append(line)
        prose.append("" if opened is not None or fence else line)
    assert opened is None, f"{name_of(page)}: a block is not closed"
    return prose, blocks


def links(page: Path) -> Iterator[str]:
    """The targets of all links."""
    for line in split(page)[0]:
        yield from (match["target"] for match in _LINK.finditer(_LITERAL.sub("", line)))


def literals(page: Path) -> Iterator[str]:
    """What stands between single backticks."""
    for line in split(page)[0]:
        yield from _LITERAL.findall(line)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    titles = [match["title"] for line in split(page)[0] if (match := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
