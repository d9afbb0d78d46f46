"""The page of all stages: what is in it, and a click in a real browser where Chromium is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from cli.conftest import MODEL, run_process

import veery
import veery.numpy as jnp


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "model.py").write_text(MODEL)
    args = ("--args", "{w: f32[5,3], b: f32[3]}, f32[2,5]")
    result = run_process(folder, ("inspect", "model.py:loss", *args, "--html", "page.html"))
    assert result.returncode == 0, result.stderr
    return (folder / "page.html").read_text()


@pytest.fixture
def page(written, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(written)
    return path


def test_every_stage_knows_the_source(page):
    sections = page.read_text().split("<section>")[1:]
    titles = [re.search("<h2>(.*?)</h2>", s)[1] for s in sections]
    assert [t.split()[0].strip(",") for t in titles] == ["Python", "jaxpr", "graph", "StableHLO", "dispatches", "code"]
    for title, section in zip(titles, sections):
        assert re.search('data-p="[^"]*model.py:6', section), title  # the dot_general
    assert "veery_piece_0" in sections[2] and '<span class="k">stablehlo.dot_general</span>' in sections[3]
    assert "http" not in page.read_text().replace("http://www.w3.org/2000/svg", "")  # nothing is fetched


def test_the_page_of_a_function_in_a_notebook(tmp_path):
    shown = veery.visualize(lambda x: jnp.sin(x) * 2)(jnp.ones(3))
    assert "stablehlo.multiply" in shown.page and "test_page.py" in shown.page
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html') and "KiB" in repr(shown)
    shown.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == shown.page


def test_a_click_lights_up_every_stage(page, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("Chromium is not installed")
    click = "<script>document.querySelector('section div[data-p=\"model.py:6\"]').click()</script></html>"
    page.write_text(page.read_text().replace("</html>", click))
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    shown = subprocess.run([*common, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=100).stdout
    for section in shown.split("<section>")[1:]:
        lit = re.findall(r'data-p="([^"]*)"[^>]*class="on"', section)
        assert lit and all("model.py:6" in places.split() for places in lit)
    image = tmp_path / "page.png"
    options = [f"--screenshot={image}", "--window-size=2200,1000", page.as_uri()]
    subprocess.run([*common, *options], capture_output=True, timeout=100, check=True)
    assert image.read_bytes().startswith(b"\x89PNG") and image.stat().st_size > 20_000
