"""Records what JAX does in the cases of this folder, on eight devices: recorded.json.

JAX_PLATFORMS=cpu PYTHONPATH=tests python tests/sharding/record.py [--check]
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
from sharding.cases import CASES, PROGRAMS
from support.recorded import record
from support.recording import arguments, keep


def main() -> None:
    keep(Path(__file__).with_name("recorded.json"), record(jax, {**CASES, **PROGRAMS}), arguments(__doc__))


if __name__ == "__main__":
    main()
