"""What compiled code depends on beside the program: this machine's CPU, the versions of the compiler and of veery."""

from __future__ import annotations

import importlib.util
import os
import platform
from functools import cache
from pathlib import Path


@cache
def cpu_features() -> str:
    """What code for this machine's CPU may depend on: architecture and feature list, as one line of text."""
    features: list[str] = []
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                features = sorted(value.split())
                break
    except OSError:
        features = [platform.processor()]
    return " ".join([platform.system().lower(), platform.machine().lower(), *features])


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def compiler_state() -> str:
    """A text that differs between versions of IREE's compiler and of this package, read without loading either."""
    spec = importlib.util.find_spec("iree.compiler")
    roots = [Path(folder) / "version.py" for folder in (spec.submodule_search_locations if spec else None) or ()]
    files = [*roots, *sorted(Path(__file__).parents[1].rglob("*.py"))]
    states = [(path.name, path.stat()) for path in files if path.exists()]
    return " ".join(f"{name}:{state.st_size}:{state.st_mtime_ns}" for name, state in states)
