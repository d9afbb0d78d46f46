"""Options that are worth a measurement, and which of them were fastest for a program on this machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from veery_lowering.program import Options
from veery_lowering.store import links
from veery_lowering.store.cache import disk_cache
from veery_lowering.store.machine import processors

Pairs = tuple[tuple[str, Any], ...]

# None is good for all programs: tiling, for large products, is chosen by their sizes; without multi-use fusion the
# gradient of a sum over pairs of 300 points takes 0.65 of the time, and a softmax 1.3 times as long; split reductions
# take 0.67 for the sum of 3M elements; LLVM's own vectorisation 0.7 to 1.05. Others (microkernels, aggressive fusion,
# O2, reassociation) made the same programs, or none that was quicker. What makes wrong programs is not tried.
_CPU = (
    ("iree-dispatch-creation-data-tiling", "true"),
    ("iree-dispatch-creation-data-tiling", "false"),
    ("iree-dispatch-creation-fuse-multi-use", "false"),
    ("iree-dispatch-creation-enable-split-reduction", "true"),
    ("iree-llvmcpu-loop-vectorization", "true"),
)
_GPU = (
    ("iree-dispatch-creation-enable-split-reduction", "true"),
    ("iree-opt-level", "O2"),
)


def candidates(target: str) -> tuple[Pairs, ...]:
    """What to measure for a target, beside what is chosen for it."""
    return tuple((pair,) for pair in (_CPU if target.partition(":")[0] == "cpu" else _GPU))


def recall(closed_jaxpr: Any, target: str, options: Options) -> Pairs | None:
    """What was remembered; None if that is nothing."""
    key = _key(closed_jaxpr, target, options)
    found = disk_cache().get_link(key) if key else None
    return None if found is None else tuple((name, value) for name, value in json.loads(found["fastest"]))


def remember(closed_jaxpr: Any, target: str, options: Options, fastest: Pairs) -> None:
    """Keep what was found to be the fastest."""
    key = _key(closed_jaxpr, target, options)
    if key:
        disk_cache().put_link(key, {"fastest": json.dumps(fastest)})


def _key(closed_jaxpr: Any, target: str, options: Options) -> str | None:
    link = links.key(closed_jaxpr, target, (), options) if options.cache else None
    return link and hashlib.sha256(f"tuning {processors()} {candidates(target)} {link}".encode()).hexdigest()
