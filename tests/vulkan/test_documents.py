"""The code in the documents that is for a Vulkan device."""

from __future__ import annotations

import pytest

from docs.pages import PAGES, name_of, split
from docs.test_snippets import run_page

MARKED = [page for page in PAGES if any(block.info == "python vulkan" for block in split(page)[1])]


@pytest.mark.parametrize("page", MARKED, ids=name_of)
def test_snippets(page, vulkan, tmp_path, monkeypatch):
    run_page(page, [b for b in split(page)[1] if b.info in ("python", "python vulkan")], tmp_path, monkeypatch)
