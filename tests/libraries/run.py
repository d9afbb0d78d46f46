"""A library's own tests with veery in JAX's place, compared with JAX.

python tests/libraries/run.py TESTS [options] [-- arguments of pytest]

TESTS is the folder, or the files, with the tests of a library: of a checkout, or of an installed package that has them.
The interpreter needs veery, the library and pytest, but neither jax nor jaxlib; that of --jax-python has JAX 0.10.2 and
the same library. Tests that pass on JAX count; the account says how many of them pass on veery, and why others do not.
It is kept as JSON by --output, and --table makes the table of the documents of such files. Nothing is fetched. With
--failed-only JAX runs what fails on veery, which takes half the time: what passes on veery alone then counts, what is
skipped there does not.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

Outcomes = dict[str, tuple[str, str]]


def outcomes(report: Path, tests: list[Path]) -> Outcomes:
    """By test, named from the folder of the tests on: "passed", "failed" or "skipped", and the error's first line."""
    found: Outcomes = {}
    if not report.exists():
        return found
    for case in ET.parse(report).iter("testcase"):
        name = f"{_within(str(case.get('classname')), tests)}::{case.get('name')}"
        # of names with a bracket in them pytest 9.2 writes one bracket more than 9.1
        name = re.sub(r"[][]", " ", name).strip()
        bad = [part for part in case if part.tag in ("failure", "error")]
        if bad:
            found[name] = "failed", _reason(bad[0].get("message") or bad[0].text or "")
        elif name not in found:
            found[name] = ("skipped" if case.find("skipped") is not None else "passed"), ""
    return found


def _within(classname: str, tests: list[Path]) -> str:
    parts = classname.split(".")
    places = [parts.index(path.stem) for path in tests if path.stem in parts]
    return ".".join(parts[min(places, default=0) :])


def _reason(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"


def run(
    python: str, tests: list[Path], extra: list[str], *, as_jax: bool, every: int = 1, memory: str = ""
) -> Outcomes:
    """The outcomes of the tests, or of every n-th of them, by an interpreter.

    Args:
        python: the interpreter.
        tests: files or folders.
        extra: arguments of pytest.
        as_jax: with veery in JAX's place.
        every: n.
        memory: a folder in which pytest keeps which tests failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            *(["-o", f"cache_dir={memory}"] if memory else ["-p", "no:cacheprovider"]),
            "--continue-on-collection-errors",
            f"--junitxml={report}",
            "-p",
            "share",
            f"--every={every}",
        ]
        command += ["-p", "veery.as_jax"] * as_jax + [*map(str, tests), *extra]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
        subprocess.run(command, env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}, stdout=sys.stderr)
        return outcomes(report, tests)


def account(name: str, ours: Outcomes, theirs: Outcomes) -> dict[str, object]:
    """How many tests pass on JAX, how many of these on veery, and the reasons of the others."""
    counted = [test for test, (outcome, _) in theirs.items() if outcome == "passed"]
    failed = {test: ours.get(test, ("missing", "not collected")) for test in counted}
    failed = {test: outcome for test, outcome in failed.items() if outcome[0] != "passed"}
    return {
        "library": name,
        "pass on JAX": len(counted),
        "pass on veery": len(counted) - len(failed),
        "differences": {test: f"{outcome}: {reason}" for test, (outcome, reason) in sorted(failed.items())},
    }


def show(found: dict) -> None:
    print(row(found))
    reasons = collections.Counter(re.sub(r"0x[0-9a-f]+|\d+", "N", why) for why in found["differences"].values())
    for why, count in reasons.most_common():
        print(f"  {count:5} {why}")


def row(found: dict) -> str:
    counted, passed = found["pass on JAX"], found["pass on veery"]
    return f"| {found['library']} | {counted} | {passed} | {100 * passed / max(counted, 1):.1f}% |"


def table(files: list[Path]) -> str:
    rows = [row(json.loads(file.read_text())) for file in files]
    return "\n".join(["| library | pass on JAX | of these on veery | |", "|---|---|---|---|", *rows])


def main() -> None:
    argv, extra = sys.argv[1:], []
    if "--" in argv:
        argv, extra = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", type=Path)
    parser.add_argument("--name", help="of the library and its version")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with veery and the library")
    parser.add_argument("--jax-python", help="one with JAX and the library")
    parser.add_argument("--jax-outcomes", type=Path, help="keep what JAX gives in this file, and use it if it is there")
    parser.add_argument("--failed-only", action="store_true", help="run on JAX what fails here; the rest passes there")
    parser.add_argument("--every", type=int, default=1, help="run every n-th test; how many is said with the name")
    parser.add_argument("--output", type=Path, help="write the account to this file")
    parser.add_argument("--table", nargs="+", type=Path, help="accounts, of which to make a table")
    options = parser.parse_args(argv)
    if options.table:
        return print(table(options.table))

    kept = options.jax_outcomes
    if options.failed_only:
        with tempfile.TemporaryDirectory() as memory:
            both = functools.partial(run, tests=options.tests, every=options.every, memory=memory)
            ours = both(options.python, extra=extra, as_jax=True)
            if not ours:
                parser.error("the tests gave no report with veery: its process ended before them")
            failed = [*extra, "--last-failed", "--last-failed-no-failures=none"]
            theirs = ours | both(options.jax_python, extra=failed, as_jax=False)
        return report(options, ours, theirs)
    if kept is not None and kept.exists():
        theirs = {test: tuple(outcome) for test, outcome in json.loads(kept.read_text()).items()}
    elif options.jax_python:
        theirs = run(options.jax_python, options.tests, extra, as_jax=False, every=options.every)
        if kept is not None:
            kept.write_text(json.dumps(theirs, indent=1))
    else:
        parser.error("--jax-python or the file of --jax-outcomes is needed: tests that pass on JAX count")
    report(options, run(options.python, options.tests, extra, as_jax=True, every=options.every), theirs)


def report(options: argparse.Namespace, ours: Outcomes, theirs: Outcomes) -> None:
    found = account(options.name or options.tests[0].name, ours, theirs)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1))
    show(found)


if __name__ == "__main__":
    main()
