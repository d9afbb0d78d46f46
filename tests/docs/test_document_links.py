"""Links in the documents, and the files and tests that they name, exist."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
from docs.pages import OUTSIDE, PAGES, ROOT, anchors, links, literals, name_of, split

_PATH = re.compile(r"^(?:frontend|lowering|runtime|tests|examples|docs|\.ci|\.github)/[\w./*-]*")
_TEST = re.compile(r"^(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)$")


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=name_of)
def test_links_lead_somewhere(page):
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{name_of(page)} links to {target}; there is {sorted(anchors(path))}"


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE], ids=name_of)
def test_named_files_and_tests_exist(page):
    for text in literals(page):
        if test := _TEST.match(text):
            assert f"def {test['name']}(" in (ROOT / test["file"]).read_text(), f"{name_of(page)} names {text}"
        elif path := _PATH.match(text):
            assert next(ROOT.glob(path[0].rstrip("/")), None), f"{name_of(page)} names {text}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_is_in_a_table_of_contents(page):
    if page == ROOT / "docs/index.md":
        return
    entries = [
        str(index.parent / line)
        for index in PAGES
        for block in split(index)[1]
        if block.info == "{toctree}"
        for line in block.text.split()
    ]
    assert any(fnmatch(str(page.with_suffix("")), entry) for entry in entries), "it is in no table of contents"
