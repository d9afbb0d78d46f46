"""The fuzzer: `python -m fuzz --minutes 10 --seed 7 --target cpu`, or `--only 123` for one program of a seed."""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from fuzz.campaign import Campaign, environment
from fuzz.checks import Outcome
from fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long to go on; 10 unless a count is given")
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="today's date if not given")
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--only", type=int, help="one program of the seed")
    parser.add_argument("--target", choices=TARGETS, default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where findings are written")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds for making a finding small; 0: leave it")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int(datetime.date.today().strftime("%Y%m%d"))
    if options.only is not None:
        options.first, options.count, options.jobs = options.only, 1, 1
    minutes = options.minutes or (None if options.count else 10.0)
    campaign = Campaign(
        seed, options.target, options.out, options.first, options.count, minutes and minutes * 60, options.jobs
    )
    print(f"fuzzing {options.target} with seed {seed}; findings go to {options.out}", flush=True)
    for outcome in campaign.run():
        if outcome.is_finding:
            print(_line(outcome), flush=True)
    if options.shrink and not options.target.startswith(("stablehlo", "triples")):  # whose details name what fails
        _shrunk(campaign, options.shrink)
    print(campaign.summary())
    for cause, outcomes in _by_cause(campaign.findings).items():
        print(f"{len(outcomes)}x {cause}")
        for outcome in outcomes:
            command = f"python -m fuzz --seed {seed} --target {options.target} --only {outcome.number}"
            print(f"    {command}   # {outcome.program}")
    return 1 if campaign.findings else 0


def _line(outcome: Outcome) -> str:
    return f"{outcome.kind} {outcome.number}: {outcome.program}\n    " + outcome.detail.strip().replace("\n", "\n    ")


def _by_cause(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    groups = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.cause].append(outcome)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _shrunk(campaign: Campaign, seconds: float) -> None:
    """Make the first findings of each cause small, and write them as scripts."""
    for cause, outcomes in _by_cause(campaign.findings).items():
        for outcome in outcomes[:2]:
            command = [sys.executable, "-m", "fuzz.shrink", campaign.target, str(campaign.folder), str(seconds)]
            done = subprocess.run(
                command, input=json.dumps(outcome.as_dict()), capture_output=True, text=True, env=environment()
            )
            print(f"{cause}\n    {done.stdout.strip() or done.stderr.strip()[-500:]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
