"""The code in the documents: each page is run from top to bottom, and answers what stands in it.

`python` blocks are run, those with `>>>` are compared with what they print; `console` blocks run the veery command.
`python model.py` is a file for them. Blocks marked `alone` run in a process of their own, those marked `vulkan` in
tests/vulkan/test_documents.py. Blocks of other languages are only shown.
"""

from __future__ import annotations

import doctest
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs.pages import PAGES, Block, name_of, split

from veery_lowering.emit import registry

_NUMBER = re.compile(r"[-+]?\d+\.\d*(?:e[-+]?\d+)?")
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_NOT_RUN_HERE = "python vulkan"


class Checker(doctest.OutputChecker):
    """Takes floats for equal that agree to five digits: processors differ in the last ones."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        wanted, found = _NUMBER.findall(want), _NUMBER.findall(got)
        alike = len(wanted) == len(found) and all(
            math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-6) for a, b in zip(wanted, found)
        )
        return alike and super().check_output(_without_numbers(want), _without_numbers(got), optionflags)


def _without_numbers(text: str) -> str:
    # numpy pads numbers of different lengths
    return re.sub(r"\s+", "", _NUMBER.sub("0.", text))


def run_page(page: Path, blocks: list[Block], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run blocks of a page in one namespace, in a folder of its own for the files that they write."""
    registry.rule_names()  # loads all rules; those that a page adds go with it
    monkeypatch.setattr(registry, "_rules", dict(registry._rules))
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=_OPTIONS)
    said: list[str] = []
    for block in blocks:
        if block.info.endswith(".py"):
            (folder / block.info.partition(" ")[2]).write_text(block.text)
        elif block.language == "console":
            said += _run_commands(page, block, folder)
        elif block.info == "python alone":
            said += _run_alone(block, folder)
        elif block.language == "python" and ">>>" in block.text:
            examples = doctest.DocTestParser().get_examples(block.text)
            test = doctest.DocTest(examples, names, page.stem, str(page), block.line, block.text)
            test.globs = names  # which it had copied
            runner.run(test, out=said.append, clear_globs=False)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
    assert not said, "".join(said)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120"}


def _run_alone(block: Block, folder: Path) -> list[str]:
    """Run examples in a process of their own; what is wrong with their output."""
    file = folder / "examples.txt"
    file.write_text(block.text)
    command = [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(), timeout=300)
    return [result.stdout + result.stderr] if result.returncode else []


def _run_commands(page: Path, block: Block, folder: Path) -> list[str]:
    """Run the lines of a block that begin with `$`; what is wrong with their output."""
    wrong = []
    for command, want in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        arguments = command.replace("veery", f"{sys.executable} -m veery", 1)
        result = subprocess.run(
            arguments, shell=True, capture_output=True, text=True, cwd=folder, env=_environment(), timeout=300
        )
        if not Checker().check_output(want, result.stdout, _OPTIONS):
            wrong.append(f"{name_of(page)}: $ {command}\nExpected:\n{want}Got:\n{result.stdout}{result.stderr}")
    return wrong


@pytest.mark.parametrize("page", [page for page in PAGES if split(page)[1]], ids=name_of)
def test_snippets(page, tmp_path, monkeypatch):
    run_page(page, [b for b in split(page)[1] if b.info != _NOT_RUN_HERE], tmp_path, monkeypatch)


def test_a_wrong_answer_is_noticed(tmp_path, monkeypatch):
    run = lambda text: run_page(tmp_path / "page.md", [Block("python", text, 0)], tmp_path, monkeypatch)
    run(">>> 1 / 3\n0.33333333\n")
    for text in (">>> 1 / 3\n0.33334\n", ">>> [1, 2]\n[1, 3]\n", ">>> 1 + 1\n"):
        with pytest.raises(AssertionError):
            run(text)
