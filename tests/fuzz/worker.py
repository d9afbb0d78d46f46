"""A process that checks programs: it reads their numbers line by line and answers with outcomes.

Who starts it gives it a folder for its cache and temporary files (`campaign.Worker`).
"""

from __future__ import annotations

import json
import os
import sys


def main(seed: int, target_name: str) -> None:
    """Serve until there is nothing to read."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the compiler prints is no answer

    import veery as jax
    from fuzz.checks import check
    from fuzz.modules import check_module
    from fuzz.targets import target_named
    from fuzz.triples import check_triples

    target = target_named(target_name)
    judge = {"stablehlo": check_module, "triples": check_triples}.get(target_name.partition("-")[0], check)
    done = 0
    for line in sys.stdin:
        outcome = judge(seed, int(line), target)
        answers.write(json.dumps(outcome.as_dict()) + "\n")
        done += 1
        if done % 100 == 0:
            jax.clear_caches()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
