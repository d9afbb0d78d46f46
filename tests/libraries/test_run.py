"""The account of a library's tests."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("libraries_run", Path(__file__).parent / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(tmp_path, *names):
    cases = "".join(f'<testcase classname="lib.some_test.Case" name="{name}"/>' for name in names)
    path = tmp_path / "report.xml"
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_names_are_the_same_by_all_versions_of_pytest(runner, tmp_path):
    tests = [Path("lib")]
    older = runner.outcomes(report(tmp_path, "test_of_(0.5, [1, 2])_once", "test_x[float32]"), tests)
    newer = runner.outcomes(report(tmp_path, "test_of_(0.5, [1, 2])_once]", "test_x[float32]"), tests)
    assert older == newer
    assert len(older) == 2


@pytest.mark.parametrize("every, expected", [(1, 7), (3, 3)])
def test_a_share(runner, tmp_path, every, expected):
    file = tmp_path / "test_some.py"
    file.write_text("import pytest\n@pytest.mark.parametrize('i', range(7))\ndef test_it(i): pass\n")
    found = runner.run(sys.executable, [file], ["-p", "no:xdist"], as_jax=False, every=every)
    assert [outcome for outcome, _ in found.values()] == ["passed"] * expected


def test_jax_runs_what_fails_here_alone(runner, tmp_path, monkeypatch):
    """Also where it has other tests, of which a share is another one."""
    lines = (
        "import sys, pytest",
        "@pytest.mark.parametrize('i', range(1 + ('veery' in sys.modules)))",
        "def test_many(i): pass",
        "def test_passes(): pass",
        "def test_passed_over(): pass",
        "def test_differs(): assert 'veery' not in sys.modules",
        "def test_passed_over_too(): pass",
        "def test_fails(): assert False",
        "def test_left_out(): pass",
        "def test_skips(): pytest.skip()",
    )
    file, output = tmp_path / "test_some.py", tmp_path / "account.json"
    file.write_text("\n".join(lines))
    arguments = [f"--output={output}", "--failed-only", f"--jax-python={sys.executable}", "--every=2"]
    arguments += ["--", "-p", "no:xdist"]
    monkeypatch.setattr(sys, "argv", ["run.py", str(file), *arguments])
    runner.main()
    found = json.loads(output.read_text())
    assert (found["pass on JAX"], found["pass on veery"]) == (3, 2)
    assert [*found["differences"]] == ["test_some::test_differs"]
